"""The max-margin references against independent solvers, closed forms and a broken solver."""

from itertools import chain, combinations

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy.optimize import minimize
from scipy.sparse.csgraph import connected_components

from sklntp import _max_margin
from sklntp._interior_point import OrderGraph, interior_point
from sklntp._max_margin import MaxMarginError, solve_kq, solve_ov
from sklntp._orders import pair_graph


def random_pairs(rng):
    """Pairs (above, below) over 3 to 9 codes: two levels, acyclic, or with cycles."""
    n_tokens = rng.integers(3, 10)
    above, below = np.nonzero(rng.random((n_tokens, n_tokens)) < rng.uniform(0.2, 0.8))
    kind = rng.integers(3)
    if kind == 0:
        n_above = rng.integers(1, n_tokens)
        keep = (above < n_above) & (below >= n_above)
    elif kind == 1:
        keep = above < below
    else:
        keep = (above != below) & (rng.random(above.size) < 0.4)
    if not keep.any():
        return random_pairs(rng)
    name = rng.permutation(3 * n_tokens)[:n_tokens]
    return name[above[keep]], name[below[keep]]


INSTANCES = [random_pairs(np.random.default_rng(seed)) for seed in range(400)]


def two_levels(seed, n_above, n_below, n_pairs):
    rng = np.random.default_rng(seed)
    return rng.integers(0, n_above, n_pairs), n_above + rng.integers(0, n_below, n_pairs)


def solve_one(above, below, **options):
    return solve_kq(np.zeros_like(above), above, below, **options)


def independent_problem(above, below):
    """Tokens, their class of mutually reachable tokens, class sizes, incidence of the pairs."""
    tokens, index = np.unique(np.concatenate([above, below]), return_inverse=True)
    a, b = index.reshape(2, -1)
    reach = np.eye(tokens.size, dtype=int)
    reach[a, b] = 1
    for _ in range(tokens.size):
        reach = np.minimum(reach @ reach, 1)
    node = np.argmax(reach & reach.T, axis=1)  # the first token of each class
    a, b = node[a], node[b]
    D = np.eye(tokens.size)[a[a != b]] - np.eye(tokens.size)[b[a != b]]
    return tokens, node, np.bincount(node, minlength=tokens.size), D


def slsqp(size, D):
    return minimize(
        lambda w: (0.5 * np.sum(size * w**2), size * w),
        np.zeros(D.shape[1]),
        jac=True,
        method="SLSQP",
        constraints={"type": "ineq", "fun": lambda w: D @ w - 1, "jac": lambda w: D},
        options={"maxiter": 500, "ftol": 1e-15},
    ).x


def dual_ascent(size, D):
    """Maximise the dual with L-BFGS-B, which shares no code with SLSQP."""
    c = np.maximum(size, 1)  # a token that is not the first of its class has a zero column

    def loss(lam):
        w = D.T @ lam / c
        return 0.5 * np.sum(c * w**2) - lam.sum(), D @ w - 1

    options = {"maxiter": 20_000, "maxfun": 100_000, "ftol": 0, "gtol": 1e-10}
    bounds = [(0, None)] * len(D)
    lam = minimize(loss, np.ones(len(D)), jac=True, bounds=bounds, options=options).x
    return D.T @ lam / c


def assert_certified(reference):
    assert abs(reference.margin - 1) <= 1e-12
    assert 0 <= reference.gap <= 1e-13


def forbid_solver(monkeypatch):
    def called(*args, **kwargs):
        raise AssertionError("the solver was called")

    monkeypatch.setattr(_max_margin, "interior_point", called)


def test_agrees_with_two_independent_solvers():
    n_constrained = 0
    for above, below in INSTANCES:
        reference = solve_one(above, below)
        tokens, node, size, D = independent_problem(above, below)
        assert_array_equal(reference.token, tokens)
        if len(D) == 0:
            assert_array_equal(reference.value, 0)
            assert (reference.margin, reference.gap) == (np.inf, 0)
            continue
        n_constrained += 1
        assert_certified(reference)
        assert_allclose(reference.value, slsqp(size, D)[node], rtol=0, atol=1e-7)
        assert_allclose(reference.value, dual_ascent(size, D)[node], rtol=0, atol=1e-6)
    assert n_constrained > 350


