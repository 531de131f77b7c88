"""Jars are fetched by the real Ivy, here from a Maven repository in a folder, and always checked."""

from __future__ import annotations

import hashlib
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from holdfast.streaming.spark.errors import CacheUnwritable, JarMismatch, JarUnavailable
from holdfast.streaming.spark.jars import JarPin, fetch, pins

if TYPE_CHECKING:
    from pathlib import Path

ONE, TWO = b"one jar", b"another jar"


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Give an empty Maven repository, with an empty cache beside it."""
    monkeypatch.setenv("HOLDFAST_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "repository"
    folder.mkdir()
    monkeypatch.setenv("HOLDFAST_REPOSITORY", folder.as_uri())
    return folder


def _publish(repository: Path, name: str, content: bytes) -> JarPin:
    folder = repository / "org" / "example" / name / "1.0"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{name}-1.0.jar").write_bytes(content)
    return JarPin("org.example", name, "1.0", hashlib.sha256(content).hexdigest())


def _left(tmp_path: Path) -> list[str]:
    return sorted(file.name for file in (tmp_path / "cache" / "jars").iterdir() if file.name != ".lock")


def test_fetched_once_in_the_order_asked_for(repository: Path, tmp_path: Path) -> None:
    wanted = [_publish(repository, "two_2.13", TWO), _publish(repository, "one", ONE)]
    paths = fetch(wanted)
    assert [path.name for path in paths] == ["org.example_two_2.13-1.0.jar", "org.example_one-1.0.jar"]
    assert [path.read_bytes() for path in paths] == [TWO, ONE]
    assert _left(tmp_path) == sorted(path.name for path in paths)

    _publish(repository, "one", b"the repository changes")
    assert fetch(wanted) == paths


def test_damaged_jar_is_fetched_again(repository: Path, tmp_path: Path) -> None:
    pin = _publish(repository, "one", ONE)
    (path,) = fetch([pin])
    path.write_bytes(ONE[:3])
    (tmp_path / "cache" / "jars" / ".staging-left-by-a-killed-process").mkdir()
    assert fetch([pin]) == [path]
    assert path.read_bytes() == ONE
    assert _left(tmp_path) == [path.name]


def test_other_jar_than_pinned_is_refused(repository: Path, tmp_path: Path) -> None:
    pin = _publish(repository, "one", ONE)
    _publish(repository, "one", TWO)
    with pytest.raises(JarMismatch) as refused:
        fetch([pin])
    for part in (str(pin), pin.sha256, hashlib.sha256(TWO).hexdigest(), "HOLDFAST_REPOSITORY"):
        assert part in str(refused.value)
    assert _left(tmp_path) == []


def test_missing_jar_is_named(repository: Path, tmp_path: Path) -> None:
    there = _publish(repository, "one", ONE)
    absent = JarPin("org.example", "absent", "2.0", "0" * 64)
    with pytest.raises(JarUnavailable, match=r"could not fetch org\.example:absent:2\.0 from file:.*\(not found\)"):
        fetch([there, absent])
    assert _left(tmp_path) == []


def test_unreachable_repository_says_so_without_its_password(repository: Path) -> None:
    pin = _publish(repository, "one", ONE)
    with pytest.raises(JarUnavailable, match="check the network") as failed:
        fetch([pin], "http://user:secret@127.0.0.1:9/maven")
    assert "secret" not in str(failed.value)
    assert "***@127.0.0.1:9" in str(failed.value)


def test_concurrent_processes_share_one_fetch(repository: Path, tmp_path: Path) -> None:
    pin = _publish(repository, "one", ONE)
    program = (
        "from holdfast.streaming.spark.jars import JarPin, fetch\n"
        f"(path,) = fetch([JarPin({pin.group!r}, {pin.name!r}, {pin.version!r}, {pin.sha256!r})])\n"
        "print(path.read_text())\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) for _ in range(3)]
    assert [process.communicate(timeout=120)[0] for process in running] == [f"{ONE.decode()}\n"] * 3
    assert _left(tmp_path) == [pin.file_name]


def test_cache_that_cannot_be_written_is_named(repository: Path, tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file, not a folder")
    with pytest.raises(CacheUnwritable, match="HOLDFAST_CACHE"):
        fetch([_publish(repository, "one", ONE)])


@pytest.mark.parametrize(("file", "count"), [("jars-spark.txt", 6), ("jars-broker.txt", 45)])
def test_pinned_lists(file: str, count: int) -> None:
    listed = pins(file)
    assert len({pin.file_name for pin in listed}) == len(listed) == count
    assert all(len(pin.sha256) == 64 and set(pin.sha256) <= set("0123456789abcdef") for pin in listed)
