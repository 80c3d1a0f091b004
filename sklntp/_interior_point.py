"""Primal-dual interior point for the quadratic program of the W_kq reference.

    min  1/2 Σ_i c_i w_i²   s.t.   D w - s = 1,  s >= 0        D: +1 at the upper, -1 at the lower
                                                               node of each pair
    KKT  c w = Dᵀλ,   s_p λ_p = 0,   λ >= 0

Several components are solved side by side: they share the factorization and nothing else, each has
its own step length and stops by itself. A step solves, with θ = λ / (s + δ λ),

    (C + DᵀΘD) Δw = rhs                                        (n_nodes, n_nodes)

twice for one factorization (predictor and corrector). δ bounds θ by 1 / δ, so that the matrix
stays positive definite in floating point; it belongs to the proximal term δ/2 ‖λ - λ_k‖² of the
dual, which vanishes at the solution.

References
----------
.. [1] S. Mehrotra, "On the Implementation of a Primal-Dual Interior Point Method", SIAM Journal on
   Optimization 2(4), 1992.
.. [2] M. P. Friedlander, D. Orban, "A primal-dual regularized interior-point method for convex
   quadratic programs", Mathematical Programming Computation 4(1), 2012.
"""

from dataclasses import dataclass

import numpy as np
from scipy.linalg import cho_factor, cho_solve
from scipy.sparse import csc_array, csr_array
from scipy.sparse.linalg import splu

_DELTA = 1e-10
_TOLERANCE = 1e-18  # on Σ λ s relative to Σ λ, per component
_MAX_ITER = 100  # 10 to 30 are usual


@dataclass(frozen=True)
class OrderGraph:
    """Order graphs with their cycles contracted: the data of the quadratic program.

    `size` (n_nodes,) is c, infinite for a fixed node, whose value is 0; `group` (n_nodes,) numbers
    the connected components; `upper` and `lower` (n_pairs,) are the nodes of each pair, sorted by
    component, no pair twice. A fixed node may stand only below. It has a group of its own and yet
    stands in pairs of several, so a pair's group is its upper's.
    """

    size: np.ndarray
    group: np.ndarray
    upper: np.ndarray
    lower: np.ndarray

    @property
    def mass(self):
        """c of the free nodes, 0 for fixed ones: their w is 0, and inf · 0 is not."""
        return np.where(np.isfinite(self.size), self.size, 0.0)

    @property
    def pair_group(self):
        return self.group[self.upper]

    @property
    def n_groups(self):
        return int(self.group.max()) + 1

    def difference(self, w):
        """D w (n_pairs,)."""
        return w[self.upper] - w[self.lower]

    def flow(self, lam):
        """Dᵀλ (n_nodes,)."""
        n_nodes = self.size.size
        return np.bincount(self.upper, lam, n_nodes) - np.bincount(self.lower, lam, n_nodes)


