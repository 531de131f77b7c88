"""`holdfast seed`: a state from the first rows of its tables, and what holds on them published."""

import shutil
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.constraints import HoldfastError, StateRefused, UsageError
from holdfast.jobs.alerting import alerts_of
from holdfast.jobs.backup import backup_of
from holdfast.jobs.blocks import address_of, blocks_of, clear_blocks
from holdfast.jobs.configuration import Configuration
from holdfast.jobs.opening import opened, prepare, publish_what_waits, published, refuse_lost
from holdfast.jobs.progress import SPOKEN, Progress, Voice, spoken_on
from holdfast.jobs.quantities import is_remote
from holdfast.jobs.seeding import monitored_rules, seeded_tables
from holdfast.jobs.session import Session
from holdfast.jobs.settings import Settings
from holdfast.state import codecs
from holdfast.state.commits import READY, Commits
from holdfast.state.rocks import RocksReader, RocksStore
from holdfast.state.snapshots import backups
from holdfast.streaming.alerts.waiting import carried
from holdfast.streaming.maintainers.maintainer import Maintainer
from holdfast.streaming.rule_reports import published_lines
from holdfast.streaming.seeding import Told, seed, tables_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


_ASIDE = ".replaced"
"""Ends the names of folders that are set aside while a new state is seeded."""


def seed_state(configuration: Configuration, *, replace: bool, voice: Voice = SPOKEN) -> None:
    """Build the state from the seeds, and publish what holds."""
    settings = configuration.settings
    progress = spoken_on(sys.stderr, voice, configuration.masked)
    prepare(configuration, progress)
    if replace:
        with _replaced(settings) as (left, seeded):
            _seed_anew(configuration, progress, voice, left, seeded)
    else:
        refuse_lost(configuration)
        _seed_anew(configuration, progress, voice)


def _seed_anew(
    configuration: Configuration,
    progress: Progress,
    voice: Voice,
    left: Told | None = None,
    seeded: Callable[[], None] = lambda: None,
) -> None:
    settings = configuration.settings
    with opened(settings) as (store, commits):
        if commits.identity.status == READY:
            raise StateRefused(
                f"{settings.state} holds a state already: follow its sources with holdfast run, or throw it away with "
                "holdfast seed --replace"
            )
        session = Session(settings, voice)
        seed_tables(configuration, store, commits, session, progress, left)
        seeded()
        publish_what_waits(settings, store, commits, session)
        progress.note(f"seeded: {settings.state} is ready, outputs are in {settings.output}")


def seed_tables(
    configuration: Configuration,
    store: RocksStore,
    commits: Commits,
    session: Callable[[], "SparkSession"],
    progress: Progress,
    left: Told | None = None,
) -> dict[str, Maintainer]:
    """Seed the tables of an empty state; `left` is what somebody was told of the one before."""
    settings, rules = configuration.settings, monitored_rules(configuration)
    blocks = blocks_of(settings, commits.identity.state_id, session)
    if blocks is not None:
        blocks.begin()
    constraints, shown, broken, after = published(settings, commits, session)
    left = left or Told(broken=broken)
    return seed(
        store,
        commits,
        seeded_tables(settings, rules, session, progress, blocks),
        constraints,
        after,
        rules=rules,
        watched=settings.constraints.inclusion is None,
        shown=shown,
        told=Told(alerts_of(settings), left.broken, left.waiting),
        clustered=None if blocks is None else blocks.clustered,
    )


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
    old_blocks = {address_of(settings, str(folder).rpartition("/")[2]) for folder in old_backups}
    if state.exists():
        store = RocksStore(state)  # refused while another process has it
        identity = store.get("meta", b"identity")
        if identity is not None:
            known = codecs.read_json(identity)
            old_backups.append(backup.at(known["state_id"]))
            old_blocks.add(address_of(settings, known["state_id"]))
            old_blocks |= {about["blocks"] for _, about in tables_of(store) if "blocks" in about}
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
            clear_blocks(settings, old_blocks)
        else:
            begun = _begun(settings, state) if state in moved else []
            for place, old in moved.items():
                shutil.rmtree(place, ignore_errors=True)
                old.rename(place)
            with suppress(HoldfastError):  # what made it fail says more
                clear_blocks(settings, begun)


def _begun(settings: Settings, state: Path) -> list[str]:
    """Return where the blocks are of a state whose seed was begun."""
    with suppress(HoldfastError), RocksReader(state) as reader:
        identity = reader.get("meta", b"identity")
        return [] if identity is None else [address_of(settings, codecs.read_json(identity)["state_id"])]
    return []
