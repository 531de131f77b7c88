"""`holdfast seed` and `holdfast run`: state, sources, outputs and the streaming queries of one configuration, wired.

    lock the state  ->  (seed)  ->  drain what was not published  ->  restore  ->  follow the sources

Invariant: whatever fails is named with the table and the batch, and leaves nothing half done; a signal ends the run
after the batch that was begun.
"""

import datetime
import shutil
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from holdfast.constraints import ExternalError, StateRefused, UsageError
from holdfast.jobs.alerting import alerts_of, sender_of, waiting_of
from holdfast.jobs.backup import backup_of
from holdfast.jobs.checkpoints import refuse_damaged
from holdfast.jobs.configuration import Configuration
from holdfast.jobs.evolution import planned
from holdfast.jobs.evolve import evolve, swept, unswapped
from holdfast.jobs.progress import SPOKEN, Progress, Voice, spoken_on
from holdfast.jobs.quantities import is_remote
from holdfast.jobs.secrets import masked
from holdfast.jobs.seeding import arrived_columns, monitored_rules, seeded_tables
from holdfast.jobs.settings import Settings
from holdfast.jobs.watching import Followed, Watch, watched
from holdfast.state import codecs
from holdfast.state.commits import READY, Commits
from holdfast.state.log import CommitLog
from holdfast.state.places import Place, make_private
from holdfast.state.rocks import RocksStore
from holdfast.state.snapshots import Snapshots, backups, own, refuse_behind
from holdfast.streaming.alerts.waiting import carried
from holdfast.streaming.maintainers.maintainer import Maintainer
from holdfast.streaming.maintainers.rule_state import RuleState
from holdfast.streaming.maintainers.rules import MonitoredRule
from holdfast.streaming.output_rows import time_text
from holdfast.streaming.pipeline import Limits, Pipeline
from holdfast.streaming.publisher import Publisher
from holdfast.streaming.rule_reports import published_lines
from holdfast.streaming.seeding import Told, restore, seed, tables_of
from holdfast.streaming.sinks.choosing import open_tables, writer_for
from holdfast.streaming.sinks.contract import OutputTable, Retention
from holdfast.streaming.sinks.shapes import SHAPES, Shape
from holdfast.streaming.snapshotting import Snapshotter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from holdfast.streaming.spark.running import Done

_ASIDE = ".replaced"
"""Ends the names of folders that are set aside while a new state is seeded."""
_SHOWN_CHANGES = 5
_SHOWN = """
    SELECT rule, max(table_name) AS table_name, example_id, max(left_key) AS left_key, max(left_row) AS left_row,
        max(right_key) AS right_key, max(right_row) AS right_row
    FROM {published} GROUP BY rule, example_id
    HAVING sum(CASE change WHEN 'added' THEN 1 ELSE -1 END) > 0
"""

_BROKEN = """
    SELECT told.rule FROM {published} told
    JOIN (SELECT rule, max(commit) AS last FROM {published} GROUP BY rule) lasts
    ON told.rule = lasts.rule AND told.commit = lasts.last WHERE told.broken
"""


def seed_state(configuration: Configuration, *, replace: bool, voice: Voice = SPOKEN) -> None:
    """Build the state from the seeds, and publish what holds."""
    settings = configuration.settings
    progress = spoken_on(sys.stderr, voice, configuration.masked)
    _prepare(configuration, progress)
    if replace:
        with _replaced(settings) as (left, seeded):
            _seed_anew(configuration, progress, voice, left, seeded)
    else:
        _refuse_lost(configuration)
        _seed_anew(configuration, progress, voice)


