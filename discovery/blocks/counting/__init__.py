"""Violations and exceptions counted on tables in blocks."""
