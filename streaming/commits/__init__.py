"""The contents of a commit: changes of the state, rows for the output tables, and the progress of each table."""
