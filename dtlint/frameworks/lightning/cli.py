"""LightningCLI: configs whose `trainer` section holds the Trainer's arguments, and the options that override them
(`python main.py fit --config run.yaml --trainer.devices 8`).

Lightning 7f0c343 (2.6) pytorch/cli.py, whose parser is jsonargparse.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dtlint.frameworks import Claim, NamedFile, Reading
from dtlint.frameworks.arguments import stretch
from dtlint.frameworks.deepspeed.values import whole_number
from dtlint.frameworks.dotted_keys import Keys, dotlist, keys_of, one, spelled, unread
from dtlint.frameworks.hydra.omegaconf import resolved
from dtlint.frameworks.keys import flag_words, hidden, model_named
from dtlint.frameworks.lightning.faults import is_of_lightning, refused_arguments
from dtlint.frameworks.lightning.strategies import files_of, strategy_of
from dtlint.frameworks.lightning.trainer import (
    expected,
    framework_of,
    launch_claims,
    names,
    training_claims,
    trains_on_gpus,
)
from dtlint.languages.json_tree import Document, Node, entry, setting
from dtlint.languages.traced import Word
from dtlint.value import Plain, Value

LAYER = "lightning-cli"
ROLE = "lightning_cli"
_SECTION = "trainer"
_COMMANDS = ("fit", "validate", "test", "predict")
_FILES = ("--config", "-c")
_OPTION = f"--{_SECTION}."
_PER_GPU = ("batch_size_per_gpu", "batch_size_per_device", "per_device_batch_size", "micro_batch_size")
_SECTIONS_OF_DATA = ("data.init_args", "data", "model.init_args")
_MODELS = ("model_name_or_path", "pretrained_model_name_or_path", "model_name", "model_id")
_ENDINGS = (".yaml", ".yml")


def recognise(document: Document) -> bool:
    """Whether a file is a config of LightningCLI: its trainer has the arguments of Lightning's, most of what it has are
    those, and no model of NeMo's Megatron stands beside it. Trainers of other programs have a few of their names.
    """
    from dtlint.frameworks.nemo import config as nemo

    root = document.root
    trainer = entry(root, _SECTION) or entry(_of_command(root), _SECTION)
    if trainer is None or not is_of_lightning([each.key for each in trainer.node.entries]):
        return False
    return not nemo.looks_like_config(document)


def recognise_program(program: Sequence[Word]) -> bool:
    """Whether a program's arguments are those of LightningCLI: a command with a config, or options of the Trainer."""
    if any(word.shown.startswith(_OPTION) for word in program[1:]):
        return True
    return _command(program) != "" and bool(_named(program))


def read_program(program: Sequence[Word]) -> Reading:
    """The configs that the command names, else what its options say; other commands than `fit` do not train."""
    role = "" if _command(program) in ("", "fit") else "other"
    place = stretch(program[1:], program[0].place)
    files = tuple(NamedFile(ROLE, word) for word in _named(program))
    if files:
        return Reading("program", place, files=files, frontend="lightning", role=role)
    return read_config((), program[1:])._replace(place=place, role=role)


def read_config(documents: Sequence[Document], words: Sequence[Word] = ()) -> Reading:
    """What files, a later one over an earlier one, and options over them claim."""
    roots = [document.root for document in documents]
    keys = resolved(_joined(roots, words))
    place = next((root.span for root in roots if root is not None), words[0].place if words else None)
    strategy = strategy_of(keys, _SECTION)
    named, models = _model(keys)
    trainers = {} if place is None else {"code.trainers": (expected(keys, _SECTION, place),)}
    claims = (
        *launch_claims(keys, _SECTION, place),
        *training_claims(keys, _SECTION),
        *_batch(keys),
        *_optimizer(keys),
        *named,
    )
    return Reading(
        LAYER,
        place,
        claims,
        (*files_of(strategy), *models),
        framework=framework_of(keys, _SECTION),
        frontend="lightning",
        open=hidden(roots, words),
        role="" if trains_on_gpus(keys, _SECTION) else "other",
        collections={**trainers, **refused_arguments(keys, _SECTION)},
    )


