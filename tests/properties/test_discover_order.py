"""Oracle and differential tests: the complete set of order dependencies."""

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.constraints import Family, OrderKind, PredicateSpace, UsageError, constraint_fields
from holdfast.discovery.discover import discover
from holdfast.discovery.order import contexts, search, seeding
from holdfast.discovery.order.seeding import seed_order
from holdfast.discovery.order.targets import one_way
from holdfast.discovery.reported import ReportedSet
from holdfast.tables import ReadOptions, Table, from_arrow, read_table
from tests.oracles import order as oracle
from tests.oracles.values import Table as OracleTable
from tests.oracles.values import compare
from tests.properties.tables import evidence_bits, tables
from tests.taxes import NARROW, tax_records

DATA = Path(__file__).parents[3] / "shared" / "data"


@given(tables(max_columns=5, max_rows=9), st.integers(0, 3), st.booleans())
def test_the_reported_set_is_that_of_the_definition(
    both: tuple[OracleTable, Table], bound: int, scattered: bool
) -> None:
    theirs, ours = both
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(search, "_SORTED_BY_GROUPS", 0 if scattered else 1 << 20)
        found = list(discover(ours, family="od", max_context=bound, threads=2))
    reported = {oracle.text(d, theirs.columns): d for d in oracle.reported(theirs.rows, len(theirs.columns), bound)}
    assert {str(dependency) for dependency in found} == set(reported)
    assert len(found) == len(reported)
    for dependency in found:
        expected = oracle.json_fields(reported[str(dependency)], theirs.columns, "r")
        assert constraint_fields(dependency, "r") == expected


@given(tables(max_columns=4, max_rows=9), st.integers(0, 3))
def test_validation_alone_finds_everything(both: tuple[OracleTable, Table], bound: int) -> None:
    """Without a sample, every evidence comes from the search of a dependency that does not hold."""
    theirs, ours = both
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(seeding, "sample_random", lambda *_: None)
        patch.setattr(seeding, "sample_neighbours", lambda *_: None)
        patch.setattr(seeding, "PAIRS", 1)
        found = {str(dependency) for dependency in discover(ours, family="od", max_context=bound, threads=1)}
    expected = oracle.reported(theirs.rows, len(theirs.columns), bound)
    assert found == {oracle.text(dependency, theirs.columns) for dependency in expected}


@given(tables(max_columns=4, max_rows=9))
def test_the_certificate_proves_the_set_complete(both: tuple[OracleTable, Table]) -> None:
    """Minimal contexts of the evidences alone, by trying all of them; every evidence is that of its pair of rows."""
    theirs, ours = both
    space = PredicateSpace(ours.schema, (), Family.ORDER)
    seed = seed_order(ours, space, 0)
    rows = [(theirs.rows[t], theirs.rows[s]) for t, s in seed.witnesses]
    for words, (t, s) in zip(seed.evidences, rows, strict=True):
        outcomes = [{-1: 1, 0: 2, 1: 4}[compare(a, b)] for a, b in zip(t, s, strict=True)]
        assert evidence_bits(space, outcomes) == space.bits(words)
    broken = [
        {d for d in oracle.candidates(len(theirs.columns)) if oracle.violates(t, s, d) or oracle.violates(s, t, d)}
        for t, s in rows
    ]
    holding = {d for d in oracle.candidates(len(theirs.columns)) if not any(d in b for b in broken)}
    minimal = {d for d in holding if not any(o != d and oracle.implies(o, d) for o in holding)}
    assert {oracle.text(d, theirs.columns) for d in minimal} == {str(d) for d in ReportedSet(space, seed.masks)}


