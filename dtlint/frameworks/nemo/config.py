"""NeMo's YAML with the overrides of hydra's command line: Megatron models by their keys, all others as Lightning's
Trainer runs them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from dtlint.frameworks import Claim, Member, NamedFile, Reading
from dtlint.frameworks.arguments import stretch
from dtlint.frameworks.deepspeed.values import flag, known, number, whole_number, word
from dtlint.frameworks.dotted_keys import Keys, hiding, keys_of, launcher_by_default, number_at, one, unread, worded
from dtlint.frameworks.hydra.command_line import config_name, keys_given, option, overrides
from dtlint.frameworks.hydra.omegaconf import resolved
from dtlint.frameworks.interpreter import program_name
from dtlint.frameworks.keys import EXCHANGES
from dtlint.frameworks.lengths import BOUNDS
from dtlint.frameworks.lightning.trainer import devices, expected
from dtlint.frameworks.nemo.spelling import NAMES, spell_in
from dtlint.frameworks.nemo.strategy import BRIDGE_SWITCHES, idle_strategy, is_recipe, leaves_fsdp_off
from dtlint.frameworks.options import literal_place
from dtlint.frameworks.program import FUNCTION
from dtlint.frameworks.recomputing import lone_methods
from dtlint.frameworks.stage_cuts import keyed_cut
from dtlint.languages.json_tree import Document, Node, entry, setting
from dtlint.languages.traced import Word
from dtlint.source import Span
from dtlint.value import Origin, Plain, Setting, Unknown, Value, default

__all__ = [
    "looks_like_config",
    "read_arguments",
    "read_composed",
    "read_config",
    "recognise",
    "spell_in",
    "without_config",
]

LAYER = "nemo-yaml"
ARGUMENTS_LAYER = "nemo-arguments"
_TOOL = "NeMo"
_RECIPE = "--recipe"
_TRAINER, _TRAINERS = "trainer", "code.trainers"
"""The section of Lightning's Trainer, and the collection of what a program's Trainers count on."""
_SECTIONS = ("train.", "ddp.", "dist.", "model.", "optimizer.")
"""Sections of Megatron-Bridge's config that its recipes are overridden in."""
_MEGATRON = (
    "tensor_model_parallel_size", "pipeline_model_parallel_size", "micro_batch_size", "global_batch_size",
    "megatron_amp_O2",
)  # fmt: skip
"""Keys of the model's section that Megatron models alone have."""
_OVERRIDDEN = frozenset(f"model.{name}" for name in _MEGATRON)
_EXAMPLE = re.compile(r"megatron_[a-z0-9_]+_(?:pre|fine)?(?:train|tun)ing\.py")
"""The names of the programs among NeMo's examples that train a Megatron model (megatron_gpt_pretraining.py)."""
_APPLIED = ("inference", "server", "quantization", "export", "prompts", "run.huggingface_ckpt_path")
"""Sections and keys of configs that apply a trained model, or convert its checkpoint."""

