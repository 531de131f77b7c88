"""The rows of one table made searchable."""
