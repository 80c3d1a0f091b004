"""Orders, conditions with their witnesses and references, against results worked out by hand."""

from dataclasses import fields

import numpy as np
import pytest
from data import CHAIN, CONFLICT, CYC, ONE, TWOQ, plus
from numpy.testing import assert_allclose, assert_array_equal

from sklntp.datasets import make_realizable_ntp
from sklntp.preprocessing import as_sequences
from sklntp.structure import check_realizable, max_margin_kq, max_margin_ov, partial_orders

CONDITIONS = [
    "every_token_has_pair",
    "collocation_is_function",
    "collocation_is_injective",
    "next_tokens_producible",
    "orders_acyclic",
    "no_confused_tokens",
    "regeneration",
    "assumption_3",
    "assumption_3_strict",
]
ROLES = ["optimal", "non_optimal", "confused", "non_comparable"]


def _failing(report):
    """Condition -> witnesses, for those that do not hold."""
    found = {name: getattr(report, name) for name in CONDITIONS}
    assert {f.name for f in fields(report)} == {
        *CONDITIONS,
        "regenerated",
        "collocation_mode",
        "_sizes",
    }
    for condition in found.values():
        assert condition.holds is (condition.reason == "")
        assert not (condition.holds and len(condition.witnesses))
    return {name: c.witnesses.tolist() for name, c in found.items() if not c.holds}


# Orders


def _roles(order):
    return {name: getattr(order, name) for name in ROLES}


def test_roles_and_pairs_of_a_chain():
    orders = partial_orders(*CHAIN)
    assert list(orders) == ["a", "b", "c"]
    assert orders["c"].pairs == [("a", "b"), ("a", "c"), ("b", "c")]
    assert _roles(orders["c"]) == {
        "optimal": ["a"],
        "non_optimal": ["c"],
        "confused": ["b"],
        "non_comparable": [],
    }
    for query in ("a", "b"):  # only their own one-token sentences
        assert orders[query].pairs == []
        assert orders[query].non_comparable == ["a", "b", "c"]


def test_each_query_has_its_own_order():
    orders = partial_orders(*plus(TWOQ, (["a", "b", "c"], "c")))
    assert orders["b"].pairs == [("a", "b")]
    assert orders["b"].non_comparable == ["c"]
    assert orders["c"].pairs == [("b", "a"), ("b", "c")]
    assert orders["c"].non_optimal == ["a", "c"]


def test_pairs_are_those_that_meet_in_a_sentence():
    """Under c, a is above b and b above d; a and d never meet: only the closure has a above d."""
    X = [["a"], ["b"], ["c"], ["d"], ["a", "b", "c"], ["b", "d", "c"]]
    order = partial_orders(X, ["b", "c", "d", "a", "b", "c"])["c"]
    assert order.pairs == [("a", "b"), ("a", "c"), ("b", "c"), ("b", "d")]
    assert order.optimal == ["a"] and order.confused == ["b"]
    assert order.non_optimal == ["c", "d"] and order.non_comparable == []


def test_tokens_with_the_same_next_token_and_an_unproducible_one_give_no_pair():
    same = [["a"], ["b"], ["c"], ["a", "b"], ["a", "c", "b"]], ["c", "c", "a", "c", "c"]
    assert partial_orders(*same)["b"].pairs == [("a", "c"), ("b", "c")]
    assert partial_orders(*plus(CYC, (["a", "b"], "a")))["b"].pairs == []


def test_every_next_token_of_a_token_counts():
    X = [["a"], ["a"], ["b"], ["a", "b"]]
    assert partial_orders(X, ["b", "c", "b", "c"])["b"].pairs == [("a", "b")]
    assert partial_orders(X, ["b", "c", "b", "b"])["b"].pairs == []


@pytest.mark.parametrize(
    ("collocation", "pairs"),
    [
        ("auto", [("a", "b"), ("a", "c")]),
        ("single", [("a", "b"), ("a", "c")]),
        ("last", [("a", "c"), ("b", "c")]),  # b produces b as well
        ("context", []),  # and so does c
    ],
)
def test_the_order_depends_on_the_collocation(collocation, pairs):
    data = plus(CYC, (["c", "a", "b"], "b"))
    assert partial_orders(*data, collocation=collocation)["b"].pairs == pairs


