"""The output tables, read: one module a view, each with an index in memory of what it is asked for.

Invariant: what was read is of one moment of each table; a reader never writes.
"""
