"""A real Spark standalone cluster on loopback: one master and some workers, each a process of its own.

Invariant: when the block of `running_cluster` ends, every process of the cluster has ended, executors included; the
same when this process dies, however that comes about: behind each one stands a shell that waits for the end of its
standard input and then ends the whole process group. Linux only.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from http.client import HTTPException
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.streaming.spark.java import java_home
from tests.processes import command_lines, tree
from tests.short_lives import EAGER, java_options

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from pyspark.sql import SparkSession

_PATIENCE_SECONDS = 90
_HELD = """\
exec 3<&0
"$@" 3<&- </dev/null &
daemon=$!
{
    read -r _ <&3
    kill "$daemon"
    tries=0
    while kill -0 "$daemon" && [ $tries -lt 20 ]; do
        sleep 0.2
        tries=$((tries + 1))
    done
    kill -9 0
} >/dev/null 2>&1 &
wait "$daemon"
kill -9 0
"""


@dataclass(frozen=True)
class Executor:
    """A process that runs tasks of an application."""

    number: str
    application: str
    pid: int
    worker: int


class Daemon:
    """A master or a worker, behind the shell that ends it."""

    def __init__(self, command: list[str], log: Path, environment: dict[str, str]) -> None:
        self.log = log
        with log.open("ab") as opened:
            self._shell = subprocess.Popen(
                ["sh", "-c", _HELD, "sh", *command],
                stdin=subprocess.PIPE,
                stdout=opened,
                stderr=subprocess.STDOUT,
                env=environment,
                start_new_session=True,
            )

    @property
    def pid(self) -> int | None:
        """The Java process; none where it has ended."""
        for pid in tree(self._shell.pid)[1:]:
            with suppress(OSError):
                if b"org.apache.spark.deploy." in Path(f"/proc/{pid}/cmdline").read_bytes():
                    return pid
        return None

    @property
    def shell(self) -> int:
        return self._shell.pid

    @property
    def ended(self) -> bool:
        return self._shell.poll() is not None

    def stop(self) -> None:
        """End it and all that it started; the shell insists after four seconds."""
        assert self._shell.stdin is not None
        self._shell.stdin.close()
        self._shell.wait(_PATIENCE_SECONDS)


class Cluster:
    """What runs, what runs on it, and what may be killed of it.

    Attributes
    ----------
    master : the URL for `--master`.
    page : the address of the master's page.
    folder : logs of master and workers, and the folders in which executors work.
    workers : worker number to its processes.
    """

    def __init__(self, folder: Path, *, cores: int, memory: str) -> None:
        self.folder, self._cores, self._memory = folder, cores, memory
        port, page_port = _free_ports()
        self.master = f"spark://127.0.0.1:{port}"
        self.page = f"http://127.0.0.1:{page_port}"
        self.workers: dict[int, Daemon] = {}
        self._started_workers = 0
        ports = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", str(page_port)]
        self._master = self._started("master.Master", ports, folder / "master.log")

    @property
    def settings(self) -> dict[str, str]:
        """Settings of a session on it: everything on loopback, small processes of short lives, lost executors noticed soon."""
        return EAGER | {
            "spark.master": self.master,
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.executor.memory": "512m",
            "spark.sql.shuffle.partitions": str(2 * self._cores * max(1, len(self.workers))),
            "spark.driver.extraJavaOptions": java_options(),
            "spark.executor.extraJavaOptions": java_options(),
            "spark.network.timeout": "60s",
        }

    def wait(self) -> None:
        """Wait until the master serves, and has every worker that was started."""
        self._wait(lambda: len(self.alive()) == len(self.workers), "all workers are registered")

    def start_worker(self) -> int:
        """Start one worker more, wait until the master has it, and return its number."""
        self._start_worker()
        self.wait()
        return max(self.workers)

    def kill_worker(self, number: int) -> None:
        """Kill a worker and its executors at once, as if its machine had lost power."""
        daemon = self.workers.pop(number)
        with suppress(ProcessLookupError):
            os.killpg(daemon.shell, signal.SIGKILL)
        daemon.stop()
        self._wait(lambda: len(self.alive()) == len(self.workers), "the master knows that the worker is gone")

    def executors(self, application: str | None = None) -> list[Executor]:
        """Return the executors that run now, of one application or of all."""
        found = []
        for number, daemon in self.workers.items():
            for pid in tree(daemon.shell)[1:]:
                with suppress(OSError):
                    words = Path(f"/proc/{pid}/cmdline").read_bytes().decode(errors="replace").split("\0")
                    if "org.apache.spark.executor.CoarseGrainedExecutorBackend" in words:
                        its = words[words.index("--app-id") + 1]
                        if application in {None, its}:
                            found.append(Executor(words[words.index("--executor-id") + 1], its, pid, number))
        return found

    def wait_for_executors(self, application: str, number: int) -> list[Executor]:
        """Wait until an application has so many executors at least; return them."""
        self._wait(lambda: len(self.executors(application)) >= number, f"{application} has {number} executors")
        return self.executors(application)

    def kill(self, executor: Executor) -> None:
        """Kill an executor; the worker starts another one in its place."""
        with suppress(ProcessLookupError):
            os.kill(executor.pid, signal.SIGKILL)

    def alive(self) -> list[dict[str, Any]]:
        """Return the workers that the master counts on."""
        return [worker for worker in self.state()["workers"] if worker["state"] == "ALIVE"]

    def state(self) -> dict[str, Any]:
        """Return what the master says: workers, activeapps, completedapps."""
        with urllib.request.urlopen(f"{self.page}/json/", timeout=10) as answer:
            state: dict[str, Any] = json.load(answer)
        assert state["url"] == self.master, f"another master answers at {self.page}: {state['url']}"
        return state

    def processes(self) -> list[int]:
        """Return every process of the cluster."""
        return [pid for daemon in self._daemons() for pid in tree(daemon.shell) if any(command_lines(pid))]

    def logs(self) -> str:
        """Return the last lines of every log, for the message of a failure."""
        files = [*self.folder.glob("*.log"), *self.folder.glob("work-*/app-*/*/std*")]
        return "\n".join(f"--- {file.relative_to(self.folder)}\n{_tail(file)}" for file in sorted(files) if _tail(file))

    def stop(self) -> None:
        """End every process."""
        with ExitStack() as ending:
            for daemon in self._daemons():
                ending.callback(daemon.stop)

    def _start_worker(self) -> None:
        number = self._started_workers = self._started_workers + 1
        place = ["--host", "127.0.0.1", "--webui-port", "0", "--work-dir", str(self.folder / f"work-{number}")]
        size = ["--cores", str(self._cores), "--memory", self._memory]
        log = self.folder / f"worker-{number}.log"
        self.workers[number] = self._started("worker.Worker", [*place, *size, self.master], log)

    def _started(self, kind: str, arguments: list[str], log: Path) -> Daemon:
        import pyspark

        home = Path(pyspark.__file__).parent
        ours = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
        environment = ours | {
            "SPARK_HOME": str(home),
            "JAVA_HOME": str(java_home().path),
            "SPARK_LOCAL_IP": "127.0.0.1",
            "SPARK_LOCAL_DIRS": str(self.folder / "scratch"),
            "SPARK_DAEMON_MEMORY": "256m",
            # Its REST server would be at a fixed port, where a second cluster finds it taken and never begins.
            "SPARK_DAEMON_JAVA_OPTS": f"{java_options()} -Dspark.master.rest.enabled=false",
        }
        return Daemon(
            ["bash", str(home / "bin" / "spark-class"), f"org.apache.spark.deploy.{kind}", *arguments], log, environment
        )

    def _daemons(self) -> list[Daemon]:
        return [*self.workers.values(), self._master]

    def _wait(self, holds: Callable[[], bool], what: str) -> None:
        end = time.monotonic() + _PATIENCE_SECONDS
        while True:
            with suppress(OSError, ValueError, HTTPException):  # not listening yet, or with nothing to say
                if holds():
                    return
            ended = [daemon.log.name for daemon in self._daemons() if daemon.ended]
            if ended or time.monotonic() > end:
                raise AssertionError(f"waited for: {what} (ended: {ended})\n{self.logs()}")
            time.sleep(0.1)


@contextmanager
def running_cluster(folder: Path, *, workers: int = 2, cores: int = 1, memory: str = "1g") -> Iterator[Cluster]:
    """Run a master and `workers` workers until the block ends; costs about 5 s.

    Parameters
    ----------
    folder : where logs, and the folders of executors, are.
    cores, memory : what each worker gives to executors.
    """
    cluster = Cluster(folder, cores=cores, memory=memory)
    with ExitStack() as ending:
        ending.callback(cluster.stop)
        cluster._wait(lambda: cluster.state()["status"] == "ALIVE", "the master serves")  # before, it takes no worker
        for _ in range(workers):
            cluster._start_worker()
        cluster.wait()
        try:
            yield cluster
        except BaseException as error:
            error.add_note(cluster.logs())
            raise


@contextmanager
def executors_killed(cluster: Cluster, spark: SparkSession, *, kills: int, seconds: float) -> Iterator[list[int]]:
    """Kill an executor of a session now and then, while tasks run; gives the processes that were killed.

    Parameters
    ----------
    kills, seconds : how many, and how long after one another.
    """
    context = spark.sparkContext
    cluster.wait_for_executors(context.applicationId, 2)
    killed: list[int] = []
    done = threading.Event()

    def kill() -> None:
        while len(killed) < kills and not done.wait(seconds if killed else 0.05):
            running = cluster.executors(context.applicationId)
            if running and context.statusTracker().getActiveStageIds():
                executor = running[len(killed) % len(running)]
                cluster.kill(executor)
                killed.append(executor.pid)

    killer = threading.Thread(target=kill, name="killer")
    killer.start()
    try:
        yield killed
    finally:
        done.set()
        killer.join()
    assert killed
    cluster.wait_for_executors(context.applicationId, 2)


def driver_environment(**more: str) -> dict[str, str]:
    """Return the environment for a driver in a process of its own, which is no part of any Spark of ours."""
    ours = {name: value for name, value in os.environ.items() if not name.startswith(("SPARK_", "PYSPARK_"))}
    return (
        ours
        | {"JAVA_HOME": str(java_home().path), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        | more
    )


def _free_ports() -> tuple[int, int]:
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]


def _tail(file: Path, lines: int = 15) -> str:
    text = file.read_text(errors="replace") if file.is_file() else ""
    return "\n".join(line[:300] for line in text.splitlines()[-lines:] if not re.match(r"\s+at ", line))
