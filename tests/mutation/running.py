"""Runs tests against mutants: each in a copy of the tree, with a time limit, one after the other.

The whole tree is copied once, with its times, so that what Python and numba have compiled stays valid. Each file of
tests is run there once, before the first mutant that needs it: it has to pass, its processor time says how long a
mutant may take, and kernels are compiled. That copy is copied for every mutant. What numba compiled of a changed module goes, and so does what it compiled
of modules that import from it: numba puts the code of one kernel into another's and does not notice changes there.
"""

from __future__ import annotations

import ast
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.mutation.mutants import Mutant

_NOT_COPIED = (".git", ".venv", ".hypothesis", ".mypy_cache", ".ruff_cache", ".pytest_cache", "build", "var")
_LEFT_OUT = "not test_real_tables"
_START_SECONDS, _SLOWER, _IDLE = 90, 3, 10
_MEMORY = 12 << 30
_PASSED, _NOTHING_RUN = 0, 5


@dataclass(frozen=True)
class Outcome:
    """What tests made of a mutant: `killed`, `timed out` or `survived`; which test failed, and the processor time."""

    outcome: str
    by: str
    seconds: float


class Trees:
    """Copies of a source tree in a folder that is there for them alone.

    Parameters
    ----------
    root : the tree.
    folder : where copies are made.
    tests : a folder of tests that takes the place of the tree's.
    """

    def __init__(self, root: Path, folder: Path, tests: Path | None = None) -> None:
        self._whole, self._mutated = folder / "whole", folder / "mutated"
        _copy(root, self._whole)
        if tests is not None:
            shutil.rmtree(self._whole / "tests")
            _copy(tests, self._whole / "tests")
        self._seconds: dict[str, float] = {}

    def run(self, mutant: Mutant, paths: Sequence[str]) -> Outcome:
        """Run tests against a mutant; those that are not in the tree are left out.

        Raises
        ------
        ValueError : tests fail without any mutant, or there are none.
        """
        present = [path for path in paths if (self._whole / path).exists()]
        if not present:
            raise ValueError(f"none of {paths} is there")
        limit = _START_SECONDS + _SLOWER * sum(self._measured(path) for path in present)
        if self._mutated.exists():
            shutil.rmtree(self._mutated)
        _copy(self._whole, self._mutated)
        changed = self._mutated / mutant.path
        changed.write_bytes(mutant.applied(changed.read_bytes()))
        _forget_compiled(self._mutated, mutant.path)
        code, output, seconds = _pytest(self._mutated, present, limit)
        if code is None:
            return Outcome("timed out", "", seconds)
        if code == _PASSED:
            return Outcome("survived", "", seconds)
        if code == _NOTHING_RUN:
            raise ValueError(f"no tests in {present}")
        named = re.search(r"^(?:FAILED|ERROR) (.+?)(?: - .*)?$", output, re.MULTILINE)
        return Outcome("killed", named[1] if named else f"exit {code}", seconds)

    def _measured(self, path: str) -> float:
        """Return how much processor time a file of tests takes as it is, where it has to pass."""
        if path not in self._seconds:
            code, output, self._seconds[path] = _pytest(self._whole, [path], None)
            if code not in {_PASSED, _NOTHING_RUN}:
                raise ValueError(f"{path} fails without any mutant:\n{output}")
        return self._seconds[path]


def _copy(source: Path, target: Path) -> None:
    """Copy a folder with times and links."""
    shutil.copytree(source, target, symlinks=True, ignore=shutil.ignore_patterns(*_NOT_COPIED))
    link = source / ".venv"
    if link.is_symlink():
        (target / ".venv").symlink_to(link.resolve())


def _pytest(root: Path, paths: Sequence[str], limit: float | None) -> tuple[int | None, str, float]:
    """Run pytest in a tree, with a limit of processor time.

    Returns the exit code, None where time ran out; the end of what was printed; the processor time of the process and
    of those that it started. A process that merely waits may take ten times the limit.
    """
    environment = os.environ | {"PYTHONPATH": str(root), "PYTHONHASHSEED": "0"}
    environment.pop("NUMBA_CACHE_DIR", None)
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--tb=line", "-k", _LEFT_OUT]
    command += ["--hypothesis-seed=0", *paths]
    most = int(limit or resource.RLIM_INFINITY)

    before = _processor_seconds()
    with (root.parent / "output.txt").open("w+", encoding="utf-8", errors="replace") as output:
        process = subprocess.Popen(
            command,
            cwd=root,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        resource.prlimit(process.pid, resource.RLIMIT_AS, (_MEMORY, _MEMORY))
        resource.prlimit(process.pid, resource.RLIMIT_CPU, (most, most))
        try:
            code: int | None = process.wait(None if limit is None else _IDLE * limit)
        except subprocess.TimeoutExpired:
            code = None
        finally:
            _end(process)
        seconds = round(_processor_seconds() - before, 1)
        output.seek(0)
        printed = output.read()[-20_000:]
    if limit is not None and seconds >= most and code in {-signal.SIGKILL, -signal.SIGXCPU}:
        code = None
    return code, printed, seconds


def _processor_seconds() -> float:
    """Return the processor time of all processes that were started and have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process with all that it started."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


def _forget_compiled(root: Path, path: str) -> None:
    """Remove what numba has compiled of a module and of all that import from it."""
    for module in importing(root, path):
        folder = (root / module).parent / "__pycache__"
        stem = Path(module).stem
        for compiled in [*folder.glob(f"{stem}.*.nbi"), *folder.glob(f"{stem}.*.nbc")]:
            compiled.unlink()


def importing(root: Path, path: str) -> set[str]:
    """Return a module and the kernels that import from it, through other kernels too, as paths."""
    kernels = {file.relative_to(root).as_posix(): _imports(file) for file in root.glob("*/kernels/*.py")}
    reached = {path}
    while more := {kernel for kernel, imported in kernels.items() if imported & reached} - reached:
        reached |= more
    return reached


def _imports(file: Path) -> set[str]:
    """Return the modules of the product that a file imports from, as paths."""
    return set(_paths(node for node in ast.walk(ast.parse(file.read_text("utf-8")))))


def _paths(nodes: Iterable[ast.AST]) -> Iterable[str]:
    for node in nodes:
        names = []
        if isinstance(node, ast.ImportFrom) and node.module:
            names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
        elif isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        yield from (name.removeprefix("holdfast.").replace(".", "/") + ".py" for name in names)
