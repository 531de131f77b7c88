"""The domain: columns, predicates, constraints, changes and their text forms."""
