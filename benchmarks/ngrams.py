"""N-gram models as scikit-learn classifiers: additive smoothing, Witten-Bell and Kneser-Ney.

A context of k tokens is a node at depth k of a tree: its parent lacks the oldest token. Every
smoothing here mixes the counts at a node with the distribution of its parent,

    p(y | node) = share[node, y] + back_off[node] p(y | parent),   sum_y share + back_off = 1,

down from the uniform distribution above the root; a sentence takes the deepest node that is known.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse import csr_array
from sklearn.base import BaseEstimator, ClassifierMixin

NOTHING, START, UNKNOWN, FIRST = range(4)  # codes; those of the training tokens are FIRST + i


@dataclass(frozen=True)
class Level:
    """The nodes of one depth that occur in training.

    Attributes
    ----------
    keys : ndarray of int64 of shape (n_nodes,)
        parent * n_codes + code of the oldest token, ascending.
    counts : csr_array of shape (n_nodes, n_classes)
        How often each class followed.
    parents : ndarray of shape (n_nodes,)
    starts : ndarray of bool of shape (n_nodes,)
        Whether the context reaches back to the start of its sequence.
    """

    keys: np.ndarray
    counts: csr_array
    parents: np.ndarray
    starts: np.ndarray


def histories(X, depth, codes):
    """The last `depth` tokens of each context, latest first, as codes; shape (n, depth).

    One start code stands before the first token of a sequence and nothing before that: a longer
    context than all there is would be discounted a second time.
    """
    found = np.full((len(X), depth), NOTHING)
    for i, context in enumerate(X):
        latest = [codes.get(token, UNKNOWN) for token in context[: -depth - 1 : -1]]
        found[i, : len(latest) + 1] = [*latest, START][:depth]
    return found


def tree(history, n_codes, label, n_classes):
    """The levels of depth 0, 1, ... as far as there are contexts, with the labels after them."""
    levels = []
    node, rows = np.zeros(len(history), dtype=np.int64), np.arange(len(history))
    keys = np.zeros(1, dtype=np.int64)
    for depth in range(history.shape[1] + 1):
        if depth:
            oldest = history[rows, depth - 1]
            rows, node, oldest = (a[oldest != NOTHING] for a in (rows, node, oldest))
            if len(rows) == 0:
                break
            keys, node = np.unique(node * n_codes + oldest, return_inverse=True)
        entries = np.ones(len(rows)), (node, label[rows])
        counts = csr_array(entries, shape=(len(keys), n_classes))
        counts.sum_duplicates()
        levels.append(Level(keys, counts, keys // n_codes, keys % n_codes == START))
    return levels


def scaled(counts, factor):
    """The counts with each node's row times its factor."""
    data = counts.data * np.repeat(factor, np.diff(counts.indptr))
    return csr_array((data, counts.indices, counts.indptr), shape=counts.shape)


def additive(levels, alpha):
    """(count + alpha) / (total + alpha n_classes) at the deepest level, uniform where unseen."""
    *lower, top = [level.counts for level in levels]
    added = alpha * top.shape[1]
    scale = 1.0 / (top.sum(axis=1) + added)
    ignored = [(csr_array(counts.shape), np.ones(counts.shape[0])) for counts in lower]
    return [*ignored, (scaled(top, scale), added * scale)]


def witten_bell(levels):
    """(count + n_distinct p(y | parent)) / (total + n_distinct), by the distinct next tokens."""
    mixed = []
    for level in levels:
        distinct = np.diff(level.counts.indptr)
        scale = 1.0 / (level.counts.sum(axis=1) + distinct)
        mixed.append((scaled(level.counts, scale), distinct * scale))
    return mixed


