"""Typed rows in columns: readers, inference, order-preserving keys.

The way in: `read_table` (or `from_arrow`, `from_pandas`) picks a reader; text columns are typed by
`inference`; `keys` turns typed values into 64-bit keys; a `Table` holds them. Pairs of columns are made
comparable by `comparable`, and `space_of` measures which pairs a predicate space takes.
"""

from holdfast.tables.columnar import EncodedColumn, Table
from holdfast.tables.comparable import common_keys, key_space, overlap, related, related_space, space_of
from holdfast.tables.frames import from_arrow, from_pandas
from holdfast.tables.options import ReadOptions
from holdfast.tables.reading import as_table, read_table, table_name, table_names

__all__ = [
    "EncodedColumn",
    "ReadOptions",
    "Table",
    "as_table",
    "common_keys",
    "from_arrow",
    "from_pandas",
    "key_space",
    "overlap",
    "read_table",
    "related",
    "related_space",
    "space_of",
    "table_name",
    "table_names",
]
