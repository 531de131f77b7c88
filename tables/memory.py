"""Returning freed memory to the system.

Allocators keep freed memory for later requests. After a step that needed much more memory than it leaves in use, as a
seed does, later steps would need memory on top of that.
"""

import ctypes
from functools import cache
from typing import Any

import pyarrow as pa


def release_freed() -> None:
    """Return freed memory of Arrow, and with GNU's C library of numpy and Python, to the system."""
    pa.default_memory_pool().release_unused()
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@cache
def _malloc_trim() -> Any:
    """Return `malloc_trim` of GNU's C library, None with another library."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None)
