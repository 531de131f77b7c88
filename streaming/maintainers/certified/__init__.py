"""Families whose constraints a certificate proves complete: denial constraints and order dependencies."""
