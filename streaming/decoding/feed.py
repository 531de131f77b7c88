"""The change feed of a Delta table: deleted and inserted whole rows, each with its version.

A read of the feed has no defined order: records are sorted here by version, within a version deletes first (semantics,
Sequence). The records of a version may be in several batches, inserts before deletes; netting handles that.
"""

from collections.abc import Collection

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from holdfast.streaming.incoming.arrivals import UNREADABLE, Draft, readable
from holdfast.streaming.incoming.netting import DELETE, INSERT
from holdfast.tables.arrays import Flags

KIND, VERSION, TIME = "_change_type", "_commit_version", "_commit_timestamp"
_LEAVES, _ENTERS = ("delete", "update_preimage"), ("insert", "update_postimage")


def draft_of(arrived: pa.Table, names: Collection[str], table: str, after: int = -1) -> Draft:
    """Return the records of a read of the feed.

    Parameters
    ----------
    arrived : the columns of the table, and those of the feed.
    names : the wanted columns.
    table : the name of the table in record ids.
    after : the last version that the table has already; records up to this version are left out.
    """
    arrived = arrived.filter(pc.greater(arrived.column(VERSION), after))
    versions = arrived.column(VERSION).to_numpy()
    kinds = arrived.column(KIND)
    operations = np.full(len(arrived), UNREADABLE, np.int8)
    operations[_is_in(kinds, _LEAVES)] = DELETE
    operations[_is_in(kinds, _ENTERS)] = INSERT
    order = np.lexsort((operations != DELETE, versions))
    rows = arrived.take(pa.array(order))
    versions, operations = versions[order], operations[order]
    reasons = {
        row: f"the change feed says '{rows.column(KIND)[row].as_py()}', which is an unknown kind of change"
        for row in np.flatnonzero(operations == UNREADABLE).tolist()
    }
    oldest = pc.min(arrived.column(TIME)).as_py() if len(arrived) else None
    return Draft(
        operations,
        {name: rows.column(name).combine_chunks() for name in names if name in rows.column_names},
        lambda row: f"{table}-{versions[row]}-{row}",
        lambda row: str({name: readable(rows.column(name)[row]) for name in names if name in rows.column_names}),
        reasons,
        oldest=None if oldest is None else oldest.timestamp(),
        versions=versions,
    )


def _is_in(kinds: pa.ChunkedArray, wanted: tuple[str, ...]) -> Flags:
    return np.asarray(pc.is_in(kinds, pa.array(wanted)).to_numpy(), np.bool_)
