"""Modules compiled with a clock read after every statement.

The source is taken as it is: nothing here changes when a step does. What a statement does is
decided from the functions it calls and the sizes of the arrays it reads and writes.
"""

import ast
import importlib.abc
import importlib.machinery
import inspect
import sys
import time
from collections import defaultdict
from dataclasses import dataclass

import numpy as np
from scipy.sparse import issparse

_VIEWS = {"reshape", "ravel", "view", "transpose"}  # calls that move no data


@dataclass(frozen=True)
class Statement:
    """What the source tells about a statement; operands are compiled, to be looked up later."""

    module: str
    calls: frozenset  # names of the functions called, and "@"
    reads: tuple
    writes: tuple
    returns: bool
    moves: bool  # computes, or moves data, instead of naming what is there


class Clock:
    """Seconds and bytes of the statements executed, by kind.

    `levels`, to be filled, tells flat arrays apart by their size: "nonzeros" or "pairs", and
    otherwise "contexts". Arrays with two axes hold nonzeros.
    """

    def __init__(self):
        self.levels, self.statements = {}, []
        self.reset()

    def reset(self):
        """Forget everything measured; the next statement counts from here."""
        self.seconds, self.bytes = defaultdict(float), defaultdict(float)
        self.caller = None
        self.last = time.perf_counter()

    def tick(self, number):
        """The statement of this number has ended."""
        elapsed = time.perf_counter() - self.last
        statement, frame, kind = self.statements[number], sys._getframe(1), "other"
        # Where a function returned to, the statement that called it did nothing but wait.
        if statement.moves and frame is not self.caller:
            reads, writes = _arrays(statement.reads, frame), _arrays(statement.writes, frame)
            kind = self._kind(statement, reads, writes)
            self.bytes[kind] += _traffic(kind, reads, writes)
            del reads, writes
        self.seconds[kind] += elapsed
        self.caller = frame.f_back if statement.returns else None
        self.last = time.perf_counter()

    def _kind(self, statement, reads, writes):
        into, out = (
            {"nonzeros" if a.ndim == 2 else self.levels.get(a.size, "contexts") for a in arrays}
            for arrays in (reads, writes)
        )
        if "@" in statement.calls:
            return "scatter"
        if "pairs" in out or into == {"pairs"}:
            return "entries" if statement.module.endswith("block") else "pairs"
        if "take" in statement.calls:
            return "take"
        if "nonzeros" in out:
            return "exp" if "exp" in statement.calls else "elementwise"
        if "nonzeros" in into:
            return "sum"
        return "contexts" if into or out else "other"


def _traffic(kind, reads, writes):
    """Bytes between a core and the caches: operands only, no temporaries."""
    if kind in ("take", "scatter"):
        # One entry of W_kq per index, in place of all of them: read, or read and written.
        index = next(a for a in reads if a.dtype.kind == "i")
        return index.nbytes + (2 if kind == "take" else 3) * 8 * index.size
    return sum(a.nbytes for a in reads + writes)


def _arrays(operands, frame):
    """The arrays among the operands, those of a sparse array in its place."""
    variables, found = frame.f_locals, []
    for code in operands:
        try:
            value = eval(code, frame.f_globals, variables)
        except (NameError, AttributeError, TypeError, IndexError):  # not bound, None, or bound anew
            continue
        parts = [value.data, value.indices] if issparse(value) else [value]
        found += [part for part in parts if isinstance(part, np.ndarray) and part.size]
    if isinstance(variables, dict) and frame.f_code.co_flags & inspect.CO_OPTIMIZED:
        variables.clear()  # a function's copy, which its frame keeps: it would hold freed memory
    return found


