"""L-BFGS: its objective, its path and its optimum against the dense oracle and other solvers."""

import re

import numpy as np
import pytest
from data import CHAIN, CONFLICT, CYC, assert_same_fit, fitted
from numpy.testing import assert_allclose, assert_array_equal
from oracle import collocation_samples, gradients, mean_loss
from samples import conflicting as _conflicting
from samples import realizable
from scipy.optimize import OptimizeResult, minimize
from sklearn.linear_model import LogisticRegression

from sklntp import NTPTransformerClassifier, _lbfgs, _memory
from sklntp._dataset import build_dataset
from sklntp._lbfgs import limited_memory_bfgs
from sklntp._model import starting_model
from sklntp._solution import Evaluation, Patience, Track
from sklntp._stages import STAGES

MODES = ["single", "last", "context"]
SEEDS = range(2)
N_TOKENS, N_CLASSES = 7, 9  # of `conflicting`
TO_THE_END = {"solver": "lbfgs", "tol": 0.0, "n_iter_no_change": 30, "max_iter": 2000}


def conflicting(seed):
    """Not in need of rescaling."""
    X, y, weight = _conflicting(seed)
    return X, y, weight / 2.1


def _lbfgs_fit(data, weight=None, **params):
    return fitted(data, weight, **{"solver": "lbfgs", "max_iter": 1000} | params)


def _matrices(model):
    """Dense W_ov and W_kq of a `Model`."""
    tokens = np.arange(len(model.attention.base))
    query, token = np.meshgrid(tokens, tokens)
    return model.output.dense(), model.attention.scores(query.ravel(), token.ravel()).reshape(
        query.shape
    )


def _samples(stage, X, y, weight, mode):
    """Sentences, labels and weights of the loss of a stage."""
    return collocation_samples(X, y, weight, mode) if stage == "ov" else (X, y, weight)


def _parts(stage, g_ov, g_kq):
    """The matrices that a stage trains."""
    return {"ov": [g_ov], "kq": [g_kq], "joint": [g_ov, g_kq]}[stage]


def _n_samples(stage, X, weight, mode):
    """The sample weight behind the loss of a stage."""
    if stage != "ov" or mode == "last":
        return np.sum(weight)
    if mode == "single":
        return sum(w for sentence, w in zip(X, weight, strict=True) if len(sentence) == 1)
    return sum(w * len(set(sentence)) for sentence, w in zip(X, weight, strict=True))


# The objective


def _objective(monkeypatch, made, theta, **params):
    """What SciPy is given to minimise."""
    given = {}

    def spy(objective, start, **options):
        given.update(objective=objective, start=start, options=options)
        return OptimizeResult(x=start, status=0)

    monkeypatch.setattr(_lbfgs, "minimize", spy)
    limited_memory_bfgs(
        made.loss,
        theta,
        max_iter=1,
        patience=Patience(1, 0.0),
        multiplicity=made.multiplicity,
        **params,
    )
    return given["objective"]


@pytest.mark.parametrize("with_origin", [True, False], ids=["W_0 given", "W_0 the start"])
@pytest.mark.parametrize("penalty", [0.0, 0.3])
@pytest.mark.parametrize(
    ("stage", "mode"), [("ov", "single"), ("ov", "last"), ("kq", "last"), ("joint", "last")]
)
def test_objective_and_gradient_are_those_of_the_dense_matrices(
    monkeypatch, stage, mode, penalty, with_origin
):
    rng = np.random.RandomState(0)
    X, y, weight = conflicting(0)
    data = build_dataset(X, y, weight, collocation=mode)
    made = STAGES[stage](data, starting_model(data, "kneser-ney" if stage != "ov" else None, 0.7))
    n = len(made.vector(made.before))
    if stage == "ov":
        # Entries that stand for several of the matrix, and none that stands for no entry.
        assert made.multiplicity.min() > 0 and made.multiplicity.max() > 1
    theta, point = rng.standard_normal((2, n))
    origin = rng.standard_normal(n) if with_origin else None
    objective = _objective(monkeypatch, made, theta, penalty=penalty, origin=origin)
    samples = _samples(stage, X, y, weight, mode)
    root = np.sqrt(made.multiplicity)

    def dense(at):
        return _matrices(made.model(at))

    w = dense(theta + point / root)
    away = [a - b for a, b in zip(w, dense(theta if origin is None else origin), strict=True)]
    height, gradient = objective(point)
    square = sum((part**2).sum() for part in _parts(stage, *away))
    assert_allclose(height, mean_loss(*w, *samples) + 0.5 * penalty * square, rtol=1e-12)
    wanted = [
        g + penalty * d
        for g, d in zip(_parts(stage, *gradients(*w, *samples)), _parts(stage, *away), strict=True)
    ]
    for direction in rng.standard_normal((10, n)):
        ahead = dense(theta + (point + direction) / root)
        move = _parts(stage, *(a - b for a, b in zip(ahead, w, strict=True)))
        # The norm of the parameters is that of the matrices.
        assert_allclose(
            np.linalg.norm(direction), np.sqrt(sum((m**2).sum() for m in move)), rtol=1e-12
        )
        slope = sum((g * m).sum() for g, m in zip(wanted, move, strict=True))
        assert_allclose(gradient @ direction, slope, rtol=1e-9, atol=1e-12)
        step = 1e-5 * direction
        difference = (objective(point + step)[0] - objective(point - step)[0]) / 2e-5
        assert_allclose(gradient @ direction, difference, rtol=1e-6, atol=1e-8)


