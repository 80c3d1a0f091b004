"""General blocks: every layout gives the same gradient, to rounding, and threads the same bits."""

import copy
from decimal import localcontext

import numpy as np
import pytest
from oracle import exact, known_gradients, mean_loss
from scipy.sparse import csc_array, csr_array

from sklntp import _general_block, _gradients, _products, _votes
from sklntp._dataset import build_dataset
from sklntp._forward import AttentionWeights, OutputWeights
from sklntp._general_block import GeneralBlock
from sklntp._joint_loss import JointLoss
from sklntp._losses import AttentionLoss, context_pairs
from sklntp._output import DenseOutput, SparseOutput
from sklntp._products import add_csc_product, add_csr_product
from sklntp._threads import Threads

NAMES = "_DENSE _CONTEXTS _PROBABILITIES _TILE _LOGITS _COLUMNS _SMALL _CAREFUL".split()
LAYOUTS = {
    "default": (0.2, 2048, 1 << 19, 48, 1 << 20, 1 << 19, 9000, 1 << 18),
    "sparse": (2.0, 2048, 1, 48, 1 << 20, 1, 1, 1),
    "sparse, blocks of 7": (2.0, 7, 1, 3, 1 << 20, 1, 1, 1),
    "sparse, tiles of 1": (2.0, 50, 1, 1, 1 << 20, 1, 1, 1),
    "sparse, tiles cut in half": (2.0, 2048, 1, 48, 100, 1, 1, 50),
    "dense": (0.0, 1, 1 << 19, 1, 1, 1 << 19, 9000, 1 << 18),
    "dense, blocks of 7": (0.0, 1, 70, 1, 1, 100, 40, 1),
    "dense, blocks of 1": (0.0, 1, 1, 1, 1, 1, 1, 1),
}


@pytest.fixture(params=LAYOUTS)
def layout(request, monkeypatch):
    for name, size in zip(NAMES, LAYOUTS[request.param], strict=True):
        module = _general_block if hasattr(_general_block, name) else _votes
        monkeypatch.setattr(module, name, size)
    return request.param


class Case:
    """Random sentences over ten known tokens and an unknown one, some with several next tokens.

    Tokens 0 and 1 have equal columns in W_ov, and that of token 9 is zero.
    """

    n_tokens = 10

    def __init__(self, seed, scale=1.0):
        rng = np.random.default_rng(seed)
        X = [rng.integers(11, size=rng.integers(1, 8)).tolist() for _ in range(120)]
        y = [*range(10), *rng.integers(10, size=110).tolist()]
        X += X[:20]
        y += rng.integers(10, size=20).tolist()
        self.set_sentences(X, y, rng.uniform(0.5, 2.0, len(X)))
        support = rng.random((self.n_tokens, 10)) < 0.3
        support[9] = False
        self.set_output(np.where(support, scale * rng.uniform(-0.5, 4.0, support.shape), 0.0))
        self.theta = rng.standard_normal(len(self.pairs.key))

    def set_sentences(self, X, y, weights):
        """Takes the sentences; y must hold the classes 0, 1, ... without a gap."""
        self.X, self.y, self.weights = X, y, weights
        self.data = build_dataset(X, y, weights, collocation="last", vocabulary=range(10))
        self.n_classes = len(self.data.classes)
        key = context_pairs(self.data.contexts)
        self.pairs = AttentionWeights(key, np.zeros(len(key)), np.zeros(self.n_tokens))

    def set_output(self, w_ov):
        """Takes W_ov.T, (V, C), with one column for tokens 0 and 1."""
        self.w_ov = w_ov
        w_ov[1] = w_ov[0]
        token, classes = np.nonzero(w_ov)
        self.output = OutputWeights(
            np.searchsorted(token, np.arange(self.n_tokens + 1)),
            classes,
            w_ov[token, classes],
            np.zeros(self.n_tokens),
            self.n_classes,
        )

    def attention_loss(self):
        return AttentionLoss(self.data.contexts, self.data.labels, self.output, self.pairs)

    def joint_loss(self, threads=None):
        return JointLoss(
            self.data.contexts, self.data.labels, self.n_classes, self.pairs, threads=threads
        )

    def joint_theta(self):
        return np.append(self.w_ov.ravel(), self.theta)

    def oracle(self, convert=np.asarray):
        """The literal loss and gradients: W_ov.T of the known tokens, and W_kq on the pairs."""
        w_kq = np.zeros((self.n_tokens + 1,) * 2)
        query, token = np.divmod(self.pairs.key, self.n_tokens)
        w_kq[token, query] = self.theta
        w_ov = np.hstack([self.w_ov.T, np.zeros((self.n_classes, 1))])
        sentences = [[min(x, 10) for x in sentence] for sentence in self.X]
        loss = mean_loss(w_ov, w_kq, sentences, self.y, self.weights)
        w_ov, w_kq, weights = (convert(array) for array in (w_ov, w_kq, self.weights))
        g_ov, g_kq = known_gradients(self.n_tokens, w_ov, w_kq, sentences, self.y, weights)
        return loss, g_ov[:, :-1].T, g_kq[token, query]


