"""`holdfast run`: state, sources, outputs and the streaming queries of one configuration, wired.

    lock the state  ->  (seed)  ->  drain what was not published  ->  restore  ->  follow the sources

Invariant: whatever fails is named with the table and the batch, and leaves nothing half done; a signal ends the run
after the batch that was begun.
"""

import datetime
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from holdfast.jobs.alerting import sender_of, waiting_of
from holdfast.jobs.blocks import rows_of
from holdfast.jobs.checkpoints import refuse_damaged
from holdfast.jobs.configuration import Configuration
from holdfast.jobs.evolve import evolved
from holdfast.jobs.opening import log_of, opened, outputs_of, prepare, refuse_lost, snapshotter_of
from holdfast.jobs.progress import SPOKEN, Progress, Voice, spoken_on
from holdfast.jobs.replacing import recovered
from holdfast.jobs.secrets import masked
from holdfast.jobs.seed import seed_tables
from holdfast.jobs.seeding import monitored_rules
from holdfast.jobs.session import Session
from holdfast.jobs.state_rows import StateRows
from holdfast.jobs.stopping import Stop, Stopped, stopped_by_signals
from holdfast.jobs.watching import Followed, Watch, watched
from holdfast.state.commits import READY, Commits
from holdfast.state.rocks import RocksStore
from holdfast.streaming.maintainers.maintainer import Maintainer
from holdfast.streaming.maintainers.rule_state import RuleState
from holdfast.streaming.maintainers.rules import MonitoredRule
from holdfast.streaming.output_rows import time_text
from holdfast.streaming.pipeline import Limits, Pipeline
from holdfast.streaming.publisher import Publisher
from holdfast.streaming.seeding import progress_of, restore, tables_of

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
        tables = None
        place = rows_of(settings, commits.identity.state_id, session)
        if commits.identity.status == READY:
            session.begin()  # while the state is restored
            place.refuse_missing(store)
        else:
            tables = seed_tables(configuration, store, commits, session, progress)
        about = {
            noted["name"]: {**noted, "left_out": progress_of(store, noted["name"]).get("left_out", {})}
            for _, noted in tables_of(store)
        }
        publisher = Publisher(
            commits,
            log_of(settings, commits),
            outputs_of(settings, commits, session),
            settings.publish.max_lag,
            settings.publish.compact_every,
        )
        rules = monitored_rules(configuration)
        if tables is None:
            tables = _restored(store, rules, place, progress)
        company.seeded(tables)
        snapshotter = snapshotter_of(settings, store, commits)
        snapshotter.first()
        place.sweep(store, tables.values())  # which no backup of an earlier state needs from here on
        publisher.start()
        waiting = waiting_of(settings, store)
        sender = sender_of(configuration, waiting, progress)
        try:
            quarantine = settings.quarantine
            limits = Limits(
                quarantine.max_share,
                quarantine.window,
                settings.publish.metrics_interval.total_seconds(),
                settings.publish.status_interval.total_seconds(),
            )
            settle = {table.name: table.settle for table in settings.tables}
            strict = {table.name for table in settings.tables if table.new_columns == "stop"}
            pipeline = Pipeline(
                *(store, commits, tables, publisher, limits, settle, rules, waiting),
                committed=snapshotter.maybe,
                strict=strict,
                values=place.values,
            )
            watch.follow(Followed(commits, pipeline, publisher, snapshotter, tables, waiting, sender.counts))
            sender.start()
            for state in pipeline.announce():
                _note_rule(progress, state)
            _follow(
                *(configuration, pipeline, about, session, publisher, stop, progress, company, watch),
                available_now=available_now,
            )
            pipeline.announce()
            publisher.close()
        except BaseException:
            sender.close(0.0)
            publisher.abandon()
            raise
        finally:
            watch.follow(None)
        left = sender.close()
        snapshotter.close()
        if left:
            progress.note(
                f"alerts: {left} could not be delivered yet: the next start goes on with them",
                level="warning",
                event="alerts",
            )
        progress.note("stopped: everything that was read is committed and published")


def _follow(
    configuration: Configuration,
    pipeline: Pipeline,
    about: Mapping[str, Mapping[str, Any]],
    session: "Session",
    publisher: Publisher,
    stop: "Stop",
    progress: Progress,
    company: Company,
    watch: Watch,
    *,
    available_now: bool,
) -> None:
    from holdfast.jobs.streams import streams
    from holdfast.streaming.spark.running import Running

    settings = configuration.settings
    found = streams(settings, pipeline.schemas, about)
    if not found:
        progress.note("no table has a source: there is nothing to follow")
        return
    refuse_damaged(stream.checkpoint for stream in found)
    spark = session()
    for stream in found:
        stream.source.check(spark)
    every = f"{settings.trigger.interval // datetime.timedelta(milliseconds=1)} milliseconds"
    trigger: dict[str, Any] = {"availableNow": True} if available_now else {"processingTime": every}
    told = company.done or partial(_report, progress)

    def done(batch: "Done") -> None:
        watch.done(batch)
        told(batch)

    running = Running(spark, pipeline, found, trigger, done, configuration.file, masked)
    watch.watch(lambda: not (running.has_failed or publisher.has_failed))
    progress.note(f"following {', '.join(stream.table for stream in found)}; Ctrl-C stops after the current batch")
    company.ready(spark)
    stop.wait_for_batch = True
    running.run(stop.event, publisher.check)


def _report(progress: Progress, done: "Done") -> None:
    """Say what a batch did, in one line that machines read too, and the first of its changes."""
    result, came = done.result, done.came
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
    store: RocksStore, rules: Sequence[MonitoredRule], place: StateRows, progress: Progress
) -> dict[str, Maintainer]:
    began = time.perf_counter()
    tables = restore(store, rules=rules, rows=place.restore)
    rows = sum(maintainer.row_count for maintainer in tables.values())
    progress.note(f"state: {rows:,} rows of {len(tables)} table(s), restored in {time.perf_counter() - began:.1f} s")
    return tables
