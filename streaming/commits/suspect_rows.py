"""The rows of a commit about suspects, cells that are probably wrong: for `suspects` and `suspect_changes`.

Invariant: the sum of `suspect_changes` is `suspects`; rows that an earlier state published are not repeated.
"""

from collections.abc import Mapping, Sequence

from holdfast.streaming.commits.output_rows import OutputRows, Row, as_json
from holdfast.streaming.maintainers.maintainer import Maintainer
from holdfast.streaming.maintainers.near.suspects import FollowedSuspect, SuspectChanges

APPEARED, DISAPPEARED = "appeared", "disappeared"
_ABOUT = ("suspect_id", "table_name", "row_key", "row", "column", "value", "expected", "score", "constraints")


def suspects_of_batch(rows: OutputRows, table: str, batch_id: int, changes: SuspectChanges) -> None:
    """Add the rows about the suspects that a batch changed."""
    more = {"batch_id": batch_id, "cause": "data"}
    for one, reason in changes.disappeared:
        _disappeared(rows, _about(one, table), {**more, "reason": reason})
    for one in changes.appeared:
        _appeared(rows, _about(one, table), more, rows.commit)
    for one in changes.confirmed:
        _confirmed(rows, _about(one, table))


def suspects_of_seed(
    rows: OutputRows,
    maintainers: Sequence[Maintainer],
    known: Sequence[Row],
    searched: Mapping[str, int | None],
    cause: str | None,
) -> None:
    """Add the rows about the suspects of seeded tables: the difference from the rows published already.

    Parameters
    ----------
    known : the published rows of `suspects`.
    searched : by table, the commit as of which suspects were searched.
    cause : the cause of the seed, if it is neither the first seed nor a rebuild.
    """
    more = {"cause": cause or ("rebuild" if known else "seed")}
    left = {row["suspect_id"]: row for row in known}
    for maintainer in maintainers:
        near = maintainer.near_maintainer
        for one in () if near is None else near.suspects.found:
            about = _about(one, maintainer.name)
            as_of = searched.get(maintainer.name) or rows.commit
            if left.pop(about["suspect_id"], None) is None:
                _appeared(rows, about, more, as_of)
            elif as_of == rows.commit:
                _confirmed(rows, about)
    for row in left.values():
        _disappeared(rows, {name: row[name] for name in _ABOUT}, more)


def _appeared(rows: OutputRows, about: Row, more: Mapping[str, object], as_of: int) -> None:
    _change(rows, about, {**more, "change": APPEARED})
    rows.add("suspects", {**about, "since_commit": rows.commit, "since": rows.at, "as_of_commit": as_of})


def _disappeared(rows: OutputRows, about: Row, more: Mapping[str, object]) -> None:
    _change(rows, about, {**more, "change": DISAPPEARED})
    rows.add("suspects", {"suspect_id": about["suspect_id"], "_gone": True})


def _confirmed(rows: OutputRows, about: Row) -> None:
    """Add a row that sets what the search of this commit found anew of a suspect."""
    found = {name: about[name] for name in ("suspect_id", "expected", "score", "constraints")}
    rows.add("suspects", {**found, "as_of_commit": rows.commit, "_amends": True})


def _change(rows: OutputRows, about: Row, more: Mapping[str, object]) -> None:
    at = {"committed_at": rows.at, "date": rows.at[:10]}
    rows.add("suspect_changes", {"source": about["table_name"], **about, **more, **at})


def _about(one: FollowedSuspect, table: str) -> Row:
    """Return the columns that describe a suspect."""
    image = one.row.to_json()
    return {
        "suspect_id": one.suspect_id(table),
        "table_name": table,
        "row_key": as_json(image["key"]) if image["key"] else None,
        "row": as_json(image["row"]),
        "column": one.column,
        "value": as_json(one.value),
        "expected": one.expected,
        "score": one.score,
        "constraints": as_json(one.constraints),
    }
