"""The grammar of conditions: a cursor in a text, names, cells, literals, and the conditions on them.

`parsing.py` has the whole grammar; it reads constraints and rules with a `ConditionParser`.
"""

import re
from collections.abc import Callable
from typing import NoReturn, TypeVar

from holdfast.constraints.conditions import (
    Atom,
    Cell,
    Comparison,
    Condition,
    Literal,
    MemberTest,
    NullTest,
    PatternTest,
    Row,
)
from holdfast.constraints.errors import ConstraintSyntaxError, UsageError
from holdfast.constraints.operators import SPELLINGS, Operator
from holdfast.constraints.types import is_type_name

Parsed = TypeVar("Parsed")

NOT = re.compile(r"¬|\\neg\b|!(?!=)|not\b(?!\.)", re.IGNORECASE)
AND = re.compile(r"∧|\^|&&|\\wedge\b|and\b", re.IGNORECASE)
_OR = re.compile(r"∨|\|\||\\vee\b|or\b", re.IGNORECASE)
_LATEX = {"\\neq": Operator.UNEQUAL, "\\leq": Operator.LESS_EQUAL, "\\geq": Operator.GREATER_EQUAL}
_OPERATORS = {**SPELLINGS, **_LATEX}
OPERATOR = re.compile("|".join(re.escape(s) for s in sorted(_OPERATORS, key=len, reverse=True)))
ROW = re.compile(r"(t[012]|[ts])\s*\.\s*", re.IGNORECASE)
QUOTED_NAME = re.compile(r"`((?:[^`]|``)*)`")
_LOOSE_NAME = re.compile(r"(?:(?!->)[^\s=<>!≠≤≥∧∨¬^,()'\"`\[\]{}:~|&\\])+")
_NAME_WITHOUT_DOT = re.compile(r"(?:(?!->)[^\s.=<>!≠≤≥∧∨¬^,()'\"`\[\]{}:~|&\\])+")
_TYPE_SUFFIX = re.compile(r"\(([A-Za-z0-9_]+)\)")
TEXT = re.compile(r"'((?:[^']|'')*)'")
NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?(?:nan|inf(?:inity)?)\b", re.IGNORECASE)
_BOOLEAN = re.compile(r"(true|false)\b", re.IGNORECASE)
IS_NULL = re.compile(r"is\s+(not\s+)?null\b", re.IGNORECASE)
IN_LIST = re.compile(r"(not\s+)?in\s*\(", re.IGNORECASE)
MATCHES = re.compile(r"(not\s+)?matches\b", re.IGNORECASE)
BARE_CELL = re.compile(r"([^\W\d]\w*)\s*(?:[=<>!≠≤≥]|(?:is|matches)\b|(?:not\s+)?(?:in\s*\(|matches\b))", re.IGNORECASE)
_MAX_DEPTH = 100


