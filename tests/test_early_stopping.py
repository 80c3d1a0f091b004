"""Contexts held out for early stopping, what is measured on them, and which weights are kept."""

import math
import pickle

import numpy as np
import pytest
from data import CHAIN, assert_same_fit, fitted
from numpy.testing import assert_allclose, assert_array_equal
from oracle import descend, gradients, known_gradients, mean_loss
from samples import conflicting
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline

from sklntp import NTPTransformerClassifier, _dataset
from sklntp._dataset import build_dataset
from sklntp._held_out import hold_out
from sklntp._solution import Patience, Track
from sklntp.preprocessing import ContextWindow, NGramTokens, PositionTagger, as_sequences

SEEDS = range(4)


# Patience and Track


@pytest.mark.parametrize(
    ("numbers", "n", "tol", "stop"),
    [
        ([5, 4, 3, 2, 1], 1, 0.0, None),
        ([5, 5], 1, 0.0, 1),
        ([5, 4, 4, 4], 2, 0.0, 3),
        ([5, 6, 4, 5, 5], 2, 0.0, 4),
        ([5, 4, 3], 1, 1.0, 1),  # a fall of exactly tol is none
        ([5, 3.9, 2.8], 1, 1.0, None),
        ([5.0, 4.5, 4.0, 3.5, 3.0, 2.5], 3, 1.0, None),  # slow but steady
        ([5.0, 4.9, 4.8, 4.7], 3, 1.0, 3),
        ([np.nan, np.nan], 2, 0.0, 1),
        ([np.inf, 5.0, 4.0], 2, 0.0, None),
    ],
)
def test_patience(numbers, n, tol, stop):
    patience = Patience(n, tol)
    stops = [t for t, number in enumerate(numbers) if patience.out(number)]
    assert next(iter(stops), None) == stop


def test_a_track_without_anything_records_losses():
    track = Track()
    assert not track.add(np.zeros(1), 2.0, np.log(2.0))
    assert not track.add(np.ones(1), 2.0, np.log(2.0))
    found = track.solution("max_iter")
    assert found.history == {"loss": [2.0, 2.0], "log_loss": [np.log(2.0)] * 2}
    assert (found.n_iter, found.stop_reason) == (1, "max_iter")
    assert_array_equal(found.theta, [1.0])


def test_a_track_monitors_and_reports_every_point():
    reported = []

    def watch(t, record):
        reported.append((t, record))
        return t == 2

    track = Track(lambda theta: {"sum": theta.sum()}, watch)
    reasons = [track.add(np.full(2, t), 1.0 / (t + 1), 0.0) for t in range(3)]
    assert reasons == [None, None, "callback"]
    assert track.history["sum"] == [0, 2, 4]
    assert [t for t, _ in reported] == [0, 1, 2]
    assert reported[2][1] == {"loss": 1 / 3, "log_loss": 0.0, "sum": 4}


def test_a_track_with_patience_keeps_the_first_lowest_point():
    losses = iter([4.0, 2.0, 3.0, 2.0, 5.0])
    track = Track(lambda theta: {"validation_loss": next(losses)}, patience=Patience(3, 0.0))
    reasons = [track.add(np.full(1, float(t)), 1.0, 0.0) for t in range(5)]
    assert reasons == [None] * 4 + ["early stopping"]
    assert_array_equal(track.solution("early stopping").theta, [1.0])


def test_a_fall_below_tol_is_not_patiently_awaited_but_is_kept():
    losses = iter([1.0, 0.95, 0.92])
    track = Track(lambda theta: {"validation_loss": next(losses)}, patience=Patience(2, 0.1))
    reasons = [track.add(np.full(1, t), 1.0, 0.0) for t in range(3)]
    assert reasons == [None, None, "early stopping"]
    assert_array_equal(track.solution("early stopping").theta, [2.0])


