"""Compares an edited configuration with a state: a plan for each table, or an error with all contradictions.

A plan keeps a table unchanged, defines it anew over its stored rows, seeds it, or removes it (docs/evolution.md).
Invariant: planning writes nothing, and uses only the records of the state; changes that need other data are refused.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.constraints import Column, ColumnType, Schema, StateRefused
from holdfast.constraints.columns import unknown_name
from holdfast.jobs.application.seeding import (
    columns_of_values,
    cross_columns,
    declared_columns,
    relevant_settings,
)
from holdfast.jobs.configuration.bounds import bounds_of
from holdfast.jobs.configuration.settings import Settings
from holdfast.jobs.configuration.table_settings import DeltaSource, TableSettings
from holdfast.state.store import Reader
from holdfast.streaming.commits.table_records import TableRecord
from holdfast.streaming.maintainers.rules.maintainer import MonitoredRule, uncoded
from holdfast.streaming.maintainers.table.evolving import Definition, EvolvedColumn
from holdfast.streaming.pipeline import MOST_LEFT_OUT
from holdfast.streaming.seeding import table_rules
from holdfast.streaming.state_view import StateView

Arrived = Callable[[TableSettings], Mapping[str, ColumnType | None]]
"""Returns the current columns of a table's source, with their types; None for a column of an unsupported type."""

_TEXT_IS_KNOWN = ("integer", "date")


@dataclass(frozen=True)
class TablePlan:
    """The plan for one table.

    Parameters
    ----------
    table : its new settings.
    number, record : its number and record in the state; None and an empty record for a new table.
    definition : its new definition; None where the table stays unchanged.
    known : all columns of its source.
    declared : the columns whose type a configuration declared at any time.
    changes : the changes, for people.
    """

    table: TableSettings
    number: int | None = None
    record: TableRecord = field(default_factory=TableRecord)
    definition: Definition | None = None
    known: tuple[str, ...] = ()
    declared: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Plan:
    """The plan for a state.

    Parameters
    ----------
    tables : the plans for the configured tables.
    left_out : the names of the tables that are removed.
    changes : the changes, for people; empty where the state fits the configuration.
    """

    tables: tuple[TablePlan, ...]
    left_out: tuple[str, ...]
    changes: tuple[str, ...]


def planned(settings: Settings, rules: Sequence[MonitoredRule], store: Reader, arrived: Arrived) -> Plan:
    """Compare a configuration with a state.

    Raises `StateRefused` with all changes that the state cannot make.
    """
    view = StateView(store)
    plans, refused = [], []
    for table in settings.tables:
        if table.name not in view.tables:
            plans.append(TablePlan(table, changes=(f"table {table.name} is new: it is seeded",)))
            continue
        change = _Change(settings, table, view)
        plans.append(change.plan(rules, arrived))
        refused += [f"table {table.name}: {problem}" for problem in change.refused]
    if refused:
        raise StateRefused(
            "the configuration contradicts the state it was seeded with:\n  "
            + "\n  ".join(refused)
            + "\nChange it back, or seed anew: holdfast seed --replace"
        )
    gone = tuple(name for name in view.tables if name not in {table.name for table in settings.tables})
    changes: list[str] = []
    for plan in plans:
        changes += plan.changes if plan.number is None else [f"table {plan.table.name}: {t}" for t in plan.changes]
    changes += [f"table {name} is not in the configuration any more: it is left out" for name in gone]
    changes += _of_values(settings, rules, view)
    return Plan(tuple(plans), gone, tuple(changes))


def _of_values(settings: Settings, rules: Sequence[MonitoredRule], view: StateView) -> Iterator[str]:
    """Yield the columns that rules on inclusions newly need; with the inclusion family, all columns are needed."""
    if settings.constraints.inclusion is not None:
        return
    for ref in sorted(columns_of_values(rules) - view.followed_columns, key=str):
        yield f"the values of {ref} are followed"


