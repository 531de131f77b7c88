"""Laws of monitored rules: after any history their counts are those of the definition on the current rows.

Oracle tests over tiny tables: pairs after every batch, rows where they are said to be recent, examples that are live
violations; batches that are taken back, states that are saved and restored, rules that are reworded meanwhile.
"""

from collections.abc import Sequence

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast import Maintainer
from holdfast.constraints import PredicateSpace, RowImage, Rule, StateRefused, Violation, parse_rule_body
from holdfast.indexes import counting_index, group_counts
from holdfast.state.memory import MemoryStore
from holdfast.streaming.maintainers.rules import counting, watches
from holdfast.streaming.maintainers.rules import maintainer as maintained
from holdfast.streaming.maintainers.rules.maintainer import MonitoredRule
from holdfast.streaming.maintainers.rules.state import RuleExample, RuleState
from holdfast.tables import Table
from tests.invariants import check_invariants
from tests.oracles import rules as oracle
from tests.oracles.values import Row
from tests.oracles.values import Table as OracleTable
from tests.properties.monitored import Both, Interrupted, Shown, declared, interrupted, kinds, records_of, table_like
from tests.properties.tables import DOMAINS, tables


def _check(states: Sequence[RuleState], drawn: Sequence[Both], like: OracleTable, rows: Sequence[Row]) -> None:
    table = OracleTable(like.name, like.columns, tuple(rows))
    assert [state.rule for state in states] == [rule for _, rule in drawn]
    for state, (their, _) in zip(states, drawn, strict=True):
        verdict = oracle.judge(their, table)
        assert state.violating_pairs == verdict.violating_pairs
        assert state.holds == verdict.holds
        assert state.rows == len(rows)
        if state.is_recent:
            assert state.violating_rows == verdict.violating_rows
            assert state.broken == verdict.broken


@given(st.data(), tables(max_columns=4, max_rows=6), st.sampled_from([0.0, 1e9]), st.booleans())
def test_counts_are_those_of_the_definition_after_any_history(
    data: st.DataObject, both: tuple[OracleTable, Table], recount: float, crossing: bool
) -> None:
    like, _ = both
    drawn = data.draw(declared(like))
    domains = [st.sampled_from([None, *DOMAINS[kind][2]]) for kind in kinds(like)]
    row = st.tuples(*domains)
    current = list(like.rows)
    seed = table_like(like, current)
    monitored = [MonitoredRule(rule, recount) for _, rule in drawn]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(group_counts, "_FEWEST", 2)
        patch.setattr(group_counts, "_AT_ONCE", 2)
        patch.setattr(counting_index, "_ROWS_A_PART", 2)
        patch.setattr(counting, "_MANY_CHANGED", data.draw(st.sampled_from([0, 1024])))
        patch.setattr(counting, "_TRIED", 1)
        patch.setattr(watches.PartnersWatch, "seconds_anew", data.draw(st.sampled_from([0.0, 1e-5, 1e9])))
        space = PredicateSpace(seed.schema)
        maintainer = Maintainer.seed(
            seed, max_predicates=1, space=None if crossing else space, rules=monitored, threads=1
        )
        store = MemoryStore()
        for written in maintainer.save(everything=True):
            store.write(written)
        _check(maintainer.rules, drawn, like, current)
        shown = Shown(maintainer.rules)
        for _ in range(data.draw(st.integers(1, 5))):
            inserted = data.draw(st.lists(row, max_size=5))
            places = data.draw(st.lists(st.integers(0, max(len(current) - 1, 0)), max_size=4, unique=True))
            deleted = [current[i] for i in places if i < len(current)]
            records = records_of(like, inserted, deleted)
            if data.draw(st.booleans()):
                before = maintainer.rules
                with pytest.MonkeyPatch.context() as failing:
                    failing.setattr(maintained.RuleMaintainer, "_recount", interrupted)
                    failing.setattr(Maintainer, "_remember", interrupted)
                    with pytest.raises(Interrupted):
                        maintainer.apply_records(records)
                _check(maintainer.rules, drawn, like, current)
                assert [s.violating_rows for s in before] == [s.violating_rows for s in maintainer.rules]
            result = maintainer.apply_records(records)
            current = [r for i, r in enumerate(current) if i not in places] + inserted
            _check(result.rules, drawn, like, current)
            if recount == 0 and len(drawn) == 1:
                assert result.rules[0].is_recent
            check_invariants(maintainer)
            shown.follow(result.rules)
            shown.are_violations(drawn, like, current)
            for written in maintainer.save():
                store.write(written)
            if data.draw(st.booleans()):
                maintainer = Maintainer.restore(store, threads=1, rules=monitored)
                _check(maintainer.rules, drawn, like, current)
                check_invariants(maintainer)
                assert not any(state.added or state.removed for state in maintainer.rules)
                assert not maintainer.rule_maintainer.gone


