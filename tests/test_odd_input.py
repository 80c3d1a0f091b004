"""Odd input gives the right answer or an error that says what is wrong; one test per kind."""

import datetime

import numpy as np
import pandas as pd
import pytest
from data import CYC, ONE
from numpy.testing import assert_array_equal

from sklntp import NTPTransformerClassifier
from sklntp.structure import check_realizable

IDS = [1234567890123456789, 1234567890123456790, 1234567890123456791]


def fit(X, y, **kwargs):
    weight = kwargs.pop("sample_weight", None)
    return NTPTransformerClassifier(max_iter=3, **kwargs).fit(X, y, sample_weight=weight)


@pytest.mark.parametrize("dtype", ["Int64", "int64", object])
def test_large_ints_in_a_table_stay_distinct(dtype):
    table = pd.DataFrame({"a": IDS, "b": IDS[1:] + IDS[:1]}, dtype=dtype)
    assert fit(table, IDS).vocabulary_.tolist() == IDS
    assert fit(table.to_numpy(dtype=object), IDS).vocabulary_.tolist() == IDS


def test_ints_of_any_size_in_an_object_table():
    table = np.array([[10**400, 1], [10**400 + 1, 1]], dtype=object)
    assert fit(table, ["a", "b"]).vocabulary_.tolist() == [1, 10**400, 10**400 + 1]


def test_polars_tables_keep_their_cells():
    pl = pytest.importorskip("polars")
    table = pl.DataFrame({"a": IDS, "b": [1.5, 2.0, 1.0]})
    assert fit(table, IDS).vocabulary_.tolist() == [1.0, 1.5, 2.0, *IDS]


@pytest.mark.parametrize(
    ("X", "match"),
    [
        (np.array([[True, 2], [1, True]], dtype=object), "Sentence 0, position 0.* bool True"),
        (pd.DataFrame({"a": [1, 2], "b": [True, False]}), "Sentence 0, position 1.* bool True"),
        (np.array([[True, False]] * 2), "Sentence 0, position 0.* bool True"),
        (np.array([["2020", "NaT"]] * 2, dtype="M8[D]"), "Sentence 0, position 0.* date"),
        (pd.DataFrame({"a": pd.to_datetime(["2020-01-01", None])}), "Sentence 0.* Timestamp"),
        (np.array([[datetime.date(2020, 1, 1)]] * 2, dtype=object), "Sentence 0.* date"),
        ([{"a", "b"}, {"c"}], "Sentence 0 must be a sequence of tokens; got set"),
        ([bytearray(b"ab"), bytearray(b"b")], "Sentence 0 must be a sequence.* bytearray"),
        ([pd.DataFrame({"a": [1]}), ["b"]], "Sentence 0 must be a sequence.* DataFrame"),
    ],
)
def test_what_is_no_token_is_refused_with_its_place(X, match):
    with pytest.raises(TypeError, match=match):
        fit(X, ["a", "b"])


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_numbers_that_are_not_finite_in_a_table_of_cells(value):
    table = pd.DataFrame({"a": [1, 2], "b": [1.0, value]})
    with pytest.raises(ValueError, match="Input X contains (NaN|infinity): sentence 1, position 1"):
        fit(table, ["a", "b"])


@pytest.mark.parametrize(
    ("y", "error", "match"),
    [
        ([True, 1, 2], TypeError, r"y\[0\] is bool True, but y\[1\] is int 1"),
        ([1, 2**63, 2], ValueError, "64 bits"),
        ([2**53, 2**53 + 1, 1.0], ValueError, "without changing"),
        (np.array([1.0, np.nan, 2.0]), ValueError, r"y\[1\], the next token of sentence 1"),
        (np.array(["2020", "NaT", "2020"], dtype="M8[D]"), ValueError, r"y\[1\].* missing"),
        ({"a", "b", "c"}, TypeError, "y must be a list or array.* set"),
        ((v for v in "abc"), TypeError, "y must be a list or array.* generator"),
    ],
)
def test_next_tokens_that_are_none(y, error, match):
    with pytest.raises(error, match=match):
        fit([["a"], ["b"], ["c"]], y)


