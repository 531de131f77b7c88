"""The predicate space: the predicates that are considered, and the only module that maps them to bits.

Layout. The column pairs of a space have an order: first every column with itself, then the crossing pairs
(A, B) with A before B, both in the table's column order. Each pair takes three bits (`<`, `=`, `>`) or, where
there is no order, two (`=`, `!=`), lowest first, and never straddles a 64-bit word; words are little end
first. Twenty-one ordered columns fill a word:

    word 0:  A<  A=  A>  B<  B=  B>  C=  C!=  ...

A denial constraint is a mask of allowed outcomes (all bits of the pairs it does not mention), an evidence has
one bit per pair. A pair of rows violates the constraint if `evidence & ~mask == 0`. Python integers stand for any
number of words; `words` cuts them for the kernels.

Invariant: a space never changes. Its fingerprint covers column names, types, orders and pairs, so that a
state made with one space is never read with another.
"""

import hashlib
import json
import struct
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from typing import Any

from holdfast.constraints.columns import Column, Schema
from holdfast.constraints.denial import DenialConstraint
from holdfast.constraints.errors import UsageError
from holdfast.constraints.operators import EQUAL, EVERY_OUTCOME, GREATER, LESS, Operator
from holdfast.constraints.predicates import Predicate
from holdfast.constraints.types import Family, parse_type

WORD = 64
NULLS_RULE = "null = null; below every value where ordered, different from every value elsewhere"

Overlap = Callable[[int, int], tuple[int, int]]
"""Returns for two columns by position the sums over all values of the smaller and of the larger count."""


@dataclass(frozen=True, slots=True)
class ColumnPair:
    """Two columns (or a column with itself) and the position of their outcomes among the bits.

    Parameters
    ----------
    left, right : positions in the schema; `t.left` is compared with `s.right`.
    ordered : three outcomes, or two.
    offset : number of its lowest bit, over all words.
    """

    left: int
    right: int
    ordered: bool
    offset: int

    @property
    def width(self) -> int:
        """The number of outcomes, and so of bits."""
        return 3 if self.ordered else 2

    @property
    def every(self) -> int:
        """All bits of the pair."""
        return ((1 << self.width) - 1) << self.offset

    def bits(self, outcomes: int) -> int:
        """Return a set of outcomes (`Operator.outcomes`) at the bits of the pair.

        Without an order `=` comes first and `!=` second.
        """
        if self.ordered:
            return outcomes << self.offset
        return (bool(outcomes & EQUAL) | bool(outcomes & (LESS | GREATER)) << 1) << self.offset

    def outcomes(self, bits: int) -> int:
        """Return the set of outcomes at the bits of the pair: the inverse of `bits`."""
        local = bits >> self.offset & ((1 << self.width) - 1)
        if self.ordered:
            return local
        return (EQUAL if local & 1 else 0) | (LESS | GREATER if local & 2 else 0)


