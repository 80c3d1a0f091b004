"""The closed form of stage 1 against Kneser-Ney smoothing written out with dicts and loops."""

import itertools
import math
from collections import defaultdict

import numpy as np
import pytest
from data import assert_same_fit
from numpy.testing import assert_allclose, assert_array_equal
from oracle import mean_loss
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from sklntp import NTPTransformerClassifier, _memory
from sklntp._ngrams import suffixes
from sklntp.preprocessing import ContextWindow, LastNGram, NGramTokens, PositionTagger

SEEDS = range(4)
EXACT = {"rtol": 0, "atol": 1e-12}


def _smoothed(X, y, weight=None, **params):
    params = {"stages": ("ov",), "smoothing": "kneser-ney", "collocation": "context"} | params
    return NTPTransformerClassifier(**params).fit(X, y, weight)


# The formula, literally


def _literal_discounts(sizes):
    """D_1, D_2, D_3 from a list of counts; 0.5, 1, 1.5 where the estimates make no sense."""
    n = [sizes.count(k) for k in (1, 2, 3, 4)]
    if 0 in n:
        return [0.5, 1.0, 1.5]
    y = n[0] / (n[0] + 2 * n[1])
    found = [k + 1 - (k + 2) * y * n[k + 1] / n[k] for k in range(3)]
    sane = all(0.05 <= d <= k + 1 for k, d in enumerate(found))
    return found if sane else [0.5, 1.0, 1.5]


def _literal_parent(token, vocabulary):
    """What an n-gram backs off to, None: the root."""
    tokens = token.split("→") if isinstance(token, str) else [token]
    while len(tokens) > 1:
        tokens = tokens[1:]
        shorter = "→".join(tokens)
        if len(tokens) == 1 and f"{shorter}@0" in vocabulary:
            return f"{shorter}@0"
        if shorter in vocabulary:
            return shorter
    return None


def _literal(X, y, weight=None, vocabulary=None, classes=None, mode="context"):
    """p(next token | token) for every token of the vocabulary: dict of dict."""
    weight = [1.0] * len(X) if weight is None else weight
    vocabulary = sorted({x for s in X for x in s}) if vocabulary is None else vocabulary
    classes = sorted(set(y)) if classes is None else classes

    counts = defaultdict(float)
    followed = defaultdict(float)  # (query, next token)
    for sentence, label, w in zip(X, y, weight, strict=True):
        for token in set(sentence) if mode == "context" else {sentence[-1]}:
            if token in vocabulary:
                counts[token, label] += w
        query = sentence[-1] if sentence[-1] in vocabulary else "unknown"
        followed[query, label] += w

    parent = {token: _literal_parent(token, vocabulary) for token in vocabulary}
    seen = dict(counts)
    for (token, label), c in seen.items():
        if parent[token] is not None:
            counts[parent[token], label] -= c - min(c, 1.0)  # it counts once

    n = {v: 1.0 for v in classes}
    for (_, label), w in followed.items():
        n[label] += min(w, 1.0)
    root = {v: n[v] / sum(n.values()) for v in classes}

    order = {token: token.count("→") + 1 if isinstance(token, str) else 1 for token in vocabulary}
    discounts = {}
    for k in set(order.values()):
        sizes = [math.ceil(c - 1e-9) for (token, _), c in counts.items() if order[token] == k]
        discounts[k] = _literal_discounts(sizes)

    p = {}
    for token in sorted(vocabulary, key=order.get):
        back = root if parent[token] is None else p[parent[token]]
        mine = {v: counts[token, v] for v in classes if counts[token, v] > 0}
        total = sum(mine.values())
        if not total:
            p[token] = back
            continue
        d = discounts[order[token]]
        cut = {v: min(c, d[min(math.ceil(c - 1e-9), 3) - 1]) for v, c in mine.items()}
        share = sum(cut.values()) / total
        p[token] = {
            v: max(mine.get(v, 0.0) - cut.get(v, 0.0), 0.0) / total + share * back[v]
            for v in classes
        }
    return p


