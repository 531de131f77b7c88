"""The discovery of near constraints on a table in memory, their ranking and their exceptions.

Invariant: the result is a function of the table's rows and types, the share, the bound and the families alone.
"""

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property

from holdfast.constraints import NearConstraint, NearShape, UsageError
from holdfast.constraints.near import DEFAULT_CONTEXT
from holdfast.constraints.scores import sound_of
from holdfast.discovery.explained import Explained
from holdfast.discovery.found import FoundConstraints
from holdfast.discovery.near.counting import Counter, by_candidate, by_context
from holdfast.discovery.near.lattice import NearMember, NearSet, allowed, counting, near_set
from holdfast.discovery.near.ranking import NearScores, needed, swapping
from holdfast.discovery.near.removal import Removal, removal
from holdfast.discovery.near.rows import NearRows
from holdfast.discovery.near.suspects import LEAST_SCORE, SuspectSearch
from holdfast.discovery.near.swaps import swaps_in
from holdfast.discovery.near.targets import NearTargets
from holdfast.discovery.near.where import concentrations
from holdfast.discovery.threads import cut
from holdfast.display.concentrations import Concentrations
from holdfast.display.constraints import Ranked
from holdfast.display.near import NearConstraints
from holdfast.display.suspects import Suspect, Suspects
from holdfast.display.texts import counted
from holdfast.indexes.threads import mapped
from holdfast.tables import Table

FAMILIES = {
    "key": frozenset({NearShape.KEY}),
    "fd": frozenset({NearShape.CONSTANT}),
    "od": frozenset({NearShape.ORDER, NearShape.ORDER_DESC}),
}
"""The shapes by the names that users give; constants are functional dependencies on no column."""


@dataclass(frozen=True, repr=False)
class NearDiscovered(FoundConstraints[NearConstraint]):
    """The near constraints of a table, fewest columns first.

    Parameters
    ----------
    table : the table that was searched.
    share, max_context : the share of rows that may be exceptions, and the most columns of a context (0: any number).
    targets, found : the near set and its border, by numbers of columns and targets.
    explained : the time that each step took.
    """

    table: Table
    share: Fraction
    max_context: int
    targets: NearTargets
    found: NearSet
    explained: Explained

    def __len__(self) -> int:
        return len(self.found.members)

    def constraint(self, member: NearMember) -> NearConstraint:
        """Return a member of the near set as a constraint on named columns."""
        names = [self.table.schema.names[column] for column in self.targets.of_table.tolist()]
        shape, target = self.targets.form(member.number)
        near = NearConstraint(
            shape,
            (names[column] for column in member.context),
            (names[column] for column in target),
            member.exceptions,
            self.table.row_count,
        )
        return near.canonical(self.table.schema)

    def counts(self) -> dict[NearShape, int]:
        """Return the number of constraints of each shape that occurs."""
        shapes = [self.targets.form(member.number)[0] for member in self.found.members]
        return {shape: shapes.count(shape) for shape in NearShape if shape in shapes}

    @property
    def left_out(self) -> str:
        """A sentence about contexts that are too many to search; empty where all contexts of the bound are searched."""
        if not self.found.left_out:
            return ""
        bound = counted(self.max_context, "column")
        return f"contexts of at most {bound} are searched, the most that is feasible: {self.found.left_out}"

    def summary(self) -> str:
        """Return the number of constraints of each shape, and the table they nearly hold on."""
        shapes = ", ".join(f"{count:,} {shape.value.replace('_', ' ')}" for shape, count in self.counts().items())
        found = counted(len(self), "near constraint") + (f" ({shapes})" if shapes else "")
        size = f"{counted(self.table.row_count, 'row')}, {counted(len(self.table.schema), 'column')}"
        return f"{self.table.schema.table}: {size}; {found} with at most {counted(self.found.most, 'exception')}"

    def top(self, count: int) -> Ranked[NearConstraint]:
        """Return the constraints that say most (`near.ranking`), each with its score: sound ones come first.

        O(constraints), and what `ranking` takes, whatever `count` is.
        """
        every = [(self.ranking.score(member), member) for member in self.found.members]
        every.sort(key=lambda scored: scored[0].place())
        best = ((score, self.constraint(member)) for score, member in every[:count])
        return Ranked(best, self.table.schema.table, sound_of([score for score, _ in every]))

    def _at(self, place: int) -> NearConstraint:
        return self.constraint(self.found.members[place])

    def _listed(self, some: Iterable[NearConstraint]) -> NearConstraints:
        return NearConstraints(some, self.table.schema.table)

    @property
    @abstractmethod
    def ranking(self) -> NearScores:
        """What members are ranked by."""

    @abstractmethod
    def suspects(self, least: float = LEAST_SCORE) -> Suspects:
        """Return the cells that are probably wrong, with a score of at least `least`, the surest first."""

    @abstractmethod
    def removals(self, constraints: Iterable[NearConstraint]) -> list[Removal]:
        """Return the exceptions of constraints, whether these nearly hold or not."""

    @abstractmethod
    def concentrations(
        self, constraints: Iterable[NearConstraint], removals: Sequence[Removal] | None = None
    ) -> list[Concentrations]:
        """Return for each constraint the values in which its exceptions are concentrated.

        Parameters
        ----------
        removals : the exceptions of the constraints where they are known.
        """


