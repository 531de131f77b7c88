"""Discovery on a table as it stands: the one way in for all families.

Invariant: `discover` is a function of the table's rows, types and space alone.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from holdfast.constraints import DenialConstraint, PredicateSpace
from holdfast.discovery.codes import pair_codes
from holdfast.discovery.denial.ranking import scores
from holdfast.discovery.denial.result import DenialSet
from holdfast.discovery.denial.seeding import Explained, seed_denial
from holdfast.tables import Table, as_table, space_of


@dataclass(frozen=True)
class Discovered:
    """What holds on a table.

    Parameters
    ----------
    table, space : what was searched, and in which space.
    constraints : the reported set, fewest predicates first.
    explained : plan and times.
    """

    table: Table
    space: PredicateSpace
    constraints: DenialSet
    explained: Explained

    def __iter__(self) -> Iterator[DenialConstraint]:
        return iter(self.constraints)

    def __len__(self) -> int:
        return len(self.constraints)

    def top(self, count: int) -> list[tuple[float, DenialConstraint]]:
        """Return the constraints that tell a person most, best first, each with its score (`denial.ranking`)."""
        masks = self.constraints.masks
        score = scores(masks, pair_codes(self.table, self.space), self.space)
        best = np.argsort(-score, kind="stable")[:count]
        return [(float(score[i]), self.space.constraint(self.space.bits(masks[i]))) for i in best]


def discover(
    data: Any,
    *,
    name: str = "table",
    max_predicates: int = 4,
    space: PredicateSpace | None = None,
    threads: int | None = None,
    report: Callable[[str], object] = lambda _: None,
) -> Discovered:
    """Find all denial constraints that hold on a table and that no other one implies.

    Parameters
    ----------
    data : a table of ours, a pandas or Arrow one, or the path of a file.
    name : what a data frame is called.
    max_predicates : only those on at most so many column pairs; 0 for all.
    space : which column pairs are compared; measured on the table where it is not given.
    threads : all cores where it is not given.
    report : is told what is being done.

    Examples
    --------
    >>> import pandas as pd
    >>> people = pd.DataFrame({"id": [1, 2, 3], "city": ["Rome", "Rome", "Oslo"]})
    >>> [str(constraint) for constraint in discover(people)]
    ['not(t.id = s.id)']
    """
    table = as_table(data, name)
    if space is None:
        space = space_of(table)
    found = seed_denial(table, space, max_predicates, threads=threads or os.cpu_count() or 1, report=report)
    return Discovered(table, space, DenialSet(space, found.masks), found.explained)
