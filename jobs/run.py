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
from holdfast.jobs.configuration import Configuration
from holdfast.jobs.progress import Progress, progress_on
from holdfast.jobs.quantities import is_remote
from holdfast.jobs.secrets import masked
from holdfast.jobs.seeding import monitored_rules, refuse_contradictions, seeded_tables
from holdfast.jobs.settings import Settings
from holdfast.state import codecs
from holdfast.state.commits import READY, Commits
from holdfast.state.log import CommitLog, make_private
from holdfast.state.rocks import RocksStore
from holdfast.state.snapshots import ASIDE, Snapshots, backups, own
from holdfast.streaming.maintainers.maintainer import Maintainer
from holdfast.streaming.maintainers.rules import MonitoredRule
from holdfast.streaming.output_rows import time_text
from holdfast.streaming.pipeline import Limits, Pipeline
from holdfast.streaming.publisher import Publisher
from holdfast.streaming.seeding import restore, seed, tables_of
from holdfast.streaming.sinks.choosing import open_tables, writer_for
from holdfast.streaming.sinks.contract import OutputTable, Retention
from holdfast.streaming.sinks.shapes import SHAPES, Shape
from holdfast.streaming.snapshotting import Snapshotter

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from holdfast.streaming.spark.running import Done

_SHOWN_CHANGES = 5
_SHOWN = """
    SELECT rule, table_name, example_id, max(left_key) AS left_key, max(left_row) AS left_row,
        max(right_key) AS right_key, max(right_row) AS right_row
    FROM {published} GROUP BY rule, table_name, example_id
    HAVING sum(CASE change WHEN 'added' THEN 1 ELSE -1 END) > 0
"""


def seed_state(configuration: Configuration, *, replace: bool, quiet: bool) -> None:
    """Build the state from the seeds, and publish what holds."""
    settings = configuration.settings
    progress = progress_on(sys.stderr, quiet=quiet)
    _prepare(configuration, progress)
    if replace:
        with _replaced(settings) as seeded:
            _seed_anew(configuration, progress, seeded)
    else:
        _refuse_lost(configuration)
        _seed_anew(configuration, progress)


def _seed_anew(configuration: Configuration, progress: Progress, seeded: Callable[[], None] = lambda: None) -> None:
    settings = configuration.settings
    with _opened(settings) as (store, commits):
        if commits.identity.status == READY:
            raise StateRefused(
                f"{settings.state} holds a state already: follow its sources with holdfast run, or throw it away with "
                "holdfast seed --replace"
            )
        session = _Session(settings)
        _seed(configuration, store, commits, session, progress)
        seeded()
        publisher = Publisher(commits, _log(settings, commits), _outputs(settings, commits, session))
        publisher.start()
        publisher.close()
        _snapshotter(settings, store, commits).first()
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


def run(configuration: Configuration, *, available_now: bool, quiet: bool, company: Company = _ALONE) -> None:
    """Follow the sources until stopped; with `available_now`, until they are drained."""
    progress = progress_on(sys.stderr, quiet=quiet)
    _prepare(configuration, progress)
    try:
        _run(configuration, progress, company, available_now=available_now)
    except _Stopped:
        progress.note("stopped before anything was followed")


def _run(configuration: Configuration, progress: Progress, company: Company, *, available_now: bool) -> None:
    settings = configuration.settings
    _refuse_lost(configuration)
    with _stopped_by_signals(company.stop) as stop, _opened(settings) as (store, commits):
        session = _Session(settings)
        tables = None
        if commits.identity.status == READY:
            about = {noted["name"]: noted for _, noted in tables_of(store)}
            refuse_contradictions(settings, about)
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
        publisher.start()
        try:
            quarantine = settings.quarantine
            limits = Limits(
                quarantine.max_share,
                quarantine.window,
                settings.publish.metrics_interval.total_seconds(),
                settings.publish.status_interval.total_seconds(),
            )
            settle = {table.name: table.settle for table in settings.tables}
            snapshotter = _snapshotter(settings, store, commits)
            snapshotter.first()
            pipeline = Pipeline(store, commits, tables, publisher, limits, settle, rules, committed=snapshotter.maybe)
            for state in pipeline.announce():
                progress.note(f"  {state}")
            _follow(
                configuration, pipeline, about, session, publisher, stop, progress, company, available_now=available_now
            )
            pipeline.announce()
        except BaseException:
            publisher.abandon()
            raise
        publisher.close()
        snapshotter.close()
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
    spark = session()
    for stream in found:
        stream.source.check(spark)
    every = f"{settings.trigger.interval // datetime.timedelta(milliseconds=1)} milliseconds"
    trigger: dict[str, Any] = {"availableNow": True} if available_now else {"processingTime": every}
    done = company.done or partial(_report, progress)
    running = Running(spark, pipeline, found, trigger, done, configuration.file, masked)
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
        "seconds": f"{took:.3f}",
    }
    now = time_text(datetime.datetime.now(datetime.UTC))
    progress.note(f"{now} " + " ".join(f"{name}={value}" for name, value in fields.items()))
    for change in result.changes[:_SHOWN_CHANGES]:
        progress.note(f"  {change}")
    if len(result.changes) > _SHOWN_CHANGES:
        progress.note(f"  and {len(result.changes) - _SHOWN_CHANGES} more: see constraint_changes")
    for state in result.rules:
        progress.note(f"  {state}")


