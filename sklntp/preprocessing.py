"""From event tables and long sequences to the sentences that a next-token model is trained on."""

from numbers import Integral

import numpy as np
from sklearn.utils import check_array

from sklntp._context_transformers import ContextWindow, PositionTagger
from sklntp._events import sequences_from_events
from sklntp._ngram_transformers import LastNGram, NGramTokens
from sklntp._sequences import flatten, ragged_rows, table_rows, token_array

__all__ = [
    "ContextWindow",
    "LastNGram",
    "NGramTokens",
    "PositionTagger",
    "as_sequences",
    "make_contexts",
    "sequences_from_events",
]


def as_sequences(X):
    """Put sequences into a 1-D object array, one sequence per cell.

    ``np.array(X, dtype=object)`` becomes two-dimensional as soon as all lengths agree. The array
    returned here never does, so scikit-learn's splitters and meta-estimators index it by sentence.

    Parameters
    ----------
    X : list, tuple, 1-D object array, Series or Arrow array of sequences, 2-D array or DataFrame
        A sequence is a list, a tuple, a 1-D array, a Series or the like. A 2-D array or a DataFrame
        is a table with one sequence per row, unless its only column holds sequences: then the
        cells of that column are taken.

    Returns
    -------
    sequences : ndarray of shape (n_sequences,), dtype object
        The sequences of `X` themselves, not copies; the rows of a table as lists.

    Raises
    ------
    TypeError
        If `X` is no collection, or a cell of it no sequence.
    ValueError
        If `X`, or a cell of it, is a string (split it into tokens first), or if `X` is an array
        that is neither one- nor two-dimensional.

    Examples
    --------
    >>> from sklntp.preprocessing import as_sequences
    >>> as_sequences([["a", "b"], ["c", "d"]])
    array([list(['a', 'b']), list(['c', 'd'])], dtype=object)
    """
    rows = ragged_rows(X)
    if rows is None:
        is_frame = hasattr(X, "columns")
        rows = [list(row) for row in table_rows(X if is_frame else check_array(X, dtype=None))]
    return np.fromiter(rows, dtype=object, count=len(rows))


def make_contexts(sequences, *, max_length=None):
    """Cut sequences into all their contexts and next tokens.

    A sequence t_1 ... t_T gives the T - 1 samples (t_1 ... t_i) -> t_{i+1}, i = 1 ... T - 1, in
    this order. Together they hold about T² / 2 tokens, or T * `max_length` with a `max_length`.

    Parameters
    ----------
    sequences : array-like of sequences
        The accepted forms are those of :func:`as_sequences`. Tokens are all str or all int. A
        sequence of fewer than two tokens gives no context.

    max_length : int or None, default=None
        Keep only the last `max_length` tokens of each context; None keeps all of them.

    Returns
    -------
    X : ndarray of shape (n_contexts,), dtype object
        The contexts, each a list of tokens.

    y : ndarray of shape (n_contexts,)
        The next tokens: int64 or fixed-width strings; an object array only where these would change
        a token, an int of more than 64 bits or a string that ends in a NUL character.

    groups : ndarray of shape (n_contexts,), dtype int
        Index of the sequence that a context was cut from, for splitters such as
        :class:`sklearn.model_selection.GroupKFold`.

    Raises
    ------
    TypeError
        If a sequence is none, a token is neither str nor int, tokens are of both types, or
        `max_length` is no integer.
    ValueError
        If a sequence is a string, or `max_length` is below 1.

    Examples
    --------
    >>> from sklntp.preprocessing import make_contexts
    >>> X, y, groups = make_contexts([["a", "b", "c", "d"], ["b", "a"]], max_length=2)
    >>> X.tolist()
    [['a'], ['a', 'b'], ['b', 'c'], ['b']]
    >>> y.tolist()
    ['b', 'c', 'd', 'a']
    >>> groups.tolist()
    [0, 0, 0, 1]
    """
    if max_length is not None:
        if not isinstance(max_length, Integral) or isinstance(max_length, bool):
            raise TypeError(
                f"max_length must be an integer or None; got {max_length!r} "
                f"of type {type(max_length).__name__}."
            )
        if max_length < 1:
            raise ValueError(f"max_length must be at least 1; got {max_length}.")

    flat, lengths = flatten(as_sequences(sequences))
    stops = np.cumsum(lengths)
    contexts, next_tokens = [], []
    for first, stop in zip(stops - lengths, stops, strict=True):
        for end in range(first + 1, stop):
            start = first if max_length is None else max(first, end - max_length)
            contexts.append(flat[start:end])
            next_tokens.append(flat[end])
    groups = np.repeat(np.arange(len(lengths)), np.maximum(lengths - 1, 0))
    X = np.fromiter(contexts, dtype=object, count=len(contexts))
    return X, token_array(next_tokens), groups
