"""The values of columns in blocks: what inclusion dependencies need."""
