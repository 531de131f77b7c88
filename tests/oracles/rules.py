"""Declared rules: their exact counts and verdicts, recomputed from the definition by nested loops.

Readings taken where the definition leaves room:

- A `forbid` that speaks of one row only (all fields of t, or all of s) is a single-row rule; any other is a
  pair rule. A conjunction is violated where all its conditions are satisfied.
- Comparisons between two rows follow the order of denial constraints (null equals null, below every value);
  `<` and its kin on an unordered column are an error. Comparisons with a constant, or of two columns of one
  row, are not satisfied by a null: `require: c` is `forbid: not c`, and a null breaks no `require`.
- `require: c and d` is violated by a row that breaks c or breaks d; a row breaks a comparison that is false
  while neither side is null, breaks `is not null` where the value is null, and never breaks `is null` by
  being null.
- A test whether a value is one of some constants, or whether a whole text matches a pattern, is a comparison with
  constants: a null satisfies neither the test nor its opposite.
- A rule on pairs whose nulls are apart: a null satisfies no comparison between two rows.
- Rules that hold two columns to an order dependency use the order of order dependencies.
- A functional dependency with several columns on the right forbids one of them to differ; a pair counts
  once.
- Without a threshold a rule is broken when there is any violation. With one, only the measures it names
  count; with both, either. A share is of the rows, or of the ordered pairs of distinct rows, and is exceeded
  when the count is greater than share times total, exactly.
"""

from __future__ import annotations

import itertools
import re
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, TypeAlias

from tests.oracles import inclusion, order
from tests.oracles.values import compare, outcome, same

if TYPE_CHECKING:
    from collections.abc import Mapping

    from tests.oracles.values import Row, Table, Value

