"""Sentences row by row: sequences of tokens, checked, to codes; what is wrong, with its place."""

import math
import reprlib
from itertools import chain
from numbers import Integral, Real

import numpy as np

from sklntp._coding import code_ints, code_objects

# Types of tokens that become an int64 or an OverflowError, never another number.
_INT_KINDS = {int, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32}


def short(value):
    """A short repr for a message; numpy scalars as the plain numbers they are."""
    try:
        return reprlib.repr(plain_token(value))
    except ValueError:  # an int of more digits than Python prints
        return f"an int of {value.bit_length()} bits"


def probability_text(p):
    """A probability with three digits; one below 1 does not become 1 by rounding."""
    return f"{p:.3g}" if p in (0.0, 1.0) or p < 0.9995 else "> 0.999"


def plain_rows(rows):
    """The rows as lists or tuples, which can be read several times."""
    if set(map(type, rows)) <= {list, tuple}:
        return rows
    return [row.tolist() if isinstance(row, np.ndarray) else list(row) for row in rows]


def plain_token(token):
    """A numpy scalar as the plain str or number it is."""
    return token.item() if isinstance(token, np.generic) else token


def row_lengths(rows):
    """Number of tokens of each row, (n_rows,)."""
    return np.fromiter(map(len, rows), dtype=np.intp, count=len(rows))


def read_rows(rows, *, floats=False):
    """Sequences of tokens -> distinct tokens, sorted, code of each position, length of each row.

    With `floats`, or if the rows are a table of numbers, any finite numbers are tokens.
    """
    if set(map(type, rows)) == {np.ndarray} and (read := _read_arrays(rows)) is not None:
        return read
    rows = plain_rows(rows)
    lengths = row_lengths(rows)
    n_positions = int(lengths.sum())
    kinds = set(map(type, chain.from_iterable(rows)))
    tokens = chain.from_iterable(rows)
    if kinds <= _INT_KINDS:
        try:
            return *code_ints(np.fromiter(tokens, dtype=np.int64, count=n_positions)), lengths
        except OverflowError:  # ints of more than 64 bits
            tokens = map(plain_token, chain.from_iterable(rows))
    elif kinds != {str}:
        check_tokens(rows, floats=floats or _is_float_table(lengths, kinds))
        tokens = map(plain_token, tokens)
    return *code_objects(tokens, n_positions), lengths


def _read_arrays(rows):
    """As `read_rows`, of 1-D arrays that are all of ints or all of strings, else None."""
    dtypes = {row.dtype for row in rows}
    kinds = {dtype.kind for dtype in dtypes}
    if kinds <= {"i", "u"} and np.result_type(*dtypes).kind in "iu":  # int64 and uint64: float64
        return *code_ints(np.concatenate(rows)), row_lengths(rows)
    if kinds == {"U"}:
        lengths = row_lengths(rows)
        tokens = chain.from_iterable(map(np.ndarray.tolist, rows))
        return *code_objects(tokens, int(lengths.sum())), lengths
    return None


def _is_float_table(lengths, kinds):
    """Rows of equal length, all numbers and at least one of them not an integer."""
    if lengths.min() != lengths.max():
        return False
    return all(
        issubclass(k, (Real, np.number)) and k not in (bool, np.bool_) for k in kinds
    ) and not all(issubclass(k, Integral) for k in kinds)


def check_tokens(rows, *, floats):
    """Raise for the first cell that is no token, or a token of another type than the first.

    Tokens are str or int; with `floats`, in a table, str or any finite number.
    """
    numbers = (int, float, np.integer, np.floating) if floats else (int, np.integer)
    # In tables scikit-learn's checks look for this wording.
    wanted = (
        "a token argument must be a string or a number"
        if floats
        else "a token must be a str or an int"
    )
    first = None
    for i, row in enumerate(rows):
        for j, token in enumerate(row):
            if isinstance(token, str):
                kind = "str"
            elif isinstance(token, numbers) and not isinstance(token, bool):
                kind = "number" if floats else "int"
                if not -math.inf < token < math.inf:
                    what = "NaN" if token != token else "infinity"
                    raise ValueError(f"Input X contains {what}: sentence {i}, position {j}.")
            else:
                raise TypeError(
                    f"Sentence {i}, position {j}: {wanted}; got "
                    f"{type(token).__name__} {short(token)}."
                )
            first = first or (kind, i, j, token)
            if kind != first[0]:
                raise TypeError(
                    f"Tokens must be all str or all {'numbers' if floats else 'int'}: sentence "
                    f"{first[1]}, position {first[2]} holds {_typed(first[3])}, but sentence {i}, "
                    f"position {j} holds {_typed(token)}."
                )


def _typed(value):
    """Type and value for a message, of a numpy scalar those of the plain number."""
    value = plain_token(value)
    return f"{type(value).__name__} {short(value)}"
