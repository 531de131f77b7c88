"""What shows a run to others while it goes on: figures, where a configuration asks for them."""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from holdfast.jobs.configuration.settings import Settings
from holdfast.jobs.terminal.progress import Progress
from holdfast.state.commits import Commits
from holdfast.streaming.alerts.sending import Counts
from holdfast.streaming.alerts.waiting import Waiting
from holdfast.streaming.commits.snapshotting import Snapshotter
from holdfast.streaming.maintainers.maintainer import Maintainer
from holdfast.streaming.pipeline import Pipeline
from holdfast.streaming.sinks.publisher import Publisher

if TYPE_CHECKING:
    from holdfast.streaming.spark.running import Done


@dataclass(frozen=True)
class Followed:
    """What figures are read from.

    Parameters
    ----------
    tables : their maintainers, by name.
    alerts : what became of messages.
    """

    commits: Commits
    pipeline: Pipeline
    publisher: Publisher
    snapshotter: Snapshotter
    tables: Mapping[str, Maintainer]
    waiting: Waiting
    alerts: Counts


class Watch(Protocol):
    """Is told of a run; see `Figures`."""

    def follow(self, followed: Followed | None) -> None:
        """Read figures from these parts from now on."""

    def watch(self, is_well: Callable[[], bool]) -> None:
        """Let `is_well` say whether the run is alive and no batch has failed."""

    def done(self, done: "Done") -> None:
        """Note a committed batch."""


class Unwatched:
    """Nobody looks."""

    def follow(self, followed: Followed | None) -> None:
        """Do nothing."""

    def watch(self, is_well: Callable[[], bool]) -> None:
        """Do nothing."""

    def done(self, done: "Done") -> None:
        """Do nothing."""


@contextmanager
def watched(settings: Settings, progress: Progress) -> Iterator[Watch]:
    """Serve figures while something runs."""
    if settings.prometheus is None:
        yield Unwatched()
        return
    from holdfast.jobs.application.metrics import Endpoint, Figures

    figures = Figures(settings.name)
    endpoint = Endpoint(figures, settings.prometheus)
    address = settings.prometheus.address
    shown = f"[{address}]" if ":" in address else address
    progress.note(f"figures for Prometheus: http://{shown}:{endpoint.port}/metrics")
    try:
        yield figures
    finally:
        endpoint.close()
