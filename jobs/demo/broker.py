"""A Kafka broker in a process of its own: one node, on free ports of the loopback address.

Invariant: the process ends with the block of `running_broker`. It also ends whenever this process ends, since a shell
between them waits for the end of its standard input.
"""

import base64
import os
import signal
import socket
import subprocess
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from holdfast.streaming.spark.errors import SetUpError
from holdfast.streaming.spark.jars import broker_jars
from holdfast.streaming.spark.java import java_home

_PATIENCE_SECONDS = 60
_HELD = """\
trap '' INT
exec 3<&0
"$@" 3<&- </dev/null &
broker=$!
{
    read -r _ <&3
    kill "$broker"
    tries=0
    while sleep 0.5 && kill -0 "$broker"; do
        tries=$((tries + 1))
        [ $tries -lt 20 ] || kill -9 "$broker"
    done
} >/dev/null 2>&1 &
wait "$broker"
"""


class BrokerFailed(SetUpError):
    """The broker did not start."""


@contextmanager
def running_broker(folder: Path) -> Iterator[str]:
    """Run a broker with its data in a folder; provide its `host:port` once the port is open.

    Takes 5 s, and the download of jars that are not in the cache.

    Raises
    ------
    JavaMissing, JarUnavailable, JarMismatch, BrokerFailed
        Where the broker does not start.
    """
    port, controller_port = _free_ports()
    configuration = folder / "broker.properties"
    configuration.write_text(_configuration(port, controller_port, folder / "data"), encoding="utf-8")
    jars = broker_jars()
    java = [str(java_home().java), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
    java += ["-cp", os.pathsep.join(map(str, jars))]
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    storage = [*java, "kafka.tools.StorageTool", "format", f"--cluster-id={cluster}", "-c", str(configuration)]
    formatted = subprocess.run(
        storage, stdin=subprocess.DEVNULL, capture_output=True, text=True, errors="replace", check=False
    )
    if formatted.returncode:
        raise _failed(formatted.stdout + formatted.stderr)
    log = folder / "broker.log"
    with ExitStack() as ending:
        process = _started([*java, "kafka.Kafka", str(configuration)], log)
        ending.callback(_stop, process)
        _wait(process, port, log)
        yield f"127.0.0.1:{port}"


def _free_ports() -> tuple[int, int]:
    with socket.socket() as first, socket.socket() as second:
        first.bind(("127.0.0.1", 0))
        second.bind(("127.0.0.1", 0))
        return first.getsockname()[1], second.getsockname()[1]


def _configuration(port: int, controller_port: int, data: Path) -> str:
    lines = {
        "process.roles": "broker,controller",
        "node.id": 1,
        "controller.quorum.voters": f"1@127.0.0.1:{controller_port}",
        "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller_port}",
        "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT",
        "log.dirs": data,
        "num.partitions": 1,
        "offsets.topic.num.partitions": 1,
        "offsets.topic.replication.factor": 1,
        "transaction.state.log.num.partitions": 1,
        "transaction.state.log.replication.factor": 1,
        "transaction.state.log.min.isr": 1,
        "share.coordinator.state.topic.replication.factor": 1,
        "share.coordinator.state.topic.min.isr": 1,
        "group.initial.rebalance.delay.ms": 0,
    }
    return "".join(f"{name}={value}\n" for name, value in lines.items())


def _started(command: list[str], log: Path) -> subprocess.Popen[bytes]:
    """Start the broker from a shell that ends it with this process; Ctrl-C reaches this process alone."""
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.signal(signal.SIGINT, signal.SIG_IGN) if is_main else None  # the shell inherits it
    try:
        with log.open("wb") as opened:
            return subprocess.Popen(
                ["sh", "-c", _HELD, "sh", *command], stdin=subprocess.PIPE, stdout=opened, stderr=subprocess.STDOUT
            )
    finally:
        if is_main:
            signal.signal(signal.SIGINT, before)


def _wait(process: subprocess.Popen[bytes], port: int, log: Path) -> None:
    end = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.1)
        else:
            return
        if process.poll() is not None or time.monotonic() > end:
            raise _failed(log.read_text(encoding="utf-8", errors="replace"))


def _failed(output: str) -> BrokerFailed:
    lines = output.strip().splitlines()[-5:] or ["without any output"]
    return BrokerFailed(
        f"the Kafka broker did not start ({' '.join(lines)[:1_000]})",
        "see whether 0.5 GB of memory are free, and this user may listen on ports of 127.0.0.1; then try again",
    )


def _stop(process: subprocess.Popen[bytes]) -> None:
    """End the broker: the shell terminates it once its input is closed, and kills it after ten seconds."""
    assert process.stdin is not None
    process.stdin.close()
    process.wait(_PATIENCE_SECONDS)
