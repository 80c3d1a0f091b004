"""Sums of losses and gradients that are known by their logarithms where they underflow."""

from typing import NamedTuple

import numpy as np

_SMALL = 1e-290  # a mean loss below this is known by its logarithm only


class BlockTerms(NamedTuple):
    """What the contexts of a block add to the loss and to a gradient."""

    loss: tuple  # of `mean_loss`
    gradient: np.ndarray  # divided by exp(log_scale)
    log_scale: float  # -inf where the gradient is zero
    size: float  # an upper bound of the sum of the absolute terms of the gradient, so divided


def mean_loss(probability, loss, log_odds):
    """The sum of probability * loss and its logarithm.

    Where the sum underflows, every loss is that of a single label and so small that
    log1p(odds) = odds: the logarithm then comes from the log odds. Without them (None) no loss
    underflows.
    """
    mean = float(np.einsum("i,i", probability, loss))
    if mean > _SMALL:
        return mean, float(np.log(mean))
    with np.errstate(divide="ignore"):
        terms = np.log(probability) + (np.log(loss) if log_odds is None else log_odds)
    return mean, float(np.logaddexp.reduce(terms, initial=-np.inf))


def sum_losses(parts):
    """(mean, log of the mean) over all contexts from that of each of their parts, in turn."""
    mean = sum(part for part, _ in parts)
    if mean > _SMALL:
        return mean, float(np.log(mean))
    return mean, float(np.logaddexp.reduce([log for _, log in parts], initial=-np.inf))


def finite(scale):
    """A log scale; 0 in place of -inf, where the whole gradient is zero."""
    return float(scale) if scale > -np.inf else 0.0


class ScaledSum:
    """A running sum of arrays given as (array, log scale), and of the sizes of their terms."""

    def __init__(self, shape):
        self.total, self.size, self.log_scale = np.zeros(shape), 0.0, -np.inf

    def add(self, where, array, log_scale, size):
        """Add an array, which may be changed."""
        if log_scale == -np.inf:
            return
        if log_scale > self.log_scale:
            shrink = np.exp(self.log_scale - log_scale)
            if self.log_scale > -np.inf:
                self.total *= shrink
            self.size *= shrink
            self.log_scale = log_scale
        if log_scale < self.log_scale:
            factor = np.exp(log_scale - self.log_scale)
            array *= factor
            size *= factor
        self.total[where] += array
        self.size += size
