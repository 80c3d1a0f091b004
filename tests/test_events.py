"""Event tables to sequences: against a plain loop, over kinds of tables and columns."""

from datetime import UTC, date, datetime, timedelta, timezone
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd
import pytest

from sklntp.preprocessing import make_contexts, sequences_from_events

NAMES = ("case", "activity", "time")


def _events(seed, n=200, n_cases=12, n_times=30):
    """Columns of random events in any order, with many ties in time."""
    rng = np.random.RandomState(seed)
    return {
        "case": [f"ç{k}" for k in rng.randint(n_cases, size=n)],
        "activity": ["abé日x"[k] for k in rng.randint(5, size=n)],
        "time": rng.randint(n_times, size=n).tolist(),
    }


def _loop(events, with_time=True):
    """Cases in order of appearance, their events in order of time, ties in that of the table."""
    by_case = {}
    for row, case in enumerate(events["case"]):
        by_case.setdefault(case, []).append(row)
    time = events["time"]
    ordered = {k: sorted(v, key=lambda i: time[i] if with_time else 0) for k, v in by_case.items()}
    return [[events["activity"][i] for i in rows] for rows in ordered.values()], list(ordered)


def _polars(events):
    return pytest.importorskip("polars").DataFrame(events)


def _arrow(events):
    return pytest.importorskip("pyarrow").table(events)


def _structured(events):
    frame = pd.DataFrame(events)
    dtype = [("case", "U9"), ("activity", "U3"), ("time", "i4")]
    return np.array(list(frame.itertuples(index=False, name=None)), dtype=dtype)


TABLES = {
    "pandas": lambda events: pd.DataFrame(events, index=range(len(events["case"]), 0, -1)),
    "pandas categories": lambda events: pd.DataFrame(events).astype({"activity": "category"}),
    "polars": _polars,
    "arrow": _arrow,
    "dict of lists": dict,
    "dict of arrays": lambda events: {name: np.array(column) for name, column in events.items()},
    "structured array": _structured,
}


@pytest.mark.parametrize("with_time", [True, False])
@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES)
@pytest.mark.parametrize("seed", range(3))
def test_against_a_loop(seed, table, with_time):
    events = _events(seed)
    sequences, cases = sequences_from_events(table(events), *NAMES[: 2 + with_time])
    expected, expected_cases = _loop(events, with_time)
    assert sequences.tolist() == expected
    assert cases.tolist() == expected_cases
    assert sequences.dtype == object and sequences.ndim == 1
    assert {type(token) for sequence in sequences for token in sequence} == {str}


@pytest.mark.parametrize(
    "case", [np.int8, np.uint64, np.float64, "datetime64[D]", "timedelta64[s]", bool, "S3", object]
)
@pytest.mark.parametrize("activity", [np.int8, np.uint64, object])
def test_kinds_of_cases_and_activities(case, activity):
    events = _events(0, n_cases=2)
    events["case"] = [int(k[1:]) for k in events["case"]]
    events["activity"] = ["abé日x".index(k) for k in events["activity"]]
    table = dict(events, case=np.array(events["case"]).astype(case))
    table["activity"] = np.array(events["activity"], dtype=activity)
    sequences, cases = sequences_from_events(table, *NAMES)
    assert sequences.tolist() == _loop(events)[0]
    assert {type(token) for sequence in sequences for token in sequence} == {int}
    assert cases.dtype == np.dtype(case)
    assert cases.tolist() == list(dict.fromkeys(table["case"].tolist()))


START = datetime(2024, 3, 30, 22)
HOURS = [timedelta(hours=2 * k) for k in range(30)]  # over the change to summer time
ROME = [
    (START + h).replace(tzinfo=UTC).astimezone(timezone(timedelta(hours=1 + (h.days > 0))))
    for h in HOURS
]
ROME_ZONE = ZoneInfo("Europe/Rome")
CLOCK = [(3, 0, 0), (2, 30, 0), (2, 10, 1), (2, 10, 0)]  # hour, minute, second time round
TIMES = {
    "float": lambda k: k - 10.5,
    "negative int": lambda k: k - 10,
    "numpy ns": lambda k: np.datetime64(START, "ns") + np.timedelta64(k, "ns"),
    "timedelta": lambda k: HOURS[k],
    "datetime": lambda k: START + HOURS[k],
    "with offsets": lambda k: ROME[k],
    "Timestamp": lambda k: pd.Timestamp(START) + HOURS[k],
    "date": lambda k: date(2024, 1, 1) + timedelta(days=k),
    "ISO": lambda k: (START + HOURS[k]).isoformat(),
    "ISO with a space": lambda k: str(START + HOURS[k]),
    "ISO day": lambda k: str(date(2024, 1, 1) + timedelta(days=k)),
    "ISO with fractions or none": lambda k: (START + timedelta(milliseconds=500 * k)).isoformat(),
    "ISO with offsets": lambda k: ROME[k].isoformat(),
    "ISO, Z": lambda k: (START + timedelta(milliseconds=500 * k)).isoformat() + "Z",
}


