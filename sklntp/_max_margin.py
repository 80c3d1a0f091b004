"""Max-margin references of the two weight matrices, each with its certificate.

Orientation is that of the package: ``W_ov[class, token]``, ``W_kq[key token, query token]``.
Both problems are those of [1]_; a token with several next tokens, and orders with cycles, extend
them.

``W_ov*`` is a closed form (:func:`solve_ov`). ``W_kq*`` splits into one problem per query and
connected component of its order graph (:func:`solve_kq`). There a *node* is a token, or all the
tokens of a cycle (strongly connected component) contracted into one, c its number of tokens::

    primal   min  1/2 Σ_i c_i w_i²                  s.t.  w_a - w_b >= 1   for every pair a above b
    dual     max  Σ_p λ_p - 1/2 Σ_i (Dᵀλ)_i² / c_i  s.t.  λ >= 0
    KKT      c_i w_i = (Dᵀλ)_i,   λ_p (w_a - w_b - 1) = 0

with D the incidence matrix, +1 at the upper and -1 at the lower node of each pair. A node whose
value is fixed at 0 is a node of infinite size: no formula needs a case of its own.

Where every upper node is above every lower one the solution is a closed form; the other components
go to :mod:`sklntp._interior_point`, whose solution is then made exact and certified.

References
----------
.. [1] R. Huang, Y. Liang, J. Yang, "Non-asymptotic Convergence of Training Transformers for
   Next-token Prediction", NeurIPS 2024, arXiv:2409.17335.
"""

from dataclasses import dataclass

import numpy as np
from scipy.sparse.csgraph import connected_components

from sklntp._coding import unique_keys
from sklntp._interior_point import OrderGraph, interior_point
from sklntp._orders import contract, order_entries, pair_graph, without_implied
from sklntp._sequences import flat_ranges

_MARGIN_TOLERANCE = 1e-9
_GAP_TOLERANCE = 1e-13  # relative; the norm of the error of w is at most sqrt(2 · gap · primal)

_WIDTHS = [8, 16, 32, 64]  # components of up to so many nodes are solved in batches
_BATCH = 1 << 22  # entries of the matrices of a batch
_NODES = 1 << 16  # nodes of several components in one sparse matrix
_LARGEST_DENSE = 20_000  # rows of a dense matrix: 3.2 GB


class MaxMarginError(ValueError):
    """The reference could not be certified, or would exceed the time limit."""


@dataclass(frozen=True)
class OVReference:
    """``W_ov*`` as one value per collocation pair and one per token.

    Attributes
    ----------
    label_value : ndarray of shape (n_pairs,)
        Entry of each pair's (next token, token), in the order of the pairs.
    tokens : ndarray of shape (n_tokens,)
        The tokens that have a pair, ascending.
    base_value : ndarray of shape (n_tokens,)
        Entry of every other class in the columns of `tokens`.
    norm : float
        Frobenius norm of the matrix.
    """

    label_value: np.ndarray
    tokens: np.ndarray
    base_value: np.ndarray
    norm: float

    def base(self, n_tokens):
        """The base values of all columns, 0 for tokens without a pair, (n_tokens,)."""
        base = np.zeros(n_tokens)
        base[self.tokens] = self.base_value
        return base


@dataclass(frozen=True)
class KQReference:
    """``W_kq*`` as its entries, with the certificate.

    Attributes
    ----------
    query, token : ndarray of shape (n_entries,)
        Codes of the entries ``W_kq*[token, query]``, sorted by query, then token. Every token
        that stands in a pair has an entry, the fixed token excepted.
    value : ndarray of shape (n_entries,)
        The entries.
    margins : ndarray of shape (n_pairs,)
        ``w_above - w_below`` of each pair, in the order given; 0 inside a cycle.
    margin : float
        The smallest one over the pairs outside contracted cycles; it is 1 within rounding, and
        ``inf`` without such pairs.
    gap : float
        Largest ``|primal - dual| / max(1, primal)`` of a component, 0 without pairs.
    n_components : int
        Number of connected components over all queries; the fixed token connects nothing.
    """

    query: np.ndarray
    token: np.ndarray
    value: np.ndarray
    margins: np.ndarray
    margin: float
    gap: float
    n_components: int


