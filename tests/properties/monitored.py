"""Random histories of tables with monitored rules, and what is shown of these meanwhile."""

import json
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st

from holdfast.constraints import InclusionDependency, Rule
from holdfast.constraints.values import json_value
from holdfast.streaming.maintainers.maintainer import DELETE, INSERT, Records
from holdfast.streaming.maintainers.rules import maintainer as maintained
from holdfast.streaming.maintainers.rules.state import RuleState
from holdfast.tables import Table, from_arrow
from tests.oracles import rules as oracle
from tests.oracles.values import Row
from tests.oracles.values import Table as OracleTable
from tests.properties.rules import rules
from tests.properties.tables import DOMAINS

Both = tuple[oracle.Rule, Rule]


def kinds(table: OracleTable) -> list[str]:
    """Return the domain of each column (`tables.py`)."""
    return [column.name.replace("_", " ").split()[0] for column in table.columns]


def table_like(like: OracleTable, rows: Sequence[Row]) -> Table:
    """Return rows as a table of the product."""
    arrays = {
        column.name: pa.array([row[i] for row in rows], DOMAINS[kind][0], from_pandas=False)
        for i, (column, kind) in enumerate(zip(like.columns, kinds(like), strict=True))
    }
    return from_arrow(pa.table(arrays), like.name)


def records_of(like: OracleTable, inserted: Sequence[Row], deleted: Sequence[Row]) -> Records:
    """Return changes of rows as records."""
    operations = [INSERT] * len(inserted) + [DELETE] * len(deleted)
    return Records(table_like(like, [*inserted, *deleted]), np.array(operations, np.int8))


@st.composite
def declared(draw: st.DrawFn, table: OracleTable) -> list[Both]:
    """Draw rules, but inclusions, which are across tables."""
    drawn = draw(st.lists(rules(table), min_size=1, max_size=4))
    return [
        (their, Rule(f"r{i}", table.name, body))
        for i, (their, body) in enumerate(drawn)
        if not isinstance(body, InclusionDependency)
    ]


class Shown:
    """What the examples that came and went leave."""

    def __init__(self, states: Sequence[RuleState]) -> None:
        self.held: dict[str, dict[str, str]] = {state.rule.name: {} for state in states}
        self.follow(states)

    def follow(self, states: Sequence[RuleState]) -> None:
        """Take over what a batch says, and assert that something is shown exactly of violated rules."""
        for state in states:
            held = self.held[state.rule.name]
            for example in state.removed:
                del held[example.example_id]
            for example in state.added:
                assert example.example_id not in held
                held[example.example_id] = json.dumps(example.violation.to_json())
            assert bool(held) == (not state.holds)
            assert len(held) <= maintained.MOST_EXAMPLES

    def are_violations(
        self, drawn: Sequence[Both], like: OracleTable, rows: Sequence[Row], key: Sequence[str] = ()
    ) -> None:
        """Assert that what is shown breaks its rule on some rows."""
        table = OracleTable(like.name, like.columns, tuple(rows))
        values = table_like(like, rows).rows(list(range(len(rows))))
        images = [{name: json_value(value) for name, value in row.items()} for row in values]
        for their, rule in drawn:
            found = oracle.pairs(their, table)
            several = [(row,) for row in oracle.rows(their, table)] if found is None else list(found)
            expected = {
                json.dumps([{"key": {name: images[i][name] for name in key}, "row": images[i]} for i in some])
                for some in several
            }
            assert set(self.held[rule.name].values()) <= expected


class Interrupted(Exception):
    """What nothing else raises."""


def interrupted(*_: object) -> None:
    """Fail as nothing else does."""
    raise Interrupted