def spell_in(reading: Reading, setting_name: str, value: Plain) -> str | None:
    """A setting as the config has it (`trainer.num_nodes: 2`), or as an option of the command line."""
    known_as = names(_SECTION).get(setting_name) or _of_strategy(reading, setting_name)
    words = {"precision.compute": {"bf16": "bf16-mixed", "fp16": "16-mixed", "fp32": "32-true"}}.get(setting_name)
    text = str(value).lower() if isinstance(value, bool) else str(value)
    written = text if words is None else words.get(str(value))
    if setting_name == "communication.find_unused" and known_as == (f"{_SECTION}.strategy",):
        written = "ddp_find_unused_parameters_true" if value is True else "ddp"
    if not known_as or written is None:
        return None
    return spelled(reading, setting_name, known_as, written, ": ")


def _of_strategy(reading: Reading, setting_name: str) -> tuple[str, ...]:
    """The key that states a setting of the strategy, where one does; the strategy's name for those that it may hold."""
    stated = next((claim.name for claim in reading.claims if claim.setting == setting_name), "").strip("-+=")
    if stated.startswith(f"{_SECTION}.strategy."):
        return (stated,)
    return (f"{_SECTION}.strategy",) if setting_name == "communication.find_unused" else ()


def _of_command(root: Node | None) -> Node | None:
    found = entry(root, _COMMANDS[0])
    return None if found is None else found.node


def _joined(roots: Sequence[Node | None], words: Sequence[Word]) -> Keys:
    """The keys of the files; a section of the command (`fit:`) holds them where a config has all commands."""
    nodes: dict[str, Node] = {}
    for root in roots:
        inner = _of_command(root)
        later = keys_of(inner if inner is not None else root).nodes
        nodes = {name: node for name, node in nodes.items() if not _is_replaced(name, later)}
        nodes.update(later)
    given = {name: (sign, node) for name, (sign, node) in dotlist(flag_words(words)).items() if node is not None}
    for name in given:
        nodes = {each: node for each, node in nodes.items() if not each.startswith(f"{name}.")}
    return Keys({**nodes, **{name: node for name, (_, node) in given.items()}}, _spelled(given))


def _spelled(given: dict[str, tuple[str, Node]]) -> dict[str, str]:
    return {name: f"--{sign}" for name, (sign, _) in given.items()}


def _is_replaced(name: str, later: dict[str, Node] | object) -> bool:
    """Whether a later file gives the strategy another class, whose arguments are not those of the earlier one."""
    path = f"{_SECTION}.strategy"
    return (
        isinstance(later, dict) and name.startswith(f"{path}.") and path in later and f"{path}.init_args" not in later
    )


def _command(program: Sequence[Word]) -> str:
    found = (word.text for word in program[1:] if word.text in _COMMANDS)
    return next((text for text in found if text is not None), "")


def _named(program: Sequence[Word]) -> list[Word]:
    """The configs of a command line, in their order."""
    found: list[Word] = []
    for index, word in enumerate(program):
        name, sign, _ = word.shown.partition("=")
        if name in _FILES and sign:
            found.append(word.part(len(name) + 1))
        elif name in _FILES and index + 1 < len(program):
            found.append(program[index + 1])
    return [word for word in found if word.shown.endswith(_ENDINGS) or word.text is None]


def _batch(keys: Keys) -> Iterator[Claim]:
    """A batch that its name says to be that of one GPU; whose a plain `batch_size` is, the data module decides."""
    paths = [f"{section}.{name}" for section in _SECTIONS_OF_DATA for name in _PER_GPU]
    found = tuple(one(keys, paths, "batch.micro", whole_number))
    yield from found
    plain = keys.node(*(f"{section}.batch_size" for section in _SECTIONS_OF_DATA))
    if plain is not None and not found:
        why = unread(plain, "the data module decides whether batch_size is that of each GPU")
        yield Claim("batch.micro", why._replace(how="--set batch.micro=N"), "data.batch_size")


def _optimizer(keys: Keys) -> Iterator[Claim]:
    node = keys.node("optimizer.class_path")
    told = None if node is None else setting(node)
    if isinstance(told, Value):
        yield Claim("optimizer.name", told._replace(value=str(told.value).rpartition(".")[2].lower()), "optimizer")


def _model(keys: Keys) -> tuple[tuple[Claim, ...], tuple[NamedFile, ...]]:
    paths = [f"{section}.{name}" for section in ("model.init_args", "model") for name in _MODELS]
    path = next((path for path in paths if keys.node(path) is not None), paths[0])
    return model_named(keys, path)
