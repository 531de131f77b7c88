"""Where the exceptions of a near constraint are, from the table `concentrations`: values that many of them have.

Invariant: the values of a constraint are shown as of the search that found them, whose commit is with them.
"""

import json
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds

from holdfast.dashboard.reading.outputs import Outputs
from holdfast.dashboard.reading.wording import Shown, cell

_READ = (
    *("table_name", "place", "column", "value", "exceptions", "of_exceptions", "rows", "of_rows", "holds_elsewhere"),
    *("rules", "as_of_commit"),
)
_COUNTS = ("exceptions", "of_exceptions", "rows", "of_rows", "holds_elsewhere", "as_of_commit")


def concentrations_of(outputs: Outputs, constraint_id: str, rule_line: Callable[[str, str], str] | None) -> list[Shown]:
    """Return the values in which the exceptions of a constraint are concentrated, the surest first. O(values).

    Parameters
    ----------
    rule_line : returns the line that declares a rule, given table and text; None where no lines are offered.
    """
    found = outputs.read("concentrations", _READ, ds.field("constraint_id").cast(pa.string()) == constraint_id)
    return [_shown(row, rule_line) for row in found.sort_by("place").to_pylist()]


def _shown(row: dict[str, Any], rule_line: Callable[[str, str], str] | None) -> Shown:
    rules: list[str] = json.loads(row["rules"])
    lines = None if rule_line is None else [rule_line(row["table_name"], text) for text in rules]
    return {
        **{name: row[name] for name in _COUNTS},
        "column": row["column"],
        "value": cell(json.loads(row["value"])),
        "share": row["rows"] / row["of_rows"],
        "rules": rules,
        "rule_lines": lines or None,
    }
