"""Figures of each table that a commit publishes from time to time: rows, constraints, records, time, memory."""

import resource
import sys
from collections.abc import Iterable
from functools import partial

from holdfast.streaming.commit_draft import CommitDraft


class TableFigures:
    """The figures of some tables.

    Parameters
    ----------
    tables : their names.
    every : seconds between two of one table.
    """

    def __init__(self, tables: Iterable[str], every: float) -> None:
        self._every = every
        self._done = dict.fromkeys(tables, (0, 0.0))
        self._at = dict.fromkeys(self._done, 0.0)

    def publish(
        self, draft: CommitDraft, table: str, records: int, seconds: float, figures: dict[str, float | None]
    ) -> None:
        """Add the figures of a table to a commit when it is time.

        Parameters
        ----------
        records, seconds : of the batch: these are summed up until they are published.
        figures : the others; those that are None are not known.
        """
        count, busy = self._done[table]
        count, busy = count + records, busy + seconds
        if 0 <= draft.seconds - self._at[table] < self._every:
            draft.when_kept(partial(self._done.__setitem__, table, (count, busy)))
            return
        known = {name: value for name, value in figures.items() if value is not None}
        summed = {"records": count, "busy_seconds": busy, "memory_bytes": _memory()}
        draft.rows.metrics(table, {**summed, **known})
        draft.when_kept(partial(self._done.__setitem__, table, (0, 0.0)))
        draft.when_kept(partial(self._at.__setitem__, table, draft.seconds))


def _memory() -> int:
    """Return the most memory that this process has had, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
