"""Near constraints and denial constraints of each file in one list, each rule once.

    --near 1% --family key,fd,od,dc --top 34

A denial constraint that states a key, a functional dependency or an order compatibility is left out where near
constraints of that form are searched for: it is one of them, without exceptions, or follows from one.
"""

import sys
from collections.abc import Iterator
from dataclasses import replace
from itertools import chain
from typing import TYPE_CHECKING, Any, ClassVar

from holdfast.constraints import Constraint, DenialConstraint, NearShape
from holdfast.constraints.forms import simplest_form
from holdfast.jobs.files.engines import Engine
from holdfast.jobs.files.found_rules import Found
from holdfast.jobs.searches.contract import Line, SearchOfTables
from holdfast.jobs.searches.exact import ExactSearch
from holdfast.jobs.searches.near import NearSearch
from holdfast.jobs.searches.request import SearchRequest

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.jobs.terminal.progress import Progress, ProgressTask

DENIAL = "dc"


class OneListSearch(SearchOfTables):
    """A search for near constraints, and for the denial constraints that hold and have no near form."""

    kind_width: ClassVar[int] = max(NearSearch.kind_width, ExactSearch.kind_width)

    def __init__(self, request: SearchRequest) -> None:
        super().__init__(request)
        families = tuple(family for family in request.families or () if family != DENIAL)
        every = None if request.top is None else sys.maxsize
        self._near = NearSearch(replace(request, families=families))
        self._exact = ExactSearch(replace(request, families=(DENIAL,), near=None, top=every))
        self._families = families

    def search(self, engine: Engine, table: Any, task: "ProgressTask") -> None:
        """Search one table for both."""
        self._near.search(engine, table, task)
        self._exact.search(engine, table, task)

    def lines(self) -> Iterator[Line]:
        """Yield the constraints; with --top the first of each table, near and exact ones ranked together."""
        stated = {table: NearForms(self._families, bound) for table, bound in self._near.bounds.items()}
        exact = (line for line in self._exact.lines() if line.constraint not in stated[line.table])
        every = chain(self._near.lines(), exact)
        if self.request.top is None:
            yield from every
            return
        by_table: dict[str, list[Line]] = {}
        for line in every:
            by_table.setdefault(line.table, []).append(line)
        for lines in by_table.values():
            lines.sort(key=lambda line: () if line.rank is None else line.rank[1].place())
            for place, line in enumerate(lines[: self.request.top], 1):
                yield line if line.rank is None else replace(line, rank=(place, line.rank[1]))

    def notes(self) -> Iterator[str]:
        """Yield how many constraints of both kinds were found."""
        yield from self._near.notes()
        yield from self._exact.notes()

    def thresholds(self, found: "Sequence[Found]", engine: Engine, progress: "Progress") -> dict[Found, int]:
        """Return how many rows violate each near constraint that has exceptions."""
        return self._near.thresholds(found, engine, progress)


class NearForms:
    """The constraints that near constraints of some families can state.

    Parameters
    ----------
    families : some of `key`, `fd` and `od`.
    max_context : the most columns of a context; 0 for any number.

    Examples
    --------
    >>> from holdfast.constraints import parse_denial
    >>> forms = NearForms(("fd", "od"), 1)
    >>> said = ("t.a = s.a and t.b != s.b", "t.a = s.a and t.b < s.b and t.c > s.c", "t.a <= s.a and t.b > s.b")
    >>> [parse_denial(f"not({text})") in forms for text in said]
    [True, True, False]
    """

    def __init__(self, families: "Sequence[str]", max_context: int) -> None:
        self._families = families
        self._most = max_context or sys.maxsize

    def __contains__(self, constraint: Constraint) -> bool:
        """Whether a near constraint can state a constraint."""
        near = simplest_form(constraint) if isinstance(constraint, DenialConstraint) else None
        return near is not None and _FAMILIES[near.shape] in self._families and len(near.context) <= self._most


_FAMILIES = {NearShape.KEY: "key", NearShape.CONSTANT: "fd", NearShape.ORDER: "od", NearShape.ORDER_DESC: "od"}
