"""Where W_kq starts: its values, what shows them, and that training begins there."""

import pickle

import numpy as np
import pytest
from data import CHAIN, assert_same_fit, fitted, logits
from numpy.testing import assert_allclose, assert_array_equal
from oracle import gradients, mean_loss
from samples import conflicting
from scipy.special import softmax
from sklearn.base import clone

from sklntp import NTPTransformerClassifier
from sklntp._forward import AttentionWeights
from sklntp.preprocessing import ContextWindow, NGramTokens, PositionTagger

EXACT = {"rtol": 0, "atol": 1e-12}
TOKENS = ["a", "a@0", "a@1", "a@00", "@0", "b", "a→b", "a→b→c@0", "→", "a@0→b"]
LAST = [0, 1, 0, 0, 1, 0, 2, 3, 2, 2]  # how many of the last tokens each stands for


def _started(X, y, **params):
    """W_kq as it starts, for no stage trains it."""
    params = {"stages": ("ov",), "max_iter": 3, "collocation": "context"} | params
    return NTPTransformerClassifier(**params).fit(X, y)


def _literal_start(vocabulary, last, start):
    w = np.repeat(start * np.array(last, dtype=float)[:, None], len(vocabulary), axis=1)
    w[np.diag_indices(len(vocabulary))] = start * np.maximum(last, 1)
    return w


@pytest.mark.parametrize("start", [1.0, 0.3, -2, 200])
def test_values(start):
    clf = _started([TOKENS, ["b"]], ["b", "a"], attention_start=start, vocabulary=TOKENS)
    assert_allclose(clf.coef_kq_, _literal_start(TOKENS, LAST, start), rtol=1e-15)
    assert_allclose(clf.base_kq_, start * np.array(LAST), rtol=1e-15)
    assert_array_equal(clf.sparse_coef_kq_.toarray() + clf.base_kq_[:, None], clf.coef_kq_)
    # The diagonal of plain tokens is all that differs from the base.
    assert np.count_nonzero(clf.sparse_coef_kq_.toarray()) == LAST.count(0)
    assert clf.sparse_coef_kq_.shape == (len(TOKENS),) * 2
    assert clf.base_kq_.shape == (len(TOKENS),)


def test_int_tokens_only_attend_to_themselves():
    clf = _started([[1, 2], [2, 3], [3, 1]], [1, 2, 3], attention_start=0.7)
    assert_array_equal(clf.coef_kq_, 0.7 * np.eye(3))
    assert_array_equal(clf.base_kq_, 0.0)


def test_zero_is_the_paper():
    X, y, weight = conflicting(0)
    params = {"stages": ("ov", "kq"), "max_iter": 20}
    clf = fitted((X, y), weight, **params)
    assert_array_equal(clf.base_kq_, 0.0)
    assert_same_fit(fitted((X, y), weight, attention_start=0, **params), clf)


def _encoded(seed=0, n=60):
    """Contexts with n-grams, tags and a start token, and random next tokens."""
    rng = np.random.RandomState(seed)
    X = [rng.choice(list("abcd"), rng.randint(1, 6)).tolist() for _ in range(n)]
    y = rng.choice(list("abcd"), n).tolist()
    for step in (ContextWindow(4, "^"), NGramTokens(3), PositionTagger(2)):
        X = step.fit_transform(X)
    return [list(sentence) for sentence in X], y


def _last(token):
    """Of the tokens of `_encoded`."""
    return token.count("→") + 1 if "→" in token else int(token.endswith("@0"))


def test_attention_of_trained_and_unseen_contexts():
    X, y = _encoded()
    clf = _started(X, y, attention_start=0.6)
    tokens = clf.vocabulary_.tolist()
    start = _literal_start(tokens, [_last(token) for token in tokens], 0.6)
    ngram = next(token for token in tokens if "→" in token)
    unseen = [[ngram, "c@0", "a", "d@1"], ["b", "a"], [ngram] * 2, ["d@1"], ["a", "a", "b@0"]]
    for sentence, got in zip(X + unseen, clf.attention(X + unseen), strict=True):
        code = [tokens.index(x) for x in sentence]
        assert_allclose(got, softmax(start[code, code[-1]]), **EXACT)
        assert_allclose(clf.decision_function([sentence])[0], logits(clf, sentence), **EXACT)


@pytest.mark.parametrize("stages", [("ov",), ("ov", "kq"), ("ov", "joint")])
def test_under_an_unknown_query_all_tokens_score_zero(stages):
    X, y = _encoded()
    clf = _started(X, y, attention_start=0.6, stages=stages)
    tokens = clf.vocabulary_.tolist()
    ngram, tagged = next(t for t in tokens if t.count("→") == 2), "b@0"
    sentence = [ngram, tagged, "a", "new", "new", "newer"]
    wanted = np.full(6, 1 / 6)
    assert_allclose(clf.attention([sentence])[0], wanted, **EXACT)
    # A known query beside unknown tokens.
    sentence = ["new", ngram, "a"]
    scores = clf.coef_kq_[[tokens.index(ngram), tokens.index("a")], tokens.index("a")]
    assert_allclose(clf.attention([sentence])[0], softmax([0.0, *scores]), **EXACT)


