"""The interface of all searches of `holdfast discover`: search files, and write the constraints that were found.

    functional_dependency  Zip -> City                                          a line for each constraint
    0.871  tax  functional_dependency  Zip -> City  (2 of 300 rows, 0.667 %)    with its score, table, kind and note
        ...                                                                     with lines below it

Invariant: a constraint has one line for programs; for people one line, with its sentence and its examples below it.
"""

import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from holdfast.constraints import Constraint, PredicateSpace, UsageError, constraint_fields
from holdfast.constraints.scores import Score, sound_of
from holdfast.display.constraints import Ranked
from holdfast.display.short_forms import KINDS, kind_name, short_form
from holdfast.jobs.files.engines import Engine
from holdfast.jobs.files.found_rules import Found, rule_lines
from holdfast.jobs.files.spaces import read_space, reading_in
from holdfast.jobs.searches.request import SearchRequest
from holdfast.jobs.terminal.options import Answering
from holdfast.jobs.terminal.output import json_line
from holdfast.jobs.terminal.sentences import sentence_fields, sentence_lines

if TYPE_CHECKING:
    from holdfast.discovery.explained import Explained
    from holdfast.jobs.terminal.progress import Progress, ProgressTask

Rank = tuple[int, Score]
"""The place of a constraint among the highest ranked ones, from 1, and its score."""

Kept = TypeVar("Kept", bound=Constraint)


@dataclass(frozen=True)
class Line:
    """A constraint that was found, as it is written.

    Parameters
    ----------
    table, constraint : the name of the table, and the constraint on it.
    kind : written before the constraint, for people; empty for a family of one kind.
    text : the constraint as people write it.
    rank : its place and score; None where all constraints are written.
    fields : further fields of the line for programs.
    note : written after the constraint, for people.
    below : further lines for people.
    holds : whether the constraint holds, so that a sentence can state it.
    """

    table: str
    constraint: Constraint
    kind: str = ""
    text: str = ""
    rank: Rank | None = None
    fields: Mapping[str, Any] = field(default_factory=dict)
    note: str = ""
    below: Sequence[str] = ()
    holds: bool = True

    def as_json(self, answering: Answering) -> Iterator[str]:
        """Yield the line for programs."""
        ranked = {} if self.rank is None else _rank_fields(*self.rank)
        sentence = sentence_fields(self.constraint, answering) if self.holds else {}
        yield json_line({**constraint_fields(self.constraint, self.table), **ranked, **self.fields, **sentence})

    def as_text(self, answering: Answering, widths: tuple[int, int]) -> Iterator[str]:
        """Yield the lines for people.

        Parameters
        ----------
        widths : of the names of tables, 0 to leave them out, and of the kinds.
        """
        score = "" if self.rank is None else f"{self.rank[1]:.3f}  "
        cells = zip((self.table if widths[0] else "", self.kind), widths, strict=True)
        before = "".join(f"{cell.ljust(width)}  " for cell, width in cells if cell)
        text = str(self.constraint) if answering.formal else self.text or short_form(self.constraint)
        yield f"{score}{before}{text}{self.note}\n"
        if self.holds:
            yield from sentence_lines(self.constraint, answering)
        yield from self.below


class FileSearch(ABC):
    """One search of files.

    Parameters
    ----------
    request : the files, and which constraints to search for.
    """

    names_tables: ClassVar[bool] = False
    """Whether the text of a constraint names its tables."""

    def __init__(self, request: SearchRequest) -> None:
        self.request = request

    @abstractmethod
    def run(self, engine: Engine, progress: "Progress") -> None:
        """Read the files, and search them."""

    @abstractmethod
    def lines(self) -> Iterator[Line]:
        """Yield the constraints that were found, in the order in which they are written."""

    @abstractmethod
    def notes(self) -> Iterator[str]:
        """Yield how many constraints were found; with `explain`, before that the steps of the search."""

    @property
    @abstractmethod
    def tables(self) -> Sequence[str]:
        """The names of the tables that were searched."""

    @property
    def space(self) -> PredicateSpace:
        """The predicate space that was searched, of a search for constraints that compare columns."""
        raise NotImplementedError

    def thresholds(self, found: Sequence[Found], engine: Engine, progress: "Progress") -> dict[Found, int]:  # noqa: ARG002  (constraints that hold)
        """Return how many violating rows a rule made of a constraint has to accept, where there are any."""
        return {}

    def answer(self) -> Iterator[str]:
        """Yield the constraints that were found as lines for programs or for people."""
        answering = self.request.answering
        several = len(self.request.files) > 1 and not self.names_tables
        widths = max(map(len, self.tables)) if several else 0, max(map(len, KINDS))
        for line in self.lines():
            yield from line.as_json(answering) if answering.as_json else line.as_text(answering, widths)

    def rules(self, engine: Engine, progress: "Progress") -> Iterator[str]:
        """Return the lines of a rules file made of the constraints that were found."""
        found = [(line.table, line.constraint) for line in self.lines()]
        several = len(self.request.files) > 1 and not self.names_tables
        thresholds = self.thresholds(found, engine, progress)
        return rule_lines(found, self.request.answering.output, several=several, thresholds=thresholds)


