"""How tests are spread over workers: groups, what is deep, what comes first; and what oracles remember."""

from __future__ import annotations

import itertools
import os
from datetime import datetime
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo

import pytest
from xdist.remote import Producer

from tests import conftest
from tests.oracles.remembering import KEPT, remembered
from tests.oracles.values import Row, compare, type_group
from tests.recovery import dying

if TYPE_CHECKING:
    from collections.abc import Sequence

ROOT = Path(__file__).parents[2]


class Item:
    """What of a test the order looks at."""

    def __init__(self, nodeid: str, *fixtures: str, marks: tuple[str, ...] = ()) -> None:
        self.nodeid, self.fixturenames = nodeid, fixtures
        self.marks: list[Any] = [getattr(pytest.mark, mark) for mark in marks]

    def add_marker(self, mark: Any) -> None:
        self.marks.append(getattr(pytest.mark, mark) if isinstance(mark, str) else mark)

    def get_closest_marker(self, name: str) -> Any:
        return next((mark for mark in self.marks if mark.name == name), None)


def collected(markexpr: str, *items: Item) -> tuple[list[Item], list[Item]]:
    """Return what is run, in its order, and what is left out."""
    kept, left = list(items), list[Item]()

    def pytest_deselected(items: list[Item]) -> None:
        left.extend(items)

    hook = SimpleNamespace(pytest_deselected=pytest_deselected)
    config: Any = SimpleNamespace(getoption=lambda _: markexpr, hook=hook)
    conftest.pytest_collection_modifyitems(config, kept)  # type: ignore[arg-type]
    return kept, left


def test_long_ones_come_first_and_the_cluster_before_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(conftest, "slow_tests", lambda: {"a.py::slow": 3.0, "a.py::slower": 9.0})
    names = ["a.py::quick", "a.py::slow[1]", "a.py::slow[2]", "a.py::slower", "a.py::other"]
    on_cluster, shared = (
        Item(f"tests/spark/test_cluster.py::{name}", "cluster", *more)
        for name, more in {"own": (), "shared": ("cluster_spark",)}.items()
    )
    kept, _ = collected("", *map(Item, names), shared, on_cluster)
    assert [item.nodeid for item in kept] == [on_cluster.nodeid, shared.nodeid, *(names[i] for i in (3, 1, 2, 0, 4))]


def test_what_needs_java_is_marked() -> None:
    local, told = Item("tests/spark/a.py::b", "spark"), Item("tests/kafka/test_run_kafka.py::d", "spark", "broker")
    collected("", local, told)
    assert [[mark.name for mark in item.marks] for item in (local, told)] == [["spark"], ["spark", "kafka"]]


@pytest.mark.parametrize("fixture", ["cluster", "broker"])
def test_what_shares_a_cluster_or_a_broker_is_named(fixture: str) -> None:
    with pytest.raises(pytest.UsageError, match=f"x.py uses the fixture '{fixture}': name it in _ONE_WORKER"):
        collected("", Item("tests/spark/x.py::test", fixture))
    assert all((ROOT / file).is_file() for file in conftest._ONE_WORKER)


def test_what_starts_spark_is_named() -> None:
    with pytest.raises(pytest.UsageError, match=r"x.py uses the fixture 'spark': name it in _WITH_SPARK"):
        collected("", Item("tests/unit/x.py::test", "spark"))
    assert all((ROOT / place).exists() for place in conftest._WITH_SPARK)


class Worker:
    """A worker that notes what it is sent."""

    shutting_down = False

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.gateway = SimpleNamespace(id="gw")

    def send_runtest_some(self, indices: Sequence[int]) -> None:
        self.sent += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def test_groups_are_run_by_one_worker_and_the_rest_test_by_test() -> None:
    on_cluster = [f"tests/spark/{file}.py::{i}" for file in ("test_cluster", "test_run_on_cluster") for i in range(4)]
    tests = ["a.py::long", *on_cluster, "a.py::quick", *(f"b.py::{i}" for i in range(9))]
    ran = spread(tests, 2)
    assert sorted([*ran[0], *ran[1]]) == sorted(tests)
    assert ran[0][: len(on_cluster)] == on_cluster
    assert ran[1][:2] == ["a.py::long", "a.py::quick"]
    assert all(any(test.startswith("b.py") for test in its) for its in ran)
    config: Any = SimpleNamespace(getvalue=lambda _: "worksteal")
    assert conftest.pytest_xdist_make_scheduler(config, None) is None


def test_half_of_the_workers_start_spark_first() -> None:
    with_spark = [f"tests/spark/test_sinks.py::{i}" for i in range(12)]
    others = [f"a.py::{i}" for i in range(20)]
    ran = spread([*with_spark, *others], 4)
    assert sorted(test for its in ran for test in its) == sorted([*with_spark, *others])
    assert sorted(test for its in ran[:2] for test in its[:6]) == sorted(with_spark)
    assert all(test in others for its in ran[2:] for test in its[:5])
    assert any(test in others for test in ran[0]), "when none with Spark is left"
    few = spread([*with_spark, *others[:2]], 4)
    assert any(test in with_spark for its in few[2:] for test in its), "when nothing else is left"


