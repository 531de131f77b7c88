"""The complete set of minimal near constraints of a table, and its border, level by level.

    level k: contexts of k columns of which every part was counted, with the targets that are near in no part of them
        groups of the context, refined from a smaller context -> the key: if near, no other targets here or in larger
        classes of each other column                          -> constants: if near, orders of that column are hidden
        longest subsequences of two columns                   -> order compatibilities, in both directions

The exceptions of a target never grow when the context grows, never exceed those of the context's key, and those of a
compatibility never exceed those of the constant of either column. So a target is near in a context, and in any larger
context, as soon as one of these is near: such targets are not counted. A target that is not near in a context is not
near in any part of it, so level k + 1 counts the targets that were refused at level k in all parts: the minimal near
constraints are those of the definition, and the maximal refused contexts are the *border*.

Invariant: the near set and the contexts of the border are functions of rows, share and bound alone; counts of the
border are exact, or lower bounds that exceed `enough`.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import chain
from threading import local

import numpy as np

from holdfast.constraints import NearShape, UsageError
from holdfast.constraints.near import DEFAULT_CONTEXT
from holdfast.discovery.explained import Explained, Report
from holdfast.discovery.near.counting import Context, CountedContext, Counter, counted
from holdfast.discovery.near.rows import NearRows
from holdfast.discovery.near.targets import KEY, NearTargets
from holdfast.discovery.threads import cut
from holdfast.indexes.threads import mapped
from holdfast.tables.arrays import Bits, Ints

MOST_CONTEXTS = 1 << 20
MOST_CANDIDATES = 1 << 25
_FINER = 8
_SHAPES = list(NearShape)
_FEWER = "set a smaller --max-context (near.max_context in a configuration), or look at fewer columns"
_WITHOUT_ORDERS = "leave order compatibilities out (--family key,fd; near.orders: false), "


@dataclass(frozen=True)
class NearMember:
    """A minimal near constraint: a target in a context, and its number of exceptions."""

    context: Context
    number: int
    exceptions: int


@dataclass(eq=False)
class NearSet:
    """The minimal near constraints, and the border.

    Parameters
    ----------
    most : the number of exceptions that a near constraint may have.
    max_context : the most columns of the contexts that were searched; 0 for any number.
    members : the minimal near constraints, fewest columns first.
    border : contexts with the targets that are not near there, but in every larger context within the bound; each with
        a lower bound of its exceptions.
    counted : the number of candidates that were counted.
    left_out : the candidates that are too many, in words, where the default bound asks for them; else empty.
    """

    most: int
    max_context: int = DEFAULT_CONTEXT
    members: list[NearMember] = field(default_factory=list)
    border: list[CountedContext] = field(default_factory=list)
    counted: int = 0
    left_out: str = ""


class TooManyCandidates(UsageError):
    """The next level of a search has more candidates than can be counted.

    Parameters
    ----------
    count : how many candidates of how many columns there are at least, in words.
    advice : what else there is, and what to do.
    """

    def __init__(self, count: str, advice: str) -> None:
        super().__init__(f"{count}, {advice}")
        self.count = count


@dataclass(frozen=True, eq=False)
class _Level:
    """The refused targets of each context of a level, as a set and with their counts."""

    bits: Mapping[Context, Bits]
    counts: Mapping[Context, CountedContext]


def allowed(share: Fraction, rows: int) -> int:
    """Return the number of rows that may be exceptions.

    >>> allowed(Fraction(1, 100), 55_099)
    550
    """
    return share.numerator * rows // share.denominator


Tasks = Sequence[tuple[Context, Ints]]
"""Contexts in ascending order, and the targets to count in each context."""

Counting = Callable[[Tasks, int], Iterable[CountedContext]]
"""Counts candidates for near sets with at most a given number of exceptions; see `counting.counted`."""


def counting(rows: NearRows, targets: NearTargets, *, enough: int = 0, threads: int = 1) -> Counting:
    """Return a function that counts candidates on a table, with contexts spread over threads.

    Candidates that are not near are counted up to `enough`, for a border with more slack.
    """
    counters = local()

    def count(tasks: Tasks, most: int) -> Iterator[CountedContext]:
        def work(part: Tasks) -> list[CountedContext]:
            if not hasattr(counters, "own"):
                counters.own = Counter(rows, targets)
            return list(counted(counters.own, targets, part, most, max(enough, most)))

        return chain.from_iterable(mapped(threads, work, cut(tasks, threads * _FINER)))

    return count


def near_set(
    targets: NearTargets,
    most: int,
    max_context: int | None,
    count: Counting,
    *,
    explained: Explained | None = None,
    report: Report = lambda _: None,
) -> NearSet:
    """Find all minimal near constraints.

    Parameters
    ----------
    targets : the targets of the table.
    most : the number of exceptions that a near constraint may have.
    max_context : the most columns of a context; 0 for any number; None for `DEFAULT_CONTEXT`, or the largest number
        below that is feasible.
    count : counts candidates.

    Raises
    ------
    TooManyCandidates
        If a bound is given that is not feasible, or no bound is.
    """
    explained = explained or Explained()
    found = NearSet(most, DEFAULT_CONTEXT if max_context is None else max_context)
    touching = targets.touching()
    candidates: Mapping[Context, Bits] = {(): targets.every()}
    last = _Level({}, {})
    size = 0
    while candidates:
        tasks = [(context, targets.numbers(bits)) for context, bits in sorted(candidates.items())]
        several, near = sum(len(numbers) for _, numbers in tasks), len(found.members)
        report(f"counting {several:,} candidates in {len(tasks):,} contexts of {size} columns")
        level = _kept(count(tasks, most), targets, found)
        found.border.extend(_maximal(last, level, targets))
        found.counted += several
        near = len(found.members) - near
        explained.add(f"{several:,} candidates in {len(tasks):,} contexts of {size} columns: {near:,} are near")
        last, size = level, size + 1
        try:
            candidates = {} if size > found.max_context > 0 else _candidates(level, touching, targets, found)
        except TooManyCandidates as error:
            if max_context is not None or size == 1:
                raise
            candidates, found.max_context, found.left_out = {}, size - 1, error.count
    found.border.extend(_maximal(last, _Level({}, {}), targets))
    found.members.sort(key=lambda member: _in_table_order(member, targets))
    return found


def _in_table_order(member: NearMember, targets: NearTargets) -> tuple[object, ...]:
    """Return the sort key of a member: number of columns, then shape, then the columns in the order of the table."""
    shape, target = targets.form(member.number)
    context, named = (sorted(targets.of_table[list(columns)].tolist()) for columns in (member.context, target))
    return len(context) + len(named), _SHAPES.index(shape), context, named


def _kept(counts_of: Iterable[CountedContext], targets: NearTargets, found: NearSet) -> _Level:
    """Add the near constraints of a level's counts to `found`; return the refused targets."""
    bits, counts = {}, {}
    for one in counts_of:
        near = one.exceptions <= found.most
        for number, exceptions in zip(one.numbers[near].tolist(), one.exceptions[near].tolist(), strict=True):
            if targets.is_wanted(number):
                found.members.append(NearMember(one.context, number, exceptions))
        if not near.all():
            numbers = one.numbers[~near]
            bits[one.context] = targets.bits(numbers)
            counts[one.context] = CountedContext(
                one.context, numbers.astype(np.int32), one.exceptions[~near].astype(np.int32)
            )
    return _Level(bits, counts)


