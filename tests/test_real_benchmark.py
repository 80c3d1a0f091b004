"""The benchmark on real sequences: its n-grams against literal formulas, and its protocol."""

import importlib
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal

ROOT = Path(__file__).parents[1]


@pytest.fixture
def script(monkeypatch):
    """Import a script by its name, as `python benchmarks/NAME.py` would."""
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    yield importlib.import_module
    for path in (ROOT / "benchmarks").glob("*.py"):
        sys.modules.pop(path.stem, None)


def corpus(seed, n=60, tokens="abcd"):
    """Sequences of a chain that prefers to go on with the next letter."""
    rng = np.random.default_rng(seed)
    sequences = []
    for _ in range(n):
        codes = [rng.integers(len(tokens))]
        for _ in range(rng.integers(1, 9)):
            codes.append((codes[-1] + rng.choice(3, p=[0.2, 0.7, 0.1])) % len(tokens))
        sequences.append([tokens[code] for code in codes])
    return sequences


def pairs(sequences):
    return [(s[:i], s[i]) for s in sequences for i in range(1, len(s))]


class Literal:
    """N-grams by their formulas, one count after the other; histories are tuples, oldest first."""

    def __init__(self, data, order):
        self.order = order
        self.classes = sorted({label for _, label in data})
        self.raw = Counter()
        for context, label in data:
            for history in self.histories(context):
                self.raw[history, label] += 1

    def histories(self, context):
        """All that the last order - 1 tokens end with; a start token stands before the first."""
        context = ["<s>", *context]
        return [
            tuple(context[len(context) - k :]) for k in range(min(self.order, len(context) + 1))
        ]

    def after(self, counts, history):
        return {y: c for (h, y), c in counts.items() if h == history}

    def proba(self, context, mix):
        """p(y | history) from p(y | history without its oldest token), the shortest one first."""
        p = dict.fromkeys(self.classes, 1 / len(self.classes))
        for history in self.histories(context):
            counts = self.after(self.raw, history)
            if counts:
                p = mix(self, history, p)
        return [p[y] for y in self.classes]


def literal_additive(ngram, history, p):
    """(c + 0.3) / (n + 0.3 C) after the longest history, none before."""
    if len(history) < ngram.order - 1:
        return p
    counts, n_classes = ngram.after(ngram.raw, history), len(ngram.classes)
    total = sum(counts.values()) + 0.3 * n_classes
    return {y: (counts.get(y, 0) + 0.3) / total for y in ngram.classes}


def literal_witten_bell(ngram, history, p):
    """(c + t p) / (n + t), t the number of different next tokens."""
    counts = ngram.after(ngram.raw, history)
    total = sum(counts.values()) + len(counts)
    return {y: (counts.get(y, 0) + len(counts) * p[y]) / total for y in ngram.classes}


def literal_kneser_ney(ngram, history, p):
    """(c - D(c)) / n + p times the share taken, c counting what stands before where it can."""
    before = Counter((h[1:], y) for h, y in ngram.raw if h)
    counts = {
        (h, y): c if len(h) == ngram.order - 1 or h[:1] == ("<s>",) else before[h, y]
        for (h, y), c in ngram.raw.items()
        if len(h) == len(history)
    }
    n = Counter(counts.values())
    D = {1: 0.5, 2: 1.0, 3: 1.5}
    if n[1] * n[2] * n[3] * n[4] > 0:
        Y = n[1] / (n[1] + 2 * n[2])
        estimate = {i: i - (i + 1) * Y * n[i + 1] / n[i] for i in (1, 2, 3)}
        if all(0 <= estimate[i] <= i for i in estimate):
            D = estimate
    here = ngram.after(counts, history)
    total, taken = sum(here.values()), sum(D[min(c, 3)] for c in here.values())
    return {
        y: (here[y] - D[min(here[y], 3)] if y in here else 0) / total + taken / total * p[y]
        for y in ngram.classes
    }