def test_queries_are_solved_as_if_alone():
    alone = [solve_one(above, below) for above, below in INSTANCES]
    above, below = (np.concatenate(codes) for codes in zip(*INSTANCES, strict=True))
    query = np.repeat(np.arange(len(INSTANCES)), [len(above) for above, _ in INSTANCES])
    together = solve_kq(query, above, below)
    assert_array_equal(together.token, np.concatenate([one.token for one in alone]))
    assert_array_equal(together.query, np.repeat(np.arange(400), [one.token.size for one in alone]))
    assert_allclose(together.value, np.concatenate([one.value for one in alone]), atol=1e-14)
    assert together.margin == min(one.margin for one in alone)
    assert together.n_components == sum(one.n_components for one in alone)


@pytest.mark.parametrize("n_tokens", [3, 50, 300])
def test_a_chain_is_equally_spaced(n_tokens):
    reference = solve_one(np.arange(n_tokens - 1), np.arange(1, n_tokens))
    assert_allclose(reference.value, (n_tokens - 1) / 2 - np.arange(n_tokens), rtol=0, atol=1e-12)
    assert_certified(reference)


def test_implied_pairs_change_nothing():
    above, below = np.triu_indices(60, 1)
    assert_array_equal(solve_one(above, below).value, 59 / 2 - np.arange(60))


@pytest.mark.parametrize(
    "pairs",
    [two_levels(0, 200, 200, 800), two_levels(1, 100, 100, 2000), two_levels(2, 30, 300, 500)],
)
def test_large_two_level_orders_are_certified(pairs):
    assert_certified(solve_one(*pairs))


@pytest.mark.parametrize("density", [0.01, 0.1, 0.5])
def test_large_acyclic_orders_are_certified(density):
    rng = np.random.default_rng(0)
    above, below = np.nonzero(np.triu(rng.random((300, 300)) < density, 1))
    name = rng.permutation(300)
    assert_certified(solve_one(name[above], name[below]))


@pytest.mark.parametrize("n_above, n_below", [(1, 1), (1, 7), (5, 2), (40, 60)])
def test_complete_bipartite_is_a_closed_form(n_above, n_below, monkeypatch):
    forbid_solver(monkeypatch)
    above, below = np.nonzero(np.ones((n_above, n_below)))
    reference = solve_one(above, n_above + below)
    total = n_above + n_below
    expected = np.repeat([n_below / total, -n_above / total], [n_above, n_below])
    assert_allclose(reference.value, expected, rtol=0, atol=1e-15)
    assert_certified(reference)


def test_all_pairs_are_tight_exactly_under_the_hall_condition():
    """w is the two-value closed form iff |S| b <= |N(S)| a for every set S of upper nodes."""
    outcomes = []
    for seed in range(150):
        rng = np.random.default_rng(seed)
        n_above, n_below = rng.integers(2, 5, size=2)
        adjacent = rng.random((n_above, n_below)) < 0.6
        size = rng.integers(1, 4, size=n_above + n_below)
        first = np.cumsum(size) - size  # a node of several tokens is a cycle through all of them
        rings = [
            (f + i, f + (i + 1) % s) for f, s in zip(first, size, strict=True) for i in range(s)
        ]
        upper, lower = np.nonzero(adjacent)
        above = np.concatenate([first[upper], [a for a, b in rings if a != b]]).astype(int)
        below = np.concatenate([first[n_above + lower], [b for a, b in rings if a != b]]).astype(
            int
        )
        reference = solve_one(above, below)
        if reference.n_components > 1 or reference.token.size < size.sum():
            continue
        a, b = size[:n_above].sum(), size[n_above:].sum()
        subsets = chain.from_iterable(
            combinations(range(n_above), k) for k in range(1, n_above + 1)
        )
        hall = all(
            size[list(S)].sum() * b <= size[n_above:][adjacent[list(S)].any(axis=0)].sum() * a
            for S in subsets
        )
        expected = np.repeat([b / (a + b), -a / (a + b)], [a, b])
        assert np.allclose(reference.value, expected, rtol=0, atol=1e-9) == hall
        outcomes.append(hall)
    assert min(sum(outcomes), len(outcomes) - sum(outcomes)) >= 20


