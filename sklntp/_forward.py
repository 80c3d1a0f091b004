"""The model: W_ov, W_kq and contexts -> attention and logits.

    score s_x = W_kq[x, q],  attention phi_x = c_x exp(s_x) / sum_u c_u exp(s_u),
    logits z = sum_x phi_x W_ov[:, x]

Orientation everywhere: W_ov[class, token], W_kq[key token, query token].
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array

from sklntp._contexts import find_sorted

_CHUNK = 1 << 22  # entries of a dense (rows, n_classes) block of logits


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
        at, hit = find_sorted(keys, tokens * self.n_classes + classes)
        found = np.append(self.base, 0.0)[np.minimum(tokens, len(self.base))]
        found[hit] = self.value[at[hit]]
        return found

    def dense(self):
        """W_ov as an array of shape (C, V)."""
        weights = np.repeat(self.base[None, :], self.n_classes, axis=0)
        weights[self.classes, self.token] = self.value
        return weights


@dataclass(frozen=True)
class AttentionWeights:
    """W_kq on the (token, query) pairs that met in training; zero elsewhere."""

    key: np.ndarray  # (n_pairs,) query * V + token, increasing
    value: np.ndarray  # (n_pairs,) W_kq[token, query]
    n_tokens: int  # V

    def find(self, query, tokens):
        """Index of each (query, token) among the pairs; n_pairs where there is none."""
        at, hit = find_sorted(self.key, query.astype(np.int64) * self.n_tokens + tokens)
        # The key of an unknown token is that of another pair.
        hit &= (query < self.n_tokens) & (tokens < self.n_tokens)
        return np.where(hit, at, len(self.key))

    def scores(self, query, tokens):
        """W_kq[token, query], elementwise; an unknown token or query scores 0."""
        return np.append(self.value, 0.0)[self.find(query, tokens)]


def attention(scores, counts, offsets):
    """Softmax of score + log count over each context of a flat layout, none of them empty."""
    if not len(scores):
        return np.empty(0)
    lengths = np.diff(offsets)
    raised = scores + np.log(counts)
    raised -= np.repeat(np.maximum.reduceat(raised, offsets[:-1]), lengths)
    weight = np.exp(raised)
    return weight / np.repeat(np.add.reduceat(weight, offsets[:-1]), lengths)


def logit_blocks(contexts, output_weights, attention_weights):
    """Yield (rows, logits): consecutive contexts and their logits, (n_rows, C).

    Unknown tokens have a zero column in W_ov.
    """
    n_tokens, n_classes = contexts.n_tokens, output_weights.n_classes
    query = np.repeat(contexts.query, contexts.lengths)
    scores = attention_weights.scores(query, contexts.tokens)
    phi = attention(scores, contexts.counts, contexts.offsets)
    phi = csr_array((phi, contexts.tokens, contexts.offsets), shape=(len(contexts), n_tokens + 1))
    base = phi @ np.append(output_weights.base, 0.0)
    excess = output_weights.excess(n_tokens + 1)
    step = max(1, _CHUNK // n_classes)
    if n_classes * (n_tokens + 1) <= _CHUNK:
        excess = excess.toarray()
    for start in range(0, len(contexts), step):
        rows = slice(start, min(start + step, len(contexts)))
        logits = phi[rows] @ excess
        logits = logits if isinstance(logits, np.ndarray) else logits.toarray()
        yield rows, logits + base[rows, None]


def predict_classes(contexts, output_weights, attention_weights):
    """The class with the largest logit for every context; the first one of a tie."""
    predicted = np.empty(len(contexts), dtype=np.intp)
    for rows, logits in logit_blocks(contexts, output_weights, attention_weights):
        predicted[rows] = np.argmax(logits, axis=1)
    return predicted
