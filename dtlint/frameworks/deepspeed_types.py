"""What a key of DeepSpeed's config takes, and what DeepSpeed does with something else."""

from __future__ import annotations

from dtlint.catalog import DeepSpeedKey
from dtlint.frameworks.deepspeed_values import flag, is_auto, known, number, whole_number
from dtlint.languages.json_tree import Node
from dtlint.record import NamedTuple
from dtlint.value import Value


class Defect(NamedTuple):
    """A value that its key does not take: what it takes, and whether DeepSpeed refuses the value or misreads it."""

    expected: str
    effect: str = "refused"


_COUNTS = frozenset({"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"})
_LARGEST_STAGE = 3


def defect(key: DeepSpeedKey, node: Node) -> Defect | None:
    """What is wrong with a value; None if nothing is, or it is not known, or it is left to be filled."""
    if node.kind in ("bare", "unknown", "null") or is_auto(node):
        return None
    if "section" in key.type.split():
        return _section_defect(key, node)
    if key.type == "bool":
        return _flag_defect(key, node)
    if key.type in ("int", "positive int", "stage", "float"):
        return _number_defect(key, node)
    if "/" in key.type:
        return _word_defect(key, node)
    return None


def _section_defect(key: DeepSpeedKey, node: Node) -> Defect | None:
    old_form = key.name == "zero_optimization" and node.kind == "bool"
    return None if node.kind == "object" or old_form else Defect("an object")


def _flag_defect(key: DeepSpeedKey, node: Node) -> Defect | None:
    if not isinstance(flag(node), Value):
        return Defect("true or false")
    if node.kind == "string" and not _is_checked(key):
        return Defect("true or false without quotes (a text is true whatever it says)", "misread")
    return None


def _number_defect(key: DeepSpeedKey, node: Node) -> Defect | None:
    if node.kind == "bool":
        return Defect(_NUMBERS[key.type])
    if node.kind == "string" and not _is_checked(key):
        return Defect(f"{_NUMBERS[key.type]} without quotes")
    if key.name in _COUNTS and isinstance(node.value, float):
        return Defect("a whole number, written without a point or exponent")
    value = known(number(node) if key.type == "float" else whole_number(node))
    if not isinstance(value, (int, float)):
        return Defect(_NUMBERS[key.type])
    smallest = _SMALLEST.get(key.type, value)
    too_large = key.type == "stage" and value > _LARGEST_STAGE
    return Defect(_NUMBERS[key.type]) if value < smallest or too_large else None


_SMALLEST = {"positive int": 1, "stage": 0}
_NUMBERS = {
    "int": "a whole number",
    "positive int": "a whole number above 0",
    "stage": "a stage from 0 to 3",
    "float": "a number",
}


def _word_defect(key: DeepSpeedKey, node: Node) -> Defect | None:
    words = key.type.split("/")
    shown = str(node.value).lower()
    return None if node.kind == "string" and shown in words else Defect("one of " + ", ".join(words))


def _is_checked(key: DeepSpeedKey) -> bool:
    """Whether the key's section converts texts (`"2"` for 2), as the sections that refuse unknown keys do."""
    return key.section.split(".")[0] in _CHECKED


_CHECKED = frozenset((
    "zero_optimization", "fp16", "bf16", "bfloat16", "tensor_parallel", "comms_logger", "tensorboard", "wandb",
    "csv_monitor", "comet", "compile", "hybrid_engine", "timers",
))  # fmt: skip