_WHOLE = (
    "parallel.tensor", "parallel.pipeline", "parallel.virtual_pipeline", "parallel.context", "parallel.expert",
    "parallel.expert_tensor", "batch.micro", "batch.global", "data.sequence_length", "model.layers", "model.hidden",
    "model.ffn", "model.heads", "model.kv_heads", "model.head_dim", "model.experts", "model.experts_per_token",
    "model.expert_ffn", "model.shared_expert_ffn",
)  # fmt: skip
_FLAGS = (
    "parallel.sequence", "overlap.tensor", "overlap.pipeline", "overlap.gradients", "overlap.parameters",
    "model.tied_embeddings",
)  # fmt: skip
_RESTORED = "restore_from_path"
"""The key of the trained model that a training begins with: of the config, of its model's or of another section."""
_OF_MODEL = (*_WHOLE, *_FLAGS, "checkpointing.activations", "optimizer.name")
_FORMATS: Mapping[Plain, Plain] = {
    32: "fp32", "32": "fp32", "32-true": "fp32", 16: "fp16", "16": "fp16", "16-mixed": "fp16", "16-true": "fp16",
    "bf16": "bf16", "bf16-mixed": "bf16", "bf16-true": "bf16",
}  # fmt: skip
_GATED = ("geglu", "swiglu", "reglu", "fast-geglu", "fast-swiglu", "fast-reglu")
_SHARDED_OPTIMIZERS = ("distributed_fused_adam", "mcore_distributed_optim", "megatron_fused_adam_distributed")
_MULTIMODAL = "model.mm_cfg"
_STRATEGY = "model.fsdp_sharding_strategy"
_STRATEGIES: Mapping[Plain, Plain] = {"full": 3, "hybrid": 3, "grad": 2}
_DECODER = (
    "model.decoder", "model.decoder_num_layers", "model.decoder_seq_length",
    "model.pipeline_model_parallel_split_rank",
)  # fmt: skip
"""Keys of a model with an encoder and a decoder, of which others tell one stack of layers (megatron_t5_config)."""
_UNLIKE = (
    "model.hybrid_override_pattern", "model.hybrid_attention_ratio", "model.hybrid_mlp_ratio",
    "model.mamba_ssm_ngroups",
)  # fmt: skip
"""Keys of models some of whose layers hold a state space or a feed-forward network alone (megatron_mamba_config)."""
_GRANULARITIES: Mapping[Plain, Plain] = {"selective": "selective", "full": "full"}
_GPT = ("megatron_gpt_pretraining.py", "megatron_gpt_config")
"""NeMo's example that trains a GPT from scratch, and the config that it names."""
_OF_GPT: Mapping[str, Plain] = {
    "parallel.tensor": 1, "parallel.pipeline": 1, "parallel.virtual_pipeline": 1, "parallel.context": 1,
    "parallel.expert": 1, "parallel.sequence": False, "overlap.tensor": False, "checkpointing.activations": "none",
}  # fmt: skip
"""How that config trains in all releases of NeMo 1 (examples/nlp/language_modeling/conf, 1.12 to 1.23): keys that came
later had no effect before. Its toy of a model and the batch are what every command line replaces.
"""


def recognise(program: Sequence[Word]) -> bool:
    """Whether a program's overrides are those of a Megatron model or an experiment of NeMo's, or over a recipe of
    Megatron-Bridge's, or it is an example of NeMo's with a config that its options name.
    """
    given = keys_given(program[1:])
    if any(name in _OVERRIDDEN or name.startswith("exp_manager.") for name in given):
        return True
    recipe = option(program[1:], _RECIPE)
    if recipe is not None and is_recipe(recipe.shown) and any(name.startswith(_SECTIONS) for name in given):
        return True
    return _EXAMPLE.fullmatch(program_name(program[0])) is not None and bool(config_name(program))


def read_arguments(program: Sequence[Word]) -> Reading:
    """The program, whose config its command line or its decorator names. What the overrides say
    counts with the file: `read_config`. A recipe of Megatron-Bridge that goes by its name is code that is not read.
    """
    place = stretch(program, literal_place(program[0]))
    recipe = option(program[1:], _RECIPE)
    if recipe is not None and FUNCTION.fullmatch(recipe.shown):
        return Reading(ARGUMENTS_LAYER, place, framework="nemo")
    if recipe is not None:
        return without_recipe(program, recipe)
    return Reading(
        ARGUMENTS_LAYER,
        place,
        files=(NamedFile("nemo", program[0]),),
        framework="nemo" if _is_megatron(keys_of(None, overrides(program[1:]))) else "",
    )


def unread_recipe(program: Sequence[Word], function: Word) -> tuple[Reading, ...]:
    """What the command line says over a recipe that goes by its module and is not here."""
    recipe = option(program[1:], _RECIPE) if recognise(program) else None
    return (without_recipe(program, recipe),) if recipe is not None and recipe.shown == function.shown else ()


