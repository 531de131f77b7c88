"""`holdfast status`: the figures of each table and rule, read from a state that another process may write to."""

import datetime
import io
from collections.abc import Mapping, Sequence
from typing import Any, TextIO

import click

from holdfast.constraints import InclusionDependency, Severity, parse_rule_body
from holdfast.display.secrets import masked, masked_settings
from holdfast.display.texts import columns, counted, printable
from holdfast.jobs.application.opening import read_state
from holdfast.jobs.application.replacing import interrupted
from holdfast.jobs.check import BROKEN
from holdfast.jobs.configuration.reading import Configuration
from holdfast.jobs.terminal.options import Answering
from holdfast.jobs.terminal.output import json_line, results_to
from holdfast.jobs.terminal.sentences import sentence_fields
from holdfast.streaming.commits.rule_reports import Line
from holdfast.streaming.state_view import StateView

_NEAR = ("near", "near_with_exceptions")
_COUNTS = ("rows", "constraints", *_NEAR, "suspects", "suspects_found", "suspects_commit", "owed")
_SINCE = ("lag_seconds", "lag_records", "records", "quarantined", "late", "changed_commit", "changed_at")
"""Fields of a table's progress, in the order in which they are printed."""


def show_status(configuration: Configuration, answering: Answering) -> int:
    """Print the figures of each table and rule; return the exit code."""
    settings = configuration.settings
    before = interrupted(settings)
    with read_state(configuration, before) as (reader, identity):
        view = StateView(reader)
        commit, waiting, rules, alerts = view.commit, view.commits_to_publish, view.rule_lines, view.alerts
        tables = [_table(view, name, rules) for name in view.tables]
    whole = {
        "application": identity.application,
        "state_id": identity.state_id,
        "epoch": identity.epoch,
        "commit": commit,
        "commits_to_publish": waiting,
        "alerts_waiting": alerts["alerts_waiting"],
        "alert_failure": masked_settings(alerts["alert_failure"]),
    }
    if before and not answering.quiet:
        click.echo("warning: " + printable(str(before)), err=True)
    with results_to(answering.output) as out:
        if answering.as_json:
            for table in tables:
                shown = [_for_programs(rule, answering) for rule in table["rules"]]
                out.write(json_line({**whole, **table, "rules": shown}))
        else:
            text = io.StringIO()
            _print(whole, tables, text, answering)
            out.write(printable(masked(text.getvalue())))
    return BROKEN if any(rule["broken"] and rule["severity"] == Severity.ERROR.value for rule in rules) else 0


def _table(view: StateView, name: str, rules: Sequence[Line]) -> dict[str, Any]:
    record, progress = view.tables[name], view.progress(name)
    last, failed = view.last_batch(name), view.failed_batch(name)
    return {
        "table": name,
        **{name: getattr(progress, name) for name in _COUNTS},
        "batch_id": None if last is None else last.batch_id,
        "end_offsets": None if last is None else last.end,
        "last_commit": progress.commit,
        "committed_at": progress.at,
        **{name: getattr(progress, name) for name in _SINCE},
        "failed": None
        if failed is None
        else {"batch_id": failed.position.batch_id, "times": failed.count, "error": failed.error},
        "left_out": progress.left_out,
        "engine": record.engine,
        "blocks": view.blocks(name) if record.engine == "spark" else None,
        "rules": [_shown(rule) for rule in rules if rule["table_name"] == name],
    }


def _shown(rule: Line) -> dict[str, Any]:
    """Return the fields of a rule that are printed, as of its last change."""
    return {name: value for name, value in rule.items() if name not in {"table_name", "at", "source"}}


def _suspects(table: dict[str, Any]) -> str:
    """Return how many suspects a table has, and the commit of their last search."""
    if table["suspects"] is None:
        return "-"
    found = table["suspects_found"]
    among = f" of {found:,}" if found > table["suspects"] else ""
    return f"{table['suspects']:,}{among} (commit {table['suspects_commit']})"


