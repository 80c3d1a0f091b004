"""Where a step of stage 2 goes: shares of its operations, and their distance to a plain copy.

Every statement of a step is timed, by a clock read after it, and counted to a kind of operation;
bytes are those of its operands. Beside it stands what moving as many bytes takes at the speed of
`np.copyto` on arrays as large as a block's, which stay in the cache; a sentence adds what it would
take in memory, and what the rest of the step is.
"""

import importlib
import sys
from dataclasses import dataclass

import numpy as np
from clocked import ClockedImports
from common import (
    alternate,
    duration,
    in_subprocess,
    markdown_table,
    progress,
    run_alone,
    significant,
)
from threadpoolctl import threadpool_limits

KINDS = {
    "exp": "`exp` over the nonzeros",
    "take": "gather of attention per nonzero (`take`)",
    "scatter": "scatter of the gradient (sparse product)",
    "elementwise": "other arithmetic over the nonzeros",
    "sum": "sums over a context",
    "contexts": "arithmetic per context",
    "entries": "the table of W_kq's entries: `exp`, products",
    "pairs": "passes over W_kq: sum of blocks, norm, update",
    "other": "calls and bookkeeping",
}
HEADER = [
    "operation",
    "ns per nonzero",
    "share",
    "bytes per nonzero",
    "ns at copy speed",
    "ns above it",
]
_MODULES = ("_block", "_distinct_block", "_losses", "_ngd", "_sums")


@dataclass(frozen=True)
class Profile:
    """The table, and sentences about it."""

    lines: list
    notes: list

    def markdown(self):
        """Both as text."""
        return "\n\n".join([markdown_table(HEADER, self.lines), "\n".join(self.notes)])


def _clocked_steps(n_tokens, n_sentences, rounds):
    """Seconds and bytes by kind, nonzeros of all and of a block, a step without clocks."""
    stage = _stage(n_tokens, n_sentences)
    plain = np.median(alternate({"step": stage.run}, rounds)["step"]) / stage.evaluations()
    clock = ClockedImports("sklntp", _MODULES).clock
    del sys.modules["workload"]  # its classes are those from before
    stage = _stage(n_tokens, n_sentences)
    clock.levels = _levels(stage.loss)
    stage.run()
    clock.reset()
    for _ in range(rounds):
        stage.run()
    n_steps = rounds * stage.evaluations()
    seconds = {kind: value / n_steps for kind, value in clock.seconds.items()}
    moved = {kind: value / n_steps for kind, value in clock.bytes.items()}
    block = max(block.n_tokens for block in stage.loss.blocks)
    return seconds, moved, stage.n_nonzeros, block, plain


def _levels(loss):
    """What arrays of some sizes hold, other than a number per context."""
    levels = {loss.n_pairs: "pairs"}
    for block in loss.blocks:
        repeated, n = block.entries.repeated, block.entries.n_pairs
        pairs = [n, n + 1 + len(repeated), len(repeated), len(np.unique(repeated))]
        others = [flat.stop - flat.start for _, flat, shape, _ in block.segments if shape[0] > 1]
        levels |= dict.fromkeys(pairs, "pairs")
        levels |= dict.fromkeys([block.n_tokens, *others], "nonzeros")
    return levels


def _stage(n_tokens, n_sentences):
    workload = importlib.import_module("workload")
    return workload.SecondStage(*workload.realizable_sentences(n_tokens, n_sentences))


def copy_speed(n_numbers, seconds=0.2):
    """Bytes per second, read and written, of `np.copyto` between arrays of n float64."""
    source, target = np.random.default_rng(0).random(n_numbers), np.zeros(n_numbers)
    calls = max(1, int(seconds * 5e9 / (16 * n_numbers)))
    copy = {"copy": lambda: np.copyto(target, source)}
    return 16 * n_numbers / np.median(alternate(copy, 5, repeats={"copy": calls})["copy"])


def _measure(n_tokens, n_sentences, rounds):
    with threadpool_limits(1):
        seconds, moved, n, block, plain = _clocked_steps(n_tokens, n_sentences, rounds)
        cache, memory = copy_speed(block), copy_speed(1 << 25)
    total, bytes_moved = sum(seconds.values()), sum(moved.values())

    def line(name, time, size):
        numbers = (size / n, size / cache / n * 1e9, (time - size / cache) / n * 1e9)
        per_nonzero = significant(time / n * 1e9)
        return [name, per_nonzero, f"{time / total:.0%}", *map(significant, numbers)]

    kinds = sorted(seconds, key=seconds.get, reverse=True)
    lines = [line(KINDS[kind], seconds[kind], moved.get(kind, 0.0)) for kind in kinds]
    lines.append(line("a step", total, bytes_moved))

    def above(*kinds):
        return sum(seconds[kind] - moved.get(kind, 0.0) / cache for kind in kinds)

    def share(time):
        return f"{significant(time / n * 1e9)} ns per nonzero, {time / total:.0%} of the step"

    irregular, exp, calls = above("take", "scatter"), above("exp"), above("other")
    rest = above(*kinds)
    notes = [
        f"{n_sentences:,} sentences, {n_tokens:,} tokens, {n:,} nonzeros, one thread. "
        f"With clocks a step takes {duration(total)}, without {duration(plain)}.",
        f"`np.copyto` moves {cache / 1e9:.1f} GB/s within the cache ({block:,} numbers, those of a "
        f"block), {memory / 1e9:.1f} GB/s in memory. Moving the bytes of all operands would take, "
        f"within the cache, {share(bytes_moved / cache)}, and in memory "
        f"{share(bytes_moved / memory)}.",
        f"What is above the speed of the cache, {share(rest)}, is irregular access of `take` and "
        f"scatter ({irregular / total:.0%}), `exp` over the nonzeros ({exp / total:.0%}), calls "
        f"and bookkeeping ({calls / total:.0%}), and all other arithmetic "
        f"({(rest - irregular - exp - calls) / total:.0%}).",
    ]
    return Profile(lines, notes)


def measure(n_tokens=999, n_sentences=400_000, rounds=10):
    """The profile of a step, from a process of its own: it imports the package twice."""
    progress("step_profile: timing every statement of a step")
    return in_subprocess(_measure, n_tokens, n_sentences, rounds)


if __name__ == "__main__":
    run_alone(measure, __doc__, lambda found: print(found.markdown()))
