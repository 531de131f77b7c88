"""Fields of records without a column: new columns of a source.

Counting rules most records out: a record with as many fields as were found in it has no others. One of the remaining
records is read in Python, and its fields are searched in the others: so Python reads about as many records as there are
new fields.
"""

import json
from collections.abc import Callable, Collection, Iterable

import numpy as np
from numpy.typing import NDArray

from holdfast.tables.json_records import Cells, Spans, fields_of
from holdfast.tables.kernels.json import ABSENT

MOST_NEW = 100
"""About the most new fields that are named of one batch."""


def new_fields(
    records: Spans,
    counts: NDArray[np.int64],
    found: Iterable[Cells],
    known: Collection[str],
    record_id: Callable[[int], str],
    service: str | None = None,
) -> dict[str, str]:
    """Return the fields without a column, each with the first record that has it. O(records) if there are none.

    Parameters
    ----------
    records, counts : JSON objects, and how many fields each has.
    found : the fields that were found in the records, each once.
    known : the names of columns, and of other fields that are not new.
    service : the beginning of the names of further fields that are not new.

    Examples
    --------
    >>> from holdfast.tables.json_records import spans_of
    >>> import pyarrow as pa
    >>> records = spans_of(pa.array([b'{"a": 1, "left": 2}', b'{"new": {}, "_op": "insert", "a": 3}']))
    >>> fields = fields_of(records, ["a"])
    >>> new_fields(records, fields.counts, [fields["a"]], ["a", "left", "_op"], str)
    {'new': '1'}
    """
    there = np.zeros(len(records), np.int64)
    for cells in found:
        there += cells.kinds != ABSENT
    rows = np.flatnonzero((counts > there) & records.present)
    names, new = dict.fromkeys(known), dict[str, str]()
    while len(rows) and len(new) < MOST_NEW:
        again = fields_of(records.take(rows), list(names))
        rows = rows[again.good & (again.counts > (again.kinds != ABSENT).sum(axis=0))]
        for place, row in enumerate(rows.tolist()):
            found_here = [name for name in json.loads(records[row] or b"{}", parse_int=str) if name not in names]
            if found_here:
                names |= dict.fromkeys(found_here)
                new |= {name: record_id(row) for name in found_here if not (service and name.startswith(service))}
                rows = rows[place + 1 :]
                break  # the other records may have these fields too: count again
        else:
            break
    return new
