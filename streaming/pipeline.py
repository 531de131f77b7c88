"""The tables of one application: applies the records of a micro-batch, and commits the results in one write.

    is the batch new?  ->  apply  ->  one write: state, ledger, outbox, log record  ->  notify the publisher

Where the write fails, memory is ahead of the store: the process has to end, and the next start continues from the
store. Batches of all tables are serialised here.
"""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from threading import Lock

from holdfast.constraints import ConstraintChange, InputError, Schema, StateRefused
from holdfast.discovery.blocks.values.parts import ValueFiles
from holdfast.state.commits import READY, StateCheckpointMismatch
from holdfast.streaming.alerts.deciding import turned
from holdfast.streaming.alerts.waiting import Waiting
from holdfast.streaming.commits.applied_batch import AppliedBatch
from holdfast.streaming.commits.concentration_rows import concentrations_of_batch
from holdfast.streaming.commits.draft import CommitDraft
from holdfast.streaming.commits.near_rows import near_of_batch
from holdfast.streaming.commits.output_rows import Position, described
from holdfast.streaming.commits.published_ranks import Ranking, Scored
from holdfast.streaming.commits.rule_reports import Line, RuleReports
from holdfast.streaming.commits.settling import Settling
from holdfast.streaming.commits.suspect_rows import suspects_of_batch
from holdfast.streaming.commits.table_figures import TableFigures
from holdfast.streaming.commits.table_records import TableProgress, progress_of, tables_of
from holdfast.streaming.decoding.new_fields import MOST_NEW
from holdfast.streaming.incoming.arrivals import Arrivals
from holdfast.streaming.incoming.attempts import Attempts
from holdfast.streaming.incoming.bad_share import BadShare
from holdfast.streaming.maintainers.inclusion.maintainer import InclusionMaintainer
from holdfast.streaming.maintainers.maintainer import BatchResult, Maintainer
from holdfast.streaming.maintainers.near.suspects import SuspectBatches
from holdfast.streaming.maintainers.rules.maintainer import MonitoredRule
from holdfast.streaming.maintainers.rules.state import RuleExample, RuleState
from holdfast.streaming.maintainers.rules.values import ValueRules
from holdfast.streaming.seeding import NAMES, Clock, name_key, utc_now, value_rules
from holdfast.streaming.sinks.publisher import Publisher

MOST_LEFT_OUT = MOST_NEW
"""The most fields without a column that are noted."""
ACROSS = ""
"""The name under which changes across tables wait; no table has it."""


@dataclass(frozen=True)
class Limits:
    """The share of bad records that stops a run, how long changes wait, and how often figures are published.

    Parameters
    ----------
    max_share, window : the largest share of bad records among the last `window` records.
    metrics_every, places_every : the seconds between publications of figures, and of ranks and lines of rules.
    settle : by table, for how many batches its changes wait.
    strict : the tables whose records may not have fields without a column.
    suspects : by table, how often its suspects are searched; those of other tables are not.
    """

    max_share: float = 0.5
    window: int = 1_000
    metrics_every: float = 10.0
    places_every: float = 300.0
    settle: Mapping[str, int] = field(default_factory=dict)
    strict: Collection[str] = ()
    suspects: Mapping[str, SuspectBatches] = field(default_factory=dict)


