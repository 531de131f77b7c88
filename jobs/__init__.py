"""The command line, and one file a job."""
