"""A state brought to an edited configuration, before anything is followed (docs/evolution.md).

    publish what waits  ->  a second state of the old one's rows  ->  it takes the old one's place

Invariant: at any moment the state is the old one or the new one, whole; a crash between the two renames is undone by
the next start (`unswapped`).
"""

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.constraints import InputError, StateRefused
from holdfast.jobs.evolution import Plan, TablePlan
from holdfast.jobs.progress import Progress
from holdfast.jobs.quantities import is_remote
from holdfast.jobs.seeding import followed_values, noted, seeded_table
from holdfast.jobs.settings import Settings
from holdfast.jobs.streams import checkpoint_of
from holdfast.state import codecs
from holdfast.state.commits import Commits
from holdfast.state.rocks import RocksStore, locked
from holdfast.state.store import WriteBatch
from holdfast.streaming.maintainers.evolving import evolved, stored_table
from holdfast.streaming.maintainers.maintainer import Maintainer
from holdfast.streaming.maintainers.rules import MonitoredRule
from holdfast.streaming.seeding import TAKEN_OVER, SeededTable, Told, progress_of, seed, table_rules

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NEW, OLD = ".evolving", ".before"
_AT_ONCE = 10_000


def evolve(
    settings: Settings,
    rules: Sequence[MonitoredRule],
    plan: Plan,
    store: RocksStore,
    commits: Commits,
    published: tuple[list[dict[str, Any]], list[dict[str, Any]], Told],
    session: Callable[[], "SparkSession"],
    progress: Progress,
) -> None:
    """Put the state that a plan makes of another one into its place; the old store is closed.

    Parameters
    ----------
    published : what the outputs have, constraints and examples, and what somebody was told. Nothing waits to be
        published.
    """
    state = Path(settings.state)
    made = state.with_name(state.name + NEW)
    new = RocksStore(made)
    try:
        constraints, shown, told = published
        seed(
            new,
            Commits.succeeding(new, commits),
            _tables(settings, rules, plan, store, session, progress),
            constraints,
            rules=rules,
            watched=settings.constraints.inclusion is None,
            shown=shown,
            taken_over=_taken_over(store, plan),
            left_out=plan.left_out,
            cause="config",
            told=told,
        )
        for table in (*plan.left_out, *(one.table.name for one in plan.tables if one.number is None)):
            place = checkpoint_of(settings, table)
            if not is_remote(place):
                shutil.rmtree(place, ignore_errors=True)
    except BaseException:
        new.close()
        shutil.rmtree(made, ignore_errors=True)
        raise
    new.close()
    _swap(state, made, store)


def unswapped(state: Path) -> None:
    """Take back a swap that a crash left half done."""
    old = state.with_name(state.name + OLD)
    if old.exists() and not state.exists():
        old.rename(state)


def swept(state: Path) -> None:
    """Remove what a crash left beside a state, which is this process's own."""
    for left in (OLD, NEW):
        shutil.rmtree(state.with_name(state.name + left), ignore_errors=True)


def _swap(state: Path, made: Path, store: RocksStore) -> None:
    """Let a store take another one's place."""
    old = state.with_name(state.name + OLD)
    store.close()
    with locked(state):
        state.rename(old)
        made.rename(state)
        folder = os.open(state.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
    shutil.rmtree(old, ignore_errors=True)


def _tables(
    settings: Settings,
    rules: Sequence[MonitoredRule],
    plan: Plan,
    store: RocksStore,
    session: Callable[[], "SparkSession"],
    progress: Progress,
) -> Iterator[SeededTable]:
    for one in plan.tables:
        table = one.table
        if one.number is None:
            yield seeded_table(table, settings, rules, session, progress)
            continue
        maintainer = _maintainer(one, rules, store, progress)
        about = {**one.noted, **noted(table, settings, one.known, maintainer.schema)}
        values = followed_values(stored_table(maintainer), settings, rules)
        yield SeededTable(maintainer, about, values)


def _maintainer(one: TablePlan, rules: Sequence[MonitoredRule], store: RocksStore, progress: Progress) -> Maintainer:
    """Return a table's maintainer from its stored rows."""
    table, retention = one.table, one.table.sequence_retention
    assert one.number is not None
    kept = None if retention is None else retention.total_seconds()
    if one.definition is None:
        maintainer = Maintainer.restore(store, one.number, rules=table_rules(rules, table.name))
        maintainer.remember_as(maintainer, kept)
        return maintainer
    with progress.task(f"table {table.name}") as task:
        old = Maintainer.restore(store, one.number)
        try:
            maintainer = evolved(
                old, one.definition, lambda text: task.describe(f"table {table.name} anew from its rows: {text}")
            )
        except InputError as error:
            raise StateRefused(
                f"table {table.name} cannot be changed as the configuration says: {error}\nChange it back, or seed "
                "anew: holdfast seed --replace"
            ) from error
    maintainer.remember_as(old, kept)
    progress.note(f"table {table.name}: {maintainer.row_count:,} rows, {maintainer.count:,} constraints, made anew")
    return maintainer


def _taken_over(store: RocksStore, plan: Plan) -> Iterator[WriteBatch]:
    """Yield what stays as it is: where sources are, what was told of rules; of tables that there are still."""
    for family in TAKEN_OVER:
        batch = WriteBatch()
        for key, value in store.scan(family):
            if key.split(b"\0", 1)[0].decode() in plan.left_out and family != "rule_status":
                continue
            batch.put(family, key, value)
            if len(batch) >= _AT_ONCE:
                yield batch
                batch = WriteBatch()
        yield batch
    for one in plan.tables:  # what was left out of columns that are known now is of no use
        left_out = progress_of(store, one.table.name).get("left_out", {})
        if left_out.keys() & set(one.known):
            batch = WriteBatch()
            rest = {name: where for name, where in left_out.items() if name not in one.known}
            about = {**progress_of(store, one.table.name), "left_out": rest}
            batch.put("progress", one.table.name.encode(), codecs.json_bytes(about))
            yield batch
