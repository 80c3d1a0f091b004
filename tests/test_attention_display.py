"""The display of attention: its numbers, odd tokens, and that all can be read."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline

from sklntp import NTPTransformerClassifier
from sklntp.datasets import make_realizable_ntp
from sklntp.inspection import AttentionDisplay
from sklntp.preprocessing import NGramTokens

plt = pytest.importorskip("matplotlib.pyplot")

ODD = ["", " ", "$x$ and $y$", "a_b^c", "100%", "\n", "слово", "m" * 60, "\\alpha $", "{}", "tab\t"]


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def fitted(n_tokens):
    data = make_realizable_ntp(n_tokens, 3 * n_tokens, random_state=0)
    return NTPTransformerClassifier(max_iter=30).fit(data.X, data.y), data


def check_readable(display):
    """No text is cut off by the figure or lies upon another; each token is inside its box."""
    display.figure_.canvas.draw()
    texts = [text for text in display.ax_.texts if text.get_text()] + [display.ax_._left_title]
    boxes = [text.get_window_extent() for text in texts]
    figure = display.figure_.bbox
    assert all(figure.contains(*corner) for box in boxes for corner in (box.p0, box.p1))
    corners = np.array([box.extents for box in boxes])
    low, high = corners[:, None, :2], corners[:, None, 2:]
    overlap = (np.maximum(low, low.swapaxes(0, 1)) < np.minimum(high, high.swapaxes(0, 1))).all(-1)
    np.fill_diagonal(overlap, False)
    assert not overlap.any(), [texts[k] for k in np.argwhere(overlap)[0]]
    for sentence, patches in zip(display.texts_, display.boxes_, strict=True):
        for text, patch in zip(sentence, patches, strict=True):
            inner, outer = text.get_window_extent(), patch.get_window_extent()
            assert outer.x0 < inner.x0 and inner.x1 < outer.x1, text


def test_numbers_are_those_of_the_estimator():
    clf, data = fitted(6)
    X = data.X[-3:]
    display = AttentionDisplay.from_estimator(clf, X)
    assert display.sentences == X
    for drawn, weights in zip(display.weights, clf.attention(X), strict=True):
        np.testing.assert_array_equal(drawn, weights)
    np.testing.assert_array_equal(display.predictions, clf.predict(X))
    np.testing.assert_allclose(display.probabilities, clf.predict_proba(X).max(axis=1))
    assert [[text.get_text() for text in row] for row in display.texts_] == [
        list(map(str, sentence)) for sentence in X
    ]
    largest = max(map(max, display.weights))
    for row, weights in zip(display.boxes_, display.weights, strict=True):
        blue = [1 - box.get_facecolor()[0] for box in row]  # none in BLUE, all in white
        np.testing.assert_allclose(blue, weights / largest, atol=0.01)
        widths = [box.get_linewidth() for box in row]
        assert widths[-1] > 2 * max(widths[:-1], default=0)  # the query
    shown = [text.get_text() for text in display.ax_.texts]
    assert f"p = {display.probabilities[0]:.3g}" in shown


@pytest.mark.parametrize("n_sentences, length", [(1, 5), (3, 5), (1, 20), (3, 20), (1, 200)])
def test_readable(n_sentences, length):
    clf, _ = fitted(20)
    X = np.random.RandomState(0).randint(20, size=(n_sentences, length)).tolist()
    display = AttentionDisplay.from_estimator(clf, X)
    check_readable(display)


def test_height_follows_the_sentences():
    clf, data = fitted(6)
    heights = [
        AttentionDisplay.from_estimator(clf, [data.X[-1]] * n).figure_.get_figheight()
        for n in (1, 2, 11)
    ]
    assert heights[2] - heights[1] == pytest.approx(9 * (heights[1] - heights[0]), abs=1e-6)


def test_odd_tokens_are_shown_literally():
    clf = NTPTransformerClassifier(max_iter=5).fit([[t] for t in ODD], ODD[1:] + ODD[:1])
    display = AttentionDisplay.from_estimator(clf, [ODD, ["<unknown>", ODD[0]]])
    check_readable(display)
    texts = [text.get_text() for text in display.texts_[0]]
    assert texts[:6] == ["''", "' '", r"\$x\$ and \$y\$", "a_b^c", "100%", r"'\n'"]
    assert texts[7] == "m" * 11 + "…" + "m" * 4
    assert texts[10] == r"tab\t"


@pytest.mark.parametrize("layout", [None, "constrained"])
def test_draws_into_the_given_axes_only(layout):
    clf, _ = fitted(20)
    figure, axes = plt.subplots(2, 2, figsize=(9, 6), layout=layout)
    X = np.random.RandomState(0).randint(20, size=(2, 120)).tolist()
    display = AttentionDisplay.from_estimator(clf, X, ax=axes[0, 1])
    assert display.ax_ is axes[0, 1] and display.figure_ is figure
    assert plt.get_fignums() == [figure.number]
    assert not any(ax.has_data() or ax.texts for ax in axes.ravel() if ax is not display.ax_)
    figure.canvas.draw()
    outer = display.ax_.get_window_extent().padded(2)
    for ax, got in ((axes, r"got 4 Axes"), (axes[0], "got 2 Axes")):
        with pytest.raises(ValueError, match=f"ax must be one Axes; {got}"):
            display.plot(ax=ax)
    with pytest.raises(TypeError, match="ax must be one Axes; got int 3"):
        display.plot(ax=3)
    for text in display.ax_.texts:  # the font has shrunk
        assert outer.y0 <= text.get_window_extent().y0 and text.get_window_extent().y1 <= outer.y1


def test_a_subfigure_is_drawn_into():
    clf, data = fitted(6)
    part = plt.figure(layout="constrained").subfigures(1, 2)[0]
    display = AttentionDisplay.from_estimator(clf, data.X[-2:], ax=part.subplots())
    assert display.figure_ is part


def test_a_pipeline_shows_the_tokens_its_last_step_sees():
    X = [["a"], ["b"], ["c"], ["a", "b"], ["b", "c"]]
    pipeline = make_pipeline(
        NGramTokens(max_n=2, min_count=1), NTPTransformerClassifier(max_iter=5)
    )
    pipeline.fit(X, ["b", "c", "a", "c", "a"])
    display = AttentionDisplay.from_estimator(pipeline, X[3:])
    tokens = [list(sentence) for sentence in pipeline[:-1].transform(X[3:])]
    assert display.sentences == tokens and len(tokens[0]) > 2
    np.testing.assert_array_equal(display.predictions, pipeline.predict(X[3:]))


def test_too_many_are_refused_with_the_number():
    clf, data = fitted(6)
    with pytest.raises(ValueError, match=r"X has 51 sentences .* at most 50 sentences"):
        AttentionDisplay.from_estimator(clf, [[0]] * 51)
    with pytest.raises(ValueError, match=r"2001 tokens; at most .* 2000 tokens"):
        AttentionDisplay.from_estimator(clf, [[0] * 2001])
    with pytest.raises(ValueError, match="at least one"):
        AttentionDisplay.from_estimator(clf, [])
    assert plt.get_fignums() == []
