"""Measured rates: histories whose rates are known, closed forms, and real training."""

import warnings

import numpy as np
import pytest
from data import CYC, ONE, fitted
from numpy.testing import assert_allclose, assert_array_equal
from scipy import sparse

from sklntp import metrics
from sklntp.datasets import make_realizable_ntp
from sklntp.metrics import alignment, convergence_rate

N = 10_000
POINTS = [1, 10, 100, 1000, 10_000]


def _history(n_steps=N, stage="kq", **curves):
    """A history with norm 0.1 t and log-loss -0.5 t, untracked, unless `curves` says otherwise."""
    t = np.arange(n_steps + 1)
    untracked = np.full(n_steps + 1, np.nan)
    curves = {
        "log_loss": -0.5 * t,
        "norm": 0.1 * t,
        "dist": untracked,
        "accuracy": untracked,
        "stop_reason": "max_iter",
        **curves,
    }
    return {stage: curves}


def _rate(n_steps=N, **curves):
    return convergence_rate(_history(n_steps, **curves), "kq")


def _direction(dist):
    return _rate(len(dist) - 1, dist=dist).directions["kq"]


def _dist(function, n_steps=N):
    """NaN at the start, function(t) after."""
    return np.append(np.nan, function(np.arange(1.0, n_steps + 1)))


def _polyfit(function, first, last):
    """The exponent of a function over the steps first, ..., last."""
    t = np.arange(first, last + 1.0)
    return np.polyfit(np.log(t), np.log(function(t)), 1)[0]


BOUNDS = {"log": lambda t: np.log(t) / t, "log2": lambda t: np.log(t) ** 2 / t}


# Direction


@pytest.mark.parametrize("name", BOUNDS)
def test_a_dist_on_a_claimed_bound_has_its_constant_and_exponent_in_each_decade(name):
    with np.errstate(divide="ignore"):
        found = _direction(_dist(lambda t: 0.7 * BOUNDS[name](t)))
    assert_array_equal(found.t, POINTS)
    constants = getattr(found, f"dist_over_{name}")
    assert np.isnan(constants[0])
    assert_allclose(constants[1:], 0.7, rtol=1e-12)
    for fit in [*found.decades, found.overall]:
        assert_allclose(fit.exponent, getattr(fit, f"exponent_{name}"), rtol=1e-11)
        assert_allclose(getattr(fit, f"constant_{name}"), 0.7, rtol=1e-12)


def test_a_dist_of_c_over_t_has_exponent_minus_one():
    found = _direction(_dist(lambda t: 3.0 / t))
    exponents = [fit.exponent for fit in [*found.decades, found.overall]]
    assert_allclose(exponents, -1.0, rtol=0, atol=1e-12)
    assert_allclose(found.dist_over_log[1:], 3.0 / np.log(POINTS[1:]), rtol=1e-12)
    assert_allclose(found.dist_over_log2[1:], 3.0 / np.log(POINTS[1:]) ** 2, rtol=1e-12)
    assert_allclose(found.dist, 3.0 / np.array(POINTS), rtol=1e-15)
    assert_allclose(found.overall.constant_log, 3.0 / np.log(100), rtol=1e-12)
    assert_allclose(found.overall.constant_log2, 3.0 / np.log(100) ** 2, rtol=1e-12)


def test_the_exponents_of_the_bounds_are_those_over_the_same_steps():
    found = _direction(_dist(lambda t: 3.0 / t))
    ranges = [(2, 10), (10, 100), (100, 1000), (1000, 10_000), (100, 10_000)]
    for fit, (first, last) in zip([*found.decades, found.overall], ranges, strict=True):
        assert (fit.first, fit.last) == (first, last)
        assert_allclose(fit.exponent_log, _polyfit(BOUNDS["log"], first, last), rtol=1e-9)
        assert_allclose(fit.exponent_log2, _polyfit(BOUNDS["log2"], first, last), rtol=1e-9)


@pytest.mark.parametrize(
    ("n_steps", "points", "overall"),
    [
        (3, [1, 3], (2, 3)),
        (10, [1, 10], (2, 10)),
        (250, [1, 10, 100, 250], (3, 250)),
        (3000, [1, 10, 100, 1000, 3000], (30, 3000)),
    ],
)
def test_the_last_step_is_a_point_and_the_overall_range_its_last_two_decades(
    n_steps, points, overall
):
    found = _direction(_dist(lambda t: 3.0 / t, n_steps))
    assert_array_equal(found.t, points)
    assert (found.overall.first, found.overall.last) == overall
    assert found.decades[-1].last == n_steps
    assert len(found.decades) == len(points) - 1


