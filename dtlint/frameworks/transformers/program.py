"""The Trainer in a training program: TrainingArguments and from_pretrained calls whose values the code tells."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from dtlint.frameworks import GROUPING, Claim, Member, NamedFile, Reading
from dtlint.frameworks import program as programs
from dtlint.frameworks.adapters_python import adapter_claims
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.code.loss_factors import is_handed_over
from dtlint.frameworks.code.ranks import is_alone
from dtlint.frameworks.deepspeed.dicts import written_dict
from dtlint.frameworks.pytorch.checkpointing import variant
from dtlint.frameworks.pytorch.model_loading import LOADERS
from dtlint.frameworks.pytorch.names import PRECISIONS, converted
from dtlint.frameworks.transformers.arguments import REPEATED, read_arguments
from dtlint.frameworks.transformers.few_bits import few_bits_claims
from dtlint.frameworks.transformers.references_python import reference_claims
from dtlint.frameworks.transformers.registering import registrations
from dtlint.frameworks.transformers.spreading import spread_models
from dtlint.languages.python.calls import Call, argument, passed
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.names import qualified
from dtlint.languages.python.places import place_of
from dtlint.languages.python.program import Program, definition, imports_from
from dtlint.languages.python.reach import standing, stands
from dtlint.languages.python.tree import Guard, Module
from dtlint.languages.traced import Piece, Word, literal_word
from dtlint.source import Span
from dtlint.value import Choice, Origin, Plain, Setting, Unknown, Value, default

LAYER = "transformers-python"

_TRL = tuple(f"trl.{name}" for name in ("SFTConfig", "DPOConfig", "GRPOConfig", "RewardConfig", "KTOConfig"))
_TRL_TRAINERS = tuple(f"trl.{name}" for name in ("SFTTrainer", "DPOTrainer", "GRPOTrainer", "RewardTrainer"))
_ARGUMENTS = ("transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments")
ARGUMENTS = "config.arguments"
"""The collection of the Trainer's arguments of numbers."""
ARGUMENTS_NAME = "TrainingArguments"
"""What the names of classes end with that hold the Trainer's arguments."""
ARGUMENT_CLASSES = (*_ARGUMENTS, *_TRL)
"""The classes of the Trainer's arguments, and of those that TRL adds to them."""
_TRAINERS = ("transformers.Trainer", "transformers.Seq2SeqTrainer")
_GROUPING_TRAINERS = tuple(f"trl.{name}" for name in ("GRPOTrainer", "RLOOTrainer"))
_ACCELERATOR = ("accelerate.Accelerator",)
_OTHER_LOADERS = re.compile(
    r"\bunsloth\b|from_quantized|auto_gptq|\bhqq\b|quanto|torchao|replace_with_bnb|bitsandbytes\.nn"
)
"""What a program names that stores weights in few bits by itself."""
_CONFIGS = ("transformers.AutoConfig.from_pretrained", "transformers.LlamaConfig.from_pretrained")

_OF_TRAINER = ("transformers", "trl")

SETTINGS: Mapping[str, str] = {
    "per_device_train_batch_size": "batch.micro",
    "gradient_accumulation_steps": "batch.accumulation",
    "max_grad_norm": "optimizer.clip",
    "optim": "optimizer.name",
    "ddp_timeout": "launch.timeout_seconds",
    "ddp_find_unused_parameters": "communication.find_unused",
    "dataloader_drop_last": "data.drop_last",
    "max_length": "data.sequence_length",
    "max_seq_length": "data.sequence_length",
}
"""Arguments of numbers and words, and the settings that they decide on."""


def read(program: Program) -> Reading:
    """What the program tells the Trainer; no front end if it has no Trainer. The values of command-line arguments are
    claimed by the reader of the command line."""
    configs = standing(program, ARGUMENT_CLASSES)
    frontend = _frontend(program, configs)
    if not frontend:
        claims = (*_only_model(program), *reference_claims(program))
        return Reading(LAYER, claims=claims, files=_model_file(program))
    told = _arguments(program, configs[0]) if len(configs) == 1 else Reading(LAYER)
    unseen = _unseen(program, configs) if frontend in _OF_TRAINER else ()
    claims = (*told.claims, *unseen, *_model_claims(program), *reference_claims(program))
    files = (*told.files, *_model_file(program))
    numbers = (*told.collections.get(ARGUMENTS, ()), *_unseen_numbers(program, configs))
    spread = spread_models(program, (*_TRAINERS, *_TRL_TRAINERS)) if frontend in _OF_TRAINER else ()
    of_models = {"code.data_parallels": spread, "code.registrations": registrations(program)}
    more = {GROUPING: tuple(_grouping(program)), ARGUMENTS: numbers, **of_models}
    more = {name: members for name, members in more.items() if members or name == GROUPING}
    return told._replace(claims=claims, files=files, frontend=frontend, collections={**told.collections, **more})


