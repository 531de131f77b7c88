"""A store on disk: RocksDB with raw bytes, one column family for each family, and one writer process.

Keys are in bytewise order. A batch is one synced `WriteBatch` of RocksDB: once `write` has returned, killing the
process loses nothing. The lock is RocksDB's own; it is held as long as any handle of a column family lives, so `close`
drops all handles. Other processes may read a store that is in use (`RocksReader`).

A damaged file is detected by its checksums when it is read; but if the log of writes or the list of files ends too
early, RocksDB opens an older version of the store. So that all families are of the same version then, they are flushed
together, and the names of the families are stored in `default`:

    "families"   their names, as JSON
"""

import fcntl
import json
import os
import re
import secrets
import shutil
import tempfile
from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from itertools import count, islice
from pathlib import Path
from typing import Any
from weakref import WeakSet

from rocksdict import (
    AccessType,
    BlockBasedOptions,
    Cache,
    Checkpoint,
    DBCompressionType,
    Options,
    Rdict,
    SstFileWriter,
    WriteOptions,
)
from rocksdict import WriteBatch as RocksBatch

from holdfast.constraints import HoldfastError, StateDamaged, StateInUse, StateMissing, StateUnreachable
from holdfast.state.room import way_out
from holdfast.state.store import WriteBatch

_DEFAULT, _NAMES = "default", b"families"
_DATA = re.compile(r"[0-9]+\.(sst|log)")
_WRITE_BUFFER = 16 << 20
_LOG_OF_WRITES = 64 << 20  # after a crash it is read again: 0.1 s; without a limit it grew to 450 MB, and took 1 to 2 s
_KEPT_INFO_LOGS = 4
_ATTEMPTS = 5
_LOADED_AT_ONCE = 1 << 20
_LOADING, _LINKED = "loading-", "linked-"
_MANY_KEYS = 1_000
_THREADS = max(1, min(4, os.cpu_count() or 1))
_BLOOM_BITS = 10
_CACHE = Cache(256 << 20)
_LOCKED = ("IO error: While lock file: ", "IO error: lock hold by current process")
_DAMAGED = ("Corruption: ",)
_FILE_MISSING = ("IO error: No such file or directory: ",)
"""The beginnings of errors of RocksDB: rocksdict gives its status codes as the first words of a text. The rest of the
text has names of files, which may contain any words."""


