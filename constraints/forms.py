"""The forms in which one constraint is published.

With near constraints beside denial constraints and order dependencies, a key is published as a denial constraint and as
a near constraint, a functional dependency also as an order dependency. Published texts have the columns in the order of
the table, so that the forms of a constraint, and their identities, follow from its columns.
"""

from collections.abc import Iterator, Mapping

from holdfast.constraints.denial import DenialConstraint, functional_dependency, key
from holdfast.constraints.near import NearConstraint, NearShape
from holdfast.constraints.order import OrderDependency


def exact_forms(near: NearConstraint, order: Mapping[str, int]) -> Iterator[DenialConstraint | OrderDependency]:
    """Yield the constraints that say what a near constraint says without exceptions, as they are published.

    Parameters
    ----------
    order : the position of each column in the table.

    >>> near = NearConstraint(NearShape.CONSTANT, ["Zip"], ["City"])
    >>> [str(form) for form in exact_forms(near, {"City": 0, "Zip": 1})]
    ['not(t.City != s.City and t.Zip = s.Zip)', '{Zip}: [] -> City']
    """
    context, target = (_sorted(names, order) for names in (near.context, near.target))
    if near.shape is NearShape.KEY:
        yield key(context)
        return
    if near.shape is NearShape.CONSTANT:
        predicates = {p.left: p for p in functional_dependency(context, target[0]).predicates}
        yield DenialConstraint(predicates[name] for name in _sorted((*context, *target), order))
    yield OrderDependency(context, target, opposite=near.shape is NearShape.ORDER_DESC)


def published_near(near: NearConstraint, order: Mapping[str, int]) -> NearConstraint:
    """Return a near constraint as it is published, with its columns in the order of the table."""
    return NearConstraint(near.shape, _sorted(near.context, order), _sorted(near.target, order))


def _sorted(names: tuple[str, ...], order: Mapping[str, int]) -> list[str]:
    """Return columns in the order of the table; unknown ones last, as new columns are."""
    return sorted(names, key=lambda name: order.get(name, len(order)))
