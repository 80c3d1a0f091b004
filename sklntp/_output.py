"""W_ov as the general blocks read it: sparse as the excess over a base value, or dense."""

import numpy as np

from sklntp._coding import find_sorted

_SAFE_EXPONENT = 300.0  # sums of exp of this, times W_ov, stay in the range of float64


class SparseOutput:
    """W_ov.T minus the base value of each token, csr of shape (V + 1, C).

    Attributes
    ----------
    first : ndarray of shape (V + 1,)
        For each row the first that equals it.
    large : bool
        Whether exponentials of the entries may leave the range of float64.
    deficit : ndarray of shape (V + 1,)
        How far the entries of each row go below zero.
    """

    def __init__(self, excess):
        self.excess = excess = excess.copy()
        excess.eliminate_zeros()
        excess.sort_indices()
        rows = list(zip(excess.indptr[:-1], excess.indptr[1:], strict=True))
        self.first = _first_equal(
            excess.indices[i:j].tobytes() + excess.data[i:j].tobytes() for i, j in rows
        )
        self.large = np.abs(excess.data).max(initial=0.0) > _SAFE_EXPONENT
        self.deficit = np.zeros(len(rows))
        row = np.repeat(np.arange(len(rows), dtype=np.int64), np.diff(excess.indptr))
        np.maximum.at(self.deficit, row, -excess.data)
        self.key = row * excess.shape[1] + excess.indices

    def votes(self, tokens, classes):
        """Entries of W_ov.T, elementwise."""
        at, hit = find_sorted(self.key, tokens * self.excess.shape[1] + classes)
        votes = np.zeros(hit.shape)
        votes[hit] = self.excess.data[at[hit]]
        return votes

    def columns(self, tokens, label):
        """W_ov.T on the rows `tokens`, dense, over the classes that have a vote or are a label.

        Returns it, of shape (*tokens.shape, n_used), the labels as indices of these classes, and
        the number of the others, whose votes are zero.
        """
        rows, local = np.unique(tokens, return_inverse=True)
        part = self.excess[rows]
        used = np.union1d(part.indices, label)
        table = np.zeros((len(rows), len(used)))
        row = np.repeat(np.arange(len(rows)), np.diff(part.indptr))
        table[row, np.searchsorted(used, part.indices)] = part.data
        table = table[local.reshape(tokens.shape)]
        return table, np.searchsorted(used, label), self.excess.shape[1] - len(used)


class DenseOutput:
    """W_ov.T as an array of shape (V + 1, C); the last row, of unknown tokens, is zero.

    The attributes are those of `SparseOutput`, and `distinct`: no two rows are equal.
    """

    def __init__(self, table):
        self.table = table
        lowest = table.min(axis=1)
        self.large = max(table.max(), -lowest.min()) > _SAFE_EXPONENT
        self.deficit = np.maximum(-lowest, 0.0)
        # A sum of all bits tells most rows apart; those it does not are compared.
        bits = table.view(np.uint64)
        key = bits @ (2 * np.arange(bits.shape[1], dtype=np.uint64) + 1)
        _, inverse, count = np.unique(key, return_inverse=True, return_counts=True)
        alike = np.flatnonzero(count[inverse] > 1)
        self.first = np.arange(len(table))
        if len(alike):
            self.first[alike] = alike[_first_equal(table[i].tobytes() for i in alike)]
        self.distinct = bool((self.first == np.arange(len(table))).all())

    def votes(self, tokens, classes):
        """Entries of W_ov.T, elementwise."""
        return self.table[tokens, classes]

    def columns(self, tokens, label):
        """As for SparseOutput, over all classes."""
        return self.table[tokens], label, 0


def _first_equal(rows):
    """For each row, as bytes, the number of the first that equals it."""
    first = {}
    return np.array([first.setdefault(row, i) for i, row in enumerate(rows)], dtype=np.intp)