def test_tokens_outside_the_vocabulary_are_none():
    data = plus(CYC, (["a", "z", "b"], "b"), (["z", "a", "z"], "b"))
    orders = partial_orders(*data, vocabulary=["c", "b", "a"])
    assert set(orders) == {"a", "b", "c"}  # no order under an unknown query
    assert set(orders["b"].pairs) == {("a", "b"), ("a", None)}
    assert orders["b"].optimal == ["a"]
    assert set(orders["b"].non_optimal) == {"b", None}
    assert orders["b"].non_comparable == ["c"]


def test_sentences_of_weight_zero_show_no_order():
    weight = [1, 1, 1, 1, 0]
    assert partial_orders(*CONFLICT, sample_weight=weight)["b"].pairs == [("a", "b")]
    assert partial_orders(*CONFLICT)["b"].pairs == [("a", "b"), ("b", "a")]
    z = plus(ONE, (["z"], "a"))
    assert "z" in partial_orders(*z)
    assert "z" not in partial_orders(*z, sample_weight=weight)


# Conditions. What one violation implies is listed with it: where a token has two next tokens, or a
# next token cannot be produced, the rule cannot give it back, and a token of a cycle is confused.

BROKEN = {
    "none": (ONE, {}),
    "pair": (plus(CYC, (["a", "d"], "b")), {"every_token_has_pair": [3]}),
    "function": (
        ([["a"], ["b"], ["a"]], ["b", "a", "c"]),
        {"collocation_is_function": [0, 2], "regeneration": [0, 2]},
    ),
    "injective": (
        ([["a"], ["c"], ["b"], ["a", "c"]], ["c", "a", "c", "c"]),
        {"collocation_is_injective": [0, 2]},
    ),
    "producible": (
        plus(CYC, (["a", "b"], "a"), (["a", "b"], "b")),
        {"next_tokens_producible": [3], "regeneration": [3]},
    ),
    "cycle": (
        CONFLICT,
        {"orders_acyclic": [3, 4], "no_confused_tokens": [3, 4], "regeneration": [3, 4]},
    ),
    "confused": (
        plus(CYC, (["a", "a", "b", "c"], "b"), (["a", "b"], "b"), (["b", "c"], "c")),
        {"no_confused_tokens": [3, 5]},
    ),
    "assumption 3": (
        plus(CYC, (["a", "b"], "b"), (["b", "a", "b"], "b")),
        {"assumption_3": [4], "assumption_3_strict": [4]},
    ),
    "assumption 3, strict": (
        plus(CYC, (["a", "b"], "b"), (["c", "a", "b"], "b"), (["a", "c", "a", "b"], "b")),
        {"assumption_3_strict": [4]},
    ),
}


@pytest.mark.parametrize(("data", "expected"), BROKEN.values(), ids=BROKEN)
def test_each_condition_fails_with_its_witnesses(data, expected):
    report = check_realizable(*data, collocation="single")
    assert _failing(report) == expected
    assert report.realizable is not bool(set(expected) - {"assumption_3", "assumption_3_strict"})
    wrong = len(expected.get("regeneration", []))
    assert_allclose(report.regenerated, 1 - wrong / len(data[0]), rtol=0, atol=1e-15)


@pytest.mark.parametrize(("data", "expected"), BROKEN.values(), ids=BROKEN)
def test_witnesses_are_indices_into_X_also_with_weights_of_zero(data, expected):
    X, y = data
    n = len(X)
    X, y = [["z", "a"], *X[:3], ["z"], *X[3:], ["c", "a"]], ["b", *y[:3], "q", *y[3:], "a"]
    weight = [0, 1, 1, 1, 0, *[1] * (n - 3), 0]
    index = np.flatnonzero(weight).tolist()
    report = check_realizable(X, y, collocation="single", sample_weight=weight)
    assert _failing(report) == {
        name: [index[i] for i in witnesses] for name, witnesses in expected.items()
    }


@pytest.mark.parametrize("form", [as_sequences, lambda X: [tuple(x) for x in X]])
def test_the_report_takes_every_form(form):
    X, y = CONFLICT
    assert str(check_realizable(form(X), np.array(y))) == str(check_realizable(X, y))


