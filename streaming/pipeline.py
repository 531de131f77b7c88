"""The tables of one application: from the records of a micro-batch to one commit.

    is the batch new?  ->  apply  ->  one write: state, ledger, outbox, log record  ->  the publisher is told

Memory never runs ahead of the store for long: where the write fails the process has to end, and the next start goes
on from the store. Batches of all tables are serialised here.
"""

import datetime
import resource
import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain
from threading import Lock
from typing import Any

from holdfast.constraints import ConstraintChange, InputError, Schema, StateRefused
from holdfast.discovery.blocks.value_parts import ValueFiles
from holdfast.state import codecs
from holdfast.state.commits import READY, Commits, LedgerEntry, StateCheckpointMismatch
from holdfast.state.store import Store, WriteBatch
from holdfast.streaming.alerts.deciding import turned
from holdfast.streaming.alerts.waiting import Waiting
from holdfast.streaming.arrivals import Arrivals, BadRecord
from holdfast.streaming.attempts import Attempts
from holdfast.streaming.decoding.new_fields import MOST_NEW
from holdfast.streaming.maintainers.inclusion import InclusionMaintainer
from holdfast.streaming.maintainers.maintainer import BatchResult, Maintainer
from holdfast.streaming.maintainers.rule_state import RuleExample, RuleState
from holdfast.streaming.maintainers.rules import MonitoredRule
from holdfast.streaming.maintainers.value_rules import ValueRules
from holdfast.streaming.output_rows import Described, OutputRows, Position, described
from holdfast.streaming.publisher import Publisher
from holdfast.streaming.rule_reports import Line, Reported, RuleReports
from holdfast.streaming.seeding import NAMES, Clock, name_key, progress_of, tables_of, utc_now, value_rules
from holdfast.streaming.settling import Delayed, Settling
from holdfast.streaming.standing import Moves, Scored, Standing

MOST_LEFT_OUT = MOST_NEW
"""Of how many fields it is noted that no column has them."""
ACROSS = ""
"""Stands for all tables where changes wait: none has this name."""


@dataclass(frozen=True)
class Limits:
    """Where a stream of bad records stops the run, and how often figures are written.

    Parameters
    ----------
    max_share, window : more bad records than this share among the last `window`.
    metrics_every, places_every : seconds; lines of rules are repeated as often as places.
    """

    max_share: float = 0.5
    window: int = 1_000
    metrics_every: float = 10.0
    places_every: float = 300.0


