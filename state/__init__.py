"""The state that survives a restart: stores, codecs, commits, log and snapshots."""
