"""The page on architecture names folders, modules, classes and functions that are there, and every folder of code."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
LAYERS = ("constraints", "display", "tables", "state", "indexes", "discovery", "streaming", "dashboard", "jobs")
MODULES = {path.name for layer in LAYERS for path in (ROOT / layer).rglob("*.py")}
FOLDERS = {path.parent.name for layer in LAYERS for path in (ROOT / layer).rglob("__init__.py")}
NAMED = re.findall(r"`([a-z_]+(?:/[a-z_]+)*(?:\.py|/|\.js))`", PAGE)
WAYS = re.findall(r"`([a-z_/]+\.py)`: ((?:`[A-Za-z_.]+`(?:, )?)+)", PAGE)


def test_it_names_ways() -> None:
    assert len(NAMED) > 50
    assert len(WAYS) > 15


@pytest.mark.parametrize("name", sorted(set(NAMED)))
def test_what_is_named_is_there(name: str) -> None:
    alone = name in MODULES if "/" not in name else name.removesuffix("/") in FOLDERS
    assert alone or any(path.exists() for path in _meant(name))


@pytest.mark.parametrize(("module", "names"), WAYS)
def test_modules_have_what_is_named(module: str, names: str) -> None:
    found = _defined(ast.parse((ROOT / module).read_text(encoding="utf-8")))
    assert set(re.findall(r"`([^`]+)`", names)) <= found


def test_every_folder_is_named() -> None:
    folders = [path.parent for layer in LAYERS for path in (ROOT / layer).rglob("__init__.py")]
    unnamed = [path.relative_to(ROOT) for path in folders if f"{path.name}/" not in PAGE]
    assert unnamed == []


def _meant(name: str) -> list[Path]:
    """Return the places that a path on the page may stand for: below the root, a layer, or the maintainers."""
    below = [ROOT, *(ROOT / layer for layer in LAYERS), ROOT / "streaming" / "maintainers"]
    return [folder / name for folder in below]


def _defined(tree: ast.Module) -> set[str]:
    """Return the names that a module defines, and those of its classes' methods behind the classes' names."""
    found = set()
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        if isinstance(node, ast.ClassDef):
            found |= {f"{node.name}.{of.name}" for of in node.body if isinstance(of, ast.FunctionDef)}
        for target in [*getattr(node, "targets", []), getattr(node, "target", None)]:
            if isinstance(target, ast.Name):
                found.add(target.id)
    return found
