"""The display of a partial order: graph, roles, values, and that all can be read."""

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer

import sklntp._order_display as module
from sklntp import NTPTransformerClassifier
from sklntp._drawing import LayeredGraph
from sklntp.datasets import make_realizable_ntp
from sklntp.inspection import PartialOrderDisplay

plt = pytest.importorskip("matplotlib.pyplot")
LineCollection = pytest.importorskip("matplotlib.collections").LineCollection

CHAIN = [["a"], ["b"], ["c"], ["d"], ["a", "b", "c"], ["b", "c"]], list("bcadbc")


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def fitted(X, y, **params):
    return NTPTransformerClassifier(**{"max_iter": 40} | params).fit(X, y)


def wide(n_tokens, seed=0):
    """All tokens under one query, a third of them optimal: X, y, query."""
    rng = np.random.RandomState(seed)
    n_top = n_tokens // 3
    query = n_tokens - 1
    X = [[x] for x in range(n_tokens)]
    y = [(x + 1) % n_tokens for x in range(n_tokens)]
    for k in range(2 * n_tokens):
        top = k % n_top
        low = [n_top + k % (n_tokens - n_top), *rng.randint(n_top, n_tokens, size=2).tolist()]
        X.append([top, top, top, *low, query])
        y.append((top + 1) % n_tokens)
    return X, y, query


def largest_order(**kwargs):
    data = make_realizable_ntp(random_state=0, **kwargs)
    query = max(data.partial_orders, key=lambda q: len(data.partial_orders[q]["confused"]))
    return data.X, data.y, query


def check_readable(display):
    """No text is cut off by the figure or lies upon another; each node holds its tokens."""
    display.figure_.canvas.draw()
    graph, values = display.axes_
    texts = [*graph.texts, graph._left_title, values._left_title, values.xaxis.label]
    texts += [label for label in values.get_yticklabels() if label.get_text()]
    boxes = [text.get_window_extent() for text in texts]
    figure = display.figure_.bbox
    for text, box in zip(texts, boxes, strict=True):
        assert figure.contains(*box.p0) and figure.contains(*box.p1), text
    corners = np.array([box.extents for box in boxes])
    low, high = corners[:, None, :2], corners[:, None, 2:]
    overlap = (np.maximum(low, low.swapaxes(0, 1)) < np.minimum(high, high.swapaxes(0, 1))).all(-1)
    np.fill_diagonal(overlap, False)
    assert not overlap.any(), [texts[k] for k in np.argwhere(overlap)[0]]
    for patch in display.boxes_.values():
        outer = patch.get_window_extent()
        inside = [box for box in boxes if outer.overlaps(box)]
        assert len(inside) == 1 and outer.x0 < inside[0].x0 and inside[0].x1 < outer.x1


def test_values_are_those_of_the_estimator_and_its_reference():
    X, y, query = wide(20)
    clf = fitted(X, y)
    clf.base_kq_ = np.linspace(0, 1, 20)
    display = PartialOrderDisplay.from_estimator(clf, query=query)
    order = clf._partial_order(query)
    assert display.query == query and sorted(display.tokens) == list(range(20))
    assert display.pairs == order.pairs
    np.testing.assert_array_equal(display.coef, clf.coef_kq_[display.tokens, query])
    reference = clf.max_margin_coef_kq_[display.tokens, query]
    np.testing.assert_allclose(display.reference, reference, atol=1e-9)
    drawn = display.points_["reference"].get_offsets()[:, 0]
    assert np.linalg.norm(drawn) == pytest.approx(np.linalg.norm(display.coef))
    np.testing.assert_allclose(drawn / np.linalg.norm(drawn), reference / np.linalg.norm(reference))
    optimal = display.points_["optimal"].get_offsets()[:, 0]
    np.testing.assert_array_equal(optimal, clf.coef_kq_[order.optimal, query])


def test_layers_lines_and_roles_of_a_chain():
    display = PartialOrderDisplay.from_estimator(fitted(*CHAIN), query="c")
    assert display.layers_ == {"a": 0, "b": 1, "c": 2}
    assert ("a", "c") in display.pairs
    (lines,) = [c for c in display.axes_[0].collections if isinstance(c, LineCollection)]
    assert len(lines.get_segments()) == 2  # a to c follows
    assert display.points_.keys() == {"optimal", "confused", "non-optimal", "reference"}
    assert len({display.boxes_[x].get_edgecolor() for x in "abc"}) == 3
    shown = " ".join(text.get_text() for text in display.axes_[0].texts)
    assert "optimal (1)" in shown and "Non-comparable (1), without lines: d." in shown
    tops = [display.boxes_[x].get_window_extent().y0 for x in "abc"]
    assert tops == sorted(tops, reverse=True)


def test_lines_are_the_transitive_reduction():
    rng = np.random.RandomState(0)
    for _ in range(20):
        pairs = {tuple(sorted(rng.choice(9, 2, replace=False))) for _ in range(14)}
        graph = LayeredGraph(9, *np.array(sorted(pairs)).T)
        place = {k: node[0] for k, node in enumerate(graph.nodes)}
        lines = {(place[a], place[b]) for a, b in graph.lines}

        def reaches(edges, a, b):
            return any(x == a and (v == b or reaches(edges, v, b)) for x, v in edges)

        assert lines == {p for p in pairs if not reaches(pairs - {p}, *p)}
        for a, b in pairs:
            assert graph.layer[a] < graph.layer[b]