def _assert_close(got, wanted, tolerance=1e-12):
    assert np.abs(got - wanted).max() <= tolerance * np.abs(wanted).max()


@pytest.mark.parametrize("seed", range(3))
def test_every_layout_of_stage_2_against_the_oracle(layout, seed):
    case = Case(seed)
    loss = case.attention_loss()
    outputs = {type(b.output) for b in loss.blocks if isinstance(b, GeneralBlock)}
    assert outputs == {DenseOutput if layout.startswith(("dense", "default")) else SparseOutput}
    value, _, g_kq = case.oracle()
    evaluation = loss(case.theta)
    np.testing.assert_allclose(evaluation.loss, value, rtol=1e-13)
    _assert_close(np.exp(evaluation.log_scale) * evaluation.gradient, g_kq)


@pytest.mark.parametrize("seed", range(3))
def test_every_layout_of_the_joint_stage_against_the_oracle(layout, seed):
    case = Case(seed)
    value, g_ov, g_kq = case.oracle()
    evaluation = case.joint_loss()(case.joint_theta())
    np.testing.assert_allclose(evaluation.loss, value, rtol=1e-13)
    wanted = np.append(g_ov.ravel(), g_kq)
    _assert_close(np.exp(evaluation.log_scale) * evaluation.gradient, wanted)


@pytest.mark.parametrize("scale", [1.0, 30.0, 300.0])
@pytest.mark.parametrize("spread", [0.0, 1.0, 30.0, 300.0])
def test_the_fast_route_equals_the_careful_one(scale, spread, monkeypatch, layout):
    case = Case(5, scale)
    fast = case.attention_loss()(spread * case.theta)
    joint = case.joint_loss()(np.append(case.w_ov.ravel(), spread * case.theta))
    monkeypatch.setattr(_gradients, "_DOUBTFUL", 1e300)  # every context is computed with care
    for got, loss, theta in (
        (fast, case.attention_loss(), spread * case.theta),
        (joint, case.joint_loss(), np.append(case.w_ov.ravel(), spread * case.theta)),
    ):
        wanted = loss(theta)
        assert got.loss == wanted.loss and got.log_scale == wanted.log_scale
        _assert_close(got.gradient, wanted.gradient)
        np.testing.assert_allclose(got.noise, wanted.noise, rtol=1e-12)


def test_few_contexts_need_care(monkeypatch):
    case, seen = Case(0), []
    original = _general_block.doubtful

    def count(*args):
        seen.append(original(*args))
        return seen[-1]

    monkeypatch.setattr(_general_block, "doubtful", count)
    case.attention_loss()(case.theta)
    share = np.concatenate(seen).mean()
    assert share < 0.1


