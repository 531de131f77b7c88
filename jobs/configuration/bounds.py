"""Which constraints a configuration maintains on a table."""

from holdfast.jobs.configuration.settings import Settings
from holdfast.jobs.configuration.table_settings import TableSettings
from holdfast.streaming.maintainers.near.suspects import SuspectBatches
from holdfast.streaming.maintainers.table.bounds import Bounds, NearBounds


def bounds_of(table: TableSettings, settings: Settings) -> Bounds:
    """Return the families that are maintained on a table, with the sizes of their largest constraints."""
    denial, order, near = settings.constraints.denial, settings.constraints.order, table.near
    orders = settings.engine == "embedded" if near is None or near.orders is None else near.orders
    return Bounds(
        None if denial is None else denial.max_predicates,
        None if order is None else order.max_context,
        None if near is None else NearBounds(near.share, near.max_context, orders),
    )


def suspect_batches(settings: Settings) -> dict[str, SuspectBatches]:
    """Return how often suspects are searched, by the name of each table whose suspects are: in memory alone."""
    found = {}
    for table in settings.tables if settings.engine == "embedded" else ():
        every = "off" if table.near is None else table.near.suspects
        if every != "off":
            found[table.name] = SuspectBatches(None if every == "auto" else every)
    return found
