"""How fast both stages converge, over many seeds, against what is claimed.

On realizable data the paper claims for dist = ||W/||W|| - W*/||W*|||| that it is O(log t / t) for
W_ov and O(log^2 t / t) for W_kq, norms that grow linearly, a loss that falls exponentially (in
stage 2 to the floor that the fixed W_ov sets), and a training accuracy that reaches 1. Each is
measured here on the history of every step, by `convergence_rate`.
"""

import argparse
import platform

import numpy as np
from joblib import Parallel, delayed

from sklntp import NTPTransformerClassifier, __version__
from sklntp.datasets import make_realizable_ntp
from sklntp.metrics import convergence_rate

STEP_SIZE = 0.2
STAGE_1_STEPS = 1000


def measure(seed, n_steps):
    """The rates of both stages on the data of one seed."""
    data = make_realizable_ntp(20, 60, max_length=4, random_state=seed)
    clf = NTPTransformerClassifier(
        step_size=STEP_SIZE, max_iter=(STAGE_1_STEPS, n_steps), track_alignment=True
    ).fit(data.X, data.y)
    return {stage: convergence_rate(clf.convergence_, stage) for stage in ("ov", "kq")}


def spread(values, form=".3f"):
    """Median, smallest and largest; NaN if some seed has none."""
    values = np.array(values, dtype=float)
    return f"{np.median(values):{form}} ({np.min(values):{form}} to {np.max(values):{form}})"


# %%
# One run per seed; twenty seeds of 100,000 steps take some ten minutes on two cores.
parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
parser.add_argument("--seeds", type=int, choices=range(1, 1001), metavar="N", default=3)
parser.add_argument("--steps", type=int, default=3000, help="of stage 2")
parser.add_argument("--jobs", type=int, default=2)
args = parser.parse_args()
rates = Parallel(n_jobs=args.jobs)(delayed(measure)(seed, args.steps) for seed in range(args.seeds))
print(f"sklntp {__version__}, numpy {np.__version__}, Python {platform.python_version()}")
print(f"{args.seeds} seeds, 20 tokens, 60 sentences, eta = {STEP_SIZE}; median (min to max)")

# %%
# Stage 1: by symmetry the direction is that of the reference from the first step.
ov = [rate["ov"] for rate in rates]
last = [rate.directions["ov"].dist[-1] for rate in ov]
print(f"\nW_ov after {STAGE_1_STEPS} steps")
print(
    f"  direction exact (dist <= 1e-9) from step {max(r.directions['ov'].exact_from for r in ov)}"
)
print(f"  dist at the end: {spread(last, '.1e')}")
print(f"  norm / (eta t): {spread([rate.norm_ratio[-1] for rate in ov], '.6f')}")
slopes = [rate.log_loss_slope for rate in ov]
print(f"  slope of the log of the loss: {spread(slopes, '.4f')}, R^2 of the line at least ", end="")
print(f"{min(rate.log_loss_r2 for rate in ov):.4f}")

# %%
# Stage 2: the constants of the claimed bound and of the next smaller one, decade by decade.
kq = [rate["kq"] for rate in rates]
direction = [rate.directions["kq"] for rate in kq]
print(f"\nW_kq\n{'t':>9}  {'dist t / log^2 t':24} {'dist t / log t':24} norm / (eta t)")
for i, t in enumerate(kq[0].t):
    if t > 1:
        print(
            f"{t:9d}  {spread([d.dist_over_log2[i] for d in direction]):24} "
            f"{spread([d.dist_over_log[i] for d in direction]):24} "
            f"{spread([rate.norm_ratio[i] for rate in kq], '.5f')}"
        )
fits = [d.overall for d in direction]
print(f"exponent of dist over t = {fits[0].first} ... {fits[0].last}: ", end="")
print(spread([fit.exponent for fit in fits]))
print(f"  of log^2 t / t there: {fits[0].exponent_log2:.3f}, of log t / t: ", end="")
print(f"{fits[0].exponent_log:.3f}, of 1 / t: -1")
faster = sum(fit.exponent < fit.exponent_log2 for fit in fits)
print(f"  dist falls faster than log^2 t / t in {faster} of {len(fits)} runs")

# %%
# The loss falls to its floor on a line that bends, and the accuracy is there before.
print("\nloss of stage 2")
print(f"  slope of the log of the loss: {spread([rate.log_loss_slope for rate in kq])}", end="")
print(f", R^2 {spread([rate.log_loss_r2 for rate in kq])}")
print(f"  floor reached at step: {spread([rate.floor_step for rate in kq], '.0f')}")
print(f"  floor, log of the loss: {spread([rate.floor for rate in kq])}")
print(f"  training accuracy 1 from step: {spread([rate.first_accurate for rate in kq], '.0f')}")
