"""`generate` and `top_k` against loops over `predict` and `predict_proba`."""

import numpy as np
import pandas as pd
import pytest
from data import CYC, ONE, fitted
from numpy.testing import assert_allclose, assert_array_equal
from samples import conflicting
from sklearn.model_selection import GridSearchCV

from sklntp import NTPTransformerClassifier, _generation, generate, make_next_token_pipeline
from sklntp._generation import top_classes


@pytest.fixture(scope="module")
def clf():
    X, y, weight = conflicting(0)
    return NTPTransformerClassifier(max_iter=20).fit(X, y, weight)


@pytest.fixture(scope="module")
def pipeline():
    rng = np.random.default_rng(0)
    sequences = [rng.choice(list("abcd"), 8).tolist() for _ in range(20)]
    X = [s[:k] for s in sequences for k in range(1, 8)]
    y = [s[k] for s in sequences for k in range(1, 8)]
    return make_next_token_pipeline(max_iter=10).fit(X, y)


def _prompts(clf):
    return [[token] for token in clf.vocabulary_.tolist()] + [clf.vocabulary_.tolist()]


def _greedy(model, prompts, n_tokens):
    """A literal loop over `predict`."""
    prompts = [list(prompt) for prompt in prompts]
    for _ in range(n_tokens):
        for prompt, token in zip(prompts, model.predict(prompts).tolist(), strict=True):
            prompt.append(token)
    return [prompt[-n_tokens:] for prompt in prompts]


# top_k


@pytest.mark.parametrize("k", [1, 2, 10])
def test_k4_top_k_is_sorted_and_at_most_all(clf, k):
    X = _prompts(clf)
    tokens, p = clf.top_k(X, k)
    n_classes = len(clf.classes_)
    assert tokens.shape == p.shape == (len(X), min(k, n_classes))
    assert_array_equal(tokens[:, 0], clf.predict(X))
    all_p = clf.predict_proba(X)
    assert_allclose(p, -np.sort(-all_p, axis=1)[:, :k], rtol=1e-12)
    for row, labels in enumerate(tokens):
        codes = np.searchsorted(clf.classes_, labels)
        assert_allclose(all_p[row, codes], p[row], rtol=1e-12)


def test_k4_ties_are_in_the_order_of_classes():
    clf = fitted(CYC)
    tokens, p = clf.top_k([["unknown"]], 2)
    assert tokens.tolist() == [["a", "b"]]
    assert_allclose(p, 1 / 3, rtol=1e-15)
    assert clf.top_k([["a"]], 3)[0].tolist() == [["b", "a", "c"]]


@pytest.mark.parametrize(
    ("k", "error"), [(0, ValueError), (-1, ValueError), (1.5, TypeError), (True, TypeError)]
)
def test_k4_a_bad_k_is_named(clf, k, error):
    with pytest.raises(error, match="k must be"):
        clf.top_k([["a"]], k)


def test_top_k_orders_probabilities_that_underflow():
    X, y = [["a"], ["b"], ["c"], ["d"], ["a", "d"]], ["b", "c", "d", "a", "b"]
    clf = fitted((X, y), step_size=1e5, max_iter=2)
    tokens, p = clf.top_k([["a", "d"]], 2)
    assert p[0, 1] == 0.0
    logits = clf.decision_function([["a", "d"]])[0]
    assert tokens[0].tolist() == clf.classes_[np.argsort(-logits, kind="stable")[:2]].tolist()


def test_top_classes_is_a_stable_sort():
    rng = np.random.default_rng(0)
    for _ in range(200):
        scores = rng.integers(4, size=(5, 7)).astype(float)
        for k in (1, 3, 7, 9):
            expected = np.argsort(-scores, axis=1, kind="stable")[:, :k]
            assert_array_equal(top_classes(scores, k), expected)


# generate


def test_temperature_zero_is_a_loop_over_predict(clf, pipeline):
    for model, prompts in ((clf, _prompts(clf)), (pipeline, [["a"], ["b", "c"], list("abcd")])):
        expected = _greedy(model, prompts, 6)
        assert generate(model, prompts, 6, temperature=0).tolist() == expected
        assert generate(model, prompts, 6, top_k=1, random_state=0).tolist() == expected
        assert generate(model, prompts, 6, temperature=1e-300).tolist() == expected


@pytest.mark.parametrize(("temperature", "top_k"), [(1.0, None), (0.5, None), (2.0, 2), (1, 99)])
def test_draws_follow_the_probabilities(clf, temperature, top_k):
    prompt, n = [clf.vocabulary_.tolist()[:2]], 20_000
    drawn = clf.generate(prompt * n, 1, temperature=temperature, top_k=top_k, random_state=1)[:, 0]
    p = clf.predict_proba(prompt)[0]
    kept = np.argsort(-p, kind="stable")[:top_k]
    weight = np.zeros_like(p)
    weight[kept] = p[kept] ** (1 / temperature)
    expected = weight / weight.sum()
    share = np.array([np.mean(drawn == label) for label in clf.classes_])
    assert_allclose(share, expected, atol=4 * np.sqrt(0.25 / n))
    assert not share[expected == 0].any()


def test_the_second_token_follows_the_first(clf):
    prompt, n = clf.vocabulary_.tolist()[:1], 20_000
    drawn = clf.generate([prompt] * n, 2, random_state=2)
    label = drawn[0, 0]
    after = drawn[drawn[:, 0] == label, 1]
    p = clf.predict_proba([[*prompt, label]])[0]
    share = np.array([np.mean(after == other) for other in clf.classes_])
    assert_allclose(share, p, atol=4 * np.sqrt(0.25 / len(after)))


