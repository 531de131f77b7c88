"""Discovery on a table as it stands: the one way in for all families.

Invariant: `discover` is a function of the table's rows, types and space alone.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.constraints import Family, PredicateSpace, UsageError
from holdfast.discovery.codes import pair_codes
from holdfast.discovery.denial.seeding import seed_denial
from holdfast.discovery.explained import Explained
from holdfast.discovery.order.seeding import seed_order
from holdfast.discovery.ranking import scores
from holdfast.discovery.reported import Reported, ReportedSet, constraint_of
from holdfast.tables import Table, as_table, space_of


@dataclass(frozen=True)
class Discovered:
    """What holds on a table.

    Parameters
    ----------
    table, space : what was searched, and in which space.
    constraints : the reported set, those with the fewest columns first.
    explained : plan and times.
    """

    table: Table
    space: PredicateSpace
    constraints: ReportedSet
    explained: Explained

    def __iter__(self) -> Iterator[Reported]:
        return iter(self.constraints)

    def __len__(self) -> int:
        return len(self.constraints)

    def top(self, count: int) -> list[tuple[float, Reported]]:
        """Return the constraints that tell a person most, best first, each with its score (`discovery.ranking`)."""
        masks = self.constraints.masks
        score = scores(masks, pair_codes(self.table, self.space), self.space)
        best = np.argsort(-score, kind="stable")[:count]
        return [(float(score[i]), constraint_of(self.space, masks[i])) for i in best]


def discover(
    data: Any,
    *,
    name: str = "table",
    family: str | Family = Family.DENIAL,
    max_predicates: int = 4,
    max_context: int = 3,
    space: PredicateSpace | None = None,
    threads: int | None = None,
    report: Callable[[str], object] = lambda _: None,
) -> Discovered:
    """Find all constraints of one family that hold on a table and that no other one implies.

    Parameters
    ----------
    data : a table of ours, a pandas or Arrow one, or the path of a file.
    name : what a data frame is called.
    family : `dc`, denial constraints, or `od`, order dependencies.
    max_predicates : denial constraints on at most so many column pairs; 0 for all.
    max_context : order dependencies with at most so many columns in the context; 0 for all.
    space : which column pairs are compared; measured on the table where it is not given.
    threads : all cores where it is not given.
    report : is told what is being done.

    Examples
    --------
    >>> import pandas as pd
    >>> people = pd.DataFrame({"id": [1, 2, 3], "city": ["Rome", "Rome", "Oslo"]})
    >>> [str(constraint) for constraint in discover(people)]
    ['not(t.id = s.id)']
    >>> [str(dependency) for dependency in discover(people, family="od")]
    ['{id}: [] -> city', '{}: id ~ city desc']
    """
    kind = family_of(family)
    table = as_table(data, name)
    threads = threads or os.cpu_count() or 1
    if kind is Family.ORDER:
        space = (space or PredicateSpace(table.schema)).of_family(kind)
        found = seed_order(table, space, max_context, threads=threads, report=report)
    else:
        space = (space or space_of(table)).of_family(kind)
        found = seed_denial(table, space, max_predicates, threads=threads, report=report)
    return Discovered(table, space, ReportedSet(space, found.masks), found.explained)


def family_of(given: str | Family) -> Family:
    """Return a family that is looked for on a single table."""
    families = {family.value: family for family in (Family.DENIAL, Family.ORDER)}
    value = given.value if isinstance(given, Family) else given
    if value not in families:
        across = "; inclusion dependencies are across tables: discover_inclusions" if value == "ind" else ""
        raise UsageError(f"family '{value}': expected {' or '.join(families)}{across}")
    return families[value]
