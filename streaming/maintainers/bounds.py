"""Which families are maintained on a table, and how large their constraints may be."""

from dataclasses import dataclass

from holdfast.constraints import Family, PredicateSpace


@dataclass(frozen=True)
class Bounds:
    """Which families are maintained, and how large their constraints may be.

    Parameters
    ----------
    max_predicates : denial constraints on at most so many column pairs, 0 for all; None for no denial constraints.
    max_context : order dependencies with at most so many columns in the context, 0 for all; None for none.
    """

    max_predicates: int | None = 4
    max_context: int | None = None

    @property
    def families(self) -> dict[Family, int]:
        """The bound of each family that is maintained."""
        bounds = {Family.DENIAL: self.max_predicates, Family.ORDER: self.max_context}
        return {family: bound for family, bound in bounds.items() if bound is not None}

    def fields(self) -> dict[str, int]:
        """Return those that are set, by name."""
        return {name: bound for name, bound in vars(self).items() if bound is not None}

    def widest(self, space: PredicateSpace) -> PredicateSpace:
        """Return the space of the rows: with every column pair and every order that some family compares."""
        if self.max_context is None:
            return space.of_family(Family.DENIAL)
        crossing = space.crossing if self.max_predicates is not None else ()
        return PredicateSpace(space.schema, crossing, Family.ORDER)
