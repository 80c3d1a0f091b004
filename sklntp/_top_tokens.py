"""The tokens of a sentence that may get all attention in the limit, as the orders say for certain.

Trained for ever, the attention of a sentence goes to its tokens with the largest W_kq*[x, q]
("top tokens"), W_kq* being the max-margin reference under the orders >_q of the training data: with
one w per token x of an order, c the size of a cycle contracted into one token (all its members
share a value), D the incidence matrix of the pairs,

    min 1/2 sum_x c_x w_x^2   s.t.  w_x - w_u >= 1 for x above u;
    KKT:  c_x w_x = (D^T lam)_x,   lam >= 0,   lam = 0 where w_x - w_u > 1.

Without solving it, these comparisons are certain:

1. w_x - w_u >= 1 where a path of pairs leads down from x to u, and w_x = w_u inside a cycle.
2. w_x = 0 of a token in no pair, of an unknown one, and of a cycle with nothing above or below it.
   w_x >= 0 with nothing above x (c w is a sum of its lam), w_x <= 0 with nothing below it.
3. w_b > -1 of a token b with nothing below it whose uppers all have nothing above them: if one of
   its pairs (a, b) has lam > 0, it is tight, and 1 + w_b = w_a > 0; if none has, w_b = 0. Hence
   w_x > 0 of whatever is above such a b, or above an unknown token. Likewise w_a < 1 of a token a
   with nothing above it whose lowers are all known and have nothing below them, and w_x < 0 of
   whatever is below such an a.

In an order of two levels without unknown tokens, the paper's case, 3 holds for all: optimal tokens
are above non-comparable ones, and these above non-optimal ones. Confused tokens take that away
from tokens they meet: in x > c > b with another a > b, w = (1, 0, -1) and w_a = 0. So do unknown
tokens in the training data: with a > unknown and a > b, w_a = 1 and w_b = 0.
"""

import numpy as np

from sklntp._coding import find_sorted, unique_keys
from sklntp._orders import contract, order_entries, without_implied

ROLES = ["optimal", "confused", "non-comparable", "unknown", "non-optimal"]
OPTIMAL, CONFUSED, NON_COMPARABLE, UNKNOWN, NON_OPTIMAL = range(5)
RANK = np.array([1, 0, 0, 0, -1])  # by role; confused tokens have none

_CHUNK = 1 << 22  # entries of one (n, length, length) comparison, to bound memory
_ROWS = 1 << 12  # nodes whose paths are followed at once, likewise


class CertainOrder:
    """The comparisons of W_kq* that hold for certain, see the module's docstring.

    Entries are the (query, token) in a pair, and one more that stands for all others, whose w is 0.
    Nodes are the cycles, and the entries outside of them.
    """

    def __init__(self, orders):
        n_tokens = orders.n_tokens
        self.base = n_tokens + 1
        self.keys, ends = order_entries(orders.query, orders.above, orders.below, self.base)
        size = len(self.keys) + 1
        has_below, has_above = (np.isin(np.arange(size), end) for end in ends)
        self.role = np.select(
            [has_above & has_below, has_below, has_above],
            [CONFUSED, OPTIMAL, NON_OPTIMAL],
            NON_COMPARABLE,
        )
        self.node, self.graph = contract(ends, size)
        self.n_nodes = self.graph.shape[0]
        upper, lower = self.graph.nonzero()

        def among(nodes):
            return np.isin(np.arange(self.n_nodes), nodes)

        unknown = among(self.node[:-1][self.keys % self.base == n_tokens])
        source, sink = ~among(lower), ~among(upper)  # nothing above, nothing below: or both
        over_minus_one = unknown | sink & ~among(lower[~source[upper]])
        under_one = source & ~among(upper[~sink[lower] | unknown[lower]])
        positive = among(upper[over_minus_one[lower]])
        negative = among(lower[under_one[upper]])
        # Bounds of the sign of w: low >= high of another is w >= w, and > is >.
        self.low = np.select([positive, source | unknown], [1, 0], -2)
        self.high = np.select([negative, sink], [-1, 0], 2)

    def tops(self, contexts, votes):
        """Which tokens of each context may have the largest w.

        Parameters
        ----------
        contexts : Contexts
        votes : ndarray of bool of shape (n_nonzeros,)
            Tokens with one next token.

        Returns
        -------
        role : ndarray of shape (n_nonzeros,)
            Index in ROLES.
        top : ndarray of bool of shape (n_nonzeros,)
            Whether no other token of the context is larger for certain.
        alone : ndarray of bool of shape (n_nonzeros,)
            Top tokens that no token with a vote equals or exceeds for certain: without a vote
            of their own they may be the largest by themselves.
        """
        query = np.repeat(contexts.query, contexts.lengths).astype(np.int64)
        at, found = find_sorted(self.keys, query * self.base + contexts.tokens)
        at = np.where(found, at, len(self.keys))
        role = np.where(contexts.tokens == contexts.n_tokens, UNKNOWN, self.role[at])
        node = self.node[at].astype(np.int64)
        paths = self._paths(unique_keys(node))
        top, alone = np.zeros_like(votes), np.zeros_like(votes)
        for length, _, positions in contexts.blocks() if len(contexts) else ():
            step = max(1, _CHUNK // length**2)
            for start in range(positions.start, positions.stop, step * length):
                chunk = slice(start, min(start + step * length, positions.stop))
                x, vote = node[chunk].reshape(-1, length), votes[chunk].reshape(-1, length)
                i, j = x[:, :, None], x[:, None, :]
                low, high = self.low[i], self.high[j]
                beats = (low > high) | find_sorted(paths, i * self.n_nodes + j)[1]
                is_top = ~beats.any(axis=1)
                reaches = ((low >= high) | (i == j)) & vote[:, :, None]
                top[chunk] = is_top.ravel()
                alone[chunk] = (is_top & ~reaches.any(axis=1)).ravel()
        return role, top, alone

    def _paths(self, nodes):
        """Sorted keys upper * n_nodes + lower of the given nodes that a path leads down."""
        graph = without_implied(self.graph)
        keys = [np.empty(0, dtype=np.int64)]
        for start in range(0, len(nodes), _ROWS):
            rows = nodes[start : start + _ROWS]
            step = graph[rows]
            while step.nnz:  # cycles are contracted: every path ends
                row, lower = step.nonzero()
                wanted = find_sorted(nodes, lower)[1]
                keys.append(unique_keys(rows[row[wanted]] * self.n_nodes + lower[wanted]))
                step = step @ graph
        return unique_keys(np.concatenate(keys))
