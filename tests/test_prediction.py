"""Predictions without an array of sentences x classes, against the dense logits."""

import math
import tracemalloc
from decimal import Decimal, localcontext

import numpy as np
import pytest

from sklntp import NTPTransformerClassifier, _memory, _prediction
from sklntp._contexts import merge_contexts
from sklntp._forward import AttentionWeights, OutputWeights, context_attention
from sklntp._prediction import Predictor
from tests.data import CHAIN, CONFLICT, CYC, ONE, TWOQ, fitted, logits

KINDS = ("sparse", "negative", "ties", "empty", "full", "no base", "one class")


def random_model(kind, seed):
    """Matrices and sentences; few distinct values where ties are wanted."""
    rng = np.random.default_rng(seed)
    n_tokens, n_classes = int(rng.integers(1, 9)), int(rng.integers(1, 12))
    n_classes = 1 if kind == "one class" else n_classes
    support = rng.random((n_tokens, n_classes)) < (1.0 if kind == "full" else rng.random())
    if kind == "empty":
        support[:] = False
    base = rng.normal(size=n_tokens)
    value = base[:, None] + rng.normal(scale=3, size=support.shape)
    if kind == "negative":
        value = base[:, None] - rng.random(support.shape)
    if kind == "ties":
        base = rng.integers(-1, 2, n_tokens) / 2
        value = rng.integers(-1, 2, support.shape) / 2
    if kind == "no base":
        base[:], value = 0.0, rng.integers(-2, 3, support.shape).astype(float)
    offsets = np.concatenate([[0], np.cumsum(support.sum(axis=1))])
    output = OutputWeights(offsets, np.nonzero(support)[1], value[support], base, n_classes)
    key = np.flatnonzero(rng.random(n_tokens**2) < 0.5)
    score = np.zeros(len(key)) if kind == "ties" else rng.normal(scale=9, size=len(key))
    lengths = rng.integers(1, 6, 30)
    sentences = (
        rng.integers(0, n_tokens + 1, lengths.sum()),
        np.concatenate([[0], lengths.cumsum()]),
    )
    return output, AttentionWeights(key, score, np.zeros(n_tokens)), sentences


def dense_logits(output, attention, sentences):
    """Logits of every sentence, formed without any of the routes under test."""
    contexts = merge_contexts(*sentences, attention.n_tokens)
    phi = context_attention(contexts, attention)
    excess = (output.dense() - output.base).T
    table = np.vstack([excess, np.zeros((1, output.n_classes))])
    return (phi @ table + (phi @ np.append(output.base, 0.0))[:, None])[contexts.inverse]


@pytest.fixture(params=["sparse", "dense", "neither"])
def route(request, monkeypatch):
    """Both routes forced, and the choice left open; blocks and pieces so small that all occur."""
    cost = {"sparse": 0, "dense": 1e9, "neither": _prediction._SPARSE_COST}
    monkeypatch.setattr(_prediction, "_SPARSE_COST", cost[request.param])
    monkeypatch.setattr(_prediction, "_BLOCK", 16)
    monkeypatch.setattr(_prediction, "_PIECE", 11)
    return request.param


@pytest.mark.parametrize("kind", KINDS)
def test_the_predicted_class_is_the_first_largest_of_the_dense_logits(route, kind):
    for seed in range(25):
        output, attention, sentences = random_model(kind, seed)
        expected = np.argmax(dense_logits(output, attention, sentences), axis=1)
        predicted = Predictor(output, attention).predict(*sentences)
        np.testing.assert_array_equal(predicted, expected, f"seed {seed}")


def test_random_models_have_ties_and_winners_without_an_entry():
    """What the test above would not be worth without."""
    tied = without = 0
    for seed in range(25):
        output, attention, sentences = random_model("ties", seed)
        z = dense_logits(output, attention, sentences)
        tied += np.sum(np.sum(z == z.max(axis=1, keepdims=True), axis=1) > 1)
        contexts = merge_contexts(*sentences, attention.n_tokens)
        entries = context_attention(contexts, attention) @ Predictor(output, attention).excess
        winner = z.argmax(axis=1)
        without += np.sum(entries.toarray()[contexts.inverse, winner] == 0)
    assert tied > 100
    assert without > 100


