"""Writes `requirements.lock`, and checks offline that it is in step with `pyproject.toml`.

Invariant: the lock pins, by exact version and by hash, every distribution that the project, its
extras and its build need on any supported Python, and it names no index, host or path. `write`
resolves with uv, installed for the occasion beside nothing else; `check` needs no network: it
follows the requirements from `pyproject.toml` through what is installed.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import tomllib
import venv
from importlib import metadata
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
LOCK = ROOT / "requirements.lock"
HEADER = """\
# Every distribution that Holdfast, its extras and its build need, by exact version and hash, for
# Python 3.11 to 3.13. Made by `make lock` from pyproject.toml; not edited by hand.
"""
_UV = "uv>=0.9,<1"
_PIN = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>\S+)(?: ; (?P<marker>.+?))? \\$")


def write(*options: str) -> None:
    """Resolve `pyproject.toml` anew, keeping the pins that still fit unless `--upgrade` is given."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        binaries = Path(folder) / "bin"
        subprocess.run([binaries / "python", "-m", "pip", "install", "--quiet", "--no-cache-dir", _UV], check=True)
        made = Path(folder) / "requirements.lock"
        if LOCK.exists():
            made.write_text(LOCK.read_text())
        extras = [word for extra in _extras() for word in ("--extra", extra)]
        command = [str(binaries / "uv"), "pip", "compile", "pyproject.toml", "--quiet", "--no-cache"]
        command += ["--universal", "--python-version", "3.11", "--generate-hashes"]
        command += ["--no-annotate", "--no-header", "--no-emit-index-url", "--no-emit-find-links"]
        subprocess.run(
            [*command, *extras, *options, "--output-file", str(made)],
            check=True,
            cwd=ROOT,
        )
        LOCK.write_text(HEADER + made.read_text().removeprefix(HEADER))
    print(f"{LOCK.name}: {len(pins())} pins")


def check() -> int:
    """Compare the lock with `pyproject.toml` and with what is installed; return the exit code."""
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    wrong = [
        f"line {number} names an address: {line.strip()}"
        for number, line in enumerate(LOCK.read_text().splitlines(), 1)
        if re.search(r"://|(?:^|\s)-{1,2}(?!hash=)[a-z]|@ ", line)
    ]
    pinned = pins()
    seen: set[tuple[str, str]] = set()
    waiting = [(Requirement(text), "", "pyproject.toml") for text in _direct()]
    while waiting:
        requirement, extra, parent = waiting.pop()
        name = canonicalize_name(requirement.name)
        if requirement.marker is not None and not requirement.marker.evaluate({"extra": extra}):
            continue
        if name not in pinned:
            wrong.append(f"{parent} needs {requirement}, which is not pinned")
            continue
        version, _ = pinned[name]
        if not requirement.specifier.contains(version, prereleases=True):
            wrong.append(f"{parent} needs {requirement}, and {version} is pinned")
        for wanted in {"", *requirement.extras}:
            if (name, wanted) in seen:
                continue
            seen.add((name, wanted))
            try:
                installed = metadata.distribution(name)
            except metadata.PackageNotFoundError:
                wrong.append(f"{name} {version} is pinned, but not installed: make setup")
                continue
            if installed.version != version:
                wrong.append(f"{name} {version} is pinned, but {installed.version} is installed: make setup")
            waiting += [(Requirement(text), wanted, name) for text in installed.requires or []]
    reached = {name for name, _ in seen}
    wrong += [
        f"{name} is pinned, but nothing needs it"
        for name, (_, marker) in pinned.items()
        if name not in reached and not marker
    ]
    for line in sorted(set(wrong)):
        print(f"{LOCK.name}: {line}", file=sys.stderr)
    if wrong:
        print(f"{LOCK.name} is out of step with pyproject.toml: make lock", file=sys.stderr)
        return 1
    print(f"{LOCK.name}: {len(pinned)} pins in step with pyproject.toml")
    return 0


def _extras() -> list[str]:
    return sorted(settings()["project"]["optional-dependencies"])


def _direct() -> list[str]:
    about = settings()
    project = about["project"]
    optional = (text for texts in project["optional-dependencies"].values() for text in texts)
    return [*project["dependencies"], *about["build-system"]["requires"], *optional]


def settings() -> dict[str, Any]:
    """Return what `pyproject.toml` says."""
    return tomllib.loads((ROOT / "pyproject.toml").read_text())


def pins() -> dict[str, tuple[str, str | None]]:
    """Return the version and the marker of each pin; where Pythons have pins of their own, of this one's."""
    from packaging.markers import Marker

    matches = filter(None, map(_PIN.match, LOCK.read_text().splitlines()))
    found: dict[str, tuple[str, str | None]] = {}
    for name, version, marker in (match.group("name", "version", "marker") for match in matches):
        if name not in found or marker is None or Marker(marker).evaluate():
            found[name] = version, marker
    return found


if __name__ == "__main__":
    if sys.argv[1:2] == ["check"]:
        sys.exit(check())
    write(*sys.argv[2:])
