"""Generated data against a literal reading of the definitions, and tokens of real source."""

import tokenize
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

import sklntp.datasets
from sklntp.datasets import load_python_tokens, make_realizable_ntp

SEEDS = range(20)
FAILS = {
    None: set(),
    "confused": {"no confused token"},
    "cyclic": {"acyclic", "no confused token"},  # a token of a cycle is above and below another
    "minority": {"assumption 3"},
    "non_injective": {"injective"},
}


class BruteForce:
    """Collocation, partial orders, roles and assumptions, from their definitions."""

    def __init__(self, X, y):
        self.X, self.y = X, [int(label) for label in y]
        self.tokens = sorted({x for sentence in X for x in sentence})
        self.n = {x: set() for x in self.tokens}
        for sentence, label in zip(self.X, self.y, strict=True):
            if len(sentence) == 1:
                self.n[sentence[0]].add(label)
        self.pairs = {sentence[-1]: set() for sentence in X}
        for sentence, label in zip(self.X, self.y, strict=True):
            for x in set(sentence):
                for u in set(sentence):
                    if label in self.n[x] and label not in self.n[u]:
                        self.pairs[sentence[-1]].add((x, u))
        self.closure = {query: self._close(pairs) for query, pairs in self.pairs.items()}

    @staticmethod
    def _close(pairs):
        closure = set(pairs)
        while True:
            new = {(a, d) for a, b in closure for c, d in closure if b == c} - closure
            if not new:
                return closure
            closure |= new

    def roles(self, query):
        above = {x for x, _ in self.closure[query]}
        below = {x for _, x in self.closure[query]}
        return {
            "optimal": sorted(above - below),
            "non_optimal": sorted(below - above),
            "confused": sorted(above & below),
            "non_comparable": [x for x in self.tokens if x not in above | below],
        }

    def failing(self):
        """Names of the assumptions that do not hold."""
        nexts = [y for x in self.tokens for y in self.n[x]]
        roles = {query: self.roles(query) for query in self.pairs}
        holds = {
            "every token has a pair": all(self.n[x] for x in self.tokens),
            "function": all(len(self.n[x]) <= 1 for x in self.tokens),
            "injective": len(nexts) == len(set(nexts)),
            "producible": all(
                any(label in self.n[x] for x in sentence)
                for sentence, label in zip(self.X, self.y, strict=True)
            ),
            "acyclic": all(a != b for closure in self.closure.values() for a, b in closure),
            "no confused token": not any(role["confused"] for role in roles.values()),
            "assumption 3": all(
                sentence.count(x) >= sentence.count(u)
                for sentence in self.X
                for x in sentence
                for u in sentence
                if x in roles[sentence[-1]]["optimal"] and u in roles[sentence[-1]]["non_optimal"]
            ),
        }
        return {name for name, value in holds.items() if not value}

    def regenerated(self, sentence):
        """n of the optimal token of a sentence, None unless there is exactly one."""
        optimal = set(self.roles(sentence[-1])["optimal"]) & set(sentence)
        if len(set(sentence)) == 1:
            optimal = set(sentence)
        labels = {label for x in optimal for label in self.n[x]}
        return labels.pop() if len(optimal) == len(labels) == 1 else None

    def top(self, sentence):
        """The token that the theory puts on top of a sentence, None if it does not decide."""
        query, tokens = sentence[-1], set(sentence)
        roles = self.roles(query)
        if any(a == b for a, b in self.closure[query]):
            return None
        if roles["confused"]:
            best = [x for x in tokens if all((x, u) in self.closure[query] for u in tokens - {x})]
            return best[0] if best else None
        for role in ("optimal", "non_comparable", "non_optimal"):
            found = tokens & set(roles[role])
            if found:
                return found.pop() if len(found) == 1 else None
        return None


def _context(sentence):
    return sentence[-1], tuple(sorted(sentence))


