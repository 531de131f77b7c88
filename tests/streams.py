"""Applications for the tests of `holdfast run`: a configuration in a folder, and what must be true of its outputs.

Differential: the constraints that a run leaves are compared with `discover` on rows that the test followed by itself.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
from deltalake import DeltaTable

from holdfast.constraints import DenialKind, json_value, parse_type
from holdfast.discovery.blocks.executors import InProcess
from holdfast.discovery.detection.check import check_tables
from holdfast.discovery.discover import discover
from holdfast.discovery.inclusion.discover import discover_inclusions
from holdfast.jobs.application.blocks import StateBlocks
from holdfast.jobs.command_line import exit_code_of
from holdfast.jobs.configuration.reading import load
from holdfast.state import codecs
from holdfast.state.rocks import RocksStore
from holdfast.streaming.commits.table_records import tables_of
from holdfast.streaming.maintainers.holdings.in_memory import RowsInMemory
from holdfast.streaming.maintainers.inclusion.maintainer import InclusionMaintainer
from holdfast.streaming.maintainers.maintainer import Maintainer
from holdfast.tables import Table, from_arrow
from holdfast.tables.keys import arrow_type_of
from tests.invariants import check_invariants
from tests.near_outputs import check_near
from tests.short_lives import quick_environment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from holdfast.jobs.configuration.settings import Settings
    from holdfast.state.store import Reader

Row = dict[str, Any]

_PATIENCE_SECONDS = 300
_COUNTED_IN_EVERY_BATCH = {DenialKind.KEY, DenialKind.FUNCTIONAL_DEPENDENCY, DenialKind.CONSTANT}
_FIRST_TIME = 1_700_000_000.0


class Application:
    """One configuration in a folder of its own.

    Parameters
    ----------
    folder : for everything.
    tables : the `tables` section; more sections by name.
    """

    def __init__(self, folder: Path, tables: Sequence[Mapping[str, Any]], **sections: Any) -> None:
        self.folder = folder
        self.tables = [dict(table) for table in tables]
        self.sections = sections
        self.file = folder / "holdfast.yaml"
        self.written = 0
        self._seeds: set[int] = set()
        self.configure()

    def configure(self, **sections: Any) -> None:
        """Write the configuration, with some sections changed."""
        self.sections |= sections
        places = {name: f"./{name}" for name in ("state", "backup", "output", "checkpoint")}
        whole = {
            "name": "app",
            **places,
            "tables": self.tables,
            "constraints": {"denial": {"max_predicates": 3}},
            **self.sections,
        }
        self.file.write_text(json.dumps(whole), encoding="utf-8")

    def put(self, name: str, content: bytes, folder: str = "changes") -> Path:
        """Rename a file into a folder of changes; each is written a second after the one before."""
        target = self.folder / folder / name
        target.parent.mkdir(exist_ok=True)
        made = self.folder / "being-written"
        made.write_bytes(content)
        self.written += 1
        os.utime(made, (_FIRST_TIME + self.written,) * 2)
        return made.rename(target)

    # Running

    def __call__(self, command: str, *more: str) -> tuple[int, str]:
        """Run a command in this process; return its exit code and what it said."""
        said = io.StringIO()
        with contextlib.redirect_stderr(said):
            code = exit_code_of([command, str(self.file), *more])
        return code, said.getvalue()

    def drain(self) -> str:
        """Run until the sources are drained."""
        code, said = self("run", "--available-now")
        assert code == 0, said
        assert "stopped: everything that was read is committed and published" in said
        return said

    def started(self, *more: str) -> Process:
        """Run in a process of its own."""
        return Process([sys.executable, "-m", "holdfast", "run", str(self.file), *more], self.folder)

    # Looking

    def output(self, name: str) -> list[Row]:
        """Return the rows of an output table, in the order of the commits; none where it is not there."""
        place = self.folder / "output" / name
        if not DeltaTable.is_deltatable(str(place)):
            return []
        rows: list[Row] = DeltaTable(place).to_pyarrow_table().to_pylist()
        return sorted(rows, key=lambda row: row["commit"])

    def status(self) -> dict[str, Row]:
        """Return what `holdfast status` says of each table."""
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            assert exit_code_of(["status", str(self.file), "--format", "json"]) in {0, 1}
        return {row["table"]: row for row in map(json.loads, said.getvalue().splitlines())}

    def check(self, tables: Mapping[str, Iterable[Row]], bad: Mapping[str, Sequence[str]] | None = None) -> None:
        """Assert that the outputs are those of these rows, and that nothing was lost or doubled on the way.

        Parameters
        ----------
        bad : the names of the records in quarantine, by table; not looked at where it is not given.
        """
        held = self.output("constraints")
        summed: dict[str, set[str]] = {name: set() for name in tables}
        for change in self.output("constraint_changes"):
            of_table = summed.setdefault(change["table_name"], set())
            if change["change"] == "appeared":
                assert change["constraint"] not in of_table, change
                of_table.add(change["constraint"])
            else:
                of_table.remove(change["constraint"])
        expected_of = self.expected({name: list(rows) for name, rows in tables.items()})
        for name, expected in expected_of.items():
            assert sorted(row["constraint"] for row in held if row["table_name"] == name) == sorted(expected), name
            assert summed[name] == expected, name
        assert not any(left for name, left in summed.items() if name not in tables), "of tables that are left out"
        self.check_near({name: list(rows) for name, rows in tables.items()})
        self.check_batches()
        self.check_rules({name: list(rows) for name, rows in tables.items()})
        if bad is not None:
            found = {name: Counter[str]() for name in tables}
            for row in self.output("quarantine"):
                assert row["reason"]
                found[row["table_name"]][Path(row["record_id"]).name] += 1
            expected_bad = {name: Counter(bad.get(name, ())) for name in tables}
            assert found == expected_bad, self.output("quarantine")

    def check_near(self, tables: Mapping[str, list[Row]]) -> None:
        """Assert that what nearly holds, and its examples, are those of these rows."""
        outputs = {name: self.output(name) for name in ("near_constraints", "near_changes", "exceptions")}
        for name, rows in tables.items():
            (about,) = (row for row in self.output("tables") if row["table_name"] == name)
            table = DeltaColumns([about], name).table(rows)
            check_near(table, json.loads(about["bounds"]).get("near"), outputs)

    def check_batches(self) -> None:
        """Assert that each batch of each table was published once, and each commit has its batch or its seed."""
        batches = self.output("batches")
        commits = [row["commit"] for row in batches]
        seeds = {row["commit"] for row in self.output("constraint_changes") if row["cause"] != "data"}
        self._seeds |= {row["commit"] for row in self.output("tables")}  # a later one takes their place
        seeds |= self._seeds
        seeds |= {row["commit"] for row in self.output("rule_status") if row["source"] is None}
        known = sorted({*commits, *seeds})
        assert len(commits) == len(set(commits)), "a batch was published twice"
        assert known == list(range(known[0], known[0] + len(known))), "commits have gaps"
        for which in {(row["source"], row["state_id"], row["query_id"]) for row in batches}:
            of_query = [row for row in batches if (row["source"], row["state_id"], row["query_id"]) == which]
            assert [row["batch_id"] for row in of_query] == list(range(len(of_query))), which

    def check_rules(self, tables: Mapping[str, list[Row]]) -> None:
        """Assert that the last lines of the rules, and the examples that are left, are those of these rows."""
        rules = load(self.file).rules
        lines = {row["rule"]: row for row in self.output("rule_status")}
        if not rules:
            return
        schemas = {name: DeltaColumns(self.output("tables"), name) for name in tables}
        frames = {name: schemas[name].table(rows) for name, rows in tables.items()}
        shown: dict[str, dict[str, Row]] = {rule.name: {} for rule in rules}
        changes = self.output("violations")
        for change in sorted(changes, key=lambda row: (row["commit"], row["change"] == "added")):
            held = shown.setdefault(change["rule"], {})
            if change["change"] == "added":
                assert change["example_id"] not in held, change
                held[change["example_id"]] = change
            else:
                del held[change["example_id"]]
        for found in check_tables(frames, rules):
            line, held = lines[found.rule.name], shown.pop(found.rule.name)
            assert (line["violating_pairs"], line["missing_values"]) == (found.violating_pairs, found.missing_values)
            assert line["holds"] == found.holds
            assert bool(held) == (not found.holds), found
            kind = getattr(found.rule.body, "kind", None)
            if not found.rule.is_pairwise or kind in _COUNTED_IN_EVERY_BATCH or found.holds:
                assert (line["violating_rows"], line["broken"]) == (found.violating_rows, found.broken)
            if found.missing_values is None:
                images = [
                    {name: json_value(value) for name, value in row.items()}
                    for row in frames[found.rule.table].rows(list(range(found.rows)))
                ]
                assert all(json.loads(example["left_row"]) in images for example in held.values())
        assert not any(shown.values()), "examples are left of rules that are gone"

    def _blocks(self, store: Reader) -> BlocksHere | None:
        """Return where the blocks of a state are."""
        settings = load(self.file).settings
        identity = codecs.read_json(store.get("meta", b"identity") or b"{}")
        return BlocksHere(settings, identity["state_id"]) if settings.engine == "spark" else None

    def expected(self, tables: Mapping[str, list[Row]]) -> dict[str, set[str]]:
        """Return the constraints of some rows, by table, in the spaces of the state."""
        store = RocksStore(self.folder / "state")
        expected: dict[str, set[str]] = {}
        seen = []
        try:
            blocks = self._blocks(store)
            numbers = {record.name: number for number, record in tables_of(store)}
            maintainers = {
                name: Maintainer.restore(
                    store, numbers[name], 1, rows=RowsInMemory.restored if blocks is None else blocks.restore(name)
                )
                for name in tables
            }
            inclusion = InclusionMaintainer.restore(store, None if blocks is None else blocks.values)
            if inclusion is not None:
                check_invariants(inclusion)
        finally:
            store.close()
        for name, rows in tables.items():
            schema = maintainers[name].schema
            assert maintainers[name].row_count == len(rows), name
            table = from_arrow(
                pa.table({c.name: pa.array([row[c.name] for row in rows], arrow_type_of(c.type)) for c in schema}), name
            )
            seen.append(table)
            expected[name] = {
                str(c)
                for family, bound in maintainers[name].bounds.families.items()
                for c in discover(
                    table,
                    family=family,
                    space=maintainers[name].space,
                    max_predicates=bound,
                    max_context=bound,
                    threads=1,
                )
            }
        for dependency in () if inclusion is None or inclusion.watched else discover_inclusions(seen):
            expected[dependency.dependent.table].add(str(dependency))
        return expected


class BlocksHere(StateBlocks):
    """The blocks of a state, on which this process works."""

    executors: Any = InProcess()

    def __init__(self, settings: Settings, state_id: str) -> None:
        super().__init__(settings, state_id, lambda: None)  # type: ignore[arg-type, return-value]


def refused(app: Application, code: int, *words: str, command: Sequence[str] = ("run", "--available-now")) -> str:
    """Assert that a command ends with a code, and a message in which these words stand; return what it said."""
    found, said = app(*command)
    assert found == code, said
    for word in words:
        assert word in said
    assert "Traceback" not in said
    return said


class DeltaColumns:
    """The monitored columns of a table as the outputs name them."""

    def __init__(self, about: Sequence[Row], name: str) -> None:
        (row,) = (row for row in about if row["table_name"] == name)
        self._name = name
        self._types = {column: parse_type(kind) for column, kind in json.loads(row["columns"]).items()}

    def table(self, rows: Sequence[Row]) -> Table:
        """Return rows as a table."""
        arrays = {c: pa.array([row[c] for row in rows], arrow_type_of(kind)) for c, kind in self._types.items()}
        return from_arrow(pa.table(arrays), self._name)


class Process:
    """A run in a process of its own, which may be told to stop, or killed."""

    def __init__(self, command: list[str], folder: Path) -> None:
        self._log = folder / "said.txt"
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                command, stdout=log, stderr=log, env={**os.environ, **quick_environment()}, start_new_session=True
            )

    @property
    def pid(self) -> int:
        """Its number."""
        return self._process.pid

    def wait_for(self, seen: Callable[[], bool]) -> None:
        """Wait until something is seen."""
        end = time.monotonic() + _PATIENCE_SECONDS
        while not seen():
            assert self._process.poll() is None, f"it ended: {self.said}"
            assert time.monotonic() < end, f"it takes too long: {self.said}"
            time.sleep(0.05)

    def signal(self, number: signal.Signals) -> int:
        """Send a signal to the process alone; return the exit code."""
        self._process.send_signal(number)
        return self.ended()

    def interrupt(self) -> int:
        """Send what Ctrl-C sends, which all of a terminal's processes get; return the exit code."""
        os.killpg(self._process.pid, signal.SIGINT)
        return self.ended()

    def kill(self) -> None:
        """Kill it with all that it started."""
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(_PATIENCE_SECONDS)

    def ended(self) -> int:
        """Wait for the end; return the exit code."""
        return self._process.wait(_PATIENCE_SECONDS)

    @property
    def said(self) -> str:
        """What it said so far."""
        return self._log.read_text(errors="replace")
