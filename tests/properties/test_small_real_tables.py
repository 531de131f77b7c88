"""Differential tests on real tables that are in every clone: Desbordante finds the same, and so do histories and blocks."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from holdfast import Maintainer
from holdfast.constraints import Family, PredicateSpace, parse_denial
from holdfast.discovery.blocks.discover import discover_blocks
from holdfast.discovery.discover import discover
from holdfast.jobs.command_line import exit_code_of
from holdfast.tables import Table, from_arrow, read_table, space_of
from tests.invariants import check_invariants
from tests.oracles import order
from tests.oracles.values import Column
from tests.properties.test_blocks import blocked
from tests.real_tables import NAMES, real_table
from tests.unit.test_oracle_orders import their_order

if TYPE_CHECKING:
    from pathlib import Path

DENIAL = {"penguins": 128, "planes": 15, "airports": 41, "weather": 425}
ORDER = {"penguins": 98, "planes": 38, "airports": 48, "weather": 56}


def _table(name: str) -> Table:
    return from_arrow(pa.Table.from_pandas(real_table(name), preserve_index=False), name)


def _texts(found: object) -> set[str]:
    return {str(one) for one in found}  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", NAMES)
def test_denial_constraints_are_those_of_fastadc(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    desbordante = pytest.importorskip("desbordante")
    rows = real_table(name)
    file, space, found = tmp_path / f"{name}.csv", tmp_path / "space.json", tmp_path / "found.jsonl"
    rows.to_csv(file, index=False)
    arguments = ["--no-cross-columns", "--max-predicates", "0", "--family", "dc", "--quiet", "--format", "json"]
    arguments += ["--output", str(found), "--write-space", str(space)]
    assert exit_code_of(["discover", str(file), *arguments]) == 0
    ours = [json.loads(line)["constraint"] for line in found.read_text("utf-8").splitlines()]
    read = PredicateSpace.from_json(json.loads(space.read_text("utf-8")))
    algorithm = desbordante.dc.algorithms.FastADC()
    algorithm.load_data(table=rows)
    algorithm.execute(
        evidence_threshold=0.0, allow_cross_columns=False, minimum_shared_value=0.3, shard_length=160, threads=1
    )
    theirs = [parse_denial(str(one)) for one in algorithm.get_dcs()]
    assert len(ours) == len(set(ours)) == len(theirs) == DENIAL[name]
    assert set(ours) == {str(read.canonical(one)) for one in theirs}
    assert {parse_denial(text) for text in ours} == {read.canonical(one) for one in theirs}


@pytest.mark.parametrize("name", NAMES)
def test_order_dependencies_are_those_of_fastod(name: str) -> None:
    desbordante = pytest.importorskip("desbordante")
    rows = real_table(name)
    algorithm = desbordante.od.algorithms.Fastod()
    algorithm.load_data(table=rows)
    algorithm.execute()
    listed = [*algorithm.get_simple_ods(), *algorithm.get_asc_ods(), *algorithm.get_desc_ods()]
    columns = [Column(str(column), "string") for column in rows]
    theirs = {order.text(their_order(str(one)), columns) for one in listed}
    ours = _texts(discover(_table(name), family="od", max_context=0, threads=1))
    assert ours == theirs
    assert len(ours) == ORDER[name]


@pytest.mark.parametrize("name", NAMES)
def test_random_batches_equal_a_discovery_anew(name: str) -> None:
    table = _table(name)
    rows, space = table.to_arrow(), PredicateSpace(table.schema)
    rng = np.random.default_rng(5)
    inside = np.arange(len(rows)) < 2 * len(rows) // 3
    maintainer = Maintainer.seed(
        from_arrow(rows.filter(pa.array(inside)), name), max_predicates=0, max_context=2, space=space, threads=1
    )
    found = _texts(maintainer.constraints)
    for size in (1, len(rows) // 8, 20, len(rows) // 6):
        coming = rng.choice(np.flatnonzero(~inside), size, replace=False)
        going = rng.choice(np.flatnonzero(inside), size, replace=False)
        for change in maintainer.apply(inserts=rows.take(pa.array(coming)), deletes=rows.take(pa.array(going))):
            assert (str(change.constraint) in found) != change.appeared
            found ^= {str(change.constraint)}
        inside[coming], inside[going] = True, False
        anew = from_arrow(rows.filter(pa.array(inside)), name)
        expected = _texts(discover(anew, space=space, max_predicates=0, threads=1))
        expected |= _texts(discover(anew, family="od", max_context=2, threads=1))
        assert found == expected == _texts(maintainer.constraints)
        assert maintainer.row_count == inside.sum()
    check_invariants(maintainer)


@pytest.mark.parametrize("name", NAMES)
def test_blocks_say_what_one_machine_says(name: str) -> None:
    table = _table(name)
    denial, orders = space_of(table), space_of(table, "none").of_family(Family.ORDER)
    with blocked(table, 300) as blocks:
        assert _texts(discover_blocks(blocks, denial, 3)) == _texts(discover(table, space=denial, max_predicates=3))
        assert _texts(discover_blocks(blocks, orders, 1)) == _texts(
            discover(table, family=Family.ORDER, space=orders, max_context=1)
        )


@pytest.mark.parametrize("name", ["penguins", "planes", "airports"])
def test_changes_that_are_replayed_come_to_a_discovery(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rows = real_table(name)
    first, size = len(rows) // 2, len(rows) // 7
    base, changes, out, space = (tmp_path / n for n in (f"{name}.csv", "changes.csv", "out.jsonl", "space.json"))
    rows.head(first).to_csv(base, index=False)
    rows.tail(-first).to_csv(changes, index=False)
    arguments = ["--family", "dc", "--max-predicates", "0", "--quiet", "--format", "json", "--batch-size", str(size)]
    arguments += ["--output", str(out), "--write-space", str(space)]
    assert exit_code_of(["replay", str(base), str(changes), *arguments]) == 0, capsys.readouterr().err
    read = PredicateSpace.from_json(json.loads(space.read_text("utf-8")))
    found = _texts(discover(read_table(base), space=read, max_predicates=0))
    for line in map(json.loads, out.read_text("utf-8").splitlines()):
        if "change" in line:
            assert (line["constraint"] in found) == (line["change"] == "disappeared")
            found ^= {line["constraint"]}
        else:
            assert line["constraints"] == len(found)
    whole = tmp_path / "whole" / f"{name}.csv"
    whole.parent.mkdir()
    rows.to_csv(whole, index=False)
    assert found == _texts(discover(read_table(whole), space=read, max_predicates=0))