@pytest.mark.parametrize("stages", [("ov", "kq"), ("ov", "joint")])
def test_a_query_that_a_token_never_met_sees_the_base_after_training_too(stages):
    X, y = _encoded()
    clf = _started(X, y, attention_start=0.6, stages=stages, max_iter=30)
    tokens = clf.vocabulary_.tolist()
    met = np.eye(len(tokens), dtype=bool)
    for sentence in X:
        code = [tokens.index(x) for x in sentence]
        met[code, code[-1]] = True
    start = _literal_start(tokens, [_last(token) for token in tokens], 0.6)
    assert (~met).any() and np.abs(clf.coef_kq_ - start)[met].max() > 0.01
    assert_array_equal(clf.coef_kq_[~met], start[~met])
    assert_allclose(clf.base_kq_, start.min(axis=1), rtol=1e-15)
    sparse = clf.sparse_coef_kq_.toarray()
    assert_allclose(sparse + clf.base_kq_[:, None], clf.coef_kq_, rtol=1e-15)
    assert_array_equal(sparse[~met], 0.0)


@pytest.mark.parametrize("solver", ["ngd", "lbfgs"])
@pytest.mark.parametrize("stages", [("ov", "kq"), ("joint",), ("ov", "joint")])
def test_training_starts_there(stages, solver):
    X, y = _encoded()
    clf = _started(X, y, attention_start=0.8, stages=stages, solver=solver)
    tokens, classes = clf.vocabulary_.tolist(), clf.classes_.tolist()
    sentences = [[tokens.index(x) for x in sentence] for sentence in X]
    labels = [classes.index(v) for v in y]
    start = _literal_start(tokens, [_last(token) for token in tokens], 0.8)
    w_ov = np.zeros((len(classes), len(tokens)))
    if stages[0] == "ov":
        w_ov = _started(X, y, attention_start=0.8, solver=solver).coef_ov_
    wanted = mean_loss(w_ov, start, sentences, labels, np.ones(len(X)))
    assert_allclose(clf.convergence_[stages[-1]]["loss"][0], wanted, rtol=1e-12)
    assert clf.convergence_[stages[-1]]["loss"][-1] < wanted
    assert np.abs(clf.coef_kq_ - start).max() > 1e-3


def test_steps_from_there_are_those_of_the_oracle():
    X, y, weight = conflicting(0)
    clf = fitted((X, y), weight, attention_start=0.8, max_iter=8, step_size=0.1)
    w_ov, w_kq = clf.coef_ov_, 0.8 * np.eye(7)
    losses = [mean_loss(w_ov, w_kq, X, y, weight)]
    for _ in range(8):
        gradient = gradients(w_ov, w_kq, X, y, weight)[1]
        w_kq = w_kq - 0.1 * gradient / np.linalg.norm(gradient)
        losses.append(mean_loss(w_ov, w_kq, X, y, weight))
    assert_allclose(clf.coef_kq_, w_kq, rtol=0, atol=1e-9)
    assert_allclose(clf.convergence_["kq"]["loss"], losses, rtol=1e-10)


def test_the_penalty_pulls_to_the_start():
    X, y = _encoded()
    params = {"stages": ("ov", "joint"), "attention_start": 0.8, "solver": "lbfgs", "max_iter": 40}
    tokens = _started(X, y).vocabulary_.tolist()
    start = _literal_start(tokens, [_last(token) for token in tokens], 0.8)
    tied = _started(X, y, alpha=1e8, **params)
    assert_allclose(tied.coef_kq_, start, rtol=0, atol=1e-5)
    assert np.abs(_started(X, y, alpha=0.01, **params).coef_kq_ - start).max() > 0.1


@pytest.mark.parametrize("start", [200.0, 1e4, 1e6])
def test_large_values_attend_to_the_longest_n_gram_only(start):
    X, y = _encoded()
    clf = _started(X, y, attention_start=start, stages=("ov", "kq"))
    for sentence, weights in zip(X, clf.attention(X), strict=True):
        longest = max(_last(token) for token in sentence)
        chosen = [_last(token) == longest for token in sentence]
        assert_allclose(weights[np.argmax(chosen)], 1.0, rtol=1e-12)
        assert np.isfinite(weights).all()
    assert np.isfinite(clf.coef_kq_).all() and np.isfinite(clf.loss_curve_).all()


@pytest.mark.parametrize("stages", [("ov",), ("ov", "kq"), ("ov", "joint")])
def test_coef_in_embedding(stages):
    X, y = _encoded()
    clf = _started(X, y, attention_start=0.6, stages=stages)
    n, d = len(clf.vocabulary_), len(clf.vocabulary_) + 3
    E = np.linalg.qr(np.random.RandomState(0).standard_normal((d, d)))[0][:n]
    w_ov, w_kq = clf.coef_in_embedding(E)
    assert_allclose(w_ov, clf.coef_ov_ @ E, rtol=0, atol=1e-10)
    assert_allclose(w_kq, E.T @ clf.coef_kq_ @ E, rtol=0, atol=1e-10)
    assert_allclose(E @ w_kq @ E.T, clf.coef_kq_, rtol=0, atol=1e-10)


