"""`holdfast demo --kafka`: the same changes through a real broker, which is gone afterwards, however it ends."""

from __future__ import annotations

import re
import socket
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from tests.spark.test_demo import GOLDEN, broken_off, changes_in, environment

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.kafka


def is_answering(folder: Path) -> bool:
    """Whether the broker that a demo was configured with is still there."""
    found = re.search(r'servers: "127\.0\.0\.1:(\d+)"', (folder / "holdfast.yaml").read_text())
    assert found is not None
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", int(found[1]))) == 0


def test_the_same_changes_come(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    command = [sys.executable, "-m", "holdfast", "demo", "--kafka", "--quiet", "--folder", str(folder)]
    finished = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False, env=environment())
    assert (finished.returncode, finished.stderr) == (0, "")
    assert changes_in(finished.stdout) == changes_in(GOLDEN.read_text())
    assert finished.stdout.count("in quarantine") == 3
    assert "! demo.public.tax-0-25  in quarantine" in finished.stdout  # the tombstone of the delete is before it
    assert not is_answering(folder)


def test_control_c_ends_the_broker_too(tmp_path: Path) -> None:
    folder = tmp_path / "new"
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "demo", "--kafka", "--folder", str(folder)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    assert broken_off(process, "2. ") == ["Interrupted."]
    assert process.returncode == 130
    assert not is_answering(folder)