def _assert_sound(data, n_tokens, max_length):
    """What holds for all generated data; returns the brute force and what it finds violated."""
    brute = BruteForce(data.X, data.y)
    assert data.X[:n_tokens] == [[x] for x in range(n_tokens)]
    assert all(2 <= len(sentence) <= max_length for sentence in data.X[n_tokens:])
    assert {x: {y} for x, y in data.collocation.items()} == brute.n
    assert list(data.partial_orders) == list(range(n_tokens))
    for query, order in data.partial_orders.items():
        assert {**order, "pairs": set(order["pairs"])} == {
            **brute.roles(query),
            "pairs": brute.pairs[query],
        }
    assert len(data.X_unseen) == len(data.y_unseen)
    seen = {_context(sentence) for sentence in data.X}
    for sentence, label in zip(data.X_unseen, data.y_unseen, strict=True):
        assert 2 <= len(sentence) <= max_length
        assert _context(sentence) not in seen
        top = brute.top(sentence)
        assert top is not None
        assert label == data.collocation[top]
        assert sentence.count(top) == max(Counter(sentence).values())
    return brute, brute.failing()


def _producer_share(brute):
    """Share of the longer sentences in which the token that gives y is outnumbered by another."""
    outnumbered = [
        max(sentence.count(x) for x in sentence if label in brute.n[x])
        < max(Counter(sentence).values())
        for sentence, label in zip(brute.X, brute.y, strict=True)
        if len(sentence) > 1
    ]
    return np.mean(outnumbered)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("broken", FAILS)
def test_exactly_the_intended_assumption_fails(broken, seed):
    data = make_realizable_ntp(12, 150, break_assumption=broken, random_state=seed)
    assert len(data.X) == len(data.y) == 150
    assert data.y.dtype == data.y_unseen.dtype == np.int64
    brute, failing = _assert_sound(data, n_tokens=12, max_length=8)
    assert failing == FAILS[broken]
    assert len(data.X_unseen) == 150
    assert all(len(set(sentence)) > 1 for sentence in data.X[12:])
    if broken == "minority":
        assert 0.4 < _producer_share(brute) < 0.6
    else:
        assert _producer_share(brute) == 0
    if broken in (None, "minority", "non_injective"):
        assert [brute.regenerated(sentence) for sentence in data.X] == brute.y
    if broken == "confused":
        tops = [brute.top(sentence) for sentence in data.X[12:]]
        assert [data.collocation[top] for top in tops] == brute.y[12:]


@pytest.mark.parametrize("broken", ["confused", "cyclic"])
def test_some_orders_are_broken_and_some_are_not(broken):
    data = make_realizable_ntp(break_assumption=broken, random_state=0)
    with_confused = [q for q, order in data.partial_orders.items() if order["confused"]]
    assert len(with_confused) == 6
    unseen = {sentence[-1] for sentence in data.X_unseen}
    assert unseen - set(with_confused)
    # A three-level order decides some unseen sentences, a cycle decides none.
    assert bool(unseen & set(with_confused)) == (broken == "confused")
    in_the_middle = {q in data.partial_orders[q]["confused"] for q in with_confused}
    assert False in in_the_middle


def test_two_tokens_share_their_next_token():
    data = make_realizable_ntp(break_assumption="non_injective", random_state=0)
    shares = Counter(Counter(data.collocation.values()).values())
    assert shares == {1: 18, 2: 1}


@pytest.mark.parametrize("seed", SEEDS)
def test_unseen_sentences_with_and_without_non_comparable_tokens(seed):
    data = make_realizable_ntp(random_state=seed)
    cases = Counter()
    for sentence in data.X_unseen:
        order = data.partial_orders[sentence[-1]]
        if set(sentence) & set(order["non_comparable"]):
            cases["below" if set(sentence) & set(order["optimal"]) else "on top"] += 1
        else:
            cases["none"] += 1
    assert cases["on top"] >= 10
    assert cases["below"] >= 10
    assert 0.33 <= 1 - cases["none"] / 200 <= 0.6


