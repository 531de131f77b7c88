"""The arguments of the commands that search files, each as one value that is made once from the command's options."""

import os
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.jobs.files.addresses import FileOrAddress
from holdfast.jobs.files.engines import SparkOptions
from holdfast.jobs.terminal.options import Answering

if TYPE_CHECKING:
    from holdfast.tables import ReadOptions


@dataclass(frozen=True, kw_only=True)
class FilesRequest:
    """The arguments of a command on files.

    Parameters
    ----------
    files, reading : the files, and how they are read.
    answering : how the command answers.
    spark : how Spark is used; None to work in this process.
    threads : how many threads work; None for one per core.
    examples : how many examples of each constraint are listed at most.
    """

    files: tuple[FileOrAddress, ...]
    reading: "ReadOptions"
    answering: Answering
    spark: SparkOptions | None
    threads: int | None
    examples: int


@dataclass(frozen=True, kw_only=True)
class CheckRequest(FilesRequest):
    """The arguments of `holdfast check`.

    Parameters
    ----------
    rules_file, rule_texts : where rules are declared: a file, and texts of the command line.
    pairs_file : the file to write all violating pairs to.
    exists : whether counting stops at the first violation of a rule without threshold.
    """

    rules_file: Path | None
    rule_texts: tuple[str, ...]
    pairs_file: Path | None
    exists: bool


@dataclass(frozen=True, kw_only=True)
class SearchRequest(FilesRequest):
    """The arguments of `holdfast discover`.

    Parameters
    ----------
    families : the families named by --family; None for all families; with `near`, for all that the engine can count.
    kinds : the kinds of constraints that are written; empty for all.
    bounds : which of `max_predicates`, `max_context` and `cross_columns` are named on the command line.
    near : the share of the rows that may be exceptions; None for constraints that hold.
    max_predicates, max_context : the size of the largest constraints; 0 for all sizes. A context of None has at most
        `DEFAULT_CONTEXT` columns; of near constraints fewer where so many are not feasible.
    cross_columns : which columns are compared with other columns: `auto`, `related` or `none`.
    space, write_space : the file of the predicate space to use, and the file to write the used space to.
    min_coverage : the share of values from which an inclusion is listed, although it does not hold.
    top : how many of the highest ranked constraints are written; None for all, without ranks.
    every : whether constraints that are not sound are ranked too.
    as_rules : whether constraints are written as a rules file.
    explain : whether the steps of the search are noted with their times.
    """

    families: tuple[str, ...] | None
    kinds: tuple[str, ...]
    bounds: frozenset[str]
    near: Fraction | None
    max_predicates: int
    max_context: int | None
    cross_columns: str
    space: Path | None
    write_space: Path | None
    min_coverage: float | None
    top: int | None
    every: bool
    as_rules: bool
    explain: bool

    @property
    def thread_count(self) -> int:
        """How many threads search."""
        return self.threads or os.cpu_count() or 1
