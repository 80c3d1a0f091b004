"""The model: W_ov, W_kq and contexts -> attention.

    score s_x = W_kq[x, q],  attention phi_x = c_x exp(s_x) / sum_u c_u exp(s_u),
    logits z = sum_x phi_x W_ov[:, x]

Orientation everywhere: W_ov[class, token], W_kq[key token, query token].
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from sklntp._coding import find_sorted


@dataclass(frozen=True)
class OutputWeights:
    """W_ov as one base value per column plus the entries that differ from it."""

    offsets: np.ndarray  # (V + 1,) the entries of token x are offsets[x]:offsets[x + 1]
    classes: np.ndarray  # (n_entries,) increasing within a token
    value: np.ndarray  # (n_entries,) W_ov[class, token]
    base: np.ndarray  # (V,) W_ov[v, token] for every class v without an entry
    n_classes: int

    @property
    def token(self):
        """The token of each entry, (n_entries,)."""
        return np.repeat(np.arange(len(self.base)), np.diff(self.offsets))

    def excess(self, n_rows=None):
        """W_ov.T minus the base values, csr of shape (n_rows, C); rows from V on are empty."""
        n_rows = len(self.base) if n_rows is None else n_rows
        offsets = np.append(self.offsets, np.full(n_rows - len(self.base), self.offsets[-1]))
        data = self.value - self.base[self.token]
        return csr_array((data, self.classes, offsets), shape=(n_rows, self.n_classes))

    def lookup(self, classes, tokens):
        """W_ov[class, token], elementwise; the column of an unknown token is zero."""
        keys = self.token * self.n_classes + self.classes
        at, hit = find_sorted(keys, tokens.astype(np.int64) * self.n_classes + classes)
        found = np.append(self.base, 0.0)[np.minimum(tokens, len(self.base))]
        found[hit] = self.value[at[hit]]
        return found

    def dense(self):
        """W_ov as an array of shape (C, V)."""
        weights = np.repeat(self.base[None, :], self.n_classes, axis=0)
        weights[self.classes, self.token] = self.value
        return weights


def dense_output(table):
    """OutputWeights with an entry for every class, from W_ov.T of shape (V, C)."""
    n_tokens, n_classes = table.shape
    return OutputWeights(
        offsets=np.arange(n_tokens + 1) * n_classes,
        classes=np.tile(np.arange(n_classes), n_tokens),
        value=table.ravel(),
        base=np.zeros(n_tokens),
        n_classes=n_classes,
    )


@dataclass(frozen=True)
class AttentionWeights:
    """W_kq on the (token, query) pairs that met in training; elsewhere the base of the token."""

    key: np.ndarray  # (n_pairs,) query * V + token, increasing
    value: np.ndarray  # (n_pairs,) W_kq[token, query]
    base: np.ndarray  # (V,) W_kq[token, q] for every known query q without an entry

    @property
    def n_tokens(self):
        """V."""
        return len(self.base)

    def find(self, query, tokens):
        """Index of each (query, token) among the pairs; n_pairs where there is none."""
        at, hit = find_sorted(self.key, query.astype(np.int64) * self.n_tokens + tokens)
        # The key of an unknown token is that of another pair.
        hit &= (query < self.n_tokens) & (tokens < self.n_tokens)
        return np.where(hit, at, len(self.key))

    def scores(self, query, tokens):
        """W_kq[token, query], elementwise; an unknown token or query scores 0."""
        at = self.find(query, tokens)
        scores = np.append(self.base, 0.0)[np.minimum(tokens, self.n_tokens)]
        scores[query >= self.n_tokens] = 0.0
        hit = at < len(self.key)
        scores[hit] = self.value[at[hit]]
        return scores


def attention(scores, counts, offsets):
    """Softmax of score + log count over each context of a flat layout, none of them empty."""
    if not len(scores):
        return np.empty(0)
    lengths = np.diff(offsets)
    raised = scores + np.log(counts)
    raised -= np.repeat(np.maximum.reduceat(raised, offsets[:-1]), lengths)
    weight = np.exp(raised)
    return weight / np.repeat(np.add.reduceat(weight, offsets[:-1]), lengths)


def context_attention(contexts, attention_weights):
    """phi of every context, csr_array of shape (n_contexts, V + 1); column V: unknown tokens."""
    query = np.repeat(contexts.query, contexts.lengths)
    scores = attention_weights.scores(query, contexts.tokens)
    phi = attention(scores, contexts.counts, contexts.offsets)
    shape = (len(contexts), contexts.n_tokens + 1)
    return csr_array((phi, contexts.tokens, contexts.offsets), shape=shape)


def position_attention(codes, offsets, attention_weights):
    """Attention of every position; the c positions of a token share its phi."""
    query = np.repeat(codes[offsets[1:] - 1], np.diff(offsets))
    return attention(attention_weights.scores(query, codes), np.ones(len(codes)), offsets)
