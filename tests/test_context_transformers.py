"""Contexts rewritten as tokens: against plain loops, over input forms, and inside searches."""

import pickle
from collections import Counter

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.estimator_checks import estimator_checks_generator

from sklntp import NTPTransformerClassifier, _ngrams
from sklntp.preprocessing import (
    ContextWindow,
    LastNGram,
    NGramTokens,
    PositionTagger,
    make_contexts,
)

ALL = [ContextWindow(), PositionTagger(), LastNGram(2, 1), NGramTokens()]
NAMES = [type(transformer).__name__ for transformer in ALL]


def _sentences(seed, kind=str, n=60, n_tokens=4, longest=9):
    """Random sentences; tokens of several characters, of which some are no ASCII letters."""
    rng = np.random.RandomState(seed)
    words = ["a", "bé", "", "日本", "x y", "@", "d"][:n_tokens]
    tokens = words if kind is str else [7, -3, 0, 10**20, 5, 1, 2][:n_tokens]
    sizes = rng.randint(1, longest + 1, size=n)
    return [[tokens[k] for k in rng.randint(n_tokens, size=size)] for size in sizes]


# How tokens are written


@pytest.mark.parametrize(
    ("token", "order", "suffix", "suffixes"),
    [
        ("a", 1, None, ()),
        ("", 1, None, ()),
        ("b@0", 1, None, ()),
        (5, 1, None, ()),
        ("a→b", 2, "b", ("b@0", "b")),
        ("a→b→c", 3, "b→c", ("b→c",)),
        ("→→", 3, "→", ("→",)),
        ("a@1→b@0", 2, "b@0", ("b@0",)),
        ("a@2→b@1→c@0", 3, "b@1→c@0", ("b@1→c@0",)),
        ("a→b@1", 2, "b@1", ("b@1@0", "b@1")),
    ],
)
def test_how_an_ngram_is_written_and_read(token, order, suffix, suffixes):
    assert _ngrams.order(token) == order == len(_ngrams.parts(token))
    assert _ngrams.is_ngram(token) == (order > 1)
    assert _ngrams.suffix(token) == suffix
    assert _ngrams.suffixes(token) == suffixes
    if order > 1:
        assert _ngrams.join(_ngrams.parts(token)) == token


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        ("a@0", ("a", 0)),
        ("a@12", ("a", 12)),
        ("@0", ("", 0)),
        ("a@1@2", ("a@1", 2)),
        ("a@", None),
        ("a@01", None),
        ("a@-1", None),
        ("a@²", None),
        ("a@b", None),
        ("a", None),
        (3, None),
    ],
)
def test_a_tag_is_read_in_one_way_only(token, expected):
    assert _ngrams.untag(token) == expected
    assert _ngrams.distance(token) == (expected[1] if expected else -1)
    if expected:
        assert _ngrams.tag(*expected) == token


def test_the_text_of_a_number():
    assert [_ngrams.text(t) for t in (1, 1.0, np.float64(2), 0.5, "a", np.str_("b"), -0.0)] == (
        ["1", "1", "2", "0.5", "a", "b", "0"]
    )


# Against plain loops


def _window(X, max_length, start):
    out = []
    for x in X:
        kept = x[-max_length:]
        if start is not None and len(x) < max_length:
            kept = [start, *kept]
        out.append(kept)
    return out


@pytest.mark.parametrize("max_length", [1, 2, 5, 9, 10, 10**12])
@pytest.mark.parametrize(("kind", "start"), [(str, None), (str, "^"), (int, None), (int, -1)])
def test_window(kind, start, max_length):
    X = _sentences(0, kind)
    result = ContextWindow(max_length, start_token=start).fit_transform(X)
    assert result.tolist() == _window(X, max_length, start)
    assert {type(token) for x in result for token in x} == {kind}
    assert all(len(x) <= max_length for x in result)


def test_a_str_start_token_makes_numbers_str():
    X = _sentences(1, int)
    result = ContextWindow(5, start_token="^").transform(X)
    assert result.tolist() == _window([[str(t) for t in x] for x in X], 5, "^")


