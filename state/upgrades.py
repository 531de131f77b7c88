"""States of earlier formats, brought to this one: a step from each format to the next.

    2 -> 3    a table has bounds by family, where it had that of denial constraints alone

Steps add to one change. It is written as a commit of its own, so that a snapshot of the old format and the log behind
it give the new one too. `tests/golden/states` has a state of each format.
"""

from collections.abc import Callable, Mapping

from holdfast.state import codecs
from holdfast.state.store import Reader, WriteBatch

Step = Callable[[Reader, WriteBatch], None]


def upgradable(found: int) -> bool:
    """Return whether there is a way from a format to this one."""
    return found == codecs.FORMAT or (found in _STEPS and upgradable(found + 1))


def upgrade(store: Reader, found: int) -> WriteBatch:
    """Return what brings a store from a format to this one."""
    change = WriteBatch()
    for step in range(found, codecs.FORMAT):
        _STEPS[step](store, change)
    change.put("meta", b"format", codecs.number(codecs.FORMAT))
    return change


def _bounds_by_family(store: Reader, change: WriteBatch) -> None:
    for key, value in store.scan("meta"):
        if key.endswith(b"table"):
            meta = codecs.read_json(value)
            meta["bounds"] = {"max_predicates": meta.pop("max_predicates")}
            change.put("meta", key, codecs.json_bytes({**meta, "format": 3}))


_STEPS: Mapping[int, Step] = {2: _bounds_by_family}
