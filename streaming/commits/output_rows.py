"""The rows of one commit for the output tables (`sinks/shapes.py`)."""

import datetime
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from holdfast.constraints import (
    Constraint,
    ConstraintChange,
    InclusionDependency,
    constraint_fields,
    json_value,
    parse_rule_body,
)
from holdfast.constraints.scores import Score
from holdfast.constraints.sentences import sentence
from holdfast.state.commits import Identity, LedgerEntry
from holdfast.streaming.maintainers.maintainer import Maintainer
from holdfast.streaming.maintainers.rules.state import RuleExample, RuleState

if TYPE_CHECKING:
    from holdfast.streaming.commits.applied_batch import AppliedBatch

_MOST_FILES = 100
NULLS_RULE = "null equals null, and sorts below every value"
NULLS_IGNORED = "nulls are ignored"

Row = dict[str, Any]


@dataclass(frozen=True)
class Described:
    """A changed constraint as the outputs describe it.

    Parameters
    ----------
    row : the row of `constraint_changes`.
    about : the columns of the row that describe the constraint.
    constraint : the constraint.
    """

    row: Row
    about: Row
    constraint: Constraint


@dataclass(frozen=True)
class Position:
    """The position of a batch in its source.

    Parameters
    ----------
    query_id, batch_id : the stream's ids.
    start, end : the offsets, as texts.
    """

    query_id: str
    batch_id: int
    start: str
    end: str

    @property
    def entry(self) -> LedgerEntry:
        """The entry of the batch for the ledger; the commit sets its number."""
        return LedgerEntry(self.query_id, self.batch_id, self.start, self.end, commit=0)


class OutputRows:
    """Collects the rows of one commit.

    Parameters
    ----------
    identity, commit : the identity of the state, and the number of the commit.
    now : the time of the commit.
    """

    def __init__(self, identity: Identity, commit: int, now: datetime.datetime) -> None:
        self.payload: dict[str, list[Row]] = {}
        self.at = time_text(now)
        self.commit = commit
        self.common = {"commit": commit, "application": identity.application, "state_id": identity.state_id}

    def seeded(
        self,
        constraints: Sequence[tuple[Constraint, str]],
        counts: Mapping[str, int],
        published: Sequence[Row],
        scores: Mapping[str, Score],
        cause: str | None = None,
    ) -> set[str]:
        """Add the constraints of seeded tables: the difference from the published ones.

        Returns the names of the tables with a difference.

        Parameters
        ----------
        constraints, counts : the constraints, each with its table, and their number by table.
        published, scores : the published rows of `constraints`, and the scores by id.
        cause : the cause of the seed, if it is neither the first seed nor a rebuild.
        """
        left = {row["constraint_id"]: row for row in published}
        cause = cause or ("rebuild" if left else "seed")
        changed = set()
        for constraint, name in constraints:
            about = _about(constraint, name)
            if left.pop(about["constraint_id"], None) is None:
                more = {"change": "appeared", "cause": cause, "constraints_after": counts[name]}
                self.change({"source": name, **about, **more}, about, scores.get(about["constraint_id"]))
                changed.add(name)
        for row in left.values():
            about = {name: row[name] for name in _ABOUT}
            more = {"change": "disappeared", "cause": cause, "constraints_after": counts.get(row["table_name"], 0)}
            self.change({"source": row["table_name"], **about, **more}, about)
            changed.add(row["table_name"])
        return changed

    def change(self, row: Row, about: Row, score: Score | None = None) -> None:
        """Add a row about a change, and the corresponding row of `constraints`.

        Parameters
        ----------
        score : the score of the constraint on the rows after the commit; None if it is not known.
        """
        about_score = {name: value for name, value in score_fields(score).items() if name in {"score", "sound"}}
        self.add("constraint_changes", {**row, **about_score, "committed_at": self.at, "date": self.at[:10]})
        if row["change"] == "appeared":
            rule = NULLS_IGNORED if about["family"] == "ind" else NULLS_RULE
            since = {"since_commit": self.commit, "since": self.at, "nulls_rule": rule}
            self.add("constraints", {**about, **since, **score_fields(score)})
        else:
            self.add("constraints", {"constraint_id": about["constraint_id"], "_gone": True})

    def table(self, maintainer: Maintainer, excluded: Sequence[str] = (), *, inclusion: bool = False) -> None:
        """Add the row of a monitored table."""
        space = maintainer.space
        self.add(
            "tables",
            {
                "table_name": space.schema.table,
                "columns": as_json({column.name: str(column.type) for column in space.schema}),
                "excluded": as_json(list(excluded)),
                "fingerprint": space.fingerprint,
                "rows": maintainer.row_count,
                "bounds": as_json({**maintainer.bounds.fields(), **({"inclusion": True} if inclusion else {})}),
                "nulls_rule": NULLS_RULE,
            },
        )

    def batch(self, batch: "AppliedBatch") -> None:
        """Add the row of a batch, and a row for each record that could not be read."""
        result, position = batch.result, batch.position
        self.add(
            "batches",
            {
                "source": batch.source,
                "query_id": position.query_id,
                "batch_id": position.batch_id,
                "start_offsets": position.start,
                "end_offsets": position.end,
                "files": as_json(list(batch.files[:_MOST_FILES])) if batch.files else None,
                "rows_in": batch.records,
                **{name: getattr(result, name) for name in ("inserted", "deleted", "updated", "ignored", "late")},
                "owed": result.newly_owed,
                "quarantined": len(batch.bad),
                "table_rows": result.rows,
                "constraints": batch.constraints,
                "seconds": as_json({step: round(value, 6) for step, value in batch.took.items()}),
                "lag_records": batch.lag_records,
                "lag_seconds": batch.lag_seconds,
                "committed_at": self.at,
            },
        )
        for record in batch.bad:
            self.add(
                "quarantine",
                {
                    "source": batch.source,
                    "table_name": batch.source,
                    "record_id": record.record_id,
                    "raw": record.raw,
                    "reason": record.reason,
                    "seen_at": self.at,
                    "date": self.at[:10],
                },
            )

    def rule(self, line: Row) -> None:
        """Add a row about a monitored rule (`rule_reports.py`)."""
        words = (
            {"sentence": rule_sentence(line)} if "constraint" in line else {}
        )  # one that is monitored no more has no text
        self.add("rule_status", {**line, **words, "committed_at": self.at})

    def violation(self, rule: str, table: str | None, example: RuleExample, change: str) -> None:
        """Add a row about an example that was added or removed."""
        rows = example.violation.rows
        images = [row.to_json() for row in rows] or [{"key": None, "row": json_value(example.violation.value)}]
        row = {"rule": rule, "table_name": table, "example_id": example.example_id}
        for side, image in zip(("left", "right"), images, strict=False):
            row[f"{side}_key"], row[f"{side}_row"] = (
                as_json(image["key"]) if image["key"] else None,
                as_json(image["row"]),
            )
        self.add("violations", {**row, "change": change, "committed_at": self.at})

    def examples(self, states: Sequence[RuleState]) -> None:
        """Add rows about the removed examples of rules, then about the added ones."""
        for what in ("removed", "added"):
            for state in states:
                for example in state.removed if what == "removed" else state.added:
                    self.violation(state.rule.name, state.rule.table, example, what)

    def first_examples(self, states: Sequence[RuleState], shown: Sequence[Row]) -> None:
        """Add rows about the examples of seeded tables: the difference from the published ones."""
        left = {row["example_id"]: row for row in shown}
        for state in states:
            for example in state.examples:
                if left.pop(example.example_id, None) is None:
                    self.violation(state.rule.name, state.rule.table, example, "added")
        for row in left.values():
            self.add("violations", {**row, "change": "removed", "committed_at": self.at})

    def metrics(self, source: str, values: Mapping[str, float]) -> None:
        """Add rows with figures of a table."""
        labels = as_json({"source": source})
        for metric, value in values.items():
            row = {"metric": metric, "value": float(value), "labels": labels}
            self.add("metrics", {**row, "committed_at": self.at, "date": self.at[:10]})

    def add(self, table: str, row: Row) -> None:
        """Add a row of an output table."""
        self.payload.setdefault(table, []).append({**self.common, **row})


