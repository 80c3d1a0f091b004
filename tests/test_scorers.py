"""Scorers of next tokens: literal references, scikit-learn's own figures, and every search."""

import pickle
import warnings
from functools import partial

import numpy as np
import pandas as pd
import pytest
from data import CHAIN, FORMS, fitted
from numpy.testing import assert_allclose
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.ensemble import BaggingClassifier
from sklearn.exceptions import NotFittedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss, top_k_accuracy_score
from sklearn.model_selection import GridSearchCV, KFold, cross_validate
from sklearn.pipeline import make_pipeline
from sklearn.svm import LinearSVC

from sklntp import NTPTransformerClassifier, _scorers
from sklntp.metrics import neg_log_loss, perplexity, top_k_accuracy
from sklntp.preprocessing import as_sequences

EPS = np.finfo(np.float64).eps
SCORERS = [neg_log_loss, perplexity, top_k_accuracy, partial(top_k_accuracy, k=2)]


class Table(ClassifierMixin, BaseEstimator):
    """Predicts the probabilities in X itself, as they are."""

    def __init__(self, classes, dtype=np.float64):
        self.classes = classes
        self.dtype = dtype
        self.classes_ = np.asarray(classes)

    def predict_proba(self, X):
        return np.asarray(X, dtype=self.dtype)


def random_table(seed, n=40, labels="abcdefg"):
    rng = np.random.default_rng(seed)
    X = rng.dirichlet(np.ones(len(labels)), size=n)
    return Table(list(labels)), X, rng.choice(list(labels), n), rng.integers(1, 4, n)


def literal_log_loss(estimator, X, y, weight):
    """Minus the weighted mean of log max(p, eps), one sentence after the other."""
    total, classes = 0.0, list(estimator.classes_)
    for row, label, w in zip(estimator.predict_proba(X), y, weight, strict=True):
        p = row[classes.index(label)] if label in classes else 0.0
        total += w * np.log(max(p, EPS))
    return -total / sum(weight)


def literal_top_k(estimator, X, y, weight, k):
    """Weighted share of labels in the first k of a stable sort by falling probability."""
    hits = 0
    for row, label, w in zip(estimator.predict_proba(X), y, weight, strict=True):
        order = sorted(range(len(row)), key=lambda i: -row[i])
        hits += w * (label in [estimator.classes_[i] for i in order[:k]])
    return hits / sum(weight)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("batch", [1, 30, 1 << 21])
def test_literal_references(monkeypatch, seed, batch):
    monkeypatch.setattr(_scorers, "_BATCH", batch)
    clf, X, y, weight = random_table(seed)
    X[:3, 2], y[:5] = 0.0, ["c", "new", "c", "a", "zz"]
    ones = np.ones(len(y))
    assert neg_log_loss(clf, X, y) == pytest.approx(-literal_log_loss(clf, X, y, ones), rel=1e-13)
    loss = literal_log_loss(clf, X, y, weight)
    assert neg_log_loss(clf, X, y, weight) == pytest.approx(-loss, rel=1e-13)
    assert perplexity(clf, X, y, weight) == pytest.approx(-np.exp(loss), rel=1e-12)
    for k in range(1, 9):
        expected = literal_top_k(clf, X, y, weight, k)
        assert top_k_accuracy(clf, X, y, weight, k=k) == pytest.approx(expected, rel=1e-13)
    assert top_k_accuracy(clf, X, y) == top_k_accuracy(clf, X, y, k=5)


@pytest.mark.parametrize("seed", range(5))
def test_scikit_learns_figures_where_all_labels_are_seen(seed):
    clf, X, y, weight = random_table(seed)
    X[0], y[0] = 0.0, "a"
    X[0, 1] = 1.0
    for w in (None, weight):
        expected = log_loss(y, X, labels=clf.classes_, sample_weight=w)
        assert -neg_log_loss(clf, X, y, w) == pytest.approx(expected, abs=1e-12)
    X, y, weight = X[1:], y[1:], weight[1:]  # without ties
    for w in (None, weight):
        expected = top_k_accuracy_score(y, X, k=3, labels=clf.classes_, sample_weight=w)
        assert top_k_accuracy(clf, X, y, w, k=3) == pytest.approx(expected, abs=1e-12)


