"""The flags of a command line that argparse reads (`--bf16 True`, `--max_steps=100`), each with its values."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from dtlint.frameworks.options import Option, canonical, is_hidden, known_head, not_a, why_open
from dtlint.languages.traced import Word, setting_of
from dtlint.record import NamedTuple
from dtlint.value import Setting, Unknown, Value, truth


class Flags(NamedTuple):
    """The last flag of each name (no dashes in front, `-` for `_`), words that belong to none, and why flags may be
    hidden from us ("" if they can't be).
    """

    flags: Mapping[str, Option]
    positional: tuple[Word, ...] = ()
    open: str = ""

    def first(self, names: Collection[str]) -> Option | None:
        """The flag of the first of these names that is given."""
        return next((self.flags[name] for name in names if name in self.flags), None)

    def word(self, name: str) -> str:
        """The value of a flag where it is known, in small letters; "" where it is absent or unknown."""
        option = self.flags.get(name)
        return (option.value.text or "").lower() if option is not None and option.value is not None else ""

    def on(self, name: str) -> bool | None:
        """Whether a switch is on: False where it is absent, None where its value is not known."""
        option = self.flags.get(name)
        if option is None:
            return False
        found = switch(option)
        return bool(found.value) if isinstance(found, Value) else None


class Split(NamedTuple):
    """The last flag of each name, those that a later one of the name overrides, words that belong to none, and why
    flags may be hidden from us ("" if they can't be).
    """

    flags: Mapping[str, Option]
    repeated: tuple[Option, ...]
    positional: tuple[Word, ...]
    open: str


def read_flags(words: Sequence[Word], switches: Collection[str] = ()) -> Flags:
    """Split a list of arguments at the words that begin with `--`; what follows a flag are its values.

    An unquoted unknown word may be any number of words: the first one behind a flag is its value, unless the flag is
    one of `switches`, which need none, and the word is called a list of arguments; elsewhere it hides flags.
    """

    def most_values(name: str, after: Sequence[Word]) -> int:
        first = 0 if name in switches and not (after and _is_one_value(after[0])) else 1
        return next((index for index, word in enumerate(after) if word.many and index >= first), len(after))

    split = split_flags(words, most_values)
    return Flags(split.flags, split.positional, split.open)


_SEVERAL = re.compile(r"arg|opt|flag|param|extra|other|more|common|command|cmd|[@*\[]", re.IGNORECASE)
"""What the name of a variable says that holds arguments, and not the value of one."""


def _is_one_value(word: Word) -> bool:
    """Whether an unknown word behind a switch is its value (`--gradient_checkpointing $recompute`)."""
    return word.many and not word.adds_none and not _SEVERAL.search(word.place.text)


def split_flags(words: Sequence[Word], most_values: Callable[[str, Sequence[Word]], int]) -> Split:
    """Split as argparse does: a word that begins with `--` is a flag, its values follow. `most_values` tells of a
    canonical name and of the words up to the next flag how many of them are its values.
    """
    flags: dict[str, Option] = {}
    repeated: list[Option] = []
    positional: list[Word] = []
    hidden = ""
    for group in _groups(words):
        option, extra = _option(group, most_values)
        positional.extend(extra)
        hidden = hidden or next((why_open(word) for word in extra if word.many or is_hidden(word)), "")
        if option is None:
            continue
        if option.name in flags:
            repeated.append(flags.pop(option.name))
        flags[option.name] = option
    return Split(flags, tuple(repeated), tuple(positional), hidden)


def names_of(words: Sequence[Word]) -> Iterator[str]:
    """The canonical names of all flags in a list of words."""
    return (canonical(known_head(word).partition("=")[0]) for word in words if _is_flag(word))


def switch(option: Option) -> Setting:
    """A flag that is on where it stands alone, else as the words that Python programs take for true and false say."""
    word = option.value
    if word is None:
        return setting_of(option.flag, True)
    setting = setting_of(word)
    if isinstance(setting, Unknown):
        return setting
    value = truth(word.text or "")
    return setting_of(word, value) if value is not None else not_a(word, "true or false")


def _groups(words: Sequence[Word]) -> list[list[Word]]:
    """Each flag with the words up to the next; the words before the first flag come first."""
    groups: list[list[Word]] = [[]]
    for word in words:
        if _is_flag(word):
            groups.append([word])
        else:
            groups[-1].append(word)
    return groups


def _is_flag(word: Word) -> bool:
    return known_head(word).startswith("--") and not is_hidden(word)


def _option(
    group: Sequence[Word], most_values: Callable[[str, Sequence[Word]], int]
) -> tuple[Option | None, Sequence[Word]]:
    """The flag of a group, and the words that are not its values."""
    if not group or not _is_flag(group[0]):
        return None, group
    flag, after = group[0], group[1:]
    name, equals, _ = known_head(flag).partition("=")
    if equals:
        return Option(canonical(name), flag, (flag.part(len(name) + 1),)), after
    limit = most_values(canonical(name), after)
    return Option(canonical(name), flag, tuple(after[:limit])), after[limit:]
