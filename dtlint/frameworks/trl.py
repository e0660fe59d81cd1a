"""TRL's commands `trl sft`, `trl dpo` and the like, which pass flags of `accelerate launch` on to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dtlint.catalog.training_arguments import training_arguments
from dtlint.frameworks import Claim, NamedFile, Reading
from dtlint.frameworks.accelerate.launcher import GRAMMAR, read_launch
from dtlint.frameworks.interpreter import program_name
from dtlint.frameworks.options import canonical, known_head
from dtlint.frameworks.reference_model import REFERENCE, unknown_reference
from dtlint.languages.traced import Word, literal_word, setting_of
from dtlint.value import Plain

_TASKS = ("sft", "dpo", "grpo", "kto", "reward", "rloo", "distillation")
_CONFIG = "--accelerate_config"

_REFERENCES: Mapping[str, str] = {"dpo": "adapters-off", "kto": "copy", "grpo": "by-weight", "rloo": "adapters-off"}
"""What the scripts keep beside the model that trains: dpo.py a reference model unless adapters train, kto.py one in any
case (trl/scripts of 0.15.2, 0.24.0 and 1.0.0), whether it answers beforehand or not; grpo.py as its trainer does."""

_ZERO: tuple[tuple[str, Plain], ...] = (("framework", "deepspeed"), ("launch.nodes", 1), ("launch.processes", 8))
_FSDP: tuple[tuple[str, Plain], ...] = (("framework", "fsdp"), ("launch.nodes", 1), ("launch.processes", 8))
_SHIPPED: dict[str, tuple[tuple[str, Plain], ...]] = {
    "zero1": (*_ZERO, ("sharding.stage", 1)),
    "zero2": (*_ZERO, ("sharding.stage", 2)),
    "zero3": (*_ZERO, ("sharding.stage", 3)),
    "fsdp1": (*_FSDP, ("sharding.stage", 3), ("sharding.units", "wrapped")),
    "fsdp2": (*_FSDP, ("sharding.stage", 3), ("sharding.units", "wrapped")),
    "multi_gpu": (("framework", "ddp"), ("launch.nodes", 1), ("launch.processes", 8)),
    "single_gpu": (("framework", "pytorch"), ("launch.nodes", 1), ("launch.processes", 1)),
}
"""The configs that TRL brings along, by the names that stand for them (trl 1.16.0 accelerate_configs)."""


_SHIPPED_FRAMEWORKS = {name: str(dict(told)["framework"]) for name, told in _SHIPPED.items()}


def recognise(words: Sequence[Word]) -> bool:
    """Whether a command is a training command of TRL."""
    return len(words) > 1 and program_name(words[0]) == "trl" and words[1].text in _TASKS


def read_launch_of_task(words: Sequence[Word]) -> Reading:
    """What the command starts; `rest` is TRL's script of the task with the arguments that it takes itself.

    A flag of both (gradient_accumulation_steps) is the script's. `--accelerate_config` names one of the configs that
    TRL brings along, or a file.
    """
    launch, own = _apart(words[2:])
    script = literal_word(f"trl/scripts/{words[1].text}.py", words[1].place)
    reading = read_launch((words[0], *launch, script, *own))
    shipped, files = _config(words)
    named = any(word.text == "--config" for word in own)
    return reading._replace(
        claims=(*shipped, *_reference(words[1]), *reading.claims),
        files=(*files, *(file for file in reading.files if file.role != "script")),
        framework=reading.framework or _SHIPPED_FRAMEWORKS.get(_name(words), ""),
        frontend="trl",
        open=reading.open or ("the file of --config may hold flags of accelerate launch" if named else ""),
    )


def _reference(task: Word) -> tuple[Claim, ...]:
    name = task.text or ""
    if name == "distillation":
        return (Claim(REFERENCE, unknown_reference("how large the teacher is is not known"), name),)
    kept = _REFERENCES.get(name)
    return () if kept is None else (Claim(REFERENCE, setting_of(task, kept), name),)


def _name(words: Sequence[Word]) -> str:
    value = next(_values(words), None)
    return (value.text or "") if value is not None else ""


def _apart(words: Sequence[Word]) -> tuple[list[Word], list[Word]]:
    """The flags of `accelerate launch` with their values, and the others."""
    launch: list[Word] = []
    own: list[Word] = []
    current = own
    for word in words:
        head = known_head(word).partition("=")[0]
        if head.startswith("--"):
            current = launch if _is_launchers(head) else own
            if head == _CONFIG:
                current = []
        current.append(word)
    return launch, own


def _is_launchers(head: str) -> bool:
    name = canonical(head)
    return name in GRAMMAR.long and name.replace("-", "_") not in training_arguments()


def _config(words: Sequence[Word]) -> tuple[tuple[Claim, ...], tuple[NamedFile, ...]]:
    value = next(_values(words), None)
    if value is None:
        return (), ()
    told = _SHIPPED.get(value.text or "", ())
    claims = tuple(Claim(name, setting_of(value, plain), _CONFIG) for name, plain in told)
    return (claims, ()) if claims else ((), (NamedFile("accelerate", value),))


def _values(words: Sequence[Word]) -> Iterator[Word]:
    for index, word in enumerate(words):
        if word.text == _CONFIG and index + 1 < len(words):
            yield words[index + 1]
        elif known_head(word).startswith(f"{_CONFIG}="):
            yield word.part(len(_CONFIG) + 1)
