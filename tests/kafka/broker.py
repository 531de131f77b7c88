"""A real Kafka broker in a process of its own: one node, on free ports of the loopback address.

Invariant: when the block of `running_broker` ends, the process has ended as well.
"""

from __future__ import annotations

import base64
import os
import socket
import subprocess
import time
import uuid
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from holdfast.streaming.spark.jars import broker_jars
from holdfast.streaming.spark.java import java_home

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PATIENCE_SECONDS = 60


@contextmanager
def running_broker(folder: Path) -> Iterator[str]:
    """Run a broker that keeps its data in `folder`; give its `host:port` once it answers."""
    port, controller_port = _free_ports()
    configuration = folder / "broker.properties"
    configuration.write_text(_configuration(port, controller_port, folder / "data"))
    java = [
        *(str(java_home().java), "-Xmx256m", "-XX:+UseSerialGC"),
        *("-cp", os.pathsep.join(map(str, broker_jars()))),
    ]
    cluster = base64.urlsafe_b64encode(uuid.uuid4().bytes).decode().rstrip("=")
    storage = [*java, "kafka.tools.StorageTool", "format", "-t", cluster, "-c", str(configuration)]
    subprocess.run(storage, check=True, capture_output=True)
    with ExitStack() as ending:
        log = ending.enter_context((folder / "broker.log").open("wb"))
        command = [*java, "kafka.Kafka", str(configuration)]
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        ending.callback(_stop, process)
        address = f"127.0.0.1:{port}"
        _wait(process, address, folder / "broker.log")
        yield address


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


def _wait(process: subprocess.Popen[bytes], address: str, log: Path) -> None:
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    end = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            if admin.list_topics(timeout=1).brokers:
                return
        except KafkaException:
            pass
        if process.poll() is not None or time.monotonic() > end:
            raise RuntimeError(f"the broker did not start: {log.read_text(errors='replace')[-2000:]}")


def _stop(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(20)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
