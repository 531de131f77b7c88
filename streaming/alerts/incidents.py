"""What one commit did, in sentences for the messages about it: one for each table and direction."""

import json
from collections.abc import Callable, Sequence

from holdfast.display.incidents import LOST, RECOVERED, Incident, shared_rows, short_text
from holdfast.display.positions import position_in_words
from holdfast.streaming.commits.output_rows import Row

_MOST_WITNESSES = 2_000
_TURNS = {"nearly": "nearly", "left": "lost", "restored": "recovered"}


def turn_of_change(row: Row) -> str | None:
    """Return what a row of `constraint_changes` means: `lost`, `nearly`, `recovered`; None if it is none of these."""
    if row["cause"] != "data":
        return None
    if row["change"] == "disappeared":
        nearly = row.get("exceptions") is not None
        return None if row.get("reason") != "violated" else "nearly" if nearly else "lost"
    return "recovered" if row.get("reason") == "released" else None


def turn_of_word(row: Row, word: str | None) -> str | None:
    """Return what a row of `near_changes` with a word of alerts means; None if it means nothing or is not by data."""
    return _TURNS.get(word or "") if row["cause"] == "data" else None


def incident_sentences(
    commit: int, changes: Sequence[Row], turn_of: Callable[[Row], str | None], batches: Sequence[Row]
) -> list[str]:
    """Return the sentences about the changes of a commit, what was lost first.

    Parameters
    ----------
    turn_of : returns what a change means; None for changes that are left out.
    batches : the row of the batch, if the commit has one.
    """
    groups: dict[tuple[str, str], list[tuple[str, Row]]] = {}
    for row in changes:
        turn = turn_of(row)
        if turn is not None:
            direction = RECOVERED if turn == "recovered" else LOST
            groups.setdefault((direction, row["table_name"]), []).append((turn, row))
    position = position_in_words(batches[0]) if batches else None
    found = []
    for direction, table in sorted(groups):
        members = groups[direction, table]
        turns = [turn for turn, _ in members]
        witnesses = (json.loads(row.get("witness") or "[]") for _, row in members[:_MOST_WITNESSES])
        _, first = min(members, key=lambda member: _order(member[1]))
        counts = {name: turns.count(name) for name in ("lost", "nearly", "recovered")}
        sound = [row["sound"] for _, row in members if row.get("sound") is not None]
        incident = Incident(
            table,
            commit,
            direction,
            **counts,
            sound=sum(sound) if sound else None,
            first=short_text(first["constraint"]),
            shared=shared_rows(witnesses),
            position=position,
        )
        found.append(str(incident))
    return found


def _order(row: Row) -> tuple[bool, float, int]:
    """Return what orders constraints by what they mean, as far as the rows of a commit have it."""
    return not row.get("sound"), -(row.get("score") or 0.0), row.get("size") or 0