def test_a_validation_loss_that_is_no_number_keeps_the_last_point():
    track = Track(lambda theta: {"validation_loss": np.nan}, patience=Patience(2, 0.0))
    assert [track.add(np.full(1, t), 1.0, 0.0) for t in range(2)] == [None, "early stopping"]
    assert_array_equal(track.solution("early stopping").theta, [1.0])


def test_a_point_that_was_not_completed_is_left_out():
    def monitor(theta):
        if theta[0] == 2.0:
            raise KeyboardInterrupt
        return {"norm": theta[0]}

    track = Track(monitor)
    assert track.solution("interrupted") is None
    for t in range(2):
        track.add(np.full(1, float(t)), 5.0 - t, 0.0)
    track.history["loss"].append(3.0)  # as if interrupted between two names
    with pytest.raises(KeyboardInterrupt):
        track.add(np.full(1, 2.0), 3.0, 0.0)
    found = track.solution("interrupted")
    assert found.history == {"loss": [5.0, 4.0], "log_loss": [0.0, 0.0], "norm": [0.0, 1.0]}
    assert (found.n_iter, found.stop_reason) == (1, "interrupted")
    assert_array_equal(found.theta, [1.0])


# The split


def _context(sentence):
    """What the model sees of a sentence."""
    return sentence[-1], tuple(sorted(sentence))


def _copies(seed, n=120, alphabet="abcd"):
    """Short sentences of few tokens: most contexts stand there several times, in many orders."""
    rng = np.random.RandomState(seed)
    X = [rng.choice(list(alphabet), rng.randint(1, 5)).tolist() for _ in range(n)]
    y = rng.choice(list(alphabet), n).tolist()
    return X, y, rng.choice([0.0, 0.25, 1.0, 3.0], n)


def _sides(data):
    """The contexts of both sides with their next tokens and weights, as a dict each."""
    sides = []
    for contexts, labels in ((data.contexts, data.labels), data.held_out):
        found = {}
        for c in range(len(contexts)):
            at = slice(contexts.offsets[c], contexts.offsets[c + 1])
            tokens = np.repeat(contexts.tokens[at], contexts.counts[at])
            name = [data.vocabulary[t] for t in tokens]
            key = data.vocabulary[contexts.query[c]], tuple(sorted(name))
            assert key not in found
            own = slice(labels.offsets[c], labels.offsets[c + 1])
            found[key] = {
                str(data.classes[v]): w
                for v, w in zip(labels.classes[own], labels.weight[own], strict=True)
            }
            assert_allclose(labels.context_weight[c], labels.weight[own].sum(), rtol=1e-12)
            assert_allclose(labels.share[own].sum(), 1.0, rtol=1e-12)
        assert_allclose(labels.probability.sum(), 1.0, rtol=1e-12)
        sides.append(found)
    return sides


def _split(X, y, weight=None, fraction=0.3, seed=0, **params):
    return build_dataset(X, y, weight, held_out=fraction, random_state=seed, **params)


@pytest.mark.parametrize("fraction", [0.05, 0.3, 0.9])
@pytest.mark.parametrize("mode", ["last", "context", "single"])
@pytest.mark.parametrize("seed", SEEDS)
def test_copies_of_one_context_are_never_on_both_sides(seed, mode, fraction):
    X, y, weight = _copies(seed)
    training, held_out = _sides(_split(X, y, weight, fraction, seed, collocation=mode))
    assert not training.keys() & held_out.keys()
    # Every sentence is on one side, with all its weight.
    wanted = {}
    for sentence, label, w in zip(X, y, weight, strict=True):
        if w:
            labels = wanted.setdefault(_context(sentence), {})
            labels[label] = labels.get(label, 0.0) + w
    together = training | held_out
    assert together.keys() == wanted.keys()
    for context, labels in wanted.items():
        assert together[context].keys() == labels.keys()
        for label, w in labels.items():
            assert_allclose(together[context][label], w, rtol=1e-12)
    n_candidates = sum(mode != "single" or len(tokens) > 1 for _, tokens in together)
    assert len(held_out) == math.ceil(fraction * n_candidates)


