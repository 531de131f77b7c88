"""The reports of a discovery, while it runs and afterwards."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

Report = Callable[[str], object]
"""Called often with a text that says what is being done."""


@dataclass
class Explained:
    """The steps of a discovery, and how long each took."""

    plan: str = ""
    steps: list[tuple[str, float]] = field(default_factory=list)

    def add(self, step: str, started: float) -> None:
        """Add a step that began at `started`."""
        self.steps.append((step, time.perf_counter() - started))