@pytest.mark.parametrize("kind", KINDS)
def test_label_log_proba_and_dense_results_agree_with_the_dense_logits(route, kind):
    for seed in range(10):
        output, attention, sentences = random_model(kind, seed)
        z = dense_logits(output, attention, sentences)
        predictor, n = Predictor(output, attention), len(z)
        got = predictor.dense(*sentences, lambda logits: logits, np.empty(z.shape))
        np.testing.assert_array_equal(got, z)
        log_p = predictor.dense(*sentences, _prediction.log_softmax, np.empty(z.shape))
        shifted = z - z.max(axis=1, keepdims=True)
        expected = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
        np.testing.assert_allclose(log_p, expected, rtol=1e-12, atol=1e-12)
        p = predictor.dense(*sentences, _prediction.softmax, np.empty(z.shape))
        np.testing.assert_allclose(p, np.exp(expected), rtol=1e-12)
        labels = np.random.default_rng(seed).integers(0, output.n_classes + 1, n)
        known = labels < output.n_classes
        got = predictor.label_log_proba(*sentences, labels)
        np.testing.assert_allclose(got[known], log_p[known, labels[known]], rtol=1e-12, atol=1e-15)
        assert (got[~known] == -np.inf).all()


def exact_log_proba(z, label):
    """log softmax(z)[label] to 28 digits, p from the logits as they are."""
    with localcontext() as context:
        context.prec = 400
        terms = [(Decimal(v) - Decimal(z[label])).exp() for v in z]
        return float(-sum(terms).ln())


@pytest.mark.parametrize("scale", [1e-9, 1.0, 30.0, 400.0])
@pytest.mark.parametrize("data", [ONE, CONFLICT], ids=["ONE", "CONFLICT"])
def test_label_log_proba_is_accurate_where_p_underflows_or_is_near_one(route, data, scale):
    clf = fitted(data)
    clf.base_ov_ = clf.base_ov_ * scale
    clf._ov_value = clf._ov_value * scale
    for sentence in (["a"], ["b", "c"], ["a", "b", "c"]):
        z = logits(clf, sentence).tolist()
        got = clf.label_log_proba([sentence] * 3, clf.classes_)
        expected = [exact_log_proba(z, label) for label in range(3)]
        # Rounding of the logits themselves is what remains.
        np.testing.assert_allclose(got, expected, rtol=1e-14 + 1e-15 * scale)
    assert (got <= 0).all()


@pytest.mark.parametrize("params", [{}, {"stages": ("joint",)}, {"solver": "max_margin"}])
@pytest.mark.parametrize("data", [ONE, TWOQ, CHAIN, CONFLICT])
def test_methods_of_the_estimator_agree(data, params):
    clf = fitted(data, **params)
    X = [["a"], ["b", "a"], ["c", "z"], ["z"], ["a", "a", "b", "c"], ["a"]]
    log_p = clf.predict_log_proba(X)
    np.testing.assert_allclose(np.exp(log_p), clf.predict_proba(X), rtol=1e-12)
    for k, label in enumerate(clf.classes_):
        got = clf.label_log_proba(X, [label] * len(X))
        assert got.shape == (len(X),)
        np.testing.assert_allclose(got, log_p[:, k], rtol=1e-12, atol=1e-15)
    first = clf.classes_[np.argmax(clf.decision_function(X), axis=1)]
    np.testing.assert_array_equal(clf.predict(X), first)
    y = ["b"] * len(X)
    weight = np.arange(1.0, 7.0)
    hit = np.asarray(first) == "b"
    assert clf.score(X, y, weight) == pytest.approx(np.average(hit, weights=weight), abs=1e-15)


def test_a_next_token_that_was_never_seen_has_log_probability_minus_infinity():
    clf = fitted(CYC)
    got = clf.label_log_proba([["a"], ["a"]], ["b", "zzz"])
    assert got[1] == -math.inf < got[0] < 0
    assert clf.label_log_proba([], []).shape == clf.predict([]).shape == (0,)


def test_one_class_has_log_probability_zero():
    clf = fitted(([["a"], ["b"]], ["a", "a"]))
    np.testing.assert_array_equal(clf.label_log_proba([["a"], ["z"]], ["a", "a"]), [0.0, 0.0])


@pytest.mark.parametrize(
    ("y", "error", "message"),
    [
        (["b"], ValueError, "2 sentences in X, 1 next tokens in y"),
        (["b", None], ValueError, r"y\[1\], the next token of sentence 1"),
        (
            [1, 2],
            TypeError,
            r"y must be of the type of classes_: y\[0\] is int 1, but classes_\[0\] is str",
        ),
        (["b", 1], TypeError, r"y\[1\] is int 1"),
        (None, ValueError, "y is None"),
    ],
)
def test_label_log_proba_names_what_is_wrong_with_y(y, error, message):
    with pytest.raises(error, match=message):
        fitted(CYC).label_log_proba([["a"], ["b"]], y)


# Memory


