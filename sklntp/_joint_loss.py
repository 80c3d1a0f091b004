"""The joint stage: loss and scaled gradient of both matrices at once."""

import numpy as np

from sklntp._general_block import GeneralBlock
from sklntp._losses import NOISE, attends
from sklntp._output import DenseOutput
from sklntp._solution import Evaluation
from sklntp._sums import ScaledSum, finite, sum_losses
from sklntp._threads import Threads

_CELL = 256.0  # log scales are rounded up to a multiple of this
_CHAINS = 4  # parts of the contexts with a gradient of W_ov of their own
_SUMS = 1 << 25  # entries of these gradients together, if there are several
_ROWS = 1 << 16  # entries of W_ov added up together


class JointLoss:
    """Both matrices at once: mean cross-entropy over contexts, W_ov dense.

    The parameters are W_ov.T raveled, (V * C,), then the entries of W_kq on `pairs`.

    Parameters
    ----------
    contexts : Contexts
    labels : Labels
    n_classes : int
    pairs : AttentionWeights
        The (token, query) pairs that are trained; every known pair that meets in a context of two
        or more distinct tokens must be among them.
    threads : Threads, default=None
        None: one thread.
    """

    def __init__(self, contexts, labels, n_classes, pairs, *, threads=None):
        self.threads = Threads(1) if threads is None else threads
        self.n_pairs = len(pairs.key)
        self.shape = (contexts.n_tokens + 1, n_classes)  # the last row: unknown tokens
        several = attends(contexts)
        attending, constant = (
            GeneralBlock.split(contexts, labels, np.flatnonzero(rows), pairs, n_classes)
            for rows in (several, ~several)
        )
        self.blocks, self.n_attending = attending + constant, len(attending)
        stops = np.cumsum([len(block.entries.index) for block in self.blocks])
        # Each chain of blocks adds up a gradient of its own: the sums are the same for any number
        # of threads.
        n_chains = np.clip(_SUMS // (self.shape[0] * n_classes), 1, _CHAINS)
        chain = (stops - 1) * n_chains // stops[-1]
        self.chains = [np.flatnonzero(chain == i) for i in range(n_chains)]
        self.sums = np.empty((n_chains, *self.shape))
        self.table = np.zeros(self.shape)
        self.reference = 0.0

    def __call__(self, theta):
        n_tokens, n_classes = self.shape[0] - 1, self.shape[1]
        n_output = n_tokens * n_classes
        # Adding zero turns -0.0 into 0.0: columns that are equal are then so to the bit.
        np.add(theta[:n_output].reshape(n_tokens, n_classes), 0.0, out=self.table[:-1])
        output = DenseOutput(self.table)
        parts, scale, size = self._terms(theta[n_output:], output)
        # The terms of W_ov are stored relative to a scale that was right at the step before, a
        # multiple of 256 so that it rarely changes and follows from theta alone.
        reference = _CELL * np.ceil(finite(scale) / _CELL)
        if reference != self.reference:
            self.reference = reference
            parts, scale, size = self._terms(theta[n_output:], output)
        attention = ScaledSum(self.n_pairs)
        for block, part in zip(self.blocks[: self.n_attending], parts, strict=False):
            attention.add(block.entries.where, part.gradient, part.log_scale, part.size)
        # What is exactly zero has no scale, and must not set it.
        reference = reference if scale > -np.inf else -np.inf
        log_scale = finite(max(reference, attention.log_scale))
        factors = np.exp([reference - log_scale, attention.log_scale - log_scale])
        gradient = np.empty(len(theta))
        by_token = gradient[:n_output].reshape(n_tokens, n_classes)

        def add_up(rows, worker):
            np.copyto(by_token[rows], self.sums[0, rows])
            for part in self.sums[1:]:
                by_token[rows] += part[rows]
            by_token[rows] *= factors[0]

        step = max(1, _ROWS // n_classes)
        self.threads.map(
            add_up, [slice(i, min(i + step, n_tokens)) for i in range(0, n_tokens, step)]
        )
        np.multiply(attention.total, factors[1], out=gradient[n_output:])
        noise = NOISE * float(factors @ [size, attention.size])
        mean, log_mean = sum_losses([part.loss for part in parts])
        return Evaluation(mean, log_mean, gradient, log_scale, noise)

    def _terms(self, theta, output):
        """What each block adds, and of the gradient of W_ov, left in `sums`, log scale and size."""

        def run(number, worker):
            self.sums[number].fill(0.0)
            return [
                self.blocks[i].joint_terms(theta, self.reference, output, self.sums[number])
                for i in self.chains[number]
            ]

        chains = self.threads.map(run, range(len(self.chains)))
        parts, scales, sizes = zip(*(terms for chain in chains for terms in chain), strict=True)
        return parts, max(scales), sum(sizes)
