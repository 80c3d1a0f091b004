"""What must not change the result, and relations between runs."""

import numpy as np
import pytest
from oracle import two_stage
from samples import CYC_X, CYC_Y, conflicting, realizable

from sklntp import NTPTransformerClassifier

SEEDS = range(8)
MATRICES = ["coef_ov_", "coef_kq_"]
TOLERANCE = {"rtol": 1e-10, "atol": 1e-10}


def _fit(X, y, weight=None, **params):
    params = {"max_iter": 60, "collocation": "single", "track_alignment": True} | params
    return NTPTransformerClassifier(**params).fit(X, y, weight)


def _arrays(clf):
    """All that training leaves, by name."""
    arrays = {name: getattr(clf, name) for name in [*MATRICES, "loss_curve_"]}
    for stage, curves in clf.convergence_.items():
        arrays |= {(stage, name): curve for name, curve in curves.items()}
    return arrays


def _assert_bit_equal(a, b):
    a, b = _arrays(a), _arrays(b)
    assert a.keys() == b.keys()
    for name in a:
        np.testing.assert_array_equal(a[name], b[name], err_msg=str(name))


def _unit(matrix):
    return matrix / np.linalg.norm(matrix)


def _shuffled(rng, X, y, weight):
    order = rng.permutation(len(X))
    return [X[i] for i in order], [y[i] for i in order], weight[order]


@pytest.mark.parametrize("stages", [("ov", "kq"), ("ov", "kq", "joint")], ids=["two", "joint"])
@pytest.mark.parametrize("mode", ["single", "last", "context"])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_order_of_the_sentences_changes_no_bit(seed, mode, stages):
    rng = np.random.RandomState(seed)
    X, y, weight = conflicting(seed)
    # Sentences that stand there often, with weights whose sum depends on the order.
    X, y, weight = X + X[-9:] * 5, y + y[-9:] * 5, rng.uniform(0.5, 2.0, len(X) + 45)
    params = {"collocation": mode, "stages": stages, "track_alignment": "joint" not in stages}
    _assert_bit_equal(_fit(X, y, weight, **params), _fit(*_shuffled(rng, X, y, weight), **params))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_order_of_the_tokens_before_the_query_changes_no_bit(seed):
    rng = np.random.RandomState(seed)
    X, y, weight = conflicting(seed)
    mixed = [[*rng.permutation(sentence[:-1]).tolist(), sentence[-1]] for sentence in X]
    assert mixed != X
    _assert_bit_equal(_fit(X, y, weight), _fit(mixed, y, weight))


@pytest.mark.parametrize("seed", SEEDS)
def test_names_in_the_same_order_change_no_bit(seed):
    X, y, weight = conflicting(seed)
    named = _fit([[f"t{x}" for x in s] for s in X], [f"t{v}" for v in y], weight)
    _assert_bit_equal(_fit(X, y, weight), named)
    assert named.vocabulary_.tolist() == [f"t{x}" for x in range(7)]


@pytest.mark.parametrize("seed", SEEDS)
def test_renaming_permutes_the_coefficients(seed):
    X, y = realizable(seed)
    name = np.random.RandomState(seed).permutation(len(set(y)))
    clf, renamed = _fit(X, y), _fit([[name[x] for x in s] for s in X], name[y])
    for matrix in MATRICES:
        got = getattr(renamed, matrix)[np.ix_(name, name)]
        np.testing.assert_allclose(got, getattr(clf, matrix), **TOLERANCE)


@pytest.mark.parametrize("seed", SEEDS)
def test_integer_weights_equal_repeats_bit_for_bit(seed):
    rng = np.random.RandomState(seed)
    X, y, _ = conflicting(seed)
    times = rng.randint(0, 4, size=len(X))
    times[: len(CYC_X)] += 1
    repeated = [(s, v) for s, v, k in zip(X, y, times, strict=True) for _ in range(k)]
    order = rng.permutation(len(repeated))
    twice = _fit([repeated[i][0] for i in order], [repeated[i][1] for i in order])
    _assert_bit_equal(_fit(X, y, times), twice)


