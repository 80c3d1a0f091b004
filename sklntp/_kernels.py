"""Blocks of contexts with equally many distinct tokens, and their losses and scaled gradients.

A block holds n contexts of l distinct tokens as arrays of shape (l, n): every maximum, sum and
broadcast over the tokens of a context is then one dense operation along axis 0.

`DistinctBlock` holds the paper's case, each token with one next token, no two of a context with
the same one, and the label produced by exactly one of them. `GeneralBlock` holds everything else.
"""

import numpy as np
from scipy.sparse import csr_array

from sklntp._gradients import attention_gradient, label_residuals, softplus
from sklntp._sequences import flat_ranges

_TABLE = 1 << 20  # entries of a dense W_ov that all general blocks share
_GENERAL = 1 << 18  # entries (context, token, class) per general block
_SAFE_EXPONENT = 600.0  # sums of exp of this stay in the range of float64
_SAFE_WEIGHT = 1e-30  # times exp(-_SAFE_EXPONENT) this is in the range of float64
_LITTLE = 0.01  # attention of the label's token below which its gradient would cancel
_WEAK = 1e-100  # g below this, in units of the residual, is computed again in a unit of its own
_MIN_ROWS = 32  # contexts per general block, however many classes there are


class _Block:
    """What every block has: the weights of its contexts and where their scores are read from."""

    def __init__(self, contexts, labels, rows, pairs, at):
        tokens = contexts.tokens[at]  # (l, n)
        counts = contexts.counts[at]
        self.index = pairs.find(contexts.query[rows], tokens)  # (l, n)
        self.repeated = np.flatnonzero(counts > 1)  # most tokens occur once, at log count 0
        self.log_count = np.log(counts.ravel()[self.repeated])
        self.probability = labels.probability[rows]  # (n,) pi_n
        self.log_probability = np.log(self.probability)

    def _scores(self, weights, out=None):
        """Scores plus log counts, (l, n)."""
        # All indices are valid; "wrap" spares take a second buffer.
        scores = weights.take(self.index, out=out, mode="wrap")
        scores.reshape(-1)[self.repeated] += self.log_count
        return scores


def _positions(contexts, rows, length):
    """Where the tokens of contexts of one length stand in the flat arrays, (l, n)."""
    return contexts.offsets[rows] + np.arange(length)[:, None]


class DistinctBlock(_Block):
    """Contexts whose tokens have one next token each, all different; the label's is in row 0.

    With a_x > 0 the excess of W_ov at n(x), the logits are z_x = phi_x a_x at n(x) and 0 at the
    other C - l classes: a step costs O(nonzeros), whatever the size of the vocabulary.
    """

    def __init__(self, contexts, labels, rows, pairs, value, next_class, n_classes):
        at = _positions(contexts, rows, contexts.lengths[rows[0]])
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
        for length, rows, positions in contexts.blocks():
            row = np.arange(rows.start, rows.stop)
            classes = next_class[contexts.tokens[positions]].reshape(-1, length)
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
        self._scores(weights, out=scores)
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
            raised = self._scores(weights)[:, losing]
            terms, unit = attention_gradient(raised - raised.max(axis=0), g)
            unit += log_residual
            log_scale = max(log_scale, unit.max())
            terms *= np.exp(unit - reference)
            values[:, losing] = terms
            weighted[losing] = np.abs(terms).sum(axis=0)
        # |phi_x (d_x - A)| sums to at most 2 A over the others, and the label's is at most A.
        return loss, log_odds, log_scale, 3.0 * float(weighted.sum())


