"""Opens the state, the backup and the outputs that a configuration names.

Invariant: a state that was lost is never replaced by a new one without an error; only its owner writes to a backup.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from holdfast.constraints import ExternalError, StateMissing
from holdfast.jobs.application.backup import backup_of
from holdfast.jobs.application.moving import remove_leftovers, undo_swap
from holdfast.jobs.configuration.quantities import is_remote
from holdfast.jobs.configuration.reading import Configuration
from holdfast.jobs.configuration.settings import Settings
from holdfast.jobs.terminal.progress import Progress
from holdfast.state.commits import READY, Commits, Identity
from holdfast.state.judging import identity_read
from holdfast.state.log import CommitLog
from holdfast.state.places import make_private
from holdfast.state.rocks import RocksReader, RocksStore, holds_store
from holdfast.state.snapshots import Snapshots, backups, own, refuse_behind
from holdfast.streaming.commits.snapshotting import Snapshotter
from holdfast.streaming.seeding import Earlier
from holdfast.streaming.sinks.choosing import open_tables, writer_for
from holdfast.streaming.sinks.contract import OutputTable, Retention, storage_errors
from holdfast.streaming.sinks.publisher import Publisher
from holdfast.streaming.sinks.shapes import SHAPES, Shape

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_SHOWN = """
    SELECT rule, max(table_name) AS table_name, example_id, max(left_key) AS left_key, max(left_row) AS left_row,
        max(right_key) AS right_key, max(right_row) AS right_row
    FROM {published} GROUP BY rule, example_id
    HAVING sum(CASE change WHEN 'added' THEN 1 ELSE -1 END) > 0
"""

_BROKEN = """
    SELECT status.rule FROM {published} status
    JOIN (SELECT rule, max(commit) AS last FROM {published} GROUP BY rule) lasts
    ON status.rule = lasts.rule AND status.commit = lasts.last WHERE status.broken
