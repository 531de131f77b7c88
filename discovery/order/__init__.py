"""Order dependencies [HyOD]: discovery on a table, and contexts that follow its evidences."""
