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


class Training:
    """The stages one after the other, with the model that an interruption leaves.

    Parameters
    ----------
    data : Dataset
    model : Model
        Where to start.
    plan : Plan
    origin : Model, default=None
        What the penalty pulls to, and the closed form of stage "ov" with smoothing; None: `model`.
    watchers : sequence, default=()
        Each has ``begin(stage, n_steps)``, ``point(stage, t, record) -> bool``, called at every
        point with what was recorded there, and ``end(stage, stop_reason) -> bool``; True ends the
        stage, and after a stage the training.
    """

    def __init__(self, data, model, plan, *, origin=None, watchers=()):
        self.data, self.plan, self.watchers = data, plan, watchers
        self.origin = model if origin is None else origin
        self.model = model
        self._under_way = None

    def run(self):
        """Train, and return the model."""
        with Threads(self.plan.n_jobs) as threads:
            for k, name in enumerate(self.plan.stages):
                self._run_stage(k, name, threads)
                # All are asked, even if the first says True.
                if any([w.end(name, self.model.stop_reason[name]) for w in self.watchers]):
                    break
        return self.so_far()

    def so_far(self, stop_reason="interrupted"):
        """The model at the last complete step; `stop_reason` is that of a stage under way.

        Stages not reached keep the matrix they started from, with the reason "not reached".
        """
        model = self.model
        if self._under_way is not None and self._under_way[0] == len(model.n_iter):
            _, name, stage, track = self._under_way
            found = track.solution(stop_reason)
            model = model if found is None else _completed(model, name, stage, found)
        for name in self.plan.stages[len(model.n_iter) :]:
            history = model.history.get(name, {key: [] for key in STAGES[name].recorded})
            model = _recorded(model, name, history, "not reached", 0)
        return model

    def _run_stage(self, k, name, threads):
        """Run one stage; what it holds goes with it."""
        plan, steps, before = self.plan, self.plan.steps[k], self.model
        closed_form, kind = None, STAGES[name]
        if name == "ov" and plan.smoothing is not None:
            closed_form, kind = "smoothing", SmoothedStage
            before = replace(before, output=self.origin.output)
        elif plan.solver == "max_margin":
            closed_form = "max_margin"
        need_reference = plan.track or closed_form == "max_margin"
        stage = kind(self.data, before, need_reference=need_reference, threads=threads)
        theta = stage.vector(before)
        if closed_form == "max_margin":
            theta = stage.reference_point(steps.total())
        if closed_form is not None:
            steps = ()
        track = Track(
            partial(stage.record, track=plan.track),
            partial(self._watch, name),
            plan.patience() if plan.early_stopping and closed_form is None else None,
        )
        for watcher in self.watchers:
            watcher.begin(name, len(steps))
        self._under_way = k, name, stage, track
        found = self._descend(stage, theta, steps, track)
        if closed_form is not None:
            found = replace(found, stop_reason=closed_form)
        self.model = _completed(self.model, name, stage, found)
        self._under_way = None

    def _watch(self, name, t, record):
        return any([watcher.point(name, t, record) for watcher in self.watchers])

    def _descend(self, stage, theta, steps, track):
        """From theta to the solution, by the solver of the plan; closed forms have no steps."""
        plan = self.plan
        if plan.solver == "lbfgs" and len(steps):
            return limited_memory_bfgs(
                stage.loss,
                theta,
                max_iter=len(steps),
                patience=plan.patience(),
                penalty=plan.alpha / stage.n_samples,
                origin=stage.vector(self.origin),
                multiplicity=stage.multiplicity,
                track=track,
            )
        return normalized_gradient_descent(
            stage.loss, theta, steps=steps, multiplicity=stage.multiplicity, track=track
        )


def _completed(model, name, stage, found):
    """The model after a stage."""
    earlier = None if found.stop_reason in _CLOSED_FORMS else model.history.get(name)
    trained = stage.model(found.theta)
    model = replace(model, output=trained.output, attention=trained.attention)
    history = _continue(earlier, found.history)
    return _recorded(model, name, history, found.stop_reason, found.n_iter)


def _recorded(model, name, history, stop_reason, n_iter):
    """The model with what is to be said of a stage."""
    return replace(
        model,
        history=model.history | {name: history},
        stop_reason=model.stop_reason | {name: stop_reason},
        n_iter=(*model.n_iter, n_iter),
    )


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