_ABOUT = (
    *("constraint_id", "table_name", "referenced_table", "family", "constraint"),
    *("sentence", "predicates", "kind", "size"),
)


def described(
    source: str, batch_id: int, changes: Sequence[ConstraintChange], after: Mapping[str, int]
) -> Iterator[Described]:
    """Yield the description of each changed constraint; `after` has the number of constraints of each table."""
    for change in changes:
        fields = change.fields()
        about = _about(change.constraint, change.table)
        row = {
            "source": source,
            "batch_id": batch_id,
            **about,
            "change": fields["change"],
            "reason": fields["reason"],
            "by": fields["by"],
            "witness": as_json(fields["witness"]),
            "cause": "data",
            "constraints_after": after[change.table],
            "exceptions": change.exceptions,
        }
        yield Described(row, about, change.constraint)


def score_fields(score: Score | None) -> Row:
    """Return the columns of `constraints` about a score."""
    if score is None:
        return dict.fromkeys(("score", "sound", "strength", "support", "why_not"))
    about = {"score": float(score), "sound": score.sound, "why_not": score.why_not}
    return {**about, "strength": score.strength, "support": score.support}


def rule_sentence(line: Row) -> str:
    """Return the rule of a row of `rule_status` as a sentence in plain words."""
    return sentence(parse_rule_body(line["constraint"]))


def time_text(moment: datetime.datetime) -> str:
    """Return a time as a text for the outbox.

    >>> time_text(datetime.datetime(2024, 2, 29, 12, tzinfo=datetime.UTC))
    '2024-02-29T12:00:00.000000Z'
    """
    return moment.astimezone(datetime.UTC).isoformat(timespec="microseconds").replace("+00:00", "Z")


def as_json(value: Any) -> str:
    """Return a value as compact JSON."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def _about(constraint: Constraint, table: str) -> Row:
    """Return the columns that describe a constraint."""
    fields = constraint_fields(constraint, table)
    return {
        "constraint_id": fields["id"],
        "table_name": table,
        "referenced_table": constraint.referenced.table if isinstance(constraint, InclusionDependency) else None,
        "family": fields["family"],
        "constraint": fields["constraint"],
        "sentence": sentence(constraint),
        "predicates": as_json(fields.get("predicates")),
        "kind": fields.get("kind"),
        "size": fields.get("size"),
    }
