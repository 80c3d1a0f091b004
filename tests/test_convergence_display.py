"""The display of a history: its numbers, its guides, and what it says where there is no curve."""

import sys

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

from sklntp import NTPTransformerClassifier
from sklntp.datasets import make_realizable_ntp
from sklntp.inspection import AttentionDisplay, ConvergenceDisplay, PartialOrderDisplay

plt = pytest.importorskip("matplotlib.pyplot")

DATA = make_realizable_ntp(6, 30, random_state=0)
UNEVEN = [["a"], ["a"], ["a"], ["b"], ["c"], ["a", "b"]], ["b", "b", "c", "c", "a", "b"]


@pytest.fixture(autouse=True)
def closed_figures(monkeypatch):
    monkeypatch.setattr(plt, "show", lambda *args, **kwargs: pytest.fail("shown"))
    yield
    plt.close("all")


def fitted(X=DATA.X, y=DATA.y, **params):
    return NTPTransformerClassifier(**{"max_iter": 60, "track_alignment": True} | params).fit(X, y)


def said(display, stage):
    return {name: text.get_text() for name, text in display.texts_[stage].items()}


def test_curves_are_the_histories():
    clf = fitted(early_stopping=True, n_iter_no_change=100, random_state=0)
    display = ConvergenceDisplay.from_estimator(clf)
    assert display.axes_.shape == (2, 3)
    for stage, history in clf.convergence_.items():
        lines = {name: line.get_ydata() for name, line in display.lines_[stage].items()}
        np.testing.assert_allclose(lines["loss"], history["log_loss"] / np.log(10))
        np.testing.assert_allclose(10 ** lines["validation_loss"], history["validation_loss"])
        np.testing.assert_array_equal(lines["norm"], history["norm"])
        np.testing.assert_array_equal(lines["dist"], np.maximum(history["dist"][1:], 1e-18))
    assert display.convergence is clf.convergence_


def test_loss_below_the_smallest_float_is_drawn_and_labelled():
    clf = fitted(max_iter=600, step_size=10.0, track_alignment=False, stages=("ov",))
    assert clf.convergence_["ov"]["loss"][-1] == 0.0
    display = ConvergenceDisplay.from_estimator(clf)
    display.figure_.canvas.draw()
    assert display.lines_["ov"]["loss"].get_ydata()[-1] < -320
    labels = [label.get_text() for label in display.axes_[0, 0].get_yticklabels()]
    assert {"1", "$10^{-1000}$"} < set(labels)


@pytest.mark.parametrize("stage, power", [("ov", 1), ("kq", 2)])
def test_guide_of_the_direction_has_the_claimed_rate_and_meets_the_curve(stage, power):
    clf = fitted(*(UNEVEN if stage == "ov" else (DATA.X, DATA.y)), max_iter=300)
    display = ConvergenceDisplay.from_estimator(clf)
    t, guide = display.lines_[stage]["guide_dist"].get_data()
    assert np.ptp(guide * t / np.log(t) ** power) < 1e-12 * guide[0] * t[0]
    assert t[-1] == 300
    assert guide[-1] == pytest.approx(clf.convergence_[stage]["dist"][-1])
    assert (np.diff(guide) < 0).all()


@pytest.mark.parametrize("schedule", ["constant", "invscaling", "linear"])
def test_guide_of_the_norm_is_the_sum_of_the_steps(schedule):
    clf = fitted(step_size=(0.3, 0.1), step_schedule=schedule, max_iter=(10, 20))
    display = ConvergenceDisplay.from_estimator(clf)
    assert ("guide_dist" in display.lines_["kq"]) == (schedule == "constant")
    for stage, eta, n in (("ov", 0.3, 10), ("kq", 0.1, 20)):
        t = np.arange(n)
        steps = {"constant": 1 + 0 * t, "invscaling": (t + 1) ** -0.5, "linear": 1 - t / n}
        guide = np.append(0, np.cumsum(eta * steps[schedule]))
        line = display.lines_[stage]["guide_norm"]
        np.testing.assert_allclose(line.get_ydata(), guide)
        assert line.get_label() == (
            f"guide: {eta} t" if schedule == "constant" else "guide: sum of the steps"
        )


