"""What every solver is given and gives back: evaluations, the record of the way, the result."""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np


class Evaluation(NamedTuple):
    """Loss and gradient at one point; what every loss of this package returns.

    The gradient is ``gradient * exp(log_scale)``: on separable data it falls below the smallest
    float64 long before its direction stops mattering.
    """

    loss: float
    log_loss: float  # natural log of the loss, finite even where the loss underflows
    gradient: np.ndarray  # d loss / d (one entry of the matrix) / exp(log_scale); the caller's own
    log_scale: float
    noise: float  # a norm of `gradient` at or below this is rounding error


@dataclass(frozen=True)
class Solution:
    """Where the descent ended, the way there, and why it stopped."""

    theta: np.ndarray
    history: dict  # name -> list of n_iter + 1 floats, the starting point first
    n_iter: int
    stop_reason: str


class Patience:
    """Runs out when a number has fallen by no more than `tol` in `n_iter_no_change` steps.

    The fall is counted from where it last exceeded `tol`, so a slow but steady one does not stop.
    """

    def __init__(self, n_iter_no_change, tol):
        self.n_iter_no_change, self.tol = n_iter_no_change, tol
        self.level, self.n_idle = math.inf, 0

    def out(self, number):
        """Whether patience has run out after this step."""
        if number < self.level - self.tol:
            self.level, self.n_idle = number, 0
        else:
            self.n_idle += 1
        return self.n_idle >= self.n_iter_no_change


class Track:
    """The record of a descent, point by point, and who may end it.

    Parameters
    ----------
    monitor : callable, default=None
        ``monitor(theta) -> dict of float``, recorded beside the loss at every point.
    watch : callable, default=None
        ``watch(t, record) -> bool``, called at every point with what was recorded there; True ends
        the descent.
    patience : Patience, default=None
        Stops when "validation_loss" of the record no longer falls; the best point is then kept.
    """

    def __init__(self, monitor=None, watch=None, patience=None):
        self.monitor, self.watch, self.patience = monitor, watch, patience
        self.history = {}
        self._last = None
        self._lowest, self._best = math.inf, None

    def add(self, theta, loss, log_loss):
        """Record a point, which must not be modified later; why to stop there, or None."""
        record = {"loss": loss, "log_loss": log_loss}
        if self.monitor is not None:
            record |= self.monitor(theta)
        for name, number in record.items():
            self.history.setdefault(name, []).append(number)
        number = record["validation_loss"] if self.patience is not None else math.nan
        if number < self._lowest:
            self._lowest, self._best = number, theta
        n_points = len(self.history["loss"])
        self._last = theta, n_points  # at once: whoever interrupts finds both or neither
        if self.watch is not None and self.watch(n_points - 1, record):
            return "callback"
        if self.patience is not None and self.patience.out(number):
            return "early stopping"
        return None

    def solution(self, stop_reason):
        """The descent up to the last point that is complete; None if none is."""
        if self._last is None:
            return None
        theta, n_points = self._last
        history = {name: numbers[:n_points] for name, numbers in self.history.items()}
        best = theta if self._best is None else self._best
        return Solution(best, history, n_points - 1, stop_reason)
