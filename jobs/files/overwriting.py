"""Refuses options whose output would overwrite an input of the command.

Files are compared by identity, not by path: through symbolic links, hard links, relative paths and `/dev/stdin`.
Invariant: nothing is written, and only names and inodes of inputs are read.
"""

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit

from holdfast.constraints import UsageError
from holdfast.jobs.files.addresses import Address, FileOrAddress

if TYPE_CHECKING:
    from holdfast.jobs.configuration.reading import Configuration

Inode = tuple[int, int]


def refuse_overwriting(outputs: Mapping[str, Path | None], reads: Iterable[FileOrAddress | None]) -> None:
    """Raise `UsageError` where an output is an input too, or where two options name the same output.

    Parameters
    ----------
    outputs : the file of each option; None where the option is not given. Several options may name the same device or
        pipe.
    reads : the inputs: files and folders. Addresses of other machines are ignored.
    """
    named = {option: file for option, file in outputs.items() if file is not None and _is_replaced(file)}
    for (first, file), (second, other) in combinations(named.items(), 2):
        if _is_same(file, other):
            raise UsageError(f"{first} and {second} both name {other}: name two files")
    if not named:
        return
    for path in _paths(reads):
        for option, file in named.items():
            if _is_same(file, path):
                raise UsageError(f"{option} {file} would replace {path}, which is read: name another file")
            if not path.is_file() and _is_inside(file, path):
                raise UsageError(f"{option} {file} lies in {path}, which is read: name a file elsewhere")


def refuse_overwriting_live(output: Path | None, configuration: "Configuration") -> None:
    """Raise `UsageError` where --output names a file of a seed, a source, the state or the outputs of a live table."""
    from holdfast.jobs.configuration.quantities import is_remote

    settings = configuration.settings
    places = [place for name, place in settings.places.items() if name != "output"]
    places += [table.seed.path for table in settings.tables if table.seed is not None]
    places += [path for table in settings.tables if (path := getattr(table.source, "path", None)) is not None]
    if not is_remote(settings.output):  # a report may lie beside the output tables, but in none of them
        places += [str(log.parent) for log in Path(settings.output).glob("*/_delta_log")]
    refuse_overwriting({"--output": output}, [Path(place) for place in places if not is_remote(place)])


def _paths(reads: Iterable[FileOrAddress | None]) -> Iterator[Path]:
    for place in reads:
        if isinstance(place, Address):
            parts = urlsplit(place.url)
            if parts.scheme.lower() == "file":
                yield Path(unquote(parts.path))
        elif place is not None:
            yield place


def _is_replaced(file: Path) -> bool:
    """Whether writing to a path replaces a file; not for a device."""
    try:
        return stat.S_ISREG(file.stat().st_mode)
    except OSError:
        return True


def _is_same(file: Path, other: Path) -> bool:
    try:
        return file.samefile(other)
    except OSError:  # one of the two is not there yet
        return os.path.realpath(file) == os.path.realpath(other)


def _is_inside(file: Path, folder: Path) -> bool:
    """Whether a file is in a folder, or is the same file as one in the folder."""
    if Path(os.path.realpath(file)).is_relative_to(os.path.realpath(folder)):
        return True
    inode = _inode(file)
    return inode is not None and any(
        _inode(Path(parent, name)) == inode for parent, _, names in os.walk(folder) for name in names
    )


def _inode(file: Path) -> Inode | None:
    try:
        found = file.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino
