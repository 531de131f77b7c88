"""Small disks, and how they are filled."""

from __future__ import annotations

import os
import shutil
import subprocess
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def mounted(place: Path, megabytes: int) -> Iterator[None]:
    """Mount a small file system in place of a folder, with what that had; skip where this is not allowed."""
    moved = place.with_name(f"{place.name} before")
    if place.exists():
        place.rename(moved)
    place.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(place)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no `mount` here")
    if done.returncode:
        pytest.skip(f"no file system may be mounted here: {done.stderr.strip()}")
    try:
        if moved.exists():
            shutil.copytree(moved, place, dirs_exist_ok=True)
        yield
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def fill(file: Any) -> None:
    """Write until nothing more fits."""
    size = 1 << 20
    while size:
        try:
            file.write(b"x" * size)
            os.fsync(file.fileno())
        except OSError:
            size //= 4