def _grouping(program: Program) -> Iterator[Member]:
    """Unsloth puts a trainer of its own in the place of TRL's, which makes the batch larger."""
    if not imports_from(program, "unsloth"):
        yield from (Member(call.head, {}) for call in standing(program, _GROUPING_TRAINERS))


def builds_on_trainer(program: Program) -> bool:
    """Whether the Trainer, or one of TRL's that stands on it, trains the program's model."""
    return _frontend(program, standing(program, ARGUMENT_CLASSES)) in _OF_TRAINER


def _frontend(program: Program, configs: list[Call]) -> str:
    """A class of its own may stand between the program and the Trainer; then the name of the arguments' class tells."""
    trainers = standing(program, (*_TRAINERS, *_TRL_TRAINERS))
    if not trainers and _has_own_loop(program):
        return "accelerate"
    found = [*configs, *trainers]
    if found:
        return "trl" if any(call.name.startswith("trl.") for call in found) else "transformers"
    if any(uses_arguments(program, module) for module in program.modules.values()):
        return "transformers"
    return "accelerate" if standing(program, _ACCELERATOR) else ""


def _has_own_loop(program: Program) -> bool:
    """Whether a program goes backward by an Accelerator that it builds, and no class of it builds on a Trainer: it may
    take the Trainer's arguments, and nothing compares them with DeepSpeed's config (transformers
    integrations/deepspeed.py, trainer_config_finalize, which the Trainer calls).
    """
    if not standing(program, _ACCELERATOR) or _builds_on_a_trainer(program):
        return False
    sites = ((module, site) for module in program.modules.values() for site in module.called.get("backward", ()))
    return any(is_handed_over(place) for place in (place_of(program, *each) for each in sites) if stands(place))


def _builds_on_a_trainer(program: Program) -> bool:
    scopes = (scope for module in program.modules.values() for scope in module.definitions.values())
    bases = (base for scope in scopes if isinstance(scope.node, ast.ClassDef) for base in scope.node.bases)
    return any(_name(base).endswith("Trainer") for base in bases)


def uses_arguments(program: Program, module: Module) -> bool:
    """Whether a module does something with arguments of the Trainer; one that only imports them hands them on, as the
    front page of a library does, and a class of the program that builds on nothing holds its own.
    """
    if ARGUMENTS_NAME not in module.source.text:
        return False
    named = (node for node in ast.walk(module.top.node) if _name(node).endswith(ARGUMENTS_NAME))
    return any(not _is_own_class(program, module, node) for node in named)


_PLAIN_BASES = frozenset(("object", "abc.ABC", "typing.NamedTuple", "typing.Protocol", "pydantic.BaseModel"))
"""Classes that a class of arguments may build on without having the Trainer's."""
_MOST_BASES = 6


def _is_own_class(program: Program, module: Module, node: ast.AST, left: int = _MOST_BASES) -> bool:
    """Whether a name means a class that the program defines, all of whose bases it defines too."""
    names = qualified(module, node, module.top)
    found = definition(program, module, names[0]) if len(names) == 1 else None
    if found is None or not isinstance(found.scope.node, ast.ClassDef):
        return left < _MOST_BASES and len(names) == 1 and names[0] in _PLAIN_BASES
    return left > 0 and all(_is_own_class(program, found.module, base, left - 1) for base in found.scope.node.bases)


def _name(node: ast.AST) -> str:
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _arguments(program: Program, call: Call) -> Reading:
    """What a call that builds TrainingArguments says, read as if its arguments stood on a command line."""
    script = literal_word(program.main.source.path, call.span)
    kept = (name for name in call.keywords if not _is_config(call, name))
    given = {name: _among_several(call, name) or argument(call, name) for name in kept}
    words = [word for name, value in given.items() for word in words_of(name, value, call.span)]
    reading, named = read_arguments((script, *words)), programs.read((script, *words))
    written = (claim for claim in reading.claims if claim.setting != "checkpointing.reentrant")
    claims = tuple(claim._replace(name=claim.name.removeprefix("--")) for claim in written)
    files = tuple(file for file in (*reading.files, *named.files) if file.role != "script")
    told = variant(call)
    variants = () if told is None else (Claim("checkpointing.reentrant", told, "use_reentrant"),)
    claims = (*claims, *variants, *_default_group(call))
    return reading._replace(layer=LAYER, place=call.head, claims=claims, files=files, open=reading.open or call.open)