# The path and the optimum


def _dense_objective(stage, start, origin, samples, penalty):
    """Loss and penalty of the dense matrices that a stage trains, as functions of a vector."""
    parts = _parts(stage, *start)
    cuts = np.cumsum([part.size for part in parts])[:-1]
    away = np.concatenate([part.ravel() for part in _parts(stage, *origin)])

    def matrices(vector):
        new = [
            piece.reshape(part.shape)
            for piece, part in zip(np.split(vector, cuts), parts, strict=True)
        ]
        return {"ov": [*new, start[1]], "kq": [start[0], *new], "joint": new}[stage]

    def objective(vector):
        w = matrices(vector)
        loss = mean_loss(*w, *samples) + 0.5 * penalty * ((vector - away) ** 2).sum()
        gradient = np.concatenate([g.ravel() for g in _parts(stage, *gradients(*w, *samples))])
        return loss, gradient + penalty * (vector - away)

    return objective, matrices, np.concatenate([part.ravel() for part in parts])


def _zeros():
    return np.zeros((N_CLASSES, N_TOKENS)), np.zeros((N_TOKENS, N_TOKENS))


CASES = [  # stage, mode, parameters of the fit, parameters of the fit that gives W_0
    ("ov", "single", {"stages": ("ov",)}, None),
    ("ov", "last", {"stages": ("ov",)}, None),
    ("ov", "context", {"stages": ("ov",)}, None),
    ("kq", "last", {"stages": ("ov", "kq")}, {}),
    ("kq", "context", {"stages": ("ov", "kq"), "attention_start": 0.8}, {}),
    ("joint", "last", {"stages": ("joint",), "attention_start": 0.5}, None),
    (
        "joint",
        "context",
        {"stages": ("ov", "joint"), "attention_start": 0.5, "smoothing": "kneser-ney"},
        {"smoothing": "kneser-ney", "attention_start": 0.5},
    ),
]


def _fit_and_start(seed, mode, params, first, **more):
    X, y, weight = conflicting(seed)
    params = {"collocation": mode, **params, **more}
    before = _lbfgs_fit((X, y), weight, **params | (first or {}) | {"stages": ("ov",)})
    clf = _lbfgs_fit((X, y), weight, **params)
    if first is None:
        start = _zeros()[0], before.coef_kq_
    else:
        start = before.coef_ov_, before.coef_kq_
    return X, y, weight, clf, start


@pytest.mark.parametrize("alpha", [0.0, 0.5])
@pytest.mark.parametrize(("stage", "mode", "params", "first"), CASES)
def test_the_first_iterations_are_those_of_scipy_on_the_dense_matrices(
    stage, mode, params, first, alpha
):
    more = {"alpha": alpha, "max_iter": 6, "tol": 0.0, "n_iter_no_change": 30}
    X, y, weight, clf, start = _fit_and_start(0, mode, params, first, **more)
    samples = _samples(stage, X, y, weight, mode)
    penalty = alpha / _n_samples(stage, X, weight, mode)
    objective, matrices, vector = _dense_objective(stage, start, start, samples, penalty)
    losses = [mean_loss(*start, *samples)]
    found = minimize(
        objective,
        vector,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": 6, "ftol": 0.0, "gtol": 0.0},
        callback=lambda x: losses.append(mean_loss(*matrices(x), *samples)),
    )
    curves = clf.convergence_[stage]
    assert_allclose(curves["loss"], losses, rtol=1e-9)
    assert_allclose(curves["log_loss"], np.log(losses), rtol=1e-9)
    assert curves["stop_reason"] == "max_iter" and clf.n_iter_[-1] == 6
    wanted = matrices(found.x)
    for got, part in zip(
        _parts(stage, clf.coef_ov_, clf.coef_kq_), _parts(stage, *wanted), strict=True
    ):
        assert_allclose(got, part, rtol=0, atol=1e-8)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(("stage", "mode", "params", "first"), CASES)