@pytest.mark.parametrize("stages", [("ov", "kq"), ("joint",)])
def test_the_estimator_holds_out_whole_contexts(monkeypatch, stages):
    given = []

    def spy(contexts, labels, *args):
        sides = hold_out(contexts, labels, *args)
        given.append((contexts, args, sides))
        return sides

    monkeypatch.setattr(_dataset, "hold_out", spy)
    X, y, weight = _copies(0)
    params = {"validation_fraction": 0.25, "random_state": 5, "collocation": "last"}
    fitted((X, y), weight, early_stopping=True, stages=stages, max_iter=3, **params)
    (contexts, args, sides) = given.pop()
    assert args == ("last", 0.25, 5) and not given
    assert len(contexts) == len({_context(s) for s, w in zip(X, weight, strict=True) if w})
    (training, _), (held_out, _) = sides
    assert len(held_out) == math.ceil(0.25 * len(contexts))
    assert len(training) == len(contexts) - len(held_out)
    assert training.n_tokens == held_out.n_tokens == 4
    fitted((X, y), weight, stages=stages, max_iter=3, **params)
    assert not given


@pytest.mark.parametrize("seed", SEEDS)
def test_one_token_sentences_are_trained_on_where_stage_1_needs_them(seed):
    X, y, _ = _copies(seed)
    assert {len(set(s)) for s in X if len(s) > 1} >= {1, 2}  # ["a", "a"] may be held out
    data = _split(X, y, fraction=0.8, seed=seed, collocation="single")
    training, held_out = _sides(data)
    single = {_context(s) for s in X if len(s) == 1}
    assert single and single <= training.keys()
    assert any(len(set(tokens)) == 1 for _, tokens in held_out)
    counted = {(x, v) for s, v in zip(X, y, strict=True) if len(s) == 1 for x in s}
    pairs = data.collocation
    found = zip(pairs.pair_token.tolist(), pairs.classes.tolist(), strict=True)
    assert counted == {(data.vocabulary[t], str(data.classes[v])) for t, v in found}
    # Where it does not, they are held out like others.
    held = [_sides(_split(X, y, seed=s, collocation="last"))[1] for s in range(8)]
    assert any(len(tokens) == 1 for side in held for _, tokens in side)


def test_auto_is_resolved_on_all_contexts():
    X, y = [["a"], ["b"], ["a", "b"], ["b", "a"], ["b", "b"]] * 2, list("abbaa") * 2
    for seed in range(6):
        data = _split(X, y, seed=seed)
        assert data.mode == "single"
        assert {("a", ("a",)), ("b", ("b",))} <= _sides(data)[0].keys()


@pytest.mark.parametrize("mode", ["last", "single"])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_split_depends_on_neither_order_nor_weights_nor_next_tokens(seed, mode):
    rng = np.random.RandomState(seed)
    X, y, _ = _copies(seed)
    X, y = [*X, *map(list, "abcd")], [*y, *"abcd"]
    held_out = _sides(_split(X, y, seed=seed, collocation=mode))[1].keys()
    order = rng.permutation(len(X))
    mixed = [X[i] for i in order], [y[i] for i in order]
    others = rng.choice(list("uvw"), len(X)).tolist()
    for other in (
        (*mixed, None),
        (X, y, rng.uniform(0.1, 9.0, len(X))),
        (X, others, None),
        (X * 2, y * 2, None),
        ([[*rng.permutation(s[:-1]), s[-1]] for s in X], y, None),
    ):
        assert _sides(_split(*other, seed=seed, collocation=mode))[1].keys() == held_out


