"""What can go wrong before Spark runs. Invariant: each error says what was found and what to do."""

import re

from holdfast.constraints.errors import ExternalError


class SetUpError(ExternalError):
    """A part that Spark needs is not to be had.

    Attributes
    ----------
    found, action : what was found, and what to do; the message is both.
    """

    def __init__(self, found: str, action: str = "") -> None:
        self.found = found
        self.action = action
        super().__init__(f"{found}: {action}" if action else found)


class CacheUnwritable(SetUpError):
    """The cache folder cannot be written."""


class JavaMissing(SetUpError):
    """No Java that can run Spark was found, and none could be made."""


class JarUnavailable(SetUpError):
    """A pinned jar could not be had from the repository."""


class JarMismatch(SetUpError):
    """A jar is not the one that was pinned; it was not put on any class path."""


class SparkMismatch(SetUpError):
    """SPARK_HOME names a Spark of another version than the PySpark that is installed."""


class ClusterUnreachable(SetUpError):
    """The cluster does not answer, does not take the application, or gives it no executor in time."""


class ExecutorsUnfit(SetUpError):
    """Executors run, but cannot do this program's work: another Python, or without what it imports."""


def first_line(text: str) -> str:
    r"""Return the sentence that says most, without stacks.

    >>> first_line("[STREAM_FAILED] Query [id = 1] terminated with exception: no such file\n at x.y(z.scala)")
    'no such file'
    >>> first_line("An error occurred while calling o1.\n: x.E: y\n at x.y\nCaused by: java.io.IOError: no disk")
    'no disk'
    """
    causes = re.findall(r"^Caused by: (?:[\w.$]+: )?(.+)$", text, re.MULTILINE)
    if text.startswith("An error occurred while calling") and causes:
        return str(causes[-1])[:600]
    text = re.split(r"\n\s*at |\nJVM stacktrace|\n=== |\nTraceback", text)[0]
    text = re.sub(r"^.*?terminated with exception: ", "", text, flags=re.DOTALL)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(lines)[:600]