@pytest.mark.parametrize("seed", SEEDS)
def test_twice_the_weights_change_no_bit(seed):
    X, y, weight = conflicting(seed)
    _assert_bit_equal(_fit(X, y, weight), _fit(X, y, 2.0 * weight))


@pytest.mark.parametrize("seed", SEEDS)
def test_the_scale_of_the_weights_does_not_matter(seed):
    X, y = realizable(seed)
    weight = np.random.RandomState(seed).uniform(0.5, 2.0, len(X))
    clf, scaled = _fit(X, y, weight), _fit(X, y, 3.7 * weight)
    for name in [*MATRICES, "loss_curve_"]:
        np.testing.assert_allclose(getattr(scaled, name), getattr(clf, name), **TOLERANCE)


@pytest.mark.parametrize("extra", [0, 2])
@pytest.mark.parametrize("seed", SEEDS[:4])
def test_an_orthonormal_embedding_only_rotates_the_matrices(seed, extra):
    X, y = realizable(seed)
    n_tokens, steps = len(set(y)), 60
    rng = np.random.RandomState(seed)
    embedding = np.linalg.qr(rng.standard_normal((n_tokens + extra, n_tokens)))[0]  # (d, V)
    ov, kq, *losses = two_stage(
        X, y, np.ones(len(X)), n_tokens, n_tokens, "single", steps, 0.2, embedding=embedding
    )
    clf = _fit(X, y, max_iter=steps)
    close = {"rtol": 1e-9, "atol": 1e-9}
    W_ov, W_kq = clf.coef_in_embedding(embedding.T)
    np.testing.assert_allclose(ov[-1], W_ov, **close)
    np.testing.assert_allclose(kq[-1], W_kq, **close)
    np.testing.assert_allclose(W_ov @ embedding, clf.coef_ov_, rtol=0, atol=1e-12)
    np.testing.assert_allclose(embedding.T @ W_kq @ embedding, clf.coef_kq_, rtol=0, atol=1e-12)
    assert np.linalg.norm(W_kq) == pytest.approx(np.linalg.norm(clf.coef_kq_), rel=1e-13)
    np.testing.assert_allclose(np.concatenate(losses), clf.loss_curve_, **close)


# Relations between runs


def _pieces(X, y, pieces, schedule):
    """Stage 1, then stage 2 on the finished W_ov, each in several calls of fit."""
    clf = NTPTransformerClassifier(
        collocation="single", step_schedule=schedule, warm_start=True, track_alignment=True
    )
    for stage in ["ov", "kq"]:
        for n in pieces:
            clf.set_params(stages=(stage,), max_iter=n).fit(X, y)
    return clf


@pytest.mark.parametrize("schedule", ["constant", "invscaling"])
@pytest.mark.parametrize("data", [realizable, conflicting])
@pytest.mark.parametrize("pieces", [(50, 50), (1,) * 100], ids=["50 + 50", "1 + ... + 1"])
@pytest.mark.parametrize("seed", SEEDS[:3])
def test_pieces_equal_one_run(seed, pieces, data, schedule):
    X, y = data(seed)[:2]
    parts, whole = _pieces(X, y, pieces, schedule), _pieces(X, y, (100,), schedule)
    assert parts.n_iter_.tolist() == [pieces[-1]]
    parts, whole = _arrays(parts), _arrays(whole)
    assert parts.keys() == whole.keys()
    for name in parts:
        if "stop_reason" in name:
            assert parts[name] == whole[name]
        else:
            np.testing.assert_allclose(parts[name], whole[name], rtol=1e-12, atol=1e-12)
    assert len(parts["kq", "loss"]) == 101


@pytest.mark.parametrize("seed", SEEDS)
def test_two_stages_equal_one_after_the_other(seed):
    X, y = realizable(seed)
    _assert_bit_equal(_fit(X, y, max_iter=100), _pieces(X, y, (100,), "constant"))


