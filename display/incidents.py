"""Incidents in words: what one commit did to the constraints of a table, and the rows that did it.

The rows that did it are found in the witnesses: the rows that prove the changes. A row that is in most witnesses of a
commit is named, since what one wrong row does to many constraints is one event.
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.constraints import HoldfastError
from holdfast.constraints.forms import simplest_form
from holdfast.constraints.parsing import parse_rule_body
from holdfast.display.short_forms import short_form
from holdfast.display.texts import counted

LOST, RECOVERED = "lost", "recovered"
DIRECTIONS = (LOST, RECOVERED)

_MOST_NAMED = 2
_MOST_CELLS = 3
_LONGEST_CELL = 40

Image = Mapping[str, Any]
"""A row of a witness: `key` and `row`, by column."""


@dataclass(frozen=True)
class SharedRows:
    """The rows that are in most witnesses of a commit.

    Parameters
    ----------
    rows : the rows; two rows are in equally many witnesses.
    count, of : in how many witnesses they are, and how many witnesses there are.
    """

    rows: Sequence[Image]
    count: int
    of: int


@dataclass(frozen=True)
class Incident:
    """What one commit did to the constraints of one table, in one direction.

    Parameters
    ----------
    table, commit, direction : the table, the commit, and `LOST` or `RECOVERED`.
    lost, nearly, recovered : how many constraints ended, are nearly lost, and recovered.
    jumped : how many of those nearly lost, or recovered, had exceptions before, and have exceptions now.
    sound : how many of them are sound, as far as that is known; None where it is not.
    first : the constraint that means most, as a text.
    shared : the rows that did it; None where no row is in most witnesses.
    position : the position of the batch in its source, in words; None if unknown.
    """

    table: str
    commit: int
    direction: str
    lost: int = 0
    nearly: int = 0
    recovered: int = 0
    jumped: int = 0
    sound: int | None = None
    first: str | None = None
    shared: SharedRows | None = None
    position: str | None = None

    def __str__(self) -> str:
        """Return the incident as a sentence.

        >>> row = {"key": {"Id": 7}, "row": {"Zip": "02139"}}
        >>> shared = SharedRows([row], 41, 42)
        >>> print(Incident("tax", 118, "lost", 42, sound=3, first="Zip -> City", shared=shared))
        42 constraints of tax ended with commit 118, 41 of 42 by row Id 7; 3 are sound, first Zip -> City
        >>> print(Incident("tax", 119, "recovered", recovered=1, first="Zip -> City", position="file orders-17.json"))
        1 constraint of tax recovered with commit 119 (file orders-17.json): Zip -> City
        >>> print(Incident("tax", 120, "lost", 2, nearly=3, jumped=1))
        2 constraints of tax ended and 3 have first or many more exceptions with commit 120
        """
        where = f" with commit {self.commit:,}" + (f" ({self.position})" if self.position else "")
        return f"{self._happened}{where}{_by(self.shared, self.direction, self.total)}{self._first}"

    @property
    def total(self) -> int:
        """The number of constraints."""
        return self.lost + self.nearly + self.recovered

    @property
    def _happened(self) -> str:
        """Return what happened to how many constraints."""
        have = "has" if self.nearly + self.recovered == 1 else "have"
        many, fewer = self.jumped > 0, self.jumped < self.nearly + self.recovered
        if self.direction == RECOVERED:
            words = ["recovered"] * fewer + [f"{have} many fewer exceptions"] * many
            return f"{counted(self.recovered, 'constraint')} of {self.table} {' or '.join(words)}"
        words = ["first"] * fewer + ["many more"] * many
        nearly = f"{have} {' or '.join(words)} exceptions"
        if not self.lost:
            return f"{counted(self.nearly, 'constraint')} of {self.table} {nearly}"
        ended = f"{counted(self.lost, 'constraint')} of {self.table} ended"
        return f"{ended} and {self.nearly:,} {nearly}" if self.nearly else ended

    @property
    def _first(self) -> str:
        """Return how many constraints are sound, and the first one."""
        is_one = self.total == 1
        sound = None if not self.sound or is_one else f"{self.sound:,} {'is' if self.sound == 1 else 'are'} sound"
        if self.first is None:
            return "" if sound is None else f"; {sound}"
        if is_one:
            return f": {self.first}"
        return f"; {sound}, first {self.first}" if sound else f"; first {self.first}"


def shared_rows(witnesses: Iterable[Sequence[Any]]) -> SharedRows | None:
    """Return the rows that are in most of some witnesses; None where there are none, or more than two.

    A row is in most witnesses if it is in more than half of them, and in as many as any other. Rows are the same where
    their keys are, or without keys their values. Witnesses that have no rows do not count.

    >>> one, two, three = ({"key": {"Id": number}, "row": {}} for number in (1, 2, 3))
    >>> found = shared_rows([[one, two], [three, one], [one]])
    >>> [row["key"] for row in found.rows], found.count, found.of
    ([{'Id': 1}], 3, 3)
    """
    counts: Counter[str] = Counter()
    images: dict[str, Image] = {}
    of = 0
    for witness in witnesses:
        named = {_identity(image): image for image in witness if _is_row(image)}
        of += bool(named)
        counts.update(named.keys())
        for name, image in named.items():
            images.setdefault(name, image)
    most = max(counts.values(), default=0)
    rows = [images[name] for name, count in counts.items() if count == most]
    if not rows or 2 * most <= of or len(rows) > _MOST_NAMED:
        return None
    return SharedRows(rows, most, of)


def row_in_words(image: Image) -> str:
    """Return the key of a row, or its first values, on one line.

    >>> row_in_words({"key": {"Id": 7}, "row": {"Zip": "02139"}}), row_in_words({"key": None, "row": {"Zip": None}})
    ('Id 7', 'Zip null')
    """
    cells = [f"{name} {_cell(value)}" for name, value in (image["key"] or image["row"] or {}).items()]
    more = ", …" if len(cells) > _MOST_CELLS else ""
    return ", ".join(cells[:_MOST_CELLS]) + more


def short_text(text: str) -> str:
    """Return a constraint in the shortest usual form; the text itself where there is none.

    >>> short_text("not(t.Zip = s.Zip and t.City != s.City)"), short_text("not(t.Id = s.Id)")
    ('Zip -> City', 'key(Id)')
    >>> short_text("{State}: Salary ~ Rate"), short_text("{}: [] -> State")
    ('{State}: Salary ~ Rate', '-> State')
    """
    try:
        form = simplest_form(parse_rule_body(text))
    except HoldfastError:  # a text of a later version
        return text
    return text if form is None else short_form(form)


def _by(shared: SharedRows | None, direction: str, total: int) -> str:
    """Return which rows did it, and to how many of the constraints."""
    if shared is None:
        return ""
    names = " and ".join(map(row_in_words, shared.rows))
    is_one = len(shared.rows) == 1
    rows = f"row {names}" if is_one else f"the rows {names}"
    amount = "" if total == 1 else "all " if shared.count == shared.of == total else f"{shared.count:,} of {total:,} "
    if direction == RECOVERED:
        return f", {amount}since {rows} {'is' if is_one else 'are'} gone or changed"
    return f", {amount}by {rows}"


def _identity(image: Image) -> str:
    return json.dumps(image["key"] or image["row"], sort_keys=True)


def _is_row(image: Any) -> bool:
    return isinstance(image, dict) and {"key", "row"} <= image.keys() and bool(image["key"] or image["row"])


def _cell(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST_CELL else f"{text[:_LONGEST_CELL]}…"
