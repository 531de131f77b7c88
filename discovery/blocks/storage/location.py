"""Where blocks lie, as a value that can be sent to whoever reads them, and what a process keeps of what it read.

Invariant: what is kept takes at most so many bytes, by what its makers say of it; it is taken from blocks, whose files
never change, and what depends on their marks is of a version that says them: so it is never stale.
"""

import os
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from threading import Lock
from typing import Any, TypeVar

from holdfast.state.places import Folder, Place, object_place

Made = TypeVar("Made")

CACHE = "HOLDFAST_CACHE_MB"
"""The variable of the environment that says how many megabytes a process keeps."""

INDEXED_AT_LEAST = 700
"""An index takes as much memory as if it had so many rows more: it has room before it has rows."""

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
        """Name a place."""
        return cls(address, tuple(sorted((options or {}).items())))

    def open(self) -> Place:
        """Return it as a place to read and write."""
        if "://" in self.address:
            return object_place(self.address, dict(self.options))
        return Folder(Path(self.address))


class Kept:
    """What was made of blocks and may be asked for again; where there is no more room, something goes.

    Parameters
    ----------
    most : bytes.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: dict[Hashable, tuple[Hashable, Any, int]] = {}
        self._drawn = 1
        self._bytes = 0
        self._lock = Lock()

    def get(self, what: Hashable, make: Callable[[], tuple[Made, int]], version: Hashable = None) -> Made:
        """Return what `make` gave, or gives now, with how many bytes it takes; of another version it is made anew."""
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
                self._bytes += size
            while self._bytes > self._most:
                self._take_out(self._any())
        return made

    def _any(self) -> Hashable:
        """Return one of the things that are kept, no one more likely than others but the last, which stays.

        Blocks are gone through in turns: what was not asked for the longest would be what is asked for next.
        """
        self._drawn = self._drawn * 1_103_515_245 + 12_345 & (1 << 31) - 1
        place = (self._drawn >> 8) % max(len(self._held) - 1, 1)
        return next(islice(self._held, place, None))

    def drop(self, what: Hashable) -> None:
        """Keep something no longer."""
        with self._lock:
            if what in self._held:
                self._take_out(what)

    def _take_out(self, what: Hashable) -> None:
        *_, size = self._held.pop(what)
        self._bytes -= size

    @property
    def bytes(self) -> int:
        """How much it takes."""
        return self._bytes


KEPT = Kept(int(os.environ.get(CACHE, _MOST_KEPT_MB)) << 20)
"""What this process keeps."""
