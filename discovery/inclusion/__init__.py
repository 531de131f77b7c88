"""Unary inclusion dependencies among all columns of some tables [IncIND]."""