def _table(p, clf):
    """The literal probabilities, one column per token."""
    return np.array([[p[x][v] for x in clf.vocabulary_.tolist()] for v in clf.classes_.tolist()])


def _columns(clf):
    """The probabilities that each column of W_ov stands for."""
    e = np.exp(clf.coef_ov_)
    return e / e.sum(axis=0)


def _assert_literal(clf, p):
    table = _table(p, clf)
    assert_allclose(_columns(clf), table, **EXACT)
    log = np.log(table)
    assert_allclose(clf.coef_ov_, log - log.mean(axis=0), rtol=0, atol=1e-11)
    assert_allclose(clf.coef_ov_.sum(axis=0), 0.0, **EXACT)


# Data


def _corpus(seed, n_sequences=30, alphabet="abcde"):
    """Sequences with a strong order of two, so that n-grams matter."""
    rng = np.random.RandomState(seed)
    follows = rng.dirichlet(np.full(len(alphabet), 0.4), (len(alphabet),) * 2)
    sequences = []
    for _ in range(n_sequences):
        codes = rng.randint(len(alphabet), size=2).tolist()
        for _ in range(rng.randint(9)):
            codes.append(int(rng.choice(len(alphabet), p=follows[codes[-2], codes[-1]])))
        sequences.append([alphabet[c] for c in codes])
    return sequences


def _contexts(sequences):
    pairs = [(s[:i], s[i]) for s in sequences for i in range(1, len(s))]
    return [list(s) for s, _ in pairs], [v for _, v in pairs]


ENCODERS = {
    "plain": [],
    "n-grams": [NGramTokens(3, min_count=1)],
    "rare n-grams dropped": [ContextWindow(6, "^"), NGramTokens(4, min_count=3)],
    "n-grams and tags": [ContextWindow(6, "^"), NGramTokens(3), PositionTagger(2)],
    "tags, then n-grams": [PositionTagger(3), NGramTokens(3)],
    "tagged only": [NGramTokens(3), PositionTagger(2, keep_untagged=False)],
    "the query is an n-gram": [NGramTokens(2), LastNGram(2)],
}


def _encoded(name, seed, **corpus):
    X, y = _contexts(_corpus(seed, **corpus))
    for step in ENCODERS[name]:
        X = clone(step).fit_transform(X)
    return [list(sentence) for sentence in X], y


@pytest.mark.parametrize("name", ENCODERS)
@pytest.mark.parametrize("seed", SEEDS)
def test_w_ov_is_the_literal_formula(seed, name):
    X, y = _encoded(name, seed)
    clf = _smoothed(X, y)
    _assert_literal(clf, _literal(X, y))
    assert_array_equal(clf.base_ov_, 0.0)
    assert_array_equal(clf.coef_kq_, 0.0)


@pytest.mark.parametrize("mode", ["last", "single"])
def test_other_collocations(mode):
    X, y = _encoded("plain", 0)
    if mode == "single":
        kept = [i for i, sentence in enumerate(X) if len(sentence) == 1]
        X, y = [X[i] for i in kept], [y[i] for i in kept]
    clf = _smoothed(X, y, collocation=mode)
    _assert_literal(clf, _literal(X, y, mode="last"))


@pytest.mark.parametrize("name", ["n-grams and tags", "plain"])
@pytest.mark.parametrize("seed", SEEDS)
def test_fractional_weights(seed, name):
    X, y = _encoded(name, seed)
    weight = np.random.RandomState(seed).uniform(0.05, 0.95, len(X))
    _assert_literal(_smoothed(X, y, weight), _literal(X, y, weight))


@pytest.mark.parametrize("seed", SEEDS)
def test_weights_above_one(seed):
    X, y = _encoded("n-grams and tags", seed)
    weight = np.random.RandomState(seed).uniform(0.5, 4.0, len(X))
    _assert_literal(_smoothed(X, y, weight), _literal(X, y, weight))


@pytest.mark.parametrize("seed", SEEDS)
def test_integer_weights_equal_repeats_bit_for_bit(seed):
    X, y = _encoded("n-grams and tags", seed)
    times = 1 + np.random.RandomState(seed).randint(0, 3, len(X))
    repeated = [(s, v) for s, v, k in zip(X, y, times, strict=True) for _ in range(k)]
    twice = _smoothed(*zip(*repeated, strict=True))
    assert_same_fit(_smoothed(X, y, times), twice)


