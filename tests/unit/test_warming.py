"""What is compiled after an installation."""

from __future__ import annotations

from holdfast.jobs.warming import warm
from holdfast.streaming.maintainers import maintainer


def test_what_rules_and_near_constraints_need_is_compiled_too() -> None:
    every = (maintainer._compile, maintainer._compile_rules, maintainer._compile_near)
    for compiling in every:
        compiling.cache_clear()
    warm()
    assert [compiling.cache_info().currsize for compiling in every] == [1, 1, 1]
