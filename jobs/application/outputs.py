"""Reads the outputs of a configuration for the page and the report, also while a run writes them.

Invariant: neither the outputs nor the state are written.
"""

from itertools import islice
from typing import Any

from holdfast.constraints import HoldfastError, StateRefused
from holdfast.dashboard.actions import Actions
from holdfast.dashboard.answers import Answers
from holdfast.dashboard.reading.muted import published
from holdfast.dashboard.reading.outputs import Outputs
from holdfast.display.secrets import masked
from holdfast.jobs.application.opening import read_state
from holdfast.jobs.configuration.mutes_file import WatchedMutes, mute_line, mutes_of
from holdfast.jobs.configuration.quantities import is_remote
from holdfast.jobs.configuration.reading import Configuration
from holdfast.jobs.configuration.settings import Settings
from holdfast.jobs.files.found_rules import rule_line

_LOCAL_SECONDS, _REMOTE_SECONDS = 1.0, 5.0
_LEAST_COVERAGE = 0.8
_MOST_NEAR = 200


def answers_of(configuration: Configuration) -> Answers:
    """Return the answers from the outputs of a configuration; refuse a configuration without outputs yet."""
    settings = configuration.settings
    outputs = Outputs(settings.output, settings.name, settings.storage_options)
    outputs.refresh()
    if not outputs.are_there:
        raise StateRefused(
            f"{masked(settings.output)} holds no output tables yet: "
            f"holdfast run {configuration.file} makes them, and fills them as changes come"
        )
    every = _REMOTE_SECONDS if is_remote(settings.output) else _LOCAL_SECONDS
    mutes = WatchedMutes(settings)
    actions = Actions(rule_line, mute_line, settings.mutes, mutes)
    return Answers(outputs, lambda: _near(configuration), every, actions)


def published_mutes(settings: Settings) -> tuple[int, int | None]:
    """Return how many constraints are muted, and how many of these are or were published; None without outputs."""
    mutes = mutes_of(settings)
    try:
        outputs = Outputs(settings.output, settings.name, settings.storage_options)
        outputs.refresh()
        return len(mutes.mutes), published(outputs, mutes) if outputs.are_there else None
    except HoldfastError:  # of the storage: the file may be right
        return len(mutes.mutes), None


def _near(configuration: Configuration) -> list[dict[str, Any]] | None:
    """Return the inclusions that nearly hold; None where the state is not on this machine, or cannot be read."""
    from holdfast.discovery.inclusion.result import Inclusions
    from holdfast.streaming.maintainers.inclusion.maintainer import stored_clusters

    try:
        with read_state(configuration) as (reader, _):
            clusters = stored_clusters(reader)
    except HoldfastError:  # missing, in use by a command that locks it, or damaged: `status` reports the reason
        return None
    if clusters is None:
        return None
    return [
        {
            "constraint": str(near.dependency),
            **near.dependency.named,
            "coverage": round(near.coverage, 6),
            "missing_values": near.missing_values,
            "missing_occurrences": near.missing_occurrences,
        }
        for near in islice(Inclusions(clusters).near(_LEAST_COVERAGE), _MOST_NEAR)
    ]
