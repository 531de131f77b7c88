"""The values of columns in blocks, for inclusion dependencies."""
