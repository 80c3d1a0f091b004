"""The joint stage: loss and scaled gradient of both matrices at once."""

import numpy as np

from sklntp._general_block import GeneralBlock
from sklntp._losses import NOISE, attends, finite, mean_loss
from sklntp._ngd import Evaluation


class JointLoss:
    """Both matrices at once: mean cross-entropy over contexts, W_ov dense.

    The parameters are W_ov.T raveled, (V * C,), then the entries of W_kq on `pairs`.
    """

    def __init__(self, contexts, labels, n_classes, pairs):
        self.n_pairs = len(pairs.key)
        self.shape = (contexts.n_tokens, n_classes)
        several = attends(contexts)
        constant, attending = (
            GeneralBlock.split(contexts, labels, np.flatnonzero(rows), pairs, n_classes)
            for rows in (~several, several)
        )
        self.n_constant, self.blocks = len(constant), constant + attending
        self.probability = np.concatenate([block.probability for block in self.blocks])

    def __call__(self, theta):
        n_tokens, n_classes = self.shape
        weights = np.append(theta[n_tokens * n_classes :], 0.0)
        table = np.zeros((n_tokens + 1, n_classes))  # the last row: unknown tokens vote for nothing
        table[:-1] = theta[: n_tokens * n_classes].reshape(self.shape)
        output, attention = _ScaledSum(table.shape), _ScaledSum(len(weights))
        losses, log_odds = [], []
        for number, block in enumerate(self.blocks):
            values = np.empty(block.index.shape)
            loss, odds, scale, terms = block.joint_terms(weights, values, table)
            losses.append(loss)
            log_odds.append(odds)
            if terms is not None:
                output.add(*terms)
            top = scale.max()
            if top > -np.inf and number >= self.n_constant:
                values *= np.exp(scale - top)
                size = float(np.abs(values).sum())
                index, values = block.index.ravel(), values.ravel()
                values = np.bincount(index, weights=values, minlength=len(weights))
                attention.add(slice(None), values, size, top)
        log_scale = finite(max(output.log_scale, attention.log_scale))
        gradient = np.concatenate(
            [
                output.total[:-1].ravel() * np.exp(output.log_scale - log_scale),
                attention.total[:-1] * np.exp(attention.log_scale - log_scale),
            ]
        )
        noise = NOISE * sum(
            part.terms * np.exp(part.log_scale - log_scale) for part in (output, attention)
        )
        mean, log_mean = mean_loss(self.probability, losses, log_odds)
        return Evaluation(mean, log_mean, gradient, log_scale, float(noise))


class _ScaledSum:
    """A running sum of arrays given as (array, log scale), and of the sizes of their terms."""

    def __init__(self, shape):
        self.total, self.terms, self.log_scale = np.zeros(shape), 0.0, -np.inf

    def add(self, where, array, terms, log_scale):
        if log_scale > self.log_scale:
            shrink = np.exp(self.log_scale - log_scale)
            self.total *= shrink
            self.terms *= shrink
            self.log_scale = log_scale
        factor = np.exp(log_scale - self.log_scale)
        self.total[where] += factor * array
        self.terms += factor * terms
