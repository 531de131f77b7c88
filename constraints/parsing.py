r"""Texts to constraints and rules: a scanner without tokens, one method per grammar rule.

Names decide against tokens: after `t.` the papers' tools write `Native-country(String)` unquoted, so what a
name is depends on where it stands. Grammar (upper case: any of the spellings below):

    denial     := NOT ( [predicate (AND predicate)*] )   |   NOT { ... }   |   [DC: predicate*]
    predicate  := cell OP cell                            one cell of t, one of s
    order      := { [name (, name)*] } : [] -> name   |   {...} : name ~ name [desc]
    inclusion  := name.name in name.name
    rule       := denial | order | inclusion | key(name, ...) | name, ... -> name | NOT ( condition )
    condition  := conjunct (OR conjunct)* ;  conjunct := test (AND test)*
    test       := NOT test | ( condition ) | operand OP operand | cell is [not] null
    operand    := cell | number | 'text' | true | false

NOT: `not`, `¬`, `!`; AND: `and`, `∧`, `^`, `&&`; OR: `or`, `∨`, `||`; OP: `=`, `==`, `!=`, `<>`, `≠`, `<`,
`<=`, `≤`, `>`, `>=`, `≥`; LaTeX's `\neg \wedge \vee \neq \leq \geq` too. Rows: `t` and `s`, `t0` and
`t1`, or `t1` and `t2`. A type in parentheses behind an unquoted name, as in `age(Integer)`, is a typed
header's and not part of the name. Keywords are lower or upper case.
"""

import re
from collections.abc import Callable
from typing import NoReturn, TypeVar

from holdfast.constraints.columns import ColumnRef
from holdfast.constraints.conditions import Cell, Comparison, Condition, Literal, NullTest, Row
from holdfast.constraints.denial import DenialConstraint, functional_dependency, key
from holdfast.constraints.errors import ConstraintSyntaxError, UsageError
from holdfast.constraints.inclusion import InclusionDependency
from holdfast.constraints.operators import SPELLINGS, Operator
from holdfast.constraints.order import OrderDependency
from holdfast.constraints.predicates import Predicate
from holdfast.constraints.rules import Body
from holdfast.constraints.types import is_type_name

Parsed = TypeVar("Parsed")


def parse_denial(text: str) -> DenialConstraint:
    """Read a denial constraint, in the notation of Holdfast or of the papers.

    Examples
    --------
    >>> str(parse_denial("¬(t0.State(String) == t1.State(String)^t0.Rate(Double) <> t1.Rate(Double))"))
    'not(t.State = s.State and t.Rate != s.Rate)'
    >>> str(parse_denial("[DC: t0.a-b(String) == t1.a-b(String)  t0.c(Integer) > t1.d(Integer)  ]"))
    'not(t.`a-b` = s.`a-b` and t.c > s.d)'
    >>> parse_denial("not(t.A s.A)")
    Traceback (most recent call last):
    ...
    holdfast.constraints.errors.ConstraintSyntaxError: expected a comparison ... at character 9:
      not(t.A s.A)
              ^
    """
    return _whole(text, _Parser.denial)


def parse_order(text: str) -> OrderDependency:
    """Read an order dependency: `{X}: [] -> A`, `{X}: A ~ B` or `{X}: A ~ B desc`."""
    return _whole(text, _Parser.order)


def parse_inclusion(text: str) -> InclusionDependency:
    """Read an inclusion dependency: `table.column in table.column`."""
    return _whole(text, _Parser.inclusion)


def parse_constraint(text: str) -> DenialConstraint | OrderDependency | InclusionDependency:
    """Read a constraint of any family; the first character decides the family."""
    return _whole(text, _Parser.constraint)


def parse_functional_dependency(text: str) -> DenialConstraint:
    """Read `A, B -> C`.

    >>> str(parse_functional_dependency("Zip, Street -> City"))
    'not(t.Zip = s.Zip and t.Street = s.Street and t.City != s.City)'
    """
    return _whole(text, _Parser.functional_dependency)


def parse_condition(text: str) -> Condition:
    """Read a condition on single rows or on pairs of rows.

    >>> str(parse_condition("not (t.Salary > 0 and t.State = 'NY')"))
    "t.Salary <= 0 or t.State != 'NY'"
    """
    return _whole(text, _Parser.condition)


def parse_rule_body(text: str) -> Body:
    """Read the body of a rule: any constraint, `key(...)`, `A -> B`, or `not(condition)`.

    >>> parse_rule_body("key(ident)")
    DenialConstraint(predicates=(Predicate(left='ident', operator=<Operator.EQUAL: 2>, right='ident'),))
    >>> str(parse_rule_body("not(t.Salary <= 0)"))
    't.Salary <= 0'
    """
    return _whole(text, _Parser.rule_body)


