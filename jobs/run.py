"""`holdfast run`: open a state, follow the sources of its tables, and publish to the output tables.

    lock the state  ->  seed or restore its tables  ->  publish waiting commits  ->  follow the sources

Invariant: an error names the table and the batch, and no batch is committed in part; a signal ends the run after the
current batch.
"""

import datetime
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.constraints import ConstraintChange
from holdfast.constraints.mutes import Mutes
from holdfast.display.texts import counted
from holdfast.jobs.application.alerting import sender_of, waiting_of
from holdfast.jobs.application.blocks import StateRows
from holdfast.jobs.application.checking import refuse_misfits
from holdfast.jobs.application.checkpoints import refuse_damaged
from holdfast.jobs.application.evolve import evolved
from holdfast.jobs.application.opening import OpenState, opened, prepare, refuse_lost
from holdfast.jobs.application.replacing import recovered
from holdfast.jobs.application.seeding import monitored_rules
from holdfast.jobs.application.session import Session
from holdfast.jobs.application.stopping import Stop, Stopped, stopped_by_signals
from holdfast.jobs.application.watching import RunObserver, RunParts, served_figures
from holdfast.jobs.configuration.bounds import suspect_batches
from holdfast.jobs.configuration.mutes_file import mutes_of
from holdfast.jobs.configuration.reading import Configuration
from holdfast.jobs.configuration.settings import Settings
from holdfast.jobs.seed import seed_tables
from holdfast.jobs.terminal.progress import DEFAULT_LOG, LogOptions, Progress, progress_on
from holdfast.state.rocks import RocksStore
from holdfast.streaming.alerts.sending import Sender
from holdfast.streaming.commits.incidents import incidents_of
from holdfast.streaming.commits.output_rows import OutputRows, time_text
from holdfast.streaming.commits.snapshotting import Snapshotter
from holdfast.streaming.maintainers.maintainer import Maintainer
from holdfast.streaming.maintainers.rules.state import RuleState
from holdfast.streaming.pipeline import Limits, Pipeline
from holdfast.streaming.seeding import restore
from holdfast.streaming.sinks.publisher import Publisher
from holdfast.streaming.state_view import StateView

if TYPE_CHECKING:
    from holdfast.streaming.spark.running import Done

_SHOWN_CHANGES = 5
_SHOWN_SUSPECTS = 3
_COUNTS = ("violating_pairs", "violating_rows", "missing_values", "holds", "broken")
_UNOBSERVED = RunObserver()


def run(
    configuration: Configuration,
    *,
    available_now: bool,
    log: LogOptions = DEFAULT_LOG,
    observer: RunObserver = _UNOBSERVED,
) -> None:
    """Follow the sources until stopped; with `available_now`, until all their records are read."""
    progress = progress_on(sys.stderr, log)
    refuse_misfits(configuration, servers=False)
    prepare(configuration, progress)
    recovered(configuration.settings, progress)
    try:
        with served_figures(configuration.settings, progress) as figures:
            _Run(configuration, progress, log, observer, figures).run(available_now=available_now)
    except Stopped:
        progress.note("stopped before the sources were followed")


