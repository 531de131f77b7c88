"""Files that are made once and shared by all processes of a user: jars, and a wrapper of Java.

Invariant: a file or folder under its final name is complete. It is made in a staging folder beside it, under a lock
that the operating system releases with the process, and moved into place by one rename. HOLDFAST_CACHE names the
folder; by default it is `holdfast` in the user's cache folder.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.streaming.spark.errors import CacheUnwritable

if TYPE_CHECKING:
    from collections.abc import Iterator

_STAGING = ".staging-"


def cache_folder() -> Path:
    """Return the cache folder, which may not exist yet."""
    if named := os.environ.get("HOLDFAST_CACHE"):
        return Path(named).expanduser().absolute()
    shared = os.environ.get("XDG_CACHE_HOME")
    return (Path(shared) if shared else Path.home() / ".cache").absolute() / "holdfast"


@contextmanager
def staging(folder: Path) -> Iterator[Path]:
    """Give an empty folder inside `folder`, from which finished files are renamed into `folder`.

    Only one process at a time is inside; the others wait. Remains of killed processes are removed. Raises
    `CacheUnwritable` if `folder` cannot be written.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = (folder / ".lock").open("w")
    except OSError as error:
        raise CacheUnwritable(
            f"the cache folder {folder} cannot be written ({error.strerror})",
            "make it writable, or name another one in HOLDFAST_CACHE",
        ) from error
    with lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        for left in folder.glob(f"{_STAGING}*"):
            shutil.rmtree(left, ignore_errors=True)
        made = Path(tempfile.mkdtemp(prefix=_STAGING, dir=folder))
        try:
            yield made
        finally:
            shutil.rmtree(made, ignore_errors=True)
