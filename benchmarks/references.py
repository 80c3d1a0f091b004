"""The references of W_kq at their full sizes, beside independent solvers.

Prints seconds, smallest margin and relative gap of `solve_kq`. Beside them cvxpy with Clarabel
(interior point) and with DAQP (active set) on the same problem as it is stated: one `Problem` per
query, as someone without this package would write it, and one for all queries together; seconds,
their ratio to ours, and the largest difference of the solutions.

Small problems cost cvxpy more to set up than to solve. Where constraints are tight with multiplier
zero, an interior point that stops at a gap of 1e-12 is exact to about 1e-6 only. DAQP has no such
limit, but takes dense matrices, and is left out where they are large.
"""

import argparse
import platform
import statistics
import time
import warnings
from importlib.metadata import version

import numpy as np
from common import Row, cpu_name, duration, progress
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

from sklntp._max_margin import solve_kq

BUDGET = 60.0  # seconds of another solver per case
CLARABEL = {"tol_gap_abs": 1e-12, "tol_gap_rel": 1e-12, "tol_feas": 1e-12, "time_limit": BUDGET}
LARGEST_DENSE = 10**6  # entries of the constraint matrix for DAQP


def chain(n_tokens):
    """One query: 0 > 1 > 2 > ..."""
    above = np.arange(n_tokens - 1)
    return np.zeros_like(above), above, above + 1


def two_levels(n_tokens, n_pairs):
    """One query: random pairs of the first half of the tokens above the second half."""
    half = n_tokens // 2
    pairs = np.random.default_rng(0).choice(half * half, n_pairs, replace=False)
    return np.zeros_like(pairs), pairs // half, half + pairs % half


def many_queries(n_queries, n_tokens, n_pairs):
    """Per query a random acyclic order."""
    rng = np.random.default_rng(0)
    a, b = np.triu_indices(n_tokens, 1)
    chosen = np.concatenate([rng.permutation(a.size)[:n_pairs] for _ in range(n_queries)])
    return np.repeat(np.arange(n_queries), n_pairs), a[chosen], b[chosen]


CASES = {
    "chain of 3,000 tokens": chain(3000),
    "two levels, 5,000 tokens, 100,000 pairs": two_levels(5000, 100_000),
    "1,000 queries, 60 tokens and 200 pairs each": many_queries(1000, 60, 200),
    "1,000 queries, 10 tokens and 15 pairs each": many_queries(1000, 10, 15),
}


def convex_programs(query, above, below):
    """The matrix D of each query's problem, min 1/2 |w|^2 s.t. D w >= 1."""
    for pairs in np.split(np.arange(query.size), np.flatnonzero(np.diff(query)) + 1):
        tokens, index = np.unique([above[pairs], below[pairs]], return_inverse=True)
        row, sign = np.tile(np.arange(pairs.size), 2), np.repeat([1.0, -1.0], pairs.size)
        yield csr_array((sign, (row, index.ravel())), shape=(pairs.size, tokens.size))


def solve_others(solver, options, programs, expected):
    """Seconds of another solver for all programs, and its largest difference from `expected`."""
    import cvxpy as cp

    start, values = time.perf_counter(), []
    for D in programs:
        w = cp.Variable(D.shape[1])
        problem = cp.Problem(cp.Minimize(cp.sum_squares(w) / 2), [D @ w >= 1])
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Solution may be inaccurate")  # it is printed
            problem.solve(solver=solver, **options)
        values.append(w.value)
        seconds = time.perf_counter() - start
        if seconds > BUDGET:
            return seconds, np.nan
    return seconds, np.abs(np.concatenate(values) - expected).max()


def time_case(query, above, below, repeats):
    """Our reference and its median seconds; name, seconds and largest difference of the others."""
    import cvxpy as cp

    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        reference = solve_kq(query, above, below)
        times.append(time.perf_counter() - start)
    each = list(convex_programs(query, above, below))
    runs = [("Clarabel", cp.CLARABEL, CLARABEL, each)]
    if query[-1] > 0:
        shift = query * (max(above.max(), below.max()) + 1)
        together = list(convex_programs(np.zeros_like(query), above + shift, below + shift))
        runs.append(("Clarabel, all queries in one", cp.CLARABEL, CLARABEL, together))
    if max(np.prod(D.shape) for D in each) <= LARGEST_DENSE:
        runs.append(("DAQP", cp.DAQP, {}, each))
    others = [
        (label, *solve_others(solver, options, programs, reference.value))
        for label, solver, options, programs in runs
    ]
    return reference, statistics.median(times), others


def describe(seconds, difference):
    """How well another solver's solution agrees with ours, as text."""
    return f"largest difference {difference:.0e}" if seconds <= BUDGET else "not finished"


def measure(repeats=3, cases=None):
    """The rows of every solver in every case, or those of some `cases`."""
    rows = []
    with threadpool_limits(1):
        for name in cases or CASES:
            progress(f"references: {name}")
            reference, mine, others = time_case(*CASES[name], repeats)
            rows += [
                Row(
                    f"W_kq*, {name}, one thread",
                    f"{duration(mine)}, gap {reference.gap:.0e}",
                    f"cvxpy with {label}: {duration(seconds)}, {describe(seconds, difference)}",
                    seconds / mine,
                )
                for label, seconds, difference in others
            ]
    return rows


def main():
    """Time every case."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5, help="of solve_kq; the median counts")
    args = parser.parse_args()
    print(f"{cpu_name()}; Python {platform.python_version()}, one thread")
    packages = ("numpy", "scipy", "cvxpy", "clarabel", "daqp")
    print(", ".join(f"{name} {version(name)}" for name in packages))
    for name, case in CASES.items():
        reference, mine, others = time_case(*case, args.repeats)
        print(
            f"{name}: {mine:.3f} s, smallest margin 1 - {1 - reference.margin:.0e}, "
            f"gap {reference.gap:.0e}, {reference.n_components} component(s)"
        )
        for label, seconds, difference in others:
            print(
                f"  cvxpy with {label}: {seconds:.2f} s, ratio {seconds / mine:.1f}, "
                f"{describe(seconds, difference)}",
                flush=True,
            )


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
