"""Blocks of the paper's case: each token has one next token, no two of a context the same one."""

import numpy as np

from sklntp._block import Entries, positions, take
from sklntp._gradients import attention_gradient, softplus
from sklntp._sums import BlockTerms, finite, mean_loss

_SAFE_EXPONENT = 600.0  # sums of exp of this stay in the range of float64
_SAFE_WEIGHT = 1e-30  # times exp(-_SAFE_EXPONENT) this is in the range of float64
_NARROW = 100.0  # scores of at most this size need no log scale of their own
_TINY = -256.0  # log scale below which small terms might underflow
_NONE = np.empty(0, dtype=np.intp)
_SMALL_BLOCK = 1 << 16  # nonzeros: of smaller blocks the calls cost more than the arithmetic
_LITTLE = 0.01  # attention of the label's token below which its gradient would cancel


class DistinctBlock:
    """Contexts whose tokens have one next token each, all different, one of them the label.

    With a_x > 0 the excess of W_ov at n(x), the logits are z_x = phi_x a_x at n(x) and 0 at the
    other C - l classes: a step costs O(nonzeros), whatever the size of the vocabulary.

    The tokens that produce the labels come first, (n,); then, for each length l in turn, the other
    tokens of its contexts as an array of shape (l - 1, n_l): every sum over the tokens of a context
    is then a dense operation along axis 0, and all others are operations on flat arrays.
    """

    def __init__(self, contexts, labels, rows, pairs, value, next_class, n_classes):
        lengths = contexts.offsets[rows + 1] - contexts.offsets[rows]
        order = np.argsort(lengths, kind="stable")
        rows = rows[order]
        lengths, starts = np.unique(lengths[order], return_index=True)
        label = labels.classes[labels.offsets[rows]]
        first, others, query = [], [], [contexts.query[rows]]
        self.segments, position = [], len(rows)
        for length, start, stop in zip(lengths, starts, [*starts[1:], len(rows)], strict=True):
            columns = slice(start, stop)
            at = positions(contexts, rows[columns])  # (l, n_l)
            other = next_class[contexts.tokens[at]] != label[columns]
            at = np.take_along_axis(at, np.argsort(other, axis=0, kind="stable"), axis=0)
            first.append(at[0])
            others.append(at[1:].ravel())
            query.append(np.tile(contexts.query[rows[columns]], length - 1))
            flat = slice(position, position + len(others[-1]))
            self.segments.append((columns, flat, (length - 1, -1), float(n_classes - length)))
            position = flat.stop
        at = np.concatenate(first + others)
        pair = pairs.find(np.concatenate(query), contexts.tokens[at])
        self.entries = Entries(pair, contexts.counts[at], len(pairs.key))
        self.n_tokens = len(at)
        self.n = len(rows)
        self.probability = labels.probability[rows]  # (n,) pi_n
        self.log_probability = np.log(self.probability)
        excess = value[contexts.tokens[at]]
        label_excess, others = np.split(excess, [self.n])
        # Trained on single tokens all are equal by symmetry: one number spares memory traffic.
        uniform = (others == others[0]).all()
        self.common, self.excess = (others[0], None) if uniform else (1.0, excess)
        uniform = (label_excess == label_excess[0]).all()
        self.label_excess = label_excess[:1] if uniform else label_excess
        self.relative = self.label_excess / self.common
        self.alike = uniform and label_excess[0] == self.common
        self.weight = self.probability / self.common
        # Whether 1 - p, times the weight of the context, may underflow.
        self.large = excess.max() > _SAFE_EXPONENT
        self.large |= self.probability.min() < _SAFE_WEIGHT

    @classmethod
    def split(cls, contexts, labels, chosen, excess, pairs, chunk):
        """The blocks of the contexts of this kind among the `chosen` (a mask), and the others."""
        n_entries = np.diff(excess.indptr)
        entry = np.minimum(excess.indptr[:-1], max(excess.nnz - 1, 0))
        value = excess.data[entry] if excess.nnz else np.zeros(len(entry))
        single = (n_entries == 1) & (value > 0)
        next_class = np.where(single, excess.indices[entry] if excess.nnz else -1, -1)
        fits = chosen & (np.diff(labels.offsets) == 1)
        for length, rows, flat in contexts.blocks():
            classes = next_class[contexts.tokens[flat]].reshape(-1, length)
            produced = classes == labels.classes[labels.offsets[:-1][rows]][:, None]
            ordered = np.sort(classes, axis=1)
            fits[rows] &= (ordered[:, 0] >= 0) & produced.any(axis=1)
            fits[rows] &= (ordered[:, 1:] != ordered[:, :-1]).all(axis=1)
        rows = np.flatnonzero(fits)
        # By query: a block then reads and adds to few parameters, next to each other.
        rows = rows[np.argsort(contexts.query[rows], kind="stable")]
        stop = np.cumsum(contexts.lengths[rows])
        total = int(stop[-1]) if len(rows) else 0
        # A few blocks at least, for as many threads, and all of about one size.
        n_blocks = -(-total // min(chunk, max(-(-total // 4), _SMALL_BLOCK)))
        block = (stop - 1) * n_blocks // max(total, 1)
        parts = np.split(rows, np.flatnonzero(np.diff(block)) + 1) if total else []
        n_classes = excess.shape[1]
        blocks = [
            cls(contexts, labels, part, pairs, value, next_class, n_classes) for part in parts
        ]
        return blocks, np.flatnonzero(~fits)

    def attention_terms(self, theta, scratch):
        """The loss and its gradient, as `BlockTerms`, from the entries of W_kq on all pairs.

        Relative to the label's token 0, d_x = g_x - g_0 > 0 for every other token, and the
        gradient is phi_x (d_x - A), A = sum_x phi_x d_x, and -phi_0 A for the label. Where the
        label has little attention this cancels, and `attention_gradient` does it.
        """
        theta = theta[self.entries.where]
        size = max(theta.max(initial=0.0), -theta.min(initial=0.0))
        terms = self._wide_terms if self.large or size > _NARROW else self._narrow_terms
        return terms(theta, scratch)

    def _narrow_terms(self, theta, scratch):
        """Where nothing underflows: no logarithms, and `mass` enters after the sum by pair."""
        # In place and in few passes: most of a step is memory traffic, not arithmetic.
        mass = self.entries.mass(theta)
        own, odds = scratch.tokens(self.n_tokens)
        loss, residual, unit, inverse, mean_g, mean_d, label, rest = scratch.contexts(self.n)
        first = own[: self.n]
        take(mass, self.entries.index[: self.n], out=first)
        for columns, flat, shape, _ in self.segments:
            take(mass, self.entries.index[flat], out=own[flat])
            np.add.reduce(own[flat].reshape(shape), axis=0, out=rest[columns])
        np.add(first, rest, out=unit)
        np.divide(self.common, unit, out=unit)  # phi_x is own_x * unit / common
        np.multiply(first, unit, out=label)
        few = _LITTLE * self.common
        losing = np.flatnonzero(label < few) if label.min() < few else _NONE

        for columns, flat, shape, n_other in self.segments:
            other, g = own[flat].reshape(shape), odds[flat].reshape(shape)
            np.multiply(other, unit[columns], out=g)
            if self.excess is not None:
                odds[flat] *= self.excess[flat]
            np.exp(g, out=g)  # of the logits z_x
            np.add.reduce(g, axis=0, out=inverse[columns], initial=n_other)
            if self.excess is not None:
                odds[flat] *= self.excess[flat]
            np.einsum("ij,ij->j", g, other, out=mean_g[columns])

        if not self.alike:
            label *= self.relative  # the label's logit
        np.exp(label, out=loss)
        np.divide(inverse, loss, out=loss)  # (1 - p) / p
        np.add(loss, 1.0, out=residual)
        np.divide(loss, residual, out=residual)
        residual *= self.weight  # pi (1 - p) / common
        np.log1p(loss, out=loss)
        log_scale = float(np.log(residual.max()))
        log_residual = np.log(residual[losing] * self.common)
        if log_scale < _TINY:
            residual *= np.exp(-log_scale)
        else:
            log_scale = 0.0

        np.reciprocal(inverse, out=inverse)  # g_x = common * odds * inverse in units of 1 - p
        mean_g *= inverse
        mean_g *= unit  # sum of phi_x g_x over the others
        np.multiply(rest, unit, out=mean_d)
        if not self.alike:
            mean_d *= self.relative
        mean_d += mean_g  # A
        parts = []
        if len(losing):
            parts = self._losing_terms(np.log(mass), losing, odds, inverse, log_residual)
            mean_d[losing] = 0.0
        # |phi_x (d_x - A)| sums to at most 2 A over the others, and the label's is at most A.
        size = 3.0 * float(self.common * np.einsum("i,i", residual, mean_d))

        # own_x unit / common (g_x + a_0 phi_0 - mean_g) for the others, and -own_0 unit / common A
        # for the label; own enters after the sum over all contexts.
        residual *= unit
        np.multiply(mean_d, residual, out=odds[: self.n])
        np.negative(odds[: self.n], out=odds[: self.n])
        label -= mean_g
        label *= residual
        inverse *= residual
        inverse *= self.common
        for columns, flat, shape, _ in self.segments:
            values = odds[flat].reshape(shape)
            values *= inverse[columns]
            values += label[columns]
        for at, terms, log_unit in parts:
            terms *= np.exp(log_unit - log_scale)
            size += float(np.abs(terms).sum())
            odds[at] = terms / own[at]
        gradient = self.entries.sum(odds, mass)
        return BlockTerms(mean_loss(self.probability, loss, None), gradient, log_scale, size)

    def _wide_terms(self, theta, scratch):
        """Wherever scores and excess lie: attention and 1 - p in units of their own."""
        raised = self.entries.raised(theta)
        own, odds = scratch.tokens(self.n_tokens)
        gap, rest, largest, total, mean_d, unit, label, work = scratch.contexts(self.n)
        take(raised, self.entries.index[: self.n], out=work)
        # Attention relative to the label's is exp(other - top) in units of exp(gap).
        for columns, flat, shape, _ in self.segments:
            other, top = own[flat].reshape(shape), gap[columns]
            take(raised, self.entries.index[flat], out=own[flat])
            np.maximum.reduce(other, axis=0, out=top)
            other -= top
            np.exp(other, out=other)
            np.add.reduce(other, axis=0, out=rest[columns])
        gap -= work
        # Beyond exp(600) the label's attention is zero in every sum that it enters.
        np.exp(np.minimum(gap, _SAFE_EXPONENT, out=unit), out=unit)
        np.divide(1.0, 1.0 + rest * unit, out=label)  # phi_0
        losing = np.flatnonzero(label < _LITTLE)

        unit *= label  # phi_x = other_x * unit
        np.multiply(unit, self.common, out=work)
        largest[:] = 0.0
        for columns, flat, shape, n_other in self.segments:
            other, g = own[flat].reshape(shape), odds[flat].reshape(shape)
            np.multiply(other, work[columns], out=g)
            if self.excess is not None:
                odds[flat] *= self.excess[flat]
            if self.large:
                g -= np.maximum.reduce(g, axis=0, out=largest[columns])
            np.exp(g, out=g)  # of the logits z_x
            np.add.reduce(g, axis=0, out=total[columns])
            total[columns] += n_other * np.exp(-largest[columns])
            if self.excess is not None:
                odds[flat] *= self.excess[flat]
        inverse = 1.0 / total  # g_x = common * odds * inverse in units of 1 - p

        log_odds = np.log(total) + (largest - label * self.label_excess)
        loss = softplus(log_odds)
        log_residual = self.log_probability + (log_odds - loss)
        scale = log_residual + gap
        scale[losing] = -np.inf
        parts = self._losing_terms(raised, losing, odds, inverse, log_residual[losing])
        log_scale = finite(max([scale.max()] + [log_unit.max() for *_, log_unit in parts]))
        factor = np.exp(scale - log_scale)

        # phi_x (d_x - A) with d_x = g_x + a_0, and -phi_0 A for the label.
        factor *= label
        inverse *= self.common
        np.multiply(inverse, factor, out=work)
        for columns, flat, shape, _ in self.segments:
            other, terms = own[flat].reshape(shape), odds[flat].reshape(shape)
            terms *= other
            np.add.reduce(terms, axis=0, out=mean_d[columns])
            terms *= work[columns]
        mean_d *= inverse
        mean_d += self.label_excess * rest
        mean_d *= factor
        mean_d[losing] = 0.0
        factor *= self.label_excess
        factor -= mean_d * unit
        for columns, flat, shape, _ in self.segments:
            other, terms = own[flat].reshape(shape), odds[flat].reshape(shape)
            other *= factor[columns]
            terms += other
        np.multiply(label, -mean_d, out=odds[: self.n])
        size = 3.0 * float(mean_d.sum())
        for at, terms, log_unit in parts:
            terms *= np.exp(log_unit - log_scale)
            size += float(np.abs(terms).sum())
            odds[at] = terms
        loss = mean_loss(self.probability, loss, log_odds)
        return BlockTerms(loss, self.entries.sum(odds), log_scale, size)

    def _losing_terms(self, raised, losing, odds, inverse, log_residual):
        """Terms of contexts whose label has little attention: where they go, and log units."""
        parts = []
        for columns, flat, shape, _ in self.segments:
            mine = slice(*np.searchsorted(losing, [columns.start, columns.stop]))
            row = losing[mine]
            if len(row):
                others = np.arange(flat.start, flat.stop).reshape(shape)[:, row - columns.start]
                label_g = np.broadcast_to(-self.label_excess, self.n)[None, row]
                g = np.concatenate([label_g, odds[others] * (self.common * inverse[row])])
                at = np.concatenate([row[None], others])  # (l, k)
                scores = raised[self.entries.index[at]]
                terms, log_unit = attention_gradient(scores - scores.max(axis=0), g)
                parts.append((at, terms, log_unit + log_residual[mine]))
        return parts
