"""Limited-memory BFGS (SciPy's) on a loss of this package, with an L2 penalty."""

import numpy as np
from scipy.optimize import minimize

from sklntp._memory import check_memory
from sklntp._solution import Track

_CORRECTIONS = 10  # pairs of vectors that SciPy keeps, its default
_VECTORS = 2 * _CORRECTIONS + 10  # as long as the parameters, that it and SciPy hold
_FLAT = 1e-140  # products of gradients below this underflow, and SciPy divides by them


class _Stop(Exception):
    """Ends SciPy's loop from inside its callback, in every version of SciPy."""


def limited_memory_bfgs(
    evaluate,
    theta,
    *,
    max_iter,
    patience,
    penalty=0.0,
    origin=None,
    multiplicity=1.0,
    track=None,
):
    """Minimise loss + penalty / 2 * ||W - W_0||_F^2.

    Parameters
    ----------
    evaluate : callable
        ``evaluate(theta) -> Evaluation``.
    theta : ndarray of shape (n_parameters,)
        Starting point; not modified.
    max_iter : int
        Iterations at most; each evaluates the loss once or a few times.
    patience : Patience
        Stops when the objective no longer falls, unless `track` watches a validation loss.
    penalty : float, default=0.0
    origin : ndarray of shape (n_parameters,), default=None
        W_0; None: the starting point.
    multiplicity : float or ndarray of shape (n_parameters,), default=1.0
        How many entries of the matrix each parameter stands for.
    track : Track, default=None
        What to record, and when to stop early.

    Returns
    -------
    Solution
        `stop_reason` is "max_iter", "early stopping", "callback", "converged" (the objective no
        longer falls), "zero gradient" (at the start), or "no descent" (the line search finds
        nothing lower).
    """
    track = Track() if track is None else track
    check_memory("What L-BFGS holds, an array", (_VECTORS, len(theta)), "Fewer tokens take less.")
    origin = theta if origin is None else origin
    # x = (W - start) sqrt(multiplicity): the norm of x is the Frobenius norm, and the metric in
    # which L-BFGS starts is that of the matrix.
    root = np.sqrt(np.maximum(multiplicity, 1.0))
    offset = (theta - origin) * root

    def objective(x):
        value = evaluate(theta + x / root)
        gradient = value.gradient
        gradient *= np.exp(value.log_scale) * root
        height = value.loss
        if penalty:
            away = x + offset
            height += 0.5 * penalty * np.einsum("i,i", away, away)
            away *= penalty
            gradient += away
        slope = np.abs(gradient).max(initial=0.0)
        last.update(
            x=x.copy(), height=height, slope=slope, loss=value.loss, log_loss=value.log_loss
        )
        return height, gradient

    def watch(x):
        if not np.array_equal(x, last["x"]):
            objective(x)
        if reason := track.add(theta + x / root, last["loss"], last["log_loss"]):
            raise _Stop(reason)
        if track.patience is None and patience.out(last["height"]) or last["slope"] < _FLAT:
            raise _Stop("converged")

    last = {}
    start = np.zeros(len(theta))
    _, gradient = objective(start)
    if reason := track.add(theta, last["loss"], last["log_loss"]):
        return track.solution(reason)
    patience.out(last["height"])
    if not (max_iter and gradient.any()):
        return track.solution("zero gradient" if max_iter else "max_iter")
    try:
        found = minimize(
            objective,
            start,
            jac=True,
            method="L-BFGS-B",
            callback=watch,
            options={
                "maxiter": max_iter,
                "maxfun": 100 * max_iter,
                "maxcor": _CORRECTIONS,
                # Ours to say when it has converged.
                "ftol": 0.0,
                "gtol": 0.0,
            },
        )
        reason = {0: "converged", 1: "max_iter"}.get(found.status, "no descent")
    except _Stop as stop:
        reason = str(stop)
    return track.solution(reason)
