"""What all tests share: Hypothesis profiles, the seed in the header of every run, one Spark session, one cluster.

Invariant: a failure can be run again. HYPOTHESIS_PROFILE chooses `dev` (the default), `ci` or
`deep`; a run draws its seed once, prints it, and takes it back as `--hypothesis-seed`; a failing
example also prints the line that reproduces it.
"""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

    from tests.cluster import Cluster

_SHARED: dict[str, Any] = {
    "deadline": None,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow],
}

settings.register_profile("dev", max_examples=50, **_SHARED)
settings.register_profile("ci", max_examples=200, **_SHARED)
settings.register_profile("deep", max_examples=5_000, **_SHARED)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def pytest_configure(config: pytest.Config) -> None:
    """Draw the seed where none was given; xdist hands it on to its workers."""
    if config.getoption("--hypothesis-seed") is None:
        config.option.hypothesis_seed = str(random.SystemRandom().randrange(2**32))


def pytest_report_header(config: pytest.Config) -> str:
    """Say how to repeat the run."""
    profile = os.environ.get("HYPOTHESIS_PROFILE", "dev")
    return f"seed: HYPOTHESIS_PROFILE={profile} --hypothesis-seed={config.getoption('--hypothesis-seed')}"


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what needs a JVM, and keep it on one worker, so that it is started once.

    What runs a session on the cluster comes last, since a process has one session at a time.
    """
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        for fixture, mark in (("spark", "spark"), ("cluster", "spark"), ("broker", "kafka")):
            if fixture in fixtures:
                item.add_marker(mark)
                item.add_marker(pytest.mark.xdist_group("jvm"))
    items.sort(key=lambda item: "cluster_spark" in getattr(item, "fixturenames", ()))


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Start the one Spark session that all tests share."""
    from holdfast.streaming.spark.session import session

    settings = {
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        # A short life is over before the optimising compiler pays.
        "spark.driver.extraJavaOptions": "-Xss16m -XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    }
    started = session("holdfast-tests", settings)
    yield started
    started.stop()


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Start a Spark standalone cluster of one master and two workers of one core and 1 GB."""
    from tests.cluster import running_cluster

    with running_cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


@pytest.fixture(scope="session")
def cluster_spark(cluster: Cluster) -> Iterator[SparkSession]:
    """Start the one session on the cluster that all tests share; the local one ends."""
    from pyspark import SparkContext

    from holdfast.streaming.spark.session import session_for

    if (local := SparkContext._active_spark_context) is not None:
        local.stop()
    started = session_for(cluster.master, cluster.settings, name="holdfast-tests")
    yield started
    started.stop()
