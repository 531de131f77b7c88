"""The tables of one application: from the records of a micro-batch to one commit.

    is the batch new?  ->  apply  ->  one write: state, ledger, outbox, log record  ->  the publisher is told

Memory never runs ahead of the store for long: where the write fails the process has to end, and the next start goes
on from the store. Batches of all tables are serialised here.
"""

import datetime
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from threading import Lock
from typing import Any

from holdfast.constraints import ConstraintChange, DenialConstraint, StateRefused, constraint_fields
from holdfast.constraints.sentences import sentence
from holdfast.state import codecs
from holdfast.state.commits import READY, SEEDING, Commits, LedgerEntry
from holdfast.state.store import Store, WriteBatch
from holdfast.streaming.maintainers.maintainer import BatchResult, Maintainer, Records
from holdfast.streaming.publisher import Publisher

NULLS_RULE = "null equals null, and sorts below every value"

Row = dict[str, Any]


@dataclass(frozen=True)
class Position:
    """Where a batch of a source stands.

    Parameters
    ----------
    query_id, batch_id : what the stream calls it.
    start, end : its offsets, as texts.
    """

    query_id: str
    batch_id: int
    start: str
    end: str


@dataclass(frozen=True)
class BadRecord:
    """A record that could not be read.

    Parameters
    ----------
    record_id : topic-partition-offset, or file-line.
    raw : the record, as far as it may be kept.
    reason : for people.
    """

    record_id: str
    raw: str | None
    reason: str


class Pipeline:
    """Applies batches and commits them.

    Parameters
    ----------
    store : open, with a seeded state.
    commits : the way into it.
    tables : a maintainer for each table, by name.
    publisher : is told of each commit.
    now : the clock.
    """

    def __init__(
        self,
        store: Store,
        commits: Commits,
        tables: Mapping[str, Maintainer],
        publisher: Publisher,
        now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
    ) -> None:
        if commits.identity.status != READY:
            raise StateRefused("the state is not seeded to the end: seed it anew (holdfast seed --replace)")
        self._commits = commits
        self._tables = dict(tables)
        self._numbers = {name: number for number, name in _names(store)}
        self._publisher = publisher
        self._now = now
        self._lock = Lock()

    def batch(
        self, source: str, position: Position, records: Records, bad: Sequence[BadRecord] = ()
    ) -> BatchResult | None:
        """Apply and commit a batch of one table's source; return what it did, None where it was done before."""
        with self._lock:
            where = (position.query_id, position.batch_id, position.start, position.end)
            if self._commits.is_done(source, *where):
                return None
            self._publisher.wait_for_room()
            maintainer = self._tables[source]
            result = maintainer.apply_records(records)
            change = WriteBatch()
            for part in maintainer.save(self._numbers[source]):
                change.add(part)
            rows = _Rows(self._commits, self._now())
            rows.changes(maintainer, source, result.changes, "data", position.batch_id)
            rows.batch(source, position, len(records), result, len(bad))
            rows.quarantine(source, bad)
            entry = LedgerEntry(*where, commit=0)
            self._commits.commit(change, rows.payload, source=source, batch=entry)
        self._publisher.notify()
        return result


def seed(
    store: Store,
    commits: Commits,
    tables: Iterable[Maintainer],
    now: Callable[[], datetime.datetime] = lambda: datetime.datetime.now(datetime.UTC),
) -> None:
    """Write newly seeded tables into an empty state; it is ready with the last write, in one piece."""
    if commits.identity.status != SEEDING:
        raise StateRefused(
            "the state is seeded already: use it (holdfast run), or replace it (holdfast seed --replace)"
        )
    _wipe(store)
    rows = _Rows(commits, now())
    last = WriteBatch()
    for number, maintainer in enumerate(tables):
        for part in maintainer.save(number, everything=True):
            commits.bulk(part)
        name = maintainer.schema.table
        last.put("tables", codecs.number(number), codecs.value(name))
        rows.table(maintainer)
        rows.appeared(maintainer, name)
    commits.commit(last, rows.payload, status=READY)


def restore(store: Store, threads: int | None = None) -> dict[str, Maintainer]:
    """Return the maintainers of all tables of a state. O(n log n)."""
    return {name: Maintainer.restore(store, number, threads) for number, name in _names(store)}


