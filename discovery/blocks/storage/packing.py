"""Rows as bytes, for files of blocks and answers of tasks: a compressed Arrow stream."""

import pyarrow as pa

_OPTIONS = pa.ipc.IpcWriteOptions(compression="lz4")


def packed(rows: pa.Table) -> bytes:
    """Return rows as bytes.

    >>> unpacked(packed(pa.table({"a": [1, None]}))).column("a").to_pylist()
    [1, None]
    """
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema, options=_OPTIONS) as writer:
        writer.write_table(rows)
    found: bytes = sink.getvalue().to_pybytes()
    return found


def unpacked(data: bytes | pa.Buffer) -> pa.Table:
    """Return the inverse of `packed`."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()