def test_it_ends_where_the_dense_gradient_is_zero(seed, stage, mode, params, first):
    alpha = 0.8
    X, y, weight, clf, start = _fit_and_start(seed, mode, params, first, alpha=alpha, **TO_THE_END)
    w = clf.coef_ov_, clf.coef_kq_
    samples = _samples(stage, X, y, weight, mode)
    penalty = alpha / _n_samples(stage, X, weight, mode)
    # In stage 1 W_kq is not trained yet.
    away = [a - b for a, b in zip(_parts(stage, *w), _parts(stage, *start), strict=True)]
    for gradient, part in zip(_parts(stage, *gradients(*w, *samples)), away, strict=True):
        assert_allclose(gradient + penalty * part, 0.0, rtol=0, atol=1e-8)
    assert max(np.abs(part).max() for part in away) > 0.05
    loss = clf.convergence_[stage]["loss"][-1]
    assert_allclose(loss, mean_loss(*w, *samples), rtol=1e-12)  # without the penalty


@pytest.mark.parametrize("mode", MODES)
def test_stage_1_is_a_logistic_regression_on_one_hot_tokens(mode):
    X, y, weight = conflicting(1)
    clf = _lbfgs_fit((X, y), weight, stages=("ov",), collocation=mode, alpha=0.7, **TO_THE_END)
    sentences, labels, weights = collocation_samples(X, y, weight, mode)
    # C sums the losses, `alpha` goes with their weighted mean times their sample weight.
    weights = np.array(weights) / np.sum(weights) * _n_samples("ov", X, weight, mode)
    peer = LogisticRegression(C=1 / 0.7, fit_intercept=False, tol=1e-10, max_iter=10_000)
    peer.fit(np.eye(N_TOKENS)[np.ravel(sentences)], labels, weights)
    classes = np.searchsorted(clf.classes_, peer.classes_)
    assert set(peer.classes_) <= set(clf.classes_)
    if len(classes) == N_CLASSES:
        assert_allclose(clf.coef_ov_, peer.coef_, rtol=0, atol=1e-6)
    else:
        # A class that nothing is followed by in this mode is unknown to the peer.
        assert mode == "single"
        wanted = minimize(
            lambda w: _regression(w, sentences, labels, weights, 0.7),
            np.zeros(N_CLASSES * N_TOKENS),
            jac=True,
            method="L-BFGS-B",
            options={"ftol": 0.0, "gtol": 1e-12, "maxiter": 10_000},
        ).x.reshape(N_CLASSES, N_TOKENS)
        assert_allclose(clf.coef_ov_, wanted, rtol=0, atol=1e-6)


def _regression(vector, sentences, labels, weights, alpha):
    """Sum of the losses of a multinomial logistic regression, the penalty, and the gradient."""
    w = vector.reshape(N_CLASSES, N_TOKENS)
    none = np.zeros((N_TOKENS, N_TOKENS))
    total = np.sum(weights)
    loss = total * mean_loss(w, none, sentences, labels, weights) + 0.5 * alpha * (w**2).sum()
    return loss, (total * gradients(w, none, sentences, labels, weights)[0] + alpha * w).ravel()


@pytest.mark.parametrize("seed", SEEDS)
def test_the_joint_stage_ends_where_scipy_does_on_the_dense_objective(seed):
    params, first = CASES[-1][2:]
    X, y, weight, clf, start = _fit_and_start(seed, "context", params, first, alpha=8, **TO_THE_END)
    penalty = 8 / np.sum(weight)
    objective, matrices, vector = _dense_objective("joint", start, start, (X, y, weight), penalty)
    options = {"maxiter": 300, "ftol": 0.0, "gtol": 1e-9}
    found = minimize(objective, vector, jac=True, method="L-BFGS-B", options=options)
    for got, wanted in zip((clf.coef_ov_, clf.coef_kq_), matrices(found.x), strict=True):
        assert_allclose(got, wanted, rtol=0, atol=1e-5)


def _full_support(seed):
    """Every token followed by every class, with unequal shares."""
    rng = np.random.RandomState(seed)
    X = [[x] for x in range(4) for _ in range(5)]
    return X, list(range(5)) * 4, rng.uniform(0.2, 2.0, 20)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(("schedule", "step_size"), [("invscaling", 0.5), ("linear", 0.05)])
