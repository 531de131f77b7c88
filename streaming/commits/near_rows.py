"""The rows of a commit about constraints that nearly hold: for `near_constraints`, `near_changes` and `exceptions`.

Invariant: the sum of `near_changes` is `near_constraints`; rows that an earlier state published are not repeated.
"""

import json
from collections.abc import Iterator, Mapping, Sequence

from holdfast.constraints import NearConstraint, NearShape, constraint_fields, constraint_id
from holdfast.constraints.sentences import sentence
from holdfast.streaming.commits.output_rows import OutputRows, Row, as_json
from holdfast.streaming.maintainers.maintainer import Maintainer
from holdfast.streaming.maintainers.near.changes import ENTERED, EXCEPTIONS, LEFT, NearChange, NearExample
from holdfast.streaming.maintainers.table.batch_result import BatchResult

_ROWS_OF_A_CHANGE = 3
_AMENDED = ("constraint_id", "sentence", "exceptions", "rows", "share")


def near_of_batch(rows: OutputRows, maintainer: Maintainer, batch_id: int, result: BatchResult) -> None:
    """Add the rows about the near constraints that a batch changed."""
    fresh: dict[str, list[NearExample]] = {}
    for example in result.exceptions_shown:
        fresh.setdefault(str(example.constraint), []).append(example)
    entered = [change.constraint for change in result.near if change.change == ENTERED]
    strengths = dict(zip(map(str, entered), _strengths(maintainer, entered), strict=True))
    for change in result.near:
        text = str(change.constraint)
        examples = [example.row.to_json() for example in fresh.get(text, ())[:_ROWS_OF_A_CHANGE]]
        more = {"batch_id": batch_id, "examples": as_json(examples)}
        _add_change(rows, maintainer.name, change, {**more, "cause": "data"}, strengths.get(text))
    _add_examples(rows, maintainer.name, result.exceptions_shown, result.exceptions_hidden)


def near_of_seed(
    rows: OutputRows,
    maintainers: Sequence[Maintainer],
    known: Sequence[Row],
    shown: Sequence[Row],
    cause: str | None,
) -> None:
    """Add the rows about the near constraints of seeded tables: the difference from the rows published already.

    Parameters
    ----------
    known, shown : the published rows of `near_constraints` and of `exceptions`.
    cause : the cause of the seed, if it is neither the first seed nor a rebuild.
    """
    fields = {"cause": cause or ("rebuild" if known else "seed")}
    left = {row["constraint_id"]: row for row in known}
    gone = {row["example_id"]: bool(row["undecided"]) for row in shown}
    for maintainer in maintainers:
        table, constraints = maintainer.name, maintainer.near
        entered: list[NearConstraint] = []
        for one in constraints:
            before = left.pop(constraint_id(one, table), None)
            if before is None:
                entered.append(one)
            elif before["exceptions"] != one.exceptions:
                _add_change(rows, table, NearChange(one, EXCEPTIONS, before["exceptions"]), fields)
        for one, strength in zip(entered, _strengths(maintainer, entered), strict=True):
            _add_change(rows, table, NearChange(one, ENTERED, None), fields, strength)
        examples = maintainer.near_examples
        fresh = [one for one in examples if gone.pop(one.example_id(table), None) != one.undecided]
        _add_examples(rows, table, fresh, ())
    by_table: dict[str, list[NearConstraint]] = {}
    for row in left.values():
        by_table.setdefault(row["table_name"], []).append(_constraint_of(row))
    counted = {maintainer.name: maintainer.near_maintainer for maintainer in maintainers}
    for table, some in by_table.items():
        near = counted.get(table)
        known_reasons = [None] * len(some) if near is None else near.reasons_left(some)
        for one, reason in zip(some, known_reasons, strict=True):
            _add_change(rows, table, NearChange(one, LEFT, one.exceptions, reason), fields)
    for name in gone:
        rows.add("exceptions", {"example_id": name, "_gone": True})


def _strengths(maintainer: Maintainer, entered: Sequence[NearConstraint]) -> list[float | None]:
    """Return the strengths of constraints that nearly hold now; none where near constraints are not maintained."""
    return [] if maintainer.near_maintainer is None else maintainer.near_maintainer.strengths(entered)


def _add_change(
    rows: OutputRows, table: str, change: NearChange, more: Mapping[str, object], strength: float | None = None
) -> None:
    """Add a row about a change, and the corresponding row of `near_constraints`."""
    about = dict(_about(change.constraint, table))
    row = {"source": table, **about, "change": change.change, "reason": change.reason}
    row["exceptions_before"] = change.before
    rows.add("near_changes", {**row, **more, "committed_at": rows.at, "date": rows.at[:10]})
    if change.change == ENTERED:
        since = {"since_commit": rows.commit, "since": rows.at}
        rows.add("near_constraints", {**about, **since, "strength": strength})
    elif change.change == LEFT:
        rows.add("near_constraints", {"constraint_id": about["constraint_id"], "_gone": True})
    else:
        rows.add("near_constraints", {**{name: about[name] for name in _AMENDED}, "_amends": True})


def _add_examples(rows: OutputRows, table: str, shown: Sequence[NearExample], hidden: Sequence[NearExample]) -> None:
    """Add rows that remove the hidden examples, then rows with the shown ones."""
    for example in hidden:
        rows.add("exceptions", {"example_id": example.example_id(table), "_gone": True})
    for example in shown:
        image = example.row.to_json()
        rows.add(
            "exceptions",
            {
                "example_id": example.example_id(table),
                "constraint_id": constraint_id(example.constraint, table),
                "table_name": table,
                "constraint": str(example.constraint),
                "row_key": as_json(image["key"]) if image["key"] else None,
                "row": as_json(image["row"]),
                "undecided": example.undecided,
                "since": rows.at,
            },
        )


def _about(constraint: NearConstraint, table: str) -> Iterator[tuple[str, object]]:
    """Yield the columns that describe a constraint and its exceptions."""
    fields = constraint_fields(constraint, table)
    yield "constraint_id", fields["id"]
    yield "table_name", table
    yield "sentence", sentence(constraint)
    for name in ("shape", "constraint", "exceptions", "rows", "share"):
        yield name, fields[name]
    for name in ("context", "target"):
        yield name, as_json(fields[name])


def _constraint_of(row: Row) -> NearConstraint:
    """Return the constraint of a row of `near_constraints`."""
    context, target = json.loads(row["context"]), json.loads(row["target"])
    return NearConstraint(NearShape(row["shape"]), context, target, row["exceptions"], row["rows"])
