"""The reports of a discovery, while it runs and afterwards."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

Report = Callable[[str], object]
"""Called often with a text that says what is being done."""


@dataclass
class Explained:
    """The steps of a discovery, one after the other, and how long each took."""

    plan: str = ""
    steps: list[tuple[str, float]] = field(default_factory=list)
    _since: float = field(default_factory=time.perf_counter, repr=False)

    def add(self, step: str) -> None:
        """Add a step that ends now, and began where the step before ended."""
        now = time.perf_counter()
        self.steps.append((step, now - self._since))
        self._since = now
