"""Byte layouts of keys and values.

    number    8 bytes, unsigned, most significant first: keys are in the order of the numbers
    words     8 bytes each, as numbers
    codes     8 bytes each, signed, least significant first (as in memory)
    value     a letter for the kind, then: i digits, f eight bytes, d digits with point or exponent, s UTF-8, n empty
    batch     see `batch_bytes`
    piece     see `pieces.py`
    json      UTF-8, compact, keys in the order given

The keys of a table begin with its number, so that one store serves many tables and a table is one range.
"""

import json
import struct
from decimal import Decimal
from typing import Any

import numpy as np
from numpy.typing import NDArray

from holdfast.state.store import WriteBatch

FORMAT = 4
_DELETED = 2**32 - 1


def number(value: int) -> bytes:
    """Return a number as a key.

    >>> number(258).hex()
    '0000000000000102'
    """
    return value.to_bytes(8, "big")


def read_number(data: bytes) -> int:
    """Return the number at the end of a key: the inverse of `number`."""
    return int.from_bytes(data[-8:], "big")


def words(values: NDArray[np.uint64]) -> bytes:
    """Return words as a key."""
    return values.astype(">u8").tobytes()


def read_words(data: bytes) -> NDArray[np.uint64]:
    """Return the inverse of `words`."""
    return np.frombuffer(data, ">u8").astype(np.uint64)


def codes(values: NDArray[np.int64]) -> bytes:
    """Return signed numbers as a value."""
    return values.astype("<i8").tobytes()


def read_codes(data: bytes) -> NDArray[np.int64]:
    """Return the inverse of `codes`."""
    return np.frombuffer(data, "<i8").astype(np.int64)


def value(given: object) -> bytes:
    """Return a cell's value.

    >>> [read_value(value(v)) for v in (None, -3, 0.1, Decimal("1.50"), "é")]
    [None, -3, 0.1, Decimal('1.50'), 'é']
    """
    match given:
        case None:
            return b"n"
        case int():
            return b"i" + str(given).encode()
        case float():
            return b"f" + struct.pack("<d", given)
        case Decimal():
            return b"d" + str(given).encode()
        case str():
            return b"s" + given.encode()
    raise TypeError(f"no layout for {type(given).__name__}")


def read_value(data: bytes) -> Any:
    """Return the inverse of `value`."""
    rest = data[1:]
    match data[:1]:
        case b"n":
            return None
        case b"i":
            return int(rest)
        case b"f":
            return struct.unpack("<d", rest)[0]
        case b"d":
            return Decimal(rest.decode())
        case b"s":
            return rest.decode()
    raise ValueError(f"unknown kind of value {data[:1]!r}")


def batch_bytes(batch: WriteBatch) -> bytes:
    """Return a batch as bytes: for each change the lengths of family, key and value, 4 bytes each, then these three.

    A length of 2^32 - 1 for the value means that the key is deleted.

    >>> batch = WriteBatch()
    >>> batch.put("rows", b"k", b"")
    >>> batch.delete("rows", b"g")
    >>> read_batch(batch_bytes(batch)).changes == batch.changes
    True
    """
    parts = []
    for (family, key), value in batch.changes.items():
        name = family.encode()
        parts.append(struct.pack(">III", len(name), len(key), _DELETED if value is None else len(value)))
        parts += [name, key, value or b""]
    return b"".join(parts)


def read_batch(data: bytes) -> WriteBatch:
    """Return the inverse of `batch_bytes`."""
    batch = WriteBatch()
    at = 0
    while at < len(data):
        name, key, size = struct.unpack_from(">III", data, at)
        at += 12
        family, at = data[at : at + name].decode(), at + name
        key_bytes, at = data[at : at + key], at + key
        if size == _DELETED:
            batch.delete(family, key_bytes)
        else:
            batch.put(family, key_bytes, data[at : at + size])
            at += size
    return batch


def json_bytes(given: Any) -> bytes:
    """Return plain values as compact JSON."""
    return json.dumps(given, ensure_ascii=False, separators=(",", ":")).encode()


def read_json(data: bytes) -> Any:
    """Return the inverse of `json_bytes`."""
    return json.loads(data)