@pytest.mark.parametrize("seed", SEEDS)
def test_prefix_closed_data_are_realizable_and_hold_every_prefix(seed):
    data = make_realizable_ntp(prefix_closed=True, random_state=seed)
    brute, failing = _assert_sound(data, n_tokens=20, max_length=8)
    assert failing == set()
    assert [brute.regenerated(sentence) for sentence in data.X] == brute.y
    samples = dict(zip(map(tuple, data.X), brute.y, strict=True))
    assert len(samples) == len(data.X)
    assert 20 < len(data.X) < 60
    for sentence in samples:
        assert len(sentence) == 1 or samples[sentence[:-1]] == sentence[-1]


def test_n_sentences_and_max_length_bound_prefix_closed_data():
    data = make_realizable_ntp(100, 1000, prefix_closed=True, random_state=6)
    assert max(map(len, data.X)) >= 4
    fewer = make_realizable_ntp(100, 120, prefix_closed=True, random_state=6)
    assert fewer.X == data.X[:120]
    shorter = make_realizable_ntp(100, 1000, max_length=3, prefix_closed=True, random_state=6)
    assert shorter.X == [sentence for sentence in data.X if len(sentence) <= 3]


@pytest.mark.parametrize("shares", [(0.3, 0.5), (0.05, 0.95), (0.95, 0.05), (0.01, 0.01)])
@pytest.mark.parametrize(
    ("n_tokens", "max_length", "broken"),
    [
        (n_tokens, max_length, broken)
        for n_tokens in (2, 3, 7)
        for max_length in (2, 3, 20)
        for broken in FAILS
        if n_tokens > 2 or broken not in ("confused", "non_injective")
        if max_length > 2 or broken != "minority"
    ],
)
def test_small_vocabularies_and_extreme_shares(n_tokens, max_length, broken, shares):
    for seed in range(3):
        data = make_realizable_ntp(
            n_tokens,
            n_tokens + 12,
            max_length=max_length,
            optimal=shares[0],
            non_optimal=shares[1],
            break_assumption=broken,
            random_state=seed,
        )
        assert len(data.X) == n_tokens + 12
        _, failing = _assert_sound(data, n_tokens, max_length)
        assert failing == FAILS[broken]


@pytest.mark.parametrize(("broken", "extra"), [("confused", 2), ("cyclic", 2), ("minority", 1)])
def test_the_fewest_sentences_that_break_an_assumption(broken, extra):
    for seed in SEEDS:
        data = make_realizable_ntp(5, 5 + extra, break_assumption=broken, random_state=seed)
        assert _assert_sound(data, 5, 8)[1] == FAILS[broken]
    with pytest.raises(ValueError, match=f"n_sentences must be at least {5 + extra} with 5 one-"):
        make_realizable_ntp(5, 4 + extra, break_assumption=broken)


def test_shares_of_the_roles():
    data = make_realizable_ntp(30, 9000, optimal=0.2, non_optimal=0.5, random_state=0)
    for query, order in data.partial_orders.items():
        assert len(order["non_optimal"]) == 15
        assert len(order["optimal"]) == (1 if query in order["optimal"] else 6)
    n_optimal = sum(q in order["optimal"] for q, order in data.partial_orders.items())
    assert 1 <= n_optimal < 15  # drawn with probability 2/7


def test_only_one_token_sentences_show_no_order():
    data = make_realizable_ntp(6, 6, random_state=0)
    assert data.X == [[x] for x in range(6)]
    assert data.X_unseen == []
    assert data.y_unseen.shape == (0,)
    assert all(order["non_comparable"] == list(range(6)) for order in data.partial_orders.values())


@pytest.mark.parametrize("kwargs", [{}, {"prefix_closed": True}, {"break_assumption": "cyclic"}])
def test_equal_seeds_give_equal_data(kwargs):
    def values(random_state):
        data = make_realizable_ntp(random_state=random_state, **kwargs)
        return {name: getattr(part, "tolist", lambda p=part: p)() for name, part in data.items()}

    assert values(3) == values(3) == values(np.random.RandomState(3))
    assert values(3)["X"] != values(4)["X"] or values(3)["y"] != values(4)["y"]


