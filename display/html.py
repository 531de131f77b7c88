"""HTML for notebooks: tables for dark and light themes, without scripts and external content.

    heading                                      the number and kind of the items
    table        headings; a row per item        cells: words, a text as code below them, rows side by side
    note         the number of items left out

Invariant: every text is escaped by `escaped`: no value of the data becomes markup, changes the direction of the text
around it, or makes a cell too long to read; the full text of a truncated value is in `title`.
"""

import html
from collections.abc import Sequence
from dataclasses import dataclass, field

from holdfast.constraints import Value, json_value
from holdfast.display.texts import counted, printable
from holdfast.display.witness import Witness

LONGEST_VALUE, LONGEST_TEXT, LONGEST_TITLE = 80, 400, 4_000

_STYLE = """
.holdfast {font-size: 13px; line-height: 1.4; color: inherit; max-width: 100%; overflow-x: auto}
.holdfast table {border-collapse: collapse; margin: .3em 0; color: inherit; background: transparent; font-size: 13px}
.holdfast table td, .holdfast table th {text-align: left; vertical-align: top; padding: .25em .7em; color: inherit;
  border: 0; border-bottom: 1px solid rgba(128,128,128,.35); background: transparent; white-space: normal}
.holdfast table th {font-weight: 600}
.holdfast table td.n {text-align: right; font-variant-numeric: tabular-nums}
.holdfast code {font-size: 12px; color: inherit; background: rgba(128,128,128,.14); padding: .05em .3em;
  border-radius: 3px; overflow-wrap: anywhere; white-space: pre-wrap}
.holdfast .v {overflow-wrap: anywhere; white-space: pre-wrap}
.holdfast .q {opacity: .72}
.holdfast mark {color: inherit; background: rgba(255,165,0,.32); border-bottom: 2px solid rgb(217,119,6);
  padding: 0 .15em}
.holdfast .bad, .holdfast .good {white-space: nowrap}
.holdfast .bad {font-weight: 700; border-left: 3px solid rgb(220,80,60); padding-left: .4em}
.holdfast .good {border-left: 3px solid rgb(60,160,90); padding-left: .4em}
.holdfast details summary {cursor: pointer}
""".strip()


@dataclass(frozen=True)
class TableCell:
    """A cell of a table.

    Parameters
    ----------
    text : the words of the cell.
    code : a text that can be parsed, shown below the words.
    tone : `good`, `bad` or empty.
    is_number : whether the cell is aligned to the right.
    witnesses : rows that are shown as a proof.
    """

    text: str = ""
    code: str = ""
    tone: str = ""
    is_number: bool = False
    witnesses: Sequence[Witness] = field(default=())


def listed(heading: str, headings: Sequence[str], lines: Sequence[Sequence[TableCell]], note: str = "") -> str:
    """Return a table of items as HTML.

    >>> shown = listed("1 rule", ["rule"], [[TableCell("<script>alert(1)</script>")]])
    >>> "<script" in shown, "&lt;script&gt;" in shown
    (False, True)
    """
    parts = [f"<style>{_STYLE}</style><div>{escaped(heading, LONGEST_TEXT)}</div>"]
    if lines:
        head = "".join(f'<th scope="col">{escaped(name, LONGEST_TEXT)}</th>' for name in headings)
        body = "".join(f"<tr>{''.join(map(_cell, line))}</tr>" for line in lines)
        parts.append(f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>")
    if note:
        parts.append(f'<div class="q">{escaped(note, LONGEST_TEXT)}</div>')
    return f'<div class="holdfast">{"".join(parts)}</div>'


def escaped(text: str, longest: int) -> str:
    r"""Return a text as HTML: truncated to a length, with invisible and control characters as escapes.

    >>> print(escaped("a < b\u202e\0", 80))
    <bdi>a &lt; b\u202e\u0000</bdi>
    >>> print(escaped("abcdef", 4))
    <bdi title="abcdef">abc…</bdi>
    """
    if len(text) <= longest:
        return f"<bdi>{_visible(text)}</bdi>"
    whole = text if len(text) <= LONGEST_TITLE else f"{text[:LONGEST_TITLE]}… ({len(text):,} characters)"
    return f'<bdi title="{_visible(whole)}">{_visible(text[: longest - 1])}…</bdi>'


def _visible(text: str) -> str:
    return html.escape(printable(text), quote=True)


def _cell(cell: TableCell) -> str:
    parts = []
    if cell.text:
        parts.append(f'<div class="{cell.tone or "v"}">{escaped(cell.text, LONGEST_TEXT)}</div>')
    if cell.code:
        parts.append(f"<code>{escaped(cell.code, LONGEST_TEXT)}</code>")
    parts += [_witness(witness) for witness in cell.witnesses]
    return f"<td{' class=n' if cell.is_number else ''}>{''.join(parts)}</td>"


def _witness(witness: Witness) -> str:
    """Return rows side by side, a line per column: compared columns first, the others folded."""
    if not witness.rows:
        return f'<div class="v">{_value(witness.value)}</div>'
    names = witness.names
    compared = [name for name in names if name in witness.compared] or names
    others = [name for name in names if name not in compared]
    folded = ""
    if others:
        differing = sum(map(witness.differs, others))
        summary = counted(len(others), "other column") + (f", {differing:,} of them different" if differing else "")
        folded = f"<details><summary>{summary}</summary>{_side_by_side(witness, others)}</details>"
    return _side_by_side(witness, compared) + folded


def _side_by_side(witness: Witness, names: Sequence[str]) -> str:
    heads = "".join(f'<th scope="col">{escaped(place, LONGEST_VALUE)}</th>' for place in witness.headings)
    lines = []
    for name in names:
        values = [_value(row.get(name)) for row in witness.rows]
        if witness.differs(name):
            values = [f"<mark>{value}</mark>" for value in values]
        cells = "".join(f'<td class="v">{value}</td>' for value in values)
        lines.append(f'<tr><th scope="row">{escaped(name, LONGEST_VALUE)}</th>{cells}</tr>')
    return f"<table><thead><tr><td></td>{heads}</tr></thead><tbody>{''.join(lines)}</tbody></table>"


def _value(value: Value) -> str:
    if value is None:
        return '<span class="q"><i>null</i></span>'
    if isinstance(value, bool):
        return str(value).lower()  # as in texts of constraints
    return escaped(str(json_value(value)) or '""', LONGEST_VALUE)
