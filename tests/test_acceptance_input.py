"""Acceptance cases A (input forms), B (vocabulary and classes) and C (weights), by their ids."""

import warnings

import numpy as np
import pandas as pd
import pytest
from data import CHAIN, CONFLICT, CYC, FORMS, ONE, TWOQ, assert_same_fit, fitted, logits, plus
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.exceptions import DataConversionWarning
from sklearn.metrics import accuracy_score
from sklearn.model_selection import KFold, cross_val_predict, cross_val_score

from sklntp import NTPTransformerClassifier
from sklntp.preprocessing import as_sequences
from sklntp.structure import check_realizable

NAN = float("nan")
INTS = ([[1], [2], [3]], [2, 3, 1])


# A: input forms


def test_a1_sentences_of_several_lengths_need_no_padding():
    clf = fitted(ONE)
    assert clf.predict([["a", "b"]]).tolist() == ["b"]
    assert clf.predict(ONE[0]).tolist() == ONE[1]
    assert not [name for name in clf.get_params() if "pad" in name or "length" in name]


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a2_no_ragged_array_warning_leaks_out(form):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        clf = fitted((form(ONE[0]), ONE[1]))
        for method in (clf.predict, clf.predict_proba, clf.attention, clf.contributions):
            assert len(method(form(ONE[0]))) == 4


@pytest.mark.parametrize("empty", [[], (), np.array([])], ids=["list", "tuple", "array"])
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a7_an_empty_sentence_is_named_before_training(form, empty, capsys):
    clf = NTPTransformerClassifier(verbose=2)
    with pytest.raises(ValueError, match="Sentence 1 is empty"):
        clf.fit(form([["a"], empty]), ["a", "b"])
    assert not hasattr(clf, "classes_")
    assert capsys.readouterr().out == ""
    clf.set_params(verbose=0).fit(*ONE)
    for method in (clf.predict, clf.predict_proba, clf.attention):
        with pytest.raises(ValueError, match="Sentence 0 is empty"):
            method(form([empty]))
        with pytest.raises(ValueError, match="Sentence 2 is empty"):
            method(form([["a"], ["b"], empty]))


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a8_fit_without_sentences(form):
    with pytest.raises(ValueError, match=r"\b0 sample"):
        NTPTransformerClassifier().fit(form([]), [])


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a8_no_sentences_have_no_predictions(form):
    clf = fitted(ONE)
    predicted = clf.predict(form([]))
    assert predicted.shape == (0,) and predicted.dtype == clf.classes_.dtype
    for method in (clf.predict_proba, clf.predict_log_proba, clf.decision_function):
        assert method(form([])).shape == (0, 3)


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("method", ["attention", "contributions"])
def test_a8_no_sentences_have_no_attention(method, form):
    assert list(getattr(fitted(ONE), method)(form([]))) == []


@pytest.mark.parametrize("kind", [tuple, np.array, pd.Series, lambda s: np.array(s, dtype=object)])
def test_a9_sentences_as_tuples_or_arrays(kind):
    X = [kind(sentence) for sentence in CHAIN[0]]
    clf, expected = fitted((X, CHAIN[1])), fitted(CHAIN)
    assert_same_fit(clf, expected)
    assert_array_equal(clf.predict_proba(X), expected.predict_proba(CHAIN[0]))
    assert_same_fit(fitted((tuple(X), tuple(CHAIN[1]))), expected)


@pytest.mark.parametrize(
    "X",
    [
        [["a"], [1], ["1"]],
        [["a"], ["b", 1], ["c"]],
        as_sequences([["a"], [1], ["1"]]),
        np.array([["a"], [1], ["1"]], dtype=object),
    ],
)
def test_a10_tokens_of_two_types_are_refused(X):
    with pytest.raises(TypeError, match=r"sentence 0.* str 'a'.* sentence 1.* int 1\b"):
        NTPTransformerClassifier().fit(X, ["b", "c", "a"])
    with pytest.raises(TypeError, match=r"int 1\b.* str '1'"):
        NTPTransformerClassifier().fit([[1], ["1"], [2]], ["b", "c", "a"])


