"""The constraints of a table in blocks, with the certificate that proves the set complete.

    evidences of a sample  ->  minimal covers (here)  ->  violations of covers not known to hold (in blocks)  ->  ...

The enumeration needs evidences alone, and these are few: this process holds only evidences and covers.
"""

import numpy as np

from holdfast.constraints import Family, PredicateSpace
from holdfast.discovery.blocks.search.searching import BlockSearch, Evidences
from holdfast.discovery.blocks.storage.table import BlockTable, Report
from holdfast.discovery.denial.enumerating import Enumeration, too_many
from holdfast.discovery.denial.meaning import Meaning
from holdfast.discovery.denial.validating import Validation
from holdfast.discovery.evidence.evidences import most_evidences
from holdfast.discovery.explained import Explained
from holdfast.discovery.order.seeding import PAIRS, OrderFinder
from holdfast.discovery.seed import Seed
from holdfast.tables.arrays import Ints, Words

_FIRST_COVERS = 20_000


def seed_blocks(
    table: BlockTable, space: PredicateSpace, bound: int, *, threads: int = 1, report: Report = lambda _: None
) -> Seed:
    """Find all constraints of the space's family with at most `bound` predicates, or columns in the context (0: all).

    Witnesses are numbers of rows.
    """
    explained = Explained("blocks")
    search = BlockSearch(table, space, report)
    sample = search.sample()
    explained.add(f"{len(sample.words):,} evidences of a sample")
    if space.family is Family.ORDER:
        return _orders(search, sample, space, bound, threads, explained, report)
    return _denials(search, sample, space, bound, explained, report)


def _denials(
    search: BlockSearch, known: Evidences, space: PredicateSpace, bound: int, explained: Explained, report: Report
) -> Seed:
    enumeration = Enumeration(space, bound, explained, report)
    validation = Validation(space, 1 << 62, explained, report)
    meaning = Meaning(space)
    limit = _FIRST_COVERS
    while True:
        covers, whole = enumeration.covers(known.words, limit)
        found = validation.violated(covers[meaning.satisfiable(covers)], search)
        if found:
            known = Evidences.together([known, *(broken.evidences for broken in found)], space)
            if len(known.words) > most_evidences(space):
                raise too_many(len(known.words))
        elif whole:
            boxes = enumeration.without_empty(covers)
            return Seed(meaning.reported(boxes), boxes, known.words, known.rows, explained)
        else:
            limit *= 2


def _orders(
    search: BlockSearch,
    sample: Evidences,
    space: PredicateSpace,
    bound: int,
    threads: int,
    explained: Explained,
    report: Report,
) -> Seed:
    finder = OrderFinder(space, bound, threads, explained, report)
    finder.take(sample.words, sample.rows)

    def broken(targets: Ints, sets: Words) -> tuple[Ints, Words, Ints]:
        found = search.find(finder.contexts.targets.masks(targets, sets), PAIRS)
        return found.constraint, found.evidences.words, found.evidences.rows

    finder.complete(broken)
    return finder.seed(np.asarray)