class Pipeline:
    """Applies batches and commits them.

    Parameters
    ----------
    store : open, with a seeded state.
    commits : the way into it.
    tables : a maintainer for each table, by name.
    publisher : is told of each commit.
    limits : see there.
    settle : by table, for how many batches its changes wait.
    rules : those that are monitored; the tables have theirs already.
    alerts : what somebody is told of commits.
    committed : called after each commit, before the next batch.
    now : the clock.
    strict : tables whose records may bring no fields that no column has.
    values : where the values of inclusions lie, if they are not all in the store.
    """

    def __init__(
        self,
        store: Store,
        commits: Commits,
        tables: Mapping[str, Maintainer],
        publisher: Publisher,
        limits: Limits | None = None,
        settle: Mapping[str, int] | None = None,
        rules: Sequence[MonitoredRule] = (),
        alerts: Waiting | None = None,
        committed: Callable[[], object] = lambda: None,
        now: Clock = utc_now,
        strict: Collection[str] = (),
        values: ValueFiles | None = None,
    ) -> None:
        if commits.identity.status != READY:
            raise StateRefused("the state is not seeded to the end: seed it anew (holdfast seed --replace)")
        self._store = store
        self._commits = commits
        self._tables = dict(tables)
        self._numbers = {about["name"]: number for number, about in tables_of(store)}
        self._publisher = publisher
        self._limits = limits or Limits()
        self._inclusion = InclusionMaintainer.restore(store, values)
        if self._inclusion is not None:
            for name, maintainer in self._tables.items():
                columns = [c.ref for c in self._inclusion.clusters.columns if c.ref.table == name and not c.dropped]
                maintainer.follow_values(texts=self._inclusion.texts, only={ref.column for ref in columns})
        self._rules = [monitored.rule for monitored in rules]
        self._value_rules = ValueRules(self._inclusion, value_rules(rules))
        self._value_rules.restore(store)
        self._reports = RuleReports(store, self._limits.places_every)
        longest = max((settle or {}).values(), default=0)  # inclusions are across tables: they wait as one more
        self._settling = Settling(store, {**(settle or {}), ACROSS: longest})
        self._standing = Standing(store, self._limits.places_every)
        self._strict = frozenset(strict)
        self._alerts = Waiting(store) if alerts is None else alerts
        self._committed = committed
        self._now = now
        self._lock = Lock()
        self.attempts = Attempts(store)
        self._recent: dict[str, deque[tuple[int, int]]] = {name: deque() for name in tables}
        self._progress = {name: progress_of(store, name) for name in tables}
        self._metrics_at = dict.fromkeys(tables, 0.0)
        self._busy = dict.fromkeys(tables, (0, 0.0))

    @property
    def schemas(self) -> dict[str, Schema]:
        """The monitored columns of each table."""
        return {name: maintainer.schema for name, maintainer in self._tables.items()}

    @property
    def progress(self) -> dict[str, dict[str, Any]]:
        """How far each table is, as of its last commit; for any thread."""
        return dict(self._progress)

    @property
    def rule_lines(self) -> dict[str, Line]:
        """What was published last of each rule; for any thread."""
        return self._reports.last

    def is_done(self, source: str, position: Position) -> bool:
        """Whether a batch was committed before; refuse one that does not follow the last."""
        if self._commits.entry(source) is None and position.batch_id:
            raise StateCheckpointMismatch(
                f"source {source}: the checkpoint is at batch {position.batch_id}, and the state has none of its "
                "batches. One of them was restored or lost without the other: `holdfast rebuild` brings them together"
            )
        return self._commits.is_done(source, position.query_id, position.batch_id, position.start, position.end)

    def batch(
        self,
        source: str,
        position: Position,
        came: Arrivals,
        seconds: Mapping[str, float] | None = None,
        lag_records: int | None = None,
        names: Sequence[str] = (),
    ) -> BatchResult | None:
        """Apply and commit a batch of one table's source; return what it did, None where it was done before.

        What it did to inclusions, of other tables too, is among its changes.

        Parameters
        ----------
        seconds : what it has taken so far, by step.
        lag_records : how many records wait behind it, where somebody has asked.
        names : of what was read, where a source names it; it is read only once.
        """
        began = time.perf_counter()
        with self._lock:
            if self.is_done(source, position):
                return None
            self._publisher.wait_for_room()
            left_out = self._checked(source, came)
            took = {**(seconds or {}), "wait": time.perf_counter() - began}
            maintainer = self._tables[source]
            result = maintainer.apply_records(came.records)
            began = time.perf_counter()
            change = self._saved(source, names)
            across = self._across(result, change)
            took |= {"apply": result.seconds, "save": time.perf_counter() - began}
            now = self._now()
            bad = [*came.bad, *_incomplete(came, result)]
            rows = OutputRows(self._commits.identity, self._commits.last + 1, now)
            included = {} if self._reported is None else self._reported.counts
            counts = {name: known.count + included.get(name, 0) for name, known in self._tables.items()}
            number = self._progress[source].get("batches", 0) + 1
            waiting: dict[str, Delayed] = {}
            placed: list[tuple[Scored, Moves]] = []
            for group, batch, subject, changes in (
                (source, number, maintainer, result.changes),
                (ACROSS, self._commits.last + 1, self._reported, across),
            ):
                if subject is None:
                    continue
                changed = described(source, position.batch_id, changes, counts)
                due, waiting[group] = self._settling.step(group, batch, changed, change)
                placed.append((subject, self._note_changes(rows, subject, due, change, now)))
            records = len(came.records) + len(came.bad) + came.skipped
            lag = None if came.oldest is None else max(0.0, now.timestamp() - came.oldest)
            rows.batch(source, position, records, result, counts[source], len(bad), took, lag, lag_records)
            rows.quarantine(source, bad)
            rules, reported = self._note_rules(rows, result.rules, source, change, now)
            measured = self._note_metrics(rows, source, result, counts[source], records, sum(took.values()), lag, now)
            good = len(came.records) - len(result.incomplete)
            progress = self._advanced(source, result, counts[source], records, good, len(bad), lag, rows.at)
            if across:
                progress |= {"changed_commit": self._commits.last + 1, "changed_at": rows.at}
            moved = {source: {**progress, **self._noted(source, lag_records, left_out)}}
            for name in {one.table for one in across} - {source}:
                moved[name] = {**self._progress[name], "constraints": counts[name]}
            for name, where in moved.items():
                change.put("progress", name.encode(), codecs.json_bytes(where))
            self.attempts.done(source, change)
            entry = LedgerEntry(position.query_id, position.batch_id, position.start, position.end, commit=0)
            self._commits.commit(change, rows.payload, source=source, batch=entry)
            self._progress |= moved
            self._keep(source, measured, reported, waiting, placed)
            self._note_share(source, records, len(bad))
            self._end_commit()
        changes = [*result.changes, *across]
        return replace(result, changes=changes, constraints=counts[source], rules=tuple(rules), left_out=left_out)

    def _keep(
        self,
        source: str,
        measured: tuple[float, tuple[int, float]],
        reported: Reported,
        waiting: Mapping[str, Delayed],
        placed: Sequence[tuple[Scored, Moves]],
    ) -> None:
        """Remember what was published with a commit, which is kept."""
        self._metrics_at[source], self._busy[source] = measured
        self._reports.keep(reported)
        for group, left in waiting.items():
            self._settling.keep(group, left)
        for subject, moves in placed:
            self._standing.keep(subject, moves)

    def _saved(self, source: str, names: Sequence[str]) -> WriteBatch:
        """Return what a batch changed of a table in the state, and the names of what it read."""
        change = WriteBatch()
        for part in self._tables[source].save(self._numbers[source]):
            change.add(part)
        change.put_all(NAMES, [name_key(source, name) for name in names], [b""] * len(names))
        return change

    def _saved_rules(self, table: str) -> Iterator[WriteBatch]:
        return self._tables[table].save_rules(self._numbers[table])

    def _end_commit(self) -> None:
        """Bring a commit into the backup, before anybody hears of it, and let it be published."""
        self._value_rules.told()
        for maintainer in self._tables.values():
            maintainer.rules_told()
        self._publisher.log()
        for maintainer in self._tables.values():
            maintainer.committed()
        if self._inclusion is not None:
            self._inclusion.committed()
        self._alerts.committed()
        self._publisher.notify()
        self._committed()

    def announce(self) -> list[RuleState]:
        """Commit what no batch did to rules, and return those that changed.

        Rules that were added, reworded or left out since the last start, and rows that are counted now and then.
        """
        with self._lock:
            for maintainer in self._tables.values():
                maintainer.recount_rules()
            change, now = WriteBatch(), self._now()
            rows = OutputRows(self._commits.identity, self._commits.last + 1, now)
            gone: list[tuple[str | None, str, RuleExample]] = [(None, *one) for one in self._value_rules.gone]
            for name, maintainer in self._tables.items():
                gone += [(name, *one) for one in maintainer.rules_gone]
            for table, rule, example in gone:
                rows.violation(rule, table, example, "removed")
            forgotten = self._reports.forgotten(self._rules, change)
            for line in forgotten.lines:
                rows.rule(line)
            known = [state for maintainer in self._tables.values() for state in maintainer.rules]
            told, reported = self._note_rules(rows, known, None, change, now)
            if rows.payload:
                for part in chain(self._value_rules.save(), *map(self._saved_rules, self._tables)):
                    change.add(part)
                self._commits.commit(change, rows.payload)
                self._reports.keep(forgotten, reported)
                self._end_commit()
        return told

    @property
    def _reported(self) -> InclusionMaintainer | None:
        """The inclusions, where they are told of for themselves."""
        return None if self._inclusion is None or self._inclusion.watched else self._inclusion

    def _note_changes(
        self, rows: OutputRows, subject: Scored, due: Sequence[Described], change: WriteBatch, now: datetime.datetime
    ) -> Moves:
        """Add to a commit the constraints that changed, their scores, and places when it is time."""
        moves = self._standing.scored(subject, due)
        scores = moves.score_of
        for one in due:
            rows.change(one.row, one.about, scores.get(one.about["constraint_id"]))
        rows.places(self._standing.places(subject, moves, change, now.timestamp()))
        return moves

    def _note_rules(
        self,
        rows: OutputRows,
        of_tables: Sequence[RuleState],
        source: str | None,
        change: WriteBatch,
        now: datetime.datetime,
    ) -> tuple[list[RuleState], Reported]:
        """Add to a commit what is to be published of rules, those about values too.

        Return those that changed, and what is to be kept of their lines.
        """
        states = [*of_tables, *self._value_rules.states(lambda name: self._tables[name].row_count)]
        told = [state for state in states if self._reports.changed(state)]
        rows.examples(states)
        were_broken = self._reports.broken
        reported = self._reports.lines(states, source, self._commits.last + 1, now.timestamp(), change)
        for line in reported.lines:
            rows.rule(line)
        self._alerts.decide(rows, turned(states, reported.lines, were_broken), change)
        return told, reported

    def _across(self, result: BatchResult, change: WriteBatch) -> list[ConstraintChange]:
        """Follow what a batch did to values; add to the commit what that changed in the state."""
        if self._inclusion is None:
            return []
        emptied = {change.table for change in result.values} if result.emptied else ()
        changes = self._inclusion.apply(result.values, emptied)
        change.add(self._inclusion.save())
        self._value_rules.follow()
        for part in self._value_rules.save():
            change.add(part)
        return [] if self._inclusion.watched else changes

    def was_read(self, source: str, names: Sequence[str]) -> list[bool]:
        """Say of each of some names whether it was read with an earlier batch."""
        return [found is not None for found in self._store.get_many(NAMES, [name_key(source, n) for n in names])]

    def failed(self, source: str, position: Position, error: str) -> None:
        """Note that a batch failed, so that it is not tried for ever."""
        with self._lock:
            self.attempts.failed(source, position, error)

    def _check_share(self, source: str, came: Arrivals) -> None:
        """Raise where the records are so bad that something else must be wrong."""
        if not came.bad or came.is_skipped:
            return
        bad, good = len(came.bad), len(came.records)
        example = f"{came.bad[0].record_id}: {came.bad[0].reason}"
        if not good and not self._progress[source].get("good"):
            raise InputError(
                f"table {source}: none of the first {bad} record(s) could be read; the first is {example}. Check the "
                "source's format and encoding, and the table's columns; nothing was applied"
            )
        recent = self._recent[source]
        records = bad + good + sum(count for count, _ in recent)
        if records < self._limits.window:
            return
        bad_ones = bad + sum(count for _, count in recent)
        if bad_ones > self._limits.max_share * records:
            raise InputError(
                f"table {source}: {bad_ones} of the last {records} records could not be read, more than "
                f"quarantine.max_share ({self._limits.max_share:.0%}) allows; one of them is {example}. Mend the "
                "source, or raise the limit; nothing of this batch was applied"
            )

    def _checked(self, source: str, came: Arrivals) -> dict[str, str]:
        """Raise where a batch must not be applied; return the fields that it leaves out, and that are new."""
        self._check_share(source, came)
        return self._left_out(source, came)

    def _noted(self, source: str, lag_records: int | None, left_out: Mapping[str, str]) -> dict[str, Any]:
        """Return what is noted of a table beside what its batch did."""
        found: dict[str, Any] = {} if lag_records is None else {"lag_records": lag_records}
        if left_out:
            found["left_out"] = {**self._progress[source].get("left_out", {}), **left_out}
        return found

    def _left_out(self, source: str, came: Arrivals) -> dict[str, str]:
        """Return fields of records that no column has, and that were not seen before; raise where that may not be."""
        unknown = {**came.new_fields, **came.refused_columns}
        if source in self._strict and unknown:
            name, where = next(iter(unknown.items()))
            more = f" (and {', '.join(list(unknown)[1:6])})" if len(unknown) > 1 else ""
            raise InputError(
                f"table {source}: record {where} has a field '{name}'{more} that no column has, and 'new_columns' is "
                "stop. Give its type under 'columns', or add it to 'exclude', and start again: nothing of this batch "
                "was applied"
            )
        known = self._progress[source].get("left_out", {})
        fresh = {name: where for name, where in came.new_fields.items() if name not in known}
        return dict(list(fresh.items())[: max(0, MOST_LEFT_OUT - len(known))])

    def _note_share(self, source: str, records: int, bad: int) -> None:
        recent = self._recent[source]
        recent.append((records, bad))
        while sum(count for count, _ in recent) - recent[0][0] >= self._limits.window:
            recent.popleft()

    def _advanced(
        self,
        source: str,
        result: BatchResult,
        constraints: int,
        records: int,
        good: int,
        bad: int,
        lag: float | None,
        at: str,
    ) -> dict[str, Any]:
        """Return how far a table is: what `holdfast status` says of it."""
        before = self._progress[source]
        commit = self._commits.last + 1
        changed = {"changed_commit": commit, "changed_at": at} if result.changes else {}
        return {
            **before,
            **changed,
            "rows": result.rows,
            "constraints": constraints,
            "owed": result.owed,
            "commit": commit,
            "at": at,
            "lag_seconds": lag,
            "batches": before.get("batches", 0) + 1,
            "records": before.get("records", 0) + records,
            "good": before.get("good", 0) + good,
            "quarantined": before.get("quarantined", 0) + bad,
            "late": before.get("late", 0) + result.late,
        }

    def _note_metrics(
        self,
        rows: OutputRows,
        source: str,
        result: BatchResult,
        constraints: int,
        records: int,
        seconds: float,
        lag: float | None,
        now: datetime.datetime,
    ) -> tuple[float, tuple[int, float]]:
        """Add figures to a commit when it is time; return when they were written, and what was done since then."""
        count, busy = self._busy[source]
        count, busy = count + records, busy + seconds
        passed = now.timestamp() - self._metrics_at[source]
        if 0 <= passed < self._limits.metrics_every:
            return self._metrics_at[source], (count, busy)
        figures = {
            "rows": result.rows,
            "constraints": constraints,
            "records": count,
            "busy_seconds": busy,
            "memory_bytes": _memory(),
            "commits_to_publish": self._publisher.behind,
        }
        rows.metrics(source, figures if lag is None else {**figures, "lag_seconds": lag})
        return now.timestamp(), (0, 0.0)


def _incomplete(came: Arrivals, result: BatchResult) -> list[BadRecord]:
    """Return the records that leave cells as they were, of rows that are not there."""
    reason = (
        "it leaves out values that did not change, and there is no row to take them from: seed the table, or read its "
        "source from the beginning"
    )
    return [came.bad_record(row, reason) for row in result.incomplete]


def _memory() -> int:
    """Return the most memory that this process has had, in bytes."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024