@dataclass(frozen=True)
class PredicateSpace:
    """The column pairs under consideration for one table.

    Parameters
    ----------
    schema : the table's columns.
    crossing : pairs (left, right) of column positions, left before right, that may be compared across.
    family : whose order of values it takes: strings and booleans are ordered in order dependencies.

    Examples
    --------
    >>> from holdfast.constraints.types import INTEGER, STRING
    >>> tax = Schema("tax", (Column("State", STRING), Column("Salary", INTEGER), Column("Bonus", INTEGER)))
    >>> space = PredicateSpace(tax, ((1, 2),))
    >>> [(p.left, p.right, p.offset) for p in space.pairs]
    [(0, 0, 0), (1, 1, 2), (2, 2, 5), (1, 2, 8)]
    >>> more, same = Predicate("Bonus", Operator.GREATER, "Bonus"), Predicate("State", Operator.EQUAL, "State")
    >>> c = DenialConstraint([more, same])
    >>> str(space.canonical(c)), bin(space.mask(c))
    ('not(t.State = s.State and t.Bonus < s.Bonus)', '0b11110011101')
    """

    schema: Schema
    crossing: tuple[tuple[int, int], ...] = ()
    family: Family = Family.DENIAL

    def __post_init__(self) -> None:
        crossing = tuple(sorted((int(a), int(b)) for a, b in self.crossing))
        object.__setattr__(self, "crossing", crossing)
        for i, (a, b) in enumerate(crossing):
            left, right = self._crossing_columns(a, b)
            if not a < b or crossing[i - 1 : i] == ((a, b),):
                raise UsageError(f"cross pair ({left.name}, {right.name}): expected each pair once, in column order")
            if left.type.group is not right.type.group:
                raise UsageError(
                    f"columns {left.name} ({left.type}) and {right.name} ({right.type}) cannot be compared: "
                    "only columns of one type group can be crossed"
                )

    def _crossing_columns(self, a: int, b: int) -> tuple[Column, Column]:
        if not (0 <= a < len(self.schema) and 0 <= b < len(self.schema)):
            raise UsageError(f"cross pair ({a}, {b}): the table has columns 0 to {len(self.schema) - 1}")
        return self.schema.columns[a], self.schema.columns[b]

    @classmethod
    def build(
        cls,
        schema: Schema,
        cross_columns: str | Collection[tuple[str, str]],
        overlap: Overlap | None = None,
    ) -> "PredicateSpace":
        """Choose the crossing pairs.

        Parameters
        ----------
        schema : the table's columns, with the types of the seed.
        cross_columns : `auto` takes two columns of one type group that have at least 30 % common values
            [IncDC, 3]; `none` takes none; else the pairs of names themselves.
        overlap : how much two columns share, measured on the seed; needed for `auto`.
        """
        if cross_columns == "none":
            return cls(schema)
        if cross_columns == "auto":
            if overlap is None:
                raise UsageError("cross_columns: auto needs a seed to measure common values on; list the pairs")
            return cls(schema, tuple(_joinable(schema, overlap)))
        if isinstance(cross_columns, str):
            raise UsageError(f"cross_columns: '{cross_columns}' is none of auto, none, or a list of column pairs")
        named = [(schema.index(a), schema.index(b)) for a, b in cross_columns]
        return cls(schema, tuple({(min(pair), max(pair)) for pair in named if pair[0] != pair[1]}))

    def of_family(self, family: Family) -> "PredicateSpace":
        """Return the space that a family of constraints has over these columns."""
        return PredicateSpace(self.schema, () if family is Family.ORDER else self.crossing, family)

    @cached_property
    def pairs(self) -> tuple[ColumnPair, ...]:
        """The column pairs in space order."""
        columns = self.schema.columns
        pairs = []
        offset = 0
        for left, right in [*((i, i) for i in range(len(columns))), *self.crossing]:
            ordered = columns[left].ordered_in(self.family) and columns[right].ordered_in(self.family)
            width = 3 if ordered else 2
            if offset % WORD + width > WORD:
                offset += WORD - offset % WORD
            pairs.append(ColumnPair(left, right, ordered, offset))
            offset += width
        return tuple(pairs)

    @cached_property
    def _pair_of(self) -> dict[tuple[str, str], ColumnPair]:
        names = self.schema.names
        return {(names[p.left], names[p.right]): p for p in self.pairs}

    @cached_property
    def word_count(self) -> int:
        """The number of 64-bit words of a mask (at least one)."""
        return 1 if not self.pairs else self.pairs[-1].offset // WORD + 1

    @cached_property
    def every(self) -> int:
        """The mask of `not()`: every outcome of every pair."""
        mask = 0
        for pair in self.pairs:
            mask |= pair.every
        return mask

    def words(self, bits: int) -> tuple[int, ...]:
        """Cut `bits` into 64-bit words, lowest first."""
        kept = bits & (1 << WORD * self.word_count) - 1
        return struct.unpack(f"<{self.word_count}Q", kept.to_bytes(8 * self.word_count, "little"))

    def bits(self, words: Iterable[int]) -> int:
        """Join 64-bit words, lowest first: the inverse of `words`."""
        return int.from_bytes(b"".join(int(word).to_bytes(8, "little") for word in words), "little")

    def pair(self, predicate: Predicate) -> ColumnPair:
        """Return the column pair of `predicate`, or raise `UsageError` if the space does not have it."""
        self.schema.require(predicate.column_pair)
        pair = self._pair_of.get(predicate.column_pair)
        if pair is None:
            raise UsageError(f"'{predicate}' is outside the predicate space: these two columns are not compared there")
        if predicate.operator.needs_order and not pair.ordered:
            raise UsageError(f"'{predicate}': these values have no order in {self.family.words}; use = or !=")
        return pair

    def has(self, constraint: DenialConstraint) -> bool:
        """Whether the space has all predicates of a constraint."""
        pairs = [(self._pair_of.get(p.column_pair), p.operator.needs_order) for p in constraint.predicates]
        return all(pair is not None and pair.ordered >= needs_order for pair, needs_order in pairs)

    def mask(self, constraint: DenialConstraint) -> int:
        """Return the box of `constraint` as bits. O(size)."""
        mask = self.every
        for predicate in constraint.predicates:
            pair = self.pair(predicate)
            mask &= ~pair.every | pair.bits(predicate.operator.outcomes)
        return mask

    def constraint(self, mask: int) -> DenialConstraint:
        """Return the constraint with this mask, predicates in space order: the inverse of `mask`."""
        names = self.schema.names
        predicates = []
        for pair in self.pairs:
            outcomes = pair.outcomes(mask)
            if outcomes != EVERY_OUTCOME:
                predicates.append(Predicate(names[pair.left], Operator(outcomes), names[pair.right]))
        return DenialConstraint(predicates)

    def canonical(self, constraint: DenialConstraint) -> DenialConstraint:
        """Return the constraint or its mirror image, whichever is reported, in space order.

        With predicates on columns with themselves only, the smaller text by code point; with a crossing
        predicate, the one written in the space's orientation.
        """
        if not constraint.crosses:
            return min((self.constraint(self.mask(c)) for c in (constraint, constraint.mirror)), key=str)
        order = {name: i for i, name in enumerate(self.schema.names)}
        self.schema.require(constraint.columns)
        turned = any(order[p.left] > order[p.right] for p in constraint.predicates)
        return self.constraint(self.mask(constraint.mirror if turned else constraint))

    @cached_property
    def fingerprint(self) -> str:
        """SHA-256 of all data that define the meaning of masks."""
        return hashlib.sha256(json.dumps(self.to_json(), sort_keys=True).encode()).hexdigest()

    def to_json(self) -> dict[str, Any]:
        """Return the space as plain values (`--write-space`)."""
        names = self.schema.names
        return {
            "format": 1,
            "table": self.schema.table,
            "nulls": NULLS_RULE,
            "columns": [
                {"name": c.name, "type": str(c.type), "ordered": c.ordered, "assumed": c.assumed} for c in self.schema
            ],
            "cross_columns": [[names[a], names[b]] for a, b in self.crossing],
            **({} if self.family is Family.DENIAL else {"family": self.family.value}),
        }

    @classmethod
    def from_json(cls, value: Any) -> "PredicateSpace":
        """Read back what `to_json` returned (`--space`)."""
        if not isinstance(value, dict) or value.get("format") != 1:
            raise UsageError('not a predicate space: expected what --write-space wrote, with "format": 1')
        families = {family.value: family for family in (Family.DENIAL, Family.ORDER)}
        family = families.get(str(value.get("family", Family.DENIAL.value)))
        if family is None:
            raise UsageError(f"not a predicate space: family '{value['family']}' is none of {', '.join(families)}")
        try:
            columns = tuple(
                Column(str(c["name"]), parse_type(c["type"]), c.get("ordered"), bool(c.get("assumed", False)))
                for c in value["columns"]
            )
            schema = Schema(str(value["table"]), columns)
            crossing = tuple((schema.index(a), schema.index(b)) for a, b in value["cross_columns"])
        except (KeyError, TypeError, AttributeError) as error:
            raise UsageError(f"not a predicate space: {error} is missing or has another form") from error
        return cls(schema, crossing, family)


def _joinable(schema: Schema, overlap: Overlap) -> Iterable[tuple[int, int]]:
    for a, b in combinations(range(len(schema)), 2):
        if schema.columns[a].type.group is schema.columns[b].type.group:
            shared, larger = overlap(a, b)
            if larger and 10 * shared >= 3 * larger:
                yield a, b
