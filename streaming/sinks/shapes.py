"""What the output tables look like: columns, their meaning, how they are kept.

Every table says of which commit, application and state a row is. The commit number is the total order: clocks and batch
numbers of a source are not. Timestamps are UTC.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

_TIME = pa.timestamp("us", "UTC")
_COUNT = pa.int64()
_TEXT = pa.string()

_EVERYWHERE = (
    ("commit", _COUNT, "number of the commit: the order of everything in these tables"),
    ("application", _TEXT, "name of the pipeline"),
    ("state_id", _TEXT, "which state wrote it"),
)
_CONSTRAINT = (
    ("constraint_id", _TEXT, "SHA-256 of family, table and text: the same as long as the text is"),
    ("table_name", _TEXT, "the table it holds on; of an inclusion, the dependent one"),
    ("referenced_table", _TEXT, "of an inclusion, the table referred to"),
    ("family", _TEXT, "dc, od or ind"),
    ("constraint", _TEXT, "the constraint as a text that can be parsed"),
    ("sentence", _TEXT, "the constraint in plain words"),
    ("predicates", _TEXT, "its predicates as JSON"),
    ("kind", _TEXT, "key, constant, functional_dependency, ..."),
    ("size", _COUNT, "how many column pairs it constrains"),
)
_NEAR = (
    ("constraint_id", _TEXT, "SHA-256 of family, table and text: the same whatever its exceptions are"),
    ("table_name", _TEXT, "the table on which it nearly holds"),
    ("shape", _TEXT, "key, constant (a functional dependency too), order or order_desc"),
    ("context", _TEXT, "the columns on which rows agree, of a key its own columns, as JSON"),
    ("target", _TEXT, "no column (key), one, or the two that are ordered, as JSON"),
    ("constraint", _TEXT, "the constraint without its exceptions, as a text that can be parsed"),
    ("sentence", _TEXT, "the constraint in plain words, with how many exceptions it has"),
)
_COUNTS = (
    ("exceptions", _COUNT, "the least number of rows without which it holds, as of the commit"),
    ("rows", _COUNT, "rows of the table, as of the commit"),
    ("share", pa.float64(), "exceptions as a share of the rows"),
)


@dataclass(frozen=True)
class Shape:
    """One output table.

    Parameters
    ----------
    name, description : for people and catalogs.
    columns : name, type and meaning of each.
    partition_by : the columns that split its files.
    change_feed : whether others can follow its changes.
    key : of a table that is merged, the column that identifies a row; of one that is appended to, None.
    amendable : of a table that is merged, the columns that can be set without the others.
    aged_by : the column that says how old a row is, where old rows may go; None where all have to stay.
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
        """The schema, meanings included."""
        return pa.schema([pa.field(name, kind, metadata={"comment": text}) for name, kind, text in self.columns])

    def rows(self, rows: Sequence[Mapping[str, Any]]) -> pa.Table:
        """Return rows as Arrow; what a row does not have is null, what the table does not have is a defect."""
        for row in rows:
            assert row.keys() <= self.names, f"{self.name} has no column {min(row.keys() - self.names)}"
        columns = {}
        for name, kind, _ in self.columns:
            values = [row.get(name) for row in rows]
            if pa.types.is_timestamp(kind) or pa.types.is_date(kind):  # kept as texts in the outbox
                columns[name] = pa.array(values, _TEXT).cast(kind)
            else:
                columns[name] = pa.array(values, kind)
        return pa.table(columns, schema=self.arrow)