def _tagged(X, max_distance, keep_untagged):
    out = []
    for x in X:
        x = [str(token) for token in x]
        k = min(len(x), max_distance)
        tags = [f"{x[len(x) - 1 - j]}@{j}" for j in range(k - 1, -1, -1)]
        out.append((x if keep_untagged else []) + tags)
    return out


@pytest.mark.parametrize("max_distance", [1, 2, 6, 100, 10**12])
@pytest.mark.parametrize("keep_untagged", [True, False])
@pytest.mark.parametrize("kind", [str, int])
def test_tags(kind, keep_untagged, max_distance):
    X, unseen = _sentences(2, kind), _sentences(3, kind, n_tokens=7)
    tagger = PositionTagger(max_distance, keep_untagged=keep_untagged)
    assert tagger.fit_transform(X).tolist() == _tagged(X, max_distance, keep_untagged)
    assert tagger.transform(unseen).tolist() == _tagged(unseen, max_distance, keep_untagged)


def _ends(x, max_n):
    """The n-grams of 2 to `max_n` tokens that end a sentence, short ones first."""
    x = [str(token) for token in x]
    return ["→".join(x[len(x) - n :]) for n in range(2, min(max_n, len(x)) + 1)]


def _known_ends(X, max_n, min_count):
    counts = Counter(ngram for x in X for ngram in _ends(x, max_n))
    return {ngram for ngram, count in counts.items() if count >= min_count}


@pytest.mark.parametrize("max_n", [1, 2, 3, 5, 10**12])
@pytest.mark.parametrize("min_count", [1, 2, 4, 1000])
@pytest.mark.parametrize("kind", [str, int])
def test_ngram_tokens(kind, min_count, max_n):
    X, unseen = _sentences(4, kind), _sentences(5, kind, n_tokens=7)
    tokens = NGramTokens(max_n, min_count=min_count).fit(X)
    known = _known_ends(X, max_n, min_count)
    assert tokens.ngrams_.tolist() == sorted(known)
    for ngram in known:  # ... and so are its suffixes
        assert _ngrams.order(ngram) == 2 or _ngrams.suffix(ngram) in known
    for sentences in (X, unseen):
        expected = [
            [ngram for ngram in reversed(_ends(x, max_n)) if ngram in known] + [str(t) for t in x]
            for x in sentences
        ]
        assert tokens.transform(sentences).tolist() == expected


@pytest.mark.parametrize("n", [1, 2, 3, 5, 10**12])
@pytest.mark.parametrize("min_count", [1, 2, 4, 1000])
@pytest.mark.parametrize("kind", [str, int])
def test_last_ngram(kind, min_count, n):
    X, unseen = _sentences(6, kind), _sentences(7, kind, n_tokens=7)
    last = LastNGram(n, min_count=min_count)
    result = last.fit_transform(X)
    known = _known_ends(X, n, min_count)
    queries = {([""] + [g for g in _ends(x, n) if g in known])[-1] for x in X} - {""}
    assert last.ngrams_.tolist() == sorted(queries)
    for sentences in (X, unseen):
        expected = [
            [str(t) for t in x] + [ngram for ngram in _ends(x, n) if ngram in queries][-1:]
            for x in sentences
        ]
        assert last.transform(sentences).tolist() == expected
    assert last.transform(X).tolist() == result.tolist()
    assert queries == {x[-1] for x in result} & known  # what is appended was appended in fit


def test_an_ngram_that_was_only_inside_longer_ones_is_no_query():
    last = LastNGram(3, min_count=2).fit([["a", "b", "c"], ["a", "b", "c"], ["b"]])
    assert last.ngrams_.tolist() == ["a→b→c"]
    assert last.transform([["x", "b", "c"]]).tolist() == [["x", "b", "c"]]
    last.fit([["a", "b", "c"], ["a", "b", "c"], ["d", "b", "c"]])  # now one backs off to it
    assert last.ngrams_.tolist() == ["a→b→c", "b→c"]
    assert last.transform([["x", "b", "c"]]).tolist() == [["x", "b", "c", "b→c"]]