def test_weights_of_one_are_no_weights():
    X, y = _encoded("n-grams and tags", 0)
    assert_same_fit(_smoothed(X, y, np.ones(len(X))), _smoothed(X, y))


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_order_of_the_sentences_changes_no_bit(seed, weighted):
    rng = np.random.RandomState(seed)
    X, y = _encoded("n-grams and tags", seed)
    weight = rng.uniform(0.05, 0.95, len(X)) if weighted else np.ones(len(X))
    order = rng.permutation(len(X))
    permuted = _smoothed([X[i] for i in order], [y[i] for i in order], weight[order])
    assert_same_fit(permuted, _smoothed(X, y, weight))


def test_int_tokens():
    X, y = _encoded("plain", 0)
    code = {token: i for i, token in enumerate("abcde")}
    ints = [[code[x] for x in sentence] for sentence in X]
    clf = _smoothed(ints, [code[v] for v in y])
    assert_array_equal(clf.coef_ov_, _smoothed(X, y).coef_ov_)
    assert clf.vocabulary_.tolist() == clf.classes_.tolist() == list(range(5))


# By hand


@pytest.mark.parametrize(
    ("token", "wanted"),
    [
        ("a→b→c", ("b→c",)),
        ("b→c", ("c@0", "c")),
        ("b@1→c@0", ("c@0",)),  # and not c@0@0
        ("b→c@1", ("c@1@0", "c@1")),
        ("c", ()),
        ("c@0", ()),
        (7, ()),
    ],
)
def test_suffixes(token, wanted):
    assert suffixes(token) == wanted


def test_values_by_hand():
    """a is followed by u 4 times and by v once, b by v twice; n = 1: D = 1/3, 1, 5/3 at most."""
    X, y = [["a"]] * 5 + [["b"]] * 2, list("uuuuvvv")
    clf = _smoothed(X, y)
    # One count of 1, one of 2, one of 4, and so taken, one of 3: Y = 1/3, D = 1/3, 1, 5/3.
    root = {"u": 2 / 5, "v": 3 / 5}  # u after one query, v after two, each plus 1
    freed = (1.5 + 0.5) / 5
    a_u = (4 - 1.5) / 5 + freed * root["u"]
    a_v = (1 - 0.5) / 5 + freed * root["v"]
    b_u, b_v = 1 / 2 * root["u"], (2 - 1) / 2 + 1 / 2 * root["v"]
    assert_allclose(_columns(clf), [[a_u, b_u], [a_v, b_v]], **EXACT)


def test_discounts_of_counts_that_say_nothing():
    """Only counts of 2 and of 3, and one of 1: the textbook's D_2 would divide by zero."""
    X = [[x] for x in "abcdefgh" for _ in range(3)] + [[x] for x in "ijklmnopqrst" for _ in "12"]
    y = ["u"] * len(X)
    clf = _smoothed([*X, ["z"]], [*y, "v"])
    root = {"u": 21 / 23, "v": 2 / 23}
    for token, c, d, label in (("a", 3, 1.5, "u"), ("i", 2, 1.0, "u"), ("z", 1, 0.5, "v")):
        column = clf.vocabulary_.tolist().index(token)
        got = _columns(clf)[clf.classes_.tolist().index(label), column]
        assert_allclose(got, (c - d) / c + d / c * root[label], **EXACT)


def test_discounts_out_of_range_are_the_usual_ones():
    counts = {1: 4, 2: 2, 3: 1, 4: 9}
    X = [[f"{c}.{i}"] for c, n in counts.items() for i in range(n) for _ in range(c)]
    clf = _smoothed([*X, ["0.0"], ["0.0"]], ["u"] * len(X) + ["u", "v"])
    # With the two counts of 1 of the token 0.0, n_1 = 6 and Y = 0.6: D_3 = 3 - 2.4 * 9.
    column = clf.vocabulary_.tolist().index("4.0")
    assert_allclose(_columns(clf)[0, column], (4 - 1.5) / 4 + 1.5 / 4 * 18 / 20, **EXACT)


@pytest.mark.parametrize("weight", [1e-12, 1e-9, 1e18, 1e30])
def test_counts_of_any_size(weight):
    X, y = [["a", "b"], ["c"], ["d"]] * 2, ["b", "c", "c"] * 2
    p = _smoothed(X, y, np.array([1.0, weight, 1.0] * 2)).predict_proba([["c"], ["d"]])
    assert np.isfinite(p).all() and (p > 0).all()
    assert_allclose(p.sum(axis=1), 1.0, rtol=1e-12)


def _counted(ngrams):
    """Sentences of an n-gram, its shorter suffixes as given, and a last token, with next tokens."""
    X, y = [], []
    for tokens, labels in ngrams:
        X += [list(tokens)] * len(labels)
        y += list(labels)
    return X, y


def test_a_missing_intermediate_n_gram_is_skipped():
    X, y = _counted(
        [
            (["a→b→c", "a", "b", "c"], "uuv"),  # no token "b→c" anywhere
            (["x→c", "x", "c"], "vvw"),
            (["c"], "w"),
        ]
    )
    p = _literal(X, y)
    clf = _smoothed(X, y)
    _assert_literal(clf, p)
    # c counts a→b→c and x→c once each with every next token, and its own.
    tokens = clf.vocabulary_.tolist()
    assert _literal_parent("a→b→c", tokens) == _literal_parent("x→c", tokens) == "c"
    n = {"u": 1.0, "v": 2.0, "w": 2.0}  # continuation counts of c: N = 5
    sizes = [1, 2, 2]
    others = [2.0, 1.0, 2.0, 1.0, 2.0, 1.0]  # of a, b (u 2, v 1) and x (v 2, w 1)
    d = _literal_discounts(sizes + others)
    root = {"u": 2 / 6, "v": 2 / 6, "w": 2 / 6}  # c is the only query
    freed = (d[0] + 2 * d[1]) / 5
    for v in "uvw":
        wanted = (n[v] - d[int(n[v]) - 1]) / 5 + freed * root[v]
        assert_allclose(p["c"][v], wanted, **EXACT)


@pytest.mark.parametrize("has_c", [True, False])
def test_an_n_gram_backs_off_past_all_that_is_missing(has_c):
    own = ["c", "q"] if has_c else ["q"]
    X, y = _counted([(["a→b→c", *own], "uuv"), (own, "w"), (["z"], "w")])
    clf = _smoothed(X, y)
    _assert_literal(clf, _literal(X, y))
    parent = _literal_parent("a→b→c", clf.vocabulary_.tolist())
    assert parent == ("c" if has_c else None)


def test_the_tagged_last_token_is_preferred_to_the_untagged():
    sentences = [
        (["a→b", "a", "b", "a@1", "b@0"], "uuv"),
        (["c→b", "c", "b", "c@1", "b@0"], "wu"),
        (["b→a", "b", "a", "b@1", "a@0"], "vvw"),
    ]
    X, y = _counted(sentences)
    clf = _smoothed(X, y)
    p = _literal(X, y)
    _assert_literal(clf, p)
    # b@0 counts each of its 2-grams once with u: 2 instead of 3; b keeps all it meets.
    tokens = clf.vocabulary_.tolist()
    assert _literal_parent("a→b", tokens) == "b@0"
    plain, plain_y = [[x for x in s if x != "b@0"] for s in X], y
    untagged = _smoothed(plain, plain_y)
    _assert_literal(untagged, _literal(plain, plain_y))
    assert np.abs(untagged.coef_ov_[:, 0] - clf.coef_ov_[:, 0]).max() > 1e-3


