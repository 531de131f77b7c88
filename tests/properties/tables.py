"""Random tables over tiny domains, as the oracle and as the product see them."""

import datetime
from collections.abc import Iterable
from decimal import Decimal

import pyarrow as pa
from hypothesis import strategies as st

from holdfast.constraints import PredicateSpace
from holdfast.tables import Table, from_arrow
from tests.oracles import values as oracle

DOMAINS: dict[str, tuple[pa.DataType, str, list[oracle.Value]]] = {
    "integer": (pa.int64(), "number", [0, 1, 2**53 + 1, -(2**63)]),
    "float": (pa.float64(), "number", [float("nan"), -0.0, 0.0, 1.0, float(2**53)]),
    "decimal": (pa.decimal128(4, 2), "number", [Decimal("0.00"), Decimal("1.00"), Decimal("0.10")]),
    "wide": (pa.decimal128(30, 1), "number", [Decimal("0.0"), Decimal("1.0"), Decimal(10**25)]),
    "string": (pa.string(), "string", ["", "a", "b", "é"]),
    "date": (pa.date32(), "date", [datetime.date(1, 1, 1), datetime.date(2024, 2, 29)]),
    "timestamp": (pa.timestamp("us"), "timestamp", [datetime.datetime(1970, 1, 1), datetime.datetime(2024, 2, 29, 1)]),  # noqa: DTZ001
    "boolean": (pa.bool_(), "boolean", [False, True]),
}


@st.composite
def tables(draw: st.DrawFn, max_columns: int = 4, max_rows: int = 6) -> tuple[oracle.Table, Table]:
    """Draw a table, nulls and duplicates included."""
    kinds = draw(st.lists(st.sampled_from(sorted(DOMAINS)), min_size=1, max_size=max_columns))
    rows = draw(st.integers(0, max_rows))
    columns, values, arrays = [], [], {}
    for i, kind in enumerate(kinds):
        arrow_type, group, domain = DOMAINS[kind]
        name = f"{kind} {i}" if i % 2 else f"{kind}_{i}"
        cells = draw(st.lists(st.sampled_from([None, *domain]), min_size=rows, max_size=rows))
        columns.append(oracle.Column(name, group))
        values.append(cells)
        arrays[name] = pa.array(cells, arrow_type, from_pandas=False)
    theirs = oracle.Table("r", tuple(columns), tuple(zip(*values, strict=True)))
    return theirs, from_arrow(pa.table(arrays), "r")


def evidence_bits(space: PredicateSpace, outcomes: Iterable[int]) -> int:
    """The evidence with these outcomes, one (`LESS`, `EQUAL` or `GREATER`) for each pair of a space."""
    return sum(pair.bits(outcome) for pair, outcome in zip(space.pairs, outcomes, strict=True))
