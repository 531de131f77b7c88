"""Oracle tests: constraints with an anchor need no search once its pairs are compared."""

import numpy as np
from hypothesis import given

from holdfast.constraints import PredicateSpace
from holdfast.discovery.denial.anchors import Anchors, Costs
from holdfast.discovery.evidence.codes import pair_codes
from holdfast.tables import Table, from_arrow, overlap
from tests.oracles.values import Table as OracleTable
from tests.properties.tables import tables
from tests.taxes import tax_records

FREE = Costs(outcome=0.0, validated=1.0, copied=0.0)


@given(tables(max_rows=9))
def test_an_anchors_groups_are_the_rows_that_agree_on_it(both: tuple[OracleTable, Table]) -> None:
    _, table = both
    space = PredicateSpace.build(table.schema, "auto", lambda a, b: overlap(table, a, b))
    codes = pair_codes(table, space)
    if not codes.rows:
        return
    anchors = Anchors(codes, space, FREE)
    for p, pair in enumerate(space.pairs[: len(table.columns)]):
        mask = np.array([space.words(space.every & ~pair.every | pair.bits(2))], np.uint64)
        assert anchors.unsettled(mask).all()
        groups = anchors.choose(mask)
        assert groups is not None
        assert not anchors.unsettled(mask).any()
        assert anchors.last == table.schema.names[p]
        together = {
            (int(groups.numbers[i]), int(groups.numbers[j]))
            for i in range(len(groups.numbers))
            for j in range(groups.begins[i], groups.ends[i])
        }
        of_one_column = codes.left[p]
        expected = {
            (t, s)
            for t in range(codes.rows)
            for s in range(codes.rows)
            if of_one_column[t] == of_one_column[s] and (t != s or codes.second[t] >= 0)
        }
        assert expected <= together
        assert all(of_one_column[t] == of_one_column[s] for t, s in together)


def test_the_anchor_that_saves_most_comes_first_and_costly_ones_never() -> None:
    table = from_arrow(tax_records(3_000), "tax")
    space = PredicateSpace(table.schema)
    codes = pair_codes(table, space)
    names = table.schema.names
    masks = []
    for name in ("Zip", "Zip", "State"):
        pair = space.pairs[names.index(name)]
        masks.append(space.words(space.every & ~pair.every | pair.bits(2)))
    anchors = Anchors(codes, space, Costs(outcome=1e-9, validated=1e-7, copied=0.0))
    assert anchors.choose(np.array(masks, np.uint64)) is not None
    assert anchors.last == "Zip"
    assert anchors.choose(np.array(masks, np.uint64)) is None
    assert anchors.unsettled(np.array(masks, np.uint64)).tolist() == [False, False, True]