def test_joining_is_not_misled_by_what_tokens_contain():
    """Codes are joined, not text: "a b" and "a", "b" are two; so are the tokens 1, 11 and 11, 1."""
    X = [["a b", "c"], ["a", "b c"], ["a", "b", "c"]]
    assert NGramTokens(2, min_count=1).fit(X).ngrams_.tolist() == ["a b→c", "a→b c", "b→c"]
    assert LastNGram(2, 1).fit([[1, 11], [11, 1]]).ngrams_.tolist() == ["11→1", "1→11"]


# Order in a pipeline


def test_the_whole_pipeline_by_hand():
    pipeline = make_pipeline(
        ContextWindow(4, start_token="^"),
        NGramTokens(3, min_count=2),
        LastNGram(2, 1),
        PositionTagger(2),
    )
    X = [["a", "b", "c"], ["c", "a", "b", "b", "c"], ["c"]]
    assert pipeline.fit_transform(X).tolist() == [
        ["b→c", "^", "a", "b", "c", "b@1", "c@0", "b→c"],
        ["b→c", "a", "b", "b", "c", "b@1", "c@0", "b→c"],
        ["^", "c", "^@1", "c@0", "^→c"],
    ]
    assert pipeline.transform([["b", "b", "z"]]).tolist() == [
        ["^", "b", "b", "z", "b@1", "z@0"],
    ]


@pytest.mark.parametrize("keep_untagged", [True, False])
@pytest.mark.parametrize("seed", range(3))
def test_ngrams_of_tagged_tokens_are_the_tagged_ngrams(seed, keep_untagged):
    """Tags before n-grams say the same as n-grams of the sentence itself."""
    X, unseen = _sentences(seed), _sentences(seed + 10, n_tokens=7)
    tagger = PositionTagger(3, keep_untagged=keep_untagged)
    tagged = make_pipeline(tagger, NGramTokens(5, min_count=2), LastNGram(3, min_count=2)).fit(X)
    plain = make_pipeline(NGramTokens(3, min_count=2), LastNGram(3, min_count=2)).fit(X)

    def with_tags(ngram):
        words = _ngrams.parts(ngram)
        return "→".join(f"{word}@{len(words) - 1 - j}" for j, word in enumerate(words))

    for step in (0, 1):
        known = [with_tags(ngram) for ngram in plain[step].ngrams_]
        assert tagged[step + 1].ngrams_.tolist() == sorted(known)
    for x, tagged_x, plain_x in zip(
        unseen, tagged.transform(unseen), plain.transform(unseen), strict=True
    ):
        joined = [token for token in tagged_x if _ngrams.is_ngram(token)]
        assert joined == [with_tags(t) for t in plain_x if _ngrams.is_ngram(t)]
        ordinary = [token for token in tagged_x if not _ngrams.is_ngram(token)]
        assert ordinary == _tagged([x], 3, keep_untagged)[0]


def test_untagged_and_tagged_tokens_are_not_joined():
    result = make_pipeline(PositionTagger(3), NGramTokens(3, min_count=1)).fit_transform([["a"]])
    assert result.tolist() == [["a", "a@0"]]


@pytest.mark.parametrize("keep_untagged", [True, False])
def test_ngrams_are_neither_tagged_nor_counted(keep_untagged):
    X = [["c→a→b", "a→b", "c", "a", "b", "a→b"], ["a", "b"], ["c", "b", "c→b"]]
    untagged = [["c", "a", "b"], ["a", "b"], ["c", "b"]]
    expected = _tagged(untagged, 2, keep_untagged)
    expected = [["c→a→b", "a→b", *expected[0], "a→b"], expected[1], [*expected[2], "c→b"]]
    assert PositionTagger(2, keep_untagged=keep_untagged).fit_transform(X).tolist() == expected


