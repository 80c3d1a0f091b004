"""The history of a training beside what the theory claims of it."""

from itertools import pairwise

import numpy as np

from sklntp._drawing import BLUE, ORANGE, check_axes, fitted_classifier, load_pyplot, subdivide
from sklntp._ngd import StepSizes

# A direction this near to its reference is exact but for rounding, see `convergence_rate`.
_EXACT = 1e-9
_LOWEST = 1e-18  # distance that can still be told on the axis
_MOST_POINTS = 4000  # of a curve, before it is thinned
_MATRICES = {"ov": ("",), "kq": ("",), "joint": ("_ov", "_kq")}  # endings of names in a history
_COLOR = {"ov": BLUE, "kq": ORANGE}
_RATE = {"ov": (1, r"$\log t\,/\,t$"), "kq": (2, r"$\log^2 t\,/\,t$")}  # power of the log, its text
_NO_STEPS = {
    "max_margin": "no steps: set to the max-margin reference",
    "smoothing": "no steps: closed form (smoothing)",
    "not reached": "not reached",
}
_UNTRACKED = "not tracked:\nfit with track_alignment=True"
_NO_DIRECTION = "no direction: the matrix\nor its reference is zero"


class ConvergenceDisplay:
    """Loss, direction error and norm of each stage, with the claimed rates as guides.

    One row of three panels per stage. The loss has a logarithmic axis, drawn from its logarithm:
    it falls below the smallest float64. The direction error ||W/||W|| - W*/||W*||||_F has both axes
    logarithmic; its guides, log t / t for W_ov and log^2 t / t for W_kq, are what [1]_ proves for
    normalized gradient descent with constant steps, scaled to meet the curve at its last step. The
    guide of the norm is the sum of the steps, eta t: what it would be if all had one direction.

    It is recommended to use `from_estimator`. All parameters are stored as attributes.

    Parameters
    ----------
    convergence : dict of dict
        stage -> histories, as ``clf.convergence_``.

    step_sizes : dict of array-like, default=None
        stage -> lengths of the last steps in its history; a stage without has no guide of the norm.

    Attributes
    ----------
    axes_ : ndarray of matplotlib Axes of shape (n_stages, 3)
        Loss, direction error and norm of each stage.

    figure_ : matplotlib Figure
        The figure.

    lines_ : dict of dict of matplotlib Line2D
        stage -> name of the history, or ``guide_NAME`` for its guide -> line.

    texts_ : dict of dict of matplotlib Text
        stage -> name of the history -> what is said in place of a curve.

    See Also
    --------
    sklntp.metrics.convergence_rate : The same as numbers, decade by decade.

    References
    ----------
    .. [1] R. Huang, Y. Liang, J. Yang, "Non-asymptotic Convergence of Training Transformers for
       Next-token Prediction", NeurIPS 2024, arXiv:2409.17335.

    Examples
    --------
    >>> from sklntp import NTPTransformerClassifier
    >>> from sklntp.inspection import ConvergenceDisplay
    >>> X = [["a"], ["b"], ["c"], ["a", "b"], ["b", "a", "c"]]
    >>> clf = NTPTransformerClassifier(max_iter=100, track_alignment=True)
    >>> clf = clf.fit(X, ["b", "c", "a", "b", "c"])
    >>> display = ConvergenceDisplay.from_estimator(clf)
    >>> display.axes_.shape
    (2, 3)
    """

    def __init__(self, *, convergence, step_sizes=None):
        self.convergence = convergence
        self.step_sizes = step_sizes

    @classmethod
    def from_estimator(cls, estimator, *, ax=None):
        """Draw the history of a fitted estimator.

        Parameters
        ----------
        estimator : NTPTransformerClassifier or Pipeline
            Fitted; of a pipeline the last step. With ``track_alignment=True`` its history has the
            direction error.

        ax : matplotlib Axes or array of Axes, default=None
            See `plot`.

        Returns
        -------
        display : ConvergenceDisplay
            What was drawn.
        """
        load_pyplot(f"{cls.__name__}.from_estimator")
        classifier, _ = fitted_classifier(estimator)
        display = cls(convergence=classifier.convergence_, step_sizes=_step_sizes(classifier))
        return display.plot(ax=ax)

    def plot(self, ax=None):
        """Draw.

        Parameters
        ----------
        ax : matplotlib Axes or array of Axes, default=None
            Axes to subdivide, or three for each stage. None: a new figure.

        Returns
        -------
        display : ConvergenceDisplay
            The object itself.
        """
        plt = load_pyplot(f"{type(self).__name__}.plot")
        shape = len(self.convergence), 3
        if ax is None:
            size = (12.0, 0.4 + 3.2 * shape[0])
            figure, axes = plt.subplots(*shape, figsize=size, layout="constrained", squeeze=False)
        else:
            n = shape[0] * shape[1]
            what = f"one Axes, or {n}, three for each of the {shape[0]} stages"
            axes = check_axes(ax, n, what)
            figure = axes[0].figure
            if len(axes) == 1:
                grid = subdivide(axes[0], *shape, wspace=0.6, hspace=0.7)
                axes = [[figure.add_subplot(grid[i, k]) for k in range(3)] for i in range(shape[0])]
        self.figure_ = figure
        self.axes_ = np.asarray(axes, dtype=object).reshape(shape)
        self.lines_ = {stage: {} for stage in self.convergence}
        self.texts_ = {stage: {} for stage in self.convergence}
        for stage, row in zip(self.convergence, self.axes_, strict=True):
            self._draw_loss(stage, row[0])
            self._draw_direction(stage, row[1])
            self._draw_norm(stage, row[2])
        return self

    def _n_steps(self, stage):
        return max(len(self.convergence[stage]["loss"]) - 1, 0)

    def _draw_loss(self, stage, ax):
        from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator

        history = self.convergence[stage]
        ax.set_title(f'Stage "{stage}": loss')
        ax.set_ylabel("loss (nats, log axis)")
        log_loss = np.asarray(history["log_loss"], dtype=float) / np.log(10)
        if self._without_curve(stage, "loss", ax, log_loss, "loss 0"):
            return
        self._line(stage, "loss", ax, log_loss, color="black", label="training")
        if "validation_loss" in history:
            with np.errstate(divide="ignore"):
                held_out = np.log10(np.asarray(history["validation_loss"], dtype=float))
            finite = np.isfinite(held_out).any()
            label = "held out" if finite else "held out: infinite"
            self._line(
                stage, "validation_loss", ax, held_out, color=BLUE, linestyle="--", label=label
            )
            ax.legend(fontsize="small")
        ax.set_xlabel(f"step t; stopped: {history['stop_reason']}")
        low, high = ax.get_ylim()
        ticks = _round_losses(low, high)
        ax.yaxis.set_major_locator(
            FixedLocator(ticks) if len(ticks) else MaxNLocator(6, integer=high - low > 3)
        )
        ax.yaxis.set_major_formatter(FuncFormatter(_power_of_ten))

    def _draw_direction(self, stage, ax):
        history = self.convergence[stage]
        ax.set_title("Direction error" + ("" if stage == "joint" else f", {_symbol(stage)}"))
        ax.set_ylabel("distance to max-margin")
        lowest = 1.0
        for ending in _MATRICES[stage]:
            name, matrix = f"dist{ending}", ending[1:] or stage
            dist = np.asarray(history[name], dtype=float)
            if self._without_curve(stage, name, ax, dist, ""):
                return
            if np.isnan(dist[1:]).all():
                continue
            lowest = min(lowest, np.nanmin(dist[1:]))
            # A distance of exactly zero is drawn at the lower end.
            drawn = np.maximum(dist, _LOWEST)
            self._line(stage, name, ax, drawn, first=1, **_style(matrix, ending))
            if stage != "joint":  # of which nothing is claimed
                self._draw_rate(stage, ax, dist)
        if not self.lines_[stage].keys() & {f"dist{ending}" for ending in _MATRICES[stage]}:
            untracked = np.isnan(history["accuracy"]).all()
            self._say(stage, "dist", ax, _UNTRACKED if untracked else _NO_DIRECTION)
            return
        ax.set_xscale("log")
        ax.set_yscale("log")
        if lowest <= _EXACT:
            ax.axhspan(_LOWEST / 2, _EXACT, color="0.9", label="exact to rounding")
            ax.set_ylim(_LOWEST / 2, 10.0)
        else:
            ax.set_ylim(top=min(ax.get_ylim()[1], 3.0))  # it is at most 2, the guide may be more
        ax.legend(fontsize="small")

    def _draw_rate(self, stage, ax, dist):
        """The claimed rate, through the last point that is not rounding error."""
        if np.ptp((self.step_sizes or {}).get(stage, 0.0)) > 0:
            return  # it is claimed of constant steps
        power, text = _RATE[stage]
        first = int(np.ceil(np.exp(power)))  # from where on it falls
        inexact = np.flatnonzero(dist > _EXACT)
        if not len(inexact) or inexact[-1] < first:
            return
        last = inexact[-1]
        t = np.geomspace(first, len(dist) - 1, 200)
        guide = dist[last] * last / np.log(last) ** power * np.log(t) ** power / t
        style = {"color": "black", "linestyle": "--", "label": f"claim for NGD: {text}"}
        (self.lines_[stage]["guide_dist"],) = ax.plot(t, guide, **style)

    def _draw_norm(self, stage, ax):
        history = self.convergence[stage]
        ax.set_title("Norm" + ("" if stage == "joint" else f", {_symbol(stage)}"))
        ax.set_ylabel("Frobenius norm")
        for ending in _MATRICES[stage]:
            name, matrix = f"norm{ending}", ending[1:] or stage
            norm = np.asarray(history[name], dtype=float)
            if self._without_curve(stage, name, ax, norm, ""):
                return
            # Wider than the guide, which may cover it.
            self._line(stage, name, ax, norm, linewidth=3, **_style(matrix, ending))
        steps = np.asarray((self.step_sizes or {}).get(stage, ()), dtype=float)
        if len(steps):
            total = np.hypot.reduce([history[f"norm{ending}"] for ending in _MATRICES[stage]])
            start = len(total) - 1 - len(steps)
            guide = np.full(len(total), np.nan)
            guide[start:] = total[start] + np.concatenate([[0.0], np.cumsum(steps)])
            linear = start == 0 and total[0] == 0 and np.ptp(steps) == 0
            label = f"guide: {steps[0]:g} t" if linear else "guide: sum of the steps"
            self._line(
                stage, "guide_norm", ax, guide, color="black", linestyle="--", label=label, zorder=3
            )
            top = min(ax.get_ylim()[1], 1.5 * np.max(total))  # which the guide may leave
            ax.set_ylim(-0.04 * top, top)
        ax.legend(fontsize="small")

    def _without_curve(self, stage, name, ax, values, otherwise):
        """Whether there is nothing to draw, and then say why in the panel."""
        history = self.convergence[stage]
        if self._n_steps(stage) == 0:
            reason = history["stop_reason"]
            text = _NO_STEPS.get(reason, f"no steps: {reason}")
            if len(values) and np.isfinite(values[0]):
                value = _power_of_ten(values[0]) if name == "loss" else f"{values[0]:.3g}"
                text += f"\n{name} {value}"
        elif not np.isfinite(values).any() and otherwise:
            text = otherwise
        else:
            return False
        self._say(stage, name, ax, text)
        return True

    def _say(self, stage, name, ax, text):
        ax.set_xticks([])
        ax.set_yticks([])
        self.texts_[stage][name] = ax.text(
            0.5, 0.5, text, transform=ax.transAxes, ha="center", va="center"
        )

    def _line(self, stage, name, ax, values, first=0, **style):
        t = _shown_steps(values)
        t = t[t >= first]
        (self.lines_[stage][name],) = ax.plot(t, values[t], **style)
        ax.set_xlabel("step t")


