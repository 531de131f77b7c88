"""Typed rows in columns: readers, inference, order-preserving keys."""
