"""What the benchmarks share: a row of the table, timing in alternation, names of the machine."""

import argparse
import inspect
import multiprocessing
import os
import platform
import resource
import statistics
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import numpy as np

PACKAGES = ("numpy", "scipy", "scikit-learn", "joblib", "torch")


@dataclass(frozen=True)
class Row:
    """One line of the table.

    The ratio is ours to the yardstick where there is a largest one allowed (`at_most`), and the
    yardstick to ours where there is a smallest (`at_least`). Without either it is for information.
    """

    what: str
    ours: str
    yardstick: str
    ratio: float
    at_most: float | None = None
    at_least: float | None = None

    @property
    def met(self):
        """Whether the ratio is within its target; None without one."""
        if self.at_most is not None:
            return self.ratio <= self.at_most
        if self.at_least is not None:
            return self.ratio >= self.at_least
        return None

    def cells(self):
        """The cells of the line, as text."""
        target = "-"
        if self.at_most is not None:
            target = f"at most {self.at_most:g}"
        elif self.at_least is not None:
            target = f"at least {self.at_least:g}"
        verdict = {True: "yes", False: "**no**", None: "-"}[self.met]
        return [self.what, self.ours, self.yardstick, significant(self.ratio), target, verdict]


HEADER = ["what", "ours", "yardstick", "ratio", "target", "met"]


def significant(number, digits=3):
    """The number with three significant digits, thousands separated and no exponent."""
    if not np.isfinite(number):
        return str(number)
    if number == 0.0:
        return "0"
    decimals = max(0, digits - 1 - int(np.floor(np.log10(abs(number)))))
    return f"{number:,.{decimals}f}"


def duration(seconds):
    """Seconds as text in a unit that suits them."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= size:
            return f"{significant(seconds / size)} {unit}"
    return f"{significant(seconds * 1e9)} ns"


def markdown_table(header, lines):
    """A Markdown table; every line is a list of as many cells as the header."""
    lines = [[str(cell).replace("|", "\\|") for cell in line] for line in lines]
    wrong = [line for line in lines if len(line) != len(header)]
    if wrong:
        raise ValueError(f"A line must have {len(header)} cells; got {len(wrong[0])}: {wrong[0]}.")
    rows = [header, ["---"] * len(header), *lines]
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


def timed(function):
    """Seconds that one call takes."""
    start = time.perf_counter()
    function()
    return time.perf_counter() - start


def alternate(functions, rounds, *, repeats=None):
    """Seconds per call of each function, one array of `rounds` each.

    Each round calls all of them one after the other, so that a change in the machine's speed hits
    all alike; every function is called once before, unmeasured.

    Parameters
    ----------
    functions : dict of str to callable
    rounds : int
    repeats : dict of str to int, default=None
        Calls per round, where one is too short to be timed alone.
    """
    repeats = repeats or {}
    for function in functions.values():
        function()
    seconds = {name: np.empty(rounds) for name in functions}
    for i in range(rounds):
        for name, function in functions.items():
            n = repeats.get(name, 1)
            start = time.perf_counter()
            for _ in range(n):
                function()
            seconds[name][i] = (time.perf_counter() - start) / n
    return seconds


def median_ratio(above, below):
    """Median over rounds of the ratio of two results of `alternate`."""
    return statistics.median(np.asarray(above) / np.asarray(below))


def in_subprocess(function, *args, **kwargs):
    """The result of a function called in a fresh process, which starts with no module loaded."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(1, mp_context=context) as pool:
        return pool.submit(function, *args, **kwargs).result()


def peak_memory():
    """Largest resident memory of this process so far, in bytes."""
    status = Path("/proc/self/status")
    if status.exists():  # getrusage starts from the memory of the process that started this one
        for line in status.read_text().splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) * 1024
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024


def progress(message):
    """A line on stderr with the time."""
    print(f"{time.strftime('%H:%M:%S')} {message}", file=sys.stderr, flush=True)


def show(rows):
    """Print rows as the table they are a part of."""
    print(markdown_table(HEADER, [row.cells() for row in rows]))


def run_alone(measure, description, display=show):
    """Measure and print, with the numbers and names that `measure` takes as options."""
    parser = argparse.ArgumentParser(description=description.splitlines()[0])
    for name, parameter in inspect.signature(measure).parameters.items():
        default = parameter.default
        if not isinstance(default, tuple):
            option = "--" + name.removeprefix("n_").replace("_", "-")
            kind = str if default is None else type(default)
            parser.add_argument(
                option, dest=name, type=kind, default=default, help=f"default: {default}"
            )
    display(measure(**vars(parser.parse_args())))


def cpu_name():
    """The processor's name where the system tells it."""
    info = Path("/proc/cpuinfo")
    if info.exists():
        for line in info.read_text().splitlines():
            if line.startswith("model name"):
                return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def simd_level():
    """The largest instruction set that numpy found, and whether it is AVX-512."""
    if "mode" not in np.show_config.__code__.co_varnames:  # before numpy 1.25
        return "SIMD level unknown to this numpy"
    found = np.show_config(mode="dicts").get("SIMD Extensions", {})
    names = [*found.get("baseline", []), *found.get("found", [])]
    wide = any(name.startswith("AVX512") or name == "X86_V4" for name in names)
    return f"{'with' if wide else 'without'} AVX-512 (numpy uses {names[-1] if names else 'none'})"


def memory_size():
    """Main memory as text."""
    size = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return f"{size / 2**30:.0f} GB of memory"


def machine():
    """What the figures were measured on, as lines of text."""
    return [
        f"{cpu_name()}, {simd_level()}; {os.cpu_count()} cores; {memory_size()}; "
        f"{platform.system()} {platform.release()}",
        f"Python {platform.python_version()}, "
        + ", ".join(f"{name} {version(name)}" for name in PACKAGES),
    ]
