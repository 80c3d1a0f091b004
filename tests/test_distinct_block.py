"""Blocks of the paper's case: the two routes agree, and neither threads nor blocks matter."""

import threading
import tracemalloc

import numpy as np
import pytest
from samples import conflicting

from sklntp import _distinct_block
from sklntp._block import Entries
from sklntp._dataset import build_dataset
from sklntp._distinct_block import DistinctBlock
from sklntp._forward import AttentionWeights, OutputWeights
from sklntp._losses import AttentionLoss, context_pairs
from sklntp._sums import ScaledSum, mean_loss, sum_losses
from sklntp._threads import Threads
from sklntp.datasets import make_realizable_ntp

SEEDS = range(5)


def attention_loss(data, excess=3.0, **kwargs):
    """Stage 2 with W_ov at an excess over zero, one or one per pair of the collocation."""
    pairs, n_tokens = data.collocation, len(data.vocabulary)
    offsets = np.searchsorted(pairs.pair_token, np.arange(n_tokens + 1))
    value = np.broadcast_to(excess, len(pairs.classes)).astype(float)
    output = OutputWeights(offsets, pairs.classes, value, np.zeros(n_tokens), len(data.classes))
    key = context_pairs(data.contexts)
    attention = AttentionWeights(key, np.zeros(len(key)), np.zeros(n_tokens))
    return AttentionLoss(data.contexts, data.labels, output, attention, **kwargs)


def realizable(seed, n_tokens=30, n_sentences=500, **kwargs):
    bunch = make_realizable_ntp(n_tokens, n_sentences, random_state=seed, **kwargs)
    # A token twice and thrice, and one that is unknown.
    X = [x + x[:1] * (i % 3) + [999] * (i % 2) for i, x in enumerate(bunch.X)]
    return build_dataset(X, bunch.y, collocation="last", vocabulary=sorted(bunch.collocation))


def single(seed, **kwargs):
    bunch = make_realizable_ntp(30, 500, random_state=seed, **kwargs)
    return build_dataset(bunch.X, bunch.y)


def assert_same(one, other, tolerance):
    assert abs(one.loss - other.loss) <= tolerance * other.loss
    np.testing.assert_allclose(one.log_loss, other.log_loss, rtol=tolerance, atol=tolerance)
    gradient = one.gradient * np.exp(one.log_scale - other.log_scale)
    largest = np.abs(other.gradient).max()
    np.testing.assert_allclose(gradient, other.gradient, rtol=0, atol=tolerance * largest)


@pytest.mark.parametrize("excess", ["uniform", "uneven"])
@pytest.mark.parametrize("seed", SEEDS)
def test_narrow_and_wide_scores_give_the_same(seed, excess, monkeypatch):
    data = single(seed)
    rng = np.random.RandomState(seed)
    value = 3.0 if excess == "uniform" else rng.uniform(0.5, 4.0, len(data.collocation.classes))
    loss = attention_loss(data, value)
    assert all(isinstance(block, DistinctBlock) for block in loss.blocks)
    for scale in (0.0, 1.0, 5.0):
        theta = scale * rng.standard_normal(loss.n_pairs)
        narrow = loss(theta)
        with monkeypatch.context() as patch:
            patch.setattr(_distinct_block, "_NARROW", -1.0)
            wide = loss(theta)
        assert_same(narrow, wide, 1e-13)
        ratio = narrow.noise * np.exp(narrow.log_scale - wide.log_scale) / wide.noise
        np.testing.assert_allclose(ratio, 1.0, rtol=1e-10)


@pytest.mark.parametrize("seed", SEEDS)
def test_a_small_residual_gets_a_scale(seed):
    data = single(seed)
    loss = attention_loss(data, 590.0)
    theta = np.zeros(loss.n_pairs)
    for _ in range(400):  # until the loss is about exp(-590)
        value = loss(theta)
        theta -= 0.5 * value.gradient / np.linalg.norm(value.gradient)
    assert value.log_loss < -500 and value.log_scale < -256
    assert 1e-20 < np.abs(value.gradient).max() < 1e5


