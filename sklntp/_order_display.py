"""The order of the tokens under one query as a layered graph, and what training made of it."""

import numpy as np

from sklntp._drawing import (
    BLUE,
    GREY,
    INCH,
    ORANGE,
    PURPLE,
    LayeredGraph,
    check_axes,
    fitted_classifier,
    flow,
    literal,
    load_pyplot,
    points_canvas,
    size_in_points,
    subdivide,
    text_width,
    token_label,
    wrap,
)
from sklntp._max_margin import MaxMarginError, solve_kq
from sklntp._sequences import show

_MOST_TOKENS = 500
_TIME_LIMIT = 5.0  # estimated seconds of solving the reference of the query
_WIDTH, _HEIGHT = 792.0, (250.0, 1200.0)  # points, of a new figure
_LISTED = 560.0  # points, of the list of values at most, unless the graph needs more
_SHARES = 0.56, 0.44  # of the width, for the graph and the values
_SIDE, _ENDS = 16.0, (40.0, 44.0)  # margins: left and right, bottom and top
_SIZE = 9.0  # of the font
_SMALL = 0.85  # of notes and numbers, relative to that
_ROLES = {  # color, marker
    "optimal": (BLUE, "^"),
    "confused": (PURPLE, "D"),
    "non-optimal": (ORANGE, "v"),
}


