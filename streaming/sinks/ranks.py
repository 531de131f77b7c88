"""The places of a table's constraints by their scores, written only where they changed.

A score is measured when its constraint appears, on the rows of that moment, and stays, while later rows let the
coverage of all constraints drift: it says what the constraint told as of its row's `commit`. One that comes back is
measured anew; after a restart all are, for the places that are given from then on.

Only the first places are given, so that a constraint that appears at the front moves a thousand rows at most, not all
those behind it. Whoever writes them does so from time to time, in one commit with `written`, from which the next start
goes on.
"""

import heapq
from collections.abc import Iterable, Mapping

PLACES = 1_000


class Ranks:
    """Constraints of one table and family.

    Parameters
    ----------
    written : the places that rows have, by the constraint's id.
    places : how many are given.

    Examples
    --------
    >>> ranks = Ranks()
    >>> ranks.appeared([("a", 0.5), ("b", 0.9)])
    >>> ranks.changed()
    [('b', 0.9, 1), ('a', 0.5, 2)]
    >>> ranks.disappeared(["b"])
    >>> ranks.changed(), ranks.changed()
    ([('a', 0.5, 1)], [])
    """

    def __init__(self, written: Mapping[str, int] | None = None, places: int = PLACES) -> None:
        self._scores: dict[str, float] = {}
        self._written = dict(written or {})
        self._places = places
        self._is_stale = bool(self._written)

    @property
    def written(self) -> Mapping[str, int]:
        """The places as of the last `changed`."""
        return self._written

    def copy(self) -> "Ranks":
        """Return the same for itself. O(n)."""
        other = Ranks(self._written, self._places)
        other._scores, other._is_stale = dict(self._scores), self._is_stale
        return other

    def appeared(self, constraints: Iterable[tuple[str, float]]) -> None:
        """Take in ids with their scores. O(1) for each."""
        for constraint_id, score in constraints:
            self._scores[constraint_id] = score
            self._written.pop(constraint_id, None)  # its row is a new one, without a place
            self._is_stale = True

    def restored(self, constraints: Iterable[tuple[str, float]]) -> None:
        """Take in all current ids with their scores after a start: their rows are there, places included."""
        self._scores.update(constraints)
        self._is_stale = True

    def disappeared(self, ids: Iterable[str]) -> None:
        """Forget constraints: their rows go. O(1) for each."""
        for constraint_id in ids:
            self._scores.pop(constraint_id, None)
            self._written.pop(constraint_id, None)
            self._is_stale = True

    def changed(self) -> list[tuple[str, float, int | None]]:
        """Return (id, score, place) where rows do not say so yet; from then on they count as written.

        Equal scores go by id. O(n) comparisons where something appeared or disappeared, nothing otherwise.
        """
        if not self._is_stale:
            return []
        best = heapq.nsmallest(self._places, self._scores.items(), key=lambda item: (-item[1], item[0]))
        places = {constraint_id: place for place, (constraint_id, _) in enumerate(best, 1)}
        moved: list[tuple[str, float, int | None]] = [
            (constraint_id, self._scores[constraint_id], place)
            for constraint_id, place in places.items()
            if self._written.get(constraint_id) != place
        ]
        moved += [
            (lost, self._scores[lost], None) for lost in self._written if lost not in places and lost in self._scores
        ]
        self._written, self._is_stale = places, False
        return moved
