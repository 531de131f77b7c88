"""Observers of a run: the parts that figures are read from, and the functions that a run calls."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

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
    from pyspark.sql import SparkSession

    from holdfast.streaming.spark.running import Done


@dataclass(frozen=True)
class RunParts:
    """The parts of a run that figures are read from.

    Parameters
    ----------
    tables : the maintainers, by the name of their table.
    alerts : the numbers of alerts that were sent, failed and dropped.
    """

    commits: Commits
    pipeline: Pipeline
    publisher: Publisher
    snapshotter: Snapshotter
    tables: Mapping[str, Maintainer]
    waiting: Waiting
    alerts: Counts


@dataclass(frozen=True)
class RunObserver:
    """Functions that a run calls; a function that is left out does nothing.

    Parameters
    ----------
    seeded : called with the tables, once they are seeded or restored.
    started : called with the parts of the run before the sources are followed, and with None when they end.
    ready : called with the session before the sources are followed.
    monitored : called with a function that returns whether the run is alive and no batch has failed.
    done : called with each committed batch. An observer of `run` that has one takes the place of the notes.
    stop : ends the run when it is set; the run then leaves signals to its caller.
    """

    seeded: Callable[[Mapping[str, Maintainer]], object] = lambda _: None
    started: Callable[[RunParts | None], object] = lambda _: None
    ready: Callable[["SparkSession"], object] = lambda _: None
    monitored: Callable[[Callable[[], bool]], object] = lambda _: None
    done: Callable[["Done"], object] | None = None
    stop: threading.Event | None = None


@contextmanager
def served_figures(settings: Settings, progress: Progress) -> Iterator[RunObserver]:
    """Serve the figures of a run where the configuration asks for them; provide their observer."""
    if settings.prometheus is None:
        yield RunObserver()
        return
    from holdfast.jobs.application.metrics import Endpoint, Figures

    figures = Figures(settings.name)
    endpoint = Endpoint(figures, settings.prometheus)
    address = settings.prometheus.address
    shown = f"[{address}]" if ":" in address else address
    progress.note(f"figures for Prometheus: http://{shown}:{endpoint.port}/metrics")
    try:
        yield RunObserver(started=figures.follow, monitored=figures.watch, done=figures.done)
    finally:
        endpoint.close()
