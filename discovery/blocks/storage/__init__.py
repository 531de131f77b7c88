"""Blocks of rows in files: written, read, sorted, marked, and changed by batches."""
