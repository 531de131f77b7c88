"""Constraints of one family, denial constraints or order dependencies, that hold on each file."""

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.constraints import Family, PredicateSpace
from holdfast.constraints.near import DEFAULT_CONTEXT
from holdfast.display.short_forms import kind_name
from holdfast.display.texts import counted
from holdfast.jobs.files.engines import Engine
from holdfast.jobs.files.spaces import space_for
from holdfast.jobs.searches.contract import Line, SearchOfTables, Shown, steps
from holdfast.jobs.searches.request import SearchRequest
from holdfast.jobs.terminal.counts import compared_across, counted_constraints

if TYPE_CHECKING:
    from holdfast.discovery.discover import Discovered
    from holdfast.discovery.reported import Reported
    from holdfast.jobs.terminal.progress import ProgressTask


class ExactSearch(SearchOfTables):
    """A search for the constraints of one family that hold."""

    def __init__(self, request: SearchRequest) -> None:
        super().__init__(request)
        self._family = Family((request.families or ())[0])
        context = DEFAULT_CONTEXT if request.max_context is None else request.max_context
        self._bound = context if self._family is Family.ORDER else request.max_predicates
        self._found: list[tuple[Discovered, Shown[Reported]]] = []

    def search(self, engine: Engine, table: Any, task: "ProgressTask") -> None:
        """Search one table."""
        schema, request = table.schema, self.request
        task.describe(f"{schema.table}: comparing columns")
        space = space_for(
            self.given_space,
            schema,
            self._family,
            partial(engine.measured, table),
            cross_columns=request.cross_columns,
        )

        def report(text: str) -> None:
            task.describe(f"{schema.table}: {text}")

        found = engine.discover(table, space, self._bound, request.thread_count, report)
        if request.top is not None:
            report(f"ranking {len(found):,} constraints")
        self._found.append((found, Shown.of(found, found.top, request)))

    @property
    def tables(self) -> list[str]:
        """The names of the tables that were searched."""
        return [found.table.schema.table for found, _ in self._found]

    @property
    def space(self) -> PredicateSpace:
        """The predicate space of the only table."""
        return self._found[0][0].space

    def lines(self) -> Iterator[Line]:
        """Yield the constraints of each table."""
        for found, shown in self._found:
            for rank, constraint in shown.constraints:
                yield Line(found.table.schema.table, constraint, kind_name(constraint), rank=rank)

    def notes(self) -> Iterator[str]:
        """Yield how many constraints were found; with `explain`, before that the steps of each search."""
        for found, shown in self._found:
            schema = found.table.schema
            if self.request.explain:
                yield f"{schema.table}: {f'plan: {found.explained.plan}' if found.explained.plan else 'steps'}"
                yield from steps(found.explained)
                if self._family is Family.DENIAL:
                    yield f"  {compared_across(found.space)}"
            kinds = found.constraints.counts().items()
            counts = ", ".join(f"{count:,} {kind.value.replace('_', ' ')}" for kind, count in kinds) or "none"
            known = counted_constraints(len(found), self._family, self._bound)
            size = f"{counted(found.table.row_count, 'row')}, {counted(len(schema), 'column')}"
            yield f"{schema.table}: {size}; {known} ({counts})"
            yield from shown.notes()
