"""What a commit writes: changes of the state, rows for the output tables, and what is noted of each table."""
