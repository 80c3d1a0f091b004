"""Sentences to merged contexts: every form gives the bits that slow plain Python gives."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from data import CHAIN, assert_same_fit, fitted
from numpy.testing import assert_array_equal

from sklntp import NTPTransformerClassifier
from sklntp._coding import code_ints, code_objects
from sklntp._contexts import merge_contexts, merge_labels
from sklntp._dataset import merge_data
from sklntp._sequences import read_sequences
from sklntp.preprocessing import as_sequences

# Merging


def random_codes(seed, n_tokens):
    """Codes 0 to n_tokens and offsets: sentences of several lengths, many of them twice."""
    rng = np.random.default_rng(seed)
    n = int(rng.integers(1, 400))
    longest = int(rng.choice([1, 2, 5, 12, 60]))
    lengths = rng.integers(1, longest + 1, n) if seed % 3 else np.full(n, longest)
    pool = rng.integers(0, n_tokens + 1, int(rng.choice([2, 5, 10_000])))  # n_tokens: unknown
    sentences = [rng.choice(pool, length) for length in lengths]
    for i in rng.integers(0, n, n // 3):
        again = sentences[i].copy()
        rng.shuffle(again[:-1])
        sentences.append(again)
    lengths = [len(sentence) for sentence in sentences]
    return np.concatenate(sentences), np.concatenate([[0], np.cumsum(lengths)]).astype(np.intp)


def slow_contexts(codes, offsets):
    """The key of each sentence's context, in the order that contexts have."""
    keys = []
    for start, stop in zip(offsets[:-1].tolist(), offsets[1:].tolist(), strict=True):
        bag = sorted(Counter(codes[start:stop].tolist()).items())
        tokens, counts = zip(*bag, strict=True)
        keys.append((len(bag), int(codes[stop - 1]), tokens, counts))
    return keys


@pytest.mark.parametrize("n_tokens", [1, 3, 40, 1000, 70_000, 2_000_000])
@pytest.mark.parametrize("seed", range(12))
def test_contexts_are_those_of_a_slow_reference(seed, n_tokens):
    codes, offsets = random_codes(seed, n_tokens)
    keys = slow_contexts(codes, offsets)
    distinct = sorted(set(keys))
    for dtype in (np.int32, np.int64):
        contexts = merge_contexts(codes.astype(dtype), offsets, n_tokens)
        assert contexts.lengths.tolist() == [key[0] for key in distinct]
        assert contexts.query.tolist() == [key[1] for key in distinct]
        assert contexts.tokens.tolist() == [token for key in distinct for token in key[2]]
        assert contexts.counts.tolist() == [count for key in distinct for count in key[3]]
        assert [distinct[c] for c in contexts.inverse] == keys
        assert all(
            getattr(contexts, name).dtype == np.intp
            for name in ("offsets", "tokens", "counts", "query", "inverse")
        )


def test_sentences_of_more_tokens_than_are_sorted_at_a_time(monkeypatch):
    codes, offsets = random_codes(1, 1000)
    expected = merge_contexts(codes, offsets, 1000)
    for piece in (1, 7, 100):
        monkeypatch.setattr("sklntp._contexts._PIECE", piece)
        contexts = merge_contexts(codes, offsets, 1000)
        for name in ("offsets", "tokens", "counts", "query", "inverse"):
            assert_array_equal(getattr(contexts, name), getattr(expected, name))


def test_contexts_that_differ_in_their_last_count_alone():
    rows = [[*range(1, 40), *[39] * k, 0] for k in (3, 1, 2, 1)] + [[5, 0], [5, 5, 0]]
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    contexts = merge_contexts(np.concatenate(rows), offsets, 40)
    assert contexts.inverse.tolist() == [4, 2, 3, 2, 0, 1]


def test_many_and_few_sentences_are_sorted_alike():
    rng = np.random.default_rng(0)
    rows = [rng.choice(70_000, 12, replace=False).tolist() * 2 for _ in range(150)]
    rows += [[*row[:-1], row[-1] + 1] for row in rows[:50]] + rows[:100]
    few = slow_contexts(np.concatenate(rows), np.arange(len(rows) + 1) * 24)
    few_distinct = sorted(set(few))
    for repeats in (1, 20):
        X = rows * repeats
        contexts = merge_contexts(np.concatenate(X), np.arange(len(X) + 1) * 24, 80_000)
        assert [few_distinct[c] for c in contexts.inverse] == few * repeats