def test_our_classifier_agrees_with_its_own_probabilities():
    X, y = CHAIN
    clf = fitted(CHAIN, max_iter=20)
    expected = log_loss(y, clf.predict_proba(X), labels=clf.classes_)
    assert -neg_log_loss(clf, X, y) == pytest.approx(expected, abs=1e-12)
    assert top_k_accuracy(clf, X, y, k=1) == clf.score(X, y)


def test_weights_equal_repeats():
    clf, X, y, weight = random_table(0)
    X_repeated, y_repeated = np.repeat(X, weight, axis=0), np.repeat(y, weight)
    for scorer in SCORERS:
        expected = scorer(clf, X_repeated, y_repeated)
        assert scorer(clf, X, y, weight) == pytest.approx(expected, rel=1e-13)


def test_the_floor():
    clf = Table(["a", "b"])
    for X, y in (([[1.0, 0.0]], ["b"]), ([[1.0, 0.0]], ["new"]), ([[1.0, EPS / 2]], ["b"])):
        assert neg_log_loss(clf, X, y) == np.log(EPS)
        assert perplexity(clf, X, y) == pytest.approx(-1 / EPS, rel=1e-12)
    assert neg_log_loss(clf, [[1.0, 3 * EPS]], ["b"]) == pytest.approx(np.log(3 * EPS), rel=1e-13)
    single = Table(["a", "b"], dtype=np.float32)  # its eps is 1.2e-7; the floor is that of float64
    assert neg_log_loss(single, [[1.0, 1e-10]], ["b"]) == pytest.approx(np.log(1e-10), rel=1e-6)


def test_perfect_and_guessing_models():
    clf, y = Table(list("abcd")), list("abcd")
    assert [scorer(clf, np.eye(4), y) for scorer in SCORERS] == [0.0, -1.0, 1.0, 1.0]
    assert perplexity(clf, np.full((4, 4), 0.25), y) == pytest.approx(-4.0)


def test_ties_go_to_the_earlier_class():
    clf = Table(list("cab"))  # the order in classes_, not that of the labels
    X, y = [[0.4, 0.3, 0.3]] * 3, list("cab")
    hits = [[top_k_accuracy(clf, X[:1], [label], k=k) for label in y] for k in (1, 2, 3)]
    assert hits == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]


def test_k_beyond_the_classes_still_misses_the_unseen():
    clf = Table(list("ab"))
    assert top_k_accuracy(clf, [[0.9, 0.1]] * 4, ["a", "b", "c", "b"], k=100) == 0.75


def test_log_probabilities_are_read_where_there_are_any():
    """Two classes whose probabilities underflow are told apart."""

    class Logs(Table):
        def predict_log_proba(self, X):
            return np.asarray(X, dtype=self.dtype)

    X = [[0.0, -900.0, -800.0]] * 2
    clf = Logs(["a", "b", "c"])
    assert top_k_accuracy(clf, X, ["b", "c"], k=2) == 0.5
    assert neg_log_loss(clf, X, ["a", "a"]) == 0.0
    assert neg_log_loss(clf, X, ["a", "b"]) == pytest.approx(np.log(EPS) / 2)


@pytest.mark.parametrize("scorer", SCORERS)
def test_forms_of_sentences(monkeypatch, scorer):
    monkeypatch.setattr(_scorers, "_BATCH", 6)  # two sentences of three classes
    X, y = CHAIN
    clf = fitted(CHAIN)
    expected = scorer(clf, X, y)
    frame = pd.DataFrame({"sentence": FORMS["Series"](X)})
    for form in (*(make(X) for make in FORMS.values()), tuple(X), frame):
        assert scorer(clf, form, y) == pytest.approx(expected, rel=1e-13)
    for labels in (np.array(y), np.array(y, dtype=object), pd.Series(y), pd.Categorical(y)):
        assert scorer(clf, X, labels) == pytest.approx(expected, rel=1e-13)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array, pd.DataFrame])
def test_forms_of_features(monkeypatch, make):
    rng = np.random.default_rng(0)
    X, y = make(rng.integers(0, 3, (30, 4)).astype(float)), rng.integers(0, 3, 30)
    clf = LogisticRegression().fit(X, y)
    expected = log_loss(y, clf.predict_proba(X))
    monkeypatch.setattr(_scorers, "_BATCH", 21)
    assert -neg_log_loss(clf, X, y) == pytest.approx(expected, abs=1e-12)


