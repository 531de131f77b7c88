"""Kill -9 at every step, on topics and change feeds: nothing is lost, and nothing comes twice.

Each run is one start of `holdfast run` (or `holdfast rebuild`), a process group that SIGKILL ends at a seeded moment; the
next run is its restart. The run that nobody kills is one of this process. HOLDFAST_KILLS_SEED repeats a history.
`make test-deep` has HOLDFAST_KILLS runs for each engine (20, with rows in blocks 10, and 200 in the profile `deep`),
`.ci/run` a few. The matrix of what was killed where, and of what the next start found, is printed (`-rA`), and written
to the file that the test names.
"""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from tests.kafka.broker import running_broker
from tests.recovery.feeds import TableFeed, TopicFeed
from tests.recovery.kills import Lives, matrix

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.slow, pytest.mark.deep]

DEFAULT = {"embedded": 20, "spark": 10}
"""Runs by engine: where rows are in blocks a run takes twice as long."""
FEW_CHANGES, MANY_CHANGES = (3, 6), (4, 16)
"""How often changes come during a run: of a feed each is a batch of the killed application, and of the undisturbed one."""
_SHORT = 4
"""The most runs of a history with few changes."""


def _runs(engine: str) -> int:
    """Return how many runs there are for an engine."""
    deep = os.environ.get("HYPOTHESIS_PROFILE") == "deep"
    return int(os.environ.get("HOLDFAST_KILLS", "200" if deep else str(DEFAULT[engine])))


def _of_topics(engine: str) -> int:
    """Return how many of them follow a topic."""
    return -(-_runs(engine) * 3 // 5)


def _seed() -> int:
    given = os.environ.get("HOLDFAST_KILLS_SEED")
    return random.SystemRandom().randrange(2**32) if given is None else int(given)


def _lived(lives: Lives, undisturbed: Lives, count: int, folder: Path) -> None:
    """Kill one application, replay the same history to another, and compare."""
    try:
        lives.run(count)
        lives.drain()
    finally:
        report = folder / "matrix.md"
        report.write_text(matrix(lives.deaths) + "\n", encoding="utf-8")
        print(f"{len(lives.deaths)} runs, also in {report}:\n{matrix(lives.deaths)}")
    lives.check()
    undisturbed.app.drain()
    undisturbed.check()
    assert lives.answer() == undisturbed.answer()


@pytest.mark.kafka
@pytest.mark.parametrize("engine", DEFAULT)
def test_a_topic_is_followed_exactly_once_whenever_it_is_killed(
    spark: SparkSession, tmp_path: Path, engine: str
) -> None:
    seed = _seed()
    runs = _of_topics(engine)
    print(f"HOLDFAST_KILLS_SEED={seed} HOLDFAST_KILLS={_runs(engine)}, {runs} of them")
    (tmp_path / "broker").mkdir()
    with running_broker(tmp_path / "broker") as broker:
        dice = random.Random(seed)
        feed = TopicFeed(broker, "t", dice)
        folders = [tmp_path / name for name in ("killed", "undisturbed")]
        for folder in folders:
            folder.mkdir()
        pace = 0.5 if engine == "spark" else 1.0
        lives, undisturbed = (Lives(folder, feed, dice, pace, engine) for folder in folders)
        _lived(lives, undisturbed, runs, tmp_path)


@pytest.mark.parametrize("engine", DEFAULT)
def test_a_change_feed_is_followed_exactly_once_whenever_it_is_killed(
    spark: SparkSession, tmp_path: Path, engine: str
) -> None:
    seed = _seed() + 1
    runs = _runs(engine) - _of_topics(engine)
    print(f"HOLDFAST_KILLS_SEED={seed - 1} HOLDFAST_KILLS={_runs(engine)}, {runs} of them")
    dice = random.Random(seed)
    feed = TableFeed(tmp_path / "t", dice)
    folders = [tmp_path / name for name in ("killed", "undisturbed")]
    for folder in folders:
        folder.mkdir()
    pace = 0.15 if engine == "spark" else 0.3
    changes = FEW_CHANGES if runs <= _SHORT else MANY_CHANGES
    lives, undisturbed = (Lives(folder, feed, dice, pace, engine, changes) for folder in folders)
    _lived(lives, undisturbed, runs, tmp_path)