@pytest.mark.parametrize(("changed", "same"), [(99, True), (100, False), (10_000, False)])
def test_every_step_of_the_range_and_no_other_enters_the_overall_fit(changed, same):
    dist = _dist(lambda t: 3.0 / t)
    before = _direction(dist).overall
    dist[changed] *= 2.0
    assert (_direction(dist).overall.exponent == before.exponent) == same


@pytest.mark.parametrize("n_steps", [1, 2])
def test_one_usable_step_gives_points_but_no_exponent(n_steps):
    found = _direction(_dist(lambda t: 3.0 / t, n_steps))
    assert_allclose(found.dist, 3.0 / found.t, rtol=1e-15)
    assert np.isnan(found.overall[2:]).all()
    assert "3.000e+00" in str(found) and "over t" not in str(found)


def test_a_direction_at_rounding_level_is_called_exact_and_not_fitted():
    found = _direction(_dist(lambda t: 1e-16 * (1 + t % 3)))
    assert found.exact_from == 1
    assert np.isnan([fit[2:] for fit in [*found.decades, found.overall]]).all()
    assert "exact from the first step" in str(found)
    assert "exponents" not in str(found)


def test_a_direction_that_becomes_exact_is_fitted_before():
    found = _direction(_dist(lambda t: np.where(t < 200, 3.0 / t, 1e-17)))
    assert found.exact_from == 200
    assert (found.overall.first, found.overall.last) == (100, 199)
    assert_allclose(found.overall.exponent, -1.0, rtol=0, atol=1e-12)
    assert np.isnan(found.decades[-1].exponent)
    assert "exact from step 200" in str(found) and "exponents" in str(found)


def test_a_direction_that_leaves_the_rounding_level_is_not_exact():
    dist = _dist(lambda t: np.full(len(t), 1e-17))
    dist[-1] = 1e-8
    assert _direction(dist).exact_from is None


def test_zeros_between_do_not_reach_the_fit():
    dist = _dist(lambda t: 3.0 / t)
    dist[500] = 0.0
    assert_allclose(_direction(dist).overall.exponent, -1.0, rtol=0, atol=1e-12)


def test_tracking_that_began_late_is_fitted_from_there():
    dist = _dist(lambda t: 3.0 / t)
    dist[:321] = np.nan
    found = _direction(dist)
    assert (found.overall.first, found.overall.last) == (321, 10_000)
    assert_allclose(found.overall.exponent, -1.0, rtol=0, atol=1e-12)
    expected = _polyfit(BOUNDS["log2"], 321, 10_000)
    assert_allclose(found.overall.exponent_log2, expected, rtol=1e-9)
    assert found.exact_from is None
    assert "over t = 321 ... 10000" in str(found)


def test_tracking_between_two_points_only_is_fitted_and_printed():
    dist = _dist(lambda t: 3.0 / t, 99)
    dist[:20], dist[50:] = np.nan, np.nan
    found = _direction(dist)
    assert np.isnan(found.dist).all()
    assert "over t = 20 ... 49: dist ~ t^-1.000" in str(found)


def test_without_tracking_norm_and_loss_are_measured_and_the_print_names_the_remedy():
    clf = fitted(ONE, track_alignment=True)
    tracked = convergence_rate(clf.convergence_, "kq")
    rate = convergence_rate(fitted(ONE).convergence_, "kq")
    assert_array_equal(rate.norm_ratio, tracked.norm_ratio)
    assert rate.log_loss_slope == tracked.log_loss_slope
    assert np.isnan(rate.directions["kq"].dist).all()
    assert rate.directions["kq"].exact_from is None
    assert rate.first_accurate is None and "accuracy" not in str(rate)
    assert "track_alignment=True" in str(rate) and "track_alignment" not in str(tracked)


# Norm


def test_norm_over_eta_t_reads_eta_off_the_first_step():
    norm = np.append(0.0, 0.25 + 0.2 * np.arange(100))
    rate = _rate(100, norm=norm)
    assert rate.step_size == 0.25
    assert_array_equal(rate.norm, norm[[1, 10, 100]])
    assert_allclose(rate.norm_ratio, norm[[1, 10, 100]] / [0.25, 2.5, 25.0], rtol=1e-15)


