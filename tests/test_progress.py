"""Training that is watched, stopped by a callback, or interrupted."""

import re
import signal
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pytest
import sklearn
from data import CHAIN, CYC, TWOQ, assert_same_fit, fitted
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.model_selection import GridSearchCV
from sklearn.utils.fixes import parse_version

import sklntp
from sklntp import NTPTransformerClassifier, _progress, make_next_token_pipeline
from sklntp._losses import AttentionLoss
from sklntp._max_margin import MaxMarginError

needs_callbacks = pytest.mark.skipif(
    parse_version(sklearn.__version__) < parse_version("1.9"), reason="no callbacks before 1.9"
)
WITHOUT_VALUE = ["loss", "log_loss", "norm", "cosine", "dist", "accuracy"]

# Lines


@pytest.mark.parametrize(
    ("verbose", "steps"), [(1, [0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20]), (2, range(21))]
)
def test_lines_have_one_format_and_the_last_says_why_it_stopped(capsys, verbose, steps):
    clf = fitted(TWOQ, max_iter=(20, 3), verbose=verbose)
    lines = capsys.readouterr().out.splitlines()
    form = (
        r"\[NTPTransformerClassifier\] stage (ov|kq), step (\d+)/(20|3), \d+\.\d s, "
        r"loss (\S+), norm ([^,]+)(, stop: max_iter)?"
    )
    found = [re.fullmatch(form, line).groups() for line in lines]
    assert [int(t) for stage, t, *_ in found if stage == "ov"] == list(steps)
    assert [int(t) for stage, t, *_ in found if stage == "kq"] == [0, 1, 2, 3]
    for stage, t, n, loss, norm, stop in found:
        curves = clf.convergence_[stage]
        assert (loss, norm) == tuple(f"{curves[name][int(t)]:.6g}" for name in ("loss", "norm"))
        assert (stop is not None) == (t == n)


def test_a_stage_that_stops_at_once_has_one_line(capsys):
    fitted(CYC, max_iter=2, verbose=1)
    assert capsys.readouterr().out.splitlines()[-1].endswith("norm 0, stop: zero gradient")


# Interruption


