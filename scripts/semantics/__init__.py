"""What a fact about the exchange of gradients is: a sentence, the rules that rest on it, and what shows it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple


class Fact(NamedTuple):
    """One behaviour of torch or DeepSpeed.

    `run` is called on each of two ranks in one gloo group and returns what that rank sees; its docstring says what it
    does. `expected` is what ranks 0 and 1 must see, worked out from the sentence by hand. `rules` are the names of the
    rules that rely on it.
    """

    run: Callable[[], str]
    says: str
    rules: tuple[str, ...]
    expected: tuple[str, str]

    @property
    def name(self) -> str:
        """The name of the function that shows it."""
        return self.run.__name__
