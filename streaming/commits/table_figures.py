"""The figures of tables in the output table `metrics`: rows, constraints, records, seconds, memory, lag."""

import resource
import sys
from collections.abc import Iterable
from functools import partial

from holdfast.streaming.commits.applied_batch import AppliedBatch
from holdfast.streaming.commits.draft import CommitDraft


class TableFigures:
    """The figures of tables, published from time to time.

    Parameters
    ----------
    tables : the names of the tables.
    every : the seconds between two publications of one table.
    """

    def __init__(self, tables: Iterable[str], every: float) -> None:
        self._every = every
        self._done = dict.fromkeys(tables, (0, 0.0))
        self._at = dict.fromkeys(self._done, 0.0)

    def publish(self, draft: CommitDraft, batch: AppliedBatch, behind: int) -> None:
        """Add the figures of a batch's table to a commit, when it is time; records and seconds are sums until then.

        Parameters
        ----------
        behind : how many commits are not published yet.
        """
        table, (count, busy) = batch.source, self._done[batch.source]
        count, busy = count + batch.records, busy + sum(batch.took.values())
        if 0 <= draft.seconds - self._at[table] < self._every:
            draft.when_kept(partial(self._done.__setitem__, table, (count, busy)))
            return
        figures = {
            "rows": batch.result.rows,
            "constraints": batch.constraints,
            "records": count,
            "busy_seconds": busy,
            "memory_bytes": _memory(),
            "commits_to_publish": behind,
        }
        if batch.result.near_counts is not None:
            figures |= dict(zip(("near_constraints", "near_with_exceptions"), batch.result.near_counts, strict=True))
        lag = batch.lag_seconds
        draft.rows.metrics(table, figures if lag is None else {**figures, "lag_seconds": lag})
        draft.when_kept(partial(self._done.__setitem__, table, (0, 0.0)))
        draft.when_kept(partial(self._at.__setitem__, table, draft.seconds))


def _memory() -> int:
    """Return the peak memory of this process, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