def _seed_anew(
    configuration: Configuration,
    progress: Progress,
    voice: Voice,
    left: Told | None = None,
    seeded: Callable[[], None] = lambda: None,
) -> None:
    settings = configuration.settings
    with _opened(settings) as (store, commits):
        if commits.identity.status == READY:
            raise StateRefused(
                f"{settings.state} holds a state already: follow its sources with holdfast run, or throw it away with "
                "holdfast seed --replace"
            )
        session = _Session(settings, voice)
        _seed(configuration, store, commits, session, progress, left)
        seeded()
        _publish_what_waits(settings, store, commits, session)
        progress.note(f"seeded: {settings.state} is ready, outputs are in {settings.output}")


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
    _prepare(configuration, progress)
    try:
        with watched(configuration.settings, progress) as watch:
            _run(configuration, progress, voice, company, watch, available_now=available_now)
    except _Stopped:
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
    _refuse_lost(configuration)
    session = _Session(settings, voice)

    def evolved(store: RocksStore, commits: Commits) -> bool:
        return _evolved(configuration, store, commits, session, progress)

    with _stopped_by_signals(company.stop) as stop, _opened(settings, evolved) as (store, commits):
        tables = None
        if commits.identity.status == READY:
            session.begin()  # while the state is restored
        else:
            tables = _seed(configuration, store, commits, session, progress)
        about = {noted["name"]: noted for _, noted in tables_of(store)}
        publisher = Publisher(
            commits,
            _log(settings, commits),
            _outputs(settings, commits, session),
            settings.publish.max_lag,
            settings.publish.compact_every,
        )
        rules = monitored_rules(configuration)
        if tables is None:
            tables = _restored(store, rules, progress)
        company.seeded(tables)
        snapshotter = _snapshotter(settings, store, commits)
        snapshotter.first()
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
    session: "_Session",
    publisher: Publisher,
    stop: "_Stop",
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


# Parts


class _Session:
    """A Spark session that is started when it is first needed, or a little before.

    On a thread of its own: on the main one, PySpark takes over what Ctrl-C does.
    """

    def __init__(self, settings: Settings, voice: Voice = SPOKEN) -> None:
        self._settings = settings
        self._level = "INFO" if voice.least == "debug" else "ERROR"
        self._thread = threading.Thread(target=self._start, name="spark", daemon=True)
        self._spark: SparkSession | None = None
        self._failed: Exception | None = None

    def begin(self) -> None:
        """Start it in the background; what goes wrong is told when it is asked for."""
        if self._thread.ident is None:
            self._thread.start()

    def __call__(self) -> "SparkSession":
        """Return the session."""
        self.begin()
        self._thread.join()
        if self._failed is not None:
            raise self._failed
        assert self._spark is not None
        return self._spark

    def _start(self) -> None:
        try:
            from holdfast.streaming.spark.session import session

            settings = self._settings
            storage = {f"spark.hadoop.{k}": v for k, v in settings.storage_options.items() if k.startswith("fs.")}
            started = session(f"holdfast-{settings.name}", {**storage, **settings.spark}, masked)
            started.sparkContext.setLogLevel(self._level)
            self._spark = started
        except Exception as error:  # noqa: BLE001  (raised where somebody asks for the session)
            self._failed = error


def _prepare(configuration: Configuration, progress: Progress) -> None:
    """Say what the configuration may lose, and refuse what cannot be done."""
    settings = configuration.settings
    for warning in configuration.warnings:
        progress.note(f"warning: {configuration.file}: {warning}", level="warning")
    _make_private(Path(settings.state).parent)  # the store makes its own
    for place in (settings.output, settings.checkpoint):
        if not is_remote(place):
            _make_private(Path(place))


def _make_private(folder: Path) -> None:
    """Make a folder that only its owner may look into, whoever writes in it; one that is there stays as it is."""
    try:
        make_private(folder)
    except OSError as error:
        raise ExternalError(f"the folder {folder} cannot be made ({error.strerror}): name another one") from error


def _refuse_lost(configuration: Configuration) -> None:
    """Raise where there was a state: it is not to be made anew without a word."""
    from holdfast.jobs.streams import checkpoint_of

    settings = configuration.settings
    unswapped(Path(settings.state))
    if Path(settings.state, "CURRENT").exists():
        return
    for left in backups(backup_of(settings), settings.name)[:1]:
        raise StateRefused(
            f"the state in {settings.state} is missing, while {left} is the backup of one of '{settings.name}'. "
            f"Restore it: holdfast rebuild {configuration.file}; or start over: holdfast seed --replace"
        )
    for table in settings.tables:
        place = checkpoint_of(settings, table.name)
        if not is_remote(place) and Path(place, "offsets").is_dir():
            raise StateRefused(
                f"the state in {settings.state} is missing, while the checkpoint {place} says that table {table.name} "
                "was followed before. Restore the state (holdfast rebuild), or start over: holdfast seed --replace"
            )


