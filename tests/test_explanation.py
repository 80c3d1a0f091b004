"""`explain`: every column against an independent computation, and what it refuses."""

import sys

import numpy as np
import pandas as pd
import pytest
from data import CHAIN, CYC, ONE, fitted
from numpy.testing import assert_allclose, assert_array_equal
from oracle import forward
from samples import conflicting

from sklntp import NTPTransformerClassifier, make_next_token_pipeline
from sklntp.structure import partial_orders

KINDS = [
    {"max_iter": 30},
    {"stages": ("joint",), "max_iter": 30},
    {"solver": "max_margin"},
    {"smoothing": "kneser-ney", "max_iter": 5},
    {"solver": "lbfgs", "alpha": 0.1, "collocation": "context"},
]


@pytest.mark.parametrize("params", KINDS, ids=str)
def test_every_column_is_that_of_the_dense_equations(params):
    X, y, weight = conflicting(0)
    clf = NTPTransformerClassifier(**params).fit(X, y, weight)
    orders = partial_orders(
        X, y, sample_weight=weight, collocation=params.get("collocation", clf.collocation_mode_)
    )
    tokens, w_ov, w_kq = clf.vocabulary_.tolist(), clf.coef_ov_, clf.coef_kq_
    for sentence in X[:20]:
        found = clf.explain(sentence)
        codes = [tokens.index(token) for token in sentence]
        p, phi, _ = forward(w_ov, w_kq, codes)
        best = int(np.argmax(p))
        assert found.query == sentence[-1] and found.token.tolist() == list(sentence)
        assert_array_equal(found.position, np.arange(len(sentence)))
        assert_allclose(found.attention, phi, rtol=1e-10, atol=1e-300)
        assert found.predicted == clf.predict([sentence])[0]
        assert found.probability == pytest.approx(p[best], rel=1e-10)
        assert found.runner_up_probability == pytest.approx(np.sort(p)[-2], rel=1e-8, abs=1e-300)
        assert_allclose(found.contribution, phi * w_ov[best, codes], rtol=1e-9, atol=1e-12)
        assert_array_equal(found.contribution, clf.contributions([sentence])[0])
        logits = w_ov @ np.bincount(codes, phi, len(tokens))
        assert found.contribution.sum() == pytest.approx(logits[best], rel=1e-12)
        order = orders[sentence[-1]]
        for token, role, vote, code in zip(
            sentence, found.role, found.votes_for, codes, strict=True
        ):
            assert token in getattr(order, role.replace("-", "_"))
            column = w_ov[:, code]
            assert vote is None or column[clf.classes_.tolist().index(vote)] == column.max()
            assert (vote is None) == (column.max() == column.min())


def test_unknown_tokens_vote_for_nothing():
    found = fitted(ONE).explain(["a", "zzz", "b"])
    assert found.role.tolist() == ["optimal", "unknown", "non-optimal"]
    assert found.votes_for.tolist() == ["b", None, "c"]
    assert found.contribution[1] == 0.0


def test_nothing_is_compared_under_an_unknown_query():
    found = fitted(ONE).explain(["a", "b", "zzz"])
    assert found.query == "zzz"
    assert found.role.tolist() == ["non-comparable", "non-comparable", "unknown"]
    assert_allclose(found.attention, 1 / 3, rtol=1e-15)


def test_a_tie_of_votes_goes_to_the_prediction_or_to_nothing():
    clf = fitted(([["a"], ["a"], ["b"]], ["b", "c", "d"]))
    assert clf.explain(["a"]).votes_for.tolist() == [clf.predict([["a"]])[0]]
    data = [["a"], ["a"], ["b"], ["d"]], ["b", "c", "d", "c"]
    found = fitted(data, stages=("ov",)).explain(["a", "d"])
    assert found.votes_for.tolist() == [found.predicted, "c"] == ["c", "c"]
    alone = fitted(([["a"]], ["b"])).explain(["a"])
    assert alone.votes_for.tolist() == [None]
    assert alone.runner_up is None and np.isnan(alone.runner_up_probability)


