"""Losses and scaled gradients of the two stages, as callables ``theta -> Evaluation``.

Symbols: phi attention, p probabilities, f label shares, r = p - f the residual,
g_x = W_ov[:, x]^T r. Shapes: a block holds n contexts of l distinct tokens as arrays (l, n).

Nothing here subtracts what nearly cancels. A context's gradient is stored relative to
exp(log scale), because 1 - p and phi underflow while the direction of their product still decides
where normalized gradient descent goes.
"""

import numpy as np

from sklntp._contexts import unique_keys
from sklntp._distinct_block import DistinctBlock
from sklntp._general_block import GeneralBlock
from sklntp._gradients import label_residuals
from sklntp._ngd import Evaluation

NOISE = 1e-13  # a gradient below this share of the sum of its terms is rounding error
_NARROW = 100.0  # scores this close to each other need no log scale of their own
_CELL = 256.0  # log scales are rounded up to a multiple of this


def mean_loss(probability, losses, log_odds):
    """Weighted mean of the losses and its logarithm, from one array per block.

    Where the mean underflows, every loss is that of a single label and so small that
    log1p(odds) = odds: the logarithm then comes from the log odds. A block without them (None)
    has no loss that underflows.
    """
    mean = float(np.sum(probability * np.concatenate(losses)))
    if mean > 1e-290:
        return mean, float(np.log(mean))
    with np.errstate(divide="ignore"):
        terms = [
            np.log(loss) if odds is None else odds
            for loss, odds in zip(losses, log_odds, strict=True)
        ]
        terms = np.log(probability) + np.concatenate(terms)
    top = terms.max(initial=-np.inf)
    if top == -np.inf:  # a single class: the loss is exactly zero
        return mean, -np.inf
    return mean, float(top + np.log(np.sum(np.exp(terms - top))))


def finite(scale):
    """A log scale; 0 in place of -inf, where the whole gradient is zero."""
    return float(scale) if scale > -np.inf else 0.0


def _concatenate(arrays, dtype=float):
    """np.concatenate that takes no arrays at all."""
    return np.concatenate(arrays) if arrays else np.empty(0, dtype)


class CollocationLoss:
    """Stage 1: cross-entropy of softmax(W_ov[:, x]) against f_x, weighted mean over tokens x.

    The parameters are the entries of the support, then one base value per token of the support:
    started from columns that sum to zero, all other classes of a token stay alike.

    Parameters
    ----------
    collocation : Collocation
        The pairs with their shares; pairs of share 0 are allowed (a support from earlier data),
        and so are tokens of probability 0.
    n_classes : int
    """

    def __init__(self, collocation, n_classes):
        sizes = np.diff(collocation.offsets)
        self.n_pairs = len(collocation.classes)
        self.row = np.repeat(np.arange(len(sizes)), sizes)  # (n_pairs,) row: index of the token
        self.n_other = (n_classes - sizes).astype(float)  # (n_rows,)
        self.multiplicity = np.concatenate([np.ones(self.n_pairs), self.n_other])
        active = collocation.probability > 0
        self.active = np.flatnonzero(active)
        self.probability = collocation.probability[active]
        self.label = np.flatnonzero(collocation.share > 0)
        self.share = collocation.share[self.label]
        label_row = (np.cumsum(active) - 1)[self.row[self.label]]
        self.label_start = np.flatnonzero(np.diff(label_row, prepend=-1))
        self.label_row = label_row
        self.outside = np.flatnonzero((collocation.share == 0) & active[self.row])

    def __call__(self, theta):
        value, base = theta[: self.n_pairs], theta[self.n_pairs :]
        excess = value - base[self.row]
        log_outside = self._log_outside(excess)
        with np.errstate(divide="ignore"):
            log_probability = np.log(self.probability)
        loss, log_odds, residual, unit, tail = label_residuals(
            excess[self.label], self.label_start, self.share, log_outside[self.active]
        )
        scale = log_probability + unit
        log_scale = finite(scale.max())
        factor = np.exp(scale - log_scale)
        gradient = np.zeros_like(theta)
        gradient[self.label] = residual * factor[self.label_row]
        # A class outside the labels has p_v = exp(excess_v - log_outside) * (tail probability).
        spread = np.zeros(len(base))
        spread[self.active] = tail * factor
        with np.errstate(over="ignore", invalid="ignore"):
            rest = self.row[self.outside]
            gradient[self.outside] = np.exp(excess[self.outside] - log_outside[rest]) * spread[rest]
            gradient[self.n_pairs :] = np.where(
                self.n_other > 0, np.exp(-log_outside) * spread, 0.0
            )
        mean, log_mean = mean_loss(self.probability, [loss], [log_odds])
        return Evaluation(mean, log_mean, gradient, log_scale, 0.0)

    def _log_outside(self, excess):
        """Log-sum-exp of the excess of all classes that are no label, (n_rows,)."""
        if not len(self.outside):
            with np.errstate(divide="ignore"):
                return np.log(self.n_other)
        row, excess = self.row[self.outside], excess[self.outside]
        top = np.where(self.n_other > 0, 0.0, -np.inf)
        np.maximum.at(top, row, excess)
        finite = np.where(np.isfinite(top), top, 0.0)
        total = self.n_other * np.exp(-finite)
        np.add.at(total, row, np.exp(excess - finite[row]))
        with np.errstate(divide="ignore"):
            return finite + np.log(total)