def test_a_history_that_does_not_start_at_zero_has_no_eta():
    rate = _rate(100, norm=3.0 + 0.1 * np.arange(101))
    assert np.isnan(rate.step_size) and np.isnan(rate.norm_ratio).all()
    assert_allclose(rate.norm, [3.1, 4.0, 13.0], rtol=1e-14)
    assert "norm: 13 at the end; the history does not start at zero" in str(rate)


def test_decaying_steps_have_the_ratio_of_their_sum():
    clf = fitted(CYC, stages=("ov",), max_iter=100, step_schedule="invscaling")
    rate = convergence_rate(clf.convergence_, "ov")
    sums = np.cumsum(1.0 / np.sqrt(np.arange(1, 101)))[[0, 9, 99]]
    assert_allclose(rate.norm_ratio, sums / [1, 10, 100], rtol=1e-12)


def test_the_joint_stage_has_one_norm_and_a_direction_per_matrix():
    clf = fitted(ONE, stages=("joint",), max_iter=200, track_alignment=True)
    curves = clf.convergence_["joint"]
    rate = convergence_rate(clf.convergence_, "joint")
    both = np.sqrt(curves["norm_ov"] ** 2 + curves["norm_kq"] ** 2)
    assert_allclose(rate.norm, both[[1, 10, 100, 200]], rtol=1e-14)
    assert_allclose(rate.step_size, 0.1, rtol=1e-14)
    assert list(rate.directions) == ["ov", "kq"]
    for matrix, direction in rate.directions.items():
        assert direction.matrix == matrix
        assert_array_equal(direction.dist, curves[f"dist_{matrix}"][[1, 10, 100, 200]])
    assert "W_ov" in str(rate) and "W_kq" in str(rate) and "claimed" not in str(rate)


# Loss


def _loss(log_loss):
    return _rate(len(log_loss) - 1, log_loss=log_loss)


def test_a_line_that_ends_in_a_floor_has_its_slope_and_its_floor():
    rate = _loss(np.maximum(-0.5 * np.arange(1001), -20.0))
    assert_allclose(rate.log_loss_slope, -0.5, rtol=1e-13)
    assert_allclose(rate.log_loss_r2, 1.0, rtol=0, atol=1e-13)
    assert rate.straight_until == 36  # 90 % of the fall
    assert (rate.floor, rate.floor_step) == (-20.0, 40)  # 99 %
    assert "floor -20 from step 40 on" in str(rate)


@pytest.mark.parametrize("power", [1.0, 0.5])  # constant and decaying steps
def test_a_loss_that_still_falls_has_no_floor(power):
    log_loss = -(np.arange(1001.0) ** power)
    rate = _loss(log_loss)
    assert rate.floor_step is None and np.isnan(rate.floor)
    assert rate.straight_until == 1000
    expected = np.polyfit(np.arange(1001), log_loss, 1)[0]
    assert_allclose(rate.log_loss_slope, expected, rtol=1e-10)
    assert "no floor reached" in str(rate)


@pytest.mark.parametrize(("n_steps", "floor_step"), [(110, 99), (109, None)])
def test_a_floor_must_hold_for_the_last_tenth(n_steps, floor_step):
    rate = _loss(np.maximum(-0.5 * np.arange(n_steps + 1), -50.0))
    assert rate.floor_step == floor_step
    assert rate.straight_until == (90 if floor_step else n_steps)


def test_a_bent_line_has_a_smaller_r2():
    t = np.arange(101)
    log_loss = -((t / 10.0) ** 2)
    slope, intercept = np.polyfit(t, log_loss, 1)
    residual = np.var(log_loss - intercept - slope * t) / np.var(log_loss)
    assert_allclose(_loss(log_loss).log_loss_r2, 1.0 - residual, rtol=1e-12)


@pytest.mark.parametrize("rounding", [0.0, 1e-15])
@pytest.mark.parametrize("level", [0.0, 0.7, -20_000.0])
def test_a_flat_loss_is_at_its_floor_from_the_start(level, rounding):
    rate = _loss(level - rounding * max(1.0, abs(level)) * (np.arange(101) % 3))
    assert (rate.floor_step, rate.straight_until) == (0, 0)
    assert_allclose(rate.floor, level, rtol=1e-12, atol=1e-12)
    assert np.isnan([rate.log_loss_slope, rate.log_loss_r2]).all()
    assert "from the start" in str(rate)


def test_a_loss_that_never_falls_has_neither_slope_nor_floor():
    rate = _loss(np.arange(101) % 2)
    assert rate.floor_step is None and rate.straight_until == 0
    assert np.isnan([rate.log_loss_slope, rate.floor]).all()
    assert "never fell" in str(rate)


