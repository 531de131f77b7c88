"""Denial constraints: discovery on a table, and covers that follow its evidences."""