def test_only_ratios_of_weights_count():
    for weight in (1e308, 1e300, 1e-300, 5e-324):
        for stages in (("ov", "kq"), ("joint",)):
            one = fit(*ONE, stages=stages, sample_weight=[weight] * 4)
            same = fit(*ONE, stages=stages)
            assert_array_equal(one.coef_ov_, same.coef_ov_)
            assert_array_equal(one.coef_kq_, same.coef_kq_)


@pytest.mark.parametrize(
    ("weight", "match"),
    [
        ([1e-300, 1, 1, 1e300], "too wide a range"),
        ([1e-200, 1, 1, 1], "too wide a range"),
        ([10**400, 1, 1, 1], "sample_weight"),
        ([1, 1, "a", 1], r"sample_weight\[2\] is str 'a'"),
        ([1, 1, 1j, 1], r"sample_weight\[2\] is complex"),
    ],
)
def test_weights_that_cannot_be_used(weight, match):
    with pytest.raises(ValueError, match=match):
        fit(*ONE, sample_weight=weight)


def test_a_failed_fit_leaves_the_fitted_state():
    clf = fit(np.array([["a", "b"], ["b", "a"]]), ["a", "b"])
    for X, y in (
        (np.array([["a", "b", "c"], ["b", "a", "c"]]), ["a"]),
        ([["a"], []], ["a", "b"]),
        ([["a"], ["b"]], [None, "b"]),
    ):
        with pytest.raises(ValueError):
            clf.fit(X, y)
        assert clf.n_features_in_ == 2
        assert clf.predict(np.array([["a", "b"]])).shape == (1,)


def test_after_max_margin_the_history_describes_the_model():
    clf = NTPTransformerClassifier(max_iter=10, warm_start=True).fit(*ONE)
    clf.set_params(solver="max_margin", max_iter=100).fit(*ONE)
    for stage, coef in (("ov", clf.coef_ov_), ("kq", clf.coef_kq_)):
        curve = clf.convergence_[stage]
        assert curve["stop_reason"] == "max_margin"
        np.testing.assert_allclose(curve["norm"], [np.linalg.norm(coef)], rtol=1e-12)


def test_a_warm_start_on_other_data_records_its_own_start():
    clf = NTPTransformerClassifier(max_iter=10, warm_start=True).fit(*ONE)
    before = clf.convergence_["kq"]["loss"]
    X, y = [*ONE[0], ["b", "c"], ["b", "c"]], [*ONE[1], "c", "a"]
    clf.fit(X, y)
    after = clf.convergence_["kq"]["loss"]
    assert len(after) == 21
    assert_array_equal(after[:10], before[:10])
    assert after[10] != before[10]


@pytest.mark.parametrize(
    ("vocabulary", "error", "match"),
    [
        ({"a", "b", "c"}, TypeError, "sequence.*got set"),
        ({"a": 1}, TypeError, "sequence.*got dict"),
        ([1.0, float("nan")], ValueError, "got nan"),
        ([1.0, float("inf")], ValueError, "got inf"),
        (["x", "y"], ValueError, "No token of X is in the vocabulary; X holds 'a', 'b', 'c'"),
    ],
)
def test_vocabularies_that_are_none(vocabulary, error, match):
    with pytest.raises(error, match=match):
        check_realizable(*CYC, vocabulary=vocabulary)


@pytest.mark.parametrize(
    "params",
    [
        {"step_size": 10**400},
        {"step_size": (10**400, 0.1)},
        {"max_iter": 10**30},
        {"max_iter": (1, 2**62)},
        {"stages": (np.array([1, 2]), "x")},
        {"step_size": (0.1,) * 100_000},
    ],
)
def test_parameters_out_of_range_are_named_in_a_short_message(params):
    with pytest.raises(ValueError, match=next(iter(params))) as info:
        NTPTransformerClassifier(**params).fit(*CYC)
    assert len(str(info.value)) < 500