def test_numbers_match_whatever_their_dtype():
    clf = Table([1, 2])
    expected = neg_log_loss(clf, [[0.9, 0.1]] * 2, [1, 2])
    for y in ([1.0, 2.0], np.array([1, 2], dtype=np.uint8), np.array([1, 2], dtype=object)):
        assert neg_log_loss(clf, [[0.9, 0.1]] * 2, y) == expected
    flags = Table([False, True])
    assert top_k_accuracy(flags, [[0.9, 0.1]] * 2, [False, True], k=1) == 0.5


def sentences_with_rare_tokens():
    rng = np.random.default_rng(0)
    X = [rng.choice(list("abc"), rng.integers(1, 5)).tolist() for _ in range(60)]
    y = [f"rare{i}" if i in (3, 50) else sentence[-1] for i, sentence in enumerate(X)]
    return as_sequences(X), np.array(y)


def itself(sentence):
    return sentence


SCORING = {
    "log_loss": neg_log_loss,
    "perplexity": perplexity,
    "top_5": top_k_accuracy,
    "top_1": partial(top_k_accuracy, k=1),
}


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_one_search_with_all_scorers(n_jobs):
    """The training part of every fold lacks one of the rare tokens."""
    X, y = sentences_with_rare_tokens()
    search = GridSearchCV(
        NTPTransformerClassifier(max_iter=5, collocation="last"),
        {"step_size": [0.1, 1.0]},
        scoring=SCORING,
        refit="log_loss",
        cv=KFold(2),
        n_jobs=n_jobs,
        error_score="raise",
    ).fit(X, y)
    found = search.cv_results_
    for name in SCORING:
        assert np.isfinite(found[f"mean_test_{name}"]).all()
    for split in ("split0", "split1"):
        losses = found[f"{split}_test_log_loss"]
        assert_allclose(found[f"{split}_test_perplexity"], -np.exp(-losses), rtol=1e-12)
        assert (losses < np.log(EPS) / 30).all()  # one of 30 sentences is at the floor
    assert (found["mean_test_top_1"] <= found["mean_test_top_5"]).all()
    assert search.best_params_ == {"step_size": 1.0}
    for scorer in SCORING.values():
        assert scorer(search, X, y) == scorer(search.best_estimator_, X, y)
    assert search.score(X, y) == neg_log_loss(search, X, y)


def test_where_scikit_learns_scorer_fails():
    """It takes the labels of a test fold for those of the columns: by number, if at all."""
    X, y = sentences_with_rare_tokens()
    clf = NTPTransformerClassifier(max_iter=5, collocation="last")
    one = np.where(y == "rare50", "a", y)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # scikit-learn warns that scoring failed
        theirs = cross_validate(clf, X, one, cv=KFold(2), scoring="neg_log_loss")["test_score"]
    assert np.isnan(theirs).all()
    ours = cross_validate(clf, X, one, cv=KFold(2), scoring=neg_log_loss)["test_score"]
    assert ours[0] < np.log(EPS) / 30 < ours[1]

    theirs = cross_validate(clf, X, y, cv=KFold(2), scoring="neg_log_loss")["test_score"]
    ours = cross_validate(clf, X, y, cv=KFold(2), scoring=neg_log_loss)["test_score"]
    assert (ours < np.log(EPS) / 30).all() and (theirs > np.log(EPS) / 30).all()


@pytest.mark.parametrize(
    "clf",
    [
        make_pipeline(CountVectorizer(analyzer=itself), LogisticRegression()),
        make_pipeline(CountVectorizer(analyzer=itself), BaggingClassifier(LogisticRegression(), 2)),
        CalibratedClassifierCV(NTPTransformerClassifier(max_iter=3, collocation="last"), cv=2),
    ],
    ids=["pipeline", "bagging", "calibrated"],
)
def test_other_classifiers(clf):
    X, y = sentences_with_rare_tokens()
    common = np.char.str_len(y) == 1
    clf.fit(X[common], y[common])
    expected = log_loss(y[common], clf.predict_proba(X[common]))
    assert -neg_log_loss(clf, X[common], y[common]) == pytest.approx(expected, abs=1e-12)
    assert neg_log_loss(clf, X, y) < -expected
    assert top_k_accuracy(clf, X, y) == pytest.approx(common.mean())


