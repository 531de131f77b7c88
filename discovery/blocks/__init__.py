"""Tables larger than one machine: rows in immutable blocks, searched by tasks that each read a few blocks.

storage      blocks, the orders that they are sorted in, tables that change, lookups
search       violations of constraints, and batches of rows against all blocks
counting     violations of rules, partners of rows, exceptions of near constraints
values       the values of columns, for inclusion dependencies
executors    where tasks run
discover     discovery on tables in blocks, all families
"""