def _step_sizes(classifier):
    """stage -> lengths of the steps of the last call, where these are known."""
    found = {}
    if classifier.solver != "ngd":
        return found
    stages = classifier.stages
    etas = np.broadcast_to(classifier.step_size, len(stages))
    max_iter = np.broadcast_to(classifier.max_iter, len(stages))
    for stage, eta, most, n in zip(stages, etas, max_iter, classifier.n_iter_, strict=True):
        if n:
            done = len(classifier.convergence_[stage]["loss"]) - 1 - int(n)
            steps = StepSizes(float(eta), classifier.step_schedule, done, done + int(most))
            found[stage] = np.array([steps[k] for k in range(n)])
    return found


def _style(matrix, ending):
    """Of the curve of a matrix; two in one panel differ in more than color."""
    style = {"color": _COLOR[matrix], "label": _symbol(matrix)}
    return style | {"linestyle": "-." if ending == "_kq" else "-"}


def _symbol(matrix):
    return f"$W_{{{matrix}}}$"


def _power_of_ten(exponent, _=None):
    """A loss, of which this is the decimal logarithm, as text."""
    if exponent < -300 or 1e-9 < abs(exponent) and abs(exponent - round(exponent)) < 1e-9:
        return f"$10^{{{exponent:.5g}}}$"
    return f"{10**exponent:.3g}"


def _round_losses(low, high):
    """Decimal logarithms of three to eight round losses; none over many decades, or hardly one."""
    if high - low < 4:
        decades = np.arange(np.floor(low), np.ceil(high))
        for multiples in ([1], [1, 3], [1, 2, 5], *(np.arange(1, 10, d) for d in (1, 0.5, 0.2))):
            ticks = np.add.outer(decades, np.log10(multiples)).ravel()
            ticks = ticks[(low <= ticks) & (ticks <= high)]
            if 3 <= len(ticks) <= 8:
                return ticks
    return np.empty(0)


def _shown_steps(values):
    """The steps of a curve to draw: all, or the extremes of intervals both even and logarithmic."""
    n = len(values)
    if n <= _MOST_POINTS:
        return np.arange(n)
    quarter = _MOST_POINTS // 8
    edges = np.concatenate([np.linspace(0, n, quarter), np.geomspace(1, n, quarter)])
    edges = np.unique(edges.astype(int))
    extremes = [
        (a + np.argmin(values[a:b]), a + np.argmax(values[a:b])) for a, b in pairwise(edges)
    ]
    return np.unique(np.concatenate([edges[:-1], np.ravel(extremes), [n - 1]]))