@pytest.mark.parametrize("order", [1, 2, 3, 5])
@pytest.mark.parametrize("mix", [literal_additive, literal_witten_bell, literal_kneser_ney])
def test_ngrams_are_their_formulas(script, mix, order):
    ngrams = script("ngrams")
    for seed, n in ((0, 60), (1, 12)):
        data = pairs(corpus(seed, n))
        smoothing = mix.__name__.removeprefix("literal_")
        clf = ngrams.NGramClassifier(order, smoothing, alpha=0.3).fit(*zip(*data, strict=True))
        literal = Literal(data, order)
        assert clf.classes_.tolist() == literal.classes
        X = [context for context, _ in pairs(corpus(seed + 2, 20, "abcde"))]  # "e" is unknown
        expected = [literal.proba(context, mix) for context in X]
        assert_allclose(clf.predict_proba(X), expected, rtol=1e-12)
        assert_allclose(clf.predict_proba(X).sum(axis=1), 1.0, rtol=1e-12)


def test_discounts_are_estimated_where_they_can_be(script):
    discounts = script("ngrams").discounts
    assert_array_equal(discounts(np.array([1.0, 1.0, 5.0])), [0.5, 1.0, 1.5])
    counts = np.repeat([1.0, 2.0, 3.0, 4.0, 9.0], [8, 4, 2, 1, 7])
    assert_allclose(discounts(counts), [1 - 2 * 0.5 * 4 / 8, 2 - 3 * 0.5 * 2 / 4, 3 - 4 * 0.5 / 2])


@pytest.mark.parametrize("smoothing", ["additive", "witten_bell", "kneser_ney"])
def test_contexts_shorter_than_the_order(script, smoothing):
    clf = script("ngrams").NGramClassifier(8, smoothing).fit([["a"], ["b"]] * 3, list("babbaa"))
    assert_allclose(clf.predict_proba([["a"], ["c"], ["a", "b", "a"]]).sum(axis=1), 1.0)


def test_the_split(script):
    protocol = script("protocol")
    sequences = [[f"s{i}", "x", f"s{i}"] for i in range(200)] + [["alone"]] * 50
    training, test = protocol.split(sequences, 0)
    # The part is told by the first token of its contexts; of 200 sequences 40 are test.
    parts = [
        {context[0] for context in part}
        for part in (training.X[~training.validation], training.X[training.validation], test.X)
    ]
    assert [len(part) for part in parts[:2]] == [144, 16]
    assert parts[2] == {"<unk>"}  # seen in training only as themselves
    assert test.y.tolist() == ["x"] * 40
    assert not parts[0] & parts[1]
    assert len(training.y) == 320
    again, _ = protocol.split(sequences, 0)
    assert_array_equal(again.X, training.X)
    other, _ = protocol.split(sequences, 1)
    assert not np.array_equal(other.y, training.y)
    (fit, validation), *_ = training.cv.split()
    assert_array_equal(validation, np.flatnonzero(training.validation))
    assert len(fit) + len(validation) == 320


def test_as_many_pairs_as_the_protocol_has(script):
    protocol = script("protocol")
    training, test = protocol.split([["a", "b"] * 50 + ["c"]] * 1000, 0)
    assert len(training.y) + len(test.y) == 40_000
    assert max(map(len, training.X)) == 20
    assert_array_equal(np.unique(training.groups), np.arange(320))


def test_the_vocabulary(script):
    vocabulary = script("protocol").vocabulary
    few = [["a", "a", "b"], ["once"]]
    assert vocabulary(few) == {"a", "b", "once"}
    rare = [[f"r{i}"] * 2 for i in range(600)]
    assert vocabulary([*rare, ["a"] * 3]) == {"a"}
    many = [[f"m{i}"] * (3 + i) for i in range(600)]
    assert vocabulary(many) == {f"m{i}" for i in range(100, 600)}


def test_a_file_is_read(script, tmp_path):
    path = tmp_path / "log.txt"
    path.write_bytes("a b  é\n\n \nb\tc\r\nd".encode())
    assert script("protocol").read(path) == [["a", "b", "é"], ["b", "c"], ["d"]]


