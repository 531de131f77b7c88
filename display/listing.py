"""A list that notebooks show as a table, with a method that returns a data frame.

Invariant: a slice of such a list is such a list too. A notebook shows at most `MOST` items, and the number of all.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self, SupportsIndex, TypeVar, overload

from holdfast.display.html import TableCell, listed
from holdfast.display.texts import counted, printable

if TYPE_CHECKING:
    import pandas as pd

Item = TypeVar("Item")

MOST = 30


class Listing(list[Item]):
    """A list of items of one kind.

    A subclass defines the noun, the headings of the table, and for each item its cells, its line of text, and its
    record in a data frame.

    Parameters
    ----------
    items : the items, in the order in which they are shown.
    table : the name of the table that they are about; empty if there is no one table.
    """

    noun: ClassVar[tuple[str, str]] = ("item", "items")
    headings: ClassVar[Sequence[str]] = ()
    dtypes: ClassVar[Mapping[str, str]] = {}
    """The columns of a data frame, with their types."""

    def __init__(self, items: Iterable[Item] = (), table: str = "") -> None:
        super().__init__(items)
        self.table = table

    def cells(self, item: Item) -> Sequence[TableCell]:
        """Return an item's cells in a table."""
        raise NotImplementedError

    def record(self, item: Item) -> Mapping[str, Any]:
        """Return an item's values in a data frame."""
        raise NotImplementedError

    def line(self, item: Item) -> str:
        """Return an item as text."""
        return str(item)

    def heading(self, total: int) -> str:
        """Return the heading of a table of `total` items."""
        return counted(total, *self.noun)

    def _counted(self, count: int, *noun: str) -> str:
        """Return a number of items, and the name of their table."""
        return f"{counted(count, *noun)}{f' of {self.table}' if self.table else ''}"

    def to_pandas(self) -> "pd.DataFrame":
        """Return all items as a data frame, a row per item. O(items)."""
        return frame(map(self.record, self), self.dtypes)

    def bundle(self, total: int | None = None, heading: str = "") -> dict[str, str]:
        """Return the first items as text and as HTML.

        Parameters
        ----------
        total : the number of all items, where the list has only the first of them.
        heading : the heading of the table, in place of the default.
        """
        total = len(self) if total is None else total
        shown = self[:MOST]
        heading = heading or self.heading(total)
        left = total - len(shown)
        note = f"{left:,} more: slice it to see others, or to_pandas() for all" if left else ""
        return {
            "text/plain": printable("\n".join(filter(None, (heading, *map(self.line, shown), note)))),
            "text/html": listed(heading, self.headings, [self.cells(item) for item in shown], note),
        }

    def _repr_html_(self) -> str:
        return self.bundle()["text/html"]

    def _repr_mimebundle_(self, **_asked: object) -> dict[str, str]:
        return self.bundle()

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:  # noqa: ARG002 - IPython's protocol
        """Print the text of the first items; IPython would print all items of a list."""
        printer.text(self.bundle()["text/plain"])

    def _like(self, items: Iterable[Item]) -> Self:
        other = type(self).__new__(type(self))
        other.__dict__.update(self.__dict__)
        other.extend(items)
        return other

    @overload
    def __getitem__(self, index: SupportsIndex) -> Item: ...
    @overload
    def __getitem__(self, index: "slice[Any, Any, Any]") -> Self: ...
    def __getitem__(self, index: "SupportsIndex | slice[Any, Any, Any]") -> Item | Self:
        if isinstance(index, slice):
            return self._like(super().__getitem__(index))
        return super().__getitem__(index)


def frame(records: Iterable[Mapping[str, Any]], dtypes: Mapping[str, str]) -> "pd.DataFrame":
    """Return records as a data frame with these columns and types, also without records."""
    import pandas as pd

    return pd.DataFrame(list(records), columns=list(dtypes)).astype(dict(dtypes))


def by_count(items: Iterable[Item], name: Callable[[Item], str]) -> dict[str, int]:
    """Return the number of items by name, in order of first appearance."""
    counts: dict[str, int] = {}
    for item in items:
        counts[name(item)] = counts.get(name(item), 0) + 1
    return counts
