"""`holdfast run`: state, sources, outputs and the streaming queries of one configuration, wired.

    lock the state  ->  (seed)  ->  drain what was not published  ->  restore  ->  follow the sources

Invariant: whatever fails is named with the table and the batch, and leaves nothing half done; a signal ends the run
after the batch that was begun.
"""

import datetime
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.jobs.application.alerting import sender_of, waiting_of
from holdfast.jobs.application.blocks import rows_of
from holdfast.jobs.application.checkpoints import refuse_damaged
from holdfast.jobs.application.evolve import evolved
from holdfast.jobs.application.opening import opened, prepare, publisher_of, refuse_lost, snapshotter_of
from holdfast.jobs.application.replacing import recovered
from holdfast.jobs.application.seeding import monitored_rules
from holdfast.jobs.application.session import Session
from holdfast.jobs.application.state_rows import StateRows
from holdfast.jobs.application.stopping import Stop, Stopped, stopped_by_signals
from holdfast.jobs.application.watching import Followed, Watch, watched
from holdfast.jobs.configuration.reading import Configuration
from holdfast.jobs.configuration.secrets import masked
from holdfast.jobs.seed import seed_tables
from holdfast.jobs.terminal.progress import SPOKEN, Progress, Voice, spoken_on
from holdfast.state.commits import READY, Commits
from holdfast.state.rocks import RocksStore
from holdfast.streaming.alerts.sending import Sender
from holdfast.streaming.alerts.waiting import Waiting
from holdfast.streaming.commits.output_rows import time_text
from holdfast.streaming.commits.snapshotting import Snapshotter
from holdfast.streaming.maintainers.maintainer import Maintainer
from holdfast.streaming.maintainers.rules.state import RuleState
from holdfast.streaming.pipeline import Limits, Pipeline
from holdfast.streaming.seeding import restore
from holdfast.streaming.sinks.publisher import Publisher
from holdfast.streaming.state_view import StateView

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from holdfast.streaming.spark.running import Done

_SHOWN_CHANGES = 5


@dataclass(frozen=True)
class Company:
    """Who is told how a run goes, beside its notes, and may end it.

    Parameters
    ----------
    seeded : is told of the tables, once they are seeded or restored.
    ready : is given the session before the sources are followed.
    done : is told of each committed batch, in place of the notes.
    stop : ends the run when it is set; signals are then left to whoever gives it.
    """

    seeded: Callable[[Mapping[str, Maintainer]], object] = lambda _: None
    ready: Callable[["SparkSession"], object] = lambda _: None
    done: Callable[["Done"], object] | None = None
    stop: threading.Event | None = None


_ALONE = Company()


def run(configuration: Configuration, *, available_now: bool, voice: Voice = SPOKEN, company: Company = _ALONE) -> None:
    """Follow the sources until stopped; with `available_now`, until they are drained."""
    progress = spoken_on(sys.stderr, voice, configuration.masked)
    prepare(configuration, progress)
    recovered(configuration.settings, progress)
    try:
        with watched(configuration.settings, progress) as watch:
            _run(configuration, progress, voice, company, watch, available_now=available_now)
    except Stopped:
        progress.note("stopped before anything was followed")


def _run(
    configuration: Configuration,
    progress: Progress,
    voice: Voice,
    company: Company,
    watch: Watch,
    *,
    available_now: bool,
) -> None:
    settings = configuration.settings
    refuse_lost(configuration)
    session = Session(settings, voice)

    def fitted(store: RocksStore, commits: Commits) -> bool:
        return evolved(configuration, store, commits, session, progress)

    with stopped_by_signals(company.stop) as stop, opened(settings, fitted) as (store, commits):
        place = rows_of(settings, commits.identity.state_id, session)
        if commits.identity.status == READY:
            session.begin()  # while the state is restored
            place.refuse_missing(store)
            publisher = publisher_of(settings, commits, session)
            tables = _restored(configuration, store, place, progress)
        else:
            tables = seed_tables(configuration, commits, session, progress)
            publisher = publisher_of(settings, commits, session)
        company.seeded(tables)
        snapshotter = snapshotter_of(settings, store, commits)
        snapshotter.first()
        place.sweep(store, tables.values())  # which no backup of an earlier state needs from here on
        publisher.start()
        waiting = waiting_of(settings, store)
        sender = sender_of(configuration, waiting, progress)
        with _ended(watch, publisher, snapshotter, sender, progress):
            pipeline = _pipeline(configuration, tables, publisher, waiting, snapshotter, place)
            watch.follow(Followed(commits, pipeline, publisher, snapshotter, tables, waiting, sender.counts))
            sender.start()
            for state in pipeline.announce():
                _note_rule(progress, state)
            following = _Following(configuration, pipeline, StateView(store), session, publisher, progress, watch)
            following.run(stop, company, available_now=available_now)
            pipeline.announce()
            publisher.close()


@contextmanager
def _ended(
    watch: Watch, publisher: Publisher, snapshotter: Snapshotter, sender: Sender, progress: Progress
) -> Iterator[None]:
    """End what runs beside the sources: at once where something failed, else once everything is done."""
    try:
        yield
    except BaseException:
        sender.close(0.0)
        publisher.abandon()
        raise
    finally:
        watch.follow(None)
    left = sender.close()
    snapshotter.close()
    if left:
        text = f"alerts: {left} could not be delivered yet: the next start goes on with them"
        progress.note(text, level="warning", event="alerts")
    progress.note("stopped: everything that was read is committed and published")


