"""Checks of declared rules on whole tables: exact counts, verdicts, examples, and on request all violating pairs.

    forms of all rules, or an error  ->  columns and groups that rules share  ->  one rule a thread

Invariant: counts are those of the definition, whatever the number of examples.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from holdfast.constraints import (
    InclusionDependency,
    Rule,
    Schema,
    UsageError,
    Value,
    json_value,
    parse_rule_parts,
)
from holdfast.constraints.columns import ColumnRef
from holdfast.constraints.rules import Body
from holdfast.discovery.detection.columns import TableColumns
from holdfast.discovery.detection.counting import count
from holdfast.discovery.detection.examples import first_of, some_pairs
from holdfast.discovery.detection.forms import Form, PairForm, RowForm, form_of
from holdfast.discovery.detection.grouping import Grouping
from holdfast.discovery.detection.listing import lists, pairs
from holdfast.discovery.explained import Explained
from holdfast.discovery.inclusion.discover import DiscoveredInclusions
from holdfast.discovery.inclusion.result import Inclusions
from holdfast.discovery.inclusion.seeding import clustered
from holdfast.discovery.threads import spread
from holdfast.display.listing import frame
from holdfast.display.rule_names import named_by_text
from holdfast.display.verdicts import RuleVerdict, Verdicts
from holdfast.display.witness import Witness
from holdfast.tables import Table
from holdfast.tables.arrays import Pairs

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Example:
    """A violation.

    Parameters
    ----------
    rows : (t, s), or one row, by their numbers from 0; empty for an inclusion.
    value : for an inclusion, a missing value.
    places, images : where the rows are, and their values by column name.
    """

    rows: tuple[int, ...] = ()
    value: Value = None
    places: tuple[str, ...] = ()
    images: tuple[Mapping[str, Value], ...] = ()

    def to_json(self) -> list[Any]:
        """Return the violation as plain JSON values."""
        if not self.rows:
            return [json_value(self.value)]
        return [
            {"where": place, "row": {name: json_value(value) for name, value in image.items()}}
            for place, image in zip(self.places, self.images, strict=True)
        ]


@dataclass(frozen=True)
class Checked(RuleVerdict):
    """One rule on the tables as they are.

    Parameters
    ----------
    examples : some violations.
    """

    examples: tuple[Example, ...] = ()
    _listed: Callable[[int], Iterator[Pairs]] = field(default=lambda _: iter(()), repr=False, compare=False)

    @property
    def holds(self) -> bool:
        """Whether there is no violation."""
        return self.violating_rows == 0

    def pairs(self, at_once: int = 1 << 20) -> Iterator[Pairs]:
        """Yield all violating pairs as (m, 2) row numbers from 0, in chunks; none if the rule is not about pairs."""
        return self._listed(at_once)

    @property
    def witnesses(self) -> list[Witness]:
        """The examples, with the columns of the rule before the other columns."""
        columns = sorted(self.rule.columns)
        return [Witness(one.images, one.places, columns, one.value) for one in self.examples]

    def to_pandas(self) -> "pd.DataFrame":
        """Return the examples as a data frame: their rows with all columns, or the missing values."""
        if isinstance(self.rule.body, InclusionDependency):
            return frame(({"missing": example.value} for example in self.examples), {"missing": "object"})
        rows = [
            {"example": number, "row": letter, "where": place, **image}
            for number, example in enumerate(self.examples, 1)
            for letter, place, image in zip("ts", example.places, example.images, strict=False)
        ]
        names = dict.fromkeys(name for row in rows for name in row)
        return frame(rows, {"example": "Int64", "row": "string", "where": "string", **dict.fromkeys(names, "object")})

    def _repr_mimebundle_(self, **_asked: object) -> dict[str, str]:
        return Verdicts([self]).bundle()

    def _repr_html_(self) -> str:
        return Verdicts([self]).bundle()["text/html"]

    def __str__(self) -> str:
        counts = [(self.violating_pairs, "pairs"), (self.violating_rows, "rows"), (self.missing_values, "values")]
        said = ", ".join(
            f"{number:,} {what[:-1] if number == 1 else what}" for number, what in counts if number is not None
        )
        return f"{self.rule.name}: {self.verdict} ({said})" if said else f"{self.rule.name}: {self.verdict}"


def rules_on(schemas: Mapping[str, Schema], rules: Sequence[Rule | str] | Rule | str) -> list[Rule]:
    """Return rules, or one rule, on tables; a rule given as text is about the table that has all its columns."""
    given = [rules] if isinstance(rules, Rule | str) else rules
    return [made for rule in given for made in ([rule] if isinstance(rule, Rule) else declared(rule, schemas))]


def declared(text: str, schemas: Mapping[str, Schema]) -> list[Rule]:
    """Return the rules that a text declares: their table is the table that has all their columns."""
    parts = parse_rule_parts(text)
    table = table_of(text, [part.body for part in parts], schemas)
    return named_by_text([Rule(text, table, part.body) for part in parts])


def table_of(name: str, bodies: Sequence[Body], schemas: Mapping[str, Schema]) -> str:
    """Return the table of a rule, given by its parts, that does not name it."""
    if isinstance(bodies[0], InclusionDependency):
        return bodies[0].dependent.table
    if len(schemas) == 1:
        return next(iter(schemas))
    columns = {column for body in bodies if not isinstance(body, InclusionDependency) for column in body.columns}
    fitting = [table for table, schema in schemas.items() if all(column in schema for column in columns)]
    if len(fitting) != 1:
        which = f"{', '.join(fitting)} have" if fitting else f"none of {', '.join(schemas)} has"
        raise UsageError(f"rule {name}: {which} all its columns: say which table is meant (table: in a rules file)")
    return fitting[0]


def check_tables(
    tables: Mapping[str, Table],
    rules: Sequence[Rule],
    *,
    exists: bool = False,
    examples: int = 3,
    texts: bool = False,
    threads: int | None = None,
    report: Callable[[str], object] = lambda _: None,
) -> Verdicts[Checked]:
    """Count what breaks declared rules on tables by name; `report` receives the steps."""
    schemas = {name: table.schema for name, table in tables.items()}
    forms = [form_of(rule, schemas) for rule in rules]
    prepared = {
        name: _Prepared(table, [f for f, r in zip(forms, rules, strict=True) if r.table == name])
        for name, table in tables.items()
    }
    threads = threads or os.cpu_count() or 1
    asked = _Asked(exists=exists, examples=examples, texts=texts, threads=threads if len(rules) == 1 else 1)

    def one(task: tuple[Rule, Form], _: object) -> Checked:
        rule, form = task
        report(f"checking {rule.name}")
        if isinstance(form, PairForm):
            return _pairs_checked(prepared[rule.table], rule, form, asked)
        if isinstance(form, RowForm):
            return _rows_checked(prepared[rule.table], rule, form, asked)
        return _values_checked(tables, rule, form.dependency, asked)

    return Verdicts(spread(zip(rules, forms, strict=True), threads, one))


@dataclass(frozen=True)
class _Asked:
    exists: bool
    examples: int
    texts: bool
    threads: int


class _Prepared:
    """The columns and groups of a table, which its rules share."""

    def __init__(self, table: Table, forms: Sequence[Form]) -> None:
        self.table = table
        self.columns = TableColumns(table)
        self.grouping = Grouping(self.columns, [form for form in forms if isinstance(form, PairForm)])

    def example(self, rows: Sequence[int]) -> Example:
        """Return the violation of these rows."""
        numbers = tuple(int(row) for row in rows)
        places = tuple(self.table.locate(row) for row in numbers)
        return Example(numbers, None, places, tuple(self.table.rows(list(numbers))))


def _pairs_checked(prepared: _Prepared, rule: Rule, form: PairForm, asked: _Asked) -> Checked:
    columns, grouping = prepared.columns, prepared.grouping
    rows = prepared.table.row_count
    if asked.exists and rule.threshold is None:
        first = next(pairs(lists(columns, grouping, form), at_once=1), None)
        if first is None:
            return Checked(rule, rows, 0, 0)
        return Checked(rule, rows, None, None, examples=(prepared.example(first[0].tolist()),)[: asked.examples])
    counted = count(columns, grouping, form, asked.threads)
    t_among, s_among = counted.first, counted.second  # for the pairs; counts are dropped

    def listed(at_once: int) -> Iterator[Pairs]:
        return pairs(lists(columns, grouping, form, t_among, s_among), at_once)

    among = first_of(t_among, asked.examples)
    shown = some_pairs(columns, grouping, form, asked.examples, among, s_among) if counted.pairs else []
    return Checked(
        rule, rows, counted.pairs, counted.rows, None, tuple(prepared.example(pair) for pair in shown), listed
    )


def _rows_checked(prepared: _Prepared, rule: Rule, form: RowForm, asked: _Asked) -> Checked:
    broken = np.flatnonzero(prepared.columns.passing_any(form.alternatives))
    shown = tuple(prepared.example([row]) for row in broken[: asked.examples].tolist())
    return Checked(rule, prepared.table.row_count, None, len(broken), examples=shown)


def _values_checked(tables: Mapping[str, Table], rule: Rule, dependency: InclusionDependency, asked: _Asked) -> Checked:
    sides = (dependency.dependent, dependency.referenced)
    parts = [_only(tables[side.table], side) for side in dict.fromkeys(sides)]
    clusters, values = clustered(parts, texts=asked.texts)
    found = DiscoveredInclusions(Inclusions(clusters), tuple(values), Explained())
    last = len(parts) - 1
    missing, occurrences = int(clusters.missing[0, last]), clusters.missing_occurrences_of(0, last)
    shown = tuple(Example(value=value) for value in found.missing(dependency, asked.examples))
    return Checked(rule, tables[rule.table].row_count, None, occurrences, missing, shown)


def _only(table: Table, side: ColumnRef) -> Table:
    """Return a table with one column of a table."""
    kept = table[side.column]
    return Table(Schema(side.table, (kept.column,)), (kept,), table.row_count)
