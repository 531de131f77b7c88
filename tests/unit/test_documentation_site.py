"""The site: it builds without a warning, asks nothing of another host, and has what the code says in its reference."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from typing import TYPE_CHECKING

import pytest

from holdfast.jobs.command_line import holdfast
from tests.documentation import PAGES, ROOT

if TYPE_CHECKING:
    from pathlib import Path

_FETCHED = re.compile(
    r"""(?:<(?:script|img|iframe|source|audio|video)\b[^>]*\bsrc|<link\b[^>]*\bhref)=["'](?:https?:)?//"""
    r"""|url\(["']?(?:https?:)?//|@import"""
)


def test_site(tmp_path: Path) -> None:
    """Build it once: that takes seconds, and looking at it none."""
    if find_spec("sphinx") is None:
        pytest.skip("the extra 'docs' is not installed: no Sphinx to build the site with")
    site = built(tmp_path)
    every_page_is_there_and_reached(site)
    nothing_is_fetched_from_elsewhere(site)
    reference_is_made_from_the_code(site)


def built(folder: Path) -> Path:
    command = [sys.executable, "-m", "sphinx", "-c", "docs/site", "docs", str(folder / "html"), "--quiet"]
    done = subprocess.run(
        [*command, "--fail-on-warning", "--keep-going", "--doctree-dir", str(folder / "doctrees")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "html"


def every_page_is_there_and_reached(site: Path) -> None:
    home = (site / "index.html").read_text("utf-8")
    for page in PAGES:
        name = str(page.relative_to(ROOT / "docs").with_suffix(".html"))
        assert (site / name).is_file()
        assert f'href="{name}"' in home or name == "index.html", name


def nothing_is_fetched_from_elsewhere(site: Path) -> None:
    for file in (path for path in site.rglob("*") if path.suffix in {".html", ".css"}):
        found = _FETCHED.search(file.read_text("utf-8"))
        assert found is None, f"{file.relative_to(site)}: {found}"


def reference_is_made_from_the_code(site: Path) -> None:
    commands = (site / "reference" / "commands.html").read_text("utf-8")
    assert all(f"holdfast {name}" in commands for name in holdfast.commands)
    python = (site / "reference" / "python.html").read_text("utf-8")
    assert 'id="holdfast.discover"' in python
    assert 'id="holdfast.Maintainer.apply"' in python
    assert "made from the code:" not in python