def test_guide_of_the_norm_after_a_warm_start_covers_the_last_call():
    clf = fitted(stages=("ov",), max_iter=10)
    clf.set_params(warm_start=True, max_iter=5, step_size=0.5).fit(DATA.X, DATA.y)
    guide = ConvergenceDisplay.from_estimator(clf).lines_["ov"]["guide_norm"].get_ydata()
    assert np.isnan(guide[:10]).all()
    np.testing.assert_allclose(guide[10:], 2.0 + 0.5 * np.arange(6))


def test_other_solvers_have_no_guide_of_the_norm():
    display = ConvergenceDisplay.from_estimator(fitted(solver="lbfgs", alpha=0.1))
    assert "guide_norm" not in display.lines_["kq"]


def test_an_exact_direction_has_no_rate():
    display = ConvergenceDisplay.from_estimator(fitted())
    assert "guide_dist" not in display.lines_["ov"]
    legend = [text.get_text() for text in display.axes_[0, 1].get_legend().get_texts()]
    assert "exact to rounding" in legend
    X = [["a"], ["b"]]  # at a distance of exactly zero
    display = ConvergenceDisplay.from_estimator(fitted(X, ["b", "a"]))
    display.figure_.canvas.draw()
    assert set(display.lines_["ov"]["dist"].get_ydata()) == {1e-18}


def test_joint_stage_has_both_matrices():
    clf = fitted(stages=("ov", "kq", "joint"), max_iter=5)
    display = ConvergenceDisplay.from_estimator(clf)
    lines = display.lines_["joint"]
    np.testing.assert_array_equal(
        lines["norm_kq"].get_ydata(), clf.convergence_["joint"]["norm_kq"]
    )
    total = np.hypot(*(clf.convergence_["joint"][f"norm_{m}"] for m in ("ov", "kq")))
    np.testing.assert_allclose(lines["guide_norm"].get_ydata(), total[0] + 0.2 * np.arange(6))
    assert {"dist_ov", "dist_kq"} < lines.keys()


@pytest.mark.parametrize(
    "params, expected",
    [
        ({"solver": "max_margin"}, "no steps: set to the max-margin reference"),
        ({"smoothing": "kneser-ney", "stages": ("ov",)}, "no steps: closed form (smoothing)"),
    ],
)
def test_stages_without_steps_say_so(params, expected):
    display = ConvergenceDisplay.from_estimator(fitted(**params))
    display.figure_.canvas.draw()
    assert all(text.startswith(expected) for text in said(display, "ov").values())
    assert said(display, "ov").keys() == {"loss", "dist", "norm"}


def test_zero_gradient_and_stages_not_reached_say_so():
    clf = fitted([["a"], ["b"]], ["b", "a"])
    text = said(ConvergenceDisplay.from_estimator(clf), "kq")
    assert text["norm"] == "no steps: zero gradient\nnorm 0"
    empty = {name: np.empty(0) for name in ("loss", "log_loss", "norm", "dist", "accuracy")}
    history = {"ov": clf.convergence_["ov"], "kq": empty | {"stop_reason": "not reached"}}
    display = ConvergenceDisplay(convergence=history).plot()
    display.figure_.canvas.draw()
    assert set(said(display, "kq").values()) == {"not reached"}


def test_a_single_loss_below_the_smallest_float_is_no_zero():
    point = {"loss": [0.0], "log_loss": [-5000.0], "norm": [9e3], "dist": [0.1], "accuracy": [1.0]}
    history = {"kq": point | {"stop_reason": "max_margin"}}
    text = said(ConvergenceDisplay(convergence=history).plot(), "kq")["loss"]
    assert text.endswith("loss $10^{-2171.5}$")


def test_one_class_has_loss_zero():
    display = ConvergenceDisplay.from_estimator(fitted([["a"], ["b"]], ["a", "a"]))
    assert said(display, "ov")["loss"] == "no steps: zero gradient"


def test_what_was_not_tracked_is_said():
    display = ConvergenceDisplay.from_estimator(fitted(track_alignment=False))
    assert "track_alignment=True" in said(display, "kq")["dist"]


