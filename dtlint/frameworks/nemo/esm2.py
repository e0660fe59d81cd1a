"""BioNeMo's command `train_esm2`: its options, and what it has without them.

NVIDIA/bionemo-framework 478d79b sub-packages/bionemo-esm2/src/bionemo/esm2/scripts/train_esm2.py, a program of NeMo 2.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dtlint.frameworks import Claim, Reading
from dtlint.frameworks.arguments import stretch
from dtlint.frameworks.dotted_keys import Keys
from dtlint.frameworks.interpreter import program_name
from dtlint.frameworks.keys import Meaning, claims_of, flag_words, hidden, keys_of, spelled
from dtlint.languages.json_tree import Document
from dtlint.languages.traced import Word, setting_of
from dtlint.value import Plain, default

LAYER = "bionemo"

_TOOL = "train_esm2"
_FORMATS = {"bf16": "bf16", "bf16-mixed": "bf16", "fp16": "fp16", "16": "fp16", "16-mixed": "fp16", "32": "fp32"}
_TABLE = {
    "num_nodes": Meaning("launch.nodes"),
    "num_gpus": Meaning("launch.processes_per_node"),
    "micro_batch_size": Meaning("batch.micro"),
    "accumulate_grad_batches": Meaning("batch.accumulation"),
    "tensor_model_parallel_size": Meaning("parallel.tensor"),
    "pipeline_model_parallel_size": Meaning("parallel.pipeline"),
    "max_seq_length": Meaning("data.sequence_length"),
    "num_steps": Meaning("run.steps"),
    "num_layers": Meaning("model.layers"),
    "hidden_size": Meaning("model.hidden"),
    "num_attention_heads": Meaning("model.heads"),
    "ffn_hidden_size": Meaning("model.ffn"),
    "precision": Meaning("precision.compute", words=_FORMATS),
}
_UNASKED: Mapping[str, Plain] = {
    "num_nodes": 1,
    "num_gpus": 1,
    "micro_batch_size": 64,
    "accumulate_grad_batches": 1,
    "tensor_model_parallel_size": 1,
    "pipeline_model_parallel_size": 1,
    "max_seq_length": 1024,
    "num_steps": 500_000,
    "num_layers": 33,
    "hidden_size": 1280,
    "num_attention_heads": 20,
    "ffn_hidden_size": 5120,
    "precision": "bf16",
}
_VOCABULARY = 33
"""Amino acids and marks of ESM-2's tokenizer."""
_OVERLAPS = {"overlap.gradients": "--no-overlap-grad-reduce", "overlap.parameters": "--no-overlap-param-gather"}


def recognise(document: Document) -> bool:
    """The command has no files of keys."""
    return False


def recognise_launch(words: Sequence[Word]) -> bool:
    """Whether a command is BioNeMo's."""
    return bool(words) and program_name(words[0]) == _TOOL


def recognise_program(program: Sequence[Word]) -> bool:
    """The same for the words that start it; the script of this name is read as what it builds."""
    return recognise_launch(program)


def read_launch(words: Sequence[Word], env: Mapping[str, Word]) -> Reading:
    """The command is its own program, which finds its processes started, or starts them as Lightning does."""
    launcher = Claim("launch.launcher", setting_of(words[0], "lightning"), words[0].shown)
    return Reading("program", words[0].place, (launcher,), rest=tuple(words))


def read_config(documents: Sequence[Document], words: Sequence[Word] = ()) -> Reading:
    """Never asked: no program names a file."""
    return Reading(LAYER)


def read_program(program: Sequence[Word]) -> Reading:
    """What the options claim, and the command's own values for those that are not written."""
    words = program[1:]
    keys, opened = keys_of((), flag_words(words)), hidden((), words)
    unasked = () if opened else _unasked(keys, words)
    fixed = {"sharding.stage": 1, "model.vocab": _VOCABULARY}
    claims = (*claims_of(keys, _TABLE), *unasked, *(Claim(name, default(each, _TOOL)) for name, each in fixed.items()))
    return Reading(LAYER, stretch(words, program[0].place), claims, framework="nemo", open=opened)


def spell(setting_name: str, value: Plain, framework: str = "") -> str | None:
    """A setting as an option (`--micro-batch-size 8`)."""
    found = spelled(_TABLE, setting_name, value)
    return None if found is None else f"--{found[0].replace('_', '-')} {found[1]}"


def _unasked(keys: Keys, words: Sequence[Word]) -> Iterator[Claim]:
    for name, value in _UNASKED.items():
        if keys.node(name) is None:
            yield Claim(_TABLE[name].setting, default(value, _TOOL), name)
    for setting, switch in _OVERLAPS.items():
        off = next((word for word in words if word.text == switch), None)
        yield Claim(setting, default(True, _TOOL) if off is None else setting_of(off, False), switch)