def test_decaying_descent_and_lbfgs_reach_the_same_loss_where_stage_1_is_convex(
    schedule, step_size, mode
):
    X, y, weight = _full_support(0)
    params = {"stages": ("ov",), "collocation": mode}
    lbfgs = fitted((X, y), weight, **params, **TO_THE_END)
    ngd = fitted(
        (X, y), weight, **params, step_size=step_size, step_schedule=schedule, max_iter=2000
    )
    # The entropy of the shares, and so the lowest loss there is.
    share = weight.reshape(4, 5) / weight.reshape(4, 5).sum(axis=1, keepdims=True)
    token = np.full(4, 0.25) if mode == "single" else weight.reshape(4, 5).sum(axis=1)
    lowest = np.average(-(share * np.log(share)).sum(axis=1), weights=token)
    assert_allclose(lbfgs.loss_curve_[-1], lowest, rtol=0, atol=1e-12)
    assert_allclose(ngd.loss_curve_[-1], lbfgs.loss_curve_[-1], rtol=0, atol=1e-6)
    constant = fitted((X, y), weight, **params, step_size=step_size, max_iter=2000)
    assert constant.loss_curve_[-1] > ngd.loss_curve_[-1] + 1e-6


def test_linear_steps():
    """On CYC the norm is the sum of the steps: eta (1 - t / T), t = 0, 1, ..., T - 1."""
    params = {"step_schedule": "linear", "step_size": 0.5, "stages": ("ov",)}
    clf = fitted(CYC, max_iter=8, **params)
    steps = 0.5 * (1 - np.arange(8) / 8)
    norm = np.append(0.0, np.cumsum(steps))
    assert_allclose(clf.convergence_["ov"]["norm"], norm, rtol=1e-12)
    # A warm start goes on with the steps of all it will have taken.
    clf.set_params(warm_start=True, max_iter=4).fit(*CYC)
    later = norm[-1] + np.append(0.0, np.cumsum(0.5 * (1 - np.arange(8, 12) / 12)))
    assert_allclose(clf.convergence_["ov"]["norm"], [*norm[:-1], *later], rtol=1e-12)
    reference = fitted(CYC, solver="max_margin", max_iter=8, **params)
    assert_allclose(np.linalg.norm(reference.coef_ov_), norm[-1], rtol=1e-12)


# What must not change the result


STAGES_TRIED = [("ov", "kq"), ("ov", "joint")]


def _invariant_params(stages):
    return {
        "stages": stages,
        "collocation": "context",
        "alpha": 0.5,
        "attention_start": 0.3,
        "smoothing": None if stages[-1] == "kq" else "kneser-ney",
        "max_iter": 15,
    }


@pytest.mark.parametrize("stages", STAGES_TRIED)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_order_of_the_sentences_changes_no_bit(seed, stages):
    X, y, weight = conflicting(seed)
    order = np.random.RandomState(seed).permutation(len(X))
    params = _invariant_params(stages)
    clf = _lbfgs_fit((X, y), weight, **params)
    data = [X[i] for i in order], [y[i] for i in order]
    assert_same_fit(_lbfgs_fit(data, weight[order], **params), clf)


@pytest.mark.parametrize("stages", STAGES_TRIED)
@pytest.mark.parametrize("seed", SEEDS)
def test_integer_weights_equal_repeats_bit_for_bit(seed, stages):
    X, y, _ = conflicting(seed)
    times = 1 + np.random.RandomState(seed).randint(0, 3, len(X))
    repeated = [(s, v) for s, v, k in zip(X, y, times, strict=True) for _ in range(k)]
    params = _invariant_params(stages)
    twice = _lbfgs_fit(tuple(zip(*repeated, strict=True)), **params)
    assert_same_fit(twice, _lbfgs_fit((X, y), times, **params))


