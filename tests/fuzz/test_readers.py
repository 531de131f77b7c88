"""Whatever bytes a reader is given, a value or an error of its own comes of it, and soon.

Structured: the seeds of `seeds.py`, and what a few changes make of them. What readers assert themselves, as with
*oracle* `tests/oracles/json_text.py`, is told in `readers.py`.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.fuzz.__main__ import figures
from tests.fuzz.readers import READERS, outcome

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_SECONDS = 60
_ODD = [
    b"\x00",
    b"\xff",
    b"\xed\xa0\x80",
    b"\xef\xbb\xbf",
    b"\r",
    b"\x1b[31m",
    b"\xe2\x80\xae",
    b"9" * 400,
    b"-1e99999",
]


@contextmanager
def deadline(seconds: int = _SECONDS) -> Iterator[None]:
    """Fail where something takes longer; a test that hangs in compiled code ends the process, and says where."""

    def late(*_: object) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    faulthandler.dump_traceback_later(2 * seconds, exit=True)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)
        faulthandler.cancel_dump_traceback_later()


@st.composite
def inputs(draw: st.DrawFn, name: str) -> bytes:
    """A seed of a reader, changed in a few places."""
    reader = READERS[name]
    made = bytearray(draw(st.sampled_from(SEEDS[name])))
    word = st.sampled_from([*reader.words, *_ODD]) | st.binary(max_size=5)
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(made)))
        match draw(st.integers(0, 4)):
            case 0:
                made[place:place] = draw(word)
            case 1:
                del made[place : place + draw(st.integers(1, 8))]
            case 2:
                made[place : place + 1] = draw(word)
            case 3:
                other = draw(st.sampled_from(SEEDS[name]))
                made[place:] = other[draw(st.integers(0, len(other))) :]
            case _:
                made[place:place] = bytes(made[place : place + 40]) * draw(st.sampled_from([1, 2, 30]))
    return bytes(made)


SEEDS = {name: list(reader.seeds()) for name, reader in READERS.items()}


@pytest.mark.parametrize("name", list(READERS))
def test_seeds(name: str) -> None:
    with deadline():
        came = [outcome(READERS[name], seed) for seed in SEEDS[name]]
    assert came


@pytest.mark.parametrize("name", list(READERS))
@given(data=st.data())
def test_a_value_or_an_error_of_ours(name: str, data: st.DataObject) -> None:
    given = data.draw(inputs(name) | st.binary(max_size=40))
    with deadline():
        outcome(READERS[name], given)


LONG = 1 << 20
"""Bytes of a record: what takes the square of that does not end."""

_REPEATED = {
    "json-records": [b"[", b'{"k":', b'"', b"\\", b"1", b'"k":1,', b"{}\n"],
    "topic-json": [b'{"k":1,"f":1' + b"0" * LONG + b',"w":1e' + b"9" * LONG + b"}", b'{"s":"' + b"x" * LONG],
    "topic-upsert": [b'{"schema":{},"payload":', b"\x01"],
    "changes-json": [b'{"k":1}\n', b"\n", b" "],
    "changes-csv": [b"k,s\n", b'"', b",", b"\r"],
    "table-csv": [b"\0\0k\n", b'\0\0"', b"\0\0,", b'\0\0a"b,'],
    "masking": [b"a", b"a.", b"password", b"password=", b"password='", b"s3://a:b/", b"Bearer ", b"-----BEGIN A"],
    "space-file": [b"[", b"1", b'{"a":'],
    "manifest": [b"[", b"1", b'{"a":'],
    "values": [b"1", b"0.", b"1e-" + b"9" * LONG],
    "column-type": [b"9", b" ", b"decimal("],
}
_RULES = [b" ", b"(", b"not ", b"`", b"'", b"a,", b"{a,", b"t.A = 1 and ", b"t.A = 1 or ", b"not(t.a = s.a and "]


@pytest.mark.parametrize(
    ("name", "part"),
    [(name, part) for name, parts in _REPEATED.items() for part in parts]
    + [(name, part) for name in ("constraint", "rule") for part in _RULES]
    + [("rules-file", b"l" + part) for part in (b" ", b"`", b"'", b"n: x")],
)
def test_time_grows_as_the_input_does(name: str, part: bytes) -> None:
    long = part * max(
        1, LONG // len(part) // (1 if name in {"json-records", "values", "space-file", "manifest"} else 8)
    )
    with deadline():
        outcome(READERS[name], long + b"x")


@pytest.mark.parametrize("part", [b"[", b"a: ", b"a:\n", b"- ", b"k: v\n", b"'", b"&a ", b"${", b"? "])
@pytest.mark.parametrize("name", ["yaml", "configuration"])
def test_time_grows_as_the_configuration_does(name: str, part: bytes) -> None:
    with deadline():
        outcome(READERS[name], part * ((1 << 15) // len(part)))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["json-records", "topic-debezium", "values"])
def test_compiled_kernels_say_what_python_says(name: str, tmp_path: Path) -> None:
    for number, seed in enumerate(SEEDS[name][:40]):
        (tmp_path / str(number)).write_bytes(seed)
    command = [sys.executable, "-m", "tests.fuzz", name, "--replay", str(tmp_path)]

    def said(**environment: str) -> str:
        made = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), **environment}
        return subprocess.run(command, capture_output=True, text=True, check=True, env=made, timeout=600).stdout

    compiled = said()
    assert compiled.count("\n") == len(list(tmp_path.iterdir()))
    assert compiled == said(NUMBA_DISABLE_JIT="1")


def test_figures_of_a_run_are_read() -> None:
    said = "#12 NEW cov: 137 ft: 6\n === Uncaught Python exception: ===\nValueError: x\nstat::number_of_executed_units: 40\n"
    assert figures(said) == {"inputs": 40, "covered": 137, "found": "ValueError: x"}
