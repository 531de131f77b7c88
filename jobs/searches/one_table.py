"""The constraints of several families of one table, each once."""

import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from typing import TYPE_CHECKING, Any

from holdfast.constraints import NearConstraint, NearShape, PredicateSpace, Schema
from holdfast.constraints.forms import exact_forms, published_near
from holdfast.display.listing import by_count
from holdfast.display.short_forms import KINDS, NOUNS_OF_KINDS
from holdfast.display.texts import counted
from holdfast.jobs.files.engines import Engine
from holdfast.jobs.files.found_rules import Found
from holdfast.jobs.searches.bounds import SearchBounds
from holdfast.jobs.searches.contract import Line
from holdfast.jobs.searches.exact import ExactSearch
from holdfast.jobs.searches.near import NearSearch
from holdfast.jobs.searches.request import SearchRequest
from holdfast.jobs.searches.stated import NearForms, Stated

if TYPE_CHECKING:
    from holdfast.jobs.terminal.progress import Progress, ProgressTask

NEAR_FAMILIES, DENIAL = ("key", "fd", "od"), "dc"


class SearchOfFamilies:
    """A search of one table for keys, functional dependencies, order compatibilities and denial constraints.

    Parameters
    ----------
    request, families : what to search for; other families are not for one table.
    schema, rows : of the table.
    is_ranked : whether constraints have ranks.
    """

    def __init__(
        self, request: SearchRequest, families: Sequence[str], schema: Schema, rows: int, *, is_ranked: bool
    ) -> None:
        self.table = schema.table
        self._size = f"{counted(rows, 'row')}, {counted(len(schema), 'column')}"
        self._order = {name: place for place, name in enumerate(schema.names)}
        self._is_exact = request.near is None
        self._families = [family for family in NEAR_FAMILIES if family in families]
        self.bounds = SearchBounds.of(request, rows, len(schema))
        request = replace(self.bounds.request, top=sys.maxsize if is_ranked else None, every=True)
        self._explains = request.explain
        self._near = [
            NearSearch(replace(request, families=some, near=request.near or Fraction(0), max_context=most))
            for some, most in self._groups(request.max_context)
        ]
        has_denial = DENIAL in families and self.bounds.has_denial
        self._exact = ExactSearch(replace(request, families=(DENIAL,), near=None)) if has_denial else None

    def _groups(self, max_context: int | None) -> Iterator[tuple[tuple[str, ...], int | None]]:
        """Yield the families that are searched for together, with the most columns of their contexts."""
        if max_context == self.bounds.order_context:
            groups = [(tuple(self._families), max_context)]
        else:
            others = tuple(family for family in self._families if family != "od")
            groups = [(others, max_context), (("od",) if "od" in self._families else (), self.bounds.order_context)]
        yield from (group for group in groups if group[0])

    def search(self, engine: Engine, table: Any, task: "ProgressTask") -> None:
        """Search the table."""
        for near in self._near:
            near.search(engine, table, task)
        if self._exact is not None:
            self._exact.search(engine, table, task)

    @property
    def space(self) -> PredicateSpace:
        """The predicate space that was searched for denial constraints."""
        assert self._exact is not None
        return self._exact.space

    def lines(self) -> Sequence[Line]:
        """Return the constraints."""
        return self._lines

    @cached_property
    def _lines(self) -> Sequence[Line]:
        return list(self._once())

    def _once(self) -> Iterator[Line]:
        """Yield each constraint once."""
        near = [line for search in self._near for line in search.lines()]
        for line in near:
            yield self._exactly(line) if self._is_exact else line
        shown = [line for line in near if self._is_exact and (line.rank is None or line.rank[1].sound)]
        forms = NearForms({one: s.bounds[self.table] for s in self._near for one in s.request.families or ()})
        stated = Stated(line.constraint for line in shown if isinstance(line.constraint, NearConstraint))
        for line in [] if self._exact is None else self._exact.lines():
            if line.constraint not in forms and line.constraint not in stated:
                yield line

    def notes(self) -> Iterator[str]:
        """Yield how many constraints of each kind were found."""
        if not self._is_exact or self._explains:
            yield from (note for search in self._near for note in search.notes())
            yield from () if self._exact is None else self._exact.notes()
        if self._is_exact:
            counts = by_count(self._lines, lambda line: line.kind)
            kinds = ", ".join(counted(counts[kind], *NOUNS_OF_KINDS[kind]) for kind in KINDS if kind in counts)
            searched = "" if not self._near and self._exact is None else f"; {kinds or 'no constraint'}"
            yield f"{self.table}: {self._size}{searched}"

    def thresholds(self, found: Sequence[Found], engine: Engine, progress: "Progress") -> dict[Found, int]:
        """Return how many rows violate each constraint that has exceptions."""
        known: dict[Found, int] = {}
        for search in self._near:
            known |= search.thresholds(found, engine, progress)
        return known

    def _exactly(self, line: Line) -> Line:
        """Return the line of a constraint without exceptions as one of a constraint that holds."""
        near = line.constraint
        assert isinstance(near, NearConstraint)
        is_denial = near.shape in {NearShape.KEY, NearShape.CONSTANT}
        exact = next(exact_forms(near, self._order)) if is_denial else published_near(near, self._order).exact
        return replace(line, constraint=exact, fields={}, note="", below=())