def test_random_state():
    X, y, weight = _copies(0)
    one, same, other = (_sides(_split(X, y, weight, seed=s))[1].keys() for s in (1, 1, 2))
    assert one == same != other
    state = np.random.RandomState(1)
    assert _sides(_split(X, y, weight, seed=state))[1].keys() == one
    assert _sides(_split(X, y, weight, seed=state))[1].keys() != one  # it has moved on
    params = {"early_stopping": True, "max_iter": 20, "stages": ("joint",)}
    clf = fitted((X, y), weight, random_state=1, **params)
    assert_same_fit(fitted((X, y), weight, random_state=1, **params), clf)
    curves = [
        fitted((X, y), weight, random_state=s, **params).convergence_["joint"] for s in (1, 2)
    ]
    assert curves[0]["validation_loss"][0] != curves[1]["validation_loss"][0]
    several = {frozenset(_sides(_split(X, y, weight, seed=None))[1]) for _ in range(5)}
    assert len(several) > 1


def test_every_context_is_held_out_by_some_seed():
    X, y, _ = _copies(0, n=40)
    held = [_sides(_split(X, y, seed=s, collocation="last"))[1].keys() for s in range(60)]
    assert set().union(*held) == {_context(s) for s in X}


@pytest.mark.parametrize(
    ("n", "fraction", "n_held"),
    [(2, 0.1, 1), (2, 0.5, 1), (10, 0.1, 1), (10, 0.11, 2), (4, 0.7, 3)],
)
def test_the_number_held_out_is_rounded_up(n, fraction, n_held):
    X = [[str(i)] for i in range(n)]
    training, held_out = _sides(_split(X, ["a"] * n, fraction=fraction, collocation="last"))
    assert (len(training), len(held_out)) == (n - n_held, n_held)


@pytest.mark.parametrize(
    ("X", "fraction", "mode", "message"),
    [
        ([["a"], ["a"]], 0.1, "last", "and X has 1: that leaves none to train on"),
        ([["a"], ["b"]], 0.6, "last", "and X has 2: that leaves none to train on"),
        (
            [["a"], ["b"]],
            0.1,
            "single",
            "X has 0 beside the one-token sentences, .*: that leaves none to validate on",
        ),
        (
            [["a"], ["b"], ["a", "b"]],
            0.1,
            "auto",
            "X has 1 beside the one-token sentences, .*: that leaves none to train on",
        ),
    ],
)
def test_too_few_contexts(X, fraction, mode, message):
    clf = NTPTransformerClassifier(
        early_stopping=True, validation_fraction=fraction, collocation=mode
    )
    with pytest.raises(ValueError, match=rf"validation_fraction={fraction:g} of .* {message}"):
        clf.fit(X, ["a"] * len(X))
    clf.set_params(early_stopping=False).fit(X, ["a"] * len(X))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("validation_fraction", 0.0),
        ("validation_fraction", 1.0),
        ("validation_fraction", 2),
        ("early_stopping", "yes"),
        ("random_state", -1),
        ("random_state", "0"),
    ],
)
def test_invalid_parameters(name, value):
    with pytest.raises(ValueError, match=f"'{name}' parameter"):
        NTPTransformerClassifier(**{name: value}).fit(*CHAIN)


# The loss that is watched, and the weights that are kept

TRAINED = {
    "two stages": {"stages": ("ov", "kq"), "step_size": 0.3},
    "linear": {"stages": ("ov", "kq"), "step_schedule": "linear", "max_iter": 40, "step_size": 1.0},
    "joint": {"stages": ("joint",), "step_size": 0.5},
    "lbfgs": {"stages": ("ov", "kq"), "solver": "lbfgs"},
    "lbfgs, joint": {"stages": ("joint",), "solver": "lbfgs"},
    "lbfgs, alpha": {"stages": ("joint",), "solver": "lbfgs", "alpha": 3.0},
    "fine-tuned": {"stages": ("ov", "kq", "joint"), "step_size": 0.2},
    "smoothed": {
        "stages": ("ov", "joint"),
        "solver": "lbfgs",
        "smoothing": "kneser-ney",
        "collocation": "context",
        "attention_start": 0.5,
    },
}
EARLY = {
    "early_stopping": True,
    "validation_fraction": 0.3,
    "random_state": 0,
    "n_iter_no_change": 4,
    "tol": 1e-4,
    "max_iter": 150,
    "collocation": "last",
}


def _early(data, weight=None, **params):
    return fitted(data, weight, **EARLY | params)


