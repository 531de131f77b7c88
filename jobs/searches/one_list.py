"""Constraints of several families of all files in one list, each once, those that say most first.

    holdfast discover flights.csv planes.csv                             all families
    holdfast discover planes.csv --family key,fd                         some of them
    holdfast discover planes.csv --near 1% --family key,fd,od,dc         with exceptions, where these are counted

Keys, functional dependencies and order compatibilities come from the search for near constraints, which without --near
allows no exception. A denial constraint that can state one of these, or follows from sound ones, is left out. Without
--family a functional dependency that follows from those before it is left out too, and the bounds of the search depend
on the size of each table (`bounds.py`); notes say so.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

from holdfast.constraints import NearShape, PredicateSpace, UsageError
from holdfast.constraints.forms import simplest_form
from holdfast.display.texts import counted
from holdfast.jobs.files.engines import Engine
from holdfast.jobs.files.found_rules import Found
from holdfast.jobs.searches.contract import Line, SearchOfTables
from holdfast.jobs.searches.foreign_keys import ForeignKeySearch
from holdfast.jobs.searches.one_table import DENIAL, SearchOfFamilies
from holdfast.jobs.searches.request import SearchRequest
from holdfast.jobs.searches.stated import Dependencies

if TYPE_CHECKING:
    from holdfast.jobs.terminal.progress import Progress, ProgressTask

FOREIGN = "fk"
EVERY = ("key", "fk", "fd", "od", "dc")
"""The families of the list."""
SHOWN = 30
"""So many lines are written of all families, if no number is given."""


class OneListSearch(SearchOfTables):
    """A search for the constraints of several families."""

    def __init__(self, request: SearchRequest) -> None:
        super().__init__(request)
        self._families = request.families or EVERY
        self._shows_first = request.top is not None or request.families is None or request.every
        self._foreign = ForeignKeySearch(request) if FOREIGN in self._families else None
        self._parts: list[SearchOfFamilies] = []
        self._read: list[Any] = []
        self._dependencies: dict[str, Dependencies] = {}
        self._following = 0
        if (request.space or request.write_space) and DENIAL not in self._families:
            raise UsageError("--space and --write-space are for denial constraints: add dc to --family")

    def run(self, engine: Engine, progress: "Progress") -> None:
        """Read the files, search each on its own, and compare the values of all of them."""
        if "od" in self._families and "od" not in engine.near_families:
            self._families = tuple(family for family in self._families if family != "od")
            progress.note("order compatibilities (od) are left out: they are found without --spark alone")
        super().run(engine, progress)
        if self._foreign is not None:
            with progress.task("comparing values") as task:
                self._foreign.rank(engine.inclusions_among(self._read, self.request.reading, task.describe))
        self._read.clear()

    def search(self, engine: Engine, table: Any, task: "ProgressTask") -> None:
        """Search one table."""
        rows = engine.row_count(table)
        part = SearchOfFamilies(self.request, self._families, table.schema, rows, is_ranked=self._shows_first)
        part.search(engine, table, task)
        self._parts.append(part)
        if self._foreign is not None:
            self._read.append(table)

    @property
    def tables(self) -> list[str]:
        """The names of the tables that were searched."""
        return [part.table for part in self._parts]

    @property
    def space(self) -> PredicateSpace:
        """The predicate space of the only table."""
        return self._parts[0].space

    def lines(self) -> Iterator[Line]:
        """Yield the constraints that are written; ranked ones are ranked together."""
        if not self._shows_first:
            yield from (replace(line, rank=None) for line in self._every if line not in self._unlikely)
            return
        for place, line in enumerate(self._shown, 1):
            yield line if line.rank is None else replace(line, rank=(place, line.rank[1]))

    def notes(self) -> Iterator[str]:
        """Yield how many constraints were found, how far the search went, and how many are not written."""
        for part in self._parts:
            yield from part.notes()
        yield from self._how_far()
        if self._foreign is not None:
            yield from self._foreign.notes()
        if self._shows_first:
            yield from self._unshown()
        elif self._unlikely:
            more = counted(len(self._unlikely), "less likely foreign key")
            yield f"{more} left out: --all shows all constraints, best first"

    def thresholds(self, found: Sequence[Found], engine: Engine, progress: "Progress") -> dict[Found, int]:
        """Return how many rows violate each constraint that has exceptions."""
        known: dict[Found, int] = {}
        for part in self._parts:
            known |= part.thresholds([one for one in found if one[0] == part.table], engine, progress)
        return known if self._foreign is None else known | self._foreign.thresholds(found, engine, progress)

    @cached_property
    def _every(self) -> Sequence[Line]:
        """All lines, ranked together if some are."""
        found = list(chain.from_iterable(part.lines() for part in self._parts))
        found += [] if self._foreign is None else self._foreign.lines()
        found = [line for line in found if not self.request.kinds or line.kind in self.request.kinds]
        if self._shows_first:
            found.sort(key=lambda line: () if line.rank is None else line.rank[1].place())
        return found

    @cached_property
    def _sound(self) -> Sequence[Line]:
        return [line for line in self._every if line.rank is not None and line.rank[1].sound]

    @cached_property
    def _unlikely(self) -> Sequence[Line]:
        """Foreign keys that chance explains; other lines have no rank unless all are ranked."""
        return [line for line in self._every if line.rank is not None and not line.rank[1].sound]

    @cached_property
    def _shown(self) -> Sequence[Line]:
        if self.request.every or not self._sound:
            return self._every[: self._most]
        if self.request.families is not None:
            return self._sound[: self._most]
        return list(islice((line for line in self._sound if not self._follows(line)), self._most))

    def _follows(self, line: Line) -> bool:
        """Whether a functional dependency follows from those of its table that say more, counted as such."""
        near = simplest_form(line.constraint)
        if near is None or near.shape is not NearShape.CONSTANT:
            return False
        follows = not self._dependencies.setdefault(line.table, Dependencies()).add(near)
        self._following += follows
        return follows

    @property
    def _most(self) -> int | None:
        """How many lines are written at most; None for all."""
        if self.request.top is not None or self.request.every:
            return self.request.top
        return SHOWN

    def _how_far(self) -> Iterator[str]:
        """Yield how far the search went, once for the tables on which it went as far."""
        tables: dict[str, list[str]] = {}
        for part in self._parts:
            tables.setdefault(str(part.bounds), []).append(part.table)
        for text, names in tables.items():
            where = f"{', '.join(names)}: " if len(tables) > 1 else ""
            yield from [f"{where}searched for at most {text}"] if text else []

    def _unshown(self) -> Iterator[str]:
        """Yield how many constraints are not written, and the options that write them."""
        every, sound, shown = (len(lines) for lines in (self._every, self._sound, self._shown))
        if shown == every:
            return
        if not sound:
            yield "none of them is sound: too few rows could violate them to tell rules from chance"
            return
        follow = "follows" if self._following == 1 else "follow"
        following = f", {self._following:,} {follow} from others" if self._following else ""
        are, are_shown = ("is" if count == 1 else "are" for count in (sound, shown))
        more = f", {shown:,} {are_shown} shown: --top N shows more" if shown + self._following < sound else ""
        yield f"{sound:,} of {every:,} constraints {are} sound{following}{more}; --all shows all"
