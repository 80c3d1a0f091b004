"""What the tokens of some contexts vote for outside the labels: the part of a step that costs.

With phi the attention (l, n) and logits z = W_ov phi over the classes outside the labels, the two
kinds of votes return total = sum_v exp(z_v - top) and g_x = sum_v W_ov[v, x] exp(z_v - top).
"""

import math
import threading
from typing import NamedTuple

import numpy as np

from sklntp._products import add_csc_product, add_csr_product
from sklntp._sequences import flat_ranges

_TILE = 48  # contexts whose logits are computed together: few, so that they stay in the cache
_LOGITS = 1 << 20  # entries of the logits of a tile
_COLUMNS = 1 << 19  # entries of W_ov that are gathered together
_SMALL = 9000  # entries of a matrix whose product with a vector a BLAS leaves to one thread
_SORTED_BY = 6  # tokens of a context that decide in which tile it comes


def neighbours(tokens, size):
    """An order of contexts, tokens (l, n), in which those that share tokens of large size meet."""
    rank = np.empty(len(size), dtype=np.intp)
    rank[np.argsort(-size, kind="stable")] = np.arange(len(size))
    return np.lexsort(np.sort(rank[tokens], axis=0)[:_SORTED_BY][::-1])


class Buffers(threading.local):
    """Arrays that each thread reuses; large allocations in several threads wait for each other."""

    def __init__(self):
        self.arrays = {}

    def get(self, name, *shape):
        """An array whose content is arbitrary."""
        size = math.prod(shape)
        array = self.arrays.get(name)
        if array is None or len(array) < size:
            array = self.arrays[name] = np.empty(size)
        return array[:size].reshape(shape)


def _exponentials(logits, axis, n_other, large):
    """exp(logits - top) in place; returns top, which is 0 without `large` logits.

    `n_other` logits of 0 count beside these.
    """
    top = 0.0
    if large:
        top = logits.max(axis=axis)
        if n_other:
            top = np.maximum(top, 0.0)
        top = np.where(top > -np.inf, top, 0.0)
        logits -= np.expand_dims(top, axis)
    np.exp(logits, out=logits)
    return top


class _Tile(NamedTuple):
    """Some contexts, and W_ov on their tokens and the classes that these can vote for."""

    rows: slice  # its contexts among those of the block
    at: np.ndarray  # (l, n) where they stand in an array (tokens, n)
    label_at: np.ndarray  # (n_labels,) where their labels stand in an array (classes, n)
    indptr: np.ndarray  # W_ov.T in the csr format, (tokens, classes)
    indices: np.ndarray
    data: np.ndarray
    n_classes: int

    @property
    def n_tokens(self):
        return len(self.indptr) - 1


class SparseVotes:
    """Tokens that vote for few classes: the cost follows the support of W_ov, not C.

    Contexts that share their most voluble tokens come in one tile. Products with the columns of
    its other tokens are mostly with zeros of phi, but these columns are short.
    """

    def __init__(self, tokens, label, label_row, output, buffers):
        self.buffers = buffers
        n = tokens.shape[1]
        self.label, self.label_row = label, label_row
        self.tiles, columns = [], output.first[tokens]
        for start in range(0, n, _TILE):
            self._add(output, columns, slice(start, min(start + _TILE, n)))
        most = max(tile.n_classes for tile in self.tiles)
        self.every_class, self.ones = np.arange(most, dtype=np.int32), np.ones(most)

    def _add(self, output, tokens, rows):
        """Append the tile of some rows, or of halves of them whose logits take less memory."""
        excess, n = output.excess, rows.stop - rows.start
        columns, local = np.unique(tokens[:, rows], return_inverse=True)
        starts = excess.indptr[columns]
        sizes = excess.indptr[columns + 1] - starts
        entries = flat_ranges(starts, sizes)
        labels = slice(*np.searchsorted(self.label_row, [rows.start, rows.stop]))
        label_row, tile_label = self.label_row[labels] - rows.start, self.label[labels]
        used = np.zeros(excess.shape[1], dtype=bool)
        used[excess.indices[entries]] = used[tile_label] = True
        number = np.cumsum(used) - 1
        n_used = int(used.sum())
        if n_used * n > _LOGITS and n > 1:
            middle = rows.start + n // 2
            self._add(output, tokens, slice(rows.start, middle))
            self._add(output, tokens, slice(middle, rows.stop))
            return
        self.tiles.append(
            _Tile(
                rows,
                local.reshape(-1, n) * n + np.arange(n),
                number[tile_label] * n + label_row,
                np.append(0, np.cumsum(sizes)).astype(np.int32),
                number[excess.indices[entries]].astype(np.int32),
                excess.data[entries],
                n_used,
            )
        )

    def outside(self, phi, output):
        """Total (n,), top (n,), g (l, n), and None: nobody needs the exponentials."""
        total, top, g = np.empty(phi.shape[1]), np.empty(phi.shape[1]), np.empty(phi.shape)
        for tile in self.tiles:
            n, shape = tile.at.shape[1], (tile.n_classes, tile.n_tokens)
            # bincount: a context may have two tokens with equal columns, which are one here.
            tile_phi = np.bincount(
                tile.at.ravel(), phi[:, tile.rows].ravel(), minlength=shape[1] * n
            )
            logits = self.buffers.get("logits", shape[0] * n)
            logits.fill(0.0)
            add_csc_product(shape, tile.indptr, tile.indices, tile.data, tile_phi, logits)
            logits[tile.label_at] = -np.inf
            n_other = output.excess.shape[1] - shape[0]
            tile_top = _exponentials(logits.reshape(-1, n), 0, n_other, output.large)
            # The sum over the classes; that of NumPy takes twice as long for so few columns.
            tile_total, ends = np.zeros(n), np.array([0, shape[0]], dtype=np.int32)
            columns = self.every_class[: shape[0]], self.ones[: shape[0]]
            add_csr_product((1, shape[0]), ends, *columns, logits, tile_total)
            total[tile.rows] = tile_total + n_other * np.exp(-tile_top)
            top[tile.rows] = tile_top
            tile_g = tile_phi
            tile_g.fill(0.0)
            add_csr_product(shape[::-1], tile.indptr, tile.indices, tile.data, logits, tile_g)
            g[:, tile.rows] = tile_g[tile.at]
        return total, top, g, None


