"""Blocks of contexts of any kind: several next tokens, or tokens that share one."""

from typing import NamedTuple

import numpy as np

from sklntp._block import Entries, positions, take
from sklntp._gradients import (
    attention_gradient,
    careful_gradient,
    doubtful,
    label_residuals,
)
from sklntp._output import DenseOutput, SparseOutput
from sklntp._sequences import flat_ranges
from sklntp._sums import BlockTerms, finite, mean_loss
from sklntp._votes import Buffers, DenseVotes, SparseVotes, neighbours

_DENSE = 0.2  # share of entries in the columns of W_ov from which a dense table is faster
_TABLE = 1 << 24  # entries of a dense table at most
_CONTEXTS = 2048  # per block: enough to hide the calls
_PROBABILITIES = 1 << 19  # entries (context, class) per block with a dense table
_CAREFUL = 1 << 18  # entries (context, token, class) that are computed with care together


class _Terms(NamedTuple):
    """What a block computes from its scores; the residual is in units of exp(unit)."""

    loss: np.ndarray  # (n,)
    log_odds: np.ndarray  # (n,)
    values: np.ndarray  # (l, n) gradient of the scores, in units of exp(scale)
    scale: np.ndarray  # (n,)
    phi: np.ndarray  # (l, n) attention
    unit: np.ndarray  # (n,)
    tail: np.ndarray  # (n,) probability outside the labels
    share: np.ndarray  # (n,) residual outside the labels as a multiple of `exponentials`
    label_residual: np.ndarray  # (n_labels,)
    exponentials: np.ndarray | None  # (n, C), with a dense table


