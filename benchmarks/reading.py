"""What does reading a CSV file cost, as it grows, against Arrow alone and pandas?

All three read the same tax-like file of eight columns. Arrow and pandas infer types by rules of their own (they take
`01907` for 1907), so they do less; the ratio says what exactness costs.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.measuring import Point, measured

SIZES = (100_000, 300_000, 1_000_000)


def points() -> Iterator[Point]:
    with tempfile.TemporaryDirectory() as folder:
        for rows in SIZES:
            path = _made(Path(folder), rows)
            ours = measured(_holdfast, path)
            assert ours.answer == (rows, "string")
            theirs = {reader.__name__.strip("_"): measured(reader, path) for reader in (_arrow, _pandas)}
            yield {
                "rows": rows,
                "mb": round(path.stat().st_size / 1e6, 1),
                "seconds": round(ours.seconds, 2),
                "peak_mb": ours.peak_mb,
                **{f"times_{name}": round(ours.seconds / other.seconds, 1) for name, other in theirs.items()},
                **{f"peak_mb_{name}": other.peak_mb for name, other in theirs.items()},
            }


def _made(folder: Path, rows: int) -> Path:
    import pyarrow.csv

    from tests.taxes import NARROW, tax_records

    path = folder / f"tax{rows}.csv"
    table = tax_records(rows, NARROW)
    decoded = [c.cast(c.type.value_type) if hasattr(c.type, "value_type") else c for c in table.columns]
    pyarrow.csv.write_csv(table.from_arrays(decoded, table.column_names), path)
    return path


def _holdfast(path: Path) -> tuple[int, str]:
    from holdfast import read_table

    table = read_table(path)
    return table.row_count, str(table.schema["Zip"].type)


def _arrow(path: Path) -> int:
    import pyarrow.csv

    return int(pyarrow.csv.read_csv(path).num_rows)


def _pandas(path: Path) -> int:
    import pandas as pd

    return len(pd.read_csv(path))