"""


def prepare(configuration: Configuration, progress: Progress) -> None:
    """Note the warnings of a configuration, and make the folders that it names."""
    settings = configuration.settings
    for warning in configuration.warnings:
        progress.note(f"warning: {configuration.file}: {warning}", level="warning")
    _make_private(Path(settings.state).parent)  # the store makes its own
    for place in (settings.output, settings.checkpoint):
        if not is_remote(place):
            _make_private(Path(place))


def _make_private(folder: Path) -> None:
    """Make a folder that only its owner can read; an existing folder keeps its permissions."""
    try:
        make_private(folder)
    except OSError as error:
        raise ExternalError(f"the folder {folder} cannot be made ({error.strerror}): name another one") from error


def refuse_lost(configuration: Configuration) -> None:
    """Raise where a state is missing although its backup or its checkpoints exist."""
    from holdfast.jobs.application.streams import checkpoint_of

    settings = configuration.settings
    undo_swap(Path(settings.state))
    if holds_store(Path(settings.state)):
        return
    for left in backups(backup_of(settings), settings.name)[:1]:
        raise StateMissing(
            f"the state in {settings.state} is missing, while {left} is the backup of one of '{settings.name}'. "
            f"Restore it: holdfast rebuild {configuration.file}; or start over: holdfast seed --replace"
        )
    for table in settings.tables:
        place = checkpoint_of(settings, table.name)
        if not is_remote(place) and Path(place, "offsets").is_dir():
            raise StateMissing(
                f"the state in {settings.state} is missing, while the checkpoint {place} says that table {table.name} "
                "was followed before. Restore the state (holdfast rebuild), or start over: holdfast seed --replace"
            )


@contextmanager
def read_state(
    configuration: Configuration, missing: StateMissing | None = None
) -> Iterator[tuple[RocksReader, Identity]]:
    """Open a state that is seeded to its end for reading; another process may write to it.

    Parameters
    ----------
    missing : raised where there is no such state, in place of the reason.
    """
    state = Path(configuration.settings.state)
    if not holds_store(state):
        raise missing or no_state(configuration)
    with RocksReader(state) as reader:
        identity = identity_read(reader, configuration.settings.name)
        if identity is None or identity.status != READY:
            raise missing or StateMissing(
                f"{state} is being seeded, or its seed was interrupted: holdfast run seeds it anew"
            )
        yield reader, identity


def no_state(configuration: Configuration) -> StateMissing:
    """Return the error for a state that does not exist."""
    state = configuration.settings.state
    return StateMissing(f"{state} holds no state yet: holdfast run {configuration.file} makes it")


@contextmanager
def opened(
    settings: Settings, evolved: Callable[[RocksStore, Commits], bool] = lambda _store, _commits: False
) -> Iterator[tuple[RocksStore, Commits]]:
    """Open the state for writing; `evolved` may replace it by another state, and returns whether it did."""
    store = RocksStore(Path(settings.state))
    try:
        remove_leftovers(store.path)
        commits = Commits(store, settings.name)
        if evolved(store, commits):
            store = RocksStore(Path(settings.state))
            commits = Commits(store, settings.name)
        yield store, commits
    finally:
        store.close()


def publish_what_waits(
    settings: Settings,
    store: RocksStore,
    commits: Commits,
    session: Callable[[], "SparkSession"],
    backed_up: Callable[[], object] = lambda: None,
) -> None:
    """Publish all commits of a state that no run follows.

    Parameters
    ----------
    backed_up : called before that, once the backup is complete.
    """
    publisher = publisher_of(settings, commits, session)
    snapshotter_of(settings, store, commits).first()
    backed_up()
    publisher.start()
    publisher.close()


def published(settings: Settings, commits: Commits, session: Callable[[], "SparkSession"]) -> Earlier:
    """Return the constraints, examples and rules that an earlier state of this application published."""
    from deltalake import DeltaTable, QueryBuilder
    from deltalake.exceptions import DeltaError

    outputs = outputs_of(settings, commits, session)  # refuses those of another application
    if outputs["constraints"].is_new:
        return Earlier()
    is_spark = writer_for(settings.output, settings.publish.writer) == "spark"

    def queried(table: str, query: str) -> list[dict[str, Any]]:
        place = f"{settings.output}/{table}"
        if is_spark:
            frame = session().read.format("delta").load(place)
            found: list[dict[str, Any]] = frame.sparkSession.sql(query, published=frame).toArrow().to_pylist()
            return found
        with storage_errors(place, "read", (DeltaError, OSError, pa.ArrowException)):
            opened = DeltaTable(place, storage_options=dict(settings.storage_options))
            batches = QueryBuilder().register("published", opened).execute(query.replace("{published}", "published"))
            return list(pa.table(batches.read_all()).to_pylist())

    lasts = [queried(name, "SELECT max(commit) AS last FROM {published}")[0]["last"] or 0 for name in outputs]
    broken = {row["rule"] for row in queried("rule_status", _BROKEN)}
    merged = {
        name: queried(name, "SELECT * FROM {published}") for name in ("constraints", "near_constraints", "exceptions")
    }
    return Earlier(
        constraints=merged["constraints"],
        examples=queried("violations", _SHOWN),
        near=merged["near_constraints"],
        exceptions=merged["exceptions"],
        broken=broken,
        commit=max(lasts),
    )


def log_of(settings: Settings, commits: Commits) -> CommitLog:
    """Return the log of the state in its backup, which this process owns from now on."""
    folder = backup_of(settings).at(commits.identity.state_id)
    own(folder, commits.identity)
    refuse_behind(folder, commits.identity.epoch, commits.last)
    return CommitLog(folder, commits.identity.epoch)


def publisher_of(settings: Settings, commits: Commits, session: Callable[[], "SparkSession"]) -> Publisher:
    """Return the publisher of a state's commits; this process owns the backup from now on."""
    return Publisher(
        commits,
        log_of(settings, commits),
        outputs_of(settings, commits, session),
        settings.publish.max_lag,
        settings.publish.compact_every,
    )


def snapshotter_of(settings: Settings, store: RocksStore, commits: Commits) -> Snapshotter:
    """Return the snapshotter, which copies the state into the backup."""
    snapshots = Snapshots(backup_of(settings).at(commits.identity.state_id), settings.snapshot.keep)
    return Snapshotter(store, commits, snapshots, settings.snapshot.interval.total_seconds())


def outputs_of(settings: Settings, commits: Commits, session: Callable[[], "SparkSession"]) -> dict[str, OutputTable]:
    """Return the output tables; create missing tables, refuse tables of another application."""
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