def test_long_histories_keep_their_extremes():
    n = 200_000
    dist = 1 / np.arange(1, n + 1)
    dist[[7, 5_000, 123_456]] = 5.0
    curve = {name: dist for name in ("loss", "log_loss", "norm", "dist", "accuracy")}
    display = ConvergenceDisplay(convergence={"kq": curve | {"stop_reason": "max_iter"}}).plot()
    t, drawn = display.lines_["kq"]["dist"].get_data()
    assert len(t) < 5_000 and {7, 5_000, 123_456, n - 1} <= set(t)
    np.testing.assert_array_equal(drawn, dist[t])


@pytest.mark.parametrize("layout", [None, "constrained"])
def test_one_axes_is_subdivided_and_no_other_touched(layout):
    figure, (left, right) = plt.subplots(1, 2, figsize=(24, 7), layout=layout)
    display = ConvergenceDisplay.from_estimator(fitted(), ax=left)
    assert display.figure_ is figure and plt.get_fignums() == [figure.number]
    assert not right.has_data() and right.axison and not left.axison
    figure.canvas.draw()
    outer = left.get_position().padded(1e-9)
    for ax in display.axes_.ravel() if layout is None else ():
        assert outer.contains(*ax.get_position().p0) and outer.contains(*ax.get_position().p1)
    with pytest.raises(ValueError, match="display.axes_"):
        display.plot(ax=left)


def test_an_axes_placed_by_hand_is_subdivided():
    ax = plt.figure().add_axes((0.5, 0.5, 0.4, 0.4))
    display = ConvergenceDisplay.from_estimator(fitted(), ax=ax)
    assert display.axes_[1, 0].get_position().p0 == pytest.approx([0.5, 0.5])


def test_an_array_of_axes_is_drawn_into():
    _, axes = plt.subplots(2, 3)
    display = ConvergenceDisplay.from_estimator(fitted(), ax=axes)
    assert (display.axes_ == axes).all()
    with pytest.raises(ValueError, match="three for each of the 2 stages; got 5 Axes"):
        display.plot(ax=axes.ravel()[:5])
    with pytest.raises(TypeError, match="three for each of the 2 stages; got str 'a'"):
        display.plot(ax=[*axes.ravel()[:5], "a"])


def test_texts_are_inside_and_apart():
    display = ConvergenceDisplay.from_estimator(fitted(stages=("ov", "kq", "joint")))
    display.figure_.canvas.draw()
    boxes = [ax.title.get_window_extent() for ax in display.axes_.ravel()]
    boxes += [axis.label.get_window_extent() for ax in display.axes_.ravel() for axis in
              (ax.xaxis, ax.yaxis)]  # fmt: skip
    assert all(display.figure_.bbox.contains(*corner) for b in boxes for corner in (b.p0, b.p1))
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_pipeline():
    clf = fitted()
    pipeline = make_pipeline(FunctionTransformer(), clf)
    assert ConvergenceDisplay.from_estimator(pipeline).convergence is clf.convergence_


DRAW = {
    "convergence": ConvergenceDisplay.from_estimator,
    "attention": lambda clf: AttentionDisplay.from_estimator(clf, [[0, 1]]),
    "order": lambda clf: PartialOrderDisplay.from_estimator(clf, query=0),
}


@pytest.mark.parametrize("draw", DRAW.values(), ids=DRAW)
def test_unfitted_and_other_estimators_are_refused(draw):
    with pytest.raises(NotFittedError, match="call fit before"):
        draw(NTPTransformerClassifier())
    with pytest.raises(TypeError, match="the class NTPTransformerClassifier itself"):
        ConvergenceDisplay.from_estimator(NTPTransformerClassifier)
    with pytest.raises(TypeError, match="got LogisticRegression"):
        draw(LogisticRegression())
    with pytest.raises(TypeError, match="ends in one; got Pipeline"):
        draw(make_pipeline(FunctionTransformer(), LogisticRegression()))


@pytest.mark.parametrize("draw", DRAW.values(), ids=DRAW)
def test_without_matplotlib_the_error_says_how_to_get_it(draw, monkeypatch):
    clf = fitted(max_iter=2)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"Display.from_estimator .*pip install sklntp\[plot\]"):
        draw(clf)
