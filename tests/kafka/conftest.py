"""One broker for all Kafka tests."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start a broker; give its `host:port`."""
    from tests.kafka.broker import running_broker

    with running_broker(tmp_path_factory.mktemp("broker")) as address:
        yield address