@pytest.mark.parametrize(
    "text, match",
    [
        (b"\n \n", "one sequence a line; got no token"),
        (b"\xff\xfea", "must be text in UTF-8"),
        (b"a b\nc\nd\na\n", "1 of 4 sequences"),
        (b"a a a\n" * 20, "two different next tokens .* got .* 1 next tokens"),
        (b"a b\na c\nd e\n", "two different next tokens"),
    ],
)
def test_files_without_enough_in_them(script, tmp_path, text, match):
    protocol, path = script("protocol"), tmp_path / "log.txt"
    path.write_bytes(text)
    with pytest.raises(ValueError, match=match):
        protocol.split(protocol.read(path), 0)


def test_ranks_prefer_the_commoner_of_equal_tokens(script):
    protocol = script("protocol")

    class Model:
        classes_ = np.array(["a", "b", "c"])

        def predict_proba(self, X):
            return np.array([[0.2, 0.4, 0.4]] * len(X))

    y = np.array(["c", "c", "b", "a"])
    training = protocol.Training(np.empty(4, object), y, np.arange(4), np.zeros(4, bool))
    test = protocol.Pairs(np.empty(4, object), np.array(["a", "b", "c", "new"]), np.arange(4))
    assert protocol.ranks(Model(), test, training).tolist() == [2, 1, 0, np.inf]


def test_a_line_for_every_model(script, tmp_path, monkeypatch):
    real, path = script("real"), tmp_path / "log.txt"
    path.write_text("\n".join(map(" ".join, corpus(0, 300))))
    monkeypatch.setattr(real, "in_subprocess", lambda function, *args: function(*args))
    peers = {name: real.MODELS[name] for name in list(real.MODELS)[:6]}
    monkeypatch.setattr(real, "MODELS", {**peers, "broken": lambda training: 1 / 0})
    *lines, broken = real.lines_of(path, [0, 1])
    assert [line[0] for line in lines] == list(peers)
    assert all(len(line) == len(real.HEADER) for line in lines)
    assert "**failed**: ZeroDivisionError" in broken[1]
    losses = [float(line[4]) for line in lines]
    assert max(losses[1:]) < losses[0] < np.log(4) + 0.01
    assert "training and" in real.heading(path, [0])[0]


@pytest.mark.parametrize("command", [["-m", "benchmarks.real"], ["benchmarks/real.py"]])
def test_the_command_says_what_is_wrong_with_a_file(tmp_path, command):
    path = tmp_path / "empty.txt"
    path.write_text("\n")
    run = [sys.executable, *command, str(path)]
    done = subprocess.run(run, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "got no token" in done.stderr


@pytest.mark.parametrize("grid", ["FEW", "MANY"])
def test_the_n_gram_among_our_candidates_is_the_kneser_ney_peer(script, tmp_path, grid):
    real, protocol, ngrams = script("real"), script("protocol"), script("ngrams")
    path = tmp_path / "log.txt"
    path.write_text("\n".join(map(" ".join, corpus(3, n=300))))
    training, test = protocol.split(protocol.read(path), 0)
    candidate = getattr(real, grid)[-1]
    assert candidate["classifier__stages"] == [("ov",)]
    # At its attention_start a little attention is left to shorter n-grams; far beyond it, none.
    fixed = {name: values[0] for name, values in candidate.items()}
    fixed |= {"classifier__attention_start": 300.0, "ngrams__max_n": 3}
    ours = real.make_next_token_pipeline().set_params(**fixed).fit(training.X, training.y)
    peer = ngrams.NGramClassifier(order=4).fit(training.X, training.y)
    assert_array_equal(ours.classes_, peer.classes_)
    # Both have one start token; they differ in the distribution that single tokens back off to.
    assert_allclose(ours.predict_proba(test.X), peer.predict_proba(test.X), atol=2e-3, rtol=0)


def test_tokens_that_the_pipeline_writes_itself_are_spelt_otherwise(script, tmp_path):
    protocol, path = script("protocol"), tmp_path / "log.txt"
    path.write_text("<s> a→b a@0 <unk>\n", encoding="utf-8")
    assert protocol.read(path) == [["‹s›", "a⇒b", "a＠0", "‹unk›"]]
