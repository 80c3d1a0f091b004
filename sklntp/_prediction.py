"""Predictions for sentences, piece by piece: memory follows the piece, not the sentences.

Where W_ov is sparse, the logits of a context differ from base = sum_x phi_x base_x only at the
classes that its tokens have entries for. The largest logit and the sum of exp(z) then need only
these entries S = sum_x phi_x excess_x and the number of the other classes, all at S = 0; base
itself is the same for all classes and cancels in probabilities.
"""

import math
from functools import cached_property

import numpy as np

from sklntp._coding import find_sorted
from sklntp._contexts import merge_contexts, sentence_pieces
from sklntp._forward import context_attention

_PIECE = 1 << 20  # tokens of the sentences that are merged at a time
_BLOCK = 1 << 21  # entries of the logits that are held at a time
_SPARSE_COST = 32  # of a term of a sparse product, in terms of a dense one; measured: 20 to 50


class Predictor:
    """Both matrices, ready for sentences.

    Parameters
    ----------
    output_weights : OutputWeights
    attention_weights : AttentionWeights
    """

    def __init__(self, output_weights, attention_weights):
        self.n_classes = output_weights.n_classes
        self.n_tokens = len(output_weights.base)
        self.attention_weights = attention_weights
        # The last row: unknown tokens vote for nothing.
        self.base = np.append(output_weights.base, 0.0)  # (V + 1,)
        self.excess = output_weights.excess(self.n_tokens + 1)  # (V + 1, C)
        self.n_entries = np.diff(self.excess.indptr)  # (V + 1,)

    @cached_property
    def table(self):
        """The excess as an array where that is small, or not larger than the sparse one."""
        size = (self.n_tokens + 1) * self.n_classes
        return self.excess.toarray() if size <= max(2 * _BLOCK, 2 * self.excess.nnz) else None

    def predict(self, codes, offsets):
        """Class code of the largest logit for each sentence; the first one of a tie."""
        predicted = np.empty(len(offsets) - 1, dtype=np.intp)
        for sentences, contexts in _pieces(codes, offsets, self.n_tokens):
            predicted[sentences] = self.predict_contexts(contexts)[contexts.inverse]
        return predicted

    def predict_contexts(self, contexts):
        """Class code of the largest logit for each context; the first one of a tie."""
        predicted = np.empty(len(contexts), dtype=np.intp)
        for rows, excess, base in self._blocks(contexts):
            if isinstance(excess, np.ndarray):
                excess += base[:, None]
                predicted[rows] = np.argmax(excess, axis=1)
            else:
                predicted[rows] = _argmax(excess, base)
        return predicted

    def label_log_proba(self, codes, offsets, labels):
        """Log-probability of one class per sentence; -inf for the class code C."""
        log_p = np.empty(len(offsets) - 1)
        for sentences, contexts in _pieces(codes, offsets, self.n_tokens):
            key = contexts.inverse.astype(np.int64) * (self.n_classes + 1) + labels[sentences]
            key, inverse = np.unique(key, return_inverse=True)
            context, label = np.divmod(key, self.n_classes + 1)
            found = self._contexts_log_proba(contexts, context, label)
            found[label == self.n_classes] = -np.inf
            log_p[sentences] = found[inverse.ravel()]
        return log_p

    def mean_loss(self, contexts, labels):
        """Weighted mean of -log p over the next tokens of contexts."""
        log_p = self._contexts_log_proba(contexts, labels.context, labels.classes)
        return float(-np.average(log_p, weights=labels.weight))

    def _contexts_log_proba(self, contexts, context, label):
        """Log-probability of classes in contexts; `context` does not decrease."""
        found = np.empty(len(context))
        for rows, excess, _ in self._blocks(contexts):
            chosen = slice(*np.searchsorted(context, [rows.start, rows.stop]))
            found[chosen] = _log_proba(excess, context[chosen] - rows.start, label[chosen])
        return found

    def dense(self, codes, offsets, transform, out):
        """Fill `out`, one row per sentence, with ``transform(logits)`` and return it.

        `transform` may change the logits, an array of shape (n, C), in place.
        """
        n_rows = max(1, _BLOCK // self.n_classes)
        for sentences, contexts in _pieces(codes, offsets, self.n_tokens, n_rows):
            phi = context_attention(contexts, self.attention_weights)
            logits = self._dense_product(phi)
            logits += (phi @ self.base)[:, None]
            out[sentences] = transform(logits)[contexts.inverse]
        return out

    def _blocks(self, contexts):
        """Yield (rows, S, base): consecutive contexts, S dense or sparse, whichever is faster."""
        phi = context_attention(contexts, self.attention_weights)
        base = phi @ self.base
        n_products = np.add.reduceat(self.n_entries[contexts.tokens], contexts.offsets[:-1])
        dense = _SPARSE_COST * n_products.sum() > phi.nnz * self.n_classes
        size = np.full(len(contexts), self.n_classes) if dense else n_products
        block = np.cumsum(size) // _BLOCK
        starts = np.flatnonzero(np.diff(block, prepend=-1))
        for start, stop in zip(starts, [*starts[1:], len(contexts)], strict=True):
            rows = slice(int(start), int(stop))
            part = phi[rows]
            yield rows, self._dense_product(part) if dense else part @ self.excess, base[rows]

    def _dense_product(self, phi):
        if self.table is not None:
            return phi @ self.table
        return (phi @ self.excess).toarray()


def log_softmax(logits):
    """Logarithm of the softmax of each row, in place."""
    shifted, rest = _relative(logits)
    shifted -= np.log1p(rest)[:, None]
    return shifted


def softmax(logits):
    """Softmax of each row, in place."""
    p = np.exp(log_softmax(logits), out=logits)
    p /= p.sum(axis=1, keepdims=True)
    return p


def _relative(logits):
    """Logits minus the largest of their row, in place, and the sum of exp of all but that one.

    log p is then the first minus log1p of the second: accurate to the last bits near p = 1 too.
    """
    rows, winner = np.arange(len(logits)), np.argmax(logits, axis=1)
    logits -= logits[rows, winner][:, None]
    weight = np.exp(logits)
    weight[rows, winner] = 0.0
    return logits, weight.sum(axis=1)


def _log_proba(excess, context, label):
    """Log-probability of classes in the contexts of one block, the excess dense or sparse."""
    if isinstance(excess, np.ndarray):
        shifted, rest = _relative(excess)
        label = np.minimum(label, excess.shape[1] - 1)
        return shifted[context, label] - np.log1p(rest)[context]
    n, n_classes = excess.shape
    excess.sort_indices()
    n_entries = np.diff(excess.indptr)
    row, n_other = np.repeat(np.arange(n), n_entries), n_classes - n_entries
    top = _row_max(excess.data, excess.indptr, np.where(n_other > 0, 0.0, -np.inf))
    weight = np.exp(excess.data - top[row])
    # The winner, to be left out: a class without an entry, or the first entry that is largest.
    other_wins = (top == 0.0) & (n_other > 0)
    at = np.flatnonzero((excess.data == top[row]) & ~other_wins[row])
    weight[at[np.diff(row[at], prepend=-1) > 0]] = 0.0
    rest = np.bincount(row, weights=weight, minlength=n) + (n_other - other_wins) * np.exp(-top)
    key = row * n_classes + excess.indices
    at, hit = find_sorted(key, context * n_classes + label)
    value = np.zeros(len(label))
    value[hit] = excess.data[at[hit]]
    return (value - top[context]) - np.log1p(rest)[context]


def _argmax(excess, base):
    """The first class with the largest logit, from a sparse excess."""
    n, n_classes = excess.shape
    n_entries = np.diff(excess.indptr)
    row = np.repeat(np.arange(n), n_entries)
    # With base added, as in the dense logits, so that rounding makes the same ties.
    logits = excess.data + base[row]
    top = _row_max(logits, excess.indptr, np.where(n_entries < n_classes, base, -np.inf))
    best = np.full(n, n_classes)
    wins = np.flatnonzero(logits == top[row])
    wins_row, first = np.unique(row[wins], return_index=True)
    if len(wins):
        best[wins_row] = np.minimum.reduceat(excess.indices[wins], first)
    # The first class without an entry, where these classes reach the top as well.
    some = np.flatnonzero((top == base) & (n_entries < n_classes))
    excess = excess[some]
    excess.sort_indices()
    n_entries = np.diff(excess.indptr)
    place = np.arange(excess.nnz) - np.repeat(excess.indptr[:-1], n_entries)
    gap = np.where(excess.indices > place, place, n_classes)
    best[some] = np.minimum(best[some], -_row_max(-gap, excess.indptr, -n_entries))
    return best


def _row_max(values, offsets, initial):
    """The largest of `initial` and the values of each row, in place; rows may be empty."""
    filled = np.flatnonzero(np.diff(offsets))
    if len(filled):
        top = np.maximum.reduceat(values, offsets[filled])
        initial[filled] = np.maximum(initial[filled], top)
    return initial


def _pieces(codes, offsets, n_tokens, n_rows=math.inf):
    """Yield (slice of sentences, their merged contexts)."""
    for rows in sentence_pieces(offsets, _PIECE, n_rows):
        own = offsets[rows.start : rows.stop + 1]
        part = codes[own[0] : own[-1]]
        yield rows, merge_contexts(part, own - own[0], n_tokens)
