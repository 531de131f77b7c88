"""A pipeline with a history, and checks of all that it has written, for tests of crashes."""

import json
import random
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable

from holdfast.constraints import Rule, parse_rule_body, parse_share
from holdfast.constraints.sentences import sentence
from holdfast.discovery.blocks.storage.block import Rows as BlockRows
from holdfast.discovery.blocks.storage.block import write_blocks
from holdfast.discovery.blocks.storage.location import Storage
from holdfast.discovery.blocks.storage.table import BlockTable, Source
from holdfast.discovery.blocks.values.parts import ValueFiles, ValueParts
from holdfast.discovery.detection.check import check_tables
from holdfast.discovery.discover import discover
from holdfast.discovery.inclusion.clusters import Clusters
from holdfast.discovery.inclusion.discover import discover_inclusions
from holdfast.discovery.inclusion.seeding import column_values
from holdfast.state.commits import READY, Commits
from holdfast.state.log import CommitLog
from holdfast.state.rocks import RocksStore
from holdfast.state.snapshots import Snapshots
from holdfast.streaming.commits.output_rows import Position
from holdfast.streaming.commits.snapshotting import Snapshotter
from holdfast.streaming.incoming.arrivals import Arrivals, BadRecord
from holdfast.streaming.maintainers.inclusion.maintainer import InclusionMaintainer
from holdfast.streaming.maintainers.maintainer import DELETE, INSERT, Maintainer, Records
from holdfast.streaming.maintainers.near.suspects import SuspectBatches
from holdfast.streaming.maintainers.rules.maintainer import MonitoredRule
from holdfast.streaming.maintainers.table.bounds import NearBounds
from holdfast.streaming.pipeline import Limits, Pipeline
from holdfast.streaming.seeding import SeededTable, restore, seed, table_rules
from holdfast.streaming.sinks.deltalake import DeltaLakeTable
from holdfast.streaming.sinks.publisher import Publisher
from holdfast.streaming.sinks.shapes import SHAPES
from holdfast.tables import Table, from_arrow
from tests.invariants import check_invariants
from tests.near_outputs import SUSPECT_TABLES, check_concentrations, check_near, check_suspects

Rows = list[tuple[int, int, str]]


NEAR = "34%"


LEAST = 0.003


RULES = [
    MonitoredRule(Rule(name, "r", parse_rule_body(text)), recount=0.0)
    for name, text in {
        "depends": "a -> b",
        "grows": "not(t.k < s.k and t.a > s.a)",
        "small": "not(t.a > 1)",
        "crosses": "not(t.a = s.k and t.b != s.b)",
        "known": "r.a in r.k",
    }.items()
]


def _table(rows: Rows) -> Table:
    columns = list(zip(*rows, strict=True)) if rows else [(), (), ()]
    kinds = (pa.int64(), pa.int64(), pa.string())
    return from_arrow(pa.table({n: pa.array(c, k) for n, c, k in zip("kab", columns, kinds, strict=True)}), "r")


class Running:
    """One process: a store, its pipeline and its publisher."""

    def __init__(self, folder: Path, first: Rows | None = None, files: ValueFiles | None = None) -> None:
        self.folder = folder
        self.store = RocksStore(folder / "state")
        self.commits = Commits(self.store, "app")
        if self.commits.identity.status != READY:
            _seed(self.commits, first or [], files)
        identity = self.commits.identity
        tables = {
            name: DeltaLakeTable(str(folder / "out" / name), shape, identity.application, identity.state_id)
            for name, shape in SHAPES.items()
        }
        log = CommitLog(folder / "backup", identity.epoch)
        self.publisher = Publisher(self.commits, log, tables, compact_every=1, tidy_every=0.2)
        self.publisher.start()
        self.tables = restore(self.store, threads=1, rules=RULES)
        snapshots = Snapshotter(self.store, self.commits, Snapshots(folder / "backup", keep=1), 0.0)
        self.pipeline = Pipeline(
            self.tables,
            self.publisher,
            Limits(suspects={"r": SuspectBatches(1)}),
            rules=RULES,
            committed=snapshots.maybe,
            values=files,
        )

    def batch(self, number: int, changes: list[tuple[int, tuple[int, int, str]]]) -> Any:
        records = Records(_table([row for _, row in changes]), np.array([op for op, _ in changes], np.int8))
        bad = (BadRecord(f"r-0-{number}", "{", "not JSON"),) if number % 2 else ()
        return self.pipeline.batch("r", Position("q", number, str(number), str(number + 1)), Arrivals(records, bad))

    def stop(self) -> None:
        self.publisher.close()
        self.store.close()

    def kill(self) -> None:
        """End without publishing what waits."""
        self.publisher.abandon()
        self.store.close()


def _seed(commits: Commits, first: Rows, files: ValueFiles | None) -> None:
    table = _table(first)
    rules = table_rules(RULES, "r")
    maintainer = Maintainer.seed(table, key=["k"], max_context=3, near=NEAR, rules=rules, threads=1)
    maintainer.follow_suspects(SuspectBatches(1))
    assert maintainer.near_maintainer is not None
    maintainer.near_maintainer.seed_searches()
    clustered = None if files is None else partial(_in_files, table, files)
    seeded = SeededTable(maintainer, values=() if clustered else column_values(table))
    seed(commits, [seeded], rules=RULES, clustered=clustered)


