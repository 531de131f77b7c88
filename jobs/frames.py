"""`holdfast.discover` and `holdfast.check`: tables in memory and files are searched here, Spark data frames on Spark.

Both functions are the public interface: their options are keyword parameters, however many there are, and described in
their docstrings, however long.
Invariant: the rows of a Spark data frame never come to this process; blocks written for it are removed with the answer.
"""

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any, Unpack, overload

from holdfast.constraints import Family, PredicateSpace, Rule, UsageError
from holdfast.discovery.detection.check import Checked, check_tables, rules_on
from holdfast.discovery.discover import Discovered, DiscoverOptions, family_of, near_asked
from holdfast.discovery.discover import discover as discover_here
from holdfast.discovery.near.discover import NearDiscovered
from holdfast.discovery.near.suspects import LEAST_SCORE
from holdfast.display.suspects import Suspects
from holdfast.display.verdicts import Verdicts
from holdfast.jobs.files.engines import NearSearchOptions, OnSpark, work_folder
from holdfast.tables import ReadOptions, as_table

if TYPE_CHECKING:
    from holdfast.discovery.blocks.storage.reading import BlocksOfFile
    from holdfast.tables.arrays import Pairs


class _FrameOptions(DiscoverOptions, total=False):
    work: str | None


@overload
def discover(data: Any, *, near: None = ..., **options: Unpack[_FrameOptions]) -> Discovered: ...
@overload
def discover(data: Any, *, near: float | str | Fraction, **options: Unpack[_FrameOptions]) -> NearDiscovered: ...
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
    """Find all constraints that hold on a table and that no other constraint implies; or those that nearly hold.

    Parameters
    ----------
    data : a `Table`, a pandas, Arrow or Spark data frame, or the path of a file.
    name : the table name of a data frame.
    family : `dc`, denial constraints (the default), or `od`, order dependencies. With `near` some of `key`, `fd` and
        `od`, separated by commas; by default all three, for a Spark data frame all but `od`.
    max_predicates : the largest number of column pairs in a denial constraint; 0 for any number.
    max_context : the largest context of an order dependency or near constraint, in columns; 0 for any number.
    near : the share of the rows that may be exceptions, from 0 to 0.5 or "50%"; None for constraints that hold.
    space : which column pairs are compared; by default measured on the table.
    threads : how many threads search; by default one per core.
    work : for a Spark data frame, a folder or object store that all executors reach; by default, on one machine, a
        temporary folder.
    report : called with a description of each step of the search.

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
        options: dict[str, Any] = {"max_predicates": max_predicates, "max_context": max_context, "report": report}
        options |= {"name": name, "family": family, "near": near, "space": space, "threads": threads}
        found: Discovered | NearDiscovered = discover_here(data, **options)
        return found
    if near is not None:
        from holdfast.discovery.blocks.discover import NEAR_FAMILIES, counted_shapes

        share, families = near_asked(near, NEAR_FAMILIES if family is None else family, space)
        counted_shapes(families)
        with _in_blocks({name: data}, work, report) as (engine, tables):
            return engine.near(tables[name], NearSearchOptions(share, max_context, families), report).ranked()
    kind = family_of(Family.DENIAL if family is None else family)
    with _in_blocks({name: data}, work, report) as (engine, tables):
        table = tables[name]
        if kind is Family.ORDER:
            space, bound = space or PredicateSpace(table.schema), max_context
        else:
            space, bound = space or engine.measured(table, "auto"), max_predicates
        return engine.discover(table, space.of_family(kind), bound, threads or os.cpu_count() or 1, report)


def suspects(
    data: Any,
    *,
    name: str = "table",
    near: float | str | Fraction = "1%",
    max_context: int = 3,
    min_score: float = LEAST_SCORE,
    threads: int | None = None,
) -> Suspects:
    """Find the cells of a table that are probably wrong, the surest first. They are suggestions: nothing is changed.

    Parameters
    ----------
    data : a `Table`, a pandas or Arrow data frame, or the path of a file.
    name : the table name of a data frame.
    near : functional dependencies are used that hold except for this share of the rows.
    max_context : the most columns on the left of such a dependency; 0 for any number.
    min_score : the least probability that a cell is wrong.
    threads : how many threads search; by default one per core.

    Examples
    --------
    >>> import pandas as pd
    >>> zips = pd.DataFrame({"zip": [1] * 40 + [2] * 40, "city": ["a"] * 39 + ["b"] * 41, "area": [7] * 40 + [8] * 40})
    >>> print(suspects(zips, near="5%")[0])
    row 40, city: 'b', expected 'a' (1.000)
    """
    if is_of_spark(data):
        raise UsageError("cells are searched for in tables in memory: give a pandas or Arrow data frame, or a file")
    found = discover_here(data, name=name, near=near, family="fd", max_context=max_context, threads=threads)
    return found.suspects(min_score)


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
    """Count the violations of declared rules.

    Parameters
    ----------
    data : a `Table`, a pandas, Arrow or Spark data frame, or the path of a file; or a mapping of names to these.
    rules : a list of `Rule`s or of texts such as `Zip -> City` or `not(t.Salary <= 0)`; or a single rule.
    name : the table name of a data frame.
    exists : whether counting stops at the first violation of each rule that has no threshold.
    examples : how many violations of each rule are kept as examples at most.
    texts : whether the values of inclusions are compared by their text.
    options : how files are read.
    threads : how many threads count; by default one per core.
    work : for Spark data frames, a folder or object store that all executors reach; by default, on one machine, a
        temporary folder.

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
        here = {str(called): as_table(one, str(called), options) for called, one in frames.items()}
        if not isinstance(data, Mapping):  # a file and a `Table` have a name of their own
            here = {table.schema.table: table for table in here.values()}
        made = rules_on({called: table.schema for called, table in here.items()}, rules)
        return check_tables(here, made, exists=exists, examples=examples, texts=texts, threads=threads)
    if not all(of_spark):
        raise UsageError("some tables are Spark data frames, others are not: give all as Spark data frames, or none")
    with _in_blocks(frames, work, lambda _: None) as (engine, tables):
        declared = rules_on({called: table.schema for called, table in tables.items()}, rules)
        found = engine.check(tables, declared, exists=exists, examples=examples, texts=texts)
        return Verdicts(replace(one, _listed=_refuse_pairs) for one in found)


def _refuse_pairs(_: int) -> "Iterator[Pairs]":
    raise UsageError(
        "the blocks of a Spark data frame are removed with the answer, so its violating pairs cannot be listed: write "
        "the data frame as Parquet, and run: holdfast check FILE --spark --pairs pairs.parquet"
    )


def is_of_spark(data: Any) -> bool:
    """Whether an object is a data frame of Spark."""
    return any(kind.__module__.startswith("pyspark.sql") for kind in type(data).__mro__)


@contextmanager
def _in_blocks(
    frames: Mapping[str, Any], work: str | None, report: Callable[[str], object]
) -> "Iterator[tuple[OnSpark, dict[str, BlocksOfFile]]]":
    """Write data frames into blocks; remove these at the end."""
    session = next(iter(frames.values())).sparkSession
    with work_folder(work, str(session.conf.get("spark.master", "local"))) as address:
        engine = OnSpark(session, address)
        yield engine, {name: engine.frame(frame, name, ReadOptions(), report) for name, frame in frames.items()}