def test_sentences_are_plain_ints():
    data = make_realizable_ntp(random_state=0)
    assert {type(x) for sentence in data.X + data.X_unseen for x in sentence} == {int}
    assert "200 sentences" in data.DESCR


def test_sentences_and_their_tokens_come_in_random_order():
    data = make_realizable_ntp(break_assumption="confused", random_state=0)
    broken = [bool(data.partial_orders[sentence[-1]]["confused"]) for sentence in data.X[20:]]
    assert sum(broken[:12]) < 12  # each of six broken orders has two sentences of its own
    producer = {y: x for x, y in data.collocation.items()}
    tops = [producer[y] for y in data.y]
    place = [s.index(top) / (len(s) - 1) for s, top in zip(data.X, tops, strict=True) if len(s) > 3]
    assert 0.2 < np.mean(place) < 0.6


@pytest.mark.parametrize(
    ("kwargs", "error", "match"),
    [
        ({"n_tokens": 1}, ValueError, "n_tokens must be at least 2 .*got 1"),
        ({"n_tokens": 5.0}, TypeError, "n_tokens must be an integer; got float 5.0"),
        ({"n_sentences": 19}, ValueError, "n_sentences must be at least 20 with 20 one-token sent"),
        ({"n_sentences": True}, TypeError, "n_sentences must be an integer; got bool True"),
        ({"max_length": 1}, ValueError, "max_length must be at least 2 .*got 1"),
        ({"max_length": None}, TypeError, "max_length must be an integer; got NoneType None"),
        ({"optimal": 0}, ValueError, "optimal and non_optimal must be shares .*got 0 and 0.5"),
        ({"optimal": 0.6}, ValueError, "add up to at most 1; got 0.6 and 0.5"),
        ({"optimal": float("nan")}, ValueError, "optimal and non_optimal must be shares"),
        ({"optimal": "all"}, TypeError, "optimal must be a number; got str 'all'"),
        ({"non_optimal": 1.0}, ValueError, "optimal and non_optimal must be shares"),
        ({"non_optimal": None}, TypeError, "non_optimal must be a number; got NoneType None"),
        ({"prefix_closed": 1}, TypeError, "prefix_closed must be True or False; got int"),
        ({"break_assumption": "all"}, ValueError, "break_assumption must be one of.*got 'all'"),
        (
            {"break_assumption": "cyclic", "prefix_closed": True},
            ValueError,
            "break_assumption='cyclic' is not possible with prefix_closed=True",
        ),
        (
            {"break_assumption": "minority", "max_length": 2},
            ValueError,
            "max_length must be at least 3 .*'minority'; got 2",
        ),
        (
            {"break_assumption": "confused", "n_tokens": 2},
            ValueError,
            "n_tokens must be at least 3 .*'confused'; got 2",
        ),
        (
            {"break_assumption": "non_injective", "n_tokens": 2},
            ValueError,
            "n_tokens must be at least 3 .*'non_injective'; got 2",
        ),
    ],
)
def test_bad_parameters(kwargs, error, match):
    with pytest.raises(error, match=match):
        make_realizable_ntp(**kwargs)


