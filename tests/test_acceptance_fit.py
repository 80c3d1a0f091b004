"""Acceptance cases D and E (numerics), F (references), G and H (scikit-learn), J and K, by their
ids. D3, D4 and D5 are exact values: see test_exact_values.py."""

import copy
import io
import pickle
import tracemalloc
import zipfile

import joblib
import numpy as np
import pytest
from data import (
    CHAIN,
    CONFLICT,
    CYC,
    FORMS,
    ONE,
    TWOQ,
    assert_same_fit,
    fitted,
    logits,
    plus,
)
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import FitFailedWarning, NotFittedError
from sklearn.metrics import accuracy_score, log_loss
from sklearn.model_selection import (
    GridSearchCV,
    cross_val_predict,
    cross_val_score,
    learning_curve,
)
from sklearn.utils import estimator_html_repr

from sklntp import NTPTransformerClassifier
from sklntp.datasets import make_realizable_ntp
from sklntp.structure import check_realizable, max_margin_kq, max_margin_ov, partial_orders

TWOQ6 = TWOQ[0] * 6, TWOQ[1] * 6
ALL_STAGES = [("ov", "kq"), ("joint",), ("ov", "kq", "joint")]
METHODS = [
    "predict",
    "predict_proba",
    "predict_log_proba",
    "decision_function",
    "attention",
    "contributions",
]


def _realizable(n_tokens=8, n_sentences=60, seed=0, **params):
    data = make_realizable_ntp(n_tokens, n_sentences, random_state=seed, **params)
    return data.X, data.y


# D, E: numerics and history


@pytest.mark.parametrize(
    "data",
    [
        CYC,
        plus(CYC, (["a", "a"], "b")),
        ([["a"], ["a"], ["a", "a"]], ["b", "c", "b"]),
        ([["a"]], ["a"]),
    ],
    ids=["one-token sentences", "a repeated token", "V = 1", "V = 1, C = 1"],
)
def test_d1_nothing_to_train_stops_stage_2_at_once(data):
    clf = fitted(data, track_alignment=True)
    assert_array_equal(clf.coef_kq_, np.zeros_like(clf.coef_kq_))
    assert clf.convergence_["kq"]["stop_reason"] == "zero gradient"
    assert clf.n_iter_[1] == 0
    assert len(clf.convergence_["kq"]["loss"]) == 1


def test_d7_large_steps_are_all_real():
    """Far below the smallest float the loss is 0, its logarithm falls on, and so do the steps."""
    clf = fitted(CYC, stages=("ov",), step_size=1.0, max_iter=5000)
    curves, t = clf.convergence_["ov"], np.arange(5001)
    assert_allclose(curves["norm"], t, rtol=1e-12, atol=0)
    assert clf.n_iter_.tolist() == [5000]
    assert curves["stop_reason"] == "max_iter"
    assert curves["loss"][-1] == 0
    assert_allclose(curves["log_loss"][100:], np.log(2) - t[100:] / np.sqrt(2), rtol=1e-12, atol=0)


@pytest.mark.parametrize("step_size", [0.01, 1.0, 100.0])
def test_d10_probabilities_sum_to_one(step_size):
    X, y = _realizable(40, 300)
    X, y = [*X, [99, 98], [3, 99]], [*y, 0, 1]
    for kept in (X, X[:2]):
        clf = fitted((kept, y[: len(kept)]), step_size=step_size)
        p = clf.predict_proba(X)
        assert p.min() >= 0
        assert_allclose(p.sum(axis=1), 1, rtol=0, atol=1e-12)
        assert_allclose(p, np.exp(clf.predict_log_proba(X)), rtol=1e-12, atol=0)
    clf = fitted((X, y), step_size=step_size)
    assert np.isfinite(log_loss(y, clf.predict_proba(X), labels=clf.classes_))


@pytest.mark.parametrize("name", ["step_size", "max_iter"])
@pytest.mark.parametrize(
    "value", [np.inf, np.nan, 0, -0.1, (1,), (1, 1, 1), (1, np.inf), (1, -1), (), "a", None, True]
)
def test_d11_a_bad_number_is_refused_at_fit_by_name(name, value):
    clf = NTPTransformerClassifier(**{name: value})
    with pytest.raises(ValueError, match=name):
        clf.fit(*ONE)
    assert not hasattr(clf, "classes_")


