"""What a discovery says of itself, while it runs and afterwards."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

Report = Callable[[str], object]
"""Told what is being done, in words; called often."""


@dataclass
class Explained:
    """What a discovery did and how long it took, step by step."""

    plan: str = ""
    steps: list[tuple[str, float]] = field(default_factory=list)

    def add(self, step: str, started: float) -> None:
        """Note a step that began at `started`."""
        self.steps.append((step, time.perf_counter() - started))
