"""What can go wrong before Spark runs. Invariant: each message ends with what to do."""

from holdfast.constraints.errors import ExternalError


class JavaMissing(ExternalError):
    """No Java that can run Spark was found, and none could be made."""


class JarUnavailable(ExternalError):
    """A pinned jar could not be had from the repository."""


class JarMismatch(ExternalError):
    """A jar is not the one that was pinned; it was not put on any class path."""


class SparkMismatch(ExternalError):
    """SPARK_HOME names a Spark of another version than the PySpark that is installed."""
