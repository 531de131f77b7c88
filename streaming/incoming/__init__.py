"""From the records of a micro-batch to the rows that are inserted into a table and deleted from it."""
