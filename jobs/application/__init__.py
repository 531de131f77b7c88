"""What the commands on live tables are made of: a configuration's state, sources and outputs, opened and kept."""
