"""The forms in which one constraint is published.

With near constraints beside denial constraints and order dependencies, a key is published as a denial constraint and as
a near constraint; a functional dependency and an order compatibility also as an order dependency. Published texts have
the columns in the order of the table, so that the forms of a constraint, and their identities, follow from its columns.
"""

from collections.abc import Hashable, Iterable, Iterator, Mapping
from functools import lru_cache

from holdfast.constraints.denial import DenialConstraint
from holdfast.constraints.errors import HoldfastError
from holdfast.constraints.near import NearConstraint, near_form, order_form
from holdfast.constraints.order import OrderDependency
from holdfast.constraints.parsing import parse_rule_body


def simplest_form(body: object) -> NearConstraint | None:
    """Return a constraint as a near constraint, the simplest form; None where it has no such form.

    >>> str(simplest_form(parse_rule_body("not(t.Zip = s.Zip and t.City != s.City)")))
    '{Zip}: [] -> City'
    """
    return near_form(body) or order_form(body)


@lru_cache(maxsize=20_000)
def canonical_key(text: str) -> Hashable:
    """Return a key of a constraint, given its text: equal for all forms of the constraint, and all ways to write it.

    >>> canonical_key("not(t.A = s.A and t.B < s.B and t.C > s.C)") == canonical_key("{A}: C ~ B")
    True
    """
    try:
        body = parse_rule_body(text)
    except HoldfastError:  # a text of a later version
        return text
    form = simplest_form(body)
    if form is not None:
        return form.shape, frozenset(form.context), frozenset(form.target)
    if isinstance(body, DenialConstraint):
        return frozenset(frozenset(one.outcomes.items()) for one in (body, body.mirror))
    return str(body)


def exact_forms(near: NearConstraint, order: Mapping[str, int]) -> Iterator[DenialConstraint | OrderDependency]:
    """Yield the constraints that say what a near constraint says without exceptions, as they are published.

    The denial constraint is the first.

    Parameters
    ----------
    order : the position of each column in the table.

    >>> from holdfast.constraints.near import NearShape
    >>> near = NearConstraint(NearShape.CONSTANT, ["Zip"], ["City"])
    >>> [str(form) for form in exact_forms(near, {"City": 0, "Zip": 1})]
    ['not(t.City != s.City and t.Zip = s.Zip)', '{Zip}: [] -> City']
    """
    exact = published_near(near, order).exact
    if isinstance(exact, DenialConstraint):
        yield exact
        return
    predicates = {p.left: p for p in exact.as_denial().predicates}
    yield DenialConstraint(predicates[name] for name in _sorted(predicates, order))
    yield exact


def published_near(near: NearConstraint, order: Mapping[str, int]) -> NearConstraint:
    """Return a near constraint as it is published, with its columns in the order of the table."""
    return NearConstraint(near.shape, _sorted(near.context, order), _sorted(near.target, order))


def _sorted(names: Iterable[str], order: Mapping[str, int]) -> list[str]:
    """Return columns in the order of the table; unknown ones last, as new columns are."""
    return sorted(names, key=lambda name: order.get(name, len(order)))
