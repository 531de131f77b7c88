"""Where the exceptions of the members of a live table are: values in which these are concentrated, for the outputs.

A search reads all rows once for each member. So it is done with the batches that search for suspects, for a number of
members: those that were never searched first, then those whose last search is longest ago; keys and functional
dependencies on the one hand and order compatibilities, which take longer, on the other take turns among themselves.
Between two searches the values of a member only leave: with the member, or where it has too few exceptions.

Invariant: right after a search the values of the members that it searched are those that `holdfast exceptions` finds.
Which members are searched depends on nothing but the members and the searches before.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from typing import Any

from holdfast.constraints import NearConstraint
from holdfast.discovery.near.concentration import FEWEST
from holdfast.discovery.near.counting import Candidate
from holdfast.display.concentrations import Concentrations
from holdfast.state import codecs
from holdfast.state.store import Reader, WriteBatch
from holdfast.streaming.maintainers.near.counts import Followed

MOST_FOLLOWED = 1_000
"""The most members whose values are followed: the first ones, with few columns."""
SEARCHED_AT_ONCE, SEARCHED_FIRST = 32, 1_024
"""How many keys and functional dependencies one search reads, and the search of a seeded table."""
_ROWS_AT_ONCE = 1 << 24
"""On large tables one search reads only so many rows."""
_OF_AN_ORDER = 6
"""An order compatibility takes as long as so many of them."""
_FAMILY = "near"
_ONE = b"where "

Fields = Mapping[str, Any]
"""A value, as plain JSON values."""


@dataclass(frozen=True)
class SearchedMember:
    """The values in which the exceptions of a member are concentrated.

    Parameters
    ----------
    turn : the number of the member's turn: larger than those of all members that were searched before.
    values : the values, the surest first; the fields of each.
    """

    turn: int
    values: tuple[Fields, ...]


@dataclass(frozen=True)
class ConcentrationChanges:
    """What a batch changed about the values in which exceptions are concentrated.

    Parameters
    ----------
    searched : the members that were searched, with their values now.
    gone : members and values that are not followed any more.
    """

    searched: Sequence[tuple[NearConstraint, Sequence[Fields]]] = ()
    gone: Sequence[tuple[NearConstraint, Fields]] = ()


class FollowedConcentrations:
    """The values in which the exceptions of the members of one table are concentrated.

    Parameters
    ----------
    search : returns the values of members.
    named : returns the constraint of a member.
    is_order : whether a member is an order compatibility.
    """

    def __init__(
        self,
        search: Callable[[Sequence[Candidate]], list[Concentrations]],
        named: Callable[[Candidate], NearConstraint],
        is_order: Callable[[Candidate], bool],
    ) -> None:
        self._search = search
        self._named = named
        self._is_order = is_order
        self._found: Mapping[Candidate, SearchedMember] = {}
        self._saved: Mapping[Candidate, SearchedMember] = {}
        self.begin()

    @property
    def found(self) -> list[tuple[NearConstraint, Sequence[Fields]]]:
        """The members with values, each with its values."""
        return [(self._named(one), member.values) for one, member in self._found.items() if member.values]

    @property
    def changes(self) -> ConcentrationChanges:
        """The changes since `begin`."""
        searched = [one for one, member in self._found.items() if self._before.get(one) is not member]
        ended = {one: member for one, member in self._before.items() if self._found.get(one) is not member}
        gone = [
            (self._named(one), value)
            for one, member in ended.items()
            for value in member.values
            if one not in self._found or not _has(self._found[one].values, value)
        ]
        return ConcentrationChanges([(self._named(one), self._found[one].values) for one in searched], gone)

    def begin(self) -> None:
        """Begin a batch: `undo` leads back to here."""
        self._before = self._found

    def undo(self) -> None:
        """Take a batch back."""
        self._found = self._before

    def seed(self, members: Followed) -> None:
        """Search the first members."""
        self._searched(members, SEARCHED_FIRST)

    def clear(self) -> None:
        """Forget everything: no values are searched any more."""
        self._found = {}

    def follow(self, members: Followed, rows: int, *, is_due: bool) -> None:
        """Forget the values of members that left, or have few exceptions now; search some members if that is due.

        Parameters
        ----------
        rows : the number of rows.
        """
        self._found = {one: known for one, known in self._found.items() if one in members and _is_asked(members, one)}
        if is_due:
            self._searched(members, max(_OF_AN_ORDER, min(SEARCHED_AT_ONCE, _ROWS_AT_ONCE // max(1, rows))))

    def save(self, prefix: bytes, batch: WriteBatch, *, everything: bool) -> None:
        """Add to a batch what changed since the last save, or everything."""
        before = {} if everything else self._saved
        for one in before.keys() - self._found.keys():
            batch.delete(_FAMILY, prefix + _ONE + codecs.json_bytes(one))
        for one, member in self._found.items():
            if before.get(one) is not member:
                batch.put(_FAMILY, prefix + _ONE + codecs.json_bytes(one), codecs.json_bytes(vars(member)))
        self._saved = self._found

    def restore(self, store: Reader, prefix: bytes) -> None:
        """Restore what was saved; a state of an earlier version has nothing."""
        found: dict[Candidate, SearchedMember] = {}
        for key, value in store.scan(_FAMILY, prefix + _ONE):
            context, number = codecs.read_json(key[len(prefix + _ONE) :])
            stored = codecs.read_json(value)
            found[tuple(context), number] = SearchedMember(stored["turn"], tuple(stored["values"]))
        self._found = self._saved = found
        self.begin()

    def _searched(self, members: Followed, most: int) -> None:
        """Search members, as many as `most` keys and functional dependencies take."""
        turns = count(1 + max((known.turn for known in self._found.values()), default=0))
        first = sorted((one for one in members if _is_asked(members, one)), key=lambda one: (len(one[0]), one))
        known = self._found
        due = sorted(first[:MOST_FOLLOWED], key=lambda one: known[one].turn if one in known else 0)
        chosen = self._affordable(due, most)
        if chosen:
            fresh = (SearchedMember(next(turns), tuple(map(_fields, found))) for found in self._search(chosen))
            self._found = {**known, **dict(zip(chosen, fresh, strict=True))}

    def _affordable(self, due: Sequence[Candidate], most: int) -> list[Candidate]:
        """Return the first members, as many as take as long as `most` keys and functional dependencies.

        Order compatibilities get at most half of the time, unless the others need less.
        """
        orders = [one for one in due if self._is_order(one)]
        others = [one for one in due if not self._is_order(one)]
        fewest = min(len(orders), max(1, most // 2 // _OF_AN_ORDER))
        chosen = others[: max(1, most - fewest * _OF_AN_ORDER)]
        return [*chosen, *orders[: max(fewest, (most - len(chosen)) // _OF_AN_ORDER)]]


def _is_asked(members: Followed, one: Candidate) -> bool:
    """Whether a member has enough exceptions to search."""
    return members[one].count >= FEWEST


def _fields(one: Any) -> Fields:
    """Return a value as plain JSON values, as they are stored."""
    found: Fields = {**one.fields(), "of_exceptions": one.of_exceptions, "of_rows": one.of_rows}
    return found


def _has(values: Sequence[Fields], one: Fields) -> bool:
    return any((value["column"], value["value"]) == (one["column"], one["value"]) for value in values)