def without_recipe(program: Sequence[Word], recipe: Word) -> Reading:
    """What the command line says over a recipe that is not read, whose processes are those that its launcher starts."""
    found = without_config(program, f"the recipe {recipe.shown} is not read")
    place = stretch(program, literal_place(program[0]))
    claims = tuple(each for each in found.claims if not each.setting.startswith("launch."))
    keys = keys_of(None, overrides(program[1:]))
    known = leaves_fsdp_off(recipe.shown, program[1:])
    inert = tuple(idle_strategy(keys, "ddp", BRIDGE_SWITCHES)) if known else ()
    collections = {**found.collections, **({"config.inert": inert} if inert else {})}
    return found._replace(place=place, claims=claims, collections=collections)


def without_config(program: Sequence[Word], why: str) -> Reading:
    """What the command line says whose config could not be read."""
    return _hidden(read_config(None, program), why)


def _hidden(reading: Reading, why: str) -> Reading:
    """A reading beside which more may be written: the devices of its Trainer too."""
    hidden = {"devices": Unknown(why, "--set launch.processes_per_node=N")}
    trainers = (each._replace(fields={**hidden, **each.fields}) for each in reading.collections.get(_TRAINERS, ()))
    collections = {**reading.collections, _TRAINERS: tuple(trainers)} if _TRAINERS in reading.collections else {}
    return hiding(reading._replace(collections=collections or reading.collections), NAMES, why)


def read_composed(document: Document | None, program: Sequence[Word], missing: Sequence[str]) -> Reading:
    """What hydra's config claims with the overrides of the command line; what a config that was not found may hold is
    not known.
    """
    if document is None and _is_shipped(program):
        told = tuple(Claim(name, default(value, f"NeMo's {_GPT[1]}")) for name, value in _OF_GPT.items())
        reading = read_config(None, program)
        written = {claim.setting for claim in reading.claims}
        claims = (*reading.claims, *(claim for claim in told if claim.setting not in written))
        return _hidden(reading._replace(claims=claims), f"NeMo's {_GPT[1]} is not here")
    if document is None:
        why = f"the config {missing[0]} was not found" if missing else f"the config of {program[0].shown} was not found"
        return without_config(program, why)
    reading = read_config(document, program)._replace(place=stretch(program[1:], literal_place(program[0])))
    return _hidden(reading, f"{missing[0]} was not found") if missing else reading


def _is_shipped(program: Sequence[Word]) -> bool:
    """Whether a program is NeMo's example with the config that NeMo brings."""
    return program_name(program[0]) == _GPT[0] and config_name(program).removesuffix(".yaml") in ("", _GPT[1])


def looks_like_config(document: Document) -> bool:
    """Whether a file has a trainer beside NeMo's experiment manager, or beside a model of Megatron's keys."""
    root = document.root
    trainer = entry(root, "trainer")
    if trainer is None or trainer.node.kind != "object":
        return False
    return entry(root, "exp_manager") is not None or _is_megatron(keys_of(root))


def read_config(document: Document | None, program: Sequence[Word] = ()) -> Reading:
    """What a config claims with the overrides of the command line; `document` None: the overrides alone. A config that
    applies a trained model or converts it has the role "other".
    """
    root = document.root if document is not None else None
    keys = resolved(keys_of(root, overrides(program[1:])))
    place = root.span if root is not None else literal_place(program[0]) if program else None
    megatron = _is_megatron(keys)
    claims = (*_launch(keys, place, bool(program)), *(_megatron(keys) if megatron else _lightning(keys)))
    core = keys.known("model.mcore_gpt") is True
    inert = tuple(lone_methods(keys, "model.activations_checkpoint_", core)) if megatron else ()
    return Reading(
        LAYER,
        place,
        tuple({claim.setting: claim for claim in claims}.values()),
        framework="nemo" if megatron else "ddp" if _is_ddp(keys) else "",
        frontend="" if megatron else "lightning",
        role="other" if any(keys.under(name) for name in _APPLIED) else "",
        collections={**({"config.inert": inert} if inert else {}), **(_trainer(keys, place) if program else {})},
    )


def _is_megatron(keys: Keys) -> bool:
    sections = ("model", "strategy", "trainer.strategy")
    return any(f"{section}.{name}" in keys.nodes for section in sections for name in _MEGATRON)