def kneser_ney(levels):
    """Modified Kneser-Ney, interpolated: (count - D) / total, the D's given to the parent.

    Below the deepest level a count is that of the distinct tokens before (context, next token),
    except where nothing can be before, at the start of a sequence. D depends on whether the count
    is 1, 2 or more, and is estimated level by level (Chen and Goodman, 1999).
    """
    mixed = []
    for level, longer in zip(levels, [*levels[1:], None], strict=True):
        counts = level.counts if longer is None else continuations(level, longer)
        amounts = np.append(0.0, discounts(counts.data))
        taken = csr_array(
            (amounts[np.minimum(counts.data, 3).astype(int)], counts.indices, counts.indptr),
            shape=counts.shape,
        )
        scale = 1.0 / counts.sum(axis=1)
        mixed.append((scaled(counts - taken, scale), taken.sum(axis=1) * scale))
    return mixed


def continuations(level, longer):
    """Counts of distinct tokens before each (context, next token); those at a start as they are."""
    kinds = csr_array(
        (np.ones(longer.counts.nnz), longer.counts.indices, longer.counts.indptr),
        shape=longer.counts.shape,
    )
    n_nodes, n_longer = len(level.keys), len(longer.keys)
    into_parent = csr_array(
        (np.ones(n_longer), (longer.parents, np.arange(n_longer))), shape=(n_nodes, n_longer)
    )
    counts = into_parent @ kinds + scaled(level.counts, level.starts)
    return csr_array(counts)


def discounts(counts):
    """What to take off counts of 1, 2 and 3 or more, from how many counts are 1, 2, 3 and 4.

    0.5, 1 and 1.5, as KenLM has it, where a number of them is zero or the result out of range.
    """
    n = np.bincount(np.minimum(counts, 5).astype(int), minlength=6)[1:5]
    if n.all():
        y = n[0] / (n[0] + 2 * n[1])
        found = np.array([i - (i + 1) * y * n[i] / n[i - 1] for i in (1, 2, 3)])
        if np.all((found >= 0.0) & (found <= [1, 2, 3])):
            return found
    return np.array([0.5, 1.0, 1.5])


class NGramClassifier(ClassifierMixin, BaseEstimator):
    """Next token from the last order - 1 tokens.

    Parameters
    ----------
    order : int, default=3
        1: class frequencies, 2: first-order Markov, and so on.
    smoothing : {"additive", "witten_bell", "kneser_ney"}, default="kneser_ney"
    alpha : float, default=1.0
        What "additive" adds to every count.
    """

    def __init__(self, order=3, smoothing="kneser_ney", alpha=1.0):
        self.order = order
        self.smoothing = smoothing
        self.alpha = alpha

    def fit(self, X, y):
        """Count and smooth; X is a list or 1-D object array of lists of tokens."""
        tokens = sorted({token for context in X for token in context})
        self.codes_ = {token: code for code, token in enumerate(tokens, start=FIRST)}
        self.classes_, label = np.unique(y, return_inverse=True)
        levels = tree(
            histories(X, self.order - 1, self.codes_),
            FIRST + len(tokens),
            label,
            len(self.classes_),
        )
        if self.smoothing == "additive":
            mixed = additive(levels, self.alpha)
        else:
            mixed = {"witten_bell": witten_bell, "kneser_ney": kneser_ney}[self.smoothing](levels)
        self.levels_ = [(level.keys, *mix) for level, mix in zip(levels, mixed, strict=True)]
        return self

    def predict_proba(self, X):
        """Probabilities of shape (n, n_classes)."""
        history = histories(X, self.order - 1, self.codes_)
        n_codes, n_classes = FIRST + len(self.codes_), len(self.classes_)
        proba = np.full((len(X), n_classes), 1.0 / n_classes)
        rows, node = np.arange(len(X)), np.zeros(len(X), dtype=np.int64)
        for depth, (keys, share, back_off) in enumerate(self.levels_):
            if depth:
                key = node * n_codes + history[rows, depth - 1]
                place = np.minimum(np.searchsorted(keys, key), len(keys) - 1)
                known = keys[place] == key
                rows, node = rows[known], place[known]
            proba[rows] = back_off[node, None] * proba[rows] + share[node].toarray()
        return proba

    def predict(self, X):
        """The most probable class."""
        return self.classes_[self.predict_proba(X).argmax(axis=1)]