def test_no_pairs_give_an_empty_result_without_a_solver(monkeypatch):
    forbid_solver(monkeypatch)
    reference = solve_kq([], [], [])
    assert reference.query.size == reference.token.size == reference.value.size == 0
    assert (reference.margin, reference.gap, reference.n_components) == (np.inf, 0, 0)


def test_tokens_of_a_cycle_share_one_value(monkeypatch):
    forbid_solver(monkeypatch)
    alone = solve_kq([7, 7], [0, 1], [1, 0])
    assert_array_equal(alone.value, [0, 0])
    assert (alone.margin, alone.gap, alone.n_components) == (np.inf, 0, 1)
    # the cycle {0, 1} above 2: sizes 2 and 1
    assert_allclose(solve_kq([7] * 3, [0, 1, 1], [1, 0, 2]).value, [1 / 3, 1 / 3, -2 / 3])


def test_fixed_token_is_zero_and_connects_nothing(monkeypatch):
    # 0 and 1 stand above the fixed 9 and are components of their own, like 2 above 3
    reference = solve_one(np.array([0, 1, 2]), np.array([9, 9, 3]), fixed=9)
    assert_array_equal(reference.token, [0, 1, 2, 3])
    assert_array_equal(reference.value, [1, 1, 0.5, -0.5])
    assert reference.n_components == 3
    forbid_solver(monkeypatch)
    # beside the fixed token a free lower one carries nothing
    reference = solve_one(np.array([0, 0, 1, 1]), np.array([9, 3, 9, 3]), fixed=9)
    assert_array_equal(reference.value, [1, 1, 0])
    with pytest.raises(ValueError, match="fixed token 9 may stand only below"):
        solve_one(np.array([9]), np.array([0]), fixed=9)


def test_fixed_token_agrees_with_slsqp():
    for above, below in INSTANCES[:150]:
        fixed = np.setdiff1d(below, above)[:1]
        if fixed.size == 0:
            continue
        reference = solve_one(above, below, fixed=fixed[0])
        tokens, node, size, D = independent_problem(above, below)
        free = tokens != fixed[0]
        w = np.zeros(tokens.size)
        w[free] = slsqp(size[free], D[:, free])
        assert_certified(reference)
        assert_allclose(reference.value, w[node][free], rtol=0, atol=1e-7)


def test_order_and_repetition_of_pairs_do_not_change_a_bit():
    rng = np.random.default_rng(0)
    for above, below in [*INSTANCES[:100], two_levels(0, 60, 100, 200)]:
        reference = solve_one(above, below)
        again = np.concatenate([rng.permutation(above.size), rng.integers(0, above.size, 5)])
        assert_array_equal(solve_one(above[again], below[again]).value, reference.value)


