"""A store on disk: RocksDB, raw bytes, one column family per family of ours, one writer process.

Keys stand in bytewise order. A batch is one synced `WriteBatch`: once `write` has returned, killing the process loses
nothing of it. The lock is RocksDB's own; it stays as long as any handle of a column family lives, so `close` gives up
all of them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rocksdict import Options, Rdict, WriteOptions
from rocksdict import WriteBatch as RocksBatch

from holdfast.constraints import ExternalError, StateRefused
from holdfast.state.store import WriteBatch

_DEFAULT = "default"


class RocksStore:
    """An open RocksDB.

    Parameters
    ----------
    path : its folder; it is made where it is not there, for its owner alone.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        families = Rdict.list_cf(str(path)) if (path / "CURRENT").exists() else [_DEFAULT]
        try:
            self._database: Any = Rdict(
                str(path), options=_options(), column_families={name: _options() for name in families}
            )
        except Exception as error:
            raise _refused(path, error) from error
        self._families: dict[str, Any] = {
            name: self._database.get_column_family(name) for name in families if name != _DEFAULT
        }
        self._handles: dict[str, Any] = {name: self._database.get_column_family_handle(name) for name in self._families}
        self._synced = WriteOptions()
        self._synced.sync = True
        self._is_open = True

    def get(self, family: str, key: bytes) -> bytes | None:
        """Return the value of a key, or None. O(log n)."""
        self._check()
        found: bytes | None = self._families[family].get(key) if family in self._families else None
        return found

    def scan(self, family: str, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield keys that begin with `prefix` and their values, in ascending order. O(log n + k)."""
        self._check()
        if family not in self._families:
            return
        for key, value in self._families[family].items(from_key=prefix):
            if not key.startswith(prefix):
                return
            yield key, value

    def write(self, batch: WriteBatch) -> None:
        """Do everything in a batch, or nothing; synced to disk when this returns."""
        self._check()
        written = RocksBatch(raw_mode=True)
        for (family, key), value in batch.changes.items():
            if value is None:
                written.delete(key, self._handle(family))
            else:
                written.put(key, value, self._handle(family))
        try:
            self._database.write(written, self._synced)
        except Exception as error:
            raise ExternalError(
                f"{self.path}: the state could not be written ({error}). What was there is unharmed: mend the disk "
                "and start again"
            ) from error

    def close(self) -> None:
        """Give the store and its lock up."""
        if self._is_open:
            self._is_open = False
            self._handles.clear()
            for family in self._families.values():
                family.close()
            self._families.clear()
            self._database.close()

    def _handle(self, family: str) -> Any:
        if family not in self._families:
            self._families[family] = self._database.create_column_family(family, _options())
            self._handles[family] = self._database.get_column_family_handle(family)
        return self._handles[family]

    def _check(self) -> None:
        if not self._is_open:
            raise ValueError("the store is closed")


def _options() -> Options:
    options = Options(raw_mode=True)
    options.create_if_missing(True)
    options.create_missing_column_families(True)
    return options


def _refused(path: Path, error: Exception) -> Exception:
    """Return what an error while opening means to a person."""
    text = str(error)
    if "lock" in text.lower():
        return StateRefused(
            f"{path} is in use by another process: one at a time may write a state. Stop it, or use another `state` "
            "folder"
        )
    if "corrupt" in text.lower():
        return StateRefused(f"{path} is damaged ({text}): restore it from its backup, or seed anew")
    return ExternalError(f"{path} could not be opened: {text}. Check the disk and the folder's permissions")
