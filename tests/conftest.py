"""What all tests share: the Hypothesis profiles, and the seed in the header of every run.

Invariant: a failure can be run again. HYPOTHESIS_PROFILE chooses `dev` (the default), `ci` or
`deep`; a run draws its seed once, prints it, and takes it back as `--hypothesis-seed`; a failing
example also prints the line that reproduces it.
"""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    import pytest

_SHARED: dict[str, Any] = {
    "deadline": None,
    "print_blob": True,
    "suppress_health_check": [HealthCheck.too_slow],
}

settings.register_profile("dev", max_examples=50, **_SHARED)
settings.register_profile("ci", max_examples=200, **_SHARED)
settings.register_profile("deep", max_examples=5_000, **_SHARED)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "dev"))


def pytest_configure(config: pytest.Config) -> None:
    """Draw the seed where none was given; xdist hands it on to its workers."""
    if config.getoption("--hypothesis-seed") is None:
        config.option.hypothesis_seed = str(random.SystemRandom().randrange(2**32))


def pytest_report_header(config: pytest.Config) -> str:
    """Say how to repeat the run."""
    profile = os.environ.get("HYPOTHESIS_PROFILE", "dev")
    return f"seed: HYPOTHESIS_PROFILE={profile} --hypothesis-seed={config.getoption('--hypothesis-seed')}"
