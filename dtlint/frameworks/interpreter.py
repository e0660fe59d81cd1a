"""What a command starts: the program's name, and what a Python interpreter runs."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dtlint.frameworks.options import known_head
from dtlint.languages.traced import Word
from dtlint.record import NamedTuple

LAUNCHERS = frozenset(
    (
        "torchrun", "deepspeed", "accelerate", "llamafactory-cli", "axolotl", "swift", "megatron", "xtuner", "composer",
        "tune", "horovodrun", "colossalai", "trl", "hyperpodrun",
    )
)  # fmt: skip
"""Programs that start training processes. Those without a reader of their own are listed, with nothing claimed."""

_INTERPRETER = r"(?:i?python|pypy)[0-9.]*t?(?:\.exe)?"
_MODULE = r"-[bBdEhiIOPqRsSuvV]*m"
_TAKES_VALUE = ("-W", "-X", "--check-hash-based-pycs")


class PythonProgram(NamedTuple):
    """What an interpreter runs: `kind` is "script" or "module", `words` its name and its arguments."""

    kind: str
    words: tuple[Word, ...]


def program_name(word: Word) -> str:
    """The last part of a command's path, `?` where it is unknown (`$ENV/bin/torchrun` is torchrun)."""
    return word.shown.rsplit("/", 1)[-1]


def python_program(words: Sequence[Word]) -> PythonProgram | None:
    """The script or module that a command of a Python interpreter runs; None for another command and for `-c` code.

    An interpreter named by an unknown word (`$PYTHON`) is recognised by what follows it: an option or a `.py` file.
    """
    if not words or not _is_interpreter(words):
        return None
    index = 1
    while index < len(words):
        head = known_head(words[index])
        module = re.match(_MODULE, head)
        if module:
            attached = words[index].part(module.end())
            rest = words[index + 1 :]
            return PythonProgram("module", tuple([attached, *rest] if attached.pieces else rest))
        if head.startswith("-c") or head == "-":
            return None
        if not head.startswith("-") and not _holds_options(words, index):
            return PythonProgram("script", tuple(words[index:]))
        index += 2 if head in _TAKES_VALUE else 1
    return None


def _is_interpreter(words: Sequence[Word]) -> bool:
    if re.fullmatch(_INTERPRETER, program_name(words[0])):
        return True
    if "?" not in program_name(words[0]) or len(words) < 2 or words[0].text is not None:
        return False
    return known_head(words[1]).startswith(("-m", "-u")) or words[1].shown.endswith(".py")


def _holds_options(words: Sequence[Word], index: int) -> bool:
    """Whether an unknown word (`python $FLAGS -m x`) stands before an option of the interpreter."""
    after = known_head(words[index + 1]) if index + 1 < len(words) else ""
    return words[index].many and not known_head(words[index]) and after.startswith(("-m", "-u"))
