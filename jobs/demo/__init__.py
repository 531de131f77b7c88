"""`holdfast demo`: its tables, its changes, and what it tells of them."""