@pytest.mark.parametrize("form", [list, tuple, lambda y: np.array(y, dtype=object), pd.Series])
def test_a10_next_tokens_of_two_types_are_refused(form):
    with pytest.raises(TypeError, match=r"y\[0\] is int 1\b.* y\[1\] is str '1'"):
        NTPTransformerClassifier().fit(CYC[0], form([1, "1", "a"]))
    with pytest.raises(TypeError, match=r"int.*str"):
        NTPTransformerClassifier().fit([["a"], [1], ["1"]], form([1, "1", "a"]))


def test_a10_tokens_of_another_type_than_in_fit_are_refused():
    for data, X, match in ((CYC, [[1]], "numbers.*str"), (INTS, [["1"]], "str.*numbers")):
        with pytest.raises(TypeError, match=match):
            fitted(data).predict(X)


@pytest.mark.parametrize(
    "one", [np.array([[1]]), [[np.int64(1)]], [np.array([1], dtype=np.int8)], [[np.uint8(1)]]]
)
def test_a11_ints_of_numpy_are_ints(one):
    clf = fitted(INTS)
    assert_array_equal(clf.predict(one), [2])
    assert_array_equal(clf.predict_proba(one), clf.predict_proba([[1]]))


def test_a11_messages_show_plain_ints():
    clf = fitted(INTS, handle_unknown="error")
    for X in ([[np.int64(9)]], np.array([[9]]), [np.array([9], dtype=np.int8)]):
        with pytest.raises(ValueError, match=r"not in the vocabulary: 9\."):
            clf.predict(X)
    with pytest.raises(TypeError, match=r"int 1, .* str 'a'"):
        clf.predict([[np.int64(1)], ["a"]])
    with pytest.raises(ValueError, match=r"distinct tokens; 1 occurs twice"):
        fitted(INTS, vocabulary=[np.int64(1), np.int64(1)])


@pytest.mark.parametrize(
    "X",
    [
        [[True], [1], [0]],
        [[1], [1, True], [0]],
        [[np.True_], [1], [0]],
        [[True], [False], [True]],
        as_sequences([[True], [1], [0]]),
        np.array([[True], [False], [True]]),
        pd.DataFrame({"x": [True, False, True]}),
    ],
)
def test_a12_a_bool_is_no_token(X):
    with pytest.raises(TypeError, match=r"[Tt]oken.*\bbool"):
        NTPTransformerClassifier().fit(X, ["b", "c", "a"])


@pytest.mark.parametrize("missing", [None, NAN, pd.NA, pd.NaT], ids=repr)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a13_a_missing_token_is_named(form, missing):
    strings, ints = [["a"], ["b", missing], ["c"]], [[1], [2, missing], [3]]
    for X in (strings, ints):
        with pytest.raises((ValueError, TypeError), match="Sentence 1, position 1"):
            NTPTransformerClassifier().fit(form(X), ["b", "c", "a"])
    with pytest.raises((ValueError, TypeError), match="Sentence 1, position 0"):
        NTPTransformerClassifier().fit(form([["a"], [missing], ["c"]]), ["b", "c", "a"])
    with pytest.raises((ValueError, TypeError), match="Sentence 1, position 1"):
        fitted(CYC).predict(form(strings))
    with pytest.raises((ValueError, TypeError), match="Sentence 1, position 1"):
        fitted(INTS).predict(form(ints))


@pytest.mark.parametrize("missing", [None, NAN, pd.NA, pd.NaT], ids=repr)
@pytest.mark.parametrize("form", [list, lambda y: np.array(y, dtype=object)])
def test_a13_a_missing_next_token_is_named(form, missing):
    for labels in (["b", missing, "a"], [2, missing, 1]):
        with pytest.raises((ValueError, TypeError), match=r"y\[1\].* sentence 1\b.* missing"):
            NTPTransformerClassifier().fit(CYC[0], form(labels))


@pytest.mark.parametrize("X", [[[1], [NAN], [3]], np.array([[1], [NAN], [3]])])
def test_a13_nan_in_a_table_of_numbers_gets_the_text_of_scikit_learn(X):
    with pytest.raises(ValueError, match="Input X contains NaN"):
        NTPTransformerClassifier().fit(X, [1, 2, 3])


