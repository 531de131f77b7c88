"""Changes that wait before they are published: with `settle: N` for N further batches of their table.

    pending  source NUL id of the constraint   the batch after which the change is due, and its row

If the opposite change follows while a change waits, neither is published. So the published set is the exact one, except
for changes of the last N batches.
"""

from collections.abc import Iterable, Mapping
from functools import partial

from holdfast.constraints import parse_constraint
from holdfast.state import codecs
from holdfast.state.store import Store
from holdfast.streaming.commits.draft import CommitDraft
from holdfast.streaming.commits.output_rows import Described

Delayed = dict[str, tuple[int, Described]]
"""The batch after which a change is due, and the change, by the constraint's id."""


class Settling:
    """The waiting changes of one store.

    Parameters
    ----------
    store : has the waiting changes.
    batches : for how many batches the changes of a table wait; changes of other tables do not wait.
    """

    def __init__(self, store: Store, batches: Mapping[str, int]) -> None:
        self._batches = {table: count for table, count in batches.items() if count}
        self._waiting: dict[str, Delayed] = {table: {} for table in self._batches}
        for table, waiting in self._waiting.items():
            for _, stored in store.scan("pending", _prefix(table)):
                due, row, about = codecs.read_json(stored)
                waiting[about["constraint_id"]] = due, Described(row, about, parse_constraint(about["constraint"]))

    def step(self, table: str, number: int, changes: Iterable[Described], draft: CommitDraft) -> list[Described]:
        """Return the changes to publish with a batch; add the waiting changes to the commit.

        Parameters
        ----------
        number : the number of the batch among those of its table.
        """
        if table not in self._batches:
            return list(changes)
        waiting = dict(self._waiting[table])
        for changed in changes:
            name = changed.about["constraint_id"]
            if name in waiting:  # the opposite: of one constraint changes alternate
                del waiting[name]
            else:
                waiting[name] = number + self._batches[table], changed
        due = [changed for at, changed in waiting.values() if at <= number]
        left = {name: entry for name, entry in waiting.items() if entry[0] > number}
        before = self._waiting[table]
        for name in before.keys() - left.keys():
            draft.change.delete("pending", _prefix(table) + name.encode())
        for name, entry in left.items():
            if before.get(name) != entry:
                at, changed = entry
                stored = codecs.json_bytes((at, changed.row, changed.about))
                draft.change.put("pending", _prefix(table) + name.encode(), stored)
        draft.when_kept(partial(self._waiting.__setitem__, table, left))
        return due


def _prefix(table: str) -> bytes:
    return table.encode() + b"\0"