@dataclass(frozen=True, repr=False)
class NearInMemory(NearDiscovered):
    """The near constraints of a table in memory.

    Parameters
    ----------
    rows : the rows of the table as codes.
    threads : the number of threads to use.
    """

    rows: NearRows
    threads: int = 1

    @cached_property
    def ranking(self) -> NearScores:
        """What members are ranked by. O(n) for each context, each part of it and each dependent."""
        count = counting(self.rows, self.targets, enough=self.rows.count, threads=self.threads)
        members = self.found.members
        counts = by_candidate(count(by_context(needed(members, self.targets)), -1))
        swaps = swaps_in(swapping(members, self.targets), self.rows, self.targets, threads=self.threads)
        return NearScores(self.rows.count, self.targets, counts, swaps)

    def suspects(self, least: float = LEAST_SCORE) -> Suspects:
        """Return the cells that are probably wrong, as the functional dependencies among the members have them."""
        cells = SuspectSearch(self.rows, self.targets, self.ranking, self.threads).find(self.found.members, least)
        rows, order = self.rows, self.rows.order
        like = [cell.row if cell.expected is None else cell.expected for cell in cells]
        images = self.table.rows(order[[*(cell.row for cell in cells), *like]].tolist())
        names = rows.names(self.table.schema)
        found = []
        for cell, image, expected in zip(cells, images, images[len(cells) :], strict=False):
            name, is_expected = names[cell.column], cell.expected is not None
            violated = tuple(map(self.constraint, cell.violated))
            value = expected[name] if is_expected else None
            found.append(Suspect(int(order[cell.row]), name, image[name], is_expected, value, cell.score, violated))
        return Suspects(found, self.table.schema.table)

    def removals(self, constraints: Iterable[NearConstraint]) -> list[Removal]:
        """Return the exceptions of constraints, whether these nearly hold or not."""
        return removals(self.table, self.rows, constraints, threads=self.threads)

    def concentrations(
        self, constraints: Iterable[NearConstraint], removals: Sequence[Removal] | None = None
    ) -> list[Concentrations]:
        """Return for each constraint the values in which its exceptions are concentrated."""
        some = list(constraints)
        known = self.removals(some) if removals is None else removals
        return concentrations(self.table, self.rows, some, known, threads=self.threads)


def discover_near(
    table: Table,
    share: Fraction,
    max_context: int | None = DEFAULT_CONTEXT,
    *,
    families: Iterable[str] = tuple(FAMILIES),
    threads: int = 1,
    report: Callable[[str], object] = lambda _: None,
) -> NearInMemory:
    """Find all near constraints of some families (`FAMILIES`) on a table.

    Parameters
    ----------
    share : the share of rows that may be exceptions.
    max_context : the most columns of a context; 0 for any number; None for three, or as many as are feasible.
    """
    shapes = shapes_of(families)
    explained = Explained()
    report("numbering values")
    ordered = not shapes.isdisjoint(FAMILIES["od"])
    rows = NearRows.of(table, table.schema.names, ordered=ordered, threads=threads)
    explained.add(f"codes of {rows.count:,} rows")
    targets = NearTargets(rows, shapes)
    count = counting(rows, targets, threads=threads)
    found = near_set(targets, allowed(share, rows.count), max_context, count, explained=explained, report=report)
    return NearInMemory(table, share, found.max_context, targets, found, explained, rows, threads)


def shapes_of(families: Iterable[str]) -> frozenset[NearShape]:
    """Return the shapes of families by name, or raise `UsageError` for unknown names."""
    shapes: frozenset[NearShape] = frozenset()
    for family in families:
        if family not in FAMILIES:
            across = "; inclusions that nearly hold: discover_inclusions(...).constraints.near(COVERAGE)"
            expected = ", ".join(FAMILIES)
            raise UsageError(
                f"family '{family}': near constraints are of the families {expected}{across if family == 'ind' else ''}"
            )
        shapes |= FAMILIES[family]
    if not shapes:
        raise UsageError(f"no family of near constraints is named: expected some of {', '.join(FAMILIES)}")
    return shapes


def exceptions_of(table: Table, constraint: NearConstraint, *, threads: int = 1) -> Removal:
    """Return the rows of a table that are exceptions of a constraint, of any number. O(n log n)."""
    table.schema.require([*constraint.context, *constraint.target])
    named = [*constraint.context, *constraint.target]
    for name in constraint.target if len(constraint.target) == 2 else ():
        if table.schema[name].ordered is False:
            raise UsageError(f"{constraint}: {name} is declared to have no order, so it is compatible with no column")
    rows = NearRows.of(table, named, ordered=len(constraint.target) == 2, threads=threads)
    return removals(table, rows, [constraint], threads=1)[0]


def removals(table: Table, rows: NearRows, constraints: Iterable[NearConstraint], *, threads: int) -> list[Removal]:
    """Return the exceptions of constraints on columns of `rows`."""
    names = rows.names(table.schema)
    nothing = NearTargets(rows, FAMILIES["key"])
    tasks = sorted(enumerate(constraints), key=lambda task: sorted(map(names.index, task[1].context)))

    def work(part: Sequence[tuple[int, NearConstraint]]) -> list[tuple[int, Removal]]:
        counter = Counter(rows, nothing)
        return [(place, removal(rows, counter, near, names)) for place, near in part]

    found = dict(one for part in mapped(threads, work, cut(tasks, threads)) for one in part)
    return [found[place] for place in range(len(found))]
