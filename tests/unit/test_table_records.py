"""What a state notes of a table is read whoever wrote it: fields that are missing have defaults, others are left out."""

from holdfast.state import codecs
from holdfast.state.memory import MemoryStore
from holdfast.state.store import WriteBatch
from holdfast.streaming.commits.table_records import TableProgress, TableRecord, progress_of, tables_of


def test_a_record_is_what_was_written() -> None:
    store, batch = MemoryStore(), WriteBatch()
    records = [
        TableRecord("a", known=["x"], sequence={"name": "x", "type": "integer"}),
        TableRecord("b", engine="spark"),
    ]
    for number, record in enumerate(records):
        record.put(number, batch)
    progress = TableProgress(rows=0, left_out={"f": "r-1"}, lag_seconds=0.0)
    batch.put("progress", b"a", codecs.json_bytes(progress.fields()))
    store.write(batch)
    assert tables_of(store) == list(enumerate(records))
    assert (progress_of(store, "a"), progress_of(store, "b")) == (progress, TableProgress())


def test_records_of_other_versions_are_read() -> None:
    store, batch = MemoryStore(), WriteBatch()
    batch.put("tables", codecs.number(3), codecs.json_bytes({"name": "t", "source": {"start": "0"}, "later": [1]}))
    batch.put("progress", b"t", codecs.json_bytes({"rows": 5, "lag_seconds": None, "later": {}}))
    store.write(batch)
    assert tables_of(store) == [(3, TableRecord("t", source={"start": "0"}))]
    (_, record), progress = tables_of(store)[0], progress_of(store, "t")
    assert (record.known, record.watches_fields, record.engine) == (None, False, "embedded")
    assert (progress.rows, progress.owed, progress.lag_seconds, progress.left_out) == (5, 0, None, {})
    assert "later" not in record.fields()
    assert None not in progress.fields().values()