@pytest.mark.parametrize(("amplitude", "is_floor"), [(0.5, True), (5.0, False)])
def test_a_loss_that_circles_its_optimum_is_at_a_floor_if_the_circle_is_small(amplitude, is_floor):
    t = np.arange(1001)
    log_loss = np.maximum(-0.5 * t, -20.0) + amplitude * (t % 3 > 0) * (t > 40)
    rate = _loss(log_loss)
    assert rate.floor_step == (40 if is_floor else None)
    assert rate.straight_until == (36 if is_floor else 1000)


def test_a_rare_jump_does_not_hide_a_floor():
    t = np.arange(1001)
    assert _loss(np.maximum(-0.5 * t, -20.0) + 15.0 * (t % 100 == 99)).floor_step == 40


def test_a_loss_that_rises_again_has_no_floor():
    t = np.arange(1001)
    rate = _loss(np.maximum(-0.5 * t, -20.0 + 0.01 * t))
    assert rate.floor_step is None and rate.log_loss_r2 < 0.6


def test_one_step_has_a_slope_and_no_r2():
    rate = _loss([1.0, 0.75])
    assert rate.log_loss_slope == -0.25 and np.isnan(rate.log_loss_r2)
    assert rate.floor_step is None and rate.n_steps == 1
    assert "1 step (max_iter)" in str(rate)


@pytest.mark.parametrize(
    ("accuracy", "first"),
    [([0.5, 0.9, 1.0, 0.8, 1.0], 2), ([0.5] * 4 + [1.0 - 1e-15], None), ([1.0] * 5, 0)],
)
def test_the_first_accurate_step_is_found(accuracy, first):
    rate = _rate(4, accuracy=np.array(accuracy))
    assert rate.first_accurate == first
    assert (f"accuracy: 1 first seen at step {first}" in str(rate)) == (first is not None)


# Training


def test_stage_ov_of_a_cycle_has_its_closed_form():
    eta, n_steps = 0.1, 1000
    clf = fitted(CYC, stages=("ov",), max_iter=n_steps, track_alignment=True)
    rate = convergence_rate(clf.convergence_, "ov")
    t = np.arange(n_steps + 1)
    assert_allclose(rate.norm, eta * rate.t, rtol=1e-12)
    assert_allclose(rate.norm_ratio, 1.0, rtol=1e-12)
    log_loss = np.log(np.log1p(2.0 * np.exp(-eta * t / np.sqrt(2))))
    assert_allclose(rate.log_loss_slope, np.polyfit(t, log_loss, 1)[0], rtol=1e-10)
    assert rate.floor_step is None and rate.straight_until == n_steps
    assert rate.directions["ov"].exact_from == 1
    assert rate.first_accurate == 1
    # Far out the log-loss is log 2 - eta t / sqrt(2).
    late = {
        name: curve if name == "stop_reason" else curve[500:]
        for name, curve in clf.convergence_["ov"].items()
    }
    rate = convergence_rate({"ov": late}, "ov")
    assert_allclose(rate.log_loss_slope, -eta / np.sqrt(2), rtol=1e-10)
    assert np.isnan(rate.step_size)


@pytest.mark.parametrize("seed", range(3))
def test_stage_kq_falls_faster_than_its_bound_to_the_floor_of_the_fixed_w_ov(seed):
    data = make_realizable_ntp(20, 60, max_length=4, random_state=seed)
    clf = fitted((data.X, data.y), step_size=0.2, max_iter=(100, 2000), track_alignment=True)
    rate = convergence_rate(clf.convergence_, "kq")
    fit = rate.directions["kq"].decades[-1]
    assert (fit.first, fit.last) == (1000, 2000)
    assert -1.0 < fit.exponent < fit.exponent_log2 - 0.01
    assert rate.directions["kq"].overall.constant_log2 < 1.0
    # Attention on the optimal token leaves the loss of a one-token sentence.
    assert_allclose(rate.floor, clf.convergence_["ov"]["log_loss"][-1], rtol=1e-9)
    assert 50 < rate.straight_until < 80 < rate.floor_step < 150
    assert 0.95 < rate.log_loss_r2 < 1.0
    assert rate.first_accurate == 1
    assert_allclose(rate.norm_ratio[-1], 1.0, rtol=5e-3)


# Refusals


