"""`holdfast seed`: make a state of the first rows of its tables, and publish the constraints that hold on them."""

import sys
from collections.abc import Callable
from dataclasses import replace as replaced_fields
from pathlib import Path

from holdfast.constraints import (
    StateBehindBackup,
    StateDamaged,
    StateFormatUnknown,
    StateMissing,
    StateRefused,
    UsageError,
)
from holdfast.jobs.application.backup import backup_of
from holdfast.jobs.application.blocks import address_of
from holdfast.jobs.application.checking import refuse_misfits
from holdfast.jobs.application.moving import undo_swap
from holdfast.jobs.application.opening import OpenState, opened, prepare, refuse_lost
from holdfast.jobs.application.replacing import Old, old_state, recovered, replaced
from holdfast.jobs.application.seeding import TableSeeder, monitored_rules
from holdfast.jobs.application.session import Session
from holdfast.jobs.configuration.quantities import is_remote
from holdfast.jobs.configuration.reading import Configuration
from holdfast.jobs.configuration.settings import Settings
from holdfast.jobs.terminal.progress import DEFAULT_LOG, LogOptions, Progress, progress_on
from holdfast.state.judging import refuse_unusable
from holdfast.state.rocks import RocksReader
from holdfast.state.snapshots import backups
from holdfast.streaming.alerts.waiting import carried
from holdfast.streaming.maintainers.maintainer import Maintainer
from holdfast.streaming.seeding import Earlier
from holdfast.streaming.state_view import StateView


def seed_state(configuration: Configuration, *, replace: bool, log: LogOptions = DEFAULT_LOG) -> None:
    """Make the state of the first rows, and publish the constraints that hold."""
    settings = configuration.settings
    progress = progress_on(sys.stderr, log)
    refuse_misfits(configuration, folders=False, servers=False, replaces=replace)
    prepare(configuration, progress)
    recovered(settings, progress)
    if replace:
        undo_swap(Path(settings.state))
        old, left = _judged(settings)
        with replaced(settings, old, progress) as complete:
            _seed_anew(configuration, progress, log, left, complete)
    else:
        refuse_lost(configuration)
        _seed_anew(configuration, progress, log)


def _seed_anew(
    configuration: Configuration,
    progress: Progress,
    log: LogOptions,
    left: Earlier | None = None,
    complete: Callable[[], None] = lambda: None,
) -> None:
    settings = configuration.settings
    with opened(settings, Session(settings, log)) as state:
        if state.is_seeded:
            raise StateRefused(
                f"{settings.state} holds a state already: follow its sources with holdfast run, or replace it with "
                "holdfast seed --replace"
            )
        seed_tables(configuration, state, progress, left)
        state.publish_waiting(complete)
        progress.note(f"seeded: {settings.state} is ready, outputs are in {settings.output}")


def seed_tables(
    configuration: Configuration, state: OpenState, progress: Progress, left: Earlier | None = None
) -> dict[str, Maintainer]:
    """Seed the tables of an empty state; `left` has the rules and alerts that the replaced state had published."""
    settings, rules = configuration.settings, monitored_rules(configuration)
    state.place.begin()
    earlier = state.published()
    if left is not None:
        earlier = replaced_fields(earlier, broken=left.broken, waiting=left.waiting)
    seeder = TableSeeder(settings, rules, state.session, state.place, progress)
    return seeder.seed(state.commits, map(seeder.seeded, settings.tables), earlier)


def _judged(settings: Settings) -> tuple[Old, Earlier | None]:
    """Return the state to replace, and the rules and alerts that it had published; refuse a foreign state."""
    if is_remote(settings.checkpoint):
        raise UsageError(f"remove the checkpoint {settings.checkpoint} yourself, then seed: it is not on this machine")
    state, backup = Path(settings.state), backup_of(settings)
    every = [str(folder).rpartition("/")[2] for folder in backups(backup, settings.name)]
    try:
        identity = refuse_unusable(state, settings.name, backup)
    except (StateMissing, StateDamaged, StateBehindBackup, StateFormatUnknown) as error:
        return old_state(settings, str(error), (), every, ()), None
    with RocksReader(state) as reader:
        view = StateView(reader)
        broken = {line["rule"] for line in view.rule_lines if line["broken"]}
        left = Earlier(broken=broken, waiting=carried(reader))
        blocks = {record.blocks for record in view.tables.values() if record.blocks is not None}
    blocks.add(address_of(settings, identity.state_id))
    others = [name for name in every if name != identity.state_id]
    return old_state(settings, "", [identity.state_id], others, blocks), left
