"""Batches that failed, counted over restarts, and batches to be skipped.

    attempts  source   position of the batch that failed last, how often it failed, and the last error
    skips     source   position of the batch to put into quarantine instead of applying it

A batch that failed `MOST` times is not tried again until a person asks for it: it would only fail again.
"""

from dataclasses import asdict, dataclass
from typing import Any

from holdfast.constraints import StateRefused, UsageError
from holdfast.state import codecs
from holdfast.state.store import Reader, Store, WriteBatch
from holdfast.streaming.commits.output_rows import Position

MOST = 3


@dataclass(frozen=True)
class Attempt:
    """A batch that failed.

    Parameters
    ----------
    position : the position of the batch.
    count : how often it failed.
    error : the last error.
    """

    position: Position
    count: int
    error: str


class BatchKeepsFailing(StateRefused):
    """A batch failed so often that a person has to look into it."""


def failed_batch(store: Reader, source: str) -> Attempt | None:
    """Return the failed batch of a source; None if no batch failed."""
    stored = store.get("attempts", source.encode())
    if stored is None:
        return None
    found: dict[str, Any] = codecs.read_json(stored)
    return Attempt(Position(**found["position"]), found["count"], found["error"])


class Attempts:
    """The failures of one store's sources."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def refuse_hopeless(self, source: str, position: Position, configuration: str = "CONF") -> None:
        """Raise if a batch failed too often."""
        last = failed_batch(self._store, source)
        if last is not None and last.position == position and last.count >= MOST:
            raise BatchKeepsFailing(
                f"table {source}: batch {position.batch_id}, from {position.start or 'the start'} to {position.end}, "
                f"failed {last.count} times, last with: {last.error}\nMend what it names and run `holdfast skip-batch "
                f"{configuration} {source} --retry`, or put its records into quarantine: `holdfast skip-batch "
                f"{configuration} {source}`"
            )

    def failed(self, source: str, position: Position, error: str) -> None:
        """Note that a batch failed."""
        last = failed_batch(self._store, source)
        count = last.count if last is not None and last.position == position else 0
        note = {"position": asdict(position), "count": count + 1, "error": error[:2_000]}
        self._store.write(WriteBatch("attempts", {source.encode(): codecs.json_bytes(note)}))

    def skip(self, source: str) -> Position:
        """Mark the failed batch of a source, which the next run puts into quarantine; return its position."""
        last = self._failed(source)
        self._store.write(WriteBatch("skips", {source.encode(): codecs.json_bytes(asdict(last.position))}))
        return last.position

    def retry(self, source: str) -> Position:
        """Reset the failure count of the failed batch; return its position. Raise if no batch failed."""
        last = self._failed(source)
        self._store.write(WriteBatch("attempts", {source.encode(): None}))
        return last.position

    def is_skipped(self, source: str, position: Position) -> bool:
        """Whether a batch is to be put into quarantine."""
        stored = self._store.get("skips", source.encode())
        return stored is not None and Position(**codecs.read_json(stored)) == position

    def done(self, source: str, change: WriteBatch) -> None:
        """Delete the failures of a source with the commit of its batch."""
        for family in ("attempts", "skips"):
            if self._store.get(family, source.encode()) is not None:
                change.delete(family, source.encode())

    def _failed(self, source: str) -> Attempt:
        last = failed_batch(self._store, source)
        if last is None:
            raise UsageError(f"no batch of table {source} has failed: there is nothing to skip")
        return last
