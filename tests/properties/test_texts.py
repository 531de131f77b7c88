"""Numbers of strings, against a dictionary: strings that come, are forgotten, come again, are saved and read."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from holdfast.constraints import Column
from holdfast.constraints.types import STRING
from holdfast.indexes import texts
from holdfast.indexes.texts import NULL, Texts
from holdfast.state import pieces
from holdfast.state.memory import MemoryStore
from holdfast.tables import EncodedColumn, from_arrow

COLUMN = Column("a", STRING)
STRINGS = st.sampled_from(["", "a", "b", "ab", "é", "\0", "\U0001f600", "a" * 300]) | st.text(max_size=2)


def _column(strings: list[str | None]) -> EncodedColumn:
    return from_arrow(pa.table({"a": pa.array(strings, pa.string())}), "r").columns[0]


class TextsMachine(RuleBasedStateMachine):
    """The code of each string that is held."""

    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        self.texts = Texts()
        self.store = MemoryStore()
        self.code: dict[str, int] = {}
        self.saved = False

    @initialize(size=st.sampled_from([1, 3, 512]), shared=st.sampled_from([0, 12]))
    def sizes(self, size: int, shared: int) -> None:
        self.patch.setattr(pieces, "PIECE", size)
        self.patch.setattr(pieces, "_SLACK", size)
        self.patch.setattr(texts, "_SHARED", shared)

    @rule(strings=st.lists(STRINGS | st.none(), max_size=12))
    def come(self, strings: list[str | None]) -> None:
        column = _column(strings)
        codes = self.texts.codes(column).tolist()
        for string, code in zip(strings, codes, strict=True):
            if string is not None:
                assert self.code.setdefault(string, code) == code

    @rule(data=st.data())
    def forget(self, data: st.DataObject) -> None:
        kept = data.draw(st.sets(st.sampled_from(sorted(self.code)))) if self.code else set()
        self.texts.keep(np.array([[NULL], *([self.code[string]] for string in sorted(kept))], np.int64))
        self.code = {string: code for string, code in self.code.items() if string in kept}

    @rule()
    def save(self) -> None:
        for batch in self.texts.save(b"p", everything=not self.saved):
            self.store.write(batch)
        self.saved = True
        self.texts.check_saved()

    @rule()
    def save_and_restore(self) -> None:
        self.save()
        self.texts = Texts()
        self.texts.restore(self.store, b"p")
        self.texts.check_saved()

    @invariant()
    def codes_and_strings_belong_together(self) -> None:
        assert len(self.texts) == len(self.code) == len(set(self.code.values()))
        codes = np.array([NULL, *self.code.values()], np.int64)
        assert self.texts.values(codes, COLUMN) == [None, *self.code]

    def teardown(self) -> None:
        self.patch.undo()


TestTexts = TextsMachine.TestCase
TestTexts.settings = settings(max_examples=80, stateful_step_count=20)


def test_many_strings_keep_their_codes() -> None:
    held, code = Texts(), dict[str, int]()
    for start in range(0, 60_000, 7_000):
        strings = [f"text {i}" for i in range(start // 2, start + 9_000)]
        found = dict(zip(strings, held.codes(_column(list(strings))).tolist(), strict=True))
        assert all(found[string] == known for string, known in code.items() if string in found)
        code |= found
    assert len(set(code.values())) == len(code) == len(held)
    some = list(code)[::997]
    assert held.values(np.array([code[string] for string in some]), COLUMN) == some


def test_a_string_that_is_listed_twice_gets_one_code() -> None:
    held = Texts()
    twice = EncodedColumn(COLUMN, np.array([0, 1, 2]), None, pa.array(["x", "y", "x"]).slice(0))
    first, second, third = held.codes(twice).tolist()
    assert first == third != second
    assert len(held) == 2
    assert len(set(held.codes(_column(["z", "y", "x"])).tolist())) == len(held) == 3