@pytest.mark.parametrize("stages", ALL_STAGES)
@pytest.mark.parametrize("step_size", [1e-300, 1e-8, 1.0, 1e6, 1e150, 1e308])
@pytest.mark.parametrize("data", [CHAIN, CONFLICT], ids=["CHAIN", "CONFLICT"])
def test_d12_what_finishes_is_finite(data, step_size, stages):
    clf = NTPTransformerClassifier(stages=stages, step_size=step_size, max_iter=30)
    try:
        clf.fit(*data)
    except ValueError as error:
        assert step_size == 1e308 and "step_size" in str(error) and "np." not in str(error)
        assert not hasattr(clf, "classes_")
        return
    assert np.isfinite(clf.coef_ov_).all() and np.isfinite(clf.coef_kq_).all()
    for curves in clf.convergence_.values():
        for name, curve in curves.items():
            if name.startswith(("loss", "log_loss", "norm")):
                assert np.isfinite(curve).all(), name
    assert np.isfinite(clf.predict_proba(data[0])).all()


def test_d14_the_cosine_of_a_zero_matrix_is_nan():
    clf = fitted(ONE, max_iter=20, track_alignment=True)
    for stage in ("ov", "kq"):
        cosine, dist = clf.convergence_[stage]["cosine"], clf.convergence_[stage]["dist"]
        assert np.isnan(cosine[0]) and np.isnan(dist[0])
        assert np.isfinite(cosine[1:]).all() and np.isfinite(dist[1:]).all()
    no_reference = fitted(CYC, stages=("joint",), track_alignment=True)
    assert np.isnan(no_reference.convergence_["joint"]["cosine_kq"]).all()
    assert np.isnan(fitted(CYC, track_alignment=True).convergence_["kq"]["cosine"]).all()


@pytest.mark.parametrize("step_size", [1e-300, 1e-160, 1.0, 1e200])
def test_d14_the_cosine_of_any_multiple_of_the_reference_is_one(step_size):
    clf = fitted(ONE, step_size=step_size, max_iter=1, track_alignment=True)
    for stage in ("ov", "kq"):
        cosine = clf.convergence_[stage]["cosine"][1]
        assert 1 - 1e-15 <= cosine <= 1


@pytest.mark.parametrize("data", [TWOQ, CHAIN, _realizable(), _realizable(seed=1)])
def test_d14_a_cosine_never_exceeds_one(data):
    reference, descent = (
        fitted(data, solver=solver, max_iter=200, track_alignment=True)
        for solver in ("max_margin", "ngd")
    )
    for stage in ("ov", "kq"):
        (cosine,) = reference.convergence_[stage]["cosine"]
        assert 1 - 1e-15 <= cosine <= 1
        assert np.nanmax(descent.convergence_[stage]["cosine"]) <= 1


@pytest.mark.parametrize("track", [False, True])
@pytest.mark.parametrize("stages", ALL_STAGES)
def test_e2_histories_have_the_starting_point(stages, track):
    max_iter = (7, 5, 3)[: len(stages)]
    clf = fitted(TWOQ, stages=stages, max_iter=max_iter, track_alignment=track)
    assert list(clf.convergence_) == list(stages)
    assert clf.n_iter_.tolist() == list(max_iter)
    for read in (clf, pickle.loads(pickle.dumps(clf))):
        for stage, n in zip(stages, max_iter, strict=True):
            curves = dict(read.convergence_[stage])
            assert curves.pop("stop_reason") == "max_iter"
            ends = ["_ov", "_kq"] if stage == "joint" else [""]
            assert set(curves) == {"loss", "log_loss", "accuracy"} | {
                name + end for name in ("norm", "cosine", "dist") for end in ends
            }
            for name, curve in curves.items():
                assert curve.shape == (n + 1,) and curve.dtype == np.float64
                assert_array_equal(curve, clf.convergence_[stage][name])
                if name.startswith(("cosine", "dist", "accuracy")) and not track:
                    assert np.isnan(curve).all()
            assert_allclose(curves["log_loss"], np.log(curves["loss"]), rtol=1e-12, atol=1e-12)
        joined = np.concatenate([read.convergence_[stage]["loss"] for stage in stages])
        assert_array_equal(read.loss_curve_, joined)
        assert read.loss_curve_.dtype == np.float64


