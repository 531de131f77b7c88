"""Constraints, rules and suspects as SQL queries whose answers prove them on the source table.

    query.py        the two public functions: what is asked -> comments and a query
    exact.py        one form per kind of constraint: groups, orders, pairs, rows, missing values
    near.py         the number of exceptions; the group of a suspect cell
    comparisons.py  a comparison of two cells, or of a cell with a constant, with the nulls of docs/semantics.md
    constants.py    texts, numbers and times as SQL constants
    writer.py       names in the quotes of an engine, new names, notes for people

Only constructs are used that DuckDB, Spark SQL and PostgreSQL share and answer alike: grouping, windows with
`nulls first`, `is distinct from`, common table expressions, `not exists`, `cast(... as real)`, `chr` and `||`.
Invariant: this package makes texts only; each column stands behind the alias of its row (`t.zip`), where no engine
takes a word for a keyword, and where Spark refuses a name in double quotes, which alone would be a text.
"""

from holdfast.constraints.queries.query import query, suspect_query
from holdfast.constraints.queries.writer import Dialect

__all__ = ["Dialect", "query", "suspect_query"]
