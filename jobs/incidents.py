"""`holdfast incidents`: what commits did to constraints, one entry for each commit, table and direction."""

import datetime
from collections.abc import Iterator
from typing import Any

from holdfast.dashboard.answers import MOST_AT_ONCE, Answers
from holdfast.display.secrets import masked
from holdfast.display.texts import printable
from holdfast.jobs.application.outputs import answers_of
from holdfast.jobs.configuration.reading import Configuration
from holdfast.jobs.terminal.options import Answering
from holdfast.jobs.terminal.output import json_line, results_to

_FIELDS = (
    *("commit", "at", "table_name", "direction", "lost", "nearly", "recovered", "again", "sound"),
    *("source", "batch_id", "position", "text"),
)


def show_incidents(configuration: Configuration, last: int, table: str | None, answering: Answering) -> None:
    """Print the newest incidents, the newest first.

    Parameters
    ----------
    last : how many are printed at most.
    table : the only table; None for all.
    """
    answers = answers_of(configuration)
    with results_to(answering.output) as out:
        rows = _newest(answers, last, table)
        if answering.as_json:
            out.writelines(answering.lines(map(_json_line, rows)))
        else:
            out.writelines(printable(masked(f"{_line(row)}\n")) for row in rows)


def _json_line(row: dict[str, Any]) -> str:
    first = row["first"] or {}
    named = {name: first.get(name) for name in ("constraint_id", "constraint", "sentence", "flaps")}
    return json_line({**{name: row[name] for name in _FIELDS}, "first": named, "rows": row["named"]})


def _newest(answers: Answers, last: int, table: str | None) -> Iterator[dict[str, Any]]:
    """Yield incidents page by page, up to the same commit."""
    given = {} if table is None else {"table_name": table}
    done = 0
    while done < last:
        limit = min(MOST_AT_ONCE, last - done)
        page = answers.ask("incidents", {**given, "limit": str(limit), "offset": str(done)})
        given["until"] = str(page["until"])
        yield from page["rows"]
        done += limit
        if len(page["rows"]) < limit:
            return


def _line(row: dict[str, Any]) -> str:
    """Return an incident on one line, with its time and how many of its constraints are as before."""
    at = datetime.datetime.fromisoformat(row["at"]).strftime("%Y-%m-%d %H:%M:%S")
    back = "ended again" if row["direction"] == "recovered" else "recovered"
    total = row["lost"] + row["nearly"] + row["recovered"]
    amount = "all" if row["again"] == total else f"{row['again']:,}"
    return f"{at}  {row['text']}" + (f" ({amount} {back} since)" if row["again"] else "")
