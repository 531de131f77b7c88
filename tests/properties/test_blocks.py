"""Differential tests: a table in blocks of a few rows is the table; what holds on it is what holds on the whole."""

import shutil
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.constraints import (
    DenialConstraint,
    Family,
    InclusionDependency,
    Operator,
    Predicate,
    PredicateSpace,
    Rule,
    Schema,
    UsageError,
    parse_denial,
)
from holdfast.discovery.blocks.counting.checking import check_blocks
from holdfast.discovery.blocks.discover import discover_blocks, space_of_blocks
from holdfast.discovery.blocks.executors import InProcess
from holdfast.discovery.blocks.search.probing import probe_blocks
from holdfast.discovery.blocks.search.searching import BlockSearch, compared_of
from holdfast.discovery.blocks.search.seeding import seed_blocks
from holdfast.discovery.blocks.storage.block import Rows, read_block, rows_of, write_blocks
from holdfast.discovery.blocks.storage.location import Kept, Storage
from holdfast.discovery.blocks.storage.table import BlockTable, Source
from holdfast.discovery.blocks.values.shared import clusters_of, missing_values, overlaps_of
from holdfast.discovery.detection.check import Example, check_tables
from holdfast.discovery.discover import discover
from holdfast.discovery.evidence import evidences
from holdfast.discovery.evidence.codes import pair_codes
from holdfast.discovery.evidence.evidences import all_evidences
from holdfast.discovery.inclusion.discover import discover_inclusions
from holdfast.discovery.inclusion.result import Inclusions
from holdfast.discovery.reported import ReportedSet
from holdfast.streaming.maintainers.holdings.in_blocks import WholeInBlocks
from holdfast.tables import ReadOptions, Table, from_arrow, overlap, read_table, space_of
from tests.invariants import check_invariants
from tests.oracles.values import Table as OracleTable
from tests.properties.rules import rules
from tests.properties.tables import tables
from tests.taxes import tax_records


@contextmanager
def blocked(table: Table, most: int, cores: int = 2) -> Iterator[BlockTable]:
    """Cut a table into blocks of so many rows, the rows numbered from the last one on."""
    folder = Path(tempfile.mkdtemp(prefix="holdfast-blocks-"))
    storage = Storage.at(str(folder))
    storage.open().prepare()
    numbers = np.arange(table.row_count)[::-1].copy()
    blocks = list(write_blocks(storage.open(), Rows(numbers, table), most))
    try:
        yield BlockTable(Source(storage, table.schema, most), blocks, InProcess(cores))
    finally:
        shutil.rmtree(folder)


@given(tables(max_columns=4, max_rows=9), st.integers(1, 4), st.integers(0, 4))
def test_denial_constraints(both: tuple[OracleTable, Table], most: int, bound: int) -> None:
    _, table = both
    space = space_of(table)
    with blocked(table, most) as blocks:
        seed = seed_blocks(blocks, space, bound)
    expected = discover(table, space=space, max_predicates=bound)
    assert set(map(str, ReportedSet(space, seed.masks))) == set(map(str, expected))
    assert len(seed.masks) == len(expected)
    _check_witnesses(table, space, seed.evidences, seed.witnesses)


@given(tables(max_columns=4, max_rows=9), st.integers(1, 4), st.integers(0, 3))
def test_order_dependencies(both: tuple[OracleTable, Table], most: int, bound: int) -> None:
    _, table = both
    space = PredicateSpace(table.schema).of_family(Family.ORDER)
    with blocked(table, most) as blocks:
        seed = seed_blocks(blocks, space, bound)
    expected = discover(table, family="od", max_context=bound)
    assert sorted(map(str, ReportedSet(space, seed.masks))) == sorted(map(str, expected))
    _check_witnesses(table, space, seed.evidences, seed.witnesses)


