"""Compiled loops over arrays: no objects, no allocation, names end in `_kernel`."""
