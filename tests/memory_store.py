"""A store in memory that a test may look into, lose, or bring back from its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from holdfast.state import codecs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from holdfast.state.store import WriteBatch


class MemoryStore:
    """What is written, by family and key."""

    def __init__(self) -> None:
        self.families: dict[str, dict[bytes, bytes]] = {}

    def get(self, family: str, key: bytes) -> bytes | None:
        return self.families.get(family, {}).get(key)

    def get_many(self, family: str, keys: Sequence[bytes]) -> list[bytes | None]:
        return [self.get(family, key) for key in keys]

    def scan(self, family: str, prefix: bytes = b"") -> Iterator[tuple[bytes, bytes]]:
        yield from sorted((k, v) for k, v in self.families.get(family, {}).items() if k.startswith(prefix))

    def write(self, batch: WriteBatch) -> None:
        for (family, key), value in batch.changes.items():
            if value is None:
                self.families.setdefault(family, {}).pop(key, None)
            else:
                self.families.setdefault(family, {})[key] = value

    def load(self, family: str, items: Iterable[tuple[bytes, bytes]]) -> None:
        self.families.setdefault(family, {}).update(items)

    def close(self) -> None:
        pass

    def restored(self, records: Iterable[bytes]) -> MemoryStore:
        """Return what a backup makes of the records of commits."""
        found = MemoryStore()
        kept = {name: self.families["meta"][name] for name in (b"identity", b"format")}
        found.families["meta"] = kept
        for record in records:
            found.write(codecs.read_batch(record))
        return found
