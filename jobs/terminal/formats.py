"""Answers of commands in the formats of other programs: CSV for spreadsheets, JUnit's XML for continuous integration.

Both are made of the JSON lines of a command, so that they say the same.

Invariant: a CSV file has one row for each JSON line, and a column for each of their fields; JUnit's has a test case for
each rule, which fails if the rule is broken and of severity error.
"""

import csv
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any
from xml.etree import ElementTree as Xml

from holdfast.display.texts import printable

Fields = Mapping[str, Any]


def csv_lines(lines: Iterable[str]) -> Iterator[str]:
    r"""Yield JSON lines as lines of a CSV file with a header; lists and mappings stay JSON. O(lines) of memory.

    >>> list(csv_lines(['{"rule": "a, b", "rows": 2}\n', '{"rule": "c", "examples": [1], "rows": null}\n']))
    ['rule,rows,examples\n', '"a, b",2,\n', 'c,,[1]\n']
    """
    rows = [json.loads(line) for line in lines]
    names = list(dict.fromkeys(name for row in rows for name in row))
    if names:
        yield _row(names)
    for row in rows:
        yield _row([_cell(row.get(name)) for name in names])


def _row(cells: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def junit_text(checked: Iterable[tuple[Fields, str, Sequence[str]]]) -> str:
    """Return the verdicts on rules as JUnit's XML, a suite for each table.

    Parameters
    ----------
    checked : for each rule its JSON fields, its counts in words, and its lines of examples.
    """
    root = Xml.Element("testsuites", name="holdfast")
    suites: dict[str, Xml.Element] = {}
    for fields, counts, examples in checked:
        table = printable(fields["table"])
        suite = suites.get(table)
        if suite is None:
            suite = suites[table] = Xml.SubElement(root, "testsuite", name=table)
        case = Xml.SubElement(suite, "testcase", classname=table, name=printable(fields["rule"]))
        if fields["holds"]:
            continue
        is_failure = fields["broken"] and fields["severity"] == "error"
        kind = "failure" if is_failure else "system-out"
        told = Xml.SubElement(case, kind, {"message": counts, "type": "broken"} if is_failure else {})
        told.text = "\n".join(map(printable, [f"{fields['constraint']}: {counts}", *examples]))
    for some in (root, *suites.values()):
        some.set("tests", str(len(some.findall(".//testcase"))))
        some.set("failures", str(len(some.findall(".//failure"))))
    Xml.indent(root)
    return f'<?xml version="1.0" encoding="UTF-8"?>\n{Xml.tostring(root, encoding="unicode")}\n'
