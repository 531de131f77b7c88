"""Which rows of a table in blocks are gone: their numbers, in files that all arrangements share.

A row has one number in all arrangements, so a table has one set of marks. A change that deletes rows writes a file of
their numbers; files of similar sizes are merged, so there are few, and each number is written again as often as the set
doubles. Tasks receive the names of the files; a process that reads a block intersects its row numbers with the marks.

Invariant: a file of marks never changes; files are in the order of the changes that they cover.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from secrets import token_hex

import numpy as np
from pyroaring import BitMap64

from holdfast.constraints import ExternalError
from holdfast.discovery.blocks.storage.location import KEPT, Storage, bytes_of
from holdfast.state.places import Place
from holdfast.tables.arrays import RowNumbers


@dataclass(frozen=True)
class Marks:
    """The numbers of rows that successive changes deleted.

    Parameters
    ----------
    name : the name of the file.
    count : the number of rows.
    last : the number of the last of the changes.
    """

    name: str
    count: int
    last: int


@dataclass(frozen=True)
class Gone:
    """The rows of a block that are gone, as far as known without reading.

    Parameters
    ----------
    most : an upper bound of their number.
    since : the number of the first change that deleted such a row.
    version : identifies the set of rows that are gone.
    """

    most: int = 0
    since: int = 0
    version: str = ""


NOTHING_GONE = Gone()


def set_of(numbers: RowNumbers) -> BitMap64:
    """Return row numbers as a set."""
    return BitMap64(np.sort(numbers))


def with_more(storage: Storage, runs: tuple[Marks, ...], numbers: RowNumbers) -> tuple[Marks, ...]:
    """Write the numbers of more deleted rows; return all files, each more than twice as large as the next.

    Amortised O(log n) a row.
    """
    some, change = set_of(numbers), runs[-1].last + 1 if runs else 1
    while runs and runs[-1].count <= 2 * len(some):
        some |= read_marks(storage, runs[-1])
        runs = runs[:-1]
    some.run_optimize()
    name = token_hex(16)
    storage.open().put(name, some.serialize())
    return (*runs, Marks(name, len(some), change))


def read_marks(storage: Storage, marks: Marks) -> BitMap64:
    """Return the numbers of a file; kept by the process while there is room."""

    def make() -> tuple[BitMap64, int]:
        place = storage.open()
        until = "a table is followed. Bring the file back, and start again"
        data = bytes_of(place, marks.name, f"marks {marks.name} are", until)
        try:
            found = BitMap64.deserialize(data)
        except (ValueError, IndexError) as error:
            raise ExternalError(_damaged(marks, place)) from error
        if len(found) != marks.count:
            raise ExternalError(_damaged(marks, place))
        return found, len(data)

    return KEPT.get(("marks", marks.name), make)


def marked_among(storage: Storage, numbers: BitMap64, runs: Iterable[Marks]) -> RowNumbers:
    """Return the row numbers that are marked, ascending."""
    found = BitMap64()
    for marks in runs:
        found |= numbers & read_marks(storage, marks)
    return np.frombuffer(found.to_array(), np.uint64).astype(np.int64)


def _damaged(marks: Marks, place: Place) -> str:
    return (
        f"marks {marks.name} in {place} are damaged: this file has not the {marks.count:,} numbers of rows that were "
        "written. Bring it back as it was, from a copy of the folder; where there is none, seed anew: "
        "holdfast seed --replace"
    )