@pytest.mark.parametrize("position", ["front", "back"])
def test_the_place_of_an_n_gram_in_the_vocabulary_does_not_matter(position):
    X, y = _encoded("n-grams", 1)
    tokens = sorted({x for sentence in X for x in sentence}, key=lambda t: (t.count("→"), t))
    vocabulary = tokens if position == "back" else tokens[::-1]
    clf = _smoothed(X, y, vocabulary=vocabulary)
    assert clf.vocabulary_.tolist() == vocabulary
    _assert_literal(clf, _literal(X, y, vocabulary=vocabulary, classes=sorted(vocabulary)))


def test_tokens_without_a_pair_take_the_column_they_back_off_to():
    X, y = _counted([(["a→b", "a", "b"], "uuv"), (["b", "a"], "vw"), (["b"], "u")])
    vocabulary = ["b", "a", "a→b", "z→a→b", "z→b", "y→z", "z", "y→z→a→b"]
    clf = _smoothed(X, y, vocabulary=vocabulary)
    column = dict(zip(vocabulary, _columns(clf).T, strict=True))
    assert_allclose(column["z→a→b"], column["a→b"], **EXACT)
    assert_allclose(column["y→z→a→b"], column["a→b"], **EXACT)
    assert_allclose(column["z→b"], column["b"], **EXACT)
    assert_allclose(column["y→z"], column["z"], **EXACT)
    assert_allclose(column["z"], np.array([2, 3, 2]) / 7, **EXACT)  # u, v, w: the root
    _assert_literal(clf, _literal(X, y, vocabulary=vocabulary))


def test_a_class_that_never_comes_next_has_a_small_probability():
    X, y = _encoded("n-grams", 2)
    vocabulary = [*sorted({x for sentence in X for x in sentence}), "zzz"]
    clf = _smoothed(X, y, vocabulary=vocabulary)
    assert clf.classes_.tolist() == sorted(vocabulary)
    p = clf.predict_proba(X)
    assert (p > 0).all() and np.isfinite(clf.coef_ov_).all()
    assert p[:, -1].max() < p[np.arange(len(X)), np.searchsorted(clf.classes_, y)].max()
    literal = _literal(X, y, vocabulary=vocabulary, classes=sorted(vocabulary))
    _assert_literal(clf, literal)


def test_unknown_tokens_count_as_one_query():
    X, y = [["a", "z"], ["b", "y"], ["a"], ["b"], ["b", "a"]], ["u", "u", "u", "v", "v"]
    clf = _smoothed(X, y, vocabulary=["a", "b"])
    literal = _literal(X, y, vocabulary=["a", "b"])
    _assert_literal(clf, literal)
    # u after "unknown" and a, v after a and b.
    column = _columns(_smoothed(X, y, vocabulary=["a", "b", "q"]))[:, 2]
    assert_allclose(column, [3 / 6, 3 / 6], **EXACT)


def test_one_class():
    clf = _smoothed([["a"], ["b", "a"]], ["u", "u"])
    assert_allclose(clf.coef_ov_, 0.0, **EXACT)
    assert_array_equal(clf.predict([["b"]]), ["u"])


# LastNGram appends n-grams: the last tokens of most sentences, and of few the tokens they back
# off to, which then count less than their n-grams.
@pytest.mark.parametrize("collocation", ["last", "auto"])
def test_n_grams_without_what_they_back_off_to(collocation):
    X, y = _encoded("the query is an n-gram", 0)
    clf = _smoothed(X, y, collocation=collocation)
    assert np.isfinite(clf.coef_ov_).all()


# The Kneser-Ney n-gram model


