"""What is compiled after an installation."""

from __future__ import annotations

from typing import TYPE_CHECKING
from unittest.mock import Mock

from holdfast.discovery.inclusion import clusters
from holdfast.discovery.soundness import sampled
from holdfast.indexes import interned, touched_groups
from holdfast.jobs.warming import warm
from holdfast.streaming.decoding import connect, debezium, values
from holdfast.streaming.maintainers import maintainer

if TYPE_CHECKING:
    from types import ModuleType

    import pytest

RUN: list[tuple[ModuleType, str]] = [
    (sampled, "rates_kernel"),
    (clusters, "add_values_kernel"),
    (touched_groups, "touched_kernel"),
    (touched_groups, "more_exceptions_kernel"),
    (interned, "put_texts_kernel"),
    (connect, "firsts_kernel"),
    (debezium, "same_kernel"),
    (values, "decimals_kernel"),
]
"""Loops that no seed of a small table without a history runs."""


def test_what_rules_and_near_constraints_need_is_compiled_too() -> None:
    every = (maintainer._compile, maintainer._compile_rules, maintainer._compile_near)
    for compiling in every:
        compiling.cache_clear()
    warm()
    assert [compiling.cache_info().currsize for compiling in every] == [1, 1, 1]


def test_what_histories_searches_and_records_need_is_run(monkeypatch: pytest.MonkeyPatch) -> None:
    spies = []
    for module, name in RUN:
        spies.append(Mock(side_effect=getattr(module, name)))
        monkeypatch.setattr(module, name, spies[-1])
    warm()
    assert [name for (_, name), spy in zip(RUN, spies, strict=True) if not spy.called] == []
