"""The six comparison operators as sets of outcomes.

Two comparable values have exactly one of three outcomes: less, equal, greater. An operator *is* the set of
outcomes that satisfy it, so inverse, mirror image, implication and conjunction are set operations:

    =   {=}        !=  {<, >}
    <   {<}        >=  {=, >}
    >   {>}        <=  {<, =}

Values without an order are equal or different; different is `{<, >}` there, never one of the two. Every set
but the empty one and the full one is an operator, which is why a denial constraint needs at most one
predicate per column pair.
"""

import enum

LESS, EQUAL, GREATER = 0b001, 0b010, 0b100
EVERY_OUTCOME = LESS | EQUAL | GREATER


class Operator(enum.Enum):
    """A comparison, with the set of its outcomes as value.

    Examples
    --------
    >>> Operator.LESS.inverse, Operator.LESS.mirror, Operator.LESS.implies(Operator.UNEQUAL)
    (<Operator.GREATER_EQUAL: 6>, <Operator.GREATER: 4>, True)
    """

    LESS = LESS
    EQUAL = EQUAL
    LESS_EQUAL = LESS | EQUAL
    GREATER = GREATER
    UNEQUAL = LESS | GREATER
    GREATER_EQUAL = EQUAL | GREATER

    @property
    def outcomes(self) -> int:
        """The outcomes that satisfy the operator, as bits."""
        return int(self.value)

    @property
    def inverse(self) -> "Operator":
        """The operator that is satisfied exactly where this operator is not."""
        return Operator(EVERY_OUTCOME ^ self.outcomes)

    @property
    def mirror(self) -> "Operator":
        """The operator with both sides exchanged: `a < b` is `b > a`."""
        swapped = self.outcomes & EQUAL
        swapped |= GREATER if self.outcomes & LESS else 0
        swapped |= LESS if self.outcomes & GREATER else 0
        return Operator(swapped)

    def implies(self, other: "Operator") -> bool:
        """Whether every pair of values that satisfies this operator satisfies `other`."""
        return self.outcomes & ~other.outcomes == 0

    @property
    def needs_order(self) -> bool:
        """Whether the operator distinguishes less and greater."""
        return self not in {Operator.EQUAL, Operator.UNEQUAL}

    def __str__(self) -> str:
        return _SYMBOLS[self]


_SYMBOLS = {
    Operator.EQUAL: "=",
    Operator.UNEQUAL: "!=",
    Operator.LESS: "<",
    Operator.LESS_EQUAL: "<=",
    Operator.GREATER: ">",
    Operator.GREATER_EQUAL: ">=",
}

SPELLINGS = {
    **{symbol: operator for operator, symbol in _SYMBOLS.items()},
    "==": Operator.EQUAL,
    "<>": Operator.UNEQUAL,
    "≠": Operator.UNEQUAL,
    "≤": Operator.LESS_EQUAL,
    "≥": Operator.GREATER_EQUAL,
}