class ConditionParser:
    """A cursor in a text, and the grammar rules of conditions that move it."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.position = 0
        self.depth = 0
        self.left_row = "t1" if "t2." in text and "t0." not in text else "t0"

    # The cursor

    def accept(self, pattern: re.Pattern[str] | str) -> re.Match[str] | None:
        """Skip white space, and `pattern` if it follows; return the match or None."""
        while self.position < len(self.text) and self.text[self.position].isspace():
            self.position += 1
        if isinstance(pattern, str):
            pattern = re.compile(re.escape(pattern))
        match = pattern.match(self.text, self.position)
        if match:
            self.position = match.end()
        return match

    def expect(self, pattern: re.Pattern[str] | str, expected: str) -> re.Match[str]:
        """Return the match of `pattern`, which has to follow."""
        return self.accept(pattern) or self.fail(expected)

    def fail(self, expected: str) -> NoReturn:
        """Raise an error that says what was expected here."""
        self.accept("")
        found = "" if self.position < len(self.text) else ", and the text ends"
        raise ConstraintSyntaxError(f"expected {expected}{found}", self.text, self.position)

    def refuse(self, problem: str, position: int) -> NoReturn:
        """Raise an error about the text at a position."""
        raise ConstraintSyntaxError(problem, self.text, position)

    def end(self) -> None:
        """Raise an error unless the text ends here."""
        self.accept("")
        if self.position < len(self.text):
            self.fail("nothing more")

    # Names, cells, literals

    def name(self, *, dots: bool = True) -> str:
        """Read a name, in backquotes or not; `dots`: whether a dot may be part of it without backquotes."""
        quoted_name = self.accept(QUOTED_NAME)
        if quoted_name:
            return quoted_name[1].replace("``", "`")
        loose = self.expect(
            _LOOSE_NAME if dots else _NAME_WITHOUT_DOT, "a column's name (in backquotes if it is not plain)"
        )
        suffix = _TYPE_SUFFIX.match(self.text, self.position)
        if suffix and is_type_name(suffix[1]):
            self.position = suffix.end()
        return loose[0]

    def names(self, close: str) -> list[str]:
        """Read names with commas between them, and `close` behind them."""
        found: list[str] = []
        while not self.accept(close):
            if found:
                self.expect(",", f"',' or '{close}'")
            found.append(self.name())
        return found

    def cell(self) -> Cell | None:
        """Read a cell, if one follows."""
        row = self.accept(ROW)
        if row is None:
            return None
        variable = row[1].lower()
        side: Row = "t" if variable in {"t", self.left_row} or (variable == "t1" and "t0." not in self.text) else "s"
        return Cell(side, self.name())

    def literal(self) -> Literal | None:
        """Read a constant, if one follows."""
        text = self.accept(TEXT)
        if text:
            return Literal(text[1].replace("''", "'"), is_text=True)
        word = self.accept(_BOOLEAN) or self.accept(NUMBER)
        return Literal(word[0].lower(), is_text=False) if word else None

    def operator(self) -> Operator:
        """Read the operator of a comparison."""
        return _OPERATORS[self.expect(OPERATOR, "a comparison (=, !=, <, <=, >, >=)")[0]]

    # Conditions

    def condition(self) -> Condition:
        """Read conjunctions with `or` between them."""
        found = self.conjunction()
        while self.accept(_OR):
            found |= self.conjunction()
        return found

    def conjunction(self) -> Condition:
        """Read tests with `and` between them."""
        found = self.test()
        while self.accept(AND):
            found &= self.test()
        return found

    def test(self) -> Condition:
        """Read a negation, a condition in parentheses, or an atom."""
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            self.refuse(f"more than {_MAX_DEPTH} levels of parentheses and negations", self.position)
        if self.accept(NOT):
            found = self.test().negated
        elif self.accept("("):
            found = self.condition()
            self.expect(")", "'and', 'or' or ')'")
        else:
            found = Condition.of(self.comparison())
        self.depth -= 1
        return found

    def comparison(self) -> Atom:
        """Read an atom."""
        self.accept("")
        start = self.position
        left = self.cell() or self.literal()
        if left is None:
            if bare := BARE_CELL.match(self.text, start):
                self.refuse(f"a condition names the row of a column: write t.{bare[1]}", start)
            self.fail("a cell such as t.Salary, a number or a 'text'")
        if isinstance(left, Cell) and (found := self.cell_test(left)):
            return found
        operator = self.operator()
        right = self.cell() or self.literal() or self.fail("a cell such as s.Salary, a number or a 'text'")
        if isinstance(left, Cell):
            return Comparison(left, operator, right)
        if not isinstance(right, Cell):
            self.refuse("this compares two constants: name a column, as in t.Salary", start)
        return Comparison(right, operator.mirror, left)

    def cell_test(self, cell: Cell) -> Atom | None:
        """Read a test of one cell alone, if one follows."""
        if null_test := self.accept(IS_NULL):
            return NullTest(cell, not null_test[1])
        if in_list := self.accept(IN_LIST):
            literals: dict[Literal, None] = {}
            while not literals or not self.accept(")"):
                if literals:
                    self.expect(",", "',' or ')'")
                literals[self.literal() or self.fail("a number or a 'text'")] = None
            return self.build(MemberTest, cell, tuple(literals), not in_list[1])
        if matches := self.accept(MATCHES):
            pattern = self.expect(TEXT, "a pattern in quotes, such as '[0-9]{5}'")
            return PatternTest(cell, pattern[1].replace("''", "'"), not matches[1])
        return None

    def build(self, make: Callable[..., Parsed], *parts: object, **named: object) -> Parsed:
        """Build a value; errors of its constructor are raised with the text."""
        try:
            return make(*parts, **named)
        except ConstraintSyntaxError:
            raise
        except UsageError as error:
            raise ConstraintSyntaxError(str(error), self.text, 0) from error