class GeneralBlock(_Block):
    """Contexts of any kind: logits as attention times dense rows of W_ov.T (the excess).

    Where C x V is small, or W_ov is itself being trained, all blocks share one dense table of
    shape (V + 1, C); otherwise a block builds its own from its tokens and the classes they can
    vote for, the other classes having logit 0, so that memory follows the support.
    """

    def __init__(self, contexts, labels, rows, pairs, excess, table, n_classes):
        at = _positions(contexts, rows, contexts.lengths[rows[0]])
        super().__init__(contexts, labels, rows, pairs, at)
        self.rows, self.local = np.unique(contexts.tokens[at], return_inverse=True)
        self.local = self.local.reshape(at.shape).T  # (n, l) index of the token in `rows`
        self.known = contexts.tokens[at] < contexts.n_tokens  # (l, n) has a column in W_ov
        self.table, self.excess, self.n_other = table, excess, 0
        n_labels = np.diff(labels.offsets)[rows]
        label = flat_ranges(labels.offsets[rows], n_labels)
        self.label_row = np.repeat(np.arange(len(rows)), n_labels)
        self.label_start = np.cumsum(n_labels) - n_labels
        self.share = labels.share[label]
        self.label = labels.classes[label]
        if excess is not None:
            self.excess = excess[self.rows]
            classes = np.union1d(self.excess.indices, self.label)
            self.n_other = n_classes - len(classes)
            self.label = np.searchsorted(classes, self.label)
            self.column = np.searchsorted(classes, self.excess.indices)
            self.shape = (len(self.rows), len(classes))

    @classmethod
    def split(cls, contexts, labels, chosen, pairs, n_classes, *, excess=None):
        """Blocks of the chosen contexts; without `excess`, W_ov is passed at every step."""
        table = None
        if excess is not None and excess.shape[0] * n_classes <= _TABLE:
            table, excess = excess.toarray(), None
        lengths = contexts.lengths[chosen]
        blocks = []
        for length in np.unique(lengths):
            rows = chosen[lengths == length]
            step = max(_MIN_ROWS, _GENERAL // (length * n_classes))
            blocks += [
                cls(contexts, labels, rows[i : i + step], pairs, excess, table, n_classes)
                for i in range(0, len(rows), step)
            ]
        return blocks

    def _table(self):
        """Rows of W_ov.T for the tokens of the block, over all classes or those it can vote for."""
        if self.table is not None:
            return self.table[self.rows]
        table = np.zeros(self.shape)
        row = np.repeat(np.arange(len(self.rows)), np.diff(self.excess.indptr))
        table[row, self.column] = self.excess.data
        return table

    def attention_terms(self, weights, values, scratch, reference, narrow):
        """As for `DistinctBlock`; the size is exact."""
        loss, log_odds, scale, *_ = self._terms(weights, values, self._table())
        values *= np.exp(scale - reference)
        return loss, log_odds, scale.max(), float(np.abs(values).sum())

    def joint_terms(self, weights, values, table):
        """As `attention_terms` with W_ov.T given, and its gradient as arguments of a scaled sum.

        The gradient with respect to W_ov[:, x] is sum_n pi_n phi_x r.
        """
        loss, log_odds, scale, phi, residual, unit = self._terms(weights, values, table[self.rows])
        # What falls to unknown tokens alone trains nothing, and must not set the scale.
        unit = np.where(self.known.any(axis=0), unit + self.log_probability, -np.inf)
        top = unit.max()
        if top == -np.inf:
            return loss, log_odds, scale, None
        factor = np.exp(unit - top)
        residual *= factor[:, None]
        size = float(np.sum((phi * self.known).sum(axis=0) * np.abs(residual).sum(axis=1)))
        n, length = self.local.shape
        offsets = np.arange(n + 1) * length
        phi = csr_array((phi.T.ravel(), self.local.ravel(), offsets), shape=(n, len(self.rows)))
        return loss, log_odds, scale, (self.rows, phi.T @ residual, size, float(top))

    def _terms(self, weights, values, table):
        raised = self._scores(weights)
        raised -= raised.max(axis=0)
        phi = np.exp(raised)
        phi /= phi.sum(axis=0)
        columns = table[self.local]  # (n, l, classes)
        logits = np.matmul(phi.T[:, None, :], columns)[:, 0, :]  # (n, classes)
        label_logits = logits[self.label_row, self.label]
        logits[self.label_row, self.label] = -np.inf
        # Log-sum-exp over the classes outside the labels, those without a vote included.
        top = logits.max(axis=1)
        if self.n_other:
            top = np.maximum(top, 0.0)
        top = np.where(top > -np.inf, top, 0.0)
        logits -= top[:, None]
        residual = np.exp(logits)
        without = self.n_other * np.exp(-top) if self.n_other else np.zeros(len(top))
        total = residual.sum(axis=1) + without
        with np.errstate(divide="ignore"):
            log_total = np.log(total)
        loss, log_odds, label_residual, unit, tail = label_residuals(
            label_logits, self.label_start, self.share, top + log_total
        )
        share = tail / np.where(total > 0.0, total, 1.0)
        residual *= share[:, None]
        without *= share
        residual[self.label_row, self.label] = label_residual
        label_votes = self._relative(columns, np.argmax(raised, axis=0))
        g = np.matmul(columns, residual[:, :, None])[:, :, 0] - label_votes * without[:, None]
        with np.errstate(invalid="ignore"):  # without a class outside the labels: not finite
            log_norm = log_total + softplus(-log_odds) + unit
        g_unit = self._rescue(g, columns, label_votes, logits, top, log_norm)
        values[...], log_scale = attention_gradient(raised, g.T)
        scale = self.log_probability + unit + g_unit + log_scale
        return loss, log_odds, scale, phi, residual, unit

    def _relative(self, columns, winner):
        """Columns minus that of the winner, then minus their entries at the first label, in place.

        Neither changes g_x - g_winner, the residuals summing to zero. Columns that are equal bit
        for bit then give exactly zero, and so do two classes that a token votes for alike, whose
        large residuals would cancel. Returns the entries at the label, (n, l); those of classes
        without a vote are minus these.
        """
        rows = np.arange(len(columns))
        columns -= columns[rows, winner][:, None, :]
        label_votes = columns[rows, :, self.label[self.label_start]].copy()
        columns -= label_votes[:, :, None]
        return label_votes

    def _rescue(self, g, columns, label_votes, logits, top, log_norm):
        """Redo, in units of their own, the g that underflow; returns the log units, (n,).

        This happens where 1 - p is made of classes that make no difference to any token, or where
        the residuals at several labels make none, and the classes that do are far less probable.
        A class outside the labels has log p_v = logits_v - log_norm, in units of the residual.
        """
        unit = np.zeros(len(g))
        weak = (np.abs(g).max(axis=1) < _WEAK) & np.isfinite(log_norm)
        weak[self.label_row[columns[self.label_row, :, self.label].any(axis=1)]] = False
        weak = np.flatnonzero(weak)
        if len(weak):
            votes = columns[weak]
            live = votes.any(axis=1)
            log_p = np.where(live, logits[weak], -np.inf) - log_norm[weak, None]
            log_p_without = np.full(len(weak), -np.inf)
            if self.n_other:
                log_p_without = np.log(self.n_other) - top[weak] - log_norm[weak]
                log_p_without[~label_votes[weak].any(axis=1)] = -np.inf
            best = np.maximum(log_p.max(axis=1), log_p_without)
            best = np.where(best > -np.inf, best, 0.0)
            p, p_without = np.exp(log_p - best[:, None]), np.exp(log_p_without - best)
            g[weak] = np.matmul(votes, p[:, :, None])[:, :, 0]
            g[weak] -= label_votes[weak] * p_without[:, None]
            unit[weak] = best
        return unit