@pytest.mark.parametrize("scorer", SCORERS)
def test_a_scorer_is_picklable(scorer):
    clf, X, y, _ = random_table(1)
    assert pickle.loads(pickle.dumps(scorer))(clf, X, y) == scorer(clf, X, y)


@pytest.mark.parametrize("scorer", SCORERS)
@pytest.mark.parametrize(
    "y, error, match",
    [
        ([1, 2], TypeError, r"y\[0\] is int 1, but classes_\[0\] is str 'a'"),
        (["a", None], ValueError, r"y\[1\]"),
        (["a", 1], TypeError, r"y\[0\] is str 'a', but y\[1\] is int 1"),
        (["a"], ValueError, "2 sentences in X, 1 next tokens in y"),
    ],
)
def test_labels_that_cannot_be_scored(scorer, y, error, match):
    with pytest.raises(error, match=match):
        scorer(Table(["a", "b"]), [[0.9, 0.1]] * 2, y)


def test_strings_for_a_model_of_numbers():
    with pytest.raises(TypeError, match=r"y\[0\] is str '1', but classes_\[0\] is int 1"):
        neg_log_loss(Table([1, 2]), [[0.9, 0.1]], ["1"])


@pytest.mark.parametrize("scorer", SCORERS)
def test_estimators_that_cannot_be_scored(scorer):
    X, y = np.arange(8.0).reshape(4, 2), [0, 1, 0, 1]
    with pytest.raises(NotFittedError):
        scorer(LogisticRegression(), X, y)
    with pytest.raises(TypeError, match="KMeans has none"):
        scorer(KMeans(2, n_init=1).fit(X), X, y)
    with pytest.raises(TypeError, match="LinearSVC has neither"):
        scorer(LinearSVC().fit(X, y), X, y)
    several = Table(["a", "b"])
    several.classes_ = [np.array(["a", "b"]), np.array(["c"])]
    with pytest.raises(TypeError, match="Table has a list"):
        scorer(several, X, ["a"] * 4)
    with pytest.raises(ValueError, match=r"3 classes_, but .* shape \(4, 2\)"):
        scorer(Table(["a", "b", "c"]), X, ["a"] * 4)


@pytest.mark.parametrize("scorer", SCORERS)
def test_numbers_that_cannot_be_scored(monkeypatch, scorer):
    clf, X, y, _ = random_table(0)
    with pytest.raises(ValueError, match="at least one sentence"):
        scorer(clf, X[:0], y[:0])
    with pytest.raises(ValueError, match="sample_weight must not be negative"):
        scorer(clf, X, y, -np.ones(len(y)))
    X[25, 0] = np.nan
    monkeypatch.setattr(_scorers, "_BATCH", 14)
    with pytest.raises(ValueError, match="NaN as a probability for sentence 25"):
        scorer(clf, X, y)


@pytest.mark.parametrize(
    "k, error, match",
    [
        (0, ValueError, "k must be at least 1; got 0"),
        (2.0, TypeError, "k must be an integer; got 2.0 of type float"),
        (True, TypeError, "k must be an integer; got True"),
        ("5", TypeError, "k must be an integer; got '5'"),
    ],
)
def test_k_is_checked(k, error, match):
    with pytest.raises(error, match=match):
        top_k_accuracy(Table(["a"]), [[1.0]], ["a"], k=k)


def test_dates_of_another_unit_are_the_same_labels():
    X = [["a"], ["b"], ["a"], ["b"]]
    y = np.array(["2024-01-01", "2024-01-02"] * 2, dtype="M8[D]")
    clf = NTPTransformerClassifier(max_iter=5).fit(X, y)
    assert neg_log_loss(clf, X, y.astype("M8[s]")) == neg_log_loss(clf, X, y) > -1


def test_b16_the_loss_of_a_next_token_never_seen_is_finite():
    clf = NTPTransformerClassifier(stages=("ov",), max_iter=10).fit(
        [["a"], ["b"], ["c"]], ["b", "c", "a"]
    )
    assert clf.score([["a"]], ["zzz"]) == 0.0
    assert_allclose(neg_log_loss(clf, [["a"]], ["zzz"]), np.log(np.finfo(float).eps), rtol=1e-12)
