"""What keeps constraints exact from batch to batch."""