class _Held:
    """Both sides of the data of an estimator, as the oracle reads them."""

    def __init__(self, X, y, weight, clf):
        weight = np.ones(len(X)) if weight is None else weight
        data = _split(
            X,
            y,
            weight,
            clf.validation_fraction,
            clf.random_state,
            collocation=clf.collocation,
            vocabulary=clf.vocabulary,
        )
        tokens, classes = clf.vocabulary_.tolist(), clf.classes_.tolist()
        self.n_tokens = len(tokens)
        known = {token: code for code, token in enumerate(tokens)}
        held = [
            (query, tuple(sorted(bag)))
            for query, bag in self._bags(data.held_out[0], self.n_tokens)
        ]
        self.training, self.held_out = ([], [], []), ([], [], [])
        for sentence, label, w in zip(X, y, weight, strict=True):
            if not w:
                continue
            codes = [known.get(x, self.n_tokens) for x in sentence]
            side = self.held_out if _context(codes) in held else self.training
            for part, item in zip(side, (codes, classes.index(label), w), strict=True):
                part.append(item)

    @staticmethod
    def _bags(contexts, n_tokens):
        for c in range(len(contexts)):
            at = slice(contexts.offsets[c], contexts.offsets[c + 1])
            bag = np.repeat(contexts.tokens[at], contexts.counts[at]).tolist()
            yield int(contexts.query[c]), bag

    def loss(self, w_ov, w_kq, side="held_out"):
        """With a last token that is unknown: it votes for nothing, and scores 0."""
        w_ov = np.hstack([w_ov, np.zeros((len(w_ov), 1))])
        base = w_kq.min(axis=1, keepdims=True)  # of attention_start >= 0, untrained
        w_kq = np.vstack([np.hstack([w_kq, base * 0]), np.zeros((1, self.n_tokens + 1))])
        return mean_loss(w_ov, w_kq, *getattr(self, side))


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize("seed", SEEDS)
def test_the_weights_of_the_lowest_validation_loss_are_kept(seed, name):
    X, y, weight = conflicting(seed)
    clf = _early((X, y), weight, **TRAINED[name])
    held = _Held(X, y, weight, clf)
    assert len(held.held_out[0]) > 5 and len(held.training[0]) > 20
    last = clf.convergence_[clf.stages[-1]]
    found = held.loss(clf.coef_ov_, clf.coef_kq_)
    assert_allclose(found, last["validation_loss"].min(), rtol=1e-12)
    labels = [clf.classes_[v] for v in held.held_out[1]]
    sentences = [[int(clf.vocabulary_[x]) for x in s] for s in held.held_out[0]]
    log_p = clf.label_log_proba(sentences, labels)
    assert_allclose(-np.average(log_p, weights=held.held_out[2]), found, rtol=1e-12)
    # And the loss is that of the others.
    best = np.argmin(last["validation_loss"])
    training = held.loss(clf.coef_ov_, clf.coef_kq_, "training")
    if clf.stages != ("ov",):
        assert_allclose(training, last["loss"][best], rtol=1e-10)


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize("seed", SEEDS)
def test_each_stage_starts_from_the_best_weights_of_the_one_before(seed, name):
    X, y, weight = conflicting(seed)
    clf = _early((X, y), weight, **TRAINED[name])
    curves = [clf.convergence_[stage] for stage in clf.stages]
    for before, after in zip(curves[:-1], curves[1:], strict=True):
        lowest = before["validation_loss"].min()
        assert_allclose(after["validation_loss"][0], lowest, rtol=1e-12)