@pytest.mark.parametrize("holder", [list, np.array, pd.Series, "polars"])
@pytest.mark.parametrize("time", TIMES.values(), ids=TIMES)
def test_kinds_of_times(time, holder):
    events = _events(1)
    column = [time(k) for k in events["time"]]
    if holder == "polars":
        holder = pytest.importorskip("polars").Series
        column = np.array(column) if isinstance(column[0], np.generic) else column  # keeps the unit
    sequences, cases = sequences_from_events(dict(events, time=holder(column)), *NAMES)
    assert (sequences.tolist(), cases.tolist()) == _loop(events)


@pytest.mark.parametrize("unit", ["s", "us", "ns"])
def test_pandas_times_with_a_zone(unit):
    events = _events(2)
    time = pd.Series([START + HOURS[k] for k in events["time"]]).astype(f"datetime64[{unit}]")
    table = pd.DataFrame(events).assign(time=time.dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"))
    assert sequences_from_events(table, *NAMES)[0].tolist() == _loop(events)[0]


def test_equal_moments_written_otherwise_are_ties():
    table = {
        "case": [1, 1, 1],
        "activity": ["b", "a", "c"],
        "time": [
            "2024-01-01T12:00:00+02:00",
            "2024-01-01T10:00:00Z",
            "2024-01-01T10:00:00.0+00:00",
        ],
    }
    assert sequences_from_events(table, *NAMES)[0].tolist() == [["b", "a", "c"]]


def test_moments_that_are_hard_to_tell_apart():
    """An hour that is on the clock twice, and less than a microsecond."""
    clock = [datetime(2024, 10, 27, h, m, tzinfo=ROME_ZONE, fold=f) for h, m, f in CLOCK]
    fine = [pd.Timestamp(START) + pd.Timedelta(k, "ns") for k in (3, 1, 2, 0)]
    for time in (clock, fine):
        table = {"case": [1] * 4, "activity": [3, 1, 2, 0], "time": time}
        assert sequences_from_events(table, *NAMES)[0].tolist() == [[0, 1, 2, 3]]


def test_the_example_of_contexts():
    table = pd.DataFrame({"case": [7, 3, 7], "activity": ["b", "c", "a"], "time": [2, 1, 1]})
    sequences, cases = sequences_from_events(table, "case", "activity", "time")
    X, y, groups = make_contexts(sequences)
    assert X.tolist() == [["a"]] and y.tolist() == ["b"]
    assert cases[groups].tolist() == [7]


@pytest.mark.parametrize("names", [NAMES, NAMES[:2]])
@pytest.mark.parametrize("empty", [[], np.empty(0, dtype=int), np.empty(0, dtype=str)])
def test_no_events(empty, names):
    sequences, cases = sequences_from_events({name: empty for name in NAMES}, *names)
    assert sequences.shape == cases.shape == (0,)


def test_the_table_is_not_changed():
    events = _events(3)
    frame = pd.DataFrame(events)
    sequences, cases = sequences_from_events(frame, *NAMES)
    sequences[0].append("z")
    cases[0] = "z"
    assert frame.equals(pd.DataFrame(events))


@pytest.mark.parametrize("kind", ["pandas", "polars", "arrow", "dict of lists", "structured array"])
def test_an_unknown_column(kind):
    table = TABLES[kind](_events(0))
    match = r"no column 'user'; its columns are \['case', 'activity', 'time'\]"
    for names in (("user", *NAMES[1:]), ("case", "user"), ("case", "activity", "user")):
        with pytest.raises(ValueError, match=match):
            sequences_from_events(table, *names)


def test_what_is_no_table():
    with pytest.raises(ValueError, match=r"no column 'case'; its columns are \[\]"):
        sequences_from_events([["a"]], *NAMES)
    frame = pd.DataFrame(np.zeros((2, 3), dtype=int), columns=["case", "activity", "activity"])
    with pytest.raises(ValueError, match=r"'activity' must be one column .*\(2, 2\)"):
        sequences_from_events(frame, "case", "activity")
    with pytest.raises(ValueError, match="same number of rows; got 'case' 2, 'activity' 1"):
        sequences_from_events({"case": [1, 2], "activity": ["a"]}, "case", "activity")


MISSING = {
    "None": lambda column: column,
    "object NaN": lambda column: [np.nan if value is None else value for value in column],
    "pandas NA": lambda column: [pd.NA if value is None else value for value in column],
    "pandas": pd.Series,
    "pandas convert": lambda column: pd.Series(column).convert_dtypes(),
    "polars": lambda column: pytest.importorskip("polars").Series(column),
}


@pytest.mark.parametrize("holder", MISSING.values(), ids=MISSING)
@pytest.mark.parametrize("values", [[1, 2, None, 3], ["a", "b", None, "c"]])
@pytest.mark.parametrize("name", NAMES)
def test_a_missing_value(name, values, holder):
    table = {other: [1, 1, 2, 2] for other in NAMES} | {name: holder(values)}
    with pytest.raises(ValueError, match=f"Column '{name}' has a missing value in row 2"):
        sequences_from_events(table, *NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_a_missing_moment(name):
    moments = [datetime(2024, 1, 1), datetime(2024, 1, 1), None, datetime(2024, 1, 2)]
    for column in (moments, pd.Series(moments), pd.Series(moments).dt.tz_localize("UTC")):
        table = {other: [1, 1, 2, 2] for other in NAMES} | {name: column}
        with pytest.raises(ValueError, match=f"Column '{name}' has a missing value in row 2"):
            sequences_from_events(table, *NAMES)


@pytest.mark.parametrize(
    ("activity", "match"),
    [
        ([1, 2.5], r"'activity' has float 2\.5 in row 1"),
        ([True, False], "'activity' has bool True in row 0"),
        (["a", b"b"], "'activity' has bytes b'b' in row 1"),
        (["a", ("b",)], "'activity' has tuple"),
        (np.array([1.0, 2.0]), "'activity' has the dtype float64"),
        (np.array([1, 2], dtype="timedelta64[ns]"), r"the dtype timedelta64\[ns\]"),
        (np.array([1, 2], dtype="datetime64[ns]"), r"the dtype datetime64\[ns\]"),
        (["a", 1], "one type; it has str 'a' in row 0 .* and int 1 in row 1"),
    ],
)
def test_an_activity_that_is_no_token(activity, match):
    with pytest.raises(TypeError, match=match):
        sequences_from_events({"case": [1, 1], "activity": activity}, "case", "activity")


@pytest.mark.parametrize(
    ("time", "error", "match"),
    [
        (["2024-01-01", 1], TypeError, "'time' must hold values of one type; it has str .*int 1"),
        ([1, 1.5], TypeError, "'time' must hold values of one type"),
        (["2024-01-01", "01.02.2024"], ValueError, r"ISO 8601.*str '01\.02\.2024' in row 1"),
        (["2024-01-01", "2024-1-2"], ValueError, "ISO 8601.*'2024-1-2' in row 1"),
        (["2024-01-01", ""], ValueError, "ISO 8601.*str '' in row 1"),
        (["9", "10"], ValueError, "ISO 8601.*'9' in row 0"),
        ([b"2024-01-01", b"2024-01-02"], ValueError, "ISO 8601.*bytes .* in row 0"),
        (
            ["2024-01-01T00:00:00.123456", "2024-01-01T00:00:00.1234567"],
            ValueError,
            "row 1 .*more than six digits",
        ),
        (["2024-01-01T00Z", "2024-01-01T00"], ValueError, "'time' cannot be ordered: .*offset-"),
        ([START, START.replace(tzinfo=UTC)], ValueError, "'time' cannot be ordered"),
        ([1j, 2j], ValueError, "'time' cannot be ordered"),
    ],
)
def test_times_without_an_order(time, error, match):
    with pytest.raises(error, match=match):
        sequences_from_events({"case": [1, 1], "activity": [1, 2], "time": time}, *NAMES)


def test_masked_values_and_lazy_tables_are_refused():
    masked = np.ma.array([1, 1, 2], mask=[0, 1, 0])
    with pytest.raises(ValueError, match="row 1"):
        sequences_from_events({"c": masked, "a": ["x", "y", "z"]}, "c", "a")
    polars = pytest.importorskip("polars")
    with pytest.raises(TypeError, match="LazyFrame: collect"):
        sequences_from_events(polars.LazyFrame({"c": [1], "a": ["x"]}), "c", "a")
