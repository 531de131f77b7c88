"""Errors before Spark runs. Invariant: each error says what was found and what to do."""

import re

from holdfast.constraints.errors import ExternalError


class SetUpError(ExternalError):
    """A part that Spark needs is not available.

    Attributes
    ----------
    found, action : what was found, and what to do; the message has both.
    """

    def __init__(self, found: str, action: str = "") -> None:
        self.found = found
        self.action = action
        super().__init__(f"{found}: {action}" if action else found)


class CacheUnwritable(SetUpError):
    """The cache folder cannot be written."""


class JavaMissing(SetUpError):
    """No Java that can run Spark was found or could be made."""


class JarUnavailable(SetUpError):
    """The repository does not provide a pinned jar."""


class JarMismatch(SetUpError):
    """A jar differs from the pinned one; it was not put on any class path."""


class SparkMismatch(SetUpError):
    """SPARK_HOME names a Spark of another version than the installed PySpark."""


class ClusterUnreachable(SetUpError):
    """The cluster does not answer, does not accept the application, or gives it no executor in time."""


class ExecutorsUnfit(SetUpError):
    """Executors run, but cannot do the work: they have another Python, or lack modules."""


def first_line(text: str) -> str:
    r"""Return the most informative sentence of an error, without stack traces.

    >>> first_line("[STREAM_FAILED] Query [id = 1] terminated with exception: no such file\n at x.y(z.scala)")
    'no such file'
    >>> first_line("An error occurred while calling o1.\n: x.E: y\n at x.y\nCaused by: java.io.IOError: no disk")
    'no disk'
    """
    text = re.sub(r"\x1b\[[0-9;]*m", "", text)  # colours
    causes = re.findall(r"^Caused by: (?:[\w.$]+: )?(.+)$", text, re.MULTILINE)
    if text.startswith("An error occurred while calling") and causes:
        return str(causes[-1])[:600]
    text = re.split(r"\n\s*at |\nJVM stacktrace|\n=== |\nTraceback", text)[0]
    text = re.sub(r"^.*?terminated with exception: ", "", text, flags=re.DOTALL)
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return " ".join(lines)[:600]