class DenseVotes:
    """Tokens that vote for many classes, or W_ov as it is being trained: a dense W_ov.T."""

    def __init__(self, tokens, label, label_row, n_classes, buffers):
        self.tokens, self.buffers = tokens.T, buffers  # (n, l)
        self.label, self.label_row = label, label_row
        n, length = self.tokens.shape
        self.shape = (n, n_classes)
        step = max(1, _COLUMNS // (length * n_classes))
        starts = np.append(np.arange(0, n, step), n)
        bounds = np.searchsorted(self.label_row, starts)
        self.chunks = [
            (slice(*rows), slice(*labels))
            for rows, labels in zip(
                zip(starts[:-1], starts[1:], strict=True),
                zip(bounds[:-1], bounds[1:], strict=True),
                strict=True,
            )
        ]
        step = max(1, _SMALL // length)
        self.pieces = [slice(i, min(i + step, n_classes)) for i in range(0, n_classes, step)]

    def outside(self, phi, output):
        """Total (n,), top (n,), g (l, n), and exp(logits - top) (n, C), 0 at the labels."""
        n, n_classes = self.shape
        weights = np.ascontiguousarray(phi.T)[:, None, :]
        logits = self.buffers.get("logits", n, 1, n_classes)
        total, top, g = np.empty(n), np.empty(n), np.zeros((*self.tokens.shape, 1))
        for rows, labels in self.chunks:
            tokens, chunk = self.tokens[rows], logits[rows]
            columns = self.buffers.get("columns", *tokens.shape, n_classes)
            np.take(output.table, tokens, axis=0, out=columns, mode="clip")
            for piece in self.pieces:
                np.matmul(weights[rows], columns[:, :, piece], out=chunk[:, :, piece])
            chunk[self.label_row[labels] - rows.start, 0, self.label[labels]] = -np.inf
            top[rows] = _exponentials(chunk[:, 0], 1, 0, output.large)
            total[rows] = chunk[:, 0].sum(axis=1)
            for piece in self.pieces:
                g[rows] += np.matmul(columns[:, :, piece], chunk[:, 0, piece, None])
        return total, top, self._equalized(g[:, :, 0], output).T, logits[:, 0]

    def add_outside(self, factor, exponentials, total):
        """Add the sum over contexts of factor_x (l, n) times `exponentials` to the rows x."""
        n, length = self.tokens.shape
        add_csc_product(
            (len(total), n),
            np.arange(0, (n + 1) * length, length, dtype=np.int32),
            self.tokens.astype(np.int32).ravel(),
            factor.T.ravel(),
            exponentials,
            total,
        )

    def _equalized(self, g, output):
        """One g for columns that are equal to the bit: their products may differ in the last."""
        if output.distinct:
            return g
        key = np.arange(len(g))[:, None] * len(output.first) + output.first[self.tokens]
        _, index, inverse = np.unique(key, return_index=True, return_inverse=True)
        return g.ravel()[index][inverse.reshape(g.shape)]