class Pipeline:
    """Applies batches and commits them.

    Parameters
    ----------
    tables : a maintainer for each table, by name.
    publisher : publishes the commits of an open store with a seeded state.
    limits : see `Limits`.
    rules : all monitored rules; the maintainers have the rules of their tables already.
    alerts : the alerts that are sent about commits.
    committed : called after each commit, before the next batch.
    now : the clock.
    values : the files of inclusions' values, if the store does not have all of them.
    """

    def __init__(
        self,
        tables: Mapping[str, Maintainer],
        publisher: Publisher,
        limits: Limits | None = None,
        rules: Sequence[MonitoredRule] = (),
        alerts: Waiting | None = None,
        committed: Callable[[], object] = lambda: None,
        now: Clock = utc_now,
        values: ValueFiles | None = None,
    ) -> None:
        self._commits = commits = publisher.commits
        self._store = store = commits.store
        if commits.identity.status != READY:
            raise StateRefused("the state is not seeded to the end: seed it anew (holdfast seed --replace)")
        self._tables = dict(tables)
        self._numbers = {record.name: number for number, record in tables_of(store)}
        self._publisher = publisher
        self._limits = limits or Limits()
        self._inclusion = InclusionMaintainer.restore(store, values)
        if self._inclusion is not None:
            for name, maintainer in self._tables.items():
                columns = [c.ref for c in self._inclusion.clusters.columns if c.ref.table == name and not c.dropped]
                maintainer.follow_values(texts=self._inclusion.texts, only={ref.column for ref in columns})
        for name, maintainer in self._tables.items():
            maintainer.follow_suspects(self._limits.suspects.get(name))
        self._rules = [monitored.rule for monitored in rules]
        self._value_rules = ValueRules(self._inclusion, value_rules(rules))
        self._value_rules.restore(store)
        self._reports = RuleReports(store, self._limits.places_every)
        settle = self._limits.settle
        longest = max(settle.values(), default=0)  # inclusions are across tables: they wait like one more table
        self._settling = Settling(store, {**settle, ACROSS: longest})
        self._ranking = Ranking(store, self._limits.places_every)
        self._strict = frozenset(self._limits.strict)
        self._alerts = Waiting(store) if alerts is None else alerts
        self._committed = committed
        self._now = now
        self._lock = Lock()
        self.attempts = Attempts(store)
        self._bad_share = BadShare(self._limits.max_share, self._limits.window)
        self._progress = {name: progress_of(store, name) for name in tables}
        self._figures = TableFigures(tables, self._limits.metrics_every)

    @property
    def schemas(self) -> dict[str, Schema]:
        """The monitored columns of each table."""
        return {name: maintainer.schema for name, maintainer in self._tables.items()}

    @property
    def progress(self) -> dict[str, TableProgress]:
        """The progress of each table as of its last commit; for any thread."""
        return dict(self._progress)

    @property
    def rule_lines(self) -> dict[str, Line]:
        """The last published line of each rule; for any thread."""
        return self._reports.last

    def is_done(self, source: str, position: Position) -> bool:
        """Whether a batch is committed already; refuse a batch that does not follow the last one."""
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
        arrived: Arrivals,
        seconds: Mapping[str, float] | None = None,
        lag_records: int | None = None,
        names: Sequence[str] = (),
    ) -> BatchResult | None:
        """Apply and commit a batch of one table's source; return its result, None if it is committed already.

        The changes of the result include inclusions, of other tables too.

        Parameters
        ----------
        seconds : the seconds that the batch took so far, by step.
        lag_records : how many records wait behind the batch; None if unknown.
        names : the names of the files read, for a source of files; each file is read only once.
        """
        began = time.perf_counter()
        with self._lock:
            if self.is_done(source, position):
                return None
            self._publisher.wait_for_room()
            self._bad_share.check(source, arrived, had_good=bool(self._progress[source].good))
            left_out = self._left_out(source, arrived)
            took = {**(seconds or {}), "wait": time.perf_counter() - began}
            result = self._tables[source].apply_records(arrived.records)
            began = time.perf_counter()
            draft = CommitDraft(self._commits, self._now())
            draft.add(self._tables[source].save(self._numbers[source]))
            draft.change.put_all(NAMES, [name_key(source, name) for name in names], [b""] * len(names))
            across = self._across(result, draft)
            took |= {"apply": result.seconds, "save": time.perf_counter() - began}
            counts, now = self._counts(), draft.seconds
            batch = AppliedBatch(
                source, position, arrived, result, across, counts, took, now, lag_records, left_out, names
            )
            rules = self._publish(draft, batch)
            draft.commit(source=source, batch=position.entry)
            self._end_commit()
        changes = [*result.changes, *across]
        known = replace(result, changes=changes, constraints=batch.constraints, left_out=left_out)
        return replace(known, rules=tuple(rules), published=draft.rows)

    def _publish(self, draft: CommitDraft, batch: AppliedBatch) -> list[RuleState]:
        """Add the rows of a batch and the progress of its table to a commit; return the rules that changed."""
        source, result = batch.source, batch.result
        self._publish_changes(draft, batch)
        near_of_batch(draft.rows, self._tables[source], batch.position.batch_id, result)
        suspects_of_batch(draft.rows, source, batch.position.batch_id, result.suspects)
        concentrations_of_batch(draft.rows, source, result.concentrations)
        draft.rows.batch(batch)
        rules = self._publish_rules(draft, result.rules, source)
        self._figures.publish(draft, batch, self._publisher.behind)
        self._advance(draft, batch)
        self.attempts.done(source, draft.change)
        draft.when_kept(partial(self._bad_share.note, source, batch.records, len(batch.bad)))
        return rules

    def _end_commit(self) -> None:
        """Write the last commit to the backup, then let it be published and alerts be sent."""
        self._value_rules.forget_changes()
        for maintainer in self._tables.values():
            maintainer.rule_maintainer.forget_changes()
        self._publisher.log()
        for maintainer in self._tables.values():
            maintainer.committed()
        if self._inclusion is not None:
            self._inclusion.committed()
        self._alerts.committed()
        self._publisher.notify()
        self._committed()

    def announce(self) -> list[RuleState]:
        """Commit changes of rules without a batch, and return the rules that changed.

        These are rules added, reworded or left out since the last start, and new counts of violating rows.
        """
        with self._lock:
            for maintainer in self._tables.values():
                maintainer.rule_maintainer.recount()
            draft = CommitDraft(self._commits, self._now())
            gone: list[tuple[str | None, str, RuleExample]] = [(None, *one) for one in self._value_rules.gone]
            for name, maintainer in self._tables.items():
                gone += [(name, *one) for one in maintainer.rule_maintainer.gone]
            for table, rule, example in gone:
                draft.rows.violation(rule, table, example, "removed")
            self._reports.forget(self._rules, draft)
            known = [state for maintainer in self._tables.values() for state in maintainer.rules]
            changed = self._publish_rules(draft, known, None)
            if draft.rows.payload:
                draft.add(self._value_rules.save())
                for name, maintainer in self._tables.items():
                    draft.add(maintainer.save_rules(self._numbers[name]))
                draft.commit()
                self._end_commit()
        return changed

    @property
    def _reported(self) -> InclusionMaintainer | None:
        """The inclusions, if all of them are reported, not only declared ones."""
        return None if self._inclusion is None or self._inclusion.watched else self._inclusion

    def _counts(self) -> dict[str, int]:
        """Return how many constraints each table has, inclusions of its columns included."""
        included = {} if self._reported is None else self._reported.counts
        return {name: known.count + included.get(name, 0) for name, known in self._tables.items()}

    def _publish_changes(self, draft: CommitDraft, batch: AppliedBatch) -> None:
        """Add the due changes of a table, and of inclusions across tables, to a commit, with scores and ranks."""
        source = batch.source
        groups: list[tuple[str, int, Scored | None, Sequence[ConstraintChange]]] = [
            (source, self._progress[source].batches + 1, self._tables[source], batch.result.changes),
            (ACROSS, draft.number, self._reported, batch.across),
        ]
        for group, number, subject, changes in groups:
            if subject is not None:
                found = described(source, batch.position.batch_id, changes, batch.counts)
                self._ranking.publish(subject, self._settling.step(group, number, found, draft), draft)

    def _publish_rules(self, draft: CommitDraft, of_tables: Sequence[RuleState], source: str | None) -> list[RuleState]:
        """Add lines and examples of rules to a commit, and alerts; return the rules that changed."""
        states = [*of_tables, *self._value_rules.states(lambda name: self._tables[name].row_count)]
        changed = [state for state in states if self._reports.changed(state)]
        draft.rows.examples(states)
        lines = self._reports.publish(states, source, draft)
        self._alerts.decide(draft.rows, turned(states, lines, self._reports.broken), draft.change)
        return changed

    def _advance(self, draft: CommitDraft, batch: AppliedBatch) -> None:
        """Add to a commit the progress of the batch's table, and of tables whose inclusions changed."""
        others = {change.table for change in batch.across} - {batch.source}
        moved = {name: replace(self._progress[name], constraints=batch.counts[name]) for name in others}
        moved[batch.source] = self._progress[batch.source].after(batch, draft.number, draft.rows.at)
        for name, progress in moved.items():
            draft.put_progress(name, progress)
        draft.when_kept(partial(self._progress.update, moved))

    def _across(self, result: BatchResult, draft: CommitDraft) -> list[ConstraintChange]:
        """Apply the changed values of a batch to inclusions; add the changes of the state to the commit."""
        if self._inclusion is None:
            return []
        truncated = {change.table for change in result.values} if result.truncated else ()
        changes = self._inclusion.apply(result.values, truncated)
        draft.change.add(self._inclusion.save())
        self._value_rules.follow()
        draft.add(self._value_rules.save())
        return [] if self._inclusion.watched else changes

    def was_read(self, source: str, names: Sequence[str]) -> list[bool]:
        """Return, per name, whether the file was read with an earlier batch."""
        return [found is not None for found in self._store.get_many(NAMES, [name_key(source, n) for n in names])]

    def failed(self, source: str, position: Position, error: str) -> None:
        """Note that a batch failed, so that it is not tried again without end."""
        with self._lock:
            self.attempts.failed(source, position, error)

    def _left_out(self, source: str, arrived: Arrivals) -> dict[str, str]:
        """Return the new fields that no column has; raise if the table is strict."""
        unknown = {**arrived.new_fields, **arrived.refused_columns}
        if source in self._strict and unknown:
            name, where = next(iter(unknown.items()))
            more = f" (and {', '.join(list(unknown)[1:6])})" if len(unknown) > 1 else ""
            raise InputError(
                f"table {source}: record {where} has a field '{name}'{more} that no column has, and 'new_columns' is "
                "stop. Give its type under 'columns', or add it to 'exclude', and start again: nothing of this batch "
                "was applied"
            )
        known = self._progress[source].left_out
        fresh = {name: where for name, where in arrived.new_fields.items() if name not in known}
        return dict(list(fresh.items())[: max(0, MOST_LEFT_OUT - len(known))])
