"""What 100,000 steps, saturated float64, unseen sentences and large vocabularies show.

20 tokens; few and short sentences only keep a step cheap.
"""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from joblib import Parallel, delayed

import sklntp
from sklntp import NTPTransformerClassifier
from sklntp.datasets import make_realizable_ntp
from sklntp.metrics import alignment, generalization_report

ETA = 0.2
CHECKPOINTS = [1_000, 1_778, 3_162, 5_623, 10_000, 17_783, 31_623, 56_234, 100_000]


def _cosine(dist):
    return 1.0 - 0.5 * dist**2


def _data(broken=None, seed=0):
    return make_realizable_ntp(20, 60, max_length=4, break_assumption=broken, random_state=seed)


def _train_stage_2(clf, data, checkpoints):
    """Continue to each number of steps; the distance from the reference at each."""
    clf.set_params(stages=("kq",), warm_start=True, step_size=ETA)
    dist, done = [], 0
    for t in checkpoints:
        clf.set_params(max_iter=t - done).fit(data.X, data.y)
        assert clf.convergence_["kq"]["stop_reason"] == "max_iter"
        dist.append(alignment(clf.coef_kq_, clf.max_margin_coef_kq_).dist)
        done = t
    return np.array(dist)


def _long_run(broken, seed):
    """Distances at the checkpoints, and what the end shows: norm / (eta t), training accuracy."""
    data = _data(broken, seed)
    clf = NTPTransformerClassifier(stages=("ov",), step_size=ETA, max_iter=1000)
    dist = _train_stage_2(clf.fit(data.X, data.y), data, CHECKPOINTS)
    ratio = np.linalg.norm(clf.coef_kq_) / (ETA * CHECKPOINTS[-1])
    return dist, ratio, clf.score(data.X, data.y)


RUNS = [(None, seed) for seed in range(20)] + [("confused", 0), ("minority", 0)]


@pytest.fixture(scope="module")
def long_runs():
    """Results by (broken assumption, seed), some seconds each."""
    return dict(
        zip(RUNS, Parallel(n_jobs=2)(delayed(_long_run)(*run) for run in RUNS), strict=True)
    )


@pytest.mark.parametrize("run", RUNS, ids=str)
def test_rate_norm_and_direction_over_100_000_steps(run, long_runs):
    dist, ratio, accuracy = long_runs[run]
    constant = dist * CHECKPOINTS / np.log(CHECKPOINTS) ** 2
    # Never grows by more than 10 %, and never falls below a third.
    assert (constant <= 1.1 * np.minimum.accumulate(constant)).all()
    assert (constant >= constant[0] / 3).all()
    assert 0.9999 < ratio <= 1.0
    assert _cosine(dist[-1]) > 1.0 - 1e-5
    assert accuracy == 1.0


def test_200_000_steps_after_a_first_stage_that_underflows():
    data = _data()
    clf = NTPTransformerClassifier(stages=("ov",), step_size=10.0, max_iter=10_000)
    clf.fit(data.X, data.y)
    excess = clf.coef_ov_.max(axis=0) - clf.coef_ov_.min(axis=0)
    assert excess.min() > 20_000.0  # 1 - p < exp(-20,000)
    np.testing.assert_allclose(np.linalg.norm(clf.coef_ov_), 1e5, rtol=1e-12)
    assert alignment(clf.coef_ov_, clf.max_margin_coef_ov_).dist < 1e-11
    dist = _train_stage_2(clf, data, [2_000, 20_000, 200_000])
    assert (_cosine(dist) > 1.0 - np.array([1e-3, 1e-5, 1e-6])).all()
    assert np.linalg.norm(clf.coef_kq_) > 0.99 * ETA * 200_000
    log_loss = clf.convergence_["kq"]["log_loss"]
    assert np.isfinite(log_loss).all() and log_loss[-1] < -20_000.0
    assert clf.score(data.X_unseen, data.y_unseen) == 1.0


@pytest.mark.parametrize("solver", ["ngd", "max_margin"])
@pytest.mark.parametrize("seed", range(20))
def test_every_determined_answer_to_an_unseen_sentence_is_given(seed, solver):
    data = make_realizable_ntp(random_state=seed)
    clf = NTPTransformerClassifier(solver=solver, max_iter=2000).fit(data.X, data.y)
    report = generalization_report(clf, data.X_unseen, data.y_unseen)
    assert report.n_determined == 200
    assert report.accuracy == clf.score(data.X_unseen, data.y_unseen) == 1.0
    rng = np.random.RandomState(seed)
    report = generalization_report(clf, [rng.randint(20, size=5).tolist() for _ in range(500)])
    assert 200 < report.n_determined < 500
    assert {row["accuracy"] for row in report.summary if row["determined"]} == {1.0}


LARGE = """
import resource
import sys

import numpy as np

from sklntp import NTPTransformerClassifier

rng = np.random.default_rng(0)
n_tokens, n_sentences = 50_000, 20_000
share = 1.0 / np.arange(1, n_tokens + 1)  # Zipf
share /= share.sum()
lengths = rng.integers(3, 13, n_sentences)
flat = np.arange(lengths.sum())  # every token occurs
flat[n_tokens:] = rng.choice(n_tokens, len(flat) - n_tokens, p=share)
X = [x.tolist() for x in np.split(rng.permutation(flat), np.cumsum(lengths)[:-1])]
y = rng.choice(n_tokens, n_sentences, p=share)
clf = NTPTransformerClassifier(collocation="last", max_iter=3, vocabulary=range(n_tokens)).fit(X, y)
assert clf.sparse_coef_ov_.shape == clf.sparse_coef_kq_.shape == (n_tokens, n_tokens)
assert max(len(following) for following in clf.collocation_.values()) > 100
assert clf.n_iter_.tolist() == [3, 3] and np.isfinite(clf.loss_curve_).all()
clf.predict(X)
unit = 1 if sys.platform == "darwin" else 1024
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit)
"""


def test_memory_of_50_000_tokens_with_several_next_tokens():
    pytest.importorskip("resource")  # not on Windows
    environment = os.environ | {"PYTHONPATH": str(Path(sklntp.__file__).parents[1])}
    run = subprocess.run(
        [sys.executable, "-c", LARGE], env=environment, capture_output=True, text=True
    )
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) < 2e9  # one dense matrix: 20e9
