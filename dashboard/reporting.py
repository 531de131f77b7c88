"""Writes the page as one file with style, modules and answers in the HTML, which loads nothing else.

    index.html  +  style.css  +  the modules, joined in the order of their imports  +  answers as JSON

Invariant: the file has values of the data as JSON without `<`, `>` or `&`, so that no value ends its element; the
policy of the file allows its script and its style, by their checksums, and nothing else.
"""

import base64
import datetime
import hashlib
import json
import re
from collections.abc import Iterator
from typing import Any

from holdfast.dashboard.answers import MOST_AT_ONCE, Answer, Answers
from holdfast.dashboard.serving import PAGE

MOST_CHANGES, MOST_CONSTRAINTS, MOST_NEAR, MOST_RECORDS = 1_000, 5_000, 2_000, 200
MOST_SUSPECTS = 1_000
MOST_INCIDENTS = 200
MOST_DETAILED = 60
_MOST_COURSES = 50

_IMPORT = re.compile(r'^import \{ ([\w, ]+) \} from "\./(\w+\.js)";\n', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?function |const |let |class )", re.MULTILINE)
_ESCAPED = {"<": "\\u003c", ">": "\\u003e", "&": "\\u0026", "\u2028": "\\u2028", "\u2029": "\\u2029"}


def page_with(answers: Answers, now: datetime.datetime) -> str:
    """Return the page with the current rows of the output tables.

    Parameters
    ----------
    now : the time that the page shows as its own.
    """
    style = (PAGE / "style.css").read_text("utf-8")
    script = joined("app.js")
    data = as_data({"about": {"written": now.isoformat(timespec="seconds")}, "answers": written(answers)})
    allowed = f"style-src {_checksum(style)}; script-src {_checksum(script)}"
    policy = f"default-src 'none'; {allowed}; base-uri 'none'; form-action 'none'"
    head = [
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">',
        '<meta name="referrer" content="no-referrer">',
        f"<style>{style}</style>",
    ]
    html = (PAGE / "index.html").read_text("utf-8")
    html = re.sub('<link rel="icon".*?</script>', lambda _: "\n".join(head), html, count=1, flags=re.DOTALL)
    end = f'<script type="application/json" id="data">{data}</script>\n<script type="module">{script}</script>\n</body>'
    return html.replace("</body>", end)


def written(answers: Answers) -> dict[str, Any]:
    """Return the answers for a file: short answers whole, long lists with their first rows and their length."""
    overview = answers.ask("overview", {})
    nearly = {} if overview["near"] is None else _near(answers)
    since = answers.ask("since", {})
    tables = ["", *(row["table_name"] for row in overview["tables"][:_MOST_COURSES])]
    suspected = _first(answers, "suspects", MOST_SUSPECTS)
    return {
        "overview": overview,
        "since": since,
        **_incidents(answers),
        "changes": _first(answers, "changes", MOST_CHANGES),
        "constraint": _detailed(answers, [since, nearly.get("near_constraint", {}), overview]),
        "constraints": _first(answers, "constraints", MOST_CONSTRAINTS, every="yes"),
        **nearly,
        **({"suspects": suspected} if suspected["all"] else {}),
        "quarantine": _first(answers, "quarantine", MOST_RECORDS),
        "rules": answers.ask("rules", {}),
        "inclusions": answers.ask("inclusions", {}),
        "history": {name: answers.ask("history", {"table_name": name}) for name in tables},
        "batches": {name: answers.ask("batches", {"table_name": name}) for name in tables},
    }


def _incidents(answers: Answers) -> dict[str, Any]:
    """Return the newest incidents; the newest of them with their first constraints."""
    listed = _first(answers, "incidents", MOST_INCIDENTS)
    detailed = {
        row["key"]: answers.ask(
            "incident", {name: str(row[name]) for name in ("commit", "table_name", "direction")} | {"limit": "100"}
        )
        for row in listed["rows"][:MOST_DETAILED]
    }
    return {"incidents": listed, "incident": detailed}


def _detailed(answers: Answers, shown: list[Answer]) -> dict[str, Any]:
    """Return what is known of the constraints that some answers name first."""
    since, near, overview = shown
    missed = [row["constraint_id"] for name in ("lost", "nearly", "recovered") for row in since[name]["rows"]]
    named = [*missed, *near, *(row["constraint_id"] for row in overview["recent"])]
    wanted = list(dict.fromkeys(named))[:MOST_DETAILED]
    return {one: answers.ask("constraint", {"id": one})["found"] for one in wanted}


def _near(answers: Answers) -> dict[str, Any]:
    """Return the near constraints; with changes and rows those that changed most, and the strongest ones."""
    listed = _first(answers, "near", MOST_NEAR, every="yes")
    moved = [] if listed["moved"] is None else listed["moved"]["rows"]
    first = [row["constraint_id"] for row in (*moved, *listed["rows"]) if row["exceptions"]]
    detailed = list(dict.fromkeys(first))[:MOST_DETAILED]
    return {"near": listed, "near_constraint": {one: answers.ask("near_constraint", {"id": one}) for one in detailed}}


def as_data(value: Any) -> str:
    r"""Return JSON that can be written into HTML.

    >>> as_data({"city": "</script><b>"})
    '{"city":"\\u003c/script\\u003e\\u003cb\\u003e"}'
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, default=str, separators=(",", ":"))
    text = re.sub("[<>&\u2028\u2029]", lambda found: _ESCAPED[found[0]], text)
    return re.sub("[\ud800-\udfff]", lambda found: f"\\u{ord(found[0]):04x}", text)


def joined(first: str) -> str:
    """Return a module and its imports as one text, each module after its imports; names are unique across modules."""
    return "".join(f"// {name}\n{text}" for name, text in _ordered(first, set()))


def _ordered(name: str, seen: set[str]) -> Iterator[tuple[str, str]]:
    seen.add(name)
    text = (PAGE / name).read_text("utf-8")
    for needed in _IMPORT.findall(text):
        if needed[1] not in seen:
            yield from _ordered(needed[1], seen)
    yield name, _EXPORT.sub("", _IMPORT.sub("", text))


def _first(answers: Answers, question: str, most: int, **given: str) -> Answer:
    """Return the first rows of a list, read in pages up to the same commit."""
    whole = answers.ask(question, {**given, "limit": "0"})
    rows: list[Any] = []
    until = {"until": str(whole["until"])} if "until" in whole else {}
    while len(rows) < min(most, whole["total"]):
        limit = str(min(MOST_AT_ONCE, most - len(rows)))
        page = answers.ask(question, {**given, "limit": limit, "offset": str(len(rows)), **until})["rows"]
        if not page:
            break
        rows += page
    return {**whole, "rows": rows}


def _checksum(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
