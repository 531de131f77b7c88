"""Files to blocks: executors read the rows; this process has the columns only.

    Parquet           row groups, side by side  ->  blocks
    delimited text    one executor a file       ->  blocks of texts  ->  their types, side by side  ->  typed blocks

Invariant: the numbers of rows, the types of columns and the values are those of `read_table`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np
import pyarrow as pa

from holdfast.constraints import Column, Schema
from holdfast.constraints.types import STRING
from holdfast.discovery.blocks.executors import Executors
from holdfast.discovery.blocks.storage.block import Block, Rows, carried_schema, write_block, write_blocks
from holdfast.discovery.blocks.storage.location import Storage
from holdfast.discovery.blocks.storage.table import BlockTable, Report, Source
from holdfast.state.places import Place
from holdfast.tables import ReadOptions
from holdfast.tables.inference import Fitting, fitting, inferred, missing_warnings, typed
from holdfast.tables.parts import Part, Parts, in_chunks, parts_of, place_in_text, read_texts, read_typed


@dataclass(frozen=True)
class BlocksOfFile:
    """A file that was read into blocks.

    Parameters
    ----------
    table : its rows.
    warnings : the warnings of the reader.
    locate : returns where a row came from.
    """

    table: BlockTable
    warnings: tuple[str, ...]
    locate: Callable[[int], str]

    @property
    def schema(self) -> Schema:
        """Name and columns of the table."""
        return self.table.schema


def read_blocks(
    path: Path,
    options: ReadOptions,
    storage: Storage,
    most: int,
    executors: Executors,
    report: Report = lambda _: None,
    name: str | None = None,
) -> BlocksOfFile:
    """Read a file into blocks of at most `most` rows. Two passes over a text."""
    parts = parts_of(path, options, most, name)
    report(f"reading {path.name}")
    told: list[str] = []
    if parts.declared is None:
        source = Source(storage, parts.table.schema, most)
        written = executors.run(partial(_typed_written, source), parts.parts)
        blocks = [block for some in written for block in some]
    else:
        source, blocks, told = _texts(parts, storage, most, executors, report)
    warnings = (*parts.table.warnings, *told)
    return BlocksOfFile(BlockTable(source, blocks, executors, report), warnings, parts.locate)


def _texts(
    parts: Parts, storage: Storage, most: int, executors: Executors, report: Report
) -> tuple[Source, list[Block], list[str]]:
    """Read a delimited file: its texts, then their types; with warnings about them."""
    assert parts.declared is not None
    columns = parts.table.schema.columns
    raw = Source(storage, Schema(parts.table.schema.table, tuple(replace(c, type=STRING) for c in columns)), most)
    texts = [block for some in executors.run(partial(_texts_written, raw), parts.parts) for block in some]
    report(f"looking at the values of {parts.table.schema.table}")
    open_ = [c for c, declared in enumerate(parts.declared) if declared is None]
    fits = list(executors.run(partial(_fitting, raw, open_), texts)) if open_ else []
    types, told = list(parts.declared), []
    (part,) = parts.parts
    by_look = part.options.nulls_by_look
    for at, c in enumerate(open_):
        found = inferred([fit[at] for fit in fits], nulls_by_look=by_look)
        types[c] = found.type
        if not by_look:
            told += missing_warnings(part.path, columns[c], found)
    schema = Schema(
        raw.schema.table,
        tuple(
            Column(column.name, kind or STRING, column.ordered, assumed=kind is None)
            for column, kind in zip(columns, types, strict=True)
        ),
    )
    source = Source(storage, schema, most)
    blocks = list(executors.run(partial(_typed_block, raw, source, part), texts))
    storage.open().remove(block.name for block in texts)
    return source, blocks, told


# What a task does


def _typed_written(source: Source, part: Part) -> list[Block]:
    table = read_typed(part)
    rows = Rows(np.arange(part.first, part.first + table.row_count), table)
    return list(write_blocks(source.storage.open(), rows, source.most))


def _texts_written(source: Source, part: Part) -> list[Block]:
    place = source.storage.open()
    schema = carried_schema(source.schema)
    blocks: list[Block] = []
    for attempt in read_texts(part):
        place.remove([block.name for block in blocks])
        blocks, first = [], 0
        for some in in_chunks(attempt, source.most):
            blocks.append(_text_block(place, some, first, schema, source))
            first += len(some)
    return blocks


def _text_block(place: Place, texts: pa.Table, first: int, schema: pa.Schema, source: Source) -> Block:
    numbers = pa.array(np.arange(first, first + len(texts)))
    arrays = [column.cast(field.type) for column, field in zip(texts.columns, list(schema)[1:], strict=True)]
    return write_block(place, pa.table([numbers, *arrays], schema=schema), source.schema)


def _fitting(source: Source, columns: Sequence[int], block: Block) -> list[Fitting]:
    """Return for columns the types that all texts of a block fit."""
    texts = source.read(block)
    return [fitting(texts.column(str(c))) for c in columns]


def _typed_block(raw: Source, source: Source, part: Part, block: Block) -> Block:
    """Convert a block of texts to the types of the schema, and write it as a new block."""
    texts = raw.read(block)
    numbers = texts.column("row")
    arrays: list[pa.ChunkedArray] = [numbers]
    for c, column in enumerate(source.schema.columns):
        _, values = typed(
            texts.column(str(c)),
            column.name,
            column.type,
            lambda row: place_in_text(part, numbers[row].as_py()),
            ordered=column.ordered,
            nulls_by_look=part.options.nulls_by_look,
        )
        if pa.types.is_dictionary(values.type):
            values = values.cast(values.type.value_type)
        arrays.append(values)
    schema = carried_schema(source.schema)
    cast = [array.cast(field.type) for array, field in zip(arrays, schema, strict=True)]
    return write_block(source.storage.open(), pa.table(cast, schema=schema), source.schema)