def _in_files(table: Table, files: ValueFiles) -> tuple[Clusters, ValueParts]:
    place = files.storage.open().at("blocks")
    blocks = list(write_blocks(place, BlockRows(np.arange(table.row_count), table), 2))
    source = Source(Storage.at(f"{files.storage.address}/blocks"), table.schema, 2)
    return ValueParts.seed({"r": BlockTable(source, blocks, files.executors)}, files)


def _history(dice: random.Random, batches: int) -> tuple[Rows, list[list[tuple[int, tuple[int, int, str]]]], Rows]:
    def row(key: int) -> tuple[int, int, str]:
        return key, dice.randint(0, 2), dice.choice("xy")

    first = [row(key) for key in range(4)]
    current = {row[0]: row for row in first}
    history = []
    for _ in range(batches):
        changes = []
        for _ in range(dice.randint(0, 3)):
            changed = row(dice.randint(0, 6))
            if dice.random() < 0.4:
                changes.append((DELETE, changed))
                current.pop(changed[0], None)
            else:
                changes.append((INSERT, changed))
                current[changed[0]] = changed
        history.append(changes)
    return first, history, list(current.values())


def _check_outputs(folder: Path, current: Rows, batches: int, files: ValueFiles | None = None) -> None:
    space = Maintainer.restore(store := RocksStore(folder / "state"), 0, threads=1).space
    inclusion = InclusionMaintainer.restore(store, files)
    assert inclusion is not None
    check_invariants(inclusion)
    store.close()
    table = _table(current)
    found = [
        *discover(table, space=space, threads=1),
        *discover(table, family="od", threads=1),
        *discover_inclusions([table]),
    ]
    expected = {str(c) for c in found}
    held = DeltaTable(folder / "out" / "constraints").to_pyarrow_table().to_pylist()
    assert sorted(row["constraint"] for row in held) == sorted(expected)
    assert all(row["sentence"] and row["table_name"] == "r" for row in held)
    changes = DeltaTable(folder / "out" / "constraint_changes").to_pyarrow_table().sort_by("commit").to_pylist()
    summed: set[str] = set()
    for change in changes:
        if change["change"] == "appeared":
            assert change["constraint"] not in summed
            summed.add(change["constraint"])
        else:
            summed.remove(change["constraint"])
    assert summed == expected
    done = DeltaTable(folder / "out" / "batches").to_pyarrow_table().sort_by("batch_id").to_pylist()
    assert [row["batch_id"] for row in done] == list(range(batches))
    assert [row["commit"] for row in done] == list(range(2, batches + 2))
    quarantined = DeltaTable(folder / "out" / "quarantine").to_pyarrow_table().to_pylist()
    assert sorted(row["record_id"] for row in quarantined) == sorted(f"r-0-{n}" for n in range(batches) if n % 2)
    (about,) = DeltaTable(folder / "out" / "tables").to_pyarrow_table().to_pylist()
    assert about["fingerprint"] == space.fingerprint
    _check_rules(folder, table, current)
    outputs = {
        name: DeltaTable(folder / "out" / name).to_pyarrow_table().to_pylist()
        for name in ("near_constraints", "near_changes", "exceptions", "concentrations", *SUSPECT_TABLES)
    }
    bounds = NearBounds(parse_share(NEAR))
    check_near(table, bounds.fields(), outputs)
    check_suspects(table, bounds, outputs, LEAST)
    check_concentrations(table, bounds, outputs["concentrations"])


def _check_rules(folder: Path, table: Table, current: Rows) -> None:
    checked = {found.rule.name: found for found in check_tables({"r": table}, [m.rule for m in RULES])}
    lines = DeltaTable(folder / "out" / "rule_status").to_pyarrow_table().sort_by("commit").to_pylist()
    assert len({(line["rule"], line["commit"]) for line in lines}) == len(lines)
    for line in {line["rule"]: line for line in lines}.values():
        found = checked.pop(line["rule"])
        assert (line["violating_pairs"], line["missing_values"]) == (found.violating_pairs, found.missing_values)
        assert line["broken"] == found.broken
        assert line["sentence"] == sentence(found.rule.body)
        if line["rule"] in {"depends", "small", "known"} or found.holds:  # those of others are counted now and then
            assert line["violating_rows"] == found.violating_rows
        shown: dict[str, str] = {}
        changes = DeltaTable(folder / "out" / "violations").to_pyarrow_table().to_pylist()
        for change in sorted(changes, key=lambda c: (c["commit"], c["change"] == "added")):
            if change["rule"] == line["rule"]:
                if change["change"] == "added":
                    assert change["example_id"] not in shown
                    shown[change["example_id"]] = change["left_row"]
                else:
                    del shown[change["example_id"]]
        assert bool(shown) == (not found.holds)
        rows = {json.dumps(dict(zip("kab", row, strict=True)), separators=(",", ":")) for row in current}
        assert set(shown.values()) <= (rows if line["missing_values"] is None else {str(a) for _, a, _ in current})
    assert not checked


@pytest.fixture(scope="module")
def seeded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Seed the table that crashes happen to, once for all of them; return the folder of its state."""
    folder = tmp_path_factory.mktemp("seeded") / "state"
    store = RocksStore(folder)
    _seed(Commits(store, "app"), _history(random.Random(11), 6)[0], None)
    store.close()
    return folder
