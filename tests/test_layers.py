"""Imports inside the package go downward only, and outside it to few packages."""

import ast
import sys
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

LAYERS = [
    [
        "_coding",
        "_columns",
        "_rows",
        "_sequences",
        "_ngrams",
        "_suffixes",
        "_sentence_ends",
        "_targets",
        "_solution",
        "_ngd",
        "_lbfgs",
        "_threads",
        "_memory",
        "_products",
        "_doc_link",
        "_version",
        "_saving",
    ],
    ["_contexts", "_collocation", "_held_out", "_orders"],
    [
        "_dataset",
        "_forward",
        "_prediction",
        "_gradients",
        "_block",
        "_sums",
        "_distinct_block",
        "_general_block",
        "_output",
        "_votes",
        "_joint_loss",
        "_losses",
        "_interior_point",
        "_max_margin",
        "_top_tokens",
        "_partial_order",
        "_smoothing",
    ],
    [
        "_model",
        "_stages",
        "_training",
        "_fitted",
        "_fitted_predictions",
        "_explanation",
        "_generation",
        "_progress",
        "_callbacks",
        "_realizability",
        "_alignment",
        "_generalization",
        "_rates",
        "_scorers",
        "_references",
        "structure",
        "datasets",
        "preprocessing",
        "_context_transformers",
        "_events",
        "_ngram_transformers",
        "model_selection",
        "metrics",
    ],
    [
        "_classifier",
        "_drawing",
        "_convergence_display",
        "_attention_display",
        "_order_display",
        "inspection",
    ],
    ["_recipe"],
    ["__init__", "__main__"],
]
LAYER = {module: layer for layer, modules in enumerate(LAYERS) for module in modules}
OUTSIDE = {"numpy", "scipy", "sklearn", "joblib"} | sys.stdlib_module_names

PACKAGE = Path(__file__).parents[1] / "sklntp"
SOURCES = {
    ".".join(path.relative_to(PACKAGE).with_suffix("").parts): path.read_text(encoding="utf-8")
    for path in sorted(PACKAGE.rglob("*.py"))
}


def _imported(statement):
    """Full dotted names that a statement may import (`from a import b`: a.b)."""
    if isinstance(statement, ast.Import):
        return [alias.name for alias in statement.names]
    if isinstance(statement, ast.ImportFrom):
        assert statement.level == 0, f"line {statement.lineno}: relative import"
        return [f"{statement.module}.{alias.name}" for alias in statement.names]
    return []


def _inside(source):
    """Modules of the package that a source imports anywhere, functions included."""
    names = [name.split(".") for node in ast.walk(ast.parse(source)) for name in _imported(node)]
    modules = {name[1] if len(name) > 1 else "__init__" for name in names if name[0] == "sklntp"}
    # `from sklntp import NAME`: a name that is no module comes from the package itself.
    return {module if module in LAYER | SOURCES else "__init__" for module in modules}


def _outside(source):
    """Top-level packages that importing a source imports: function bodies do not count."""
    packages, nodes = set(), [ast.parse(source)]
    while nodes:
        node = nodes.pop()
        packages |= {name.split(".")[0] for name in _imported(node)}
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda):
            nodes.extend(ast.iter_child_nodes(node))
    return packages - {"sklntp"}


def _upward(module, source):
    return {other for other in _inside(source) if LAYER.get(other, 0) > LAYER[module]}


def _cycle(sources):
    graph = {module: _inside(source) for module, source in sources.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        return error.args[1]
    return []


@pytest.mark.parametrize("module", SOURCES)
def test_a_module_imports_only_downward_and_few_packages(module):
    assert module in LAYER, f"add sklntp/{module}.py to LAYERS in tests/test_layers.py"
    assert _upward(module, SOURCES[module]) == set()
    assert _outside(SOURCES[module]) <= OUTSIDE


def test_no_import_cycle():
    assert _cycle(SOURCES) == []


@pytest.mark.parametrize(
    "source",
    [
        "from sklntp import NTPTransformerClassifier",
        "from sklntp import structure",
        "from sklntp.structure import partial_orders",
        "import sklntp.structure",
        "def f():\n    import sklntp",
    ],
)
def test_an_upward_import_is_seen(source):
    assert _upward("_losses", source)
    assert not _upward("__main__", source)


def test_a_cycle_and_a_foreign_package_are_seen():
    cycle = {"_losses": "import sklntp._max_margin", "_max_margin": "from sklntp import _losses"}
    assert set(_cycle(cycle)) == set(cycle)
    assert _outside("try:\n    import pandas as pd\nexcept ImportError: ...") == {"pandas"}
    assert _outside("def f():\n    import pandas") == set()