def test_the_same_seed_gives_the_same_tokens(clf):
    prompts = _prompts(clf)
    first = clf.generate(prompts, 20, random_state=3)
    assert_array_equal(first, clf.generate(prompts, 20, random_state=3))
    assert (first != clf.generate(prompts, 20, random_state=4)).any()
    assert_array_equal(first[:2], clf.generate(prompts[:2], 20, random_state=3))
    state = np.random.RandomState(3)
    assert_array_equal(first, clf.generate(prompts, 20, random_state=state))
    assert (first != clf.generate(prompts, 20, random_state=state)).any()


def test_blocks_change_nothing(clf, monkeypatch):
    prompts = _prompts(clf) * 5
    expected = clf.generate(prompts, 8, random_state=0)
    monkeypatch.setattr(_generation, "_BLOCK", 3 * len(clf.classes_))
    assert_array_equal(clf.generate(prompts, 8, random_state=0), expected)


def test_k6_an_unknown_token_is_continued_by_classes(clf):
    drawn = clf.generate([[999], [999, 998]], 30, random_state=0)
    assert drawn.shape == (2, 30) and drawn.dtype == clf.classes_.dtype
    assert set(drawn.ravel().tolist()) <= set(clf.classes_.tolist())


def test_no_prompt_gives_no_row(clf, pipeline):
    for model in (clf, pipeline):
        found = generate(model, [], 3)
        assert found.shape == (0, 3) and found.dtype == model.classes_.dtype


def test_k6_an_empty_prompt_is_named(clf):
    with pytest.raises(ValueError, match="1"):
        clf.generate([["a"], []], 2)


@pytest.mark.parametrize(
    ("params", "error"),
    [
        ({"temperature": -0.1}, ValueError),
        ({"temperature": np.nan}, ValueError),
        ({"temperature": np.inf}, ValueError),
        ({"temperature": "hot"}, TypeError),
        ({"temperature": None}, TypeError),
        ({"top_k": 0}, ValueError),
        ({"top_k": 1.0}, TypeError),
        ({"n_tokens": 0}, ValueError),
        ({"n_tokens": 2.0}, TypeError),
    ],
)
def test_bad_parameters_are_named(clf, params, error):
    with pytest.raises(error, match=f"{next(iter(params))} must be"):
        clf.generate([["a"]], **{"n_tokens": 2, **params})


def test_forms_of_prompts_and_of_tokens():
    clf = fitted(ONE)
    expected = clf.generate([["a", "b"], ["b", "c"]], 5, random_state=0)
    table = np.array([["a", "b"], ["b", "c"]])
    for X in (table, pd.DataFrame(table), pd.Series([["a", "b"], ["b", "c"]]), (("a", "b"), "bc")):
        X = [list(s) for s in X] if isinstance(X, tuple) else X
        assert_array_equal(clf.generate(X, 5, random_state=0), expected)
    number = {"a": 10, "b": 20, "c": 30}
    ints = fitted(([[number[t] for t in s] for s in ONE[0]], [number[t] for t in ONE[1]]))
    drawn = ints.generate([[10, 20], [20, 30]], 5, random_state=0)
    assert drawn.dtype.kind == "i"
    assert drawn.tolist() == [[number[t] for t in row] for row in expected.tolist()]


def test_a_search_and_its_best_estimator_agree(pipeline):
    X, y = [["a"], ["b"], ["a", "b"], ["b", "a"]] * 3, ["b", "a", "a", "b"] * 3
    search = GridSearchCV(make_next_token_pipeline(max_iter=3), {"ngrams__max_n": [1]}, cv=2)
    search.fit(X, y)
    expected = generate(search.best_estimator_, [["a"]], 5, random_state=0)
    assert_array_equal(generate(search, [["a"]], 5, random_state=0), expected)


def test_the_last_step_alone_is_refused(pipeline):
    last = pipeline[-1]
    prompt = pipeline[:-1].transform([["a", "b"]])
    with pytest.raises(ValueError, match=r"sklntp\.generate\(pipeline"):
        last.generate(prompt, 2)
    assert last.generate(prompt, 1, temperature=0)[0, 0] == pipeline.predict([["a", "b"]])[0]


def test_next_tokens_that_are_no_tokens_are_refused():
    clf = fitted(([["a"], ["b"]], ["x", "y"]))
    assert clf.generate([["a"]], 1, temperature=0).tolist() == [["x"]]
    with pytest.raises(ValueError, match="none of its next tokens"):
        clf.generate([["a"]], 2)
    with pytest.raises((ValueError, TypeError), match="fed back"):
        fitted(([["a"], ["b"]], [1, 2])).generate([["a"]], 2)


def test_a_class_without_weight_is_never_drawn():
    with np.errstate(divide="ignore"):
        log_p = np.log([[0.0, 0.5, 0.0, 0.5, 0.0]])
    for uniform, code in ((0.0, 1), (0.5 - 1e-9, 1), (0.5, 3), (1 - 2**-53, 3)):
        assert _generation._draw(log_p, np.array([uniform]), 1.0, 5).tolist() == [code]


def test_more_than_memory_holds_is_refused_before_the_work(clf):
    with pytest.raises(MemoryError, match=r"result of generate of shape \(1, 1000000000000\)"):
        clf.generate([[0]], 10**12)