@pytest.mark.parametrize("broken", [None, "confused", "cyclic", "minority", "non_injective"])
@pytest.mark.parametrize("seed", SEEDS[:4])
def test_max_margin_is_the_reference_at_the_norm_of_the_steps(seed, broken):
    X, y = realizable(seed, break_assumption=broken)
    clf = _fit(X, y, solver="max_margin", step_size=(0.1, 0.3), max_iter=(700, 500))
    for name, norm in zip(MATRICES, [70.0, 150.0], strict=True):
        matrix, reference = getattr(clf, name), getattr(clf, f"max_margin_{name}")
        np.testing.assert_allclose(np.linalg.norm(matrix), norm, rtol=1e-12)
        np.testing.assert_allclose(_unit(matrix), _unit(reference), rtol=0, atol=1e-12)
    for curves in clf.convergence_.values():
        assert curves["stop_reason"] == "max_margin"
        np.testing.assert_allclose(curves["cosine"], [1.0], rtol=0, atol=1e-12)


@pytest.mark.parametrize("max_iter", [500, 3_000_000])
def test_max_margin_sums_decaying_steps(max_iter):
    params = {"step_schedule": "invscaling", "max_iter": max_iter, "stages": ("ov",)}
    clf = _fit(CYC_X, CYC_Y, solver="max_margin", **params)
    norm = 0.2 * np.sum(1.0 / np.sqrt(np.arange(1.0, max_iter + 1.0)))
    np.testing.assert_allclose(np.linalg.norm(clf.coef_ov_), norm, rtol=1e-12)


def _assert_alignment(clf, curves, name, suffix=""):
    """Norm, cosine and dist of a history against the dense matrices."""
    norm, cosine, dist = (curves[key + suffix] for key in ["norm", "cosine", "dist"])
    matrix, reference = getattr(clf, name), getattr(clf, f"max_margin_{name}")
    difference = _unit(matrix) - _unit(reference)
    np.testing.assert_allclose(norm[-1], np.linalg.norm(matrix), rtol=1e-12)
    np.testing.assert_allclose(dist[-1], np.linalg.norm(difference), rtol=1e-11, atol=1e-14)
    np.testing.assert_allclose(cosine[-1], np.sum(_unit(matrix) * _unit(reference)), rtol=1e-12)
    np.testing.assert_array_equal(np.isnan(cosine), norm == 0.0)
    np.testing.assert_array_equal(np.isnan(dist), norm == 0.0)
    assert norm[0] == 0.0 and np.nanmax(cosine) <= 1.0


@pytest.mark.parametrize("broken", [None, "confused"])
@pytest.mark.parametrize("seed", SEEDS[:4])
def test_histories(seed, broken):
    X, y = realizable(seed, break_assumption=broken)
    clf = _fit(X, y, max_iter=(30, 40))
    for stage, n in [("ov", 30), ("kq", 40)]:
        curves = clf.convergence_[stage]
        _assert_alignment(clf, curves, f"coef_{stage}_")
        assert {len(v) for k, v in curves.items() if k != "stop_reason"} == {n + 1}
        np.testing.assert_allclose(curves["log_loss"], np.log(curves["loss"]), rtol=1e-12)
        np.testing.assert_allclose(curves["norm"][1], 0.2, rtol=1e-12)
    assert clf.convergence_["kq"]["accuracy"][-1] == clf.score(X, y)
    assert clf.n_iter_.tolist() == [30, 40]
    wanted = [clf.convergence_[stage]["loss"] for stage in ["ov", "kq"]]
    np.testing.assert_array_equal(clf.loss_curve_, np.concatenate(wanted))