@pytest.mark.parametrize("method", ["predict_proba", "predict_log_proba", "decision_function"])
def test_a_result_beyond_the_memory_is_refused_with_what_to_do_instead(monkeypatch, method):
    clf = fitted(CYC)
    monkeypatch.setattr(_memory, "available_memory", lambda: 60)
    assert getattr(clf, method)([["a"]] * 2).shape == (2, 3)
    message = rf"{method} of shape \(3, 3\) would take 0.0 GB, .*pieces.* predict .*label_log_proba"
    with pytest.raises(MemoryError, match=message):
        getattr(clf, method)([["a"]] * 3)
    assert clf.predict([["a"]] * 3).shape == clf.label_log_proba([["a"]] * 3, ["b"] * 3).shape


def write(path, text):
    path.write_text(text)
    return str(path)


def test_available_memory_is_what_the_system_and_the_container_leave(monkeypatch, tmp_path):
    monkeypatch.setattr(_memory, "_MEMINFO", tmp_path / "meminfo")
    monkeypatch.setattr(_memory, "_CGROUPS", ())
    assert _memory.available_memory() == 4e9  # nobody tells
    write(tmp_path / "meminfo", "MemTotal: 9 kB\nMemFree: 1 kB\nMemAvailable: 5 kB\n")
    assert _memory.available_memory() == 5 * 1024
    write(tmp_path / "memory.stat", "anon 7\ninactive_file 100\n")
    limit, use = write(tmp_path / "limit", "3000\n"), write(tmp_path / "use", "2000\n")
    monkeypatch.setattr(_memory, "_CGROUPS", ((limit, use, "inactive_file"),))
    assert _memory.available_memory() == 1100
    write(tmp_path / "limit", "max\n")
    assert _memory.available_memory() == 5 * 1024


def test_dense_results_take_little_more_than_themselves():
    n, n_classes = 4000, 500
    X = np.arange(n_classes)[:, None]
    clf = NTPTransformerClassifier(max_iter=1).fit(X, np.roll(X[:, 0], 1))
    sentences = np.random.default_rng(0).integers(0, n_classes, (n, 3)).tolist()
    block = 8 * _prediction._BLOCK
    tracemalloc.start()
    try:
        for method in ("predict_proba", "predict_log_proba", "decision_function"):
            tracemalloc.reset_peak()
            size = getattr(clf, method)(sentences).nbytes
            assert tracemalloc.get_traced_memory()[1] < size + 4 * block
        for method, args in (("predict", ()), ("label_log_proba", (X[:1, 0].repeat(n),))):
            tracemalloc.reset_peak()
            getattr(clf, method)(sentences, *args)
            assert tracemalloc.get_traced_memory()[1] < size / 4
    finally:
        tracemalloc.stop()


# Threads


@pytest.mark.parametrize("stages", [("ov", "kq"), ("joint",)])
@pytest.mark.parametrize("n_jobs", [2, 3, -1])
def test_any_number_of_threads_gives_the_same_bits(stages, n_jobs):
    rng = np.random.default_rng(0)
    sentences = [rng.integers(0, 12, rng.integers(1, 7)).tolist() for _ in range(300)]
    realizable = [[k] for k in range(12)] + sentences
    y = [(min(sentence) + 1) % 12 for sentence in realizable]
    conflicting = rng.integers(0, 12, len(realizable)).tolist()
    for labels in (y, conflicting):
        one, several = (
            NTPTransformerClassifier(stages=stages, max_iter=30, n_jobs=n).fit(realizable, labels)
            for n in (1, n_jobs)
        )
        np.testing.assert_array_equal(several.coef_ov_, one.coef_ov_)
        np.testing.assert_array_equal(several.coef_kq_, one.coef_kq_)
        np.testing.assert_array_equal(several.loss_curve_, one.loss_curve_)


@pytest.mark.parametrize("n_jobs", [0, 1.5, "2"])
def test_a_wrong_number_of_threads_is_refused(n_jobs):
    with pytest.raises(ValueError, match="'n_jobs' parameter.* must be .* Got "):
        fitted(CYC, n_jobs=n_jobs)


def test_label_log_proba_of_dates_in_another_unit():
    y = np.array(["2020-01-01", "2020-01-02", "2020-01-01"], dtype="M8[D]")
    clf = NTPTransformerClassifier(max_iter=5).fit([["a"], ["b"], ["a", "b"]], y)
    wanted = clf.label_log_proba([["a"], ["b"]], y[:2])
    given = y[:2].astype("M8[ns]")
    assert np.isfinite(wanted).all()
    np.testing.assert_array_equal(clf.label_log_proba([["a"], ["b"]], given), wanted)
    given += np.timedelta64(1, "h")
    assert (clf.label_log_proba([["a"], ["b"]], given) == -np.inf).all()
