"""The problems of a configuration, each with its position in the file, reported together.

Invariant: a `ConfigurationError` has at least one problem, in the order of the file, and its text has no value that
could be a secret.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from operator import attrgetter

from holdfast.constraints import UsageError
from holdfast.display.secrets import masked, without

Path = tuple[str | int, ...]
"""Keys and positions from the top of a document: `("tables", 0, "source", "format")`."""

MAX_SHOWN = 50
MOST = 1_000


@dataclass(frozen=True, slots=True, order=True)
class TextPosition:
    """A line and a column of a text, counted from 1; line 0 stands for the whole text."""

    line: int = 0
    column: int = 0


@dataclass(frozen=True, slots=True)
class Problem:
    """An error or a warning.

    Parameters
    ----------
    place, path : its position in the text, and the keys that lead to it.
    message : the given value, the expected value, and what to do.
    """

    place: TextPosition
    path: Path
    message: str

    def located(self, file: str) -> str:
        """Return the problem in the form `file:line:column: message`, which editors recognise."""
        where = f"{file}:{self.place.line}:{self.place.column}" if self.place.line else file
        subject = f"{written(self.path)}: " if self.path else ""
        return f"{where}: {subject}{masked(self.message)}".replace("\n", "\n    ")


class Enough(Exception):
    """So many problems were found that the search for more is given up."""


@dataclass
class Problems:
    """The problems found so far, each of them once.

    Attributes
    ----------
    secrets : texts that are masked in every message.
    """

    found: dict[Problem, None] = field(default_factory=dict)
    secrets: set[str] = field(default_factory=set)

    def add(self, place: TextPosition, path: Path, message: str) -> None:
        """Add a problem; raise `Enough` where there are `MOST`."""
        if len(self.found) >= MOST:
            raise Enough
        self.found[Problem(place, path, without(self.secrets, message))] = None

    def ordered(self) -> tuple[Problem, ...]:
        """Return the problems in the order of the file."""
        return tuple(sorted(self.found, key=attrgetter("place")))

    def __bool__(self) -> bool:
        return bool(self.found)


class ConfigurationError(UsageError):
    """A configuration cannot be used.

    Attributes
    ----------
    file, problems : the file, and all its problems.

    Examples
    --------
    >>> print(ConfigurationError("a.yaml", [Problem(TextPosition(3, 5), ("tables", 0, "name"), "is missing")]))
    1 error in a.yaml
    a.yaml:3:5: tables[0].name: is missing
    """

    def __init__(self, file: str, problems: Iterable[Problem]) -> None:
        self.file = file
        self.problems = tuple(problems)
        count = len(self.problems)
        lines = [f"{count} error{'s' if count > 1 else ''} in {file}"]
        lines += [problem.located(file) for problem in self.problems[:MAX_SHOWN]]
        if count > MAX_SHOWN:
            lines.append(f"and {count - MAX_SHOWN} more")
        super().__init__("\n".join(lines))


def written(path: Path) -> str:
    """Return a path as text.

    >>> written(("tables", 0, "source", "format")), written(("spark", "spark.ui.enabled"))
    ('tables[0].source.format', "spark['spark.ui.enabled']")
    """
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif step.replace("_", "a").replace("-", "a").isalnum():
            text += f".{step}" if text else step
        else:
            text += f"[{step!r}]"
    return text
