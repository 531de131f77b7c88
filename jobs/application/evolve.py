"""Changes a state to an edited configuration, before its sources are followed (docs/evolution.md).

    publish waiting commits  ->  make a second state of the old state's rows  ->  swap the two states

Invariant: the old state is unchanged until the new state is complete; then the new state takes its place (`moving.py`).
"""

import shutil
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from holdfast.constraints import InputError, StateRefused
from holdfast.jobs.application.checkpoints import remove
from holdfast.jobs.application.evolution import Plan, TablePlan, planned
from holdfast.jobs.application.first_rows import arrived_columns
from holdfast.jobs.application.moving import NEW, swap
from holdfast.jobs.application.opening import OpenState
from holdfast.jobs.application.seeding import TableSeeder, monitored_rules, noted, retention_of
from holdfast.jobs.application.streams import checkpoint_of
from holdfast.jobs.configuration.quantities import is_remote
from holdfast.jobs.configuration.reading import Configuration
from holdfast.jobs.terminal.progress import Progress
from holdfast.state import codecs
from holdfast.state.commits import Commits
from holdfast.state.rocks import RocksStore
from holdfast.state.store import WriteBatch
from holdfast.streaming.alerts.waiting import carried
from holdfast.streaming.commits.table_records import progress_of
from holdfast.streaming.maintainers.maintainer import Maintainer
from holdfast.streaming.maintainers.table.evolving import evolved as defined_anew
from holdfast.streaming.pipeline import MOST_LEFT_OUT
from holdfast.streaming.seeding import TAKEN_OVER, SeededTable, table_rules

_AT_ONCE = 10_000


def evolved(configuration: Configuration, state: OpenState, progress: Progress) -> bool:
    """Change the state to an edited configuration; return whether another state took its place."""
    settings, rules = configuration.settings, monitored_rules(configuration)
    if state.commits.upgraded_from is not None:
        progress.note(f"state: upgraded from format {state.commits.upgraded_from}, as an earlier version wrote it")
    if not state.is_seeded:
        return False
    plan = planned(settings, rules, state.store, arrived_columns(settings))
    if not plan.changes:
        return False
    progress.note("changes to the state:")
    for text in plan.changes:
        progress.note(f"  {text}")
    state.place.refuse_missing(state.store)
    state.publish_waiting()
    _Evolution(TableSeeder(settings, rules, state.session, state.place, progress), plan, state).run()
    return True


@dataclass(frozen=True)
class _Evolution:
    """The second state, made of the rows of an old state that has nothing left to publish.

    Parameters
    ----------
    seeder : seeds tables that are new, with the edited configuration.
    plan : how each table changes.
    old : the old state.
    """

    seeder: TableSeeder
    plan: Plan
    old: OpenState

    def run(self) -> None:
        """Make the second state, and put it into the place of the old state, whose store is closed."""
        settings, plan, state = self.seeder.settings, self.plan, Path(self.seeder.settings.state)
        earlier = replace(
            self.old.published(),
            commit=0,
            waiting=carried(self.old.store),
            kept=_taken_over(self.old.store, plan),
            left_out=plan.left_out,
            cause="config",
        )
        made = state.with_name(state.name + NEW)
        try:
            with closing(RocksStore(made)) as new:
                self.seeder.seed(Commits.succeeding(new, self.old.commits), map(self.seeded, plan.tables), earlier)
        except BaseException:
            shutil.rmtree(made, ignore_errors=True)
            raise
        swap(state, made, self.old.store)
        for table in (*plan.left_out, *(one.table.name for one in plan.tables if one.number is None)):
            checkpoint = checkpoint_of(settings, table)
            if not is_remote(checkpoint):
                remove(Path(checkpoint))

    def seeded(self, one: TablePlan) -> SeededTable:
        """Return a table as planned: seeded, or made of its stored rows."""
        if one.number is None:
            return self.seeder.seeded(one.table)
        maintainer = self._maintainer(one, one.number)
        now = noted(one.table, self.seeder.settings, one.known, maintainer.schema)
        record = replace(one.record, **now, declared=list(one.declared))
        return SeededTable(maintainer, record, self.seeder.values(maintainer.holding.whole, maintainer.schema))

    def _maintainer(self, one: TablePlan, number: int) -> Maintainer:
        """Return the maintainer of a table with stored rows."""
        name, progress = one.table.name, self.seeder.progress
        rows = self.seeder.place.restore(name)
        if one.definition is None:
            rules = table_rules(self.seeder.rules, name)
            maintainer = Maintainer.restore(self.old.store, number, rules=rules, rows=rows)
            maintainer.remember_as(maintainer, retention_of(one.table))
            self.seeder.search_suspects(maintainer, lambda _: None)
            return maintainer
        with progress.task(f"table {name}") as task:
            old = Maintainer.restore(self.old.store, number, rows=rows)
            try:
                maintainer = defined_anew(
                    old, one.definition, lambda text: task.describe(f"table {name} anew from its rows: {text}")
                )
            except InputError as error:
                raise StateRefused(
                    f"table {name} cannot be changed as the configuration says: {error}\nChange it back, or seed "
                    "anew: holdfast seed --replace"
                ) from error
        maintainer.remember_as(old, retention_of(one.table))
        self.seeder.search_suspects(maintainer, lambda _: None)
        size = f"{maintainer.row_count:,} rows, {maintainer.count:,} constraints"
        progress.note(f"table {name}: {size}, made anew")
        return maintainer


def _taken_over(store: RocksStore, plan: Plan) -> Iterator[WriteBatch]:
    """Yield the entries that the new state copies: positions of sources and published rules, of tables that remain."""
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
    for one in plan.tables:  # notes of left out fields that are columns now are dropped
        progress = progress_of(store, one.table.name)
        left_out = progress.left_out
        if len(left_out) < MOST_LEFT_OUT and left_out.keys() & set(one.known):
            batch = WriteBatch()
            rest = {name: where for name, where in left_out.items() if name not in one.known}
            batch.put("progress", one.table.name.encode(), codecs.json_bytes(replace(progress, left_out=rest).fields()))
            yield batch