def _literal_ngram_model(sequences, max_n, classes):
    """Interpolated modified Kneser-Ney, as in textbooks: p(v | the last tokens of a context).

    Counts of the highest order are true ones, those of lower orders say after how many different
    tokens an n-gram stands; n-grams that begin a sequence keep their true counts.
    """
    true = defaultdict(int)
    for sequence in sequences:
        padded = ("^", *sequence)
        for i in range(2, len(padded)):
            for n in range(1, max_n + 1):
                if n <= i:
                    true[padded[i - n : i], padded[i]] += 1
    counts = {}
    for (history, v), c in true.items():
        before = {
            h[0] for h, u in true if u == v and len(h) == len(history) + 1 if h[1:] == history
        }
        counts[history, v] = c if len(history) == max_n or history[0] == "^" else len(before)
    n = {v: 1 + sum(1 for h, u in true if len(h) == 1 and u == v) for v in classes}
    root = {v: n[v] / sum(n.values()) for v in classes}
    discounts = {
        k: _literal_discounts([c for (h, _), c in counts.items() if len(h) == k])
        for k in range(1, max_n + 1)
    }

    def p(v, history):
        if not history:
            return root[v]
        mine = [counts.get((history, u), 0) for u in classes]
        total = sum(mine)
        if not total:
            return p(v, history[1:])
        d = [0.0, *discounts[len(history)]]
        freed = sum(d[min(c, 3)] for c in mine)
        c = counts.get((history, v), 0)
        return (c - d[min(c, 3)]) / total + freed / total * p(v, history[1:])

    return lambda v, context: p(v, ("^", *context)[-max_n:])


@pytest.mark.parametrize("max_n", [1, 2, 3])
@pytest.mark.parametrize("seed", SEEDS)
def test_with_all_attention_on_the_longest_n_gram_it_is_the_kneser_ney_model(seed, max_n):
    sequences = _corpus(seed, n_sequences=25)
    X, y = _contexts(sequences)
    classes = sorted(set(y))
    pipeline = make_pipeline(
        ContextWindow(20, start_token="^"),
        NGramTokens(max_n, min_count=1),
        PositionTagger(1, keep_untagged=False),
        NTPTransformerClassifier(
            stages=("ov",), smoothing="kneser-ney", attention_start=200.0, collocation="context"
        ),
    ).fit(X, y)
    literal = _literal_ngram_model(sequences, max_n, classes)
    # Every context of up to three tokens, seen or not, and longer ones.
    contexts = [list(c) for n in (1, 2, 3) for c in itertools.product("abcde", repeat=n)] + X
    unseen = [c for c in contexts if c not in X]
    assert len(unseen) > 50
    wanted = [[literal(v, c) for v in classes] for c in contexts]
    assert_allclose(pipeline.predict_proba(contexts), wanted, **EXACT)


@pytest.mark.parametrize("seed", SEEDS)
def test_without_tags_it_is_the_model_wherever_a_3_gram_is_known(seed):
    """Lower orders differ: untagged tokens also count where they are not the last."""
    sequences = _corpus(seed, n_sequences=25)
    X, y = _contexts(sequences)
    pipeline = make_pipeline(
        ContextWindow(20, start_token="^"),
        NGramTokens(3, min_count=1),
        NTPTransformerClassifier(
            stages=("ov",), smoothing="kneser-ney", attention_start=200.0, collocation="context"
        ),
    ).fit(X, y)
    encoded = [list(sentence) for sentence in pipeline[:-1].transform(X)]
    p = _literal(encoded, y)
    classes = sorted(set(y))
    contexts = [list(c) for n in (1, 2, 3) for c in itertools.product("abcde", repeat=n)]
    for context, got in zip(contexts, pipeline.predict_proba(contexts), strict=True):
        sentence = pipeline[:-1].transform([context])[0]
        longest = max(sentence, key=lambda token: token.count("→"))
        if "→" not in longest:
            longest = sentence[-1]
        assert_allclose(got, [p[longest][v] for v in classes], **EXACT)


# What is recorded


def test_history_of_a_closed_form():
    X, y = _encoded("n-grams and tags", 0)
    clf = _smoothed(X, y, step_size=0.5, max_iter=7)
    curves = clf.convergence_["ov"]
    assert curves["stop_reason"] == "smoothing"
    assert_array_equal(clf.n_iter_, [0])
    assert {name: len(curve) for name, curve in curves.items() if name != "stop_reason"} == {
        name: 1 for name in ("loss", "log_loss", "norm", "cosine", "dist", "accuracy")
    }
    tokens, classes = clf.vocabulary_.tolist(), clf.classes_.tolist()
    pairs = [(tokens.index(x), classes.index(v)) for s, v in zip(X, y, strict=True) for x in set(s)]
    none = np.zeros((len(tokens), len(tokens)))
    sentences, labels = [[x] for x, _ in pairs], [v for _, v in pairs]
    wanted = mean_loss(clf.coef_ov_, none, sentences, labels, np.ones(len(pairs)))
    assert_allclose(clf.loss_curve_, [wanted], rtol=1e-12)
    assert_allclose(curves["log_loss"], np.log(wanted), rtol=1e-12)
    assert_allclose(curves["norm"], np.linalg.norm(clf.coef_ov_), rtol=1e-12)