# Parts


class _Session:
    """A Spark session that is started when it is first needed, or a little before.

    On a thread of its own: on the main one, PySpark takes over what Ctrl-C does.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
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
            started.sparkContext.setLogLevel("ERROR")
            self._spark = started
        except Exception as error:  # noqa: BLE001  (raised where somebody asks for the session)
            self._failed = error


def _prepare(configuration: Configuration, progress: Progress) -> None:
    """Say what the configuration may lose, and refuse what cannot be done."""
    settings = configuration.settings
    for warning in configuration.warnings:
        progress.note(f"warning: {configuration.file}: {warning}")
    _make_private(Path(settings.state).parent)  # the store makes its own
    for place in (settings.output, settings.checkpoint):
        if not is_remote(place):
            _make_private(Path(place))
    if is_remote(settings.backup):
        raise UsageError(
            f"backup: {settings.backup} is on an object store, which this version cannot write the log to: name a "
            "folder on a disk that survives the machine"
        )


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
    if Path(settings.state, "CURRENT").exists():
        return
    for left in backups(Path(settings.backup), settings.name)[:1]:
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
def _opened(settings: Settings) -> Iterator[tuple[RocksStore, Commits]]:
    store = RocksStore(Path(settings.state))
    try:
        yield store, Commits(store, settings.name)
    finally:
        store.close()


def _seed(
    configuration: Configuration,
    store: RocksStore,
    commits: Commits,
    session: Callable[[], "SparkSession"],
    progress: Progress,
) -> dict[str, Maintainer]:
    settings, rules = configuration.settings, monitored_rules(configuration)
    published, shown, after = _published(settings, commits, session)
    return seed(
        store,
        commits,
        seeded_tables(settings, rules, session, progress),
        published,
        after,
        rules=rules,
        watched=settings.constraints.inclusion is None,
        shown=shown,
    )


def _restored(store: RocksStore, rules: Sequence[MonitoredRule], progress: Progress) -> dict[str, Maintainer]:
    began = time.perf_counter()
    tables = restore(store, rules=rules)
    rows = sum(maintainer.row_count for maintainer in tables.values())
    progress.note(f"state: {rows:,} rows of {len(tables)} table(s), restored in {time.perf_counter() - began:.1f} s")
    return tables


def _published(
    settings: Settings, commits: Commits, session: Callable[[], "SparkSession"]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]], int]:
    """Return constraints and examples that an earlier state of this application left, and its last commit."""
    from deltalake import DeltaTable, QueryBuilder

    outputs = _outputs(settings, commits, session)  # refuses those of another application
    if outputs["constraints"].is_new:
        return [], [], 0
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
    return asked("constraints", "SELECT * FROM {published}"), asked("violations", _SHOWN), max(lasts)


@contextmanager
def _replaced(settings: Settings) -> Iterator[Callable[[], None]]:
    """Set a state, its backups and its checkpoints aside while a new state is seeded: where that fails, they come back.

    Gives what to call once the new state is seeded. The outputs stay, and go on from what they say.
    """
    if is_remote(settings.checkpoint):
        raise UsageError(f"remove the checkpoint {settings.checkpoint} yourself, then seed: it is not on this machine")
    state, backup = Path(settings.state), Path(settings.backup)
    places = {state, Path(settings.checkpoint), *backups(backup, settings.name)}
    if state.exists():
        store = RocksStore(state)  # refused while another process has it
        identity = store.get("meta", b"identity")
        store.close()
        if identity is not None:
            places.add(backup / codecs.read_json(identity)["state_id"])
    moved = {place: place.with_name(f"{place.name}{ASIDE}") for place in places if place.exists()}
    for place, old in moved.items():
        shutil.rmtree(old, ignore_errors=True)  # of a replacement that was killed
        place.rename(old)
    is_seeded = threading.Event()
    try:
        yield is_seeded.set
    finally:
        if is_seeded.is_set():
            for old in moved.values():
                shutil.rmtree(old)
        else:
            for place, old in moved.items():
                shutil.rmtree(place, ignore_errors=True)
                old.rename(place)


def _log(settings: Settings, commits: Commits) -> CommitLog:
    """Return the log of the state, whose backup is this process's from now on."""
    folder = _backup(settings, commits.identity.state_id)
    own(folder, commits.identity)
    return CommitLog(folder, commits.identity.epoch)


def _snapshotter(settings: Settings, store: RocksStore, commits: Commits) -> Snapshotter:
    """Return what copies the state into the backup."""
    snapshots = Snapshots(_backup(settings, commits.identity.state_id), settings.snapshot.keep)
    return Snapshotter(store, commits, snapshots, settings.snapshot.interval.total_seconds())


def _backup(settings: Settings, state_id: str) -> Path:
    """Return the folder for one state: that of another one stays what it is."""
    return Path(settings.backup, state_id)


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