@pytest.mark.parametrize(
    ("y", "match"),
    [
        (pd.Series(["b", None, "a"]), r"y\[1\].* missing"),
        (pd.Series(["b", None, "a"], dtype="string"), r"y\[1\].* missing"),
        (pd.Series(["b", None, "a"], dtype="category"), r"y\[1\].* missing"),
        (pd.Series([2, None, 1], dtype="Int64"), r"y\[1\].* missing|y contains NaN"),
        (np.array([2, NAN, 1]), "y contains NaN"),
    ],
    ids=["str", "string", "category", "Int64", "array"],
)
def test_a13_missing_values_in_a_column_y(y, match):
    with pytest.raises(ValueError, match=match):
        NTPTransformerClassifier().fit(CYC[0], y)


@pytest.mark.parametrize(
    ("X", "match"),
    [
        ([[["a"], ["b"]]], r"Sentence 0, position 0: .*\blist\b"),
        ([["a"], ["b", {"c": 1}]], r"Sentence 1, position 1: .*\bdict\b"),
        ([[{"c": 1}, "a"]], r"Sentence 0, position 0: .*\bdict\b"),
        ([["a", ("b",)]], r"Sentence 0, position 1: .*\btuple\b"),
        ([["a"], [b"b"]], r"Sentence 1, position 0: .*\bbytes\b"),
        ([["a"], ["b", 1.5]], r"Sentence 1, position 1: .*\bfloat\b"),
        ([[1], [2, 1.5]], r"Sentence 1, position 1: .*\bfloat\b"),
        ([["a"], [np.array(["b"]), "a"]], r"Sentence 1, position 0: .*\bndarray\b"),
    ],
)
def test_a14_what_is_no_token_is_named_with_its_type(X, match):
    with pytest.raises(TypeError, match=match):
        NTPTransformerClassifier().fit(X, ["a", "b"][: len(X)])
    with pytest.raises(TypeError, match=match):
        fitted(CYC).predict(X)


def test_a15_series_are_paired_by_position():
    X = pd.Series(as_sequences(TWOQ[0]), index=[3, 1, 4, 0, 2])
    y = pd.Series(TWOQ[1], index=[0, 4, 2, 3, 1])
    weight = [1, 2, 3, 4, 5]
    clf = fitted((X, y), pd.Series(weight, index=[4, 3, 2, 1, 0]))
    assert_same_fit(clf, fitted(TWOQ, weight))


@pytest.mark.parametrize("dtype", ["category", "string", "object", "str"])
def test_a16_strings_of_pandas_as_y(dtype):
    assert_same_fit(fitted((CHAIN[0], pd.Series(CHAIN[1], dtype=dtype))), fitted(CHAIN))


@pytest.mark.parametrize("dtype", ["Int64", "category", "int8"])
def test_a16_ints_of_pandas_as_y(dtype):
    X, y = INTS
    clf, expected = fitted((X, pd.Series(y, dtype=dtype))), fitted(INTS)
    assert_array_equal(clf.classes_, expected.classes_)
    assert_array_equal(clf.coef_ov_, expected.coef_ov_)
    assert_array_equal(clf.predict(X), y)


def test_a16_an_unused_category_is_no_class():
    y = pd.Series(pd.Categorical(CYC[1], categories=["z", "c", "b", "a"]))
    assert_same_fit(fitted((CYC[0], y)), fitted(CYC))


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_a19_different_numbers_of_sentences_and_next_tokens(form):
    with pytest.raises(ValueError, match=r"\b3\b.*\b2\b"):
        NTPTransformerClassifier().fit(form(CYC[0]), ["b", "c"])


@pytest.mark.parametrize("form", [list, np.array, pd.DataFrame])
def test_a19_a_column_y_is_taken_with_scikit_learns_warning(form):
    y = form([["b"], ["c"], ["a"]])
    with pytest.warns(DataConversionWarning, match="column-vector y"):
        clf = fitted((CYC[0], y))
    assert_same_fit(clf, fitted(CYC))


@pytest.mark.parametrize(
    "y", [[["b", "c"]] * 3, [["b"], ["c"], ["a", "b"]]], ids=["wide", "ragged"]
)
def test_a19_several_next_tokens_per_sentence_are_refused(y):
    with pytest.raises((ValueError, TypeError), match=r"\by\b"):
        NTPTransformerClassifier().fit(CYC[0], y)