def test_a_cycle_is_one_box():
    X, y, query = largest_order(n_tokens=20, n_sentences=200, break_assumption="cyclic")
    clf = fitted(X, y)
    display = PartialOrderDisplay.from_estimator(clf, query=query)
    first, second = clf._partial_order(query).confused
    assert display.boxes_[first] is display.boxes_[second]
    assert display.layers_[first] == display.layers_[second]
    texts = [text.get_text() for text in display.axes_[0].texts]
    assert f"{first} ↔ {second}" in texts
    assert any("a cycle" in text for text in texts)


@pytest.mark.parametrize("n_tokens", [5, 20, 200])
def test_readable_on_realizable_data(n_tokens):
    X, y, query = wide(n_tokens)
    display = PartialOrderDisplay.from_estimator(fitted(X, y), query=query)
    assert len(display.tokens) == n_tokens
    check_readable(display)


@pytest.mark.parametrize("n_tokens", [5, 20, 200])
@pytest.mark.parametrize("broken", ["cyclic", "confused"])
def test_readable_on_other_data(n_tokens, broken):
    X, y, query = largest_order(
        n_tokens=n_tokens, n_sentences=10 * n_tokens, break_assumption=broken
    )
    check_readable(PartialOrderDisplay.from_estimator(fitted(X, y), query=query))


def test_readable_with_odd_tokens():
    odd = ["", "$x$ and $y$", "a_b^c", "100%", "\n", "слово", "m" * 60, "\\alpha $"]
    X = [*([token] for token in odd), [*odd[:3], odd[3]], [odd[4], odd[5], odd[6], odd[7], odd[3]]]
    clf = fitted(X, [*odd[1:], odd[0], odd[1], odd[6]])
    display = PartialOrderDisplay.from_estimator(clf, query="100%")
    check_readable(display)


def test_unknown_tokens_stand_below_with_score_zero():
    X = [["a"], ["b"], ["a", "z", "b"]]
    clf = fitted(X, ["b", "a", "b"], vocabulary=["a", "b"], collocation="single")
    display = PartialOrderDisplay.from_estimator(clf, query="b")
    assert None in display.tokens
    assert display.coef[display.tokens.index(None)] == 0
    assert "(unknown)" in [text.get_text() for text in display.axes_[0].texts]


def test_the_query_must_have_pairs():
    clf = fitted(*CHAIN)
    with pytest.raises(ValueError, match="query is missing: choose .* 'c'"):
        PartialOrderDisplay.from_estimator(clf)
    with pytest.raises(ValueError, match="'a' has no pairs: choose .* 'c'"):
        PartialOrderDisplay.from_estimator(clf, query="a")
    with pytest.raises(ValueError, match="'x' is not in the vocabulary: choose .* 'c'"):
        PartialOrderDisplay.from_estimator(clf, query="x")
    with pytest.raises(ValueError, match="no pair of tokens under any query"):
        PartialOrderDisplay.from_estimator(fitted([["a"], ["b"]], ["b", "a"]), query="a")


def test_too_many_tokens_are_refused():
    tokens = list(range(501))
    display = PartialOrderDisplay(
        query=0, tokens=tokens, pairs=[(0, k) for k in tokens[1:]], coef=np.zeros(501)
    )
    with pytest.raises(ValueError, match="has 501 tokens; at most 500"):
        display.plot()


def test_without_a_reference_it_says_so(monkeypatch):
    monkeypatch.setattr(module, "_TIME_LIMIT", 0.0)
    display = PartialOrderDisplay.from_estimator(fitted(*CHAIN), query="c")
    assert display.reference is None and "reference" not in display.points_
    title = display.axes_[1].get_title(loc="left").replace("\n", " ")
    assert "its max-margin reference would take too long" in title


def test_an_untrained_matrix_is_said_to_be_zero():
    display = PartialOrderDisplay.from_estimator(fitted(*CHAIN, stages=("ov",)), query="c")
    assert "is zero" in display.axes_[1].get_title(loc="left").replace("\n", " ")
    np.testing.assert_array_equal(
        display.points_["reference"].get_offsets()[:, 0], display.reference
    )


def test_one_axes_is_subdivided_and_two_are_drawn_into():
    clf = fitted(*CHAIN)
    figure, (left, right) = plt.subplots(1, 2, figsize=(16, 5))
    display = PartialOrderDisplay.from_estimator(clf, query="c", ax=left)
    assert display.figure_ is figure and plt.get_fignums() == [figure.number]
    assert not right.has_data() and right.axison
    outer = left.get_position().padded(1e-9)
    for ax in display.axes_:
        assert outer.contains(*ax.get_position().p0) and outer.contains(*ax.get_position().p1)
    _, axes = plt.subplots(2, 1, figsize=(8, 8))
    assert (display.plot(ax=axes).axes_ == axes).all()
    with pytest.raises(ValueError, match="one Axes or two; got 3 Axes"):
        display.plot(ax=[*axes, right])
    with pytest.raises(TypeError, match="one Axes or two; got str 'a'"):
        display.plot(ax="a")


def test_no_order_is_explained_by_the_collocation():
    clf = fitted(*CHAIN, collocation="context")
    with pytest.raises(ValueError, match='no pair .* collocation "context" .* "single" or "last"'):
        PartialOrderDisplay.from_estimator(clf, query="c")


def test_a_bool_is_no_query():
    X = [[0], [1], [2], [0, 1]]
    with pytest.raises(ValueError, match="query True"):
        PartialOrderDisplay.from_estimator(fitted(X, [1, 2, 0, 1]), query=True)


def test_pipeline():
    pipeline = make_pipeline(FunctionTransformer(), NTPTransformerClassifier(max_iter=5))
    display = PartialOrderDisplay.from_estimator(pipeline.fit(*CHAIN), query="c")
    assert display.layers_ == {"a": 0, "b": 1, "c": 2}