class _Rows:
    """The rows of one commit for the output tables."""

    def __init__(self, commits: Commits, now: datetime.datetime) -> None:
        identity = commits.identity
        self._commit = commits.last + 1
        self._common = {"commit": self._commit, "application": identity.application, "state_id": identity.state_id}
        self._at = now.astimezone(datetime.UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")
        self.payload: dict[str, list[Row]] = {}

    def changes(
        self, maintainer: Maintainer, source: str, changes: Sequence[ConstraintChange], cause: str, batch_id: int | None
    ) -> None:
        """Note changed constraints, and bring the current ones to where they are."""
        after = len(maintainer.constraints) if changes else 0
        for change in changes:
            about = _about(change.constraint, change.table)
            fields = change.fields()
            self._add(
                "constraint_changes",
                {
                    "source": source,
                    "batch_id": batch_id,
                    "committed_at": self._at,
                    "date": self._at[:10],
                    **about,
                    "change": fields["change"],
                    "reason": fields["reason"],
                    "by": fields["by"],
                    "witness": _json(fields["witness"]),
                    "cause": cause,
                    "constraints_after": after,
                },
            )
            self._current(about, appeared=change.appeared)

    def appeared(self, maintainer: Maintainer, source: str) -> None:
        """Note all constraints of a table that was seeded."""
        constraints = maintainer.constraints
        for constraint in constraints:
            about = _about(constraint, maintainer.schema.table)
            self._add(
                "constraint_changes",
                {
                    "source": source,
                    "committed_at": self._at,
                    "date": self._at[:10],
                    **about,
                    "change": "appeared",
                    "cause": "seed",
                    "constraints_after": len(constraints),
                },
            )
            self._current(about, appeared=True)

    def table(self, maintainer: Maintainer) -> None:
        """Note a monitored table."""
        space = maintainer.space
        self._add(
            "tables",
            {
                "table_name": space.schema.table,
                "columns": _json({column.name: str(column.type) for column in space.schema}),
                "fingerprint": space.fingerprint,
                "rows": maintainer.row_count,
                "bounds": _json({"max_predicates": maintainer.max_predicates}),
                "nulls_rule": NULLS_RULE,
            },
        )

    def batch(self, source: str, position: Position, records: int, result: BatchResult, bad: int) -> None:
        """Note what a batch did."""
        self._add(
            "batches",
            {
                "source": source,
                "query_id": position.query_id,
                "batch_id": position.batch_id,
                "start_offsets": position.start,
                "end_offsets": position.end,
                "rows_in": records + bad,
                "inserted": result.inserted,
                "deleted": result.deleted,
                "updated": result.updated,
                "ignored": result.ignored,
                "owed": result.newly_owed,
                "quarantined": bad,
                "table_rows": result.rows,
                "constraints": result.constraints,
                "seconds": _json({"apply": round(result.seconds, 6)}),
                "committed_at": self._at,
            },
        )

    def quarantine(self, source: str, bad: Sequence[BadRecord]) -> None:
        """Note records that could not be read."""
        for record in bad:
            self._add(
                "quarantine",
                {
                    "source": source,
                    "table_name": source,
                    "record_id": record.record_id,
                    "raw": record.raw,
                    "reason": record.reason,
                    "seen_at": self._at,
                    "date": self._at[:10],
                },
            )

    def _current(self, about: Row, *, appeared: bool) -> None:
        if appeared:
            self._add(
                "constraints", {**about, "since_commit": self._commit, "since": self._at, "nulls_rule": NULLS_RULE}
            )
        else:
            self._add("constraints", {"constraint_id": about["constraint_id"], "_gone": True})

    def _add(self, table: str, row: Row) -> None:
        self.payload.setdefault(table, []).append({**self._common, **row})


def _about(constraint: Any, table: str) -> Row:
    """Return the columns that say which constraint it is."""
    fields = constraint_fields(constraint, table)
    return {
        "constraint_id": fields["id"],
        "table_name": table,
        "family": fields["family"],
        "constraint": fields["constraint"],
        "sentence": sentence(constraint) if isinstance(constraint, DenialConstraint) else None,
        "predicates": _json(fields.get("predicates")),
        "kind": fields.get("kind"),
        "size": fields.get("size"),
    }


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _names(store: Store) -> list[tuple[int, str]]:
    return [(codecs.read_number(key), codecs.read_value(name)) for key, name in store.scan("tables")]


def _wipe(store: Store) -> None:
    """Take away what an interrupted seed left."""
    for family in ("tables", "rows", "values", "evidences", "covers"):
        while True:
            batch = WriteBatch()
            for key, _ in store.scan(family):
                batch.delete(family, key)
                if len(batch) >= _WIPED_AT_ONCE:
                    break
            if not len(batch):
                break
            store.write(batch)


_WIPED_AT_ONCE = 50_000
