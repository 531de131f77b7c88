"""What a job refuses that is neither the data's nor the configuration's fault."""

from holdfast.constraints import UsageError


class NotBuiltYet(UsageError):
    """The command is known and its arguments are good; this version cannot do it."""

    def __init__(self, command: str) -> None:
        super().__init__(f"holdfast {command} is not part of this version yet.")
