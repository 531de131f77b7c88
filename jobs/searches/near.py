"""Constraints that hold on each file except for few rows, with these rows as examples.

    functional_dependency  Zip -> City  (2 of 300 rows, 0.667 %)
        Zip      City
        "01907"  "Lynn"    tax.csv, line 17
        "10001"  "Albany"  tax.csv, line 20  undecided
        where: Source = "import-7": 2 of 2 exceptions, 1 % of all rows

Invariant: an example is one of the rows without which the constraint holds, or could be (undecided).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from holdfast.constraints import NearConstraint, Rule, json_value
from holdfast.display.near import but_for
from holdfast.display.short_forms import kind_name
from holdfast.display.texts import columns, counted, shown_value
from holdfast.jobs.files.engines import Engine, NearSearchOptions
from holdfast.jobs.files.found_rules import Found
from holdfast.jobs.searches.contract import Line, SearchOfTables, Shown, steps
from holdfast.jobs.searches.request import SearchRequest

if TYPE_CHECKING:
    from holdfast.discovery.near.discover import NearDiscovered
    from holdfast.discovery.near.removal import Removal
    from holdfast.display.concentrations import Concentrations
    from holdfast.jobs.terminal.progress import Progress, ProgressTask
    from holdfast.tables import Table

_INDENT = " " * 4


@dataclass(frozen=True)
class _Exceptions:
    """The rows that are the exceptions of a constraint, and the values in which they are concentrated."""

    removal: "Removal"
    where: "Concentrations"


@dataclass(frozen=True)
class _FoundOnTable:
    """The near constraints of one table: those that are written, and their exceptions.

    Parameters
    ----------
    exceptions : one per constraint; None where no exceptions are listed.
    """

    near: "NearDiscovered"
    written: "Shown[NearConstraint]"
    exceptions: Sequence[_Exceptions] | None


class NearSearch(SearchOfTables):
    """A search for the near constraints of some families."""

    def __init__(self, request: SearchRequest) -> None:
        super().__init__(request)
        self._found: list[_FoundOnTable] = []
        self._tables: dict[str, Any] = {}

    def run(self, engine: Engine, progress: "Progress") -> None:
        """Read the files, and search each on its own; note which family the engine leaves out."""
        if self.request.families is None and "od" not in engine.near_families:
            progress.note("order compatibilities (od) are left out: they are found without --spark alone")
        super().run(engine, progress)

    @property
    def bounds(self) -> dict[str, int]:
        """The most columns of a context that was searched, by table; 0 for any number."""
        found: dict[str, int] = {}
        for one in self._found:
            name, bound = one.near.table.schema.table, one.near.max_context
            found[name] = min(bound, found.get(name, bound))
        return found

    def search(self, engine: Engine, table: Any, task: "ProgressTask") -> None:
        """Search one table, and list the exceptions of the constraints that are written."""
        name, request = table.schema.table, self.request
        options = NearSearchOptions(
            request.near or Fraction(0),
            request.max_context,
            request.families or engine.near_families,
            request.thread_count,
        )
        near = engine.near(table, options, lambda text: task.describe(f"{name}: {text}"))
        task.describe(f"{name}: {'naming' if request.top is None else 'ranking'} {len(near):,} constraints")
        written = Shown.of(near, near.top, request)
        task.describe(f"{name}: listing exceptions of {len(written.constraints):,} constraints")
        is_listed = request.examples and not request.as_rules
        exceptions = _exceptions(near, [constraint for _, constraint in written.constraints]) if is_listed else None
        self._found.append(_FoundOnTable(near, written, exceptions))
        self._tables[name] = table

    @property
    def tables(self) -> list[str]:
        """The names of the tables that were searched."""
        return list(self._tables)

    def lines(self) -> Iterator[Line]:
        """Yield the near constraints of each table, with examples of their exceptions."""
        as_json, examples = self.request.answering.as_json, self.request.examples
        for found in self._found:
            table = found.near.table
            for i, (rank, constraint) in enumerate(found.written.constraints):
                fields: Mapping[str, Any] = {}
                below: Sequence[str] = ()
                if found.exceptions is not None and as_json:
                    fields = _example_fields(table, found.exceptions[i], examples)
                elif found.exceptions is not None:
                    below = _example_lines(table, constraint, found.exceptions[i], examples)
                note = f"  ({but_for(constraint)})"
                yield Line(
                    table.schema.table,
                    constraint,
                    kind_name(constraint),
                    rank=rank,
                    fields=fields,
                    note=note,
                    below=below,
                )

    def thresholds(self, found: Sequence[Found], engine: Engine, progress: "Progress") -> dict[Found, int]:
        """Return how many rows violate each constraint that has exceptions, since a rule counts violating rows."""
        inexact = [
            (table, constraint)
            for table, constraint in dict.fromkeys(found)
            if isinstance(constraint, NearConstraint) and constraint.exceptions
        ]
        rules = [Rule(str(constraint), table, constraint.exact) for table, constraint in inexact]
        with progress.task("counting violating rows"):
            checked = engine.check(self._tables, rules, examples=0, threads=self.request.threads)
        return {one: counts.violating_rows or 0 for one, counts in zip(inexact, checked, strict=True)}

    def notes(self) -> Iterator[str]:
        """Yield how many near constraints were found; with `explain`, before that the steps of each search."""
        for found_on_table in self._found:
            near = found_on_table.near
            table = near.table
            if near.left_out:
                yield f"{table.schema.table}: {near.left_out}"
            if self.request.explain:
                yield f"{table.schema.table}: steps"
                yield from steps(near.explained)
                border = sum(len(part.numbers) for part in near.found.border)
                counted_text = f"{near.found.counted:,} candidates counted"
                yield f"  {counted_text}; {border:,} are as large as they can be and not near"
            shapes = near.counts().items()
            counts = ", ".join(f"{count:,} {shape.value.replace('_', ' ')}" for shape, count in shapes) or "none"
            bound = f" and at most {counted(near.max_context, 'column')} in the context" if near.max_context else ""
            found = f"{counted(len(near), 'near constraint')} with at most {counted(near.found.most, 'exception')}"
            size = f"{counted(table.row_count, 'row')}, {counted(len(table.schema), 'column')}"
            yield f"{table.schema.table}: {size}; {found}{bound} ({counts})"
            yield from found_on_table.written.notes()


def _exceptions(near: "NearDiscovered", constraints: Sequence[NearConstraint]) -> list[_Exceptions]:
    removals = near.removals(constraints)
    return list(map(_Exceptions, removals, near.concentrations(constraints, removals)))


def _example_fields(table: "Table", found: _Exceptions, examples: int) -> dict[str, Any]:
    """Return the fields of a line for programs that list exceptions, and where these are."""
    removal = found.removal
    return {
        "violating_pairs": removal.violating_pairs,
        "examples": [
            {
                "where": table.locate(row),
                "undecided": undecided,
                "row": {name: json_value(value) for name, value in table.row(row).items()},
            }
            for row, undecided in removal.first(examples)
        ],
        "where": [one.fields() for one in found.where],
    }


def _example_lines(table: "Table", constraint: NearConstraint, found: _Exceptions, examples: int) -> Sequence[str]:
    """Return the lines for people that list exceptions, with the columns of the constraint, and where these are."""
    names = [*constraint.context, *constraint.target]
    shown = found.removal.first(examples)
    if not shown:
        return ()
    lines = [[*names, "", ""]]
    for values, (row, undecided) in zip(table.rows([row for row, _ in shown]), shown, strict=True):
        cells = [shown_value(values[name]) for name in names]
        lines.append([*cells, table.locate(row), "undecided" if undecided else ""])
    where = [line for one in found.where for line in one.lines()]
    return [f"{_INDENT}{line}\n" for line in [*columns(lines), *where]]
