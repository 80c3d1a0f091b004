"""Algorithm 1 and its variants: the stages one after the other."""

import math
from dataclasses import dataclass, replace
from functools import partial

from sklntp._lbfgs import limited_memory_bfgs
from sklntp._ngd import normalized_gradient_descent
from sklntp._solution import Patience, Track
from sklntp._stages import STAGES, SmoothedStage
from sklntp._threads import Threads

_CLOSED_FORMS = ("smoothing", "max_margin")  # reasons of a stage to take no step


@dataclass(frozen=True)
class Plan:
    """How to train: what the estimator's parameters say, stage by stage where they differ."""

    stages: tuple  # of "ov", "kq", "joint"
    steps: list  # of StepSizes, one per stage
    solver: str = "ngd"  # or "lbfgs", "max_margin"
    alpha: float = 0.0
    smoothing: str | None = None
    early_stopping: bool = False
    n_iter_no_change: int = 10
    tol: float = 1e-4
    track: bool = False  # cosine, dist and training accuracy
    n_jobs: int | None = None

    def patience(self):
        """A new count of steps without change."""
        return Patience(self.n_iter_no_change, self.tol)


def train(data, model, plan, *, origin=None, report=None):
    """Run the stages one after the other.

    Parameters
    ----------
    data : Dataset
    model : Model
        Where to start.
    plan : Plan
    origin : Model, default=None
        What the penalty pulls to, and the closed form of stage "ov" with smoothing; None: `model`.
    report : callable, default=None
        ``report(stage, n_steps, t, record)``, called at every point.

    Returns
    -------
    Model
    """
    origin = model if origin is None else origin
    n_iter = []
    with Threads(plan.n_jobs) as threads:
        for stage, steps in zip(plan.stages, plan.steps, strict=True):
            model, found = _run(stage, data, model, origin, plan, steps, threads, report)
            earlier = None if found.stop_reason in _CLOSED_FORMS else model.history.get(stage)
            history = _continue(earlier, found.history)
            model = replace(
                model,
                history=model.history | {stage: history},
                stop_reason=model.stop_reason | {stage: found.stop_reason},
            )
            n_iter.append(found.n_iter)
    return replace(model, n_iter=tuple(n_iter))


def _run(name, data, model, origin, plan, steps, threads, report):
    """The model after a stage and the solution; what the stage holds goes with it."""
    closed_form, kind = None, STAGES[name]
    if name == "ov" and plan.smoothing is not None:
        closed_form, kind = "smoothing", SmoothedStage
        model = replace(model, output=origin.output)
    elif plan.solver == "max_margin":
        closed_form = "max_margin"
    need_reference = plan.track or closed_form == "max_margin"
    stage = kind(data, model, need_reference=need_reference, threads=threads)
    theta = stage.vector(model)
    if closed_form == "max_margin":
        theta = stage.reference_point(steps.total())
    if closed_form is not None:
        steps = ()
    track = Track(
        partial(stage.record, track=plan.track),
        report and partial(report, name, len(steps)),
        plan.patience() if plan.early_stopping and closed_form is None else None,
    )
    if plan.solver == "lbfgs" and closed_form is None:
        found = limited_memory_bfgs(
            stage.loss,
            theta,
            max_iter=len(steps),
            patience=plan.patience(),
            penalty=plan.alpha / stage.n_samples,
            origin=stage.vector(origin),
            multiplicity=stage.multiplicity,
            track=track,
        )
    else:
        found = normalized_gradient_descent(
            stage.loss, theta, steps=steps, multiplicity=stage.multiplicity, track=track
        )
    if closed_form is not None:
        found = replace(found, stop_reason=closed_form)
    return stage.model(found.theta), found


def _continue(earlier, history):
    """The history of a stage with that of an earlier call before it; NaN where one lacks a name.

    Where they meet there is one entry, that of the later call: its data may be others.
    """
    if earlier is None:
        return history
    lack_earlier = [math.nan] * len(earlier["loss"])
    lack_later = [math.nan] * len(history["loss"])
    return {
        name: earlier.get(name, lack_earlier)[:-1] + history.get(name, lack_later)
        for name in earlier | history
    }
