"""Discovery on a whole table: the entry point for all families.

`discover` has the options of `holdfast.discover` as keyword parameters, however many there are.

Invariant: `discover` is a function of the table's rows, types and space alone.
"""

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any, TypedDict, Unpack, overload

from holdfast.constraints import Family, PredicateSpace, UsageError, parse_share
from holdfast.constraints.scores import sound_of
from holdfast.discovery.denial.seeding import seed_denial
from holdfast.discovery.explained import Explained
from holdfast.discovery.found import FoundConstraints
from holdfast.discovery.near.discover import FAMILIES, NearDiscovered, discover_near, shapes_of
from holdfast.discovery.order.seeding import seed_order
from holdfast.discovery.ranking import scores_on
from holdfast.discovery.reported import Reported, ReportedSet, constraint_of
from holdfast.discovery.soundness.measured import Measured
from holdfast.display.constraints import NOUNS, Constraints, Ranked
from holdfast.display.texts import counted
from holdfast.tables import Table, as_table, space_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


@dataclass(frozen=True, repr=False)
class Discovered(FoundConstraints[Reported]):
    """The constraints that hold on a table.

    Parameters
    ----------
    table, space : the table that was searched, and the space of predicates.
    constraints : the reported set, those with the fewest columns first.
    explained : the plan, and the time that each step took.
    """

    table: Table
    space: PredicateSpace
    constraints: ReportedSet
    explained: Explained

    def __len__(self) -> int:
        return len(self.constraints)

    def summary(self) -> str:
        """Return the number of constraints of each kind, and the table they hold on."""
        counts = self.constraints.counts().items()
        kinds = ", ".join(f"{count:,} {kind.value.replace('_', ' ')}" for kind, count in counts)
        found = counted(len(self), *NOUNS[self.space.family]) + (f" ({kinds})" if kinds else "")
        size = f"{counted(self.table.row_count, 'row')}, {counted(len(self.table.schema), 'column')}"
        return f"{self.table.schema.table}: {size}; {found}"

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the number of constraints of each kind with matplotlib; return the axes."""
        from holdfast.display.plots import bars

        counts = {kind.value.replace("_", " "): count for kind, count in self.constraints.counts().items()}
        return bars(counts, "constraints", ax)

    def top(self, count: int) -> Ranked[Reported]:
        """Return the constraints that say most (`discovery.ranking`), each with its score: sound ones come first."""
        masks = self.constraints.masks
        scores = scores_on(masks, self._measured(), self.space)
        best = sorted(range(len(scores)), key=lambda place: scores[place].place())[:count]
        scored = ((scores[place], constraint_of(self.space, masks[place])) for place in best)
        return Ranked(scored, self.table.schema.table, sound_of(scores))

    def _at(self, place: int) -> Reported:
        return constraint_of(self.space, self.constraints.masks[place])

    def _listed(self, some: Iterable[Reported]) -> Constraints[Reported]:
        return Constraints(some, self.table.schema.table)

    def _measured(self) -> Measured:
        """Return what constraints are ranked by."""
        return Measured.of_table(self.table, self.space)


class DiscoverOptions(TypedDict, total=False):
    """The options of `discover` beside `near`, which decides the type of the answer."""

    name: str
    family: str | Family | None
    max_predicates: int
    max_context: int
    space: PredicateSpace | None
    threads: int | None
    report: Callable[[str], object]


@overload
def discover(data: Any, *, near: None = ..., **options: Unpack[DiscoverOptions]) -> Discovered: ...
@overload
def discover(data: Any, *, near: float | str | Fraction, **options: Unpack[DiscoverOptions]) -> NearDiscovered: ...
def discover(
    data: Any,
    *,
    name: str = "table",
    family: str | Family | None = None,
    max_predicates: int = 4,
    max_context: int = 3,
    near: float | str | Fraction | None = None,
    space: PredicateSpace | None = None,
    threads: int | None = None,
    report: Callable[[str], object] = lambda _: None,
) -> Discovered | NearDiscovered:
    """Find all constraints that hold, or nearly hold, on a table in memory, or in a file; see `holdfast.discover`."""
    threads = threads or os.cpu_count() or 1
    if near is not None:
        share, families = near_asked(near, tuple(FAMILIES) if family is None else family, space)
        return discover_near(
            as_table(data, name), share, max_context, families=families, threads=threads, report=report
        )
    kind = family_of(Family.DENIAL if family is None else family)
    table = as_table(data, name)
    if kind is Family.ORDER:
        space = (space or PredicateSpace(table.schema)).of_family(kind)
        found = seed_order(table, space, max_context, threads=threads, report=report)
    else:
        space = (space or space_of(table)).of_family(kind)
        found = seed_denial(table, space, max_predicates, threads=threads, report=report)
    return Discovered(table, space, ReportedSet(space, found.masks), found.explained)


def near_asked(
    near: float | str | Fraction, family: str | Family | Sequence[str], space: PredicateSpace | None
) -> tuple[Fraction, list[str]]:
    """Return the share and the shapes of near constraints from options, or raise `UsageError`."""
    if space is not None:
        raise UsageError("near constraints compare columns with themselves alone: leave out space, or near")
    share = parse_share(near)
    named = family.value if isinstance(family, Family) else family
    families = named.split(",") if isinstance(named, str) else list(named)
    shapes_of(families)
    return share, families


def family_of(given: str | Family) -> Family:
    """Return the family that an option names, one that is searched on a single table."""
    families = {family.value: family for family in (Family.DENIAL, Family.ORDER)}
    value = given.value if isinstance(given, Family) else given
    if value not in families:
        across = "; inclusion dependencies are across tables: discover_inclusions" if value == "ind" else ""
        raise UsageError(f"family '{value}': expected {' or '.join(families)}{across}")
    return families[value]