@pytest.mark.parametrize(
    "X",
    [
        ["the cat", "a dog"],
        ("the cat", "a dog"),
        np.array(["the cat", "a dog"]),
        np.array(["the cat", "a dog"], dtype=object),
        pd.Series(["the cat", "a dog"]),
        [["the", "cat"], "a dog"],
        "abc",
    ],
    ids=["list", "tuple", "array", "object array", "Series", "one of two", "one string"],
)
def test_a20b_strings_are_no_sentences(X):
    with pytest.raises(ValueError, match="split into tokens"):
        NTPTransformerClassifier().fit(X, list(range(len(X))))
    with pytest.raises(ValueError, match="split into tokens"):
        fitted(CYC).predict(X)


def test_a22_the_order_of_the_other_tokens_does_not_matter():
    p = fitted(CHAIN).predict_proba([["a", "b", "c"], ["b", "a", "c"]])
    assert_allclose(p[0], p[1], rtol=0, atol=1e-12)
    swapped = plus(CYC, (["b", "a", "c"], "b"), (["b", "c"], "c"))
    assert_same_fit(fitted(swapped), fitted(CHAIN))
    assert "no positional encoding" in NTPTransformerClassifier.__doc__


def test_a23_attention_counts_how_often_a_token_occurs():
    twice, once = fitted(CYC, stages=("ov",)).attention([["a", "a", "b"], ["a", "b"]])
    assert_allclose(twice, [1 / 3, 1 / 3, 1 / 3], rtol=0, atol=1e-15)
    assert_allclose(once, [1 / 2, 1 / 2], rtol=0, atol=1e-15)


# B: vocabulary and classes


@pytest.mark.parametrize("form", [list, np.array])
def test_b1_unknown_tokens_follow_one_rule(form):
    clf = fitted(INTS)
    for unknown in (0, 9, -1, 10**12):
        assert_allclose(clf.predict_proba(form([[unknown]])), 1 / 3, rtol=0, atol=1e-15)
    p = clf.predict_proba([[1, 9], [1, 0]])
    assert_array_equal(p[0], p[1])
    z = logits(clf, [1]) / 2  # the unknown token takes half of the attention and adds nothing
    assert_allclose(p[0], np.exp(z) / np.exp(z).sum(), rtol=1e-12, atol=0)
    assert clf.predict([[1, 9]]).tolist() == [2]


@pytest.mark.parametrize("form", [list, np.array])
def test_b1_unknown_tokens_are_refused_by_name_if_asked_for(form):
    clf = fitted(INTS, handle_unknown="error")
    for X, named in (([[0]], "0"), ([[9]], "9"), ([[9], [1], [0]], "0, 9")):
        with pytest.raises(ValueError, match=rf"Unknown tokens.*: {named}\."):
            clf.predict(form(X))
    with pytest.raises(ValueError, match=r"Unknown tokens.*: 9\."):
        clf.predict([[1, 9]])
    with pytest.raises(ValueError, match=r": 4, 5, 6, 7, 8 and 15 more\."):
        clf.predict(form([[x] for x in range(1, 24)]))
    with pytest.raises(ValueError, match=r"Unknown tokens.*: 3\."):
        fitted(INTS, vocabulary=[1, 2], handle_unknown="error")


def test_b2_ints_are_names_not_indices():
    clf = fitted(([[3], [70], [-5]], [70, -5, 3]))
    assert clf.vocabulary_.tolist() == clf.classes_.tolist() == [-5, 3, 70]
    assert clf.coef_ov_.shape == clf.coef_kq_.shape == (3, 3)
    assert clf.predict([[3], [70], [-5]]).tolist() == [70, -5, 3]
    for X in ([[-1], [-2], [-3], [0], [1], [2]], np.array([[-1], [-2], [-3], [0], [1], [2]])):
        assert_allclose(clf.predict_proba(X), 1 / 3, rtol=0, atol=1e-15)


def test_b3_an_unknown_query_is_kept():
    clf = fitted(plus(ONE, (["b", "a"], "c")))  # under the query a, b is above a
    assert clf.attention([["b", "a"]])[0][0] > 0.9
    known, unknown, more = clf.attention([["a", "a"], ["a", "zzz"], ["b", "a", "zzz"]])
    assert_array_equal(unknown, [0.5, 0.5])
    assert_allclose(more, 1 / 3, rtol=0, atol=1e-15)
    z = logits(clf, ["a"]) / 2
    p = clf.predict_proba([["a", "zzz"]])[0]
    assert_allclose(p, np.exp(z) / np.exp(z).sum(), rtol=1e-12, atol=0)


