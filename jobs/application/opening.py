"""Opens the state, the backup and the outputs that a configuration names.

Invariant: a state that was lost is never replaced by a new one without an error; only its owner writes to a backup.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from holdfast.constraints import ExternalError, StateMissing
from holdfast.jobs.application.backup import backup_of
from holdfast.jobs.application.blocks import StateRows, rows_of
from holdfast.jobs.application.moving import remove_leftovers, undo_swap
from holdfast.jobs.configuration.quantities import is_remote
from holdfast.jobs.configuration.reading import Configuration
from holdfast.jobs.configuration.settings import Settings
from holdfast.jobs.terminal.progress import Progress
from holdfast.state.commits import READY, Commits, Identity
from holdfast.state.judging import identity_read
from holdfast.state.log import CommitLog
from holdfast.state.places import Place, make_private
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

_ALL = "SELECT * FROM {published}"

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


@dataclass(frozen=True)
class OpenState:
    """A state that this process has opened for writing, with its backup and its outputs.

    Parameters
    ----------
    session : starts Spark, where it is needed.
    """

    settings: Settings
    store: RocksStore
    commits: Commits
    session: Callable[[], "SparkSession"]

    @property
    def is_seeded(self) -> bool:
        """Whether the state is seeded to its end."""
        return self.commits.identity.status == READY

    @cached_property
    def place(self) -> StateRows:
        """The place of the rows of the state's tables."""
        return rows_of(self.settings, self.commits.identity.state_id, self.session)

    def log(self) -> CommitLog:
        """Return the log of the state in its backup, which this process owns from now on."""
        identity, backup = self.commits.identity, self._backup
        own(backup, identity)
        refuse_behind(backup, identity.epoch, self.commits.last)
        return CommitLog(backup, identity.epoch)

    def publisher(self) -> Publisher:
        """Return the publisher of the state's commits; this process owns the backup from now on."""
        limits = self.settings.publish
        return Publisher(self.commits, self.log(), self.outputs(), limits.max_lag, limits.compact_every)

    def snapshotter(self) -> Snapshotter:
        """Return the snapshotter, which copies the state into the backup."""
        limits = self.settings.snapshot
        snapshots = Snapshots(self._backup, limits.keep)
        return Snapshotter(self.store, self.commits, snapshots, limits.interval.total_seconds())

    def outputs(self) -> dict[str, OutputTable]:
        """Return the output tables; create missing tables, refuse tables of another application."""
        settings, identity, kept = self.settings, self.commits.identity, self.settings.retention

        def spark_table(uri: str, shape: Shape, application: str, state_id: str, retention: Retention) -> OutputTable:
            from holdfast.streaming.spark.delta_table import SparkTable

            return SparkTable(self.session(), uri, shape, application, state_id, retention)

        return open_tables(
            settings.output,
            identity.application,
            identity.state_id,
            writer=settings.publish.writer,
            spark_table=spark_table,
            storage=settings.storage_options,
            retentions={name: Retention(kept.delta_log, getattr(kept, name, None)) for name in SHAPES},
        )

    def publish_waiting(self, backed_up: Callable[[], object] = lambda: None) -> None:
        """Publish all commits of the state, which no run follows.

        Parameters
        ----------
        backed_up : called before that, once the backup is complete.
        """
        publisher = self.publisher()
        self.snapshotter().first()
        backed_up()
        publisher.start()
        publisher.close()

    def published(self) -> Earlier:
        """Return the constraints, examples and rules that an earlier state of this application published."""
        outputs = self.outputs()  # refuses those of another application
        if outputs["constraints"].is_new:
            return Earlier()
        lasts = [self._query(name, "SELECT max(commit) AS last FROM {published}")[0]["last"] or 0 for name in outputs]
        return Earlier(
            constraints=self._query("constraints", _ALL),
            examples=self._query("violations", _SHOWN),
            near=self._query("near_constraints", _ALL),
            exceptions=self._query("exceptions", _ALL),
            suspects=self._query("suspects", _ALL),
            concentrations=self._query("concentrations", _ALL),
            broken={row["rule"] for row in self._query("rule_status", _BROKEN)},
            commit=max(lasts),
        )

    @property
    def _backup(self) -> Place:
        return backup_of(self.settings).at(self.commits.identity.state_id)

    def _query(self, table: str, query: str) -> list[dict[str, Any]]:
        """Return the rows of a query on an output table, which the query calls `{published}`."""
        from deltalake import DeltaTable, QueryBuilder
        from deltalake.exceptions import DeltaError

        settings = self.settings
        place = f"{settings.output}/{table}"
        if writer_for(settings.output, settings.publish.writer) == "spark":
            frame = self.session().read.format("delta").load(place)
            found: list[dict[str, Any]] = frame.sparkSession.sql(query, published=frame).toArrow().to_pylist()
            return found
        with storage_errors(place, "read", (DeltaError, OSError, pa.ArrowException)):
            opened = DeltaTable(place, storage_options=dict(settings.storage_options))
            batches = QueryBuilder().register("published", opened).execute(query.replace("{published}", "published"))
            return list(pa.table(batches.read_all()).to_pylist())


@contextmanager
def opened(
    settings: Settings,
    session: Callable[[], "SparkSession"],
    evolved: Callable[[OpenState], bool] = lambda _: False,
) -> Iterator[OpenState]:
    """Open the state for writing; `evolved` may replace it by another state, and returns whether it did."""
    store = RocksStore(Path(settings.state))
    try:
        remove_leftovers(store.path)
        state = OpenState(settings, store, Commits(store, settings.name), session)
        if evolved(state):
            store = RocksStore(Path(settings.state))
            state = OpenState(settings, store, Commits(store, settings.name), session)
        yield state
    finally:
        store.close()
