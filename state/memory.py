"""A store in memory, for batch commands and tests."""

from collections.abc import Iterable, Iterator, Sequence
from threading import Lock

from sortedcontainers import SortedDict

from holdfast.state.store import WriteBatch


class MemoryStore:
    """A store with a sorted dictionary for each family."""

    def __init__(self) -> None:
        self._families: dict[str, SortedDict[bytes, bytes]] = {}
        self._is_open = True
        self._lock = Lock()

    def get(self, family: str, key: bytes) -> bytes | None:
        """Return the value of a key, or None. O(1)."""
        found: bytes | None = self._open(family).get(key)
        return found

    def get_many(self, family: str, keys: Sequence[bytes]) -> list[bytes | None]:
        """Return the value of each key, or None. O(k)."""
        return list(map(self._open(family).get, keys))

    def scan(self, family: str, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        """Yield keys that begin with `prefix` and their values, in ascending order. O(log n + k)."""
        values = self._open(family)
        with self._lock:
            found = []
            for key in values.irange(minimum=prefix):
                if not key.startswith(prefix):
                    break
                found.append((key, values[key]))
        yield from found

    def write(self, batch: WriteBatch) -> None:
        """Write a batch. O(changes log n)."""
        with self._lock:
            for (family, key), value in batch.changes.items():
                values = self._open(family)
                if value is None:
                    values.pop(key, None)
                else:
                    values[key] = value

    def load(self, family: str, items: Iterable[tuple[bytes, bytes]]) -> None:
        """Write many keys. O(k log n)."""
        with self._lock:
            self._open(family).update(items)

    def close(self) -> None:
        """Close the store."""
        self._is_open = False

    def _open(self, family: str) -> "SortedDict[bytes, bytes]":
        if not self._is_open:
            raise ValueError("the store is closed")
        return self._families.setdefault(family, SortedDict())
