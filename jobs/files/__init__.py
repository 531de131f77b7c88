"""What the commands on files read and write."""
