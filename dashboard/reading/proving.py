"""The SQL query that proves a published constraint, for its source table."""

from holdfast.constraints import Column, Schema, UnknownColumn, UsageError, parse_constraint, parse_near, parse_type
from holdfast.constraints.names import quoted
from holdfast.constraints.queries import query
from holdfast.dashboard.reading.batches import tables
from holdfast.dashboard.reading.outputs import Outputs


def proof_query(outputs: Outputs, table: str, text: str, *, near: bool) -> str | None:
    """Return the query; None where a later version published the constraint in a form that cannot be read.

    Parameters
    ----------
    text, near : the constraint, and whether it is a near constraint.
    """
    about = next((row for row in tables(outputs) if row["table_name"] == table), None)
    try:
        constraint = parse_near(text) if near else parse_constraint(text)
    except UsageError:
        return None
    columns = {} if about is None else about["columns"]
    schema = Schema(table, tuple(Column(name, parse_type(kind)) for name, kind in columns.items()))
    try:
        return query(constraint, quoted(table), schema=schema)
    except UnknownColumn:  # the table has lost it, or is not monitored any more
        return query(constraint, quoted(table))
