"""The closed form of stage 1: W_ov as logarithms of smoothed counts, with back-off along suffixes.

Interpolated modified Kneser-Ney smoothing [1]_. For a token x with counts c(x, v) of next tokens v
and back-off x' (an n-gram's is its suffix, any other token's is the root)::

    p(v | x) = max(c(x, v) - D, 0) / c(x) + lambda(x) p(v | x')
    W_ov[v, x] = log p(v | x) - mean_u log p(u | x)

so that columns sum to zero, as those of descent from zero do. lambda(x) makes the probabilities sum
to 1. D is D_1, D_2 or D_3 for counts up to 1, up to 2, and above: D_1 = 1 - 2 Y n_2 / n_1,
D_2 = 2 - 3 Y n_3 / n_2, D_3 = 3 - 4 Y n_4 / n_3, Y = n_1 / (n_1 + 2 n_2), where of the counts of
all tokens of the order of x n_i are i; 0.5, 1 and 1.5 where an n_i is zero or a D_i not within 0.05
and i. Tokens that n-grams back off to count each n-gram with a next token once (continuation
counts), and so does the root, p(v | root) = (n(v) + 1) / (sum_u n(u) + C), with n(v) the number of
distinct queries followed by v.

With all attention on the longest n-gram of a context, the last token tagged x@0, and no other token
beside them, the model is the Kneser-Ney n-gram itself.

References
----------
.. [1] S. F. Chen, J. Goodman, "An empirical study of smoothing techniques for language modeling",
   Computer Speech & Language 13 (1999).
"""

import numpy as np
from scipy.sparse import csr_array

from sklntp._contexts import sum_by_key
from sklntp._forward import dense_output
from sklntp._memory import check_memory
from sklntp._ngrams import order, suffixes

_COPIES = 8  # arrays of the size of W_ov that a fit holds at its peak, measured
_INSTEAD = "Fewer tokens take less: n-grams of min_count=2, a smaller max_n or max_distance."


def smoothed_output(data):
    """W_ov of the closed form, on all tokens of the vocabulary and all classes.

    Parameters
    ----------
    data : Dataset

    Returns
    -------
    OutputWeights
    """
    n_tokens, n_classes = len(data.vocabulary), len(data.classes)
    check_memory(
        f"Smoothing holds {_COPIES} arrays like W_ov; one array of all of them,",
        (_COPIES * n_tokens, n_classes),
        _INSTEAD,
    )
    pairs = data.collocation
    counts = csr_array(
        (pairs.weight, (pairs.pair_token, pairs.classes)), shape=(n_tokens, n_classes)
    )
    level = np.array([order(token) for token in data.vocabulary])
    parent = _parents(data.vocabulary)
    counts = _continuations(counts, parent)
    table = np.empty((n_tokens, n_classes))
    root = _root(data, n_classes)
    for n in np.unique(level):
        rows = np.flatnonzero(level == n)
        back = np.where((parent[rows] < 0)[:, None], root, table[parent[rows]])
        table[rows] = _interpolate(counts[rows], back)
    np.log(table, out=table)
    table -= table.mean(axis=1, keepdims=True)
    return dense_output(table)


def _parents(vocabulary):
    """The index of the token that each one backs off to; -1: the root."""
    index = {token: i for i, token in enumerate(vocabulary)}
    parent = np.full(len(vocabulary), -1)
    for i, token in enumerate(vocabulary):
        while parent[i] < 0 and (candidates := suffixes(token)):
            parent[i] = next((index[c] for c in candidates if c in index), -1)
            token = candidates[-1]
    return parent


def _continuations(counts, parent):
    """Counts in which tokens that others back off to count each of these once.

    What no n-gram of the vocabulary covers keeps its count: these are the contexts that begin
    there, and n-grams that are too rare to be tokens.
    """
    child = np.flatnonzero(parent >= 0)
    where = (parent[child], child)
    gather = csr_array((np.ones(len(child)), where), shape=(len(parent), len(parent)))
    uncovered = csr_array(counts - gather @ counts)
    # An n-gram that is the query may stand where the collocation does not see what it backs off to.
    uncovered.data = np.maximum(uncovered.data, 0.0)
    once = counts.copy()
    once.data = np.minimum(counts.data, 1.0)
    counts = csr_array(uncovered + gather @ once)
    counts.eliminate_zeros()
    return counts


def _root(data, n_classes):
    """Probabilities of next tokens by the number of distinct queries before them, (C,)."""
    query = data.contexts.query[data.labels.context].astype(np.int64)
    key, weight = sum_by_key(query * n_classes + data.labels.classes, data.labels.weight)
    n = np.bincount(key % n_classes, weights=np.minimum(weight, 1.0), minlength=n_classes) + 1.0
    return n / n.sum()


def _interpolate(counts, back):
    """p(v | x) for rows of counts of one order, and of the back-off, (n_rows, C)."""
    # Counts may be sums of fractions, and of any size.
    size = np.ceil(np.clip(counts.data - 1e-9, 0.5, 5.0)).astype(int)
    discount = np.append(0.0, _discounts(np.bincount(size, minlength=5)[1:5]))
    discount = np.minimum(discount[np.minimum(size, 3)], counts.data)
    row = np.repeat(np.arange(len(back)), np.diff(counts.indptr))
    total = np.bincount(row, weights=counts.data, minlength=len(back))
    seen = total > 0
    freed = np.bincount(row, weights=discount, minlength=len(back))
    share = np.divide(freed, total, out=np.ones(len(back)), where=seen)
    p = back * share[:, None]
    p[row, counts.indices] += (counts.data - discount) / total[row]
    return p


def _discounts(n):
    """D_1, D_2, D_3 from how many counts are 1, 2, 3 and 4; usual ones where these say nothing."""
    if n.all():
        y = n[0] / (n[0] + 2 * n[1])
        found = np.array([i - (i + 1) * y * n[i] / n[i - 1] for i in (1, 2, 3)])
        if np.all((found >= 0.05) & (found <= [1.0, 2.0, 3.0])):
            return found
    return np.array([0.5, 1.0, 1.5])