CONSTRAINT_CHANGES = Shape(
    "constraint_changes",
    "Every constraint that appeared or disappeared. The set as of a commit is the sum of the changes up to it.",
    (
        *_EVERYWHERE,
        ("source", _TEXT, "the table whose changes brought it about"),
        ("batch_id", _COUNT, "batch of that source"),
        ("committed_at", _TIME, "when"),
        ("date", pa.date32(), "the day of committed_at"),
        *_CONSTRAINT,
        ("change", _TEXT, "appeared or disappeared"),
        ("reason", _TEXT, "violated, implied, weakened or released"),
        ("by", _TEXT, "the constraint that implies it now, or whose loss exposed it"),
        ("witness", _TEXT, "the rows that prove it, as JSON"),
        ("cause", _TEXT, "data, seed, rebuild or config"),
        ("constraints_after", _COUNT, "how many constraints the table had then"),
        ("exceptions", _COUNT, "of a constraint that is violated and nearly holds: how many exceptions it has"),
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
        ("since_commit", _COUNT, "the commit that brought it"),
        ("since", _TIME, "when that was"),
        ("score", pa.float64(), "how much it told as of the commit, from 0 to 1"),
        ("rank", _COUNT, "its place by score within its table and family; null behind the first thousand"),
        ("nulls_rule", _TEXT, "what null means in it"),
    ),
    change_feed=True,
    key="constraint_id",
    amendable=("commit", "score", "rank"),
)
BATCHES = Shape(
    "batches",
    "Every micro-batch: what came in, what it did, and how long that took.",
    (
        *_EVERYWHERE,
        ("source", _TEXT, "the table"),
        ("query_id", _TEXT, "the streaming query"),
        ("batch_id", _COUNT, "its batch"),
        ("start_offsets", _TEXT, "where it began"),
        ("end_offsets", _TEXT, "where it ended"),
        ("rows_in", _COUNT, "records"),
        ("inserted", _COUNT, "rows that came"),
        ("deleted", _COUNT, "rows that went"),
        ("updated", _COUNT, "rows that changed"),
        ("ignored", _COUNT, "deletes of unknown keys"),
        ("owed", _COUNT, "deletes of copies that were not there"),
        ("late", _COUNT, "records older than what is stored of their key"),
        ("quarantined", _COUNT, "records that could not be read"),
        ("table_rows", _COUNT, "rows of the table afterwards"),
        ("constraints", _COUNT, "constraints afterwards"),
        ("seconds", _TEXT, "by step, as JSON"),
        ("lag_records", _COUNT, "records not read yet, where the source tells"),
        ("lag_seconds", pa.float64(), "age of the oldest record of the batch"),
        ("committed_at", _TIME, "when"),
    ),
    aged_by="committed_at",
)
TABLES = Shape(
    "tables",
    "The monitored tables.",
    (
        *_EVERYWHERE,
        ("table_name", _TEXT, "its name"),
        ("columns", _TEXT, "names and types, as JSON"),
        ("excluded", _TEXT, "columns left out, as JSON"),
        ("fingerprint", _TEXT, "of types, orders and column pairs"),
        ("rows", _COUNT, "rows at the last change of this line"),
        ("bounds", _TEXT, "largest constraints looked for, as JSON"),
        ("nulls_rule", _TEXT, "what null means"),
    ),
    key="table_name",
)
QUARANTINE = Shape(
    "quarantine",
    "Records that could not be read, with their reason.",
    (
        *_EVERYWHERE,
        ("source", _TEXT, "the table"),
        ("table_name", _TEXT, "the table"),
        ("record_id", _TEXT, "topic-partition-offset, or file-line"),
        ("raw", _TEXT, "the record, at most 64 kB"),
        ("reason", _TEXT, "why"),
        ("seen_at", _TIME, "when"),
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
        ("metric", _TEXT, "which"),
        ("value", pa.float64(), "how much"),
        ("labels", _TEXT, "of what, as JSON"),
        ("committed_at", _TIME, "when"),
        ("date", pa.date32(), "the day"),
    ),
    partition_by=("date",),
    aged_by="date",
)

