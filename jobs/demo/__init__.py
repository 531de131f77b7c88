"""`holdfast demo`: its table, its changes, and its account of them."""
