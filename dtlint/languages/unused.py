"""What a program holds and nothing in it uses: classes, methods, and attributes that keep their first value."""

from __future__ import annotations

from typing import Literal

from dtlint.record import NamedTuple

HOLDERS = ("args", "arguments", "opt", "opts", "options", "config", "cfg", "conf", "hparams", "FLAGS", "flags")
"""Ends of the names of objects that hold a program's settings: what is read of them is a value and no method
(`args.do_train`).
"""


class Unused(NamedTuple):
    """A class that nothing builds, a method that nothing calls, a function that nothing calls but those `by`, which
    nothing calls either, an attribute of an object that nothing sets but the
    methods `by`, and these nothing calls, or what follows the reading of an attribute (in the function `by`, if any)
    that an object does not have, or a call that Python refuses (`by` says what for); or a parameter that no caller
    gives, with the number of arguments `before` it (None where it is given by name only).
    """

    kind: Literal["class", "method", "function", "attribute", "object", "call", "parameter"]
    name: str
    by: tuple[str, ...] = ()
    before: int | None = None

    @property
    def said(self) -> str:
        """Why a place that rests on it is not come to."""
        if self.kind == "object":
            owner, _, attribute = self.name.rpartition(".")
            reader = self.by[0] if self.by else "the program"
            return f"the program stops before: {reader} reads {attribute} of an object of {owner}, which has none"
        if self.kind == "call":
            return f"the program stops before: {self.name} {self.by[0]}"
        if self.kind == "parameter":
            owner, _, parameter = self.name.rpartition(".")
            return f"nothing here gives {owner} its {parameter}, and by default this is passed by"
        if self.kind != "attribute":
            return f"nothing here calls {self.name}"
        changing = f"calls {self.by[0]}" if self.by else "changes it"
        return f"{self.name} keeps its first value: nothing here {changing}"