ALLOWED = {
    "=": {"="},
    "!=": {"<", ">", "!="},
    "<": {"<"},
    "<=": {"<", "="},
    ">": {">"},
    ">=": {">", "="},
}
NEGATED = {"=": "!=", "!=": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


@dataclass(frozen=True)
class Field:
    """`t.Salary` or `s.Salary`."""

    row: str
    column: str


@dataclass(frozen=True)
class Constant:
    """A constant of the other side's type."""

    value: Value


@dataclass(frozen=True)
class Comparison:
    """`t.A op s.B` or `t.A op constant`."""

    left: Field
    operator: str
    right: Field | Constant


@dataclass(frozen=True)
class NullTest:
    """`t.A is null`, or `is not null`."""

    field: Field
    wanted: bool = True


@dataclass(frozen=True)
class MemberTest:
    """`t.A in (...)`, or `not in`."""

    field: Field
    values: tuple[Value, ...]
    wanted: bool = True


@dataclass(frozen=True)
class PatternTest:
    """`t.A matches '...'`, or `not matches`; for patterns that mean the same in Python."""

    field: Field
    pattern: str
    wanted: bool = True


Condition: TypeAlias = Comparison | NullTest | MemberTest | PatternTest


@dataclass(frozen=True)
class Forbid:
    """Names what must not occur: all conditions together, on one row or on an ordered pair of rows."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True)
class Require:
    """Names what must occur: every condition, on every row."""

    conditions: tuple[Condition, ...]


@dataclass(frozen=True)
class Key:
    """No two rows agree on all these columns."""

    columns: tuple[str, ...]


@dataclass(frozen=True)
class FunctionalDependency:
    """Rows that agree on the left columns agree on the right ones."""

    left: tuple[str, ...]
    right: tuple[str, ...]


@dataclass(frozen=True)
class Ordering:
    """An order dependency as in order.py, by names; no direction makes it a constant."""

    context: tuple[str, ...]
    target: tuple[str, ...]
    direction: str | None = None


@dataclass(frozen=True)
class Inclusion:
    """Every non-null value of a column of this table is a value of a column of that table."""

    column: str
    referenced_table: str
    referenced_column: str


@dataclass(frozen=True)
class Apart:
    """A rule on pairs of rows in which a null satisfies no comparison."""

    rule: Forbid | Key | FunctionalDependency | Ordering


Rule: TypeAlias = Forbid | Require | Key | FunctionalDependency | Ordering | Inclusion | Apart


# Which rows and pairs violate


def pairs(rule: Rule, table: Table) -> set[tuple[int, int]] | None:
    """Return the violating ordered pairs of distinct rows, by position; null for single-row rules and uINDs."""
    if is_single_row(rule) or isinstance(rule, Inclusion):
        return None
    return {
        (t, s)
        for t, s in itertools.permutations(range(len(table.rows)), 2)
        if _pair_violates(rule, table, table.rows[t], table.rows[s])
    }


def rows(rule: Rule, table: Table, tables: Mapping[str, Table] | None = None) -> set[int]:
    """Return the positions of the rows in at least one violation."""
    if isinstance(rule, Inclusion):
        missing = _missing(rule, table, tables or {})
        place = table.index(rule.column)
        return {
            t
            for t, row in enumerate(table.rows)
            if row[place] is not None and any(same(row[place], value) for value in missing)
        }
    found = pairs(rule, table)
    if found is None:
        return {t for t, row in enumerate(table.rows) if _row_violates(rule, table, row)}
    return {position for pair in found for position in pair}


def is_single_row(rule: Rule) -> bool:
    """Tell whether a rule speaks of one row only."""
    if isinstance(rule, Require):
        return True
    if not isinstance(rule, Forbid):
        return False
    return len({field.row for condition in rule.conditions for field in _fields(condition)}) == 1


def _fields(condition: Condition) -> list[Field]:
    if isinstance(condition, NullTest | MemberTest | PatternTest):
        return [condition.field]
    return [side for side in (condition.left, condition.right) if isinstance(side, Field)]


def _row_violates(rule: Rule, table: Table, row: Row) -> bool:
    if isinstance(rule, Forbid):
        return all(_satisfied(condition, table, row, row) for condition in rule.conditions)
    if isinstance(rule, Require):
        return any(_broken(condition, table, row) for condition in rule.conditions)
    raise TypeError(f"{rule} is no single-row rule")


def _pair_violates(rule: Rule, table: Table, t: Row, s: Row) -> bool:
    if isinstance(rule, Apart):
        compared = [(t, name) for name in _compared(rule.rule, "t")] + [(s, name) for name in _compared(rule.rule, "s")]
        has_null = any(row[table.index(name)] is None for row, name in compared)
        return not has_null and _pair_violates(rule.rule, table, t, s)
    if isinstance(rule, Forbid):
        return all(_satisfied(condition, table, t, s) for condition in rule.conditions)
    if isinstance(rule, Key):
        return _agree(rule.columns, table, t, s)
    if isinstance(rule, FunctionalDependency):
        return _agree(rule.left, table, t, s) and not _agree(rule.right, table, t, s)
    if isinstance(rule, Ordering):
        context = tuple(table.index(name) for name in rule.context)
        target = tuple(table.index(name) for name in rule.target)
        return order.violates(t, s, order.OrderDependency(context, target, rule.direction))
    raise TypeError(f"{rule} is no rule on pairs")


def _compared(rule: Rule, row: str) -> tuple[str, ...]:
    """The columns of row `t` or `s` that a rule compares with the other row."""
    if isinstance(rule, Key):
        return rule.columns
    if isinstance(rule, FunctionalDependency):
        return (*rule.left, *rule.right)
    if isinstance(rule, Ordering):
        return (*rule.context, *rule.target)
    assert isinstance(rule, Forbid)
    between = [c for c in rule.conditions if isinstance(c, Comparison) and {f.row for f in _fields(c)} == {"t", "s"}]
    return tuple(field.column for condition in between for field in _fields(condition) if field.row == row)


def _agree(names: tuple[str, ...], table: Table, t: Row, s: Row) -> bool:
    return all(compare(t[table.index(name)], s[table.index(name)]) == 0 for name in names)


def _satisfied(condition: Condition, table: Table, t: Row, s: Row) -> bool:
    if isinstance(condition, NullTest):
        return (_value(condition.field, table, t, s) is None) == condition.wanted
    if isinstance(condition, MemberTest | PatternTest):
        value = _value(condition.field, table, t, s)
        if value is None:
            return False
        if isinstance(condition, MemberTest):
            return any(same(value, one) for one in condition.values) == condition.wanted
        return (re.fullmatch(condition.pattern, str(value)) is not None) == condition.wanted
    left, right = (_value(side, table, t, s) for side in (condition.left, condition.right))
    in_row = isinstance(condition.right, Constant) or condition.left.row == condition.right.row
    if in_row and (left is None or right is None):
        return False
    ordered = all(table.columns[table.index(field.column)].is_ordered for field in _fields(condition))
    if not ordered and condition.operator not in {"=", "!="}:
        raise ValueError(f"{condition}: the column is not ordered")
    return outcome(left, right, ordered=ordered) in ALLOWED[condition.operator]


def _broken(condition: Condition, table: Table, row: Row) -> bool:
    """`require: c` is `forbid: not c`, and a null breaks no `require` but `is not null`."""
    if isinstance(condition, NullTest):
        return _satisfied(NullTest(condition.field, not condition.wanted), table, row, row)
    if isinstance(condition, MemberTest):
        return _satisfied(MemberTest(condition.field, condition.values, not condition.wanted), table, row, row)
    if isinstance(condition, PatternTest):
        return _satisfied(PatternTest(condition.field, condition.pattern, not condition.wanted), table, row, row)
    if any(_value(field, table, row, row) is None for field in _fields(condition)):
        return False
    opposite = Comparison(condition.left, NEGATED[condition.operator], condition.right)
    return _satisfied(opposite, table, row, row)


def _value(side: Field | Constant, table: Table, t: Row, s: Row) -> Value:
    if isinstance(side, Constant):
        return side.value
    return (t if side.row == "t" else s)[table.index(side.column)]


def _missing(rule: Inclusion, table: Table, tables: Mapping[str, Table]) -> list[Value]:
    there = tables[rule.referenced_table]
    return inclusion.missing_values(table, table.index(rule.column), there, there.index(rule.referenced_column))


# Counts and verdicts

Threshold: TypeAlias = int | Fraction


@dataclass(frozen=True)
class Verdict:
    """The counts of a rule on the current rows, whether it holds, and whether its threshold is exceeded."""

    violating_pairs: int | None
    violating_rows: int
    missing_values: int | None
    holds: bool
    broken: bool


def judge(
    rule: Rule,
    table: Table,
    tables: Mapping[str, Table] | None = None,
    *,
    max_violating_pairs: Threshold | None = None,
    max_violating_rows: Threshold | None = None,
) -> Verdict:
    """Count the violations of a rule; an int is an absolute threshold, a Fraction a share."""
    found = pairs(rule, table)
    row_count = len(rows(rule, table, tables))
    pair_count = None if found is None else len(found)
    total = len(table.rows)
    if max_violating_pairs is None and max_violating_rows is None:
        max_violating_rows = 0
    return Verdict(
        pair_count,
        row_count,
        len(_missing(rule, table, tables or {})) if isinstance(rule, Inclusion) else None,
        holds=row_count == 0,
        broken=_exceeds(pair_count, max_violating_pairs, total * (total - 1))
        or _exceeds(row_count, max_violating_rows, total),
    )


def _exceeds(count: int | None, threshold: Threshold | None, total: int) -> bool:
    if count is None or threshold is None:
        return False
    return count > (threshold * total if isinstance(threshold, Fraction) else threshold)