@pytest.mark.parametrize("seed", range(3))
def test_more_columns_than_fill_a_word(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = [tuple(row) for row in rng.integers(0, 6, (7, 24)).tolist()]
    table = from_arrow(pa.table({f"c{i}": [row[i] for row in rows] for i in range(24)}), "wide")
    assert PredicateSpace(table.schema, (), Family.ORDER).word_count == 2
    found = {str(dependency) for dependency in discover(table, family="od", max_context=1)}
    constants, pairs = _by_brute_force(rows, 1)
    assert {text for text in found if "->" in text} == constants
    assert {text for text in found if "~" in text} == pairs


def _by_brute_force(rows: list[tuple[int, ...]], bound: int) -> tuple[set[str], set[str]]:
    """Return constants and compatibilities with at most one column in the context, straight from the definition."""
    assert bound == 1
    width = len(rows[0])

    def holds(context: tuple[int, ...], a: int, b: int, sign: int) -> bool:
        agree = [(t, s) for t in rows for s in rows if all(t[c] == s[c] for c in context)]
        if a == b:
            return all(t[a] == s[a] for t, s in agree)
        return not any((t[a] - s[a]) * (t[b] - s[b]) * sign < 0 for t, s in agree)

    constants, pairs = set(), set()
    for a in range(width):
        contexts_of_a = [()] if holds((), a, a, 0) else [(c,) for c in range(width) if c != a and holds((c,), a, a, 0)]
        constants |= {f"{{{', '.join(f'c{c}' for c in context)}}}: [] -> c{a}" for context in contexts_of_a}
        for b in range(a + 1, width):
            for sign, suffix in ((1, ""), (-1, " desc")):
                if holds((), a, b, sign):
                    if not holds((), a, a, 0) and not holds((), b, b, 0):
                        pairs.add(f"{{}}: c{a} ~ c{b}{suffix}")
                    continue
                pairs |= {
                    f"{{c{c}}}: c{a} ~ c{b}{suffix}"
                    for c in range(width)
                    if c not in {a, b}
                    and holds((c,), a, b, sign)
                    and not holds((c,), a, a, 0)
                    and not holds((c,), b, b, 0)
                }
    return constants, pairs


def test_a_column_without_an_order_is_compared_for_equality_alone() -> None:
    data = pa.table({"a": [1, 2, 3, 3], "b": [3, 1, 2, 2], "c": ["x", "y", "z", "z"]})
    table = from_arrow(data, "r", ReadOptions(ordered={"b": False}))
    found = {str(dependency) for dependency in discover(table, family="od")}
    assert found == {
        *("{b}: [] -> a", "{c}: [] -> a", "{a}: [] -> b", "{c}: [] -> b", "{a}: [] -> c", "{b}: [] -> c"),
        "{}: a ~ c",
    }


@pytest.mark.parametrize("seed", range(3))
def test_larger_tables_agree_with_fastod(seed: int) -> None:
    desbordante = pytest.importorskip("desbordante")
    records = tax_records(2_000, seed=seed, error_rate=0.01).select(list(NARROW))
    decoded = [c.cast(c.type.value_type) if pa.types.is_dictionary(c.type) else c for c in records.columns]
    records = pa.table(dict(zip(records.column_names, decoded, strict=True)))
    ours = {str(d) for d in discover(from_arrow(records, "tax"), family="od", max_context=0, threads=2)}
    algorithm = desbordante.od.algorithms.Fastod()
    algorithm.load_data(table=records.to_pandas())
    algorithm.execute()
    listed = [*algorithm.get_simple_ods(), *algorithm.get_asc_ods(), *algorithm.get_desc_ods()]
    assert ours == {_theirs(str(text), records.column_names) for text in listed}
    assert len(ours) > 20


def _theirs(text: str, names: list[str]) -> str:
    match = re.match(r"\{([\d,]*)\} : (?:\[\] -> (\d+)|(\d+)([<>])= ~ (\d+))", text)
    assert match is not None, text
    context = ", ".join(names[place] for place in sorted(int(n) - 1 for n in match[1].split(",") if n))
    if match[2]:
        return f"{{{context}}}: [] -> {names[int(match[2]) - 1]}"
    left, right = sorted((int(match[3]) - 1, int(match[5]) - 1))
    return f"{{{context}}}: {names[left]} ~ {names[right]}{'' if match[4] == '<' else ' desc'}"


@pytest.mark.parametrize(
    ("name", "constant", "compatible"), [("hyod_fuel", 2, 5), ("hyod_wp", 24, 18), ("hyod_ncv100k", 55, 54)]
)
def test_published_counts(name: str, constant: int, compatible: int) -> None:
    _check_counts(name, constant, compatible)


def test_the_published_count_of_adult() -> None:
    _check_counts("adult", 78, 1_419)


def _check_counts(name: str, constant: int, compatible: int) -> None:
    path = DATA / f"{name}.csv.gz"
    if not path.exists():
        pytest.skip(f"{path.name} is not beside this checkout")
    found = discover(read_table(path, ReadOptions(typed_header=True)), family="od", max_context=0)
    assert found.constraints.counts() == {OrderKind.CONSTANT: constant, OrderKind.ORDER_COMPATIBLE: compatible}


@given(tables(max_columns=5, max_rows=2))
def test_the_two_images_of_an_evidence_are_one(both: tuple[OracleTable, Table]) -> None:
    theirs, ours = both
    if len(theirs.rows) < 2:
        return
    space = PredicateSpace(ours.schema, (), Family.ORDER)
    signs = [compare(a, b) for a, b in zip(*theirs.rows, strict=True)]
    images = [[{-1: 1, 0: 2, 1: 4}[sign * way] for sign in signs] for way in (1, -1)]
    words = np.array([space.words(evidence_bits(space, outcomes)) for outcomes in images], np.uint64)
    turned, pairs = one_way(space, words, np.array([[0, 1], [1, 0]]))
    assert (turned[0] == turned[1]).all()
    if any(signs):
        assert (pairs[0] == pairs[1]).all()
        assert (turned[0] == words[int(pairs[0, 0])]).all()


def test_an_explosion_ends_with_a_count_and_what_to_do(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(5)
    table = from_arrow(pa.table({f"c{i}": rng.integers(0, 4, 200) for i in range(16)}), "wide")
    monkeypatch.setattr(contexts, "_ROOM", 4)
    monkeypatch.setattr(contexts, "_MOST_WORDS", 256)
    with pytest.raises(UsageError, match=r"more than [0-9,]+ order dependencies .*max-context"):
        discover(table, family="od", max_context=0)


def test_an_unknown_family_is_refused() -> None:
    with pytest.raises(UsageError, match=r"family 'fd': expected dc or od$"):
        discover(pd.DataFrame({"a": [1]}), family="fd")
    with pytest.raises(UsageError, match=r"family 'ind': expected dc or od; inclusion dependencies are across tables"):
        discover(pd.DataFrame({"a": [1]}), family="ind")


def test_top_ranks_order_dependencies_too() -> None:
    found = discover(from_arrow(tax_records(300), "tax"), family="od")
    best = found.top(3)
    assert len(best) == 3
    assert sorted((score for score, _ in best), reverse=True) == [score for score, _ in best]
    assert {str(constraint) for _, constraint in best} <= set(map(str, found))
