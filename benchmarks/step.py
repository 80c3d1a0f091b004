"""Cost of a stage-2 step on 100,000 sentences over 1,000 tokens, one thread.

Prints nanoseconds per nonzero (a distinct token of a merged context) and step, and the ratio to
one np.exp over the same number of float64, timed in turn with the steps so that a change in the
machine's speed hits both.
"""

import argparse
import platform
import statistics
import time
from pathlib import Path

import numpy as np
import scipy
from threadpoolctl import threadpool_limits

from sklntp._dataset import build_dataset
from sklntp._ngd import StepSizes, normalized_gradient_descent
from sklntp._training import AttentionProblem, train, zero_model
from sklntp.datasets import make_realizable_ntp


def cpu_name():
    """The processor's name where the system tells it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def timed(function):
    """Seconds that one call takes."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def main():
    """Generate, train stage 1, time steps of stage 2 against np.exp."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sentences", type=int, default=100_000)
    parser.add_argument("--tokens", type=int, default=1_000)
    parser.add_argument("--max-length", type=int, default=16)
    parser.add_argument("--steps", type=int, default=10, help="steps per round")
    parser.add_argument("--rounds", type=int, default=15)
    args = parser.parse_args()

    bunch = make_realizable_ntp(
        args.tokens, args.sentences, max_length=args.max_length, random_state=0
    )
    start = time.perf_counter()
    data = build_dataset(bunch.X, bunch.y)
    encoding = time.perf_counter() - start
    model = train(data, zero_model(data), ("ov",), [StepSizes(0.2, stop=100)])
    problem = AttentionProblem(data, model)
    theta, steps = problem.start, StepSizes(0.2, stop=args.steps)
    n = len(problem.loss.index)
    x = np.random.default_rng(0).normal(size=n)
    out = np.empty_like(x)

    step_times, exp_times = [], []
    for _ in range(args.rounds):
        start = time.perf_counter()
        theta = normalized_gradient_descent(problem.loss, theta, steps=steps).theta
        # The starting point is evaluated too: one evaluation more than there are steps.
        step_times.append((time.perf_counter() - start) / (args.steps + 1))
        exp_times.append(statistics.fmean(timed(lambda: np.exp(x, out=out)) for _ in range(10)))
    ratios = [s / e for s, e in zip(step_times, exp_times, strict=True)]
    step, one_exp = statistics.median(step_times), statistics.median(exp_times)
    print(f"{cpu_name()}; numpy {np.__version__}, scipy {scipy.__version__}")
    print(
        f"{args.sentences} sentences over {args.tokens} tokens, encoded in {encoding:.2f} s: "
        f"{len(data.contexts)} contexts, {n} nonzeros, {len(theta)} pairs"
    )
    print(f"step: {step * 1e3:.2f} ms, {step / n * 1e9:.2f} ns per nonzero and step")
    print(f"np.exp: {one_exp / n * 1e9:.2f} ns per float64")
    print(f"ratio: {statistics.median(ratios):.1f} np.exp (min {min(ratios):.1f})")


if __name__ == "__main__":
    with threadpool_limits(1):
        main()
