"""The output tables: their columns, their writers, and the publisher, which publishes each commit in order and once."""