@pytest.mark.parametrize("weights", ["equal", "integers", "any"])
@pytest.mark.parametrize("seed", range(5))
def test_weights_of_a_label_are_added_in_increasing_order(seed, weights):
    codes, offsets = random_codes(seed, 3)
    rng, n = np.random.default_rng(seed), len(offsets) - 1
    classes = rng.integers(0, 3, n)
    weight = {
        "equal": np.full(n, 0.1),
        "integers": rng.integers(1, 9, n).astype(float),
        "any": rng.uniform(0.1, 1.0, n),
    }[weights]
    contexts = merge_contexts(codes, offsets, 3)
    labels = merge_labels(contexts, classes, weight, 3)
    expected = {}
    for *key, w in sorted(zip(contexts.inverse, classes, weight, strict=True)):
        expected[tuple(key)] = expected.get(tuple(key), 0.0) + w
    assert list(zip(labels.context, labels.classes, strict=True)) == list(expected)
    assert labels.weight.tolist() == list(expected.values())


# Tokens to codes


def assert_codes(read, tokens, codes, lengths=None):
    assert read.tokens == tokens and [type(t) for t in read.tokens] == [type(t) for t in tokens]
    assert_array_equal(read.codes, codes)
    if lengths is not None:
        assert_array_equal(read.lengths, lengths)


def read(X):
    return read_sequences(None, X, reset=True)


def same_read(X, rows):
    """X is read as the rows of plain tokens are, and these as plain Python says."""
    expected = read(rows)
    flat = [token for row in rows for token in row]
    tokens = sorted(set(flat))
    assert_codes(expected, tokens, [tokens.index(t) for t in flat], [len(row) for row in rows])
    actual = read(X)
    assert_codes(actual, expected.tokens, expected.codes, expected.lengths)
    if not (isinstance(X, np.ndarray) and X.ndim == 2):  # a table: for scikit-learn to count
        assert actual.features == expected.features
    assert actual.codes.dtype == expected.codes.dtype == np.int32


INT_TABLES = {
    "int8": np.array([[-128, 127], [0, -1]], dtype=np.int8),
    "uint8": np.array([[255, 0], [7, 7]], dtype=np.uint8),
    "other byte order": np.array([[1, 256], [-2, 256]], dtype=">i4"),
    "int64 at its ends": np.array([[-(2**63), 2**63 - 1], [0, 5]]),
    "uint64 at its end": np.array([[2**64 - 1, 2**64 - 3], [2**64 - 2] * 2], dtype=np.uint64),
    "uint64, wide": np.array([[2**64 - 1, 0], [2**63, 2]], dtype=np.uint64),
    "int64, above 2**53": np.array([[2**60, 2**60 + 1], [2**60 + 3] * 2]),
    "negative, narrow": np.array([[-(2**63), -(2**63) + 2], [-(2**63) + 1] * 2]),
    "columns first": np.asfortranarray([[3, 1, 2], [9, 1, 4]]),
    "strided": np.arange(40).reshape(4, 10)[::2, ::3],
}


@pytest.mark.parametrize("table", INT_TABLES.values(), ids=INT_TABLES)
def test_ints_in_arrays(table):
    rows = table.tolist()
    same_read(table, rows)
    same_read(list(table), rows)
    same_read(as_sequences(list(table)), rows)
    same_read([*table, table[0][:1]], [*rows, rows[0][:1]])


@pytest.mark.parametrize("seed", range(6))
def test_codes_of_many_ints(seed):
    rng = np.random.default_rng(seed)
    values = rng.integers(-(10 ** (3 * seed)), 10 ** (3 * seed) + 1, 200_000)
    tokens, codes = code_ints(values)
    expected, inverse = np.unique(values, return_inverse=True)
    assert tokens == expected.tolist()
    assert_array_equal(codes, inverse)


def test_codes_of_many_strings():
    rng = np.random.default_rng(0)
    values = [f"t{k}" for k in rng.integers(0, 60_000, 200_000)]
    tokens, codes = code_objects(iter(values), len(values))
    expected, inverse = np.unique(values, return_inverse=True)
    assert tokens == expected.tolist()
    assert_array_equal(codes, inverse)