class _Change:
    """The change of one table."""

    def __init__(self, settings: Settings, table: TableSettings, view: StateView) -> None:
        self._settings = settings
        self._table = table
        self._number, self._record = view.numbers[table.name], view.tables[table.name]
        self._progress = view.progress(table.name)
        self._definition = view.definition(table.name)
        self._schema = self._definition.space.schema
        self._now = relevant_settings(table, settings)
        self._then = self._record.settings
        self.refused: list[str] = []

    def plan(self, rules: Sequence[MonitoredRule], arrived: Arrived) -> TablePlan:
        """Return the plan for the table."""
        table, now, then = self._table, self._now, self._then
        differing = [key for key in now if now[key] != then.get(key)]
        changes = [f"'{key}' is {_shown(now[key])}, and was {_shown(then.get(key))}" for key in differing]
        for key in ("source", "sequence"):
            if key in differing:
                self.refused.append(changes[differing.index(key)])
        if (engine := self._record.engine) != self._settings.engine:
            self.refused.append(f"'engine' is {self._settings.engine}, and was {engine}: rows are held elsewhere")
        if "key" in differing and (self._progress.owed or table.sequence or isinstance(table.source, DeltaSource)):
            self.refused.append(
                f"{changes[differing.index('key')]}: the deletes of rows to come, sequences or versions that are "
                "remembered by the old key cannot be found by another key"
            )
        self._refuse_other_sequence()
        columns, known, more = self._columns(arrived(table), self._progress.left_out)
        changes += more
        its_rules = table_rules(rules, table.name)
        if self.refused:
            return TablePlan(table, self._number, self._record, changes=tuple(changes))
        bounds = bounds_of(table, self._settings)
        is_new = [made.column for made in columns] != list(self._schema.columns)
        is_new |= any(key in differing for key in ("key", "max_predicates", "max_context", "near", "cross_columns"))
        if not is_new:
            wide = uncoded(self._definition.coding, self._schema, its_rules)
            changes += [f"rule {one.rule.name} compares columns that were not compared before" for one in wide]
            is_new = bool(wide)
        if not is_new and self._definition.reports_otherwise:
            changes.append("constraints that no table can break are not reported any more")
            is_new = True
        definition = Definition(columns, table.key or (), bounds, self._cross(columns), its_rules) if is_new else None
        return TablePlan(table, self._number, self._record, definition, known, self._declared(), tuple(changes))

    def _refuse_other_sequence(self) -> None:
        """Refuse a new type of a sequence column that is not monitored."""
        noted, declared = self._record.sequence, self._table.columns.get(self._table.sequence or "")
        if not noted or declared is None or declared.type is None or noted["name"] in self._schema:
            return
        if str(declared.type) != noted["type"]:
            self.refused.append(f"the sequence {noted['name']} is {declared.type}, and was {noted['type']}")

    def _cross(self, columns: Sequence[EvolvedColumn]) -> str | tuple[tuple[str, str], ...] | None:
        """Return how pairs of columns are chosen; None where the pairs stay the same."""
        cross = cross_columns(self._settings, Schema(self._table.name, tuple(made.column for made in columns)))
        is_new = (
            self._now["cross_columns"] != self._then.get("cross_columns") or self._then.get("max_predicates") is None
        )
        return cross if is_new or cross not in ("auto", "related") else None

    def _columns(
        self, arrived: Mapping[str, ColumnType | None], left_out: Mapping[str, str]
    ) -> tuple[list[EvolvedColumn], tuple[str, ...], list[str]]:
        """Return the monitored columns, the names of all columns of the source, and texts for their changes."""
        table, schema = self._table, self._schema
        renamed = self._renamed(left_out)
        before = schema.names if self._record.known is None else self._record.known  # all columns of the source
        known = [renamed.get(name, name) for name in before]
        kept = [
            EvolvedColumn(self._column(name, renamed.get(name, name)), name)
            for name in schema.names
            if self._table.monitors(renamed.get(name, name))
        ]
        self._refuse_forgotten(known, {made.column.name for made in kept})
        arrived = self._distinct(arrived, known, [made.column.name for made in kept])
        if arrived:
            known = [name for name in known if name in arrived]
        declared = {name: column.type for name, column in table.columns.items() if column.type is not None}
        new = {name: kind for name, kind in {**arrived, **declared}.items() if name not in {*known, table.sequence}}
        for name in new:
            if name in declared and name not in arrived and not self._record.watches_fields:
                self.refused.append(
                    f"column {name}: the version that seeded the state did not note which fields no column has, so "
                    "values of it may have been left out"
                )
        added, changes = self._added(new, left_out)
        known += new
        known += [name for name in table.exclude if name not in known]
        columns = [*kept, *added]
        there = [made.column.name for made in columns]
        for setting in ("key", "include"):
            for name in getattr(table, setting) or ():
                if name not in there and not (setting == "include" and name in known):
                    self.refused.append(unknown_name(f"'{setting}' names a column that does not exist,", name, there))
        if not columns:
            self.refused.append("no column would be left")
        changes += [f"column {made.was} is called {made.column.name}" for made in kept if made.was != made.column.name]
        return columns, tuple(known), changes

    def _added(
        self, new: Mapping[str, ColumnType | None], left_out: Mapping[str, str]
    ) -> tuple[list[EvolvedColumn], list[str]]:
        """Return the new columns that are monitored, and a text for each new column."""
        added, changes = [], []
        for name, kind in new.items():
            if kind is None or not self._table.monitors(name):
                changes.append(f"column {name} is new, and left out")
                continue
            if since := _left_out_since(name, left_out):
                self.refused.append(
                    f"column {name}: its values were left out since {since}, so it would be wrong in the rows that "
                    "came since (with 'new_columns: stop' a run stops before that)"
                )
            added.append(EvolvedColumn(Column(name, kind, self._ordered(name))))
            changes.append(f"column {name} is new: it is null in the existing rows")
        return added, changes

    def _distinct(
        self, arrived: Mapping[str, ColumnType | None], known: Sequence[str], kept: Sequence[str]
    ) -> Mapping[str, ColumnType | None]:
        """Return the columns of a source; refuse new columns that may be renamed old columns."""
        table = self._table
        if not arrived or not all(name in arrived for name in kept):  # reported by the source
            return {}
        gone = [name for name in known if name not in arrived]
        configured = {*known, *table.columns, *table.exclude, table.sequence}
        unclear = [name for name in arrived if name not in configured and self._table.monitors(name)]
        if gone and unclear:
            self.refused.append(
                f"the source has new columns ({', '.join(unclear)}), and lacks {', '.join(gone)}: a column may have "
                "been renamed. Under 'columns' write {new: {was: old}} for a renamed column, or the type of a new one; "
                "name the others under 'exclude'"
            )
        return arrived

    def _renamed(self, left_out: Mapping[str, str]) -> dict[str, str]:
        """Return the new names of renamed columns, by their old names."""
        found: dict[str, str] = {}
        for name, column in self._table.columns.items():
            if column.was is None:
                continue
            before = (self._then.get("columns") or {}).get(name, {})
            if name in self._schema and before.get("was") == column.was:
                continue  # renamed by an earlier start, or before the seed
            if name in {*self._schema.names, *(self._record.known or ())} or column.was in found:
                self.refused.append(
                    f"column {name} is to take over {column.was}: {name} is a column itself, or {column.was} is taken "
                    "over already. Rename one column at a time, each to a name that is free"
                )
            elif column.was in self._schema:
                found[column.was] = name
                if column.was in self._remembered:
                    self.refused.append(f"column {column.was} is of the key, by whose name sequences are remembered")
                if since := _left_out_since(name, left_out):
                    self.refused.append(
                        f"column {column.was} is to be {name}, of which values were left out since {since}: it would "
                        "be wrong in the rows that came since (with 'new_columns: stop' a run stops before that)"
                    )
            else:
                self.refused.append(unknown_name(f"column {name} is to take over", column.was, self._schema.names))
        return found

    @property
    def _remembered(self) -> set[str]:
        """The columns whose values are the keys of remembered sequences, or versions of a feed."""
        table = self._table
        if table.sequence is None and not isinstance(table.source, DeltaSource):
            return set()
        return {*(self._then.get("key") or ()), *([] if table.sequence is None else [table.sequence])}

    def _declared(self) -> tuple[str, ...]:
        """Return the current names of the columns whose type was declared at any time."""
        renamed = {c.was: name for name, c in self._table.columns.items() if c.was in self._schema}
        before = {*self._record.declared, *self._given_types()}
        return tuple(sorted({*(renamed.get(name, name) for name in before), *declared_columns(self._table)}))

    def _given_types(self) -> list[str]:
        return [name for name, column in (self._then.get("columns") or {}).items() if column.get("type")]

    def _column(self, was: str, name: str) -> Column:
        """Return the new definition of a column."""
        old, declared = self._schema[was], self._table.columns.get(name)
        kind = old.type if declared is None or declared.type is None else declared.type
        before = (self._then.get("columns") or {}).get(was, {})
        if kind != old.type and was in self._remembered:
            self.refused.append(
                f"column {name} is {kind}, and was {old.type}: sequences and versions are remembered by its values"
            )
        given = was in {*self._record.declared, *self._given_types()}
        if kind != old.type and kind.name == "string" and (old.type.name not in _TEXT_IS_KNOWN or given):
            self.refused.append(
                f"column {name} is {kind}, and was {old.type}: how its values were written was not kept"
            )
        ordered = self._ordered(name)
        if ordered is None and before.get("ordered") is None:
            ordered = old.ordered
        return Column(name, kind, ordered, old.assumed and kind == old.type)

    def _ordered(self, name: str) -> bool | None:
        declared = self._table.columns.get(name)
        return None if declared is None else declared.ordered

    def _refuse_forgotten(self, known: Sequence[str], kept: set[str]) -> None:
        """Refuse to monitor columns that were not monitored before, since their values were not stored."""
        include, exclude = self._then.get("include"), self._then.get("exclude") or ()
        for name in known:
            was_wanted = (include is None or name in include) and name not in exclude
            if name not in kept and self._table.monitors(name) and not was_wanted:
                self.refused.append(f"column {name} was left out before: its values were not kept")


def _left_out_since(name: str, left_out: Mapping[str, str]) -> str:
    """Return the first record of which a field may have been left out; empty where none was."""
    if name in left_out:
        return f"record {left_out[name]}"
    return "some record, among many other fields" if len(left_out) >= MOST_LEFT_OUT else ""


def _shown(value: Any) -> str:
    return "not set" if value in (None, [], {}) else str(value)