@pytest.fixture(autouse=True)
def handle_ctrl_c():
    """As in a terminal: a shell may have started the tests with the signal ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def _interrupt_at(monkeypatch, stage, t):
    """Ctrl-C while the point t of a stage is shown."""
    seen = _progress.ProgressLines.point

    def point(self, name, step, record):
        seen(self, name, step, record)
        if (name, step) == (stage, t):
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(_progress.ProgressLines, "point", point)


def _interrupted(monkeypatch, data, stage, t, clf=None, **params):
    """The classifier that Ctrl-C leaves."""
    clf = NTPTransformerClassifier(step_size=0.1) if clf is None else clf
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        _interrupt_at(patch, stage, t)
        clf.set_params(verbose=2, **params).fit(*data)
    return clf.set_params(verbose=0)


def test_ctrl_c_leaves_the_last_complete_step(monkeypatch):
    clf = _interrupted(monkeypatch, CHAIN, "kq", 4, max_iter=(30, 20))
    expected = fitted(CHAIN, max_iter=(30, 4))
    assert_array_equal(clf.coef_ov_, expected.coef_ov_)
    assert_array_equal(clf.coef_kq_, expected.coef_kq_)
    assert_array_equal(clf.loss_curve_, expected.loss_curve_)
    assert clf.n_iter_.tolist() == [30, 4]
    reasons = {stage: curves["stop_reason"] for stage, curves in clf.convergence_.items()}
    assert reasons == {"ov": "max_iter", "kq": "interrupted"}
    assert clf.predict([["a", "b"]]).tolist() == expected.predict([["a", "b"]]).tolist()


@pytest.mark.parametrize("stages", [("ov", "kq"), ("ov", "kq", "joint")])
def test_stages_not_reached_are_zero_and_empty(monkeypatch, stages):
    clf = _interrupted(monkeypatch, CHAIN, "ov", 3, max_iter=20, stages=stages)
    expected = fitted(CHAIN, max_iter=3, stages=("ov",))
    assert_array_equal(clf.predict_proba(CHAIN[0]), expected.predict_proba(CHAIN[0]))
    assert not clf.coef_kq_.any()
    assert clf.n_iter_.tolist() == [3] + [0] * (len(stages) - 1)
    complete = fitted(CHAIN, max_iter=2, stages=stages).convergence_
    assert clf.convergence_.keys() == complete.keys()
    for stage in stages[1:]:
        curves = dict(clf.convergence_[stage])
        assert curves.pop("stop_reason") == "not reached"
        assert curves.keys() | {"stop_reason"} == complete[stage].keys()
        assert all(curve.shape == (0,) for curve in curves.values())


def test_an_interrupted_fit_goes_on_with_warm_start(monkeypatch):
    clf = _interrupted(monkeypatch, TWOQ, "ov", 4, max_iter=(10, 20))
    clf.set_params(warm_start=True, max_iter=(6, 20)).fit(*TWOQ)
    expected = fitted(TWOQ, max_iter=(10, 20))
    assert_array_equal(clf.coef_kq_, expected.coef_kq_)
    assert_array_equal(clf.loss_curve_, expected.loss_curve_)


def test_interrupted_again_with_warm_start_keeps_the_other_matrix(monkeypatch):
    clf = fitted(TWOQ, max_iter=10, warm_start=True)
    before = clf.coef_kq_
    _interrupted(monkeypatch, TWOQ, "ov", 2, clf=clf)
    assert_array_equal(clf.coef_kq_, before)
    assert clf.convergence_["kq"]["stop_reason"] == "not reached"
    assert len(clf.convergence_["kq"]["loss"]) == 11
    assert clf.n_iter_.tolist() == [2, 0]


def test_a_joint_stage_not_reached_does_not_stand_in_the_way(monkeypatch):
    params = {"stages": ("ov", "joint"), "max_iter": 5}
    clf = _interrupted(monkeypatch, TWOQ, "ov", 2, **params).set_params(warm_start=True)
    assert clf.fit(*TWOQ).convergence_["joint"]["stop_reason"] == "max_iter"


def test_with_early_stopping_the_best_point_so_far_is_left(monkeypatch):
    params = {"early_stopping": True, "n_iter_no_change": 50, "random_state": 0, "max_iter": 60}
    X = [[a, b] for a in "abcd" for b in "abcd"] * 2
    y = [a if i % 3 else b for i, (a, b) in enumerate(X)]
    params |= {"stages": ("joint",), "step_size": 0.5}
    clf = _interrupted(monkeypatch, (X, y), "joint", 40, **params)
    losses = clf.convergence_["joint"]["validation_loss"]
    best = int(np.argmin(losses))
    assert 0 < best < len(losses) - 1 == 40
    expected = fitted((X, y), **{**params, "max_iter": best})
    assert expected.convergence_["joint"]["validation_loss"][-1] == losses[best]
    assert_array_equal(clf.coef_ov_, expected.coef_ov_)


def test_lbfgs_leaves_the_last_complete_iteration(monkeypatch):
    params = {"solver": "lbfgs", "alpha": 0.1, "tol": 0.0}
    clf = _interrupted(monkeypatch, CHAIN, "ov", 3, **params)
    curves = clf.convergence_["ov"]
    assert (curves["stop_reason"], len(curves["loss"])) == ("interrupted", 4)
    assert np.linalg.norm(clf.coef_ov_) == pytest.approx(curves["norm"][3], rel=1e-12)


def test_a_fit_interrupted_before_the_data_are_read_changes_nothing(monkeypatch):
    clf = fitted(TWOQ)
    again = fitted(TWOQ)

    def interrupted(*args, **kwargs):
        raise KeyboardInterrupt

    monkeypatch.setattr("sklntp._classifier.build_dataset", interrupted)
    with pytest.raises(KeyboardInterrupt):
        clf.fit(*CYC)
    assert_same_fit(clf, again)


@pytest.mark.parametrize("error", [RuntimeError, MaxMarginError])
def test_no_other_exception_leaves_half_a_fit(monkeypatch, error):
    def fail(self, theta):
        raise error("no")

    clf = NTPTransformerClassifier()
    monkeypatch.setattr(AttentionLoss, "__call__", fail)
    with pytest.raises((error, ValueError), match="no"):
        clf.fit(*TWOQ)
    assert not hasattr(clf, "classes_")


def test_ctrl_c_at_any_line_leaves_an_estimator_that_is_whole():
    package = str(Path(sklntp.__file__).parent)
    names = ("_classifier", "_training", "_solution", "_ngd", "_stages", "_threads", "_progress")
    files = {f"{package}/{name}.py" for name in names}
    after = {"ov": [], "kq": []}  # what a fit is after so many steps
    for t in range(3):
        after["ov"].append(fitted(TWOQ, stages=("ov",), max_iter=max(t, 1)))
        after["kq"].append(fitted(TWOQ, max_iter=(2, max(t, 1))))
    sentences, none = TWOQ[0], np.full((len(TWOQ[0]), 3), 1 / 3)

    def interrupt_at(line):
        seen = 0

        def trace(frame, event, arg):
            nonlocal seen
            if frame.f_code.co_filename not in files:
                return None
            if event == "line":
                seen += 1
                if seen == line:
                    raise KeyboardInterrupt
            return trace

        clf, before = NTPTransformerClassifier(step_size=0.1, max_iter=2), sys.gettrace()
        sys.settrace(trace)
        try:
            clf.fit(*TWOQ)
        except KeyboardInterrupt:
            return clf, True
        finally:
            sys.settrace(before)
        return clf, False

    line, stopped, ends = 0, True, set()
    while stopped:
        line += 3
        clf, stopped = interrupt_at(line)
        if not hasattr(clf, "classes_"):
            assert not [name for name in vars(clf) if name.endswith("_")]
            ends.add("unfitted")
            continue
        n_ov, n_kq = clf.n_iter_.tolist()
        reasons = [clf.convergence_[stage]["stop_reason"] for stage in ("ov", "kq")]
        ends.add((n_ov, n_kq, *reasons))
        for stage, n in (("ov", n_ov), ("kq", n_kq)):
            lengths = {len(clf.convergence_[stage][name]) for name in WITHOUT_VALUE}
            reached = clf.convergence_[stage]["stop_reason"] != "not reached"
            assert lengths == {n + 1 if reached else 0}
        stage, n = ("kq", n_kq) if n_kq else ("ov", n_ov)
        expected = after[stage][n].predict_proba(sentences) if n else none
        assert_allclose(clf.predict_proba(sentences), expected, rtol=1e-15)
    assert {(0, 0, "not reached", "not reached"), (1, 0, "interrupted", "not reached")} <= ends
    assert {(2, 0, "max_iter", "not reached"), (2, 1, "max_iter", "interrupted")} <= ends
    assert {"unfitted", (2, 2, "max_iter", "max_iter")} <= ends


SCRIPT = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have it ignored
from sklntp import NTPTransformerClassifier
clf = NTPTransformerClassifier(max_iter=(3, 10**9), verbose=2)
try:
    clf.fit([["a"], ["b"], ["c"], ["a", "b"]], ["b", "c", "a", "b"])
except KeyboardInterrupt:
    n = len(clf.convergence_["kq"]["loss"]) - 1
    print("left", clf.n_iter_[1] == n, clf.convergence_["kq"]["stop_reason"], flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="SIGINT cannot be sent to one process there")
def test_a_signal_from_outside():
    command = [sys.executable, "-u", "-c", SCRIPT]
    path = str(Path(sklntp.__file__).parents[1])
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=path) as process:
        for line in process.stdout:
            if "stage kq, step 20/" in line:
                process.send_signal(signal.SIGINT)
                break
        rest = process.stdout.read().splitlines()
    assert rest[-1].endswith("left True interrupted")  # a line of progress may be cut short


# Callbacks


class Recorder:
    """Records what is called, and says True where `stop` does."""

    def __init__(self, stop=lambda context, estimator: False):
        self.stop, self.calls, self.scores = stop, [], []

    def setup(self, estimator, context):
        self.calls.append("setup")

    def on_fit_task_begin(self, estimator, context):
        self.calls.append(f"begin {context.task_name} {context.task_id}")

    def on_fit_task_end(self, estimator, context, *, X, y, metadata, fitted_estimator):
        self.calls.append(f"end {context.task_name} {context.task_id}")
        if fitted_estimator is not None:
            self.scores.append((context.task_name, fitted_estimator.n_iter_.tolist()))
            self.probabilities = fitted_estimator.predict_proba(X)
        return self.stop(context, fitted_estimator)

    def teardown(self, estimator, context):
        self.calls.append("teardown")


@needs_callbacks
def test_callbacks_see_the_tree_of_tasks():
    recorder = Recorder()
    clf = NTPTransformerClassifier(max_iter=(2, 1)).set_callbacks(recorder).fit(*TWOQ)
    assert recorder.calls == [
        *("setup", "begin fit 0"),
        *("begin stage ov 0", "begin step 0", "end step 0", "begin step 1", "end step 1"),
        *("end stage ov 0", "begin stage kq 1", "begin step 0", "end step 0", "end stage kq 1"),
        *("end fit 0", "teardown"),
    ]
    steps = [[1, 0], [2, 0], [2, 0], [2, 1], [2, 1], [2, 1]]
    assert [n_iter for _, n_iter in recorder.scores] == steps
    assert_array_equal(recorder.probabilities, clf.predict_proba(TWOQ[0]))
    assert_same_fit(clf, NTPTransformerClassifier(max_iter=(2, 1)).fit(*TWOQ))


@needs_callbacks
@pytest.mark.parametrize("solver", ["ngd", "lbfgs"])
def test_a_step_that_is_begun_and_not_taken_ends_with_nothing(solver):
    recorder = Recorder()
    NTPTransformerClassifier(solver=solver, max_iter=3).set_callbacks(recorder).fit(*CYC)
    assert recorder.calls[-5:-1] == ["begin step 0", "end step 0", "end stage kq 1", "end fit 0"]
    assert [n_iter for name, n_iter in recorder.scores if name != "step"][-1][1] == 0


@needs_callbacks
@pytest.mark.parametrize("params", [{"solver": "max_margin"}, {"smoothing": "kneser-ney"}])
def test_a_closed_form_is_a_stage_without_steps(params):
    recorder = Recorder()
    NTPTransformerClassifier(max_iter=3, **params).set_callbacks(recorder).fit(*TWOQ)
    at = recorder.calls.index("begin stage ov 0")
    assert recorder.calls[at + 1] == "end stage ov 0"


@needs_callbacks
@pytest.mark.parametrize("solver", ["ngd", "lbfgs"])
def test_a_callback_that_says_true_ends_the_stage(solver):
    def third_step(context, estimator):
        return context.task_name == "step" and context.task_id == 2

    params = {"solver": solver, "max_iter": 8, "step_size": 0.1, "n_iter_no_change": 9}
    clf = NTPTransformerClassifier(**params).set_callbacks(Recorder(third_step)).fit(*CHAIN)
    assert clf.n_iter_.tolist() == [3, 3]
    assert {curves["stop_reason"] for curves in clf.convergence_.values()} == {"callback"}
    if solver == "ngd":
        assert_array_equal(clf.coef_kq_, fitted(CHAIN, max_iter=3).coef_kq_)


@needs_callbacks
def test_a_callback_that_says_true_after_a_stage_ends_training():
    recorder = Recorder(lambda context, estimator: context.task_name == "stage ov")
    clf = NTPTransformerClassifier(max_iter=3).set_callbacks(recorder).fit(*TWOQ)
    assert clf.convergence_["ov"]["stop_reason"] == "max_iter"
    assert clf.convergence_["kq"]["stop_reason"] == "not reached"
    assert not clf.coef_kq_.any()


@needs_callbacks
def test_all_callbacks_are_asked_and_one_is_enough():
    first, second = Recorder(lambda context, estimator: context.task_name == "step"), Recorder()
    clf = NTPTransformerClassifier(max_iter=4).set_callbacks(first, second).fit(*TWOQ)
    assert clf.n_iter_.tolist() == [1, 1]
    assert first.calls == second.calls


@needs_callbacks
def test_ctrl_c_tears_callbacks_down(monkeypatch):
    recorder = Recorder()
    clf = NTPTransformerClassifier().set_callbacks(recorder)
    _interrupted(monkeypatch, TWOQ, "ov", 2, clf=clf)
    assert recorder.calls[-1] == "teardown"
    assert clf.n_iter_.tolist() == [2, 0]


@needs_callbacks
def test_scoring_monitor_scores_every_step_with_its_weights():
    from sklearn.callback import ScoringMonitor

    monitor, weight = ScoringMonitor(scoring="accuracy"), np.arange(1.0, 6.0)
    clf = NTPTransformerClassifier(max_iter=4, track_alignment=True).set_callbacks(monitor)
    clf.fit(*TWOQ, sample_weight=weight)
    rows = [row for row in monitor.get_logs().data if row["task_name"] == "step"]
    expected = [clf.convergence_[stage]["accuracy"][1:] for stage in ("ov", "kq")]
    assert [row["accuracy"] for row in rows] == pytest.approx(np.concatenate(expected))


@needs_callbacks
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_callbacks_in_a_grid_search(n_jobs, capfd):
    pytest.importorskip("rich")
    from sklearn.callback import ProgressBar, ScoringMonitor

    X, y = TWOQ[0] * 4, TWOQ[1] * 4
    monitor = ScoringMonitor(scoring="accuracy")
    clf = NTPTransformerClassifier(max_iter=(3, 2)).set_callbacks(monitor)
    search = GridSearchCV(clf, {"step_size": [0.1, 1.0]}, cv=2, n_jobs=n_jobs)
    search.set_callbacks(ProgressBar(max_propagation_depth=1)).fit(X, y)
    logs = monitor.get_logs(select="all")
    steps = [row for log in logs for row in log.data if row["task_name"] == "step"]
    assert len(steps) == 5 * (2 * 2 + 1)
    assert "stage kq" in capfd.readouterr().out
    plain = GridSearchCV(NTPTransformerClassifier(max_iter=(3, 2)), search.param_grid, cv=2)
    assert_array_equal(
        search.cv_results_["mean_test_score"], plain.fit(X, y).cv_results_["mean_test_score"]
    )


@needs_callbacks
def test_a_progress_bar_of_the_recommended_pipeline_reaches_the_steps(capfd):
    pytest.importorskip("rich")
    from sklearn.callback import ProgressBar

    pipeline = make_next_token_pipeline(max_iter=2).set_callbacks(ProgressBar())
    pipeline.fit([["a"], ["a", "b"]] * 3, ["b", "c"] * 3)
    shown = capfd.readouterr().out
    for name in ("ContextWindow", "NGramTokens", "PositionTagger", "stage joint"):
        assert name in shown


def test_callbacks_before_scikit_learn_1_9_change_nothing():
    clf = NTPTransformerClassifier(max_iter=2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert clf.set_callbacks(Recorder()) is clf
    old = parse_version(sklearn.__version__) < parse_version("1.9")
    assert [str(w.message)[:33] for w in caught] == [
        "Callbacks need scikit-learn 1.9; f"[:33]
    ] * old
    assert clf.fit(*TWOQ).n_iter_.tolist() == [2, 2]
    clf.set_callbacks()
