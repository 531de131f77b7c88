"""Freed memory goes back to the system, also what lies between small arrays that are still held."""

import resource
from pathlib import Path

import numpy as np
import pytest

from holdfast.tables import memory
from holdfast.tables.memory import release_freed


def _held() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.skipif(memory._malloc_trim() is None, reason="another C library than GNU's")
def test_memory_between_arrays_that_are_held_is_given_back() -> None:
    del [np.ones(4 << 20)][0]  # a large array that is freed lets the C library keep smaller ones
    arrays = [np.ones(1 << 14) for _ in range(1_000)]
    kept, before = arrays[::50], _held()
    del arrays
    release_freed()
    assert before - _held() > 100 << 20
    assert all((array == 1).all() for array in kept)
