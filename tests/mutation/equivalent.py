"""Mutants of the core that nothing can tell from the original, each with the reason."""

_ONLY_PLACES = "where a hash puts something does not show: it is looked for with the same hash"
_WRITTEN_FIRST = "every element is written before it is read"

EQUIVALENT: dict[str, str] = {
    "indexes/kernels/evidences.py::hash_kernel::29 -> 30#0": _ONLY_PLACES,
    "discovery/kernels/hitting_sets.py::enumerate_kernel::0 -> -1#4": "the array has one element",
    "discovery/evidence/violations.py::_Walk.__init__::np.zeros -> np.ones#3": _WRITTEN_FIRST,
    "indexes/counting_index.py::CountingIndex.follow"
    "::2 * len(delta.changed) > len(self._rows) -> 2 * len(delta.changed) >= len(self._rows)#0": (
        "trees that are made anew and trees that follow hold the same rows"
    ),
    "indexes/curve.py::interleaved::CELLS.bit_length() - 1 -> CELLS.bit_length() + 1#0": (
        "cells are below CELLS: the bits beyond are 0"
    ),
    "indexes/kernels/rows.py::place_kernel::mixed ^= mixed >> uint64(29) -> pass#0": _ONLY_PLACES,
}
