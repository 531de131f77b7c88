"""The demo's broker for tests, which begin once it knows itself.

Invariant: when the block of `running_broker` ends, the process has ended as well.
"""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from holdfast.jobs import demo_broker

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
