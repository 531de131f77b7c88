"""What all tests share: Hypothesis profiles, the seed in the header of every run, the order of tests, Spark, a cluster.

Invariant: a failure can be run again. HYPOTHESIS_PROFILE chooses `dev` (the default), `ci` or
`deep`; a run draws its seed once, prints it, and takes it back as `--hypothesis-seed`; a failing
example also prints the line that reproduces it.

Workers (`-n auto`) take tests one by one, the longest first, so that all end at about the same time;
`tests/slow_tests.txt` says which are long, and HOLDFAST_NOTE_SLOW=FILE writes such a list. Each worker
that runs tests with Spark has a session of its own; half of the workers run these first. Files whose tests share something dearer (a cluster, a broker, a browser,
what a module makes once) are in `_ONE_WORKER`. Tests with the mark `deep` are run by `-m deep` only.
Files are in memory where there is room, as tests wait for disks otherwise; TMPDIR or `--basetemp` say
where else.
"""

from __future__ import annotations

import gc
import os
import random
import tempfile
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler.loadscope import LoadScopeScheduling

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

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
    """Draw the seed where none was given, and choose where files are; xdist hands both on to its workers."""
    if config.getoption("--hypothesis-seed") is None:
        config.option.hypothesis_seed = str(random.SystemRandom().randrange(2**32))
    if (place := _in_memory()) is not None and not (config.option.basetemp or os.environ.get("TMPDIR")):
        os.environ["TMPDIR"] = tempfile.tempdir = str(place)
    if (noted := os.environ.get("HOLDFAST_NOTE_SLOW")) and not hasattr(config, "workerinput"):
        config.pluginmanager.register(_Durations(Path(noted)))


def _in_memory(place: Path = Path("/dev/shm")) -> Path | None:
    """Return the folder whose files are in memory, where it has room and lets programs run."""
    try:
        about = os.statvfs(place)
    except OSError:
        return None
    has_room = about.f_bavail * about.f_frsize >= _ROOM_BYTES
    is_fit = has_room and not about.f_flag & os.ST_NOEXEC and os.access(place, os.W_OK | os.X_OK)
    return place if is_fit else None


def pytest_report_header(config: pytest.Config) -> str:
    """Say how to repeat the run."""
    profile = os.environ.get("HYPOTHESIS_PROFILE", "dev")
    return f"seed: HYPOTHESIS_PROFILE={profile} --hypothesis-seed={config.getoption('--hypothesis-seed')}"


_SLOW_TESTS = Path(__file__).with_name("slow_tests.txt")
_SLOW_SECONDS = 2.0
_WORKER_BYTES = 2 << 30
_ROOM_BYTES = 8 << 30
_ON_CLUSTER = pytest.StashKey[ExitStack]()
_ONE_WORKER = {
    "tests/spark/test_cluster.py": "cluster",
    "tests/spark/test_pack.py": "cluster",
    "tests/spark/test_run_on_cluster.py": "cluster",
    "tests/spark/test_spread_on_cluster.py": "cluster",
    "tests/kafka/test_round_trip.py": "broker",
    "tests/kafka/test_run_kafka.py": "broker",
    "tests/dashboard/test_page.py": "browser",
    "tests/dashboard/test_page_updates.py": "browser",
    "tests/spark/test_demo.py": "demo",
    "tests/unit/test_layout.py": "wheel",
}
"""By file: the group that one worker runs. xdist's own groups (`--dist loadgroup`) have no effect with this pytest."""
_WITH_SPARK = ("tests/spark/", "tests/kafka/", "tests/recovery/test_run_faults.py", "tests/recovery/test_kills.py")
"""How the names of tests begin that use the fixture `spark`."""
_MARKS = {"spark": "spark", "cluster": "spark", "broker": "kafka"}
"""By fixture: the mark of the tests that use it."""


