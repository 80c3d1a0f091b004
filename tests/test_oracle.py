"""The estimator trains what the paper's equations, taken literally, train.

Constant steps near a finite optimum amplify rounding (design: conflicting data), so there
the steps decay, or are few.
"""

from collections import Counter

import numpy as np
import pytest
from oracle import joint, two_stage
from samples import conflicting, realizable

from sklntp import NTPTransformerClassifier

SEEDS = range(8)
STEPS = 120


def _assert_equal(got, wanted):
    np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-9)


def _assert_same_loss(got, wanted):
    np.testing.assert_allclose(got, wanted, rtol=1e-9, atol=1e-15)  # the oracle's p rounds to 1


def _assert_two_stages(
    X, y, weight=None, *, mode="single", steps=STEPS, schedule="constant", vocabulary=None
):
    """Train the estimator and the oracle, and compare matrices and losses."""
    clf = NTPTransformerClassifier(
        max_iter=steps, collocation=mode, step_schedule=schedule, vocabulary=vocabulary
    ).fit(X, y, weight)
    tokens = clf.vocabulary_.tolist()
    code = {token: i for i, token in enumerate(tokens)}
    eta = 0.2 if schedule == "constant" else 0.2 / np.sqrt(np.arange(steps) + 1.0)
    ov, kq, ov_losses, kq_losses = two_stage(
        [[code.get(token, len(tokens)) for token in sentence] for sentence in X],
        [clf.classes_.tolist().index(label) for label in y],
        np.ones(len(X)) if weight is None else weight,
        len(tokens) + 1,
        len(clf.classes_),
        mode,
        steps,
        eta,
        n_known=len(tokens),
    )
    _assert_equal(clf.coef_ov_, ov[-1][:, :-1])
    _assert_equal(clf.coef_kq_, kq[-1][:-1, :-1])
    _assert_same_loss(clf.convergence_["ov"]["loss"], ov_losses)
    _assert_same_loss(clf.convergence_["kq"]["loss"], kq_losses)
    assert clf.n_iter_.tolist() == [steps, steps]
    return clf


@pytest.mark.parametrize("weighted", [False, True], ids=["plain", "weighted"])
@pytest.mark.parametrize("broken", [None, "confused"])
@pytest.mark.parametrize("seed", SEEDS)
def test_two_stages(seed, broken, weighted):
    X, y = realizable(seed, break_assumption=broken)
    weight = np.random.RandomState(seed).uniform(0.2, 3.0, len(X)) if weighted else None
    _assert_two_stages(X, y, weight)


@pytest.mark.parametrize("seed", SEEDS[:4])
def test_last_tokens_with_one_next_token_each(seed):
    X, _ = realizable(seed)
    _assert_two_stages(X, [(3 * sentence[-1] + 1) % 10 for sentence in X], mode="last")


@pytest.mark.parametrize("seed", SEEDS[:4])
def test_context_tokens_with_one_next_token_each(seed):
    rng = np.random.RandomState(seed)
    y = np.arange(30) % 3
    X = [(3 * rng.randint(3, size=rng.randint(1, 5)) + label).tolist() for label in y]
    _assert_two_stages(X, y, rng.uniform(0.2, 3.0, len(X)), mode="context")


@pytest.mark.parametrize("mode", ["single", "last", "context"])
@pytest.mark.parametrize("seed", SEEDS[:4])
def test_few_steps_on_conflicting_data(seed, mode):
    _assert_two_stages(*conflicting(seed), mode=mode, steps=30)


@pytest.mark.parametrize("mode", ["single", "last", "context"])
@pytest.mark.parametrize("seed", SEEDS[:4])
def test_decaying_steps_on_conflicting_data(seed, mode):
    _assert_two_stages(*conflicting(seed), mode=mode, schedule="invscaling")


@pytest.mark.parametrize("broken", ["cyclic", "non_injective"])
@pytest.mark.parametrize("seed", SEEDS[:3])
def test_decaying_steps_on_broken_assumptions(seed, broken):
    X, y = realizable(seed, break_assumption=broken)
    _assert_two_stages(X, y, schedule="invscaling")


@pytest.mark.parametrize("seed", SEEDS[:3])
def test_repeated_tokens(seed):
    X, y = realizable(seed, break_assumption="minority")
    assert max(max(Counter(sentence).values()) for sentence in X) > 1
    _assert_two_stages(X, y)


@pytest.mark.parametrize("seed", SEEDS[:4])
def test_unknown_tokens_as_key_as_query_and_as_what_produces_the_label(seed):
    X, y = realizable(seed)
    known = np.random.RandomState(seed).permutation(6)[:4].tolist()
    longer = [sentence for sentence in X if len(sentence) > 1]
    assert any(sentence[-1] not in known for sentence in longer)
    assert any(sentence[-1] in known and not set(sentence) <= set(known) for sentence in longer)
    clf = _assert_two_stages(X, y, vocabulary=known)
    assert clf.vocabulary_.tolist() == known


def _joint_oracle(X, y, steps, start=None):
    size = len(set(y))
    return joint(X, y, np.ones(len(X)), size, size, steps, 0.2, start=start)


@pytest.mark.parametrize("seed", SEEDS)
def test_joint_stage_from_zero(seed):
    X, y = realizable(seed)
    clf = NTPTransformerClassifier(stages=("joint",), max_iter=STEPS).fit(X, y)
    w_ov, w_kq, losses = _joint_oracle(X, y, STEPS)
    _assert_equal(clf.coef_ov_, w_ov)
    _assert_equal(clf.coef_kq_, w_kq)
    _assert_same_loss(clf.loss_curve_, losses)


@pytest.mark.parametrize("seed", SEEDS[:4])
def test_joint_stage_after_two_stages(seed):
    X, y = realizable(seed)
    steps = STEPS // 2  # with more, p - 1 cancels in the oracle
    clf = NTPTransformerClassifier(stages=("ov", "kq", "joint"), max_iter=steps).fit(X, y)
    size = len(set(y))
    ov, kq, *_ = two_stage(X, y, np.ones(len(X)), size, size, "single", steps, 0.2)
    w_ov, w_kq, losses = _joint_oracle(X, y, steps, start=(ov[-1], kq[-1]))
    _assert_equal(clf.coef_ov_, w_ov)
    _assert_equal(clf.coef_kq_, w_kq)
    _assert_same_loss(clf.convergence_["joint"]["loss"], losses)
