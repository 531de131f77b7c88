"""A state brought to an edited configuration, before anything is followed (docs/evolution.md).

    publish what waits  ->  a second state of the old one's rows  ->  it takes the old one's place

Invariant: the old state is as it was until the new one is whole; then that takes its place (`swapping.py`).
"""

import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.constraints import InputError, StateRefused
from holdfast.jobs.application.alerting import alerts_of
from holdfast.jobs.application.blocks import rows_of
from holdfast.jobs.application.checkpoints import remove
from holdfast.jobs.application.evolution import Plan, TablePlan, planned
from holdfast.jobs.application.first_rows import arrived_columns
from holdfast.jobs.application.moving import NEW, swap
from holdfast.jobs.application.opening import publish_what_waits, published
from holdfast.jobs.application.seeding import followed_values, monitored_rules, noted, seeded_table
from holdfast.jobs.application.state_rows import StateRows
from holdfast.jobs.application.streams import checkpoint_of
from holdfast.jobs.configuration.quantities import is_remote
from holdfast.jobs.configuration.reading import Configuration
from holdfast.jobs.configuration.settings import Settings
from holdfast.jobs.terminal.progress import Progress
from holdfast.state import codecs
from holdfast.state.commits import READY, Commits
from holdfast.state.rocks import RocksStore
from holdfast.state.store import WriteBatch
from holdfast.streaming.alerts.waiting import carried
from holdfast.streaming.commits.table_records import progress_of
from holdfast.streaming.maintainers.maintainer import Maintainer
from holdfast.streaming.maintainers.rules.maintainer import MonitoredRule
from holdfast.streaming.maintainers.table.evolving import evolved as defined_anew
from holdfast.streaming.pipeline import MOST_LEFT_OUT
from holdfast.streaming.seeding import TAKEN_OVER, SeededTable, seed, table_rules

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_AT_ONCE = 10_000


def evolved(
    configuration: Configuration,
    store: RocksStore,
    commits: Commits,
    session: Callable[[], "SparkSession"],
    progress: Progress,
) -> bool:
    """Bring the state to the configuration; say whether that made another one."""
    settings, rules = configuration.settings, monitored_rules(configuration)
    place = rows_of(settings, commits.identity.state_id, session)
    if commits.upgraded_from is not None:
        progress.note(f"state: upgraded from format {commits.upgraded_from}, as an earlier version wrote it")
    if commits.identity.status != READY:
        return False
    plan = planned(settings, rules, store, arrived_columns(settings))
    if not plan.said:
        return False
    progress.note("changes to the state:")
    for text in plan.said:
        progress.note(f"  {text}")
    place.refuse_missing(store)
    publish_what_waits(settings, store, commits, session)
    _Evolution(settings, rules, plan, store, commits, session, place, progress).run()
    return True


@dataclass(frozen=True)
class _Evolution:
    """A second state of an old one's rows, as a plan says. Nothing of the old one waits to be published."""

    settings: Settings
    rules: Sequence[MonitoredRule]
    plan: Plan
    store: RocksStore
    commits: Commits
    session: Callable[[], "SparkSession"]
    place: StateRows
    progress: Progress

    def run(self) -> None:
        """Put the second state into the place of the old one, whose store is closed."""
        settings, plan, state = self.settings, self.plan, Path(self.settings.state)
        earlier = replace(
            published(settings, self.commits, self.session),
            commit=0,
            waiting=carried(self.store),
            kept=_taken_over(self.store, plan),
            left_out=plan.left_out,
        )
        made = state.with_name(state.name + NEW)
        new = RocksStore(made)
        try:
            seed(
                new,
                Commits.succeeding(new, self.commits),
                map(self.seeded, plan.tables),
                earlier,
                rules=self.rules,
                alerts=alerts_of(settings),
                watched=settings.constraints.inclusion is None,
                cause="config",
                clustered=self.place.clustered,
            )
        except BaseException:
            new.close()
            shutil.rmtree(made, ignore_errors=True)
            raise
        new.close()
        swap(state, made, self.store)
        for table in (*plan.left_out, *(one.table.name for one in plan.tables if one.number is None)):
            checkpoint = checkpoint_of(settings, table)
            if not is_remote(checkpoint):
                remove(Path(checkpoint))

    def seeded(self, one: TablePlan) -> SeededTable:
        """Return a table as the plan says: read anew, or made of its stored rows."""
        table, settings, rules, place = one.table, self.settings, self.rules, self.place
        if one.number is None:
            return seeded_table(table, settings, rules, self.session, self.progress, place)
        maintainer = self._maintainer(one, one.number)
        now = noted(table, settings, one.known, maintainer.schema)
        record = replace(one.record, **now, declared=list(one.declared))
        values = followed_values(maintainer.holding.whole, maintainer.schema, settings, rules, place)
        return SeededTable(maintainer, record, values)

    def _maintainer(self, one: TablePlan, number: int) -> Maintainer:
        """Return a table's maintainer from its stored rows."""
        table, retention = one.table, one.table.sequence_retention
        kept = None if retention is None else retention.total_seconds()
        rows = self.place.restore(table.name)
        if one.definition is None:
            maintainer = Maintainer.restore(self.store, number, rules=table_rules(self.rules, table.name), rows=rows)
            maintainer.remember_as(maintainer, kept)
            return maintainer
        with self.progress.task(f"table {table.name}") as task:
            old = Maintainer.restore(self.store, number, rows=rows)
            try:
                maintainer = defined_anew(
                    old, one.definition, lambda text: task.describe(f"table {table.name} anew from its rows: {text}")
                )
            except InputError as error:
                raise StateRefused(
                    f"table {table.name} cannot be changed as the configuration says: {error}\nChange it back, or seed "
                    "anew: holdfast seed --replace"
                ) from error
        maintainer.remember_as(old, kept)
        said = f"{maintainer.row_count:,} rows, {maintainer.count:,} constraints, made anew"
        self.progress.note(f"table {table.name}: {said}")
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
        progress = progress_of(store, one.table.name)
        left_out = progress.left_out
        if len(left_out) < MOST_LEFT_OUT and left_out.keys() & set(one.known):
            batch = WriteBatch()
            rest = {name: where for name, where in left_out.items() if name not in one.known}
            batch.put("progress", one.table.name.encode(), codecs.json_bytes(replace(progress, left_out=rest).fields()))
            yield batch