RULE_STATUS = Shape(
    "rule_status",
    "Monitored rules: a line when the counts of one change and every few minutes; without counts when it is left out.",
    (
        *_EVERYWHERE,
        ("rule", _TEXT, "its name"),
        ("table_name", _TEXT, "the table it is about; of an inclusion, the dependent one"),
        ("constraint", _TEXT, "what must hold, as a text that can be parsed"),
        ("sentence", _TEXT, "what must hold, in plain words"),
        ("source", _TEXT, "the table whose changes brought it about; null at a start"),
        ("violating_pairs", _COUNT, "ordered pairs of rows that break it; null where it is not about pairs"),
        ("violating_rows", _COUNT, "rows in at least one violation, as of rows_as_of"),
        ("rows_as_of", _COUNT, "the commit as of which violating_rows was counted"),
        ("missing_values", _COUNT, "of an inclusion, distinct values that are missing"),
        ("change_in_pairs", _COUNT, "how many pairs more than in the line before"),
        ("holds", pa.bool_(), "whether nothing breaks it; null when it is monitored no more"),
        ("broken", pa.bool_(), "whether more breaks it than its threshold accepts"),
        ("threshold", _TEXT, "what it accepts"),
        ("severity", _TEXT, "error or warning"),
        ("committed_at", _TIME, "when"),
    ),
    aged_by="committed_at",
)
VIOLATIONS = Shape(
    "violations",
    "Examples of what breaks monitored rules: added while they do, removed when they do no longer.",
    (
        *_EVERYWHERE,
        ("rule", _TEXT, "the rule"),
        ("table_name", _TEXT, "its table"),
        ("example_id", _TEXT, "SHA-256 of the rule and of what is shown"),
        ("left_key", _TEXT, "key of the row, of a pair of the first one, as JSON"),
        ("left_row", _TEXT, "its values, as JSON; of an inclusion, the missing value"),
        ("right_key", _TEXT, "key of the second row of a pair, as JSON"),
        ("right_row", _TEXT, "its values, as JSON"),
        ("change", _TEXT, "added or removed"),
        ("committed_at", _TIME, "when"),
    ),
    aged_by="committed_at",
)

NEAR_CONSTRAINTS = Shape(
    "near_constraints",
    "The constraints that nearly hold now: for all rows but a few, their exceptions.",
    (
        *_EVERYWHERE,
        *_NEAR,
        *_COUNTS,
        (
            "strength",
            pa.float64(),
            "how far exceptions are below chance, 0 to 1, as of since_commit; null of order shapes",
        ),
        ("since_commit", _COUNT, "the commit with which it entered"),
        ("since", _TIME, "when that was"),
    ),
    change_feed=True,
    key="constraint_id",
    amendable=("commit", "sentence", "exceptions", "rows", "share"),
)
NEAR_CHANGES = Shape(
    "near_changes",
    "Every constraint that entered or left what nearly holds, or has another number of exceptions.",
    (
        *_EVERYWHERE,
        ("source", _TEXT, "the table whose changes brought it about"),
        ("batch_id", _COUNT, "batch of that source"),
        ("committed_at", _TIME, "when"),
        ("date", pa.date32(), "the day of committed_at"),
        *_NEAR,
        ("change", _TEXT, "entered, left or exceptions"),
        ("reason", _TEXT, "of one that left: violated (too many), implied (by one that says more); null: not sought"),
        ("exceptions_before", _COUNT, "its exceptions before; null where it entered"),
        *_COUNTS,
        ("examples", _TEXT, "rows that are exceptions since this commit, as JSON: a few of them"),
        ("cause", _TEXT, "data, seed, rebuild or config"),
    ),
    partition_by=("date",),
    change_feed=True,
)
EXCEPTIONS = Shape(
    "exceptions",
    "Examples of rows that are exceptions of constraints that nearly hold now: at most ten of each.",
    (
        *_EVERYWHERE,
        ("example_id", _TEXT, "SHA-256 of the constraint and of the row"),
        ("constraint_id", _TEXT, "the constraint, as in near_constraints"),
        ("table_name", _TEXT, "its table"),
        ("constraint", _TEXT, "the constraint as a text that can be parsed"),
        ("row_key", _TEXT, "key of the row, as JSON; null where the table has none"),
        ("row", _TEXT, "its values, as JSON"),
        ("undecided", pa.bool_(), "whether another row could go in its place"),
        ("since", _TIME, "since when it is shown"),
    ),
    key="example_id",
)

SHAPES = {
    shape.name: shape
    for shape in (
        *(CONSTRAINT_CHANGES, CONSTRAINTS, RULE_STATUS, VIOLATIONS, BATCHES, TABLES),
        *(QUARANTINE, METRICS, NEAR_CONSTRAINTS, NEAR_CHANGES, EXCEPTIONS),
    )
}
