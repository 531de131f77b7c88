"""The hash of values, one byte string at a time, by numbers of Python: restates `discovery/kernels/hashing.py`."""

_MASK = (1 << 64) - 1


def hashed(value: bytes) -> int:
    """Return 64 bits of a value."""
    found = (len(value) * 0x9E3779B97F4A7C15 + 0x243F6A8885A308D3) & _MASK
    for start in range(0, len(value), 8):
        word = int.from_bytes(value[start : start + 8].ljust(8, b"\0"), "little")
        found = (found ^ word) * 0xD6E8FEB86659FD93 & _MASK
        found = (found ^ found >> 32) * 0xA0761D6478BD642F & _MASK
        found ^= found >> 29
    found = (found ^ found >> 30) * 0xBF58476D1CE4E5B9 & _MASK
    found = (found ^ found >> 27) * 0x94D049BB133111EB & _MASK
    return found ^ found >> 31