# How the processes start


def _launch(keys: Keys, place: Span | None, called: bool) -> Iterator[Claim]:
    """Lightning starts a process for each device, or finds them started. One device is what a config has before the
    command line fills in the machines.
    """
    if place is None:
        return
    if called or keys.known(*NAMES["launch.processes_per_node"]) != 1:
        yield launcher_by_default("lightning", place, _TOOL)
    if keys.node(*NAMES["launch.nodes"]) is None:
        yield Claim("launch.nodes", _nodes_unasked(called), NAMES["launch.nodes"][0])
    yield from one(keys, NAMES["launch.nodes"], "launch.nodes", whole_number)
    yield from one(keys, NAMES["launch.processes_per_node"], "launch.processes_per_node", devices)


def _nodes_unasked(called: bool) -> Setting:
    """Lightning's one node, where the command line was read that could have said otherwise."""
    if called:
        return default(1, _TOOL)
    return Unknown("the config leaves the number of nodes to the command line", "--set launch.nodes=...")


def _trainer(keys: Keys, place: Span | None) -> Mapping[str, tuple[Member, ...]]:
    """What Lightning's Trainer counts on. On NVIDIA's Base Command Platform it takes the processes that the environment
    names (`cluster_type: BCP` in nemo/collections/nlp/parts/megatron_trainer_builder.py of NeMo 1).
    """
    elsewhere = keys.known("cluster_type") is not None
    return {} if elsewhere or place is None else {_TRAINERS: (expected(keys, _TRAINER, place),)}


# Megatron models


def _megatron(keys: Keys) -> Iterator[Claim]:
    for name in _WHOLE:
        yield from one(keys, NAMES[name], name, _bound if name in _bounds(keys) else whole_number)
    for name in _FLAGS:
        yield from one(keys, NAMES[name], name, flag)
    yield from one(keys, NAMES["communication.moe_dispatcher"], "communication.moe_dispatcher", word)
    yield from worded(keys, NAMES["parallel.context_exchange"], "parallel.context_exchange", EXCHANGES)
    yield from _training(keys)
    yield from _precision(keys)
    yield from _recomputation(keys)
    yield from _sharding(keys)
    yield from _shape(keys)
    yield from _cut(keys)
    yield from _restored(keys)


def _cut(keys: Keys) -> Iterator[Claim]:
    layers, stages = (number_at(keys, *NAMES[name]) for name in ("model.layers", "parallel.pipeline"))
    for section in ("model", "strategy", "trainer.strategy"):
        yield from keyed_cut(keys, section, layers, stages)


def _restored(keys: Keys) -> Iterator[Claim]:
    """What the config leaves to the model that it restores, whose own config it is laid over. A path that is left open
    (null) is filled in by the command line where the config has no shape of its own.
    """
    source = next((name for name in keys.nodes if name.rpartition(".")[2] == _RESTORED), "")
    has_shape = keys.node(*NAMES["model.layers"]) is not None
    if not source or (keys.node(source) is None and has_shape):
        return
    for name in _OF_MODEL:
        if keys.node(*NAMES[name]) is None:
            yield Claim(name, Unknown(f"it comes with the model of {source}", f"--set {name}=..."), source)


def _bounds(keys: Keys) -> tuple[str, ...]:
    """Settings that bound the samples only: a model of images and text pads each batch to its longest sample."""
    return ("data.sequence_length",) if keys.under(_MULTIMODAL) else ()


def _bound(node: Node) -> Setting:
    return unread(node, BOUNDS)


def _precision(keys: Keys) -> Iterator[Claim]:
    if keys.known("model.fp8") is True:
        yield from worded(keys, ("model.fp8",), "precision.compute", {True: "fp8"})
        return
    yield from worded(keys, NAMES["precision.compute"], "precision.compute", _FORMATS)