def context_pairs(contexts):
    """The keys query * V + token, increasing, of all known pairs that meet in a context."""
    query = np.repeat(contexts.query, contexts.lengths).astype(np.int64)
    trained = np.repeat(attends(contexts), contexts.lengths)
    trained &= contexts.tokens < contexts.n_tokens
    return unique_keys(query[trained] * contexts.n_tokens + contexts.tokens[trained])


def attends(contexts):
    """Contexts of two or more distinct tokens with a known query, (n_contexts,) bool."""
    return (contexts.lengths > 1) & (contexts.query < contexts.n_tokens)


class AttentionLoss:
    """Stage 2: mean cross-entropy over contexts as a function of W_kq, with W_ov fixed.

    The parameters are the entries of W_kq on `pairs`.

    Parameters
    ----------
    contexts : Contexts
    labels : Labels
    output_weights : OutputWeights
    pairs : AttentionWeights
        The (token, query) pairs that are trained; every known pair that meets in a context of two
        or more distinct tokens must be among them.
    chunk : int, default=131072
        Nonzeros per block: few enough for the caches, many enough to hide the calls.
    """

    def __init__(self, contexts, labels, output_weights, pairs, *, chunk=1 << 17):
        self.n_pairs = len(pairs.key)
        n_classes = output_weights.n_classes
        excess = output_weights.excess(contexts.n_tokens + 1)
        # One distinct token leaves nothing to attend to, and an unknown query has no parameter: the
        # loss of such a context is a constant, and its terms must not count beside the others.
        chosen = attends(contexts)
        self.blocks, rest = DistinctBlock.split(contexts, labels, chosen, excess, pairs, chunk)
        constant, general = (
            GeneralBlock.split(contexts, labels, rows, pairs, n_classes, excess=excess)
            for rows in (rest[~chosen[rest]], rest[chosen[rest]])
        )
        self.blocks += general
        sizes = [block.index.size for block in self.blocks]
        self.starts = np.concatenate([[0], np.cumsum(sizes)]).astype(np.intp)
        self.index = _concatenate([block.index.ravel() for block in self.blocks], np.intp)
        for block, start, stop in zip(self.blocks, self.starts[:-1], self.starts[1:], strict=True):
            block.index = self.index[start:stop].reshape(block.index.shape)  # one copy, not two
        self.values = np.empty(len(self.index))
        self.scratch = np.empty((2, max(sizes, default=0)))  # stays in the cache, block to block
        self.probability = _concatenate([b.probability for b in constant + self.blocks])
        self.constant_loss, self.constant_log_odds = [], []
        self.all_trained = not (self.index == self.n_pairs).any()
        weights = np.zeros(self.n_pairs + 1)
        for block in constant:
            empty = np.empty(block.index.shape)
            loss, log_odds, *_ = block.attention_terms(weights, empty, None, 0.0, True)
            self.constant_loss.append(loss)
            self.constant_log_odds.append(log_odds)
        self.reference = 0.0

    def __call__(self, theta):
        # Index n_pairs stands for tokens that have no parameter, and score 0.
        weights = theta if self.all_trained else np.append(theta, 0.0)
        losses, log_odds, log_scale, size = self._terms(weights)
        # The terms are stored relative to exp(reference), a multiple of 256 so that it rarely
        # changes and follows from theta alone: one pass over the terms serves both.
        reference = _CELL * np.ceil(log_scale / _CELL)
        if reference != self.reference:
            self.reference = reference
            losses, log_odds, log_scale, size = self._terms(weights)
        gradient = np.bincount(self.index, weights=self.values, minlength=self.n_pairs + 1)
        mean, log_mean = mean_loss(self.probability, losses, log_odds)
        return Evaluation(mean, log_mean, gradient[:-1], self.reference, NOISE * size)

    def _terms(self, weights):
        """Losses, log odds, the largest log scale and the size of the terms of all blocks."""
        losses, log_odds = [*self.constant_loss], [*self.constant_log_odds]
        log_scale, total = -np.inf, 0.0
        low, high = weights.min(initial=0.0), weights.max(initial=0.0)
        narrow = high - low < _NARROW
        with np.errstate(over="ignore", invalid="ignore"):  # off the reference: done again
            for block, start, stop in zip(
                self.blocks, self.starts[:-1], self.starts[1:], strict=True
            ):
                values = self.values[start:stop].reshape(block.index.shape)
                loss, odds, scale, size = block.attention_terms(
                    weights, values, self.scratch, self.reference, narrow
                )
                losses.append(loss)
                log_odds.append(odds)
                log_scale = max(log_scale, scale)
                total += size
        return losses, log_odds, finite(log_scale), total
