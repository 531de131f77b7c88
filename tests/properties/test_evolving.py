"""Laws of a table under another definition: what holds is what holds by the definition on its rows, and goes on so.

Oracle tests over tiny tables: after any history columns go, come (null everywhere) and change their names, keys and
bounds change, deletes stay owed; then histories go on.
"""

import itertools
from dataclasses import replace

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Maintainer
from holdfast.constraints import Column, InputError, parse_type
from holdfast.streaming.maintainers.maintainer import Bounds
from holdfast.streaming.maintainers.table.evolving import Definition, EvolvedColumn, evolved
from tests.maintained import stored_table
from tests.oracles import changes, denial
from tests.oracles.changes import KeylessChange
from tests.oracles.values import Row, canonical_row
from tests.properties.maintained_tables import BOUNDS, Law, Model, Setting, batches_of, listed, setting_and_seed
from tests.properties.tables import DOMAINS

Origins = tuple[int | None, ...]


@st.composite
def next_settings(draw: st.DrawFn, old: Setting) -> tuple[Setting, Origins]:
    """Draw another definition, and from which column each of its columns comes."""
    kept: list[int | None] = [i for i in range(len(old.kinds)) if draw(st.booleans())]
    new = draw(listed(st.sampled_from(sorted(DOMAINS)), 0 if kept else 1, 1))
    kinds = (*(old.kinds[i] for i in kept if i is not None), *new)
    origins = (*kept, *([None] * len(new)))
    keys = [()] + [c for n in (1, 2) for c in itertools.permutations(range(len(kept)), n)]
    bound, context = draw(st.sampled_from(BOUNDS))
    crossing = draw(st.sampled_from(["kept", "all", "none"]))
    return Setting(kinds, draw(st.sampled_from(keys)), bound, context, crossing), origins


def moved(row: Row, origins: Origins) -> Row:
    return tuple(None if origin is None else row[origin] for origin in origins)


def projected(model: Model, setting: Setting, origins: Origins) -> Model:
    """Return the rows by their definition under another one."""
    found = Model(setting, [])
    if setting.key:
        found.keyed = {setting.key_of(row): row for row in (moved(row, origins) for row in model.rows)}
        return found
    signed = [(row, 1) for row in model.rows] if model.setting.key else model.sums
    steps = [
        KeylessChange("insert" if count > 0 else "delete", moved(row, origins))
        for row, count in signed
        for _ in range(abs(count))
    ]
    found.sums = changes.apply_keyless([], steps)[0]
    return found


def space_of(law: Law, setting: Setting, origins: Origins) -> denial.Space:
    """Return the expected space: the pairs of before where they are kept."""
    names = law.setting.names
    before = {(a, b) for a, b in itertools.combinations(range(len(names)), 2)}
    crossed = law.maintainer.space.crossing
    assert set(crossed) <= before
    pairs = {"all": setting._pairs(), "none": []}.get(setting.crossing)
    if pairs is None:
        place = {origin: i for i, origin in enumerate(origins) if origin is not None}
        pairs = [(place[a], place[b]) for a, b in crossed if a in place and b in place]
    return denial.listed_space(setting.columns, pairs)


def definition_of(law: Law, setting: Setting, origins: Origins) -> Definition:
    types = {
        kind: Maintainer.seed(pa.table({"x": pa.array([], DOMAINS[kind][0])})).schema["x"].type for kind in DOMAINS
    }
    columns = [
        EvolvedColumn(Column(name, types[kind]), None if origin is None else law.setting.names[origin])
        for name, kind, origin in zip(setting.names, setting.kinds, origins, strict=True)
    ]
    cross = {
        "all": [(setting.names[a], setting.names[b]) for a, b in setting._pairs()],
        "none": "none",
        "kept": None if law.setting.bound is not None else "none",
    }[setting.crossing]
    return Definition(columns, [setting.names[i] for i in setting.key], Bounds(setting.bound, setting.context), cross)


@given(drawn=setting_and_seed(), data=st.data())
def test_a_table_under_another_definition_is_seeded_from_its_rows(
    drawn: tuple[Setting, list[Row]], data: st.DataObject
) -> None:
    check_evolving(Law(*drawn), data)


def check_evolving(law: Law, data: st.DataObject) -> None:
    """Let a table follow one definition and another, and batches before and after."""
    for _ in range(data.draw(st.integers(0, 2))):
        law.apply(data.draw(batches_of(law.setting, law.model.rows)))
    for _ in range(data.draw(st.integers(1, 2))):
        setting, origins = data.draw(next_settings(law.setting))
        if setting.key and not law.setting.key and any(count < 0 for _, count in law.model.sums):
            setting = replace(setting, key=())  # refused before it comes to this: deletes that are owed have no key
        definition = definition_of(law, setting, origins)
        rows = [moved(row, origins) for row in law.model.rows]
        before = sorted(map(str, law.maintainer.constraints))
        keys = [setting.key_of(row) for row in rows]
        if setting.key and (len(set(keys)) < len(keys) or any(row[i] is None for row in rows for i in setting.key)):
            with pytest.raises(InputError):
                evolved(law.maintainer, definition)
            assert sorted(map(str, law.maintainer.constraints)) == before
            return
        law.space = space_of(law, setting, origins)
        law.model, law.maintainer = projected(law.model, setting, origins), evolved(law.maintainer, definition)
        law.setting = setting
        law.compare()
        stored = stored_table(law.maintainer)
        found = [tuple(row.values()) for row in stored.rows(range(stored.row_count))]
        assert sorted(map(repr, map(canonical_row, found))) == sorted(
            repr(canonical_row(row)) for row in law.model.rows
        )
        law.apply(data.draw(batches_of(law.setting, law.model.rows)))


def test_values_take_another_type_where_nothing_is_lost() -> None:
    maintainer = Maintainer.seed(pa.table({"a": [1, 2, None], "b": ["7", "08", None], "c": [0.5, 1.0, 2.5]}), name="t")

    def made(**types: str) -> Maintainer:
        columns = [EvolvedColumn(Column(name, parse_type(kind)), name) for name, kind in types.items()]
        return evolved(maintainer, Definition(columns, (), Bounds(2), "auto"))

    found = made(a="float", b="integer", c="decimal(4,2)")
    assert [str(column.type) for column in found.schema] == ["float", "integer", "decimal(4,2)"]
    assert stored_table(found).rows([0, 1, 2])[1]["b"] == 8
    assert stored_table(made(a="string")).row(0) == {"a": "1"}
    for types, words in (({"c": "integer"}, "0.5|truncated"), ({"a": "date"}, "cannot be read as date")):
        with pytest.raises(InputError, match=words):
            made(**types)
