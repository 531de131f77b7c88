"""Oracle: what PostgreSQL answers to the query of every form is what nested loops find, where PostgreSQL is installed.

The database orders texts as people do (ICU, `en`), not by code point: a query has to say how it orders them.
"""

from __future__ import annotations

import csv
import datetime
import io
import os
import shutil
import subprocess
import tempfile
import time
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from holdfast.constraints import parse_near
from holdfast.constraints.queries import query, suspect_query
from tests.oracles.values import canonical_row
from tests.queries import COLUMNS, FORMS, NEAR, OTHER, TABLE, Doubted, counted, exceptions, schema_of, violations

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.oracles.values import Table, Value

Answer = tuple[list[str], list[tuple[Any, ...]]]

_NULL, _END = "<null>", "<end>"
_READ: dict[str, Callable[[str], Value]] = {
    "bigint": int,
    "double precision": float,
    "decimal(6,2)": Decimal,
    "decimal(8,1)": Decimal,
    "varchar": str,
    "date": datetime.date.fromisoformat,
    "timestamp with time zone": datetime.datetime.fromisoformat,
    "boolean": lambda text: text == "t",
}


@pytest.fixture(scope="module")
def answer() -> Iterator[Callable[[str], Answer]]:
    if not all(map(shutil.which, ("initdb", "postgres", "psql"))):
        pytest.skip("PostgreSQL is not installed")
    with tempfile.TemporaryDirectory(prefix="pg") as folder:
        as_user: dict[str, Any] = {}
        if os.geteuid() == 0:  # PostgreSQL refuses to run as the superuser
            shutil.chown(folder, "nobody")
            as_user = {"user": "nobody", "extra_groups": []}
        made = ["initdb", "-D", f"{folder}/data", "-U", "test", "-A", "trust", "-E", "UTF8", "--no-sync"]
        made += ["--locale=C.UTF-8", "--locale-provider=icu", "--icu-locale=en"]
        subprocess.run(made, check=True, capture_output=True, cwd=folder, **as_user)
        settings = ("listen_addresses=", "fsync=off", "timezone=UTC", "datestyle=ISO")
        started = ["postgres", "-D", f"{folder}/data", "-k", folder, *(f"-c{setting}" for setting in settings)]
        with (
            (Path(folder) / "log").open("w") as log,
            subprocess.Popen(started, stderr=log, cwd=folder, **as_user) as server,
        ):
            try:
                _wait(folder)
                with _Session(folder) as session:
                    assert [session.ask(_created(table)) for table in (TABLE, OTHER)] == ["", ""]
                    yield session.answer
            finally:
                server.terminate()


class _Session:
    """One run of psql that answers query after query."""

    def __init__(self, folder: str) -> None:
        command = ["psql", "-h", folder, "-U", "test", "-d", "postgres", "-X", "-q", "--csv", "-P", f"null={_NULL}"]
        self._psql = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )

    def __enter__(self) -> _Session:
        return self

    def __exit__(self, *_: object) -> None:
        self._psql.communicate(timeout=60)

    def answer(self, text: str) -> Answer:
        said = self.ask(text)
        assert "ERROR:" not in said, f"{text}\n{said}"
        return _read(said)

    def ask(self, text: str) -> str:
        assert self._psql.stdin is not None
        assert self._psql.stdout is not None
        self._psql.stdin.write(f"{text};\n\\echo {_END}\n")
        self._psql.stdin.flush()
        return "".join(iter(self._psql.stdout.readline, f"{_END}\n"))


def _wait(folder: str) -> None:
    asking = ["psql", "-h", folder, "-U", "test", "-d", "postgres", "-c", "select 1"]
    deadline = time.monotonic() + 60
    while subprocess.run(asking, capture_output=True, check=False).returncode:
        assert time.monotonic() < deadline, (Path(folder) / "log").read_text()
        time.sleep(0.05)


def _created(table: Table) -> str:
    """Return the statements that create a table with its rows."""
    named, *names = ('"' + name.replace('"', '""') + '"' for name in (table.name, *(c.name for c in table.columns)))
    kinds = (COLUMNS[column.name][2] for column in table.columns)
    columns = ", ".join(f"{name} {kind}" for name, kind in zip(names, kinds, strict=True))
    rows = ", ".join(f"({', '.join(map(_literal, row))})" for row in table.rows)
    return f"create table {named} ({columns}); insert into {named} values {rows};"


def _literal(value: Value) -> str:
    return "null" if value is None else "'" + str(value).replace("'", "''") + "'"


def _read(text: str) -> Answer:
    names, *lines = csv.reader(io.StringIO(text, newline=""))
    kinds = [_READ[COLUMNS[name if name in COLUMNS else name[2:]][2]] if _is_column(name) else int for name in names]
    read = [
        tuple(None if cell == _NULL else kind(cell) for kind, cell in zip(kinds, line, strict=True)) for line in lines
    ]
    return names, read


def _is_column(name: str) -> bool:
    return name in COLUMNS or (name[:2] in {"t_", "s_"} and name[2:] in COLUMNS)


@pytest.mark.parametrize("text", FORMS)
def test_every_form(text: str, answer: Callable[[str], Answer]) -> None:
    common = query(text, "orders")
    texts = [common] if "collation" not in common else []
    texts.append(query(text, "orders", dialect="postgresql", schema=schema_of(TABLE)))
    for one in dict.fromkeys(texts):
        names, lines = answer(one)
        assert counted(names, lines) == violations(text, names), one


@pytest.mark.parametrize("text", NEAR)
def test_near_constraints(text: str, answer: Callable[[str], Answer]) -> None:
    _, ((first, *_),) = answer(query(parse_near(text), "orders", dialect="postgresql", schema=schema_of(TABLE)))
    assert first == exceptions(text)


def test_a_suspect(answer: Callable[[str], Answer]) -> None:
    suspect = Doubted("Zip code", (parse_near('x, `odd ``"\\` -> `Zip code`'),))
    row = dict(zip((column.name for column in TABLE.columns), TABLE.rows[0], strict=True))
    names, lines = answer(suspect_query(suspect, row, "orders"))
    assert counted(names, lines) == {canonical_row(["B"]): 2}
