"""The maintainers, which keep constraints and rules exact from batch to batch."""
