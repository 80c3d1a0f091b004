"""What displays are made of: matplotlib on demand, colours, text, panels, a graph in layers."""

import numpy as np
from scipy.sparse import csr_array
from scipy.sparse.csgraph import connected_components
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import Pipeline

from sklntp._rows import short

# Okabe and Ito's palette, told apart with any colour vision.
BLUE, ORANGE, PURPLE, VERMILLION, GREY = "#0072B2", "#E69F00", "#CC79A7", "#D55E00", "#666666"

INCH = 72  # points


def load_pyplot(caller):
    """matplotlib.pyplot, or an ImportError that says how to get it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError as error:
        raise ImportError(
            f"{caller} needs matplotlib, which is not installed: pip install sklntp[plot]"
        ) from error
    return plt


def check_axes(ax, n, what):
    """One Axes, or `n` of them, as a flat array; anything else is refused.

    Parameters
    ----------
    ax : matplotlib Axes or array of Axes
    n : int
        How many a display draws into.
    what : str
        What ax must be, for the message.
    """
    from matplotlib.axes import Axes

    axes = np.asarray(ax, dtype=object).ravel()
    for one in axes:
        if not isinstance(one, Axes):
            raise TypeError(f"ax must be {what}; got {type(one).__name__} {short(one)}.")
    if len(axes) not in (1, n):
        raise ValueError(f"ax must be {what}; got {len(axes)} Axes.")
    return axes


def fitted_classifier(estimator):
    """The fitted classifier and the steps before it, None without any.

    Parameters
    ----------
    estimator : NTPTransformerClassifier, or Pipeline that ends in one

    Returns
    -------
    classifier : NTPTransformerClassifier
    before : Pipeline or None
    """
    classifier, before = estimator, None
    if isinstance(estimator, Pipeline):
        classifier = estimator[-1]
        before = estimator[:-1] if len(estimator) > 1 else None
    if isinstance(classifier, type) or not hasattr(classifier, "attention"):
        got = type(estimator).__name__
        if isinstance(estimator, type):
            got = f"the class {estimator.__name__} itself: make one, and fit it"
        elif hasattr(estimator, "best_estimator_"):
            got += ": pass its best_estimator_"
        raise TypeError(
            "estimator must be a fitted NTPTransformerClassifier, or a Pipeline that ends in one; "
            f"got {got}."
        )
    if not hasattr(classifier, "convergence_"):
        raise NotFittedError(
            f"This {type(classifier).__name__} is not fitted yet: call fit before drawing it."
        )
    return classifier, before


def token_label(token, longest=16):
    """A token as one line of text: control characters escaped, long ones cut in the middle."""
    if token is None:
        return "(unknown)"
    text = str(token)
    if not text.strip():
        text = repr(text)
    text = "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
    if len(text) > longest:
        text = f"{text[: longest - 5]}…{text[-4:]}"
    return text


def literal(text):
    """Text that matplotlib does not read as a formula."""
    return text.replace("$", r"\$")


def text_width(text, size, weight="normal"):
    """Room for a line of literal text at a font size, in points."""
    from matplotlib.font_manager import FontProperties
    from matplotlib.textpath import text_to_path

    font = FontProperties(size=size, weight=weight)
    # Letters are set on whole pixels, which makes a line wider than its outlines.
    return 1.1 * text_to_path.get_text_width_height_descent(text, font, False)[0]


def flow(widths, available, gap):
    """Place boxes one after the other in lines, as words of a text.

    Parameters
    ----------
    widths : sequence of float
    available : float
        Width of a line; a wider box gets a line of its own.
    gap : float
        Between two boxes.

    Returns
    -------
    places : list of (int, float)
        Line and left edge of each box.
    """
    places, line, x = [], 0, 0.0
    for width in widths:
        if x and x + width > available:
            line, x = line + 1, 0.0
        places.append((line, x))
        x += width + gap
    return places


def wrap(text, available, size):
    """A text in lines of at most the available width, in points."""
    words = text.split()
    blank = text_width("a a", size) - text_width("aa", size)
    lines = {}
    widths = [text_width(word, size) for word in words]
    for word, (line, _) in zip(words, flow(widths, available, blank), strict=True):
        lines.setdefault(line, []).append(word)
    return [" ".join(line) for line in lines.values()]


def size_in_points(ax):
    """Width and height of an axes, after the layout of its figure."""
    figure = ax.figure.canvas.figure  # the outermost, if it is inside another
    if figure.get_layout_engine() is not None:
        figure.get_layout_engine().execute(figure)
    extent = ax.get_window_extent()
    return extent.width * INCH / figure.dpi, extent.height * INCH / figure.dpi


def points_canvas(ax, width, height):
    """Make the coordinates of an axes points from its upper left corner, and nothing else."""
    ax.set_axis_off()
    ax.set_xlim(0, width)
    ax.set_ylim(height, 0)


def subdivide(ax, n_rows, n_columns, **spacing):
    """A grid in the place of one axes, which is switched off; a layout engine sets the spacing."""
    if not ax.axison:
        raise ValueError(
            "ax is switched off, as after drawing a display into it: pass display.axes_ to draw "
            "into the same panels again."
        )
    if ax.figure.canvas.figure.get_layout_engine() is not None:
        spacing = {name: value for name, value in spacing.items() if name == "width_ratios"}
    spec = ax.get_subplotspec()
    if spec is not None:
        grid = spec.subgridspec(n_rows, n_columns, **spacing)
    else:  # an axes that was placed by hand
        place = ax.get_position()
        sides = {"left": place.x0, "right": place.x1, "bottom": place.y0, "top": place.y1}
        grid = ax.figure.add_gridspec(n_rows, n_columns, **sides, **spacing)
    ax.set_axis_off()
    return grid


class LayeredGraph:
    """An order with cycles contracted to nodes, in layers by longest path from above.

    Parameters
    ----------
    n_tokens : int
    above, below : ndarray of int of shape (n_pairs,)
        Its pairs.

    Attributes
    ----------
    nodes : list of list of int
        The tokens of each node, several where they are above each other.
    layers : list of list of int
        Nodes of each layer, in an order that keeps lines short.
    lines : list of tuple of int
        (node above, node below), without those that follow from others.
    layer : ndarray of int of shape (n_tokens,)
        The layer of each token.
    """

    def __init__(self, n_tokens, above, below):
        graph = csr_array((np.ones(len(above)), (above, below)), shape=(n_tokens, n_tokens))
        n_nodes, node = connected_components(graph, connection="strong")
        self.nodes = [np.flatnonzero(node == k).tolist() for k in range(n_nodes)]
        above, below = node[above], node[below]
        above, below = above[above != below], below[above != below]
        layer, known = np.zeros(n_nodes, dtype=int), None
        while not np.array_equal(layer, known):
            known = layer.copy()
            np.maximum.at(layer, below, known[above] + 1)
        self.layer = layer[node]
        direct = np.zeros((n_nodes, n_nodes), dtype=bool)
        direct[above, below] = True
        reached = np.zeros_like(direct)  # by any path
        for k in np.argsort(-layer):
            reached[k] = direct[k] | reached[direct[k]].any(axis=0)
        longer = direct.astype(np.float32) @ reached.astype(np.float32) > 0
        direct &= ~longer
        self.lines = list(zip(*(ends.tolist() for ends in np.nonzero(direct)), strict=True))
        self.layers = [np.flatnonzero(layer == k).tolist() for k in range(layer.max() + 1)]
        self._untangle(direct | direct.T)

    def _untangle(self, linked):
        """Sort each layer by the mean place of the nodes that its nodes are linked with."""
        place = np.empty(len(self.nodes))
        for sweep in range(4):
            for nodes in self.layers[:: 1 if sweep % 2 == 0 else -1]:
                if sweep:
                    near = linked[nodes]
                    mean = near @ place / np.maximum(near.sum(axis=1), 1)
                    nodes[:] = [nodes[k] for k in np.argsort(mean, kind="stable")]
                place[nodes] = (np.arange(len(nodes)) + 0.5) / len(nodes)