def test_the_report_as_text():
    text = str(check_realizable(*ONE))
    assert text.startswith("realizable: yes\n")
    assert "NO" not in text
    text = str(check_realizable(*plus(CONFLICT, (["d"], "b"), (["a", "c"], "e"))))
    lines = {line[6:].split(":")[0].strip(): line for line in text.splitlines()[1:-1]}
    assert text.startswith("realizable: no\n")
    for name, what in {
        "collocation is injective": ["'b' follows 'a', 'd'", "sentences 0, 5"],
        "next tokens producible": ["'e'", "sentence 6"],
        "orders acyclic": ["under query 'b'", "'a', 'b'"],
        "no confused tokens": ["under query 'b'", "'a', 'b'"],
    }.items():
        assert lines[name].strip().startswith("NO"), name
        for part in what:
            assert part in lines[name]
    assert lines["collocation is function"].strip().startswith("ok")
    assert text.splitlines()[-2] == "regenerated: 4 of 7 sentences"


def test_a_cycle_over_several_sentences():
    """a above b, b above c, c above a: in the closure no sentence has a token with none above."""
    X = [["a"], ["b"], ["c"], ["d"], ["a", "b", "d"], ["b", "c", "d"], ["c", "a", "d"]]
    report = check_realizable(X, ["b", "c", "d", "a", "b", "c", "d"])
    assert report.orders_acyclic.witnesses.tolist() == [4, 5, 6]
    assert report.orders_acyclic.reason == "under query 'd' a cycle of 'a', 'b', 'c'"
    assert report.no_confused_tokens.witnesses.tolist() == [4, 5, 6]
    assert report.regeneration.witnesses.tolist() == [4, 5, 6]


def test_tokens_without_a_one_token_sentence_are_named():
    data = plus(ONE, (["d", "b", "e"], "c"))
    report = check_realizable(*data, collocation="single")
    assert report.every_token_has_pair.reason.startswith("no next token of 'd', 'e' ")
    assert _failing(report)["every_token_has_pair"] == [4]
    last = check_realizable(*data, collocation="last").every_token_has_pair
    assert last.reason.startswith("no next token of 'd' ")
    assert check_realizable(*data, collocation="context").every_token_has_pair.holds


FAILS = {
    None: set(),
    "confused": {"no_confused_tokens"},
    "cyclic": {"orders_acyclic", "no_confused_tokens", "regeneration"},
    "minority": {"assumption_3"},
    "non_injective": {"collocation_is_injective"},
}


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("broken", FAILS)
def test_generated_data_fail_as_intended_and_have_the_orders_they_say(broken, seed):
    data = make_realizable_ntp(12, 150, break_assumption=broken, random_state=seed)
    report = check_realizable(data.X, data.y)
    # Among eight tokens the optimal one is seldom as frequent as all others together.
    failing = set(_failing(report))
    assert failing - {"assumption_3_strict"} == FAILS[broken]
    assert failing >= {"assumption_3_strict"}
    assert (report.regenerated == 1) == (broken != "cyclic")
    orders = partial_orders(data.X, data.y)
    assert set(orders) == set(data.partial_orders)
    for query, truth in data.partial_orders.items():
        assert {**_roles(orders[query]), "pairs": orders[query].pairs} == truth


# References


def _kq(data, **params):
    result = max_margin_kq(*data, **params)
    return result, result.coef.toarray()


def test_max_margin_ov():
    result = max_margin_ov(*CYC)
    expected = np.array([[-1, -1, 2], [2, -1, -1], [-1, 2, -1]]) / 3
    assert_allclose(result.coef.toarray() + result.base, expected, rtol=0, atol=1e-15)
    assert_allclose(result.norm, np.sqrt(2), rtol=1e-15, atol=0)
    assert (result.margin, result.gap, result.n_components) == (1.0, 0.0, 3)
    assert result.classes.tolist() == result.vocabulary.tolist() == ["a", "b", "c"]
    assert result.coef.shape == (3, 3)


def test_max_margin_ov_with_several_next_tokens_and_none():
    """k of C = 4 classes: (C - k) / C at those and -k / C elsewhere; d has no next token."""
    X = [["a"], ["a"], ["a"], ["b"], ["a", "d"]]
    result = max_margin_ov(X, ["p", "q", "r", "s", "p"], collocation="single")
    dense = result.coef.toarray() + result.base
    expected = np.array([[1, 1, 1, -3], [-1, -1, -1, 3], [0, 0, 0, 0]]).T / 4
    assert_allclose(dense, expected, rtol=0, atol=1e-15)
    assert_allclose(result.norm, np.sqrt(3 * 1 / 4 + 1 * 3 / 4), rtol=1e-15, atol=0)
    assert_allclose(result.norm, np.linalg.norm(dense), rtol=1e-15, atol=0)
    assert result.n_components == 2


