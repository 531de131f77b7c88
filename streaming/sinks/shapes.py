"""The output tables: their columns, the meaning of the columns, and how rows are kept.

Every row has its commit, its application and its state. The number of the commit is the total order of rows, unlike
clocks and batch numbers of a source. Timestamps are UTC.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

_TIME = pa.timestamp("us", "UTC")
_COUNT = pa.int64()
_TEXT = pa.string()

_EVERYWHERE = (
    ("commit", _COUNT, "number of the commit: the order of all rows in the output tables"),
    ("application", _TEXT, "name of the application"),
    ("state_id", _TEXT, "id of the state that wrote the row"),
)
_COMMITTED = (
    ("committed_at", _TIME, "time of the commit"),
    ("date", pa.date32(), "the day of committed_at"),
)
_OF_CHANGES = (
    ("source", _TEXT, "the table whose batch caused the change"),
    ("batch_id", _COUNT, "the batch of that table's source"),
    *_COMMITTED,
)
_CONSTRAINT = (
    ("constraint_id", _TEXT, "SHA-256 of family, table and text of the constraint"),
    ("table_name", _TEXT, "the table of the constraint; of an inclusion, the dependent table"),
    ("referenced_table", _TEXT, "of an inclusion, the referenced table"),
    ("family", _TEXT, "dc, od or ind"),
    ("constraint", _TEXT, "the constraint as a text that can be parsed"),
    ("sentence", _TEXT, "the constraint in plain words"),
    ("predicates", _TEXT, "the predicates of the constraint, as JSON"),
    ("kind", _TEXT, "key, constant, functional_dependency, ..."),
    ("size", _COUNT, "number of column pairs of the constraint"),
)
_NEAR = (
    ("constraint_id", _TEXT, "SHA-256 of family, table and text of the constraint, without its exceptions"),
    ("table_name", _TEXT, "the table on which the constraint nearly holds"),
    ("shape", _TEXT, "key, constant (functional dependencies too), order or order_desc"),
    ("context", _TEXT, "the columns whose values agree in a group of rows; of a key its columns; as JSON"),
    ("target", _TEXT, "no column (key), one column, or the two ordered columns, as JSON"),
    ("constraint", _TEXT, "the constraint without its exceptions, as a text that can be parsed"),
    ("sentence", _TEXT, "the constraint in plain words, with its number of exceptions"),
)
_COUNTS = (
    ("exceptions", _COUNT, "the least number of rows without which the constraint holds, as of the commit"),
    ("rows", _COUNT, "number of rows of the table, as of the commit"),
    ("share", pa.float64(), "exceptions as a share of the rows"),
)


@dataclass(frozen=True)
class Shape:
    """One output table.

    Parameters
    ----------
    name, description : the name and the description of the table.
    columns : name, type and meaning of each column.
    partition_by : the columns that partition the files.
    change_feed : whether the table has a change feed.
    key : the column that identifies a row, if rows are merged; None if rows are appended.
    amendable : the columns that can be set without the others, if rows are merged.
    aged_by : the column with the age of a row, if old rows may be deleted; None if all rows have to stay.
    """

    name: str
    description: str
    columns: Sequence[tuple[str, pa.DataType, str]]
    partition_by: Sequence[str] = ()
    change_feed: bool = False
    key: str | None = None
    amendable: Sequence[str] = ()
    aged_by: str | None = None
    names: frozenset[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", frozenset(name for name, _, _ in self.columns))

    @property
    def arrow(self) -> pa.Schema:
        """The schema, with the meanings as comments."""
        return pa.schema([pa.field(name, kind, metadata={"comment": text}) for name, kind, text in self.columns])

    def rows(self, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
        """Return rows as Arrow; missing values are null, and unknown columns are a defect."""
        for row in rows:
            assert row.keys() <= self.names, f"{self.name} has no column {min(row.keys() - self.names)}"
        columns = {}
        for name, kind, _ in self.columns:
            values = [row.get(name) for row in rows]
            if pa.types.is_timestamp(kind) or pa.types.is_date(kind):  # texts in the outbox
                columns[name] = pa.array(values, _TEXT).cast(kind)
            else:
                columns[name] = pa.array(values, kind)
        return pa.table(columns, schema=self.arrow)


CONSTRAINT_CHANGES = Shape(
    "constraint_changes",
    "Every constraint that appeared or disappeared. The set as of a commit is the sum of the changes up to it.",
    (
        *_EVERYWHERE,
        *_OF_CHANGES,
        *_CONSTRAINT,
        ("change", _TEXT, "appeared or disappeared"),
        ("reason", _TEXT, "violated, implied, weakened or released"),
        ("by", _TEXT, "the constraint that implies it now, or that implied it before"),
        ("witness", _TEXT, "the rows that prove the change, as JSON"),
        ("cause", _TEXT, "data, seed, rebuild or config"),
        ("constraints_after", _COUNT, "number of constraints of the table after the commit"),
        ("exceptions", _COUNT, "number of exceptions of a violated constraint that nearly holds"),
        ("score", pa.float64(), "the score on the rows after the commit, from 0 to 1; of an ended one, if it held"),
        ("sound", pa.bool_(), "whether the constraint says something about the data; null if it is not known"),
    ),
    partition_by=("date",),
    change_feed=True,
)
CONSTRAINTS = Shape(
    "constraints",
    "The constraints that hold now.",
    (
        *_EVERYWHERE,
        *_CONSTRAINT,
        ("since_commit", _COUNT, "the commit with which the constraint appeared"),
        ("since", _TIME, "the time of that commit"),
        ("score", pa.float64(), "the score as of the commit, from 0 to 1"),
        (
            "rank",
            _COUNT,
            "place in table and family: sound ones first, then by score; null after the first thousand",
        ),
        ("nulls_rule", _TEXT, "how the constraint treats null"),
        ("sound", pa.bool_(), "whether the constraint says something about the data; null for inclusions"),
        ("strength", pa.float64(), "how much rarer violations are than chance would have them, from 0 to 1"),
        ("support", pa.float64(), "number of rows that could have violated the constraint"),
        ("why_not", _TEXT, "why the constraint is not sound"),
    ),
    change_feed=True,
    key="constraint_id",
    amendable=("commit", "score", "rank", "sound", "strength", "support", "why_not"),
)
BATCHES = Shape(
    "batches",
    "Every micro-batch: its records, its effect on the table, and its duration.",
    (
        *_EVERYWHERE,
        ("source", _TEXT, "the table"),
        ("query_id", _TEXT, "id of the streaming query"),
        ("batch_id", _COUNT, "number of the batch in the query"),
        ("start_offsets", _TEXT, "offsets before the batch"),
        ("end_offsets", _TEXT, "offsets after the batch"),
        ("files", _TEXT, "the files that the batch read, at most 100, as JSON; null if the source has no files"),
        ("rows_in", _COUNT, "number of records"),
        ("inserted", _COUNT, "inserted rows"),
        ("deleted", _COUNT, "deleted rows"),
        ("updated", _COUNT, "updated rows"),
        ("ignored", _COUNT, "deletes of unknown keys"),
        ("owed", _COUNT, "deletes of copies that the table did not have"),
        ("late", _COUNT, "records older than the last known change of their key"),
        ("quarantined", _COUNT, "records that could not be read"),
        ("table_rows", _COUNT, "rows of the table after the batch"),
        ("constraints", _COUNT, "constraints of the table after the batch"),
        ("seconds", _TEXT, "seconds by step, as JSON"),
        ("lag_records", _COUNT, "records not read yet, if the source tells"),
        ("lag_seconds", pa.float64(), "age of the oldest record of the batch"),
        ("committed_at", _TIME, "time of the commit"),
    ),
    aged_by="committed_at",
)
TABLES = Shape(
    "tables",
    "The monitored tables.",
    (
        *_EVERYWHERE,
        ("table_name", _TEXT, "its name"),
        ("columns", _TEXT, "names and types of the columns, as JSON"),
        ("excluded", _TEXT, "columns that are not monitored, as JSON"),
        ("fingerprint", _TEXT, "digest of types, orders and column pairs"),
        ("rows", _COUNT, "number of rows when this line was written"),
        ("bounds", _TEXT, "bounds of the constraints that are searched, as JSON"),
        ("nulls_rule", _TEXT, "how constraints treat null"),
    ),
    key="table_name",
)
QUARANTINE = Shape(
    "quarantine",
    "Records that could not be read, with the reason.",
    (
        *_EVERYWHERE,
        ("source", _TEXT, "the table"),
        ("table_name", _TEXT, "the table"),
        ("record_id", _TEXT, "topic-partition-offset, or file-line"),
        ("raw", _TEXT, "the raw record, at most 64 kB"),
        ("reason", _TEXT, "why it could not be read"),
        ("seen_at", _TIME, "time of the commit"),
        ("date", pa.date32(), "the day of seen_at"),
    ),
    partition_by=("date",),
    aged_by="date",
)
METRICS = Shape(
    "metrics",
    "Figures of the pipeline, every few seconds.",
    (
        *_EVERYWHERE,
        ("metric", _TEXT, "name of the figure"),
        ("value", pa.float64(), "value of the figure"),
        ("labels", _TEXT, "the table, as JSON"),
        *_COMMITTED,
    ),
    partition_by=("date",),
    aged_by="date",
)

RULE_STATUS = Shape(
    "rule_status",
    "Monitored rules: a line when the counts of a rule change, and every few minutes; without counts when it ends.",
    (
        *_EVERYWHERE,
        ("rule", _TEXT, "name of the rule"),
        ("table_name", _TEXT, "the table of the rule; of an inclusion, the dependent table"),
        ("constraint", _TEXT, "the constraint of the rule, as a text that can be parsed"),
        ("sentence", _TEXT, "the constraint of the rule in plain words"),
        ("source", _TEXT, "the table whose batch caused the line; null at a start"),
        ("violating_pairs", _COUNT, "ordered pairs of rows that violate the rule; null if it is not about pairs"),
        ("violating_rows", _COUNT, "rows in at least one violation, as of rows_as_of"),
        ("rows_as_of", _COUNT, "the commit as of which violating_rows was counted"),
        ("missing_values", _COUNT, "of an inclusion, number of distinct missing values"),
        ("change_in_pairs", _COUNT, "violating_pairs minus that of the line before"),
        ("holds", pa.bool_(), "whether there is no violation; null if the rule is not monitored any more"),
        ("broken", pa.bool_(), "whether there are more violations than the threshold accepts"),
        ("threshold", _TEXT, "the violations that the rule accepts"),
        ("severity", _TEXT, "error or warning"),
        ("committed_at", _TIME, "time of the commit"),
    ),
    aged_by="committed_at",
)
VIOLATIONS = Shape(
    "violations",
    "Examples of violations of monitored rules: added when they are found, removed when they end.",
    (
        *_EVERYWHERE,
        ("rule", _TEXT, "name of the rule"),
        ("table_name", _TEXT, "the table of the rule"),
        ("example_id", _TEXT, "SHA-256 of the rule and of the rows of the example"),
        ("left_key", _TEXT, "key of the row, or of the first row of a pair, as JSON"),
        ("left_row", _TEXT, "values of that row, as JSON; of an inclusion, the missing value"),
        ("right_key", _TEXT, "key of the second row of a pair, as JSON"),
        ("right_row", _TEXT, "values of that row, as JSON"),
        ("change", _TEXT, "added or removed"),
        ("committed_at", _TIME, "time of the commit"),
    ),
    aged_by="committed_at",
)

NEAR_CONSTRAINTS = Shape(
    "near_constraints",
    "The constraints that nearly hold now: for all rows except a few, the exceptions.",
    (
        *_EVERYWHERE,
        *_NEAR,
        *_COUNTS,
        (
            "strength",
            pa.float64(),
            "how far exceptions are below chance, 0 to 1, as of since_commit",
        ),
        ("since_commit", _COUNT, "the commit with which the constraint entered"),
        ("since", _TIME, "the time of that commit"),
    ),
    change_feed=True,
    key="constraint_id",
    amendable=("commit", "sentence", "exceptions", "rows", "share"),
)
NEAR_CHANGES = Shape(
    "near_changes",
    "Every change of constraints that nearly hold: entered, left, or another number of exceptions.",
    (
        *_EVERYWHERE,
        *_OF_CHANGES,
        *_NEAR,
        ("change", _TEXT, "entered, left or exceptions"),
        (
            "reason",
            _TEXT,
            "why it left: violated (too many), implied (by a wider one); null: not searched",
        ),
        ("exceptions_before", _COUNT, "number of exceptions before the commit; null if the constraint entered"),
        *_COUNTS,
        ("examples", _TEXT, "a few rows that are exceptions since this commit, as JSON"),
        ("cause", _TEXT, "data, seed, rebuild or config"),
    ),
    partition_by=("date",),
    change_feed=True,
)
EXCEPTIONS = Shape(
    "exceptions",
    "Examples of exceptions of the constraints that nearly hold now: at most ten rows for each constraint.",
    (
        *_EVERYWHERE,
        ("example_id", _TEXT, "SHA-256 of the constraint and of the row"),
        ("constraint_id", _TEXT, "id of the constraint, as in near_constraints"),
        ("table_name", _TEXT, "the table of the constraint"),
        ("constraint", _TEXT, "the constraint as a text that can be parsed"),
        ("row_key", _TEXT, "key of the row, as JSON; null if the table has no key"),
        ("row", _TEXT, "values of the row, as JSON"),
        ("undecided", pa.bool_(), "whether another row could be removed instead"),
        ("since", _TIME, "time since when the row is shown"),
    ),
    key="example_id",
)
_SUSPECT = (
    ("suspect_id", _TEXT, "SHA-256 of the table, the row and the column"),
    ("table_name", _TEXT, "the table"),
    ("row_key", _TEXT, "key of the row, as JSON; null if the table has no key"),
    ("row", _TEXT, "values of the row, as JSON"),
    ("column", _TEXT, "the column of the cell"),
    ("value", _TEXT, "value of the cell, as JSON"),
    ("expected", _TEXT, "the value that is expected in its place, as JSON; null where no certain value is"),
    ("score", pa.float64(), "the probability that the cell is wrong, by a model"),
    ("constraints", _TEXT, "near constraints that name the column and that the row violates, as JSON"),
)
SUSPECTS = Shape(
    "suspects",
    "Cells that are probably wrong, as of the last search, in rows that are still there: the surest thousand a table.",
    (
        *_EVERYWHERE,
        *_SUSPECT,
        ("since_commit", _COUNT, "the commit with which the suspect appeared"),
        ("since", _TIME, "the time of that commit"),
        ("as_of_commit", _COUNT, "the commit of the last search, which found it"),
    ),
    change_feed=True,
    key="suspect_id",
    amendable=("commit", "expected", "score", "constraints", "as_of_commit"),
)
SUSPECT_CHANGES = Shape(
    "suspect_changes",
    "Every suspect that appeared or disappeared.",
    (
        *_EVERYWHERE,
        *_OF_CHANGES,
        *_SUSPECT,
        ("change", _TEXT, "appeared or disappeared"),
        ("reason", _TEXT, "why it disappeared: changed (its row was), cleared (by a search); null: not searched"),
        ("cause", _TEXT, "data, seed, rebuild or config"),
    ),
    partition_by=("date",),
    change_feed=True,
    aged_by="date",
)

CONCENTRATIONS = Shape(
    "concentrations",
    "Where exceptions are: values that significantly many exceptions of a near constraint have, as of a search.",
    (
        *_EVERYWHERE,
        ("concentration_id", _TEXT, "SHA-256 of the constraint, the column and the value"),
        ("constraint_id", _TEXT, "id of the constraint, as in near_constraints"),
        ("table_name", _TEXT, "the table of the constraint"),
        ("constraint", _TEXT, "the constraint as a text that can be parsed"),
        ("place", _COUNT, "place among the values of the constraint, the surest first"),
        ("column", _TEXT, "the column of the value"),
        ("value", _TEXT, "the value, as JSON"),
        ("exceptions", _COUNT, "number of exceptions that have the value"),
        ("of_exceptions", _COUNT, "number of exceptions of the constraint"),
        ("rows", _COUNT, "number of rows that have the value"),
        ("of_rows", _COUNT, "number of rows of the table"),
        ("significance", pa.float64(), "probability that chance gives any value to as many exceptions"),
        ("holds_elsewhere", pa.bool_(), "whether the constraint holds on the rows without the value"),
        ("rules", _TEXT, "rules that together say so, as JSON; none where rules cannot compare its columns"),
        ("as_of_commit", _COUNT, "the commit of the search"),
    ),
    key="concentration_id",
)

SHAPES = {
    shape.name: shape
    for shape in (
        *(CONSTRAINT_CHANGES, CONSTRAINTS, RULE_STATUS, VIOLATIONS, BATCHES, TABLES),
        *(QUARANTINE, METRICS, NEAR_CONSTRAINTS, NEAR_CHANGES, EXCEPTIONS),
        *(SUSPECTS, SUSPECT_CHANGES, CONCENTRATIONS),
    )
}
