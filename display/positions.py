"""The position of a batch in its source, in words: files, offsets of partitions, or versions of a table."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

_MOST = 3


def position_in_words(row: Mapping[str, Any]) -> str | None:
    """Return the position of a row of `batches`; None where its source says nothing that people know.

    >>> position_in_words({"files": '["/in/orders-17.json"]', "start_offsets": "", "end_offsets": '{"logOffset":3}'})
    'file orders-17.json'
    >>> kafka = {"start_offsets": '{"orders":{"0":10,"1":4}}', "end_offsets": '{"orders":{"0":14,"1":4}}'}
    >>> position_in_words(kafka)
    'orders, partition 0, offsets 10 to 13'
    >>> position_in_words({"start_offsets": "", "end_offsets": '{"reservoirVersion":12,"index":-1}'})
    'version 12'
    """
    files = _read(row.get("files"))
    if isinstance(files, list) and files:
        return _listed("file", "files", [str(name).rsplit("/", 1)[-1] for name in files])
    start, end = (_read(row.get(name)) for name in ("start_offsets", "end_offsets"))
    if not isinstance(end, dict):
        return None
    if isinstance(version := end.get("reservoirVersion"), int):
        return f"version {version}"
    parts = [
        f"{topic}, partition {number}, offsets {_first(start, topic, number)} to {last - 1}"
        for topic, partitions in end.items()
        if isinstance(partitions, dict)
        for number, last in partitions.items()
        if isinstance(last, int) and _first(start, topic, number) < last
    ]
    return _listed("", "", parts) if parts else None


def _first(start: Any, topic: str, number: str) -> int:
    partitions = start.get(topic) if isinstance(start, dict) else None
    first = partitions.get(number) if isinstance(partitions, dict) else None
    return first if isinstance(first, int) else 0


def _listed(one: str, many: str, names: Sequence[str]) -> str:
    """Return names as one text, with the number of those that are left out."""
    more = f" and {len(names) - _MOST} more" if len(names) > _MOST else ""
    return f"{one if len(names) == 1 else many} {'; '.join(names[:_MOST])}{more}".strip()


def _read(text: str | None) -> Any:
    try:
        return json.loads(text) if text else None
    except ValueError:  # the text of another source
        return None