def interior_point(order, factorization):
    """Solve all components of an order graph in which every node stands in a pair.

    Parameters
    ----------
    order : OrderGraph
    factorization : {"batched", "sparse", "dense"}
        "batched": all components as dense matrices of one size, for small ones of similar size;
        "sparse": all in one sparse matrix; "dense": for one large component.

    Returns
    -------
    w : ndarray of shape (n_nodes,)
    lam, slack : ndarray of shape (n_pairs,)
        λ > 0 and s > 0. In the end λ > s in the pairs that are tight with a multiplier above zero,
        and λ < s in those that are not tight; pairs tight with multiplier zero may be of either
        kind.
    """
    group, mass = order.pair_group, order.mass
    starts = np.flatnonzero(np.diff(group, prepend=-1))  # the first pair of each component
    member = np.repeat(np.arange(starts.size), np.diff(starts, append=group.size))
    n_pairs = np.bincount(member)

    def total(values):
        return np.add.reduceat(values, starts)

    def longest_step(x, dx):
        """The largest step in [0, 1] that keeps x >= 0."""
        limit = np.divide(-x, dx, out=np.ones_like(x), where=dx < 0)
        return np.minimum(1.0, np.minimum.reduceat(limit, starts))

    def newton(target):
        """Newton step to c w = Dᵀλ and D w - s = 1, with s Δλ + λ Δs = target."""
        free = theta * (target / lam - primal)
        dw = system.solve(order.flow(free) - dual)
        dlam = free - theta * order.difference(dw)
        return dw, dlam, (target - slack * dlam) / lam

    system = _SYSTEMS[factorization](order)
    lam = np.ones(group.size)
    w = order.flow(lam) / order.size
    slack = np.maximum(order.difference(w) - 1, 1.0)
    for _ in range(_MAX_ITER):
        primal, dual = order.difference(w) - slack - 1, mass * w - order.flow(lam)  # residuals
        product = total(lam * slack)
        rounding = 1e-12 * np.maximum(1, np.abs(w[order.upper]))
        infeasible = np.logical_or.reduceat(np.abs(primal) > rounding, starts)
        going = infeasible | (product > _TOLERANCE * total(lam))
        if not going.any():
            break
        theta = lam / (slack + _DELTA * lam)
        system.factorize(theta)

        _, dlam, dslack = newton(-slack * lam)
        length = np.minimum(longest_step(lam, dlam), longest_step(slack, dslack))[member]
        predicted = total((lam + length * dlam) * (slack + length * dslack))
        centre = product / n_pairs * (predicted / product) ** 3
        dw, dlam, dslack = newton(centre[member] - slack * lam - dlam * dslack)
        length = 0.99 * np.minimum(longest_step(lam, dlam), longest_step(slack, dslack))
        length = np.where(going, length, 0.0)[member]
        lam, slack = lam + length * dlam, slack + length * dslack
        node_length = np.zeros(w.size)
        node_length[order.upper] = node_length[order.lower] = length
        w = w + node_length * dw
    return w, lam, slack


class _System:
    """C + DᵀΘD; a fixed node has a row of its own, with 1 on the diagonal."""

    def __init__(self, order):
        self.order = order
        self.free = np.isfinite(order.size)
        self.joined = self.free[order.lower]  # the pairs off the diagonal

    def diagonal(self, theta):
        order, n_nodes = self.order, self.free.size
        diagonal = np.bincount(order.upper, theta, n_nodes)
        diagonal += np.bincount(order.lower, theta, n_nodes)
        return np.where(self.free, order.size + diagonal, 1.0)

    def solve(self, rhs):
        return self._solve(np.where(self.free, rhs, 0.0))


class _BatchedSystem(_System):
    """One dense matrix per component, padded to the size of the largest."""

    def __init__(self, order):
        super().__init__(order)
        nodes = np.flatnonzero(self.free)
        nodes = nodes[np.argsort(order.group[nodes], kind="stable")]
        first = np.flatnonzero(np.diff(order.group[nodes], prepend=-1))
        sizes = np.diff(first, append=nodes.size)
        width = sizes.max()
        batch = np.repeat(np.arange(sizes.size), sizes)
        local = np.arange(nodes.size) - first[batch]
        self.nodes, self.place, self.shape = nodes, (batch, local), (sizes.size, width)
        of = np.empty((2, self.free.size), dtype=np.intp)  # batch and local index of each node
        of[:, nodes] = self.place
        (i, j), pair_batch = of[1, [order.upper, order.lower]][:, self.joined], of[0, order.upper]
        self.pairs = pair_batch[self.joined], i, j

    def factorize(self, theta):
        batch, i, j = self.pairs
        # The identity stays where there is no node.
        self.matrix = np.tile(np.eye(self.shape[1]), (self.shape[0], 1, 1))
        self.matrix[*self.place, self.place[1]] = self.diagonal(theta)[self.nodes]
        self.matrix[batch, i, j] = self.matrix[batch, j, i] = -theta[self.joined]

    def _solve(self, rhs):
        x, right = np.zeros_like(rhs), np.zeros(self.shape)
        right[self.place] = rhs[self.nodes]
        x[self.nodes] = np.linalg.solve(self.matrix, right[:, :, None])[*self.place, 0]
        return x


