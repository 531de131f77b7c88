"""Which families are maintained on a table, and how large their constraints may be."""

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from holdfast.constraints import Family, PredicateSpace


@dataclass(frozen=True)
class NearBounds:
    """The bounds of the constraints that nearly hold and are maintained.

    Parameters
    ----------
    share : the share of rows that may be exceptions.
    max_context : the most columns in the context; 0 for any number.
    orders : whether order compatibilities are maintained too, beside keys and functional dependencies.
    """

    share: Fraction
    max_context: int = 3
    orders: bool = True

    def fields(self) -> dict[str, Any]:
        """Return the bounds as plain values, for JSON."""
        return {"share": str(self.share), "max_context": self.max_context, "orders": self.orders}

    @classmethod
    def of_fields(cls, fields: Mapping[str, Any]) -> "NearBounds":
        """Return the bounds that have these fields."""
        return cls(Fraction(fields["share"]), fields["max_context"], fields["orders"])


@dataclass(frozen=True)
class Bounds:
    """The families that are maintained, and how large their constraints may be.

    Parameters
    ----------
    max_predicates : the most column pairs of a denial constraint; 0 for any number, None for no denial constraints.
    max_context : the most columns in the context of an order dependency; 0 for any number, None for none.
    near : the bounds of constraints that nearly hold; None for no such constraints.
    """

    max_predicates: int | None = 4
    max_context: int | None = None
    near: NearBounds | None = None

    @property
    def families(self) -> dict[Family, int]:
        """The bound of each family that is maintained."""
        bounds = {Family.DENIAL: self.max_predicates, Family.ORDER: self.max_context}
        return {family: bound for family, bound in bounds.items() if bound is not None}

    def fields(self) -> dict[str, Any]:
        """Return the bounds that are set, by name, as plain values for JSON."""
        near = None if self.near is None else self.near.fields()
        return {name: bound for name, bound in {**vars(self), "near": near}.items() if bound is not None}

    @classmethod
    def of_fields(cls, fields: Mapping[str, Any]) -> "Bounds":
        """Return the bounds that have these fields."""
        near = fields.get("near")
        known = None if near is None else NearBounds.of_fields(near)
        return cls(fields.get("max_predicates"), fields.get("max_context"), known)

    def widest(self, space: PredicateSpace) -> PredicateSpace:
        """Return the space with every column pair and every order that some family compares."""
        if self.max_context is None and (self.near is None or not self.near.orders):
            return space.of_family(Family.DENIAL)
        crossing = space.crossing if self.max_predicates is not None else ()
        return PredicateSpace(space.schema, crossing, Family.ORDER)
