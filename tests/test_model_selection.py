"""The splitter keeps equal contexts together and tests on no one-token sentence."""

from collections import Counter

import numpy as np
import pandas as pd
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    cross_val_predict,
    cross_val_score,
    learning_curve,
)

from sklntp.model_selection import UnseenSentenceKFold
from sklntp.preprocessing import as_sequences


class TokenCount(ClassifierMixin, BaseEstimator):
    """Predicts 1 for sentences of at least `length` tokens; remembers what it was fitted on."""

    def __init__(self, length=2):
        self.length = length

    def fit(self, X, y, sample_weight=None):
        self.classes_ = np.unique(y)
        self.one_token_ = sum(len(x) == 1 for x in X)
        self.weighted_ = sample_weight is not None
        return self

    def predict(self, X):
        assert self.one_token_ == 6  # every training fold has all one-token sentences
        return np.array([int(len(x) >= self.length) for x in X])


def _sentences(seed=0, n_sentences=60, n_tokens=6, max_length=4):
    rng = np.random.RandomState(seed)
    longer = [
        rng.randint(n_tokens, size=rng.randint(2, max_length + 1)).tolist()
        for _ in range(n_sentences)
    ]
    X = [[x] for x in range(n_tokens)] + longer
    return [X[i] for i in rng.permutation(len(X))]


def _context(sentence):
    return sentence[-1], tuple(sorted(Counter(sentence).items()))


def _folds(cv, *args, **kwargs):
    return [(train.tolist(), test.tolist()) for train, test in cv.split(*args, **kwargs)]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kwargs", [{}, {"shuffle": True, "random_state": 0}], ids=["", "shuffle"])
@pytest.mark.parametrize("n_splits", [2, 5])
def test_no_context_is_in_training_and_test(n_splits, kwargs, seed):
    X = _sentences(seed)
    longer = [i for i, x in enumerate(X) if len(x) > 1]
    single = {i for i, x in enumerate(X) if len(x) == 1}
    folds = _folds(UnseenSentenceKFold(n_splits, **kwargs), X)
    assert len(folds) == n_splits
    assert sorted(i for _, test in folds for i in test) == longer
    repeated = Counter(_context(X[i]) for i in longer).most_common(1)[0][1]
    assert repeated > 1  # otherwise the next lines prove nothing
    for train, test in folds:
        assert test and single <= set(train)
        assert sorted(train + test) == list(range(len(X)))
        assert train == sorted(train)
        assert not {_context(X[i]) for i in train} & {_context(X[i]) for i in test}


def test_a_context_is_the_last_token_and_the_bag_with_counts():
    same = [["a", "b", "c"], ["b", "a", "c"]]
    other_query = ["c", "b", "a"]
    other_counts = ["a", "a", "b", "c"]
    X = [*same, other_query, other_counts]
    tests = sorted(test for _, test in _folds(UnseenSentenceKFold(3), X))
    assert tests == [[0, 1], [2], [3]]
    with pytest.raises(ValueError, match=r"n_splits=4 .*got 3\."):
        _folds(UnseenSentenceKFold(4), X)


def test_a_repeated_token_is_a_sentence_to_test():
    X = [["a"], ["b"], ["a", "a"], ["b", "b"]]
    assert sorted(_folds(UnseenSentenceKFold(2), X)) == [([0, 1, 2], [3]), ([0, 1, 3], [2])]


@pytest.mark.parametrize("n_splits", [2, 3, 5])
def test_folds_are_balanced_as_in_group_k_fold(n_splits):
    X = _sentences()
    longer = [i for i, x in enumerate(X) if len(x) > 1]
    groups = [repr(_context(X[i])) for i in longer]
    sizes = [len(test) for _, test in _folds(UnseenSentenceKFold(n_splits), X)]
    expected = [len(test) for _, test in _folds(GroupKFold(n_splits), longer, groups=groups)]
    assert sorted(sizes) == sorted(expected)


def test_shuffle_follows_random_state():
    X = _sentences()

    def folds(seed):
        return _folds(UnseenSentenceKFold(3, shuffle=True, random_state=seed), X)

    assert folds(0) == folds(0)
    assert folds(0) != folds(1)
    assert folds(0) != _folds(UnseenSentenceKFold(3), X)
    with pytest.raises(ValueError, match="random_state"):
        UnseenSentenceKFold(random_state=0)


def test_every_input_form_gives_the_same_folds():
    X = _sentences()
    array = as_sequences(X)
    expected = _folds(UnseenSentenceKFold(), X)
    for form in (
        [tuple(x) for x in X],
        [np.array(x) for x in X],
        [[np.int8(token) for token in x] for x in X],
        array,
        array.reshape(-1, 1),
        pd.Series(array, index=np.arange(len(X))[::-1]),
        pd.DataFrame({"x": array}),
    ):
        assert _folds(UnseenSentenceKFold(), form) == expected


