"""Constraints searched on tables in blocks, and batches of rows against all blocks."""