def _warm(clf, data, parts, **params):
    clf.set_params(warm_start=True, **params)
    for n in parts:
        clf.set_params(max_iter=n).fit(*data)
    return clf


@pytest.mark.parametrize("schedule", ["constant", "invscaling"])
@pytest.mark.parametrize("parts", [[50, 50], [1] * 100], ids=["50 + 50", "100 x 1"])
def test_e4_stage_1_in_parts(parts, schedule):
    params = {"stages": ("ov",), "step_schedule": schedule, "track_alignment": True}
    data = _realizable()
    once = fitted(data, max_iter=100, **params)
    clf = _warm(NTPTransformerClassifier(step_size=0.1, **params), data, parts)
    assert clf.n_iter_.tolist() == [parts[-1]]
    assert_allclose(clf.coef_ov_, once.coef_ov_, rtol=0, atol=1e-12)
    for name in ("loss", "log_loss", "norm", "cosine", "dist", "accuracy"):
        curve = clf.convergence_["ov"][name]
        assert curve.shape == (101,)
        assert_allclose(curve, once.convergence_["ov"][name], rtol=0, atol=1e-11)
    if schedule == "constant":
        assert_allclose(np.linalg.norm(clf.coef_ov_), 10.0, rtol=1e-12, atol=0)


@pytest.mark.parametrize("schedule", ["constant", "invscaling"])
@pytest.mark.parametrize("parts", [[50, 50], [1] * 100], ids=["50 + 50", "100 x 1"])
def test_e4_stage_2_in_parts_on_a_finished_w_ov(parts, schedule):
    data, params = _realizable(), {"step_schedule": schedule}
    once = fitted(data, max_iter=100, **params)
    clf = fitted(data, stages=("ov",), max_iter=100, **params)
    w_ov = clf.coef_ov_
    _warm(clf, data, parts, stages=("kq",))
    assert_array_equal(clf.coef_ov_, w_ov)
    assert_allclose(clf.coef_kq_, once.coef_kq_, rtol=0, atol=1e-12)
    assert clf.n_iter_.tolist() == [parts[-1]]
    assert list(clf.convergence_) == ["ov", "kq"]
    assert_allclose(clf.loss_curve_, once.loss_curve_, rtol=0, atol=1e-12)


@pytest.mark.parametrize(
    ("first", "then", "data", "match"),
    [
        ({}, {}, plus(ONE, (["d"], "a")), "same vocabulary_ .*warm_start=False"),
        ({}, {}, plus(ONE, (["a"], "d")), "same classes_ .*warm_start=False"),
        ({"stages": ("joint",)}, {"stages": ("ov", "kq")}, ONE, '"joint".*warm_start=False'),
        ({"stages": ("joint",)}, {"stages": ("ov",)}, ONE, '"joint".*warm_start=False'),
    ],
    ids=["vocabulary", "classes", "two stages after joint", "ov after joint"],
)
def test_e4_what_cannot_continue_is_refused_with_the_remedy(first, then, data, match):
    clf = fitted(ONE, **first)
    with pytest.raises(ValueError, match=match):
        clf.set_params(warm_start=True, **then).fit(*data)


def test_e4_stage_2_alone_needs_a_fitted_w_ov():
    with pytest.raises(ValueError, match=r'fit with stages=\("ov",\) first'):
        NTPTransformerClassifier(stages=("kq",), warm_start=True).fit(*ONE)
    with pytest.raises(ValueError, match=r"a fitted W_ov: set_params\(.* warm_start=True\)"):
        fitted(ONE).set_params(stages=("kq",)).fit(*ONE)


def test_e8_no_iterates_are_stored():
    data = _realizable(200, 3000)
    clf = NTPTransformerClassifier(max_iter=1).fit(*data).set_params(max_iter=1000)
    tracemalloc.start()
    try:
        clf.fit(*data)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert clf.n_iter_.tolist() == [1000, 1000]
    assert len(clf.vocabulary_) == 200
    # The iterates of W_kq, its trained entries alone, would not fit in.
    assert 8 * 1000 * clf.sparse_coef_kq_.nnz > 50e6
    assert peak < 50e6


def test_e9_any_step_size_gives_finite_scores():
    grid = {"step_size": [1e-3, 0.1, 1.0, 1e6]}
    search = GridSearchCV(NTPTransformerClassifier(max_iter=100), grid, cv=3).fit(*TWOQ6)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.cv_results_["mean_test_score"].max() == 1.0


