"""From the records of a micro-batch to the rows that enter and leave a table."""