@pytest.mark.parametrize(
    "rows",
    [
        [[2**63, 1], [2**64]],
        [[10**400, 1], [-(10**400)]],
        [[1, 2], (3,), [2, 2, 2]],
        [["b", "a"], ("a\0", "a"), ["ä", "\U0001f600", "z", ""]],
    ],
    ids=["above int64", "any size", "lists and tuples", "str"],
)
def test_plain_tokens(rows):
    same_read(rows, rows)
    same_read(tuple(rows), rows)
    same_read(as_sequences(rows), rows)
    same_read([list(row) for row in rows], rows)


@pytest.mark.parametrize(
    ("X", "rows"),
    [
        ([np.array([1]), np.array([2**64 - 1], dtype=np.uint64)], [[1], [2**64 - 1]]),
        ([np.array([-1]), np.array([3], dtype=np.uint8)], [[-1], [3]]),
        ([[np.uint64(2**63)], [1]], [[2**63], [1]]),
        ([[np.int8(-3), 2], [np.int64(2)]], [[-3, 2], [2]]),
        ([np.array(["b", "abc"]), np.array(["b"])], [["b", "abc"], ["b"]]),
        ([np.array(["b", "abc"]), ["b"]], [["b", "abc"], ["b"]]),
        ([[np.str_("b"), "a"], ["b"]], [["b", "a"], ["b"]]),
        (np.array([["b", "abc"], ["b", "b"]]), [["b", "abc"], ["b", "b"]]),
        (np.array([["b", "abc"], ["b", "b"]], dtype=object), [["b", "abc"], ["b", "b"]]),
        ([pd.Series([1, 2]), pd.Series([2])], [[1, 2], [2]]),
    ],
)
def test_tokens_of_numpy_are_plain(X, rows):
    same_read(X, rows)


@pytest.mark.parametrize(
    "columns",
    [
        {"a": [3, 1], "b": [2, 2]},
        {"a": np.array([1, 2], dtype=np.uint64), "b": np.array([-1, 2**60 + 1])},
        {"a": pd.array([1, 2**60 + 1], dtype="Int64"), "b": [1, 2]},
        {"a": np.array([1, 2], dtype=np.int8), "b": np.array([300, 2], dtype=np.int16)},
    ],
)
def test_int_columns_of_a_frame(columns):
    rows = [list(map(int, row)) for row in zip(*columns.values(), strict=True)]
    assert_codes(read(pd.DataFrame(columns)), (expected := read(rows)).tokens, expected.codes)
    polars = pytest.importorskip("polars")
    frame = polars.DataFrame({name: [int(v) for v in values] for name, values in columns.items()})
    assert_codes(read(frame), expected.tokens, expected.codes)


def test_a_missing_int_in_a_frame_is_named():
    polars = pytest.importorskip("polars")
    for frame in (
        pd.DataFrame({"a": [1, 2], "b": pd.array([1, None], dtype="Int64")}),
        polars.DataFrame({"a": [1, 2], "b": [1, None]}),
    ):
        with pytest.raises(TypeError, match="Sentence 1, position 1"):
            read(frame)


def test_durations_are_no_ints():
    with pytest.raises(TypeError):
        read([[np.timedelta64(1)], [np.timedelta64(2)]])


@pytest.mark.parametrize(
    "y",
    [
        ["b", "a", "b", "c"],
        np.array(["b", "a", "b", "long"]),
        np.array(["b", "a", "b", "c"], dtype=object),
        ["a\0", "a", "a", "b"],
        [3, 1, 3, 2],
        np.array([3, 1, 3, 255], dtype=np.uint8),
        np.array([2**64 - 1, 0, 1, 0], dtype=np.uint64),
        np.array([3.0, 1.0, 3.0, 2.0]),
        [True, False, True, True],
        pd.Series(["b", "a", "b", "c"]),
    ],
    ids=str,
)
def test_classes_are_those_of_np_unique(y):
    merged = merge_data([["a"], ["b"], ["c"], ["d"]], y)
    array = np.asarray(y, dtype=object if "a\0" in list(y) else None)
    classes, codes = np.unique(array, return_inverse=True)
    assert merged["classes"].dtype == classes.dtype
    assert_array_equal(merged["classes"], classes)
    assert_array_equal(merged["label_codes"], codes)


