"""xtuner's command `xtuner train`: it starts torchrun by itself, told by the environment, with the DeepSpeed config
that --deepspeed names. Its own configs are Python that is not read.

InternLM/xtuner 18e2df8 (0.1) xtuner/entry_point.py and xtuner/tools/train.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dtlint.frameworks import Claim, NamedFile, Reading, torchrun
from dtlint.frameworks.inherited import with_inherited
from dtlint.frameworks.interpreter import program_name
from dtlint.frameworks.options import known_head
from dtlint.languages.json_tree import Document
from dtlint.languages.traced import Word, literal_word, setting_of

LAYER = "xtuner"

_MODULE = "xtuner.tools.train"
_VARIABLES = {
    "NPROC_PER_NODE": "NPROC_PER_NODE",
    "NNODES": "NNODES",
    "NODE_RANK": "NODE_RANK",
    "ADDR": "MASTER_ADDR",
    "PORT": "MASTER_PORT",
}
"""Variables of xtuner, with torchrun's name for each."""


def recognise(document: Document) -> bool:
    """xtuner's files are Python."""
    return False


def recognise_launch(words: Sequence[Word]) -> bool:
    """Whether a command is xtuner's training command."""
    return len(words) > 2 and program_name(words[0]) == "xtuner" and words[1].text == "train"


def recognise_program(program: Sequence[Word]) -> bool:
    """Whether a program is xtuner's trainer."""
    return bool(program) and (program[0].text or "") == _MODULE


def read_launch(words: Sequence[Word], env: Mapping[str, Word]) -> Reading:
    """NPROC_PER_NODE or NNODES make it start torchrun with these variables as options; without them it is one process,
    unless --launcher says that another program starts more.
    """
    module = literal_word(_MODULE, words[1].place)
    if env.keys() & {"NPROC_PER_NODE", "NNODES"}:
        options = {f"PET_{name}": env[own] for own, name in _VARIABLES.items() if own in env}
        reading = with_inherited(torchrun.read_launch(words[:1], options), env, "ADDR")
    elif any(known_head(word).startswith("--launcher") for word in words):
        reading = Reading("python", words[0].place, (Claim("launch.launcher", setting_of(words[0], "python")),))
    else:
        reading = Reading("python", words[0].place, _one_process(words[0]))
    return reading._replace(rest=(module, *words[2:]))


def read_program(program: Sequence[Word]) -> Reading:
    """The DeepSpeed config that is named; what the config in Python says is not known."""
    place = program[0].place
    named = next((word for word in program[1:] if not word.shown.startswith("--")), None)
    why = f"{named.shown} is not read" if named is not None else "the config is not known"
    found = [
        word.part(len("--deepspeed=")) if word.shown.startswith("--deepspeed=") else after
        for word, after in zip(program[1:], (*program[2:], None), strict=True)
        if known_head(word).partition("=")[0] == "--deepspeed"
    ]
    files = tuple(NamedFile("deepspeed", word) for word in found[-1:] if word is not None)
    return Reading("program", place, files=files, framework="deepspeed" if files else "", open=why)


def read_config(documents: Sequence[Document], words: Sequence[Word] = ()) -> Reading:
    """Never asked: no file of xtuner's is read."""
    return Reading(LAYER)


def _one_process(command: Word) -> tuple[Claim, ...]:
    return (
        Claim("launch.launcher", setting_of(command, "python"), command.shown),
        Claim("launch.processes", setting_of(command, 1), command.shown),
    )
