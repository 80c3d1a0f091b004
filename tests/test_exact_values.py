"""Results that are known exactly: zero start, identity embeddings, small data."""

import numpy as np
import pytest
from data import CHAIN, CONFLICT, CYC, ONE, TWOQ, fitted
from numpy.testing import assert_allclose

from sklntp.structure import max_margin_kq, max_margin_ov

ROOT2 = np.sqrt(2)


@pytest.mark.parametrize(("eta", "n_steps"), [(0.1, 1000), (0.01, 200), (2.0, 50)])
def test_d5_cyc_norm_cosine_and_loss_at_every_step(eta, n_steps):
    clf = fitted(CYC, stages=("ov",), step_size=eta, max_iter=n_steps, track_alignment=True)
    curves = clf.convergence_["ov"]
    t = np.arange(n_steps + 1)
    margin = eta * t / ROOT2
    assert_allclose(curves["norm"], eta * t, rtol=0, atol=1e-9)
    assert np.isnan(curves["cosine"][0]) and np.isnan(curves["dist"][0])
    assert_allclose(curves["cosine"][1:], 1, rtol=0, atol=1e-12)
    assert_allclose(curves["dist"][1:], 0, rtol=0, atol=1e-9)
    assert_allclose(curves["loss"], np.log1p(2 * np.exp(-margin)), rtol=1e-10, atol=0)
    assert_allclose(curves["log_loss"], np.log(np.log1p(2 * np.exp(-margin))), rtol=1e-10, atol=0)
    assert_allclose(np.linalg.norm(clf.coef_ov_), eta * n_steps, rtol=1e-12, atol=0)
    reference = clf.max_margin_coef_ov_
    cosine = np.sum(clf.coef_ov_ * reference) / np.linalg.norm(reference) / (eta * n_steps)
    assert_allclose(cosine, 1, rtol=0, atol=1e-12)


def test_d3_cyc_after_a_thousand_steps():
    clf = fitted(CYC, stages=("ov",), max_iter=1000, track_alignment=True)
    curves = clf.convergence_["ov"]
    literals = {
        0: 1.0986122887,
        1: 1.0520316780,
        2: 1.0065872336,
        100: 1.6972103e-3,
        1000: 3.9063637e-31,
    }
    for t, loss in literals.items():
        assert_allclose(curves["loss"][t], loss, rtol=5e-8, atol=0)
    assert_allclose(curves["norm"][-1], 100, rtol=0, atol=1e-9)
    assert_allclose(curves["cosine"][-1], 1, rtol=0, atol=1e-12)
    expected = 100 / ROOT2 * np.array([[-1, -1, 2], [2, -1, -1], [-1, 2, -1]]) / 3
    assert_allclose(clf.coef_ov_, expected, rtol=1e-12, atol=0)


def test_cyc_references():
    clf = fitted(CYC)
    expected = np.array([[-1, -1, 2], [2, -1, -1], [-1, 2, -1]]) / 3
    assert_allclose(clf.max_margin_coef_ov_, expected, rtol=1e-15, atol=0)
    assert_allclose(max_margin_ov(*CYC).norm, ROOT2, rtol=1e-15, atol=0)
    np.testing.assert_array_equal(clf.max_margin_coef_kq_, np.zeros((3, 3)))


def test_one_reference_norm_and_cosine():
    clf = fitted(ONE, max_iter=300, track_alignment=True)
    reference = np.zeros((3, 3))
    reference[:, 1] = [0.5, -0.5, 0]
    assert_allclose(clf.max_margin_coef_kq_, reference, rtol=0, atol=1e-12)
    curves = clf.convergence_["kq"]
    assert_allclose(curves["norm"], 0.1 * np.arange(301), rtol=0, atol=1e-9)
    assert_allclose(curves["cosine"][1:], 1, rtol=0, atol=1e-12)
    assert_allclose(clf.coef_kq_, 30 * ROOT2 * reference, rtol=0, atol=1e-9)


