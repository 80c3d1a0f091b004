"""Contexts: the only thing the model sees of a sentence is its query and its bag of tokens.

Equal contexts are merged into one with the sum of the weights and the shares of the next tokens.
All arrays are sorted, first by the number of distinct tokens, then by query, tokens and counts, so
that the order of the sentences leaves no trace, and contexts of equal length are contiguous.
"""

import math
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from sklntp._coding import starts_run
from sklntp._sequences import flat_ranges

_PIECE = 1 << 18  # tokens of sentences that are sorted or copied at a time, in the cache


@dataclass(frozen=True)
class Contexts:
    """Merged contexts in a flat layout; token code V stands for every unknown token.

    Context c has the distinct tokens ``tokens[offsets[c]:offsets[c + 1]]``, increasing, with
    ``counts`` beside them, and the query ``query[c]``.
    """

    offsets: np.ndarray  # (n_contexts + 1,) intp
    tokens: np.ndarray  # (n_nonzeros,) intp
    counts: np.ndarray  # (n_nonzeros,) intp, how often the token occurs
    query: np.ndarray  # (n_contexts,) intp
    inverse: np.ndarray  # (n_sentences,) intp, the context of each sentence
    n_tokens: int  # V

    def __len__(self):
        return len(self.query)

    @property
    def lengths(self):
        """Number of distinct tokens of each context, (n_contexts,), not decreasing."""
        return np.diff(self.offsets)

    def select(self, rows):
        """Some of the contexts, in the same order and without sentences."""
        lengths = self.lengths[rows]
        at = flat_ranges(self.offsets[rows], lengths)
        offsets = np.append(0, np.cumsum(lengths))
        none = np.empty(0, dtype=np.intp)
        return replace(
            self,
            offsets=offsets,
            tokens=self.tokens[at],
            counts=self.counts[at],
            query=self.query[rows],
            inverse=none,
        )

    def blocks(self):
        """Yield (length, rows, positions): slices of the contexts with `length` distinct tokens."""
        lengths = self.lengths
        values, starts = np.unique(lengths, return_index=True)
        stops = [*starts[1:], len(lengths)]
        for length, start, stop in zip(values, starts, stops, strict=True):
            yield (
                int(length),
                slice(int(start), int(stop)),
                slice(int(self.offsets[start]), int(self.offsets[stop])),
            )


@dataclass(frozen=True)
class Labels:
    """The next tokens of each context, by share of its weight."""

    offsets: np.ndarray  # (n_contexts + 1,) intp
    classes: np.ndarray  # (n_labels,) intp, increasing within a context
    weight: np.ndarray  # (n_labels,) sample weight of (context, class)
    share: np.ndarray  # (n_labels,) weight as a share of its context's
    context_weight: np.ndarray  # (n_contexts,) sample weight of the context
    probability: np.ndarray  # (n_contexts,) pi_n: context_weight / total

    @property
    def context(self):
        """The context of each label, (n_labels,)."""
        return np.repeat(np.arange(len(self.offsets) - 1), np.diff(self.offsets))

    def select(self, rows):
        """The labels of some contexts."""
        sizes = np.diff(self.offsets)[rows]
        at = flat_ranges(self.offsets[rows], sizes)
        weight = self.context_weight[rows]
        return Labels(
            np.append(0, np.cumsum(sizes)),
            self.classes[at],
            self.weight[at],
            self.share[at],
            weight,
            weight / weight.sum(),
        )


