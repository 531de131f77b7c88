"""One table: its rows and all families that are maintained on it, from batch to batch."""
