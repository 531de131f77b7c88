"""From a source of changes to the output tables."""