def merge_contexts(codes, offsets, n_tokens):
    """Sentences as codes -> merged contexts.

    Parameters
    ----------
    codes : ndarray of int
        Token codes of all sentences, 0 to `n_tokens`; `n_tokens` stands for an unknown token.
        Unknown tokens are one entry: they all score 0 and vote for nothing.
    offsets : ndarray of shape (n_sentences + 1,)
        Where each sentence starts; none is empty.
    n_tokens : int
        V, the size of the vocabulary.

    Returns
    -------
    Contexts
    """
    query = codes[offsets[1:] - 1]
    tokens, counts, lengths = _bags(codes, offsets)
    starts = np.cumsum(lengths) - lengths

    inverse = np.empty(len(query), dtype=np.intp)
    chosen, n_merged = [], 0
    for length, rows in _rows_by_length(lengths):
        chosen_rows, inverse_rows = _unique_bags(query, tokens, counts, starts, length, rows)
        inverse[rows] = n_merged + inverse_rows
        n_merged += len(chosen_rows)
        chosen.append(chosen_rows)
    chosen = np.concatenate(chosen) if chosen else np.empty(0, dtype=np.intp)
    offsets = np.concatenate([[0], np.cumsum(lengths[chosen])]).astype(np.intp)
    merged_tokens = np.empty(offsets[-1], dtype=np.intp)
    merged_counts = np.empty(offsets[-1], dtype=np.intp)
    for rows in sentence_pieces(offsets, _PIECE):
        to = slice(offsets[rows.start], offsets[rows.stop])
        at = flat_ranges(starts[chosen[rows]], lengths[chosen[rows]])
        merged_tokens[to], merged_counts[to] = tokens[at], counts[at]
    return Contexts(
        offsets=offsets,
        tokens=merged_tokens,
        counts=merged_counts,
        query=query[chosen].astype(np.intp),
        inverse=inverse,
        n_tokens=n_tokens,
    )


def sentence_pieces(offsets, n_positions, n_rows=math.inf):
    """Yield slices of consecutive sentences: few positions, and few sentences, at a time."""
    start = 0
    while start < len(offsets) - 1:
        stop = np.searchsorted(offsets, offsets[start] + n_positions, side="right") - 1
        stop = int(max(start + 1, min(stop, start + n_rows)))
        yield slice(start, stop)
        start = stop


def _bags(codes, offsets):
    """The distinct tokens of each sentence, increasing, and how often each occurs.

    Returns
    -------
    tokens, counts : ndarray of shape (n_nonzeros,), dtype int32
        Those of one sentence after those of another.
    lengths : ndarray of shape (n_sentences,)
        Number of distinct tokens of each sentence.
    """
    # More than needed where tokens repeat; what is not written to takes no memory.
    tokens, counts = np.empty((2, len(codes)), dtype=np.int32)
    lengths = np.empty(len(offsets) - 1, dtype=np.intp)
    end = 0
    for rows in sentence_pieces(offsets, _PIECE):
        piece = codes[offsets[rows.start] : offsets[rows.stop]].astype(np.int32)
        starts = offsets[rows] - offsets[rows.start]
        _sort_sentences(piece, starts)
        first = starts_run(piece)
        first[starts] = True
        at = np.flatnonzero(first)
        to = slice(end, end + len(at))
        tokens[to], counts[to] = piece[at], np.diff(at, append=len(piece))
        lengths[rows] = np.add.reduceat(first, starts, dtype=np.intp)
        end += len(at)
    return tokens[:end], counts[:end], lengths


def _sort_sentences(codes, starts):
    """Sort the codes of each sentence in place."""
    # Rows of equal length: many times faster than one sort with the sentence's number in the key.
    for length, rows in _rows_by_length(np.diff(starts, append=len(codes))):
        if length * len(rows) == len(codes):  # all sentences are of this length
            codes.reshape(-1, length).sort(axis=1)
        elif length > 1:
            at = starts[rows][:, None] + np.arange(length)
            codes[at] = np.sort(codes[at], axis=1)


def _rows_by_length(lengths):
    """Yield (length, indices of the rows of this length), by increasing length."""
    order = np.argsort(lengths, kind="stable")
    ordered = lengths[order]
    bounds = np.append(np.flatnonzero(starts_run(ordered)), len(order))
    for start, stop in pairwise(bounds):
        yield int(ordered[start]), order[start:stop]


