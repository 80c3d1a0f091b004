"""Event tables (case, activity, time) to sequences of activities."""

import re
from collections import defaultdict
from datetime import UTC, datetime
from itertools import count

import numpy as np

from sklntp._coding import code_ints, code_objects
from sklntp._context_transformers import write_sentences
from sklntp._rows import plain_token, short

_TOO_FINE = re.compile(r"[.,]\d{7}")
_LONGEST_EXACT = len("2024-05-31T23:59:00.000000")


def sequences_from_events(df, case, activity, time=None):
    """Put the events of a table into one sequence of activities per case.

    Parameters
    ----------
    df : DataFrame, Arrow table, dict of arrays or structured array
        Events, one per row, of pandas, polars or anything that gives a column for its name.

    case : str
        Name of the column that tells which case, user, session or document an event belongs to.

    activity : str
        Name of the column of activities, the tokens: all str or all int.

    time : str, default=None
        Name of the column that orders the events of a case: numbers, dates, times, or str in the
        ISO 8601 formats that :meth:`datetime.datetime.fromisoformat` reads, all with an offset from
        UTC or none. Events of equal time stay in the order of the table. None: all events do.

    Returns
    -------
    sequences : ndarray of shape (n_cases,), dtype object
        A list of activities for each case, in order of time. Cases are in the order in which they
        first appear in the table.

    cases : ndarray of shape (n_cases,)
        The case of each sequence.

    Raises
    ------
    ValueError
        If there is no such column, a value is missing (the message names its row, counted from 0),
        or times cannot be ordered.
    TypeError
        If an activity is neither str nor int, or values of a column are of several types.

    See Also
    --------
    make_contexts : Cuts sequences into contexts and next tokens.

    Examples
    --------
    >>> from sklntp.preprocessing import make_contexts, sequences_from_events
    >>> events = {
    ...     "order": [7, 7, 3, 7, 3],
    ...     "action": ["register", "ship", "register", "pay", "cancel"],
    ...     "at": ["2024-05-01T10:00", "2024-05-03", "2024-05-02", "2024-05-02", "2024-05-04"],
    ... }
    >>> sequences, cases = sequences_from_events(events, "order", "action", "at")
    >>> sequences.tolist()
    [['register', 'pay', 'ship'], ['register', 'cancel']]
    >>> cases.tolist()
    [7, 3]
    >>> X, y, groups = make_contexts(sequences)
    """
    names = [case, activity] + ([] if time is None else [time])
    columns = [_column(df, name) for name in names]
    if len(set(map(len, columns))) > 1:
        found = ", ".join(
            f"{name!r} {len(column)}" for name, column in zip(names, columns, strict=True)
        )
        raise ValueError(f"All columns must have the same number of rows; got {found}.")

    n_rows = len(columns[0])
    _, of_case = _code(columns[0], case)
    activities, of_activity = _code(columns[1], activity)
    activities = _tokens(activities, of_activity, activity, columns[1].dtype)
    first = np.empty(int(of_case.max(initial=-1)) + 1, dtype=np.intp)
    first[of_case[::-1]] = np.arange(n_rows - 1, -1, -1)  # the last assignment stays
    appearance = np.argsort(first)
    rank = np.empty_like(appearance)
    rank[appearance] = np.arange(len(rank))

    keys = [rank[of_case]] if time is None else [_moments(columns[2], time), rank[of_case]]
    order = np.lexsort(keys)  # stable
    lengths = np.bincount(of_case, minlength=len(rank))[appearance]
    return write_sentences(activities, of_activity[order], lengths), columns[0][first[appearance]]


def _column(df, name):
    """A column as a 1-D array, of the objects themselves where it has no dtype of its own."""
    if hasattr(df, "collect"):  # of polars
        raise TypeError(f"df must be a table with its rows; got {type(df).__name__}: collect() it.")
    if hasattr(df, "column_names"):  # Arrow, whose `columns` are the columns
        names = list(df.column_names)
    elif hasattr(df, "columns"):
        names = list(df.columns)
    elif hasattr(df, "keys"):
        names = list(df.keys())
    else:
        names = list(getattr(getattr(df, "dtype", None), "names", None) or [])
    if name not in names:
        kind = type(df).__name__
        raise ValueError(f"The {kind} has no column {name!r}; its columns are {names}.")
    column = df[name]
    if isinstance(column, (list, tuple)):  # numpy would make one type of several
        return np.fromiter(column, dtype=object, count=len(column))
    if getattr(getattr(column, "dtype", None), "tz", None) is not None:  # pandas: moments, not
        return column.to_numpy(f"datetime64[{column.dtype.unit}]")  # an object for each row
    if isinstance(column, np.ma.MaskedArray):
        _refuse_missing(np.ma.getmaskarray(column), name)
    column = np.asarray(column)
    if column.ndim != 1:
        raise ValueError(
            f"Column {name!r} must be one column of single values; got an array of shape "
            f"{column.shape}."
        )
    return column


