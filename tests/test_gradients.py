"""Scaled gradients of every stage: finite differences, the oracle, and exact arithmetic."""

from decimal import localcontext

import numpy as np
import pytest
from oracle import collocation_samples, exact, gradients, known_gradients, mean_loss
from samples import CHAIN_X, CHAIN_Y, CYC_X, CYC_Y, conflicting

from sklntp import _general_block, _votes, structure
from sklntp._collocation import Collocation
from sklntp._dataset import build_dataset
from sklntp._distinct_block import DistinctBlock
from sklntp._forward import AttentionWeights, OutputWeights
from sklntp._general_block import GeneralBlock
from sklntp._joint_loss import JointLoss
from sklntp._losses import AttentionLoss, CollocationLoss, context_pairs
from sklntp._ngd import weighted_norm
from sklntp.datasets import make_realizable_ntp

SEEDS = range(5)
POINTS = 10  # per seed
LAYOUTS = {  # _DENSE, _CONTEXTS, _PROBABILITIES, _TILE of the general blocks, chunk
    "default": (0.2, 2048, 1 << 19, 48, 1 << 15),
    "sparse, chunks of 7": (2.0, 7, 1, 3, 7),
    "sparse, chunks of 1": (2.0, 1, 1, 1, 1),
    "dense": (0.0, 1, 1 << 19, 1, 1 << 15),
    "dense, chunks of 1": (0.0, 1, 1, 1, 1),
}


class Problem:
    """Merged data beside the sentences as the oracle reads them.

    Unknown tokens have the number V; their parts of both matrices are zero.
    """

    def __init__(self, X, y, weights=None, vocabulary=None):
        weights = np.ones(len(X)) if weights is None else weights
        self.data = build_dataset(X, y, weights, collocation="single", vocabulary=vocabulary)
        n_tokens = self.n_tokens = len(self.data.vocabulary)
        self.n_classes = len(self.data.classes)
        sentences = [[min(x, n_tokens) for x in sentence] for sentence in X]
        labels = np.searchsorted(self.data.classes, y).tolist()
        self.samples = sentences, labels, weights
        self.key = context_pairs(self.data.contexts)
        self.pairs = AttentionWeights(self.key, np.zeros(len(self.key)), np.zeros(n_tokens))

    def attention_matrix(self, theta):
        """Dense W_kq (V + 1, V + 1) from its entries on the pairs."""
        w_kq = np.zeros((self.n_tokens + 1,) * 2)
        query, token = np.divmod(self.key, self.n_tokens)
        w_kq[token, query] = theta
        return w_kq

    def output_weights(self, excess, base=0.0):
        """W_ov whose entries on the collocation are base + excess, and base elsewhere."""
        pairs = self.data.collocation
        base = np.broadcast_to(base, self.n_tokens)
        offsets = np.searchsorted(pairs.pair_token, np.arange(self.n_tokens + 1))
        value = base[pairs.pair_token] + excess
        return OutputWeights(offsets, pairs.classes, value, base, self.n_classes)

    def attention_loss(self, output, **kwargs):
        return AttentionLoss(self.data.contexts, self.data.labels, output, self.pairs, **kwargs)

    def joint_loss(self):
        return JointLoss(self.data.contexts, self.data.labels, self.n_classes, self.pairs)

    def split(self, theta):
        """Parameters or gradient of the joint stage as dense (C, V + 1) and (V + 1, V + 1)."""
        n_output = self.n_tokens * self.n_classes
        w_ov = theta[:n_output].reshape(self.n_tokens, self.n_classes).T
        return _with_unknown(w_ov), self.attention_matrix(theta[n_output:])

    def oracle(self, w_ov, w_kq):
        return known_gradients(self.n_tokens, w_ov, w_kq, *self.samples)

    def exact_oracle(self, w_ov, w_kq):
        """The same with as many digits as the decimal context has."""
        sentences, labels, weights = self.samples
        samples = sentences, labels, exact(weights)
        return known_gradients(self.n_tokens, exact(w_ov), exact(w_kq), *samples)


def _with_unknown(w_ov):
    return np.hstack([w_ov, np.zeros((len(w_ov), 1))])


def _conflicting(seed):
    """Six known tokens; the seventh is unknown."""
    return Problem(*conflicting(seed), vocabulary=range(6))


