"""Upgrades of states of earlier formats: a step from each format to the next.

    2 -> 3    a table has bounds by family, instead of the bound of denial constraints alone
    3 -> 4    the numbers of rows deleted from blocks are one set for each table, instead of one for each block

Steps read the state, and change the definitions of tables and one batch of other records. The changes are written as a
commit, so that a snapshot of the old format and the log after it give the new format too. `tests/golden/states` has a
state of each format.
"""

import hashlib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from pyroaring import BitMap64

from holdfast.state import codecs
from holdfast.state.store import Reader, WriteBatch

Tables = dict[bytes, dict[str, Any]]
Step = Callable[[Reader, Tables, WriteBatch], None]


def upgradable(found: int) -> bool:
    """Return whether a format can be upgraded to this one."""
    return found == codecs.FORMAT or (found in _STEPS and upgradable(found + 1))


def upgrade(store: Reader, found: int) -> WriteBatch:
    """Return the changes that upgrade a store from a format to this one."""
    change = WriteBatch()
    tables = {key: codecs.read_json(value) for key, value in store.scan("meta") if key.endswith(b"table")}
    for step in range(found, codecs.FORMAT):
        _STEPS[step](store, tables, change)
    for key, meta in tables.items():
        change.put("meta", key, codecs.json_bytes({**meta, "format": codecs.FORMAT}))
    change.put("meta", b"format", codecs.number(codecs.FORMAT))
    return change


def _bounds_by_family(_: Reader, tables: Tables, __: WriteBatch) -> None:
    for meta in tables.values():
        meta["bounds"] = {"max_predicates": meta.pop("max_predicates")}


def _marks_of_tables(store: Reader, _: Tables, change: WriteBatch) -> None:
    """Unite all marks of a table; at the next start they become a file beside the blocks."""
    for key, value in store.scan("meta"):
        if not key.endswith(b"blocks"):
            continue
        prefix, head = key.removesuffix(b"blocks"), codecs.read_json(value)
        gone: dict[bytes, list[Any]] = {}
        for of_save, numbers in store.scan("marks", prefix):
            gone.setdefault(of_save[:-8], []).append(codecs.read_codes(numbers))
            change.delete("marks", of_save)
        head["marks"] = []
        if gone:
            every = BitMap64(np.unique(np.concatenate([numbers for some in gone.values() for numbers in some])))
            every.run_optimize()
            written = every.serialize()
            name = hashlib.sha256(written).hexdigest()[:32]
            head["marks"] = [[name, len(every), 1]]
            change.put("marks", prefix + name.encode(), written)
            for block, some in gone.items():
                change.put("marks", block, codecs.json_bytes([sum(map(len, some)), 1, name]))
        head.pop("saves")
        change.put("meta", key, codecs.json_bytes(head))


_STEPS: Mapping[int, Step] = {2: _bounds_by_family, 3: _marks_of_tables}
