"""The answer of `check`: the verdicts on rules as lines for programs or for people, and their summary.

    broken  zip_city  2 pairs, 2 of 10 rows  not(t.Zip = s.Zip and t.City != s.City)
           Zip      City
        t  "01907"  "Swampscott"  tax.csv, line 2
        s  "01907"  "Lynn"        tax.csv, line 3

Invariant: a rule has result line for programs; for people result line, and its examples below it.
"""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from holdfast.constraints import InclusionDependency, Severity
from holdfast.display.texts import aligned, columns, counted, shown_value
from holdfast.jobs.terminal.formats import junit_text
from holdfast.jobs.terminal.options import Answering
from holdfast.jobs.terminal.output import json_line
from holdfast.jobs.terminal.sentences import sentence_fields, sentence_lines

if TYPE_CHECKING:
    from holdfast.discovery.detection.check import Checked, Example

_VERDICTS = _OK, _VIOLATED, _WARNING, _BROKEN = "ok", "violated", "broken (warning)", "broken"
_WIDEST_NAME = 40
_INDENT = " " * 4


def json_lines(checked: Sequence["Checked"], answering: Answering) -> Iterator[str]:
    """Yield a JSON line for each rule."""
    return (json_line(_fields(result, answering)) for result in checked)


def junit(checked: Sequence["Checked"], answering: Answering) -> str:
    """Return the verdicts in the XML of JUnit."""
    return junit_text((_fields(one, answering), _counts(one), list(_example_lines(one))) for one in checked)


def _fields(result: "Checked", answering: Answering) -> dict[str, Any]:
    rule = result.rule
    missing = {"missing_values": result.missing_values} if isinstance(rule.body, InclusionDependency) else {}
    return {
        "rule": rule.name,
        "table": rule.table,
        "constraint": rule.text,
        **(rule.body.named if isinstance(rule.body, InclusionDependency) else {}),
        "violating_pairs": result.violating_pairs,
        "violating_rows": result.violating_rows,
        **missing,
        "rows": result.rows,
        "holds": result.holds,
        "broken": result.broken,
        "severity": rule.severity.value,
        "threshold": rule.threshold,
        "examples": [example.to_json() for example in result.examples],
        **sentence_fields(rule.body, answering),
    }


def text_lines(checked: Sequence["Checked"], answering: Answering, *, named: bool) -> Iterator[str]:
    """Yield a line for each rule, with its examples below it; `named` adds the names of tables."""
    heads = [(_verdict(result), result.rule.name, _counts(result)) for result in checked]
    widths = [max(map(len, column)) for column in zip(*heads, strict=True)]
    widths[1] = min(widths[1], _WIDEST_NAME)
    for head, result in zip(heads, checked, strict=True):
        within = f"{result.rule.table}: " if named and not isinstance(result.rule.body, InclusionDependency) else ""
        text = "" if result.rule.name == result.rule.text and not within else within + result.rule.text
        yield f"{aligned([*head, text], [*widths, 0])}\n"
        yield from sentence_lines(result.rule.body, answering)
        yield from (f"{_INDENT}{line}\n" for line in _example_lines(result))


def summary(checked: Sequence["Checked"], tables: int) -> str:
    """Return how many rules have which verdict."""
    counts = Counter(map(_verdict, checked))
    found = ", ".join(f"{counts[verdict]:,} {verdict}" for verdict in _VERDICTS if counts[verdict])
    return f"{counted(len(checked), 'rule')} on {counted(tables, 'table')}: {found}"


def _verdict(result: "Checked") -> str:
    if result.holds:
        return _OK
    if not result.broken:
        return _VIOLATED
    return _BROKEN if result.rule.severity is Severity.ERROR else _WARNING


def _counts(result: "Checked") -> str:
    if result.violating_rows is None:
        return "stopped at the first violation"
    counts = [f"{result.violating_rows:,} of {counted(result.rows, 'row')}"]
    if result.violating_pairs is not None:
        counts.insert(0, counted(result.violating_pairs, "pair"))
    if result.missing_values is not None:
        counts.insert(0, counted(result.missing_values, "missing value"))
    return ", ".join(counts) + (f" ({result.rule.threshold})" if result.rule.threshold else "")


def _example_lines(result: "Checked") -> Iterator[str]:
    """Yield the rows of the examples below result another, so that differences can be seen."""
    if isinstance(result.rule.body, InclusionDependency):
        if result.examples:
            yield f"missing: {', '.join(shown_value(example.value) for example in result.examples)}"
        return
    lines = [line for example in result.examples for line in _rows(example, result.rule.columns)]
    if not lines:
        return
    names = [name for name in result.examples[0].images[0] if name in result.rule.columns]
    yield from columns([["", *names, ""], *lines])


def _rows(example: "Example", columns: frozenset[str]) -> Iterator[list[str]]:
    for row, image, place in zip("ts", example.images, example.places, strict=False):
        yield [row, *(shown_value(value) for name, value in image.items() if name in columns), place]