def test_max_margin_ov_without_a_constraint():
    result = max_margin_ov([["a"], ["a"]], ["b", "c"])  # every class follows a
    assert_array_equal(result.coef.toarray() + result.base, np.zeros((2, 1)))
    assert result.margin == np.inf and result.norm == 0


@pytest.mark.parametrize(
    ("data", "column", "expected", "n_components"),
    [
        (ONE, 1, [1 / 2, -1 / 2, 0], 1),
        (CHAIN, 2, [1, 0, -1], 1),
        (TWOQ, 2, [0, 1 / 2, -1 / 2], 2),
        (plus(CYC, (["a", "b", "c"], "b")), 2, [2 / 3, -1 / 3, -1 / 3], 1),
        (plus(CYC, (["a", "c"], "b"), (["b", "c"], "c")), 2, [1 / 3, 1 / 3, -2 / 3], 1),
        (CONFLICT, 1, [0, 0, 0], 1),
    ],
    ids=["one pair", "chain", "two queries", "one above two", "two above one", "cycle"],
)
def test_max_margin_kq(data, column, expected, n_components):
    result, coef = _kq(data)
    assert_allclose(coef[:, column], expected, rtol=0, atol=1e-12)
    assert result.n_components == n_components
    assert result.vocabulary.tolist() == ["a", "b", "c"]
    assert 0 <= result.gap <= 1e-9
    if data is CONFLICT:
        assert result.margin == np.inf  # the pairs inside a cycle constrain nothing
    else:
        assert_allclose(result.margin, 1, rtol=0, atol=1e-9)


def test_active_constraints_of_kq_are_those_with_margin_1():
    reference = max_margin_kq(*CHAIN)
    assert reference.n_constraints == 3  # a > b, b > c and the implied a > c, with margin 2
    assert reference.active == [("c", "a", "b"), ("c", "b", "c")]
    conflict = max_margin_kq(*CONFLICT)
    assert (conflict.n_constraints, conflict.active) == (2, [])
    unknown = max_margin_kq(*plus(CYC, (["a", "z", "b"], "b")), vocabulary=["c", "b", "a"])
    assert unknown.active == [("b", "a", "b"), ("b", "a", None)]
    assert reference.seconds > 0


@pytest.mark.parametrize("seed", range(5))
def test_active_constraints_of_kq_agree_with_the_matrix(seed):
    data = make_realizable_ntp(10, 80, break_assumption="confused", random_state=seed)
    reference, coef = _kq((data.X, data.y))
    pairs = [
        (query, above, below)
        for query, order in partial_orders(data.X, data.y).items()
        for above, below in order.pairs
    ]
    margins = {(q, a, b): coef[a, q] - coef[b, q] for q, a, b in pairs}
    assert reference.n_constraints == len(pairs)
    assert reference.active == [pair for pair in pairs if margins[pair] < 1 + 1e-9]
    assert len(reference.active) < len(pairs)
    assert_allclose([margins[pair] for pair in reference.active], 1, rtol=0, atol=1e-12)


def test_all_constraints_of_ov_are_active():
    X, y = [["a"], ["a"], ["b"], ["c", "b"]], ["p", "q", "q", "r"]
    reference = max_margin_ov(X, y, collocation="single")
    coef = reference.coef.toarray() + reference.base
    assert reference.active == [("a", "p", "r"), ("a", "q", "r"), ("b", "q", "p"), ("b", "q", "r")]
    assert reference.n_constraints == 4
    row, column = (
        {name: i for i, name in enumerate(names.tolist())}
        for names in (reference.classes, reference.vocabulary)
    )
    for token, label, other in reference.active:
        margin = coef[row[label], column[token]] - coef[row[other], column[token]]
        assert margin == pytest.approx(1, abs=1e-15)
    assert max_margin_ov([["a"], ["a"]], ["b", "c"]).active == []
    assert reference.seconds > 0


