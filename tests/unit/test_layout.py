"""The folders are imported as `holdfast.<folder>` only, and the wheel holds them and nothing else."""

from __future__ import annotations

import ast
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "holdfast"
FOLDERS = sorted(path.name for path in PACKAGE.iterdir() if path.is_symlink())
SOURCES = sorted(
    path
    for folder in (*FOLDERS, "holdfast", "tests", "benchmarks", ".ci")
    for path in (ROOT / folder).rglob("*.py")  # does not follow links
)


def test_every_folder_is_linked() -> None:
    packages = {path.parent.name for path in ROOT.glob("*/__init__.py")}
    assert packages - {"holdfast", "tests", "benchmarks"} == set(FOLDERS)
    for folder in FOLDERS:
        assert (PACKAGE / folder).readlink() == Path("..", folder)


def test_no_bare_imports() -> None:
    bare = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_bytes(), str(path)))
        for name in _imported(node)
        if name.partition(".")[0] in FOLDERS
    ]
    assert bare == [], "import these as holdfast.<folder>"


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and not node.level:
        return [node.module]
    return []


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """Build the wheel from a copy of the sources, offline; give the names of its files."""
    copy = tmp_path_factory.mktemp("sources")
    unwanted = shutil.ignore_patterns("__pycache__")
    for folder in ("holdfast", "tests", "benchmarks", *FOLDERS):
        shutil.copytree(ROOT / folder, copy / folder, symlinks=True, ignore=unwanted)
    for file in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / file, copy / file)
    command: list[str | Path] = [
        sys.executable,
        "-m",
        "build",
        "--wheel",
        "--no-isolation",
        "--outdir",
        copy / "dist",
        copy,
    ]
    built = subprocess.run(command, check=False, capture_output=True, text=True)
    assert built.returncode == 0, built.stdout + built.stderr
    (path,) = (copy / "dist").glob("*.whl")
    with zipfile.ZipFile(path) as opened:
        return set(opened.namelist())


def test_wheel_holds_what_the_folders_hold(wheel: set[str]) -> None:
    shipped = {name for name in wheel if not name.split("/")[0].endswith(".dist-info")}
    own = {path.name for path in PACKAGE.iterdir() if path.is_file()}
    linked = {
        str(path.relative_to(ROOT))
        for folder in FOLDERS
        for path in (ROOT / folder).rglob("*")
        if path.is_file() and "__pycache__" not in path.parts
    }
    assert shipped == {f"holdfast/{name}" for name in own | linked}
    assert "holdfast/py.typed" in shipped
    assert "holdfast/conf/jars-spark.txt" in shipped


def test_wheel_has_its_licence(wheel: set[str]) -> None:
    assert any(name.endswith(".dist-info/licenses/LICENSE") for name in wheel)


def test_users_own_modules_are_left_alone(tmp_path: Path) -> None:
    for folder in FOLDERS:
        (tmp_path / f"{folder}.py").write_text(f"mine = {folder!r}\n")
    (tmp_path / "jobs.py").unlink()
    (tmp_path / "jobs").mkdir()
    (tmp_path / "jobs" / "__init__.py").write_text("mine = 'jobs'\n")
    lines = ["import holdfast"]
    for folder in FOLDERS:
        lines += [f"import {folder}, holdfast.{folder}", f"assert {folder}.mine == {folder!r}"]
        lines += [f"assert not hasattr(holdfast.{folder}, 'mine')"]
    (tmp_path / "script.py").write_text("\n".join(lines))
    _python(tmp_path / "script.py", folder=tmp_path)


def test_nothing_generic_is_installed(tmp_path: Path) -> None:
    names = [*FOLDERS, "tests", "benchmarks"]
    answer = _python(
        "-c", f"from importlib.util import find_spec\nprint([*filter(find_spec, {names})])", folder=tmp_path
    )
    assert answer == "[]"


def test_import_is_quick_and_starts_no_engine(tmp_path: Path) -> None:
    program = (
        "import sys, time\n"
        "start = time.perf_counter()\n"
        "import holdfast\n"
        "seconds = time.perf_counter() - start\n"
        "print(seconds, *{'numba', 'pandas', 'pyspark'} & sys.modules.keys())\n"
    )
    answers = [_python("-c", program, folder=tmp_path).split() for _ in range(3)]
    assert [engines for _, *engines in answers] == [[], [], []]
    assert min(float(seconds) for seconds, *_ in answers) < 0.5


def _python(*arguments: str | Path, folder: Path) -> str:
    """Run the installed package from `folder`, as a user would; return what is printed."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    ran = subprocess.run(
        [sys.executable, *arguments], cwd=folder, env=environment, check=False, capture_output=True, text=True
    )
    assert ran.returncode == 0, ran.stderr
    return ran.stdout.strip()
