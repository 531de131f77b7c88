"""`holdfast demo`: a small table from file to constraints, in one process and within seconds.

What it shows is computed before the eyes of whoever runs it: the table is written, read and typed, and every
pair of its rows is looked at. Invariant: the same on every machine and at every run, but for the folder's name;
the folder is gone afterwards.
"""

import csv
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from rich import box
from rich.padding import Padding
from rich.table import Table as Grid

from holdfast.constraints import (
    DenialConstraint,
    HoldfastError,
    OrderDependency,
    PredicateSpace,
    UsageError,
    Value,
    parse_denial,
    parse_rule_body,
)
from holdfast.constraints.operators import EQUAL, GREATER, LESS
from holdfast.jobs.terminal import console_on

if TYPE_CHECKING:
    from rich.console import Console

    from holdfast.tables import Table

ROWS = 60
HEADER = ("State", "Zip", "City", "AreaCode", "Phone", "HasChild", "ChildExemp", "Salary", "Rate")
PLACES = {
    "MA": (("01907", "Swampscott", 781), ("02139", "Cambridge", 617)),
    "NY": (("10001", "New York", 212), ("14850", "Ithaca", 607)),
    "CA": (("94103", "San Francisco", 415), ("90210", "Beverly Hills", 310)),
}
DECLARED = (
    "key(AreaCode, Phone)",
    "Zip -> City",
    "Zip -> State",
    "State, HasChild -> ChildExemp",
    "not(t.State = s.State and t.Salary > s.Salary and t.Rate < s.Rate)",
    "{State}: Salary ~ Rate",
)


def show(*, quiet: bool = False) -> None:
    """Run the demo on standard output."""
    console = console_on(sys.stdout)
    with tempfile.TemporaryDirectory(prefix="holdfast-demo-") as folder:
        _show(console, Path(folder), quiet=quiet)