@pytest.mark.parametrize(
    ("history", "got"),
    [
        (fitted(CYC, stages=("ov",)), "got NTPTransformerClassifier"),
        (_history()["kq"], "got one stage of it"),
        (None, "got NoneType"),
    ],
)
def test_what_is_no_history_is_refused(history, got):
    with pytest.raises(TypeError, match=rf"history must be clf\.convergence_ of .*{got}"):
        convergence_rate(history, "kq")


@pytest.mark.parametrize("stage", ["ov", "joint", 0, ["kq"]])
def test_an_unknown_stage_is_refused_with_those_there_are(stage):
    with pytest.raises(ValueError, match=r"stage must be one of \['kq'\], those in history; got"):
        convergence_rate(_history(), stage)


def test_a_history_without_its_arrays_or_with_unequal_ones_is_refused():
    history = _history()
    del history["kq"]["log_loss"]
    with pytest.raises(TypeError, match=r"stage 'kq' has no \['log_loss'\]"):
        convergence_rate(history, "kq")
    with pytest.raises(TypeError, match=r"stage 'kq' has shapes .*'norm': \(3,\)"):
        convergence_rate(_history(norm=np.zeros(3)), "kq")


def test_a_stage_that_made_no_step_is_refused_with_its_reason():
    clf = fitted(CYC, solver="max_margin")
    with pytest.raises(ValueError, match=r"stage 'ov' has 1 point.*'max_margin'"):
        convergence_rate(clf.convergence_, "ov")


# Alignment


def _pair(seed, shape=(7, 5)):
    rng = np.random.default_rng(seed)
    return rng.standard_normal(shape), rng.standard_normal(shape)


def test_alignment_of_equal_orthogonal_and_opposite_directions():
    W = np.array([[1.0, 2.0], [0.0, -2.0]])
    assert alignment(W, 4.0 * W) == (1.0, 0.0)
    assert alignment(W, -4.0 * W) == (-1.0, 2.0)
    orthogonal = alignment(W, [[2.0, -1.0], [5.0, 0.0]])
    assert_allclose(orthogonal, (0.0, np.sqrt(2.0)), rtol=0, atol=1e-15)


@pytest.mark.parametrize("seed", range(20))
def test_alignment_is_the_cosine_of_the_angle(seed):
    W, reference = _pair(seed)
    cosine, dist = alignment(W, reference)
    inner = np.sum(W * reference) / np.linalg.norm(W) / np.linalg.norm(reference)
    assert_allclose(cosine, inner, rtol=0, atol=1e-14)
    assert_allclose(dist, np.sqrt(2.0 - 2.0 * inner), rtol=1e-12)


def test_equal_and_opposite_directions_stay_in_range_over_many_seeds():
    for seed in range(300):  # without care, 3 of them have dist 2 + 4e-16 and cosine < -1
        W, _ = _pair(seed)
        cosine, dist = alignment(W, 3.7 * W)
        assert 1.0 - 1e-15 < cosine <= 1.0 and 0.0 <= dist < 1e-15
        cosine, dist = alignment(W, -3.7 * W)
        assert -1.0 <= cosine < -1.0 + 1e-15 and 2.0 - 1e-15 < dist <= 2.0


def test_a_small_angle_is_not_lost_in_the_cosine():
    # The inner product is 1 - 5e-19, which float64 rounds to 1.
    found = alignment([[1.0, 1e-9]], [[1.0, 0.0]])
    assert_allclose(found.dist, 1e-9, rtol=1e-12)


@pytest.mark.parametrize("exponent", [-1000, -660, 660, 1000])
def test_scale_changes_no_bit_where_squares_leave_float64(exponent):
    W, reference = _pair(0)
    scaled = np.ldexp(W, exponent)
    assert alignment(scaled, reference) == alignment(W, reference)
    assert alignment(reference, scaled) == alignment(reference, W)
    assert alignment(scaled, np.ldexp(reference, -exponent)) == alignment(W, reference)


@pytest.mark.parametrize("entry", [5e-324, 1e-310, 1e-200, 1e200, 1.7e308])
def test_extreme_entries_neither_under_nor_overflow(entry):
    assert_allclose(alignment([[entry, entry]], [[1.0, 0.0]]).cosine, np.sqrt(0.5), rtol=1e-15)


@pytest.mark.parametrize("form", [sparse.csr_array, sparse.csc_array, sparse.coo_matrix])
def test_sparse_equals_dense(form):
    W, reference = _pair(1)
    W[W < 0.3] = 0.0
    reference[reference > 0.2] = 0.0
    dense = alignment(W, reference)
    assert_allclose(alignment(form(W), form(reference)), dense, rtol=1e-14)
    assert alignment(form(W), reference) == alignment(W, form(reference)) == dense


