"""How the time of a stage-2 step grows: with nonzeros, with the vocabulary, with duplicates.

Expected: proportionally to the nonzeros (slope 1 on log-log, less where the calls of few
sentences cost as much as their arithmetic), and not at all with the other two.
All problems of a sweep are timed in alternation, on one thread.
"""

from pathlib import Path

import numpy as np
from common import Row, alternate, duration, progress, run_alone
from threadpoolctl import threadpool_limits
from workload import SecondStage, realizable_sentences

_ROUND = 5_000_000  # nonzeros that each problem works through per round: small ones repeat
_CALLS = 20  # but no more often than this


def step_seconds(stages, rounds):
    """Median seconds of a step of each problem."""
    repeats = {
        str(i): min(_CALLS, max(1, _ROUND // (stage.n_nonzeros * stage.evaluations())))
        for i, stage in enumerate(stages)
    }
    runs = {str(i): stage.run for i, stage in enumerate(stages)}
    seconds = alternate(runs, rounds, repeats=repeats)
    return np.array(
        [np.median(seconds[str(i)]) / stage.evaluations() for i, stage in enumerate(stages)]
    )


def nonzeros(sizes, n_tokens, rounds):
    """Nonzeros and seconds for growing numbers of sentences over one vocabulary."""
    X, y = realizable_sentences(n_tokens, sizes[-1])
    stages = [SecondStage(X[:size], y[:size]) for size in sizes]
    return np.array([stage.n_nonzeros for stage in stages]), step_seconds(stages, rounds)


def vocabularies(sizes, n_sentences, rounds):
    """Vocabulary sizes and seconds per nonzero for one number of sentences.

    The one-token sentences of the vocabulary come on top; they take no part in a step.
    """
    stages = [SecondStage(*realizable_sentences(size, n_sentences + size)) for size in sizes]
    per_step = step_seconds(stages, rounds)
    return np.array(sizes), per_step / [stage.n_nonzeros for stage in stages]


def duplicates(repeats, n_tokens, n_sentences, rounds):
    """How often each sentence occurs, and seconds."""
    X, y = realizable_sentences(n_tokens, n_sentences)
    stages = [SecondStage(X * k, np.tile(y, k)) for k in repeats]
    return np.array(repeats), step_seconds(stages, rounds)


def slope(x, y):
    """Least-squares slope of log y over log x."""
    return float(np.polyfit(np.log(x), np.log(y), 1)[0])


def draw(path, by_nonzeros, by_vocabulary, by_duplicates):
    """One figure with a panel per sweep."""
    import matplotlib

    matplotlib.use("Agg")
    matplotlib.rcParams["svg.hashsalt"] = "growth"  # the same figures give the same file
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, NullFormatter

    blue, orange = "#0072b2", "#d55e00"  # told apart by every kind of colour vision
    style = {"color": blue, "marker": "o", "label": "measured"}
    figure, axes = plt.subplots(1, 3, figsize=(12, 3.8), layout="constrained")
    x, seconds = by_nonzeros
    axes[0].loglog(x / 1e6, seconds * 1e3, **style)
    line = np.exp(np.mean(np.log(seconds / x))) * x
    axes[0].loglog(x / 1e6, line * 1e3, color=orange, linestyle="--", label="slope 1")
    axes[0].set(xlabel="nonzeros (millions)", ylabel="time of a step (ms)")
    for axis in (axes[0].xaxis, axes[0].yaxis):
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter("{x:g}")
        axis.set_minor_formatter(NullFormatter())
    axes[0].set_title(f"Nonzeros: slope {slope(x, seconds):.2f}")
    axes[0].legend(frameon=False)
    x, seconds = by_vocabulary
    axes[1].semilogx(x, seconds * 1e9, **style)
    axes[1].xaxis.set_major_formatter("{x:,.0f}")
    axes[1].set(xlabel="tokens in the vocabulary", ylabel="time of a step per nonzero (ns)")
    axes[1].set_title(f"Vocabulary: largest / smallest {seconds.max() / seconds.min():.2f}")
    x, seconds = by_duplicates
    axes[2].plot(x, seconds * 1e3, **style)
    axes[2].set(xlabel="occurrences of every sentence", ylabel="time of a step (ms)", xticks=x)
    axes[2].set_title(f"Duplicates: largest / smallest {seconds.max() / seconds.min():.2f}")
    for axis in axes[1:]:
        axis.set_ylim(0, axis.get_ylim()[1] * 1.3)
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)
    metadata = {"Date": None} if Path(path).suffix == ".svg" else None
    figure.savefig(path, dpi=150, metadata=metadata)
    plt.close(figure)


def measure(scale=1.0, rounds=9, figure=None):
    """The rows of the three sweeps; with `figure`, a path to draw them to."""
    n_tokens = 999 if scale >= 1 else 99
    sizes = [int(scale * n) for n in (25_000, 50_000, 100_000, 200_000, 400_000, 800_000)]
    vocabulary_sizes = (99, 300, 999, 3_000, 9_999, 30_000)
    repeats = (1, 2, 5, 10, 20)
    n_varied, n_repeated = int(scale * 100_000), int(scale * 20_000)
    with threadpool_limits(1):
        progress("growth: with nonzeros")
        by_nonzeros = nonzeros(sizes, n_tokens, rounds)
        progress("growth: with the vocabulary")
        by_vocabulary = vocabularies(vocabulary_sizes, n_varied, rounds)
        progress("growth: with duplicates")
        by_duplicates = duplicates(repeats, n_tokens, n_repeated, rounds)
    if figure is not None:
        draw(figure, by_nonzeros, by_vocabulary, by_duplicates)
    x, seconds = by_nonzeros
    rows = [
        Row(
            f"slope of log time over log nonzeros, {x[0]:,} to {x[-1]:,}",
            f"{duration(seconds[0])} to {duration(seconds[-1])} a step",
            "1: proportional",
            slope(x, seconds),
            at_most=1.1,
        )
    ]
    for what, (_, seconds), unit in (
        (f"{vocabulary_sizes[0]} to {vocabulary_sizes[-1]:,} tokens", by_vocabulary, " a nonzero"),
        (f"every sentence {repeats[0]} to {repeats[-1]} times", by_duplicates, " a step"),
    ):
        rows.append(
            Row(
                f"largest to smallest time, {what}",
                f"{duration(seconds.max())}{unit}",
                f"smallest: {duration(seconds.min())}{unit}",
                seconds.max() / seconds.min(),
                at_most=1.5,
            )
        )
    return rows


if __name__ == "__main__":
    run_alone(measure, __doc__)
