"""No option writes over what a command reads, however its path is spelled."""

import os
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.constraints import UsageError
from holdfast.jobs.command_line import exit_code_of
from holdfast.jobs.files.addresses import Address
from holdfast.jobs.files.overwriting import refuse_overwriting

TAX = "Zip,City\n01907,Swampscott\n10001,New York\n"
CONFIGURATION = """
name: tax
state: ./var/state
backup: ./var/backup
output: ./var/tables
checkpoint: ./var/checkpoint
tables:
  - name: tax
    seed: {path: ./tax.csv}
    source: {format: files, path: ./arriving, encoding: csv}
constraints: {denial: {}}
"""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of inputs, none of which any command of a test may change."""
    monkeypatch.chdir(tmp_path)
    Path("tax.csv").write_text(TAX)
    Path("changes.csv").write_text("_op," + TAX.replace("\n", "\ninsert,").removesuffix("insert,"))
    Path("rules.txt").write_text("Zip -> City\n")
    Path("holdfast.yaml").write_text(CONFIGURATION)
    Path("arriving").mkdir()
    Path("arriving/1.csv").write_text(TAX)
    Path("arriving/hard.csv").hardlink_to("tax.csv")
    Path("parts").mkdir()
    pq.write_table(pa.table({"Zip": ["a", "b"]}), "parts/1.parquet")
    for log in ("delta/_delta_log", "var/tables/changes/_delta_log"):
        Path(log).mkdir(parents=True)
        Path(log, "0.json").write_text("{}")
    Path("linked.csv").symlink_to("tax.csv")
    Path("bases").mkdir()
    Path("bases/tax.csv").write_text(TAX)
    before = _files(tmp_path)
    yield tmp_path
    assert {name: content for name, content in _files(tmp_path).items() if name in before} == before


def _files(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


DISCOVER = "discover tax.csv --family dc"
CHECK = "check tax.csv --rules rules.txt"
REPLAY = "replay tax.csv changes.csv --family dc --batch-size 1"


@pytest.mark.parametrize(
    "command",
    [
        f"{DISCOVER} --output tax.csv",
        f"{DISCOVER} --output ./arriving/../tax.csv",
        f"{DISCOVER} --output linked.csv",
        f"{DISCOVER} --output arriving/hard.csv",
        f"{DISCOVER} --write-space tax.csv",
        "discover linked.csv --family ind --output tax.csv",
        "discover tax.csv parts --family od --output parts/1.parquet",
        "discover delta --family od --output delta/_delta_log/0.json",
        "discover parts --family od --output parts/new.parquet",
        "discover parts --family dc --as-rules --output parts/1.parquet",
        f"{CHECK} --output rules.txt",
        f"{CHECK} --output tax.csv",
        "check arriving/hard.csv --rule key(Zip) --pairs tax.csv",
        "check linked.csv --rule key(Zip) --pairs linked.csv",
        "check parts --rule key(Zip) --pairs parts/1.parquet",
        f"{REPLAY} --output tax.csv",
        f"{REPLAY} --output changes.csv",
        f"{REPLAY} --write-space changes.csv",
        "replay bases bases --family dc --batch-size 1 --output bases/tax.csv",
        "validate holdfast.yaml --output holdfast.yaml",
        "validate holdfast.yaml --output tax.csv",
        "doctor holdfast.yaml --output holdfast.yaml",
        "doctor holdfast.yaml --output tax.csv",
        "status holdfast.yaml --output ./holdfast.yaml",
        "status holdfast.yaml --output var/state/CURRENT",
        "report holdfast.yaml -o holdfast.yaml",
        "report holdfast.yaml -o linked.csv",
        "report holdfast.yaml -o arriving/2.csv",
        "report holdfast.yaml -o var/tables/changes/report.html",
    ],
)
def test_what_is_read_is_not_written(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(command.split()) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "which is read: name " in captured.err


def test_the_space_that_is_read_stays(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of([*DISCOVER.split(), "--write-space", "space.json", "--quiet"]) == 0
    space = Path("space.json").read_bytes()
    Path("other.json").symlink_to("space.json")
    for option in ("--output", "--write-space"):
        assert exit_code_of([*DISCOVER.split(), "--space", "space.json", option, "other.json"]) == 2
        assert "other.json would replace space.json, which is read" in capsys.readouterr().err
    assert Path("space.json").read_bytes() == space


@pytest.mark.parametrize(
    "command",
    [
        f"{DISCOVER} --output new.json --write-space ./new.json",
        f"{CHECK} --output parts/../new.csv --pairs new.csv",
        f"{REPLAY} --output new --write-space new",
    ],
)
def test_two_options_name_two_files(command: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(command.split()) == 2
    assert "name two files" in capsys.readouterr().err
    assert not Path("new").exists()
    assert not list(Path().glob("new.*"))


@pytest.mark.parametrize(
    "command",
    [
        f"{DISCOVER} --output {os.devnull} --write-space {os.devnull}",
        f"{DISCOVER} --output arriving/found.txt",
        f"{CHECK} --output linked.txt --pairs pairs.csv",
        "validate holdfast.yaml --output var/tables/validated.txt",
    ],
)
def test_other_files_are_written(command: str) -> None:
    assert exit_code_of([*command.split(), "--quiet"]) == 0


def test_an_address_of_this_machine_is_a_path() -> None:
    with pytest.raises(UsageError, match=r"tax\.csv would replace .*tax\.csv, which is read"):
        refuse_overwriting({"--output": Path("tax.csv")}, [Address(Path("tax.csv").resolve().as_uri())])
    refuse_overwriting({"--output": Path("tax.csv")}, [Address("s3a://bucket/tax.csv"), None])
