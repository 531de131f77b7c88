"""Prints the demo: the constraints that hold, those that appear and disappear with their proofs, and the output tables.

Invariant: the account has the results of the run; items that it leaves out are counted. Without a terminal, lines are
plain.
"""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich import box
from rich.padding import Padding
from rich.table import Table as Grid

from holdfast.constraints import (
    ConstraintChange,
    DenialConstraint,
    DenialKind,
    NearConstraint,
    RowImage,
    Schema,
    near_form,
)
from holdfast.constraints.sentences import sentence
from holdfast.display.incidents import short_text
from holdfast.display.texts import columns, counted
from holdfast.streaming.sinks.shapes import SHAPES

if TYPE_CHECKING:
    from rich.console import Console
    from rich.status import Status

    from holdfast.streaming.incoming.arrivals import BadRecord
    from holdfast.streaming.maintainers.maintainer import BatchResult, Maintainer

_ORDER = (DenialKind.KEY, DenialKind.CONSTANT, DenialKind.FUNCTIONAL_DEPENDENCY, DenialKind.OTHER)
_WORDS = {
    DenialKind.KEY: ("key", "keys"),
    DenialKind.CONSTANT: ("constant", "constants"),
    DenialKind.FUNCTIONAL_DEPENDENCY: ("functional dependency", "functional dependencies"),
    DenialKind.OTHER: ("other", "others"),
}
_LISTED = {DenialKind.KEY: 3, DenialKind.FUNCTIONAL_DEPENDENCY: 5, DenialKind.OTHER: 1}
_MOST_CHANGES = 3
_WIDTH = 32
_QUESTION = """\
select commit, change, reason, witness from constraint_changes
where sentence = 'Rows with the same Zip have the same City.' order by commit"""