def parse_forbidden(text: str) -> Body:
    """Read a forbidden condition, or the predicates of a denial constraint without `not(...)`.

    >>> str(parse_forbidden("t.State = s.State and t.Salary > s.Salary and t.Rate < s.Rate"))
    'not(t.State = s.State and t.Salary > s.Salary and t.Rate < s.Rate)'
    """
    condition = parse_condition(text)
    if condition.rows == {"t", "s"} and re.match(r"\s*(not\b|¬|!)", text):
        raise ConstraintSyntaxError("'forbid' names what must not occur, so leave out the 'not'", text, 0)
    return _as_body(condition)


def parse_required(text: str) -> Condition:
    """Read a condition that every row must satisfy; return its negation, which is forbidden.

    >>> str(parse_required("t.Salary > 0 or t.State is null"))
    't.Salary <= 0 and t.State is not null'
    """
    condition = parse_condition(text)
    if condition.rows == {"t", "s"}:
        raise ConstraintSyntaxError("'require' is for conditions on single rows; use 'forbid' for pairs", text, 0)
    return condition.negated


def _whole(text: str, rule: "Callable[[_Parser], Parsed]") -> Parsed:
    """Apply one grammar rule to all of `text`."""
    if (alone := _SURROGATE.search(text)) is not None:
        raise ConstraintSyntaxError("this character is no part of a text in UTF-8", text, alone.start())
    parser = _Parser(text)
    parsed = rule(parser)
    parser.end()
    return parsed


def _as_body(condition: Condition) -> Body:
    predicates = condition.predicates
    return condition if predicates is None else DenialConstraint(predicates)


_NOT = re.compile(r"¬|\\neg\b|!(?!=)|not\b(?!\.)", re.IGNORECASE)
_AND = re.compile(r"∧|\^|&&|\\wedge\b|and\b", re.IGNORECASE)
_OR = re.compile(r"∨|\|\||\\vee\b|or\b", re.IGNORECASE)
_LATEX = {"\\neq": Operator.UNEQUAL, "\\leq": Operator.LESS_EQUAL, "\\geq": Operator.GREATER_EQUAL}
_OPERATORS = {**SPELLINGS, **_LATEX}
_OPERATOR = re.compile("|".join(re.escape(s) for s in sorted(_OPERATORS, key=len, reverse=True)))
_OPEN = re.compile(r"[({]")
_QUANTIFIER = re.compile(r"(?:∀|\\forall\b)[^¬\\(]*")
_ROW = re.compile(r"(t[012]|[ts])\s*\.\s*", re.IGNORECASE)
_QUOTED_NAME = re.compile(r"`((?:[^`]|``)*)`")
_LOOSE_NAME = re.compile(r"(?:(?!->)[^\s=<>!≠≤≥∧∨¬^,()'\"`\[\]{}:~|&\\])+")
_NAME_WITHOUT_DOT = re.compile(r"(?:(?!->)[^\s.=<>!≠≤≥∧∨¬^,()'\"`\[\]{}:~|&\\])+")
_TYPE_SUFFIX = re.compile(r"\(([A-Za-z0-9_]+)\)")
_TEXT = re.compile(r"'((?:[^']|'')*)'")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?|[+-]?(?:nan|inf(?:inity)?)\b", re.IGNORECASE)
_BOOLEAN = re.compile(r"(true|false)\b", re.IGNORECASE)
_IS_NULL = re.compile(r"is\s+(not\s+)?null\b", re.IGNORECASE)
_KEY = re.compile(r"(?:key|unique)\s*\(", re.IGNORECASE)
_DESC = re.compile(r"desc\b", re.IGNORECASE)
_IN = re.compile(r"in\b|⊆", re.IGNORECASE)
_SURROGATE = re.compile("[\ud800-\udfff]")
_MAX_DEPTH = 100