@pytest.mark.parametrize("solver", ["ngd", "lbfgs"])
def test_the_next_stage_starts_from_the_closed_form(solver):
    X, y = _encoded("n-grams and tags", 1)
    closed = _smoothed(X, y)
    params = {"solver": solver, "max_iter": 3}
    clf = _smoothed(X, y, stages=("ov", "kq"), **params)
    assert_array_equal(clf.coef_ov_, closed.coef_ov_)
    assert_array_equal(clf.n_iter_, [0, 3])
    joint = _smoothed(X, y, stages=("ov", "joint"), **params)
    loss = -closed.label_log_proba(X, y).mean()
    for found in (clf, joint):
        assert found.convergence_["ov"]["stop_reason"] == "smoothing"
        assert_allclose(found.loss_curve_[1], loss, rtol=1e-12)
    assert joint.loss_curve_[-1] < clf.loss_curve_[-1] < loss
    assert np.abs(joint.coef_ov_ - closed.coef_ov_).max() > 1e-4


def test_a_strong_penalty_keeps_the_closed_form():
    X, y = _encoded("n-grams and tags", 1)
    params = {"solver": "lbfgs", "stages": ("ov", "joint"), "max_iter": 50, "attention_start": 0.5}
    free = _smoothed(X, y, **params, alpha=0.01)
    tied = _smoothed(X, y, **params, alpha=1e9)
    start = _smoothed(X, y, attention_start=0.5)
    for name in ("coef_ov_", "coef_kq_"):
        assert_allclose(getattr(tied, name), getattr(start, name), rtol=0, atol=1e-6)
        assert np.abs(getattr(free, name) - getattr(start, name)).max() > 0.1


def test_tracking_and_warm_start_with_a_closed_form():
    X, y = _encoded("n-grams and tags", 0)
    clf = _smoothed(X, y, stages=("ov", "kq"), track_alignment=True, warm_start=True, max_iter=4)
    assert np.isfinite(clf.convergence_["ov"]["cosine"]).all()
    w_ov = clf.coef_ov_
    clf.fit(X, y)
    assert_array_equal(clf.coef_ov_, w_ov)
    assert len(clf.convergence_["ov"]["loss"]) == 1
    assert len(clf.convergence_["kq"]["loss"]) == 9
    assert_array_equal(clf.n_iter_, [0, 4])


@pytest.mark.parametrize("stages", [("joint",), ("kq",)])
def test_smoothing_without_its_stage_is_refused(stages):
    X, y = _encoded("plain", 0)
    with pytest.raises(ValueError, match="smoothing='kneser-ney' is|fit with stages"):
        _smoothed(X, y, stages=stages)


def test_joint_after_a_smoothed_fit_is_pulled_to_the_closed_form():
    X, y = _encoded("n-grams", 0)
    clf = _smoothed(X, y, warm_start=True)
    start = clf.coef_ov_
    clf.set_params(stages=("joint",), solver="lbfgs", alpha=1e9, max_iter=20).fit(X, y)
    assert_allclose(clf.coef_ov_, start, rtol=0, atol=1e-6)


def test_invalid_smoothing():
    with pytest.raises(ValueError, match="'smoothing' parameter"):
        _smoothed([["a"], ["b"]], ["b", "a"], smoothing="witten-bell")


def test_what_would_not_fit_is_refused_before_the_work(monkeypatch):
    monkeypatch.setattr(_memory, "available_memory", lambda: 500)
    X, y = [["a"], ["b"], ["c"]], ["b", "c", "a"]
    with pytest.raises(MemoryError, match=r"8 arrays like W_ov.*shape \(24, 3\).*min_count=2"):
        _smoothed(X, y)
