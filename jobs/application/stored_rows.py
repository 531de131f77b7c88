"""Reads the rows of a table from a state, for commands that answer about a live table as of its last commit.

Invariant: nothing is written, and another process may write to the state meanwhile.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from holdfast.constraints import StateMissing, StateRefused, UsageError
from holdfast.constraints.columns import unknown_name
from holdfast.jobs.application.opening import read_state
from holdfast.jobs.configuration.reading import Configuration
from holdfast.streaming.maintainers.holdings.contract import RowsDefinition
from holdfast.streaming.maintainers.holdings.in_memory import RowsInMemory
from holdfast.streaming.maintainers.table.bounds import NearBounds
from holdfast.streaming.maintainers.table.stored_definition import table_prefix
from holdfast.streaming.state_view import StateView
from holdfast.tables import Table


@dataclass(frozen=True)
class StoredTable:
    """The rows of a table of a state.

    Parameters
    ----------
    table : the rows.
    key : the columns that identify a row.
    near : the bounds of its near constraints; None where none are maintained.
    commit : the last commit.
    """

    table: Table
    key: tuple[str, ...]
    near: NearBounds | None
    commit: int


def named_tables(configuration: Configuration, table: str | None) -> Sequence[str]:
    """Return the named table, by default all tables."""
    names = [one.name for one in configuration.settings.tables]
    if table is not None and table not in names:
        raise UsageError(unknown_name(f"{configuration.file} has no table called", table, names))
    return names if table is None else [table]


def stored_table(configuration: Configuration, name: str, otherwise: str) -> StoredTable:
    """Return the rows of a table of a state, as of its last commit.

    Parameters
    ----------
    otherwise : what to read in place of a table in blocks, for the message.
    """
    with read_state(configuration) as (reader, _):
        view = StateView(reader)
        if name not in view.tables:
            raise StateMissing(
                f"{configuration.settings.state} holds no table {name} yet: holdfast run {configuration.file} seeds it"
            )
        if view.tables[name].engine == "spark":
            raise StateRefused(
                f"the rows of table {name} are in blocks, which this command does not read: use the {otherwise} in "
                "place of the configuration"
            )
        known = view.definition(name)
        definition = RowsDefinition(known.space, known.key, known.coding)
        holding = RowsInMemory.restored(reader, table_prefix(view.numbers[name]), definition)
        return StoredTable(holding.whole().table, tuple(known.key), known.bounds.near, view.commit)
