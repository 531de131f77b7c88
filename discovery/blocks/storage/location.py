"""Where blocks are, as a value that can be sent to executors, and the cache of a process.

Invariant: the cache takes at most a limit of bytes, by the sizes that its users give. Its entries depend on blocks,
whose files never change, and entries that depend on marks have a version with the marks: no entry is stale.
"""

import os
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from holdfast.constraints import ExternalError
from holdfast.state.places import Folder, Place, object_place

Made = TypeVar("Made")

CACHE = "HOLDFAST_CACHE_MB"
"""The environment variable with the megabytes that a process keeps."""

INDEXED_AT_LEAST = 700
"""The rows that an empty index has room for, added to its rows when its size is estimated."""

_MOST_KEPT_MB = "256"


@dataclass(frozen=True)
class Storage:
    """A folder, or an address of an object store, that every executor reaches.

    Parameters
    ----------
    address : a path, or a URL.
    options : of an object store.
    """

    address: str
    options: tuple[tuple[str, str], ...] = field(default=(), repr=False)

    @classmethod
    def at(cls, address: str, options: Mapping[str, str] | None = None) -> "Storage":
        """Return the storage at an address."""
        return cls(address, tuple(sorted((options or {}).items())))

    def open(self) -> Place:
        """Return the place to read and write."""
        if "://" in self.address:
            return object_place(self.address, dict(self.options))
        return Folder(Path(self.address))


def bytes_of(place: Place, name: str, subject: str, until: str) -> bytes:
    """Return the contents of a file; raise an error with the subject and its verb, and the end of the way out."""
    data = place.get(name)
    if data is None:
        raise ExternalError(
            f"{subject} gone from {place}: every executor has to reach this folder, and nobody may remove its files "
            f"while {until}"
        )
    return data


class Kept:
    """A cache of data computed from blocks; when it is full, entries are evicted.

    Parameters
    ----------
    most : the limit in bytes.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: dict[Hashable, tuple[Hashable, Any, int]] = {}
        self._drawn = 1
        self.bytes = 0
        self._lock = Lock()

    def get(self, what: Hashable, make: Callable[[], tuple[Made, int]], version: Hashable = None) -> Made:
        """Return the entry, computed by `make`, with its bytes, if it is missing or has another version."""
        with self._lock:
            if what in self._held:
                if self._held[what][0] == version:
                    found: Made = self._held[what][1]
                    return found
                self._take_out(what)
        made, size = make()
        with self._lock:
            if what not in self._held and size <= self._most:
                self._held[what] = version, made, size
                self.bytes += size
            while self.bytes > self._most:
                self._take_out(self._any())
        return made

    def _any(self) -> Hashable:
        """Return a random entry, but not the last.

        Blocks are read in turns: the least recently used entry would be the next that is needed.
        """
        self._drawn = self._drawn * 1_103_515_245 + 12_345 & (1 << 31) - 1
        place = (self._drawn >> 8) % max(len(self._held) - 1, 1)
        return next(islice(self._held, place, None))

    def drop(self, what: Hashable) -> None:
        """Remove an entry."""
        with self._lock:
            if what in self._held:
                self._take_out(what)

    def _take_out(self, what: Hashable) -> None:
        *_, size = self._held.pop(what)
        self.bytes -= size


KEPT = Kept(int(os.environ.get(CACHE, _MOST_KEPT_MB)) << 20)
"""The cache of this process."""
