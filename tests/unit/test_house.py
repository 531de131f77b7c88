"""The house stays small: modules, functions, parameters, kernels, and one name for each public class."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
LAYERS = ("constraints", "display", "tables", "state", "indexes", "discovery", "streaming", "dashboard", "jobs")
MODULES = sorted(path for layer in LAYERS for path in (ROOT / layer).rglob("*.py"))
MOST_LINES, MOST_FUNCTION_LINES, MOST_PARAMETERS, MOST_KERNEL_PARAMETERS = 450, 45, 8, 12

PUBLIC = {"discover", "check", "seed"}
"""Functions that people call from Python, whose options are keyword parameters, however many there are."""


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_modules_functions_and_parameters(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= MOST_LINES
    for node in ast.walk(ast.parse(text)):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        given = [*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs]
        count = len(given) - (bool(given) and given[0].arg in {"self", "cls"})
        where = f"{name_of(path)}: {node.name}"
        if any("njit" in ast.dump(decorator) for decorator in node.decorator_list):
            assert count <= MOST_KERNEL_PARAMETERS, where
        elif node.name not in PUBLIC:
            assert count <= MOST_PARAMETERS, where
        described = ast.get_docstring(node, clean=False) or ""
        length = (node.end_lineno or node.lineno) - node.lineno - described.count("\n")
        assert length <= MOST_FUNCTION_LINES or "njit" in ast.dump(node), f"{where} has {length} lines of code"


def test_no_two_public_classes_have_one_name() -> None:
    places = defaultdict(list)
    for path in MODULES:
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(name_of(path))
    assert {name: paths for name, paths in places.items() if len(paths) > 1} == {}