@contextmanager
def _opened(
    settings: Settings, evolved: Callable[[RocksStore, Commits], bool] = lambda _store, _commits: False
) -> Iterator[tuple[RocksStore, Commits]]:
    """Open the state; `evolved` may put another one into its place, and says whether it did."""
    store = RocksStore(Path(settings.state))
    try:
        swept(store.path)
        commits = Commits(store, settings.name)
        if evolved(store, commits):
            store = RocksStore(Path(settings.state))
            commits = Commits(store, settings.name)
        yield store, commits
    finally:
        store.close()


def _evolved(
    configuration: Configuration, store: RocksStore, commits: Commits, session: "_Session", progress: Progress
) -> bool:
    """Bring the state to the configuration; say whether that made another one."""
    settings, rules = configuration.settings, monitored_rules(configuration)
    if commits.upgraded_from is not None:
        progress.note(f"state: upgraded from format {commits.upgraded_from}, as an earlier version wrote it")
    if commits.identity.status != READY:
        return False
    plan = planned(settings, rules, store, arrived_columns(settings))
    if not plan.said:
        return False
    progress.note("the configuration was changed:")
    for text in plan.said:
        progress.note(f"  {text}")
    _publish_what_waits(settings, store, commits, session)
    constraints, shown, broken, _ = _published(settings, commits, session)
    told = Told(alerts_of(settings), broken, carried(store))
    evolve(settings, rules, plan, store, commits, (constraints, shown, told), session, progress)
    return True


def _publish_what_waits(settings: Settings, store: RocksStore, commits: Commits, session: "_Session") -> None:
    """Publish all commits of a state that nobody follows; its backup is whole before that."""
    publisher = Publisher(commits, _log(settings, commits), _outputs(settings, commits, session))
    _snapshotter(settings, store, commits).first()
    publisher.start()
    publisher.close()


def _seed(
    configuration: Configuration,
    store: RocksStore,
    commits: Commits,
    session: Callable[[], "SparkSession"],
    progress: Progress,
    left: Told | None = None,
) -> dict[str, Maintainer]:
    settings, rules = configuration.settings, monitored_rules(configuration)
    published, shown, broken, after = _published(settings, commits, session)
    left = left or Told(broken=broken)
    return seed(
        store,
        commits,
        seeded_tables(settings, rules, session, progress),
        published,
        after,
        rules=rules,
        watched=settings.constraints.inclusion is None,
        shown=shown,
        told=Told(alerts_of(settings), left.broken, left.waiting),
    )


def _restored(store: RocksStore, rules: Sequence[MonitoredRule], progress: Progress) -> dict[str, Maintainer]:
    began = time.perf_counter()
    tables = restore(store, rules=rules)
    rows = sum(maintainer.row_count for maintainer in tables.values())
    progress.note(f"state: {rows:,} rows of {len(tables)} table(s), restored in {time.perf_counter() - began:.1f} s")
    return tables


def _published(
    settings: Settings, commits: Commits, session: Callable[[], "SparkSession"]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], set[str], int]:
    """Return what an earlier state of this application left: constraints, examples, broken rules, its last commit."""
    from deltalake import DeltaTable, QueryBuilder

    outputs = _outputs(settings, commits, session)  # refuses those of another application
    if outputs["constraints"].is_new:
        return [], [], set(), 0
    is_spark = writer_for(settings.output, settings.publish.writer) == "spark"

    def asked(table: str, query: str) -> list[dict[str, Any]]:
        place = f"{settings.output}/{table}"
        if is_spark:
            frame = session().read.format("delta").load(place)
            found: list[dict[str, Any]] = frame.sparkSession.sql(query, published=frame).toArrow().to_pylist()
            return found
        opened = DeltaTable(place, storage_options=dict(settings.storage_options))
        batches = QueryBuilder().register("published", opened).execute(query.replace("{published}", "published"))
        return list(pa.table(batches.read_all()).to_pylist())

    lasts = [asked(name, "SELECT max(commit) AS last FROM {published}")[0]["last"] or 0 for name in outputs]
    broken = {row["rule"] for row in asked("rule_status", _BROKEN)}
    return asked("constraints", "SELECT * FROM {published}"), asked("violations", _SHOWN), broken, max(lasts)


