"""From long sequences to the sentences and next tokens that a next-token model is trained on."""

import reprlib
from numbers import Integral

import numpy as np

__all__ = ["as_sequences", "make_contexts"]


def as_sequences(X):
    """Put sequences into a 1-D object array, one sequence per cell.

    ``np.array(X, dtype=object)`` becomes two-dimensional as soon as all lengths agree. The array
    returned here never does, so scikit-learn's splitters and meta-estimators index it by sentence.

    Parameters
    ----------
    X : list, tuple, 1-D object array or Series of sequences, 2-D array or DataFrame
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
    cells = _cells(X)
    for index, cell in enumerate(cells):
        if isinstance(cell, (str, bytes)):
            raise ValueError(
                f"Sequence {index} must be split into tokens, for instance with str.split; "
                f"got {reprlib.repr(cell)}."
            )
        if not _is_sequence(cell):
            raise TypeError(
                f"Sequence {index} must be a list, tuple, 1-D array or Series of tokens; "
                f"got {type(cell).__name__} {reprlib.repr(cell)}."
            )
    return np.fromiter(cells, dtype=object, count=len(cells))


def make_contexts(sequences, *, max_length=None):
    """Cut sequences into all their contexts and next tokens.

    A sequence t_1 ... t_T gives the T - 1 samples (t_1 ... t_i) -> t_{i+1}, i = 1 ... T - 1, in
    this order. Together they hold about T² / 2 tokens, or T * `max_length` with a `max_length`.

    Parameters
    ----------
    sequences : list, tuple, 1-D object array or Series of sequences, 2-D array or DataFrame
        The accepted forms are those of :func:`as_sequences`. Tokens are all str or all int. A
        sequence of fewer than two tokens gives no context.

    max_length : int or None, default=None
        Keep only the last `max_length` tokens of each context; None keeps all of them.

    Returns
    -------
    X : ndarray of shape (n_contexts,), dtype object
        The contexts, each a list of tokens.

    y : ndarray of shape (n_contexts,)
        The next tokens: int64, or fixed-width strings. Strings come as an object array only if one
        of them ends in a NUL character, which fixed-width strings would cut off.

    groups : ndarray of shape (n_contexts,), dtype int
        Index of the sequence that a context was cut from, for splitters such as
        :class:`sklearn.model_selection.GroupKFold`.

    Raises
    ------
    TypeError
        If a sequence is none, a token is neither str nor int, tokens are of both types, or
        `max_length` is no integer.
    ValueError
        If a sequence is a string, `max_length` is below 1, or an int next token does not fit into
        64 bits.

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

    token_lists = [_tokens(sequence) for sequence in as_sequences(sequences)]
    token_lists, kind = _check_tokens(token_lists)
    contexts, next_tokens = [], []
    for tokens in token_lists:
        for end in range(1, len(tokens)):
            start = 0 if max_length is None else max(0, end - max_length)
            contexts.append(tokens[start:end])
            next_tokens.append(tokens[end])

    counts = [max(0, len(tokens) - 1) for tokens in token_lists]
    groups = np.repeat(np.arange(len(token_lists)), np.array(counts, dtype=int))
    X = np.fromiter(contexts, dtype=object, count=len(contexts))
    if kind is str:
        dtype = object if any(token.endswith("\0") for token in next_tokens) else str
    else:
        dtype = np.int64
    try:
        return X, np.array(next_tokens, dtype=dtype), groups
    except OverflowError:
        raise ValueError(
            f"Int next tokens must fit into 64 bits; got {max(next_tokens, key=abs)}."
        ) from None


def _cells(X):
    """List of the sequences in `X`, which the caller checks one by one."""
    if hasattr(X, "columns") and hasattr(X, "shape"):  # a pandas or polars DataFrame
        if X.shape[1] != 1:
            return np.asarray(X).tolist()
        column = X[X.columns[0]].to_list()
        return column if column and _is_sequence(column[0]) else [[value] for value in column]
    if hasattr(X, "to_list"):  # a Series; np.asarray may stack the cells of a polars one
        return X.to_list()
    if isinstance(X, np.ndarray):
        if X.ndim == 1:
            return list(X)
        if X.ndim == 2:
            column_of_sequences = X.shape[1] == 1 and len(X) and _is_sequence(X[0, 0])
            return list(X[:, 0]) if column_of_sequences else X.tolist()
        raise ValueError(f"Expected an array of one or two dimensions; got {X.ndim}.")
    if isinstance(X, (str, bytes)):
        raise ValueError(
            "Expected a collection of sequences, each split into tokens; "
            f"got one string, {reprlib.repr(X)}."
        )
    if isinstance(X, (list, tuple)):
        return list(X)
    raise TypeError(
        "Expected a list, object array or Series of sequences, a 2-D array or a DataFrame; "
        f"got {type(X).__name__}."
    )


def _is_sequence(cell):
    if isinstance(cell, np.ndarray):
        return cell.ndim == 1
    return (
        hasattr(cell, "__len__")
        and hasattr(cell, "__iter__")
        and not isinstance(cell, (str, bytes, bytearray, dict, set, frozenset))
    )


def _tokens(sequence):
    """The tokens of one sequence as a list."""
    return sequence.tolist() if isinstance(sequence, np.ndarray) else list(sequence)


def _check_tokens(token_lists):
    """Refuse tokens other than all str or all int; return plain Python tokens and their type."""
    first = {}  # type of token -> where it was seen first
    for index, tokens in enumerate(token_lists):
        if not set(map(type, tokens)) <= {str, int}:  # the types alone decide the usual case
            for position, token in enumerate(tokens):
                if not isinstance(token, (str, Integral)) or isinstance(token, bool):
                    raise TypeError(
                        f"Tokens must be str or int; sequence {index} has {type(token).__name__} "
                        f"{reprlib.repr(token)} at position {position}."
                    )
            tokens = [token.item() if isinstance(token, np.generic) else token for token in tokens]
            token_lists[index] = tokens
        for kind in (str, int):
            if kind not in first and any(isinstance(token, kind) for token in tokens):
                first[kind] = index
        if len(first) == 2:
            raise TypeError(
                "Tokens must be all str or all int; the first str is in sequence "
                f"{first[str]}, the first int in sequence {first[int]}."
            )
    return token_lists, next(iter(first), int)