# F: references


def test_f2_two_opposite_pairs():
    report = check_realizable(*CONFLICT)
    assert not report.orders_acyclic.holds
    assert report.orders_acyclic.reason == "under query 'b' a cycle of 'a', 'b'"
    assert report.orders_acyclic.witnesses.tolist() == [3, 4]
    reference = max_margin_kq(*CONFLICT).coef.toarray()
    assert_array_equal(reference, np.zeros((3, 3)))
    assert_array_equal(fitted(CONFLICT).max_margin_coef_kq_, reference)
    below = plus(CONFLICT, (["a", "b", "c", "b"], "b"))  # both above c
    column = max_margin_kq(*below).coef.toarray()[:, 1]
    assert column[0] == column[1]
    assert_allclose(column, [1 / 3, 1 / 3, -2 / 3], rtol=0, atol=1e-12)


def test_f4_norms():
    cycle = [[f"t{i:02}"] for i in range(100)], [f"t{(i + 1) % 100:02}" for i in range(100)]
    assert_allclose(max_margin_ov(*cycle).norm, 9.9498743710662, rtol=0, atol=1e-10)
    chain = max_margin_kq(*CHAIN).coef.toarray()
    assert_allclose(np.linalg.norm(chain), np.sqrt(2), rtol=0, atol=1e-10)
    clf = fitted(cycle, max_iter=1)
    assert_allclose(np.linalg.norm(clf.max_margin_coef_ov_), np.sqrt(99), rtol=0, atol=1e-10)
    chain = fitted(CHAIN, max_iter=1).max_margin_coef_kq_
    assert_allclose(np.linalg.norm(chain), np.sqrt(2), rtol=0, atol=1e-10)


def _margins(data, coef, vocabulary):
    """Margins of all pairs of all orders, from their definition."""
    code = {token: i for i, token in enumerate(vocabulary.tolist())}
    return np.array(
        [
            coef[code[above], code[query]] - coef[code[below], code[query]]
            for query, order in partial_orders(*data).items()
            for above, below in order.pairs
        ]
    )


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("broken", [None, "confused", "minority", "non_injective"])
def test_f5_references_are_certified_and_know_no_order_of_sentences(broken, seed):
    X, y = _realizable(12, 150, seed, break_assumption=broken)
    order = np.random.RandomState(seed).permutation(len(X))
    permuted = [X[i] for i in order], y[order]
    for function in (max_margin_kq, max_margin_ov):
        reference, other = function(X, y), function(*permuted)
        assert_array_equal(reference.coef.toarray(), other.coef.toarray())
        assert 1 - 1e-9 <= reference.margin <= 1 + 1e-9
        assert 0 <= reference.gap <= 1e-9
        assert (reference.margin, reference.gap) == (other.margin, other.gap)
    kq = max_margin_kq(X, y)
    margins = _margins((X, y), kq.coef.toarray(), kq.vocabulary)
    assert_allclose(margins.min(), 1, rtol=0, atol=1e-9)
    assert_allclose(kq.margin, margins.min(), rtol=0, atol=1e-12)
    ov = max_margin_ov(X, y)
    dense = ov.coef.toarray() + ov.base
    single = [(x[0], label) for x, label in zip(X, y, strict=True) if len(x) == 1]
    for x, label in single:
        column = dense[:, ov.vocabulary.tolist().index(x)]
        row = ov.classes.tolist().index(label)
        assert_allclose(column[row] - np.delete(column, row), 1, rtol=0, atol=1e-9)