@pytest.mark.parametrize("stages", STAGES_TRIED)
@pytest.mark.parametrize("seed", SEEDS)
def test_renaming_permutes_the_coefficients(seed, stages):
    X, y, weight = conflicting(seed)
    name = np.random.RandomState(seed).permutation(N_CLASSES)
    token = name[:N_TOKENS]
    params = _invariant_params(stages) | {"max_iter": 6}
    clf = _lbfgs_fit((X, y), weight, **params)
    renamed = _lbfgs_fit(([[token[x] for x in s] for s in X], name[y].tolist()), weight, **params)
    rows, columns = name[clf.classes_], np.searchsorted(renamed.vocabulary_, token)
    wanted = renamed.coef_ov_[np.ix_(rows, columns)]
    assert_allclose(clf.coef_ov_, wanted, rtol=1e-10, atol=1e-10)
    wanted = renamed.coef_kq_[np.ix_(columns, columns)]
    assert_allclose(clf.coef_kq_, wanted, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("stages", STAGES_TRIED)
def test_two_threads_change_no_bit(stages):
    X, y, weight = conflicting(0)
    params = _invariant_params(stages)
    clf = _lbfgs_fit((X, y), weight, **params)
    assert_same_fit(_lbfgs_fit((X, y), weight, n_jobs=2, **params), clf)


@pytest.mark.parametrize("stages", STAGES_TRIED)
def test_weights_of_one_are_no_weights(stages):
    X, y, _ = conflicting(0)
    params = _invariant_params(stages)
    assert_same_fit(_lbfgs_fit((X, y), np.ones(len(X)), **params), _lbfgs_fit((X, y), **params))


@pytest.mark.parametrize("stages", STAGES_TRIED)
def test_twice_the_weights_and_twice_alpha_are_the_same_objective(stages):
    X, y, weight = conflicting(0)
    params = _invariant_params(stages) | {"smoothing": None}
    clf = _lbfgs_fit((X, y), weight, **params)
    twice = _lbfgs_fit((X, y), 2 * weight, **params | {"alpha": 1.0})
    assert_same_fit(twice, clf)
    assert np.abs(_lbfgs_fit((X, y), 2 * weight, **params).coef_kq_ - clf.coef_kq_).max() > 1e-3


# Why it stops


def _quadratic(theta):
    """Lowest at 1, 2, 3, ..., with a loss of 1 there."""
    away = theta - np.arange(1.0, len(theta) + 1)
    loss = 1.0 + 0.5 * away @ away
    return Evaluation(loss, np.log(loss), away.copy(), 0.0, 0.0)


def _minimise(evaluate=_quadratic, theta=(0.0, 0.0, 0.0), **params):
    params = {"max_iter": 50, "patience": Patience(50, 0.0), **params}
    return limited_memory_bfgs(evaluate, np.array(theta, dtype=float), **params)


def test_a_quadratic_is_minimised_and_the_start_is_not_modified():
    theta = np.zeros(3)
    found = limited_memory_bfgs(_quadratic, theta, max_iter=50, patience=Patience(50, 0.0))
    assert_array_equal(theta, 0.0)
    assert_allclose(found.theta, [1, 2, 3], rtol=1e-12)
    assert found.stop_reason == "converged"  # the gradient is zero now
    assert len(found.history["loss"]) == len(found.history["log_loss"]) == found.n_iter + 1
    assert found.history["loss"][0] == 8.0
    assert_allclose(found.history["loss"][-1], 1.0, rtol=1e-15)


def test_a_penalty_pulls_to_the_origin():
    found = _minimise(penalty=3.0, origin=np.array([5.0, 2.0, -1.0]))
    assert_allclose(found.theta, [4.0, 2.0, 0.0], rtol=0, atol=1e-9)
    found = _minimise(theta=(5.0, 2.0, -1.0), penalty=3.0)
    assert_allclose(found.theta, [4.0, 2.0, 0.0], rtol=0, atol=1e-9)


def test_a_scaled_gradient_is_scaled_back():
    def scaled(theta):
        value = _quadratic(theta)
        return value._replace(gradient=value.gradient * np.exp(3.0), log_scale=-3.0)

    assert_allclose(_minimise(scaled).history["loss"], _minimise().history["loss"], rtol=1e-12)


@pytest.mark.parametrize("max_iter", [0, 1])
def test_max_iter(max_iter):
    found = _minimise(max_iter=max_iter)
    assert (found.stop_reason, found.n_iter) == ("max_iter", max_iter)
    assert len(found.history["loss"]) == max_iter + 1
    assert_array_equal(found.theta == 0.0, max_iter == 0)


def test_zero_gradient_at_once():
    found = _minimise(theta=(1.0, 2.0, 3.0))
    assert (found.stop_reason, found.n_iter) == ("zero gradient", 0)
    assert found.history == {"loss": [1.0], "log_loss": [0.0]}
    assert_array_equal(found.theta, [1, 2, 3])
    # With the penalty it is none.
    found = _minimise(theta=(1.0, 2.0, 3.0), penalty=1.0, origin=np.zeros(3))
    assert_allclose(found.theta, [0.5, 1.0, 1.5], rtol=0, atol=1e-9)


def test_no_descent():
    def uphill(theta):
        value = _quadratic(theta)
        return value._replace(gradient=-value.gradient)

    found = _minimise(uphill)
    assert (found.stop_reason, found.n_iter) == ("no descent", 0)
    assert_array_equal(found.theta, 0.0)


def _slow(theta):
    """Convex, and slow to converge: a sum of fourth powers."""
    loss = np.sum(theta**4)
    return Evaluation(loss, np.log(loss), 4 * theta**3, 0.0, 0.0)


@pytest.mark.parametrize("penalty", [0.0, 3.0])
def test_patience_watches_the_objective(penalty):
    # The penalty pulls to where the loss is higher.
    start, origin = np.array([1.5, -1.0, 0.5]), np.array([3.0, -2.0, 1.0])
    params = {"theta": start, "penalty": penalty, "origin": origin, "max_iter": 500}
    seen = []
    track = Track(monitor=lambda theta: seen.append(theta) or {})
    found = _minimise(_slow, patience=Patience(3, 1e-4), track=track, **params)
    assert found.stop_reason == "converged"
    losses = [np.sum(theta**4) for theta in seen]
    heights = [
        loss + penalty / 2 * np.sum((theta - origin) ** 2)
        for loss, theta in zip(losses, seen, strict=True)
    ]
    patience = Patience(3, 1e-4)
    assert [patience.out(height) for height in heights] == [False] * found.n_iter + [True]
    assert_array_equal(found.theta, seen[-1])
    if penalty:
        patience = Patience(3, 1e-4)
        assert any([patience.out(loss) for loss in losses[:-1]])


@pytest.mark.parametrize("n", [1, 4])
def test_patience_counts_from_the_start(n):
    found = _minimise(_slow, theta=(3.0, -2.0, 1.0), patience=Patience(n, 1e9))
    assert (found.stop_reason, found.n_iter) == ("converged", n)


def test_the_point_of_an_iteration_may_not_be_the_one_evaluated_last(monkeypatch):
    def searching(objective, start, callback, **options):
        objective(start + 1.0)
        objective(start + 7.0)
        callback(start + 1.0)
        return OptimizeResult(x=start + 1.0, status=1)

    monkeypatch.setattr(_lbfgs, "minimize", searching)
    found = _minimise()
    assert_array_equal(found.theta, 1.0)
    assert found.history["loss"] == [8.0, _quadratic(np.ones(3)).loss]


def test_what_is_recorded_is_the_point_that_was_reached():
    seen = []
    track = Track(monitor=lambda theta: seen.append(theta.copy()) or {"first": theta[0]})
    found = _minimise(_slow, theta=(3.0, -2.0, 1.0), max_iter=8, track=track)
    assert_allclose(found.history["loss"], [np.sum(theta**4) for theta in seen], rtol=1e-12)
    assert found.history["first"] == [theta[0] for theta in seen]
    assert_array_equal(found.theta, seen[-1])
    assert (np.diff(found.history["loss"]) < 0).all()


@pytest.mark.parametrize(("lowest", "n_iter"), [(0, 2), (3, 5)])
def test_early_stopping_keeps_the_best_point(lowest, n_iter):
    seen = []

    def monitor(theta):
        seen.append(theta.copy())
        return {"validation_loss": float(abs(len(seen) - 1 - lowest))}

    track = Track(monitor, patience=Patience(2, 0.0))
    found = _minimise(_slow, theta=(3.0, -2.0, 1.0), patience=Patience(1, np.inf), track=track)
    assert (found.stop_reason, found.n_iter) == ("early stopping", n_iter)
    assert len(found.history["validation_loss"]) == n_iter + 1
    assert_array_equal(found.theta, seen[lowest])


def test_the_best_point_is_kept_where_max_iter_ends_it():
    losses = iter([3.0, 1.0, 2.0, 2.5])
    seen = []

    def monitor(theta):
        seen.append(theta.copy())
        return {"validation_loss": next(losses)}

    track = Track(monitor, patience=Patience(10, 0.0))
    found = _minimise(_slow, theta=(3.0, -2.0, 1.0), max_iter=3, track=track)
    assert (found.stop_reason, found.n_iter) == ("max_iter", 3)
    assert_array_equal(found.theta, seen[1])


# The estimator


def test_history_and_reasons_of_the_estimator():
    X, y, weight = conflicting(0)
    clf = _lbfgs_fit((X, y), weight, stages=("ov", "kq", "joint"), max_iter=(3, 1000, 4), tol=1e-3)
    reasons = {stage: curves["stop_reason"] for stage, curves in clf.convergence_.items()}
    assert reasons == {"ov": "max_iter", "kq": "converged", "joint": "max_iter"}
    assert clf.n_iter_[0] == 3 and clf.n_iter_[2] == 4 and 10 <= clf.n_iter_[1] < 1000
    lengths = [len(curves["loss"]) for curves in clf.convergence_.values()]
    assert lengths == [n + 1 for n in clf.n_iter_]
    assert len(clf.loss_curve_) == sum(lengths)
    for curves in clf.convergence_.values():
        assert {len(curve) for name, curve in curves.items() if name != "stop_reason"} == {
            len(curves["loss"])
        }
    assert_allclose(clf.convergence_["ov"]["norm"][0], 0.0)
    norm = clf.convergence_["joint"]["norm_ov"][-1]
    assert_allclose(norm, np.linalg.norm(clf.coef_ov_), rtol=1e-12)


@pytest.mark.parametrize("n", [2, 5])
@pytest.mark.parametrize("tol", [1e-2, 1e-4])
def test_convergence_follows_n_iter_no_change_and_tol(n, tol):
    data = conflicting(0)
    clf = _lbfgs_fit(data[:2], data[2], stages=("joint",), n_iter_no_change=n, tol=tol)
    curves = clf.convergence_["joint"]
    assert curves["stop_reason"] == "converged"
    patience = Patience(n, tol)
    assert [patience.out(loss) for loss in curves["loss"]] == [False] * clf.n_iter_[0] + [True]


def test_zero_gradient_of_the_estimator():
    clf = _lbfgs_fit(CYC)
    assert clf.convergence_["kq"]["stop_reason"] == "zero gradient"  # nothing to attend to
    assert clf.n_iter_[1] == 0 and len(clf.convergence_["kq"]["loss"]) == 1
    balanced = _lbfgs_fit(CONFLICT)
    assert_array_equal(balanced.coef_kq_, 0.0)


@pytest.mark.parametrize(
    "max_iter",
    [
        300,
        # SciPy's products of gradients underflow at a loss of 1e-162, and its next point is NaN.
        1000,
    ],
)
@pytest.mark.parametrize("stages", [("ov", "kq"), ("joint",)])
def test_separable_data_without_penalty_neither_overflow_nor_crash(stages, max_iter):
    params = {**TO_THE_END, "n_iter_no_change": 10_000, "stages": stages, "max_iter": max_iter}
    for data in (CYC, CHAIN):
        clf = fitted(data, **params)
        assert np.isfinite(clf.coef_ov_).all() and np.isfinite(clf.coef_kq_).all()
        assert np.isfinite(clf.loss_curve_).all() and clf.loss_curve_[-1] < 1e-80
        assert clf.score(*data) == 1.0
        for curves in clf.convergence_.values():
            assert (np.diff(curves["loss"]) <= 0).all()
            assert curves["stop_reason"] in {"zero gradient", "converged", "no descent", "max_iter"}


@pytest.mark.parametrize("stages", [("ov", "kq"), ("ov", "joint")])
@pytest.mark.parametrize("seed", range(4))
def test_realizable_data_are_predicted_perfectly(seed, stages):
    data = realizable(seed)
    assert fitted(data, solver="lbfgs", stages=stages, max_iter=500).score(*data) == 1.0


def test_a_weak_penalty_bounds_the_weights_of_separable_data():
    norms = [
        np.linalg.norm(_lbfgs_fit(CHAIN, stages=("joint",), alpha=alpha, tol=0.0).coef_ov_)
        for alpha in (1.0, 0.1, 0.01)
    ]
    assert 0.1 < norms[0] < norms[1] < norms[2] < 30


def test_one_class_only():
    clf = _lbfgs_fit(([["a"], ["b"], ["a", "b"]], ["c", "c", "c"]), stages=("ov", "kq", "joint"))
    assert_array_equal(clf.loss_curve_, 0.0)
    assert [curves["stop_reason"] for curves in clf.convergence_.values()] == ["zero gradient"] * 3


# Warm start


@pytest.mark.parametrize(("stage", "mode"), [("ov", "last"), ("joint", "context")])
def test_warm_start_continues(stage, mode):
    X, y, weight = conflicting(0)
    params = {"stages": (stage,), "collocation": mode, "alpha": 1.0, "attention_start": 0.4}
    clf = _lbfgs_fit((X, y), weight, **params, warm_start=True, max_iter=7)
    first = clf.convergence_[stage]
    clf.set_params(**TO_THE_END).fit(X, y, weight)
    second = clf.convergence_[stage]
    assert_array_equal(second["loss"][:7], first["loss"][:7])
    assert_allclose(second["loss"][7], first["loss"][7], rtol=1e-12)  # the meeting point, once
    assert len(second["loss"]) == 7 + clf.n_iter_[0] + 1
    # Still pulled to where the first call started.
    straight = _lbfgs_fit((X, y), weight, **params, **TO_THE_END)
    assert_allclose(clf.coef_ov_, straight.coef_ov_, rtol=0, atol=1e-5)
    assert_allclose(clf.coef_kq_, straight.coef_kq_, rtol=0, atol=1e-5)


def test_warm_start_of_stage_2_leaves_stage_1_as_it_is():
    X, y, weight = conflicting(1)
    clf = _lbfgs_fit((X, y), weight, warm_start=True, alpha=1.0, max_iter=5)
    w_ov, first = clf.coef_ov_, clf.convergence_
    clf.set_params(stages=("kq",), **TO_THE_END).fit(X, y, weight)
    assert_array_equal(clf.coef_ov_, w_ov)
    assert_array_equal(clf.convergence_["ov"]["loss"], first["ov"]["loss"])
    gradient = gradients(clf.coef_ov_, clf.coef_kq_, X, y, weight)[1]
    assert_allclose(gradient + clf.coef_kq_ / np.sum(weight), 0.0, rtol=0, atol=1e-8)


def test_one_solver_may_follow_another():
    X, y, weight = conflicting(0)
    clf = fitted((X, y), weight, warm_start=True, step_size=0.02, max_iter=20)
    clf.set_params(solver="lbfgs", stages=("joint",), max_iter=10).fit(X, y, weight)
    before = clf.convergence_["kq"]["loss"][-1]
    assert_allclose(clf.convergence_["joint"]["loss"][0], before, rtol=1e-12)
    clf.set_params(solver="ngd", step_size=1e-3).fit(X, y, weight)
    assert len(clf.convergence_["joint"]["loss"]) == 21


# Parameters


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"alpha": 0.1}, r"alpha=0.1 has no meaning with solver='ngd'"),
        ({"alpha": 1, "solver": "max_margin"}, r"alpha=1 has no meaning with solver='max_margin'"),
        (
            {"solver": "lbfgs", "step_schedule": "linear"},
            r"step_schedule='linear' has no meaning with solver='lbfgs'",
        ),
        (
            {"solver": "max_margin", "smoothing": "kneser-ney"},
            r"smoothing='kneser-ney' has no meaning with solver='max_margin'",
        ),
        (
            {"solver": "max_margin", "attention_start": -1.0},
            r"attention_start=-1.0 has no meaning with solver='max_margin'",
        ),
        (
            {"solver": "max_margin", "early_stopping": True},
            r"early_stopping=True has no meaning with solver='max_margin'",
        ),
        ({"solver": "lbfgs", "alpha": -1e-3}, "'alpha' parameter"),
        ({"solver": "lbfgs", "alpha": np.nan}, "'alpha' parameter"),
        ({"solver": "lbfgs", "alpha": np.inf}, "'alpha' parameter"),
        ({"solver": "lbfgs", "alpha": "1"}, "'alpha' parameter"),
        ({"solver": "lbfgs", "tol": -1.0}, "'tol' parameter"),
        ({"solver": "lbfgs", "n_iter_no_change": 0}, "'n_iter_no_change' parameter"),
        ({"solver": "lbfgs", "n_iter_no_change": 2.5}, "'n_iter_no_change' parameter"),
        ({"solver": "bfgs"}, "'solver' parameter"),
        ({"step_schedule": "cosine"}, "'step_schedule' parameter"),
        ({"solver": "lbfgs", "max_iter": 0}, "max_iter"),
    ],
)
def test_invalid_parameters(params, message):
    with pytest.raises(ValueError, match=message):
        NTPTransformerClassifier(**params).fit(*CHAIN)


