"""The constraints that a discovery found, as a sequence, and as notebooks show them."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, SupportsIndex, TypeVar, overload

from holdfast.constraints import Constraint
from holdfast.display.constraints import Constraints, Ranked
from holdfast.display.listing import MOST

if TYPE_CHECKING:
    import pandas as pd
    from matplotlib.axes import Axes

Kept = TypeVar("Kept", bound=Constraint)


class FoundConstraints(Sequence[Kept]):
    """A sequence of constraints whose items are made on access; a slice is a list that notebooks show as a table."""

    @abstractmethod
    def summary(self) -> str:
        """Return how many constraints were found, and where."""

    @abstractmethod
    def top(self, count: int) -> Ranked[Kept]:
        """Return the constraints that say most, each with its score, best first."""

    @abstractmethod
    def _at(self, place: int) -> Kept:
        """Return the constraint at a place of the sequence."""

    @abstractmethod
    def _listed(self, some: Iterable[Kept]) -> Constraints[Kept]:
        """Return some of the constraints as a list."""

    def __iter__(self) -> Iterator[Kept]:
        return map(self._at, range(len(self)))

    @overload
    def __getitem__(self, index: SupportsIndex) -> Kept: ...
    @overload
    def __getitem__(self, index: "slice[Any, Any, Any]") -> Constraints[Kept]: ...
    def __getitem__(self, index: "SupportsIndex | slice[Any, Any, Any]") -> Kept | Constraints[Kept]:
        places = range(len(self))[index]
        return self._listed(map(self._at, places)) if isinstance(places, range) else self._at(places)

    def __repr__(self) -> str:
        return f"<{self.summary()}>"

    def to_pandas(self) -> "pd.DataFrame":
        """Return all constraints as a data frame. O(constraints)."""
        return self[:].to_pandas()

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the number of constraints of each kind with matplotlib; return the axes."""
        return self[:].plot(ax)

    def _repr_mimebundle_(self, **_asked: object) -> dict[str, str]:
        best = self.top(MOST)
        return best.sound_ones().bundle(len(self), f"{self.summary()}; {best.sound:,} are sound")

    def _repr_html_(self) -> str:
        return self._repr_mimebundle_()["text/html"]
