"""Remembers what was asked for lately, so that a tree of any size is read in bounded memory."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Kept = TypeVar("Kept")


class Recent(Generic[Key, Kept]):
    """Values by key; `forget_older` drops those that nobody has asked for since it was called last."""

    __slots__ = ("_new", "_old")

    def __init__(self) -> None:
        self._new: dict[Key, Kept] = {}
        self._old: dict[Key, Kept] = {}

    def get(self, key: Key) -> Kept | None:
        """The value of a key, None if it has none."""
        found = self._new.get(key)
        if found is None:
            found = self._old.pop(key, None)
            if found is not None:
                self._new[key] = found
        return found

    def keep(self, key: Key, value: Kept) -> Kept:
        """Remember a value, which is given back."""
        self._new[key] = value
        return value

    def forget_older(self) -> tuple[Kept, ...]:
        """Drop what was not asked for since the last time, and return it."""
        dropped = tuple(self._old.values())
        self._old, self._new = self._new, {}
        return dropped