@pytest.fixture
def write_module(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(tmp_path)

    def write(name, source, encoding="utf-8"):
        path = Path(tmp_path, *name.split(".")).with_suffix(".py")
        path.parent.mkdir(exist_ok=True)
        path.write_text(source, encoding=encoding)

    return write


def test_logical_lines_of_a_module(write_module):
    write_module(
        "sklntp_written",
        '"""A docstring."""\n'
        "import os; raise SystemExit  # never executed\n"
        "\n"
        "def f(a,\n"
        "      b=1.5):\n"
        "    # a comment\n"
        "    if a is not None:\n"
        "        return a ** b, 'x' \"y\"\n"
        "match = lambda: 0x1f  # a soft keyword is a name",
    )
    data = load_python_tokens(["sklntp_written"])
    assert data.modules == ["sklntp_written"]
    assert "1 modules" in data.DESCR
    assert [" ".join(sequence) for sequence in data.sequences] == [
        "STRING NEWLINE",
        "import NAME ; raise NAME NEWLINE",
        "def NAME ( NAME , NAME = NUMBER ) : NEWLINE",
        "if NAME is not None : NEWLINE",
        "return NAME ** NAME , STRING STRING NEWLINE",
        "NAME = lambda : NUMBER NEWLINE",
    ]


def test_fstrings_are_one_string_in_every_version(write_module):
    write_module("sklntp_fstring", "x = f'{a!r:>{width}} {b + 1}' 'c'\ny = f''\n")
    lines = load_python_tokens(["sklntp_fstring"]).sequences
    assert lines == [
        ["NAME", "=", "STRING", "STRING", "NEWLINE"],
        ["NAME", "=", "STRING", "NEWLINE"],
    ]


def test_nested_fstring_pieces_are_folded():
    pieces = [
        ("NAME", "return"),
        ("FSTRING_START", "f'"),
        ("FSTRING_MIDDLE", "a"),
        ("OP", "{"),
        ("FSTRING_START", 'f"'),
        ("OP", "{"),
        ("NAME", "lambda"),
        ("OP", "}"),
        ("FSTRING_END", '"'),
        ("NL", "\n"),
        ("OP", "}"),
        ("FSTRING_END", "'"),
        ("OP", "+"),
        ("TSTRING_START", "t'"),
        ("TSTRING_MIDDLE", "b"),
        ("TSTRING_END", "'"),
        ("NEWLINE", "\n"),
        ("ENDMARKER", ""),
    ]
    lines = sklntp.datasets._logical_lines(pieces)
    assert lines == [["return", "STRING", "+", "STRING", "NEWLINE"]]


def test_source_in_another_encoding(write_module):
    source = "# -*- coding: latin-1 -*-\nx = 'é'\n"
    write_module("sklntp_latin", source, encoding="latin-1")
    assert load_python_tokens(["sklntp_latin"]).sequences == [["NAME", "=", "STRING", "NEWLINE"]]


def test_dotted_names_and_several_modules():
    both = load_python_tokens(["json.decoder", "os"])
    parts = [
        load_python_tokens([name]).sequences for name in ("json.decoder", "os")
    ]  # os is frozen
    assert both.sequences == parts[0] + parts[1]
    assert both.sequences[0] == ["STRING", "NEWLINE"]
    assert min(map(len, parts)) > 30


def test_default_modules():
    data = load_python_tokens()
    assert len(data.modules) == 12
    assert 8_000 < len(data.sequences) < 20_000
    assert {sequence[-1] for sequence in data.sequences} == {"NEWLINE"}
    assert min(map(len, data.sequences)) >= 2
    tokens = {token for sequence in data.sequences for token in sequence}
    assert {"def", "NAME", "NUMBER", "STRING", "("} <= tokens
    assert not tokens & (set(tokenize.tok_name.values()) - {"NAME", "NUMBER", "STRING", "NEWLINE"})
    assert len(tokens) < 100


@pytest.mark.parametrize(
    ("modules", "error", "match"),
    [
        (["bisect", "sys"], ValueError, "'sys' has no Python source file .*built-in"),
        (["no_such_module"], ValueError, "no module 'no_such_module'"),
        (["no_such_package.part"], ValueError, "cannot find the module 'no_such_package.part'"),
        (["bisect.part"], ValueError, "cannot find the module 'bisect.part'"),
        ([""], ValueError, "cannot find the module ''"),
        ("bisect", TypeError, "sequence of module names; got the string 'bisect'"),
        ([3], TypeError, "modules must hold strings; got int 3"),
    ],
)
def test_modules_without_source(modules, error, match):
    with pytest.raises(error, match=match):
        load_python_tokens(modules)
