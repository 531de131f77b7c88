"""How long until all inclusions of TPC-H are known and maintained, against Desbordante's Spider on the same files?

From the files to the answer, all values compared as text, as Spider does; ours ends with the state on disk, from which
batches go on. The dependencies are compared as sets. Spider is run up to scale 0.1.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.measuring import Point, measured

SCALES = ("0.01", "0.1", "1")
PEER_SCALES = ("0.01", "0.1")


def points() -> Iterator[Point]:
    for scale in SCALES:
        ours = measured(_seeded, scale, prepare=files_of)
        found = {
            "scale": scale,
            "dependencies": len(ours.answer[0]),
            **ours.answer[1],
            "seconds": round(ours.seconds, 2),
        }
        found["peak_mb"] = ours.peak_mb
        if scale in PEER_SCALES:
            theirs = measured(_spider, scale, prepare=files_of)
            assert ours.answer[0] == theirs.answer, len(theirs.answer)
            found |= {"spider_seconds": round(theirs.seconds, 2), "spider_mb": theirs.peak_mb}
            found["times_spider"] = round(ours.seconds / theirs.seconds, 2)
        yield found


def files_of(scale: str) -> list[Path]:
    """Return the tables of TPC-H as files, made once; load what both need."""
    import desbordante

    from holdfast import discover_inclusions
    from holdfast.state.rocks import RocksStore

    assert desbordante.ind
    assert callable(discover_inclusions)
    assert callable(RocksStore)
    folder = Path(tempfile.gettempdir()) / f"holdfast-tpch-{scale}"
    if not folder.exists():
        making = Path(tempfile.mkdtemp())
        generator = Path(sys.executable).with_name("tpchgen-cli")
        subprocess.run([generator, "-s", scale, "--format", "csv", "-o", making], check=True, capture_output=True)
        shutil.move(making, folder)
    return sorted(folder.glob("*.csv"))


def _seeded(files: list[Path]) -> tuple[frozenset[str], Point]:
    from holdfast import ReadOptions
    from holdfast.discovery.inclusion.result import Inclusions
    from holdfast.discovery.inclusion.seeding import clustering, file_values
    from holdfast.state.rocks import RocksStore
    from holdfast.streaming.maintainers.inclusion.maintainer import InclusionMaintainer

    options = ReadOptions(strings="all")
    columns = [column for file in files for column in file_values(file, options, texts=True)]
    clusters, parts = clustering(columns)
    del columns
    folder = Path(tempfile.mkdtemp())
    store = RocksStore(folder / "state")
    store.write(InclusionMaintainer.seed(clusters, parts, store.load, texts=True))
    store.close()
    size = sum(file.stat().st_size for file in (folder / "state").iterdir())
    shutil.rmtree(folder)
    about = {"values": int(clusters.values.sum()), "clusters": len(clusters), "state_mb": size >> 20}
    return frozenset(map(str, Inclusions(clusters))), about


def _spider(files: list[Path]) -> frozenset[str]:
    import desbordante

    algorithm = desbordante.ind.algorithms.Spider()
    algorithm.load_data(tables=[(str(file), ",", True) for file in files])
    algorithm.execute()
    names = [file.open().readline().rstrip("\n").split(",") for file in files]

    def named(side: Any) -> str:
        return f"{files[side.table_index].stem}.{names[side.table_index][side.column_indices[0]]}"

    return frozenset(f"{named(ind.get_lhs())} in {named(ind.get_rhs())}" for ind in algorithm.get_inds())