@pytest.mark.parametrize("name", TRAINED)
@pytest.mark.parametrize("n", [1, 3])
@pytest.mark.parametrize("tol", [0.0, 1e-2])
def test_a_stage_stops_when_patience_runs_out(name, n, tol):
    X, y, weight = conflicting(1)
    params = TRAINED[name] | {"n_iter_no_change": n, "tol": tol}
    clf = _early((X, y), weight, **params)
    for stage, n_iter in zip(clf.stages, clf.n_iter_, strict=True):
        curves = clf.convergence_[stage]
        assert len(curves["validation_loss"]) == len(curves["loss"]) == n_iter + 1
        patience = Patience(n, tol)
        out = [patience.out(loss) for loss in curves["validation_loss"]]
        assert not any(out[:-1])
        if curves["stop_reason"] == "early stopping":
            assert out[-1]
        elif curves["stop_reason"] != "smoothing":
            assert not out[-1]
            assert curves["stop_reason"] in {"max_iter", "converged", "no descent"}
    assert clf.convergence_[clf.stages[-1]]["stop_reason"] == "early stopping"


def test_the_validation_loss_is_that_of_the_literal_path():
    X, y, weight = conflicting(2)
    clf = _early((X, y), weight, stages=("joint",), max_iter=12, step_size=0.5, tol=0.0)
    held = _Held(X, y, weight, clf)
    w = np.zeros_like(clf.coef_ov_), np.zeros((7, 7))
    losses = []
    for _ in range(len(clf.loss_curve_)):
        losses.append(held.loss(*w))
        step = gradients(*w, *held.training)
        norm = np.sqrt(sum((g**2).sum() for g in step))
        w = tuple(part - 0.5 * g / norm for part, g in zip(w, step, strict=True))
    assert_allclose(clf.convergence_["joint"]["validation_loss"], losses, rtol=1e-9)


def test_the_validation_loss_of_stage_1_is_that_of_the_model_not_of_the_collocation():
    X, y, weight = conflicting(3)
    clf = _early((X, y), weight, stages=("ov",), max_iter=6, step_size=0.5, tol=0.0)
    held = _Held(X, y, weight, clf)
    sentences, labels, weights = held.training
    last = [s[-1:] for s in sentences]
    none = np.zeros((7, 7))
    path = descend(
        lambda w: gradients(w, none, last, labels, weights)[0],
        np.zeros_like(clf.coef_ov_),
        clf.n_iter_[0],
        0.5,
    )
    losses = [held.loss(w, none) for w in path]
    assert_allclose(clf.convergence_["ov"]["validation_loss"], losses, rtol=1e-9)


@pytest.mark.parametrize("solver", ["ngd", "lbfgs"])
def test_with_a_vocabulary(solver):
    X, y, weight = conflicting(0)
    clf = _early((X, y), weight, vocabulary=range(5), stages=("joint",), solver=solver)
    held = _Held(X, y, weight, clf)
    assert any(5 in s for s in held.held_out[0])
    curves = clf.convergence_["joint"]
    # An unknown query spreads attention by count: no weights of its own.
    assert_allclose(
        held.loss(clf.coef_ov_, clf.coef_kq_), curves["validation_loss"].min(), rtol=1e-12
    )
    zero = np.zeros((len(clf.classes_), 6)), np.zeros((6, 6))
    step = known_gradients(5, *zero, *held.training)
    if solver == "ngd":
        norm = np.sqrt(sum((g**2).sum() for g in step))
        first = [-0.1 * g / norm for g in step]
        assert_allclose(curves["validation_loss"][1], mean_loss(*first, *held.held_out), rtol=1e-12)


def test_what_only_the_held_out_contexts_hold_is_known():
    """Pairs, next tokens and tokens that training never meets."""
    X = [["a"], ["b"], ["a", "b"], ["b", "a"], ["a", "a"], ["c", "d", "a"], ["d", "c"]]
    y = ["b", "a", "b", "a", "b", "e", "f"]
    both = {}
    for seed in range(40):
        data = _split(X, y, fraction=0.2, seed=seed, collocation="last")
        both[frozenset(_sides(data)[1])] = seed
    seed = both[frozenset(map(_context, X[-2:]))]
    for params in (
        {"stages": ("ov", "kq", "joint")},
        {"stages": ("ov", "kq", "joint"), "solver": "lbfgs"},
        {
            "stages": ("ov", "joint"),
            "solver": "lbfgs",
            "smoothing": "kneser-ney",
            "collocation": "context",
            "attention_start": 0.5,
        },
    ):
        clf = _early((X, y), **{"validation_fraction": 0.2, "random_state": seed} | params)
        assert clf.vocabulary_.tolist() == list("abcd")
        assert clf.classes_.tolist() == list("abef")
        assert "c" not in clf.collocation_ and "d" not in clf.collocation_
        curves = clf.convergence_[clf.stages[-1]]
        assert np.isfinite(curves["validation_loss"]).all()
        found = -clf.label_log_proba(X[-2:], y[-2:]).mean()
        assert_allclose(found, curves["validation_loss"].min(), rtol=1e-12)
        assert (clf.predict_proba(X) > 0).all()


