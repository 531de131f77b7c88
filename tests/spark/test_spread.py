"""Differential: commands with --spark say what they say without; their blocks are gone afterwards."""

from __future__ import annotations

import gc
import json
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from pyspark.errors import PythonException

import holdfast
from holdfast import Maintainer, from_arrow
from holdfast.constraints import ExternalError, InputError, UsageError
from holdfast.discovery.blocks.storage.block import Rows, write_blocks
from holdfast.discovery.blocks.storage.location import Storage
from holdfast.discovery.blocks.storage.table import BlockTable, Source
from holdfast.discovery.evidence.evidences import TooManyEvidences
from holdfast.jobs.command_line import exit_code_of
from holdfast.streaming.maintainers.holdings.in_blocks import WholeInBlocks
from holdfast.streaming.spark.executors import SparkExecutors
from tests.taxes import NARROW, tax_records

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

pytestmark = pytest.mark.usefixtures("spark")

DATA = Path(__file__).parents[3] / "shared" / "data"
RULES = """
zip_city: Zip -> City
state_salary: not(t.State = s.State and t.Salary > s.Salary and t.Rate < s.Rate)
exempt: not(t.ChildExemp < 0)
single: key(AreaCode, Salary)
falling: {State, HasChild}: Salary ~ ChildExemp desc
crossing: not(t.State = s.State and t.ChildExemp > s.Salary)
three: not(t.Salary > s.Salary and t.Rate < s.Rate and t.AreaCode < s.AreaCode)
"""


