"""Stops a run if too large a share of the records cannot be read: then more is wrong than single records."""

from collections import defaultdict, deque

from holdfast.constraints import InputError
from holdfast.streaming.incoming.arrivals import Arrivals


class BadShare:
    """The share of bad records among the last records of each table.

    Parameters
    ----------
    most, window : the largest allowed share among the last `window` records.
    """

    def __init__(self, most: float, window: int) -> None:
        self._most = most
        self._window = window
        self._recent: dict[str, deque[tuple[int, int]]] = defaultdict(deque)

    def check(self, source: str, arrived: Arrivals, *, had_good: bool) -> None:
        """Raise if too many records are bad.

        Parameters
        ----------
        had_good : whether any earlier record of the table could be read.
        """
        if not arrived.bad or arrived.is_skipped:
            return
        bad, good = len(arrived.bad), len(arrived.records)
        example = f"{arrived.bad[0].record_id}: {arrived.bad[0].reason}"
        if not good and not had_good:
            read = "the first record could not" if bad == 1 else f"none of the first {bad:,} records could"
            raise InputError(
                f"table {source}: {read} be read: {example}. Check the source's "
                "format and encoding, and the table's columns; nothing was applied"
            )
        recent = self._recent[source]
        records = bad + good + sum(count for count, _ in recent)
        if records < self._window:
            return
        bad_ones = bad + sum(count for _, count in recent)
        if bad_ones > self._most * records:
            raise InputError(
                f"table {source}: {bad_ones} of the last {records} records could not be read, more than "
                f"quarantine.max_share ({self._most:.0%}) allows; one of them is {example}. Mend the source, or raise "
                "the limit; nothing of this batch was applied"
            )

    def note(self, source: str, records: int, bad: int) -> None:
        """Count the records of a batch that was committed."""
        recent = self._recent[source]
        recent.append((records, bad))
        while sum(count for count, _ in recent) - recent[0][0] >= self._window:
            recent.popleft()