def _table_lines(tables: list[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Return a heading and a line for each table; columns that no table has a value for are left out."""
    has_near = any(table["near"] is not None for table in tables)
    nearly = ("nearly hold", "with exceptions") if has_near else ()
    suspected = ("suspects",) if any(table["suspects"] is not None for table in tables) else ()
    headings = (
        "table",
        "rows",
        "constraints",
        *nearly,
        *suspected,
        "last batch",
        "committed",
        "lag",
        "last change",
        "quarantined",
    )
    lines: list[tuple[str, ...]] = [headings]
    for table in tables:
        lag = table["lag_seconds"]
        lines.append(
            (
                table["table"],
                f"{table['rows']:,}",
                f"{table['constraints']:,}",
                *("-" if table[name] is None else f"{table[name]:,}" for name in _NEAR[: len(nearly)]),
                *(_suspects(table) for _ in suspected),
                "-" if table["batch_id"] is None else str(table["batch_id"]),
                _ago(table["committed_at"]),
                "-" if lag is None else f"{lag:,.1f} s",
                f"{_ago(table['changed_at'])} (commit {table['changed_commit']})",
                f"{table['quarantined']:,}",
            )
        )
    return lines


def _print(whole: dict[str, Any], tables: list[dict[str, Any]], out: TextIO, answering: Answering) -> None:
    waiting = whole["commits_to_publish"]
    published = "all published" if not waiting else f"{waiting} to be published"
    out.write(f"{whole['application']}: commit {whole['commit']:,}, {published}\n\n")
    _print_columns(_table_lines(tables), out)
    rules = [(table["table"], rule) for table in tables for rule in table["rules"]]
    if rules:
        out.write("\n")
        _print_columns(
            [("rule", "table", "", "pairs", "rows", "constraint"), *(_rule_cells(*rule) for rule in rules)], out
        )
        sentences = [(rule["rule"], s["sentence"]) for _, rule in rules if (s := _sentence(rule, answering))]
        if sentences:
            out.write("\n")
            _print_columns(sentences, out)
    if whole["alerts_waiting"]:
        out.write(f"\n{counted(whole['alerts_waiting'], 'alert')} to be delivered\n")
    failure = whole["alert_failure"]
    if failure is not None:
        out.write(f"last failure of an alert, {_ago(failure['at'])}: {failure['alert']}, commit {failure['commit']}, ")
        out.write(f"try {failure['tries']}: {failure['error']}\n")
    for table in tables:
        failed = table["failed"]
        if failed is not None:
            times = counted(failed["times"], "time")
            out.write(f"\ntable {table['table']}: batch {failed['batch_id']} failed {times}: {failed['error']}\n")


def _rule_cells(table: str, rule: Mapping[str, Any]) -> tuple[str, ...]:
    verdict = "ok" if rule["holds"] else "broken" if rule["broken"] else "violated"
    if rule["broken"] and rule["severity"] != Severity.ERROR.value:
        verdict = f"{verdict} ({rule['severity']})"
    pairs, rows = ("-" if rule[name] is None else f"{rule[name]:,}" for name in ("violating_pairs", "violating_rows"))
    if rule["rows_as_of"] < rule["commit"]:
        rows = f"{rows} (commit {rule['rows_as_of']})"
    if rule["missing_values"]:
        rows = f"{rows} ({counted(rule['missing_values'], 'value')})"
    return rule["rule"], table, verdict, pairs, rows, rule["constraint"]


def _sentence(rule: Mapping[str, Any], answering: Answering) -> dict[str, str]:
    return sentence_fields(parse_rule_body(rule["constraint"]), answering)


def _for_programs(rule: Mapping[str, Any], answering: Answering) -> dict[str, Any]:
    """Return the fields of a rule for programs: for an inclusion, with the names of its columns."""
    body = parse_rule_body(rule["constraint"])
    named = body.named if isinstance(body, InclusionDependency) else {}
    return {**rule, **named, **_sentence(rule, answering)}


def _print_columns(lines: Sequence[Sequence[str]], out: TextIO) -> None:
    out.writelines(f"{line}\n" for line in columns(lines))


def _ago(at: str | None) -> str:
    """Return how long ago a time was, for people."""
    if at is None:
        return "-"
    passed = (datetime.datetime.now(datetime.UTC) - datetime.datetime.fromisoformat(at)).total_seconds()
    for unit, length in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if passed >= length:
            count = int(passed // length)
            return f"{count} {unit}{'' if count == 1 else 's'} ago"
    return f"{max(0, int(passed))} s ago"