def _recomputation(keys: Keys) -> Iterator[Claim]:
    """ "block" recomputes so many layers of a stage, "uniform" all of them in groups of that size."""
    yield from worded(keys, NAMES["checkpointing.activations"], "checkpointing.activations", _GRANULARITIES)
    counted = {"block": "checkpointing.layers", "uniform": "checkpointing.unit"}
    name = counted.get(str(keys.known("model.activations_checkpoint_method")))
    if name is not None:
        yield from one(keys, NAMES[name], name, whole_number)


def _sharding(keys: Keys) -> Iterator[Claim]:
    """torch's FSDP where it is on, else the optimizer decides; which gradients a step reduces beside its backward pass
    hangs on more than is written.
    """
    if keys.known("model.fsdp") is True:
        if keys.node(_STRATEGY) is None:
            yield Claim("sharding.stage", default(3, _TOOL), _STRATEGY)
        yield from worded(keys, (_STRATEGY,), "sharding.stage", _STRATEGIES)
        return
    name = str(keys.known(*NAMES["optimizer.name"]))
    sharded = name in _SHARDED_OPTIMIZERS
    yield from one(
        keys, NAMES["optimizer.name"], "sharding.stage", lambda node: _standing_for(node, 1 if sharded else 0)
    )
    for overlap in ("overlap.gradients", "overlap.parameters") if sharded else ("overlap.gradients",):
        if keys.node(*NAMES[overlap]) is None:
            yield Claim(overlap, Unknown("it follows from the optimizer and the degrees", f"--set {overlap}=..."))


def _standing_for(node: Node, value: Plain) -> Setting:
    found = setting(node)
    return found._replace(value=value) if isinstance(found, Value) else found


def _shape(keys: Keys) -> Iterator[Claim]:
    yield from one(
        keys, ("model.activation",), "model.gated_mlp", lambda node: _standing_for(node, node.value in _GATED)
    )
    two = keys.first(*_DECODER)
    if two is not None:
        why = f"{two[0]} is of a model with an encoder and a decoder"
        yield Claim("model.layers", Unknown(why, "--set model.layers=N", Origin("written", two[1].span)), two[0])
    unlike = keys.first(*_UNLIKE)
    if unlike is not None:
        why = f"{unlike[0]} is of a model whose layers are not all alike"
        place = Origin("written", unlike[1].span)
        yield Claim("model.parameters", Unknown(why, "--set model.parameters=N", place), unlike[0])
    scheme = keys.known("model.peft.peft_scheme")
    if str(scheme).lower() in ("lora", "qlora"):
        yield from one(keys, ("model.peft.lora_tuning.adapter_dim",), "model.lora_rank", whole_number)


# What all models share


def _training(keys: Keys) -> Iterator[Claim]:
    yield from one(keys, NAMES["optimizer.name"], "optimizer.name", word)
    yield from one(keys, NAMES["optimizer.clip"], "optimizer.clip", number)
    for claim in one(keys, NAMES["run.steps"], "run.steps", whole_number):
        if known(claim.value) != -1:
            yield claim


def _lightning(keys: Keys) -> Iterator[Claim]:
    """A model that DDP copies to every GPU."""
    yield from worded(keys, NAMES["precision.compute"], "precision.compute", _FORMATS)
    yield from one(keys, ("model.train_ds.batch_size",), "batch.micro", whole_number)
    yield from one(keys, ("trainer.accumulate_grad_batches",), "batch.accumulation", whole_number)
    yield from _training(keys)
    yield from one(keys, ("trainer.strategy.find_unused_parameters",), "communication.find_unused", flag)
    node = keys.node("trainer.strategy")
    if node is not None and str(node.value).startswith("ddp_find_unused_parameters"):
        yield Claim(
            "communication.find_unused", setting(node, not str(node.value).endswith("false")), "trainer.strategy"
        )


def _is_ddp(keys: Keys) -> bool:
    """Lightning takes DDP for several devices where no other strategy is written."""
    node = keys.node("trainer.strategy")
    if node is None:
        return True
    target = keys.known("trainer.strategy._target_") if node.kind == "object" else node.value
    return str(target).startswith(("ddp", "auto")) or str(target).endswith("DDPStrategy")