@pytest.mark.parametrize("schedule", ["constant", "invscaling"])
def test_max_margin_takes_no_steps_however_many_are_asked_for(schedule):
    clf = NTPTransformerClassifier(
        solver="max_margin", max_iter=10**12, step_schedule=schedule, step_size=1.0
    ).fit(*ONE)
    # sum of k^(-1/2) for k to n is 2 sqrt(n) + zeta(1/2) + O(1 / sqrt(n))
    norm = 1e12 if schedule == "constant" else 2e6 - 1.4603545088095868
    np.testing.assert_allclose(np.linalg.norm(clf.coef_kq_), norm, rtol=1e-12)


@pytest.mark.parametrize("name", ["collocation", "vocabulary"])
def test_messages_of_the_structure_functions_are_short(name):
    with pytest.raises((TypeError, ValueError), match=name) as info:
        check_realizable(*CYC, **{name: "a" * 3000})
    assert len(str(info.value)) < 500


def test_an_unknown_int_of_many_digits_is_named_by_its_size():
    clf = fit([[1], [2]], [2, 1], handle_unknown="error")
    with pytest.raises(ValueError, match="an int of 33220 bits"):
        clf.predict([[10**10_000]])


def test_columns_of_different_dtypes_keep_their_cells():
    table = pd.DataFrame({"a": [1.5, 1.5, 1.5], "b": IDS})
    assert fit(table, ["p", "q", "r"]).vocabulary_.tolist() == [1.5, *IDS]
    rows = [[1.5, i] for i in IDS]
    assert fit(rows, ["p", "q", "r"]).vocabulary_.tolist() == [1.5, *IDS]


@pytest.mark.parametrize("weight", [1.0, 1e-3, 1e6])
def test_a_sentence_with_an_unknown_query_leaves_the_path_as_it_is(weight):
    params = {"vocabulary": ["a", "b", "c"], "collocation": "single"}
    X, y = [*CYC[0], ["a", "b", "c"], ["b", "c"]], [*CYC[1], "b", "c"]
    clf = NTPTransformerClassifier(**params).fit(X, y)
    more = NTPTransformerClassifier(**params)
    more.fit([*X, ["a", "c", "z"]], [*y, "a"], sample_weight=[1.0] * 5 + [weight])
    assert more.n_iter_.tolist() == [1000, 1000]
    np.testing.assert_allclose(more.coef_kq_, clf.coef_kq_, rtol=0, atol=1e-10)


def test_what_falls_to_unknown_tokens_alone_does_not_stop_the_joint_stage():
    clf = NTPTransformerClassifier(
        stages=("joint",), vocabulary=["a", "b", "c"], collocation="single", max_iter=3000
    )
    clf.fit([*ONE[0], ["z"]], [*ONE[1], "b"])
    assert clf.n_iter_.tolist() == [3000]


def test_a_small_weight_beside_a_saturated_first_stage():
    clf = NTPTransformerClassifier(step_size=(80.0, 0.5), max_iter=(9, 200))
    assert clf.fit(*ONE, sample_weight=[1, 1, 1, 1e-145]).n_iter_.tolist() == [9, 200]


def test_max_margin_after_a_warm_start_has_the_norm_of_a_fresh_fit():
    params = {"step_schedule": "invscaling", "max_iter": 100}
    fresh = NTPTransformerClassifier(solver="max_margin", **params).fit(*ONE)
    clf = NTPTransformerClassifier(warm_start=True, **params).fit(*ONE)
    clf.set_params(solver="max_margin").fit(*ONE)
    assert_array_equal(clf.coef_kq_, fresh.coef_kq_)
