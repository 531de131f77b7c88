"""Writes all violating pairs to a file: CSV or Parquet, with the columns rule, left, right.

`left` and `right` are the numbers of rows t and s in the table, from 1 on (a header is no row). In tables that Spark
reads as data frames they are `partition * 2**40 + row`, since there are no other numbers.
Invariant: memory does not grow with the number of pairs; the file is complete, or does not exist.
"""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from holdfast.constraints import UsageError
from holdfast.jobs.terminal.output import bytes_to

if TYPE_CHECKING:
    import pyarrow as pa

    from holdfast.discovery.detection.check import Checked

AT_ONCE = 1 << 18

Writing = Callable[[BinaryIO, "pa.Schema"], Any]


def pairs_writing(file: Path) -> Writing:
    """Return the function that makes a writer for the format of a file's ending."""
    match file.suffix.lower():
        case ".csv":
            from pyarrow.csv import CSVWriter, WriteOptions

            return partial(CSVWriter, write_options=WriteOptions(quoting_header="none"))
        case ".parquet":
            from pyarrow.parquet import ParquetWriter

            return ParquetWriter  # type: ignore[no-any-return]
    raise UsageError(f"--pairs {file}: the ending names the format: expected .csv or .parquet")


def write_pairs(file: Path, checked: Sequence["Checked"]) -> int:
    """Write the violating pairs of all rules, and return their number. O(pairs)."""
    import pyarrow as pa

    schema = pa.schema([("rule", pa.string()), ("left", pa.int64()), ("right", pa.int64())])
    written = 0
    with bytes_to(file) as stream, pairs_writing(file)(stream, schema) as writer:
        for one in checked:
            for pairs in one.pairs(AT_ONCE):
                columns = [pa.repeat(one.rule.name, len(pairs)), *(pa.array(pairs[:, side] + 1) for side in (0, 1))]
                writer.write_batch(pa.record_batch(columns, schema=schema))
                written += len(pairs)
    return written
