"""The stages of training: which parameters, with what loss, towards what reference."""

from dataclasses import replace

import numpy as np
from scipy.special import logsumexp

from sklntp._coding import unique_keys
from sklntp._collocation import Collocation
from sklntp._forward import OutputWeights, dense_output
from sklntp._joint_loss import JointLoss
from sklntp._losses import AttentionLoss, CollocationLoss, context_pairs
from sklntp._max_margin import solve_kq, solve_ov
from sklntp._model import zero_model
from sklntp._ngd import weighted_norm
from sklntp._prediction import Predictor
from sklntp._solution import Evaluation

_MAX_DENSE = 1 << 25  # entries of W_ov in the joint stage, which holds about six such arrays


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


class _Stage:
    """What one stage minimises over one parameter vector; subclasses say which matrix it is."""

    recorded = ("loss", "log_loss", "norm", "cosine", "dist", "accuracy")  # at every point

    def __init__(self, data, model):
        self.data, self.before, self.multiplicity = data, model, 1.0
        self.n_samples = float(np.sum(data.labels.weight))  # that the loss is a mean over

    def reference_point(self, norm):
        """The max-margin direction at the given norm; zero where the reference is zero."""
        if self.direction.reference is None:
            return np.zeros_like(self.vector(self.before))
        return norm * self.direction.reference

    def record(self, theta, track):
        """Norm and, if tracked, cosine, dist and training accuracy of the whole model."""
        cosine, dist = self.direction(theta) if track else (np.nan, np.nan)
        norm = weighted_norm(theta, self.multiplicity)
        return {"norm": norm, "cosine": cosine, "dist": dist, **self._predictions(theta, track)}

    def _predictions(self, theta, track):
        """Share of training sentences predicted, if tracked, and the loss of those held out."""
        record, held_out = {"accuracy": np.nan}, self.data.held_out
        if track or held_out is not None:
            model = self.model(theta)
            predictor = Predictor(model.output, model.attention)
        if track:
            labels = self.data.labels
            hit = labels.classes == predictor.predict_contexts(self.data.contexts)[labels.context]
            record["accuracy"] = float(np.sum(labels.weight[hit]) / np.sum(labels.weight))
        if held_out is not None:
            record["validation_loss"] = predictor.mean_loss(*held_out)
        return record


class OutputStage(_Stage):
    """Stage "ov": W_ov on the collocation."""

    def __init__(self, data, model, *, need_reference=False, threads=None):
        super().__init__(data, model)
        n_classes = len(data.classes)
        self.support = _support(data.collocation, model.output)
        self.loss = CollocationLoss(self.support, n_classes)
        self.multiplicity = self.loss.multiplicity
        self.n_samples = float(np.sum(data.collocation.weight))
        if need_reference:
            self.direction = Direction(self._reference(), self.multiplicity)

    def _reference(self):
        pairs = self.data.collocation
        solution = solve_ov(pairs.pair_token, pairs.classes, len(self.data.classes))
        base = solution.base(len(self.data.vocabulary))
        value = base[self.support.pair_token]
        value[self.support.share > 0] = solution.label_value
        return np.concatenate([value, base[self.support.tokens]])

    def vector(self, model):
        values = model.output.lookup(self.support.classes, self.support.pair_token)
        return np.concatenate([values, model.output.base[self.support.tokens]])

    def model(self, theta):
        n_tokens = len(self.data.vocabulary)
        base = np.zeros(n_tokens)
        base[self.support.tokens] = theta[self.loss.n_pairs :]
        offsets = np.searchsorted(self.support.pair_token, np.arange(n_tokens + 1))
        output = OutputWeights(
            offsets, self.support.classes, theta[: self.loss.n_pairs], base, len(self.data.classes)
        )
        return replace(self.before, output=output)


class SmoothedStage(_Stage):
    """Stage "ov" in closed form: W_ov is there, with an entry for every class, and stays."""

    def __init__(self, data, model, *, need_reference=False, threads=None):
        super().__init__(data, model)
        if need_reference:
            self.direction = Direction(_output_reference(data))

    def loss(self, theta):
        """As `CollocationLoss`, without a gradient: nothing descends it."""
        pairs, columns = self.data.collocation, theta.reshape(-1, len(self.data.classes))
        log_p = columns[pairs.pair_token, pairs.classes]
        log_p -= logsumexp(columns, axis=1)[pairs.pair_token]
        weight = np.repeat(pairs.probability, np.diff(pairs.offsets)) * pairs.share
        loss = -float(weight @ log_p)
        with np.errstate(divide="ignore"):  # of one class
            return Evaluation(loss, float(np.log(loss)), np.empty(0), 0.0, 0.0)

    def vector(self, model):
        return model.output.value

    def model(self, theta):
        return self.before