# Input forms


def _object_array(cells):
    array = np.empty(len(cells), dtype=object)
    array[:] = cells
    return array


FORMS = {
    "lists": list,
    "tuples": lambda X: [tuple(x) for x in X],
    "arrays": lambda X: [np.array(x) for x in X],
    "object array": _object_array,
    "Series": lambda X: pd.Series(_object_array(X), index=range(10, 10 + len(X))),
    "one column": lambda X: pd.DataFrame({"x": _object_array(X)}),
}


def _assert_same_output(transformer, X, expected):
    result = clone(transformer).fit_transform(X)
    assert isinstance(result, np.ndarray)
    assert result.dtype == object and result.ndim == 1
    assert result.tolist() == expected
    assert clone(transformer).fit(X).transform(X).tolist() == expected
    assert {type(x) for x in result} == {list}


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
@pytest.mark.parametrize("transformer", ALL, ids=NAMES)
@pytest.mark.parametrize("kind", [str, int])
def test_every_form_gives_the_same(transformer, form, kind):
    X = [["a", "b", "a"], ["b"], ["a", "b", "a"]] if kind is str else [[3, -1, 3], [-1], [3, -1, 3]]
    expected = clone(transformer).fit_transform(X).tolist()
    _assert_same_output(transformer, form(X), expected)


@pytest.mark.parametrize("transformer", ALL, ids=NAMES)
def test_tables(transformer):
    X = [[1, 2, 3], [3, 2, 1], [4, 2, 1]]
    expected = clone(transformer).fit_transform(X).tolist()
    for table in (np.array(X), np.array(X, dtype=float), np.array(X, dtype=object)):
        _assert_same_output(transformer, table, expected)
    frame = pd.DataFrame(X, columns=["x", "y", "z"])
    _assert_same_output(transformer, frame, expected)
    fitted = clone(transformer).fit(frame)
    assert fitted.n_features_in_ == 3
    assert fitted.feature_names_in_.tolist() == ["x", "y", "z"]
    with pytest.raises(ValueError, match="feature names|features"):
        fitted.transform(frame[["x", "y"]])
    assert not hasattr(fitted.fit([[1], [1, 2]]), "n_features_in_")


@pytest.mark.parametrize("transformer", ALL, ids=NAMES)
def test_arrow_and_polars(transformer):
    pa, pl = pytest.importorskip("pyarrow"), pytest.importorskip("polars")
    X = [["a", "b", "a"], ["b"], ["a", "b", "a"]]
    expected = clone(transformer).fit_transform(X).tolist()
    for column in (pa.array(X), pl.Series(X), pl.DataFrame({"x": X}), pa.table({"x": X})):
        _assert_same_output(transformer, column, expected)


def test_a_start_token_makes_empty_sentences_possible():
    window = ContextWindow(2, start_token="^")
    expected = [["^"], ["^", "a"], ["a", "b"]]
    X = [[], ["a"], ["a", "b"]]
    for form in FORMS.values():
        assert window.fit(form(X)).transform(form(X)).tolist() == expected
    assert window.transform([[], ()]).tolist() == [["^"], ["^"]]
    assert ContextWindow(1, start_token=0).transform([[], [5, 6]]).tolist() == [[0], [6]]
    assert ContextWindow(1, start_token=np.int64(0)).transform([[], [5]]).tolist() == [[0], [5]]
    pl = pytest.importorskip("polars")
    assert window.transform(pl.Series(X, dtype=pl.List(pl.String))).tolist() == expected


def test_the_output_shares_nothing_with_the_input():
    X = [["a", "b"], ["b"]]
    for transformer in ALL:
        result = clone(transformer).fit_transform(X)
        result[0].append("z")
    assert X == [["a", "b"], ["b"]]


@pytest.mark.parametrize("transformer", ALL, ids=NAMES)
def test_no_sentences(transformer):
    with pytest.raises(ValueError, match="at least one sentence"):
        clone(transformer).fit([])
    result = clone(transformer).fit([["a"]]).transform([])
    assert result.shape == (0,) and result.dtype == object


