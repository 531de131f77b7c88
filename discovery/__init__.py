"""Batch algorithms: what holds on a table as it stands."""
