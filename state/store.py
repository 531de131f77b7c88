"""The contract of a store: ordered byte keys in families, written in atomic batches.

Every store guarantees:

- a batch is written completely or not at all, and survives a crash once `write` has returned;
- `scan` yields the keys of one family with a prefix in ascending order of bytes, as of the last batch;
- there is one writer; a second one is refused when it opens the store.

Families separate concerns, and need not be created. Keys and values are bytes; their layouts are in `codecs.py`.
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
        """Delete a key, if it exists."""
        self.changes[family, key] = None

    def put_all(self, family: str, keys: Sequence[bytes], values: Sequence[bytes | None]) -> None:
        """Set many keys of a family; keys with the value None are deleted."""
        self.changes.update(zip(zip(repeat(family), keys, strict=False), values, strict=True))

    def add(self, other: "WriteBatch") -> None:
        """Add the changes of another batch, after those of this one."""
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
        """Write a batch completely or not at all."""

    def load(self, family: str, items: Iterable[tuple[bytes, bytes]]) -> None:
        """Write many keys, in ascending order, none of which exists yet; after a crash some of them may exist."""

    def close(self) -> None:
        """Close the store; no other call is allowed afterwards."""
