"""Compiled loops over bytes and arrays: no objects, no allocation, names end in `_kernel`."""
