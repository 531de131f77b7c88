"""Conditions that a declared rule forbids, on one row or on a pair of rows.

A condition is kept in disjunctive form: alternatives, each a conjunction of atoms. An atom compares a cell
with a literal, with another cell of the same row, or with a cell of the other row, or tests a cell alone: is it null,
is it one of some literals, does it match a pattern. Negation is pushed down to the atoms when a condition is read.

Nulls: a null satisfies no comparison with a literal or within its row, neither `t.A > 1` nor `t.A <= 1`, is neither in
nor not in a list, and neither matches nor does not match a pattern; so `require: t.A > 1`, which forbids `t.A <= 1`, is
not broken by it. Between two rows nulls compare as in denial constraints, where every comparison is either true or
false.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import product
from typing import Literal as OneOf

from holdfast.constraints.errors import UsageError
from holdfast.constraints.names import quoted
from holdfast.constraints.operators import Operator
from holdfast.constraints.predicates import Predicate

Row = OneOf["t", "s"]

MAX_ALTERNATIVES = 256
MAX_ATOMS = 1_000
MAX_LITERALS = 1_000


@dataclass(frozen=True, slots=True)
class Cell:
    """The value of one column in row `t` or `s`."""

    row: Row
    column: str

    def __str__(self) -> str:
        return f"{self.row}.{quoted(self.column)}"


@dataclass(frozen=True, slots=True)
class Literal:
    """A constant as written; the type of the column that it is compared with decides its value.

    Parameters
    ----------
    text : the digits, the word `true` or `false`, or the characters between the quotes.
    is_text : whether it was written in quotes.
    """

    text: str
    is_text: bool

    def __str__(self) -> str:
        return "'" + self.text.replace("'", "''") + "'" if self.is_text else self.text


@dataclass(frozen=True, slots=True)
class Comparison:
    """`cell op literal`, or two cells; if only one cell is of row `t`, it is the left cell."""

    left: Cell
    operator: Operator
    right: Cell | Literal

    @property
    def negated(self) -> "Comparison":
        """The comparison that holds where this comparison fails, on values that are not null."""
        return Comparison(self.left, self.operator.inverse, self.right)

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cells of the comparison."""
        return (self.left, self.right) if isinstance(self.right, Cell) else (self.left,)

    @property
    def predicate(self) -> Predicate | None:
        """The comparison as a predicate, if it compares `t` with `s`; else None."""
        if not isinstance(self.right, Cell) or self.left.row == self.right.row:
            return None
        straight = Predicate(self.left.column, self.operator, self.right.column)
        return straight if self.left.row == "t" else straight.mirror

    def __str__(self) -> str:
        return f"{self.left} {self.operator} {self.right}"


@dataclass(frozen=True, slots=True)
class NullTest:
    """`cell is null`, or `is not null`."""

    cell: Cell
    is_null: bool

    @property
    def negated(self) -> "NullTest":
        """The opposite test."""
        return NullTest(self.cell, not self.is_null)

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cell of the test, as a tuple."""
        return (self.cell,)

    def __str__(self) -> str:
        return f"{self.cell} is {'null' if self.is_null else 'not null'}"


@dataclass(frozen=True, slots=True)
class MemberTest:
    """`cell in (literal, ...)`, or `not in`.

    Examples
    --------
    >>> print(MemberTest(Cell("t", "State"), (Literal("MA", True), Literal("NY", True)), is_member=False))
    t.State not in ('MA', 'NY')
    """

    cell: Cell
    literals: tuple[Literal, ...]
    is_member: bool

    def __post_init__(self) -> None:
        if not self.literals:
            raise UsageError(f"the list of {self.cell} has no value: name at least one")
        if len(self.literals) > MAX_LITERALS:
            raise UsageError(
                f"the list of {self.cell} has more than {MAX_LITERALS:,} values: put them into a table, and declare "
                "an inclusion, as in orders.state in states.code"
            )

    @property
    def negated(self) -> "MemberTest":
        """The test that passes where this test fails, on values that are not null."""
        return MemberTest(self.cell, self.literals, not self.is_member)

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cell of the test, as a tuple."""
        return (self.cell,)

    @property
    def comparisons(self) -> tuple[Comparison, ...]:
        """The comparison with each literal: of `in` any has to hold, of `not in` all."""
        operator = Operator.EQUAL if self.is_member else Operator.UNEQUAL
        return tuple(Comparison(self.cell, operator, literal) for literal in self.literals)

    def __str__(self) -> str:
        return f"{self.cell} {'in' if self.is_member else 'not in'} ({', '.join(map(str, self.literals))})"