def test_a_weight_of_zero_drops_the_sentence_and_its_tokens():
    X, y = [["a", "b"], ["z"], ["b", "c"], ["y", "a"]], ["a", "b", "c", "a"]
    some = merge_data(X, y, [1, 0, 2, 0])
    less = merge_data([X[0], X[2]], [y[0], y[2]], [1, 2])
    assert some["vocabulary"] == less["vocabulary"] == ["a", "b", "c"]
    assert_array_equal(some["contexts"].tokens, less["contexts"].tokens)
    assert_array_equal(some["labels"].weight, less["labels"].weight)
    assert some["sentences"].tolist() == [0, 2]


# Columns of lists


def arrow(rows, list_type=None):
    pa = pytest.importorskip("pyarrow")
    return pa.array(rows, list_type and list_type(pa))


def arrow_chunks(rows):
    pa = pytest.importorskip("pyarrow")
    kind = pa.array(rows).type
    parts = [rows[:1], [], rows[1:3], rows[3:]]
    return pa.chunked_array([pa.array(part, kind) for part in parts], kind)


def arrow_slice(rows):
    around = [rows[-1][::-1], *rows, rows[0], rows[0]]
    return arrow(around)[1:-2]


def dictionary(rows, list_type="list_"):
    """With values that do not occur, and one that stands there twice."""
    pa = pytest.importorskip("pyarrow")
    if isinstance(rows[0][0], int):
        pytest.skip("dictionaries are for strings")
    values = ["unused", *sorted({token for row in rows for token in row}), rows[0][0], "zzz"]
    index = {token: code for code, token in reversed(list(enumerate(values)))}
    flat = [index[token] for row in rows for token in row]
    flat[0] = len(values) - 2
    flat = pa.DictionaryArray.from_arrays(pa.array(flat, pa.int16()), pa.array(values))
    return pa.ListArray.from_arrays(np.cumsum([0, *map(len, rows)]).astype(np.int32), flat)


def two_dictionaries(rows):
    pa = pytest.importorskip("pyarrow")
    return pa.chunked_array([dictionary(rows[:2]), dictionary(rows[2:])])


def pandas_arrow(rows):
    pytest.importorskip("pyarrow")
    column = arrow_chunks(rows)
    return pd.Series(column, dtype=pd.ArrowDtype(column.type), index=np.arange(len(rows))[::-1])


def polars(rows):
    return pytest.importorskip("polars").Series("x", rows)


COLUMNS = {
    "Arrow": arrow,
    "Arrow, large": lambda rows: arrow(
        rows, lambda pa: pa.large_list(pa.large_string() if "a" in str(rows) else pa.uint16())
    ),
    "Arrow, views": lambda rows: arrow(
        rows, lambda pa: pa.list_(pa.string_view() if "a" in str(rows) else pa.int8())
    ),
    "Arrow, list views": lambda rows: arrow(
        rows, lambda pa: pa.list_view(pa.string() if "a" in str(rows) else pa.int64())
    ),
    "Arrow, chunks": arrow_chunks,
    "Arrow, slice": arrow_slice,
    "Arrow, slice of chunks": lambda rows: arrow_chunks([rows[0], *rows, rows[0]])[1:-1],
    "Arrow, dictionary": dictionary,
    "Arrow, dictionary, slice": lambda rows: dictionary([rows[0], *rows])[1:],
    "Arrow, dictionaries": two_dictionaries,
    "Arrow table": lambda rows: pytest.importorskip("pyarrow").table({"x": arrow_chunks(rows)}),
    "pandas Series of Arrow": pandas_arrow,
    "pandas DataFrame of Arrow": lambda rows: pandas_arrow(rows).to_frame("x"),
    "polars Series": polars,
    "polars DataFrame": lambda rows: polars(rows).to_frame(),
    "polars slice": lambda rows: polars([rows[1], *rows, rows[0]])[1:-1],
    "polars chunks": lambda rows: polars(rows[:2]).append(polars(rows[2:])),
}
FIXED = {
    "Arrow": lambda rows: arrow(
        rows,
        lambda pa: pa.list_(pa.string() if isinstance(rows[0][0], str) else pa.int32(), 2),
    ),
    "Arrow, slice": lambda rows: FIXED["Arrow"]([rows[1], *rows, rows[0]])[1:-1],
    "polars": lambda rows: polars(rows).list.to_array(2),
}
NUMBERS = [["abcd".index(token) for token in row] for row in CHAIN[0]]


