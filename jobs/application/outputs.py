"""What a configuration's outputs are read with: by the page and by the report, whether or not a run goes on.

Invariant: nothing is written, neither to the outputs nor to the state.
"""

from pathlib import Path
from typing import Any

from holdfast.constraints import HoldfastError, StateRefused
from holdfast.dashboard.answers import Answers
from holdfast.dashboard.reading.outputs import Outputs
from holdfast.jobs.configuration.quantities import is_remote
from holdfast.jobs.configuration.reading import Configuration

_LOCAL_SECONDS, _REMOTE_SECONDS = 1.0, 5.0
_LEAST_COVERAGE = 0.8
_MOST_NEAR = 200


def answers_of(configuration: Configuration) -> Answers:
    """Return what answers questions about the outputs; refuse those that are not there."""
    settings = configuration.settings
    outputs = Outputs(settings.output, settings.name, settings.storage_options)
    outputs.refresh()
    if not outputs.are_there:
        raise StateRefused(
            f"{configuration.masked(settings.output)} holds no output tables yet: "
            f"holdfast run {configuration.file} makes them, and fills them as changes come"
        )
    state = Path(settings.state)
    every = _REMOTE_SECONDS if is_remote(settings.output) else _LOCAL_SECONDS
    return Answers(outputs, lambda: _near(state, settings.name), every)


def _near(state: Path, application: str) -> list[dict[str, Any]] | None:
    """Return the inclusions that nearly hold, by the clusters of a state of this machine; None where it has none."""
    from holdfast.discovery.inclusion.result import Inclusions
    from holdfast.state.commits import READY, identity_of
    from holdfast.state.rocks import RocksReader, holds_store
    from holdfast.streaming.maintainers.inclusion.maintainer import stored_clusters

    try:
        if not holds_store(state):
            return None
        with RocksReader(state) as reader:
            identity = identity_of(reader, application)
            if identity is None or identity.status != READY:
                return None
            kept = stored_clusters(reader)
    except HoldfastError:  # in use by a command that has it to itself, or damaged: `status` says what it is
        return None
    if kept is None:
        return None
    found = []
    for near in Inclusions(kept).near(_LEAST_COVERAGE):
        found.append(
            {
                "constraint": str(near.dependency),
                **near.dependency.named,
                "coverage": round(near.coverage, 6),
                "missing_values": near.missing_values,
                "missing_occurrences": near.missing_occurrences,
            }
        )
        if len(found) == _MOST_NEAR:
            break
    return found