def test_b5_a_vocabulary_larger_than_the_data():
    clf = fitted(CYC, vocabulary=["a", "b", "c", "d"])
    assert clf.classes_.tolist() == clf.vocabulary_.tolist() == ["a", "b", "c", "d"]
    assert_array_equal(clf.coef_ov_[:, 3], np.zeros(4))
    assert_array_equal(clf.coef_kq_, np.zeros((4, 4)))
    assert_array_equal(clf.max_margin_coef_ov_[:, 3], np.zeros(4))
    assert_allclose(np.linalg.norm(clf.max_margin_coef_ov_), 1.5, rtol=1e-12, atol=0)
    assert_array_equal(clf.predict_proba([["d"]]), np.full((1, 4), 0.25))


def test_b6_the_classes_are_the_labels_seen():
    clf = fitted(([["a"], ["b"]], ["c", "b"]))
    assert clf.classes_.tolist() == ["b", "c"]
    assert clf.vocabulary_.tolist() == ["a", "b"]
    p = clf.predict_proba([["a"], ["b"], ["a", "b"]])
    assert p.shape == (3, 2)
    assert p[0, 1] > 0.9 and p[1, 0] > 0.9
    assert_allclose(p[2], 0.5, rtol=0, atol=1e-12)
    assert fitted(([["a"], ["b"]], ["b", "c"])).predict_proba([["a"]]).shape == (1, 2)


def test_b7_a_class_absent_from_a_fold_has_probability_zero():
    X, y = [["c"], ["a"], ["b"]] * 3, ["a", "b", "c", "b", "b", "c", "b", "b", "c"]
    with pytest.warns(RuntimeWarning, match="Number of classes in training fold"):
        p = cross_val_predict(
            NTPTransformerClassifier(max_iter=20), X, y, method="predict_proba", cv=KFold(3)
        )
    assert p.shape == (9, 3)
    assert_array_equal(p[:3, 0], np.zeros(3))
    assert (p[3:, 0] > 0).all()
    assert_allclose(p.sum(axis=1), 1, rtol=0, atol=1e-12)


def test_b8_one_class():
    clf = fitted(([["a"], ["a", "a"]], ["a", "a"]))
    X = [["a"], ["a", "a"], ["z"]]
    assert_array_equal(clf.predict_proba(X), np.ones((3, 1)))
    assert_array_equal(clf.predict_log_proba(X), np.zeros((3, 1)))
    assert clf.predict(X).tolist() == ["a", "a", "a"]
    assert_array_equal(clf.coef_ov_, [[0.0]])
    assert_array_equal(clf.coef_kq_, [[0.0]])
    assert_array_equal(clf.loss_curve_, [0.0, 0.0])
    assert clf.n_iter_.tolist() == [0, 0]


def test_b9_without_one_token_sentences_the_last_token_makes_the_pairs():
    X, y = [["a", "b"], ["b", "a"]], ["b", "a"]
    clf = fitted((X, y))
    assert clf.collocation_mode_ == "last"
    assert clf.collocation_ == {"b": {"b": 1.0}, "a": {"a": 1.0}}
    assert clf.predict(X).tolist() == y
    with pytest.raises(ValueError, match="collocation='single'.*Use collocation=\"last\""):
        fitted((X, y), collocation="single")


def test_b11_a_token_with_two_next_tokens():
    data = [["a"], ["a"]], ["b", "c"]
    assert_allclose(fitted(data).predict_proba([["a"]]), [[0.5, 0.5]], rtol=0, atol=1e-15)
    condition = check_realizable(*data).collocation_is_function
    assert not condition.holds
    assert "'a' is followed by 'b', 'c'" in condition.reason
    assert "'a'" in str(check_realizable(*data))


def test_b14_a_next_token_that_no_token_can_produce():
    data = plus(CYC, (["a", "b"], "a"))
    clf = fitted(data)
    assert_array_equal(clf.coef_kq_, np.zeros((3, 3)))
    assert clf.convergence_["kq"]["stop_reason"] == "zero gradient"
    assert np.isfinite(clf.coef_ov_).all() and np.isfinite(clf.loss_curve_).all()
    report = check_realizable(*data)
    assert not report.next_tokens_producible.holds
    assert report.next_tokens_producible.witnesses.tolist() == [3]
    assert "sentence 3" in str(report)