@pytest.mark.parametrize("spread", [0.0, 1.0, 100.0])
def test_tokens_with_equal_columns_get_equal_votes_to_the_bit(spread, monkeypatch, layout):
    """Contexts of tokens with one column: no attention between them changes the loss."""
    case, rng = Case(1), np.random.default_rng(0)
    X = [rng.integers(7, size=12).tolist() for _ in range(300)]
    case.set_sentences(X, rng.permutation(300), np.ones(300))
    w_ov = np.where(rng.random((10, 300)) < 0.4, rng.uniform(0.0, 4.0, (10, 300)), 0.0)
    w_ov[:7] = w_ov[0]
    case.set_output(w_ov)
    case.theta = spread * rng.standard_normal(len(case.pairs.key))
    monkeypatch.setattr(_general_block, "careful_gradient", None)  # nobody needs it for that
    assert not case.attention_loss()(case.theta).gradient.any()
    joint = case.joint_loss()(case.joint_theta()).gradient
    assert joint[: w_ov.size].any() and not joint[w_ov.size :].any()


@pytest.mark.parametrize("difference", [1e-5, 1e-9, 1e-13])
def test_columns_that_hardly_differ_are_computed_with_care(difference, layout):
    case, rng = Case(1), np.random.default_rng(0)
    X = [rng.choice([2, 3, 4], size=6).tolist() for _ in range(30)]
    case.set_sentences(X, rng.integers(10, size=30), rng.uniform(0.5, 2.0, 30))
    w_ov = case.w_ov.copy()
    w_ov[3:5] = w_ov[2] * (1.0 + difference * rng.random((2, 10)))
    case.set_output(w_ov)
    case.theta = rng.standard_normal(len(case.pairs.key))
    evaluation = case.attention_loss()(case.theta)
    with localcontext(prec=50):
        wanted = case.oracle(exact)[2].astype(float)
    _assert_close(np.exp(evaluation.log_scale) * evaluation.gradient, wanted, 1e-11)


def test_unknown_tokens_alone_do_not_hide_what_underflows():
    case = Case(1)
    case.set_sentences([[2], [3], [4], [10]], [3, 4, 2, 5], np.ones(4))
    w_ov = np.zeros((10, 10))
    w_ov[[2, 3, 4], [3, 4, 2]] = 2000.0
    case.set_output(w_ov)
    case.theta = np.zeros(len(case.pairs.key))
    evaluation = case.joint_loss()(case.joint_theta())
    gradient = np.exp(evaluation.log_scale + 2000.0) * evaluation.gradient.reshape(10, 10)
    np.testing.assert_allclose(gradient[[2, 3, 4], [3, 4, 2]], -9.0 / 4.0, rtol=1e-12)
    assert np.abs(gradient).max() > evaluation.noise * np.exp(evaluation.log_scale + 2000.0)


@pytest.mark.parametrize("lowest", [0.0, -3.0])
def test_terms_behind_the_votes_are_counted(lowest, monkeypatch, layout):
    """What decides where care is needed is sum_v |W_ov[v, x] r_v|, or more with negative votes."""
    case, calls = Case(7), []
    rng = np.random.default_rng(0)
    case.set_output(np.where(case.w_ov != 0.0, rng.uniform(lowest, 4.0, case.w_ov.shape), 0.0))

    def record(raised, g, terms, column):
        calls.append((raised, g, terms))
        return np.zeros(g.shape[1], dtype=bool)

    loss = case.attention_loss()
    blocks = [block for block in loss.blocks if isinstance(block, GeneralBlock)]
    monkeypatch.setattr(_general_block, "doubtful", record)
    loss(case.theta)
    w_ov, looser = np.vstack([case.w_ov, np.zeros(case.n_classes)]), 0
    for block, (raised, g, terms) in zip(blocks, calls[-len(blocks) :], strict=True):
        phi = np.exp(raised) / np.exp(raised).sum(axis=0)
        p = np.exp(np.einsum("ln,lnv->nv", phi, w_ov[block.tokens]))
        residual = p / p.sum(axis=1, keepdims=True)
        residual[block.label_row, block.label] -= block.share
        votes = w_ov[block.tokens] * residual
        wanted, exact = votes.sum(axis=2), np.abs(votes).sum(axis=2)
        unit = (g * wanted).sum(axis=0) / np.maximum((g * g).sum(axis=0), 1e-300)
        np.testing.assert_allclose(g * unit, wanted, atol=1e-13)
        if lowest == 0.0:
            np.testing.assert_allclose(terms * unit, exact, atol=1e-13)
        assert (terms * unit >= exact - 1e-13).all()
        looser += (terms * unit > 1.01 * exact).sum()
    assert (looser > 0) == (lowest < 0.0)