@pytest.mark.parametrize("largest", [1, 100, 10_000])
@pytest.mark.parametrize("kind", ["two levels", "acyclic", "hubs", "fixed"])
def test_all_factorizations_solve_weighted_graphs_of_every_kind(kind, largest):
    rng = np.random.default_rng(largest)
    for _ in range(8):
        n = 40
        above, below = np.nonzero(np.triu(rng.random((n, n)) < 0.1, 1))
        if kind != "acyclic":
            n_above = 3 if kind == "hubs" else n // 2
            above, below = np.nonzero(rng.random((n_above, n - n_above)) < 0.3)
            below = below + n_above
        nodes, index = np.unique([above, below], return_inverse=True)
        above, below = index.reshape(2, -1)
        size = np.round(largest ** rng.random(nodes.size))
        size[below[-1]] = np.inf if kind == "fixed" else size[below[-1]]
        order = OrderGraph(size, np.zeros_like(nodes), above, below)
        solutions = [interior_point(order, how) for how in ("sparse", "dense", "batched")]
        w, *others = (_max_margin._polish(order, *solution) for solution in solutions)
        assert_allclose(others, [w, w], rtol=0, atol=1e-12)
        for solution in solutions:
            assert_allclose(solution[0], w, rtol=0, atol=1e-6)
        assert np.all(w[np.isinf(size)] == 0)
        assert np.all(order.difference(w) >= 1 - 1e-12)
        if largest < 10_000:  # what the other solver reaches
            free = np.isfinite(size)
            D = np.eye(nodes.size)[above] - np.eye(nodes.size)[below]
            assert_allclose(w[free], dual_ascent(size[free], D[:, free]), rtol=0, atol=1e-5)


def test_a_chain_of_3000_tokens():
    reference = solve_one(np.arange(2999), np.arange(1, 3000))
    assert_allclose(reference.value, 2999 / 2 - np.arange(3000), rtol=0, atol=1e-12)
    assert_allclose(reference.margins, 1, rtol=0, atol=1e-12)
    assert_certified(reference)


