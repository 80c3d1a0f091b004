"""Columns of lists, of Arrow, polars or pandas: read from their buffers, not row by row.

Nothing here imports these packages: the objects that the user passed do the work. A column with
anything that is no token, a null or an empty list is left to be read row by row, for the same
messages as lists of lists have.
"""

import numpy as np

from sklntp._coding import code_ints, code_objects, recode

_POLARS_INTS = {f"{kind}{bits}" for kind in ("Int", "UInt") for bits in (8, 16, 32, 64)}
_ARROW_INTS = {name.lower() for name in _POLARS_INTS}
_ARROW_STRINGS = {"string", "large_string", "string_view"}


def read_column(X):
    """Tokens of a column of lists.

    Parameters
    ----------
    X : object
        An Arrow array of lists, chunked or not, a pandas Series of an Arrow list type, a polars
        Series of lists, a table or DataFrame with one such column; or anything else.

    Returns
    -------
    (tokens, codes, lengths) or None
        Distinct tokens, sorted, the code of each position and the length of each list; None where
        X is no such column or not all of its lists hold tokens, str or int.
    """
    if hasattr(X, "columns") and getattr(X, "shape", (0, 0))[1] == 1:
        X = _only_column(X)
    if hasattr(getattr(X, "dtype", None), "pyarrow_dtype"):  # pandas
        X = X.array.__arrow_array__()
    if hasattr(X, "to_pylist") and hasattr(X, "type"):
        return _read_arrow(X.chunks if hasattr(X, "chunks") else [X])
    if hasattr(X, "explode") and hasattr(getattr(X, "dtype", None), "inner"):
        return _read_polars(X)
    return None


def int_columns(table):
    """A DataFrame of int columns as an array, if that changes no number; any other as it is."""
    if hasattr(table, "iloc"):  # pandas
        columns = [table.iloc[:, k] for k in range(table.shape[1])]
        are_ints = all(column.dtype.kind in "iu" for column in columns)
    elif hasattr(table, "to_series"):  # polars
        columns = [table.to_series(k) for k in range(table.shape[1])]
        are_ints = all(str(column.dtype) in _POLARS_INTS for column in columns)
    else:
        return table
    if not columns or not are_ints:
        return table
    columns = [column.to_numpy() for column in columns]
    # A column with nulls is one of float or object then; int64 and uint64 make float64.
    is_exact = all(column.dtype.kind in "iu" for column in columns)
    is_exact = is_exact and np.result_type(*columns).kind in "iu"
    return np.column_stack(columns) if is_exact else table


def _only_column(table):
    if hasattr(table, "iloc"):  # pandas
        return table.iloc[:, 0]
    return table.to_series(0) if hasattr(table, "to_series") else table.column(0)  # polars, Arrow


def _read_polars(series):
    if str(series.dtype).startswith("Array"):
        series = series.arr.to_list()
    lengths = series.list.len()
    if not len(lengths) or lengths.null_count() or not (lengths > 0).all():
        return None
    lengths, flat = lengths.to_numpy().astype(np.intp), series.explode()
    if flat.null_count():
        return None
    if str(flat.dtype) in _POLARS_INTS:
        return *code_ints(flat.to_numpy()), lengths
    if str(flat.dtype) != "String":
        return None
    tokens = sorted(flat.unique().to_list())
    codes = np.arange(len(tokens), dtype=np.int32)
    return tokens, flat.replace_strict(tokens, codes).to_numpy(), lengths


def _read_arrow(chunks):
    lengths, parts = [], []
    for chunk in chunks:
        # A map is a list of pairs by its methods.
        if not hasattr(chunk, "value_lengths") or str(chunk.type).startswith("map"):
            return None
        if chunk.null_count:
            return None
        lengths.append(chunk.value_lengths().to_numpy())
        part = _read_flat(chunk.flatten()) if lengths[-1].all() else None
        if part is None:
            return None
        parts.append(part)
    if not parts:
        return None
    lengths = np.concatenate(lengths).astype(np.intp)
    if all(values is None for values, _ in parts):
        return *code_ints(np.concatenate([codes for _, codes in parts])), lengths
    # Each chunk has a dictionary of its own.
    values = [value for part, _ in parts for value in part]
    tokens, code = code_objects(values, len(values))
    codes, start = [], 0
    for part, own in parts:
        codes.append(recode(own, code[start : start + len(part)]))
        start += len(part)
    return tokens, np.concatenate(codes), lengths


def _read_flat(flat):
    """Distinct values of an Arrow array and their codes; (None, values) of ints; None of others."""
    kind = str(flat.type)
    if flat.null_count:
        return None
    if kind in _ARROW_INTS:
        return None, flat.to_numpy()
    if kind in _ARROW_STRINGS:
        flat = flat.dictionary_encode()
    elif not hasattr(flat, "dictionary") or str(flat.dictionary.type) not in _ARROW_STRINGS:
        return None
    # A dictionary may hold values that do not occur; only those that do are tokens.
    used, codes = code_ints(flat.indices.to_numpy())
    dictionary = flat.dictionary.to_pylist()
    values = [dictionary[k] for k in used]
    return None if None in values else (values, codes)
