"""ms-swift's commands `swift sft` and `megatron sft`: they start torchrun by themselves, told by the environment."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from dtlint.frameworks import Claim, Reading, torchrun
from dtlint.frameworks.inherited import with_inherited
from dtlint.frameworks.interpreter import program_name
from dtlint.languages.traced import Word, setting_of

_TASKS = ("pt", "sft", "rlhf")
_VARIABLES = ("NPROC_PER_NODE", "NNODES", "NODE_RANK", "MASTER_ADDR")


def recognise(words: Sequence[Word]) -> bool:
    """Whether a command is a training command of ms-swift."""
    return len(words) > 1 and program_name(words[0]) in ("swift", "megatron") and words[1].text in _TASKS


def read_launch(words: Sequence[Word], env: Mapping[str, Word]) -> Reading:
    """What the command starts; `rest` is the task (`sft`) with the arguments of the training program.

    NPROC_PER_NODE or NNODES make it start torchrun with these variables as options (swift/cli/main.py); without them it
    is one process.
    """
    if env.keys() & {"NPROC_PER_NODE", "NNODES"}:
        options = {"PET_" + name: env[name] for name in _VARIABLES if name in env}
        reading = with_inherited(torchrun.read_launch(words[:1], options), env)
    else:
        reading = _one_process(words[0])
    return reading._replace(rest=tuple(words[1:]), frontend="ms-swift")


def _one_process(command: Word) -> Reading:
    claims = (
        Claim("launch.launcher", setting_of(command, "python"), command.shown),
        Claim("launch.processes", setting_of(command, 1), command.shown),
    )
    return Reading("python", command.place, claims)
