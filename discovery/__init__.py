"""Searches for constraints on whole tables, and the structures that keep what holds as tables change."""