def spread(tests: Sequence[str], count: int) -> list[list[str]]:
    """Return which tests so many workers run, each test after the one before of its worker."""
    options = SimpleNamespace(tx=["popen"] * count, loadscopereorder=True)
    config: Any = SimpleNamespace(option=options, getvalue=lambda name: {"dist": "load", "tx": options.tx}[name])
    scheduling = conftest.pytest_xdist_make_scheduler(config, Producer("test", enabled=False))
    assert scheduling is not None
    workers: list[Any] = [Worker() for _ in range(count)]
    for worker in workers:
        scheduling.add_node(worker)
        scheduling.add_node_collection(worker, list(tests))
    scheduling.schedule()
    ran: list[list[str]] = [[] for _ in workers]
    while any(worker.sent for worker in workers):
        for worker, its in zip(workers, ran, strict=True):
            if worker.sent:
                index = worker.sent.pop(0)
                its.append(tests[index])
                scheduling.mark_test_complete(worker, index)
    assert not scheduling.has_pending
    return ran


@pytest.mark.parametrize(
    ("markexpr", "is_run"), [("", False), ("not slow", False), ("deep", True), ("slow and deep", True)]
)
def test_what_is_deep_is_run_where_it_is_asked_for(markexpr: str, is_run: bool) -> None:
    deep, other = Item("a::deep", marks=("deep",)), Item("a::other")
    kept, left = collected(markexpr, deep, other)
    assert (deep in kept, deep in left) == (is_run, not is_run)
    assert other in kept


@pytest.mark.parametrize(
    ("processors", "gigabytes", "workers"), [(1, 8, 3), (2, 8, 4), (16, 64, 18), (16, 8, 4), (8, 2, 2)]
)
def test_workers_are_as_many_as_the_machine_takes(
    monkeypatch: pytest.MonkeyPatch, processors: int, gigabytes: int, workers: int
) -> None:
    sizes = {"SC_PHYS_PAGES": gigabytes << 18, "SC_PAGE_SIZE": 1 << 12}
    monkeypatch.setattr(os, "sysconf", sizes.__getitem__)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(processors)))
    assert conftest.pytest_xdist_auto_num_workers() == workers


@pytest.mark.parametrize(
    ("room", "flags", "is_taken"), [(8 << 30, 0, True), ((8 << 30) - 1, 0, False), (8 << 30, os.ST_NOEXEC, False)]
)
def test_files_are_in_memory_where_it_has_room(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, room: int, flags: int, is_taken: bool
) -> None:
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_bavail=room, f_frsize=1, f_flag=flags))
    assert conftest._in_memory(tmp_path) == (tmp_path if is_taken else None)
    monkeypatch.undo()
    assert conftest._in_memory(tmp_path / "none") is None


def test_durations_are_noted(tmp_path: Path) -> None:
    noted = conftest._Durations(tmp_path / "slow.txt")
    for node, seconds in (
        ("a.py::b[1]", 2.5),
        ("a.py::b[2]", 3.0),
        ("a.py::b[2]", 1.0),
        ("a.py::c", 0.5),
        ("a.py::d", 9.0),
    ):
        noted.pytest_runtest_logreport(SimpleNamespace(nodeid=node, duration=seconds))  # type: ignore[arg-type]
    noted.pytest_sessionfinish()
    lines = [line.split() for line in (tmp_path / "slow.txt").read_text().splitlines()]
    assert lines[1:] == [["9.0", "a.py::d"], ["4.0", "a.py::b"]]


def test_long_ones_are_tests() -> None:
    slow = conftest.slow_tests()
    assert slow
    for test in slow:
        file, *names = test.split("::")
        text = (ROOT / file).read_text(encoding="utf-8")
        assert all(name in text or name == "runTest" for name in names), test


def test_oracles_remember_the_very_rows_and_no_others() -> None:
    asked: list[Any] = []

    @remembered
    def oracle(rows: Sequence[Row], bound: int = 0) -> int:
        asked.append((list(rows), bound))
        return len(asked)

    one, other = (tuple(values) for values in ([1, "x"], [1, "x"]))
    rows: list[Any] = [one]
    assert [oracle(rows), oracle([one]), oracle(rows, 2), oracle(rows, bound=2), oracle(rows, 2)] == [1, 1, 2, 3, 2]
    rows.append(other)
    assert (oracle(rows), oracle([other]), oracle([one]), oracle([])) == (4, 5, 1, 6)
    for _ in range(KEPT):
        oracle([tuple(iter([2]))])
    assert oracle([one]) == len(asked) == 7 + KEPT


def test_what_the_order_compares_is_told_apart_by_type() -> None:
    values: list[Any] = [True, 1, 1.0, Decimal(1), 0, 0.0, -0.0, False]
    for left, right in itertools.product(values, repeat=2):
        if type_group(left) == type_group(right):
            assert compare(left, right) == (left > right) - (left < right)
        else:
            with pytest.raises(ValueError, match="different type groups"):
                compare(left, right)
    autumn = datetime(2024, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    assert compare(autumn, autumn.replace(fold=1)) == -1  # Python calls them equal


@pytest.mark.parametrize("step", sorted({step for steps in dying.STEPS.values() for step in steps}))
def test_each_step_at_which_a_run_is_killed_is_there(step: str) -> None:
    place = next(steps[step][0] for steps in dying.STEPS.values() if step in steps)
    owner, name = dying.found(place)
    assert name in vars(owner), "defined elsewhere: name that class"
