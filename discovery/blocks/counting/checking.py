"""Declared rules counted on tables in blocks, exactly.

Blocks are counted alone, and in twos where their ranges allow violating pairs between them; a pair of rows of different
blocks is in the count of the two together, and in neither single count:

    pairs    of all blocks  +  for each two that meet: pairs of both together - pairs of the one - pairs of the other
    rows     of each block in any of these counts, as bits, counted after the bits are joined

The bits of a block are joined on one executor, which sends their number only.

Invariant: counts are those of the definition, for any blocks.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
import pyarrow as pa

from holdfast.constraints import InclusionDependency, Rule, UsageError
from holdfast.discovery.blocks.counting.looking import BlocksTask, RuleRequest, looked_at
from holdfast.discovery.blocks.counting.pairs import listed
from holdfast.discovery.blocks.executors import Given, Taken, by_part
from holdfast.discovery.blocks.search.planning import orders_of
from holdfast.discovery.blocks.storage.table import Arrangement, BlockTable, Report
from holdfast.discovery.blocks.values.shared import clusters_of, missing_values
from holdfast.discovery.detection.check import Checked, Example
from holdfast.discovery.detection.counting import count
from holdfast.discovery.detection.forms import PairForm, RowForm, form_of
from holdfast.discovery.detection.listing import lists, pairs
from holdfast.display.verdicts import Verdicts
from holdfast.tables.arrays import Pairs
from holdfast.tables.columnar import nowhere

Locate = Callable[[int], str]
Shown = TypeVar("Shown")

_ALONE = -1
_COUNTS = pa.schema(
    [
        ("form", pa.int32()),
        ("block", pa.int32()),
        ("other", pa.int32()),
        ("pairs", pa.int64()),
        ("rows", pa.binary()),
    ]
)
_WAVES_A_CORE = 4


def check_blocks(
    tables: Mapping[str, BlockTable],
    rules: Sequence[Rule],
    *,
    exists: bool = False,
    examples: int = 3,
    texts: bool = False,
    locate: Mapping[str, Locate] | None = None,
    report: Report = lambda _: None,
) -> Verdicts[Checked]:
    """Check declared rules, as `check_tables` does; `locate` returns where a row of a table came from."""
    schemas = {name: table.schema for name, table in tables.items()}
    forms = [form_of(rule, schemas) for rule in rules]
    found: dict[int, Checked] = {}
    for name, table in tables.items():
        report(f"checking {name}")
        mine = {
            i: form
            for i, (rule, form) in enumerate(zip(rules, forms, strict=True))
            if rule.table == name and isinstance(form, PairForm | RowForm)
        }
        checking = _Checking(table, examples, (locate or {}).get(name, nowhere))
        first = {i for i in mine if exists and isinstance(mine[i], PairForm) and rules[i].threshold is None}
        found |= checking.searched({i: mine[i] for i in first}, rules)
        found |= checking.counted({i: form for i, form in mine.items() if i not in first}, rules)
    for i, rule in enumerate(rules):
        if isinstance(rule.body, InclusionDependency):
            report(f"checking {rule.name}")
            found[i] = _values_checked(tables, rule, rule.body, examples, texts=texts)
    return Verdicts(found[i] for i in range(len(rules)))


def some_violations(table: BlockTable, forms: Sequence[PairForm | RowForm], most: int) -> list[list[pa.Table]]:
    """Return some violations of each rule, from the first blocks that have any: rows (t, s), or one row, each.

    Rows are in the format of blocks.
    """
    asked = dict(enumerate(forms))
    found: dict[int, list[pa.Table]] = {}
    for answer in _Checking(table, most, nowhere).in_waves(asked, partial(_violations, most), found):
        found |= answer
    return [found.get(i, []) for i in asked]


@dataclass
class _Total:
    """The counts of a rule: pairs by blocks, alone and in twos, and rows by blocks."""

    single: dict[int, int]
    double: dict[tuple[int, int], int]
    rows: dict[int, int]

    @property
    def pairs(self) -> int:
        """The number of pairs that break the rule."""
        between = sum(both - self.single[i] - self.single[j] for (i, j), both in self.double.items())
        return sum(self.single.values()) + between


class _Checking:
    """Checks the rules of one table."""

    def __init__(self, table: BlockTable, examples: int, locate: Locate) -> None:
        self._table = table
        self._examples = examples
        self._locate = locate

    def counted(self, forms: Mapping[int, PairForm | RowForm], rules: Sequence[Rule]) -> dict[int, Checked]:
        """Count all violations of rules."""
        tasks = [task for arrangement, some in self._arrangements(forms) for task in _tasks(arrangement, some)]
        totals = self._totals(forms, tasks)
        shown = self._shown(forms, tasks, totals)
        found = {}
        for i, form in forms.items():
            pair_count = totals[i].pairs if isinstance(form, PairForm) else None
            rows = sum(totals[i].rows.values())
            found[i] = Checked(
                rules[i], self._table.row_count, pair_count, rows, None, shown.get(i, ()), self._all(form)
            )
        return found

    def _all(self, form: PairForm | RowForm) -> Callable[[int], Iterator[Pairs]]:
        """Return a function that yields all pairs that break a rule, while the blocks exist."""

        def found(at_once: int) -> Iterator[Pairs]:
            if isinstance(form, PairForm):
                for arrangement, some in self._arrangements({0: form}):
                    yield from listed(self._table, form, _tasks(arrangement, some), at_once)

        return found

    def searched(self, forms: Mapping[int, PairForm | RowForm], rules: Sequence[Rule]) -> dict[int, Checked]:
        """Search a first violation of each rule."""
        rows = self._table.row_count
        first: dict[int, Example] = {}
        for answer in self.in_waves(forms, _first, first):
            first |= answer
        shown = {i: (self._placed(example),)[: self._examples] for i, example in first.items()}
        counts = {i: None if i in shown else 0 for i in forms}
        return {
            i: Checked(rules[i], rows, counts[i], counts[i], None, shown.get(i, ()), self._all(form))
            for i, form in forms.items()
        }

    def in_waves(
        self,
        forms: Mapping[int, PairForm | RowForm],
        work: Callable[["RuleRequest", "BlocksTask"], dict[int, Shown]],
        found: Mapping[int, Shown],
    ) -> Iterator[dict[int, Shown]]:
        """Yield the answers of tasks, a few blocks at a time, without rules that already have a violation."""
        for arrangement, members in self._arrangements(forms):
            tasks = _tasks(arrangement, members)
            asked = RuleRequest(self._table.source, members, 1)
            size = _WAVES_A_CORE * self._table.executors.cores
            for start in range(0, len(tasks), size):
                wave = [
                    BlocksTask(t.places, t.units, some)
                    for t in tasks[start : start + size]
                    if (some := tuple(i for i in t.rules if i not in found))
                ]
                yield from self._table.executors.run(partial(work, asked), wave)

    def _arrangements(
        self, forms: Mapping[int, PairForm | RowForm]
    ) -> Iterator[tuple[Arrangement, dict[int, PairForm | RowForm]]]:
        """Yield arrangements, each with the rules that are checked in it."""
        if not forms:
            return
        numbers = list(forms)
        compared = [form.compared if isinstance(form, PairForm) else () for form in forms.values()]
        orders = orders_of(self._table, compared, np.arange(len(numbers)))
        for arrangement in self._table.arranged_in(list(orders)):
            yield arrangement, {numbers[p]: forms[numbers[p]] for p in orders[arrangement.order].tolist()}

    def _totals(self, forms: Mapping[int, PairForm | RowForm], tasks: Sequence[BlocksTask]) -> dict[int, _Total]:
        totals = {i: _Total({}, {}, {}) for i in forms}
        if not tasks:
            return totals
        parts = 2 * self._table.executors.cores
        asked = RuleRequest(self._table.source, forms, parts)
        tasks = sorted(
            tasks, key=lambda task: -len(task.blocks) * len(task.rules)
        )  # long tasks first, so that all end together
        for form, block, other, pair_count, rows in self._table.executors.exchange(
            partial(_counted, asked),
            tasks,
            parts,
            _joined,
        ):
            total = totals[form]
            if other == block:
                total.rows[block] = rows
            elif other == _ALONE:
                total.single[block] = pair_count
            elif other > block:
                total.double[block, other] = pair_count
        return totals

    def _shown(
        self, forms: Mapping[int, PairForm | RowForm], tasks: Sequence[BlocksTask], totals: Mapping[int, _Total]
    ) -> dict[int, tuple[Example, ...]]:
        """Return some violations of each rule, from the first blocks that have any."""
        if not self._examples:
            return {}
        wanted: dict[BlocksTask, list[int]] = {}
        of_rule: dict[int, dict[tuple[int, ...], BlocksTask]] = {i: {} for i in forms}
        for task in tasks:
            for i in task.rules:
                of_rule[i][task.places] = task
        for i, form in forms.items():
            total = totals[i]
            breaking: dict[tuple[int, ...], int] = {(place,): n for place, n in total.single.items()}
            breaking |= {tuple(places): n for places, n in total.double.items()}
            if isinstance(form, RowForm):
                breaking = {(place,): n for place, n in total.rows.items()}
            places = min((places for places, n in breaking.items() if n), key=lambda p: (len(p), p), default=None)
            if places is not None:
                wanted.setdefault(of_rule[i][places], []).append(i)
        tasks = [BlocksTask(task.places, task.units, tuple(some)) for task, some in wanted.items()]
        work = partial(_examples, RuleRequest(self._table.source, forms, 1), self._examples)
        return {
            i: tuple(map(self._placed, found))
            for answer in self._table.executors.run(work, tasks)
            for i, found in answer.items()
        }

    def _placed(self, example: Example) -> Example:
        return Example(example.rows, None, tuple(map(self._locate, example.rows)), example.images)


def _tasks(arrangement: Arrangement, forms: Mapping[int, PairForm | RowForm]) -> list[BlocksTask]:
    """Return the tasks of an arrangement, blocks alone first, with the rules of each task."""
    members: dict[tuple[int, ...], list[int]] = {}
    for i, form in forms.items():
        for place in range(len(arrangement.units)):
            members.setdefault((place,), []).append(i)
        if isinstance(form, PairForm):
            for one, other in arrangement.ranges.meeting(form.compared):
                if one != other:
                    members.setdefault((one, other), []).append(i)
    return [
        BlocksTask(places, tuple(arrangement.units[place] for place in places), tuple(rules))
        for places, rules in sorted(members.items(), key=lambda item: (len(item[0]), item[0]))
    ]


# What a task does


def _counted(asked: RuleRequest, task: BlocksTask) -> Given:
    """Return the violations of each rule of a task: pairs, and the rows of each block as bits."""
    looked = looked_at(asked, task)
    out: list[tuple[int, int, int, int, bytes]] = []
    parts: list[int] = []
    for i in task.rules:
        form = asked.forms[i]
        if isinstance(form, RowForm):
            pair_count, breaking = 0, looked.columns.passing_any(form.alternatives)
        else:
            counted = count(looked.columns, looked.grouping, form)
            pair_count, breaking = counted.pairs, counted.first | counted.second
        for at, place in enumerate(task.places):
            some = breaking[looked.ends[at] : looked.ends[at + 1]]
            bits = np.packbits(some).tobytes() if some.any() else b""
            other = next((p for p in task.places if p != place), _ALONE)
            out.append((i, place, other, pair_count, bits))
            parts.append((i * 31 + place) % asked.parts)
    columns = [pa.array(c, f.type) for c, f in zip(zip(*out, strict=True), _COUNTS, strict=True)]
    return by_part(pa.table(columns, schema=_COUNTS), np.array(parts))


def _joined(taken: Taken) -> Iterator[tuple[int, int, int, int, int]]:
    """Yield (rule, block, other block, pairs, rows); the rows of a block are in one line of the block."""
    bits: dict[tuple[int, int], np.ndarray] = {}
    for rows in taken:
        for form, block, other, pair_count, given in zip(*rows.to_pydict().values(), strict=True):
            some = np.frombuffer(given, np.uint8)
            known = bits.get((form, block))
            if known is None or not len(known):
                bits[form, block] = some.copy()
            elif len(some):
                known |= some
            yield form, block, other, pair_count, 0
    for (form, block), joined in bits.items():
        yield form, block, block, 0, int(np.bitwise_count(joined).sum())


def _first(asked: RuleRequest, task: BlocksTask) -> dict[int, Example]:
    """Return for each rule of a task a violation, where there is any."""
    looked = looked_at(asked, task)
    found = {}
    for i in task.rules:
        form = asked.forms[i]
        assert isinstance(form, PairForm)
        listed = next(pairs(lists(looked.columns, looked.grouping, form), at_once=1), None)
        if listed is not None:
            found[i] = looked.example(listed[0].tolist())
    return found


def _examples(asked: RuleRequest, most: int, task: BlocksTask) -> dict[int, list[Example]]:
    """Return a few violations of each rule of a task."""
    looked = looked_at(asked, task)
    return {i: [looked.example(rows) for rows in looked.some(asked.forms[i], most)] for i in task.rules}


def _violations(most: int, asked: RuleRequest, task: BlocksTask) -> dict[int, list[pa.Table]]:
    """Return a few violations of each rule of a task, in the format of blocks.

    Of the younger half of the rows, if possible: where old rows are deleted first, these stay.
    """
    looked, read = looked_at(asked, task), asked.source.read_all(task.blocks)
    younger = looked.numbers >= np.median(looked.numbers) if len(looked.numbers) else None
    found = {}
    for i in task.rules:
        some = looked.some(asked.forms[i], most, younger) or looked.some(asked.forms[i], most)
        if some:
            found[i] = [read.take(pa.array(rows)).combine_chunks() for rows in some]
    return found


# Inclusions


def _values_checked(
    tables: Mapping[str, BlockTable], rule: Rule, dependency: InclusionDependency, examples: int, *, texts: bool
) -> Checked:
    sides = (dependency.dependent, dependency.referenced)
    for side in sides:
        if side.table not in tables:
            raise UsageError(f"rule {rule.name}: there is no table {side.table}")
    some = {name: table for name, table in tables.items() if name in {side.table for side in sides}}
    clusters = clusters_of(some, texts=texts, only=frozenset(sides))
    refs = [column.ref for column in clusters.columns]
    left, right = refs.index(sides[0]), refs.index(sides[1])
    missing, occurrences = int(clusters.missing[left, right]), clusters.missing_occurrences_of(left, right)
    shown: tuple[Example, ...] = ()
    if missing and examples:
        values = missing_values(some, [dependency], examples, texts=texts)[dependency]
        shown = tuple(Example(value=value) for value in values)
    return Checked(rule, tables[rule.table].row_count, None, occurrences, missing, shown)
