"""What the data say by themselves: partial orders, realizability, max-margin references."""

import numpy as np

from sklntp._dataset import build_dataset
from sklntp._partial_order import PartialOrder, partial_order
from sklntp._realizability import Checks, Condition, RealizabilityReport
from sklntp._references import MaxMarginKQ, MaxMarginOV, max_margin_kq, max_margin_ov

__all__ = [
    "Condition",
    "MaxMarginKQ",
    "MaxMarginOV",
    "PartialOrder",
    "RealizabilityReport",
    "check_realizable",
    "max_margin_kq",
    "max_margin_ov",
    "partial_orders",
]


def partial_orders(X, y, *, collocation="auto", vocabulary=None, sample_weight=None):
    """The query-dependent partial orders of the data.

    In a sentence with last token (query) q and next token y, x >_q x' for every pair of its
    tokens with y in N(x) and y not in N(x'), N(x) being the next tokens of x in the collocation.

    Parameters
    ----------
    X : array-like of sequences
        Sentences, see `NTPTransformerClassifier.fit`.
    y : array-like of shape (n_sentences,)
        Their next tokens.
    collocation : {"auto", "single", "last", "context"}, default="auto"
        Which samples say what follows a token, see `NTPTransformerClassifier`.
    vocabulary : sequence of distinct tokens, default=None
        Tokens to keep, the others are unknown; None: the sorted tokens of X.
    sample_weight : array-like of shape (n_sentences,), default=None
        Sentences of weight zero are left out.

    Returns
    -------
    orders : dict
        query -> `PartialOrder`, for every query that occurs.

    References
    ----------
    Huang, Liang, Yang, NeurIPS 2024, arXiv:2409.17335, section 3.

    Examples
    --------
    >>> from sklntp.structure import partial_orders
    >>> X = [["a"], ["b"], ["c"], ["a", "b"]]
    >>> orders = partial_orders(X, ["b", "c", "a", "b"])
    >>> orders["b"].pairs, orders["b"].optimal, orders["b"].non_comparable
    ([('a', 'b')], ['a'], ['c'])
    """
    data = build_dataset(X, y, sample_weight, collocation=collocation, vocabulary=vocabulary)
    known = data.contexts.query[data.contexts.query < len(data.vocabulary)]
    return {
        data.vocabulary[q]: partial_order(data.orders, q, data.vocabulary) for q in np.unique(known)
    }


def check_realizable(X, y, *, collocation="auto", vocabulary=None, sample_weight=None):
    """Check the assumptions of the paper, one by one, with witnesses.

    Parameters
    ----------
    X : array-like of sequences
        Sentences, see `NTPTransformerClassifier.fit`.
    y : array-like of shape (n_sentences,)
        Their next tokens.
    collocation : {"auto", "single", "last", "context"}, default="auto"
        Which samples say what follows a token, see `NTPTransformerClassifier`.
    vocabulary : sequence of distinct tokens, default=None
        Tokens to keep, the others are unknown; None: the sorted tokens of X.
    sample_weight : array-like of shape (n_sentences,), default=None
        Sentences of weight zero are left out.

    Returns
    -------
    report : RealizabilityReport
        One `Condition` per assumption, with the indices in X of the sentences that break it;
        ``print`` it.

    References
    ----------
    Huang, Liang, Yang, NeurIPS 2024, arXiv:2409.17335, Assumptions 1 and 3.

    Examples
    --------
    >>> from sklntp.structure import check_realizable
    >>> X = [["a"], ["b"], ["c"], ["a", "b"], ["a", "b"]]
    >>> report = check_realizable(X, ["b", "c", "a", "b", "c"])
    >>> report.realizable
    False
    >>> report.orders_acyclic.reason
    "under query 'b' a cycle of 'a', 'b'"
    """
    data = build_dataset(X, y, sample_weight, collocation=collocation, vocabulary=vocabulary)
    return Checks(data).report()