class _Operands(ast.NodeVisitor):
    """Names, attributes and subscripts that an expression reads, and what `out` names."""

    def __init__(self):
        self.reads, self.writes = set(), set()

    def visit_Name(self, node):
        self.reads.add(node.id)

    def visit_Attribute(self, node):
        """As a whole, to be looked up again, unless that would call a function again."""
        if any(isinstance(part, ast.Call) for part in ast.walk(node)):
            self.visit(node.value)
        else:
            self.reads.add(ast.unparse(node))

    def visit_Subscript(self, node):
        self.visit_Attribute(node)
        self.visit(node.slice)

    def visit_Call(self, node):
        if isinstance(node.func, ast.Attribute):
            self.visit(node.func.value)
        for argument in node.args:
            self.visit(argument)
        for keyword in node.keywords:
            if keyword.arg == "out":
                self.writes.add(ast.unparse(keyword.value))
            else:
                self.visit(keyword.value)

    def visit_Lambda(self, node):
        """Has names of its own."""

    visit_ListComp = visit_GeneratorExp = visit_DictComp = visit_SetComp = visit_Lambda


def _describe(node, module):
    operands = _Operands()
    operands.visit(node.value)
    inner, in_place = list(ast.walk(node.value)), isinstance(node, ast.AugAssign)
    targets = getattr(node, "targets", [node.target] if in_place else [])
    for target in targets:
        parts = target.elts if isinstance(target, ast.Tuple) else [target]
        operands.writes |= {ast.unparse(part) for part in parts}
    if in_place:
        operands.reads |= operands.writes
    calls = {
        getattr(call.func, "attr", getattr(call.func, "id", ""))
        for call in inner
        if isinstance(call, ast.Call)
    }
    calls |= {"@" for part in inner if isinstance(part, ast.MatMult)}
    moves = in_place or any(isinstance(target, ast.Subscript) for target in targets)
    moves |= bool(calls - _VIEWS) or any(isinstance(part, ast.BinOp) for part in inner)
    reads, writes = (
        tuple(compile(text, "<operand>", "eval") for text in sorted(names))
        for names in (operands.reads, operands.writes)
    )
    returns = isinstance(node, ast.Return)
    return Statement(module, frozenset(calls), reads, writes, returns, moves)


def _with_ticks(source, module, clock):
    """The tree of a source with `_tick(number)` after every assignment and call."""
    tree = ast.parse(source)

    def ticked(node):
        call = isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
        returns = isinstance(node, ast.Return)
        if not (call or returns or isinstance(node, ast.Assign | ast.AugAssign)):
            return [node]
        node.value = node.value or ast.Constant(None)
        tick = ast.parse(f"_tick({len(clock.statements)})").body
        clock.statements.append(_describe(node, module))
        if not returns:
            return [node, *tick]
        result = ast.parse("_result = None\nreturn _result").body
        result[0].value = node.value
        return [result[0], *tick, result[1]]

    for node in list(ast.walk(tree)):
        if isinstance(node, ast.FunctionDef) and not isinstance(node.body[-1], ast.Return):
            node.body.append(ast.Return(ast.Constant(None), lineno=node.end_lineno))
        for name in ("body", "orelse", "finalbody"):
            if isinstance(statements := getattr(node, name, None), list):
                setattr(node, name, [new for old in statements for new in ticked(old)])
    return ast.fix_missing_locations(tree)


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name, path, clock):
        super().__init__(name, path)
        self.clock = clock

    def get_code(self, fullname):
        """Compiled each time: what is cached on disk must stay free of ticks."""
        tree = _with_ticks(self.get_data(self.path), fullname, self.clock)
        return compile(tree, self.path, "exec")

    def exec_module(self, module):
        module._tick = self.clock.tick
        super().exec_module(module)


class ClockedImports(importlib.abc.MetaPathFinder):
    """Finds the named modules of a package with ticks; the package is imported anew.

    For a process of its own: objects of the package from before are of other classes.
    """

    def __init__(self, package, modules):
        self.clock = Clock()
        self.names = {f"{package}.{module}" for module in modules}
        for name in [name for name in sys.modules if name.split(".")[0] == package]:
            del sys.modules[name]
        sys.meta_path.insert(0, self)

    def find_spec(self, name, path, target=None):
        """The usual place with a loader that adds ticks."""
        if name not in self.names:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path)
        spec.loader = _Loader(name, spec.origin, self.clock)
        return spec
