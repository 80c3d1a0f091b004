"""Tokens as numbers: the distinct ones, sorted, and for each position which of them stands there.

Codes are int32, half the memory of numpy's own index type; arithmetic with them needs int64 first.
"""

from collections import defaultdict
from itertools import count

import numpy as np

_PIECE = 1 << 16  # positions at a time: index arrays are converted to int64, in the cache then


def code_objects(tokens, n_positions):
    """Distinct tokens of an iterable of str or numbers, sorted, and the code of each position.

    Parameters
    ----------
    tokens : iterable
        Read once, so that it may make tokens on the way.
    n_positions : int
        How many it holds.

    Returns
    -------
    tokens : list
    codes : ndarray of shape (n_positions,), dtype int32
    """
    index = defaultdict(count().__next__)  # in order of appearance
    codes = np.fromiter(map(index.__getitem__, tokens), dtype=np.int32, count=n_positions)
    tokens = sorted(index)
    rank = np.empty(len(tokens), dtype=np.int32)
    rank[[index[token] for token in tokens]] = np.arange(len(tokens), dtype=np.int32)
    return tokens, recode(codes, rank, out=codes)


def code_ints(values):
    """Distinct numbers of an integer array, sorted, as Python ints, and the code of each position.

    Parameters
    ----------
    values : ndarray of int, any shape
        Read in C order.

    Returns
    -------
    tokens : list of int
    codes : ndarray of shape (values.size,), dtype int32
    """
    values = values.ravel()
    if not len(values):
        return [], np.empty(0, dtype=np.int32)
    low, high = int(values.min()), int(values.max())
    codes = np.empty(len(values), dtype=np.int32)
    if high - low > 2 * len(values) + 1000:  # no table over the range
        distinct = unique_keys(values)
        for at in _pieces(len(values)):
            codes[at] = np.searchsorted(distinct, values[at])
        return distinct.tolist(), codes
    values = values.astype(values.dtype.newbyteorder("="), copy=False)
    occurs = np.zeros(high - low + 1, dtype=bool)
    for at in _pieces(len(values)):
        occurs[_above(values[at], low)] = True
    rank = np.cumsum(occurs, dtype=np.int32) - np.int32(1)
    for at in _pieces(len(values)):
        codes[at] = rank[_above(values[at], low)]
    return [low + k for k in np.flatnonzero(occurs).tolist()], codes


def starts_run(values):
    """Whether each of the values, sorted, differs from the one before it."""
    starts = np.ones(len(values), dtype=bool)
    starts[1:] = values[1:] != values[:-1]
    return starts


def unique_keys(keys):
    """The distinct values of an integer array, increasing; np.unique hashes, many times slower."""
    keys = np.sort(keys)
    return keys[starts_run(keys)]


def lookup(values, known):
    """Index of each value, a str or number, in the sequence `known`; its length if not there."""
    index = {value: code for code, value in enumerate(known)}
    n = len(index)
    return np.fromiter((index.get(value, n) for value in values), np.int32, count=len(values))


def recode(codes, table, out=None):
    """``table[codes]`` for int32 `table`, without an int64 copy of all codes."""
    out = np.empty(len(codes), dtype=np.int32) if out is None else out
    for at in _pieces(len(codes)):
        out[at] = table[codes[at]]
    return out


def _above(values, low):
    """``values - low`` in unsigned numbers of the same size, where no difference overflows."""
    unsigned = np.dtype(f"u{values.itemsize}")
    return values.view(unsigned) - unsigned.type(low % 2 ** (8 * values.itemsize))


def _pieces(n):
    return (slice(start, start + _PIECE) for start in range(0, n, _PIECE))


def find_sorted(keys, wanted):
    """Index of each wanted value in the increasing array `keys`, and whether it is there."""
    if not len(keys):
        return np.zeros(np.shape(wanted), dtype=np.intp), np.zeros(np.shape(wanted), dtype=bool)
    at = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return at, keys[at] == wanted
