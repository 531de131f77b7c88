"""The places where the rows of a maintained table can be: in memory, or in blocks on a storage."""
