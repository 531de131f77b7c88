"""Holdfast keeps the exact set of constraints that hold on live tables.

Everything public is imported from here. Names are looked up on first use, so that importing the package is quick
and loads no engine.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.constraints import (
        HoldfastError,
        PredicateSpace,
        Rule,
        parse_constraint,
        parse_denial,
        parse_inclusion,
        parse_near,
        parse_order,
        parse_rule_body,
        sentence,
    )
    from holdfast.constraints.queries import query, suspect_query
    from holdfast.discovery.detection.check import Checked
    from holdfast.discovery.inclusion.discover import discover_inclusions
    from holdfast.jobs.frames import check, discover, suspects
    from holdfast.streaming.maintainers.batches import Batches
    from holdfast.streaming.maintainers.inclusion.across import InclusionsAcross
    from holdfast.streaming.maintainers.maintainer import Maintainer
    from holdfast.tables import ReadOptions, Table, from_arrow, from_pandas, read_table

__version__ = "0.1.0"

__all__ = [
    "Batches",
    "Checked",
    "HoldfastError",
    "InclusionsAcross",
    "Maintainer",
    "PredicateSpace",
    "ReadOptions",
    "Rule",
    "Table",
    "__version__",
    "check",
    "discover",
    "discover_inclusions",
    "from_arrow",
    "from_pandas",
    "parse_constraint",
    "parse_denial",
    "parse_inclusion",
    "parse_near",
    "parse_order",
    "parse_rule_body",
    "query",
    "read_table",
    "sentence",
    "suspect_query",
    "suspects",
]

_HOMES = {
    **dict.fromkeys(("query", "suspect_query"), "holdfast.constraints.queries"),
    **dict.fromkeys(("ReadOptions", "Table", "from_arrow", "from_pandas", "read_table"), "holdfast.tables"),
    "Batches": "holdfast.streaming.maintainers.batches",
    "InclusionsAcross": "holdfast.streaming.maintainers.inclusion.across",
    "Maintainer": "holdfast.streaming.maintainers.maintainer",
    "Checked": "holdfast.discovery.detection.check",
    **dict.fromkeys(("check", "discover", "suspects"), "holdfast.jobs.frames"),
    "discover_inclusions": "holdfast.discovery.inclusion.discover",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module 'holdfast' has no attribute '{name}'")
    module = import_module(_HOMES.get(name, "holdfast.constraints"))
    value = globals()[name] = getattr(module, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
