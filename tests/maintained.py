"""What tests ask of maintainers, wherever these have their rows."""

from holdfast.streaming.maintainers.table.maintainer import TableMaintainer
from holdfast.tables import Table
from holdfast.tables.columnar import encoded


def stored_table(maintainer: TableMaintainer) -> Table:
    """Return a table's rows. O(n)."""
    live, _ = maintainer.rows()
    columns = {name: live.column(name) for name in live.column_names}
    return encoded(maintainer.name, maintainer.schema.columns, columns, len(live))
