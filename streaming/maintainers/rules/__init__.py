"""Declared rules, and how many pairs and rows break each."""
