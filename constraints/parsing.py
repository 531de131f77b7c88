r"""Texts to constraints and rules: a scanner without tokens, one method per grammar rule.

Names decide against tokens: after `t.` the papers' tools write `Native-country(String)` unquoted, so what a
name is depends on where it stands. Grammar (upper case: any of the spellings below):

    denial     := NOT ( [predicate (AND predicate)*] )   |   NOT { ... }   |   [DC: predicate*]
    predicate  := cell OP cell                            one cell of t, one of s
    order      := { [name (, name)*] } : [] -> name   |   {...} : name ~ name [desc]
    inclusion  := name.name in name.name
    rule       := body [nulls equal | nulls apart | nulls break]
    body       := denial | order | inclusion | key(name, ...) | name, ... -> name, ... | NOT ( condition ) | condition
    condition  := conjunct (OR conjunct)* ;  conjunct := test (AND test)*
    test       := NOT test | ( condition ) | operand OP operand | cell is [not] null
                | cell [not] in (literal, ...) | cell [not] matches 'pattern'
    operand    := cell | literal ;  literal := number | 'text' | true | false

NOT: `not`, `¬`, `!`; AND: `and`, `∧`, `^`, `&&`; OR: `or`, `∨`, `||`; OP: `=`, `==`, `!=`, `<>`, `≠`, `<`,
`<=`, `≤`, `>`, `>=`, `≥`; LaTeX's `\neg \wedge \vee \neq \leq \geq` too. Rows: `t` and `s`, `t0` and
`t1`, or `t1` and `t2`. A type in parentheses behind an unquoted name, as in `age(Integer)`, is a typed
header's and not part of the name. Keywords are lower or upper case.
"""

import re
from contextlib import suppress
from typing import TYPE_CHECKING

from holdfast.constraints.columns import ColumnRef
from holdfast.constraints.conditions import Comparison, Condition
from holdfast.constraints.denial import DenialConstraint, functional_dependency, key
from holdfast.constraints.errors import ConstraintSyntaxError
from holdfast.constraints.grammar import (
    AND,
    BARE_CELL,
    IN_LIST,
    IS_NULL,
    MATCHES,
    NOT,
    NUMBER,
    OPERATOR,
    QUOTED_NAME,
    ROW,
    TEXT,
    ConditionParser,
    Parsed,
)
from holdfast.constraints.inclusion import InclusionDependency
from holdfast.constraints.nulls import Body, Nulls, RulePart, with_nulls
from holdfast.constraints.order import OrderDependency
from holdfast.constraints.predicates import Predicate

if TYPE_CHECKING:
    from collections.abc import Callable


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


def parse_functional_dependencies(text: str) -> tuple[RulePart, ...]:
    """Read `A, B -> C, D`: a dependency for each column on the right.

    >>> for part in parse_functional_dependencies("Zip -> City, State"):
    ...     print(part.named("places"), part.body)
    places.City not(t.Zip = s.Zip and t.City != s.City)
    places.State not(t.Zip = s.Zip and t.State != s.State)
    """
    return _whole(text, _Parser.functional_dependencies)


def parse_condition(text: str) -> Condition:
    """Read a condition on single rows or on pairs of rows.

    >>> str(parse_condition("not (t.Salary > 0 and t.State = 'NY')"))
    "t.Salary <= 0 or t.State != 'NY'"
    """
    return _whole(text, _Parser.condition)


def parse_rule_body(text: str) -> Body:
    """Read the body of a rule: any constraint, `key(...)`, `A -> B`, `not(condition)`, or a condition on each row.

    >>> parse_rule_body("key(ident)")
    DenialConstraint(predicates=(Predicate(left='ident', operator=<Operator.EQUAL: 2>, right='ident'),))
    >>> str(parse_rule_body("not(t.Salary <= 0)")), str(parse_rule_body("t.Salary > 0"))
    ('t.Salary <= 0', 't.Salary <= 0')
    >>> str(parse_rule_body("key(ident) nulls apart"))
    'not(t.ident = s.ident) nulls apart'
    """
    parts = parse_rule_parts(text)
    if len(parts) > 1:
        raise ConstraintSyntaxError(f"this declares {len(parts)} rules: write them one by one", text, 0)
    return parts[0].body


def parse_rule_parts(text: str) -> tuple[RulePart, ...]:
    """Read the text of a declaration, which may have several parts.

    >>> for part in parse_rule_parts("Zip -> City, State nulls break"):
    ...     print(part.ending, part.body)
    City not(t.Zip = s.Zip and t.City != s.City) nulls apart
    State not(t.Zip = s.Zip and t.State != s.State) nulls apart
    nulls t.Zip is null or t.City is null or t.State is null
    """
    return _whole(text, _Parser.rule_parts)


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