def test_columns_are_compared_as_on_the_whole() -> None:
    numbers = np.arange(400)
    ages = {"age": 20 + numbers % 60, "hours": 1 + 7 * numbers % 90}
    columns = ages | {"paid": numbers % 5 * 1250, "due": (numbers + 2) % 5 * 1250}
    table = from_arrow(pa.table(columns), "r")
    with blocked(table, 90) as blocks:
        for choice, crossing in (("auto", ((0, 1), (2, 3))), ("related", ((2, 3),)), ("none", ())):
            assert space_of_blocks(blocks, choice).crossing == space_of(table, choice).crossing == crossing


def _check_witnesses(table: Table, space: PredicateSpace, words: np.ndarray, witnesses: np.ndarray) -> None:
    """Assert that each evidence is that of its two rows, which were numbered from the last one on."""
    at = table.row_count - 1 - witnesses
    assert (at[:, 0] != at[:, 1]).all()
    values = table.to_arrow()
    for word, pair in zip(words, at.tolist(), strict=True):
        two = from_arrow(values.take(pa.array(pair)), "r")
        codes = pair_codes(_as(two, table), space)
        found, rows = all_evidences(codes, space).entries()
        mine = [w for w, r in zip(found, codes.table_rows(rows).tolist(), strict=True) if r == [0, 1]]
        assert word.tolist() in [w.tolist() for w in mine]


def _as(two: Table, table: Table) -> Table:
    """Return two rows of a table under its schema."""
    return Table(table.schema, two.columns, 2)


@given(tables(max_columns=3, max_rows=8), st.integers(1, 4), st.data())
def test_an_arrangement_has_every_row_once(both: tuple[OracleTable, Table], most: int, data: st.DataObject) -> None:
    _, table = both
    order = tuple(data.draw(st.permutations(range(len(table.schema))))[:2])
    with blocked(table, most) as blocks:
        arranged = blocks.arranged(order)
        rows = [rows_of(read_block(blocks.source.storage.open(), b), table.schema) for b in arranged.blocks]
    assert sorted(n for part in rows for n in part.numbers.tolist()) == list(range(table.row_count))
    for part in rows:
        for number, row in zip(part.numbers.tolist(), part.table.rows(range(part.table.row_count)), strict=True):
            assert repr(row) == repr(table.row(table.row_count - 1 - number))


@given(tables(max_columns=3, max_rows=6), st.integers(1, 3))
def test_blocks_that_cannot_break_a_constraint_do_not(both: tuple[OracleTable, Table], most: int) -> None:
    _, table = both
    space = space_of(table)
    codes = pair_codes(table, space)
    words, pairs = all_evidences(codes, space).entries()
    pairs = codes.table_rows(pairs)
    with blocked(table, most) as blocks:
        block_of = [i for i, block in enumerate(blocks.base.blocks) for _ in range(block.rows)]
        for word, (t, s) in zip(words, pairs.tolist(), strict=True):
            # an evidence as a box of one point: its own pair is in it
            assert blocks.base.ranges.possible(compared_of(word[None], space)[0])[block_of[t], block_of[s]]


@pytest.mark.parametrize("crossing", [False, True])
@pytest.mark.parametrize("family", ["dc", "od"])
def test_larger_tables(family: str, crossing: bool) -> None:
    table = from_arrow(tax_records(3_000, error_rate=0.01), "tax")
    names = table.schema.names
    pairs = ((names.index("ChildExemp"), names.index("Bonus")), (names.index("Salary"), names.index("Tax")))
    space = PredicateSpace(table.schema, pairs if crossing and family == "dc" else ()).of_family(Family(family))
    expected = discover(table, family=family, space=space, max_predicates=3, max_context=2)
    with blocked(table, 400) as blocks:
        seed = seed_blocks(blocks, space, 3 if family == "dc" else 2)
        assert len(blocks.base.blocks) == 8
    assert set(map(str, ReportedSet(space, seed.masks))) == set(map(str, expected))


