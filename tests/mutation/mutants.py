"""Single small changes of a Python file that make it do something else, and a choice of them that a seed repeats.

A mutant is one replaced stretch of source. Its identity is made of the file, the function, the text before and after,
and its number among equal changes of that function: it stays as long as the function does, wherever in the file the
function stands, so that runs against different tests, or a few commits apart, can be compared.

Only code in functions is changed. Left alone is what no behaviour hangs on: docstrings, annotations, assertions, the
texts of messages, and `check_invariants`, which only tests call.
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

AREAS: dict[str, tuple[int, tuple[str, ...]]] = {
    "constraints": (24, ("constraints/*.py",)),
    "indexes": (24, ("indexes/*.py",)),
    "kernels of indexes": (24, ("indexes/kernels/*.py",)),
    "discovery": (36, ("discovery/*.py", "discovery/[!k]*/*.py")),
    "kernels of discovery": (24, ("discovery/kernels/*.py",)),
    "maintainers": (20, ("streaming/maintainers/*.py", "streaming/incoming/netting.py")),
    "state": (8, ("state/commits.py", "state/codecs.py")),
}
"""How many mutants of which files: 160 in all. A larger or smaller number keeps the proportions."""

_COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE),
    ast.LtE: (ast.Lt, ast.Gt),
    ast.Gt: (ast.GtE, ast.LtE),
    ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,),
    ast.NotEq: (ast.Eq,),
    ast.Is: (ast.IsNot,),
    ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}
_CALCULATED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
    ast.Mod: ast.Add,
}
_NAMES = {
    "min": "max",
    "any": "all",
    "minimum": "maximum",
    "bitwise_and": "bitwise_or",
    "argmin": "argmax",
    "union": "intersection",
    "zeros": "ones",
}
_NAMES |= {after: before for before, after in _NAMES.items()}
_TEXTS = {"left": "right", "right": "left"}
_NEUTRAL_ARGUMENTS = {"strict", "copy"}
_LEFT_ALONE = {"check_invariants"}


@dataclass(frozen=True)
class Mutant:
    """A changed stretch of one file, in bytes of UTF-8."""

    path: str
    function: str
    before: str
    after: str
    number: int
    start: int
    end: int
    text: str

    @property
    def identity(self) -> str:
        return f"{self.path}::{self.function}::{self.before} -> {self.after}#{self.number}"

    def applied(self, source: bytes) -> bytes:
        """Return the source of the mutant."""
        return source[: self.start] + self.text.encode() + source[self.end :]


def mutants_of(path: str, source: str) -> list[Mutant]:
    """Return every mutant of a file, in the order of its text."""
    lines = [0]
    for line in source.encode().splitlines(keepends=True):
        lines.append(lines[-1] + len(line))
    numbers: Counter[tuple[str, str, str]] = Counter()
    found = []
    for function, node, after, text in _changes(ast.parse(source)):
        before = ast.unparse(node)
        key = function, before, after
        start = lines[node.lineno - 1] + node.col_offset
        end = lines[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        found.append(Mutant(path, *key, numbers[key], start, end, text))
        numbers[key] += 1
    return found


def chosen(root: Path, count: int, seed: int) -> list[Mutant]:
    """Return so many mutants of the core, the same for the same seed and sources.

    Within an area files take turns. A change of one file hardly touches the choice from the others.
    """
    whole = sum(share for share, _ in AREAS.values())
    picked: list[Mutant] = []
    for area, (share, patterns) in AREAS.items():
        by_file: dict[str, list[Mutant]] = {}
        for path in sorted({file for pattern in patterns for file in root.glob(pattern)}):
            name = path.relative_to(root).as_posix()
            ranked = sorted(mutants_of(name, path.read_text("utf-8")), key=lambda m: _rank(seed, m.identity))
            by_file[name] = _mixed(ranked)
        files = sorted((name for name in by_file if by_file[name]), key=lambda name: _rank(seed, name))
        wanted = max(1, round(count * share / whole))
        turns = [m for turn in range(wanted) for name in files for m in by_file[name][turn : turn + 1]]
        if len(turns) < wanted:
            raise ValueError(f"{area}: {len(turns)} mutants, {wanted} wanted")
        picked += turns[:wanted]
    return sorted(picked, key=lambda m: _rank(seed, m.identity))


def _rank(seed: int, text: str) -> bytes:
    return hashlib.sha256(f"{seed}:{text}".encode()).digest()


def _mixed(ranked: list[Mutant]) -> list[Mutant]:
    """Return mutants so that plain changes of numbers and lost results, of which there are many, come now and then."""
    kinds: dict[int, list[Mutant]] = {0: [], 1: [], 2: []}
    for mutant in ranked:
        is_number, is_result = mutant.before.lstrip("-").isdecimal(), mutant.after == "return None"
        kinds[1 if is_number else 2 if is_result else 0].append(mutant)
    mixed: list[Mutant] = []
    while any(kinds.values()):
        for kind, taken in ((0, 2), (1, 1), (0, 3), (2, 1)):
            mixed += kinds[kind][:taken]
            del kinds[kind][:taken]
    return mixed


Change = tuple[str, ast.expr | ast.stmt, str, str]


def _changes(tree: ast.Module) -> Iterator[Change]:
    """Yield (function, what is replaced, how the change is called, the text in its place)."""
    for statement in tree.body:
        if isinstance(statement, ast.ClassDef | ast.FunctionDef):
            yield from _in_definition(statement, statement.name)


def _in_definition(node: ast.ClassDef | ast.FunctionDef, name: str) -> Iterator[Change]:
    """Yield the changes in a function, or in the functions of a class."""
    if node.name in _LEFT_ALONE:
        return
    is_kernel = isinstance(node, ast.FunctionDef) and any("njit" in ast.unparse(d) for d in node.decorator_list)
    for statement in node.body:
        if isinstance(statement, ast.ClassDef | ast.FunctionDef):
            yield from _in_definition(statement, f"{name}.{statement.name}")
        elif isinstance(node, ast.FunctionDef) and not (statement is node.body[-1] and _returns_nothing(statement)):
            yield from _in_code(statement, name, is_kernel)


def _returns_nothing(statement: ast.stmt) -> bool:
    """Whether a statement is `return` or `return None`, which at the end of a function are the same as nothing."""
    match statement:
        case ast.Return(value=None) | ast.Return(value=ast.Constant(value=None)):
            return True
    return False


def _in_code(node: ast.AST, function: str, is_kernel: bool) -> Iterator[Change]:
    """Yield the changes of a statement or an expression, and of everything in it."""
    if isinstance(node, ast.FunctionDef):
        yield from _in_definition(node, f"{function}.{node.name}")
        return
    if isinstance(node, ast.Assert | ast.JoinedStr | ast.Import | ast.ImportFrom):
        return
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return
    if not (function.endswith("__init__") and isinstance(node, ast.Assign)):
        yield from ((function, *change) for change in _of_statement(node, is_kernel))
    yield from ((function, *change) for change in _of_expression(node))
    for field, value in ast.iter_fields(node):
        if (field in {"annotation", "returns"}) or (isinstance(node, ast.Raise)):
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.keyword) and child.arg in _NEUTRAL_ARGUMENTS:
                continue
            if isinstance(child, ast.AST):
                yield from _in_code(child, function, is_kernel)


def _of_statement(node: ast.AST, is_kernel: bool) -> Iterator[tuple[ast.stmt, str, str]]:
    """Yield statements that may be left out; not those without which the function does not even run."""
    match node:
        case ast.AugAssign() | ast.Continue() | ast.Break() | ast.Raise() | ast.Delete():
            yield node, "pass", "pass"
        case ast.Assign(targets=[ast.Attribute() | ast.Subscript()]):
            yield node, "pass", "pass"
        case ast.Expr(value=ast.Call()):
            yield node, "pass", "pass"
        case ast.Return(value=ast.Constant()) | ast.Return(value=None):
            if not is_kernel:
                yield node, "pass", "pass"
        case ast.Return():
            if not is_kernel:
                yield node, "return None", "return None"


def _of_expression(node: ast.AST) -> Iterator[tuple[ast.expr, str, str]]:
    """Yield what an expression itself may become."""
    made: list[ast.expr] = []
    match node:
        case ast.Compare(left, ops, comparators):
            for i, op in enumerate(ops):
                others = _COMPARED.get(type(op), ())
                made += [ast.Compare(left, [*ops[:i], other(), *ops[i + 1 :]], comparators) for other in others]
        case ast.BoolOp(op, values):
            made.append(ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values))
            made += values if len(values) == 2 else []
        case ast.UnaryOp(ast.Not() | ast.Invert(), operand):
            made.append(operand)
        case ast.BinOp(left, op, right) if type(op) in _CALCULATED and not isinstance(
            left, ast.Constant | ast.JoinedStr
        ):
            made.append(ast.BinOp(left, _CALCULATED[type(op)](), right))
        case ast.IfExp(_, body, orelse):
            made += [body, orelse]
        case ast.Constant(value):
            yield from ((node, text, text) for text in _other_constants(value))
        case ast.Attribute(value, attr, ctx) if attr in _NAMES:
            made.append(ast.Attribute(value, _NAMES[attr], ctx))
        case ast.Name(name, ctx) if name in _NAMES:
            yield node, _NAMES[name], _NAMES[name]
    for changed in made:
        assert isinstance(node, ast.expr)
        text = ast.unparse(changed)
        yield node, text, text if isinstance(node, ast.Attribute) else f"({text})"


def _other_constants(value: object) -> list[str]:
    """Return what a constant may become instead."""
    if isinstance(value, bool):
        return [str(not value)]
    if isinstance(value, int):
        return [str(value + 1), str(value - 1)]
    if isinstance(value, str) and value in _TEXTS:
        return [repr(_TEXTS[value])]
    return []