@given(st.data(), tables(max_columns=3, max_rows=6))
def test_rules_may_be_reworded_between_two_starts(data: st.DataObject, both: tuple[OracleTable, Table]) -> None:
    like, table = both
    first, second = data.draw(declared(like)), data.draw(declared(like))
    maintainer = Maintainer.seed(table, max_predicates=1, rules=[rule for _, rule in first], threads=1)
    shown = {example.example_id for state in maintainer.rules for example in state.added}
    store = MemoryStore()
    for written in maintainer.save(everything=True):
        store.write(written)
    try:
        restored = Maintainer.restore(store, threads=1, rules=[MonitoredRule(rule) for _, rule in second])
    except StateRefused as error:
        assert "which the state was not seeded to compare" in str(error)
        return
    _check(restored.rules, second, like, like.rows)
    check_invariants(restored)
    kept = {rule.name for _, rule in first for _, other in second if (rule.name, rule.text) == (other.name, other.text)}
    gone = {example.example_id for _, example in restored.rule_maintainer.gone}
    assert gone == {e.example_id for s in maintainer.rules if s.rule.name not in kept for e in s.added} <= shown
    for written in restored.save():
        store.write(written)
    again = Maintainer.restore(store, threads=1, rules=[MonitoredRule(rule) for _, rule in second])
    assert not again.rule_maintainer.gone
    assert not any(state.added for state in again.rules)


def test_examples_keep_their_names() -> None:
    """Output tables hold them: SHA-256 of the rule and its rows in UTF-8."""
    violation = Violation((RowImage({"k": "é"}, {"k": "é", "a": 2}),))
    named = RuleExample.of("größe", violation)
    assert named.example_id == "ee75dfbb84f49f6704f71d150aff93cf7a9fb3c6e3dec78f66492808e10f30e2"


@pytest.mark.parametrize("body", ["zip -> city", "not(t.zip = s.zip and t.pay > s.pay)", "not(t.pay < 0)"])
def test_new_violations_are_shown_beside_old_ones(body: str) -> None:
    rows = pd.DataFrame({"zip": [1, 1], "city": ["a", "b"], "pay": [-1, -2]})
    maintainer = Maintainer.seed(rows, name="people", rules=[body])
    before = len(maintainer.rules[0].examples)
    (state,) = maintainer.step(inserts=pd.DataFrame({"zip": [2, 2], "city": ["c", "d"], "pay": [-3, -5]})).rules
    assert {row.values["zip"] for example in state.added for row in example.violation.rows} == {2}
    assert not state.removed
    assert len(state.examples) == before + len(state.added)


def test_rows_of_rules_are_counted_anew_when_asked_for() -> None:
    rows = pd.DataFrame({"zip": [1, 1, 2, 2], "pay": [-1, -2, 3, 4]})
    rule = Rule("r", "people", parse_rule_body("not(t.zip = s.zip and t.pay > s.pay)"))
    maintainer = Maintainer.seed(rows, name="people", rules=[MonitoredRule(rule, recount=1e9)])
    (state,) = maintainer.step(deletes=rows[1:2]).rules
    assert (state.is_recent, state.violating_pairs) == (False, 1)
    maintainer.rule_maintainer.recount()
    (state,) = maintainer.rules
    assert (state.is_recent, state.violating_rows) == (True, 2)