@contextmanager
def _replaced(settings: Settings) -> Iterator[tuple[Told | None, Callable[[], None]]]:
    """Set a state and its checkpoints aside while a new state is seeded: where that fails, they come back.

    Gives what was told of the state, as far as it can be read, and what to call once the new state is seeded. Then the
    old one's backups go too; the outputs stay, and go on from what they say.
    """
    if is_remote(settings.checkpoint):
        raise UsageError(f"remove the checkpoint {settings.checkpoint} yourself, then seed: it is not on this machine")
    state, backup = Path(settings.state), backup_of(settings)
    left = None
    places, old_backups = {state, Path(settings.checkpoint)}, backups(backup, settings.name)
    if state.exists():
        store = RocksStore(state)  # refused while another process has it
        identity = store.get("meta", b"identity")
        if identity is not None:
            known = codecs.read_json(identity)
            old_backups.append(backup.at(known["state_id"]))
            if (known["application"], known["status"]) == (settings.name, READY):
                broken = {name for name, line in published_lines(store) if line["broken"]}
                left = Told(broken=broken, waiting=carried(store))
        store.close()
    moved = {place: place.with_name(f"{place.name}{_ASIDE}") for place in places if place.exists()}
    for place, old in moved.items():
        shutil.rmtree(old, ignore_errors=True)  # of a replacement that was killed
        place.rename(old)
    is_seeded = threading.Event()
    try:
        yield left, is_seeded.set
    finally:
        if is_seeded.is_set():
            for old in moved.values():
                shutil.rmtree(old)
            for left_behind in old_backups:
                left_behind.clear()
        else:
            for place, old in moved.items():
                shutil.rmtree(place, ignore_errors=True)
                old.rename(place)


def _log(settings: Settings, commits: Commits) -> CommitLog:
    """Return the log of the state, whose backup is this process's from now on."""
    folder = _backup(settings, commits.identity.state_id)
    own(folder, commits.identity)
    refuse_behind(folder, commits.identity.epoch, commits.last)
    return CommitLog(folder, commits.identity.epoch)


def _snapshotter(settings: Settings, store: RocksStore, commits: Commits) -> Snapshotter:
    """Return what copies the state into the backup."""
    snapshots = Snapshots(_backup(settings, commits.identity.state_id), settings.snapshot.keep)
    return Snapshotter(store, commits, snapshots, settings.snapshot.interval.total_seconds())


def _backup(settings: Settings, state_id: str) -> Place:
    """Return the folder for one state: that of another one stays what it is."""
    return backup_of(settings).at(state_id)


def _outputs(settings: Settings, commits: Commits, session: Callable[[], "SparkSession"]) -> dict[str, OutputTable]:
    identity, kept = commits.identity, settings.retention

    def spark_table(uri: str, shape: Shape, application: str, state_id: str, retention: Retention) -> OutputTable:
        from holdfast.streaming.spark.delta_table import SparkTable

        return SparkTable(session(), uri, shape, application, state_id, retention)

    return open_tables(
        settings.output,
        identity.application,
        identity.state_id,
        writer=settings.publish.writer,
        spark_table=spark_table,
        storage=settings.storage_options,
        log=kept.delta_log,
        rows={name: getattr(kept, name, None) for name in SHAPES},
    )


class _Stopped(BaseException):
    """Somebody asked to stop before anything was followed; what is half done the next start does anew."""


class _Stop:
    """Whether somebody asked to stop: at once, or, once batches are applied, after the one that was begun."""

    def __init__(self, event: threading.Event | None = None) -> None:
        self.event = event or threading.Event()
        self.wait_for_batch = False

    def ask(self, *, again_interrupts: bool) -> None:
        """Note that somebody asked."""
        if not self.wait_for_batch:
            raise _Stopped
        if self.event.is_set() and again_interrupts:
            raise KeyboardInterrupt
        self.event.set()


@contextmanager
def _stopped_by_signals(given: threading.Event | None = None) -> Iterator[_Stop]:
    """Stop on SIGTERM and Ctrl-C, unless an event is given; a second Ctrl-C interrupts."""
    stop = _Stop(given)
    if given is not None or threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def asked(number: int, _frame: object) -> None:
        stop.ask(again_interrupts=number == signal.SIGINT)

    before = {number: signal.signal(number, asked) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield stop
    finally:
        stop.wait_for_batch = True
        for number, handler in before.items():
            signal.signal(number, handler)
