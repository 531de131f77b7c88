"""`holdfast demo` in a process of its own: what a person sees, what is left to ask, and how it is broken off.

Golden texts are renewed with HOLDFAST_RENEW_GOLDEN=1.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from holdfast.jobs.application.outputs import answers_of
from holdfast.jobs.configuration.reading import load
from holdfast.jobs.demo.pipeline import ways
from tests.short_lives import quick_environment

if TYPE_CHECKING:
    from collections.abc import Sequence

GOLDEN = Path(__file__).parent.parent / "golden" / "demo.txt"

pytestmark = pytest.mark.spark


def environment() -> dict[str, str]:
    return {**os.environ, **quick_environment(), "PYTHONPATH": os.pathsep.join(sys.path), "COLUMNS": "100"}


def called(*command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=300, check=False, env=environment()
    )


def without_places(text: str, folder: Path) -> str:
    """Return an account without what differs from run to run."""
    text = text.replace(str(folder.resolve()), "<folder>")
    text = re.sub(r"\d+\.\d\d s after", "<seconds> s after", text)
    text = re.sub(r"^\d+ s in all", "<seconds> s in all", text, flags=re.MULTILINE)
    for name in ("python", "holdfast"):
        text = re.sub(rf"(?<= )[^ \n]*/bin/{name}(?=[: ])", f"<bin>/{name}", text)
    return text


def changes_in(text: str) -> list[str]:
    """Return what appeared and disappeared, with the rows that prove it."""
    steps = text[text.index("\n2. ") : text.index("\n6. ")].splitlines()
    return [line for line in steps if line and "committed" not in line]


def broken_off(process: subprocess.Popen[str], after: str) -> Sequence[str]:
    """Press Ctrl-C once a line that begins so was printed; return what came on standard error."""
    assert process.stdout is not None
    for line in process.stdout:
        if line.startswith(after):
            break
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=120)
    return errors.splitlines()


@pytest.fixture(scope="module")
def shown(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Run it once; give its folder and what it printed."""
    folder = tmp_path_factory.mktemp("demo") / "new"
    finished = called("-m", "holdfast", "demo", "--folder", str(folder))
    assert (finished.returncode, finished.stderr) == (0, "")
    return folder, finished.stdout


def test_golden(shown: tuple[Path, str]) -> None:
    folder, text = shown
    found = re.sub(r"^(   metrics +)\d+ +", r"\1<n>  ", without_places(text, folder), flags=re.MULTILINE)
    if os.environ.get("HOLDFAST_RENEW_GOLDEN"):
        GOLDEN.write_text(found)
    assert found == GOLDEN.read_text()


@pytest.mark.parametrize("engine", ["pandas", "DuckDB", "Spark"])
def test_other_engines_read_the_tables(shown: tuple[Path, str], engine: str) -> None:
    folder, text = shown
    line = ways(folder.resolve() / "var" / "tables")[engine]
    assert f"     {line}\n" in text
    answer = called("-c", line)
    assert answer.returncode == 0, answer.stderr
    assert "No two rows have the same Id." in answer.stdout


def test_the_page_shows_the_rule_that_is_broken(shown: tuple[Path, str]) -> None:
    folder, text = shown
    conf = folder.resolve() / "holdfast.yaml"
    assert f"holdfast dashboard {conf}\n" in text
    rules = answers_of(load(conf)).ask("overview", {})["rules"]
    assert (rules["all"], [rule["rule"] for rule in rules["broken"]]) == (2, ["rate follows salary"])
    (example, *_) = rules["broken"][0]["examples"]
    differing = [
        column["name"] for column in example["witness"]["columns"] if column["differs"] and any(column["spoken"])
    ]
    assert differing == ["Salary", "Rate"]


def test_its_pipeline_can_be_gone_on_with(shown: tuple[Path, str]) -> None:
    folder, _ = shown
    came = {"_op": "insert", "Id": 900, "Phone": "555-1037", "State": "NY", "Zip": "10001", "City": "New York"}
    (folder / "unfinished" / "more.json").write_text(json.dumps(came) + "\n")
    (folder / "unfinished" / "more.json").rename(folder / "changes" / "more.json")
    finished = called("-m", "holdfast", "run", str(folder / "holdfast.yaml"), "--available-now")
    assert finished.returncode == 0, finished.stderr
    assert "not(t.Phone = s.Phone)" in finished.stderr
    assert "in=1 out=0 bad=0" in finished.stderr


def test_control_c_ends_it(tmp_path: Path) -> None:
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "demo", "--folder", str(tmp_path / "new")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert broken_off(process, "2. ") == ["Interrupted."]
    assert process.returncode == 130
