"""The position of the batches of commits in their sources."""

from collections.abc import Iterable
from typing import Any

from holdfast.dashboard.reading.batches import BATCHES
from holdfast.dashboard.reading.outputs import Outputs, any_of
from holdfast.display.positions import position_in_words

_COLUMNS = ("commit", "source", "batch_id", "start_offsets", "end_offsets", "files")


def positions_of(outputs: Outputs, commits: Iterable[int]) -> dict[int, dict[str, Any]]:
    """Return the table, the batch and the position of each commit with a batch. O(files with these commits)."""
    wanted = sorted(set(commits))
    if not wanted:
        return {}
    rows = outputs.read(BATCHES, _COLUMNS, any_of("commit", wanted)).to_pylist()
    return {
        row["commit"]: {"source": row["source"], "batch_id": row["batch_id"], "position": position_in_words(row)}
        for row in rows
    }
