"""What the tasks of a scheduler (srun, mpirun) run: the training program itself, or a launcher that starts it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dtlint.frameworks.interpreter import program_name, python_program
from dtlint.languages.traced import Word

_LAUNCHER_MODULES = ("torch.distributed.", "accelerate.", "deepspeed.launcher")
_LAUNCHER = (
    r"torchrun|torch\.distributed|\bdeepspeed\b|\baccelerate\b|\bswift\b|\bmegatron\b|\bcomposer\b|\bcolossalai\b"
)
_PYTHON = r"\bpython[\d.]*\s"


def are_processes(words: Sequence[Word]) -> bool:
    """Whether each task that runs `words` is one training process: a Python program that no launcher starts.

    The text of a `bash -c` is judged by the names in it.
    """
    from dtlint.frameworks.wrappers import unwrap_all

    _, inside = unwrap_all(words)
    if not inside:
        return False
    if program_name(inside[0]) in ("bash", "sh"):
        return _is_program_text(inside[-1].shown) if len(inside) > 2 else False
    program = python_program(inside)
    return program is not None and bool(program.words) and not program.words[0].shown.startswith(_LAUNCHER_MODULES)


def _is_program_text(text: str) -> bool:
    return re.search(_PYTHON, text) is not None and re.search(_LAUNCHER, text) is None
