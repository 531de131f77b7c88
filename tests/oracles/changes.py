"""Netting of micro-batches, and the change between two reported sets with its reasons, from the definition.

Readings taken where the definition leaves room:

- Among changes of one key in a batch, the one of the highest sequence counts; of equal sequences, the later
  in the list. A record is *late* when its sequence is below the one kept for its key before the batch
  (`sequence: <column>` only); records overtaken inside the batch are neither late nor ignored.
- After netting, a delete whose key has no stored row is ignored and counted, also if the batch itself had
  inserted that key before. An upsert that equals the stored row is nothing, and not counted as ignored.
- Keyless: `owed` counts the deletes that are owed after the batch, `newly_owed` those that this batch adds.
  A copy is a row of the table when its signed sum is positive; an update must come as a delete and an
  insert.
- `rows_in` and `rows_out` are the rows that enter and leave the table after netting; an update is one of
  each.
- A constraint that appears held before exactly when a reported one implied it; all such that disappeared may
  stand as `by`. It was `released` otherwise, and every removed row of a former violating pair may stand as
  its cause.
- Where the box of everything is what implies (fewer than two rows), `by` is `not()`.
- An inclusion dependency is never implied or weakened. It may be released by an insert: then there is no
  removed row.
"""

from __future__ import annotations

import itertools
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeAlias, TypeVar

from tests.oracles import denial, inclusion, order
from tests.oracles.values import Row, canonical_row, same_row

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping, Sequence

    from tests.oracles.denial import Box, Space
    from tests.oracles.inclusion import ColumnName
    from tests.oracles.values import Column, Table

# Netting

SignedRow: TypeAlias = tuple[Row, int]


@dataclass(frozen=True)
class Counts:
    """What a micro-batch did."""

    rows_in: int
    rows_out: int
    inserted: int
    deleted: int
    updated: int
    ignored: int
    late: int
    newly_owed: int
    owed: int
    rows: int


@dataclass(frozen=True)
class KeyedChange:
    """A record of a keyed table: `insert` or `update` with a row, or `delete`."""

    operation: str
    key: Hashable
    row: Row | None
    sequence: int


@dataclass(frozen=True)
class KeylessChange:
    """A record of a keyless table: `insert` or `delete` of a whole row."""

    operation: str
    row: Row


def apply_keyed(
    stored: Mapping[Hashable, Row],
    batch: Sequence[KeyedChange],
    kept_sequences: Mapping[Hashable, int] | None = None,
) -> tuple[dict[Hashable, Row], dict[Hashable, int], Counts]:
    """Net a batch per key against the stored rows; return the new rows, the last sequence per key, the counts.

    `kept_sequences` has the last sequence of each key, deleted ones included; without it nothing is late.
    """
    after = dict(stored)
    sequences = dict(kept_sequences or {})
    inserted = deleted = updated = ignored = late = 0
    timely = []
    for change in batch:
        if kept_sequences is not None and change.sequence < kept_sequences.get(change.key, change.sequence):
            late += 1
        else:
            timely.append(change)
    for key in {change.key for change in timely}:
        last = max((change.sequence, place) for place, change in enumerate(timely) if change.key == key)
        change = timely[last[1]]
        sequences[key] = change.sequence
        before = stored.get(key)
        if change.operation == "delete":
            ignored += before is None
            deleted += before is not None
            after.pop(key, None)
        elif change.row is None:
            raise ValueError(f"{change.operation} without a row")
        elif before is None:
            inserted += 1
            after[key] = change.row
        elif not same_row(before, change.row):
            updated += 1
            after[key] = change.row
    counts = Counts(
        rows_in=inserted + updated,
        rows_out=deleted + updated,
        inserted=inserted,
        deleted=deleted,
        updated=updated,
        ignored=ignored,
        late=late,
        newly_owed=0,
        owed=0,
        rows=len(after),
    )
    return after, sequences, counts


def apply_keyless(stored: Sequence[SignedRow], batch: Sequence[KeylessChange]) -> tuple[list[SignedRow], Counts]:
    """Add the signed changes of a batch to the signed sum of each row; return the sums that are not zero."""
    named = {canonical_row(row): row for row in [row for row, _ in stored] + [one.row for one in batch]}
    old = Counter({canonical_row(row): count for row, count in stored})
    new = old.copy()
    for change in batch:
        if change.operation not in {"insert", "delete"}:
            raise ValueError(f"a keyless table knows no {change.operation}")
        new[canonical_row(change.row)] += 1 if change.operation == "insert" else -1
    inserted = sum(max(0, max(0, new[name]) - max(0, old[name])) for name in named)
    deleted = sum(max(0, max(0, old[name]) - max(0, new[name])) for name in named)
    counts = Counts(
        rows_in=inserted,
        rows_out=deleted,
        inserted=inserted,
        deleted=deleted,
        updated=0,
        ignored=0,
        late=0,
        newly_owed=sum(max(0, max(0, -new[name]) - max(0, -old[name])) for name in named),
        owed=sum(max(0, -new[name]) for name in named),
        rows=sum(max(0, new[name]) for name in named),
    )
    return [(row, new[name]) for name, row in named.items() if new[name] != 0], counts


