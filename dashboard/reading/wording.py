"""Constraints in words, and rows as proofs, in the form that the page shows.

Invariant: every cell is a text or null, since numbers of JavaScript do not have 64 bits.
"""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import Any

from holdfast.constraints import DenialConstraint, HoldfastError, InclusionDependency, NullsApart, OrderDependency
from holdfast.constraints.conditions import Condition
from holdfast.constraints.parsing import parse_rule_body
from holdfast.constraints.sentences import sentence

LONGEST_CELL = 1_000
_MOST_COLUMNS = 60

Shown = dict[str, Any]


@lru_cache(maxsize=20_000)
def named_columns(text: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the columns that a constraint names of its first and its second row, in its order.

    >>> named_columns("not(t.Zip = s.Zip and t.Low > s.High)")
    (('Zip', 'Low'), ('Zip', 'High'))
    >>> named_columns("{State}: Salary ~ Rate")
    (('State', 'Salary', 'Rate'), ('State', 'Salary', 'Rate'))
    >>> named_columns("not(t.Salary <= 0)"), named_columns("Zip -> City nulls apart")
    ((('Salary',), ()), (('Zip', 'City'), ('Zip', 'City')))
    """
    body = _parsed(text)
    if isinstance(body, DenialConstraint):
        predicates = body.predicates
        return _once([p.left for p in predicates]), _once([p.right for p in predicates])
    if isinstance(body, OrderDependency):
        columns = _once([*body.context, *body.target])
        return columns, columns
    if isinstance(body, InclusionDependency):
        return (body.dependent.column,), (body.referenced.column,)
    if isinstance(body, NullsApart):
        return named_columns(text.removesuffix(" nulls apart"))
    if isinstance(body, Condition):
        cells = [cell for atom in body.atoms for cell in atom.cells]
        first, second = ([cell.column for cell in cells if cell.row == row] for row in "ts")
        return _once(first), _once(second)
    return (), ()


@lru_cache(maxsize=20_000)
def in_words(text: str | None) -> str | None:
    """Return a constraint, or the condition of a rule, as a sentence; None for a text that cannot be parsed.

    >>> in_words("not(t.Zip = s.Zip and t.City != s.City)")
    'Rows with the same Zip have the same City.'
    """
    body = None if text is None else _parsed(text)
    if body is None:
        return None
    return sentence(body)


def witness(text: str | None, constraint: str) -> Shown | None:
    """Return the rows, or the value, that prove a change; None where there is no proof.

    Parameters
    ----------
    text : the witness in `constraint_changes`.
    """
    images = json.loads(text) if text else []
    if not images:
        return None
    if len(images) == 1 and not _is_image(images[0]):
        return {"columns": [], "rows": [], "value": cell(images[0])}
    rows = [image if _is_image(image) else {"key": {}, "row": {}} for image in images]
    return side_by_side([row["key"] or {} for row in rows], [row["row"] or {} for row in rows], constraint)


def side_by_side(keys: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]], constraint: str) -> Shown:
    """Return rows side by side: first the columns that the constraint names, then the key, then all others.

    Each column has for each row whether the constraint names it, and whether the rows differ in it.

    >>> given = [{"Id": 1, "Zip": "02139", "City": "Cambridge"}, {"Id": 2, "Zip": "02139", "City": "Boston"}]
    >>> found = side_by_side([{"Id": 1}, {"Id": 2}], given, "not(t.Zip = s.Zip and t.City != s.City)")
    >>> [(column["name"], column["spoken"], column["differs"]) for column in found["columns"]]
    [('Zip', [True, True], False), ('City', [True, True], True), ('Id', [False, False], True)]
    """
    first, second = named_columns(constraint)
    whole = [{**row, **key} for key, row in zip(keys, rows, strict=True)]
    names = _once([*first, *second, *(name for key in keys for name in key), *(name for row in whole for name in row)])
    there = [name for name in names if any(name in row for row in whole)]
    shown = there[:_MOST_COLUMNS]
    spoken = [set(first), set(second)]
    keyed = {name for key in keys for name in key}
    columns = [
        {
            "name": name,
            "spoken": [name in side for side in spoken[: len(whole)]],
            "differs": len({json.dumps(row.get(name)) for row in whole}) > 1,
            "key": name in keyed,
        }
        for name in shown
    ]
    cells = [[cell(row.get(name)) for name in shown] for row in whole]
    ids = [row_id(key, row) for key, row in zip(keys, rows, strict=True)]
    return {"columns": columns, "rows": cells, "row_ids": ids, "value": None, "left_out": len(there) - len(shown)}


def rows_below(keys: Sequence[Mapping[str, Any]], rows: Sequence[Mapping[str, Any]], constraint: str) -> Shown:
    """Return rows below one another: first the columns that the constraint names, then the key, then all others.

    >>> found = rows_below([{"Id": 3}], [{"City": "Lynn", "Id": 3, "Zip": "01907", "State": "MA"}], "Zip -> City")
    >>> [(column["name"], column["spoken"], column["key"]) for column in found["columns"]]
    [('Zip', True, False), ('City', True, False), ('Id', False, True), ('State', False, False)]
    """
    shown = side_by_side(keys, rows, constraint)
    columns = [
        {"name": column["name"], "spoken": any(column["spoken"]), "key": column["key"]} for column in shown["columns"]
    ]
    return {"columns": columns, **{name: shown[name] for name in ("rows", "row_ids", "left_out")}}


def row_id(key: Mapping[str, Any], row: Mapping[str, Any]) -> str:
    """Return an id of a row by its key and all its values, the same wherever the output tables have the row.

    >>> row_id({"Id": 1}, {"Id": 1, "Zip": None}) == row_id({"Id": 1}, {"Zip": None, "Id": 1})
    True
    """
    return sha256(json.dumps([key, row], sort_keys=True).encode()).hexdigest()[:16]


def cell(value: Any) -> str | None:
    """Return a cell as text; None for null.

    >>> cell(True), cell(12345678901234567890), cell("a"), cell(None), cell([1])
    ('true', '12345678901234567890', 'a', None, '[1]')
    """
    if value is None:
        return None
    return cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def cut(text: str, most: int = LONGEST_CELL) -> str:
    """Return a text, or the beginning of a long text with its length.

    >>> cut("abcdef", 3)
    'abc… (6 characters)'
    """
    return text if len(text) <= most else f"{text[:most]}… ({len(text):,} characters)"


def _is_image(image: Any) -> bool:
    return isinstance(image, dict) and image.keys() == {"key", "row"}


def _parsed(text: str) -> Any:
    """Return the constraint or rule of a text; None where it cannot be parsed, as one of a later version."""
    try:
        return parse_rule_body(text)
    except HoldfastError:
        return None


def _once(names: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(names))