def _code(column, name):
    """Distinct values and the code of each row; refuses a missing value."""
    if column.dtype.kind in "iu":
        return code_ints(column)
    if column.dtype.kind in "OUS":
        index = defaultdict(count().__next__)
        values = column.tolist()
        codes = np.fromiter(map(index.__getitem__, values), dtype=np.intp, count=len(values))
        distinct = list(index)
        missing = [_is_missing(value) for value in distinct]
        if any(missing):
            _refuse_missing(np.array(missing)[codes], name)
        return distinct, codes
    _refuse_missing(column != column, name)  # NaN, NaT
    distinct, codes = np.unique(column, return_inverse=True)
    return distinct.tolist(), codes


def _is_missing(value):
    return value is None or type(value).__name__ == "NAType" or bool(value != value)


def _refuse_missing(is_missing, name):
    if is_missing.any():
        raise ValueError(
            f"Column {name!r} has a missing value in row {int(np.argmax(is_missing))} (counted "
            "from 0). Drop or fill the rows without one."
        )


def _tokens(values, codes, name, dtype):
    """Distinct activities as tokens, all str or all int."""
    wanted = f"Activities must be all str or all int; column {name!r} has"
    if dtype.kind not in "OUiu":  # distinct dates may be int here
        raise TypeError(f"{wanted} the dtype {dtype}.")
    for value in values:
        if isinstance(value, bool) or not isinstance(value, (str, int, np.integer)):
            raise TypeError(f"{wanted} {_place(codes, values, value)}.")
    values = list(map(plain_token, values))
    _one_type(values, codes, name)
    return values


def _moments(column, name):
    """An array that is ordered as the times of the rows are."""
    if column.dtype.kind in "iufmM":
        _refuse_missing(column != column, name)
        return column.astype(np.int64) if column.dtype.kind in "mM" else column
    distinct, codes = _code(column, name)
    _one_type(distinct, codes, name)
    moments = distinct
    if distinct and isinstance(distinct[0], (str, bytes)):
        moments = [_parse(value, distinct, codes, name) for value in distinct]
    elif distinct and type(distinct[0]) is datetime:
        # Row by row: two moments of an hour that is on the clock twice are equal to Python.
        moments, codes = column.tolist(), slice(None)
    try:
        return _numbers(moments)[codes]
    except TypeError as error:
        raise ValueError(f"The times of column {name!r} cannot be ordered: {error}.") from error


def _numbers(moments):
    """Integers that are ordered as the moments are."""
    if not moments or type(moments[0]) is not datetime:
        return code_objects(moments, len(moments))[1]
    # Not sorted here: datetimes compare slowly.
    start = datetime(1970, 1, 1, tzinfo=moments[0].tzinfo and UTC)
    since = np.array([moment - start for moment in moments], dtype="timedelta64[us]")
    return since.astype(np.int64)


def _parse(value, values, codes, name):
    """A str in ISO 8601 as a datetime; other formats would be out of order when compared as str."""
    try:
        if len(value) > _LONGEST_EXACT and _TOO_FINE.search(value):
            raise ValueError("more than six digits of a second would be cut off")
        return datetime.fromisoformat(value)
    except (ValueError, TypeError) as error:
        raise ValueError(
            f"Times that are str must be ISO 8601, as 2024-05-31T23:59:00; column {name!r} has "
            f"{_place(codes, values, value)} ({error}). Make it a column of dates first."
        ) from error


def _one_type(values, codes, name):
    """Refuse distinct values of several types."""
    kinds = list(map(type, values))
    for value, kind in zip(values, kinds, strict=True):
        if kind is not kinds[0]:
            raise TypeError(
                f"Column {name!r} must hold values of one type; it has "
                f"{_place(codes, values, values[0])} and {_place(codes, values, value)}."
            )


def _place(codes, values, value):
    """Type, value and first row of a distinct value, for a message."""
    row = int(np.argmax(codes == next(k for k, other in enumerate(values) if other is value)))
    return f"{type(value).__name__} {short(value)} in row {row} (counted from 0)"