def test_polars_gives_the_same_folds():
    pl = pytest.importorskip("polars")
    X = _sentences()
    assert _folds(UnseenSentenceKFold(), pl.Series(X)) == _folds(UnseenSentenceKFold(), X)


def test_rows_of_a_table_are_sentences():
    table = np.random.RandomState(0).randint(3, size=(40, 3))
    expected = _folds(UnseenSentenceKFold(), table.tolist())
    for form in (table, table.astype(float), pd.DataFrame(table, columns=list("xyz"))):
        assert _folds(UnseenSentenceKFold(), form) == expected


def test_y_and_groups_do_not_matter():
    X = _sentences()
    rng = np.random.RandomState(0)
    expected = _folds(UnseenSentenceKFold(), X)
    y = rng.randint(3, size=len(X))
    assert _folds(UnseenSentenceKFold(), X, y) == expected
    assert _folds(UnseenSentenceKFold(), X, y, groups=rng.permutation(len(X))) == expected
    assert UnseenSentenceKFold(4).get_n_splits(X) == 4


@pytest.mark.parametrize(
    ("X", "error", "match"),
    [
        ([["a", "b"], []], ValueError, "Sentence 1 is empty"),
        ([["a"], ["b"], ["c"]], ValueError, r"n_splits=2 .*got 0\."),
        ([["a", "b"], ["a", "b"], ["a"]], ValueError, r"n_splits=2 .*got 1\."),
        (["a b", "b a"], ValueError, "Sentence 0 must be split into tokens"),
        ([["a", "b"], [["a"], "b"]], TypeError, "Sentence 1, position 0: .*got list"),
    ],
)
def test_bad_sentences(X, error, match):
    with pytest.raises(error, match=match):
        next(UnseenSentenceKFold(2).split(X))


def test_lengths_of_X_and_y_must_agree():
    with pytest.raises(ValueError, match="inconsistent numbers of samples"):
        next(UnseenSentenceKFold(2).split(_sentences(), [0, 1]))


def test_repr_and_clone():
    cv = UnseenSentenceKFold(3, shuffle=True, random_state=1)
    assert repr(cv) == "UnseenSentenceKFold(n_splits=3, random_state=1, shuffle=True)"
    assert repr(clone(cv, safe=False)) == repr(cv)


@pytest.mark.parametrize("routing", [False, True], ids=["", "metadata routing"])
@pytest.mark.parametrize("form", [list, as_sequences, lambda X: pd.Series(as_sequences(X))])
def test_in_scikit_learn(form, routing):
    X = form(_sentences())
    y = np.array([int(len(x) >= 3) for x in X])
    weight = np.ones(len(X))
    cv = UnseenSentenceKFold(3)
    with config_context(enable_metadata_routing=routing):
        classifier = TokenCount(3)
        if routing:
            classifier.set_fit_request(sample_weight=True).set_score_request(sample_weight=False)
        scores = cross_val_score(classifier, X, y, cv=cv, params={"sample_weight": weight})
        assert scores.tolist() == [1, 1, 1]
        search = GridSearchCV(classifier, {"length": [2, 3, 4]}, cv=cv, error_score="raise")
        search.fit(X, y, sample_weight=weight)
        assert search.best_params_ == {"length": 3}
        assert search.best_estimator_.weighted_


def test_routed_groups_are_ignored():
    X = _sentences()
    y = np.array([int(len(x) >= 3) for x in X])
    with config_context(enable_metadata_routing=True):
        params = {"groups": np.arange(len(X))}
        scores = cross_val_score(TokenCount(3), X, y, cv=UnseenSentenceKFold(3), params=params)
    assert scores.tolist() == [1, 1, 1]


def test_learning_curve():
    X = sorted(_sentences(), key=len)  # one-token sentences first: they are in every subset
    y = np.array([int(len(x) >= 3) for x in X])
    sizes, _, scores = learning_curve(
        TokenCount(3), X, y, cv=UnseenSentenceKFold(3), train_sizes=[0.5, 1.0], error_score="raise"
    )
    assert len(sizes) == 2
    assert scores.tolist() == [[1, 1, 1], [1, 1, 1]]


def test_cross_val_predict_refuses_what_is_no_partition():
    X = _sentences()
    y = np.array([int(len(x) >= 3) for x in X])
    with pytest.raises(ValueError, match="only works for partitions"):
        cross_val_predict(TokenCount(3), X, y, cv=UnseenSentenceKFold(3))
