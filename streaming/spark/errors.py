"""What can go wrong before Spark runs. Invariant: each error says what was found and what to do."""

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
