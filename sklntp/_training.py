"""The stages of Algorithm 1 and its variants: which parameters, from where, towards what."""

from dataclasses import dataclass, field, replace
from functools import partial

import numpy as np

from sklntp._coding import unique_keys
from sklntp._collocation import Collocation
from sklntp._forward import AttentionWeights, OutputWeights
from sklntp._joint_loss import JointLoss
from sklntp._losses import AttentionLoss, CollocationLoss, context_pairs
from sklntp._max_margin import solve_kq, solve_ov
from sklntp._ngd import normalized_gradient_descent, weighted_norm
from sklntp._prediction import Predictor
from sklntp._threads import Threads

_MAX_DENSE = 1 << 25  # entries of W_ov in the joint stage, which holds about six such arrays


@dataclass(frozen=True)
class Model:
    """Both matrices and how they came about."""

    output: OutputWeights
    attention: AttentionWeights
    history: dict = field(default_factory=dict)  # stage -> name -> list of floats
    stop_reason: dict = field(default_factory=dict)  # stage -> str
    n_iter: tuple = ()  # of the last call, one per stage


class Direction:
    """Cosine and distance between a parameter vector and a reference, both normalized."""

    def __init__(self, reference, multiplicity=1.0):
        self.multiplicity = multiplicity
        norm = weighted_norm(reference, multiplicity)
        self.reference = reference / norm if norm else None

    def __call__(self, theta):
        """(cosine, dist), dist = ||W/||W|| - W*/||W*||||_F; NaN where either matrix is zero."""
        norm = weighted_norm(theta, self.multiplicity)
        if self.reference is None or norm == 0.0:
            return np.nan, np.nan
        dist = weighted_norm(theta / norm - self.reference, self.multiplicity)
        # From the difference: exact near 1, where the inner product is rounding error, and <= 1.
        return 1.0 - 0.5 * dist**2, dist


def zero_model(data):
    """Both matrices zero."""
    n_tokens = len(data.vocabulary)
    empty = np.empty(0, dtype=np.intp)
    offsets = np.zeros(n_tokens + 1, dtype=np.intp)
    output = OutputWeights(offsets, empty, np.empty(0), np.zeros(n_tokens), len(data.classes))
    return Model(output, AttentionWeights(np.empty(0, np.int64), np.empty(0), n_tokens))


def train(data, model, stages, steps, *, solver="ngd", track=False, n_jobs=None, report=None):
    """Run the stages one after the other.

    Parameters
    ----------
    data : Dataset
    model : Model
        Where to start.
    stages : sequence of {"ov", "kq", "joint"}
    steps : list of StepSizes
        The step sizes of each stage.
    solver : {"ngd", "max_margin"}, default="ngd"
    track : bool, default=False
        Record cosine, dist and training accuracy.
    n_jobs : int, default=None
        Threads over the blocks of a step.
    report : callable, default=None
        ``report(stage, n_steps, t, record)``, called at every point.

    Returns
    -------
    Model
    """
    n_iter = []
    with Threads(n_jobs) as threads:
        for stage, eta in zip(stages, steps, strict=True):
            make = partial(
                _PROBLEMS[stage], need_reference=track or solver == "max_margin", threads=threads
            )
            model, n = _run_stage(stage, make, data, model, eta, solver, track, report)
            n_iter.append(n)
    return replace(model, n_iter=tuple(n_iter))


def _run_stage(stage, make, data, model, eta, solver, track, report):
    """The model after one stage, and its number of steps; what the stage holds goes with it."""
    problem = make(data, model)
    theta = problem.start
    if solver == "max_margin":
        theta, eta = problem.reference_point(eta.total()), ()
    result = normalized_gradient_descent(
        problem.loss,
        theta,
        steps=eta,
        multiplicity=problem.multiplicity,
        monitor=partial(problem.record, track=track),
        report=report and partial(report, stage, len(eta)),
    )
    reason = "max_margin" if solver == "max_margin" else result.stop_reason
    earlier = model.history.get(stage) if solver == "ngd" else None
    model = replace(
        problem.model(result.theta),
        history=model.history | {stage: _continue(earlier, result.history)},
        stop_reason=model.stop_reason | {stage: reason},
    )
    return model, result.n_iter


def _continue(earlier, history):
    """The history of a stage with that of an earlier call before it.

    Where they meet there is one entry, that of the later call: its data may be others.
    """
    if earlier is None:
        return history
    return {name: earlier[name][:-1] + numbers for name, numbers in history.items()}


class _Problem:
    """What one stage minimises over one parameter vector; subclasses say which matrix it is."""

    def __init__(self, data, model):
        self.data, self.before, self.multiplicity = data, model, 1.0

    def reference_point(self, norm):
        """The max-margin direction at the given norm; zero where the reference is zero."""
        if self.direction.reference is None:
            return np.zeros_like(self.start)
        return norm * self.direction.reference

    def record(self, theta, track):
        """Norm and, if tracked, cosine, dist and training accuracy of the whole model."""
        cosine, dist = self.direction(theta) if track else (np.nan, np.nan)
        norm = weighted_norm(theta, self.multiplicity)
        return {
            "norm": norm,
            "cosine": cosine,
            "dist": dist,
            "accuracy": self._accuracy(theta) if track else np.nan,
        }

    def _accuracy(self, theta):
        """Weighted share of the training sentences whose next token is predicted."""
        model, labels = self.model(theta), self.data.labels
        predictor = Predictor(model.output, model.attention)
        predicted = predictor.predict_contexts(self.data.contexts)
        hit = labels.classes == predicted[labels.context]
        return float(np.sum(labels.weight[hit]) / np.sum(labels.weight))


