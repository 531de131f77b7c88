"""The output tables: their shapes, who writes them, and the publisher that does so in order and once."""
