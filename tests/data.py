"""Data sets whose results are known by hand, and what several tests share.

In all of them a is followed by b, b by c and c by a (CYC). ONE adds one ordered pair, TWOQ two
pairs under two queries, CHAIN the order a > b > c under the query c.
"""

import numpy as np
import pandas as pd

from sklntp import NTPTransformerClassifier
from sklntp.preprocessing import as_sequences


def plus(data, *samples):
    """The data set with more (sentence, next token) samples."""
    X, y = data
    return [*X, *(sentence for sentence, _ in samples)], [*y, *(label for _, label in samples)]


CYC = ([["a"], ["b"], ["c"]], ["b", "c", "a"])
ONE = plus(CYC, (["a", "b"], "b"))
TWOQ = plus(CYC, (["a", "b"], "b"), (["b", "c"], "c"))
CHAIN = plus(CYC, (["a", "b", "c"], "b"), (["b", "c"], "c"))
CONFLICT = plus(CYC, (["a", "b"], "b"), (["a", "b"], "c"))  # a above b and b above a

FORMS = {
    "list": list,
    "object array": as_sequences,
    "Series": lambda X: pd.Series(as_sequences(X), index=np.arange(len(X))[::-1]),
}


def fitted(data, sample_weight=None, **params):
    """A classifier fitted on (X, y), with 50 steps of 0.1 per stage unless told otherwise."""
    params = {"step_size": 0.1, "max_iter": 50, **params}
    return NTPTransformerClassifier(**params).fit(*data, sample_weight=sample_weight)


def assert_same_fit(actual, expected):
    """Both hold the same tokens and the same bits."""
    for name in ("vocabulary_", "classes_", "n_iter_", "coef_ov_", "coef_kq_", "loss_curve_"):
        np.testing.assert_array_equal(getattr(actual, name), getattr(expected, name), name)
    assert actual.collocation_ == expected.collocation_
    assert actual.collocation_mode_ == expected.collocation_mode_


def logits(clf, sentence):
    """The model's equations for one sentence of known tokens, from the dense matrices."""
    code = [clf.vocabulary_.tolist().index(token) for token in sentence]
    scores = clf.coef_kq_[code, code[-1]]
    weights = np.exp(scores - scores.max())
    return clf.coef_ov_[:, code] @ (weights / weights.sum())