class PartialOrderDisplay:
    """The order of the tokens under one query, with W_kq beside its max-margin reference.

    Left, the order as a graph: a line goes down from a token to one that it must outscore, without
    the lines that follow from others. Tokens of a cycle, which no data that are realizable have,
    share one box. Right, the entries of W_kq under the query, and those of the reference, scaled to
    the same norm.

    It is recommended to use `from_estimator`. All parameters are stored as attributes.

    Parameters
    ----------
    query : str or int
        The query.

    tokens : list
        The tokens that occur in `pairs`; None stands for tokens outside the vocabulary.

    pairs : list of tuple
        (above, below), as in :class:`~sklntp.structure.PartialOrder`.

    coef : array-like of shape (n_tokens,)
        W_kq[token, query].

    reference : array-like of shape (n_tokens,), default=None
        The same of the max-margin reference; None: it is not drawn.

    non_comparable : list, default=()
        Tokens without pairs.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes of shape (2,)
        The graph and the values.

    figure_ : matplotlib Figure
        The figure.

    boxes_ : dict of matplotlib Rectangle
        token -> its box in the graph; tokens of a cycle share one.

    layers_ : dict of int
        token -> the longest path to it from a token with nothing above.

    points_ : dict of matplotlib PathCollection
        role -> its entries of W_kq; "reference" -> those of the reference.

    See Also
    --------
    sklntp.structure.partial_orders : The orders as lists of tokens.

    Examples
    --------
    >>> from sklntp import NTPTransformerClassifier
    >>> from sklntp.inspection import PartialOrderDisplay
    >>> X = [["a"], ["b"], ["c"], ["a", "b", "c"], ["b", "c"]]
    >>> clf = NTPTransformerClassifier(max_iter=100).fit(X, ["b", "c", "a", "b", "c"])
    >>> display = PartialOrderDisplay.from_estimator(clf, query="c")
    >>> display.layers_
    {'a': 0, 'b': 1, 'c': 2}
    """

    def __init__(self, *, query, tokens, pairs, coef, reference=None, non_comparable=()):
        self.query = query
        self.tokens = tokens
        self.pairs = pairs
        self.coef = coef
        self.reference = reference
        self.non_comparable = non_comparable

    @classmethod
    def from_estimator(cls, estimator, *, query=None, ax=None):
        """Draw the order under a query of the data that an estimator was fitted on.

        Parameters
        ----------
        estimator : NTPTransformerClassifier or Pipeline
            Fitted. Of a pipeline the tokens are those that its last step sees.

        query : str or int
            The token; without, or without pairs under it, an error names some that have pairs.

        ax : matplotlib Axes or array of two Axes, default=None
            See `plot`.

        Returns
        -------
        display : PartialOrderDisplay
            What was drawn.
        """
        load_pyplot(f"{cls.__name__}.from_estimator")
        classifier, _ = fitted_classifier(estimator)
        code = _query_code(classifier, query)
        order = classifier._partial_order(code)
        tokens = [*order.optimal, *order.confused, *order.non_optimal]
        _check_size(query, tokens)  # before the reference takes its time
        vocabulary = classifier.vocabulary_.tolist()
        codes = {token: k for k, token in enumerate([*vocabulary, None])}
        rows = np.array([codes[token] for token in tokens])
        column = np.zeros(len(codes))  # the last for unknown tokens, which score 0
        column[:-1] = classifier.sparse_coef_kq_[:, [code]].toarray()[:, 0] + classifier.base_kq_
        pairs = np.array([(codes[above], codes[below]) for above, below in order.pairs])
        display = cls(
            query=vocabulary[code],
            tokens=tokens,
            pairs=order.pairs,
            coef=column[rows],
            reference=_reference(pairs, rows, len(vocabulary)),
            non_comparable=order.non_comparable,
        )
        return display.plot(ax=ax)

    def plot(self, ax=None):
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes or array of two Axes, default=None
            Axes to subdivide, or those of the graph and of the values. None: a new figure.

        Returns
        -------
        display : PartialOrderDisplay
            The object itself.
        """
        plt = load_pyplot(f"{type(self).__name__}.plot")
        _check_size(self.query, self.tokens)
        place = {token: k for k, token in enumerate(self.tokens)}
        above, below = np.array([(place[a], place[b]) for a, b in self.pairs]).T
        self._graph = LayeredGraph(len(self.tokens), above, below)
        self.layers_ = dict(zip(self.tokens, self._graph.layer.tolist(), strict=True))
        axes = [] if ax is None else check_axes(ax, 2, "one Axes or two")
        if len(axes) < 2:
            axes = self._panels(plt, *axes)
        self.axes_, self.figure_ = axes, axes[0].figure
        self._draw_graph(axes[0])
        self._draw_values(axes[1])
        return self

    def _roles(self):
        """Role of each token, from the pairs."""
        above, below = ({pair[k] for pair in self.pairs} for k in (0, 1))
        names = {(True, False): "optimal", (False, True): "non-optimal", (True, True): "confused"}
        return [names[token in above, token in below] for token in self.tokens]

    def _panels(self, plt, ax=None):
        """Axes of the graph and the values, with room for the names of the tokens between them."""
        names = 12.0 + max(text_width(name, _SIZE) for name in map(token_label, self.tokens))
        if ax is None:
            inner = _WIDTH - 2 * _SIDE
            room = inner - names
            needed = self._place(room * _SHARES[0], _SIZE, 0.0)[-1]
            listed = min(13.0 * len(self.tokens), _LISTED)
            height = np.clip(max(needed, listed) + sum(_ENDS), *_HEIGHT)
            figure = plt.figure(figsize=(_WIDTH / INCH, height / INCH))
            sides = {
                "left": _SIDE / _WIDTH,
                "right": 1 - _SIDE / _WIDTH,
                "bottom": _ENDS[0] / height,
                "top": 1 - _ENDS[1] / height,
            }
            ratios = [room * _SHARES[0], names, room * _SHARES[1]]
            grid = figure.add_gridspec(1, 3, width_ratios=ratios, wspace=0, **sides)
        else:
            figure = ax.figure
            room = max(size_in_points(ax)[0] - names, names)
            ratios = [room * _SHARES[0], names, room * _SHARES[1]]
            grid = subdivide(ax, 1, 3, width_ratios=ratios, wspace=0)
        return np.array([figure.add_subplot(grid[0, 0]), figure.add_subplot(grid[0, 2])])

    def _notes(self, width):
        """Text below the graph: what the lines mean, and the tokens that have none."""
        notes = ["A line goes down from a token to one that it must outscore. Bold: the query."]
        if len(self._graph.nodes) < len(self.tokens):
            notes.append(
                "Tokens joined by ↔ are above each other: a cycle, which no realizable data have."
            )
        if self.non_comparable:
            names = _shown(self.non_comparable)
            notes.append(f"Non-comparable ({len(self.non_comparable)}), without lines: {names}.")
        return [line for note in notes for line in wrap(note, width, _SMALL * _SIZE)]

    def _weight(self, node):
        """The query is printed bold."""
        return (
            "bold" if self.query in [self.tokens[k] for k in self._graph.nodes[node]] else "normal"
        )

    def _place(self, width, size, height):
        """Lines of boxes top down, notes and the height of all; gaps grow to fill `height`."""
        labels = [_node_label([self.tokens[k] for k in node]) for node in self._graph.nodes]
        gap = np.clip(20.0 / max(len(self._graph.layers), 1), 0.8, 3.5) * size
        notes = self._notes(width)
        below = (len(notes) * 1.4 * _SMALL + 3.0) * _SIZE
        rows = []  # (layer, nodes, left edges, widths)
        for layer, nodes in enumerate(self._graph.layers):
            widths = [text_width(labels[k], size, self._weight(k)) + 2.2 * size for k in nodes]
            widths = np.array(widths)
            places = flow(widths, width, 0.6 * size)
            line = np.array([line for line, _ in places])
            left = np.array([x for _, x in places])
            for number in range(line[-1] + 1):
                on = line == number
                middle = (width - left[on][-1] - widths[on][-1]) / 2
                rows.append((layer, np.array(nodes)[on], left[on] + middle, widths[on]))
        n_gaps = len(self._graph.layers) - 1
        needed = len(rows) * 2.1 * size + n_gaps * gap + below
        if n_gaps:
            gap += max(height - needed, 0.0) / n_gaps
        return rows, labels, gap, notes, needed

    def _draw_graph(self, ax):
        from matplotlib.collections import LineCollection
        from matplotlib.patches import Rectangle

        width, height = size_in_points(ax)
        for size in np.arange(_SIZE, 1.5, -0.5):
            rows, labels, gap, notes, needed = self._place(width, size, height)
            if needed <= height:
                break
        points_canvas(ax, width, max(needed, height))
        roles = self._roles()
        top, y, last = {}, 0.0, 0
        self.boxes_ = {}
        for layer, nodes, lefts, widths in rows:
            y += gap if layer != last else 0.0
            last = layer
            for node, x, w in zip(nodes, lefts, widths, strict=True):
                members = self._graph.nodes[node]
                color, marker = _ROLES[roles[members[0]]]
                box = Rectangle((x, y), w, 1.6 * size, facecolor="white", edgecolor=color, zorder=2)
                box.set_linestyle("--" if len(members) > 1 else "-")
                ax.add_patch(box)
                middle = y + 0.8 * size
                ax.scatter(
                    x + 0.9 * size, middle, s=(0.7 * size) ** 2, c=color, marker=marker, zorder=3
                )
                ax.text(
                    x + 1.6 * size,
                    middle,
                    literal(labels[node]),
                    fontsize=size,
                    va="center_baseline",
                    zorder=3,
                    weight=self._weight(node),
                )
                top[node] = x + w / 2, y
                self.boxes_ |= {self.tokens[k]: box for k in members}
            y += 2.1 * size
        lines = [
            [(top[a][0], top[a][1] + 1.6 * size), (top[b][0], top[b][1])]
            for a, b in self._graph.lines
        ]
        alpha = float(np.clip(60 / max(len(lines), 1), 0.12, 0.8))
        ax.add_collection(LineCollection(lines, colors=GREY, linewidths=0.8, alpha=alpha, zorder=1))
        self._draw_notes(ax, roles, notes, y)
        title = f"Order of the tokens under the query {_quoted(self.query)}"
        title += f": {len(self.tokens)} tokens, {len(self.pairs)} pair{'s' * (len(self.pairs) > 1)}"
        _set_title(ax, title, width, 1.1 * _SIZE)

    def _draw_notes(self, ax, roles, notes, y):
        """The roles with their markers, and what else there is to say, below the graph."""
        y, x = y + 1.2 * _SIZE, 0.0
        for role, (color, marker) in _ROLES.items():
            if role in roles:
                text = f"{role} ({roles.count(role)})"
                ax.scatter(x + 0.5 * _SIZE, y, s=(0.7 * _SIZE) ** 2, c=color, marker=marker)
                ax.text(x + 1.2 * _SIZE, y, text, fontsize=_SIZE, va="center_baseline")
                x += text_width(text, _SIZE) + 2.5 * _SIZE
        for k, line in enumerate(notes):
            at = y + (1.2 + 1.4 * _SMALL * k) * _SIZE
            ax.text(0, at, literal(line), fontsize=_SMALL * _SIZE, va="top", color=GREY)

    def _draw_values(self, ax):
        ranked = [
            k for layer in self._graph.layers for node in layer for k in self._graph.nodes[node]
        ]
        coef = np.asarray(self.coef, dtype=float)
        width, height = size_in_points(ax)
        pitch = height / len(ranked)
        area = float(np.clip(0.6 * pitch, 2.0, 7.0)) ** 2
        rank = np.empty(len(ranked))
        rank[ranked] = np.arange(len(ranked))
        roles = np.array(self._roles())
        self.points_ = {}
        for role, (color, marker) in _ROLES.items():
            on = roles == role
            if on.any():
                self.points_[role] = ax.scatter(
                    coef[on], rank[on], s=area, c=color, marker=marker, zorder=3
                )
        title = f"W_kq under the query {_quoted(self.query)}: trained (filled)"
        if self.reference is None:
            title += "; its max-margin reference would take too long to solve here"
        else:
            reference, scale = np.asarray(self.reference, dtype=float), 1.0
            norms = np.linalg.norm(coef), np.linalg.norm(reference)
            if norms[0] > 0:
                scale = norms[0] / norms[1]
                apart = np.linalg.norm(coef / norms[0] - reference / norms[1])
                title += f", max-margin reference ×{scale:.3g} (rings); "
                title += f"distance of the directions {apart:.2g}"
            else:
                title += " is zero, max-margin reference (rings)"
            self.points_["reference"] = ax.scatter(
                scale * reference,
                rank,
                s=3.0 * area,
                facecolors="none",
                edgecolors="black",
                linewidths=0.8,
                zorder=4,
            )
        step = int(np.ceil(1.2 * _SMALL * _SIZE / pitch))
        named = ranked[::step]
        ax.set_yticks(rank[named], [literal(token_label(self.tokens[k])) for k in named])
        ax.tick_params(labelsize=_SMALL * _SIZE)
        ax.set_ylim(len(ranked) - 0.4, -0.6)
        ax.axvline(0, color="0.8", linewidth=0.8, zorder=0)
        ax.set_xlabel(
            "score W_kq[token, query]" + (f"; one token in {step} is named" if step > 1 else "")
        )
        _set_title(ax, title, width, 1.1 * _SIZE)


def _query_code(classifier, query):
    """The code of a query that has pairs."""
    vocabulary = classifier.vocabulary_.tolist()
    codes = np.unique(classifier._orders.query)
    with_pairs = [vocabulary[code] for code in codes if code < len(vocabulary)]
    if query in with_pairs and not isinstance(query, (bool, np.bool_)):
        return vocabulary.index(query)
    if not with_pairs:
        problem = "The data have no pair of tokens under any query: there is no order."
        if classifier.collocation_mode_ == "context":
            problem += (
                ' Under the collocation "context" (that of smoothing) each token of a sentence is '
                'followed by its next token; "single" or "last" compare them.'
            )
        raise ValueError(problem)
    if query is None:
        problem = "query is missing"
    else:
        problem = f"The query {query!r} "
        problem += "has no pairs" if query in vocabulary else "is not in the vocabulary"
    raise ValueError(f"{problem}: choose one of those with pairs, {show(with_pairs)}.")


def _check_size(query, tokens):
    """Refuse what has nothing to draw, or more than a reader could take in."""
    if not tokens:
        raise ValueError("tokens is empty: there is no order to draw.")
    if len(tokens) > _MOST_TOKENS:
        raise ValueError(
            f"The order under {query!r} has {len(tokens)} tokens; at most {_MOST_TOKENS} can be "
            "drawn. structure.partial_orders gives it as lists."
        )


def _reference(pairs, rows, n_tokens):
    """The max-margin reference of one query on the tokens `rows`, or None if too slow to solve."""
    query = np.zeros(len(pairs), dtype=int)  # whichever: it is the only one
    try:
        found = solve_kq(query, *pairs.T, fixed=n_tokens, time_limit=_TIME_LIMIT)
    except MaxMarginError:
        return None
    value = np.zeros(n_tokens + 1)
    value[found.token] = found.value
    return value[rows]


def _quoted(token):
    return token_label(token) if isinstance(token, int) else f'"{token_label(token)}"'


def _node_label(tokens):
    """The tokens of one box; those of a cycle joined."""
    label = " ↔ ".join(map(token_label, tokens[:4]))
    return label if len(tokens) <= 4 else f"{label} ↔ … ({len(tokens)})"


def _shown(tokens):
    """The first few tokens, and how many more there are."""
    shown = ", ".join(map(token_label, tokens[:6]))
    return shown if len(tokens) <= 6 else f"{shown} and {len(tokens) - 6} more"


def _set_title(ax, title, width, size):
    ax.set_title(literal("\n".join(wrap(title, width, size))), loc="left", fontsize=size)
