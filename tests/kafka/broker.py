"""The demo's broker for tests, which begin once it knows itself.

Invariant: when the block of `running_broker` ends, the process has ended as well.
"""

from __future__ import annotations

import os
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from holdfast.jobs.demo import broker as demo_broker
from holdfast.streaming.spark.jars import broker_jars
from holdfast.streaming.spark.java import java_home

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

_PATIENCE_SECONDS = 60


@contextmanager
def running_broker(folder: Path) -> Iterator[str]:
    """Run a broker that keeps its data in `folder`; give its `host:port` once it answers."""
    with demo_broker.running_broker(folder) as address:
        _wait(address)
        yield address


def _wait(address: str) -> None:
    admin = AdminClient({"bootstrap.servers": address, "log_level": 0})
    end = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            if admin.list_topics(timeout=1).brokers:
                return
        except KafkaException:
            if time.monotonic() > end:
                raise


class StoppableBroker:
    """A broker that may be stopped and started again, on the same port and with the same data.

    Parameters
    ----------
    folder : where it keeps its data.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._port, controller_port = demo_broker._free_ports()
        self._configuration = folder / "broker.properties"
        self._configuration.write_text(demo_broker._configuration(self._port, controller_port, folder / "data"))
        self._java = [str(java_home().java), "-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]
        self._java += ["-cp", os.pathsep.join(map(str, broker_jars()))]
        made = [*self._java, "kafka.tools.StorageTool", "format", "-t", "a" * 22, "-c", str(self._configuration)]
        subprocess.run(made, stdin=subprocess.DEVNULL, capture_output=True, check=True)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start it, and wait until it answers."""
        log = self._folder / "broker.log"
        self._process = demo_broker._started([*self._java, "kafka.Kafka", str(self._configuration)], log)
        demo_broker._wait(self._process, self._port, log)
        _wait(self.address)

    def stop(self) -> None:
        """Stop it, and wait until it has ended."""
        if self._process is not None:
            demo_broker._stop(self._process)
            self._process = None