@pytest.mark.parametrize(("data", "X", "y"), [(CYC, [["a"]], ["zzz"]), (INTS, [[1]], [99])])
def test_b16_a_next_token_never_seen_scores_zero(data, X, y):
    clf = fitted(data)
    assert clf.score(X, y) == 0.0
    assert clf.score([*X, *data[0]], [*y, *data[1]]) == 0.75


# C: weights


def test_c2_a_weight_of_two_equals_the_row_twice():
    weighted = fitted(TWOQ, [1, 1, 1, 2, 1])
    assert_same_fit(weighted, fitted(plus(TWOQ, (["a", "b"], "b"))))
    assert np.abs(weighted.coef_kq_ - fitted(TWOQ).coef_kq_).max() > 1e-3


@pytest.mark.parametrize("stages", [("ov", "kq"), ("joint",)])
@pytest.mark.parametrize("collocation", ["single", "last", "context"])
def test_c2_weights_equal_repeats_in_every_mode(collocation, stages):
    weight = [1, 2, 3, 4, 5]
    X, y = (
        [row for row, k in zip(rows, weight, strict=True) for _ in range(k)] for rows in CONFLICT
    )
    params = {"stages": stages, "collocation": collocation}
    assert_same_fit(fitted(CONFLICT, weight, **params), fitted((X, y), **params))


@pytest.mark.parametrize("more", [(["a"], "c"), (["z"], "z"), (["a", "z"], "b"), (["a", "b"], "b")])
def test_c3_a_sentence_of_weight_zero_leaves_no_trace(more):
    assert_same_fit(fitted(plus(CYC, more), [1, 1, 1, 0]), fitted(CYC))
    X, y = plus(CYC, more)
    assert_same_fit(fitted((X[::-1], y[::-1]), [0, 1, 1, 1]), fitted(CYC))


@pytest.mark.parametrize(
    ("weight", "match"),
    [
        ((1, -1, 1), r"sample_weight must not be negative; sample_weight\[1\] is -1"),
        ((1, NAN, 1), "sample_weight contains NaN"),
        ((1, np.inf, 1), "sample_weight contains infinity"),
        ((1, 1), r"sample_weight must have shape \(3,\).* got \(2,\)"),
        (np.ones((3, 1)), r"sample_weight must have shape \(3,\).* got \(3, 1\)"),
        (["x", "y", "z"], "sample_weight"),
        (["1", "1", "1"], "sample_weight"),
        ((0, 0, 0), "sample_weight is zero for every sentence"),
    ],
    ids=["negative", "nan", "inf", "length", "column", "words", "digits", "zero"],
)
def test_c5_bad_weights(weight, match):
    with pytest.raises(ValueError, match=match):
        NTPTransformerClassifier().fit(*CYC, sample_weight=weight)


@pytest.mark.parametrize("routing", [False, True], ids=["", "metadata routing"])
def test_c9_weights_in_cross_validation(routing):
    X, y = as_sequences([["a"], ["b"]] * 12), np.array(["b", "c", "b", "c", "c", "a"] * 4)
    weight = np.array([1, 1, 1, 1, 5, 4] * 4)  # in favour of the rarer next token
    cv, expected = KFold(3), []
    for train, test in cv.split(X):
        clf = fitted((X[train], y[train]), weight[train])
        # Without routing the weights go to fit alone.
        test_weight = weight[test] if routing else None
        expected.append(accuracy_score(y[test], clf.predict(X[test]), sample_weight=test_weight))
    unweighted = [fitted((X[i], y[i])).score(X[j], y[j]) for i, j in cv.split(X)]
    assert expected != unweighted
    with config_context(enable_metadata_routing=routing):
        estimator = NTPTransformerClassifier(step_size=0.1, max_iter=50)
        if routing:
            estimator.set_fit_request(sample_weight=True).set_score_request(sample_weight=True)
        scores = cross_val_score(estimator, X, y, cv=cv, params={"sample_weight": weight})
    assert_allclose(scores, expected, rtol=0, atol=1e-15)
