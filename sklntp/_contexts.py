"""Contexts: the only thing the model sees of a sentence is its query and its bag of tokens.

Equal contexts are merged into one with the sum of the weights and the shares of the next tokens.
All arrays are sorted, first by the number of distinct tokens, then by query, tokens and counts, so
that the order of the sentences leaves no trace, and contexts of equal length are contiguous.
"""

from dataclasses import dataclass

import numpy as np


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
    n = len(offsets) - 1
    query = codes[offsets[1:] - 1]
    base = n_tokens + 1
    key = np.repeat(np.arange(n, dtype=np.int64), np.diff(offsets)) * base + codes
    key.sort()
    first = _run_starts(key)
    counts = np.diff(np.append(first, len(key)))
    sentence, tokens = np.divmod(key[first], base)
    lengths = np.bincount(sentence, minlength=n)
    starts = np.cumsum(lengths) - lengths

    inverse = np.empty(n, dtype=np.intp)
    merged_tokens, merged_counts, merged_query, merged_lengths = [], [], [], []
    n_merged = 0
    for length in np.unique(lengths):
        rows = np.flatnonzero(lengths == length)
        at = starts[rows, None] + np.arange(length)
        record = np.hstack([query[rows, None], tokens[at], counts[at]])
        chosen, inverse_rows = _unique_rows(record)
        inverse[rows] = n_merged + inverse_rows
        n_merged += len(chosen)
        merged_query.append(record[chosen, 0])
        merged_tokens.append(record[chosen, 1 : length + 1].ravel())
        merged_counts.append(record[chosen, length + 1 :].ravel())
        merged_lengths.append(np.full(len(chosen), length))
    return Contexts(
        offsets=np.concatenate([[0], np.cumsum(_join(merged_lengths))]).astype(np.intp),
        tokens=_join(merged_tokens),
        counts=_join(merged_counts),
        query=_join(merged_query),
        inverse=inverse,
        n_tokens=n_tokens,
    )


def _join(parts):
    return np.concatenate(parts).astype(np.intp) if parts else np.empty(0, dtype=np.intp)


def _run_starts(values):
    """Where each run of equal values starts in a sorted array."""
    change = np.ones(len(values), dtype=bool)
    change[1:] = values[1:] != values[:-1]
    return np.flatnonzero(change)


def unique_keys(keys):
    """The distinct values of an integer array, increasing; np.unique hashes, many times slower."""
    keys = np.sort(keys)
    return keys[_run_starts(keys)]


def _unique_rows(record):
    """Indices of one row of each kind, in increasing order of the rows, and the inverse."""
    # Big-endian bytes compare like the numbers they hold: one sort key for a whole row.
    packed = np.ascontiguousarray(record, dtype=">u4")
    key = packed.view(np.dtype((np.void, packed.itemsize * packed.shape[1]))).ravel()
    order = np.argsort(key, kind="stable")
    sorted_key = key[order]
    first = _run_starts(sorted_key)
    inverse = np.empty(len(key), dtype=np.intp)
    inverse[order] = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(key))))
    return order[first], inverse


def find_sorted(keys, wanted):
    """Index of each wanted value in the increasing array `keys`, and whether it is there."""
    if not len(keys):
        return np.zeros(np.shape(wanted), dtype=np.intp), np.zeros(np.shape(wanted), dtype=bool)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return at, keys[at] == wanted


def sum_by_key(key, weight):
    """Distinct keys, increasing, and the sum of the weights of each.

    The weights of one key are added in increasing order: no order of the input leaves a trace,
    and integer weights equal repeats bit for bit.
    """
    order = np.lexsort((weight, key))
    key, weight = key[order], weight[order]
    first = _run_starts(key)
    run = np.repeat(np.arange(len(first)), np.diff(np.append(first, len(key))))
    # bincount adds one after the other; reduceat and sum would pair them up by position.
    return key[first], np.bincount(run, weights=weight, minlength=len(first))


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