def test_repeated_and_zero_entries_of_a_sparse_matrix_are_summed_and_harmless():
    W = sparse.csr_array(
        (np.array([1.0, 2.0, 0.0, 4.0]), np.array([1, 1, 0, 0]), np.array([0, 3, 4])), shape=(2, 2)
    )
    before = W.data.copy()
    reference = sparse.csr_array(np.array([[0.0, 1.0], [1.0, 1.0]]))
    assert_allclose(alignment(W, reference).cosine, 7.0 / 5.0 / np.sqrt(3.0), rtol=1e-14)
    assert_array_equal(W.data, before)


def test_two_sparse_matrices_are_not_made_dense():
    W = sparse.coo_array(([3.0, 4.0], ([0, 10**6 - 1], [0, 10**6 - 1])), shape=(10**6, 10**6))
    reference = sparse.coo_array(([1.0], ([0], [0])), shape=(10**6, 10**6))
    assert_allclose(alignment(W, reference).cosine, 0.6, rtol=1e-15)


@pytest.mark.parametrize("zero", [np.zeros((7, 5)), sparse.csr_array((7, 5))])
def test_a_zero_matrix_has_no_direction(zero):
    W, _ = _pair(2)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(alignment(zero, W)).all()
        assert np.isnan(alignment(W, zero)).all()
        assert np.isnan(alignment(zero, zero)).all()
    assert np.isnan(alignment(np.empty((0, 5)), np.empty((0, 5)))).all()


def test_alignment_is_what_training_records():
    data = make_realizable_ntp(random_state=0)
    clf = fitted((data.X, data.y), track_alignment=True)
    found = alignment(clf.sparse_coef_kq_, clf.max_margin_coef_kq_)
    assert_allclose(found.dist, clf.convergence_["kq"]["dist"][-1], rtol=1e-12)
    assert_allclose(found.cosine, clf.convergence_["kq"]["cosine"][-1], rtol=1e-12)


@pytest.mark.parametrize(
    ("W", "reference", "message"),
    [
        (np.ones((2, 3)), np.ones((3, 2)), r"same shape; got \(2, 3\) and \(3, 2\)"),
        (np.ones(3), np.ones((1, 3)), r"W must be a matrix, 2-D; got 1 dim"),
        (np.ones((1, 3)), np.ones((1, 1, 3)), r"reference must be a matrix, 2-D; got 3 dim"),
        (np.ones((1, 2)), [[1.0, np.nan]], r"reference contains NaN"),
        (sparse.csr_array([[1.0, np.inf]]), np.ones((1, 2)), r"W contains infinity"),
        ([["a", "b"]], np.ones((1, 2)), r"could not convert"),
    ],
)
def test_what_has_no_alignment_is_refused(W, reference, message):
    with pytest.raises(ValueError, match=message):
        alignment(W, reference)


def test_the_public_names_are_there():
    assert sorted(metrics.__all__) == metrics.__all__
    assert all(hasattr(metrics, name) for name in metrics.__all__)


# The range of floats


def test_huge_and_vanishing_steps_have_a_rate_without_a_warning():
    huge = convergence_rate(fitted(ONE, step_size=1e200).convergence_, "ov")
    assert_allclose(huge.log_loss_slope, -1e200 / np.sqrt(2), rtol=1e-12)
    assert huge.log_loss_r2 == pytest.approx(1.0, abs=1e-12)
    vanishing = _rate(4, norm=np.zeros(5))
    assert np.isnan(vanishing.step_size) and np.isnan(vanishing.norm_ratio).all()


def test_alignment_of_sparse_matrices_of_any_shape_and_with_duplicates():
    shape = (2**20 + 1, 2**44)
    W = sparse.coo_array(([1.0, 1.0], ([0, 2**20], [0, 0])), shape=shape)
    reference = sparse.coo_array(([1.0], ([0], [0])), shape=shape)
    assert alignment(W, reference).cosine == pytest.approx(np.sqrt(0.5), abs=1e-15)
    twice = sparse.csr_array((np.full(3, 1e308), [0, 0, 1], [0, 3]), shape=(1, 2))
    assert alignment(twice, [[2.0, 1.0]]).dist == 0.0


def test_the_layout_of_an_array_does_not_matter():
    W = np.random.default_rng(0).normal(size=(3, 4))
    assert alignment(np.asfortranarray(W), np.asfortranarray(7 * W)).dist < 1e-15
    assert W.flags.c_contiguous