def test_trailing_nul_characters_survive():
    X = [["a\0", "b\0"], ["a", "b"]]
    assert LastNGram(2, 1).fit(X).transform(X).tolist() == [[*X[0], "a\0→b\0"], [*X[1], "a→b"]]
    with pytest.raises(ValueError, match="would stand for two"):
        PositionTagger(1).fit([["a@0\0", "a@0", "b", "a"]])


# Errors


@pytest.mark.parametrize("transformer", ALL, ids=NAMES)
@pytest.mark.parametrize(
    ("X", "error", "match"),
    [
        ([["a"], []], ValueError, "Sentence 1 is empty"),
        ([["a"], "the cat"], ValueError, "Sentence 1 must be split into tokens"),
        ([["a", None]], TypeError, "Sentence 0, position 1: .*NoneType"),
        ([["a"], ["a", 1]], TypeError, "sentence 1, position 1 holds int 1"),
        ([[1, 2.5], [1]], TypeError, r"Sentence 0, position 1: .*float 2\.5"),
        ([["a"], 5], TypeError, "Sentence 1 must be a sequence of tokens; got int 5"),
    ],
)
def test_bad_sentences(transformer, X, error, match):
    for method in ("fit", "fit_transform"):
        with pytest.raises(error, match=match):
            getattr(clone(transformer), method)(X)
    with pytest.raises(error, match=match):
        clone(transformer).fit([["a"]]).transform(X)


@pytest.mark.parametrize(
    ("transformer", "match"),
    [
        (ContextWindow(0), "'max_length' parameter"),
        (ContextWindow(2.5), "'max_length' parameter"),
        (ContextWindow(start_token=1.5), "'start_token' parameter"),
        (PositionTagger(0), "'max_distance' parameter"),
        (PositionTagger(keep_untagged="yes"), "'keep_untagged' parameter"),
        (LastNGram(0, 1), "'n' parameter"),
        (LastNGram(min_count=0), "'min_count' parameter"),
        (NGramTokens(0), "'max_n' parameter"),
        (NGramTokens(min_count=0.5), "'min_count' parameter"),
    ],
)
def test_bad_parameters(transformer, match):
    for method in ("fit", "fit_transform"):
        with pytest.raises(ValueError, match=match):
            getattr(transformer, method)([["a"]])
    if isinstance(transformer, (ContextWindow, PositionTagger)):
        with pytest.raises(ValueError, match=match):
            transformer.transform([["a"]])


@pytest.mark.parametrize(
    ("start", "X", "error", "match"),
    [
        (
            "a",
            [["b"], ["b", "a"]],
            ValueError,
            "start_token='a' must be no token .*sentence 1 holds",
        ),
        (3, [[1], [2], [3]], ValueError, "start_token=3 must be no token .*sentence 2 holds"),
        ("3", [[1], [3]], ValueError, "start_token='3' must be no token .*sentence 1 holds"),
        (3, [["a"], ["3"]], TypeError, "an int where all tokens are int; got 3, .*'3', 'a'"),
        (3, np.array([[1.5, 2.0]]), TypeError, "an int where all tokens are int; got 3, .*1.5"),
        (True, [[5]], TypeError, "start_token must be a str, or an int .*got True"),
    ],
)
def test_bad_start_tokens(start, X, error, match):
    window = ContextWindow(5, start_token=start)
    for method in ("fit", "fit_transform", "transform"):
        with pytest.raises(error, match=match):
            getattr(window, method)(X)


