"""Histories of starts that are killed: `holdfast run` follows a source, dies at a seeded moment, and is started again.

    feed, start  ->  dies at a step or after a time  ->  look at what it left  ->  (lose state or checkpoint, rebuild)
    ... again and again ...  ->  drain  ->  compare with the rows, and with a run of the same history that nobody killed

Invariant: what is compared was written by the product alone; each start that may be killed is a process group of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from deltalake import DeltaTable

from holdfast.constraints import HoldfastError
from holdfast.state import codecs
from holdfast.state.rocks import RocksReader
from holdfast.streaming.sinks.shapes import SHAPES
from tests.recovery.dying import STEPS
from tests.short_lives import EAGER, quick_environment
from tests.streams import Application, Row

if TYPE_CHECKING:
    import random
    from collections.abc import Iterable, Mapping, Sequence

PATIENCE_SECONDS = 300
DRAIN_SECONDS = 1_800
"""How long all that came may take: with rows in blocks a batch takes seconds, and many lives leave many of them."""
LONGEST_SECONDS = 40
SETTLED_SECONDS = 10
"""How long a run may still come to its step once it published a batch: changes come within 2 s, snapshots every second."""
EVERY_SECONDS = 0.1

RULES: list[dict[str, Any]] = [
    {"name": "depends", "table": "t", "fd": "a -> b", "max_violating_pairs": 50},
    {"name": "grows", "table": "t", "forbid": "t.k < s.k and t.a > s.a and t.b = s.b"},
    {"name": "small", "table": "t", "require": "t.a < 3"},
]
SECTIONS: dict[str, Any] = {
    "constraints": {"denial": {"max_predicates": 3}, "order": {"max_context": 2}},
    "rules": RULES,
    "trigger": {"interval": "20 ms", "max_records": 50},
    "snapshot": {"interval": "1 second"},
    "publish": {"compact_every": 5, "status_interval": "2 seconds", "metrics_interval": "2 seconds"},
    "spark": EAGER,
}
BLOCKS: dict[str, Any] = {
    "engine": "spark",
    "blocks": {"rows": 32},
    "constraints": {"denial": {"max_predicates": 2}, "order": {"max_context": 1}},
}
"""A batch is some jobs of Spark: seconds, and more where more constraints come and go."""


class Feed(Protocol):
    """A source of changes, and what they leave."""

    table: Mapping[str, Any]
    """The `tables` entry that follows it."""

    @property
    def bad(self) -> list[str]:
        """The records that cannot be rows, as quarantine shows them."""

    @property
    def sent(self) -> int:
        """How many records came."""

    def come(self) -> None:
        """Let the next changes of the history come."""

    def rows(self) -> Iterable[Row]:
        """Return the rows as they are now."""

    def names(self, quarantined: Row) -> str:
        """Return what a line of quarantine is called in `bad`."""


@dataclass
class Death:
    """One start, and how it ended.

    Parameters
    ----------
    step, when, call : where it was to die.
    ended : `killed there`, or what else happened.
    found : what the next start finds.
    """

    step: str
    when: str
    call: int
    ended: str = ""
    found: list[str] = field(default_factory=list)


class Lives:
    """One application that is killed over and over.

    Parameters
    ----------
    folder : for everything.
    feed : what it follows.
    dice : decides.
    pace : how many calls of a step it comes to, compared with the numbers of `STEPS`.
    engine : who holds rows.
    changes : how often changes come during a run, at least and at most.
    """

    def __init__(
        self,
        folder: Path,
        feed: Feed,
        dice: random.Random,
        pace: float = 1.0,
        engine: str = "embedded",
        changes: tuple[int, int] = (4, 16),
    ) -> None:
        self.feed, self.dice, self._pace, self._engine, self._changes = feed, dice, pace, engine, changes
        table = {**feed.table, "near": {"share": "20%", "max_context": 2}}
        self.app = Application(folder, [table], **{**SECTIONS, **(BLOCKS if engine == "spark" else {})})
        self.folder = folder
        self.deaths: list[Death] = []

    def run(self, count: int) -> None:
        """Start it so many times; now and then lose the state, the checkpoint, or both before."""
        for _ in range(count):
            is_seeded = bool(list(self.folder.glob("backup/*/snapshots/*.json")))
            if (self.folder / "checkpoint" / "t" / "commits").exists() and self.dice.random() < 0.2:
                self.deaths.append(self._rebuilt(self.dice.choice(["state", "checkpoint", "state and checkpoint"])))
                continue
            death = self._chosen("following" if is_seeded else "seeding")
            self._live(death, "run")
            self.deaths.append(death)

    def drain(self) -> None:
        """Let a run end by itself, on all that came."""
        ended = self._started(Death("-", "", 0), "run", "--available-now")
        self._wait(ended, DRAIN_SECONDS)
        assert ended.returncode == 0, self.said
        assert "Traceback" not in self.said, self.said

    def check(self) -> None:
        """Assert that nothing is lost and nothing came twice."""
        self.app.check({"t": self.feed.rows()})
        quarantined = Counter(self.feed.names(row) for row in self.app.output("quarantine"))
        assert quarantined == Counter(self.feed.bad), (quarantined - Counter(self.feed.bad), self.feed.bad)
        sent = sum(row["rows_in"] for row in self.app.output("batches"))
        assert sent == self.feed.sent, f"{sent} records in batches, {self.feed.sent} were sent"
        for name in SHAPES:
            seen = Counter(json.dumps(row, default=str, sort_keys=True) for row in self.app.output(name))
            doubled = [row for row, times in seen.items() if times > 1]
            assert not doubled, (name, doubled)

    def answer(self) -> dict[str, Any]:
        """Return what does not depend on how the history was cut into batches."""
        rules = {row["rule"]: row for row in self.app.output("rule_status")}
        shown = ("violating_pairs", "missing_values", "holds")
        return {
            "constraints": sorted((row["constraint"], row["sentence"]) for row in self.app.output("constraints")),
            "rules": {name: [row[part] for part in shown] for name, row in rules.items()},
            "quarantine": sorted(self.feed.names(row) for row in self.app.output("quarantine")),
            "records": sum(row["rows_in"] for row in self.app.output("batches")),
        }

    @property
    def said(self) -> str:
        """What the last start said."""
        return (self.folder / "said.txt").read_text(errors="replace")

    def _chosen(self, stage: str) -> Death:
        """Return where to kill: mostly where it was not tried so often."""
        steps = STEPS[stage] | (STEPS.get(f"{stage} in blocks", {}) if self._engine == "spark" else {})
        tried = Counter(death.step.rpartition(": ")[2] for death in self.deaths)
        order = sorted([*steps, "any time"], key=lambda step: (tried[step], self.dice.random()))
        step = self.dice.choice(order[: max(3, len(order) // 3)])
        if step == "any time":
            return Death(step, "", 0)
        _, first, last = steps[step]
        last = max(first, round(last * self._pace))
        return Death(step, self.dice.choice(["before", "after"]), self.dice.randint(first, last))

    def _rebuilt(self, lost: str) -> Death:
        """Lose something, and rebuild: killed at first, then to its end."""
        gone = self.folder / "lost"
        shutil.rmtree(gone, ignore_errors=True)
        gone.mkdir()
        for name in lost.split(" and "):
            if (self.folder / name).exists():
                (self.folder / name).rename(gone / name)
        steps = {"state": ("files of the snapshot", "log replayed", "epoch begun", "owner written", "state restored")}
        death = self._chosen("rebuilding")
        if lost == "state":
            step = death.step if death.step in steps["state"] else self.dice.choice(steps["state"])
            death = Death(step, death.when or "before", 1)
        elif lost == "checkpoint":
            death = Death(self.dice.choice(["checkpoint removed", "resumed"]), death.when or "before", 1)
        self._live(death, "rebuild")
        death.step = f"{lost} lost; rebuild: {death.step}"
        ended = self._started(Death("-", "", 0), "rebuild")
        self._wait(ended, PATIENCE_SECONDS)
        if ended.returncode == 4 and "cannot be read in part" in self.said:  # a feed, within a version
            (gone / "checkpoint").rename(self.folder / "checkpoint")
            death.found.append("a feed that ended within a version: refused, the checkpoint came back")
            return death
        nothing_left = ended.returncode == 4 and "there is nothing to rebuild" in self.said
        assert ended.returncode == 0 or nothing_left, self.said
        return death

    def _live(self, death: Death, command: str) -> None:
        """Start a command, let changes come, and see to it that it is killed."""
        ended = self._started(death, command)
        if command == "rebuild":
            self._wait(ended, self.dice.uniform(0.2, 2.5) if death.step == "any time" else PATIENCE_SECONDS)
        else:
            alive = self.dice.uniform(0.2, 12) if death.step == "any time" else LONGEST_SECONDS
            end = time.monotonic() + alive
            before = self._published()
            for _ in range(self.dice.randint(*self._changes)):  # of which some come when it is gone already
                self.feed.come()
                if ended.poll() is None and time.monotonic() < end:
                    time.sleep(EVERY_SECONDS)  # little by little; nothing is waited for
            while ended.poll() is None and time.monotonic() < end:
                if self._published() > before:
                    end, before = min(end, time.monotonic() + SETTLED_SECONDS), sys.maxsize
                self._wait(ended, min(EVERY_SECONDS, max(0.0, end - time.monotonic())))
        if ended.poll() is None:
            os.killpg(ended.pid, signal.SIGKILL)
            ended.wait(PATIENCE_SECONDS)
            death.ended = "killed" if death.step == "any time" else "never came there, killed"
        elif ended.returncode == -signal.SIGKILL:
            death.ended = "killed"
        else:
            assert command == "rebuild", f"{death}: it ended with {ended.returncode}: {self.said}"
            assert ended.returncode in {0, 4}, f"{death}: {self.said}"
            death.ended = "never came there"
        assert "Traceback" not in self.said, self.said
        death.found = found(self.folder)

    def _published(self) -> int:
        """Return the version of the table of batches."""
        log = self.folder / "output" / "batches" / "_delta_log"
        return max((int(file.stem) for file in log.glob("[0-9]*.json")), default=-1)

    def _started(self, death: Death, command: str, *more: str) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", "tests.recovery.dying", death.step if death.when else "-", death.when]
        words += [str(death.call), command, str(self.app.file), *more]
        with (self.folder / "said.txt").open("wb") as log:
            return subprocess.Popen(
                words,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, **quick_environment()},
                start_new_session=True,
                cwd=Path(__file__).parents[2],
            )

    def _wait(self, ended: subprocess.Popen[bytes], seconds: float) -> None:
        try:
            ended.wait(seconds)
        except subprocess.TimeoutExpired:
            if seconds >= PATIENCE_SECONDS:
                os.killpg(ended.pid, signal.SIGKILL)
                raise AssertionError(f"it takes too long: {self.said}") from None


def found(folder: Path) -> list[str]:
    """Return what a start finds: how far the parts of one application are behind each other."""
    state = folder / "state"
    what = []
    if not (state / "CURRENT").exists():
        what.append("no state")
    else:
        try:
            with RocksReader(state) as reader:
                what += _in_state(reader, folder)
        except HoldfastError as error:
            what.append(f"a state that does not open: {str(error)[:60]}")
    if list(state.glob("linked-*")):
        what.append("links of a snapshot")
    if list(folder.glob("backup/*/*/*.part")) + list(folder.glob("backup/*/*/*/*.part")):
        what.append("half a file in the backup")
    return what or ["nothing to mend"]


def _in_state(reader: RocksReader, folder: Path) -> list[str]:
    stored = reader.get("meta", b"identity")
    if stored is None:
        return ["an empty state"]
    identity = codecs.read_json(stored)
    if identity["status"] != "ready":
        return ["half a seed"]
    what = []
    if list(reader.scan("log")):
        what.append("a commit that is not in the log")
    last = codecs.read_number(reader.get("meta", b"commit") or b"")
    waiting = [codecs.read_number(key) for key, _ in reader.scan("outbox")]
    if waiting:
        having = 0
        for name in SHAPES:
            place = str(folder / "output" / name)
            if DeltaTable.is_deltatable(place):
                version = DeltaTable(place).transaction_version(f"{identity['state_id']}/{name}") or 0
                having += version >= waiting[0]
        what.append("commits to publish" + (", some tables have them" if having else ""))
    checkpoint = folder / "checkpoint" / "t"
    begun = max((int(path.name) for path in (checkpoint / "offsets").glob("[0-9]*")), default=-1)
    done = max((int(path.name) for path in (checkpoint / "commits").glob("[0-9]*")), default=-1)
    entry = reader.get("ledger", b"t")
    applied = -1 if entry is None else codecs.read_json(entry)["batch_id"]
    if begun > done:
        what.append("a batch that is in the ledger" if applied == begun else "a batch that was not applied")
    assert last >= applied
    return what


def matrix(deaths: Sequence[Death]) -> str:
    """Return where runs were killed and what the next start found, as a table in Markdown."""
    counted: dict[tuple[str, str], tuple[int, int, Counter[str]]] = {}
    for death in deaths:
        key = (death.step, death.when)
        times, missed, seen = counted.get(key, (0, 0, Counter()))
        is_missed = death.ended.startswith("never")
        counted[key] = times + (not is_missed), missed + is_missed, seen + Counter(death.found)
    lines = ["| killed | times | what the next start found |", "| --- | ---: | --- |"]
    for (step, when), (times, missed, seen) in sorted(counted.items()):
        note = f" ({missed} elsewhere)" if missed else ""
        what = "; ".join(f"{name} ({n})" for name, n in seen.most_common())
        lines.append(f"| {when} {step} | {times}{note} | {what} |".replace("|  ", "| "))
    return "\n".join(lines)
