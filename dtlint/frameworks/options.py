"""How getopt and argparse split the words of a command: options, their values, and the program that follows them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from dtlint.frameworks.lengths import at_most
from dtlint.languages.traced import Word, setting_of
from dtlint.record import NamedTuple
from dtlint.source import Span
from dtlint.value import Origin, Setting, Unknown

MOST_VALUES = 2
"""Words that an option of a launcher takes at most."""
CUT = "a blank behind a backslash ends the command"
"""Why options are hidden that were meant to follow in the next line."""


class Option(NamedTuple):
    """One option as written: its canonical name (no dashes in front, `-` for `_`), the flag's word, and its values.

    `instead` is the word that follows where a value is missing, the next option or the program.
    """

    name: str
    flag: Word
    values: tuple[Word, ...] = ()
    instead: Word | None = None

    @property
    def spelled(self) -> str:
        """The flag as the user writes it, without its value."""
        return known_head(self.flag).partition("=")[0]

    @property
    def value(self) -> Word | None:
        """The first value, None if the option has none."""
        return self.values[0] if self.values else None

    @property
    def place(self) -> Span:
        """Where the flag is literally written."""
        return literal_place(self.flag)


class Grammar(NamedTuple):
    """The options that a command has.

    `long` maps canonical names to the number of values that follow, `short` maps letters to canonical names. `dashed`
    are long names that may be written with a single dash (`mpirun -np 8`), `pairs` those whose two values may be one
    word (`-env NAME=VALUE`). `spelled` maps every spelling to its canonical name where the command takes no others;
    empty where `-` and `_` are the same to it. `argparse` is whether argparse reads them, to which a word that begins
    as an option does is no value; nor is a Python file one of any option here: it is the program behind an option whose
    value is missing.
    """

    long: Mapping[str, int]
    short: Mapping[str, str] = {}
    dashed: frozenset[str] = frozenset()
    pairs: frozenset[str] = frozenset()
    spelled: Mapping[str, str] = {}
    argparse: bool = False

    def named(self, name: str) -> str | None:
        """The option that a word without the dashes in front stands for, or an unambiguous beginning of one."""
        if not self.spelled:
            return resolve(canonical(name), self.long)
        found = resolve(name, self.spelled)
        return None if found is None else self.spelled[found]


class Split(NamedTuple):
    """A command's words apart.

    `options` in the order in which they are written, `unknown` those that the command does not have, `rest` the first
    positional word and all after it, `open` why options may be hidden from us ("" if they can't be).
    """

    options: tuple[Option, ...]
    unknown: tuple[Option, ...]
    rest: tuple[Word, ...]
    open: str = ""

    def last(self, name: str) -> Option | None:
        """The occurrence of an option that counts: the last."""
        return next((option for option in reversed(self.options) if option.name == name), None)


def split_options(words: Sequence[Word], grammar: Grammar) -> Split:
    """Take the options off the front of `words` (the command's own name left out), up to the first positional word.

    A word that stands for several unknown ones is taken for options, unless what follows shows that it held the
    program: then `rest` starts with it. Where a broken continuation ends the command before the program there is none.
    """
    options: list[Option] = []
    strange: list[Option] = []
    hidden: list[int] = []
    index = 0
    while index < len(words):
        word = words[index]
        head = known_head(word)
        if is_hidden(word):
            hidden.append(index)
            index += 1
            continue
        if word.text == "--":
            index += 1
            break
        if is_cut(word):
            return Split(tuple(options), tuple(strange), (), CUT)
        if not head.startswith("-") or head == "-":
            break
        read = _read_option(word, words[index + 1 : index + 1 + MOST_VALUES], grammar)
        if read.unknown and hidden:
            return Split(tuple(options), tuple(strange), tuple(words[hidden[0] :]), why_open(words[hidden[0]]))
        (strange if read.unknown else options).extend(read.options)
        index += 1 + read.taken
    start = hidden[0] if hidden and index >= len(words) else index
    return Split(tuple(options), tuple(strange), tuple(words[start:]), why_open(words[hidden[0]]) if hidden else "")


def known_head(word: Word) -> str:
    """The characters of a word before its first unknown one."""
    known: list[str] = []
    for piece in word.pieces:
        if piece.text is None:
            break
        known.append(piece.text)
    return "".join(known)


def is_hidden(word: Word) -> bool:
    """Whether a word may be any option: several unknown words, or a flag whose name is not known (`--$X`)."""
    head = known_head(word)
    nameless = word.text is None and head in ("-", "--")
    return nameless or (word.many and not head) or (word.text is None and head.startswith("--") and "=" not in head)


def is_cut(word: Word) -> bool:
    """Whether a word is the blank behind a backslash that was to join the next line, or the comment behind both, or the
    backslash that is left of them in a text; no program has such a name.
    """
    known = word.text or ""
    return known == "\\" or (known != known.lstrip() and known.lstrip()[:1] in ("", "#"))


def literal_place(word: Word) -> Span:
    """Where the first characters of a word are literally written."""
    return word.pieces[0].span if word.pieces else word.place


def why_open(word: Word) -> str:
    """Why a word that stands for several hides options: the reason that the shell reader gives."""
    return next((piece.unknown for piece in word.pieces if piece.text is None and piece.unknown), "the list is open")


def canonical(name: str) -> str:
    """An option's name without dashes in front and with `-` for `_`."""
    return name.lstrip("-").replace("_", "-")


def resolve(name: str, names: Collection[str]) -> str | None:
    """The option that a name or an unambiguous beginning of one stands for."""
    if name in names:
        return name
    near = [each for each in names if each.startswith(name)] if name else []
    return near[0] if len(near) == 1 else None


def integer(word: Word | None) -> Setting:
    """A word as a whole number; Unknown if it is not one."""
    if word is None:
        return Unknown("the option has no value")
    setting = setting_of(word)
    if isinstance(setting, Unknown):
        return setting
    number = whole(word.text or "")
    return not_a(word, "a whole number") if number is None else setting_of(word, number)


def bound(word: Word | None) -> Setting:
    """The length of the longest sample, which does not tell how long the samples are: an assumed one."""
    return at_most(integer(word))


def left_empty(word: Word) -> str:
    """ "yes" for a value that is empty because the variable that stands there is, which a caller fills; else ""."""
    return "yes" if word.text == "" and "$" in word.place.text else ""


def whole(text: str) -> int | None:
    """The whole number that Python's int() would read, None if it would refuse, or no machine could count so far."""
    try:
        return int(text) if len(text) <= 40 else None
    except ValueError:
        return None


def is_number(text: str) -> bool:
    """Whether Python's float() reads a text."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def number(word: Word | None) -> Setting:
    """A word as a number; Unknown if it is not a finite one."""
    if word is None:
        return Unknown("the option has no value")
    setting = setting_of(word)
    if isinstance(setting, Unknown):
        return setting
    try:
        value = float(word.text or "")
    except ValueError:
        return not_a(word, "a number")
    return setting_of(word, value) if abs(value) < float("inf") else not_a(word, "a finite number")


def not_a(word: Word, what: str) -> Unknown:
    """The Unknown for a word of the wrong kind."""
    reason = f"`{word.shown}` is not {what}" if word.shown else f"the value is empty, not {what}"
    return Unknown(reason, "", Origin("written", literal_place(word)))


def text_of(word: Word | None) -> Setting:
    """A word as text."""
    return Unknown("the option has no value") if word is None else setting_of(word)


class _Read(NamedTuple):
    """What one word gave: options, whether the last is unknown, and how many words after it are values."""

    options: tuple[Option, ...]
    unknown: bool = False
    taken: int = 0


def _read_option(word: Word, after: Sequence[Word], grammar: Grammar) -> _Read:
    head = known_head(word)
    name = head.partition("=")[0]
    if name.startswith("--") or canonical(name) in grammar.dashed:
        return _read_long(word, after, name, grammar)
    return _read_letters(word, after, grammar)


def _read_long(word: Word, after: Sequence[Word], name: str, grammar: Grammar) -> _Read:
    attached = (word.part(len(name) + 1),) if "=" in known_head(word) else ()
    found = grammar.named(name.lstrip("-"))
    if found is None:
        return _Read((Option(canonical(name), word, attached),), unknown=True)
    if attached:
        return _Read((Option(found, word, attached),))
    paired = found in grammar.pairs and bool(after) and "=" in after[0].shown
    values = tuple(after[: 1 if paired else grammar.long[found]])
    if grammar.argparse and values and _is_no_value(values[0]):
        return _Read((Option(found, word, instead=values[0]),))
    return _Read((Option(found, word, values),), taken=len(values))


def _is_no_value(word: Word) -> bool:
    """Whether a word is the next option, or the program."""
    text = word.text or ""
    return (text.startswith("--") and " " not in text) or text.endswith(".py")


def _read_letters(word: Word, after: Sequence[Word], grammar: Grammar) -> _Read:
    """`-lu`, `-n8`, `-n 8`: flags of one letter, the last of which may take a value (`-K1`: an optional one)."""
    flags: tuple[Option, ...] = ()
    for position, letter in enumerate(known_head(word)[1:], 1):
        name = grammar.short.get(letter)
        if name is None and flags and not letter.isalpha():
            return _Read((*flags[:-1], flags[-1]._replace(values=(word.part(position),))))
        if name is None:
            return _Read((*flags, Option(known_head(word).lstrip("-"), word)), unknown=True)
        if not grammar.long[name]:
            flags += (Option(name, word),)
            continue
        attached = word.part(position + 1 + word.shown.startswith("=", position + 1))
        if attached.pieces:
            return _Read((*flags, Option(name, word, (attached,))))
        values = tuple(after[: grammar.long[name]])
        return _Read((*flags, Option(name, word, values)), taken=len(values))
    return _Read(flags)
