"""Runs the command line: `python -m holdfast`."""

from holdfast.jobs.command_line import main

if __name__ == "__main__":
    main()