def _random_points(rng, size):
    """The zero start, then points up to where the oracle's p - 1 begins to cancel."""
    for scale in np.linspace(0.0, 2.5, POINTS):
        yield scale * rng.standard_normal(size)


def _gradient(evaluation):
    assert evaluation.noise <= 1e-9 * np.abs(evaluation.gradient).max()
    np.testing.assert_allclose(evaluation.log_loss, np.log(evaluation.loss), rtol=1e-13, atol=1e-13)
    return np.exp(evaluation.log_scale) * evaluation.gradient


def _assert_close(got, wanted, tolerance):
    """Relative to the largest entry."""
    assert np.abs(got - wanted).max() <= tolerance * np.abs(wanted).max()


def _assert_slopes(loss, theta, gradient, rng, step=1e-5):
    """Central finite differences of the loss along 20 random directions."""
    for direction in rng.standard_normal((20, len(theta))):
        difference = loss(theta + step * direction).loss - loss(theta - step * direction).loss
        error = difference / (2 * step) - gradient @ direction
        assert abs(error) <= 1e-6 * np.linalg.norm(gradient)


def test_the_data_hold_what_the_gradients_are_tested_for():
    for seed in SEEDS:
        data = _conflicting(seed).data
        lengths = data.contexts.lengths
        assert np.diff(data.collocation.offsets).max() > 1  # several next tokens
        assert (np.diff(data.labels.offsets)[lengths > 1] > 1).any()  # conflicts
        assert (data.contexts.counts[np.repeat(lengths, lengths) > 1] > 1).any()
        assert not np.isin(data.labels.classes, data.collocation.classes).all()
        query = data.contexts.query == 6
        assert query.any() and (data.contexts.tokens[np.repeat(~query, lengths)] == 6).any()


# Stage 1


def _random_collocation(rng, n_tokens=7, n_classes=6):
    """Shares, among them tokens without, and a support that also has pairs of share 0.

    The support of the first token has all classes.
    """
    share = rng.dirichlet(np.full(n_classes, 0.5), n_tokens)
    share *= rng.random_sample(share.shape) < 0.5
    share[:2, 0] += 0.1
    share[2:4] = 0.0
    total = share.sum(axis=1, keepdims=True)
    share = np.divide(share, total, out=share, where=total > 0)
    support = (share > 0) | (rng.random_sample(share.shape) < 0.3)
    support[0], support[1, 1:] = True, share[1, 1:] > 0
    tokens = np.flatnonzero(support.any(axis=1))
    probability = rng.uniform(0.2, 1.0, n_tokens) * (share > 0).any(axis=1)
    probability = probability[tokens] / probability.sum()
    support, share = support[tokens], share[tokens]
    offsets = np.append(0, np.cumsum(support.sum(axis=1)))
    collocation = Collocation(
        tokens, offsets, np.nonzero(support)[1], share[support], share[support], probability
    )
    samples = [
        ([row], label, probability[row] * share[row, label])
        for row, label in zip(*np.nonzero(share), strict=True)
    ]
    return collocation, n_classes, list(zip(*samples, strict=True))


def _dense_rows(collocation, n_classes, theta):
    """Entries of the support and base values as a matrix (C, rows)."""
    n_pairs = len(collocation.classes)
    row = np.repeat(np.arange(len(collocation.tokens)), np.diff(collocation.offsets))
    w_ov = np.repeat(theta[None, n_pairs:], n_classes, axis=0)
    w_ov[collocation.classes, row] = theta[:n_pairs]
    return w_ov


