"""The query-dependent partial order >_q, read off the contexts and the collocation.

In a context with query q and next token y, x >_q x' for every pair of its tokens with y in N(x)
and y not in N(x'). Only these pairs are kept: the max-margin reference needs those that meet in a
sentence, and a token has something above (below) it in the transitive closure exactly if it has
in a pair.
"""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components

from sklntp._coding import find_sorted, unique_keys

_MOST_PATHS = 5e7  # of two pairs, to follow
_CHUNK = 1 << 22  # entries of one (length, length, n) comparison, to bound memory
_MOST_KEYS = 1 << 23  # pairs to collect before repeated ones are dropped


@dataclass(frozen=True)
class Orders:
    """The distinct pairs above >_query below, sorted by query, above, below.

    One number holds a pair: there may be more of them than tokens in the sentences.
    """

    key: np.ndarray  # (n_pairs,) int64, (query * (V + 1) + above) * (V + 1) + below, increasing
    n_tokens: int  # V

    @cached_property
    def query(self):
        """The query of each pair, (n_pairs,)."""
        return self.key // (self.n_tokens + 1) ** 2

    @cached_property
    def above(self):
        """The token above of each pair, (n_pairs,)."""
        return self.key // (self.n_tokens + 1) % (self.n_tokens + 1)

    @cached_property
    def below(self):
        """The token below of each pair, (n_pairs,); V stands for an unknown token."""
        return self.key % (self.n_tokens + 1)


def build_orders(contexts, labels, collocation, n_classes):
    """All pairs of >_q that meet in a context with a known query.

    Parameters
    ----------
    contexts : Contexts
    labels : Labels
    collocation : Collocation
    n_classes : int

    Returns
    -------
    Orders
    """
    base = contexts.n_tokens + 1
    keys, n_keys, limit = [np.empty(0, dtype=np.int64)], 0, _MOST_KEYS
    label_context = labels.context
    for length, rows, positions in contexts.blocks():
        if length == 1:
            continue
        tokens = contexts.tokens[positions].reshape(-1, length)
        chosen = slice(labels.offsets[rows.start], labels.offsets[rows.stop])
        context, label = label_context[chosen], labels.classes[chosen]
        known = contexts.query[context] < contexts.n_tokens
        context, label = context[known], label[known]
        step = max(1, _CHUNK // length**2)
        for start in range(0, len(context), step):
            part = context[start : start + step]
            x = tokens[part - rows.start]  # (n, length)
            can = collocation.contains(x, label[start : start + step, None], n_classes)
            n, i, j = np.nonzero(can[:, :, None] & ~can[:, None, :])
            query = contexts.query[part[n]].astype(np.int64)
            keys.append((query * base + x[n, i]) * base + x[n, j])
            n_keys += len(query)
            if n_keys > limit:
                keys = [unique_keys(np.concatenate(keys))]
                n_keys = len(keys[0])
                limit = max(_MOST_KEYS, 2 * n_keys)
    return Orders(unique_keys(np.concatenate(keys)), contexts.n_tokens)


def has_above(contexts, orders):
    """For every token of every context, whether another token of the context is above it.

    Above it means directly, in some sentence, or as members of one cycle. A longer path could only
    matter between two tokens that both produce the next one.

    Parameters
    ----------
    contexts : Contexts
    orders : Orders

    Returns
    -------
    ndarray of bool of shape (n_nonzeros,)
    """
    base = contexts.n_tokens + 1
    found = np.zeros(len(contexts.tokens), dtype=bool)
    members = [(query * base + tokens) for query, tokens in cycles(orders, contexts.n_tokens)]
    number = np.repeat(np.arange(len(members)), [len(m) for m in members])
    members = np.concatenate([*members, np.empty(0, dtype=np.int64)])
    order = np.argsort(members)
    members, number = members[order], number[order]
    for length, rows, positions in contexts.blocks():
        tokens = contexts.tokens[positions].reshape(-1, length)
        above = found[positions].reshape(-1, length)  # a view
        step = max(1, _CHUNK // length**2)
        for start in range(0, len(tokens), step):
            x = tokens[start : start + step]
            query = contexts.query[rows][start : start + step, None, None].astype(np.int64)
            wanted = (query * base + x[:, :, None]) * base + x[:, None, :]
            above[start : start + step] = find_sorted(orders.key, wanted)[1].any(axis=1)
            at, cyclic = find_sorted(members, query[:, :, 0] * base + x)
            cycle = np.where(cyclic, np.append(number, -1)[at], -1)
            same = (cycle[:, :, None] == cycle[:, None, :]).sum(axis=1) > 1
            above[start : start + step] |= same & cyclic
    return found


def cycles(orders, n_tokens):
    """Strongly connected components of more than one token, one list of tokens per cycle.

    Parameters
    ----------
    orders : Orders
    n_tokens : int

    Returns
    -------
    list of (query, ndarray of tokens)
    """
    base = n_tokens + 1
    keys, ends = order_entries(orders.query, orders.above, orders.below, base)
    node, _ = contract(ends, len(keys))
    found = []
    for c in np.flatnonzero(np.bincount(node) > 1):
        query, tokens = np.divmod(keys[node == c], base)
        found.append((int(query[0]), tokens))
    return found


def order_entries(query, above, below, base):
    """The (query, token) that stand in pairs.

    Returns
    -------
    keys : ndarray of shape (n_entries,)
        query * base + token, increasing.
    ends : ndarray of shape (2, n_pairs)
        The entries above and below of each pair.
    """
    ends = np.concatenate([query * base + above, query * base + below])
    keys, ends = np.unique(ends, return_inverse=True)
    return keys, ends.reshape(2, -1)


def pair_graph(upper, lower, n_nodes):
    """Adjacency of the pairs, csr_array of bool; a pair may stand there repeatedly."""
    return csr_array((np.ones(len(upper), dtype=bool), (upper, lower)), shape=(n_nodes, n_nodes))


def contract(ends, n_entries):
    """Contract the cycles (strongly connected components) of the order of some entries.

    Returns
    -------
    node : ndarray of shape (n_entries,)
        The node of each entry: its cycle, or itself.
    graph : csr_array of bool of shape (n_nodes, n_nodes)
        The pairs between nodes, acyclic.
    """
    n_nodes, node = connected_components(pair_graph(*ends, n_entries), connection="strong")
    upper, lower = node[ends]
    across = upper != lower
    return node, pair_graph(upper[across], lower[across], n_nodes)


def without_implied(graph):
    """An acyclic graph less the pairs a > c for which some b has a > b > c; not a guarantee.

    Finding them costs one operation per path of two pairs. Where these are many it is not done,
    in an order through a single token for example, where nothing is implied.

    Parameters
    ----------
    graph : csr_array of bool of shape (n_nodes, n_nodes)

    Returns
    -------
    csr_array
    """
    n_above = np.bincount(graph.indices, minlength=graph.shape[0]).astype(float)
    if n_above @ np.diff(graph.indptr) > _MOST_PATHS:
        return graph
    return graph > graph @ graph
