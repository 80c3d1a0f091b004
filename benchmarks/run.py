"""All benchmarks: one Markdown table, dated, with the machine and the versions named.

Every section runs in a process of its own. A section that fails is a line of the table too, and
the command then ends with an error.
"""

import argparse
import ast
import importlib
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from common import HEADER, duration, in_subprocess, machine, markdown_table, progress

PAGE = Path(__file__).parents[1] / "docs" / "benchmarks.md"
TITLE = "# Benchmarks"
FIGURE = "growth.svg"


@dataclass(frozen=True)
class Section:
    """A module with `measure(...)`, its sizes here, and those of a quick try."""

    title: str
    module: str
    sizes: dict = field(default_factory=dict)
    quick: dict = field(default_factory=dict)


SECTIONS = [
    Section(
        "A step of stage 2",
        "step",
        quick={"n_sentences": 20_000, "rounds": 5},
    ),
    Section(
        "Growth",
        "growth",
        quick={"scale": 0.05, "rounds": 3},
    ),
    Section(
        "Other ways to write stage 2",
        "peers",
        quick={
            "n_tokens": 200,
            "n_sentences": 5_000,
            "rounds": 2,
            "dense_sizes": (256, 512),
            "loop_sizes": (200, 400),
        },
    ),
    Section(
        "Several next tokens",
        "general",
        sizes={"rounds": 3},
        quick={"n_sequences": 150, "rounds": 2},
    ),
    Section(
        "Encoding",
        "encoding",
        sizes={"forms": ["lists of str", "2-D array of int"]},
        quick={"n_sentences": 20_000, "forms": ["lists of str"]},
    ),
    Section("Size", "size", quick={"scale": 0.02, "n_steps": 10, "forms": ("arrays",)}),
    Section("Acceptance", "acceptance", quick={"scale": 0.05, "rounds": 3}),
    Section(
        "scikit-learn's classifiers, for information",
        "classifiers",
        quick={"n_tokens": 20, "n_sentences": 500},
    ),
    Section(
        "References of stage 2, for information",
        "references",
        quick={"repeats": 1, "cases": ["chain of 3,000 tokens"]},
    ),
]
PROFILE = Section("Where a step goes", "step_profile", quick={"n_sentences": 20_000, "rounds": 3})

INTRODUCTION = """\
`make bench` wrote this page, by `benchmarks/run.py`. Every ratio is of two times, or of a memory
and its bound, of this one run, and in most sections of medians over rounds in which both sides
take turns. Where the target is a largest ratio it is ours to the yardstick, where it is a smallest
one, the yardstick to ours; lines without a target are for information. The machine:"""

INSTALLATION = """\
The extra `bench` has what is needed. Of PyTorch the CPU build is enough, which Linux gets with
`pip install "torch==2.13.*" --index-url https://download.pytorch.org/whl/cpu` before
`pip install ".[bench]"`; the plain index has the larger CUDA build there."""


def measured(module, sizes):
    """What `measure` of a module returns; called in a process of its own."""
    return importlib.import_module(module).measure(**sizes)


def attempt(section, sizes):
    """What the section measured, or the error that stopped it: the others still run."""
    start = time.perf_counter()
    progress(f"{section.title} ...")
    try:
        found = in_subprocess(measured, section.module, sizes)
    except Exception as error:
        progress(f"{section.title}: FAILED, {type(error).__name__}: {error}")
        return error
    progress(f"{section.title}: {duration(time.perf_counter() - start)}")
    return found


def lines_of(section, found):
    """The section's lines of the table."""
    heading = [f"**{section.title}**", *[""] * (len(HEADER) - 1)]
    if isinstance(found, Exception):
        error = f"{type(found).__name__}: {found}".splitlines()[0]
        return [heading, [f"`{section.module}.py` failed", "-", error, "-", "-", "**no**"]]
    return [heading, *[row.cells() for row in found]]


def comparisons():
    """What the scripts of all sections say about themselves."""
    return [
        f"**{section.title}** (`benchmarks/{section.module}.py`). "
        + ast.get_docstring(
            ast.parse(Path(__file__).with_name(f"{section.module}.py").read_bytes())
        )
        for section in [*SECTIONS, PROFILE]
    ]


def page(results, quick):
    """The Markdown page, from what each module measured."""
    lines = [line for section in SECTIONS for line in lines_of(section, results[section.module])]
    profile = results[PROFILE.module]
    parts = [
        TITLE,
        f"Measured on {time.strftime('%Y-%m-%d')}."
        + (" **Small sizes, to try the command: the ratios mean nothing.**" if quick else ""),
        INTRODUCTION,
        "\n".join(f"- {line}" for line in machine()),
        markdown_table(HEADER, lines),
        f"![Time of a step against nonzeros, vocabulary and duplicates]({FIGURE})",
        f"## {PROFILE.title}",
        f"Failed: {profile}" if isinstance(profile, Exception) else profile.markdown(),
        "## What is compared",
        *comparisons(),
        "## Running it",
        INSTALLATION,
    ]
    return "\n\n".join(parts) + "\n"


def main():
    """Run the sections and write the page; the exit status is 1 where one failed."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small sizes; prints the page")
    parser.add_argument("--output", type=Path, help=f"where to write; {PAGE.name} in docs/")
    args = parser.parse_args()
    output = args.output or (None if args.quick else PAGE)
    if output is not None:
        output.parent.mkdir(parents=True, exist_ok=True)  # not found missing after all is measured
    start, results = time.perf_counter(), {}
    for section in [*SECTIONS, PROFILE]:
        sizes = section.quick if args.quick else section.sizes
        if section.module == "growth" and output is not None:
            sizes = sizes | {"figure": str(output.with_name(FIGURE))}
        results[section.module] = attempt(section, sizes)
    text = page(results, args.quick)
    if output is None:
        print(text)
    else:
        output.write_text(text, encoding="utf-8")
    progress(f"all of it: {(time.perf_counter() - start) / 60:.1f} minutes")
    return int(any(isinstance(found, Exception) for found in results.values()))


if __name__ == "__main__":
    sys.exit(main())
