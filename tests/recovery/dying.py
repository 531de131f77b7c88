"""`python -m tests.recovery.dying STEP WHEN CALL COMMAND...`: `holdfast COMMAND...`, killed at a step with all it started.

A step is a method, `WHEN` is `before` or `after` it, and `CALL` says which of its calls is the last thing that happens.
The kill is SIGKILL to the process group, so the Java process goes at the same moment: as where power is cut, but for
what the operating system had not written yet.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
from threading import Lock
from typing import Any

STEPS: dict[str, dict[str, tuple[str, int, int]]] = {
    "seeding": {
        "state made": ("state.rocks:RocksStore.__init__", 1, 1),
        "parts of the seed": ("state.commits:Commits.bulk", 1, 1),
        "seeded": ("state.commits:Commits.commit", 1, 1),
        "tables made": ("streaming.sinks.deltalake:DeltaLakeTable._created", 1, 6),
        "first snapshot": ("state.snapshots:Snapshots.put", 1, 1),
    },
    "following": {
        "backup owned": ("jobs.application.opening:own", 1, 1),
        "rules announced": ("streaming.pipeline:Pipeline.announce", 1, 1),
        "batch collected": ("streaming.spark.running:Running._collected", 1, 8),
        "batch applied": ("streaming.maintainers.table.maintainer:TableMaintainer.apply_records", 1, 8),
        "one write": ("state.commits:Commits.commit", 1, 8),
        "write of the store": ("state.rocks:RocksStore.write", 1, 20),
        "log record written": ("state.log:CommitLog.put", 1, 8),
        "log record linked": ("state.places:os.link", 1, 8),
        "log record dropped": ("state.commits:Commits.logged", 1, 8),
        "callback returns": ("streaming.spark.running:Running._on_batch", 1, 8),
        "table published": ("streaming.sinks.contract:OutputTable.publish", 1, 20),
        "rows into a table": ("streaming.sinks.deltalake:DeltaLakeTable._write", 1, 20),
        "outbox cleared": ("state.commits:Commits.published", 1, 6),
        "table compacted": ("streaming.sinks.deltalake:DeltaLakeTable.compact", 1, 4),
        "table tidied": ("streaming.sinks.contract:OutputTable.tidy", 1, 4),
        "snapshot linked": ("state.rocks:RocksStore.linked", 1, 2),
        "file of a snapshot": ("state.snapshots:Snapshots._take", 1, 12),
        "manifest of a snapshot": ("state.places:Folder.put", 2, 3),
        "old snapshots forgotten": ("state.snapshots:Snapshots._forget", 1, 2),
        "old log forgotten": ("state.log:CommitLog.forget", 1, 1),
    },
    "seeding in blocks": {
        "first blocks made": ("jobs.application.blocks:StateBlocks.begin", 1, 1),
        "rows in blocks": ("streaming.maintainers.holdings.in_blocks:WholeInBlocks.seed", 1, 1),
    },
    "following in blocks": {
        "young block written": ("discovery.blocks.storage.live:LiveBlocks.enter", 1, 8),
        "blocks brought into order": ("discovery.blocks.storage.live:LiveBlocks.settle", 1, 12),
        "replaced blocks removed": ("streaming.maintainers.holdings.in_blocks:RowsInBlocks.committed", 1, 12),
        "blocks swept": ("jobs.application.blocks:StateBlocks.sweep", 1, 1),
    },
    "rebuilding": {
        "files of the snapshot": ("state.snapshots:Snapshots._filled", 1, 1),
        "log replayed": ("state.snapshots:Snapshots._replayed", 1, 1),
        "epoch begun": ("state.log:CommitLog.begin", 1, 1),
        "owner written": ("state.snapshots:_take_over", 1, 1),
        "state restored": ("state.snapshots:Snapshots.restore", 1, 1),
        "checkpoint removed": ("jobs.rebuild:remove", 1, 1),
        "resumed": ("state.commits:Commits.resume", 1, 1),
    },
}
"""By stage, and what it has more where rows are in blocks: what is wrapped, and the first and the last of its calls at
which it may be killed."""


def wrap(place: str, when: str, call: int) -> None:
    """Let the given call of a function or method be the end of the process group."""
    owner, name = found(place)
    given = owner.__dict__[name]
    original = getattr(owner, name)
    lock, calls = Lock(), 0

    def wrapped(*arguments: Any, **named: Any) -> Any:
        nonlocal calls
        with lock:
            calls += 1
            is_the_one = calls == call
        if is_the_one and when == "before":
            die()
        result = original(*arguments, **named)
        if is_the_one:
            die()
        return result

    setattr(owner, name, staticmethod(wrapped) if isinstance(given, staticmethod) else wrapped)


def found(place: str) -> tuple[Any, str]:
    """Return the module or class that defines what is wrapped, and its name there."""
    module, _, path = place.partition(":")
    owner: Any = importlib.import_module(f"holdfast.{module}")
    *outer, name = path.split(".")
    for part in outer:
        owner = getattr(owner, part)
    return owner, name


def die() -> None:
    """Kill this process group."""
    os.killpg(0, signal.SIGKILL)


def main(arguments: list[str]) -> None:
    step, when, call, *command = arguments
    if step != "-":
        place = next(steps[step][0] for steps in STEPS.values() if step in steps)
        wrap(place, when, int(call))
    from holdfast.jobs import command_line

    command_line.main(command)


if __name__ == "__main__":
    main(sys.argv[1:])
