"""Ragged sequences, tables and opaque next tokens among the tools of scikit-learn and its kin."""

import warnings

import numpy as np
import pandas as pd
import pytest
from data import CHAIN, CYC, FORMS, ONE, TWOQ, assert_same_fit, fitted, plus
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import (
    AdaBoostClassifier,
    BaggingClassifier,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.frozen import FrozenEstimator
from sklearn.inspection import permutation_importance
from sklearn.model_selection import (
    FixedThresholdClassifier,
    GroupKFold,
    HalvingGridSearchCV,
    KFold,
    LeaveOneGroupOut,
    PredefinedSplit,
    RandomizedSearchCV,
    RepeatedStratifiedKFold,
    ShuffleSplit,
    StratifiedGroupKFold,
    StratifiedKFold,
    TimeSeriesSplit,
    TunedThresholdClassifierCV,
    cross_val_predict,
    cross_val_score,
    cross_validate,
    permutation_test_score,
    train_test_split,
    validation_curve,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import FeatureUnion, Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.tree import DecisionTreeClassifier

from sklntp import NTPTransformerClassifier
from sklntp.model_selection import UnseenSentenceKFold
from sklntp.preprocessing import as_sequences

TWOQ6 = TWOQ[0] * 6, TWOQ[1] * 6
BINARY = [["a"], ["b"], ["a", "b"], ["b", "a"]] * 6, ["b", "a", "b", "b"] * 6


def small(**params):
    return NTPTransformerClassifier(**{"max_iter": 20, **params})


# Tables and ragged sequences (items 4 to 9 and 12)


def test_polars_series_and_one_column_frame():
    pl = pytest.importorskip("polars")
    expected = fitted(CHAIN)
    for X in (pl.Series(CHAIN[0]), pl.DataFrame({"x": CHAIN[0]})):
        clf = fitted((X, pl.Series(CHAIN[1])))
        assert_same_fit(clf, expected)
        assert_array_equal(clf.predict_proba(X), expected.predict_proba(CHAIN[0]))


@pytest.mark.parametrize("n_columns", [1, None])
def test_a_column_of_sequences_is_ragged(n_columns):
    X = as_sequences(CHAIN[0])
    X = X.reshape(-1, 1) if n_columns else pd.DataFrame({"x": X}, index=[3, 1, 4, 0, 2])
    clf = fitted((X, CHAIN[1]))
    assert_same_fit(clf, fitted(CHAIN))
    assert clf.predict(X).tolist() == clf.predict(CHAIN[0]).tolist()


@pytest.mark.parametrize("kind", [list, tuple, np.array, pd.Series])
def test_cells_of_every_kind_in_an_object_array(kind):
    X = as_sequences([kind(sentence) for sentence in CHAIN[0]])
    assert_same_fit(fitted((X, CHAIN[1])), fitted(CHAIN))


def test_an_object_array_that_became_two_dimensional():
    X, y = [["a", "b"], ["b", "a"], ["a", "a"]], ["b", "a", "a"]
    for table in (np.array(X, dtype=object), np.array(X), pd.DataFrame(X, columns=["u", "v"])):
        clf = fitted((table, y))
        assert_same_fit(clf, fitted((X, y)))
        assert clf.predict(table).tolist() == clf.predict(X).tolist()


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_ragged_sequences_have_no_width(form):
    assert not hasattr(fitted((form(CHAIN[0]), CHAIN[1])), "n_features_in_")
    assert fitted((form(CYC[0]), CYC[1])).n_features_in_ == 1


def test_a_width_binds_tables_but_not_lists():
    X, y = [[1, 2], [2, 1], [1, 1]], [1, 2, 1]
    clf = fitted((X, y))
    assert clf.n_features_in_ == 2
    assert clf.predict([[1], [1, 2, 1]]).shape == (2,)
    for table in (np.ones((1, 3), dtype=int), pd.DataFrame(np.ones((1, 3), dtype=int))):
        with pytest.raises(ValueError, match="X has 3 features, but .* is expecting 2 features"):
            clf.predict(table)


def test_a_refit_forgets_width_and_names():
    frame = pd.DataFrame([[1, 2], [2, 1]], columns=["u", "v"])
    clf = fitted((frame, [1, 2]))
    assert clf.feature_names_in_.tolist() == ["u", "v"]
    with pytest.raises(ValueError, match="feature names should match"):
        clf.predict(frame.rename(columns={"v": "w"}))
    clf.fit(*ONE)
    assert not hasattr(clf, "n_features_in_") and not hasattr(clf, "feature_names_in_")


@pytest.mark.parametrize(
    ("X", "error", "match"),
    [
        (sparse.csr_array(np.eye(3)), TypeError, "Sparse data was passed"),
        (np.ones((3, 2, 2)), ValueError, "dim 3"),
        (np.ones((3, 2), dtype=complex), ValueError, "Complex data not supported"),
        (np.array([[1.0], [np.nan], [2.0]]), ValueError, "contains NaN"),
        (np.array([[1.0], [np.inf], [2.0]]), ValueError, "contains infinity"),
        (np.arange(3), ValueError, "Reshape your data"),
        ([1, 2, 3], ValueError, "Reshape your data"),
        ([["a"], 5, ["b"]], TypeError, "Sentence 1 must be a sequence of tokens; got int 5"),
        ([["a"], None, ["b"]], TypeError, "Sentence 1 must be a sequence of tokens; got NoneType"),
        ({"a": 1}, TypeError, "got dict"),
        (({"a"}, {"b"}, {"c"}), (TypeError, ValueError), "sequence|Reshape"),
    ],
    ids=["sparse", "3-D", "complex", "nan", "inf", "1-D", "ints", "int", "None", "dict", "sets"],
)
def test_what_is_no_collection_of_sentences(X, error, match):
    with pytest.raises(error, match=match):
        small().fit(X, ["a", "b", "c"])


def test_floats_of_a_table_are_tokens():
    """Blobs: every value a token; a transposed table is refused."""
    rng = np.random.RandomState(0)
    X = np.vstack([rng.normal(size=(15, 2)) + 3 * k for k in range(3)])
    y = np.repeat([0, 1, 2], 15)
    clf = fitted((X.tolist(), y))
    assert clf.score(X, y) > 0.83
    assert_array_equal(clf.predict(X), clf.predict(X.tolist()))
    with pytest.raises(ValueError, match="X has 45 features"):
        clf.predict(X.T)


def test_an_int_equals_the_float_of_the_same_value():
    X, y = np.array([[1, 2], [2, 1], [2, 2]]), [0, 1, 1]
    clf = fitted((X, y))
    assert_array_equal(clf.predict_proba(X.astype(float)), clf.predict_proba(X))
    assert_array_equal(clf.predict_proba([[1.0, 2.0]]), clf.predict_proba([[1, 2]]))
    assert_array_equal(fitted((X.astype(float), y)).coef_kq_, clf.coef_kq_)


def test_inputs_are_never_written():
    X, y, weight = np.array([[1, 2], [2, 1]]), np.array([1, 2]), np.array([1.0, 2.0])
    for array in (X, y, weight):
        array.setflags(write=False)
    fitted((X, y), weight).predict_proba(X)
    sentences, labels = [list(s) for s in CHAIN[0]], list(CHAIN[1])
    fitted((sentences, labels))
    assert (sentences, labels) == CHAIN


@pytest.mark.parametrize(
    ("X", "y"), [([["a"]], ["b"]), ([["a", "b"]], ["b"]), ([["a"], ["b"]], ["c", "c"])]
)
def test_one_sentence_or_one_class(X, y):
    assert fitted((X, y)).predict(X).tolist() == y


def test_prediction_of_a_subset_is_the_subset_of_the_predictions():
    clf, X = fitted(CHAIN), CHAIN[0] * 3
    whole = clf.predict_proba(X)
    one_by_one = np.vstack([clf.predict_proba([sentence]) for sentence in X])
    assert_allclose(one_by_one, whole, rtol=0, atol=1e-12)
    before = set(vars(clf))
    clf.predict(X)
    assert set(vars(clf)) == before


# Next tokens (items 13 to 15)


def test_next_tokens_are_opaque():
    """Renaming them, as meta-estimators do with int codes, changes nothing but the names."""
    X, y = CHAIN
    codes = [["a", "b", "c"].index(label) for label in y]
    for params in ({}, {"vocabulary": ["a", "b", "c"]}):
        coded, expected = fitted((X, codes), **params), fitted(CHAIN, **params)
        assert coded.classes_.tolist() == [0, 1, 2]
        assert_array_equal(coded.coef_ov_, expected.coef_ov_)
        assert_array_equal(coded.coef_kq_, expected.coef_kq_)


def test_labels_of_every_dtype():
    X = CYC[0]
    assert fitted((X, np.array([7, 8, 9], dtype=object))).classes_.dtype == np.int64
    assert fitted((X, [True, False, True])).classes_.dtype == bool
    assert fitted((X, np.array([1.0, 2.0, 1.0]))).predict(X).tolist() == [1.0, 2.0, 1.0]
    y = ["b\0", "b", "a"]  # a fixed-width string array would cut the NUL off
    for form in (list, lambda y: np.array(y, dtype=object)):
        clf = fitted((X, form(y)))
        assert clf.classes_.tolist() == ["a", "b", "b\0"]
        assert clf.predict(X).tolist() == y
    clf = fitted(([["a\0"], ["a"]], ["x", "y"]))
    assert clf.vocabulary_.tolist() == ["a", "a\0"]
    assert clf.predict([["a\0"], ["a"]]).tolist() == ["x", "y"]


@pytest.mark.parametrize(
    ("y", "match"),
    [
        (np.array([1, np.inf, 2]), "y contains infinity"),
        ([0.5, 0.7, 0.9], "Unknown label type: continuous"),
        (None, "requires y to be passed"),
        (np.eye(3), "y should be a 1d array"),
    ],
    ids=["inf", "continuous", "None", "matrix"],
)
def test_scikit_learns_texts_about_y(y, match):
    with pytest.raises(ValueError, match=match):
        small().fit(CYC[0], y)


@pytest.mark.parametrize("kind", [int, str])
def test_many_classes_are_no_warning(kind):
    X, y = [[i] for i in range(60)], [kind(i) for i in range(60)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert len(small().fit(X, y).classes_) == 60


# Meta-estimators and model selection (items 6, 13, 16)


def _frozen():
    return FrozenEstimator(fitted(TWOQ, max_iter=200))


META = {
    "Pipeline": lambda: Pipeline([("ntp", small())]),
    "FunctionTransformer": lambda: make_pipeline(FunctionTransformer(as_sequences), small()),
    "Voting hard": lambda: VotingClassifier([("u", small()), ("v", small(stages=("joint",)))]),
    "Voting soft": lambda: VotingClassifier([("u", small()), ("v", small())], voting="soft"),
    "Stacking": lambda: StackingClassifier(
        [("u", small()), ("v", small(vocabulary=["a", "b", "c"]))],
        DecisionTreeClassifier(random_state=0),
        cv=3,
    ),
    "Calibrated": lambda: CalibratedClassifierCV(small(), cv=3),
    "OneVsRest": lambda: OneVsRestClassifier(small()),
    "Frozen": _frozen,
    "Calibrated frozen": lambda: CalibratedClassifierCV(_frozen()),
    "RandomizedSearchCV": lambda: RandomizedSearchCV(
        small(), {"step_size": [0.1, 0.2, 0.3]}, n_iter=2, cv=3, random_state=0
    ),
    "HalvingGridSearchCV": lambda: HalvingGridSearchCV(
        small(), {"step_size": [0.1, 0.2]}, resource="max_iter", max_resources=20, cv=3
    ),
}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("make", META.values(), ids=META)
def test_meta_estimators_take_ragged_sequences(make, form):
    X, y = form(TWOQ6[0]), TWOQ6[1]
    meta = make().fit(X, y)
    assert meta.predict(X).tolist() == y
    assert meta.classes_.tolist() == ["a", "b", "c"]


def _column_transformer():
    # The passed column stays a column of sequences; the length of the other one is dropped.
    return ColumnTransformer([("keep", "passthrough", ["x"])], remainder="drop")


COLUMN_META = {
    "Bagging": lambda: BaggingClassifier(small(), n_estimators=3, random_state=0),
    "Bagging features": lambda: BaggingClassifier(
        small(), n_estimators=3, bootstrap_features=True, random_state=0
    ),
    "AdaBoost": lambda: AdaBoostClassifier(small(), n_estimators=2, random_state=0),
    "ColumnTransformer": lambda: make_pipeline(_column_transformer(), small()),
    "FeatureUnion": lambda: make_pipeline(FeatureUnion([("same", FunctionTransformer())]), small()),
}


@pytest.mark.parametrize("make", COLUMN_META.values(), ids=COLUMN_META)
def test_meta_estimators_take_a_column_of_sequences(make):
    X, y = pd.DataFrame({"x": as_sequences(TWOQ6[0])}), TWOQ6[1]
    assert make().fit(X, y).predict(X).tolist() == y
    if "ColumnTransformer" not in repr(make()):
        X = as_sequences(TWOQ6[0]).reshape(-1, 1)
        assert make().fit(X, y).predict(X).tolist() == y


def test_bagging_weighs_its_samples():
    """A bootstrap draws weights; without one every member is the same fit."""
    X = as_sequences(TWOQ6[0]).reshape(-1, 1)
    bagging = BaggingClassifier(small(), n_estimators=2, bootstrap=False).fit(X, TWOQ6[1])
    p = small().fit(*TWOQ6).predict_proba(TWOQ6[0])
    assert_allclose(bagging.predict_proba(X), p, rtol=0, atol=1e-12)


def test_permutation_importance_of_a_column_of_sequences():
    X = as_sequences(TWOQ6[0]).reshape(-1, 1)
    clf = small().fit(X, TWOQ6[1])
    importance = permutation_importance(clf, X, TWOQ6[1], n_repeats=2, random_state=0)
    assert importance.importances_mean.shape == (1,)
    assert importance.importances_mean[0] > 0.3


@pytest.mark.parametrize("make", [TunedThresholdClassifierCV, FixedThresholdClassifier])
def test_thresholds(make):
    X, y = as_sequences(BINARY[0]), BINARY[1]
    meta = make(small(), response_method="predict_proba").fit(X, y)
    assert meta.predict(X).tolist() == y


SPLITTERS = [
    KFold(3),
    KFold(3, shuffle=True, random_state=0),
    StratifiedKFold(3),
    GroupKFold(3),
    LeaveOneGroupOut(),
    StratifiedGroupKFold(3),
    ShuffleSplit(3, random_state=0),
    RepeatedStratifiedKFold(n_splits=3, n_repeats=2, random_state=0),
    TimeSeriesSplit(3),
    PredefinedSplit(np.arange(30) % 3),
    UnseenSentenceKFold(2),
]


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_every_splitter_and_cross_val_function(form):
    X, y, groups = form(TWOQ6[0]), TWOQ6[1], np.arange(30) // 5
    for cv in SPLITTERS:
        if isinstance(cv, UnseenSentenceKFold):  # ["a", "b"] or ["b", "c"] is held out
            assert cross_val_score(small(), X, y, cv=cv).shape == (2,)
            with pytest.raises(ValueError, match="partition"):
                cross_val_predict(small(), X, y, cv=cv)
            continue
        by_group = groups if "Group" in type(cv).__name__ else None
        scores = cross_val_score(small(), X, y, cv=cv, groups=by_group, error_score="raise")
        assert_array_equal(scores, np.ones_like(scores))


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_other_tools_of_model_selection(form):
    X, y = form(TWOQ6[0]), TWOQ6[1]
    result = cross_validate(small(), X, y, cv=3, return_estimator=True, return_train_score=True)
    assert_array_equal(result["train_score"], np.ones(3))
    assert [clf.vocabulary_.tolist() for clf in result["estimator"]] == [["a", "b", "c"]] * 3
    parts = train_test_split(X, y, random_state=0, stratify=[str(x) for x in TWOQ6[0]])
    assert small().fit(parts[0], parts[2]).score(parts[1], parts[3]) == 1.0
    _, scores = validation_curve(
        small(), X, y, param_name="step_size", param_range=[0.1, 0.2], cv=3
    )
    assert_array_equal(scores, np.ones((2, 3)))
    score, permuted, p_value = permutation_test_score(
        small(), X, y, cv=3, n_permutations=9, random_state=0
    )
    assert score == 1.0 and max(permuted) < 1.0 and p_value == pytest.approx(0.1)


# Fitted state (item 25)


def _plain(value):
    if isinstance(value, dict):
        return all(isinstance(key, str) and _plain(part) for key, part in value.items())
    if isinstance(value, np.ndarray):
        return value.dtype != object
    return value is None or type(value) in (bool, int, float, str, tuple)


@pytest.mark.parametrize("stages", [("ov", "kq"), ("ov", "kq", "joint")])
def test_the_fitted_state_is_arrays_dicts_and_scalars(stages):
    clf = fitted(plus(ONE, (["z"], "a")), stages=stages, track_alignment=True)
    clf.max_margin_coef_kq_  # noqa: B018, fills a cache
    assert [name for name, value in clf.__getstate__().items() if not _plain(value)] == []
    assert not [name for name in vars(clone(clf)) if name.endswith("_")]
