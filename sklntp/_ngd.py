"""Normalized gradient descent: one loop for every stage; it knows nothing of tokens.

The parameters are one flat array ``theta``. An entry may stand for several equal entries of the
matrix that is trained; ``multiplicity`` counts them, so that the norms are those of the matrix.
"""

import math
from dataclasses import dataclass

import numpy as np

from sklntp._solution import Track


def weighted_norm(values, multiplicity=1.0):
    """Frobenius norm sqrt(sum multiplicity * values**2), safe from under- and overflow."""
    with np.errstate(over="ignore"):
        if np.ndim(multiplicity):
            square = np.einsum("i,i,i", multiplicity, values, values)
        else:
            square = multiplicity * np.einsum("i,i", values, values)
    if 1e-200 < square < 1e200:
        return float(np.sqrt(square))
    # No epsilon, and no squares of tiny numbers: np.linalg.norm is 0 at 1e-162.
    largest = np.abs(values).max(initial=0.0)
    if largest == 0.0 or not np.isfinite(largest):
        return float(largest)
    with np.errstate(over="ignore"):
        return float(largest * np.sqrt(np.sum(multiplicity * (values / largest) ** 2)))


@dataclass(frozen=True)
class StepSizes:
    """The step sizes eta_t for t = start, ..., stop - 1.

    eta; eta / sqrt(t + 1) with "invscaling"; eta (1 - t / stop) with "linear".
    """

    eta: float
    schedule: str = "constant"  # or "invscaling", "linear"
    start: int = 0
    stop: int = 0

    def __len__(self):
        return self.stop - self.start

    def __getitem__(self, step):
        if self.schedule == "constant":
            return self.eta
        t = self.start + step
        if self.schedule == "linear":
            return self.eta * ((self.stop - t) / self.stop)
        return self.eta / math.sqrt(t + 1)

    def total(self):
        """The sum of all steps, the norm that they reach in one direction."""
        if self.schedule == "constant":
            return self.eta * len(self)
        if self.schedule == "linear":
            return self.eta * (len(self) * (len(self) + 1) / (2 * self.stop))
        exact = min(self.stop, self.start + 1_000_000)
        total = float(np.sum(1.0 / np.sqrt(np.arange(self.start, exact) + 1.0)))
        # Midpoint rule for the rest; its relative error is below 1e-12 from there on.
        return self.eta * (total + 2.0 * (math.sqrt(self.stop + 0.5) - math.sqrt(exact + 0.5)))


def normalized_gradient_descent(evaluate, theta, *, steps, multiplicity=1.0, track=None):
    """Minimise by theta <- theta - eta_t G / ||G||_F.

    Parameters
    ----------
    evaluate : callable
        ``evaluate(theta) -> Evaluation``.
    theta : ndarray of shape (n_parameters,)
        Starting point; not modified.
    steps : StepSizes or sequence of float
        Step sizes.
    multiplicity : float or ndarray of shape (n_parameters,), default=1.0
        How many entries of the matrix each parameter stands for.
    track : Track, default=None
        What to record, and when to stop early.

    Returns
    -------
    Solution
        After fewer steps than asked for where the gradient is exactly zero or rounding error:
        a normalized step along rounding error would be a full step in a random direction.
    """
    track = Track() if track is None else track
    for t in range(len(steps) + 1):
        value = evaluate(theta)
        if reason := track.add(theta, value.loss, value.log_loss):
            return track.solution(reason)
        if t == len(steps):
            break
        norm = weighted_norm(value.gradient, multiplicity)
        if norm == 0.0 or norm <= value.noise:
            return track.solution("zero gradient")
        # Divide before multiplying: the norm may be as small as the entries are.
        step = value.gradient  # ours to change
        step /= norm  # first: eta / norm may overflow
        step *= steps[t]
        theta = np.subtract(theta, step, out=step)  # the track keeps the point before
    return track.solution("max_iter")
