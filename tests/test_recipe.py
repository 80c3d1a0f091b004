"""The recommended pipeline: what is in it, on any tokens, inside searches."""

import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, GroupKFold, cross_validate

from sklntp import make_next_token_pipeline
from sklntp.metrics import neg_log_loss, perplexity, top_k_accuracy
from sklntp.preprocessing import make_contexts


def second_order(n_sequences=60, length=9, seed=0):
    """Sequences of a, b, c in which the token two places back says what follows."""
    rng = np.random.default_rng(seed)
    sequences = []
    for _ in range(n_sequences):
        sequence = rng.choice(["a", "b", "c"], size=2).tolist()
        while len(sequence) < length:
            sequence.append({"a": "b", "b": "c", "c": "a"}[sequence[-2]])
        sequences.append(sequence)
    return sequences


@pytest.fixture
def data():
    return make_contexts(second_order())


def test_the_steps_take_the_parameters():
    pipeline = make_next_token_pipeline(
        max_length=7, max_n=3, min_count=2, max_distance=4, alpha=0.5, attention_start=2.0,
        max_iter=11, n_jobs=2,
    )  # fmt: skip
    params = pipeline.get_params()
    assert params["window__max_length"] == 7 and params["window__start_token"] == "<s>"
    assert params["ngrams__max_n"] == 3 and params["ngrams__min_count"] == 2
    assert params["positions__max_distance"] == 4
    for name, value in {"alpha": 0.5, "attention_start": 2.0, "max_iter": 11, "n_jobs": 2}.items():
        assert params[f"classifier__{name}"] == value
    assert clone(pipeline).get_params()["window__max_length"] == 7


def test_it_learns_what_a_bag_of_tokens_cannot_tell(data):
    X, y, groups = data
    pipeline = make_next_token_pipeline(max_iter=60).fit(X, y)
    unseen = [["a", "b"], ["b", "a"], ["c", "c"], ["b", "a", "c", "b"]]
    assert_array_equal(pipeline.predict(unseen), ["b", "c", "a", "a"])
    # Only the order of the tokens tells the first two apart.
    assert_allclose(pipeline.predict_proba(unseen).sum(axis=1), 1.0, rtol=1e-12)


def test_a_context_has_the_start_token_where_its_beginning_is_seen(data):
    X, y, groups = data
    prepare = make_next_token_pipeline(max_length=4, max_n=1, max_distance=1)[:-1].fit(X)
    whole, cut = prepare.transform([["a", "b", "c"], ["a", "a", "b", "c"]])
    assert whole == ["<s>", "a", "b", "c", "c@0"]
    assert cut == ["a", "a", "b", "c", "c@0"]


def test_int_tokens_give_the_same_model(data):
    X, y, groups = data
    code = {"a": 0, "b": 1, "c": 2}
    as_int = [[code[token] for token in x] for x in X]
    pipeline = make_next_token_pipeline(max_iter=20).fit(X, y)
    other = make_next_token_pipeline(max_iter=20).fit(as_int, [code[token] for token in y])
    assert_array_equal(other.classes_, [0, 1, 2])
    assert_allclose(other.predict_proba(as_int), pipeline.predict_proba(X), atol=1e-8, rtol=0)


def test_all_in_one_search(data):
    X, y, groups = data
    scoring = {"loss": neg_log_loss, "perplexity": perplexity, "top": top_k_accuracy}
    grid = {"ngrams__max_n": [1, 2], "positions__max_distance": [1, 3]}
    search = GridSearchCV(
        make_next_token_pipeline(max_iter=20), grid,
        scoring=scoring, refit="loss", cv=GroupKFold(3), n_jobs=2,
    ).fit(X, y, groups=groups)  # fmt: skip
    results = search.cv_results_
    best = results["mean_test_loss"][search.best_index_]
    assert best == results["mean_test_loss"].max() > -0.35
    only_last = {"ngrams__max_n": 1, "positions__max_distance": 1}
    worst = results["mean_test_loss"][results["params"].index(only_last)]
    assert worst < best - 0.1  # no order of tokens, no second-order rule
    assert_allclose(results["mean_test_top"], 1.0)


def test_folds_that_lack_a_token_are_scored(data):
    X, y, groups = data
    X = np.append(X, 0)
    X[-1] = ["a", "b", "a"]
    y, groups = np.append(y, "rare"), np.append(groups, groups.max() + 1)
    scores = cross_validate(
        make_next_token_pipeline(max_iter=5), X, y,
        groups=groups, scoring=neg_log_loss, cv=GroupKFold(3), error_score="raise",
    )  # fmt: skip
    assert np.isfinite(scores["test_score"]).all()