@pytest.mark.parametrize("solver", ["ngd", "lbfgs"])
def test_it_ends_sooner_and_lower_than_without(solver):
    X, y, weight = conflicting(1)
    params = {"stages": ("joint",), "solver": solver, "tol": 0.0, "step_size": 1.0}
    early = _early((X, y), weight, **params)
    held = _Held(X, y, weight, early)
    side = [held.training[0], held.training[1]], held.training[2]
    full = fitted(side[0], side[1], **EARLY | params | {"early_stopping": False})
    assert full.n_iter_[0] > early.n_iter_[0]
    assert "validation_loss" not in full.convergence_["joint"]
    assert full.classes_.tolist() == early.classes_.tolist()
    assert held.loss(full.coef_ov_, full.coef_kq_) > held.loss(early.coef_ov_, early.coef_kq_)
    # Up to where it stopped they went the same way.
    n = len(early.loss_curve_)
    assert_allclose(full.loss_curve_[:n], early.loss_curve_, rtol=1e-8)


def test_without_early_stopping_descent_takes_all_its_steps():
    X, y, weight = conflicting(1)
    clf = fitted((X, y), weight, **EARLY | {"early_stopping": False, "n_iter_no_change": 1})
    assert clf.n_iter_.tolist() == [150, 150]


# In scikit-learn


def _pipeline(**params):
    return make_pipeline(
        ContextWindow(4, "^"),
        NGramTokens(2),
        PositionTagger(1),
        NTPTransformerClassifier(
            **EARLY
            | {
                "stages": ("ov", "joint"),
                "solver": "lbfgs",
                "smoothing": "kneser-ney",
                "attention_start": 1.0,
                "collocation": "context",
                "max_iter": 15,
            }
            | params
        ),
    )


def test_in_a_pipeline_with_weights():
    X, y, weight = _copies(0)
    weight = np.maximum(weight, 0.1)
    pipeline = _pipeline().fit(X, y, ntptransformerclassifier__sample_weight=weight)
    curves = pipeline[-1].convergence_["joint"]
    assert curves["validation_loss"].min() <= curves["validation_loss"][0]
    assert pipeline.predict_proba(X).shape == (len(X), 4)
    again = clone(pipeline).fit(X, y, ntptransformerclassifier__sample_weight=weight)
    assert_same_fit(again[-1], pipeline[-1])


def test_in_a_grid_search_with_two_jobs():
    X, y, _ = _copies(0)
    grid = {"ntptransformerclassifier__alpha": [0.1, 10.0]}
    scores = []
    for n_jobs in (1, 2):
        search = GridSearchCV(_pipeline(max_iter=5), grid, cv=2, n_jobs=n_jobs, scoring="accuracy")
        scores.append(search.fit(as_sequences(X), y).cv_results_["mean_test_score"])
    assert_array_equal(scores[0], scores[1])
    assert np.isfinite(scores[0]).all()
    scores = cross_val_score(_pipeline(max_iter=5), as_sequences(X), y, cv=3, error_score="raise")
    assert len(scores) == 3


def _assert_same_early(clf, expected):
    assert_same_fit(clf, expected)
    for stage in clf.stages:
        name = "validation_loss"
        assert_array_equal(clf.convergence_[stage][name], expected.convergence_[stage][name])