def test_what_is_found_in_blocks_is_printed_as_what_is_found_in_memory() -> None:
    table = from_arrow(tax_records(50), "tax")
    space = space_of(table, "none")
    with blocked(table, 20) as blocks:
        found = discover_blocks(blocks, space, 2)
    assert repr(found) == repr(discover(table, space=space, max_predicates=2))


@given(tables(max_columns=3, max_rows=9), st.integers(1, 4), st.integers(0, 9), st.integers(0, 3))
def test_a_batch_is_probed(both: tuple[OracleTable, Table], most: int, cut: int, bound: int) -> None:
    """All that holds on the table or is broken by it: the probe finds each constraint that rows of both parts break."""
    _, table = both
    cut = min(cut, table.row_count)
    space = space_of(table)
    left, right = (_part(table, start, end) for start, end in ((0, cut), (cut, table.row_count)))
    masks = discover(_part(table, 0, cut), space=space, max_predicates=bound).constraints.masks
    with blocked(left, most) as blocks:
        batch = Rows(np.arange(cut, table.row_count), right)
        found = probe_blocks(blocks, space, batch, masks)
    every: dict[bytes, set[tuple[int, int]]] = {}
    for t in range(table.row_count):
        for s in range(table.row_count):
            if (t < cut) != (s < cut):
                every.setdefault(_evidence(table, space, t, s), set()).add((t, s))
    got = {}
    for word, (t, s) in zip(found.words, found.rows.tolist(), strict=True):
        at = tuple(cut - 1 - row if row < cut else row for row in (t, s))  # rows of the table are numbered backwards
        assert at in every[word.tobytes()]
        got[word.tobytes()] = word
    for mask in masks:
        broken = any(not (np.frombuffer(word, np.uint64) & ~mask).any() for word in every)
        assert broken == any(not (word & ~mask).any() for word in got.values())


def _part(table: Table, start: int, end: int) -> Table:
    values = from_arrow(table.to_arrow().slice(start, end - start), "r")
    return Table(table.schema, values.columns, end - start)


def _evidence(table: Table, space: PredicateSpace, t: int, s: int) -> bytes:
    """Return the evidence of two rows, as the words that it has."""
    two = _as(from_arrow(table.to_arrow().take(pa.array([t, s])), "r"), table)
    codes = pair_codes(two, space)
    words, pairs = all_evidences(codes, space).entries()
    for word, pair in zip(words, codes.table_rows(pairs).tolist(), strict=True):
        if pair == [0, 1]:
            return bytes(word.tobytes())
    raise AssertionError


@given(st.lists(st.sampled_from([None, 1, 2]), min_size=1, max_size=8), st.integers(1, 8))
def test_the_first_null_of_a_column(values: list[int | None], most: int) -> None:
    with blocked(from_arrow(pa.table({"a": pa.array(values, pa.int64())}), "r"), most) as blocks:
        found = WholeInBlocks(blocks).first_null(blocks.schema.names[0])
    assert found == next((number for number, value in enumerate(values[::-1]) if value is None), None)


def test_what_is_kept_is_bounded_and_made_once() -> None:
    kept, made = Kept(10), []

    def make(what: str, size: int) -> Callable[[], tuple[str, int]]:
        def do() -> tuple[str, int]:
            made.append(what)
            return what.upper(), size

        return do

    for what, size in (("a", 4), ("b", 4), ("a", 4), ("c", 4), ("huge", 11), ("a", 4), ("b", 4)):
        assert kept.get(what, make(what, size)) == what.upper()
        assert kept.bytes <= 10
    assert made[:3] == ["a", "b", "c"]  # a was kept until there was no more room
    assert 4 < len(made) < 7  # something went for c, and c stayed: what came last does
    assert kept.get("b", make("b", 4)) == "B"
    assert made.count("b") <= 2