def test_twoq_reference_norm_and_cosine():
    reference = max_margin_kq(*TWOQ).coef.toarray()
    expected = [[0, 0.5, 0], [0, -0.5, 0.5], [0, 0, -0.5]]
    assert_allclose(reference, expected, rtol=0, atol=1e-12)
    assert_allclose(np.linalg.norm(reference), 1, rtol=1e-12, atol=0)
    clf = fitted(TWOQ, max_iter=500, track_alignment=True)
    curves = clf.convergence_["kq"]
    assert_allclose(curves["norm"][-1], 50, rtol=0, atol=1e-9)
    assert_allclose(curves["cosine"][-1], 1, rtol=0, atol=1e-12)


def test_d4_chain_converges_to_its_reference():
    clf = fitted(CHAIN, max_iter=(1000, 5000), track_alignment=True)
    reference = np.zeros((3, 3))
    reference[:, 2] = [1, 0, -1]
    assert_allclose(clf.max_margin_coef_kq_, reference, rtol=0, atol=1e-10)
    assert_allclose(clf.convergence_["kq"]["cosine"][-1], 1, rtol=0, atol=5e-4)
    assert clf.n_iter_.tolist() == [1000, 5000]


def test_uniform_attention():
    clf = fitted(CYC, stages=("ov",), max_iter=100)
    p = clf.predict_proba([["a", "b"]])[0]
    assert_allclose(p, [0.01436231, 0.49281884, 0.49281884], rtol=0, atol=5e-9)
    p_a = 1 / (1 + 2 * np.exp(5 / ROOT2))  # half the margin 10 / sqrt(2) for b and for c
    assert_allclose(p, [p_a, (1 - p_a) / 2, (1 - p_a) / 2], rtol=1e-12, atol=0)


@pytest.mark.parametrize("n_steps", [1, 100, 1000])
def test_a_balanced_conflict_leaves_attention_at_zero(n_steps):
    clf = fitted(CONFLICT, max_iter=(n_steps, 200))
    assert_allclose(clf.coef_kq_, 0, rtol=0, atol=1e-8)
    assert_allclose(clf.attention([["a", "b"]])[0], [0.5, 0.5], rtol=0, atol=1e-8)


# 3:1 in favour of b. The optimum has attention 0.5789 on a, where p(b) - p(c) = 1/2.
WEIGHT = [1, 1, 1, 3, 1]


def test_constant_steps_circle_the_optimum_of_a_conflict():
    """The scores of a and b differ by 2 or 3 steps of 0.1 sqrt(2): attention 0.570 or 0.604."""
    clf = fitted(CONFLICT, WEIGHT, max_iter=(100, 500))
    clf.set_params(stages=("kq",), warm_start=True, max_iter=1)
    on_a = [clf.attention([["a", "b"]])[0][0]]
    for _ in range(3):
        on_a.append(clf.fit(*CONFLICT, sample_weight=WEIGHT).attention([["a", "b"]])[0][0])
    low, high = 1 / (1 + np.exp(-0.1 * ROOT2 * np.array([2, 3])))
    assert_allclose(sorted(on_a), [low, low, high, high], rtol=0, atol=1e-9)
    assert_allclose(on_a[:2], on_a[2:], rtol=0, atol=1e-9)


def test_falling_steps_reach_the_optimum_of_a_conflict():
    clf = fitted(CYC, stages=("ov",), max_iter=100)  # norm 10
    clf.set_params(stages=("kq",), warm_start=True, step_schedule="invscaling")
    clf.set_params(step_size=0.01, max_iter=1000).fit(*CONFLICT, sample_weight=WEIGHT)
    assert_allclose(clf.attention([["a", "b"]])[0], [0.5789, 0.4211], rtol=0, atol=2e-4)
    p = clf.predict_proba([["a", "b"]])[0]
    assert_allclose(p[1], 0.7438, rtol=0, atol=5e-4)
    assert_allclose(p[1] - p[2], 0.5, rtol=0, atol=1e-3)
