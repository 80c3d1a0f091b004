"""What the data say by themselves: partial orders, realizability, max-margin references."""

from dataclasses import dataclass, field

import numpy as np

from sklntp._dataset import build_dataset
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


@dataclass(frozen=True, eq=False)
class PartialOrder:
    """The order of the tokens under one query; None stands for tokens outside the vocabulary.

    Attributes
    ----------
    optimal : list
        Tokens with nothing above and something below.
    non_optimal : list
        Tokens with something above and nothing below.
    confused : list
        Tokens with both.
    non_comparable : list
        Tokens of the vocabulary with neither.
    pairs : list of tuple
        (above, below) for every two tokens that meet in a sentence; the order itself is the
        transitive closure.
    """

    optimal: list
    non_optimal: list
    confused: list
    pairs: list
    _vocabulary: list = field(repr=False)

    @property
    def non_comparable(self):
        """Tokens of the vocabulary with nothing above and nothing below."""
        compared = {*self.optimal, *self.non_optimal, *self.confused}
        return [token for token in self._vocabulary if token not in compared]


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
    orders, tokens = data.orders, [*data.vocabulary, None]
    found = {}
    for q in np.unique(data.contexts.query[data.contexts.query < len(data.vocabulary)]):
        start, stop = np.searchsorted(orders.query, [q, q + 1])
        above, below = orders.above[start:stop], orders.below[start:stop]

        def name(codes):
            return [tokens[code] for code in codes]

        found[tokens[q]] = PartialOrder(
            optimal=name(np.setdiff1d(above, below)),
            non_optimal=name(np.setdiff1d(below, above)),
            confused=name(np.intersect1d(above, below)),
            pairs=list(zip(name(above), name(below), strict=True)),
            _vocabulary=data.vocabulary,
        )
    return found


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
