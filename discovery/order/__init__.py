"""Order dependencies of a table as it stands [HyOD]."""