def rows_of(sums: Sequence[SignedRow]) -> list[Row]:
    """List the rows of a keyless table: each row as often as its signed sum says, none where it is owed."""
    return [row for row, count in sums for _ in range(count)]


# The change between two reported sets

Versions: TypeAlias = "Mapping[Hashable, Row]"
C = TypeVar("C")


@dataclass(frozen=True)
class Change:
    """A constraint that appeared or disappeared, with everything that may be given as its cause.

    `by` has the texts of the constraints that may stand as `by` (implied, weakened). `witnesses` has what may
    stand as witness: the live violating pairs of row names (violated), the names of the removed rows that had
    held the constraint back (released); for inclusion dependencies the values missing now, or missing before.
    """

    change: str
    constraint: str
    reason: str
    by: frozenset[str] = frozenset()
    witnesses: frozenset[Hashable] = frozenset()


def denial_changes(
    before: Versions, after: Versions, space: Space, columns: Sequence[Column], max_predicates: int = 0
) -> set[Change]:
    """Return the change of the reported denial constraints between two states of a table, rows by name.

    A name stands for one version of a row as long as the row stays the same; another row under a name is
    another version, the old one removed.
    """

    def implied(strong: Box, weak: Box) -> bool:
        return denial.implies_up_to_mirror(strong, weak, space)

    found = _changes(
        denial.reported(list(before.values()), space, columns, max_predicates),
        denial.reported(list(after.values()), space, columns, max_predicates),
        implied,
        lambda box: _violating_names(before, lambda t, s: denial.violates(t, s, box, space)),
        lambda box: _violating_names(after, lambda t, s: denial.violates(t, s, box, space)),
        removed=_removed(before, after),
    )
    by_everything = frozenset({denial.text(denial.everything(space), space, columns)})
    return {
        replace(change, by=by_everything) if change.reason in {"implied", "weakened"} and not change.by else change
        for change in found
    }


def order_changes(before: Versions, after: Versions, columns: Sequence[Column], max_context: int = 0) -> set[Change]:
    """Return the change of the reported order dependencies between two states of a table, rows by name."""

    def named(versions: Versions) -> dict[str, order.OrderDependency]:
        found = order.reported(list(versions.values()), len(columns), max_context)
        return {order.text(dependency, columns): dependency for dependency in found}

    return _changes(
        named(before),
        named(after),
        order.implies,
        lambda dependency: _violating_names(before, lambda t, s: order.violates(t, s, dependency)),
        lambda dependency: _violating_names(after, lambda t, s: order.violates(t, s, dependency)),
        removed=_removed(before, after),
    )


def inclusion_changes(before: Sequence[Table], after: Sequence[Table], *, strings_all: bool = False) -> set[Change]:
    """Return the change of the inclusion dependencies between two states of all tables."""
    old = inclusion.reported(before, strings_all=strings_all)
    new = inclusion.reported(after, strings_all=strings_all)

    def missing(tables: Sequence[Table], pair: tuple[ColumnName, ColumnName]) -> frozenset[Hashable]:
        seen = inclusion.with_strings_everywhere(tables) if strings_all else tables
        (left, a), (right, b) = [
            (table, table.index(column)) for name, column in pair for table in seen if table.name == name
        ]
        return frozenset(inclusion.missing_values(left, a, right, b))

    return {
        Change("disappeared", inclusion.text(*pair), "violated", witnesses=missing(after, pair)) for pair in old - new
    } | {Change("appeared", inclusion.text(*pair), "released", witnesses=missing(before, pair)) for pair in new - old}


def _changes(
    before: Mapping[str, C],
    after: Mapping[str, C],
    implied: Callable[[C, C], bool],
    violations_before: Callable[[C], set[tuple[Hashable, Hashable]]],
    violations_after: Callable[[C], set[tuple[Hashable, Hashable]]],
    *,
    removed: set[Hashable],
) -> set[Change]:
    """*Changes*: the difference of two reported sets, each constraint with its reason."""
    gone = {name: before[name] for name in before if name not in after}
    new = {name: after[name] for name in after if name not in before}
    found = set()
    for name, constraint in gone.items():
        if pairs := violations_after(constraint):
            found.add(Change("disappeared", name, "violated", witnesses=frozenset(pairs)))
        else:
            by = frozenset(other for other in after if implied(after[other], constraint))
            found.add(Change("disappeared", name, "implied", by=by))
    for name, constraint in new.items():
        if pairs := violations_before(constraint):
            culprits = frozenset(version for pair in pairs for version in pair if version in removed)
            found.add(Change("appeared", name, "released", witnesses=culprits))
        else:
            by = frozenset(other for other in gone if implied(gone[other], constraint))
            found.add(Change("appeared", name, "weakened", by=by))
    return found


def _violating_names(versions: Versions, violates: Callable[[Row, Row], bool]) -> set[tuple[Hashable, Hashable]]:
    return {(t, s) for t, s in itertools.permutations(versions, 2) if violates(versions[t], versions[s])}


def _removed(before: Versions, after: Versions) -> set[Hashable]:
    return {name for name, row in before.items() if name not in after or not same_row(row, after[name])}