_COUNTED_BY = ("num_generations", "generation_batch_size", "steps_per_generation")
"""Arguments of GRPOConfig that tell of how many answers there are at a time."""
_GROUP = 8
"""The answers to a prompt where none of them stands (trl 0.15.2 to 0.24.0 trainer/grpo_config.py)."""


def _default_group(call: Call) -> Iterator[Claim]:
    if call.name == "trl.GRPOConfig" and not call.open and not any(passed(call, name) for name in _COUNTED_BY):
        yield Claim("batch.group", default(_GROUP, "TRL"), _COUNTED_BY[0])


def _is_config(call: Call, name: str) -> bool:
    """Whether an argument is a DeepSpeed config that the program writes out, which is no file's name."""
    given = passed(call, name) if name == "deepspeed" else ()
    return bool(given) and all(written_dict(item.place) is not None for item in given)


_BATCH = ("per_device_train_batch_size", "gradient_accumulation_steps")
"""What hardly a program leaves to the Trainer, whose defaults are for trying it out."""
_PARSERS = ("HfArgumentParser", "TrlParser", "parse_args_into_dataclasses")
"""What tells a program whose arguments are those of its command line: what that lacks has its default."""


def _unseen(program: Program, configs: list[Call]) -> Iterator[Claim]:
    """The batch sizes that arguments may set which cannot be seen: of `**config`, of one of several calls, or of
    arguments that are neither built here nor read from the command line.
    """
    for name in _BATCH:
        reason = _why_unseen(program, configs, name)
        if reason:
            origin = Origin("written", configs[0].head if configs else None)
            yield Claim(SETTINGS[name], Unknown(reason, f"--set {SETTINGS[name]}=N", origin), name)


def _unseen_numbers(program: Program, configs: list[Call]) -> Iterator[Member]:
    """The numbers that one of several calls sets, as members of `config.arguments` that are not known."""
    for flag in REPEATED:
        name = flag.replace("-", "_")
        if len(configs) > 1 and any(name in call.keywords for call in configs):
            place = configs[0].head
            unknown = Unknown(f"one of several calls sets {name}", "", Origin("written", place))
            yield Member(place, {**texts(place, name=flag), "value": unknown})


def arguments_unseen(program: Program, name: str) -> str:
    """Why an argument of the Trainer may be set where it cannot be seen, "" where the program shows all of them."""
    return _why_unseen(program, standing(program, ARGUMENT_CLASSES), name)


def _why_unseen(program: Program, configs: list[Call], name: str) -> str:
    opened = next((call.open for call in configs if call.open and name not in call.keywords), "")
    if opened:
        return f"{opened} may set {name}"
    if len(configs) > 1 and any(name in call.keywords for call in configs):
        return f"one of several calls sets {name}"
    if configs or any(word in module.source.text for module in program.modules.values() for word in _PARSERS):
        return ""
    return f"where the arguments are made that may set {name} is not seen"


def words_of(name: str, value: Setting | None, span: Span) -> tuple[Word, ...]:
    """An argument as a flag and its value, a value that is not known as an unknown word; none for None."""
    if isinstance(value, Value):
        span = value.origin.span or span
        text = str(value.value).lower() if isinstance(value.value, bool) else str(value.value)
        known = value.value is not None and not isinstance(value.value, (tuple, dict))
        soft = (value.origin.note or "the program may be told another") if value.origin.kind == "assumed" else ""
        return (literal_word(f"--{name}", span), Word((Piece(text, span, assumed=soft),), span)) if known else ()
    if isinstance(value, Unknown):
        unknown = Piece(None, span, unknown=value.reason, how=value.how, means=value.means)
    else:
        unknown = Piece(None, span, unknown="it depends on a condition")
    return (literal_word(f"--{name}", span), Word((unknown,), span))


_OF_RANKS = frozenset(("ddp_find_unused_parameters", "ddp_timeout", "ddp_bucket_cap_mb"))
"""Arguments that mean nothing to one rank alone."""


def _among_several(call: Call, name: str) -> Setting | None:
    """What an argument of the exchange is where there are several ranks (`False if ddp else None`)."""
    given = passed(call, name) if name in _OF_RANKS else ()
    node = given[0].place.node if len(given) == 1 else None
    if not isinstance(node, ast.IfExp):
        return None
    place, alone = given[0].place, [is_alone(given[0].place, Guard(node.test, side)) for side in (True, False)]
    if alone.count(True) != 1:
        return None
    return evaluate(place.inner(node.orelse if alone[0] else node.body))


