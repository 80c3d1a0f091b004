"""Attention weights over the tokens of sentences, and what they predict."""

from itertools import pairwise

import numpy as np

from sklntp._drawing import (
    BLUE,
    GREY,
    INCH,
    VERMILLION,
    check_axes,
    fitted_classifier,
    flow,
    literal,
    load_pyplot,
    points_canvas,
    size_in_points,
    text_width,
    token_label,
    wrap,
)
from sklntp._rows import probability_text
from sklntp._sequences import read_sequences

_MOST_SENTENCES = 50
_MOST_POSITIONS = 2000
_WIDTH = 576.0  # points, of a new figure
_MARGIN = 12.0
_SIZE, _SMALLEST = 10.0, 2.0  # of the font, in points
_SMALL = 0.8  # of numbers and the caption, relative to tokens
_PITCH, _ARROW = 3.1, 2.0  # height of a line and length of the arrow, relative to the font
_LEAST = 0.01  # of the largest weight of a sentence: smaller ones are not written
_TITLE = "Attention over the tokens of each sentence, and the predicted next token"


class AttentionDisplay:
    """Attention weights over the tokens of sentences, with the predicted next tokens.

    Each sentence is one row of boxes, in several lines if need be: the darker a token, the larger
    its weight. The frame marks the query, the last token. After the arrow stands the most probable
    next token.

    It is recommended to use `from_estimator`. All parameters are stored as attributes.

    Parameters
    ----------
    sentences : list of list
        Tokens.

    weights : list of array-like
        The attention weight of each position of each sentence.

    predictions : array-like of shape (n_sentences,)
        The predicted next tokens.

    probabilities : array-like of shape (n_sentences,)
        Their probabilities.

    Attributes
    ----------
    ax_ : matplotlib Axes
        The axes.

    figure_ : matplotlib Figure
        The figure.

    boxes_ : list of list of matplotlib Rectangle
        One per position of each sentence.

    texts_ : list of list of matplotlib Text
        The token in each box.

    See Also
    --------
    sklntp.NTPTransformerClassifier.attention : The weights as arrays.

    Examples
    --------
    >>> from sklntp import NTPTransformerClassifier
    >>> from sklntp.inspection import AttentionDisplay
    >>> X = [["a"], ["b"], ["c"], ["a", "b"]]
    >>> clf = NTPTransformerClassifier(max_iter=100).fit(X, ["b", "c", "a", "b"])
    >>> display = AttentionDisplay.from_estimator(clf, [["a", "a", "b"]])
    >>> display.predictions
    array(['b'], dtype='<U1')
    """

    def __init__(self, *, sentences, weights, predictions, probabilities):
        self.sentences = sentences
        self.weights = weights
        self.predictions = predictions
        self.probabilities = probabilities

    @classmethod
    def from_estimator(cls, estimator, X, *, ax=None):
        """Draw the attention of a fitted estimator over sentences.

        Parameters
        ----------
        estimator : NTPTransformerClassifier or Pipeline
            Fitted. Of a pipeline the tokens are those that its last step sees.

        X : array-like of sequences
            Sentences; a single one is ``[sentence]``. At least one, at most 50, of together at most
            2,000 tokens.

        ax : matplotlib Axes, default=None
            See `plot`.

        Returns
        -------
        display : AttentionDisplay
            What was drawn.
        """
        load_pyplot(f"{cls.__name__}.from_estimator")
        classifier, before = fitted_classifier(estimator)
        if before is not None:
            X = before.transform(X)
        sequences = read_sequences(None, X, reset=True)
        tokens = [sequences.tokens[code] for code in sequences.codes]
        sentences = [tokens[a:b] for a, b in pairwise(sequences.offsets)]
        _check_size(sentences)
        predictions = classifier.predict(X)
        display = cls(
            sentences=sentences,
            weights=classifier.attention(X),
            predictions=predictions,
            probabilities=np.exp(classifier.label_log_proba(X, predictions)),
        )
        return display.plot(ax=ax)

    def plot(self, ax=None):
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to draw into; the font shrinks until all fits. None: a new figure, as high as the
            sentences need.

        Returns
        -------
        display : AttentionDisplay
            The object itself.
        """
        plt = load_pyplot(f"{type(self).__name__}.plot")
        _check_size(self.sentences)
        if ax is None:
            size = _SIZE
            width = _WIDTH - 2 * _MARGIN
            boxes, height = self._place(width, size)
            figure_height = height + 2 * _MARGIN + 2 * size
            figure = plt.figure(figsize=(_WIDTH / INCH, figure_height / INCH))
            place = _MARGIN / _WIDTH, _MARGIN / figure_height, width / _WIDTH
            ax = figure.add_axes((*place, height / figure_height))
        else:
            (ax,) = check_axes(ax, 1, "one Axes")
            width, available = size_in_points(ax)
            for size in np.arange(_SIZE, _SMALLEST - 0.5, -0.5):
                boxes, height = self._place(width, size)
                if height <= available:
                    break
            height = max(height, available)
        points_canvas(ax, width, height)
        self.ax_, self.figure_ = ax, ax.figure
        title = wrap(_TITLE, width, 1.1 * size)
        ax.set_title("\n".join(title), loc="left", fontsize=1.1 * size)
        self._draw(boxes, width, size)
        return self

    def _largest(self):
        return max(float(np.max(weights)) for weights in self.weights)

    def _caption(self, width, size):
        text = (
            f"Shade and number: attention weight, darkest {self._largest():.2g}; weights below "
            f"{_LEAST:.0%} of a sentence's largest have no number. Thick frame: the query. "
            "Dashed: predicted next token, p its probability."
        )
        return wrap(text, width, _SMALL * size)

    def _place(self, width, size):
        """All boxes as (sentence, x, y, width, text, below, weight), and the height they need."""
        top = len(self._caption(width, size)) * 1.3 * _SMALL * size + 0.9 * size
        margin = text_width("00 ", size) if len(self.sentences) > 1 else 0.0
        boxes, measured = [], {}

        def room(text, relative=1.0):
            key = text, relative
            if key not in measured:
                measured[key] = text_width(text, relative * size)
            return measured[key]

        for i, tokens in enumerate(self.sentences):
            weights = np.asarray(self.weights[i], dtype=float)
            written = weights >= _LEAST * weights.max()
            below = [f"{w:.2g}" if on else "" for w, on in zip(weights, written, strict=True)]
            texts = [*map(token_label, tokens), token_label(self.predictions[i])]
            p = probability_text(self.probabilities[i])
            below.append(f"p {p}" if p.startswith(">") else f"p = {p}")
            widths = [
                max(room(text), room(number, _SMALL)) + 0.9 * size
                for text, number in zip(texts, below, strict=True)
            ]
            widths[-1] += _ARROW * size
            places = flow(widths, width - margin, 0.35 * size)
            for (line, x), w, text, number, weight in zip(
                places, widths, texts, below, [*weights, None], strict=True
            ):
                boxes.append((i, margin + x, top + line * _PITCH * size, w, text, number, weight))
            top += (places[-1][0] + 1) * _PITCH * size + 0.7 * size
        return boxes, top

    def _draw(self, boxes, width, size):
        from matplotlib.colors import LinearSegmentedColormap
        from matplotlib.patches import Rectangle

        ax, largest = self.ax_, self._largest()
        shades = LinearSegmentedColormap.from_list("attention", ["white", BLUE])
        self.boxes_ = [[] for _ in self.sentences]
        self.texts_ = [[] for _ in self.sentences]
        small = {"fontsize": _SMALL * size, "ha": "center", "va": "top"}
        for k, line in enumerate(self._caption(width, size)):
            y = k * 1.3 * _SMALL * size
            ax.text(0, y, line, fontsize=_SMALL * size, va="top", color=GREY)
        for i, x, y, w, text, number, weight in boxes:
            tokens, drawn = self.sentences[i], len(self.boxes_[i])
            if not drawn and len(self.sentences) > 1:
                ax.text(0, y + 0.8 * size, str(i), fontsize=size, va="center", color=GREY)
            style = {"facecolor": "white", "edgecolor": "black", "linestyle": "--"}
            ink = "black"
            if weight is None:
                end, shaft = (x + (_ARROW - 0.3) * size, y + 0.8 * size), {"arrowstyle": "->"}
                ax.annotate("", end, (x + 0.1 * size, end[1]), arrowprops=shaft)
                x, w = x + _ARROW * size, w - _ARROW * size
            else:
                shade = weight / largest
                style = {"facecolor": shades(shade), "edgecolor": "0.7", "linewidth": 0.6}
                ink = "white" if shade > 0.6 else "black"
                if drawn == len(tokens) - 1:
                    style |= {"edgecolor": VERMILLION, "linewidth": 0.22 * size, "zorder": 2}
            box = Rectangle((x, y), w, 1.6 * size, **style)
            ax.add_patch(box)
            label = ax.text(
                x + w / 2,
                y + 0.8 * size,
                literal(text),
                fontsize=size,
                ha="center",
                va="center_baseline",
                color=ink,
            )
            ax.text(x + w / 2, y + 1.75 * size, number, **small)
            if weight is not None:
                self.boxes_[i].append(box)
                self.texts_[i].append(label)


def _check_size(sentences):
    """Refuse what no reader could take in."""
    n_positions = sum(map(len, sentences))
    if not sentences:
        raise ValueError("X has no sentence: at least one is needed.")
    if len(sentences) > _MOST_SENTENCES or n_positions > _MOST_POSITIONS:
        raise ValueError(
            f"X has {len(sentences)} sentences of together {n_positions} tokens; at most "
            f"{_MOST_SENTENCES} sentences and {_MOST_POSITIONS} tokens can be drawn. Choose some, "
            "for example X[:10]."
        )
