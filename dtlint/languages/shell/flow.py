"""How commands leave their place: exit, return, break and continue."""

from __future__ import annotations


class Leave(Exception):  # noqa: N818 - control flow of the script that is followed
    """Ends what runs, up to where it is caught."""


class ExitShell(Leave):
    """`exit`: ends the shell process."""


class ReturnFromFunction(Leave):
    """`return`: ends the function or sourced file."""


class LeaveLoop(Leave):
    """`break`: ends `levels` loops."""

    def __init__(self, levels: int) -> None:
        super().__init__()
        self.levels = levels


class NextRound(LeaveLoop):
    """`continue`: goes to the next round of the loop `levels` outwards."""