def _pipeline(
    configuration: Configuration,
    tables: Mapping[str, Maintainer],
    publisher: Publisher,
    waiting: Waiting,
    snapshotter: Snapshotter,
    place: StateRows,
) -> Pipeline:
    """Return what applies and commits batches, as the configuration says."""
    settings = configuration.settings
    limits = Limits(
        settings.quarantine.max_share,
        settings.quarantine.window,
        settings.publish.metrics_interval.total_seconds(),
        settings.publish.status_interval.total_seconds(),
        settle={table.name: table.settle for table in settings.tables},
        strict={table.name for table in settings.tables if table.new_columns == "stop"},
    )
    rules, committed = monitored_rules(configuration), snapshotter.maybe
    return Pipeline(tables, publisher, limits, rules, waiting, committed, values=place.values)


@dataclass(frozen=True)
class _Following:
    """The sources of a run."""

    configuration: Configuration
    pipeline: Pipeline
    view: StateView
    session: Session
    publisher: Publisher
    progress: Progress
    watch: Watch

    def run(self, stop: Stop, company: Company, *, available_now: bool) -> None:
        """Follow the sources until stopped; with `available_now`, until they are drained."""
        from holdfast.jobs.application.streams import streams
        from holdfast.streaming.spark.running import Running

        settings, progress = self.configuration.settings, self.progress
        found = streams(settings, self.pipeline.schemas, self.view)
        if not found:
            progress.note("no table has a source: there is nothing to follow")
            return
        refuse_damaged(stream.checkpoint for stream in found)
        spark = self.session()
        for stream in found:
            stream.source.check(spark)
        every = f"{settings.trigger.interval // datetime.timedelta(milliseconds=1)} milliseconds"
        trigger: dict[str, Any] = {"availableNow": True} if available_now else {"processingTime": every}
        told = company.done or partial(_report, progress)

        def done(batch: "Done") -> None:
            self.watch.done(batch)
            told(batch)

        running = Running(spark, self.pipeline, found, trigger, done, self.configuration.file, masked)
        self.watch.watch(lambda: not (running.has_failed or self.publisher.has_failed))
        progress.note(f"following {', '.join(stream.table for stream in found)}; Ctrl-C stops after the current batch")
        company.ready(spark)
        stop.wait_for_batch = True
        running.run(stop.event, self.publisher.check)


def _report(progress: Progress, done: "Done") -> None:
    """Say what a batch did, in one line that machines read too, and the first of its changes."""
    result, came = done.result, done.arrived
    appeared = sum(1 for change in result.changes if change.appeared)
    took = sum(done.seconds.values()) + result.seconds
    fields = {
        "table": done.table,
        "batch": done.position.batch_id,
        "records": len(came.records) + len(came.bad) + came.skipped,
        "in": result.rows_in,
        "out": result.rows_out,
        "bad": len(came.bad) + len(result.incomplete),
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
    said = ", ".join(f"{step} {seconds:.3f} s" for step, seconds in steps.items())
    about = {"table": done.table, "batch": done.position.batch_id}
    progress.note(f"  {said}", level="debug", event="steps", fields={**about, "steps": steps})
    for name, where in result.left_out.items():
        text = f"  warning: no column of {done.table} has the field '{name}' (first in {where}): it is left out"
        progress.note(text, level="warning", event="left_out", fields={"table": done.table, "field": name})
    for name, where in came.refused_columns.items():
        text = f"  warning: no column of {done.table} is called '{name}', as one of {where}: the file is in quarantine"
        fields = {"table": done.table, "column": name, "file": where}
        progress.note(text, level="warning", event="quarantined_file", fields=fields)
    for change in result.changes[:_SHOWN_CHANGES]:
        which = {"table": change.table, "constraint": str(change.constraint)}
        which |= {"change": "appeared" if change.appeared else "disappeared", "reason": change.reason.value}
        progress.note(f"  {change}", event="change", fields=which)
    if len(result.changes) > _SHOWN_CHANGES:
        progress.note(f"  and {len(result.changes) - _SHOWN_CHANGES} more: see constraint_changes")
    turned = [change for change in result.near if change.is_turn]
    for near in turned[:_SHOWN_CHANGES]:
        counts = {"exceptions_before": near.before, "exceptions": near.constraint.exceptions}
        about = {"table": done.table, "constraint": str(near.constraint), "change": near.change, **counts}
        progress.note(f"  {near}", event="near_change", fields=about)
    if len(turned) > _SHOWN_CHANGES:
        progress.note(f"  and {len(turned) - _SHOWN_CHANGES} more: see near_changes")
    for state in result.rules:
        _note_rule(progress, state)


def _note_rule(progress: Progress, state: RuleState) -> None:
    fields = {
        "rule": state.rule.name,
        "table": state.rule.table,
        "violating_pairs": state.violating_pairs,
        "violating_rows": state.violating_rows,
        "missing_values": state.missing_values,
        "holds": state.holds,
        "broken": state.broken,
    }
    progress.note(f"  {state}", event="rule", fields=fields)


def _restored(
    configuration: Configuration, store: RocksStore, place: StateRows, progress: Progress
) -> dict[str, Maintainer]:
    began = time.perf_counter()
    tables = restore(store, rules=monitored_rules(configuration), rows=place.restore)
    rows = sum(maintainer.row_count for maintainer in tables.values())
    progress.note(f"state: {rows:,} rows of {len(tables)} table(s), restored in {time.perf_counter() - began:.1f} s")
    return tables
