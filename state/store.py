"""The store contract: ordered byte keys in families, written in atomic batches.

What a store promises, whichever it is:

- a batch is written whole or not at all; what `write` returned from is there after a crash;
- `scan` gives the keys of one family with a prefix in ascending order of bytes, as of the last batch;
- one writer. A second one is refused when it opens the store.

Families keep concerns apart; a family needs no creation. Keys and values are bytes; layouts are in `codecs.py`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import repeat
from types import MappingProxyType
from typing import Protocol


class WriteBatch:
    """Puts and deletes that are written together; of several changes of one key the last counts.

    Parameters
    ----------
    family, values : the first changes: keys of one family with their values, None for a delete.

    >>> batch = WriteBatch("rows", {b"1": b"a"})
    >>> batch.delete("rows", b"2")
    >>> len(batch)
    2
    """

    def __init__(self, family: str = "", values: Mapping[bytes, bytes | None] = MappingProxyType({})) -> None:
        self.changes: dict[tuple[str, bytes], bytes | None] = {(family, key): values[key] for key in values}

    def put(self, family: str, key: bytes, value: bytes) -> None:
        """Set a key."""
        self.changes[family, key] = value

    def delete(self, family: str, key: bytes) -> None:
        """Take a key away; nothing happens where it is not there."""
        self.changes[family, key] = None

    def put_all(self, family: str, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Set many keys of a family; those with None for a value are taken away."""
        self.changes.update(zip(zip(repeat(family), keys, strict=False), values, strict=True))

    def add(self, other: "WriteBatch") -> None:
        """Take over what another batch has, after what is in this one."""
        self.changes.update(other.changes)

    def __len__(self) -> int:
        return len(self.changes)


class Reader(Protocol):
    """A store that can be read."""

    def get(self, family: str, key: bytes) -> bytes | None:
        """Return the value of a key, or None. O(log n)."""

    def get_many(self, family: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the value of each key, or None. O(k log n), and quicker than one after the other."""

    def scan(self, family: str, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield keys that begin with `prefix` and their values, in ascending order. O(log n + k)."""


class Store(Reader, Protocol):
    """An open store."""

    def write(self, batch: WriteBatch) -> None:
        """Do everything in a batch, or nothing."""

    def load(self, family: str, items: Iterable[tuple[bytes, bytes]]) -> None:
        """Put many keys, in ascending order, where none of them is yet; what is there after a crash is not said."""

    def close(self) -> None:
        """Give the store up; no other call is allowed then."""