class GeneralBlock:
    """Contexts of any kind, all of l distinct tokens.

    The logits of the classes outside the labels are left to `SparseVotes` or `DenseVotes`; what is
    said here about contexts costs little beside them. Where the gradient of a context may have
    lost digits, which is rare until training is far ahead, `careful_gradient` does it again.
    """

    def __init__(self, contexts, labels, rows, pairs, output, n_classes, buffers):
        at = positions(contexts, rows)
        self.tokens = contexts.tokens[at]  # (l, n)
        pair = pairs.find(contexts.query[rows], self.tokens)
        self.entries = Entries(pair.ravel(), contexts.counts[at].ravel(), len(pairs.key))
        self.probability = labels.probability[rows]  # (n,) pi_n
        self.log_probability = np.log(self.probability)
        start = labels.offsets[rows]
        self.n_labels = labels.offsets[rows + 1] - start
        label = flat_ranges(start, self.n_labels)
        self.label_row = np.repeat(np.arange(len(rows)), self.n_labels)
        self.label_start = np.cumsum(self.n_labels) - self.n_labels
        self.share = labels.share[label]
        self.label = labels.classes[label]
        self.n_classes, self.output = n_classes, output
        if output is not None:
            self.label_votes = self._label_votes(output)
        if isinstance(output, SparseOutput):
            self.votes = SparseVotes(self.tokens, self.label, self.label_row, output, buffers)
        else:
            self.votes = DenseVotes(self.tokens, self.label, self.label_row, n_classes, buffers)

    @classmethod
    def split(cls, contexts, labels, chosen, pairs, n_classes, *, excess=None):
        """Blocks of the chosen contexts; without `excess`, W_ov is passed at every step."""
        if not len(chosen):
            return []
        lengths = contexts.lengths[chosen]
        tokens = contexts.tokens[flat_ranges(contexts.offsets[chosen], lengths)]
        output, buffers, step = None, Buffers(), max(1, _PROBABILITIES // n_classes)
        size = np.bincount(tokens, minlength=contexts.n_tokens + 1)
        if excess is not None:
            support = np.diff(excess.indptr)
            if support[tokens].mean() >= _DENSE * n_classes and len(size) * n_classes <= _TABLE:
                output = DenseOutput(excess.toarray())
            else:
                output, size, step = SparseOutput(excess), support, _CONTEXTS
        blocks = []
        for length in np.unique(lengths):
            rows = chosen[lengths == length]
            rows = rows[neighbours(contexts.tokens[positions(contexts, rows)], size)]
            blocks += [
                cls(contexts, labels, rows[i : i + step], pairs, output, n_classes, buffers)
                for i in range(0, len(rows), step)
            ]
        return blocks

    def attention_terms(self, theta, scratch=None):
        """As for `DistinctBlock`; the size is exact."""
        return self._sum(self._terms(theta, self.output, self.label_votes))

    def _sum(self, terms):
        log_scale = float(terms.scale.max())
        values = terms.values * np.exp(terms.scale - finite(log_scale))
        loss = mean_loss(self.probability, terms.loss, terms.log_odds)
        size = float(np.abs(values).sum())
        return BlockTerms(loss, self.entries.sum(values.ravel()), log_scale, size)

    def joint_terms(self, theta, reference, output, gradient):
        """As `attention_terms` with W_ov given, and its gradient added to `gradient` (V + 1, C).

        The gradient with respect to W_ov[:, x] is sum_n pi_n phi_x r. It is added divided by
        exp(reference); its log scale, and its size so divided, are returned as well.
        """
        terms = self._terms(theta, output, self._label_votes(output))
        with np.errstate(over="ignore", invalid="ignore"):  # off the reference: done again
            known = self.tokens < len(gradient) - 1
            # What falls to unknown tokens alone trains nothing, and must not set the scale.
            scale = np.where(known.any(axis=0), terms.unit + self.log_probability, -np.inf)
            phi = terms.phi * np.exp(scale - reference)
            size = terms.tail + np.add.reduceat(np.abs(terms.label_residual), self.label_start)
            size = float(np.sum((phi * known).sum(axis=0) * size))
            self.votes.add_outside(phi * terms.share, terms.exponentials, gradient)
            np.add.at(
                gradient,
                (self.tokens[:, self.label_row], self.label),
                phi[:, self.label_row] * terms.label_residual,
            )
        return self._sum(terms), float(scale.max()), size

    def _label_votes(self, output):
        """W_ov at the labels, (l, n_labels)."""
        return output.votes(self.tokens[:, self.label_row], self.label)

    def _terms(self, theta, output, label_votes):
        raised = self.entries.raised(theta[self.entries.where])
        raised = take(raised, self.entries.index).reshape(self.tokens.shape)
        raised -= raised.max(axis=0)
        phi = np.exp(raised)
        phi /= phi.sum(axis=0)
        total, top, g, exponentials = self.votes.outside(phi, output)
        with np.errstate(divide="ignore"):
            log_outside = top + np.log(total)
        loss, log_odds, label_residual, unit, tail = label_residuals(
            (phi[:, self.label_row] * label_votes).sum(axis=0),
            self.label_start,
            self.share,
            log_outside,
        )
        share = tail / np.where(total > 0.0, total, 1.0)
        g *= share
        # Without negative entries of W_ov, g is at this point the sum of its absolute terms.
        size = g + 2.0 * output.deficit[self.tokens] * tail
        votes = label_votes * label_residual
        g += np.add.reduceat(votes, self.label_start, axis=1)
        size += np.add.reduceat(np.abs(votes), self.label_start, axis=1)
        values, scale = attention_gradient(raised, g)
        scale += unit
        again = np.flatnonzero(doubtful(raised, g, size, output.first[self.tokens]))
        step = max(1, _CAREFUL // (len(raised) * self.n_classes))
        for start in range(0, len(again), step):
            rows = again[start : start + step]
            values[:, rows], scale[rows] = self._carefully(raised[:, rows], rows, output)
        scale += self.log_probability
        return _Terms(
            loss, log_odds, values, scale, phi, unit, tail, share, label_residual, exponentials
        )

    def _carefully(self, raised, rows, output):
        sizes = self.n_labels[rows]
        at = flat_ranges(self.label_start[rows], sizes)
        columns, label, n_other = output.columns(self.tokens[:, rows].T, self.label[at])
        start = np.cumsum(sizes) - sizes
        return careful_gradient(raised, columns, label, start, self.share[at], n_other)