def solve_ov(token, target, n_classes):
    """Minimise ``‖W‖_F`` subject to ``(e_y - e_v)ᵀ W x >= 1`` for y in N(x), v outside N(x).

    By symmetry a column holds one value at the k = |N(x)| next tokens and another at the other
    C - k classes. They differ by 1 and sum to zero: (C - k) / C and -k / C.

    Parameters
    ----------
    token, target : array-like of int of shape (n_pairs,)
        Collocation pairs: `target`, a class in 0..C-1, is a next token of `token`.
    n_classes : int
        C.

    Returns
    -------
    reference : OVReference
        With ``norm² = Σ_x k (C - k) / C``.

    Examples
    --------
    >>> reference = solve_ov([0, 1], [1, 0], 2)
    >>> reference.label_value, reference.base_value, reference.norm
    (array([0.5, 0.5]), array([-0.5, -0.5]), 1.0)
    """
    token, target = np.asarray(token, dtype=np.int64), np.asarray(target, dtype=np.int64)
    tokens, column = np.unique(token, return_inverse=True)
    distinct = unique_keys(column * n_classes + target)
    k = np.bincount(distinct // n_classes, minlength=tokens.size)  # (n_tokens,)
    norm = np.sqrt(np.sum(k * (n_classes - k) / n_classes))
    return OVReference(1 - k[column] / n_classes, tokens, -k / n_classes, float(norm))


def solve_kq(query, above, below, *, fixed=None, time_limit=None):
    """Minimise ``‖W‖_F`` subject to ``(x - x')ᵀ W q >= 1`` for every pair x >_q x'.

    Tokens of a cycle of >_q share one value, and the pairs between them are dropped. The order
    and the repetition of pairs do not change a bit of the result.

    Parameters
    ----------
    query, above, below : array-like of int of shape (n_pairs,)
        The pairs ``above >_query below`` that meet in a sentence, as codes >= 0.
    fixed : int, default=None
        Token whose value is 0 under every query. It may stand only below.
    time_limit : float, default=None
        Largest estimated time in seconds, see `_plan`. None sets no limit.

    Returns
    -------
    reference : KQReference

    Raises
    ------
    MaxMarginError
        If the estimated time exceeds `time_limit`, before anything is solved, or if a component
        misses its certificate (margin >= 1 - 1e-9 and gap <= 1e-13).

    Examples
    --------
    >>> solve_kq([2, 2], [0, 1], [1, 2]).value
    array([ 1.,  0., -1.])
    """
    query, above, below = (np.asarray(codes, dtype=np.int64) for codes in (query, above, below))
    if query.size == 0:
        return KQReference(query, above, np.zeros(0), np.zeros(0), np.inf, 0.0, 0)
    fixed = -1 if fixed is None else fixed  # codes are >= 0
    if np.any(above == fixed):
        raise ValueError(f"the fixed token {fixed} may stand only below, but it is in `above`.")

    base = max(above.max(), below.max()) + 1
    entries, index = order_entries(query, above, below, base)
    entry_query, entry_token = np.divmod(entries, base)
    free = entry_token != fixed
    order, node = _contract(index, free)

    w, lam, solved = _complete_bipartite(order)
    calls, seconds = _plan(order, np.flatnonzero(~solved))
    if time_limit is not None and seconds > time_limit:
        raise MaxMarginError(
            f"the max-margin reference is estimated to take {seconds:.3g} s, more than "
            f"{time_limit:.3g} s; its largest component has {np.bincount(order.group).max()} nodes."
        )
    start = np.searchsorted(order.pair_group, np.arange(order.n_groups + 1))
    for groups, factorization in calls:
        pairs = flat_ranges(start[groups], start[groups + 1] - start[groups])
        _solve(order, pairs, w, lam, factorization)

    margin, gap = _certify(order, w, lam)
    passes = (margin >= 1 - _MARGIN_TOLERANCE) & (gap <= _GAP_TOLERANCE)
    if not np.all(passes):
        group = np.argmin(passes)
        members = entry_query[order.group[node] == group]
        raise MaxMarginError(
            f"the max-margin reference of query {members[0]} could not be certified: in a "
            f"component of {members.size} tokens the smallest margin is {margin[group]:.12g} "
            f"(1 expected) and the relative gap {gap[group]:.3g}."
        )
    value = w[node]
    return KQReference(
        entry_query[free],
        entry_token[free],
        value[free],
        np.subtract(*value[index]),
        float(margin.min()),
        float(gap.max()),
        order.n_groups - int(np.sum(~free)),
    )


def _contract(ends, free):
    """Contract the cycles: the order graph of all queries, and the node of each entry."""
    node, graph = contract(ends, free.size)
    size = np.bincount(node).astype(float)
    size[node[~free]] = np.inf
    # a > b > c leaves a margin of 2 between a and c: the pair a > c, if present, constrains nothing
    upper, lower = without_implied(graph).nonzero()

    connects = np.isfinite(size[lower])
    graph = pair_graph(upper[connects], lower[connects], size.size)
    _, group = connected_components(graph, directed=False)
    rank = np.lexsort((lower, upper, group[upper]))
    return OrderGraph(size, group.astype(np.int64), upper[rank], lower[rank]), node


def _complete_bipartite(order):
    """Solve the groups in which every upper node is above every lower one.

    With sizes a above and b below, w = b / (a + b) above and -a / (a + b) below make every pair
    tight, and λ_ij = c_i c_j / (a + b) fulfils KKT. A fixed node below makes b infinite.
    Returns w (n_nodes,) and λ (n_pairs,), 0 in the other groups, and the mask of those solved
    (n_groups,), among them the ones without pairs.
    """
    ones = np.ones_like(order.size)
    n_complete = _sum_distinct(order, order.upper, ones) * _sum_distinct(order, order.lower, ones)
    # a node both above and below would miss the pair with itself: complete implies two levels
    solved = np.bincount(order.pair_group, minlength=order.n_groups) == n_complete

    pairs = solved[order.pair_group]
    upper, lower, group = order.upper[pairs], order.lower[pairs], order.pair_group[pairs]
    a = _sum_distinct(order, order.upper, order.size)[group]
    total = a + _sum_distinct(order, order.lower, order.size)[group]
    w, lam = np.zeros(order.size.size), np.zeros(pairs.size)
    w[upper], w[lower] = 1 - a / total, -a / total
    size = order.size[lower]
    share = np.divide(size, total, out=np.ones_like(size), where=np.isfinite(size))
    lam[pairs] = order.size[upper] * share
    return w, lam, solved


def _sum_distinct(order, end, weight):
    """Sum `weight` over the distinct nodes among `end`, per group of their pairs."""
    n_nodes = order.size.size
    group, node = np.divmod(unique_keys(order.pair_group * n_nodes + end), n_nodes)
    return np.bincount(group, weight[node], order.n_groups)


def _plan(order, groups):
    """Which groups to solve together and how to factorize them, and how long it may take.

    Measured, per component: in a batch 7 ns · width³ and 7 us per node; as a dense matrix 0.2 ns ·
    m³, m nodes being left where the nodes of one side are eliminated, and 5 us per pair; in a
    sparse matrix 30 us per node and at most 0.2 ns · n k² with k the number of pairs beyond a tree.
    On random orders of 1,000 to 6,000 nodes sparse and dense take the same time at 3 to 4 pairs
    per m.

    Returns
    -------
    calls : list of (groups, factorization)
    seconds : float
    """
    n_nodes = np.bincount(order.group)
    n_pairs = np.bincount(order.pair_group, minlength=order.n_groups)
    one_sided = [
        np.bincount(order.group, np.bincount(ends, minlength=order.size.size) == 0)
        for ends in (order.upper, order.lower)
    ]
    m = n_nodes - np.maximum(*one_sided)
    width = np.append(_WIDTHS, 0.0)[np.searchsorted(_WIDTHS, n_nodes)]  # 0: too large for a batch
    dense = (n_nodes >= 200) & (n_pairs >= 3.5 * m) & (m <= _LARGEST_DENSE)
    beyond = np.minimum(n_pairs - n_nodes + 2.0, n_nodes)
    nanoseconds = np.where(
        width > 0,
        7 * width**3 + 7e3 * n_nodes,
        np.where(dense, 0.2 * m**3 + 5e3 * n_pairs, 0.2 * n_nodes * beyond**2 + 3e4 * n_nodes),
    )
    # Alike ones together, but not too many: they wait for the slowest, and for memory.
    share = np.where(width > 0, width**2 / _BATCH, np.where(dense, 1.0, n_nodes / _NODES))
    calls = []
    for factorization, size in [*(("batched", w) for w in _WIDTHS), ("sparse", 0), ("dense", 0)]:
        chosen = groups[(width[groups] == size) & (dense[groups] == (factorization == "dense"))]
        part = np.ceil(np.cumsum(share[chosen]))
        calls += [
            (some, factorization)
            for some in np.split(chosen, np.flatnonzero(np.diff(part)) + 1)
            if some.size
        ]
    return calls, 1e-9 * float(np.sum(nanoseconds[groups]))


def _solve(order, pairs, w, lam, factorization):
    """Write the solutions of the components of these pairs into w and λ."""
    ends = np.concatenate([order.upper[pairs], order.lower[pairs]])
    nodes, index = np.unique(ends, return_inverse=True)
    part = OrderGraph(order.size[nodes], order.group[nodes], *index.reshape(2, -1))
    solution = interior_point(part, factorization)
    w[nodes], lam[pairs] = _polish(part, *solution), solution[1]


def _polish(order, w, lam, slack):
    """Solve the equality system on the active pairs, those with λ > s, and return its w.

    Active pairs join nodes to blocks in which every difference of w is an integer, and KKT summed
    over a block reads Σ c w = 0: w is an integer level minus the block's mean level (minus the
    level of its fixed node), exact to rounding.
    """
    active = lam > slack
    graph = pair_graph(order.upper[active], order.lower[active], w.size)
    _, block = connected_components(graph, directed=False)
    _, root = np.unique(block, return_index=True)
    level = np.rint(w - w[root][block])

    pinned = np.isinf(order.size)
    weight = np.where(np.isin(block, block[pinned]), pinned, order.size)
    return level - (np.bincount(block, weight * level) / np.bincount(block, weight))[block]


def _certify(order, w, lam):
    """Return the smallest margin and the relative duality gap of each group, for λ >= 0.

    primal - dual = Σ λ_p (w_a - w_b - 1) + 1/2 Σ_i c_i (w_i - (Dᵀλ)_i / c_i)², a sum without
    cancellation.
    """
    margins = order.difference(w)
    margin = np.full(order.n_groups, np.inf)
    np.minimum.at(margin, order.pair_group, margins)
    slackness = np.bincount(order.pair_group, lam * np.abs(margins - 1), order.n_groups)
    residual = w - order.flow(lam) / order.size
    gap = slackness + np.bincount(order.group, order.mass * residual**2) / 2
    primal = np.bincount(order.group, order.mass * w**2) / 2
    return margin, gap / np.maximum(1, primal)