class _Parser:
    """A cursor in a text, and the grammar rules that move it."""

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
        return self.accept(pattern) or self.fail(expected)

    def fail(self, expected: str) -> NoReturn:
        self.accept("")
        found = "" if self.position < len(self.text) else ", and the text ends"
        raise ConstraintSyntaxError(f"expected {expected}{found}", self.text, self.position)

    def refuse(self, problem: str, position: int) -> NoReturn:
        raise ConstraintSyntaxError(problem, self.text, position)

    def end(self) -> None:
        self.accept("")
        if self.position < len(self.text):
            self.fail("nothing more")

    # Names, cells, literals

    def name(self, *, dots: bool = True) -> str:
        quoted_name = self.accept(_QUOTED_NAME)
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
        found: list[str] = []
        while not self.accept(close):
            if found:
                self.expect(",", f"',' or '{close}'")
            found.append(self.name())
        return found

    def cell(self) -> Cell | None:
        row = self.accept(_ROW)
        if row is None:
            return None
        variable = row[1].lower()
        side: Row = "t" if variable in {"t", self.left_row} or (variable == "t1" and "t0." not in self.text) else "s"
        return Cell(side, self.name())

    def literal(self) -> Literal | None:
        text = self.accept(_TEXT)
        if text:
            return Literal(text[1].replace("''", "'"), is_text=True)
        word = self.accept(_BOOLEAN) or self.accept(_NUMBER)
        return Literal(word[0].lower(), is_text=False) if word else None

    def operator(self) -> Operator:
        return _OPERATORS[self.expect(_OPERATOR, "a comparison (=, !=, <, <=, >, >=)")[0]]

    # Constraints

    def constraint(self) -> DenialConstraint | OrderDependency | InclusionDependency:
        self.accept("")
        rest = self.text[self.position :]
        if rest.startswith("{"):
            return self.order()
        if rest.startswith("[") or _NOT.match(rest) or _QUANTIFIER.match(rest):
            return self.denial()
        if not rest:
            self.fail("a constraint")
        return self.inclusion()

    def denial(self) -> DenialConstraint:
        if self.accept("["):
            self.expect(re.compile(r"DC\s*:"), "'DC:'")
            predicates = []
            while not self.accept("]"):
                predicates.append(self.predicate())
                self.accept(_AND)
            return self.build(DenialConstraint, predicates)
        self.accept(_QUANTIFIER)
        self.expect(_NOT, "'not('")
        close = "}" if self.expect(_OPEN, "'('")[0] == "{" else ")"
        predicates = []
        while not self.accept(close):
            if predicates:
                self.expect(_AND, f"'and' or '{close}'")
            predicates.append(self.predicate())
        return self.build(DenialConstraint, predicates)

    def predicate(self) -> Predicate:
        self.accept("")
        start = self.position
        comparison = self.comparison()
        predicate = comparison.predicate if isinstance(comparison, Comparison) else None
        if predicate is None:
            self.refuse(
                "a denial constraint compares a cell of t with a cell of s; declare anything else as a rule",
                start,
            )
        return predicate

    def order(self) -> OrderDependency:
        self.expect("{", "'{'")
        context = self.names("}")
        self.expect(":", "':'")
        if self.accept("["):
            self.expect("]", "']'")
            self.expect(re.compile("->|→"), "'->'")
            return self.build(OrderDependency, context, [self.name()])
        left = self.name()
        self.expect("~", "'~'")
        right = self.name()
        return self.build(OrderDependency, context, [left, right], opposite=bool(self.accept(_DESC)))

    def inclusion(self) -> InclusionDependency:
        dependent = self.column_of_table()
        self.expect(_IN, "'in'")
        return self.build(InclusionDependency, dependent, self.column_of_table())

    def column_of_table(self) -> ColumnRef:
        table = self.name(dots=False)
        self.expect(".", "'.' and a column's name (names with a dot in backquotes)")
        return ColumnRef(table, self.name(dots=False))

    def functional_dependency(self) -> DenialConstraint:
        determinants = self.names("->")
        dependent = self.name()
        if self.accept(","):
            self.refuse("one column on the right of '->': declare a rule for each", self.position - 1)
        if dependent in determinants:
            self.refuse(f"'{dependent}' stands on both sides: this holds always", self.position)
        return self.build(functional_dependency, determinants, dependent)

    def rule_body(self) -> Body:
        self.accept("")
        rest = self.text[self.position :]
        if rest.startswith(("{", "[")) or _QUANTIFIER.match(rest):
            return self.constraint()
        if self.accept(_KEY):
            names = self.names(")")
            return self.build(key, names) if names else self.fail("a column's name before ')'")
        if self.accept(_NOT):
            self.expect("(", "'('")
            body = _as_body(self.condition())
            self.expect(")", "'and' or ')'")
            return body
        without_names = _QUOTED_NAME.sub("", rest)
        return self.functional_dependency() if "->" in without_names else self.inclusion()

    # Conditions

    def condition(self) -> Condition:
        found = self.conjunction()
        while self.accept(_OR):
            found |= self.conjunction()
        return found

    def conjunction(self) -> Condition:
        found = self.test()
        while self.accept(_AND):
            found &= self.test()
        return found

    def test(self) -> Condition:
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            self.refuse(f"more than {_MAX_DEPTH} levels of parentheses and negations", self.position)
        if self.accept(_NOT):
            found = self.test().negated
        elif self.accept("("):
            found = self.condition()
            self.expect(")", "'and', 'or' or ')'")
        else:
            found = Condition.of(self.comparison())
        self.depth -= 1
        return found

    def comparison(self) -> Comparison | NullTest:
        start = self.position
        left = self.cell() or self.literal() or self.fail("a cell such as t.Salary, a number or a 'text'")
        if isinstance(left, Cell):
            null_test = self.accept(_IS_NULL)
            if null_test:
                return NullTest(left, not null_test[1])
        operator = self.operator()
        right = self.cell() or self.literal() or self.fail("a cell such as s.Salary, a number or a 'text'")
        if isinstance(left, Cell):
            return Comparison(left, operator, right)
        if not isinstance(right, Cell):
            self.refuse("this compares two constants: name a column, as in t.Salary", start)
        return Comparison(right, operator.mirror, left)

    def build(self, make: Callable[..., Parsed], *parts: object, **named: object) -> Parsed:
        """Build a value; errors of its constructor are raised with the text."""
        try:
            return make(*parts, **named)
        except ConstraintSyntaxError:
            raise
        except UsageError as error:
            raise ConstraintSyntaxError(str(error), self.text, 0) from error