@pytest.mark.parametrize(
    ("X", "match"),
    [
        ([["a", "a→b"]], "Sentence 0 holds the token 'a→b'"),
        ([["a"], ["a→b"]], "Sentence 1 holds the token 'a→b'"),  # nothing to stand in front of
        ([["c"], ["a→b", "a", "c"]], "Sentence 1 holds the token 'a→b'"),  # joins others
        ([["a→b", "b"]], "Sentence 0 holds the token 'a→b'"),  # joins more than there are
        ([["a→b", "a", "b"], ["a", "→", "b"]], "Sentence 1 holds the token '→'"),
    ],
)
def test_a_token_with_an_arrow_of_its_own(X, match):
    for transformer in (LastNGram(2, 1), PositionTagger(), NGramTokens()):
        if isinstance(transformer, NGramTokens):
            match = "Sentence . holds the token .*no n-gram may stand in a sentence yet"
        with pytest.raises(ValueError, match=match) as error:
            clone(transformer).fit(X)
        assert "Replace the arrow" in str(error.value)
        with pytest.raises(ValueError, match=match):
            clone(transformer).fit([["a"]]).transform(X)
    assert ContextWindow().transform(X).tolist() == X


def test_where_ngrams_may_stand():
    front, end = [["a→b", "a", "b"]], [["a", "b", "a→b"]]
    assert PositionTagger(1).transform(front).tolist() == [["a→b", "a", "b", "b@0"]]
    assert PositionTagger(1).transform(end).tolist() == [["a", "b", "b@0", "a→b"]]
    assert LastNGram(2, 1).fit_transform(front).tolist() == [["a→b", "a", "b", "a→b"]]
    with pytest.raises(ValueError, match="only stand in front of a sentence"):
        LastNGram(2, 1).fit(end)
    for X in (front, end):
        with pytest.raises(ValueError, match="no n-gram may stand"):
            NGramTokens(2).fit(X)
    for X in ([["a", "a→b", "b"]], [["a"], ["b", "a→b"]]):  # inside; of two sentences
        with pytest.raises(ValueError, match="in front of or behind"):
            PositionTagger().fit(X)


@pytest.mark.parametrize(
    ("fitted", "X", "match"),
    [
        (None, [["b"], ["a@0", "b"], ["a"]], "Sentence 1: the token 'a@0' .*'a' at distance 0"),
        (None, [["a@1", "a", "b"]], "Sentence 0: the token 'a@1' .*'a' at distance 1"),
        ([["a", "b"]], [["c"], ["a@1"]], "Sentence 1: the token 'a@1' .*'a' at distance 1"),
        (
            [["a@1"]],
            [["c", "c", "d", "c"], ["a", "b"]],
            "Sentence 1: the token 'a@1' .*'a' at distance 1",
        ),
    ],
)
def test_a_token_spelt_like_a_tagged_one(fitted, X, match):
    tagger = PositionTagger(2)
    if fitted is None:
        with pytest.raises(ValueError, match=match):
            tagger.fit(X)
    else:
        assert tagger.transform(X).shape == (2,)  # no harm before `fit`
        tagger.fit(fitted)
    with pytest.raises(ValueError, match=match):
        tagger.transform(X)
    # Without untagged tokens nothing can be mixed up.
    assert PositionTagger(2, keep_untagged=False).fit(fitted or X).transform(X).shape == (len(X),)


def test_a_token_spelt_like_a_tag_that_is_not_written_is_none_of_our_business():
    X = [["a@5", "me@home", "b@1", "a@01", "b"], ["c@0", "x", "a"]]  # no token c, b never at 1
    assert PositionTagger(2).fit(X).transform(X).tolist() == _tagged(X, 2, True)
    tagger = PositionTagger(2).fit([["a@0"]])
    tagger.fit([["a"]])  # forgets the other
    assert tagger.transform([["a"]]).tolist() == [["a", "a@0"]]


# scikit-learn


@pytest.mark.parametrize("transformer", ALL, ids=NAMES)
def test_clone_pickle_and_parameters(transformer):
    X = _sentences(8)
    fitted = clone(transformer).fit(X)
    assert fitted.fit(X) is fitted
    copy = pickle.loads(pickle.dumps(fitted))
    assert copy.transform(X).tolist() == fitted.transform(X).tolist()
    assert type(transformer)(**fitted.get_params()).get_params() == transformer.get_params()
    assert vars(clone(fitted)) == vars(transformer)
    for name in fitted.get_params():
        assert name in repr(clone(fitted).set_params(**{name: 7}))