def test_too_many_evidences_end_with_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    table = from_arrow(tax_records(400, error_rate=0.2), "tax")
    with blocked(table, 100) as blocks:
        monkeypatch.setattr(evidences, "MOST_BYTES", 1 << 10)
        with pytest.raises(UsageError, match=r"different outcomes of pairs of rows so far, too many to keep: look for"):
            seed_blocks(blocks, PredicateSpace(table.schema), 4)


def test_a_search_ends_early_where_blocks_cannot_meet() -> None:
    """What wants a column equal that is spread over blocks is searched in each block of its order alone."""
    table = from_arrow(pa.table({"a": [i // 2 % 50 for i in range(100)], "b": range(100)}), "r")
    space = PredicateSpace(table.schema)
    executors = _Counting()
    with blocked(table, 10) as blocks:
        blocks.executors = executors
        mask = np.array([space.words(space.mask(parse_denial("not(t.a = s.a and t.b = s.b)")))], np.uint64)
        assert not len(BlockSearch(blocks, space).find(mask, 3).constraint)
        searched = [tasks for what, tasks in executors.ran if what == "_searched"]
        assert sum(searched) == 2 + len(blocks.arranged((1,)).blocks)  # two of the base, then each by itself


class _Counting(InProcess):
    def __init__(self) -> None:
        super().__init__(2)
        self.ran: list[tuple[str, int]] = []

    def run(self, work, tasks, *, light=False):  # type: ignore[no-untyped-def]
        self.ran.append((work.func.__name__, len(tasks)))
        return super().run(work, tasks)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Table, list[Rule]]:
    """Draw a table and rules on it."""
    theirs, ours = draw(tables(max_columns=4, max_rows=9))
    drawn = draw(st.lists(rules(theirs), min_size=1, max_size=4))
    return ours, [Rule(f"r{i}", theirs.name, body) for i, (_, body) in enumerate(drawn)]


REAL = [
    *("adult", "adult11", "airport_incremental", "airport_original", "hospital10k", "hyod_fuel", "hyod_ncv100k"),
    *("hyod_wp", "tax10k", "tax10k_nulls", "tax55k_clean", "tax55k_dirty", "uce"),
]


@pytest.mark.parametrize("name", REAL)
def test_real_tables(name: str) -> None:
    """Constraints of both families, and the pairs that break some rules."""
    file = Path(__file__).parents[3] / "shared" / "data" / f"{name}.csv.gz"
    if not file.exists():
        pytest.skip(f"the real table {file.name} is not beside this checkout")
    table = read_table(file, ReadOptions(encoding="latin-1", limit=1_500), name)
    names = [column.name for column in table.schema.columns]
    drawn = []
    for number, (a, b, c) in enumerate(zip(names, names[1:], names[2:], strict=False)):
        orders = all(table.schema[n].ordered_in(Family.DENIAL) for n in (b, c))
        operators = (Operator.LESS, Operator.GREATER) if orders else (Operator.EQUAL, Operator.UNEQUAL)
        predicates = (
            Predicate(a, Operator.EQUAL, a),
            *(Predicate(n, o, n) for n, o in zip((b, c), operators, strict=True)),
        )
        drawn.append(Rule(f"r{number}", name, DenialConstraint(predicates)))
    denial, order = space_of(table), space_of(table, "none").of_family(Family.ORDER)
    with blocked(table, 300) as blocks:
        assert _texts(discover_blocks(blocks, denial, 3)) == _texts(discover(table, space=denial, max_predicates=3))
        assert _texts(discover_blocks(blocks, order, 1)) == _texts(
            discover(table, family=Family.ORDER, space=order, max_context=1)
        )
        for ours, theirs in zip(check_blocks({name: blocks}, drawn), check_tables({name: table}, drawn), strict=True):
            counts = theirs.violating_pairs, theirs.violating_rows
            assert (ours.violating_pairs, ours.violating_rows) == counts, ours.rule
            assert counts[0] is not None
            if counts[0] < 100_000:
                assert sorted(_pairs_in(ours.pairs(), table.row_count - 1)) == sorted(_pairs_in(theirs.pairs()))


def _texts(found: Iterable[object]) -> list[str]:
    return sorted(map(str, found))


@given(cases(), st.integers(1, 4))
def test_declared_rules(case: tuple[Table, list[Rule]], most: int) -> None:
    table, drawn = case
    expected = check_tables({"r": table}, drawn, threads=1)
    with blocked(table, most) as blocks:
        found = check_blocks({"r": blocks}, drawn)
        exist = check_blocks({"r": blocks}, drawn, exists=True)
        before = set(blocks.source.storage.open().names())  # all arrangements are made by now
        for several in (found, exist):
            for ours, theirs in zip(several, expected, strict=True):
                chunks = list(ours.pairs(most))
                assert all(0 < len(chunk) <= most for chunk in chunks)
                assert sorted(_pairs_in(chunks, table.row_count - 1)) == sorted(_pairs_in(theirs.pairs()))
        assert set(blocks.source.storage.open().names()) == before
    for ours, theirs, any_ in zip(found, expected, exist, strict=True):
        assert (ours.rule, ours.rows) == (theirs.rule, theirs.rows)
        assert (ours.violating_pairs, ours.violating_rows) == (theirs.violating_pairs, theirs.violating_rows)
        assert ours.missing_values == theirs.missing_values
        assert any_.holds == theirs.holds
        assert bool(ours.examples) == (not theirs.holds) == bool(any_.examples)
        for example in (*ours.examples, *any_.examples):
            _check_example(table, ours.rule, example)


def _pairs_in(chunks: Iterable[np.ndarray], last: int | None = None) -> list[list[int]]:
    """Return pairs of rows; those of blocks, which have them the other way round, as rows of the table."""
    found = [pair for chunk in chunks for pair in chunk.tolist()]
    return found if last is None else [[last - row for row in pair] for pair in found]


def _check_example(table: Table, rule: Rule, example: Example) -> None:
    """Assert that an example is of rows that are there, and breaks its rule by itself."""
    if isinstance(rule.body, InclusionDependency):
        return
    at = [table.row_count - 1 - row for row in example.rows]
    assert len(set(at)) == len(at)
    assert repr(list(example.images)) == repr(table.rows(at))
    alone = _as(from_arrow(table.to_arrow().take(pa.array(at)), "r"), table)
    alone = Table(table.schema, alone.columns, len(at))
    assert not check_tables({"r": alone}, [rule], threads=1)[0].holds


@given(tables(max_columns=4, max_rows=8), tables(max_columns=3, max_rows=8), st.integers(1, 4), st.booleans())
def test_inclusions(one: tuple[OracleTable, Table], other: tuple[OracleTable, Table], most: int, texts: bool) -> None:
    left, right = one[1], _called("s", other[1])
    expected = discover_inclusions([left, right], texts=texts)
    with blocked(left, most) as a, blocked(right, most) as b:
        clusters = clusters_of({"r": a, "s": b}, texts=texts)
        check_invariants(clusters)
        found = Inclusions(clusters)
        near = list(found.near(0.1))
        missing = missing_values({"r": a, "s": b}, [n.dependency for n in near], 3, texts=texts)
        overlaps = overlaps_of(a)
    assert [str(dependency) for dependency in found] == [str(dependency) for dependency in expected]
    assert sorted(map(repr, near)) == sorted(map(repr, expected.constraints.near(0.1)))
    for one_near in near:
        every = expected.missing(one_near.dependency, 100)
        assert len(missing[one_near.dependency]) == min(3, len(every))
        assert {repr(value) for value in missing[one_near.dependency]} <= {repr(value) for value in every}
    for (a_column, b_column), shared in overlaps.items():
        assert shared == overlap(left, a_column, b_column)


def _called(name: str, table: Table) -> Table:
    return Table(Schema(name, table.schema.columns), table.columns, table.row_count)
