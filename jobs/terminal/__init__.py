"""What commands write for people: lines, progress, logs."""