def test_the_text_is_aligned_and_adds_up():
    found = fitted(CHAIN, max_iter=100).explain(["b", "a", "a\nx", "", "c"])
    lines = str(found).splitlines()
    assert lines[0].startswith("next token b: probability ")
    assert lines[1] == "query c"
    assert len({line.index("non-") for line in lines if "non-" in line}) == 1
    assert "'a\\nx'" in lines[5] and "''" in lines[6]
    assert lines[-1].endswith(f"{found.contribution.sum():+z.4f}")
    assert "with probability" in repr(found) and "\n" not in repr(found)
    assert found._repr_html_().startswith("<pre>next token")


def test_a_long_sentence_shows_the_positions_of_most_attention():
    found = fitted(ONE, max_iter=100).explain(["b"] * 2000 + ["a"] + ["b"] * 2000)
    lines = str(found).splitlines()
    assert len(lines) == 35
    assert "2000  a " in str(found)
    assert lines[-2].startswith("3971 positions of less attention are left out")


def test_markup_in_a_token_is_escaped_in_html():
    found = fitted(([["<b>"], ["c"]], ["c", "<b>"])).explain(["<b>"])
    assert "<b>" not in found._repr_html_() and "&lt;b&gt;" in found._repr_html_()


def test_a_frame_has_the_columns():
    found = fitted(ONE).explain(["a", "b"])
    frame = found.to_frame()
    columns = ["position", "token", "role", "attention", "votes_for", "contribution"]
    assert frame.columns.tolist() == columns
    for name in columns:
        assert frame[name].tolist() == getattr(found, name).tolist()


def test_without_pandas_to_frame_says_what_to_do(monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        fitted(ONE).explain(["a", "b"]).to_frame()


@pytest.mark.parametrize("form", [tuple, np.array, pd.Series, lambda s: np.array(s, dtype=object)])
def test_a_sentence_may_be_any_sequence(form):
    clf = fitted(ONE)
    assert str(clf.explain(form(["a", "b"]))) == str(clf.explain(["a", "b"]))


def test_int_tokens():
    found = fitted(([[1], [2], [3], [1, 2]], [2, 3, 1, 2])).explain(np.array([1, 2]))
    assert (found.query, found.predicted) == (2, 2)
    assert found.votes_for.tolist() == [2, 3]


@pytest.mark.parametrize(
    ("sentence", "error", "message"),
    [
        ([["a", "b"]], ValueError, r"one sentence.*pipeline\[-1\]\.explain"),
        (np.array([["a", "b"]]), ValueError, "one sentence"),
        (pd.DataFrame({"x": ["a"]}), ValueError, "one sentence"),
        ("a b", ValueError, "split into tokens"),
        ([], ValueError, "empty"),
        (None, TypeError, "NoneType"),
        ([None], (ValueError, TypeError), "position 0"),
        ([b"a"], TypeError, r"a token must be a str or an int; got bytes b'a'\.$"),
        (["a", ["b"]], TypeError, r"Position 1: a token .*; got list \['b'\]"),
        ([["a"], "b"], TypeError, r"Position 0: a token .*; got list \['a'\]"),
        ({"a": 1}, TypeError, "dict"),
    ],
)
def test_what_is_no_sentence_is_refused(sentence, error, message):
    with pytest.raises(error, match=message):
        fitted(ONE).explain(sentence)


def test_unknown_tokens_are_refused_where_the_parameter_says_so():
    with pytest.raises(ValueError, match="zzz"):
        fitted(CYC, handle_unknown="error").explain(["zzz"])


def test_behind_the_transformers_of_a_pipeline():
    visits = [list("abcd"), list("acbd")] * 5
    X = [v[:k] for v in visits for k in range(1, 4)]
    y = [v[k] for v in visits for k in range(1, 4)]
    pipeline = make_next_token_pipeline(max_iter=20).fit(X, y)
    found = pipeline[-1].explain(pipeline[:-1].transform([["a", "b"]])[0])
    assert found.predicted == pipeline.predict([["a", "b"]])[0] == "c"
    assert "a→b" in found.token


def test_a_probability_below_one_is_not_shown_as_one():
    two = [["a"], ["b"]], ["b", "a"]
    sure, nearly = fitted(two, max_iter=1000), fitted(two, max_iter=80)
    assert sure.explain(["a"]).probability == 1.0 and "probability 1;" in str(sure.explain(["a"]))
    assert 0.9995 < nearly.explain(["a"]).probability < 1.0
    assert "probability > 0.999;" in str(nearly.explain(["a"]))