class _OutputProblem(_Problem):
    """Stage "ov": W_ov on the collocation."""

    def __init__(self, data, model, *, need_reference=False, threads=None):
        super().__init__(data, model)
        n_classes = len(data.classes)
        self.support = _support(data.collocation, model.output)
        self.loss = CollocationLoss(self.support, n_classes)
        self.multiplicity = self.loss.multiplicity
        tokens = self.support.pair_token
        values = model.output.lookup(self.support.classes, tokens)
        self.start = np.concatenate([values, model.output.base[self.support.tokens]])
        if need_reference:
            self.direction = Direction(self._reference(), self.multiplicity)

    def _reference(self):
        pairs = self.data.collocation
        solution = solve_ov(pairs.pair_token, pairs.classes, len(self.data.classes))
        base = solution.base(len(self.data.vocabulary))
        value = base[self.support.pair_token]
        value[self.support.share > 0] = solution.label_value
        return np.concatenate([value, base[self.support.tokens]])

    def model(self, theta):
        n_tokens = len(self.data.vocabulary)
        base = np.zeros(n_tokens)
        base[self.support.tokens] = theta[self.loss.n_pairs :]
        offsets = np.searchsorted(self.support.pair_token, np.arange(n_tokens + 1))
        output = OutputWeights(
            offsets, self.support.classes, theta[: self.loss.n_pairs], base, len(self.data.classes)
        )
        return replace(self.before, output=output)


class AttentionProblem(_Problem):
    """Stage "kq": W_kq on all contexts, with W_ov as it is."""

    def __init__(self, data, model, *, need_reference=False, threads=None):
        super().__init__(data, model)
        self.pairs = _trained_pairs(data, model)
        self.start = self.pairs.value
        self.loss = AttentionLoss(
            data.contexts, data.labels, model.output, self.pairs, threads=threads
        )
        if need_reference:
            self.direction = Direction(_attention_reference(data, self.pairs))

    def model(self, theta):
        return replace(self.before, attention=replace(self.pairs, value=theta))


class _JointProblem(_Problem):
    """Stage "joint": both matrices at once, W_ov dense."""

    def __init__(self, data, model, *, need_reference=False, threads=None):
        super().__init__(data, model)
        self.shape = (len(data.vocabulary), len(data.classes))
        self.n_output = self.shape[0] * self.shape[1]
        if self.n_output > _MAX_DENSE:
            raise ValueError(
                f"stages={'joint'!r} trains W_ov as a dense matrix of {self.shape[1]} classes x "
                f"{self.shape[0]} tokens; at most {_MAX_DENSE} entries are supported. Use "
                'stages=("ov", "kq"), whose memory follows the observed pairs.'
            )
        self.pairs = _trained_pairs(data, model)
        self.start = np.concatenate([model.output.dense().T.ravel(), self.pairs.value])
        self.loss = JointLoss(
            data.contexts, data.labels, self.shape[1], self.pairs, threads=threads
        )
        if need_reference:
            problem = _OutputProblem(data, zero_model(data), need_reference=True)
            output = problem.model(problem.reference_point(1.0)).output
            self.directions = (
                Direction(output.dense().T.ravel()),
                Direction(_attention_reference(data, self.pairs)),
            )

    def record(self, theta, track):
        """As for one matrix, under names that end in _ov and _kq."""
        record = {}
        for i, (name, part) in enumerate(
            [("ov", theta[: self.n_output]), ("kq", theta[self.n_output :])]
        ):
            cosine, dist = self.directions[i](part) if track else (np.nan, np.nan)
            record[f"norm_{name}"] = weighted_norm(part)
            record[f"cosine_{name}"], record[f"dist_{name}"] = cosine, dist
        record["accuracy"] = self._accuracy(theta) if track else np.nan
        return record

    def model(self, theta):
        n_tokens, n_classes = self.shape
        output = OutputWeights(
            offsets=np.arange(n_tokens + 1) * n_classes,
            classes=np.tile(np.arange(n_classes), n_tokens),
            value=theta[: self.n_output],
            base=np.zeros(n_tokens),
            n_classes=n_classes,
        )
        return replace(
            self.before, output=output, attention=replace(self.pairs, value=theta[self.n_output :])
        )


_PROBLEMS = {"ov": _OutputProblem, "kq": AttentionProblem, "joint": _JointProblem}


def _support(collocation, output):
    """The collocation with the entries of an earlier W_ov added, at share 0."""
    n_classes = output.n_classes
    pairs = collocation.pair_token * n_classes + collocation.classes
    key = unique_keys(np.concatenate([pairs, output.token * n_classes + output.classes]))
    if len(key) == len(collocation.classes):
        return collocation
    token, classes = np.divmod(key, n_classes)
    tokens, first = np.unique(token, return_index=True)
    share = np.zeros(len(key))
    share[collocation.contains(token, classes, n_classes)] = collocation.share
    probability = np.zeros(len(tokens))
    probability[np.isin(tokens, collocation.tokens)] = collocation.probability
    return Collocation(tokens, np.append(first, len(key)), classes, share, probability)


def _trained_pairs(data, model):
    """The pairs of the data and those of an earlier W_kq, with their values."""
    n_tokens = len(data.vocabulary)
    key = context_pairs(data.contexts)
    if not len(model.attention.key):
        return AttentionWeights(key, np.zeros(len(key)), n_tokens)
    key = unique_keys(np.concatenate([key, model.attention.key]))
    query, token = np.divmod(key, n_tokens)
    return AttentionWeights(key, model.attention.scores(query, token), n_tokens)


def _attention_reference(data, pairs):
    """W_kq* on `pairs`."""
    orders = data.orders
    solution = solve_kq(orders.query, orders.above, orders.below, fixed=len(data.vocabulary))
    reference = np.zeros(len(pairs.key))
    reference[pairs.find(solution.query, solution.token)] = solution.value
    return reference
