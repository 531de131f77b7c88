"""What tests of faults share."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from tests.recovery.disks import mounted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


@pytest.fixture
def small_disk() -> Iterator[Callable[[Path, int], None]]:
    """Mount small file systems until the test ends."""
    with ExitStack() as disks:

        def mount(place: Path, megabytes: int) -> None:
            disks.enter_context(mounted(place, megabytes))

        yield mount