def test_f10_no_order_no_solver(monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("the solver was called")

    monkeypatch.setattr("sklntp._max_margin.interior_point", refuse)
    assert_array_equal(max_margin_kq(*CYC).coef.toarray(), np.zeros((3, 3)))
    for clf in (fitted(CYC, track_alignment=True), fitted(CYC, solver="max_margin")):
        assert_array_equal(clf.max_margin_coef_kq_, np.zeros((3, 3)))
    # One component that is no complete bipartite order: the patch is where a solver would be.
    with pytest.raises(AssertionError, match="the solver was called"):
        max_margin_kq(*CHAIN)


# G: scikit-learn


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_g1_searches_and_curves_take_every_form(form):
    X, y = form(TWOQ6[0]), TWOQ6[1]
    estimator = NTPTransformerClassifier(max_iter=60)
    grid = {"step_size": [0.1, 0.2], "stages": [("ov",), ("ov", "kq")]}
    search = GridSearchCV(estimator, grid, cv=3, error_score="raise").fit(X, y)
    assert search.best_score_ == 1.0
    assert search.best_params_["stages"] == ("ov", "kq")
    assert_array_equal(cross_val_score(estimator, X, y, cv=3), np.ones(3))
    assert cross_val_predict(estimator, X, y, cv=3).tolist() == y
    p = cross_val_predict(estimator, X, y, cv=3, method="predict_proba")
    assert np.array(["a", "b", "c"])[p.argmax(axis=1)].tolist() == y
    sizes, _, scores = learning_curve(estimator, X, y, cv=3, train_sizes=[0.5, 1.0])
    assert sizes.tolist() == [10, 20]
    assert_array_equal(scores, np.ones((2, 3)))


NOT_DEFAULT = {
    "stages": ("joint",),
    "solver": "max_margin",
    "step_size": (0.1, 0.3),
    "step_schedule": "invscaling",
    "max_iter": (5, 6),
    "alpha": 1.0,
    "smoothing": "kneser-ney",
    "attention_start": 0.5,
    "collocation": "last",
    "vocabulary": ["a", "b"],
    "handle_unknown": "error",
    "track_alignment": True,
    "warm_start": True,
    "early_stopping": True,
    "validation_fraction": 0.2,
    "n_iter_no_change": 3,
    "tol": 1e-3,
    "random_state": 0,
    "n_jobs": 2,
    "verbose": 2,
}


def test_g2_clone_repr_and_set_params_unfitted():
    estimator = NTPTransformerClassifier().set_params(**NOT_DEFAULT)
    assert estimator.get_params() == NOT_DEFAULT == clone(estimator).get_params()
    assert eval(repr(estimator)).get_params() == NOT_DEFAULT
    assert repr(NTPTransformerClassifier()) == "NTPTransformerClassifier()"
    for html in (estimator_html_repr(estimator), estimator._repr_html_()):
        assert "NTPTransformerClassifier" in html and "invscaling" in html
    with pytest.raises(ValueError, match="Invalid parameter 'steps'"):
        estimator.set_params(steps=1)


def test_g2_html_repr_fitted():
    assert "NTPTransformerClassifier" in estimator_html_repr(fitted(ONE))


def test_g5_not_fitted():
    estimator = NTPTransformerClassifier()
    for method in METHODS:
        with pytest.raises(NotFittedError, match="not fitted yet"):
            getattr(estimator, method)([["a"]])
    with pytest.raises(NotFittedError, match="not fitted yet"):
        estimator.score([["a"]], ["a"])
    fitted_names = [name for name in dir(fitted(ONE)) if name.endswith("_") and name[0] != "_"]
    assert "coef_ov_" in fitted_names and "max_margin_coef_kq_" in fitted_names
    assert [name for name in fitted_names if hasattr(estimator, name)] == []


@pytest.mark.parametrize("dtype", [np.int64, np.int8, float, str])
def test_g6_predictions_have_the_dtype_of_the_classes(dtype):
    X, y = [[3], [70], [-5], [3, 70]], np.array([70, -5, 3, 70]).astype(dtype)
    clf = fitted((X, y))
    assert clf.predict(X).dtype == clf.classes_.dtype
    assert accuracy_score(y, clf.predict(X)) == clf.score(X, y) == 1.0


@pytest.mark.parametrize("y", [[70, -5, 3, 70], np.array([70, -5, 3, 70], dtype=object)])
def test_g6_ints_become_int64(y):
    clf = fitted(([[3], [70], [-5], [3, 70]], y))
    assert clf.classes_.dtype == clf.vocabulary_.dtype == np.int64


def test_g7_an_invalid_candidate_ranks_last():
    grid = {"step_size": [0.1, -1.0, 0.2]}
    search = GridSearchCV(NTPTransformerClassifier(max_iter=60), grid, cv=3)
    with (
        pytest.warns(FitFailedWarning, match="step_size"),
        pytest.warns(UserWarning, match="test scores are non-finite"),
    ):
        search.fit(*TWOQ6)
    assert np.isnan(search.cv_results_["mean_test_score"]).tolist() == [False, True, False]
    assert search.cv_results_["rank_test_score"].tolist() == [1, 3, 1]
    assert search.best_score_ == 1.0


def test_g9_two_jobs_give_the_scores_of_one():
    grid = {"step_size": [1e-3, 0.2]}
    scores = []
    for n_jobs in (1, 2):
        search = GridSearchCV(NTPTransformerClassifier(max_iter=20), grid, cv=3, n_jobs=n_jobs)
        scores.append(search.fit(*TWOQ6).cv_results_["mean_test_score"])
    assert_array_equal(scores[0], scores[1])


def _state(clf):
    """The pickled state as text, arrays with their types."""
    return {name: (type(value), repr(value)) for name, value in clf.__getstate__().items()}


def test_g11_a_refit_is_a_fresh_fit():
    other = ([[5, 7], [7, 5], [5, 5]], [7, 5, 5])
    frame = np.array([[1, 2], [2, 1]]), [1, 2]
    for first, second in ((CHAIN, other), (other, CHAIN), (frame, ONE), (ONE, frame)):
        again, fresh = fitted(first), fitted(second)
        again.max_margin_coef_kq_  # noqa: B018, fills the cache
        again.fit(*second)
        assert _state(again) == _state(fresh)
        assert_array_equal(again.max_margin_coef_kq_, fresh.max_margin_coef_kq_)
        assert_array_equal(again.predict_proba(second[0]), fresh.predict_proba(second[0]))


@pytest.mark.parametrize("stages", ALL_STAGES)
@pytest.mark.parametrize("seed", range(3))
def test_h2_the_order_of_the_sentences_leaves_no_trace(seed, stages):
    """Not within 1e-10 but bit for bit, with conflicting data and weights too."""
    rng = np.random.RandomState(seed)
    X, y = _realizable(n_sentences=80, seed=seed)
    y[rng.permutation(80)[:10]] = 0
    weight = rng.random_sample(80)
    order = rng.permutation(80)
    clf = fitted((X, y), weight, stages=stages)
    permuted = fitted(([X[i] for i in order], y[order]), weight[order], stages=stages)
    assert_same_fit(permuted, clf)
    assert permuted.vocabulary_.tolist() == clf.vocabulary_.tolist()


def _through_skops(clf):
    skops = pytest.importorskip("skops.io")
    # Uncompressed, the types and names that skops writes out take more than the 20 kB themselves.
    data = skops.dumps(clf, compression=zipfile.ZIP_DEFLATED)
    untrusted = skops.get_untrusted_types(data=data)
    assert untrusted == ["sklntp._classifier.NTPTransformerClassifier"]
    return data, skops.loads(data, trusted=untrusted)


def _through_joblib(clf):
    file = io.BytesIO()
    joblib.dump(clf, file)
    file.seek(0)
    return file.getvalue(), joblib.load(file)


def _through_pickle(clf):
    data = pickle.dumps(clf)
    return data, pickle.loads(data)


COPIES = {
    "pickle": _through_pickle,
    "joblib": _through_joblib,
    "skops": _through_skops,
    "deepcopy": lambda clf: (b"", copy.deepcopy(clf)),
}


@pytest.mark.parametrize("through", COPIES.values(), ids=COPIES)
def test_h4_copies_predict_the_same_and_are_small(through):
    clf = fitted(ONE, max_iter=50)
    clf.max_margin_coef_kq_  # noqa: B018, the cached reference is not stored
    data, read = through(clf)
    assert len(data) < 20_000
    assert_same_fit(read, clf)
    X = [*ONE[0], ["a", "a", "b"], ["z"]]
    for method in METHODS[:4]:
        assert_array_equal(getattr(read, method)(X), getattr(clf, method)(X))
    for method in METHODS[4:]:
        for one, other in zip(getattr(read, method)(X), getattr(clf, method)(X), strict=True):
            assert_array_equal(one, other)
    assert_array_equal(read.max_margin_coef_kq_, clf.max_margin_coef_kq_)


def test_h4_of_the_data_only_the_pairs_are_stored():
    few, many = fitted(ONE), fitted((ONE[0] * 500, ONE[1] * 500))
    assert len(pickle.dumps(many)) == len(pickle.dumps(few))
    assert _state(many) == _state(few)
    sizes = {np.size(value) for value in many.__getstate__().values()}
    assert max(sizes - {len(many.loss_curve_)}) <= 9  # nothing larger than a 3 x 3 matrix


# J: messages


@pytest.mark.parametrize("stages", ALL_STAGES)
def test_j3_nothing_is_printed(stages, capfd):
    clf = fitted(TWOQ, stages=stages, track_alignment=True)
    clf.predict(TWOQ[0])
    assert capfd.readouterr() == ("", "")


@pytest.mark.parametrize(
    "y",
    [
        [None] * 100_000,
        [1, *["1"] * 99_999],
        [{}] * 100_000,
        [["b", "c"]] * 100_000,
        np.linspace(0.1, 0.9, 100_000),
        ["b" * 100_000, *[1] * 99_999],
        ["b"] * 99_999,
    ],
    ids=["missing", "two types", "dicts", "wide", "continuous", "long", "too few"],
)
def test_j8_messages_about_many_next_tokens_are_short(y):
    with pytest.raises((ValueError, TypeError)) as raised:
        NTPTransformerClassifier().fit([["a"]] * 100_000, y)
    assert 20 < len(str(raised.value)) < 500


@pytest.mark.parametrize("token", ["z{}", "z{}" + "z" * 100], ids=["short", "long"])
def test_j8_messages_about_many_tokens_are_short(token):
    names = [token.format(i) for i in range(100_000)]
    clf = fitted(CYC, handle_unknown="error")
    with pytest.raises(ValueError, match="and 99995 more") as raised:
        clf.predict([[name] for name in names])
    assert len(str(raised.value)) < 500
    for vocabulary in (names * 2, [*names, None]):
        with pytest.raises(ValueError, match="vocabulary") as raised:
            fitted(CYC, vocabulary=vocabulary)
        assert len(str(raised.value)) < 500


def test_j8_a_report_on_many_tokens_is_short():
    n = 2000
    X, y = [[f"t{i}"] for i in range(n)] * 2, [f"t{i // 2}" for i in range(2 * n)]
    text = str(check_realizable(X, y))
    assert max(map(len, text.splitlines())) < 500


# K: attention


def test_k1_attention():
    clf = fitted(ONE, max_iter=200)
    X = [["a", "b"], ["a"], ["a", "b", "a", "b"]]
    weights = clf.attention(X)
    assert isinstance(weights, list)
    assert [len(w) for w in weights] == [2, 1, 4]
    for w in weights:
        assert w.ndim == 1
        assert_allclose(w.sum(), 1, rtol=0, atol=1e-12)
    assert weights[0][0] > 1 - 1e-11
    assert_allclose(weights[2][[0, 2]], weights[0][0] / 2, rtol=1e-12, atol=0)


@pytest.mark.parametrize("stages", [("ov",), *ALL_STAGES])
@pytest.mark.parametrize(
    "data",
    [CHAIN, CONFLICT, ([["a"], ["b"], ["a", "b"]], ["b", "a", "b"]), _realizable()],
    ids=["CHAIN", "CONFLICT", "two classes", "realizable"],
)
def test_k2_contributions_sum_to_the_logit_of_the_predicted_class(data, stages):
    X = [*data[0], data[0][-1] * 2]
    clf = fitted(data, stages=stages)
    tokens, classes = clf.vocabulary_.tolist(), clf.classes_.tolist()
    predicted = [classes.index(label) for label in clf.predict(X)]
    rows = zip(X, clf.contributions(X), clf.attention(X), predicted, strict=True)
    for sentence, parts, attention, label in rows:
        z = logits(clf, sentence)
        assert z[label] >= z.max() - 1e-12
        assert_allclose(parts.sum(), z[label], rtol=0, atol=1e-12)
        columns = [tokens.index(token) for token in sentence]
        assert_allclose(parts, attention * clf.coef_ov_[label, columns], rtol=0, atol=1e-15)
        if len(classes) > 2:
            assert_allclose(clf.decision_function([sentence])[0], z, rtol=0, atol=1e-12)
        else:
            assert_allclose(clf.decision_function([sentence])[0], z[1] - z[0], rtol=0, atol=1e-12)


def test_k2_an_unknown_token_contributes_nothing():
    parts = fitted(CYC).contributions([["a", "z"], ["z"]])
    assert parts[0][1] == 0 and parts[0][0] > 0
    assert parts[1].tolist() == [0]