class _Scheduling(LoadScopeScheduling):  # type: ignore[misc]
    """Gives workers test after test, or a whole group; groups come first.

    Half of the workers take tests with Spark before others, the other half after them: each worker that has such a test
    starts Java, which compiles Spark anew.
    """

    def _split_scope(self, nodeid: str) -> str:
        return _ONE_WORKER.get(nodeid.partition("::")[0], nodeid)

    def _assign_work_unit(self, node: Any) -> None:
        """Choose the unit that is next for a node, and forget what it has done, which is counted again with each test."""
        units = self.assigned_work[node]
        for scope in [scope for scope, tests in units.items() if all(tests.values())]:
            del units[scope]
        is_first = node in self.nodes[: max(1, len(self.nodes) // 2)]
        for scope, tests in self.workqueue.items():
            if next(iter(tests)).startswith(_WITH_SPARK) == is_first:
                self.workqueue.move_to_end(scope, last=False)
                break
        super()._assign_work_unit(node)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> LoadScopeScheduling | None:
    """Spread tests as said above, unless `--dist` asks for another way."""
    return _Scheduling(config, log) if config.getvalue("dist") == "load" else None


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Return how many workers `-n auto` starts: as many as processors and two, as Spark often waits; two at least."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return max(2, min(len(os.sched_getaffinity(0)) + 2, memory // _WORKER_BYTES))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark what needs Java, leave out what is deep, and begin with what takes long.

    Tests on the cluster come before all others, as a process has one session at a time; of these at first those with
    sessions of their own.
    """
    seconds = slow_tests()
    for item in items:
        fixtures = getattr(item, "fixturenames", ())
        for fixture, mark in _MARKS.items():
            if fixture in fixtures:
                item.add_marker(mark)
        file = item.nodeid.partition("::")[0]
        if "spark" in fixtures and not file.startswith(_WITH_SPARK):
            raise pytest.UsageError(f"{file} uses the fixture 'spark': name it in _WITH_SPARK of tests/conftest.py")
        for fixture in {"cluster", "broker"}.intersection(fixtures):
            if _ONE_WORKER.get(file) != fixture:
                raise pytest.UsageError(
                    f"{file} uses the fixture '{fixture}': name it in _ONE_WORKER of tests/conftest.py"
                )
    if "deep" not in config.getoption("markexpr"):
        config.hook.pytest_deselected(items=[item for item in items if item.get_closest_marker("deep")])
        items[:] = [item for item in items if not item.get_closest_marker("deep")]
    items.sort(key=lambda item: (_turn_of(item), -seconds.get(_test_of(item), 0)))


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exempt modules and tests, which stay to the end, from garbage collection, which is a tenth of the time otherwise."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.collect()
        gc.freeze()
        gc.enable()


def _turn_of(item: pytest.Item) -> int:
    """Return when a test has its turn: the session that all share on the cluster takes all of its executors."""
    fixtures = getattr(item, "fixturenames", ())
    return 1 if "cluster_spark" in fixtures else 0 if "cluster" in fixtures else 2


def slow_tests() -> dict[str, float]:
    """Return the seconds of the tests that take long, by node without parameters."""
    lines = (line.split() for line in _SLOW_TESTS.read_text(encoding="utf-8").splitlines() if line[:1] != "#")
    return {test: float(seconds) for seconds, test in lines}


def _test_of(of: pytest.Item | pytest.TestReport) -> str:
    return of.nodeid.partition("[")[0]


class _Durations:
    """Notes how long tests take, and writes those that take long."""

    def __init__(self, file: Path) -> None:
        self._file = file
        self._seconds: dict[tuple[str, str], float] = defaultdict(float)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add a part of a test to the others."""
        self._seconds[_test_of(report), report.nodeid] += report.duration

    def pytest_sessionfinish(self) -> None:
        """Write the list: each test with the longest of its cases."""
        longest: dict[str, float] = {}
        for (test, _), seconds in self._seconds.items():
            longest[test] = max(seconds, longest.get(test, 0.0))
        found = sorted(((seconds, test) for test, seconds in longest.items() if seconds >= _SLOW_SECONDS), reverse=True)
        header = "# Seconds of the tests that take long, which are begun first. HOLDFAST_NOTE_SLOW=FILE writes such a list.\n"
        lines = [f"{seconds:7.1f} {test}\n" for seconds, test in found]
        self._file.write_text(header + "".join(lines), encoding="utf-8")


@pytest.fixture(scope="session")
def spark(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Start the one local Spark session of this process; what runs on a cluster ends."""
    from holdfast.streaming.spark.session import session
    from tests.short_lives import EAGER, java_options

    if (on_cluster := request.config.stash.get(_ON_CLUSTER, None)) is not None:
        on_cluster.close()
    settings = {
        "spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")),
        "spark.driver.extraJavaOptions": f"-Xss16m {java_options()}",
        **EAGER,
    }
    started = session("holdfast-tests", settings)
    yield started
    started.stop()


@pytest.fixture(scope="session")
def cluster(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Start a Spark standalone cluster of one master and two workers of one core and 1 GB."""
    from tests.cluster import running_cluster

    with ExitStack() as ending:
        request.config.stash[_ON_CLUSTER] = ending
        yield ending.enter_context(running_cluster(tmp_path_factory.mktemp("cluster")))


@pytest.fixture(scope="session")
def cluster_spark(request: pytest.FixtureRequest, cluster: Cluster) -> SparkSession:
    """Start the one session on the cluster that all tests share."""
    from holdfast.streaming.spark.session import session_for

    started = session_for(cluster.master, cluster.settings, name="holdfast-tests")
    request.config.stash[_ON_CLUSTER].callback(started.stop)
    return started


@pytest.fixture
def executors_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tasks on blocks run in this process, pickled on their way, in place of Spark's executors."""
    from holdfast.streaming.spark import executors
    from tests.executors import ExecutorsHere

    monkeypatch.setattr(executors, "SparkExecutors", ExecutorsHere)
