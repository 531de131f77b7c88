"""The audit of dependencies notices what it is there for: each of its questions is given something wrong."""

from __future__ import annotations

import importlib.util
import sys
from email.message import Message
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from types import ModuleType

CI = Path(__file__).resolve().parents[2] / ".ci"


@pytest.fixture
def audit(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    if not (CI / "audit.py").exists():
        pytest.skip("not in a checkout of the repository")
    monkeypatch.syspath_prepend(str(CI))
    specification = importlib.util.spec_from_file_location("audit", CI / "audit.py")
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    monkeypatch.delitem(sys.modules, "lock", raising=False)
    specification.loader.exec_module(module)
    return module


def installed(name: str, version: str, licence: str, *requires: str) -> Any:
    about = Message()
    about["Name"], about["License-Expression"] = name, licence
    return SimpleNamespace(metadata=about, version=version, requires=list(requires))


def test_this_environment(audit: ModuleType) -> None:
    assert audit.check() == 0


def test_another_version_and_a_stranger(audit: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    found = {"click": installed("click", "0.1", "MIT"), "stranger": installed("stranger", "1", "MIT")}
    monkeypatch.setattr(audit, "_distributions", lambda: found)
    said = audit._installed_otherwise()
    assert [line.split(" is installed")[0] for line in said] == ["click 0.1", "stranger 1"]


def test_a_pin_without_a_hash(audit: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lock = tmp_path / "requirements.lock"
    lock.write_text(f"a==1 \\\n    --hash=sha256:{'0' * 64}\nb==2\nc==3 \\\n    --hash=md5:00\n")
    monkeypatch.setattr(audit.lock, "LOCK", lock)
    assert [line.split()[0] for line in audit._without_hashes()] == ["b==2", "c==3"]


@pytest.mark.parametrize(
    "licence", ["AGPL-3.0-only", "GPL-2.0-or-later", "LGPL-3.0", "", "Proprietary", "MIT AND GPL-3.0"]
)
def test_a_licence_of_what_holdfast_needs(audit: ModuleType, monkeypatch: pytest.MonkeyPatch, licence: str) -> None:
    found = {"click": installed("click", "8", "MIT", "inner>=1"), "inner": installed("inner", "1", licence)}
    monkeypatch.setattr(audit, "_distributions", lambda: found)
    (said,) = audit._licences()
    assert said.startswith("inner, which Holdfast needs, is under")


def test_one_that_only_tests_need(audit: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "_distributions", lambda: {"desbordante": installed("desbordante", "2", "AGPL-3.0")})
    assert audit._licences() == []
