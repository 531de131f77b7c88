"""Alerts: the messages about a commit, and how they are sent."""
