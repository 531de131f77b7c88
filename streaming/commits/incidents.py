"""Incidents: what one commit did to the constraints of one table, in one direction.

An incident is made of rows of `constraint_changes` and `near_changes`: of those that a commit publishes, for the log of
a run and for alerts, and of those that the tables have, for `holdfast incidents` and the page. The *turn* of a row is
what the change means to people who watch: a constraint ended, is nearly lost, or recovered.

Invariant: an incident is a function of the rows of its commit, and a constraint that is published in several forms (a
functional dependency is a denial constraint, an order dependency and a near constraint) is in it once.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from holdfast.constraints import Family
from holdfast.constraints.denial import DenialKind
from holdfast.constraints.forms import canonical_key
from holdfast.constraints.mutes import Mutes
from holdfast.constraints.near import has_jumped
from holdfast.display.incidents import LOST, RECOVERED, Incident, shared_rows, short_text
from holdfast.display.positions import position_in_words
from holdfast.streaming.commits.output_rows import OutputRows, Row
from holdfast.streaming.sinks.shapes import SHAPES

NO_TURN, ENDED, NEARLY, RESTORED = range(4)
TURNS = {ENDED: "lost", NEARLY: "nearly", RESTORED: "recovered"}

COLUMNS: Mapping[str, Sequence[str]] = {
    "constraint_changes": (
        *("commit", "table_name", "constraint_id", "constraint", "sentence", "family", "kind", "size", "change"),
        *("reason", "cause", "exceptions", "score", "sound", "witness"),
    ),
    "near_changes": (
        *("commit", "table_name", "constraint_id", "constraint", "sentence", "change", "reason", "cause"),
        *("exceptions_before", "exceptions"),
    ),
}
"""The tables, and their columns, that incidents are made of."""

_MOST_WITNESSES = 2_000
_FORMS = {family.value: place for place, family in enumerate((Family.DENIAL, Family.ORDER, Family.NEAR))}

Group = tuple[int, str, str]
"""A commit, a table, and `LOST` or `RECOVERED`: they identify an incident."""


def exact_turns(columns: Mapping[str, Any]) -> NDArray[np.int8]:
    """Return the turn of each row of `constraint_changes`, given as columns of Arrow."""
    nearly = np.asarray(columns["exceptions"].is_valid())
    ended = _are(columns, "change", "disappeared") & _are(columns, "reason", "violated")
    restored = _are(columns, "change", "appeared") & _are(columns, "reason", "released")
    return _by_data(columns, np.select([ended & nearly, ended, restored], [NEARLY, ENDED, RESTORED], NO_TURN))


def near_turns(columns: Mapping[str, Any]) -> NDArray[np.int8]:
    """Return the turn of each row of `near_changes`, given as columns of Arrow."""
    now = np.asarray(columns["exceptions"].fill_null(0))
    before = np.asarray(pc.coalesce(columns["exceptions_before"], columns["exceptions"]).fill_null(0))
    ended = _are(columns, "change", "left") & _are(columns, "reason", "violated")
    moved = _are(columns, "change", "exceptions")
    turns = [ended, moved & has_jumped(before, now), moved & has_jumped(now, before)]
    return _by_data(columns, np.select(turns, [ENDED, NEARLY, RESTORED], NO_TURN))


def turned(changes: pa.Table, near_changes: pa.Table) -> dict[Group, list[Row]]:
    """Return the rows with a turn by incident, with their turns, each constraint once: sound ones first. O(rows).

    Parameters
    ----------
    changes, near_changes : the rows of some commits, with `COLUMNS`.
    """
    found: defaultdict[Group, list[Row]] = defaultdict(list)
    for rows, turns in ((changes, exact_turns(changes)), (near_changes, near_turns(near_changes))):
        chosen = np.flatnonzero(turns)
        for row, turn in zip(rows.take(pa.array(chosen)).to_pylist(), turns[chosen].tolist(), strict=True):
            direction = RECOVERED if turn == RESTORED else LOST
            found[row["commit"], row["table_name"], direction].append(
                {"family": Family.NEAR.value, **row, "turn": turn}
            )
    return {group: sorted(_once(rows), key=_order) for group, rows in found.items()}


def incident(group: Group, rows: Sequence[Row], position: str | None) -> Incident:
    """Return an incident in words.

    Parameters
    ----------
    rows : its rows, as `turned` returns them.
    position : the position of the batch in its source, in words; None if unknown.
    """
    commit, table, direction = group
    turns = [row["turn"] for row in rows]
    sound = [row["sound"] for row in rows if row.get("sound") is not None]
    witnesses = (row.get("witness") for row in rows[:_MOST_WITNESSES])
    return Incident(
        table,
        commit,
        direction,
        **{name: turns.count(turn) for turn, name in TURNS.items()},
        jumped=sum(_has_jump(row) for row in rows),
        sound=sum(sound) if sound else None,
        first=_named(rows[0]),
        shared=shared_rows(json.loads(text) for text in witnesses if text),
        position=position,
    )


def incidents_of(rows: OutputRows, mutes: Mutes) -> list[Incident]:
    """Return the incidents of a commit by its rows, without muted constraints, what was lost first. O(rows)."""
    groups = turned(*(_unmuted(rows.payload.get(name, ()), name, mutes) for name in COLUMNS))
    batches = rows.payload.get("batches")
    position = position_in_words(batches[0]) if batches else None
    ordered = sorted(groups, key=lambda group: (group[2], group[1]))
    return [incident(group, groups[group], position) for group in ordered]


def _unmuted(rows: Iterable[Row], name: str, mutes: Mutes) -> pa.Table:
    """Return rows of an output table as Arrow, without muted constraints."""
    unmuted = [row for row in rows if not mutes.covers(row["table_name"], row["constraint"])]
    schema = SHAPES[name].arrow
    columns = COLUMNS[name]
    return pa.table({one: pa.array([row.get(one) for row in unmuted], schema.field(one).type) for one in columns})


def _are(columns: Mapping[str, Any], name: str, word: str) -> NDArray[np.bool_]:
    return np.asarray(pc.equal(columns[name], word).fill_null(fill_value=False))


def _by_data(columns: Mapping[str, Any], turns: NDArray[Any]) -> NDArray[np.int8]:
    """Return turns, without those of seeds and edited configurations."""
    return np.where(_are(columns, "cause", "data"), turns, NO_TURN).astype(np.int8)


def _once(rows: Sequence[Row]) -> Iterable[Row]:
    """Return rows of one incident, each constraint once, as a denial constraint where it is published as such."""
    if len({row["family"] for row in rows} & _FORMS.keys()) < 2:
        return rows
    found: dict[Any, Row] = {}
    for row in sorted(rows, key=lambda row: _FORMS.get(row["family"], len(_FORMS))):
        found.setdefault(canonical_key(row["constraint"]) if _has_forms(row) else row["constraint_id"], row)
    return found.values()


def _has_forms(row: Row) -> bool:
    """Whether a constraint may be published in other forms: reading the texts of all constraints takes long."""
    text: str = row["constraint"]
    if row["family"] == Family.DENIAL.value and row["kind"] == DenialKind.OTHER.value:
        return text.count(" = ") + 2 >= (row["size"] or 0) and text.count(" < ") + text.count(" > ") >= 2
    return row["family"] in _FORMS


def _order(row: Row) -> tuple[int, float, int, int, str]:
    """Return what orders constraints by what they mean, as far as the rows of a commit have it."""
    believed = {True: 0, None: 1, False: 2}[row.get("sound")]
    return believed, -(row.get("score") or 0.0), row.get("size") or 0, len(row["constraint"]), row["constraint_id"]


def _has_jump(row: Row) -> bool:
    """Whether a near constraint had exceptions before, and has exceptions now."""
    return row["turn"] != ENDED and bool(row.get("exceptions_before") and row["exceptions"])


def _named(row: Row) -> str:
    """Return a constraint in the simplest form, with its numbers of exceptions where these jumped."""
    counts = f" ({row['exceptions_before']:,} to {row['exceptions']:,} exceptions)" if _has_jump(row) else ""
    return short_text(row["constraint"]) + counts