class _SparseSystem(_System):
    """Factorized by SuperLU with a fill-reducing ordering."""

    def __init__(self, order):
        super().__init__(order)
        self._arrange(np.arange(self.free.size))
        self.factorize(np.ones(order.upper.size), "MMD_AT_PLUS_A")
        self._arrange(self.factor.perm_c)  # once for all: the pattern stays

    def _arrange(self, place):
        """Prepare the matrix, with node i in row and column place[i]."""
        i, j = place[self.order.upper[self.joined]], place[self.order.lower[self.joined]]
        rows, columns = np.concatenate([place, i, j]), np.concatenate([place, j, i])
        self.place, self.matrix = place, csc_array((np.arange(rows.size), (rows, columns)))
        self.source = self.matrix.data  # of each entry, its index in [diagonal, pairs, pairs]

    def factorize(self, theta, ordering="NATURAL"):
        pairs = -theta[self.joined]
        self.matrix.data = np.concatenate([self.diagonal(theta), pairs, pairs])[self.source]
        options = {"SymmetricMode": True}
        self.factor = splu(self.matrix, ordering, diag_pivot_thresh=0.0, options=options)

    def _solve(self, rhs):
        arranged = np.empty_like(rhs)
        arranged[self.place] = rhs
        return self.factor.solve(arranged)[self.place]


class _DenseSystem(_System):
    """Factorized by Cholesky as a dense matrix, after the nodes of one side are eliminated.

    No two nodes that stand only above others meet in a pair, nor two that stand only below: their
    block is diagonal. The larger set of the two is eliminated.
    """

    def __init__(self, order):
        super().__init__(order)
        upper, lower, n_nodes = order.upper, order.lower, self.free.size
        top = np.bincount(lower, minlength=n_nodes) == 0
        bottom = np.bincount(upper, minlength=n_nodes) == 0
        gone = top if top.sum() > bottom.sum() else bottom
        self.gone, self.kept = np.flatnonzero(gone), np.flatnonzero(~gone)
        place = np.empty(n_nodes, dtype=np.intp)
        place[self.gone], place[self.kept] = np.arange(self.gone.size), np.arange(self.kept.size)
        self.cross = self.joined & (gone[upper] | gone[lower])
        self.inner = self.joined & ~self.cross
        up, down = upper[self.cross], lower[self.cross]
        self.cross_at = place[np.where(gone[up], down, up)], place[np.where(gone[up], up, down)]
        self.inner_at = place[upper[self.inner]], place[lower[self.inner]]

    def factorize(self, theta):
        diagonal = self.diagonal(theta)
        self.pivot = diagonal[self.gone]
        shape = self.kept.size, self.gone.size
        theta_cross, pivot = theta[self.cross], self.pivot[self.cross_at[1]]
        self.coupling = csr_array((theta_cross, self.cross_at), shape=shape)
        scaled = csr_array((theta_cross / pivot, self.cross_at), shape=shape)
        matrix = -(self.coupling @ scaled.T).toarray()
        matrix[self.inner_at] -= theta[self.inner]
        matrix[self.inner_at[::-1]] -= theta[self.inner]
        matrix[np.diag_indices_from(matrix)] += diagonal[self.kept]
        self.factor = cho_factor(matrix, overwrite_a=True)

    def _solve(self, rhs):
        gone = rhs[self.gone] / self.pivot
        x = np.empty_like(rhs)
        x[self.kept] = kept = cho_solve(self.factor, rhs[self.kept] + self.coupling @ gone)
        x[self.gone] = gone + self.coupling.T @ kept / self.pivot
        return x


_SYSTEMS = {"batched": _BatchedSystem, "sparse": _SparseSystem, "dense": _DenseSystem}
