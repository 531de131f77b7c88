"""Holdfast keeps the exact set of constraints that hold on live tables."""

__version__ = "0.1.0"