def _models(program: Program) -> list[Call]:
    """The loads of models, one of those that ask for the same in the same words (a reference model beside)."""
    loads = {_words(load): load for load in reversed(standing(program, LOADERS))}
    return [loads[words] for words in reversed(loads)]


def _words(load: Call) -> tuple[str, ...]:
    asked = (passed(load, "pretrained_model_name_or_path", 0), passed(load, "torch_dtype"), passed(load, "dtype"))
    return (load.open, *(each[0].place.module.text(each[0].place.node) if each else "" for each in asked))


def _model_claims(program: Program) -> Iterator[Claim]:
    """The formats in which the model is loaded and stored, and adapters that the program may add."""
    loads = _models(program)
    if len(loads) == 1:
        yield from _loaded(loads[0])
    yield from _frozen(program)


def _loaded(load: Call) -> Iterator[Claim]:
    yield from _named(load)
    for claim in _loaded_format(load):
        assert isinstance(claim.value, Value)
        yield Claim("precision.master", claim.value._replace(value="none"), claim.name)


def _loaded_format(load: Call) -> Iterator[Claim]:
    """The 16-bit format that a load asks for."""
    value = argument(load, "torch_dtype") or argument(load, "dtype")
    found = converted(value, PRECISIONS) if value is not None and not isinstance(value, Choice) else None
    if isinstance(found, Value) and found.value in ("bf16", "fp16"):
        yield Claim("precision.frozen", found, "torch_dtype")


def _named(load: Call) -> Iterator[Claim]:
    """The model by its name, where the catalog knows it."""
    word = _model_word(load)
    claim = programs.model_claim("from_pretrained", word) if word is not None else None
    if claim is not None:
        yield claim


def _only_model(program: Program) -> Iterator[Claim]:
    """The name of the one model that a program with a training loop of its own loads, and what it does to it."""
    loads = _models(program)
    if len(loads) == 1:
        yield from _named(loads[0])
    if any("backward" in module.called for module in program.modules.values()):
        yield from _frozen(program)


def _model_file(program: Program) -> tuple[NamedFile, ...]:
    """The folder of the one model that the program loads, or whose config it loads."""
    loads = standing(program, _CONFIGS) or _models(program)
    word = _model_word(loads[0]) if len(loads) == 1 else None
    return (NamedFile("model", word),) if word is not None else ()


def _model_word(load: Call) -> Word | None:
    """The name or folder that is loaded, where it is known."""
    value = argument(load, "pretrained_model_name_or_path", 0)
    if not isinstance(value, Value) or not isinstance(value.value, str):
        return None
    span = value.origin.span or load.span
    return Word((Piece(value.value, span, value.origin.chain, value.origin.note),), span)


def _frozen(program: Program) -> Iterator[Claim]:
    """The adapters, and how the weights that they leave alone are stored: in few bits, or as they are loaded where
    nothing quantizes them.
    """
    adapters, few_bits = list(adapter_claims(program)), list(few_bits_claims(program))
    yield from (*adapters, *few_bits)
    certain = any(claim.setting == "model.lora_rank" and isinstance(claim.value, Value) for claim in adapters)
    if certain and not few_bits and not any(_few_bits(program)):
        yield from _stored(program)


def _stored(program: Program) -> Iterator[Claim]:
    """The 16-bit format in which the one model is loaded, where nothing quantizes it."""
    loads = _models(program)
    yield from _loaded_format(loads[0]) if len(loads) == 1 else ()


def _few_bits(program: Program) -> Iterator[Span]:
    """Where a load may be told to quantize weights, or the program has a library that does."""
    loads = standing(program, LOADERS)
    yield from (call.head for call in loads if call.open)
    for module in program.modules.values():
        found = _OTHER_LOADERS.search(module.source.text)
        if found is not None:
            yield module.source.span(*found.span())


_SPELLINGS = {setting: name for name, setting in reversed(list(SETTINGS.items()))}


def spell(setting: str, value: Plain) -> str | None:
    """How TrainingArguments is told this value, None if it is not."""
    if setting == "precision.compute":
        return f"{value}=True" if value in ("bf16", "fp16") else None
    if setting == "checkpointing.activations":
        return f"gradient_checkpointing={value == 'full'}" if value in ("full", "none") else None
    name = _SPELLINGS.get(setting)
    return f"{name}={value!r}" if name is not None else None
