"""Certificates and covers through random batches, against plain dictionaries and an enumeration anew."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.constraints import Column, PredicateSpace, Schema
from holdfast.constraints.types import INTEGER, STRING
from holdfast.discovery.denial import covers as covers_module
from holdfast.discovery.denial.covers import Covers
from holdfast.discovery.evidence.certificate import Certificate
from holdfast.discovery.evidence.hitting_sets import HittingSetSearch, groups_of
from holdfast.indexes.evidence_table import WITNESSES
from tests.invariants import check_invariants
from tests.properties.tables import evidence_bits

Model = dict[int, set[tuple[int, int]]]


def _state(certificate: Certificate) -> Model:
    return {
        int(certificate.words[e, 0]): {(int(t), int(s)) for t, s in certificate.pairs[e] if t >= 0}
        for e in certificate.held
    }


@settings(max_examples=80)
@given(st.integers(0, 2**32), st.integers(0, 12))
def test_a_dead_row_takes_its_witnesses_and_a_rollback_brings_them_back(seed: int, batches: int) -> None:
    rng = np.random.default_rng(seed)
    certificate = Certificate(1)
    model: Model = {}
    for _ in range(batches):
        certificate.begin()
        before = _state(certificate)
        dead = rng.choice(40, int(rng.integers(0, 6)), replace=False)
        single = rng.choice(40, int(rng.integers(0, 6)), replace=False)
        lost, taken = certificate.kill(dead, single)
        for word, listed in model.items():
            gone = {(t, s) for t, s in listed if t in dead or s in dead or (t == s and t in single)}
            listed.difference_update(gone)
            assert gone <= {(int(t), int(s)) for e, _, t, s in taken if certificate.words[e, 0] == word}
        assert {int(certificate.words[e, 0]) for e in lost} == {word for word, pairs in model.items() if not pairs}
        certificate.drop(lost)
        model = {word: pairs for word, pairs in model.items() if pairs}
        alive = np.setdiff1d(np.arange(40), dead)
        words = np.unique(rng.integers(1, 400, int(rng.integers(0, 30)))).astype(np.uint64)
        pairs = rng.choice(alive, (len(words), 3, 2))
        certificate.add(words[:, None], pairs)
        for word, offered in zip(words.tolist(), pairs.tolist(), strict=True):
            held = model.setdefault(word, set())
            for t, s in offered:
                if len(held) < WITNESSES and not {t, s} & {row for pair in held for row in pair}:
                    held.add((t, s))
        check_invariants(certificate)
        assert _state(certificate) == model
        if rng.random() < 0.3:
            certificate.rollback()
            model = before
            check_invariants(certificate)
            assert _state(certificate) == model


@settings(max_examples=80)
@given(st.integers(0, 2**32), st.sampled_from([0, 1, 2, 3]), st.booleans(), st.booleans())
def test_covers_stay_minimal_as_evidences_come_and_go(seed: int, bound: int, wide: bool, anew: bool) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(covers_module, "_SECONDS_AT_LEAST", -1e9 if anew else 1e9)
        _go_through_batches(seed, bound, wide=wide)


def _go_through_batches(seed: int, bound: int, *, wide: bool) -> None:
    rng = np.random.default_rng(seed)
    columns = [Column(f"c{i}", INTEGER if i % 3 else STRING) for i in range(26 if wide else 4)]
    space = PredicateSpace(Schema("r", tuple(columns)))
    bound = bound or (2 if wide else 0)
    certificate = Certificate(space.word_count)
    covers = Covers(space, bound, certificate, np.zeros((1, space.word_count), np.uint64))
    row = 0
    for _ in range(6):
        certificate.begin()
        sets, proven = covers.sets, covers.proven
        held = certificate.held
        lost = held[rng.random(len(held)) < rng.choice([0.0, 0.2, 1.0])]
        words = []
        for _ in range(int(rng.integers(0, 5))):
            outcomes = [int(rng.choice([1, 2, 4] if pair.ordered else [2, 5])) for pair in space.pairs]
            words.append(space.words(evidence_bits(space, outcomes)))
        fresh = np.unique(np.array(words, np.uint64).reshape(-1, space.word_count), axis=0)
        fresh = fresh[certificate.find(fresh) < 0]
        pairs = np.arange(row, row + 2 * len(fresh)).reshape(-1, 1, 2)
        row += 2 * len(fresh)
        covers.extend(certificate.add(fresh, pairs))
        gone = certificate.words[lost].copy()
        certificate.kill(certificate.pairs[lost].ravel()[certificate.pairs[lost].ravel() >= 0], lost[:0])
        certificate.drop(lost)
        covers.shrink(lost, gone, prove=True)
        check_invariants(covers)
        if rng.random() < 0.3:
            certificate.rollback()
            covers.restore(sets, proven)
            check_invariants(covers)


def test_an_enumeration_may_be_kept_within_some_vertices() -> None:
    edges = np.array([[0b0101], [0b1010], [0b0110]], np.uint64)
    groups = groups_of(PredicateSpace(Schema("r", (Column("a", STRING), Column("b", STRING)))))
    within = np.array([0b1101], np.uint64)
    found = sorted(int(s[0]) for chunk in HittingSetSearch(edges, groups, within=within) for s in chunk)
    everywhere = sorted(int(s[0]) for chunk in HittingSetSearch(edges, groups) for s in chunk)
    assert found == [s for s in everywhere if s & ~0b1101 == 0]
    assert len(found) < len(everywhere)