@pytest.fixture
def by_column(monkeypatch):
    """Reading row by row fails."""

    def refuse(X):
        raise AssertionError("read row by row")

    def activate():
        monkeypatch.setattr("sklntp._sequences.ragged_rows", refuse)

    return activate


@pytest.mark.parametrize("rows", [CHAIN[0], NUMBERS], ids=["str", "int"])
@pytest.mark.parametrize("form", COLUMNS.values(), ids=COLUMNS)
def test_columns_of_lists_are_the_lists(form, rows, by_column):
    X, y = form(rows), CHAIN[1]
    clf, expected = fitted((X, y)), fitted((rows, y))
    assert_same_fit(clf, expected)
    assert not hasattr(clf, "n_features_in_")
    assert clf.predict(X).tolist() == expected.predict(rows).tolist()
    assert_array_equal(clf.predict_proba(X), expected.predict_proba(rows))
    for actual, plain in zip(clf.attention(X), expected.attention(rows), strict=True):
        assert_array_equal(actual, plain)
    by_column()
    read(X)


@pytest.mark.parametrize("rows", [[["a", "b"], ["b", "c"]], [[1, 2], [-1, 1]]], ids=["str", "int"])
@pytest.mark.parametrize("form", FIXED.values(), ids=FIXED)
def test_lists_of_fixed_size_are_the_lists(form, rows, by_column):
    X, y = form(rows), ["b", "c"]
    clf, expected = fitted((X, y)), fitted((rows, y))
    assert_same_fit(clf, expected)
    assert clf.n_features_in_ == expected.n_features_in_ == 2
    by_column()
    read(X)


def message(X):
    with pytest.raises((TypeError, ValueError)) as info:
        NTPTransformerClassifier().fit(X, ["a", "b", "c"])
    return type(info.value), str(info.value)


WRONG = {
    "no list": [["a"], None, ["b"]],
    "no token": [["a"], ["b", None], ["b"]],
    "no int": [[1], [2, None], [3]],
    "empty": [["a"], ["b", "a"], []],
    "all empty": [[], [], []],
    "float": [[1.0], [2.5], [1.0, 3.0]],
    "bool": [[True], [False], [True, True]],
    "list": [[["a"]], [["b"]], [["a", "b"]]],
    "bytes": [[b"a"], [b"b"], [b"a"]],
}


@pytest.mark.parametrize("rows", WRONG.values(), ids=WRONG)
@pytest.mark.parametrize("form", [arrow, arrow_chunks, arrow_slice, pandas_arrow, polars])
def test_what_is_wrong_in_a_column_is_told_as_of_lists(form, rows):
    if form is arrow_slice and rows is WRONG["no list"]:
        around = [rows[0], *rows]
        assert message(arrow(around)[1:]) == message(rows)
        return
    kind, text = message(form(rows))
    assert (kind, text.replace("NAType <NA>", "NoneType None")) == message(rows)  # pandas


@pytest.mark.parametrize("form", [arrow, arrow_chunks, polars])
def test_a_column_of_no_lists(form):
    with pytest.raises(ValueError, match="Sentence 0 must be split into tokens.* 'the cat'"):
        read(form(["the cat", "a dog", "b", "c"]))
    with pytest.raises(ValueError, match="Expected 2D array, got 1D array"):
        read(form([1, 2, 3, 4]))


@pytest.mark.parametrize("form", [arrow, polars])
def test_a_column_without_sentences(form):
    pytest.importorskip("pyarrow")
    empty = form([["a"]])[:0]
    with pytest.raises(ValueError, match=r"\b0 sample"):
        NTPTransformerClassifier().fit(empty, [])
    assert fitted(CHAIN).predict(empty).shape == (0,)


@pytest.mark.parametrize("form", [arrow, dictionary, pandas_arrow, polars])
def test_a_column_is_a_collection_of_sequences_to_all_functions(form):
    assert as_sequences(form(CHAIN[0])).tolist() == CHAIN[0]