@pytest.mark.parametrize("name", ["joint", "lbfgs", "smoothed"])
def test_order_of_the_sentences_and_threads_change_no_bit(name):
    X, y, weight = conflicting(0)
    params = TRAINED[name] | {"max_iter": 15}
    clf = _early((X, y), weight, **params)
    order = np.random.RandomState(0).permutation(len(X))
    mixed = [X[i] for i in order], [y[i] for i in order]
    _assert_same_early(_early(mixed, weight[order], **params), clf)
    _assert_same_early(_early((X, y), weight, n_jobs=2, **params), clf)


@pytest.mark.parametrize("name", ["joint", "lbfgs", "smoothed"])
def test_weights_equal_repeats_bit_for_bit(name):
    X, y, _ = conflicting(0)
    times = np.random.RandomState(0).choice([1, 2, 3], len(X))
    repeated = [(s, v) for s, v, k in zip(X, y, times, strict=True) for _ in range(k)]
    params = TRAINED[name] | {"max_iter": 15}
    twice = _early(tuple(zip(*repeated, strict=True)), **params)
    _assert_same_early(twice, _early((X, y), times, **params))


def test_pickle():
    data = conflicting(0)
    clf = _early(data[:2], data[2], stages=("joint",))
    again = pickle.loads(pickle.dumps(clf))
    assert_same_fit(again, clf)


def test_verbose_shows_the_validation_loss(capsys):
    X, y, weight = conflicting(0)
    clf = _early((X, y), weight, stages=("joint",), verbose=2, max_iter=4)
    lines = capsys.readouterr().out.splitlines()
    losses = clf.convergence_["joint"]["validation_loss"]
    assert len(lines) == len(losses)
    for line, loss in zip(lines, losses, strict=True):
        assert f"validation_loss {loss:.6g}" in line and "log_loss" not in line


def test_tracking_beside_it():
    X, y, weight = conflicting(0)
    clf = _early((X, y), weight, track_alignment=True, max_iter=10)
    curves = clf.convergence_["kq"]
    assert np.isfinite(curves["accuracy"]).all()
    held = _Held(X, y, weight, clf)
    sentences, labels, weights = held.training  # the accuracy is that of the others
    hit = clf.predict(sentences) == clf.classes_[labels]
    best = np.argmin(curves["validation_loss"])
    assert_allclose(curves["accuracy"][best], np.average(hit, weights=weights), rtol=1e-12)


# Warm start


@pytest.mark.parametrize("solver", ["ngd", "lbfgs"])
def test_warm_start_continues_from_the_best_weights(solver):
    X, y, weight = conflicting(0)
    clf = _early((X, y), weight, stages=("joint",), solver=solver, warm_start=True, step_size=0.5)
    first = clf.convergence_["joint"]["validation_loss"]
    clf.fit(X, y, weight)
    second = clf.convergence_["joint"]["validation_loss"]
    n = len(first) - 1
    assert_array_equal(second[:n], first[:n])
    assert_allclose(second[n], first.min(), rtol=1e-12)
    assert len(second) == n + clf.n_iter_[0] + 1


@pytest.mark.parametrize("early_first", [True, False])
def test_early_stopping_may_be_switched_between_calls(early_first):
    X, y, weight = conflicting(0)
    params = {"stages": ("joint",), "warm_start": True, "max_iter": 5, "tol": 0.0}
    clf = _early((X, y), weight, **params | {"early_stopping": early_first})
    n = len(clf.loss_curve_) - 1
    clf.set_params(early_stopping=not early_first).fit(X, y, weight)
    curves = clf.convergence_["joint"]
    assert len(curves["loss"]) == n + clf.n_iter_[0] + 1
    # NaN where it was not watched; where the calls meet, the later one counts.
    assert len(curves["validation_loss"]) == len(curves["loss"])
    watched = np.arange(len(curves["loss"])) < n
    if not early_first:
        watched = ~watched
    assert_array_equal(np.isfinite(curves["validation_loss"]), watched)
