"""The output of commands: options, lines, progress, logs."""
