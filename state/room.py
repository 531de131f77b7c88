"""Advice for a place that cannot be written, in the same words for state, backup, checkpoint and outputs.

Invariant: a place that is full, read-only or broken is distinguished from one that does not exist.
"""

import errno
import re
from collections.abc import Mapping

from holdfast.constraints import HoldfastError

_ACTIONS: Mapping[int, tuple[str, str]] = {
    errno.ENOSPC: (r"no space left", "the disk is full: make room on the disk of {place}"),
    errno.EDQUOT: (r"quota exceeded", "the quota is used up: make room in {place}, or ask for more"),
    errno.EFBIG: (r"file too large", "files may not become so large: raise the limit (ulimit -f) for {place}"),
    errno.EROFS: (r"read-only file system", "the file system is read-only: make {place} writable"),
    errno.EIO: (r"input/output error", "the device failed: check the disk of {place}"),
    errno.EACCES: (r"permission denied", "give this user access to {place}"),
    errno.EMFILE: (r"too many open files", "allow this user more open files (ulimit -n)"),
}


def is_of_storage(error: BaseException) -> bool:
    """Whether an error is an error of the operating system about a disk."""
    return isinstance(error, OSError) and not isinstance(error, HoldfastError) and error.errno in _ACTIONS


def way_out(error: BaseException | str, place: object = None) -> str:
    """Return what to do about an error of reading or writing a place, as the middle of a sentence.

    Parameters
    ----------
    place : the place; by default the file that the error names.

    >>> way_out("IO error: No space left on device: While appending to file: /s/1.log", "/s")
    'the disk is full: make room on the disk of /s'
    >>> way_out(OSError(errno.EROFS, "Read-only file system"), "/s")
    'the file system is read-only: make /s writable'
    >>> way_out("something else", "/s")
    'see that /s can be read and written'
    """
    if place is None:
        place = getattr(error, "filename", None) or "this machine"
    number = error.errno if isinstance(error, OSError) else None
    text = str(error)
    for known, (pattern, action) in _ACTIONS.items():
        if number == known or re.search(pattern, text, re.IGNORECASE):
            return action.format(place=place)
    return f"see that {place} can be read and written"
