"""Folders of files, on this machine or in an object store, behind one contract: for backups and blocks.

Names are relative, with `/` between their parts. A file exists completely or not at all, and survives a crash once
`put` has returned: files of a local folder are synced with the folder; an object store answers when a file is safe.

Invariant: every error is an `OSError` with a text for people.
"""

import datetime
import os
import re
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeAlias

from holdfast.display.secrets import masked

_CHUNK = 1 << 20
_NEW = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW
_DELETED_AT_ONCE = 1_000
_PREFIX = re.compile("^(aws|google|azure(_storage)?)_")
_UNKNOWN = re.compile(r"key: '([^']*)'")
_CLIENT = frozenset(
    (
        *("allow_http", "allow_invalid_certificates", "connect_timeout", "pool_idle_timeout", "pool_max_idle_per_host"),
        *("proxy_url", "proxy_ca_certificate", "proxy_excludes", "read_timeout", "timeout", "user_agent"),
    )
)
_RETRY: Any = {"max_retries": 5, "retry_timeout": datetime.timedelta(minutes=1)}


class Folder:
    """A folder of this machine, which only its owner can read.

    Parameters
    ----------
    folder : its path.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def __str__(self) -> str:
        return str(self._folder)

    def at(self, name: str) -> "Folder":
        """Return a folder inside this one."""
        return Folder(self._folder / name)

    def path(self, name: str) -> str:
        """Return the full name of a file, for people."""
        return str(self._folder / name)

    def prepare(self) -> None:
        """Make the folder if it does not exist, and remove the remains of killed processes."""
        make_private(self._folder)
        for part in self._folder.rglob("*.part"):
            part.unlink(missing_ok=True)

    def put(self, name: str, data: bytes) -> None:
        """Write a file, or replace it."""
        with self._written(name) as file:
            file.write(data)

    def put_new(self, name: str, data: bytes) -> bool:
        """Write a file unless it exists; return whether it was written."""
        try:
            with self._written(name, os.link) as file:
                file.write(data)
        except FileExistsError:
            return False
        return True

    def take(self, name: str, source: Path) -> None:
        """Write a file with the contents of a local one."""
        with self._written(name) as file, source.open("rb") as given:
            shutil.copyfileobj(given, file, _CHUNK)

    def get(self, name: str) -> bytes | None:
        """Return the contents of a file; None if it does not exist."""
        try:
            return (self._folder / name).read_bytes()
        except FileNotFoundError:
            return None

    def fetch(self, name: str, target: Path) -> bool:
        """Copy a file to a local one; return whether it exists."""
        try:
            shutil.copyfile(self._folder / name, target)
        except FileNotFoundError:
            return False
        return True

    def size(self, name: str) -> int | None:
        """Return the size of a file in bytes; None if it does not exist."""
        try:
            return (self._folder / name).stat().st_size
        except FileNotFoundError:
            return None

    def names(self) -> list[str]:
        """Return the names of the files and folders directly in the folder, in order. O(names)."""
        try:
            return sorted(path.name for path in self._folder.iterdir())
        except FileNotFoundError:
            return []

    def remove(self, names: Iterable[str]) -> None:
        """Remove files, as far as they exist."""
        for name in names:
            (self._folder / name).unlink(missing_ok=True)

    def clear(self) -> None:
        """Remove everything in the folder."""
        shutil.rmtree(self._folder, ignore_errors=True)

    @contextmanager
    def _written(self, name: str, place: Callable[[Path, Path], object] = Path.replace) -> Iterator[Any]:
        """Write a file beside its target, and rename or link it with `place`; file and folder are synced."""
        target = self._folder / name
        make_private(target.parent)
        part = target.with_name(f"{target.name}.{os.getpid()}.part")
        try:
            with os.fdopen(os.open(part, _NEW, 0o600), "wb") as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
                place(part, target)
        finally:
            part.unlink(missing_ok=True)
        sync_folder(target.parent)


class StoreError(OSError):
    """A request to an object store failed."""


class ObjectPlace:
    """A prefix of an object store.

    Parameters
    ----------
    address : such as `s3://bucket/prefix`.
    store : a store of obstore, opened at the address.
    prefix : the prefix of all names.
    """

    def __init__(self, address: str, store: Any, prefix: str = "") -> None:
        self._address = address.rstrip("/")
        self._store = store
        self._prefix = prefix

    def __str__(self) -> str:
        return self._address

    def at(self, name: str) -> "ObjectPlace":
        """Return a folder inside this one."""
        return ObjectPlace(self.path(name), self._store, f"{self._prefix}{name}/")

    def path(self, name: str) -> str:
        """Return the full name of a file, for people."""
        return f"{self._address}/{name}"

    def prepare(self) -> None:
        """Do nothing: prefixes need not be made, and killed processes leave no remains."""

    def put(self, name: str, data: bytes) -> None:
        """Write a file, or replace it."""
        with self._asking():
            self._obstore.put(self._store, self._prefix + name, data)

    def put_new(self, name: str, data: bytes) -> bool:
        """Write a file unless it exists; return whether it was written."""
        with self._asking():
            try:
                self._obstore.put(self._store, self._prefix + name, data, mode="create")
            except self._obstore.exceptions.AlreadyExistsError:
                return False
            return True

    def take(self, name: str, source: Path) -> None:
        """Write a file with the contents of a local one."""
        with self._asking():
            self._obstore.put(self._store, self._prefix + name, source)

    def get(self, name: str) -> bytes | None:
        """Return the contents of a file; None if it does not exist."""
        with self._asking(), suppress(FileNotFoundError, self._obstore.exceptions.NotFoundError):
            return bytes(self._obstore.get(self._store, self._prefix + name).bytes())
        return None

    def fetch(self, name: str, target: Path) -> bool:
        """Copy a file to a local one; return whether it exists."""
        with self._asking():
            try:
                found = self._obstore.get(self._store, self._prefix + name)
            except (FileNotFoundError, self._obstore.exceptions.NotFoundError):
                return False
            with target.open("wb") as file:
                for part in found.stream(min_chunk_size=_CHUNK):
                    file.write(part)
        return True

    def size(self, name: str) -> int | None:
        """Return the size of a file in bytes; None if it does not exist."""
        with self._asking(), suppress(FileNotFoundError, self._obstore.exceptions.NotFoundError):
            return int(self._obstore.head(self._store, self._prefix + name)["size"])
        return None

    def names(self) -> list[str]:
        """Return the names of the files and folders directly in the folder, in order. O(names)."""
        with self._asking():
            found = self._obstore.list_with_delimiter(self._store, self._prefix.rstrip("/") or None)
        whole = [entry["path"] for entry in found["objects"]] + [str(name) for name in found["common_prefixes"]]
        return sorted(name.rstrip("/").rpartition("/")[2] for name in whole)

    def remove(self, names: Iterable[str]) -> None:
        """Remove files, as far as they exist."""
        paths = [self._prefix + name for name in names]
        with self._asking():
            for start in range(0, len(paths), _DELETED_AT_ONCE):
                self._obstore.delete(self._store, paths[start : start + _DELETED_AT_ONCE])

    def clear(self) -> None:
        """Remove everything in the folder."""
        with self._asking():
            for batch in self._obstore.list(self._store, self._prefix.rstrip("/") or None):
                self._obstore.delete(self._store, [entry["path"] for entry in batch])

    @property
    def _obstore(self) -> Any:
        import obstore

        return obstore

    @contextmanager
    def _asking(self) -> Iterator[None]:
        try:
            yield
        except StoreError:
            raise
        except OSError as error:  # of a local file, or an error of the store with a class in Python
            raise StoreError(masked(str(error))) from error
        except self._obstore.exceptions.BaseError as error:
            raise StoreError(masked(_first_line(error))) from error


Place: TypeAlias = Folder | ObjectPlace
"""A folder of files; every class of this union has the same methods."""


def place_of(place: Path | Place) -> Place:
    """Return a path as a `Folder`, and a place as it is."""
    return Folder(place) if isinstance(place, Path) else place


def object_place(address: str, options: Mapping[str, str]) -> ObjectPlace:
    """Open an address of an object store; raise `StoreError` if the address or an option cannot be used.

    Parameters
    ----------
    options : keys as for delta-rs (`aws_region`, `azure_storage_account_name`, `allow_http`); keys for other software
        (`fs.*`) are left out.
    """
    from obstore.exceptions import BaseError, UnknownConfigurationKeyError
    from obstore.store import from_url

    config: Any = {}
    client: Any = {}
    for given, value in options.items():
        key = given.lower()
        plain = _PREFIX.sub("", key)
        if plain in _CLIENT:
            client[plain] = {"true": True, "false": False}.get(value.lower(), value)
        elif "." not in key:
            config[key] = value
    while True:
        try:
            store = from_url(address, config=config or None, client_options=client or None, retry_config=_RETRY)
        except UnknownConfigurationKeyError as error:  # an option that only delta-rs has
            named = _UNKNOWN.search(str(error))
            if named is None or config.pop(named[1], None) is None:
                raise StoreError(masked(_first_line(error))) from error
        except (BaseError, ValueError, TypeError, OSError) as error:
            raise StoreError(masked(_first_line(error))) from error
        else:
            return ObjectPlace(address, store)


def _first_line(error: BaseException) -> str:
    """Return the first line of an error of a store, without the dump of its structures."""
    return str(error).strip().split("\n", 1)[0][:500]


def sync_folder(folder: Path) -> None:
    """Return once the names in a folder are on disk."""
    number = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def make_private(folder: Path) -> None:
    """Make a folder that only its owner can read, and its missing parents."""
    if not folder.is_dir():
        make_private(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
