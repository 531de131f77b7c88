"""Readers of the output tables, a module for each view, with indexes in memory.

Invariant: a reader sees one version of each table, and never writes.
"""
