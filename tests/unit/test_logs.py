"""What libraries log while a command runs is a line of the command: in its format, and without secrets."""

import json
import logging
import os
import warnings
from pathlib import Path
from typing import Any

import pytest

from holdfast.jobs import doctor as diagnosis
from holdfast.jobs import seed as seeding
from holdfast.jobs import validate as validating
from holdfast.jobs.command_line import exit_code_of

_SECRET = "s3://me:hunter2@bucket/out"


def _speaks(*_: Any, **__: Any) -> int:
    """Do what a library does when storage fails under it."""
    logging.getLogger("deltalake.query").warning("cannot tidy up %s", _SECRET)
    logging.getLogger("deltalake").info("nobody asked")
    try:
        raise OSError(f"no answer from {_SECRET}")
    except OSError:
        logging.getLogger("holdfast.streaming.sinks.deltalake").exception("left\nuntidy")
    warnings.warn("password=hunter2 is old", UserWarning, stacklevel=1)
    return 0


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    for module, name in ((validating, "validate_file"), (seeding, "seed_state"), (diagnosis, "diagnose")):
        monkeypatch.setattr(module, name, _speaks)
    monkeypatch.delenv("RUST_LOG", raising=False)
    file = tmp_path / "c.yaml"
    text = "name: a\nstate: ./s\nbackup: ./b\noutput: ./o\ncheckpoint: ./c\nconstraints: {denial: {}}\n"
    file.write_text(text + "tables:\n  - {name: t, seed: {path: t.csv}}\n")
    return str(file)


@pytest.mark.filterwarnings("always")
def test_lines_for_people(conf: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command in ("validate", "doctor", "seed"):
        assert exit_code_of([command, conf]) == 0
        out, err = capsys.readouterr()
        assert out == ""
        first, second, third, *_ = err.splitlines()
        assert first == "warning: cannot tidy up s3://***@bucket/out"
        assert second == "error: left\\u000auntidy (OSError: no answer from s3://***@bucket/out)"
        assert third.endswith("UserWarning: password=*** is old") or "password=***" in third
        assert "hunter2" not in err


@pytest.mark.filterwarnings("always")
def test_lines_for_machines(conf: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["seed", conf, "--log-format", "json"]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert [(line["level"], line["event"], line["logger"]) for line in lines] == [
        ("warning", "log", "deltalake.query"),
        ("error", "log", "holdfast.streaming.sinks.deltalake"),
        ("warning", "log", "py.warnings"),
    ]
    assert lines[0]["message"] == "cannot tidy up s3://***@bucket/out"
    assert not any("hunter2" in str(line) for line in lines)


@pytest.mark.filterwarnings("always")
@pytest.mark.parametrize("options", [["--quiet"], ["--log-level", "error"]])
def test_errors_alone(options: list[str], conf: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code_of(["seed", conf, *options]) == 0
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: left")


@pytest.mark.parametrize(
    ("given", "options", "expected"),
    [
        (None, [], "off"),
        (None, ["--log-level", "debug"], "deltalake=debug"),
        ("warn", [], "warn"),
        ("warn", ["--log-level", "debug"], "warn"),
    ],
)
def test_the_log_of_delta_rs(
    given: str | None, options: list[str], expected: str, conf: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It goes past Python, in a format of its own: off, unless somebody asks for it."""
    if given is not None:
        monkeypatch.setenv("RUST_LOG", given)
    seen: list[str | None] = []
    monkeypatch.setattr(seeding, "seed_state", lambda *_, **__: seen.append(os.environ.get("RUST_LOG")))
    assert exit_code_of(["seed", conf, *options]) == 0
    assert (seen, os.environ.get("RUST_LOG")) == ([expected], given)


def test_a_panic_of_a_library_is_an_error_of_ours(
    conf: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class PanicException(BaseException):
        """What a panic in Rust is in Python: no `Exception`."""

        __module__ = "pyo3_runtime"

    def panics(*_: Any, **__: Any) -> None:
        raise PanicException("index out of bounds at " + _SECRET)

    monkeypatch.setattr(validating, "validate_file", panics)
    assert exit_code_of(["validate", conf]) == 70
    assert capsys.readouterr().err.startswith(
        "Internal error: PanicException: index out of bounds at s3://***@bucket/out\n"
    )
