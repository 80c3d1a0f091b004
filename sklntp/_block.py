"""What a block of contexts reads its scores from, and the memory it works in."""

import numpy as np
from scipy.sparse import csc_array

from sklntp._coding import unique_keys

_ONE = np.ones(1)


class Entries:
    """The distinct (pair, count) of a block: all that a raised score s + log c depends on.

    Logarithms and exponentials are taken of entries, of which there are fewer than tokens in
    contexts. The pairs from `where`, each once in its context, come first, then what has no
    parameter and scores 0, then the pairs that occur several times in a context.

    Parameters
    ----------
    pair : ndarray of int
        The pair of each token of the block's contexts, `n_pairs` where there is none.
    counts : ndarray of int
        How often the token occurs.
    n_pairs : int

    Attributes
    ----------
    where : slice or ndarray of int
        The parameters that the block reads.
    index : ndarray of intp
        The entry of each token.
    repeated : ndarray of intp
        The pair, as an index of what `where` selects, of each of the last entries.
    """

    def __init__(self, pair, counts, n_pairs):
        used = unique_keys(pair)
        used = used[used < n_pairs]
        start, stop = (used[0], used[-1] + 1) if len(used) else (0, 0)
        if stop - start <= 2 * len(used):  # nearly all: a slice is read many times faster
            self.where, n, local = slice(int(start), int(stop)), stop - start, pair - start
        else:
            self.where, n, local = used, len(used), np.searchsorted(used, pair)
        self.n_pairs = int(n)
        local[pair == n_pairs] = n
        several = np.flatnonzero(counts > 1)
        base = int(counts.max(initial=0)) + 1
        key = local[several] * base + counts[several]
        keys = unique_keys(key)
        self.repeated, count = np.divmod(keys, base)
        self._count, self._log_count = count.astype(float), np.log(count)
        self._several, self._which = np.unique(self.repeated, return_inverse=True)
        local[several] = n + 1 + np.searchsorted(keys, key)
        self.index = local.astype(np.intp)
        n_entries = self.n_pairs + 1 + len(keys)
        self._table = np.empty(n_entries)
        # 32 bits are enough for a block, and half the memory to read.
        indices, indptr = local.astype(np.int32), np.array([0, len(local)], dtype=np.int32)
        self._sum = csc_array((np.empty(len(local)), indices, indptr), shape=(n_entries, 1))

    def raised(self, theta):
        """s + log c of every entry; overwritten by the next call."""
        table, start = self._table, self.n_pairs + 1
        table[: self.n_pairs] = theta
        table[self.n_pairs] = 0.0
        np.add(table[self.repeated], self._log_count, out=table[start:])
        return table

    def mass(self, theta):
        """c exp(s) of every entry; overwritten by the next call."""
        table, start = self._table, self.n_pairs + 1
        np.exp(theta, out=table[: self.n_pairs])
        table[self.n_pairs] = 1.0
        table.take(self.repeated, out=table[start:], mode="wrap")
        table[start:] *= self._count
        return table

    def sum(self, values, factor=None):
        """The sum of the values of each pair's tokens, (n_pairs,), times a factor by entry."""
        self._sum.data = values
        total = self._sum @ _ONE
        if factor is not None:
            total *= factor
        if len(self._several):
            extra = total[self.n_pairs + 1 :]
            total[self._several] += np.bincount(self._which, extra, len(self._several))
        return total[: self.n_pairs]


def take(table, index, out=None):
    """The values of some entries."""
    # All indices are valid; "wrap" spares take a second buffer.
    return table.take(index, out=out, mode="wrap")


def positions(contexts, rows):
    """Where the tokens of contexts of one length stand in the flat arrays, (l, n)."""
    start = contexts.offsets[rows]
    return start + np.arange(contexts.offsets[rows[0] + 1] - start[0])[:, None]


class Scratch:
    """Memory that one thread needs for the largest of some blocks."""

    def __init__(self, blocks):
        self._tokens = np.empty((2, max((block.n_tokens for block in blocks), default=0)))
        self._contexts = np.empty((8, max((block.n for block in blocks), default=0)))

    def tokens(self, n):
        """Two arrays of shape (n,)."""
        return self._tokens[:, :n]

    def contexts(self, n):
        """Eight arrays of shape (n,)."""
        return self._contexts[:, :n]
