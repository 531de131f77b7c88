"""Scores and places of the constraints of live tables, beside the commits that change them.

    ranks  table   the places that rows of `constraints` have, by the constraint's id, as JSON

A constraint gets its score with its row; places are given in the commits of a table from time to time, where the order
has changed since (`sinks/ranks.py` says what they mean).
"""

from collections.abc import Mapping, Sequence

from holdfast.constraints import DenialConstraint, constraint_id, parse_denial
from holdfast.state import codecs
from holdfast.state.store import Reader, WriteBatch
from holdfast.streaming.maintainers.maintainer import Maintainer
from holdfast.streaming.output_rows import Described, Row
from holdfast.streaming.sinks.ranks import Ranks


class Standing:
    """The scores of one store's tables.

    Parameters
    ----------
    store : keeps the places that were written.
    every : seconds between two rewritings of a table's places.
    """

    def __init__(self, store: Reader, every: float = 300.0) -> None:
        self._store = store
        self._every = every
        self._ranks: dict[str, Ranks] = {}
        self._at: dict[str, float] = {}
        self._changed: set[str] = set()

    def seeded(self, maintainer: Maintainer) -> Mapping[str, float]:
        """Return the score of each constraint of a new table, by its id. O(constraints)."""
        table = maintainer.schema.table
        found = _scores(maintainer, list(maintainer.constraints))
        self._ranks[table] = Ranks()
        self._ranks[table].appeared(found.items())
        self._changed.add(table)
        return found

    def scored(self, maintainer: Maintainer, told: Sequence[Described]) -> Mapping[str, float]:
        """Return the score of each constraint that is told to have appeared, by its id, on the rows there are now."""
        table = maintainer.schema.table
        texts = [about["constraint"] for row, about in told if row["change"] == "appeared"]
        found = _scores(maintainer, [parse_denial(text) for text in texts])
        if told:
            self._changed.add(table)
        if table in self._ranks:
            gone = [about["constraint_id"] for row, about in told if row["change"] == "disappeared"]
            self._ranks[table].disappeared(gone)
            self._ranks[table].appeared(found.items())
        return found

    def places(self, maintainer: Maintainer, change: WriteBatch, now: float) -> list[Row]:
        """Return the rows that bring places to where they are, when it is time; add to the commit what they are.

        O(constraints) the first time after a start.
        """
        table = maintainer.schema.table
        if table not in self._changed or 0 <= now - self._at.get(table, 0.0) < self._every:
            return []
        if table not in self._ranks:
            stored = self._store.get("ranks", table.encode())
            self._ranks[table] = Ranks({} if stored is None else codecs.read_json(stored))
            self._ranks[table].restored(_scores(maintainer, list(maintainer.constraints)).items())
        ranks = self._ranks[table]
        moved = ranks.changed()
        self._at[table] = now
        self._changed.discard(table)
        change.put("ranks", table.encode(), codecs.json_bytes(dict(ranks.written)))
        return [{"constraint_id": name, "score": score, "rank": place, "_amends": True} for name, score, place in moved]


def _scores(maintainer: Maintainer, constraints: Sequence[DenialConstraint]) -> dict[str, float]:
    if not constraints:
        return {}
    table = maintainer.schema.table
    found = maintainer.scores(constraints)
    return {constraint_id(c, table): round(score, 6) for c, score in zip(constraints, found, strict=True)}
