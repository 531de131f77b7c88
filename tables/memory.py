"""Memory that was freed goes back to the system.

Allocators keep what is freed for whoever asks next. After a step that took much more memory than it leaves, as a seed
does, the next step would come on top of that.
"""

import ctypes
from functools import cache
from typing import Any

import pyarrow as pa


def release_freed() -> None:
    """Give freed memory back to the system: that of Arrow, and of numpy and Python where the C library is GNU's."""
    pa.default_memory_pool().release_unused()
    trim = _malloc_trim()
    if trim is not None:
        trim(0)


@cache
def _malloc_trim() -> Any:
    """Return the function of GNU's C library that gives freed memory back, None with another library."""
    return getattr(ctypes.CDLL(None), "malloc_trim", None)
