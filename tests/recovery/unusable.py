"""States that cannot be used: each function makes one of a state that is whole."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from rocksdict import Cache

from holdfast.jobs import run as running
from holdfast.jobs.application.session import Session
from holdfast.state import codecs, rocks
from holdfast.state.commits import SEEDING, Identity
from holdfast.state.log import OWNER, CommitLog
from holdfast.state.places import Folder
from holdfast.state.rocks import RocksReader, RocksStore
from holdfast.state.snapshots import own
from holdfast.state.store import WriteBatch
from tests.streams import Application

if TYPE_CHECKING:
    from collections.abc import Iterator


TABLE: dict[str, Any] = {
    "name": "t",
    "key": ["k"],
    "columns": {"k": "integer", "a": "integer"},
    "source": {"format": "files", "path": str(Path(__file__).parent), "encoding": "json"},
}


CHECKPOINT = "checkpoint/t/offsets/0"


COMMANDS: dict[str, list[str]] = {
    "run": ["run", "--available-now"],
    "seed": ["seed"],
    "seed --replace": ["seed", "--replace"],
    "rebuild": ["rebuild"],
    "rebuild --from-source": ["rebuild", "--from-source"],
    "status": ["status"],
    "skip-batch": ["skip-batch", "t"],
    "validate": ["validate"],
}


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("seeded") / "app"
    folder.mkdir()
    with pytest.MonkeyPatch.context() as patch:
        _without_spark(patch)
        code, said = Application(folder, [TABLE])("seed")
    assert code == 0, said
    return folder


@pytest.fixture
def app(seeded: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Application:
    """An application that was seeded, and follows nothing."""
    _without_spark(monkeypatch)
    monkeypatch.setattr(rocks, "_CACHE", Cache(1 << 20))  # blocks that were read before are not read again
    shutil.copytree(seeded, tmp_path / "app")
    return Application(tmp_path / "app", [TABLE])


def _without_spark(patch: pytest.MonkeyPatch) -> None:
    def refused(_: Session) -> None:
        raise AssertionError("nothing here needs Spark")

    patch.setattr(Session, "begin", lambda _: None)
    patch.setattr(Session, "__call__", refused)
    patch.setattr(running._Run, "_follow", lambda *_, **__: None)


# What states may be like


def _identity(folder: Path) -> Identity:
    with RocksReader(folder / "state") as reader:
        return Identity(**codecs.read_json(reader.get("meta", b"identity") or b""))


def _put(folder: Path, key: bytes, value: bytes) -> None:
    store = RocksStore(folder / "state")
    batch = WriteBatch()
    batch.put("meta", key, value)
    store.write(batch)
    store.close()


def _own_backup(folder: Path) -> Folder:
    return Folder(folder / "backup" / _identity(folder).state_id)


@contextmanager
def whole(_: Path) -> Iterator[None]:
    yield


@contextmanager
def missing(folder: Path) -> Iterator[None]:
    shutil.rmtree(folder / "state")
    yield


@contextmanager
def unfinished(folder: Path) -> Iterator[None]:
    _put(folder, b"identity", codecs.json_bytes(asdict(replace(_identity(folder), status=SEEDING))))
    yield


@contextmanager
def in_use(folder: Path) -> Iterator[None]:
    store = RocksStore(folder / "state")
    yield
    store.close()


@contextmanager
def of_another_application(folder: Path) -> Iterator[None]:
    _put(folder, b"identity", codecs.json_bytes(asdict(replace(_identity(folder), application="shop"))))
    yield


@contextmanager
def of_a_newer_format(folder: Path) -> Iterator[None]:
    _put(folder, b"identity", codecs.json_bytes({**asdict(_identity(folder)), "colour": "of a newer version"}))
    _put(folder, b"format", codecs.number(codecs.FORMAT + 1))
    yield


@contextmanager
def with_a_damaged_list(folder: Path) -> Iterator[None]:
    (folder / "state" / "CURRENT").write_bytes(b"MANI")
    yield


@contextmanager
def without_a_list(folder: Path) -> Iterator[None]:
    (folder / "state" / "CURRENT").unlink()
    yield


@contextmanager
def with_damaged_blocks(folder: Path) -> Iterator[None]:
    for file in (folder / "state").glob("*.sst"):
        data = bytearray(file.read_bytes())
        data[5] ^= 1
        file.write_bytes(data)
    yield


@contextmanager
def without_its_files(folder: Path) -> Iterator[None]:
    for file in (folder / "state").glob("*.sst"):
        file.unlink()
    yield


@contextmanager
def behind_its_backup(folder: Path) -> Iterator[None]:
    with RocksReader(folder / "state") as reader:
        last = codecs.read_number(reader.get("meta", b"commit") or b"")
    record = WriteBatch()
    record.put("meta", b"commit", codecs.number(last + 1))
    CommitLog(_own_backup(folder), 0).put(last + 1, codecs.batch_bytes(record))
    yield


@contextmanager
def taken_over(folder: Path) -> Iterator[None]:
    own(_own_backup(folder), replace(_identity(folder), epoch=1))
    yield


@contextmanager
def with_an_unreadable_file(folder: Path) -> Iterator[None]:
    """An input/output error of RocksDB: nobody knows what is in the file."""
    files = sorted((folder / "state").glob("*.sst"))
    for file in files:
        file.rename(file.with_suffix(".away"))
        file.mkdir()
    yield
    for file in files:
        file.rmdir()
        file.with_suffix(".away").rename(file)


@contextmanager
def in_an_unreadable_folder(folder: Path) -> Iterator[None]:
    (folder / "state").rename(folder / "away")
    (folder / "state").touch()
    yield
    (folder / "state").unlink()
    (folder / "away").rename(folder / "state")


@contextmanager
def with_an_unreachable_backup(folder: Path) -> Iterator[None]:
    (folder / "backup").rename(folder / "away")
    (folder / "backup").touch()
    yield
    (folder / "backup").unlink()
    (folder / "away").rename(folder / "backup")


@contextmanager
def with_a_damaged_owner(folder: Path) -> Iterator[None]:
    _own_backup(folder).put(OWNER, b"?")
    yield