_OPEN = re.compile(r"[({]")
_BRACKETS = re.compile(r"[(\s]+")
_QUANTIFIER = re.compile(r"(?:∀|\\forall\b)[^¬\\(]*")
_NULLS = re.compile(r"nulls\b", re.IGNORECASE)
_TREATMENT = re.compile("|".join(rf"{nulls.value}\b" for nulls in Nulls), re.IGNORECASE)
_KEY = re.compile(r"(?:key|unique)\s*\(", re.IGNORECASE)
_DESC = re.compile(r"desc\b", re.IGNORECASE)
_IN = re.compile(r"in\b|⊆", re.IGNORECASE)
_SURROGATE = re.compile("[\ud800-\udfff]")


class _Parser(ConditionParser):
    """The grammar rules of constraints and rules."""

    def constraint(self) -> DenialConstraint | OrderDependency | InclusionDependency:
        self.accept("")
        rest = self.text[self.position :]
        if rest.startswith("{"):
            return self.order()
        if rest.startswith("[") or NOT.match(rest) or _QUANTIFIER.match(rest):
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
                self.accept(AND)
            return self.build(DenialConstraint, predicates)
        self.accept(_QUANTIFIER)
        self.expect(NOT, "'not('")
        close = "}" if self.expect(_OPEN, "'('")[0] == "{" else ")"
        predicates = []
        while not self.accept(close):
            if predicates:
                self.expect(AND, f"'and' or '{close}'")
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
        parts = self.functional_dependencies()
        if len(parts) > 1:
            self.refuse("one column on the right of '->': declare a rule for each", self.position)
        body = parts[0].body
        assert isinstance(body, DenialConstraint)
        return body

    def functional_dependencies(self) -> tuple[RulePart, ...]:
        determinants = self.names("->")
        found: dict[str, RulePart] = {}
        while not found or self.accept(","):
            dependent = self.name()
            if dependent in determinants:
                self.refuse(f"'{dependent}' stands on both sides: this holds always", self.position)
            if dependent in found:
                self.refuse(f"'{dependent}' is named twice: remove one", self.position)
            found[dependent] = RulePart(self.build(functional_dependency, determinants, dependent), dependent)
        return tuple(found.values()) if len(found) > 1 else tuple(RulePart(part.body) for part in found.values())

    def rule_parts(self) -> tuple[RulePart, ...]:
        parts = self.bodies()
        nulls = None
        if self.accept(_NULLS):
            nulls = Nulls(self.expect(_TREATMENT, "equal, apart or break")[0].lower())
        return self.build(with_nulls, parts, nulls)

    def bodies(self) -> tuple[RulePart, ...]:
        self.accept("")
        rest = self.text[self.position :]
        if rest.startswith(("{", "[")) or _QUANTIFIER.match(rest):
            return (RulePart(self.constraint()),)
        if self.accept(_KEY):
            names = self.names(")")
            return (RulePart(self.build(key, names) if names else self.fail("a column's name before ')'")),)
        if self.accept(NOT):
            self.expect("(", "'('")
            body = _as_body(self.condition())
            self.expect(")", "'and' or ')'")
            return (RulePart(body),)
        if self.tests_cells():
            return (RulePart(self.required()),)
        if "->" in TEXT.sub("", QUOTED_NAME.sub("", rest)):
            return self.functional_dependencies()
        if BARE_CELL.match(rest):
            return (RulePart(self.required()),)
        return (RulePart(self.inclusion()),)

    def tests_cells(self) -> bool:
        """Whether a condition follows, such as `t.month >= 1`; `t.a in s.b` is an inclusion of tables `t` and `s`."""
        start = self.position
        self.accept(_BRACKETS)
        is_constant = bool((self.accept(TEXT) or self.accept(NUMBER)) and self.accept(OPERATOR))
        found = is_constant or self.cell_follows()
        self.position = start
        return found

    def cell_follows(self) -> bool:
        """Whether a cell follows that is tested."""
        if not ROW.match(self.text, self.position):
            return False
        with suppress(ConstraintSyntaxError):
            self.cell()
            return any(self.accept(pattern) for pattern in (OPERATOR, IS_NULL, IN_LIST, MATCHES))
        return False

    def required(self) -> Condition:
        start = self.position
        condition = self.condition()
        if condition.rows == {"t", "s"}:
            self.refuse("this compares two rows: say what two rows must not be, as in not(...)", start)
        return condition.negated
