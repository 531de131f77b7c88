"""Secrets of a configuration come out nowhere: not in what is said, not in files, not in the arguments of processes.

Each place in which a configuration can hold one is given one that can be recognised; then runs succeed and fail in several
ways, and everything that they said, wrote and showed is searched, also what is compressed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from rocksdict import Options, Rdict

from holdfast.display.secrets import masked
from holdfast.jobs.configuration.reading import load
from tests.processes import command_lines
from tests.short_lives import quick_environment
from tests.streams import Application

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PATIENCE_SECONDS = 180
_ENVIRONMENT = {"STORE_PASSWORD": "SECRETenv1", "PLAIN_NAME": "SECRETenv2"}
_JAAS = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="u" password="SECRETjaas1";'
_STORAGE = {
    "aws_secret_access_key": "SECRETaws1",
    "fs.s3a.secret.key": "SECREThadoop1",
    "azure_storage_sas_key": "SECRETazure1",
    "some_option": "${PLAIN_NAME}",
}
_KAFKA = {
    "kafka.sasl.jaas.config": _JAAS,
    "kafka.sasl.mechanism": "PLAIN",
    "kafka.security.protocol": "SASL_PLAINTEXT",
    "kafka.ssl.truststore.password": "${STORE_PASSWORD}",
}
_SPARK = {
    "spark.hadoop.fs.azure.account.key.example": "SECRETspark1",
    "spark.example.password": "SECRETspark2",
    "spark.ui.enabled": "false",
    "spark.sql.warehouse.dir": "warehouse",
}
_ALERT = {
    "on": ["appeared"],
    "webhook": "https://hooks.invalid/services/SECREThook1?token=SECREThook2",
    "headers": {"Authorization": "Bearer SECRETheader1", "X-Anything": "SECRETheader2"},
}
_MARK = "SECRET"

TABLE: dict[str, Any] = {"name": "t", "key": ["k"], "columns": {"k": "integer", "a": "string"}}
FILES: dict[str, Any] = {**TABLE, "source": {"format": "files", "path": "./changes", "encoding": "json"}}
KAFKA: dict[str, Any] = {**TABLE, "source": {"format": "kafka", "topic": "t", "encoding": "json", "options": _KAFKA}}


def application(folder: Path, table: dict[str, Any], **sections: Any) -> Application:
    folder.mkdir(exist_ok=True)
    (folder / "changes").mkdir(exist_ok=True)
    (folder / "tmp").mkdir(exist_ok=True)
    events = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file://{folder}/events"}
    (folder / "events").mkdir(exist_ok=True)
    whole = {"storage_options": _STORAGE, "alerts": [_ALERT], "spark": {**_SPARK, **events}, **sections}
    return Application(folder, [table], **whole)


def environment(folder: Path) -> dict[str, str]:
    made = {
        **os.environ,
        **quick_environment(),
        **_ENVIRONMENT,
        "TMPDIR": str(folder / "tmp"),
        "HOLDFAST_TRACEBACK": "1",
    }
    return {**made, "PYTHONPATH": os.pathsep.join(sys.path)}


def said_by(app: Application, *command: str) -> tuple[int, str]:
    """Run a command; return its exit code and all that it said, after looking at what it showed on the way."""
    log = app.folder / "said.txt"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-m", "holdfast", *command],
            stdout=out,
            stderr=out,
            env=environment(app.folder),
            cwd=app.folder,
        )
        end = time.monotonic() + _PATIENCE_SECONDS
        seen: set[tuple[Path, int, int]] = set()
        try:
            while process.poll() is None:
                assert time.monotonic() < end, log.read_text(errors="replace")
                assert not [line for line in command_lines(process.pid) if _MARK in line]
                assert not list(holding(app.folder / "tmp", seen))
                time.sleep(0.2)
        finally:
            if process.poll() is None:
                process.kill()
                process.wait()
    return process.returncode, log.read_text(errors="replace")


def holding(folder: Path, seen: set[tuple[Path, int, int]] | None = None) -> Iterator[tuple[Path, str]]:
    """Yield the files below a folder that hold one of the secrets, with some of what is around it.

    Parameters
    ----------
    seen : files with the size and the time at which they were looked at before; these are left out.
    """
    for file in sorted(folder.rglob("*")):
        try:
            if not file.is_file():
                continue
            about = file.stat()
            version = (file, about.st_size, about.st_mtime_ns)
            if seen is not None and version in seen:
                continue
            content = file.read_bytes()
        except OSError:  # gone in between
            continue
        if seen is not None:
            seen.add(version)
        at = content.find(_MARK.encode())
        if at >= 0:
            yield file, repr(content[max(0, at - 80) : at + 80])


def everything_written(app: Application) -> Iterator[tuple[Path, str]]:
    """Yield what holds a secret of all that was written, but for the configuration: also within what is compressed."""
    yield from (found for found in holding(app.folder) if found[0] != app.file)
    for file in app.folder.glob("output/*/**/*.parquet"):
        shown = str(pq.read_table(file).to_pylist())
        if _MARK in shown:
            yield file, shown
    state = app.folder / "state"
    if (state / "CURRENT").exists():
        families = Rdict.list_cf(str(state))
        store = Rdict(
            str(state), Options(raw_mode=True), column_families=dict.fromkeys(families, Options(raw_mode=True))
        )
        for family in families:
            column_family = store.get_column_family(family)
            for key, value in column_family.items():
                if _MARK.encode() in key + value:
                    yield state / family, repr((key, value))
            column_family.close()
        store.close()


def clean(app: Application, said: str) -> None:
    assert _MARK not in said, [line for line in said.splitlines() if _MARK in line]
    assert not list(everything_written(app))


@pytest.mark.spark
@pytest.mark.slow
def test_a_run_that_succeeds(tmp_path: Path) -> None:
    app = application(tmp_path / "good", FILES)
    app.put("1.json", b'{"k": 1, "a": "x"}\n{"k": "bad"}\n{"k": 2, "a": "y"}\n')
    code, said = said_by(app, "run", str(app.file), "--available-now")
    assert code == 0, said
    assert "stopped: everything that was read is committed and published" in said
    clean(app, said)
    assert list((app.folder / "events").iterdir())
    for command in (["status"], ["validate"], ["validate", "--format", "json"], ["doctor"]):
        code, said = said_by(app, command[0], str(app.file), *command[1:])
        assert code == 0, said
        clean(app, said)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SECRETprotocol"])
def test_a_server_that_does_not_answer_and_an_option_that_is_none(tmp_path: Path, protocol: str) -> None:
    options = {**_KAFKA, "kafka.security.protocol": protocol, "kafka.default.api.timeout.ms": "2000"}
    options["kafka.request.timeout.ms"] = "1000"
    if protocol != "SASL_PLAINTEXT":  # what Kafka quotes, where the value is of a secret
        options["kafka.sasl.jaas.config"] = "SECRETjaas2 broken"
        options["kafka.security.protocol"] = "SASL_PLAINTEXT"
    source = {**KAFKA["source"], "servers": "127.0.0.1:9", "options": options}
    app = application(tmp_path / "kafka", {**KAFKA, "source": source})
    code, said = said_by(app, "run", str(app.file), "--available-now")
    assert code in {2, 5}, said
    clean(app, said)


@pytest.mark.spark
@pytest.mark.slow
@pytest.mark.parametrize(
    "place", ["s3://AKIAEXAMPLE:SECRETuser1@bucket.invalid/x", "s3://AKIAEXAMPLE:SEC/SECRETuser2@bucket.invalid/x"]
)
def test_a_place_that_cannot_be_reached(tmp_path: Path, place: str) -> None:
    storage = {**_STORAGE, "aws_endpoint": "http://127.0.0.1:9", "aws_allow_http": "true", "aws_region": "x"}
    storage |= {"max_retries": "0", "retry_timeout": "1s"}
    app = application(tmp_path / "place", FILES, storage_options=storage, output=place, publish={"writer": "deltalake"})
    code, said = said_by(app, "seed", str(app.file))
    assert code in {2, 3, 5}, said
    clean(app, said)


def test_what_a_configuration_says_of_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in _ENVIRONMENT.items():
        monkeypatch.setenv(name, value)
    app = application(tmp_path / "x", {**KAFKA, "source": {**KAFKA["source"], "servers": "localhost:9092"}})
    configuration = load(app.file)
    assert _MARK not in repr(configuration) + repr(configuration.settings) + str(configuration.settings)
    quoted = json.dumps([_STORAGE, _KAFKA, _SPARK, _ALERT, _ENVIRONMENT])
    assert "SECRETjaas1" in quoted
    assert _MARK not in masked(quoted.replace("\\", ""))