@pytest.mark.parametrize("data", [single, realizable], ids=["distinct", "several next tokens"])
@pytest.mark.parametrize("chunk", [1, 7, 1000, 1 << 20])
def test_the_number_of_threads_leaves_no_trace(chunk, data):
    data = data(0)
    theta = np.random.RandomState(0).standard_normal(attention_loss(data).n_pairs)
    results = []
    for n in (1, 2, 3):
        with Threads(n) as threads:
            loss = attention_loss(data, chunk=chunk, threads=threads)
            results += [loss(theta), loss(theta)]
    for other in results[1:]:
        assert other.loss == results[0].loss and other.log_loss == results[0].log_loss
        assert other.log_scale == results[0].log_scale and other.noise == results[0].noise
        np.testing.assert_array_equal(other.gradient, results[0].gradient)


@pytest.mark.parametrize("chunk", [1, 7, 100])
def test_the_size_of_blocks_changes_rounding_only(chunk):
    data = single(1)
    whole, parts = attention_loss(data), attention_loss(data, chunk=chunk)
    assert len(whole.blocks) == 1 < len(parts.blocks)
    for scale in (0.0, 2.0, 300.0):
        theta = scale * np.random.RandomState(1).standard_normal(whole.n_pairs)
        assert_same(parts(theta), whole(theta), 1e-13)


def test_blocks_are_of_about_one_size():
    bunch = make_realizable_ntp(50, 60_000, max_length=12, random_state=0)
    loss = attention_loss(build_dataset(bunch.X, bunch.y))
    sizes = [block.n_tokens for block in loss.blocks]
    assert len(sizes) == 4 and max(sizes) < 1.01 * min(sizes)


def test_a_step_allocates_little_more_than_the_gradient():
    bunch = make_realizable_ntp(40, 40_000, max_length=12, random_state=0)
    loss = attention_loss(build_dataset(bunch.X, bunch.y))
    n_tokens = sum(block.n_tokens for block in loss.blocks)
    theta = np.zeros(loss.n_pairs)
    loss(theta)
    tracemalloc.start()
    loss(theta)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert n_tokens > 100 * loss.n_pairs
    # The table of entries is about as long as the gradient; nothing is as long as the tokens.
    assert peak < 8 * 20 * loss.n_pairs + 50_000 < 8 * n_tokens / 2


@pytest.mark.parametrize("spread", [1, 10], ids=["slice", "array"])
@pytest.mark.parametrize("seed", SEEDS)
def test_entries(seed, spread):
    rng = np.random.RandomState(seed)
    n_pairs = 200 * spread
    pair = np.append(spread * rng.randint(20, 100, 300), [n_pairs] * 5)
    counts = rng.choice([1, 1, 1, 2, 3, 7], len(pair))
    entries = Entries(pair, counts, n_pairs)
    assert isinstance(entries.where, slice) == (spread == 1)
    theta = rng.standard_normal(n_pairs)
    scores = np.append(theta, 0.0)[pair] + np.log(counts)
    own = theta[entries.where]
    np.testing.assert_allclose(entries.raised(own)[entries.index], scores, rtol=1e-15)
    mass = entries.mass(own)
    np.testing.assert_allclose(mass[entries.index], np.exp(scores), rtol=1e-14)
    values = rng.standard_normal(len(pair))
    for factor in (None, mass):
        total = np.zeros(n_pairs)
        total[entries.where] = entries.sum(values, factor)
        terms = values if factor is None else values * np.exp(scores)
        wanted = np.bincount(pair, terms, n_pairs + 1)[:-1]
        np.testing.assert_allclose(total, wanted, rtol=0, atol=1e-13 * np.abs(terms).sum())


def test_scaled_sum():
    total = ScaledSum(3)
    assert total.log_scale == -np.inf
    total.add(slice(0, 2), np.array([1.0, 2.0]), -1000.0, 3.0)
    total.add(np.array([1, 2]), np.array([4.0, 5.0]), -999.0, 9.0)
    total.add(slice(0, 3), np.array([1.0, 1.0, 1.0]), -1001.0, 3.0)
    total.add(slice(0, 3), np.full(3, np.nan), -np.inf, 0.0)
    e = np.exp(-1.0)
    np.testing.assert_allclose(total.total, [e + e**2, 2 * e + 4 + e**2, 5 + e**2], rtol=1e-15)
    np.testing.assert_allclose(total.size, 9 + 3 * e + 3 * e**2, rtol=1e-15)
    assert total.log_scale == -999.0


