"""The records of a micro-batch from Kafka, in the order of (partition, offset)."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.streaming.incoming.arrivals import UNREADABLE, Draft
from holdfast.tables.arrays import Flags, Positions
from holdfast.tables.json_records import Spans, spans_of

SKIPPED = -2
"""The operation of a record that says nothing about rows."""
_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}


@dataclass(frozen=True)
class Messages:
    """Records of one topic.

    Parameters
    ----------
    topic, partitions, offsets : the positions of the records.
    keys, values : the bytes of the records.
    oldest : when the oldest record was written, in seconds since 1970.
    """

    topic: str
    partitions: NDArray[np.int32]
    offsets: NDArray[np.int64]
    keys: Spans
    values: Spans
    oldest: float | None = None

    def __len__(self) -> int:
        return len(self.offsets)

    def record_id(self, row: int) -> str:
        """Return the id of a record."""
        return f"{self.topic}-{self.partitions[row]}-{self.offsets[row]}"

    def raw(self, row: int) -> bytes | None:
        """Return a record's value, or its key if it has no value."""
        value = self.values[row]
        return self.keys[row] if value is None else value

    def draft(
        self,
        operations: NDArray[np.int8],
        cells: Mapping[str, pa.Array],
        reasons: Mapping[int, str],
        new_fields: Mapping[str, str],
        kept: Flags | None = None,
    ) -> Draft:
        """Return the records as a draft: those with a reason are UNREADABLE, those that are SKIPPED are left out."""
        operations[list(reasons)] = UNREADABLE
        about_rows = operations != SKIPPED
        whole = Draft(
            operations, cells, self.record_id, self.raw, reasons, kept, oldest=self.oldest, new_fields=new_fields
        )
        if about_rows.all():
            return whole
        return replace(whole.taken(np.flatnonzero(about_rows)), skipped=int(np.count_nonzero(~about_rows)))


def messages_of(batch: pa.Table | pa.RecordBatch, topic: str) -> Messages:
    """Return the records of a batch with the columns key, value, partition, offset and timestamp. O(n), sorted or not.

    >>> columns = {"key": [b"", b"k"], "value": [b"2", b"1"], "partition": [0, 0], "offset": [7, 6]}
    >>> found = messages_of(pa.table({**columns, "timestamp": pa.array([5000, 4000], pa.timestamp("ms"))}), "t")
    >>> found.record_id(0), found.raw(0), found.oldest
    ('t-0-6', b'1', 4.0)
    """
    partitions, offsets = _integers(batch.column("partition")), _integers(batch.column("offset"))
    keys, values = spans_of(batch.column("key")), spans_of(batch.column("value"))
    order = _order(partitions, offsets)
    if order is not None:
        partitions, offsets = partitions[order], offsets[order]
        keys, values = keys.take(order), values.take(order)
    return Messages(topic, partitions.astype(np.int32), offsets, keys, values, _oldest(batch.column("timestamp")))


def _integers(column: pa.Array | pa.ChunkedArray) -> NDArray[np.int64]:
    return np.asarray(column.to_numpy(), np.int64) if len(column) else np.empty(0, np.int64)


def _order(partitions: NDArray[np.int64], offsets: NDArray[np.int64]) -> Positions | None:
    """Return the order of (partition, offset), None if the records are in this order already."""
    step, same = np.diff(partitions), np.diff(offsets) >= 0
    if ((step > 0) | ((step == 0) & same)).all():
        return None
    return np.lexsort((offsets, partitions))


def _oldest(timestamps: pa.Array | pa.ChunkedArray) -> float | None:
    """Return the earliest time in seconds; a record without a time has -1."""
    moments = timestamps.cast(pa.int64())
    first = pc.min(moments.filter(pc.greater_equal(moments, 0))).as_py()
    return None if first is None else float(first) / _PER_SECOND[timestamps.type.unit]
