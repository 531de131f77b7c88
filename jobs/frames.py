"""`discover` and `check` for whatever holds rows: what is in memory is searched here, data frames of Spark on Spark.

Invariant: a data frame of Spark is never brought to this process; what was written for it is gone when there is an
answer.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, overload

from holdfast.constraints import Family, PredicateSpace, Rule, UsageError
from holdfast.discovery.detection.check import Checked, rules_on
from holdfast.discovery.detection.check import check as check_here
from holdfast.discovery.discover import Discovered
from holdfast.discovery.discover import discover as discover_here
from holdfast.discovery.near.discover import NearDiscovered
from holdfast.display.verdicts import Verdicts
from holdfast.jobs.files.engines import BLOCK_ROWS, work_folder
from holdfast.tables import ReadOptions

if TYPE_CHECKING:
    from holdfast.discovery.blocks.storage.table import BlockTable
    from holdfast.tables.arrays import Pairs


@overload
def discover(
    data: Any,
    *,
    name: str = ...,
    family: str | Family | None = ...,
    max_predicates: int = ...,
    max_context: int = ...,
    near: None = ...,
    space: PredicateSpace | None = ...,
    threads: int | None = ...,
    work: str | None = ...,
    report: Callable[[str], object] = ...,
) -> Discovered: ...
@overload
def discover(
    data: Any,
    *,
    name: str = ...,
    family: str | Family | None = ...,
    max_predicates: int = ...,
    max_context: int = ...,
    near: float | str | Fraction,
    space: PredicateSpace | None = ...,
    threads: int | None = ...,
    work: str | None = ...,
    report: Callable[[str], object] = ...,
) -> NearDiscovered: ...
def discover(
    data: Any,
    *,
    name: str = "table",
    family: str | Family | None = None,
    max_predicates: int = 4,
    max_context: int = 3,
    near: float | str | Fraction | None = None,
    space: PredicateSpace | None = None,
    threads: int | None = None,
    work: str | None = None,
    report: Callable[[str], object] = lambda _: None,
) -> Discovered | NearDiscovered:
    """Find all constraints that hold on a table and that no other one implies; or those that nearly hold.

    Parameters
    ----------
    data : a table of ours, a pandas, Arrow or Spark data frame, or the path of a file.
    name : what a data frame is called.
    family : `dc`, denial constraints (the default), or `od`, order dependencies. With `near` some of `key`, `fd` and
        `od`, with commas between them; all of these where none is given, of a Spark data frame all but `od`.
    max_predicates : denial constraints on at most so many column pairs; 0 for all.
    max_context : order dependencies and near constraints with at most so many columns in the context; 0 for all.
    near : the share of the rows that may be exceptions, from 0 to 0.5 or "50%"; None for constraints that hold.
    space : which column pairs are compared; measured on the table where it is not given.
    threads : all cores where it is not given.
    work : for a Spark data frame, a folder or object store that all executors reach; on one machine a temporary one.
    report : is told what is being done.

    Examples
    --------
    >>> import pandas as pd
    >>> people = pd.DataFrame({"id": [1, 2, 3], "city": ["Rome", "Rome", "Oslo"]})
    >>> [str(constraint) for constraint in discover(people)]
    ['not(t.id = s.id)']
    >>> [str(dependency) for dependency in discover(people, family="od")]
    ['{id}: [] -> city', '{}: id ~ city desc']

    One wrong cell of ten rows:

    >>> zips = pd.DataFrame({"zip": [1, 1, 1, 2, 2, 2, 2, 3, 3, 3], "city": list("aaabbbxccc")})
    >>> for constraint in discover(zips, near=0.1):
    ...     print(constraint, constraint.exceptions)
    {zip}: [] -> city 1
    {city}: [] -> zip 0
    {}: zip ~ city 1
    """
    if not is_of_spark(data):
        asked: dict[str, Any] = {
            "name": name,
            "family": family,
            "max_predicates": max_predicates,
            "max_context": max_context,
            "near": near,
            "space": space,
            "threads": threads,
            "report": report,
        }
        found: Discovered | NearDiscovered = discover_here(data, **asked)
        return found
    from holdfast.discovery.blocks.discover import (
        NEAR_FAMILIES,
        counted_shapes,
        discover_blocks,
        discover_near_blocks,
        space_of_blocks,
    )
    from holdfast.discovery.discover import family_of, near_asked

    if near is not None:
        share, families = near_asked(near, NEAR_FAMILIES if family is None else family, space)
        counted_shapes(families)
        with _in_blocks({name: data}, work, report) as tables:
            return discover_near_blocks(tables[name], share, max_context, families=families, report=report).ranked()
    kind = family_of(Family.DENIAL if family is None else family)
    threads = threads or os.cpu_count() or 1
    with _in_blocks({name: data}, work, report) as tables:
        table = tables[name]
        if kind is Family.DENIAL:
            return discover_blocks(
                table, (space or space_of_blocks(table)).of_family(kind), max_predicates, report=report
            )
        orders = (space or PredicateSpace(table.schema)).of_family(kind)
        return discover_blocks(table, orders, max_context, threads=threads, report=report)


def check(
    data: Any,
    rules: Sequence[Rule | str] | Rule | str,
    *,
    name: str = "table",
    exists: bool = False,
    examples: int = 3,
    texts: bool = False,
    options: ReadOptions | None = None,
    threads: int | None = None,
    work: str | None = None,
) -> Verdicts[Checked]:
    """Count what breaks declared rules.

    Parameters
    ----------
    data : a pandas, Arrow or Spark frame, a table of ours, a file's path; or several of them by name.
    rules : `Rule`s, or texts such as `Zip -> City` or `not(t.Salary <= 0)`; or one of them.
    name : what a data frame is called.
    exists : stop at the first violation of each rule that has no threshold.
    examples : show so many violations of each rule at most.
    texts : compare the values of inclusions by their text.
    options : how files are read.
    threads : all cores where it is not given.
    work : for Spark data frames, a folder or object store that all executors reach; on one machine a temporary one.

    Examples
    --------
    >>> import pandas as pd
    >>> rows = pd.DataFrame({"Zip": ["x1", "x1", "x2"], "City": ["a", "b", "b"], "Salary": [10, 20, -1]})
    >>> for found in check(rows, ["Zip -> City", "not(t.Salary <= 0)", "key(Salary)"]):
    ...     print(found)
    Zip -> City: broken (2 pairs, 2 rows)
    not(t.Salary <= 0): broken (1 row)
    key(Salary): holds (0 pairs, 0 rows)
    """
    frames = data if isinstance(data, Mapping) else {name: data}
    of_spark = [is_of_spark(frame) for frame in frames.values()]
    if not any(of_spark):
        return check_here(
            data, rules, name=name, exists=exists, examples=examples, texts=texts, options=options, threads=threads
        )
    if not all(of_spark):
        raise UsageError("some tables are Spark data frames, others are not: give all as Spark data frames, or none")
    from holdfast.discovery.blocks.counting.checking import check_blocks

    with _in_blocks(frames, work, lambda _: None) as tables:
        schemas = {called: table.schema for called, table in tables.items()}
        found = check_blocks(tables, rules_on(schemas, rules), exists=exists, examples=examples, texts=texts)
        return Verdicts(replace(one, _listed=_gone) for one in found)


def _gone(_: int) -> "Iterator[Pairs]":
    raise UsageError(
        "the blocks of a Spark data frame are gone with the answer, so its violating pairs are not to be had: write it "
        "as Parquet, and run: holdfast check FILE --spark --pairs pairs.parquet"
    )


def is_of_spark(data: Any) -> bool:
    """Whether something is a data frame of Spark."""
    return any(kind.__module__.startswith("pyspark.sql") for kind in type(data).__mro__)


@contextmanager
def _in_blocks(
    frames: Mapping[str, Any], work: str | None, report: Callable[[str], object]
) -> Iterator[dict[str, "BlockTable"]]:
    """Write data frames into blocks for a while."""
    from holdfast.discovery.blocks.storage.location import Storage
    from holdfast.streaming.spark.frames import blocks_of_frame

    session = next(iter(frames.values())).sparkSession
    with work_folder(work, str(session.conf.get("spark.master", "local"))) as address:
        storage = Storage.at(address)
        storage.open().prepare()
        yield {
            name: blocks_of_frame(frame, name, ReadOptions(), storage, BLOCK_ROWS, report)[0]
            for name, frame in frames.items()
        }
