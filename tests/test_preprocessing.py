"""Sequences into object arrays and contexts: every accepted form, and what is refused."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from sklntp.preprocessing import as_sequences, make_contexts

RAGGED = [["a", "b", "c"], ["b"], ["c", "a"]]
EQUAL = [["a", "b"], ["c", "d"], ["e", "f"]]
CELLS = {"list": list, "tuple": tuple, "array": np.array, "Series": pd.Series}


def _object_array(cells, shape=None):
    array = np.empty(len(cells), dtype=object)
    for i, cell in enumerate(cells):
        array[i] = cell
    return array if shape is None else array.reshape(shape)


HOLDERS = {
    "list": list,
    "tuple": tuple,
    "object array": _object_array,
    "object column": lambda cells: _object_array(cells, (-1, 1)),
    "Series": lambda cells: pd.Series(_object_array(cells), index=[7, 3, 5]),
    "DataFrame": lambda cells: pd.DataFrame({"x": _object_array(cells)}, index=[7, 3, 5]),
}


def _plain(sequences):
    assert isinstance(sequences, np.ndarray)
    assert sequences.dtype == object
    assert sequences.ndim == 1
    return [list(cell) for cell in sequences]


@pytest.mark.parametrize("data", [RAGGED, EQUAL], ids=["ragged", "equal lengths"])
@pytest.mark.parametrize("cell", CELLS.values(), ids=CELLS)
@pytest.mark.parametrize("holder", HOLDERS.values(), ids=HOLDERS)
def test_every_holder_and_cell_gives_the_same_sequences(holder, cell, data):
    X = holder([cell(tokens) for tokens in data])
    assert _plain(as_sequences(X)) == data
    contexts, y, groups = make_contexts(X)
    expected = make_contexts(data)
    assert contexts.tolist() == expected[0].tolist()
    assert y.tolist() == expected[1].tolist()
    assert groups.tolist() == expected[2].tolist()


@pytest.mark.parametrize("data", [RAGGED, EQUAL], ids=["ragged", "equal lengths"])
def test_polars_holds_sequences(data):
    pl = pytest.importorskip("polars")
    for X in (pl.Series(data), pl.DataFrame({"x": data}), [pl.Series(tokens) for tokens in data]):
        assert _plain(as_sequences(X)) == data
        assert make_contexts(X)[0].tolist() == make_contexts(data)[0].tolist()


def test_polars_tables():
    pl = pytest.importorskip("polars")
    assert as_sequences(pl.DataFrame({"x": [1, 3], "y": [2, 4]})).tolist() == [[1, 2], [3, 4]]
    assert as_sequences(pl.DataFrame({"x": ["ab", "c"]})).tolist() == [["ab"], ["c"]]


def test_cells_are_the_sequences_themselves():
    X = [["a"], ("b", "c"), np.array([1, 2])]
    assert all(cell is given for cell, given in zip(as_sequences(X), X, strict=True))


@pytest.mark.parametrize(
    "table",
    [
        np.array([[1, 2], [3, 4]]),
        np.array([[1, 2], [3, 4]], dtype=object),
        pd.DataFrame({"x": [1, 3], "y": [2, 4]}),
    ],
    ids=["array", "object array", "DataFrame"],
)
def test_rows_of_a_table_are_sequences(table):
    assert as_sequences(table).tolist() == [[1, 2], [3, 4]]


@pytest.mark.parametrize(
    "column",
    [
        np.array([["ab"], ["c"]]),
        np.array([["ab"], ["c"]], dtype=object),
        pd.DataFrame({"x": ["ab", "c"]}),
    ],
    ids=["array", "object array", "DataFrame"],
)
def test_a_column_of_tokens_is_a_table_of_width_one(column):
    assert as_sequences(column).tolist() == [["ab"], ["c"]]


def test_no_sequences():
    assert as_sequences([]).shape == (0,)
    X, y, groups = make_contexts([])
    assert (X.shape, y.shape, groups.shape) == ((0,), (0,), (0,))


@pytest.mark.parametrize("function", [as_sequences, make_contexts])
@pytest.mark.parametrize(
    ("X", "error", "match"),
    [
        ("the cat", ValueError, "split into tokens.*one string, 'the cat'"),
        ([["a"], "the cat"], ValueError, "Sentence 1 must be split into tokens.*'the cat'"),
        (pd.Series(["the cat"]), ValueError, "Sentence 0 must be split into tokens"),
        ([["a"], 3], TypeError, "Sentence 1 must be a sequence of tokens; got int 3"),
        ([["a"], {"b": 1}], TypeError, "Sentence 1 .*got dict"),
        ([np.eye(2), ["a"]], TypeError, "Sentence 0 must be a sequence.*got ndarray"),
        (np.arange(3), ValueError, "Reshape your data"),
        (np.zeros((2, 2, 2)), ValueError, "dim 3"),
        (sparse.eye(3), TypeError, "Sparse data"),
        (iter([["a"]]), TypeError, "X must be a list.*got list_iterator"),
        (None, TypeError, "X must be a list, .*; got NoneType"),
    ],
)
def test_what_is_no_sequence_is_refused(function, X, error, match):
    with pytest.raises(error, match=match):
        function(X)


def test_contexts_are_all_prefixes_with_their_next_token():
    sequences = [[5, 6, 5, 7], [], [8], [6, 5]]
    X, y, groups = make_contexts(sequences)
    assert X.tolist() == [[5], [5, 6], [5, 6, 5], [6]]
    assert y.tolist() == [6, 5, 7, 5]
    assert groups.tolist() == [0, 0, 0, 3]
    assert X.dtype == object and X.ndim == 1
    assert y.dtype == np.int64
    assert groups.dtype.kind == "i"


def test_contexts_of_equal_length_stay_one_dimensional():
    X, _, _ = make_contexts([["a", "b"], ["c", "d"]])
    assert X.shape == (2,)
    assert X.tolist() == [["a"], ["c"]]


@pytest.mark.parametrize("max_length", [1, 2, 3, np.int64(4), 50, None])
def test_max_length_keeps_the_last_tokens(max_length):
    rng = np.random.RandomState(0)
    sequences = [rng.randint(5, size=size).tolist() for size in (7, 1, 4)]
    X, y, groups = make_contexts(sequences, max_length=max_length)
    whole = [(s[:end], s[end], i) for i, s in enumerate(sequences) for end in range(1, len(s))]
    assert len(X) == 6 + 0 + 3
    for x, target, group, (prefix, *expected) in zip(X, y, groups, whole, strict=True):
        assert x == (prefix if max_length is None else prefix[-max_length:])
        assert [target, group] == expected


@pytest.mark.parametrize(
    ("max_length", "error", "match"),
    [
        (0, ValueError, "max_length must be at least 1; got 0"),
        (-2, ValueError, "max_length must be at least 1; got -2"),
        (2.0, TypeError, "max_length must be an integer or None; got 2.0"),
        (True, TypeError, "max_length must be an integer or None; got True"),
        ("2", TypeError, "max_length must be an integer or None; got '2'"),
    ],
)
def test_bad_max_length(max_length, error, match):
    with pytest.raises(error, match=match):
        make_contexts(RAGGED, max_length=max_length)


@pytest.mark.parametrize(
    ("sequences", "match"),
    [
        ([["a", "b"], ["a", 1]], "sentence 0, position 0 .*but sentence 1, position 1 holds int 1"),
        ([[1], [], ["a"]], "sentence 0, position 0 holds int 1, but sentence 2, position 0"),
        ([[1, 2], [1, 2.0]], r"Sentence 1, position 1: .*got float 2\.0"),
        ([["a", None]], "Sentence 0, position 1: .*got NoneType None"),
        ([[1, True]], "Sentence 0, position 1: .*got bool True"),
        ([np.array([True, False])], "Sentence 0, position 0: .*got bool True"),
        ([["a", ["b"]]], "Sentence 0, position 1: .*got list"),
        (np.array([[1.0, 2.0]]), r"Sentence 0, position 0: .*got float 1\.0"),
    ],
)
def test_bad_tokens_are_named_with_their_place(sequences, match):
    with pytest.raises(TypeError, match=match):
        make_contexts(sequences)


def test_numpy_scalars_become_plain_tokens():
    X, y, _ = make_contexts([[np.int8(1), 2, np.int64(3)], np.array([1, 2], dtype=np.uint8)])
    assert {type(token) for x in X for token in x} == {int}
    assert y.tolist() == [2, 3, 2]
    X, y, _ = make_contexts([[np.str_("a"), "b"]])
    assert type(X[0][0]) is str
    assert y.dtype.kind == "U"


def test_trailing_nul_characters_survive():
    _, y, _ = make_contexts([["a", "b\0"], ["a", "b"]])
    assert y.tolist() == ["b\0", "b"]


def test_an_integer_beyond_64_bits_is_kept():
    _, y, _ = make_contexts([[0, -(2**63), 2**63 - 1]])
    assert y.dtype == np.int64
    assert y.tolist() == [-(2**63), 2**63 - 1]
    assert make_contexts([[0, 2**63, -1]])[1].tolist() == [2**63, -1]


def test_input_is_not_changed():
    sequences = [["a", "b", "c"], ("a", "b")]
    X, _, _ = make_contexts(sequences)
    X[0].append("z")
    assert sequences == [["a", "b", "c"], ("a", "b")]