def _candidates(level: _Level, touching: Sequence[Bits], targets: NearTargets, found: NearSet) -> dict[Context, Bits]:
    """Return the candidates of the next level: targets that were refused in all parts of a context."""
    candidates: dict[Context, Bits] = {}
    count = 0
    for context, refused in level.bits.items():
        for column in range(context[-1] + 1 if context else 0, targets.columns):
            left = refused
            for place in range(len(context)):
                part = level.bits.get((*context[:place], *context[place + 1 :], column))
                if part is None:
                    break
                left = left & part
            else:
                larger = (*context, column)
                for named in larger:
                    left = left & ~touching[named]
                if not targets.asks_for(left):
                    continue
                candidates[larger] = left
                count += int(np.bitwise_count(left).sum())
                if len(candidates) > MOST_CONTEXTS or count > MOST_CANDIDATES:
                    raise TooManyCandidates(
                        f"more than {count:,} candidates in {len(candidates):,} contexts of {len(larger)} columns",
                        f"and {len(found.members):,} near constraints in contexts of fewer columns so far: "
                        f"{_WITHOUT_ORDERS if len(targets.left) else ''}{_FEWER}",
                    )
    return candidates


def _maximal(level: _Level, larger: _Level, targets: NearTargets) -> Iterator[CountedContext]:
    """Yield targets refused in contexts of a level, but in no larger context of the next level."""
    covered: dict[Context, Bits] = {}
    for context, refused in larger.bits.items():
        for place in range(len(context)):
            part = (*context[:place], *context[place + 1 :])
            covered[part] = covered[part] | refused if part in covered else refused
    for context, one in level.counts.items():
        kept = np.ones(len(one.numbers), np.bool_)
        if context in covered:
            kept = ~np.isin(one.numbers, targets.numbers(covered[context]))
        if not context:
            kept &= one.numbers != KEY  # a key has columns
        if kept.any():
            yield CountedContext(context, one.numbers[kept], one.exceptions[kept])