def test_columns_that_differ_by_a_sign_of_zero_are_equal():
    case = Case(2)
    wanted = case.joint_loss()(case.joint_theta())
    table = case.w_ov.copy()
    table[0, table[0] == 0.0] = -0.0
    got = case.joint_loss()(np.append(table.ravel(), case.theta))
    np.testing.assert_array_equal(got.gradient, wanted.gradient)


def test_rows_that_collide_in_the_sum_of_their_bits_are_compared():
    """The signs of two entries cancel in a sum modulo 2**64."""
    table = np.ones((4, 3))
    table[1, :2] = -1.0
    table[3] = 0.0
    output = DenseOutput(table)
    assert output.first.tolist() == [0, 1, 0, 3] and not output.distinct
    assert DenseOutput(table[[0, 1, 3]]).distinct


def test_scales_of_the_joint_stage_are_forgotten():
    """The result follows from theta alone, whatever was evaluated before."""
    case = Case(3, scale=100.0)
    loss, points = case.joint_loss(), [case.joint_theta(), 20.0 * case.joint_theta()]
    for theta in [points[0], points[1], points[0]]:
        got, wanted = loss(theta), case.joint_loss()(theta)
        assert got[:2] == wanted[:2] and got[3:] == wanted[3:]
        np.testing.assert_array_equal(got.gradient, wanted.gradient)


@pytest.mark.parametrize("n_threads", [2, 3])
def test_threads_leave_no_trace_in_the_joint_stage(n_threads, layout):
    case = Case(4)
    wanted = case.joint_loss()(case.joint_theta())
    with Threads(n_threads) as threads:
        loss = case.joint_loss(threads)
        for _ in range(3):
            got = loss(case.joint_theta())
            assert got[:2] == wanted[:2] and got[3:] == wanted[3:]
            np.testing.assert_array_equal(got.gradient, wanted.gradient)


def test_threads_share_no_buffers():
    case = Case(6)
    blocks = [b for b in case.attention_loss().blocks if isinstance(b, GeneralBlock)] * 40
    copies = [copy.deepcopy(block.entries) for block in blocks]  # a block is one thread's at a time

    def terms(number, worker):
        block = copy.copy(blocks[number])
        block.entries = copies[number]
        return block.attention_terms(case.theta).gradient

    with Threads(4) as threads:
        several = threads.map(terms, range(len(blocks)))
    for got, wanted in zip(several, Threads(1).map(terms, range(len(blocks))), strict=True):
        np.testing.assert_array_equal(got, wanted)


@pytest.mark.parametrize("routines", ["those of SciPy", "none"])
def test_products_are_added(routines, monkeypatch):
    if routines == "none":
        monkeypatch.setattr(_products, "csc_matvecs", None)
        monkeypatch.setattr(_products, "csr_matvecs", None)
    rng = np.random.default_rng(0)
    matrix = np.where(rng.random((5, 7)) < 0.4, rng.standard_normal((5, 7)), 0.0)
    dense, start = rng.standard_normal((7, 3)), rng.standard_normal((5, 3))
    for kind, add in ((csc_array, add_csc_product), (csr_array, add_csr_product)):
        sparse, out = kind(matrix), start.copy()
        index = sparse.indptr.astype(np.int32), sparse.indices.astype(np.int32)
        add(matrix.shape, *index, sparse.data, dense, out)
        np.testing.assert_allclose(out, start + matrix @ dense, rtol=1e-13, atol=1e-13)
