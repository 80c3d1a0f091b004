"""The benchmark scripts import without what the extra `bench` adds, and write what they measured.

Nothing here is timed.
"""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csc_array

pytest.importorskip("threadpoolctl")  # of the extra "test" too, but not on the oldest versions

from sklntp.structure import check_realizable

FOLDER = Path(__file__).parents[1] / "benchmarks"
SCRIPTS = sorted(path.stem for path in FOLDER.glob("*.py"))


@pytest.fixture
def script(monkeypatch):
    """Import a script by its name, as `python benchmarks/NAME.py` would."""
    monkeypatch.syspath_prepend(str(FOLDER))
    before = set(sys.modules)
    yield importlib.import_module
    for name in set(sys.modules) - before:
        if name.split(".")[0] in SCRIPTS:
            del sys.modules[name]


@pytest.mark.parametrize("name", SCRIPTS)
def test_a_script_imports_without_the_extra(script, monkeypatch, name):
    for package in ("torch", "matplotlib", "cvxpy", "polars", "pandas"):
        monkeypatch.setitem(sys.modules, package, None)  # importing it fails
    module = script(name)
    assert module.__doc__


def test_every_section_of_the_table_has_a_script(script):
    run = script("run")
    assert {section.module for section in [*run.SECTIONS, run.PROFILE]} <= set(SCRIPTS)


@pytest.mark.parametrize(
    "ratio, target, cells",
    [
        (8.126, {"at_most": 9}, ["8.13", "at most 9", "yes"]),
        (2.3, {"at_most": 2.2}, ["2.30", "at most 2.2", "**no**"]),
        (3120.0, {"at_least": 300}, ["3,120", "at least 300", "yes"]),
        (1.2, {"at_least": 1.4}, ["1.20", "at least 1.4", "**no**"]),
        (np.nan, {"at_most": 1}, ["nan", "at most 1", "**no**"]),
        (0.0123, {}, ["0.0123", "-", "-"]),
    ],
)
def test_a_row_says_whether_its_target_is_met(script, ratio, target, cells):
    row = script("common").Row("a step", "1 ms", "2 ms", ratio, **target)
    assert row.cells() == ["a step", "1 ms", "2 ms", *cells]


@pytest.mark.parametrize(
    "seconds, text",
    [(123.4, "123 s"), (0.0123, "12.3 ms"), (4.56e-6, "4.56 µs"), (7.8e-9, "7.80 ns")],
)
def test_durations_have_a_unit_that_suits_them(script, seconds, text):
    assert script("common").duration(seconds) == text


def test_a_table_keeps_its_columns(script):
    common = script("common")
    table = common.markdown_table(["a", "b"], [["x | y", 1]])
    assert table.splitlines() == ["| a | b |", "| --- | --- |", "| x \\| y | 1 |"]
    with pytest.raises(ValueError, match="2 cells; got 1"):
        common.markdown_table(["a", "b"], [["x"]])


def test_a_failed_section_is_a_line_of_the_page(script):
    run = script("run")
    row = script("common").Row("a step", "1 ms", "2 ms", 2.0, at_least=1)
    results = {section.module: [row] for section in run.SECTIONS}
    results["peers"] = ModuleNotFoundError("No module named 'torch'")
    results[run.PROFILE.module] = ValueError("no clock")
    text = "\n".join(
        line for s in run.SECTIONS for line in map(str, run.lines_of(s, results[s.module]))
    )
    assert "ModuleNotFoundError: No module named 'torch'" in text
    assert text.count("'a step'") == len(run.SECTIONS) - 1


def test_the_sentences_drawn_for_growth_are_realizable(script):
    X, y = script("workload").realizable_sentences(12, 500, max_length=6)
    report = check_realizable(X, y)
    assert len(X) == len(y) == 500
    assert max(map(len, X)) == 6
    assert report.regenerated == 1.0
    with pytest.raises(ValueError, match="multiple of 3"):
        script("workload").realizable_sentences(10, 500)


def test_peers_without_torch_agree_with_ours(script):
    workload, sentences, peers = (script(name) for name in ("workload", "sentences", "peers"))
    stage = workload.SecondStage(*workload.realizable_sentences(12, 300, max_length=6))
    padded = sentences.padded_sentences(stage)
    step, gradient = peers.numpy_loop(padded, peers.key_query_matrix(stage))
    value = stage.loss(stage.theta)
    assert step() == pytest.approx(value.loss, rel=1e-12)
    expected = value.gradient * np.exp(value.log_scale)
    np.testing.assert_allclose(gradient().T.ravel()[stage.pairs.key], expected, atol=1e-15)


def test_scaling_takes_the_cheaper_subset(script):
    seconds, how = script("peers").scaled({10: np.array([2.0]), 20: np.array([3.0])}, 100)
    assert seconds.tolist() == [15.0]
    assert "from 20 sentences" in how


CLOCKED = """
import numpy as np
ONE = np.ones(1)

def attention(mass, index, flat, columns, shape, matrix):
    mass *= 2.0
    own = take(mass, index)
    g = own[flat].reshape(shape)
    np.exp(g, out=g)
    own[flat] *= 0.5
    np.add.reduce(g, axis=0, out=own[columns])
    own[columns] += 1.0
    matrix.data = own
    return matrix @ ONE

def take(mass, index):
    return mass.take(index)
"""


def test_a_clocked_module_computes_the_same(script):
    """Every assignment and call is counted, to the kind that its operands tell."""
    clocked = script("clocked")
    clock = clocked.Clock()
    clock.levels = {3: "pairs", 4: "nonzeros", 6: "nonzeros"}
    index, shape = np.array([0, 1, 2, 2, 1, 0]), (2, -1)  # two of contexts, then two for each
    results = []
    for source in (CLOCKED, clocked._with_ticks(CLOCKED, "a_block", clock)):
        space = {"_tick": clock.tick}
        exec(compile(source, "a_block", "exec"), space)
        clock.reset()
        mass, matrix = np.array([0.5, 1.0, 2.0]), csc_array((np.ones(6), index, [0, 6]))
        results.append(space["attention"](mass, index, slice(2, 6), slice(2), shape, matrix))
    np.testing.assert_array_equal(*results)
    number, place = 8, matrix.indices.itemsize
    assert dict(clock.bytes) == {
        "entries": 2 * 3 * number,
        "take": 6 * (index.itemsize + 2 * number),
        "exp": 2 * 4 * number,
        "elementwise": 2 * 4 * number,
        "sum": (4 + 2) * number,
        "contexts": 2 * 2 * number,
        "scatter": 6 * (place + 3 * number),
    }
    assert set(clock.seconds) == {*clock.bytes, "other"}
    assert set(clock.seconds) <= set(script("step_profile").KINDS)


def test_a_profile_has_a_line_for_every_kind_of_operation(script):
    step_profile = script("step_profile")
    profile = step_profile.measure(99, 3_000, 1)
    assert sorted(line[0] for line in profile.lines[:-1]) == sorted(step_profile.KINDS.values())
    assert profile.lines[-1][0] == "a step"