@pytest.mark.parametrize("stages", [("ov",), ("ov", "kq"), ("ov", "joint")])
def test_pickle_and_clone(stages):
    X, y = _encoded()
    clf = _started(X, y, attention_start=0.6, stages=stages)
    again = pickle.loads(pickle.dumps(clf))
    assert_same_fit(again, clf)
    assert_array_equal(again.base_kq_, clf.base_kq_)
    unseen = [["a→b", "c@0", "new"], *X]
    assert_array_equal(again.predict_proba(unseen), clf.predict_proba(unseen))
    copy = clone(clf)
    assert copy.attention_start == 0.6 and not hasattr(copy, "base_kq_")
    assert_same_fit(copy.fit(X, y), clf)


def test_a_refit_forgets_the_start():
    X, y = _encoded()
    clf = _started(X, y, attention_start=0.6)
    clf.set_params(attention_start=0.0).fit(X, y)
    assert_array_equal(clf.base_kq_, 0.0)
    assert_array_equal(clf.coef_kq_, 0.0)


@pytest.mark.parametrize("solver", ["ngd", "lbfgs"])
def test_warm_start_keeps_the_matrix_it_has(solver):
    X, y = _encoded()
    params = {"stages": ("ov", "kq"), "solver": solver, "warm_start": True, "attention_start": 0.6}
    clf = _started(X, y, **params, max_iter=5)
    w_kq, first = clf.coef_kq_, clf.convergence_["kq"]["loss"]
    clf.set_params(stages=("kq",)).fit(X, y)
    second = clf.convergence_["kq"]["loss"]
    assert len(second) == 11
    assert_allclose(second[:6], first, rtol=1e-12)
    assert np.abs(clf.coef_kq_ - w_kq).max() > 1e-4
    if solver == "ngd":
        straight = _started(X, y, **params | {"max_iter": (5, 10)})
        assert_allclose(clf.coef_kq_, straight.coef_kq_, rtol=0, atol=1e-9)


def test_warm_start_on_contexts_that_were_not_met():
    X, y = _encoded()
    tokens = sorted({x for sentence in X for x in sentence})
    params = {"vocabulary": tokens, "attention_start": 0.6, "warm_start": True}
    clf = _started(X[:20], y[:20], stages=("ov", "joint"), **params)
    before = clf.coef_kq_
    clf.set_params(stages=("joint",)).fit(X[20:], y[20:])
    met = np.zeros_like(before, dtype=bool)
    for sentence in X[20:]:
        code = [tokens.index(x) for x in sentence]
        met[code, code[-1]] = True
    assert_array_equal(clf.coef_kq_[~met], before[~met])
    assert (clf.coef_kq_[met] != before[met]).any()


def test_weights_and_order_of_the_sentences():
    X, y = _encoded()
    rng = np.random.RandomState(0)
    weight, order = rng.uniform(0.5, 2.0, len(X)), rng.permutation(len(X))
    params = {"attention_start": 0.6, "stages": ("ov", "joint"), "max_iter": 10}
    clf = fitted((X, y), weight, **params)
    permuted = fitted(([X[i] for i in order], [y[i] for i in order]), weight[order], **params)
    assert_same_fit(permuted, clf)


def test_alignment_is_tracked_from_there():
    clf = fitted(CHAIN, attention_start=0.5, track_alignment=True, max_iter=4)
    cosine = clf.convergence_["kq"]["cosine"]
    assert np.isfinite(cosine).all() and (np.abs(cosine) < 1).all()


def test_entries_of_the_weights():
    """Known and unknown tokens and queries, with an entry and without."""
    weights = AttentionWeights(np.array([1, 3]), np.array([7.0, 8.0]), np.array([0.5, 1.5]))
    query, token = np.divmod(np.arange(9), 3)  # V = 2: number 2 is unknown
    wanted = [0.5, 7.0, 0.0, 0.5, 8.0, 0.0, 0.0, 0.0, 0.0]
    assert_array_equal(weights.scores(query, token), wanted)
    assert weights.n_tokens == 2
    assert_array_equal(weights.find(query, token), [2, 0, 2, 2, 1, 2, 2, 2, 2])


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, "1", None])
def test_invalid_values(value):
    with pytest.raises(ValueError, match="'attention_start' parameter"):
        NTPTransformerClassifier(attention_start=value).fit(*CHAIN)


@pytest.mark.parametrize("stages", [("joint",), ("ov", "kq")])
def test_training_and_prediction_agree_under_unknown_queries(stages):
    X = [["a@0", "b", "z@0"], ["b", "a@0"], ["a@0", "b", "b", "z@0"], ["b"]]
    y = ["a", "b", "b", "a"]
    clf = NTPTransformerClassifier(
        stages=stages, attention_start=3.0, collocation="context", max_iter=20,
        vocabulary=["a@0", "b"],
    ).fit(X, y)  # fmt: skip
    loss = clf.convergence_[stages[-1]]["loss"][-1]
    assert_allclose(-clf.label_log_proba(X, y).mean(), loss, rtol=1e-12)
