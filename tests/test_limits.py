"""What is refused for its size or for lack of a certificate, and what is printed when asked."""

import re

import numpy as np
import pytest
from data import CHAIN, CYC, ONE, fitted

from sklntp import _dataset, _fitted, _orders, _stages
from sklntp._max_margin import MaxMarginError


def test_max_margin_has_no_reference_for_the_joint_stage():
    with pytest.raises(ValueError, match='solver="max_margin" has no reference.*"joint"'):
        fitted(ONE, solver="max_margin", stages=("joint",))


def test_a_joint_stage_that_would_not_fit_is_refused(monkeypatch):
    monkeypatch.setattr(_stages, "_MAX_DENSE", 8)
    for stages in (("joint",), ("ov", "kq", "joint")):
        with pytest.raises(ValueError, match=r"3 classes x 3 tokens.*stages=\(\"ov\", \"kq\"\)"):
            fitted(ONE, stages=stages)


@pytest.mark.parametrize(
    ("E", "message"),
    [
        (np.eye(4), r"one row per token, 3; got shape \(4, 4\)"),
        (np.eye(3)[:, :2], r"deviates by 1 at tokens c, c, its largest"),
        (np.diag([1.0, 1.0, 1.00001]), r"deviates by 2e-05 at tokens c, c"),
        ([[1, 0, 0], [0.6, 0.8, 0], [0, 0, 1]], r"deviates by 0.6 at tokens a, b"),
        (np.full((3, 3), np.nan), "E contains NaN"),
        ([1.0, 0.0, 0.0], "Expected 2D array, got 1D"),
    ],
)
def test_an_embedding_that_is_not_orthonormal_is_refused(E, message):
    with pytest.raises(ValueError, match=message):
        fitted(ONE).coef_in_embedding(E)


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("E", [np.full((3, 5), 1e200), np.array([[np.inf, -np.inf, 0]] * 3)])
def test_an_embedding_beyond_the_range_of_floats_is_refused(E):
    with pytest.raises(ValueError, match="must be orthonormal.* by inf|E contains infinity"):
        fitted(ONE).coef_in_embedding(E * np.array([1, -1, 1])[:, None])


def test_an_embedding_may_deviate_by_a_millionth():
    clf = fitted(ONE)
    clf.coef_in_embedding(np.diag([1, 1, 1 + 4.9e-7]))
    with pytest.raises(ValueError, match=r"deviates by 1.02e-06 at"):
        clf.coef_in_embedding(np.diag([1, 1, 1 + 5.1e-7]))
    E = np.linalg.qr(np.random.default_rng(0).normal(size=(3, 3)))[0].astype(np.float32)
    assert clf.coef_in_embedding(E)[1].dtype == np.float64


def test_an_embedding_of_too_many_dimensions_is_refused(monkeypatch):
    monkeypatch.setattr(_fitted, "_LARGEST_EMBEDDED", 8 * 25)
    fitted(ONE).coef_in_embedding(np.eye(3, 5))
    with pytest.raises(ValueError, match="In 6 dimensions W_kq would take"):
        fitted(ONE).coef_in_embedding(np.eye(3, 6))


def test_too_many_tokens_are_refused(monkeypatch):
    monkeypatch.setattr(_dataset, "_MAX_TOKENS", 2)
    with pytest.raises(ValueError, match="At most 2 distinct tokens are supported; got 3"):
        fitted(CYC)


def test_the_orders_do_not_depend_on_when_repeated_pairs_are_dropped(monkeypatch):
    rng = np.random.default_rng(0)
    X = [rng.integers(0, 6, rng.integers(1, 6)).tolist() for _ in range(200)]
    y = rng.integers(0, 6, len(X))
    expected = _dataset.build_dataset(X, y).orders
    monkeypatch.setattr(_orders, "_CHUNK", 1)
    monkeypatch.setattr(_orders, "_MOST_KEYS", 1)
    found = _dataset.build_dataset(X, y).orders
    for name in ("key", "query", "above", "below"):
        np.testing.assert_array_equal(getattr(found, name), getattr(expected, name))
    assert (np.diff(found.key) > 0).all()


@pytest.mark.parametrize(
    ("name", "twin"),
    [
        ("coef_ov_", "sparse_coef_ov_ and base_ov_"),
        ("coef_kq_", "sparse_coef_kq_"),
        ("max_margin_coef_ov_", "structure.max_margin_ov"),
        ("max_margin_coef_kq_", "structure.max_margin_kq"),
    ],
)
def test_a_dense_attribute_over_the_limit_names_its_twin(monkeypatch, name, twin):
    clf = fitted(ONE)
    monkeypatch.setattr(_fitted, "_DENSE_LIMIT", 71)  # 3 x 3 x 8 bytes are 72
    with pytest.raises(AttributeError, match=rf"shape \(3, 3\).* use {re.escape(twin)}"):
        getattr(clf, name)
    assert clf.sparse_coef_kq_.shape == (3, 3)
    assert clf._repr_html_()


def test_a_reference_over_the_time_limit_is_left_to_the_function(monkeypatch):
    clf = fitted(CHAIN)
    monkeypatch.setattr(_fitted, "_TIME_LIMIT", 0)
    with pytest.raises(AttributeError, match="Use structure.max_margin_kq"):
        clf.max_margin_coef_kq_  # noqa: B018
    assert not hasattr(clf, "max_margin_coef_kq_")


@pytest.mark.parametrize(
    ("params", "name"),
    [({"track_alignment": True}, "track_alignment=True"), ({"solver": "max_margin"}, "solver=")],
)
def test_fit_refuses_a_reference_without_certificate(monkeypatch, params, name):
    def refuse(*args, **kwargs):
        raise MaxMarginError("no certificate")

    monkeypatch.setattr(_stages, "solve_kq", refuse)
    with pytest.raises(ValueError, match=f"{name}.* needs a certified reference: no certificate"):
        fitted(ONE, **params)


def test_the_joint_stage_is_compared_with_both_references():
    clf = fitted(ONE, stages=("joint",), track_alignment=True, max_iter=200)
    curves = clf.convergence_["joint"]
    for name, got, wanted in (
        ("ov", clf.coef_ov_, clf.max_margin_coef_ov_),
        ("kq", clf.coef_kq_, clf.max_margin_coef_kq_),
    ):
        norm = np.linalg.norm(got)
        cosine = np.sum(got * wanted) / (norm * np.linalg.norm(wanted))
        np.testing.assert_allclose(curves[f"norm_{name}"][-1], norm, rtol=1e-12)
        np.testing.assert_allclose(curves[f"cosine_{name}"][-1], cosine, rtol=1e-12)
        assert np.isnan(curves[f"cosine_{name}"][0])
    assert curves["accuracy"][-1] == clf.score(*ONE) == 1.0