def tax_records(rows: int = ROWS, seed: int = 7) -> list[list[str]]:
    """Return a tax table as text, one line's fields each.

    State and HasChild decide ChildExemp, Zip decides City and State, and within a state the rate never falls as
    the salary rises: except in the last row, which earns the most in its state and pays the least.
    """
    rng = random.Random(seed)
    first_rate = {"MA": 500, "NY": 400, "CA": 300}
    exemption = {"MA": "1000", "NY": "1200", "CA": "900"}
    records = []
    for number in range(rows):
        state = rng.choice(sorted(PLACES)) if number < rows - 1 else "MA"
        zip_code, city, area = rng.choice(PLACES[state])
        has_child = rng.random() < 0.5
        salary = 1_000 * rng.randrange(20, 90) if number < rows - 1 else 95_000
        cents = first_rate[state] + 25 * (salary // 15_000) if number < rows - 1 else 450
        records.append(
            [
                *(state, zip_code, city, str(area), f"555-{100 + number:04d}"),
                *("Y" if has_child else "N", exemption[state] if has_child else ""),
                *(str(salary), f"{cents // 100}.{cents % 100:02d}"),
            ]
        )
    return records


def write_csv(file: Path, records: Iterable[Sequence[str]]) -> None:
    """Write a header and records."""
    with file.open("w", encoding="utf-8", newline="") as stream:
        writer = csv.writer(stream, lineterminator="\n")
        writer.writerow(HEADER)
        writer.writerows(records)


def outcome(left: Value, right: Value) -> int:
    """Compare two cells of one type group as denial constraints do: null equals null and is below all else."""
    if left is None or right is None:
        return EQUAL if left is right else LESS if left is None else GREATER
    return EQUAL if left == right else LESS if left < right else GREATER  # type: ignore[operator]


def evidences(space: PredicateSpace, rows: Sequence[dict[str, Value]]) -> dict[tuple[int, int], int]:
    """Return the evidence of every ordered pair of distinct rows. O(rows² pairs)."""
    names = space.schema.names
    sides = [(names[pair.left], names[pair.right]) for pair in space.pairs]
    return {
        (i, j): space.evidence(outcome(t[left], s[right]) for left, right in sides).bits
        for i, t in enumerate(rows)
        for j, s in enumerate(rows)
        if i != j
    }


def _show(console: "Console", folder: Path, *, quiet: bool) -> None:
    from holdfast.tables import overlap, read_table

    def say(text: str) -> None:
        if not quiet:
            console.print(text)

    file = folder / "tax.csv"
    write_csv(file, tax_records())
    table = read_table(file)
    rows = [table.row(i) for i in range(table.row_count)]
    say(
        f"1. A table of tax records, {table.row_count} rows, read from tax.csv: types are inferred, nulls kept apart.\n"
    )
    _columns(console, table, rows)
    say("   Zip is a string: 01907 with its leading zero is an identifier, no number.\n")

    space = PredicateSpace.build(table.schema, "auto", lambda a, b: overlap(table, a, b))
    found = evidences(space, rows)
    say("2. Its predicate space: each column is compared with itself, across two rows t and s.\n")
    bits = sum(pair.width for pair in space.pairs)
    console.print(f"   {len(space.pairs)} column pairs, {bits} bits in {space.word_count} word")
    console.print(f"   fingerprint {space.fingerprint[:16]}")
    console.print(f"   {len(found):,} pairs of rows give {len(Counter(found.values())):,} different evidences\n")

    say("3. Constraints as people write them, each held against every pair of rows.\n")
    violated = _constraints(console, space, found)
    for constraint, pair in violated:
        _witness(console, constraint, pair, rows)

    say("4. Bad input is refused with its place, and what to do.\n")
    bad = folder / "bad.csv"
    bad.write_text(file.read_text(encoding="utf-8") + "MA,01907,Swampscott\n", encoding="utf-8")
    for attempt in (lambda: read_table(bad), lambda: parse_denial("not(t.Zip = s.Zip and t.City ! s.City)")):
        try:
            attempt()
        except HoldfastError as error:
            text = str(error).replace(f"{folder}/", "").replace("\n", "\n   ")
            console.print(f"   exit code {error.exit_code}: {text}\n")
    say("Next: holdfast init writes a configuration, holdfast validate checks it, holdfast --help lists the rest.")


def _grid(console: "Console", headings: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Print a table: with rules on a terminal, in plain columns elsewhere."""
    if console.is_terminal:
        grid = Grid(*headings, box=box.SIMPLE_HEAD, padding=(0, 2, 0, 0), show_edge=False)
        for row in rows:
            grid.add_row(*row)
        console.print(Padding(grid, (0, 0, 1, 3)))
        return
    lines = [headings, *rows]
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        console.print(f"   {'  '.join(cells)}".rstrip())
    console.print()


def _columns(console: "Console", table: "Table", rows: Sequence[dict[str, Value]]) -> None:
    lines = []
    for column in table.schema:
        values = [row[column.name] for row in rows]
        present = [value for value in values if value is not None]
        sample = ", ".join("null" if value is None else str(value) for value in values[:4])
        nulls = str(len(values) - len(present))
        lines.append((column.name, str(column.type), str(len(set(present))), nulls, sample))
    _grid(console, ("column", "type", "distinct", "nulls", "first rows"), lines)


def _constraints(
    console: "Console", space: PredicateSpace, found: dict[tuple[int, int], int]
) -> list[tuple[DenialConstraint, tuple[int, int]]]:
    """Print each declared constraint and whether it holds; return those that do not, with a violating pair."""
    lines, violated = [], []
    for text in DECLARED:
        body = parse_rule_body(text)
        if not isinstance(body, (DenialConstraint, OrderDependency)):
            raise UsageError(f"{text} is not about pairs of rows")
        denial = body if isinstance(body, DenialConstraint) else body.as_denial()
        mask = space.mask(denial)
        pairs = [pair for pair, bits in found.items() if bits & ~mask == 0]
        kind = denial.kind.value if isinstance(body, DenialConstraint) else "order_compatible"
        lines.append((text, kind, f"violated by {len(pairs)} pairs" if pairs else "holds"))
        if pairs and isinstance(body, DenialConstraint):
            violated.append((space.canonical(denial), max(pairs)))
    _grid(console, ("declared", "kind", "answer"), lines)
    return violated


def _witness(
    console: "Console", constraint: DenialConstraint, pair: tuple[int, int], rows: Sequence[dict[str, Value]]
) -> None:
    console.print("   In its canonical form, its mirror image, and two rows that violate it:")
    console.print(f"   {constraint}")
    console.print(f"   {constraint.mirror}\n")
    names = [name for name in rows[0] if name in constraint.columns]
    sides = zip("ts", _oriented(constraint, pair, rows), strict=True)
    lines = [(side, str(row + 2), *(str(rows[row][name]) for name in names)) for side, row in sides]
    _grid(console, ("", "line", *names), lines)


def _oriented(constraint: DenialConstraint, pair: tuple[int, int], rows: Sequence[dict[str, Value]]) -> tuple[int, int]:
    """Return the pair in the order in which it violates the constraint as it is written."""
    t, s = rows[pair[0]], rows[pair[1]]
    straight = all(outcome(t[p.left], s[p.right]) & p.operator.outcomes for p in constraint.predicates)
    return pair if straight else (pair[1], pair[0])
