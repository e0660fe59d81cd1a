"""Programs that `accelerate launch` starts and that build no Accelerator: the launcher starts their processes, and what
its config says of an engine, a format or a batch is left in variables that nothing reads.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from dtlint.frameworks import Reading
from dtlint.runs.beside import ACCELERATE, DEEPSPEED
from dtlint.runs.tree import Tree
from dtlint.source import Source

if TYPE_CHECKING:
    from dtlint.languages.python.program import Program

_LAUNCHED = frozenset((ACCELERATE, "accelerate-flags"))
_BARE = frozenset((
    *sys.stdlib_module_names, "torch", "torchvision", "torchaudio", "torchmetrics", "numpy", "scipy", "pandas",
    "sklearn", "matplotlib", "seaborn", "tqdm", "transformers", "tokenizers", "datasets", "sentencepiece",
    "huggingface_hub", "safetensors", "peft", "bitsandbytes", "flash_attn", "einops", "timm", "PIL", "cv2", "yaml",
    "omegaconf", "hydra", "wandb", "tensorboard", "tensorboardX", "requests", "openai", "httpx", "regex", "rich",
    "nltk", "h5py", "psutil",
))  # fmt: skip
"""Packages that build no Accelerator for a program that only imports them, but for a Trainer of Transformers."""
_TRAINERS = re.compile(r"\btransformers\.(?:\w{0,60}Train|integrations|deepspeed|\*)|TrainingArguments|\bAccelerator\(")
"""What is imported from Transformers, or reached in it, and builds one."""
_STEP = "backward"
_OF_FILES = frozenset(("config.conflicts", "config.inert"))
"""Collections of what Accelerate makes of its keys where it is built."""


def without_engine(readings: tuple[Reading, ...], sources: Sequence[Source], tree: Tree) -> tuple[Reading, ...]:
    """The readings of a launch, without what Accelerate's config says where the program builds no Accelerator."""
    program = next((source for source in sources if source.path.endswith(".py")), None)
    launched = any(reading.layer in _LAUNCHED for reading in readings)
    if program is None or not launched or not trains_alone([program], tree):
        return readings
    return tuple(as_launched(readings))


def as_launched(readings: Iterable[Reading]) -> Iterable[Reading]:
    """What is left of readings where the launcher starts processes and nothing else comes of its config."""
    return (_of_processes(each) if each.layer in _LAUNCHED else each for each in readings if each.layer != DEEPSPEED)


def _of_processes(reading: Reading) -> Reading:
    claims = tuple(claim for claim in reading.claims if claim.setting.startswith("launch."))
    kept = {name: members for name, members in reading.collections.items() if name not in _OF_FILES}
    return reading._replace(claims=claims, framework="", frontend="", collections=kept)


def trains_alone(programs: Sequence[Source], tree: Tree) -> bool:
    """Whether each of these programs certainly trains without an Accelerator: all that it imports is here, or among
    packages that build none.
    """
    from dtlint.runs.programs import program_of

    return bool(programs) and all(_is_plain(program_of(each, tree)) for each in programs)


def _is_plain(program: Program) -> bool:
    from dtlint.languages.python.imported import absolute

    modules, late = program.modules.values(), program.memo.files.late
    if (late is not None and late.waiting) or not any(_STEP in module.called for module in modules):
        return False
    own = {name.partition(".")[0] for name in program.modules}
    names = {absolute(module.package, name) for module in modules for name in module.imports}
    roots = {name.partition(".")[0] for name in names if name}
    reached = any(_TRAINERS.search(name) for name in names) or any(
        _TRAINERS.search(each.source.text) for each in modules
    )
    return roots <= _BARE | own and not reached
