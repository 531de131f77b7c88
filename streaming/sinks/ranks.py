"""The ranks of a table's constraints by their scores, published only where they changed.

A score is measured when its constraint appears, on the rows of that moment, and stays the same while rows change: it is
right as of the `commit` of its row. A constraint that appears again is measured again; after a restart all constraints
are, for the ranks published from then on.

Only the first ranks are published, so that a constraint that appears at the front changes at most a thousand rows.
Ranks are published from time to time, in one commit with `written`, from which the next start continues.
"""

import heapq
from collections.abc import Iterable, Mapping

PLACES = 1_000


class Ranks:
    """The ranked constraints of one table and family.

    Parameters
    ----------
    written : the published ranks by constraint id.
    places : how many ranks are published.

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
        """The published ranks as of the last `changed`."""
        return self._written

    def copy(self) -> "Ranks":
        """Return a copy. O(n)."""
        other = Ranks(self._written, self._places)
        other._scores, other._is_stale = dict(self._scores), self._is_stale
        return other

    def appeared(self, constraints: Iterable[tuple[str, float]]) -> None:
        """Add constraints that appeared, with their scores. O(1) for each."""
        for constraint_id, score in constraints:
            self._scores[constraint_id] = score
            self._written.pop(constraint_id, None)  # its row is new, and has no rank
            self._is_stale = True

    def restored(self, constraints: Iterable[tuple[str, float]]) -> None:
        """Add all current constraints with their scores after a restart: their rows have ranks already."""
        self._scores.update(constraints)
        self._is_stale = True

    def disappeared(self, ids: Iterable[str]) -> None:
        """Remove constraints that disappeared: their rows are deleted. O(1) for each."""
        for constraint_id in ids:
            self._scores.pop(constraint_id, None)
            self._written.pop(constraint_id, None)
            self._is_stale = True

    def changed(self) -> list[tuple[str, float, int | None]]:
        """Return (id, score, rank) of rows whose rank changed; they count as published from now on.

        Equal scores are ordered by id. O(n) if constraints appeared or disappeared, else O(1).
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
