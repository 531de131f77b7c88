"""What `check` says of rules: lines for programs, lines for people, and what they came to.

    broken  zip_city  2 pairs, 2 of 10 rows  not(t.Zip = s.Zip and t.City != s.City)
           Zip      City
        t  "01907"  "Swampscott"  tax.csv, line 2
        s  "01907"  "Lynn"        tax.csv, line 3

Invariant: a rule has one line for programs; for people one line, and its examples below it.
"""

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from holdfast.constraints import InclusionDependency, Severity, Value, json_value
from holdfast.jobs.terminal.counts import counted
from holdfast.jobs.terminal.options import Answering
from holdfast.jobs.terminal.output import json_line
from holdfast.jobs.terminal.sentences import said_fields, said_lines

if TYPE_CHECKING:
    from holdfast.discovery.detection.check import Checked, Example

_VERDICTS = _OK, _VIOLATED, _WARNING, _BROKEN = "ok", "violated", "broken (warning)", "broken"
_WIDEST_NAME = 40
_LONGEST_VALUE = 100
_INDENT = " " * 4


def json_lines(checked: Sequence["Checked"], answering: Answering) -> Iterator[str]:
    """Return a line a rule."""
    for one in checked:
        rule = one.rule
        missing = {"missing_values": one.missing_values} if isinstance(rule.body, InclusionDependency) else {}
        yield json_line(
            {
                "rule": rule.name,
                "table": rule.table,
                "constraint": rule.text,
                **(rule.body.named if isinstance(rule.body, InclusionDependency) else {}),
                "violating_pairs": one.violating_pairs,
                "violating_rows": one.violating_rows,
                **missing,
                "rows": one.rows,
                "holds": one.holds,
                "broken": one.broken,
                "severity": rule.severity.value,
                "threshold": rule.threshold,
                "examples": [example.to_json() for example in one.examples],
                **said_fields(rule.body, answering),
            }
        )


def text_lines(checked: Sequence["Checked"], answering: Answering, *, named: bool) -> Iterator[str]:
    """Return rules as people read them, with their tables' names where `named`."""
    heads = [(_verdict(one), one.rule.name, _counts(one)) for one in checked]
    widths = [max(map(len, column)) for column in zip(*heads, strict=True)]
    widths[1] = min(widths[1], _WIDEST_NAME)
    for head, one in zip(heads, checked, strict=True):
        within = f"{one.rule.table}: " if named and not isinstance(one.rule.body, InclusionDependency) else ""
        text = "" if one.rule.name == one.rule.text and not within else within + one.rule.text
        yield f"{aligned([*head, text], [*widths, 0])}\n"
        yield from said_lines(one.rule.body, answering)
        yield from (f"{_INDENT}{line}\n" for line in _example_lines(one))


def summary(checked: Sequence["Checked"], tables: int) -> str:
    """Return what all rules came to, on a line."""
    counts = Counter(map(_verdict, checked))
    found = ", ".join(f"{counts[verdict]:,} {verdict}" for verdict in _VERDICTS if counts[verdict])
    return f"{counted(len(checked), 'rule')} on {counted(tables, 'table')}: {found}"


def _verdict(one: "Checked") -> str:
    if one.holds:
        return _OK
    if not one.broken:
        return _VIOLATED
    return _BROKEN if one.rule.severity is Severity.ERROR else _WARNING


def _counts(one: "Checked") -> str:
    if one.violating_rows is None:
        return "stopped at the first violation"
    counts = [f"{one.violating_rows:,} of {counted(one.rows, 'row')}"]
    if one.violating_pairs is not None:
        counts.insert(0, counted(one.violating_pairs, "pair"))
    if one.missing_values is not None:
        counts.insert(0, counted(one.missing_values, "missing value"))
    return ", ".join(counts) + (f" ({one.rule.threshold})" if one.rule.threshold else "")


def _example_lines(one: "Checked") -> Iterator[str]:
    """Return the rows of examples below one another, so that one sees where they differ."""
    if isinstance(one.rule.body, InclusionDependency):
        if one.examples:
            yield f"missing: {', '.join(shown_value(example.value) for example in one.examples)}"
        return
    lines = [line for example in one.examples for line in _rows(example, one.rule.columns)]
    if not lines:
        return
    names = [name for name in one.examples[0].images[0] if name in one.rule.columns]
    lines.insert(0, ["", *names, ""])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        yield aligned(line, widths)


def _rows(example: "Example", columns: frozenset[str]) -> Iterator[list[str]]:
    for row, image, place in zip("ts", example.images, example.places, strict=False):
        yield [row, *(shown_value(value) for name, value in image.items() if name in columns), place]


def aligned(cells: Sequence[str], widths: Sequence[int]) -> str:
    """Return cells on a line, each as wide as its column."""
    return "  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()


def shown_value(value: Value) -> str:
    """Return a value as JSON has it, cut where it is long."""
    text = json.dumps(json_value(value), ensure_ascii=False)
    return text if len(text) <= _LONGEST_VALUE else text[: _LONGEST_VALUE - 3] + "..."