def test_losses_add_up_beyond_the_range_of_floats():
    probability, log_odds = np.array([0.25, 0.75]), np.array([-800.0, -801.0])
    part = mean_loss(probability, np.exp(log_odds), log_odds)
    wanted = -800.0 + np.log(0.25 + 0.75 * np.exp(-1.0))
    assert part == (0.0, pytest.approx(wanted, rel=1e-15))
    assert sum_losses([part, part]) == (0.0, pytest.approx(wanted + np.log(2.0), rel=1e-15))
    assert sum_losses([part, (0.5, np.log(0.5))]) == (0.5, np.log(0.5))
    assert sum_losses([(0.0, -np.inf)]) == (0.0, -np.inf)


class Broken(Exception):
    """Raised on purpose."""


@pytest.mark.parametrize("n", [1, 2, 3])
def test_threads(n):
    with Threads(n) as threads:
        assert threads.n == n
        results = threads.map(lambda item, worker: (item, worker), range(20))
        assert [item for item, _ in results] == list(range(20))
        assert {worker for _, worker in results} <= set(range(n))

        def fail(item, worker):
            if item == 7:
                raise Broken

        with pytest.raises(Broken):
            threads.map(fail, range(20))
        assert threads.map(lambda item, worker: item, []) == []


def test_no_more_threads_than_work():
    with Threads(8) as threads:
        before = threading.active_count()
        assert threads.map(lambda item, worker: worker, range(1)) == [0]
        assert threading.active_count() == before
        threads.map(lambda item, worker: worker, range(3))
        assert threading.active_count() <= before + 2


def test_conflicting_data_mix_both_kinds_of_blocks():
    data = build_dataset(*conflicting(0)[:2], collocation="single", vocabulary=range(6))
    kinds = {type(block).__name__ for block in attention_loss(data).blocks}
    assert kinds == {"DistinctBlock", "GeneralBlock"}


@pytest.mark.parametrize("excess", [3.0, 40.0, 700.0, "uneven", "any sign"])
@pytest.mark.parametrize("data", [single, realizable])
def test_distinct_blocks_equal_general_ones(data, excess, monkeypatch):
    data, rng = data(0), np.random.RandomState(0)
    n = len(data.collocation.classes)
    drawn = {"uneven": rng.uniform(0.5, 4.0, n), "any sign": rng.uniform(-3.0, 3.0, n)}
    value = drawn.get(excess, excess)

    def no_block(contexts, *_):
        return [], np.arange(len(contexts))

    for scale in (0.0, 3.0, 60.0, 400.0):
        loss = attention_loss(data, value)
        with monkeypatch.context() as patch:
            patch.setattr(DistinctBlock, "split", no_block)
            general = attention_loss(data, value)
        theta = scale * rng.standard_normal(loss.n_pairs)
        assert_same(loss(theta), general(theta), 1e-10)


def test_tiny_weights_keep_their_direction():
    X, y = [[0], [1], [2], [3], [0, 1], [2, 3]], [1, 2, 3, 0, 1, 3]
    results = []
    for weight in (1.0, 1e-149):
        data = build_dataset(X, y, [1, 1, 1, 1, weight, weight], collocation="single")
        loss = attention_loss(data, 590.0)
        value = loss(np.full(loss.n_pairs, 50.0))
        results.append((value.gradient, value.log_scale - np.log(data.labels.probability[-1])))
    (one, one_scale), (other, other_scale) = results
    np.testing.assert_allclose(other * np.exp(other_scale - one_scale), one, rtol=1e-9)


def test_pairs_of_unknown_tokens_are_not_trained():
    X, y = [[0], [1], [0, 9], [9, 0], [0, 1, 9]], [1, 0, 1, 1, 1]
    data = build_dataset(X, y, collocation="single", vocabulary=[0, 1])
    assert context_pairs(data.contexts).tolist() == [0]  # token 0 under query 0
