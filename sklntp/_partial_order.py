"""The order of the tokens under one query, in tokens."""

from dataclasses import dataclass, field

import numpy as np


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


def partial_order(orders, query, vocabulary):
    """The order under one query.

    Parameters
    ----------
    orders : Orders
    query : int
        Its code.
    vocabulary : list
        The tokens of the codes.

    Returns
    -------
    PartialOrder
    """
    start, stop = np.searchsorted(orders.query, [query, query + 1])
    above, below = orders.above[start:stop], orders.below[start:stop]
    tokens = [*vocabulary, None]

    def name(codes):
        return [tokens[code] for code in codes]

    return PartialOrder(
        optimal=name(np.setdiff1d(above, below)),
        non_optimal=name(np.setdiff1d(below, above)),
        confused=name(np.intersect1d(above, below)),
        pairs=list(zip(name(above), name(below), strict=True)),
        _vocabulary=vocabulary,
    )