class AttentionStage(_Stage):
    """Stage "kq": W_kq on all contexts, with W_ov as it is."""

    def __init__(self, data, model, *, need_reference=False, threads=None):
        super().__init__(data, model)
        self.pairs = _trained_pairs(data, model)
        self.loss = AttentionLoss(
            data.contexts, data.labels, model.output, self.pairs, threads=threads
        )
        if need_reference:
            self.direction = Direction(_attention_reference(data, self.pairs))

    def vector(self, model):
        return _scores(model, self.pairs)

    def model(self, theta):
        return replace(self.before, attention=replace(self.pairs, value=theta))


class JointStage(_Stage):
    """Stage "joint": both matrices at once, W_ov dense."""

    recorded = (
        *("loss", "log_loss", "norm_ov", "cosine_ov", "dist_ov"),
        *("norm_kq", "cosine_kq", "dist_kq", "accuracy"),
    )

    def __init__(self, data, model, *, need_reference=False, threads=None):
        super().__init__(data, model)
        self.shape = (len(data.vocabulary), len(data.classes))
        self.n_output = self.shape[0] * self.shape[1]
        self.pairs = _trained_pairs(data, model)
        self.loss = JointLoss(
            data.contexts, data.labels, self.shape[1], self.pairs, threads=threads
        )
        if need_reference:
            self.directions = (
                Direction(_output_reference(data)),
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
        return record | self._predictions(theta, track)

    def vector(self, model):
        return np.concatenate([model.output.dense().T.ravel(), _scores(model, self.pairs)])

    def model(self, theta):
        return replace(
            self.before,
            output=dense_output(theta[: self.n_output].reshape(self.shape)),
            attention=replace(self.pairs, value=theta[self.n_output :]),
        )


def check_joint(n_tokens, n_classes):
    """Refuse what the joint stage would hold in too much memory."""
    if n_tokens * n_classes > _MAX_DENSE:
        raise ValueError(
            f'The stage "joint" trains W_ov as a dense matrix of {n_classes} classes x {n_tokens} '
            f"tokens; at most {_MAX_DENSE} entries are supported. Use fewer tokens (n-grams of "
            'min_count=2, a smaller max_n or max_distance), or stages=("ov", "kq") without '
            "smoothing, whose memory follows the observed pairs."
        )


def _support(collocation, output):
    """The collocation with the entries of an earlier W_ov added, at share 0."""
    n_classes = output.n_classes
    pairs = collocation.pair_token * n_classes + collocation.classes
    key = unique_keys(np.concatenate([pairs, output.token * n_classes + output.classes]))
    if len(key) == len(collocation.classes):
        return collocation
    token, classes = np.divmod(key, n_classes)
    tokens, first = np.unique(token, return_index=True)
    weight, share = np.zeros((2, len(key)))
    paired = collocation.contains(token, classes, n_classes)
    weight[paired], share[paired] = collocation.weight, collocation.share
    probability = np.zeros(len(tokens))
    probability[np.isin(tokens, collocation.tokens)] = collocation.probability
    return Collocation(tokens, np.append(first, len(key)), classes, weight, share, probability)


def _trained_pairs(data, model):
    """The pairs of the data and those of an earlier W_kq, at zero."""
    key = unique_keys(np.concatenate([context_pairs(data.contexts), model.attention.key]))
    return replace(model.attention, key=key, value=np.zeros(len(key)))


def _scores(model, pairs):
    """W_kq of a model on `pairs`."""
    return model.attention.scores(*np.divmod(pairs.key, pairs.n_tokens))


def _output_reference(data):
    """W_ov*.T with an entry for every class, raveled, at norm 1."""
    stage = OutputStage(data, zero_model(data), need_reference=True)
    return stage.model(stage.reference_point(1.0)).output.dense().T.ravel()


def _attention_reference(data, pairs):
    """W_kq* on `pairs`."""
    orders = data.orders
    solution = solve_kq(orders.query, orders.above, orders.below, fixed=len(data.vocabulary))
    reference = np.zeros(len(pairs.key))
    reference[pairs.find(solution.query, solution.token)] = solution.value
    return reference


STAGES = {"ov": OutputStage, "kq": AttentionStage, "joint": JointStage}
