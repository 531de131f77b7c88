"""What survives a restart: stores, codecs, the commit."""