def said(capsys: pytest.CaptureFixture[str], *arguments: Any) -> tuple[int, list[Any], str]:
    capsys.readouterr()
    code = exit_code_of([*map(str, arguments), "--format", "json"])
    out, err = capsys.readouterr()
    return code, [json.loads(line) for line in out.splitlines()], err


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Tax records in every form that is read."""
    made = tmp_path_factory.mktemp("spread")
    rows = tax_records(2_000, NARROW, error_rate=0.01)
    pq.write_table(rows, made / "tax.parquet", row_group_size=300)
    pa.csv.write_csv(_plain(rows), made / "tax.csv")
    write_deltalake(made / "delta" / "tax", _plain(rows))
    write_deltalake(made / "delta" / "tax", _plain(rows.slice(0, 10)), mode="append")
    return made


def _plain(rows: pa.Table) -> pa.Table:
    fields = [f.with_type(pa.string()) if pa.types.is_dictionary(f.type) else f for f in rows.schema]
    return rows.cast(pa.schema(fields))


@pytest.mark.parametrize(
    ("file", "search"),
    [
        ("tax.parquet", "--family dc --max-predicates 3"),
        ("tax.csv", "--family od --max-context 2"),
        ("delta/tax", "--family dc --no-cross-columns --top 7 --all"),
    ],
)
def test_discover(file: str, search: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    given = ("discover", folder / file, *search.split())
    code, expected, _ = said(capsys, *given)
    work = tmp_path / "work"
    found = said(capsys, *given, "--spark", "--block-rows", 300, "--work", work)
    assert (found[0], code) == (0, 0)
    if "--top" not in search:
        assert found[1] == expected
        assert len(expected) > 5
    else:  # scores are of a sample, which depends on the order of rows
        assert len(found[1]) == len(expected)
    assert list(work.iterdir()) == []


def test_discover_what_nearly_holds(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], spark: SparkSession
) -> None:
    given = ("discover", folder / "tax.parquet", "--near", "1%", "--max-context", 2)
    spread = ("--spark", "--block-rows", 300, "--work", tmp_path / "work")
    code, expected, _ = said(capsys, *given, "--family", "key,fd", "--examples", 0, "--top", 1000, "--all")
    found = said(capsys, *given, *spread, "--top", 1000, "--all")
    assert (found[0], code) == (0, 0)
    assert found[1] == expected
    assert any(line["exceptions"] for line in expected)
    assert len(expected) > 5
    assert "order compatibilities (od) are left out" in found[2]
    assert list((tmp_path / "work").iterdir()) == []
    rules = [tmp_path / "here.yaml", tmp_path / "there.yaml"]
    for path, more in zip(rules, [(), spread], strict=True):
        assert exit_code_of([*map(str, (*given, "--family", "key,fd", "--as-rules", "--output", path, *more))]) == 0
    assert rules[0].read_text() == rules[1].read_text()
    frame = spark.read.parquet(str(folder / "tax.parquet"))
    of_frame = holdfast.discover(frame, name="tax", near="1%", max_context=2)
    assert {(str(one), one.exceptions) for one in of_frame} == {(o["constraint"], o["exceptions"]) for o in expected}
    assert len(of_frame.top(3)) == 3
    with pytest.raises(UsageError, match="leave out od"):
        holdfast.discover(frame, near="1%", family="od")


def test_discover_inclusions(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "zips.csv"
    pa.csv.write_csv(pa.table({"zip": [f"{i:05}" for i in range(501, 20_000, 3)], "n": range(6_500)[:6500]}), other)
    given = ("discover", folder / "tax.csv", other, "--family", "ind", "--min-coverage", "0.1")
    code, expected, _ = said(capsys, *given)
    found = said(capsys, *given, "--spark", "--block-rows", 400)
    without = [[{k: v for k, v in line.items() if k != "examples"} for line in lines] for lines in (found[1], expected)]
    assert (found[0], code) == (0, 0)
    assert without[0] == without[1]
    assert any("coverage" in line for line in expected)
    assert [len(line.get("examples", ())) for line in found[1]] == [len(line.get("examples", ())) for line in expected]


@pytest.mark.parametrize(("file", "more"), [("tax.parquet", ()), ("tax.csv", ("--exists",)), ("delta/tax", ())])
def test_check(
    file: str, more: tuple[str, ...], folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    rules = tmp_path / "rules.txt"
    rules.write_text(RULES)
    given = ("check", folder / file, "--rules", rules, *more)
    code, expected, _ = said(capsys, *given)
    found = said(capsys, *given, "--spark", "--block-rows", 300)
    assert found[0] == code == 1
    assert _without_examples(found[1]) == _without_examples(expected)
    for line in found[1]:
        assert bool(line["examples"]) == (not line["holds"])
        for example in line["examples"]:
            for row in example if isinstance(example, list) else [example]:
                assert str(folder / file) in row["where"]


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_all_pairs(kind: str, folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "rules.txt").write_text(RULES)
    given = ("check", folder / f"tax.{kind}", "--rules", tmp_path / "rules.txt", "--pairs")
    work = tmp_path / "work"
    code, _, _ = said(capsys, *given, tmp_path / f"here.{kind}")
    found = said(capsys, *given, tmp_path / f"there.{kind}", "--spark", "--block-rows", 300, "--work", work)
    assert found[0] == code == 1
    read = pq.read_table if kind == "parquet" else pa.csv.read_csv
    here, there = (read(tmp_path / f"{where}.{kind}").to_pandas() for where in ("here", "there"))
    columns = list(here.columns)
    assert len(here) > 1_000
    assert here.sort_values(columns, ignore_index=True).equals(there.sort_values(columns, ignore_index=True))
    assert list(work.iterdir()) == []


def _without_examples(lines: list[Any]) -> list[Any]:
    return [{k: v for k, v in line.items() if k != "examples"} for line in lines]


def test_what_is_wrong_is_told(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "broken.csv"
    broken.write_text("a,b\n1,2\n3\n")
    code, _, err = said(capsys, "discover", broken, "--family", "dc", "--spark")
    assert (code, "line 3: 1 field where the header has 2" in err) == (3, True), err
    code, _, err = said(capsys, "check", folder / "tax.csv", "--rule", "Zip -> Town", "--spark")
    assert (code, "Town" in err) == (2, True), err
    code, _, err = said(capsys, "check", folder / "tax.csv", "--rule", "Zip -> City", "--work", tmp_path)
    assert (code, "add --spark" in err) == (2, True), err
    code, _, err = said(capsys, "discover", folder / "tax.csv", "--family", "dc", "--spark", "--work", broken)
    assert (code, "no folder can be made there" in err) == (2, True), err


@pytest.mark.parametrize(
    ("name", "search"),
    [
        ("airport_original", "--family dc --encoding latin-1 --max-predicates 3 --limit 6000"),
        ("adult", "--family od --max-context 1 --limit 6000"),
    ],
)
def test_real_tables(name: str, search: str, capsys: pytest.CaptureFixture[str]) -> None:
    file = DATA / f"{name}.csv.gz"
    if not file.exists():
        pytest.skip(f"the real table {file.name} is not beside this checkout")
    given = ("discover", file, *search.split())
    code, expected, _ = said(capsys, *given)
    found = said(capsys, *given, "--spark", "--block-rows", 1_500)
    assert (found[0], code) == (0, 0)
    assert found[1] == expected


def test_data_frames_of_spark(spark: SparkSession, folder: Path) -> None:
    frame = spark.read.parquet(str(folder / "tax.parquet"))
    rows = pq.read_table(folder / "tax.parquet")
    for asked in ({"max_predicates": 2}, {"family": "od", "max_context": 1}):
        assert [str(c) for c in holdfast.discover(frame, **asked)] == [str(c) for c in holdfast.discover(rows, **asked)]
    rules = ["Zip -> City", "State, Salary -> Rate", "not(t.Salary <= 0)", "city.City in table.City"]
    found = holdfast.check({"table": frame, "city": frame.select("City")}, rules)
    here = holdfast.check({"table": rows, "city": rows.select(["City"])}, rules)
    assert [str(one) for one in found] == [str(one) for one in here]
    with pytest.raises(
        UsageError, match=r"blocks of a Spark data frame are removed .* holdfast check FILE --spark --pairs"
    ):
        list(found[0].pairs())
    with pytest.raises(UsageError, match="give all as Spark data frames, or none"):
        holdfast.check({"table": frame, "city": rows}, rules)


def test_addresses(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    asked = ("--family", "dc", "--max-predicates", "2", "--no-cross-columns")
    for file in ("tax.parquet", "delta/tax"):
        _, expected, _ = said(capsys, "discover", folder / file, *asked)
        assert said(capsys, "discover", (folder / file).as_uri(), *asked, "--spark")[:2] == (0, expected)
    for address, code, part in (
        ((folder / "tax.csv").as_uri(), 2, "ends in .csv: Spark reads Parquet and Delta tables from addresses"),
        ((tmp_path / "none.parquet").as_uri(), 5, "none.parquet cannot be read"),
        ("nowhere://bucket/tax.parquet", 5, "nowhere://bucket/tax.parquet cannot be read"),
    ):
        found = said(capsys, "check", address, "--rule", "Zip -> City", "--spark")
        assert (found[0], part in found[2]) == (code, True), found
    code, _, err = said(capsys, "check", "s3a://bucket/tax.parquet", "--rule", "Zip -> City")
    assert (code, "add --spark, or name a path" in err) == (2, True), err


def _task(what: str) -> str:
    """Do what a task may do, on an executor."""
    match what:
        case "input":
            raise InputError("line 3: no number")
        case "disk":
            raise PermissionError(13, "Permission denied", "/blocks/x")
        case "many":
            raise TooManyEvidences(7)
        case "defect":
            raise AssertionError("never")
        case "killed":
            os.kill(os.getpid(), signal.SIGKILL)
    return what.upper()


def _given(what: str) -> Iterator[tuple[int, pa.Table]]:
    yield 0, pa.table({"said": [_task(what)]})


def _taken(given: Iterator[pa.Table]) -> Iterator[str]:
    for rows in given:
        for said_ in rows.column("said").to_pylist():
            yield _task(said_)


def test_what_ends_tasks(spark: SparkSession) -> None:
    executors = SparkExecutors(spark)
    assert sorted(executors.run(_task, ["a", "b"])) == ["A", "B"]
    assert sorted(executors.exchange(_given, ["a", "b"], 2, _taken)) == ["A", "B"]

    def run(what: str) -> list[str]:
        return list(executors.run(_task, ["a", what]))

    def exchange(what: str) -> list[str]:
        return list(executors.exchange(_given, [what], 2, _taken))

    for ran in (run, exchange):
        with pytest.raises(InputError, match="line 3: no number"):
            ran("input")
        with pytest.raises(ExternalError, match=r"Permission denied: .*\nEvery executor has to read"):
            ran("disk")
        with pytest.raises(UsageError, match="more than 7 evidences in one task, too many to keep: look for small"):
            ran("many")
        with pytest.raises(PythonException, match="never"):
            ran("defect")
        with pytest.raises(ExternalError, match="too little memory"):
            ran("killed")


def _exempt(_: int) -> int:
    return gc.get_freeze_count()


def test_workers_do_not_go_through_what_stays_after_every_task(spark: SparkSession) -> None:
    found = list(SparkExecutors(spark).run(_exempt, range(8)))
    assert max(found) > 10_000  # the first task of a worker finds nothing exempt


def test_the_session_that_runs_stays(spark: SparkSession, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert said(capsys, "check", folder / "tax.csv", "--rule", "not(t.ChildExemp < 0)", "--spark")[0] == 0
    assert spark.range(3).count() == 3


def test_rules_and_what_nearly_holds_of_a_table_that_changes(spark: SparkSession, tmp_path: Path) -> None:
    rows = tax_records(1_500, NARROW, error_rate=0.01)
    first, more = from_arrow(rows.slice(0, 1_200), "tax"), rows.slice(1_200)
    texts = [line.partition(": ")[2] for line in RULES.strip().splitlines()]
    storage = Storage.at(str(tmp_path / "blocks"))
    storage.open().prepare()
    blocks = list(write_blocks(storage.open(), Rows(np.arange(1_200), first), 300))
    table = BlockTable(Source(storage, first.schema, 300), blocks, SparkExecutors(spark, 2))
    nearly: dict[str, Any] = {"near": "1%", "near_context": 1, "near_orders": False}  # each candidate is a job of Spark
    spread = Maintainer.seed(WholeInBlocks(table), max_predicates=None, rules=texts, **nearly)
    alone = Maintainer.seed(first, max_predicates=None, rules=texts, threads=1, **nearly)
    for inserts, deletes in ((more.slice(0, 200), None), (more.slice(200), rows.slice(100, 150))):
        for maintainer in (spread, alone):
            maintainer.apply(inserts=inserts, deletes=deletes)
        assert list(spread.near) == list(alone.near)
        assert any(one.exceptions for one in spread.near)
        for ours, theirs in zip(spread.rules, alone.rules, strict=True):
            assert (ours.rows, ours.violating_pairs) == (theirs.rows, theirs.violating_pairs)
            assert ours.violating_rows == theirs.violating_rows or not (ours.is_recent and theirs.is_recent)
            assert bool(ours.examples) == (not ours.holds)
    assert sum(len(state.examples) for state in spread.rules) > 20
