"""What a sentence means to somebody who reads English, and knows nothing of the text that it was made of.

For columns with names of capital letters and values that are whole numbers or null, and for sentences about one table.
A null is below every number, and the same as another null, where two rows are compared; alone it is no number at all.
"""

import operator
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import permutations

Row = Mapping[str, int | None]
Test = Callable[[Row], bool]
PairTest = Callable[[Row, Row], bool]
Comparison = Callable[[int, int], bool]

_NAMES = r"[A-Z](?:, [A-Z])*(?: and [A-Z])?"
_MORE: dict[str, Comparison] = {
    "a lower": operator.lt,
    "a higher": operator.gt,
    "an equal or lower": operator.le,
    "an equal or higher": operator.ge,
    "a different": operator.ne,
}
_PLACE: dict[str, Comparison] = {
    "equal to": operator.eq,
    "different from": operator.ne,
    "below": operator.lt,
    "not above": operator.le,
    "above": operator.gt,
    "not below": operator.ge,
}
_ALONE: dict[str, Comparison] = {
    "is": operator.eq,
    "equals": operator.eq,
    "is not": operator.ne,
    "differs from": operator.ne,
    "is below": operator.lt,
    "is at most": operator.le,
    "is above": operator.gt,
    "is at least": operator.ge,
}


def is_true(sentence: str, rows: Sequence[Row]) -> bool:
    """Whether a sentence is true of the rows of a table."""
    whole = sentence.removesuffix(".")
    if whole == "The table has at most one row":
        return len(rows) <= 1
    if found := re.fullmatch(r"There is no row where (.+)", whole):
        return not any(_asked(case)(row) for case in found[1].split(", or where ") for row in rows)
    if found := re.fullmatch(r"(.+), leaving out rows where ([A-Z](?: or [A-Z])*) is missing", whole):
        return is_true(found[1], [row for row in rows if all(row[name] is not None for name in found[2].split(" or "))])
    pairs = list(permutations(rows, 2))
    if found := re.fullmatch(rf"No two rows have the same ({_NAMES})", whole):
        return not any(_same(found[1])(t, s) for t, s in pairs)
    if found := re.fullmatch(r"All rows have the same ([A-Z])", whole):
        return all(_same(found[1])(t, s) for t, s in pairs)
    if found := re.fullmatch(rf"Rows with the same ({_NAMES}) have the same ([A-Z])", whole):
        return all(_same(found[2])(t, s) for t, s in pairs if _same(found[1])(t, s))
    if found := re.fullmatch(rf"Among rows with the same ({_NAMES}), (.+)", whole):
        pairs = [(t, s) for t, s in pairs if _same(found[1])(t, s)]
        whole = found[2]
    if found := re.fullmatch(r"([A-Z]) never (falls|rises) as ([A-Z]) rises", whole):
        rising = [(t[found[1]], s[found[1]]) for t, s in pairs if _rank(t[found[3]]) < _rank(s[found[3]])]
        if found[2] == "falls":
            return all(_rank(before) <= _rank(after) for before, after in rising)
        return all(_rank(before) >= _rank(after) for before, after in rising)
    if found := re.fullmatch(r"[Aa]ny two (?:rows )?have ((?:the same [A-Z](?: or )?)+)", whole):
        return all(any(_same(name)(t, s) for name in re.findall("[A-Z]", found[1])) for t, s in pairs)
    forbidden = _forbidden(whole)
    return not any(forbidden(t, s) for t, s in pairs)


def _forbidden(said: str) -> PairTest:
    """Read `no row ... another ...`: what one row and another one are together, and must not be."""
    said, _, beside = said.partition(" while ")
    found = re.fullmatch(r"[Nn]o row(?: whose (.+?))?(?: with (.+) than another)? (has|is there) (.+)", said)
    assert found, said
    tests: list[PairTest] = [_placed(part) for part in re.split(", | and ", beside)] if beside else []
    own, others = found[1], None
    having = found[4]
    if " whose " in having:
        having, _, others = having.partition(" whose ")
    if own:
        tests.append(lambda t, s: _asked(own)(t))
    if others:
        tests.append(lambda t, s: _asked(others)(s))
    if found[2]:
        tests += [_more(found[2]), _more(having)]
    elif having.endswith(" than another"):
        tests.append(_more(having.removesuffix(" than another")))
    elif same := re.fullmatch(rf"the same ({_NAMES}) as another", having):
        tests.append(_same(same[1]))
    elif having != "beside another":
        tests.append(_placed(having))
    return lambda t, s: all(test(t, s) for test in tests)


def _same(names: str) -> PairTest:
    return lambda t, s: all(t[name] == s[name] for name in re.findall("[A-Z]", names))


def _more(said: str) -> PairTest:
    """Read `a lower A and an equal or higher B`, of the first row and the other one."""
    parts = [re.fullmatch(r"(an? .+) ([A-Z])", part) for part in re.split(", | and ", said)]
    compared = [(_MORE[part[1]], part[2]) for part in parts if part]
    assert len(compared) == len(parts), said
    return lambda t, s: all(compare(_rank(t[name]), _rank(s[name])) for compare, name in compared)


def _placed(said: str) -> PairTest:
    """Read `its A below the B of another`, and `its A is below that row's B`."""
    found = re.fullmatch(r"its ([A-Z]) (?:is )?(.+?) (?:the ([A-Z]) of another|that row's ([A-Z]))", said)
    assert found, said
    left, compare, right = found[1], _PLACE[found[2]], found[3] or found[4]
    return lambda t, s: compare(_rank(t[left]), _rank(s[right]))


def _asked(said: str) -> Test:
    """Read `A is above 1 and B is missing`, of one row."""
    tests = [_asked_once(part) for part in re.split("(?:, | and )(?=[A-Z])", said)]
    return lambda row: all(test(row) for test in tests)


def _asked_once(said: str) -> Test:
    if found := re.fullmatch(r"([A-Z]) is (missing|present)", said):
        name, missing = found[1], found[2] == "missing"
        return lambda row: (row[name] is None) is missing
    if found := re.fullmatch(r"([A-Z]) is (neither )?(\d+(?:, \d+)*) (?:or|nor) (\d+)", said):
        name, neither = found[1], found[2] is not None
        some = {int(number) for number in [*found[3].split(", "), found[4]]}
        return lambda row: row[name] is not None and (row[name] in some) is not neither
    found = re.fullmatch(r"([A-Z]) (.+) ([A-Z]|\d+)", said)
    assert found, said
    left, compare, right = found[1], _ALONE[found[2]], found[3]

    def test(row: Row) -> bool:
        mine, other = row[left], int(right) if right.isdigit() else row[right]
        return mine is not None and other is not None and compare(mine, other)

    return test


def _rank(value: int | None) -> int:
    return -1 if value is None else value