def test_what_needs_no_fit():
    for transformer in (ContextWindow(), PositionTagger()):
        assert transformer.transform([["a"]]).shape == (1,)
    for transformer in (LastNGram(2, 1), NGramTokens()):
        with pytest.raises(NotFittedError):
            transformer.transform([["a"]])


# These compare outputs as arrays of numbers; ours hold lists of tokens. What they check is above.
NUMBERS_ONLY = {
    "check_transformer_general",
    "check_transformer_data_not_an_array",
    "check_methods_sample_order_invariance",
    "check_methods_subset_invariance",
    "check_pipeline_consistency",
    "check_estimators_pickle",
    "check_fit_idempotent",
}


def _checks():
    for transformer in ALL:
        for estimator, check in estimator_checks_generator(transformer):
            name = getattr(check, "func", check).__name__
            if name not in NUMBERS_ONLY:
                yield pytest.param(estimator, check, id=f"{type(estimator).__name__}-{name}")


@pytest.mark.parametrize(("estimator", "check"), list(_checks()))
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def test_each_sentence_is_written_by_itself():
    """What scikit-learn's checks of subsets and order ask for."""
    X = _sentences(9)
    order = np.random.RandomState(0).permutation(len(X))
    for transformer in ALL:
        fitted = clone(transformer).fit(X)
        result = fitted.transform(X)
        assert fitted.transform([X[i] for i in order]).tolist() == result[order].tolist()
        assert [fitted.transform([x])[0] for x in X] == result.tolist()
        again = clone(transformer).fit([X[i] for i in order])
        assert again.transform(X).tolist() == result.tolist()


@pytest.mark.filterwarnings("error")
def test_a_search_over_the_whole_pipeline():
    logs = [["in", "view", "cart", "pay"], ["in", "find", "view", "view", "cart", "pay"]] * 6
    X, y, _ = make_contexts(logs)
    pipeline = Pipeline(
        [
            ("window", ContextWindow(5, start_token="^")),
            ("ngrams", NGramTokens(3, min_count=2)),
            ("query", LastNGram(2, 1)),
            ("tags", PositionTagger(2)),
            ("model", NTPTransformerClassifier(max_iter=5)),
        ]
    )
    grid = {
        "window__max_length": [2, 5],
        "ngrams": ["passthrough", NGramTokens(2)],
        "query__n": [1, 2],
        "tags__keep_untagged": [True, False],
    }
    search = GridSearchCV(pipeline, grid, cv=3, error_score="raise").fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.score(X, y) > 0.8
    assert search.predict([["find", "cart"], ["never", "seen"]]).shape == (2,)
    copy = pickle.loads(pickle.dumps(search))
    assert copy.predict(X).tolist() == search.predict(X).tolist()


def test_tags_tell_what_a_bag_cannot():
    """The next token is the one before the last: two orders, one bag."""
    X = [["a", "b", "q"], ["b", "a", "q"]]
    y = ["b", "a"]
    plain = NTPTransformerClassifier().fit(X, y)
    tagged = make_pipeline(PositionTagger(2), clone(plain).set_params(collocation="context"))
    assert plain.score(X, y) == 0.5
    assert tagged.fit(X, y).score(X, y) == 1


def test_many_digits_are_no_distance():
    X = [["user@99999999999999999999", "a@" + "9" * 5000, "a"]]
    assert PositionTagger(1).fit_transform(X).tolist() == [[*X[0], "a@0"]]


def test_one_long_token_does_not_widen_all_others():
    X = [[f"t{i}", f"u{i}"] for i in range(1000)] + [["x" * 10_000, "y"]]
    ngrams = NGramTokens(2, 1).fit(X).ngrams_
    assert ngrams.dtype == object and len(ngrams) == 1001