@dataclass(frozen=True)
class _Run:
    """A run of one configuration.

    Parameters
    ----------
    observer, figures : who is called with the events of the run: its caller, and the figures for Prometheus.
    """

    configuration: Configuration
    progress: Progress
    log: LogOptions
    observer: RunObserver
    figures: RunObserver

    @property
    def settings(self) -> Settings:
        return self.configuration.settings

    def run(self, *, available_now: bool) -> None:
        """Open the state, seed or restore its tables, and follow their sources."""
        settings, progress = self.settings, self.progress
        refuse_lost(self.configuration)
        session = Session(settings, self.log)

        def fitted(state: OpenState) -> bool:
            return evolved(self.configuration, state, progress)

        with stopped_by_signals(self.observer.stop) as stop, opened(settings, session, fitted) as state:
            store, commits, place = state.store, state.commits, state.place
            if state.is_seeded:
                session.begin()  # while the state is restored
                place.refuse_missing(store)
                publisher = state.publisher()
                tables = self._restored(store, place)
            else:
                tables = seed_tables(self.configuration, state, progress)
                publisher = state.publisher()
            self.observer.seeded(tables)
            snapshotter = state.snapshotter()
            snapshotter.first()
            place.sweep(store, tables.values())  # which no backup of an earlier state needs from here on
            publisher.start()
            waiting = waiting_of(settings, store)
            sender = sender_of(self.configuration, waiting, progress)
            with self._ended(publisher, snapshotter, sender):
                rules, limits = monitored_rules(self.configuration), _limits(settings)
                committed = snapshotter.maybe
                pipeline = Pipeline(tables, publisher, limits, rules, waiting, committed, values=place.values)
                self.figures.started(
                    RunParts(commits, pipeline, publisher, snapshotter, tables, waiting, sender.counts)
                )
                sender.start()
                for rule in pipeline.announce():
                    _note_rule(progress, rule)
                self._follow(pipeline, StateView(store), session, publisher, stop, available_now=available_now)
                pipeline.announce()
                publisher.close()

    def _restored(self, store: RocksStore, place: StateRows) -> dict[str, Maintainer]:
        began = time.perf_counter()
        tables = restore(store, rules=monitored_rules(self.configuration), rows=place.restore)
        rows = sum(maintainer.row_count for maintainer in tables.values())
        seconds = time.perf_counter() - began
        held = f"{counted(rows, 'row')} of {counted(len(tables), 'table')}"
        self.progress.note(f"state: {held}, restored in {seconds:.1f} s")
        return tables

    @contextmanager
    def _ended(self, publisher: Publisher, snapshotter: Snapshotter, sender: Sender) -> Iterator[None]:
        """End the threads of the run: at once where an error is raised, else once they have done all their work."""
        try:
            yield
        except BaseException:
            sender.close(0.0)
            publisher.abandon()
            raise
        finally:
            self.figures.started(None)
        left = sender.close()
        snapshotter.close()
        if left:
            text = f"alerts: {left} could not be delivered yet: the next start tries again"
            self.progress.note(text, level="warning", event="alerts")
        self.progress.note("stopped: everything that was read is committed and published")

    def _follow(
        self,
        pipeline: Pipeline,
        view: StateView,
        session: Session,
        publisher: Publisher,
        stop: Stop,
        *,
        available_now: bool,
    ) -> None:
        """Follow the sources until stopped; with `available_now`, until all their records are read."""
        from holdfast.jobs.application.streams import streams
        from holdfast.streaming.spark.running import Running

        settings, progress = self.settings, self.progress
        found = streams(settings, pipeline.schemas, view)
        if not found:
            progress.note("no table has a source: there is nothing to follow")
            return
        refuse_damaged(stream.checkpoint for stream in found)
        spark = session()
        for stream in found:
            stream.source.check(spark)
        every = f"{settings.trigger.interval // datetime.timedelta(milliseconds=1)} milliseconds"
        trigger: dict[str, Any] = {"availableNow": True} if available_now else {"processingTime": every}
        observers = [self.observer.done or partial(_report, progress, mutes_of(settings))]
        observers += [] if self.figures.done is None else [self.figures.done]

        def done(batch: "Done") -> None:
            for observer in reversed(observers):
                observer(batch)

        running = Running(spark, pipeline, found, trigger, done, self.configuration.file)
        self.figures.monitored(lambda: not (running.has_failed or publisher.has_failed))
        progress.note(f"following {', '.join(stream.table for stream in found)}; Ctrl-C stops after the current batch")
        self.observer.ready(spark)
        stop.wait_for_batch = True
        running.run(stop.event, publisher.check)


def _limits(settings: Settings) -> Limits:
    return Limits(
        settings.quarantine.max_share,
        settings.quarantine.window,
        settings.publish.metrics_interval.total_seconds(),
        settings.publish.status_interval.total_seconds(),
        settle={table.name: table.settle for table in settings.tables},
        strict={table.name for table in settings.tables if table.new_columns == "stop"},
        suspects=suspect_batches(settings),
    )