class SearchOfTables(FileSearch):
    """A search of each file on its own, in a predicate space that may be given for the only file."""

    def __init__(self, request: SearchRequest) -> None:
        super().__init__(request)
        if (request.space or request.write_space) and len(request.files) > 1:
            raise UsageError("--space and --write-space are for one file: name one, or leave them out")
        self.given_space = None if request.space is None else read_space(request.space)

    def run(self, engine: Engine, progress: "Progress") -> None:
        """Read the files, and search each on its own."""
        reading, name = self.request.reading, None
        if self.given_space is not None:
            reading, name = reading_in(self.given_space, reading), self.given_space.schema.table
        for file in self.request.files:
            with progress.task(f"reading {file.name}") as task:
                table: Any = engine.read(file, reading, name, task.describe)
                note_warnings(table.warnings, progress)
                self.search(engine, table, task)

    @abstractmethod
    def search(self, engine: Engine, table: Any, task: "ProgressTask") -> None:
        """Search one table."""


def _rank_fields(place: int, score: Score) -> dict[str, Any]:
    """Return the fields of a rank: soundness where it is measured."""
    ranked: dict[str, Any] = {"score": round(float(score), 4), "rank": place}
    if score.strength is not None and score.support is not None:
        ranked |= {"sound": score.sound, "strength": round(score.strength, 4), "support": round(score.support)}
        ranked |= {} if score.sound else {"why_not": score.why_not}
    return ranked


def note_warnings(warnings: Iterable[str], progress: "Progress") -> None:
    """Note the warnings of a reader."""
    for warning in warnings:
        progress.note(f"warning: {warning}")


@dataclass(frozen=True)
class Shown(Generic[Kept]):
    """The constraints of one search that are written.

    Parameters
    ----------
    constraints : with their ranks; without ranks where all constraints, of the asked kinds, are written.
    note : how many constraints are left out since they are not sound; empty where there are none.
    """

    constraints: Sequence[tuple[Rank | None, Kept]]
    note: str = ""

    @classmethod
    def of(cls, every: Sequence[Kept], top: Callable[[int], Ranked[Kept]], request: SearchRequest) -> "Shown[Kept]":
        """Return all constraints; or, with --top, the first of the sound ones, or without --all, if there are some.

        Parameters
        ----------
        top : returns a number of the highest ranked constraints.
        """
        kinds = request.kinds
        if kinds:
            every = [constraint for constraint in every if kind_name(constraint) in kinds]
        if request.top is None:
            return cls([(None, constraint) for constraint in every])
        best = top(sys.maxsize if kinds else request.top)
        if kinds:
            some = [one for one in best if kind_name(one[1]) in kinds]
            best = Ranked(some[: request.top], best.table, sound_of(score for score, _ in some))
        shown = [((place, score), constraint) for place, (score, constraint) in enumerate(best, 1)]
        if request.every or best.sound is None or best.sound == len(every):
            return cls(shown)
        if not best.sound:
            return cls(shown, "none of them is sound: too few rows could violate them to tell rules from chance")
        known = (
            f"{best.sound:,} of {len(every):,} {'is' if best.sound == 1 else 'are'} sound; --all ranks the others too"
        )
        return cls([one for one in shown if one[0][1].sound], known)

    def notes(self) -> Iterator[str]:
        """Yield the note, if there is one."""
        if self.note:
            yield f"  {self.note}"


def steps(explained: "Explained") -> Iterator[str]:
    """Yield the steps of a search with their times."""
    for step, seconds in explained.steps:
        yield f"  {seconds:8.3f} s  {step}"
