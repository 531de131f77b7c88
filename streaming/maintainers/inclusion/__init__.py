"""Unary inclusion dependencies across the maintained tables."""