class _Families:
    """The families of an open RocksDB, as a store or beside it.

    Parameters
    ----------
    path : the folder of the RocksDB.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._database: Any = None
        self._families: dict[str, Any] = {}
        self._scans: WeakSet[Generator[tuple[bytes, bytes]]] = WeakSet()

    def get(self, family: str, key: bytes) -> bytes | None:
        """Return the value of a key, or None. O(log n)."""
        self._check()
        with _explained(self.path):
            found: bytes | None = self._families[family].get(key) if family in self._families else None
        return found

    def get_many(self, family: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the value of each key, or None. O(k log n), and quicker than one after the other."""
        self._check()
        if family not in self._families or not keys:
            return [None] * len(keys)
        with _explained(self.path):
            return self._looked_up(self._families[family], list(keys))

    def scan(self, family: str, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield keys that begin with `prefix` and their values, in ascending order. O(log n + k)."""
        self._check()
        if family in self._families:
            scanned = _scanned(self.path, self._families[family], prefix)
            self._scans.add(scanned)
            yield from scanned
            self._check()

    def _looked_up(self, family: Any, keys: list[bytes]) -> list[bytes | None]:
        return list(family.get(keys))

    def _opened(self, families: Iterable[str], **more: Any) -> None:
        """Open the RocksDB with all of its families."""
        columns = {name: _options() for name in families}
        self._database = Rdict(str(self.path), options=_options(), column_families=columns, **more)
        self._families = {name: self._database.get_column_family(name) for name in columns if name != _DEFAULT}

    def _check(self) -> None:
        if self._database is None:
            raise ValueError("the store is closed")


class RocksStore(_Families):
    """An open RocksDB.

    Parameters
    ----------
    path : the folder, made if it does not exist, which only its owner can read.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        try:
            path.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise _unreachable(path, error) from error
        with _explained(path):
            families = Rdict.list_cf(str(path)) if holds_store(path) else [_DEFAULT]
            self._opened(families)
            noted = self._database.get(_NAMES)
        for kind in (_LOADING, _LINKED):
            for left in path.glob(f"{kind}*"):  # by a process that was killed
                shutil.rmtree(left, ignore_errors=True)
        self._noted = set(json.loads(noted or b"[]"))
        lost = self._noted.difference(families)
        if lost:
            self._database.close()
            raise _damaged(path, f"it has no {', '.join(sorted(lost))} any more")
        self._handles: dict[str, Any] = {name: self._database.get_column_family_handle(name) for name in self._families}
        self._pool = ThreadPoolExecutor(_THREADS, "lookup")
        self._synced = WriteOptions()
        self._synced.sync = True

    def verify(self) -> None:
        """Read everything, and raise if a file is damaged. O(n)."""
        for family in list(self._families):
            for _ in self.scan(family):
                pass

    def write(self, batch: WriteBatch) -> None:
        """Write a batch completely or not at all; it is synced to disk when this returns."""
        self._check()
        written = RocksBatch(raw_mode=True)
        needed = {family for family, _ in batch.changes}
        with _explained(self.path, is_write=True):
            noted = self._noted | needed
            if noted != self._noted:
                written.put(_NAMES, json.dumps(sorted(noted)).encode())
            handles = {family: self._handle(family) for family in needed}
            for (family, key), value in batch.changes.items():
                if value is None:
                    written.delete(key, handles[family])
                else:
                    written.put(key, value, handles[family])
            self._database.write(written, self._synced)
            self._noted = noted

    def load(self, family: str, items: Iterable[tuple[bytes, bytes]]) -> None:
        """Write many keys, in ascending order, none of which exists yet, as files that RocksDB ingests. O(k)."""
        self._check()
        self.write(WriteBatch(family, {b"": None}))  # a delete makes the family
        items = iter(items)
        with (
            _explained(self.path, is_write=True),
            tempfile.TemporaryDirectory(prefix=_LOADING, dir=self.path) as folder,
        ):
            for number in count():
                path = str(Path(folder, f"{number}.sst"))
                if not _filled(path, islice(items, _LOADED_AT_ONCE)):
                    return
                self._families[family].ingest_external_file([path])

    def linked(self) -> Path:
        """Return a folder with hard links to the files of the store, which the caller has to remove. O(buffers)."""
        self._check()
        folder = self.path / f"{_LINKED}{secrets.token_hex(4)}"
        try:
            Checkpoint(self._database).create_checkpoint(str(folder))
        except Exception as error:
            shutil.rmtree(folder, ignore_errors=True)
            raise _unwritten(self.path, error) from error
        return folder

    def close(self) -> None:
        """Close the store and release its lock; errors lose nothing, as all writes are synced."""
        if self._database is not None:
            database, self._database = self._database, None
            self._pool.shutdown()
            for scanned in list(self._scans):  # an unfinished scan, as after an error, holds the lock
                with suppress(ValueError):
                    scanned.close()
            self._handles.clear()
            for handle in (*self._families.values(), database):
                with suppress(Exception):
                    handle.close()
            self._families.clear()  # a database that could not be closed keeps its lock as long as it lives

    def _looked_up(self, family: Any, keys: list[bytes]) -> list[bytes | None]:
        """Look many keys up in threads."""
        if len(keys) < _MANY_KEYS:
            return super()._looked_up(family, keys)
        size = -(-len(keys) // _THREADS)
        parts = [keys[start : start + size] for start in range(0, len(keys), size)]
        return [value for part in self._pool.map(family.get, parts) for value in part]

    def _handle(self, family: str) -> Any:
        if family not in self._families:
            self._families[family] = self._database.create_column_family(family, _options())
            self._handles[family] = self._database.get_column_family_handle(family)
        return self._handles[family]


class RocksReader(_Families):
    """Reads a store that another process may write to: without a lock, and without writing to its folder.

    It sees the commits before it was opened. RocksDB needs a private folder for it, which `close` removes.

    Parameters
    ----------
    path : the folder of the store.
    """

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        if not holds_store(path):
            raise StateMissing(
                f"{path} holds no state: seed one first, or name the `state` folder of the configuration"
            )
        self._notes = Path(tempfile.mkdtemp(prefix="holdfast-reader-"))
        try:
            self._open()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> "RocksReader":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def is_empty(self) -> bool:
        """Whether nothing was written to the store yet."""
        self._check()
        return not self._families

    def close(self) -> None:
        """Close the reader, and remove its private folder."""
        self._give_up()
        shutil.rmtree(self._notes, ignore_errors=True)

    def _open(self) -> None:
        """Open the store; again if the writer just removed a file that the list of files still named."""
        for attempt in range(_ATTEMPTS):
            try:
                self._opened(Rdict.list_cf(str(self.path)), access_type=AccessType.secondary(str(self._notes)))
                return
            except Exception as error:
                if attempt == _ATTEMPTS - 1:
                    raise _refused(self.path, error) from error

    def _give_up(self) -> None:
        if self._database is not None:
            for family in self._families.values():
                family.close()
            self._families.clear()
            self._database.close()
            self._database = None


def holds_store(path: Path) -> bool:
    """Return whether a folder holds a store.

    Raises `StateUnreachable` if the folder cannot be read, and `StateDamaged` if it has files of a store without the
    file that names the newest list of files.
    """
    try:
        names = {found.name for found in path.iterdir()}
    except FileNotFoundError:
        return False
    except OSError as error:
        raise _unreachable(path, error) from error
    if "CURRENT" in names:
        return True
    if any(_DATA.fullmatch(name) for name in names):
        raise _damaged(path, "its file CURRENT is missing")
    return False


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Lock a store that is not open, so that it can be renamed: an open store must not be.

    An open store deletes its files by their full names, also if its folder was renamed.
    """
    try:
        file = (path / "LOCK").open("ab")
    except OSError as error:
        raise _unreachable(path, error) from error
    with file:
        try:
            fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)  # as RocksDB does
        except (BlockingIOError, PermissionError) as error:
            raise _in_use(path) from error
        except OSError as error:
            raise _unreachable(path, error) from error
        yield


def _filled(path: str, items: Iterable[tuple[bytes, bytes]]) -> bool:
    """Write a file of sorted keys; return whether there were any."""
    writer = SstFileWriter(_options())
    is_open = False
    for key, value in items:
        if not is_open:
            writer.open(path)
            is_open = True
        writer[key] = value
    if is_open:
        writer.finish()
    return is_open


def _scanned(path: Path, family: Any, prefix: bytes) -> Generator[tuple[bytes, bytes]]:
    last = prefix
    with _explained(path):
        for key, value in family.items(from_key=prefix):
            if not key.startswith(prefix):
                return
            last = key
            yield key, value
        _refuse_early_end(family, last)


def _refuse_early_end(family: Any, last: bytes) -> None:
    """Raise if the items ended with a damaged block, which raises no error by itself."""
    behind = family.iter()
    try:
        behind.seek(last)
        if behind.valid():
            behind.next()
        behind.status()
    finally:
        del behind  # it holds the lock as long as it lives, also in the traceback of an error


@contextmanager
def _explained(path: Path, *, is_write: bool = False) -> Iterator[None]:
    """Turn errors of RocksDB into errors with a message for people."""
    try:
        yield
    except HoldfastError:
        raise
    except Exception as error:
        raise (_unwritten if is_write else _refused)(path, error) from error


def _options() -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    options.set_compression_type(DBCompressionType.lz4())
    options.set_write_buffer_size(_WRITE_BUFFER)
    options.set_max_total_wal_size(_LOG_OF_WRITES)
    options.set_atomic_flush(True)
    options.set_keep_log_file_num(_KEPT_INFO_LOGS)
    blocks = BlockBasedOptions()
    blocks.set_block_cache(_CACHE)  # one cache for all families, whose size bounds them together
    blocks.set_bloom_filter(_BLOOM_BITS, False)  # many values that are looked up do not exist
    options.set_block_based_table_factory(blocks)
    return options


def _refused(path: Path, error: Exception) -> HoldfastError:
    """Return an error of opening or reading as one with a message for people."""
    text = str(error)
    if text.startswith(_LOCKED):
        return _in_use(path)
    if text.startswith((*_DAMAGED, *_FILE_MISSING)):
        return _damaged(path, text)
    return _unreachable(path, error)


def _in_use(path: Path) -> StateInUse:
    return StateInUse(
        f"{path} is in use by another process: one at a time may write a state. Stop it, or use another `state` folder"
    )


def _damaged(path: Path, what: str) -> StateDamaged:
    return StateDamaged(
        f"the state {path} is damaged ({what}). Restore it from its backup: holdfast rebuild; or seed anew: holdfast "
        "seed --replace"
    )


def _unreachable(path: Path, error: Exception) -> StateUnreachable:
    return StateUnreachable(
        f"the state {path} could not be read: {error}. Nothing is lost: {way_out(error, path)}, and start again"
    )


def _unwritten(path: Path, error: Exception) -> HoldfastError:
    """Return an error of writing as one with a message for people."""
    text = str(error)
    if text.startswith((*_DAMAGED, *_FILE_MISSING)):
        return _damaged(path, text)
    return StateUnreachable(
        f"the state {path} could not be written ({text}). What was committed is unharmed: {way_out(text, path)}, and "
        "start again"
    )
