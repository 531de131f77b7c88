"""Which columns of a source are read, and which of them as strings."""

from collections.abc import Iterable

from holdfast.constraints import UnknownColumn
from holdfast.constraints.columns import unknown_name
from holdfast.tables.options import ReadOptions


class Selection:
    """The columns that options choose from a source's.

    Parameters
    ----------
    source, names : what is read, for messages, and its columns; a name in the options must be one of them.
    options : the options.
    """

    def __init__(self, source: str, names: Iterable[str], options: ReadOptions) -> None:
        self._options = options
        known = list(names)
        strings = () if options.strings == "all" else options.strings
        for asked in (options.include or (), options.exclude, strings, options.types, options.ordered):
            for name in asked:
                if name not in known:
                    raise UnknownColumn(unknown_name(f"{source} has no column", name, known))

    def chosen(self, names: Iterable[str]) -> list[str]:
        """Return the names of the columns to read, in their order."""
        include, exclude = self._options.include, self._options.exclude
        return [name for name in names if (include is None or name in include) and name not in exclude]

    def as_string(self, name: str) -> bool:
        """Whether a column is read as strings, whatever its type."""
        return self._options.strings == "all" or name in self._options.strings