class Account:
    """Prints the account.

    Parameters
    ----------
    console : the console to print on.
    quiet : whether explanations are left out.
    """

    def __init__(self, console: "Console", *, quiet: bool = False) -> None:
        self._console = console
        self._quiet = quiet
        self._schema: Schema | None = None
        self._waiting: Status | None = None

    def wait(self, text: str) -> None:
        """Show a spinner on a terminal until `waited` is called."""
        if self._console.is_terminal:
            self._waiting = self._console.status(f"   {text}")
            self._waiting.start()

    def waited(self) -> None:
        """Remove the spinner."""
        if self._waiting is not None:
            with suppress(IndexError):  # rich was interrupted while it started the spinner
                self._waiting.stop()
            self._waiting = None

    def note(self, text: str = "") -> None:
        """Print an explanation."""
        if not self._quiet:
            self._console.print(text, style="dim" if text else "")

    def heading(self, number: int, text: str) -> None:
        """Print the heading of a step."""
        self.waited()
        self._console.print(f"\n{number}. {text}\n", style="bold")

    def seeded(self, maintainer: "Maintainer") -> None:
        """Print the constraints that hold on the first records."""
        self._schema = maintainer.schema
        denial = [c for c in maintainer.constraints if isinstance(c, DenialConstraint)]
        constraints = sorted(denial, key=self._by_interest)
        listed: list[DenialConstraint] = []
        for kind in _ORDER:
            listed += [c for c in constraints if c.kind is kind][: _LISTED.get(kind, 1)]
        bound = f"of at most {maintainer.bounds.max_predicates} predicates"
        self._console.print(f"   {len(constraints)} constraints {bound}: {_counts(constraints)}.")
        near = f"{len(maintainer.near)} keys and functional dependencies"
        self._console.print(f"   {near} are followed too while they nearly hold: for all but 1 % of the rows.\n")
        for constraint in listed:
            self._say("", constraint)
        if rest := [c for c in constraints if c not in listed]:
            self._console.print(f"   Not shown: {_counts(rest)}.")

    def applied(
        self,
        results: Sequence["BatchResult"],
        bad: Sequence["BadRecord"],
        records: int,
        took: float,
        *,
        is_first: bool = False,
    ) -> None:
        """Print the changes of a step, and its time; the first step includes the start of the stream."""
        self.waited()
        for record in bad:
            place = "/".join(Path(record.record_id).parts[-2:])
            self._console.print(f"   ! {place}  in quarantine", style="yellow")
            self._console.print(f"     {record.reason}")
        changes = [change for result in results for change in result.changes]
        ordered = sorted(changes, key=lambda change: self._by_interest(change.constraint))
        seen: list[object] = []
        restored = {near.constraint for result in results for near in result.near if near.is_restored}
        for change in ordered[:_MOST_CHANGES]:
            self._change(change, seen)
            self._nearly(change, restored, results[-1].rows)
        if rest := [change.constraint for change in ordered[_MOST_CHANGES:]]:
            self._console.print(f"   Not shown: {_counts(rest)}, all in constraint_changes.")
        if not changes:
            self._console.print("   No constraint appeared or disappeared.")
        last = results[-1]
        good = "" if not bad else f"{len(bad)} in quarantine, "
        now = f"{last.rows:,} rows, {counted(last.constraints, 'constraint')}"
        start = ", the start of the stream included" if is_first else ""
        sent = counted(records, "record")
        when = f"{took:.2f} s after {'it was' if records == 1 else 'they were'} sent"
        self.note(f"\n   {sent}; {good}{now}; committed {when}{start}")

    def outputs(self, tables: Path) -> None:
        """Print the output tables, and the answer to a query on one of them."""
        import pyarrow as pa
        from deltalake import DeltaTable, QueryBuilder

        opened = {name: DeltaTable(tables / name) for name in SHAPES if (tables / name).is_dir()}
        lines = []
        for name, table in opened.items():
            rows = QueryBuilder().register("output", table).execute("select count(*) from output")
            count = pa.table(rows)[0][0].as_py()
            lines.append((name, f"{count:,}", SHAPES[name].description))
        self._grid(("table", "rows", "content"), lines)
        self._console.print()
        self.note("   The history of one constraint:\n")
        for line in _QUESTION.splitlines():
            self._console.print(f"   {line}", style="cyan")
        self._console.print()
        builder = QueryBuilder().register("constraint_changes", opened["constraint_changes"])
        answer = pa.table(builder.execute(_QUESTION))
        shown = [
            (str(row["commit"]), row["change"], row["reason"] or "-", _witness_text(row["witness"]))
            for row in answer.to_pylist()
        ]
        self._grid(("commit", "change", "reason", "witness"), shown)
        self._console.print()

    def ways(self, ways: Mapping[str, str]) -> None:
        """Print how to query the tables with other programs, as lines that can be run."""
        for name, line in ways.items():
            self._console.print(f"   {name}", style="bold")
            self._console.print(f"     {line}", style="cyan")

    def _change(self, change: ConstraintChange, seen: list[object]) -> None:
        """Print a change and its proof; rows that an earlier change of the step had as its proof are not repeated."""
        constraint = change.constraint
        assert isinstance(constraint, DenialConstraint)
        self._say("+ " if change.appeared else "- ", constraint)
        cause = f"{change.reason.value} by {change.by}" if change.by is not None else change.reason.value
        rows = () if change.witness is None else change.witness.rows
        if rows and change.appeared:
            cause = "appeared: released by the loss of"
        elif rows:
            cause = "disappeared: violated by"
        keys = [row.key for row in rows]
        if rows and keys in seen:
            self._console.print(f"     {cause} the same {'row' if len(rows) == 1 else 'rows'}")
            return
        self._console.print(f"     {cause}")
        if rows:
            seen.append(keys)
            self._witness(constraint, rows)

    def _nearly(self, change: ConstraintChange, restored: Collection[NearConstraint], rows: int) -> None:
        """Print how many exceptions a violated constraint has, or that a restored one has none any more."""
        near = near_form(change.constraint)
        if change.exceptions is not None:
            self._console.print(f"     it nearly holds: except for {change.exceptions} of {rows} rows")
        elif near is not None and str(near) in {str(one) for one in restored}:
            self._console.print("     it nearly held meanwhile, and holds again")

    def _witness(self, constraint: DenialConstraint, rows: Sequence[RowImage]) -> None:
        """Print rows below one another: their keys, and the columns that the constraint compares."""
        names = [*rows[0].key, *(name for name in rows[0].values if name in constraint.columns)]
        cells = [{**row.values, **row.key} for row in rows]
        lines = [["null" if row[name] is None else str(row[name]) for name in dict.fromkeys(names)] for row in cells]
        self._grid(list(dict.fromkeys(names)), lines, indent=7)

    def _say(self, sign: str, constraint: DenialConstraint) -> None:
        """Print a constraint as a rule, and in plain words."""
        style = {"+ ": "green", "- ": "red"}.get(sign, "")
        rule, words = short_text(str(constraint)), sentence(constraint)
        if len(rule) + 2 <= _WIDTH:
            self._console.print(f"   {sign}{rule.ljust(_WIDTH - len(sign))}{words}", style=style)
        else:
            self._console.print(f"   {sign}{rule}\n   {' ' * len(sign)}  {words}", style=style)

    def _by_interest(self, constraint: Any) -> tuple[int, int, list[int]]:
        """Sort keys and functional dependencies first, then short constraints, then those of the first columns."""
        assert isinstance(constraint, DenialConstraint)
        assert self._schema is not None
        names = self._schema.names
        places = sorted(names.index(name) for name in constraint.columns)
        return _ORDER.index(constraint.kind), len(constraint.predicates), places

    def _grid(self, headings: Sequence[str], rows: Sequence[Sequence[str]], indent: int = 3) -> None:
        """Print a table: with lines on a terminal, else in plain columns."""
        if self._console.is_terminal:
            grid = Grid(*headings, box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), show_edge=False)
            for row in rows:
                grid.add_row(*row)
            self._console.print(Padding(grid, (0, 0, 0, indent)))
            return
        for line in columns([headings, *rows]):
            self._console.print(f"{' ' * indent}{line}".rstrip())


def _witness_text(witness: str | None) -> str:
    """Return the rows of a witness with the columns of the query."""
    rows = [image["row"] for image in json.loads(witness or "[]")]
    return " and ".join(f"{row['Id']}: {row['Zip']} {row['City']}" for row in rows) or "-"


def _counts(constraints: Iterable[Any]) -> str:
    """Return the number of constraints of each kind."""
    found = Counter(constraint.kind for constraint in constraints)
    parts = [f"{found[kind]} {_WORDS[kind][found[kind] > 1]}" for kind in _ORDER if found[kind]]
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)
