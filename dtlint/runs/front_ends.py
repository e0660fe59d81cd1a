"""Front ends whose plan stands in files of keys: which reader takes a file, and which one a program's arguments."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Protocol, cast

from dtlint.frameworks import Reading
from dtlint.languages.json_tree import Document
from dtlint.languages.traced import Word
from dtlint.record import NamedTuple


class Reader(Protocol):
    """What a module under dtlint.frameworks offers that reads such files."""

    LAYER: str

    def recognise(self, document: Document) -> bool:
        """Whether a file is one of the front end's."""

    def recognise_program(self, program: Sequence[Word]) -> bool:
        """Whether a program (its script and arguments) is the front end's."""

    def read_program(self, program: Sequence[Word]) -> Reading:
        """What a program claims by itself, and the files that it names."""

    def read_config(self, documents: Sequence[Document], words: Sequence[Word] = ()) -> Reading:
        """What files claim together, with the program's arguments over them."""


class Marks(NamedTuple):
    """Texts by which to tell that a reader need not be loaded: one of `file` stands in each of its files, one of
    `words` in a word of each of its programs (none: no program is its own by its words).
    """

    file: tuple[str, ...]
    words: tuple[str, ...] = ()


MARKS: Mapping[str, Marks] = {
    "verl": Marks(("actor_rollout_ref",), ("actor_rollout_ref", "main_ppo")),
    "verl_sft": Marks((), ("sft_trainer",)),
    "nemo_rl": Marks(
        ("megatron_cfg", "dtensor_cfg", "policy:", "gpus_per_node:"),
        ("run_grpo", "run_vlm_grpo", "run_distillation", "run_ppo", "examples/run_", "policy.", "cluster."),
    ),
    "axolotl": Marks(("base_model",), ("axolotl", "finetune.py")),
    "olmo": Marks(("global_train_batch_size",)),
    "composer": Marks(("global_train_batch_size",)),
    "torchtune": Marks(("_component_",), ("_distributed", "_single_device")),
    "openrlhf": Marks((), ("openrlhf", "--micro_train_batch_size")),
    "xtuner": Marks((), ("xtuner",)),
    "litgpt": Marks(("logger_name:",), ("litgpt",)),
    "finetrainers": Marks((), ("--parallel_backend",)),
    "bionemo": Marks((), ("train_esm2",)),
    "torchtune_single": Marks(()),
    "lightning_cli": Marks(("trainer:",), ("fit", "validate", "test", "predict", "--trainer.")),
    "lightning_hydra": Marks(()),
    "gpt_neox": Marks(
        ("pipe_parallel_size", "pipe-parallel-size", "model_parallel_size", "model-parallel-size"), ("deepy.py",)
    ),
    "easyr1": Marks(
        ("rollout_batch_size", "micro_batch_size_per_device_for_update"),
        ("verl.trainer.main", "worker.actor.", "worker.rollout."),
    ),
}
"""By the role of the files that a front end's programs name."""

_MODULES: Mapping[str, str] = {
    "verl": "verl.config",
    "verl_sft": "verl.sft",
    "nemo": "nemo.config",
    "nemo_rl": "nemo.rl",
    "axolotl": "axolotl.config",
    "torchtune": "torchtune.config",
    "torchtune_single": "torchtune.single",
    "openrlhf": "openrlhf.arguments",
    "lightning_cli": "lightning.cli",
    "lightning_hydra": "lightning.hydra",
    "easyr1": "verl.easyr1",
    "colossalai": "colossalai.launcher",
    "bionemo": "nemo.esm2",
}
"""The modules under dtlint.frameworks that read for these roles; another's has the name of the role."""

HYDRA = frozenset(("verl", "verl_sft", "nemo", "lightning_hydra"))
"""Front ends whose config hydra composes, by the role of the file."""


def is_marked(text: str, name: str) -> bool:
    """Whether a text may be one of a front end's files."""
    return any(mark in text for mark in MARKS[name].file)


def reader_of(document: Document) -> Reader | None:
    """The reader that takes a file; None where no front end of this kind does."""
    marked = (name for name in MARKS if is_marked(document.source.text, name))
    return next((reader(name) for name in marked if reader(name).recognise(document)), None)


def reader_of_program(program: Sequence[Word]) -> Reader | None:
    """The reader of the front end that a program is; None where it is none of them."""
    shown = " ".join(word.shown for word in program)
    marked = (name for name, marks in MARKS.items() if any(mark in shown for mark in marks.words))
    return next((reader(name) for name in marked if reader(name).recognise_program(program)), None)


def bases_of(name: str, document: Document) -> tuple[str, ...]:
    """The files that a front end's file builds on, as it names them, from its own folder."""
    if name != "nemo_rl":
        return ()
    from dtlint.frameworks.nemo.rl import bases

    return bases(document)


def reader(role: str) -> Reader:
    """The reader of a front end."""
    return cast("Reader", module_of(role))


def module_of(role: str) -> ModuleType:
    """The module that reads a front end's files and programs."""
    return import_module(f"dtlint.frameworks.{_MODULES.get(role, role)}")