def test_parameters_at_their_bounds_are_fine():
    _lbfgs_fit(CHAIN, alpha=0, tol=0, n_iter_no_change=1, max_iter=1, step_schedule="constant")


@pytest.mark.parametrize("verbose", [1, 2])
def test_verbose(capsys, verbose):
    X, y, weight = conflicting(0)
    params = {"stages": ("ov", "joint"), "smoothing": "kneser-ney", "collocation": "context"}
    clf = _lbfgs_fit((X, y), weight, verbose=verbose, max_iter=30, tol=0.0, **params)
    lines = capsys.readouterr().out.splitlines()
    loss, norm = (clf.convergence_["ov"][name][0] for name in ("loss", "norm"))
    head = "[NTPTransformerClassifier] stage"
    lines = [re.sub(r"\d+\.\d s", "TIME", line) for line in lines]
    assert lines[0] == (
        f"{head} ov, step 0/0, TIME, loss {loss:.6g}, norm {norm:.6g}, stop: smoothing"
    )
    steps = [line.split(", ")[1] for line in lines[1:]]
    assert steps == [f"step {t}/30" for t in range(0, 31, 3 if verbose == 1 else 1)]
    curves = clf.convergence_["joint"]
    assert lines[-1] == (
        f"{head} joint, step 30/30, TIME, loss {curves['loss'][-1]:.6g}, norm_ov "
        f"{curves['norm_ov'][-1]:.6g}, norm_kq {curves['norm_kq'][-1]:.6g}, stop: max_iter"
    )


def test_no_words_without_verbose(capsys):
    _lbfgs_fit(CHAIN)
    assert capsys.readouterr().out == ""


def test_progress_towards_the_reference_is_tracked():
    clf = _lbfgs_fit(CYC, stages=("ov",), track_alignment=True, tol=0.0, max_iter=5)
    curves = clf.convergence_["ov"]
    assert np.isnan(curves["cosine"][0])
    assert_allclose(curves["cosine"][1:], 1.0, rtol=1e-12)
    assert_array_equal(curves["accuracy"][1:], 1.0)


def test_what_would_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(_memory, "available_memory", lambda: 500)
    with pytest.raises(MemoryError, match=r"What L-BFGS holds, an array of shape \(30, "):
        _lbfgs_fit(CYC)
