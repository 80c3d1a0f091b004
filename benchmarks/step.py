"""Cost of a stage-2 step, beside the operations that no version of it can avoid.

Both yardsticks are timed in turn with the step, on the same arrays: one `np.exp` over the nonzeros
(comparable only where numpy uses AVX-512), and E = two exp, one take and one bincount.
"""

import time

import numpy as np
from common import Row, alternate, duration, median_ratio, progress, run_alone
from threadpoolctl import threadpool_limits
from workload import SecondStage

from sklntp._threads import Threads
from sklntp.datasets import make_realizable_ntp

_STEPS = 9  # in a row, as in training: the first one finds the caches as something else left them


def measure(n_sentences=400_000, n_tokens=1_000, max_length=16, rounds=15):
    """The rows of a step against both yardsticks, and of two threads against one."""
    start = time.perf_counter()
    bunch = make_realizable_ntp(n_tokens, n_sentences, max_length=max_length, random_state=0)
    generated = time.perf_counter()
    stage = SecondStage(bunch.X, bunch.y)
    progress(
        f"step: {n_sentences:,} sentences generated in {generated - start:.0f} s; encoded, merged "
        f"and trained for some steps in {time.perf_counter() - generated:.0f} s"
    )
    index, theta, n = stage.pair_index(), stage.theta, stage.n_nonzeros
    x = np.random.default_rng(0).normal(size=n)
    out = np.empty(n)
    n_bins = len(theta) + 1  # as the loss: one more for tokens without a parameter

    def one_exp():
        np.exp(x, out=out)

    def unavoidable():
        np.exp(x, out=out)
        np.exp(x, out=out)
        np.append(theta, 0.0).take(index, out=out, mode="wrap")
        np.bincount(index, weights=x, minlength=n_bins)

    with threadpool_limits(1), Threads(2) as threads:
        two = stage.threaded_loss(threads)
        seconds = alternate(
            {
                "one": lambda: stage.run(n_steps=_STEPS),
                "two": lambda: stage.run(two, _STEPS),
                "exp": one_exp,
                "E": unavoidable,
            },
            rounds,
            repeats={"exp": 4},
        )
    one, two = (seconds[name] / stage.evaluations(_STEPS) for name in ("one", "two"))
    exp, E = seconds["exp"], seconds["E"]
    step = np.median(one)
    ours = f"{duration(step)}, {step / n * 1e9:.1f} ns per nonzero"
    size = f"{n_sentences:,} sentences, {n_tokens:,} tokens, {n:,} nonzeros"
    return [
        Row(
            f"a step of stage 2, {size}, one thread",
            ours,
            f"one `np.exp` over the nonzeros: {duration(np.median(exp))}",
            median_ratio(one, exp),
            at_most=9,
        ),
        Row(
            "the same",
            ours,
            f"E = 2 exp + take + bincount: {duration(np.median(E))}",
            median_ratio(one, E),
            at_most=2.2,
        ),
        Row(
            "the same on two threads",
            duration(np.median(two)),
            f"one thread: {duration(step)}",
            median_ratio(one, two),
            at_least=1.4,
        ),
    ]


if __name__ == "__main__":
    run_alone(measure, __doc__)