def _unique_bags(query, tokens, counts, starts, length, rows):
    """One sentence of each context among `rows`, in increasing order of contexts, and the inverse.

    All `rows` have `length` distinct tokens. They are compared by query, tokens and counts in this
    order.
    """
    starts, query = starts[rows], query[rows]
    if len(rows) < 16 * length:  # so few that a call per column would take longer
        at = starts[:, None] + np.arange(length)
        order, first = _sort_records(np.hstack([query[:, None], tokens[at], counts[at]]))
    else:

        def column(k, chosen):
            if k == 0:
                return query[chosen]
            return (tokens if k <= length else counts)[starts[chosen] + (k - 1) % length]

        order, first = _sort_columns(column, len(rows), 2 * length + 1)
    inverse = np.empty(len(rows), dtype=np.intp)
    inverse[order] = np.cumsum(first) - 1
    return rows[order[first]], inverse


def _sort_records(records):
    """The order of the rows of a 2-D array, and a mask of where others start in this order."""
    # Big-endian bytes compare like the numbers they hold: one sort key for a whole row.
    packed = np.ascontiguousarray(records, dtype=">u4")
    key = packed.view(np.dtype((np.void, packed.itemsize * packed.shape[1]))).ravel()
    order = np.argsort(key, kind="stable")
    return order, starts_run(key[order])


def _sort_columns(column, n_rows, n_columns):
    """As `_sort_records`, of the rows whose columns ``column(k, rows)`` returns.

    As many columns as fit make one integer key; only rows whose keys are equal are sorted again,
    among themselves, by the columns that follow.
    """
    order = np.arange(n_rows)
    is_first = np.zeros(n_rows, dtype=bool)
    is_first[0] = True
    tied, run, k = np.arange(n_rows), np.zeros(n_rows, dtype=np.int64), 0
    while k < n_columns and len(tied):
        rows, key = order[tied], run
        n_bits = int(run[-1]).bit_length()
        while k < n_columns:
            values = column(k, rows)
            bits = int(values.max()).bit_length()
            if n_bits + bits > 63:
                break
            if values.min() < values.max():  # else it decides nothing
                key, n_bits = (key << bits) | values, n_bits + bits
            k += 1
        by_key = np.argsort(key)
        order[tied], key = rows[by_key], key[by_key]
        first = starts_run(key)
        is_first[tied] = first
        # All of a run are in `tied`: what follows is of the same run, or starts another.
        is_tied = ~(first & np.append(first[1:], True))
        tied, run = tied[is_tied], np.cumsum(first[is_tied]) - 1
    return order, is_first


def sum_by_key(key, weight):
    """Distinct keys, increasing, and the sum of the weights of each.

    The weights of one key are added in increasing order: no order of the input leaves a trace,
    and integer weights equal repeats bit for bit.
    """
    if len(weight) and weight.min() == weight.max():
        key = np.sort(key)  # all orders of equal weights are the same
    else:
        order = np.lexsort((weight, key))
        key, weight = key[order], weight[order]
    first = starts_run(key)
    # bincount adds one after the other; reduceat and sum would pair them up by position.
    return key[first], np.bincount(np.cumsum(first) - 1, weights=weight)


def merge_labels(contexts, classes, weight, n_classes):
    """The next tokens of each context, with the weights that merge added up.

    Parameters
    ----------
    contexts : Contexts
    classes : ndarray of shape (n_sentences,)
        Class code of each sentence's next token.
    weight : ndarray of shape (n_sentences,)
        Sample weights, positive.
    n_classes : int

    Returns
    -------
    Labels
    """
    key, merged = sum_by_key(contexts.inverse.astype(np.int64) * n_classes + classes, weight)
    context, label = np.divmod(key, n_classes)
    context_weight = np.bincount(context, weights=merged, minlength=len(contexts))
    return Labels(
        offsets=np.searchsorted(context, np.arange(len(contexts) + 1)),
        classes=label,
        weight=merged,
        share=merged / context_weight[context],
        context_weight=context_weight,
        probability=context_weight / context_weight.sum(),
    )
