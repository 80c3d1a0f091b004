"""How fast training converged: rates measured on the history of a fit."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

_MATRICES = {"ov": ("ov",), "kq": ("kq",), "joint": ("ov", "kq")}
_KIND = "history must be clf.convergence_ of a fitted NTPTransformerClassifier clf"
_CLAIMS = {"ov": "log t / t", "kq": "log^2 t / t"}  # of dist; none for the joint stage

# A direction this near to its reference is exact but for rounding: 5e-14 was seen after 10,000
# steps, 1e-11 after 10,000 long ones. At a rate of log t / t nothing else gets here.
_EXACT = 1e-9

# Shares of the fall of the log-loss: done where the straight part ends, left where the floor is
# reached, and left on the way back up; and the share of the steps for which a floor must hold.
_STRAIGHT, _AT_FLOOR, _NEAR_FLOOR, _HELD = 0.9, 0.01, 0.1, 0.1
_FLAT = 1e-12  # a fall of the log-loss up to this, absolute or relative, is rounding error


class RateFit(NamedTuple):
    """A power law fitted to dist over a range of steps, and the two bounds fitted likewise.

    Exponents are least-squares slopes of a logarithm against log t, over every step t >= 2 of the
    range where dist is tracked and above 1e-9 (below, it is rounding error). With fewer than two
    such steps they are NaN.

    Attributes
    ----------
    first, last : int
        First and last step in use.
    exponent : float
        p in dist ~ t^p.
    exponent_log : float
        The same for log t / t in the place of dist, over the same steps.
    exponent_log2 : float
        The same for log^2 t / t. A dist with a smaller exponent falls faster than the bound.
    constant_log : float
        The smallest C with dist <= C log t / t on these steps.
    constant_log2 : float
        The smallest C with dist <= C log^2 t / t on these steps.
    """

    first: int
    last: int
    exponent: float
    exponent_log: float
    exponent_log2: float
    constant_log: float
    constant_log2: float


@dataclass(frozen=True, eq=False)
class DirectionRate:
    """How fast the direction of one matrix approached its max-margin reference; ``print`` it.

    Attributes
    ----------
    matrix : {"ov", "kq"}
        Which matrix.
    t : ndarray of int of shape (n_points,)
        The steps 1, 10, 100, ... and the last one.
    dist : ndarray of shape (n_points,)
        ||W/||W|| - W*/||W*||||_F at these steps; NaN where not tracked, or a matrix is zero.
    dist_over_log : ndarray of shape (n_points,)
        dist t / log t, natural logarithm; bounded if dist = O(log t / t). NaN at t = 1.
    dist_over_log2 : ndarray of shape (n_points,)
        dist t / log^2 t; bounded if dist = O(log^2 t / t). NaN at t = 1.
    decades : tuple of RateFit, n_points - 1 of them
        One fit per decade, from each point to the next, both included.
    overall : RateFit
        The fit over the last two decades: from step max(2, n / 100) to n, after n steps.
    exact_from : int or None
        The first step from which on every tracked dist is at most 1e-9: rounding error, which has
        no rate. On symmetric data W_ov has the exact direction from step 1. None: no such step.
    """

    matrix: str
    t: np.ndarray
    dist: np.ndarray
    dist_over_log: np.ndarray
    dist_over_log2: np.ndarray
    decades: tuple
    overall: RateFit
    exact_from: int | None

    def __str__(self):
        name = f"direction of W_{self.matrix}"
        if self.exact_from is not None:
            since = "the first step" if self.exact_from <= 1 else f"step {self.exact_from}"
            name += f": exact from {since} on (dist at most {_EXACT:.0e}, rounding error)"
            if np.isnan([fit.exponent for fit in self.decades]).all():
                return name
        elif np.isnan([*self.dist, self.overall.exponent]).all():
            return (
                f"{name}: no dist in the history; it is there with track_alignment=True, unless "
                "the matrix or its reference is zero"
            )
        lines = [
            name,
            "       t       dist  dist t/log t  dist t/log^2 t  | since the row above, exponents of"
            "\n                                                  |     dist    log t/t  log^2 t/t",
        ]
        rows = zip(self.t, self.dist, self.dist_over_log, self.dist_over_log2, strict=True)
        for row, fit in zip(rows, (None, *self.decades), strict=True):
            line = "{:8d}  {:9.3e}  {:12.4g}  {:14.4g}  |".format(*row)
            if fit is not None:
                exponents = fit.exponent, fit.exponent_log, fit.exponent_log2
                line += " {:8.3f}   {:8.3f}   {:8.3f}".format(*exponents)
            lines.append(line)
        fit = self.overall
        if not np.isnan(fit.exponent):
            lines.append(
                f"  over t = {fit.first} ... {fit.last}: dist ~ t^{fit.exponent:.3f}, log t / t ~ "
                f"t^{fit.exponent_log:.3f}, log^2 t / t ~ t^{fit.exponent_log2:.3f};\n"
                f"  there dist <= {fit.constant_log:.4g} log t / t "
                f"and dist <= {fit.constant_log2:.4g} log^2 t / t"
            )
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class ConvergenceRate:
    """Measured rates of one stage, what `convergence_rate` returns; ``print`` it.

    Step t has index t in the history: t = 0 is its start, n its last.

    Attributes
    ----------
    stage : {"ov", "kq", "joint"}
        The stage.
    n_steps : int
        n, the steps in the history, those of earlier calls with ``warm_start=True`` included.
    stop_reason : str
        Why the stage ended.
    t : ndarray of int of shape (n_points,)
        The steps 1, 10, 100, ... and the last one.
    norm : ndarray of shape (n_points,)
        Frobenius norm at these steps; for "joint" of both matrices together,
        sqrt(||W_ov||^2 + ||W_kq||^2), because the step is normalized over both.
    norm_ratio : ndarray of shape (n_points,)
        norm / (eta t): 1 if all steps have length eta and the same direction. It falls as
        1 / sqrt(t) with ``step_schedule="invscaling"``. NaN if `step_size` is.
    step_size : float
        eta, read off the history: the norm after the first step from zero is exactly eta. NaN if
        the history does not start at zero, or a step changed nothing.
    log_loss_slope : float
        Least-squares slope of the log-loss (natural logarithm of the mean loss) against t, per
        step, over t = 0, ..., `straight_until`. NaN if the loss never fell.
    log_loss_r2 : float
        R^2 of that line; NaN with fewer than three points.
    straight_until : int
        The first step at which 90 % of the fall of the log-loss, from the start to its smallest
        value, are done; n if it reached no floor; 0 if it never fell.
    floor : float
        The smallest log-loss, if it is a floor; else NaN. Stage "kq" has a floor, set by the
        fixed W_ov; stage "ov" on realizable data has none.
    floor_step : int or None
        The first step at which all but 1 % of the fall are done. None if there is no floor: it
        counts as one if this step leaves at least the last tenth of the steps, over which the
        median log-loss is within 10 % of the fall. A log-loss that is flat throughout, but for
        rounding error (1e-12, absolute or relative), is at its floor from step 0.
    first_accurate : int or None
        The first tracked step with a training accuracy of 1; None if there is none.
    directions : dict
        Matrix ("ov" or "kq"; for "joint" both) -> `DirectionRate`.
    """

    stage: str
    n_steps: int
    stop_reason: str
    t: np.ndarray
    norm: np.ndarray
    norm_ratio: np.ndarray
    step_size: float
    log_loss_slope: float
    log_loss_r2: float
    straight_until: int
    floor: float
    floor_step: int | None
    first_accurate: int | None
    directions: dict

    def __str__(self):
        claim = ""
        if self.stage in _CLAIMS:
            claim = f"; claimed on realizable data: dist = O({_CLAIMS[self.stage]})"
        steps = f"{self.n_steps} step{'s' if self.n_steps > 1 else ''}"
        lines = [f"stage {self.stage!r}, {steps} ({self.stop_reason}){claim}"]
        if np.isnan(self.step_size):
            lines.append(
                f"norm: {self.norm[-1]:.6g} at the end; the history does not start at zero, "
                "so that eta is unknown"
            )
        else:
            ratios = [f"{r:.4f} at {t}" for t, r in zip(self.t, self.norm_ratio, strict=True)]
            lines.append(f"norm / (eta t), eta = {self.step_size:.6g}: {', '.join(ratios)}")
        if not np.isnan(self.log_loss_slope):
            lines.append(
                f"log(loss): slope {self.log_loss_slope:.4g} per step over t = 0 ... "
                f"{self.straight_until}, R^2 {self.log_loss_r2:.4f}; "
            )
            lines[-1] += (
                "no floor reached"
                if self.floor_step is None
                else f"floor {self.floor:.4g} from step {self.floor_step} on"
            )
        else:
            flat = f"at its floor {self.floor:.4g} from the start"
            lines.append(f"log(loss): {'never fell' if self.floor_step is None else flat}")
        if self.first_accurate is not None:
            lines.append(f"training accuracy: 1 first seen at step {self.first_accurate}")
        return "\n".join([*lines, *map(str, self.directions.values())])


def convergence_rate(history, stage):
    """Measure how fast one stage of training converged.

    The claims of [1]_ on realizable data: dist = ||W/||W|| - W*/||W*||||_F is O(log t / t) for
    W_ov and O(log^2 t / t) for W_kq, norms grow as eta t, and the loss falls exponentially (to
    the floor that the fixed W_ov sets). Each becomes a number: the constants dist t / log t and
    dist t / log^2 t and the exponent p of dist ~ t^p beside those of the bounds, norm / (eta t),
    and the slope of the log-loss.

    Parameters
    ----------
    history : dict
        ``clf.convergence_`` of a fitted `NTPTransformerClassifier`. dist and accuracy are in it
        with ``track_alignment=True``; without, the rest is measured.
    stage : {"ov", "kq", "joint"}
        Which stage of it.

    Returns
    -------
    rate : ConvergenceRate
        The rates; ``print`` it.

    Raises
    ------
    TypeError
        If `history` is not such a dict, for example the classifier itself.
    ValueError
        If `stage` is not in `history`, or made no step.

    Notes
    -----
    One history may hold several calls of ``fit`` with ``warm_start=True``. The rates then speak of
    all of them together: of one training only if data, step size and, for stage "kq", W_ov stayed
    the same. With ``step_schedule="invscaling"`` the claimed rates in t do not apply.

    References
    ----------
    .. [1] R. Huang, Y. Liang, J. Yang, "Non-asymptotic Convergence of Training Transformers for
       Next-token Prediction", NeurIPS 2024, arXiv:2409.17335.

    Examples
    --------
    >>> from sklntp import NTPTransformerClassifier
    >>> from sklntp.metrics import convergence_rate
    >>> X = [["a"], ["b"], ["c"], ["d"], ["a", "c"], ["b", "a", "a", "c"], ["c", "d", "b"]]
    >>> y = ["b", "c", "d", "a", "b", "b", "d"]
    >>> clf = NTPTransformerClassifier(track_alignment=True).fit(X, y)
    >>> rate = convergence_rate(clf.convergence_, "kq")
    >>> rate.directions["kq"].overall.exponent < rate.directions["kq"].overall.exponent_log2
    True
    >>> print(rate)
    stage 'kq', 1000 steps (max_iter); claimed on realizable data: dist = O(log^2 t / t)
    norm / (eta t), eta = 0.2: 1.0000 at 1, 0.7610 at 10, 0.9423 at 100, 0.9942 at 1000
    log(loss): slope -4.534 per step over t = 0 ... 23, R^2 0.9681; floor -114.4 from step 34 on
    training accuracy: 1 first seen at step 1
    direction of W_kq
           t       dist  dist t/log t  dist t/log^2 t  | since the row above, exponents of
                                                      |     dist    log t/t  log^2 t/t
           1  4.085e-01           nan             nan  |
          10  2.771e-01         1.203          0.5226  |   -0.156     -0.285      0.430
         100  4.096e-02        0.8895          0.1932  |   -0.829     -0.718     -0.435
        1000  3.929e-03        0.5688         0.08235  |   -1.017     -0.830     -0.660
      over t = 10 ... 1000: dist ~ t^-0.974, log t / t ~ t^-0.805, log^2 t / t ~ t^-0.609;
      there dist <= 1.4 log t / t and dist <= 0.584 log^2 t / t
    """
    curves = _stage_curves(history, stage)
    n_steps = len(curves["log_loss"]) - 1
    t = np.append(10 ** np.arange(len(str(n_steps))), n_steps)
    t = np.unique(t[t <= n_steps])
    suffixes = ["_ov", "_kq"] if stage == "joint" else [""]
    norm = np.hypot.reduce([curves["norm" + suffix] for suffix in suffixes])
    step_size = float(norm[1]) if norm[0] == 0.0 < norm[1] else np.nan
    slope, r2, straight_until, floor, floor_step = _fall(curves["log_loss"])
    accurate = np.flatnonzero(curves["accuracy"] == 1.0)
    return ConvergenceRate(
        stage=stage,
        n_steps=n_steps,
        stop_reason=history[stage]["stop_reason"],
        t=t,
        norm=norm[t],
        norm_ratio=norm[t] / (step_size * t),
        step_size=step_size,
        log_loss_slope=slope,
        log_loss_r2=r2,
        straight_until=straight_until,
        floor=floor,
        floor_step=floor_step,
        first_accurate=int(accurate[0]) if len(accurate) else None,
        directions={
            matrix: _direction_rate(matrix, t, curves["dist" + suffix])
            for matrix, suffix in zip(_MATRICES[stage], suffixes, strict=True)
        },
    )


def _stage_curves(history, stage):
    """The arrays of one stage, checked."""
    if not isinstance(history, Mapping) or not all(
        isinstance(curves, Mapping) for curves in history.values()
    ):
        what = "one stage of it" if isinstance(history, Mapping) else type(history).__name__
        raise TypeError(f"{_KIND}, a dict of dicts, one per stage; got {what}.")
    if not isinstance(stage, str) or stage not in _MATRICES or stage not in history:
        raise ValueError(f"stage must be one of {list(history)}, those in history; got {stage!r}.")
    names = ["log_loss", "accuracy"]
    for suffix in ["_ov", "_kq"] if stage == "joint" else [""]:
        names += ["norm" + suffix, "dist" + suffix]
    missing = [name for name in [*names, "stop_reason"] if name not in history[stage]]
    if missing:
        raise TypeError(f"{_KIND}; its stage {stage!r} has no {missing}.")
    curves = {name: np.asarray(history[stage][name], dtype=float) for name in names}
    shapes = {name: curve.shape for name, curve in curves.items()}
    n_points = curves["log_loss"].size
    if set(shapes.values()) != {(n_points,)}:
        raise TypeError(f"{_KIND}, 1-D arrays of one length; stage {stage!r} has shapes {shapes}.")
    if n_points < 2:
        raise ValueError(
            f"history of stage {stage!r} has {n_points} point, its start: it made no step (stop "
            f"reason {history[stage]['stop_reason']!r}), and there is no rate."
        )
    return curves


def _line(x, y):
    """Slope and R^2 of the least-squares line; NaN with fewer than two and three points."""
    if len(x) < 2:
        return np.nan, np.nan
    x, y = x - np.mean(x), y - np.mean(y)
    largest = np.abs(y).max() or 1.0
    y /= largest  # log-losses of -1e200 have no square
    slope = np.dot(x, y) / np.dot(x, x)
    if len(x) < 3 or not y.any():
        return float(slope * largest), np.nan
    return float(slope * largest), float(1.0 - np.sum((y - slope * x) ** 2) / np.dot(y, y))


def _fall(log_loss):
    """(slope, R^2, end of the straight part, floor, step of the floor), see `ConvergenceRate`."""
    n_steps = len(log_loss) - 1
    lowest = log_loss.min()
    fall = log_loss[0] - lowest
    rounding = _FLAT * max(1.0, abs(lowest))
    if fall <= rounding:
        flat = log_loss.max() - lowest <= rounding
        return np.nan, np.nan, 0, lowest if flat else np.nan, 0 if flat else None

    def first_within(share):
        return int(np.argmax(log_loss <= lowest + share * fall))

    floor_step, held_from = first_within(_AT_FLOOR), int((1.0 - _HELD) * n_steps)
    # On conflicting data constant steps circle the optimum: hence the median, and a wider band.
    last = np.median(log_loss[held_from:])
    if floor_step > held_from or last > lowest + _NEAR_FLOOR * fall:
        until, lowest, floor_step = n_steps, np.nan, None
    else:
        until = first_within(1.0 - _STRAIGHT)
    t = np.arange(until + 1)
    return *_line(t, log_loss[: until + 1]), until, float(lowest), floor_step


def _direction_rate(matrix, t, dist):
    n_steps = len(dist) - 1
    tracked = np.flatnonzero(np.isfinite(dist))
    inexact = tracked[dist[tracked] > _EXACT]
    exact = tracked[tracked > inexact.max(initial=-1)]
    log_t = np.full(len(t), np.nan)
    np.log(t, out=log_t, where=t > 1)
    return DirectionRate(
        matrix=matrix,
        t=t,
        dist=dist[t],
        dist_over_log=dist[t] * t / log_t,
        dist_over_log2=dist[t] * t / log_t**2,
        decades=tuple(
            _rate_fit(dist, inexact, first, last)
            for first, last in zip(t[:-1].tolist(), t[1:].tolist(), strict=True)
        ),
        overall=_rate_fit(dist, inexact, -(-n_steps // 100), n_steps),
        exact_from=int(exact[0]) if len(exact) else None,
    )


def _rate_fit(dist, usable, first, last):
    """The fit over the `usable` steps from `first` to `last`."""
    first = max(first, 2)  # log 1 = 0
    t = usable[(usable >= first) & (usable <= last)]
    if len(t) < 2:
        return RateFit(first, last, *[np.nan] * 5)
    log_t, values = np.log(t), dist[t]
    bounds = log_t / t, log_t**2 / t
    exponents = [_line(log_t, np.log(curve))[0] for curve in (values, *bounds)]
    constants = [float(np.max(values / bound)) for bound in bounds]
    return RateFit(int(t[0]), int(t[-1]), *exponents, *constants)
