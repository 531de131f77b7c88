"""Where a list is expected, one rule or one column does as well; a text is never taken for its letters."""

import pandas as pd
import pytest

import holdfast
from holdfast.constraints import Rule, UnknownColumn, parse_rule_body
from holdfast.streaming.maintainers.maintainer import Maintainer

FRAME = pd.DataFrame({"id": [1, 2, 2], "Zip": ["x", "y", "y"], "City": ["a", "b", "c"]})


@pytest.mark.parametrize("rule", ["key(id)", Rule("unique", "table", parse_rule_body("key(id)"))])
def test_one_rule_is_checked(rule: Rule | str) -> None:
    (alone,), (listed,) = holdfast.check(FRAME, rule), holdfast.check(FRAME, [rule])
    assert str(alone) == str(listed)
    assert alone.violating_pairs == 2


def test_one_rule_and_one_column_of_a_maintainer() -> None:
    maintainer = Maintainer.seed(FRAME[:2], key="id", max_predicates=1, rules="Zip -> City")
    maintainer.apply(inserts=FRAME[2:].assign(id=3))
    (state,) = maintainer.rules
    assert (state.rule.name, state.violating_pairs, maintainer.row_count) == ("Zip -> City", 2, 3)
    with pytest.raises(UnknownColumn, match="'idd'"):
        Maintainer.seed(FRAME[:2], key="idd", max_predicates=1)
