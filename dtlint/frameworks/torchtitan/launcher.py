"""torchtitan's run_train.sh, which starts its training under torchrun as variables tell it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dtlint.frameworks import Reading, torchrun
from dtlint.frameworks.interpreter import program_name
from dtlint.languages.traced import Word, literal_word

NAME = "run_train.sh"
_SHELLS = ("bash", "sh")
_OPTIONS = {"CONFIG_FILE": "--job.config_file", "MODULE": "--module", "CONFIG": "--config"}
"""Variables that choose the config, with the options that they become (main has the last two)."""
_GPUS = "8"
"""Processes where NGPU is not set (v0.2.2 run_train.sh)."""


def recognise(words: Sequence[Word], env: Mapping[str, Word]) -> bool:
    """Whether a command is the script with a config chosen."""
    return _script(words) is not None and any(name in env for name in _OPTIONS)


def read_launch(words: Sequence[Word], env: Mapping[str, Word]) -> Reading:
    """What the script starts: NGPU processes on this machine; `rest` is the program with its arguments."""
    start = _script(words) or 0
    here = words[start]
    counts = {"PET_NPROC_PER_NODE": env.get("NGPU", literal_word(_GPUS, here.place))}
    reading = torchrun.read_launch((literal_word("torchrun", here.place),), counts)
    chosen = [
        word for name, flag in _OPTIONS.items() if name in env for word in (literal_word(flag, here.place), env[name])
    ]
    return reading._replace(rest=(literal_word("torchtitan.train", here.place), *chosen, *words[start + 1 :]))


def _script(words: Sequence[Word]) -> int | None:
    """Where the script's name stands; None for another command."""
    start = 1 if words and program_name(words[0]) in _SHELLS else 0
    return start if len(words) > start and program_name(words[start]) == NAME else None
