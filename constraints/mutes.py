"""Muted constraints: those that people know about, and do not want to hear of.

A constraint is muted in all its forms: a functional dependency as a denial constraint, as an order dependency and as a
near constraint, whatever the order of the columns in its text. What a mute covers is decided by the constraint's text
(`covers`), or by the identities under which it is published (`identities`), which lists of many constraints need.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, permutations

from holdfast.constraints.denial import DenialConstraint
from holdfast.constraints.errors import UsageError
from holdfast.constraints.forms import canonical_key, exact_forms, published_near, simplest_form
from holdfast.constraints.identity import constraint_id
from holdfast.constraints.inclusion import InclusionDependency
from holdfast.constraints.names import quoted
from holdfast.constraints.order import OrderDependency
from holdfast.constraints.parsing import parse_rule_body

_MOST_WRITINGS = 1_500
"""More than the number of ways to write six predicates, in both orientations."""


@dataclass(frozen=True)
class Mute:
    """A muted constraint.

    Parameters
    ----------
    table : its table; of an inclusion, the dependent table.
    constraint : its text, in any form that rules have.
    why : the reason, for people.

    >>> Mute("tax", "Zip -> City").covers("tax", "not(t.City != s.City and t.Zip = s.Zip)")
    True
    """

    table: str
    constraint: str
    why: str | None = None

    def __post_init__(self) -> None:
        body = parse_rule_body(self.constraint)
        if not isinstance(body, (DenialConstraint, OrderDependency, InclusionDependency)):
            raise UsageError(
                f"'{self.constraint}' is about single rows, or leaves out nulls: such constraints are rules, and never "
                "published"
            )

    def covers(self, table: str, text: str) -> bool:
        """Whether a text says what the muted constraint says, on the same table."""
        return table == self.table and canonical_key(text) == canonical_key(self.constraint)

    def identities(self, order: Mapping[str, int]) -> Iterator[str]:
        """Yield the identities under which the constraint may be published.

        Parameters
        ----------
        order : the position of each column in the table.
        """
        body = parse_rule_body(self.constraint)
        near = simplest_form(body)
        if near is not None:
            for form in (published_near(near, order), *exact_forms(near, order)):
                yield constraint_id(form, self.table)
        elif isinstance(body, DenialConstraint):
            for written in (body, body.mirror):
                for predicates in islice(permutations(written.predicates), _MOST_WRITINGS):
                    yield constraint_id(DenialConstraint(predicates), self.table)
        elif isinstance(body, InclusionDependency):
            yield constraint_id(body, self.table)


@dataclass(frozen=True)
class Mutes:
    """The muted constraints of one application."""

    mutes: tuple[Mute, ...] = ()

    @cached_property
    def _named(self) -> dict[str, list[tuple[frozenset[str], Mute]]]:
        """The mutes of each table, with the columns that a text has to name."""
        found: dict[str, list[tuple[frozenset[str], Mute]]] = {}
        for mute in self.mutes:
            body = parse_rule_body(mute.constraint)
            if isinstance(body, InclusionDependency):
                names = frozenset({quoted(body.dependent.column), quoted(body.referenced.column)})
            else:
                names = frozenset(map(quoted, body.columns))
            found.setdefault(mute.table, []).append((names, mute))
        return found

    def covers(self, table: str, text: str) -> bool:
        """Whether a constraint is muted, given by its table and its text."""
        those = self._named.get(table, ())
        return any(all(name in text for name in names) and mute.covers(table, text) for names, mute in those)

    def identities(self, orders: Mapping[str, Mapping[str, int]]) -> set[str]:
        """Return the identities under which muted constraints may be published.

        Parameters
        ----------
        orders : the position of each column, by table.
        """
        return {found for mute in self.mutes for found in mute.identities(orders.get(mute.table, {}))}
