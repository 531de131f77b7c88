"""Denial constraints of a table as it stands."""