@pytest.mark.parametrize("seed", SEEDS)
def test_gradient_of_stage_1(seed):
    rng = np.random.RandomState(seed)
    collocation, n_classes, samples = _random_collocation(rng)
    loss = CollocationLoss(collocation, n_classes)
    n_rows = len(collocation.tokens)
    zero = np.zeros((n_rows, n_rows))
    for theta in _random_points(rng, loss.n_pairs + n_rows):
        evaluation = loss(theta)
        got = _gradient(evaluation)
        w_ov = _dense_rows(collocation, n_classes, theta)
        wanted = gradients(w_ov, zero, *samples)[0]
        _assert_close(_dense_rows(collocation, n_classes, got), wanted, 1e-10)
        _assert_slopes(loss, theta, loss.multiplicity * got, rng)
        np.testing.assert_allclose(evaluation.loss, mean_loss(w_ov, zero, *samples), rtol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_gradient_of_stage_1_from_sentences(seed):
    rng = np.random.RandomState(seed)
    problem = _conflicting(seed)
    collocation, n_classes = problem.data.collocation, problem.n_classes
    loss = CollocationLoss(collocation, n_classes)
    samples = collocation_samples(*problem.samples, "single", n_known=problem.n_tokens)
    zero = np.zeros((problem.n_tokens,) * 2)
    for theta in _random_points(rng, loss.n_pairs + problem.n_tokens):
        wanted = gradients(_dense_rows(collocation, n_classes, theta), zero, *samples)[0]
        _assert_close(_dense_rows(collocation, n_classes, _gradient(loss(theta))), wanted, 1e-10)


# Stage 2 and the joint stage


def _random_output(rng, problem, kind):
    n_pairs = len(problem.data.collocation.classes)
    if kind == "equal columns":
        return problem.output_weights(3.0)
    base = rng.standard_normal(problem.n_tokens)
    if kind == "any sign":
        return problem.output_weights(rng.standard_normal(n_pairs), base)
    return problem.output_weights(rng.uniform(0.5, 4.0, n_pairs), base)


@pytest.mark.parametrize("kind", ["positive excess", "equal columns", "any sign"])
@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("seed", SEEDS)
def test_gradient_of_stage_2(seed, layout, kind, monkeypatch):
    *sizes, chunk = LAYOUTS[layout]
    for name, size in zip(["_DENSE", "_CONTEXTS", "_PROBABILITIES"], sizes[:3], strict=True):
        monkeypatch.setattr(_general_block, name, size)
    monkeypatch.setattr(_votes, "_TILE", sizes[3])
    rng = np.random.RandomState(seed)
    problem = _conflicting(seed)
    output = _random_output(rng, problem, kind)
    loss = problem.attention_loss(output, chunk=chunk)
    kinds = {GeneralBlock} if kind == "any sign" else {DistinctBlock, GeneralBlock}
    assert kinds <= {type(block) for block in loss.blocks}
    w_ov = _with_unknown(output.dense())
    for theta in _random_points(rng, loss.n_pairs):
        evaluation = loss(theta)
        w_kq = problem.attention_matrix(theta)
        wanted = problem.oracle(w_ov, w_kq)[1]
        _assert_close(problem.attention_matrix(_gradient(evaluation)), wanted, 1e-10)
        expected = mean_loss(w_ov, w_kq, *problem.samples)
        np.testing.assert_allclose(evaluation.loss, expected, rtol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_gradient_of_stage_2_against_finite_differences(seed):
    rng = np.random.RandomState(seed)
    problem = _conflicting(seed)
    loss = problem.attention_loss(_random_output(rng, problem, "positive excess"))
    for theta in _random_points(rng, loss.n_pairs):
        _assert_slopes(loss, theta, _gradient(loss(theta)), rng)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_label_wins_and_loses(seed):
    rng = np.random.RandomState(seed)
    problem = _conflicting(seed)
    loss = problem.attention_loss(_random_output(rng, problem, "positive excess"))
    gaps = []
    for theta in _random_points(rng, loss.n_pairs):
        for block in loss.blocks:
            if isinstance(block, DistinctBlock):
                entries, own = block.entries, theta[block.entries.where]
                scores = (entries.raised(own).copy() - entries.raised(0.0 * own))[entries.index]
                for columns, others, shape, _ in block.segments:
                    other = scores[others].reshape(shape).max(axis=0)
                    gaps += (other - scores[columns]).tolist()
    assert min(gaps) < 0.0 < max(gaps) and 0.0 in gaps


@pytest.mark.parametrize("rows", [1, 1 << 19])
@pytest.mark.parametrize("seed", SEEDS)
def test_gradient_of_the_joint_stage(seed, rows, monkeypatch):
    monkeypatch.setattr(_general_block, "_PROBABILITIES", rows)
    rng = np.random.RandomState(seed)
    problem = _conflicting(seed)
    loss = problem.joint_loss()
    for theta in _random_points(rng, problem.n_tokens * problem.n_classes + loss.n_pairs):
        evaluation = loss(theta)
        got = problem.split(_gradient(evaluation))
        wanted = problem.oracle(*problem.split(theta))
        largest = max(np.abs(part).max() for part in wanted)
        for part, expected in zip(got, wanted, strict=True):
            assert np.abs(part - expected).max() <= 1e-10 * largest
        expected = mean_loss(*problem.split(theta), *problem.samples)
        np.testing.assert_allclose(evaluation.loss, expected, rtol=1e-12)


@pytest.mark.parametrize("seed", SEEDS)
def test_gradient_of_the_joint_stage_against_finite_differences(seed):
    rng = np.random.RandomState(seed)
    problem = _conflicting(seed)
    loss = problem.joint_loss()
    for theta in _random_points(rng, problem.n_tokens * problem.n_classes + loss.n_pairs):
        _assert_slopes(loss, theta, _gradient(loss(theta)), rng)


@pytest.mark.parametrize("scale", [1e-300, 1e-162, 1.0, 1e162, 1e300])
def test_norm_of_tiny_and_huge_gradients(scale):
    values = scale * np.array([3.0, 4.0, 2.0])
    np.testing.assert_allclose(weighted_norm(values[:2]), 5.0 * scale, rtol=1e-14)
    norm = weighted_norm(values, np.array([1.0, 1.0, 36.0]))
    np.testing.assert_allclose(norm, 13.0 * scale, rtol=1e-14)


# Exact arithmetic, where float64 underflows

SMALL = {
    "CHAIN": (CHAIN_X, CHAIN_Y),
    "repeated tokens": ([*CYC_X, [0, 0, 1, 2], [1, 1, 1, 2]], [*CYC_Y, 1, 2]),
    "equal columns": ([[0], [1], [2], [0, 1, 2], [1, 2]], [2, 2, 0, 2, 2]),
    "label of several tokens": ([[0], [1], [2], [0, 2, 1], [2, 1, 0]], [1, 1, 0, 1, 1]),
    "several next tokens": ([*CHAIN_X, [0], [1, 2, 0]], [*CHAIN_Y, 2, 0]),
    "conflict": ([*CHAIN_X, [1, 2], [1, 1, 0]], [*CHAIN_Y, 0, 1]),
    "label of no token": ([*CHAIN_X, [0, 1, 2, 1]], [*CHAIN_Y, 3]),
}
POSITIONS = {  # stage-1 excess, multiple of the reference, digits for the literal equations
    "zero start": (5.0, 0.0, 60),
    "attention underflows": (5.0, 2000.0, 1000),
    "1 - p underflows": (2000.0, 0.0, 1000),
    "attention and 1 - p underflow": (2000.0, 2000.0, 1900),
    "attention small, 1 - p underflows": (2000.0, 60.0, 1000),
    "wrong token wins by 50": (5.0, -50.0, 120),
    "wrong token wins by 800": (5.0, -800.0, 800),
    "wrong token wins, excess 800": (800.0, -800.0, 1100),
}


def _assert_direction(evaluation, got, wanted):
    """Directions differ by at most 1e-12, and log magnitudes agree.

    `got` and `wanted` are sequences of dense arrays, in floats and in decimals.
    """
    got = np.concatenate([part.ravel() for part in got])
    wanted = np.concatenate([part.ravel() for part in wanted])
    largest, got_largest = max(abs(wanted)), np.abs(got).max()
    assert got_largest > evaluation.noise  # otherwise the descent would stop
    log_size = evaluation.log_scale + np.log(got_largest)
    np.testing.assert_allclose(log_size, float(largest.ln()), rtol=1e-12, atol=1e-12)
    got, wanted = got / got_largest, (wanted / largest).astype(float)
    error = got / np.linalg.norm(got) - wanted / np.linalg.norm(wanted)
    assert np.linalg.norm(error) <= 1e-12


def _assert_exact_stage_2(problem, output, theta, digits):
    evaluation = problem.attention_loss(output)(theta)
    with localcontext(prec=digits):
        w_kq = problem.attention_matrix(theta)
        wanted = problem.exact_oracle(_with_unknown(output.dense()), w_kq)[1]
        _assert_direction(evaluation, [problem.attention_matrix(evaluation.gradient)], [wanted])


def _reference(problem, X, y):
    """W_kq* on the pairs."""
    reference = structure.max_margin_kq(X, y, collocation="single").coef.toarray()
    query, token = np.divmod(problem.key, problem.n_tokens)
    return reference[token, query]


@pytest.mark.parametrize("excess, multiple, digits", POSITIONS.values(), ids=POSITIONS)
@pytest.mark.parametrize("name", SMALL)
def test_direction_of_stage_2(name, excess, multiple, digits):
    problem = Problem(*SMALL[name])
    theta = multiple * _reference(problem, *SMALL[name])
    _assert_exact_stage_2(problem, problem.output_weights(excess), theta, digits)


@pytest.mark.parametrize("gap", [-800.0, -50.0, -5.0, -4.0, -3.0, 0.0, 1.0, 50.0, 2000.0])
@pytest.mark.parametrize(
    "excess", [5.0, 2000.0, [900.0, 500.0, 400.0], [500.0, 900.0, 400.0], [5.0, 5.0, 2000.0]]
)
@pytest.mark.parametrize("repeats, level", [(1, 0.0), (3, 0.0), (1, 200.0)])
def test_direction_where_two_wrong_tokens_have_the_same_score(repeats, level, excess, gap):
    problem = Problem([*CYC_X, [0] * repeats + [1, 2]], [*CYC_Y, 1])
    theta = level + np.array([gap, 0.0, 0.0])
    digits = 60 + int((abs(gap) + np.max(excess)) / np.log(10.0))
    _assert_exact_stage_2(problem, problem.output_weights(excess), theta, digits)


@pytest.mark.parametrize("excess", [5.0, 20.0, 50.0, 100.0, 800.0, 2000.0])
@pytest.mark.parametrize(
    "following, label",
    [
        ([[0, 1], [0, 2]], 4),  # the tokens share the winning class, which is wrong
        ([[0, 1], [2]], 0),  # a token votes for the label and for another class alike
        ([[0, 1], [0, 1, 2]], 0),  # both do, and differ in an improbable class only
    ],
)
def test_direction_where_large_votes_cancel(following, label, excess):
    singles = [(x, v) for x, classes in enumerate([*following, [3]]) for v in classes]
    X = [[x] for x, _ in singles] + [[0, 0, 1]]
    problem = Problem(X, [v for _, v in singles] + [label])
    _assert_exact_stage_2(problem, problem.output_weights(excess), np.zeros(2), 60 + int(excess))


@pytest.mark.parametrize("seed", range(60))
def test_direction_of_stage_2_at_random_extremes(seed):
    rng = np.random.RandomState(seed)
    following = rng.permutation(4) if seed % 2 else rng.randint(4, size=4)
    X, y = [[x] for x in range(4)], following.tolist()
    for _ in range(3):
        X.append(rng.randint(4, size=rng.randint(3, 6)).tolist())
        y.append(int(rng.randint(5)) if rng.random_sample() < 0.3 else y[rng.choice(X[-1])])
    X, y = [*X, [0]], [*y, int(rng.randint(5))]
    problem = Problem(X, y, rng.uniform(0.5, 2.0, len(X)))
    scale = 10.0 ** rng.uniform(0.0, 3.0)
    excess = scale * rng.uniform(0.5, 2.0, len(problem.data.collocation.classes))
    theta = 10.0 ** rng.uniform(-1.0, 2.2) * rng.standard_normal(len(problem.key))
    theta += rng.choice([0.0, 200.0])
    digits = 60 + int((excess.max() + 2.0 * np.ptp(theta)) / np.log(10.0))
    _assert_exact_stage_2(problem, problem.output_weights(excess), theta, digits)


@pytest.mark.parametrize("excess, multiple, digits", POSITIONS.values(), ids=POSITIONS)
@pytest.mark.parametrize("name", SMALL)
def test_direction_of_the_joint_stage(name, excess, multiple, digits):
    problem = Problem(*SMALL[name])
    w_ov = problem.output_weights(excess).dense()
    theta = np.append(w_ov.T.ravel(), multiple * _reference(problem, *SMALL[name]))
    evaluation = problem.joint_loss()(theta)
    with localcontext(prec=digits):
        wanted = problem.exact_oracle(*problem.split(theta))
        _assert_direction(evaluation, problem.split(evaluation.gradient), wanted)


@pytest.mark.parametrize("excess", [0.0, 5.0, 60.0, 800.0, 2000.0])
@pytest.mark.parametrize("uneven", [False, True], ids=["even", "uneven"])
@pytest.mark.parametrize("name", ["CHAIN", "several next tokens"])
def test_direction_of_stage_1(name, uneven, excess):
    problem = Problem(*SMALL[name])
    collocation, n_classes = problem.data.collocation, problem.n_classes
    loss = CollocationLoss(collocation, n_classes)
    value = excess + uneven * np.linspace(0.0, 1.0, loss.n_pairs)
    theta = np.append(value, np.zeros(problem.n_tokens))
    evaluation = loss(theta)
    sentences, labels, weights = problem.samples
    with localcontext(prec=1000):
        samples = collocation_samples(sentences, labels, exact(weights), "single")
        w_ov = exact(_dense_rows(collocation, n_classes, theta))
        wanted = gradients(w_ov, exact(np.zeros((problem.n_tokens,) * 2)), *samples)[0]
        got = _dense_rows(collocation, n_classes, evaluation.gradient)
        _assert_direction(evaluation, [got], [wanted])


@pytest.mark.parametrize("excess", [0.5, 5.0, 50.0, 800.0])
def test_balanced_conflict(excess):
    problem = Problem([*CYC_X, [0, 1], [0, 1], [1, 0, 0, 1]], [*CYC_Y, 1, 2, 3])
    output = problem.output_weights(excess)
    evaluation = problem.attention_loss(output)(np.zeros(2))
    assert np.linalg.norm(evaluation.gradient) <= evaluation.noise
    theta = np.array([0.0, 0.5])
    _assert_exact_stage_2(problem, output, theta, 60 + int(excess))


@pytest.mark.parametrize("seed", range(20))
def test_near_ties_at_scores_far_apart(seed):
    """The label's token trails by little while other scores lie hundreds apart."""
    data = make_realizable_ntp(7, 40, max_length=6, random_state=seed)
    problem = Problem(data.X, data.y)
    rng = np.random.default_rng(seed)
    theta = rng.choice([0.0, 1.0, 2.0, -1.5, 3.0, -150.0, -300.0], len(problem.key))
    theta += 0.1 * rng.standard_normal(len(theta))
    output = problem.output_weights(rng.uniform(1.0, 3.0, 7))
    wanted = problem.oracle(_with_unknown(output.dense()), problem.attention_matrix(theta))[1]
    got = problem.attention_matrix(_gradient(problem.attention_loss(output)(theta)))
    _assert_close(got, wanted, 1e-12)


def test_several_labels_where_only_the_tail_tells_the_tokens_apart():
    """Tokens 0 and 1 vote alike for both labels; the classes left have probability exp(-1500)."""
    X, y = [[0], [0], [1], [1], [1], [2], [0, 1], [0, 1]], [0, 1, 0, 1, 2, 3, 0, 1]
    problem = Problem(X, y, [1, 1, 1, 1, 1, 1, 3, 1])
    output = problem.output_weights(np.array([2000.0, 2000.0, 2000.0, 2000.0, 1000.0, 2000.0]))
    _assert_exact_stage_2(problem, output, np.zeros(2), 2000)


def test_18_500_distinct_tokens_of_which_the_label_trails_by_far():
    n_tokens = 18_500
    X = [[i] for i in range(n_tokens)] + [list(range(n_tokens))]
    y = [(i + 1) % n_tokens for i in range(n_tokens)] + [1]
    problem = Problem(X, y, [1e-12] * n_tokens + [1.0])
    theta = np.zeros(len(problem.key))
    theta[0] = -800.0
    loss = problem.attention_loss(problem.output_weights(1e5))(theta).loss
    # Attention is 1 / (l - 1) on all others: logits 1e5 / (l - 1), and 0 at the label.
    excess = 1e5 / (n_tokens - 1)
    wanted = np.log1p((n_tokens - 1) * np.exp(excess))
    np.testing.assert_allclose(loss, wanted, rtol=1e-7)