def _report(progress: Progress, mutes: Mutes, done: "Done") -> None:
    """Note a batch: its figures in one line, the seconds of its steps, warnings, and its first changes."""
    result, arrived = done.result, done.arrived
    appeared = sum(1 for change in result.changes if change.appeared)
    took = sum(done.seconds.values()) + result.seconds
    fields = {
        "table": done.table,
        "batch": done.position.batch_id,
        "records": len(arrived.records) + len(arrived.bad) + arrived.skipped,
        "in": result.rows_in,
        "out": result.rows_out,
        "bad": len(arrived.bad) + len(result.incomplete),
        "late": result.late,
        "rows": result.rows,
        "constraints": result.constraints,
        "appeared": appeared,
        "disappeared": len(result.changes) - appeared,
        "seconds": round(took, 3),
    }
    now = time_text(datetime.datetime.now(datetime.UTC))
    shown = {**fields, "seconds": f"{took:.3f}"}
    line = f"{now} " + " ".join(f"{name}={value}" for name, value in shown.items())
    progress.note(line, event="batch", fields=fields)
    steps = {step: round(seconds, 6) for step, seconds in done.seconds.items()} | {"apply": round(result.seconds, 6)}
    took_text = ", ".join(f"{step} {seconds:.3f} s" for step, seconds in steps.items())
    about = {"table": done.table, "batch": done.position.batch_id}
    progress.note(f"  {took_text}", level="debug", event="steps", fields={**about, "steps": steps})
    _report_unknown_columns(progress, done)
    _report_changes(progress, mutes, done)
    _report_suspects(progress, done)
    for state in result.rules:
        _note_rule(progress, state)


def _report_unknown_columns(progress: Progress, done: "Done") -> None:
    """Warn of fields that no column has, and of files that are in quarantine because of their columns."""
    for name, where in done.result.left_out.items():
        text = f"  warning: no column of {done.table} has the field '{name}' (first in {where}): it is left out"
        progress.note(text, level="warning", event="left_out", fields={"table": done.table, "field": name})
    for name, where in done.arrived.refused_columns.items():
        text = f"  warning: no column of {done.table} is called '{name}', as one of {where}: the file is in quarantine"
        fields = {"table": done.table, "column": name, "file": where}
        progress.note(text, level="warning", event="quarantined_file", fields=fields)


def _report_changes(progress: Progress, mutes: Mutes, done: "Done") -> None:
    """Note the incidents of many changes, the first changes, the first near constraints that turned.

    Changes of sound constraints are noted before others.
    """
    published = done.result.published
    assert published is not None
    turned = [change for change in done.result.near if change.is_turn]
    changes = _sound_first(done.result.changes, published)
    if len(changes) + len(turned) > _SHOWN_CHANGES:
        for incident in incidents_of(published, mutes):
            names = ("commit", "table", "direction", "lost", "nearly", "recovered", "sound")
            about = {name: getattr(incident, name) for name in names}
            progress.note(f"  {incident}", event="incident", fields={**about, "text": str(incident)})
    for change in changes[:_SHOWN_CHANGES]:
        which = {"table": change.table, "constraint": str(change.constraint)}
        which |= {"change": "appeared" if change.appeared else "disappeared", "reason": change.reason.value}
        progress.note(f"  {change}", event="change", fields=which)
    if len(changes) > _SHOWN_CHANGES:
        progress.note(f"  and {len(changes) - _SHOWN_CHANGES} more: see constraint_changes")
    for near in turned[:_SHOWN_CHANGES]:
        counts = {"exceptions_before": near.before, "exceptions": near.constraint.exceptions}
        about = {"table": done.table, "constraint": str(near.constraint), "change": near.change, **counts}
        progress.note(f"  {near}", event="near_change", fields=about)
    if len(turned) > _SHOWN_CHANGES:
        progress.note(f"  and {len(turned) - _SHOWN_CHANGES} more: see near_changes")


def _sound_first(changes: Sequence[ConstraintChange], published: OutputRows) -> list[ConstraintChange]:
    """Return changes in their order, but those of constraints that are published as sound first."""
    rows = published.payload.get("constraint_changes", ())
    sound = {(row["table_name"], row["constraint"]) for row in rows if row.get("sound")}
    return sorted(changes, key=lambda change: (change.table, str(change.constraint)) not in sound)


def _report_suspects(progress: Progress, done: "Done") -> None:
    """Note the first suspects that appeared, and how many others did, and disappeared."""
    changes = done.result.suspects
    for one in changes.appeared[:_SHOWN_SUSPECTS]:
        about = {"table": done.table, "column": one.column, "score": one.score}
        progress.note(f"  ? {one}", event="suspect", fields=about)
    more, gone = len(changes.appeared[_SHOWN_SUSPECTS:]), len(changes.disappeared)
    if more or gone:
        parts = [f"{more:,} more appeared"] * bool(more) + [f"{gone:,} disappeared"] * bool(gone)
        progress.note(f"  suspects: {', '.join(parts)}: see suspect_changes")


def _note_rule(progress: Progress, state: RuleState) -> None:
    fields = {
        "rule": state.rule.name,
        "table": state.rule.table,
        **{name: getattr(state, name) for name in _COUNTS},
    }
    progress.note(f"  {state}", event="rule", fields=fields)