@dataclass(frozen=True, slots=True)
class PatternTest:
    """`cell matches 'pattern'`, or `not matches`: whether the whole text of a cell matches a regular expression.

    Examples
    --------
    >>> print(PatternTest(Cell("t", "Zip"), "[0-9]{5}", is_match=True))
    t.Zip matches '[0-9]{5}'
    """

    cell: Cell
    pattern: str
    is_match: bool

    @property
    def negated(self) -> "PatternTest":
        """The test that passes where this test fails, on values that are not null."""
        return PatternTest(self.cell, self.pattern, not self.is_match)

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cell of the test, as a tuple."""
        return (self.cell,)

    def __str__(self) -> str:
        return f"{self.cell} {'matches' if self.is_match else 'not matches'} {Literal(self.pattern, is_text=True)}"


Atom = Comparison | NullTest | MemberTest | PatternTest


@dataclass(frozen=True, slots=True)
class Condition:
    """A disjunction of conjunctions of atoms.

    Examples
    --------
    >>> poor = Condition.of(Comparison(Cell("t", "Salary"), Operator.LESS_EQUAL, Literal("0", False)))
    >>> nowhere = Condition.of(NullTest(Cell("t", "State"), True))
    >>> str(poor | nowhere), str((poor | nowhere).negated)
    ('t.Salary <= 0 or t.State is null', 't.Salary > 0 and t.State is not null')
    """

    alternatives: tuple[tuple[Atom, ...], ...]

    @classmethod
    def of(cls, atom: Atom) -> "Condition":
        """Return the condition with a single atom."""
        return cls(((atom,),))

    @property
    def atoms(self) -> tuple[Atom, ...]:
        """All atoms, in order, repetitions included."""
        return tuple(atom for conjunction in self.alternatives for atom in conjunction)

    @property
    def rows(self) -> frozenset[str]:
        """`{'t'}` for a condition on single rows, `{'t', 's'}` for a condition on pairs."""
        return frozenset(cell.row for atom in self.atoms for cell in atom.cells)

    @property
    def columns(self) -> frozenset[str]:
        """The names of its columns."""
        return frozenset(cell.column for atom in self.atoms for cell in atom.cells)

    @property
    def predicates(self) -> tuple[Predicate, ...] | None:
        """Its predicates, if it is a conjunction of predicates between two rows; else None."""
        if len(self.alternatives) != 1:
            return None
        found = [a.predicate if isinstance(a, Comparison) else None for a in self.alternatives[0]]
        return None if None in found else tuple(p for p in found if p is not None)

    @property
    def negated(self) -> "Condition":
        """The condition whose atoms are negated and whose `and` and `or` are exchanged."""
        found = Condition(((),))
        for conjunction in self.alternatives:  # one at a time, as all together may be too many before the bound applies
            found &= Condition(tuple((atom.negated,) for atom in conjunction))
        return found

    def __or__(self, other: "Condition") -> "Condition":
        return Condition(_bounded((*self.alternatives, *other.alternatives)))

    def __and__(self, other: "Condition") -> "Condition":
        return Condition(_bounded((*a, *b) for a, b in product(self.alternatives, other.alternatives)))

    def __str__(self) -> str:
        return " or ".join(" and ".join(map(str, conjunction)) for conjunction in self.alternatives)


def _bounded(alternatives: Iterable[Iterable[Atom]]) -> tuple[tuple[Atom, ...], ...]:
    """Return the distinct conjunctions without repeated atoms, or raise `UsageError` where there are too many."""
    distinct: dict[tuple[Atom, ...], None] = {}
    for conjunction in alternatives:
        atoms = tuple(dict.fromkeys(conjunction))
        if len(atoms) > MAX_ATOMS:
            raise UsageError(f"this condition has more than {MAX_ATOMS} comparisons: split it into several rules")
        distinct[atoms] = None
        if len(distinct) > MAX_ALTERNATIVES:
            raise UsageError(
                f"this condition has more than {MAX_ALTERNATIVES} alternatives once 'and' and 'or' are multiplied "
                "out: split it into several rules"
            )
    return tuple(distinct)
