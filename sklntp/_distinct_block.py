"""Blocks of the paper's case: each token has one next token, no two of a context the same one."""

import numpy as np

from sklntp._block import Block, positions
from sklntp._gradients import attention_gradient, softplus

_SAFE_EXPONENT = 600.0  # sums of exp of this stay in the range of float64
_SAFE_WEIGHT = 1e-30  # times exp(-_SAFE_EXPONENT) this is in the range of float64
_LITTLE = 0.01  # attention of the label's token below which its gradient would cancel


class DistinctBlock(Block):
    """Contexts whose tokens have one next token each, all different; the label's is in row 0.

    With a_x > 0 the excess of W_ov at n(x), the logits are z_x = phi_x a_x at n(x) and 0 at the
    other C - l classes: a step costs O(nonzeros), whatever the size of the vocabulary.
    """

    def __init__(self, contexts, labels, rows, pairs, value, next_class, n_classes):
        at = positions(contexts, rows, contexts.lengths[rows[0]])
        other = next_class[contexts.tokens[at]] != labels.classes[labels.offsets[rows]]
        at = np.take_along_axis(at, np.argsort(other, axis=0, kind="stable"), axis=0)
        super().__init__(contexts, labels, rows, pairs, at)
        self.label_excess = value[contexts.tokens[at[0]]]  # (n,) a_0
        excess = value[contexts.tokens[at[1:]]]  # (l - 1, n) a_x of the others
        # Trained on single tokens all are equal by symmetry: one number spares memory traffic.
        uniform = (excess == excess[0, 0]).all()
        self.common, self.excess = (excess[0, 0], None) if uniform else (1.0, excess)
        # Whether 1 - p, times the weight of the context, may underflow.
        self.large = max(excess.max(), self.label_excess.max()) > _SAFE_EXPONENT
        self.large |= self.probability.min() < _SAFE_WEIGHT
        self.n_other = n_classes - len(at)

    @classmethod
    def split(cls, contexts, labels, chosen, excess, pairs, chunk):
        """The blocks of the contexts of this kind among the `chosen` (a mask), and the others."""
        n_entries = np.diff(excess.indptr)
        entry = np.minimum(excess.indptr[:-1], max(excess.nnz - 1, 0))
        value = excess.data[entry] if excess.nnz else np.zeros(len(entry))
        single = (n_entries == 1) & (value > 0)
        next_class = np.where(single, excess.indices[entry] if excess.nnz else -1, -1)
        one_label = np.diff(labels.offsets) == 1
        blocks, rest = [], []
        for length, rows, flat in contexts.blocks():
            row = np.arange(rows.start, rows.stop)
            classes = next_class[contexts.tokens[flat]].reshape(-1, length)
            produced = classes == labels.classes[labels.offsets[row]][:, None]
            ordered = np.sort(classes, axis=1)
            fits = one_label[rows] & (ordered[:, 0] >= 0) & produced.any(axis=1)
            fits &= (ordered[:, 1:] != ordered[:, :-1]).all(axis=1) & chosen[rows]
            rest.append(row[~fits])
            row = row[fits]
            step = max(1, chunk // length)
            blocks += [
                cls(contexts, labels, row[i : i + step], pairs, value, next_class, excess.shape[1])
                for i in range(0, len(row), step)
            ]
        return blocks, np.concatenate(rest)

    def attention_terms(self, weights, values, scratch, reference, narrow):
        """Losses and log odds (n,), the largest log scale, and the size of the terms written.

        `values` (l, n) gets the gradient terms divided by exp(reference); the size is an upper
        bound of the sum of their absolute values. With `narrow` scores, and excess that exp can
        take, nothing underflows: then logarithms are spared, and the log odds are None.

        Relative to the label's token 0, d_x = g_x - g_0 > 0 for every other token, and the
        gradient is phi_x (d_x - A), A = sum_x phi_x d_x, and -phi_0 A for the label. Where the
        label has little attention this cancels, and `attention_gradient` does it.
        """
        scores, odds = (buffer[: self.index.size].reshape(self.index.shape) for buffer in scratch)
        self.scores(weights, out=scores)
        other, odds = scores[1:], odds[1:]
        # Attention relative to the label's is exp(other - top) in units of exp(gap).
        top = scores[0] if narrow else other.max(axis=0)
        gap = 0.0 if narrow else top - scores[0]
        other -= top
        np.exp(other, out=other)
        other_sum = other.sum(axis=0)
        if narrow:
            label_attention = attention_unit = 1.0 / (1.0 + other_sum)
        else:
            # Beyond exp(600) the label's attention is zero in every sum that it enters.
            ratio = np.exp(np.minimum(gap, _SAFE_EXPONENT))
            label_attention = 1.0 / (1.0 + other_sum * ratio)
            attention_unit = ratio * label_attention  # phi_x = other_x * attention_unit

        np.multiply(other, attention_unit * self.common, out=odds)
        if self.excess is not None:
            odds *= self.excess
        largest = 0.0  # odds now holds the logits z_x
        if self.large:
            largest = odds.max(axis=0)
            odds -= largest
        np.exp(odds, out=odds)
        total = odds.sum(axis=0) + self.n_other * np.exp(-largest)
        if self.excess is not None:
            odds *= self.excess
        scale_g = self.common / total  # odds * scale_g is g_x in units of 1 - p, g_0 -label_excess

        losing = np.flatnonzero(label_attention < _LITTLE)
        if len(losing):
            g = np.concatenate(
                [-self.label_excess[None, losing], odds[:, losing] * scale_g[losing]]
            )

        logit_gap = largest - label_attention * self.label_excess
        if narrow and not self.large:
            odds_ratio = total * np.exp(logit_gap)  # (1 - p) / p
            loss, log_odds = np.log1p(odds_ratio), None
            residual = self.probability * (odds_ratio / (1.0 + odds_ratio))  # pi (1 - p)
            factor = residual * np.exp(-reference)
            log_scale = np.log(residual.max())
            log_residual = np.log(residual[losing])
        else:
            log_odds = np.log(total) + logit_gap
            loss = softplus(log_odds)
            log_residual = self.log_probability + (log_odds - loss)
            scale = log_residual + gap
            scale[losing] = -np.inf
            log_scale = scale.max()
            factor = np.exp(scale - reference)
            log_residual = log_residual[losing]

        # values = phi_x (d_x - A) with d_x = odds * scale_g + label_excess.
        factor *= label_attention
        odds *= other
        weighted = odds.sum(axis=0) * scale_g + self.label_excess * other_sum
        weighted *= factor
        odds *= scale_g * factor
        other *= self.label_excess * factor - weighted * attention_unit
        np.add(odds, other, out=values[1:])
        np.multiply(label_attention, -weighted, out=values[0])
        if len(losing):
            raised = self.scores(weights)[:, losing]
            terms, unit = attention_gradient(raised - raised.max(axis=0), g)
            unit += log_residual
            log_scale = max(log_scale, unit.max())
            terms *= np.exp(unit - reference)
            values[:, losing] = terms
            weighted[losing] = np.abs(terms).sum(axis=0)
        # |phi_x (d_x - A)| sums to at most 2 A over the others, and the label's is at most A.
        return loss, log_odds, log_scale, 3.0 * float(weighted.sum())