@pytest.mark.parametrize("seed", SEEDS[:4])
def test_histories_of_the_joint_stage(seed):
    clf = _fit(*realizable(seed), stages=("joint",), max_iter=30)
    curves = clf.convergence_["joint"]
    for stage in ["ov", "kq"]:
        _assert_alignment(clf, curves, f"coef_{stage}_", f"_{stage}")
    assert {len(v) for k, v in curves.items() if k != "stop_reason"} == {31}
    step = np.hypot(curves["norm_ov"][1], curves["norm_kq"][1])
    np.testing.assert_allclose(step, 0.2, rtol=1e-12)


def test_norm_and_cosine_while_1_minus_p_falls_to_1e_31():
    curves = _fit(CYC_X, CYC_Y, step_size=0.1, max_iter=1000).convergence_["ov"]
    np.testing.assert_allclose(curves["norm"], 0.1 * np.arange(1001), rtol=1e-12)
    assert np.nanmax(curves["cosine"]) <= 1.0
    np.testing.assert_allclose(curves["cosine"][1:], 1.0, rtol=0, atol=1e-15)


# A gradient of zero stays zero


def _assert_untouched(X, y, weight=None):
    clf = _fit(X, y, weight)
    assert not clf.coef_kq_.any()
    assert clf.n_iter_.tolist() == [60, 0]
    assert clf.convergence_["kq"]["stop_reason"] == "zero gradient"


@pytest.mark.parametrize("n_classes", range(2, 12))
@pytest.mark.parametrize("n_tokens", range(2, 8))
def test_tokens_with_equal_next_tokens_attract_equally(n_tokens, n_classes):
    X = [[x] for x in range(n_tokens) for _ in range(n_classes)]
    y = [*range(n_classes)] * n_tokens
    weight = [1.0 + v for v in y]
    longer = [[*range(n_tokens)], [0, 0, 1], [1, 1, 0]]
    _assert_untouched(X + longer, [*y, 0, 1, 9], [*weight, 1.0, 1.0, 1.0])


@pytest.mark.parametrize("seed", SEEDS)
def test_contexts_that_cancel_leave_no_noise_to_follow(seed):
    # Three contexts with even attention pull one way with weights a + b, the other way with c.
    a, b = np.random.RandomState(seed).uniform(0.1, 1.0, 2)
    longer = [[0, 1], [0, 0, 1, 1], [0, 0, 0, 1, 1, 1]]
    _assert_untouched(CYC_X + longer, [*CYC_Y, 1, 1, 2], [1.0, 1.0, 1.0, a, b, a + b])


# Few classes


@pytest.mark.parametrize("stages", [("ov", "kq"), ("joint",), ("ov", "kq", "joint")])
def test_one_class(stages):
    X = [["a"], ["b"], ["a", "b"], ["b", "b", "a"]]
    clf = _fit(X, ["x"] * 4, stages=stages)
    for matrix in MATRICES:
        assert not getattr(clf, matrix).any()
    assert clf.n_iter_.tolist() == [0] * len(stages)
    for curves in clf.convergence_.values():
        assert curves["stop_reason"] == "zero gradient"
        assert curves["loss"].tolist() == [0.0] and curves["log_loss"].tolist() == [-np.inf]
    assert clf.predict_proba(X).tolist() == [[1.0]] * 4


def test_two_classes():
    X, y = [[0], [1], [0, 1], [1, 1, 0]], [1, 0, 1, 0]
    clf = _fit(X, y, max_iter=100)
    ov, kq, *losses = two_stage(X, y, np.ones(4), 2, 2, "single", 100, 0.2)
    np.testing.assert_allclose(clf.coef_ov_, ov[-1], **TOLERANCE)
    np.testing.assert_allclose(clf.coef_kq_, kq[-1], **TOLERANCE)
    np.testing.assert_allclose(clf.loss_curve_, np.concatenate(losses), **TOLERANCE)
    log_p = clf.predict_log_proba(X)
    np.testing.assert_allclose(clf.decision_function(X), log_p[:, 1] - log_p[:, 0], rtol=1e-12)
    assert clf.predict(X).tolist() == y
