"""Constraints and ranked constraints, as a notebook shows them: with kind, plain words, and the exact text."""

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from holdfast.constraints import Constraint, Family, InclusionDependency, constraint_fields
from holdfast.constraints.scores import Score
from holdfast.constraints.sentences import sentence
from holdfast.display.html import TableCell
from holdfast.display.listing import Listing, by_count
from holdfast.display.short_forms import kind_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Kept = TypeVar("Kept", bound=Constraint)

NOUNS = {
    Family.DENIAL: ("denial constraint", "denial constraints"),
    Family.ORDER: ("order dependency", "order dependencies"),
    Family.INCLUSION: ("inclusion dependency", "inclusion dependencies"),
    Family.NEAR: ("near constraint", "near constraints"),
}
_DTYPES = {
    **dict.fromkeys(("family", "table", "kind"), "string"),
    "size": "Int64",
    **dict.fromkeys(("constraint", "sentence", "id"), "string"),
}


def kind_of(constraint: Constraint) -> str:
    """Return the kind of a constraint in words: `key`, `functional dependency`, `inclusion`."""
    return kind_name(constraint).replace("_", " ")


class Constraints(Listing[Kept]):
    """Constraints of one table, or inclusions across tables, which name their tables.

    Examples
    --------
    >>> from holdfast.constraints import parse_constraint
    >>> found = Constraints([parse_constraint("not(t.id = s.id)"), parse_constraint("{}: [] -> year")], "people")
    >>> print(found.bundle()["text/plain"])
    2 constraints of people
    not(t.id = s.id)
    {}: [] -> year
    >>> found == [parse_constraint("not(t.id = s.id)"), parse_constraint("{}: [] -> year")]
    True
    >>> found.to_pandas()["sentence"].tolist()
    ['No two rows have the same id.', 'All rows have the same year.']
    """

    headings: ClassVar[Sequence[str]] = ("kind", "constraint")
    dtypes: ClassVar[Mapping[str, str]] = _DTYPES

    def heading(self, total: int) -> str:
        """Return the number of constraints and the name of their table."""
        families = {constraint.family for constraint in self}
        noun = NOUNS[families.pop()] if len(families) == 1 else ("constraint", "constraints")
        return self._counted(total, *noun)

    def cells(self, item: Kept) -> Sequence[TableCell]:
        """Return kind, words and text."""
        return TableCell(kind_of(item)), TableCell(sentence(item), str(item))

    def record(self, item: Kept) -> Mapping[str, Any]:
        """Return the row of a constraint for the data frame."""
        table = item.dependent.table if isinstance(item, InclusionDependency) else self.table
        fields = {**constraint_fields(item, table), "kind": kind_of(item), "sentence": sentence(item)}
        return {name: fields[name] for name in _DTYPES}

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the number of constraints of each kind with matplotlib; return the axes."""
        from holdfast.display.plots import bars

        return bars(by_count(self, kind_of), "constraints", ax)


class Ranked(Listing[tuple[Score, Kept]]):
    """Constraints with their scores, best first.

    Parameters
    ----------
    scored : scores and constraints.
    table : the name of their table.
    sound : how many constraints of the table are sound, listed or not; None if it is not known.
    """

    headings: ClassVar[Sequence[str]] = ("score", "kind", "constraint")
    dtypes: ClassVar[Mapping[str, str]] = {
        "score": "float64",
        "sound": "boolean",
        "strength": "float64",
        "support": "float64",
        **_DTYPES,
    }

    def __init__(self, scored: Iterable[tuple[Score, Kept]], table: str = "", sound: int | None = None) -> None:
        super().__init__(scored, table)
        self.sound = sound

    def heading(self, total: int) -> str:
        """Return the number of constraints and the name of their table."""
        sound = "" if self.sound is None else f"; {self.sound:,} of all constraints are sound"
        return f"{self._counted(total, 'constraint')}, best first{sound}"

    def sound_ones(self) -> "Ranked[Kept]":
        """Return the sound constraints; all of them if none is sound, or if that is not known."""
        return self._like(item for item in self if item[0].sound) if self.sound else self

    def line(self, item: tuple[Score, Kept]) -> str:
        """Return score and text."""
        return f"{item[0]:.3f}  {item[1]}"

    def cells(self, item: tuple[Score, Kept]) -> Sequence[TableCell]:
        """Return score, kind, words and text."""
        score, constraint = item
        return TableCell(f"{score:.3f}", is_number=True), *Constraints[Kept]([], self.table).cells(constraint)

    def record(self, item: tuple[Score, Kept]) -> Mapping[str, Any]:
        """Return the score, and the constraint's values."""
        score, constraint = item
        about = {"score": float(score), "sound": score.sound, "strength": score.strength, "support": score.support}
        return {**about, **Constraints[Kept]([], self.table).record(constraint)}
