"""Blocks of contexts of any kind: several next tokens, or tokens that share one."""

import numpy as np
from scipy.sparse import csr_array

from sklntp._block import Block, positions
from sklntp._gradients import attention_gradient, label_residuals, softplus
from sklntp._sequences import flat_ranges

_TABLE = 1 << 20  # entries of a dense W_ov that all general blocks share
_GENERAL = 1 << 18  # entries (context, token, class) per general block
_MIN_ROWS = 32  # contexts per general block, however many classes there are
_WEAK = 1e-100  # g below this, in units of the residual, is computed again in a unit of its own


class GeneralBlock(Block):
    """Contexts of any kind: logits as attention times dense rows of W_ov.T (the excess).

    Where C x V is small, or W_ov is itself being trained, all blocks share one dense table of
    shape (V + 1, C); otherwise a block builds its own from its tokens and the classes they can
    vote for, the other classes having logit 0, so that memory follows the support.
    """

    def __init__(self, contexts, labels, rows, pairs, excess, table, n_classes):
        at = positions(contexts, rows, contexts.lengths[rows[0]])
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
        raised = self.scores(weights)
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