def test_max_margin_kq_without_orders():
    result, coef = _kq(CYC)
    assert_array_equal(coef, np.zeros((3, 3)))
    assert (result.margin, result.gap, result.n_components) == (np.inf, 0.0, 0)


def test_max_margin_kq_of_two_components_under_one_query():
    """Under q: a above b, and c above d; q itself is below both, which joins all of them."""
    X = [["a"], ["b"], ["c"], ["d"], ["q"], ["a", "b", "q"], ["c", "d", "q"]]
    y = ["A", "B", "C", "D", "Q", "A", "C"]
    result, coef = _kq((X, y))
    # min 2 u^2 + 2 v^2 + w^2 with u - v = 1 and u - w = 1: u = 3/5.
    assert_allclose(coef[:, 4], [3 / 5, -2 / 5, 3 / 5, -2 / 5, -2 / 5], rtol=0, atol=1e-12)
    assert result.n_components == 1
    X, y = [*X[:5], ["a", "q"], ["c", "d", "a"]], [*y[:5], "A", "C"]
    assert _kq((X, y))[0].n_components == 2


def test_max_margin_kq_fixes_tokens_outside_the_vocabulary_at_zero():
    """w_a - w_b >= 1 and w_a - 0 >= 1."""
    result, coef = _kq(plus(CYC, (["a", "z", "b"], "b")), vocabulary=["c", "b", "a"])
    assert_allclose(coef[:, 1], [0, 0, 1], rtol=0, atol=1e-12)
    assert result.vocabulary.tolist() == ["c", "b", "a"]


@pytest.mark.parametrize("function", [max_margin_ov, max_margin_kq])
def test_references_leave_out_weights_of_zero(function):
    result = function(*CONFLICT, sample_weight=[1, 1, 1, 1, 0])
    assert_array_equal(result.coef.toarray(), function(*ONE).coef.toarray())
    with_z = function(*plus(ONE, (["z"], "z")), sample_weight=[1, 1, 1, 1, 0])
    assert with_z.vocabulary.tolist() == ["a", "b", "c"]


@pytest.mark.parametrize(
    "function", [partial_orders, check_realizable, max_margin_ov, max_margin_kq]
)
@pytest.mark.parametrize(
    ("args", "params", "match"),
    [
        (([["a"], []], ["a", "b"]), {}, "Sentence 1 is empty"),
        ((["ab"], ["a"]), {}, "split into tokens"),
        (([], []), {}, "0 sample"),
        (CYC, {"sample_weight": [1, -1, 1]}, "sample_weight must not be negative"),
        (([["a", "b"]], ["a"]), {"collocation": "single"}, "collocation='single'"),
        (CYC, {"collocation": "first"}, "collocation"),
        (CYC, {"vocabulary": ["a", "a"]}, "vocabulary must hold distinct tokens; 'a'"),
    ],
    ids=["empty", "string", "none", "weight", "no pair", "collocation", "vocabulary"],
)
def test_bad_input_is_named(function, args, params, match):
    with pytest.raises(ValueError, match=match):
        function(*args, **params)


def test_the_report_says_where_the_collocation_comes_from():
    X, y = [["a"], ["b"], ["c"], ["a", "b"]], ["b", "c", "a", "b"]
    report = check_realizable(X, y)
    assert report.collocation_mode == "single"
    assert str(report).splitlines()[-1] == "collocation: 'single'"
    report = check_realizable([*X, ["b", "d"]], [*y, "c"])
    assert report.collocation_mode == "last"
    assert str(report).splitlines()[-1] == "collocation: 'last'; no one-token sentence for 'd'"


def test_an_unknown_query_has_no_order():
    data = plus(ONE, (["a", "b", "z"], "b"))
    names = {"vocabulary": ["a", "b", "c"], "collocation": "single"}
    assert list(partial_orders(*data, **names)) == ["a", "b", "c"]
    reference = max_margin_kq(*data, **names)
    assert reference.n_components == 1
    assert_allclose(reference.coef.toarray(), max_margin_kq(*ONE).coef.toarray(), rtol=0, atol=0)


def test_results_can_be_compared():
    for function in (max_margin_ov, max_margin_kq, check_realizable):
        one, other = function(*ONE), function(*ONE)
        assert one == one and one != other and len({one, other}) == 2
