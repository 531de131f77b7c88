"""Where the rows of a maintained table are: in memory, or in blocks on a storage."""
