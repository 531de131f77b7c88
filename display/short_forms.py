"""Constraints as people write them, with the word for their kind.

    key(tailnum)                  key
    model -> seats                functional_dependency
    -> year                       constant
    {State}: Salary ~ Rate        order_compatible
    orders.customer in people.id  inclusion
    not(t.a < s.a and t.b = s.c)  other

Invariant: `parse_rule_body` reads a text back as the same constraint.
"""

from holdfast.constraints import Constraint, DenialConstraint, InclusionDependency, NearConstraint, NearShape
from holdfast.constraints.forms import simplest_form
from holdfast.constraints.names import quoted

KEY, FOREIGN_KEY, DEPENDENCY, CONSTANT = "key", "foreign_key", "functional_dependency", "constant"
ORDER, INCLUSION, OTHER = "order_compatible", "inclusion", "other"
KINDS = (KEY, FOREIGN_KEY, DEPENDENCY, CONSTANT, ORDER, INCLUSION, OTHER)
"""The words for the kinds of constraints."""
NOUNS_OF_KINDS = {
    KEY: ("key", "keys"),
    FOREIGN_KEY: ("foreign key", "foreign keys"),
    DEPENDENCY: ("functional dependency", "functional dependencies"),
    CONSTANT: ("constant column", "constant columns"),
    ORDER: ("order compatibility", "order compatibilities"),
    INCLUSION: ("inclusion dependency", "inclusion dependencies"),
    OTHER: ("other denial constraint", "other denial constraints"),
}
"""Nouns for one, and for several constraints of a kind."""
_WORDS = frozenset({"not", "nulls"})


def short_form(constraint: object) -> str:
    """Return a constraint, or the body of a rule, in the shortest usual form.

    >>> from holdfast.constraints import parse_rule_body
    >>> texts = ("not(t.Zip = s.Zip and t.City != s.City)", "not(t.Id = s.Id)", "{}: [] -> Year", "{}: A ~ B desc")
    >>> for text in (*texts, "{State}: Salary ~ Rate", "not(t.a < s.b)", "orders.customer in people.id"):
    ...     print(short_form(parse_rule_body(text)))
    Zip -> City
    key(Id)
    -> Year
    {}: A ~ B desc
    {State}: Salary ~ Rate
    not(t.a < s.b)
    orders.customer in people.id
    """
    near = constraint if isinstance(constraint, NearConstraint) else simplest_form(constraint)
    if near is None or near.shape is not NearShape.CONSTANT:
        return str(near or constraint)
    return f"{', '.join(map(_name, near.context))} -> {_name(near.target[0])}".lstrip()


def _name(column: str) -> str:
    """Return the name of a column, in backquotes where a rule would begin or end with a word of its own."""
    return f"`{column}`" if column.lower() in _WORDS else quoted(column)


def foreign_key_form(inclusion: InclusionDependency) -> str:
    """Return an inclusion as a foreign key: `orders.customer -> people.id`."""
    return f"{inclusion.dependent} -> {inclusion.referenced}"


def kind_name(constraint: Constraint) -> str:
    """Return the word for the kind of a constraint.

    >>> from holdfast.constraints import parse_constraint
    >>> [kind_name(parse_constraint(text)) for text in ("{Zip}: [] -> City", "{}: [] -> Year", "not(t.a < s.a)")]
    ['functional_dependency', 'constant', 'other']
    """
    if isinstance(constraint, InclusionDependency):
        return INCLUSION
    near = constraint if isinstance(constraint, NearConstraint) else simplest_form(constraint)
    if near is None:
        assert isinstance(constraint, DenialConstraint)
        return OTHER
    if near.shape is NearShape.KEY:
        return KEY
    if near.shape is NearShape.CONSTANT:
        return DEPENDENCY if near.context else CONSTANT
    return ORDER