def test_a_two_level_order_of_5000_tokens_and_100000_pairs():
    pairs = np.random.default_rng(0).choice(2500 * 2500, 100_000, replace=False)
    reference = solve_one(pairs // 2500, 2500 + pairs % 2500)
    assert reference.token.size == 5000 and reference.margins.size == 100_000
    assert_allclose(reference.value, np.repeat([0.5, -0.5], 2500), rtol=0, atol=1e-12)
    assert_certified(reference)


def test_1000_queries_of_200_pairs():
    """Against the dual solved by another method, on some of them."""
    query, above, below = [], [], []
    for seed in range(1000):
        rng = np.random.default_rng(seed)
        pairs = rng.permutation(np.flatnonzero(np.triu(np.ones((60, 60)), 1)))[:200]
        query.append(np.full(200, seed))
        above.append(pairs // 60)
        below.append(pairs % 60)
    reference = solve_kq(*map(np.concatenate, (query, above, below)))
    assert_certified(reference)
    assert reference.margins.min() == reference.margin
    for seed in range(0, 1000, 100):
        tokens, node, size, D = independent_problem(above[seed], below[seed])
        assert_array_equal(reference.token[reference.query == seed], tokens)
        expected = dual_ascent(size, D)[node]
        assert_allclose(reference.value[reference.query == seed], expected, rtol=0, atol=1e-5)


def test_names_of_tokens_do_not_matter():
    rng = np.random.default_rng(0)
    for above, below in [*INSTANCES[:100], two_levels(0, 60, 100, 200)]:
        name = rng.permutation(200)
        reference, renamed = solve_one(above, below), solve_one(name[above], name[below])
        value = dict(zip(renamed.token, renamed.value, strict=True))
        expected = [value[name[token]] for token in reference.token]
        assert_allclose(reference.value, expected, rtol=0, atol=1e-12)


WRONG_SOLUTIONS = {
    "zero": lambda w, lam, slack: (np.zeros_like(w), np.zeros_like(lam), np.ones_like(slack)),
    "one multiplier too few": lambda w, lam, slack: (w, np.r_[0, lam[1:]], np.r_[1, slack[1:]]),
    "one multiplier too large": lambda w, lam, slack: (w, lam * np.r_[1.001, lam[1:] > 0], slack),
    "not at rest": lambda w, lam, slack: (2 * w, 2 * lam, slack),
}
ORDERS = [
    (np.array([0, 0, 1, 1]), np.array([2, 3, 3, 4])),
    (np.arange(9), np.arange(1, 10)),
    two_levels(3, 10, 10, 25),
]


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("wrong", WRONG_SOLUTIONS)
def test_a_wrong_solution_is_refused(wrong, order, monkeypatch):
    solve = _max_margin.interior_point
    monkeypatch.setattr(
        _max_margin,
        "interior_point",
        lambda *args, **options: WRONG_SOLUTIONS[wrong](*solve(*args, **options)),
    )
    n_tokens = np.unique(order).size
    message = f"query 4 could not .* of {n_tokens} tokens the smallest margin is .* gap"
    with pytest.raises(MaxMarginError, match=message):
        solve_kq(np.full_like(order[0], 4), *order)


def test_time_limit_is_checked_before_anything_is_solved(monkeypatch):
    query, above, below = np.array([0, 0, 1]), np.array([0, 1, 0]), np.array([1, 2, 1])
    # only the chain under query 0 needs a solver: 3 nodes in a batch of width 8
    estimate = (7 * 8**3 + 7e3 * 3) * 1e-9
    assert_certified(solve_kq(query, above, below, time_limit=1.001 * estimate))
    forbid_solver(monkeypatch)
    with pytest.raises(MaxMarginError, match="take 2.46e-05 s, more than 2.46e-05 s; .* 3 nodes"):
        solve_kq(query, above, below, time_limit=0.999 * estimate)
    assert_certified(solve_kq(query[2:], above[2:], below[2:], time_limit=0))
    # ten of them take ten times as long
    query = np.repeat(np.arange(10), 2)
    with pytest.raises(MaxMarginError):
        solve_kq(query, np.tile([0, 1], 10), np.tile([1, 2], 10), time_limit=9.99 * estimate)


def plan_of(above, below):
    """The plan for one component."""
    nodes, index = np.unique([above, below], return_inverse=True)
    order = OrderGraph(np.ones(nodes.size), np.zeros_like(nodes), *index.reshape(2, -1))
    calls, seconds = _max_margin._plan(order, np.array([0]))
    return [factorization for _, factorization in calls], seconds


def test_the_plan_follows_size_and_density():
    chain = np.arange(299)
    assert plan_of(chain[:63], chain[:63] + 1)[0] == ["batched"]
    assert plan_of(chain[:64], chain[:64] + 1)[0] == ["sparse"]
    method, seconds = plan_of(chain, chain + 1)
    assert method == ["sparse"] and seconds < 0.02
    upper, lower = np.nonzero(np.ones((100, 200)))
    method, seconds = plan_of(upper[1:], lower[1:] + 100)
    assert method == ["dense"]
    np.testing.assert_allclose(seconds, 1e-9 * (0.2 * 100**3 + 5e3 * 19_999))


def test_many_components_are_solved_in_several_calls(monkeypatch):
    pairs = [np.concatenate(codes) for codes in zip(*INSTANCES[:60], strict=True)]
    query = np.repeat(np.arange(60), [len(above) for above, _ in INSTANCES[:60]])
    together = solve_kq(query, *pairs)
    calls = []
    solve = _max_margin.interior_point
    monkeypatch.setattr(
        _max_margin, "interior_point", lambda *args: calls.append(args) or solve(*args)
    )
    monkeypatch.setattr(_max_margin, "_BATCH", 3 * 16**2)
    assert_array_equal(solve_kq(query, *pairs).value, together.value)
    assert len(calls) > 3  # two widths
    monkeypatch.setattr(_max_margin, "_WIDTHS", [])
    monkeypatch.setattr(_max_margin, "_NODES", 20)
    assert_allclose(solve_kq(query, *pairs).value, together.value, rtol=0, atol=1e-12)
    assert calls[-1][1] == "sparse"


def test_an_order_through_one_token_needs_no_memory_for_its_paths():
    """20,000 tokens above one, which is above 20,000: 4e8 paths of two pairs, a tree."""
    n = 20_000
    above = np.concatenate([np.arange(1, n + 1), np.zeros(n, dtype=int)])
    below = np.concatenate([np.zeros(n, dtype=int), np.arange(n + 1, 2 * n + 1)])
    reference = solve_one(above, below)
    assert_array_equal(reference.value, np.repeat([0, 1, -1], [1, n, n]))


def test_the_certificate_is_the_worst_of_all_components(monkeypatch):
    certify = _max_margin._certify

    def two(order, w, lam):
        margin, gap = certify(order, w, lam)
        return margin - [0, 5e-10], gap + [0, 9e-14]

    query, above, below = np.repeat([0, 1], 2), np.array([0, 1, 0, 1]), np.array([1, 2, 1, 2])
    monkeypatch.setattr(_max_margin, "_certify", two)
    reference = solve_kq(query, above, below)
    assert 8e-14 < reference.gap and 4e-10 < 1 - reference.margin
    for margin, gap in ((2e-9, 0), (0, 2e-13)):
        monkeypatch.setattr(
            _max_margin,
            "_certify",
            lambda *args, m=margin, g=gap: (np.full(2, 1 - m), np.full(2, g)),
        )
        with pytest.raises(MaxMarginError):
            solve_kq(query, above, below)


def test_weighted_graphs_of_many_sizes_are_certified():
    for seed in range(60):
        rng = np.random.default_rng(seed)
        n, largest = int(rng.choice([4, 20, 65, 150, 250])), 10 ** rng.uniform(0, 6.3)
        above, below = np.nonzero(np.triu(rng.random((n, n)) < (3 / n if seed % 2 else 0.3), 1))
        if above.size == 0:
            continue
        nodes, index = np.unique([above, below], return_inverse=True)
        upper, lower = index.reshape(2, -1)
        _, group = connected_components(pair_graph(upper, lower, nodes.size))
        rank = np.lexsort((lower, upper, group[upper]))
        size = np.round(largest ** rng.random(nodes.size))
        order = OrderGraph(size, group.astype(np.int64), upper[rank], lower[rank])
        for how in ("sparse", "batched") if n <= 150 else ("sparse",):
            w, lam, slack = interior_point(order, how)
            margin, gap = _max_margin._certify(
                order, _max_margin._polish(order, w, lam, slack), lam
            )
            assert margin.min() >= 1 - 1e-9 and gap.max() <= 1e-13


def test_ov_is_feasible_and_stationary():
    """W is optimal: every constraint is tight, and W is a nonnegative sum of constraints."""
    n_classes = 6
    for seed in range(20):
        rng = np.random.default_rng(seed)
        produced = rng.random((4, n_classes)) < 0.4
        token, target = np.nonzero(produced)
        reference = solve_ov(token, target, n_classes)
        W = np.zeros((n_classes, 4))
        W[:, reference.tokens] = reference.base_value
        W[target, token] = reference.label_value
        for x in np.flatnonzero(produced.any(axis=1)):
            inside, outside = W[produced[x], x], W[~produced[x], x]
            assert_allclose(inside[:, None] - outside, 1)
            # λ = 1 / C on each of the k (C - k) constraints
            assert_allclose(inside, outside.size / n_classes)
            assert_allclose(outside, -inside.size / n_classes)
        assert_allclose(reference.norm, np.linalg.norm(W))


def test_ov_of_the_paper():
    reference = solve_ov(np.arange(100), np.roll(np.arange(100), -1), 100)
    assert_allclose(reference.norm, 9.9498744, atol=1e-7)
    assert_array_equal(reference.label_value, 0.99)
    assert_array_equal(reference.base_value, -0.01)
    assert solve_ov(np.arange(3), [1, 2, 0], 3).norm == pytest.approx(np.sqrt(2), abs=1e-15)


def test_ov_counts_a_repeated_pair_once():
    reference = solve_ov([5, 5, 5, 2], [0, 1, 0, 1], 4)
    assert_array_equal(reference.tokens, [2, 5])
    assert_array_equal(reference.base_value, [-0.25, -0.5])
    assert_array_equal(reference.label_value, [0.5, 0.5, 0.5, 0.75])
