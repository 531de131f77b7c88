"""Law of the maintainer: an exception leaves the state as it was, wherever in the core it is raised.

Every Python function of the core that a batch calls raises once, in turn; after each of them the constraints and the
counts are still those of the rows before, and in the end the batch can be applied. Oracle test over tiny tables.
"""

import itertools
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from hypothesis import Phase, given, note, settings
from hypothesis import strategies as st

from tests.oracles.values import Row
from tests.properties.maintained_tables import Law, Setting, batches_of, setting_and_seed
from tests.properties.test_block_laws import BlockLaw, tiny_blocks

__all__ = ["tiny_blocks"]

CORE = (
    "holdfast.streaming.maintainers",
    "holdfast.streaming.incoming.netting",
    "holdfast.indexes",
    "holdfast.discovery",
)


# without shrinking, which would take minutes: the notes say where it failed
FEW = settings(max_examples=settings().max_examples // 10, phases=(Phase.explicit, Phase.reuse, Phase.generate))


@FEW
@given(setting_and_seed(), st.data())
def test_an_exception_leaves_the_state_as_it_was(drawn: tuple[Setting, list[Row]], data: st.DataObject) -> None:
    """In whatever function of the core it is raised; without one the batch can be applied afterwards."""
    check_failures(Law(*drawn), data)


@settings(FEW, max_examples=settings().max_examples // 40)
@given(setting_and_seed(), st.data())
def test_so_it_does_where_rows_are_in_blocks(drawn: tuple[Setting, list[Row]], data: st.DataObject) -> None:
    """Tasks that fail among them."""
    law = BlockLaw(*drawn)
    try:
        check_failures(law, data)
    finally:
        shutil.rmtree(law.folder)


def check_failures(law: Law, data: st.DataObject) -> None:
    """Let every call of a batch fail once, then apply it; after a history of one batch."""
    for label in ("history", "batch"):
        batch = data.draw(batches_of(law.setting, law.model.rows), label=label)
        records, before = law.setting.records(batch), law.model.versions
        for call in itertools.count(1):
            with failing_at(call) as failed:
                try:
                    result = law.maintainer.apply_records(records)
                    break
                except MemoryError as error:
                    assert error.args == (*failed,)
            note(f"failed in {failed[0]}")
            law.compare()
        law.model.apply(batch)
        law.compare()
        law.check_changes(before, result.changes)


@contextmanager
def failing_at(call: int) -> Iterator[list[str]]:
    """Let the n-th call of a Python function of the core raise `MemoryError` instead, and note which it is."""
    failed: list[str] = []
    left = call

    def trace(frame: FrameType, event: str, _: Any) -> None:
        nonlocal left
        module = frame.f_globals.get("__name__", "")
        if event == "call" and module.startswith(CORE) and frame.f_code.co_name[0] != "<":
            left -= 1
            if not left:
                failed.append(f"{module}.{frame.f_code.co_qualname}")
                raise MemoryError(*failed)

    earlier = sys.gettrace()
    sys.settrace(trace)
    try:
        yield failed
    finally:
        sys.settrace(earlier)
