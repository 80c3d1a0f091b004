"""Losses and scaled gradients of the two stages, as callables ``theta -> Evaluation``.

Symbols: phi attention, p probabilities, f label shares, r = p - f the residual,
g_x = W_ov[:, x]^T r. Shapes: a block holds n contexts of l distinct tokens as arrays (l, n).

Nothing here subtracts what nearly cancels. A context's gradient is stored relative to
exp(log scale), because 1 - p and phi underflow while the direction of their product still decides
where normalized gradient descent goes.
"""

import numpy as np

from sklntp._block import Scratch
from sklntp._coding import unique_keys
from sklntp._distinct_block import DistinctBlock
from sklntp._general_block import GeneralBlock
from sklntp._gradients import label_residuals
from sklntp._solution import Evaluation
from sklntp._sums import ScaledSum, finite, mean_loss, sum_losses
from sklntp._threads import Threads

NOISE = 1e-13  # a gradient below this share of the sum of its terms is rounding error


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
        mean, log_mean = mean_loss(self.probability, loss, log_odds)
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
    threads : Threads, default=None
        None: the caller's only. The result does not depend on them.
    chunk : int, default=786432
        Nonzeros per block: many enough to hide the calls, few enough for the last cache.
    """

    def __init__(self, contexts, labels, output_weights, pairs, *, threads=None, chunk=3 << 18):
        self.n_pairs = len(pairs.key)
        self.threads = Threads(1) if threads is None else threads
        n_classes = output_weights.n_classes
        excess = output_weights.excess(contexts.n_tokens + 1)
        # One distinct token leaves nothing to attend to, and an unknown query has no parameter: the
        # loss of such a context is a constant, and its terms must not count beside the others.
        chosen = attends(contexts)
        distinct, rest = DistinctBlock.split(contexts, labels, chosen, excess, pairs, chunk)
        constant, general = (
            GeneralBlock.split(contexts, labels, rows, pairs, n_classes, excess=excess)
            for rows in (rest[~chosen[rest]], rest[chosen[rest]])
        )
        self.blocks = distinct + general
        self.scratch = [Scratch(distinct) for _ in range(min(self.threads.n, len(self.blocks)))]
        theta = np.zeros(self.n_pairs)
        self.constant = [block.attention_terms(theta).loss for block in constant]

    def __call__(self, theta):
        def terms(block, worker):
            return block.attention_terms(theta, self.scratch[worker])

        total, losses = ScaledSum(self.n_pairs), [*self.constant]
        # Added up in the order of the blocks, whichever thread was first.
        for block, part in zip(self.blocks, self.threads.map(terms, self.blocks), strict=True):
            losses.append(part.loss)
            total.add(block.entries.where, part.gradient, part.log_scale, part.size)
        mean, log_mean = sum_losses(losses)
        return Evaluation(mean, log_mean, total.total, finite(total.log_scale), NOISE * total.size)
