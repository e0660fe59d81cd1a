"""NeMo 2 and Megatron-Bridge as programs use them: the trainer with data and model, or the config, of a training."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dtlint.frameworks import Claim, Member, Reading, dotted_keys
from dtlint.frameworks.dotted_keys import Keys, launcher_by_default, number_at
from dtlint.frameworks.hydra.command_line import overrides
from dtlint.frameworks.keys import claims_of
from dtlint.frameworks.lightning.trainer import expected
from dtlint.frameworks.nemo.overlaid import with_files
from dtlint.frameworks.nemo.recipes import (
    BRIDGE,
    BRIDGE_ARGUMENTS,
    NEMO,
    Table,
    model_of,
    path_of,
    recipe_formats,
    recipes_model,
    spell_in,
)
from dtlint.frameworks.nemo.strategy import BRIDGE_SWITCHES, NEMO_SWITCHES, idle_strategy
from dtlint.frameworks.recomputing import lone_methods
from dtlint.frameworks.stage_cuts import keyed_cut
from dtlint.languages.python.building import Run, Seen
from dtlint.languages.python.building_calls import OWNER
from dtlint.languages.python.building_values import built_by, run_program
from dtlint.languages.python.built import LIST, Built, Part, leaf, node_of
from dtlint.languages.python.program import Program, definition
from dtlint.languages.python.tree import HERE
from dtlint.languages.traced import Word
from dtlint.source import Span
from dtlint.value import Setting, Unknown, Value, default

__all__ = ["read", "spell_in"]

LAYER = "nemo-python"
_CALLS = ("pretrain", "finetune", "train", "run", "add", "fit")
"""Functions and methods that are given what is to be trained."""
_SHARDINGS = {"no_shard": 0, "optim": 1, "optim_grads": 2, "optim_grads_params": 3}
"""Strategies of Megatron's FSDP by the stage of ZeRO that each amounts to."""
_BRIDGE = "megatron.bridge."
CONFIG = "ConfigContainer"
"""The class of Megatron-Bridge's configs."""
_CALLBACK = "MegatronCommOverlapCallback"
_OVERLAPS = {"overlap.gradients": "overlap_grad_reduce", "overlap.parameters": "overlap_param_gather"}


def read(program: Program, words: Sequence[Word] = ()) -> Reading:
    """What the program trains by, where it hands that to one call; nothing for a program that uses neither.

    `words` are its arguments, of which `key=value` overrides stand over Megatron-Bridge's config.
    """
    run = Run(program, _CALLS)
    run_program(run)
    trained = [with_files(found, program) for seen in run.met if (found := _trained(seen)) is not None]
    readings = [_reading(built, words) for built in trained]
    return readings[0] if readings and all(_alike(each, readings[0]) for each in readings) else _none_of(readings)


def read_function(program: Program, name: str, words: Sequence[Word] = ()) -> Reading | None:
    """What the config claims that a function of a file returns; None for one that returns none of Megatron-Bridge's."""
    found = definition(program, program.main, f"{HERE}.{name}")
    built = built_by(found, Run(program, _CALLS)) if found is not None else None
    return _reading(built, words) if isinstance(built, Built) and _is_config(built) else None


def _alike(one: Reading, other: Reading) -> bool:
    return [(claim.setting, claim.value) for claim in one.claims] == [
        (claim.setting, claim.value) for claim in other.claims
    ]


def _none_of(readings: Sequence[Reading]) -> Reading:
    """Several trainings that differ: what they agree in."""
    if not readings:
        return Reading(LAYER)
    known = [{claim.setting: claim for claim in reading.claims} for reading in readings]
    names = dict.fromkeys(name for claims in known for name in claims)
    claims = tuple(_agreed(name, [claims.get(name) for claims in known]) for name in names)
    return readings[0]._replace(claims=claims)


def _agreed(name: str, found: Sequence[Claim | None]) -> Claim:
    first = found[0]
    same = all(each is not None and first is not None and each.value == first.value for each in found)
    if same and first is not None:
        return first
    return Claim(name, Unknown("the program trains several times with different values", f"--set {name}=..."))


def _trained(seen: Seen) -> Built | None:
    """The config, recipe, or trainer with model and data that a call is given; None for a call of something else."""
    given = seen.built.given
    owner = given.get(OWNER)
    if isinstance(owner, Built) and owner.name.endswith(".Trainer"):
        return _gathered({**given, "trainer": owner}, seen.built.span)
    if isinstance(given.get("trainer"), Built):
        return _gathered(given, seen.built.span)
    config = given.get("config", given.get("0"))
    if seen.name.startswith(_BRIDGE) and isinstance(config, Built):
        return config
    for part in given.values():
        if isinstance(part, Built) and (_is_recipe(part) or _is_config(part)):
            return part
    return None


def _gathered(given: Mapping[str, Part], span: Span) -> Built | None:
    found = Built("", span, {name: part for name, part in given.items() if not name.isdecimal()})
    return found if _is_recipe(found) else None


def _is_recipe(built: Built) -> bool:
    """Whether an object is NeMo's: it has a trainer with Megatron's strategy, or comes of a recipe."""
    trainer = built.fields.get("trainer")
    strategy = trainer.fields.get("strategy") if isinstance(trainer, Built) else None
    if isinstance(strategy, Built) and (strategy.name.endswith("MegatronStrategy") or (built.open and strategy.fields)):
        return True
    return built.name.endswith(("pretrain_recipe", "finetune_recipe"))


def _is_config(built: Built) -> bool:
    """Whether an object is Megatron-Bridge's config, by its class or by the recipe that it comes of."""
    return built.name.endswith(CONFIG) or (built.name.endswith("_config") and "train" in built.fields)


def _reading(built: Built, words: Sequence[Word]) -> Reading:
    recipe = _is_recipe(built)
    table = NEMO if recipe else BRIDGE
    _configure(built, recipe)
    if not recipe:
        _with_arguments(built)
    root = node_of(built, built.span)
    keys = dotted_keys.keys_of(root, overrides(words)) if root is not None else Keys({})
    model = "model.config" if recipe else "model"
    _precision(built, recipe)
    claims = (
        *(_launch(built) if recipe else ()),
        *claims_of(keys, table),
        *_cut(keys, recipe),
        *_derived(built, keys, recipe),
    )
    told = {claim.setting for claim in claims}
    shape = "model.name" in told or _is_bridged(built)
    hidden = (claim for claim in _hidden(built, table, told) if not (shape and claim.setting.startswith("model.")))
    methods = lone_methods(keys, f"{model}.recompute_", not _open(built, f"{model}.recompute_granularity"))
    inert = (*methods, *_idle_strategy(built, keys, recipe))
    return Reading(
        LAYER,
        built.span,
        (*claims, *hidden),
        framework="nemo",
        unread=_unread(built, recipe),
        collections={
            **({"config.inert": inert} if inert else {}),
            **(_trainer(keys, built.span) if recipe else {}),
        },
    )


def _trainer(keys: Keys, place: Span) -> Mapping[str, tuple[Member, ...]]:
    """What a recipe's Trainer, which is Lightning's, counts on where it is told how many devices."""
    return {} if keys.node("trainer.devices") is None else {"code.trainers": (expected(keys, "trainer", place),)}


def _idle_strategy(built: Built, keys: Keys, recipe: bool) -> Iterator[Member]:
    switches = NEMO_SWITCHES if recipe else BRIDGE_SWITCHES
    if not any(_open(built, switch) for switch in switches):
        yield from idle_strategy(keys, path_of("ddp", recipe), switches)


def _cut(keys: Keys, recipe: bool) -> Iterator[Claim]:
    model, strategy = ("model.config", "trainer.strategy") if recipe else ("model", "model")
    layers, stages = number_at(keys, f"{model}.num_layers"), number_at(keys, f"{strategy}.pipeline_model_parallel_size")
    for section in dict.fromkeys((model, strategy)):
        yield from keyed_cut(keys, section, layers, stages)


def _unread(built: Built, recipe: bool) -> str:
    """Why nothing can be taken for a default, "" where all that is not written has its own."""
    return built.open or (_open(built, "trainer.strategy") if recipe else "")


def _is_bridged(built: Built) -> bool:
    """Whether the model's config is the one that Bridge makes of a Hugging Face model: its shape, and else defaults."""
    model = built.fields.get("model")
    return isinstance(model, Built) and isinstance(model.given.get("0"), Value) and not model.name


def _launch(built: Built) -> Iterator[Claim]:
    """Lightning starts or finds a process for each device; a recipe takes the machines as its arguments."""
    yield launcher_by_default("lightning", built.span, "NeMo")
    for name, argument in (("launch.nodes", "num_nodes"), ("launch.processes_per_node", "num_gpus_per_node")):
        part = built.given.get(argument)
        if part is not None and isinstance(value := leaf(part), Value) and isinstance(value.value, int):
            yield Claim(name, value, argument)


def _hidden(built: Built, table: Table, told: set[str]) -> Iterator[Claim]:
    """What is not told of an object that is not wholly known."""
    for path, meaning in table.items():
        reason = _open(built, path)
        if path.startswith("model.") and _is_bridged(built):
            continue
        if reason and meaning.setting not in told:
            told.add(meaning.setting)
            yield Claim(meaning.setting, Unknown(reason, f"--set {meaning.setting}=..."), path)


def _open(built: Built, path: str) -> str:
    """Why a key may be set without being told, "" where it is not."""
    at: Part | None = built
    for name in path.split("."):
        if not isinstance(at, Built):
            return ""
        if name not in at.fields:
            return at.open
        at = at.fields[name]
    return at.open if isinstance(at, Built) else ""


def _at(built: Built, path: str) -> Part | None:
    at: Part | None = built
    for name in path.split("."):
        at = at.fields.get(name) if isinstance(at, Built) else None
    return at


def _setting(built: Built, path: str) -> Setting | None:
    part = _at(built, path)
    return None if part is None or isinstance(part, Built) else part


# What several keys, or the class of an object, tell together


def _derived(built: Built, keys: Keys, recipe: bool) -> Iterator[Claim]:
    yield from _sharding(built, recipe)
    yield from _formats(built, recipe)
    yield from _overlaps(built, recipe)
    yield from _clip(built, recipe)
    yield from _adapters(built)
    model = _at(built, "model")
    named = model_of(model) if isinstance(model, Built) else ()
    yield from (tuple(named) or recipes_model(built))


def _sharding(built: Built, recipe: bool) -> Iterator[Claim]:
    """Megatron's FSDP by its strategy, else the optimizer's switch: it wins over that of the data-parallel wrapper."""
    ddp = path_of("ddp", recipe)
    switch = _fsdp_switch(built, recipe)
    path = f"{ddp}.data_parallel_sharding_strategy"
    if isinstance(switch, Value) and switch.value:
        kind = _setting(built, path)
        stage = _SHARDINGS.get(str(kind.value)) if isinstance(kind, Value) else None
        known = kind._replace(value=stage) if isinstance(kind, Value) and stage is not None else None
        yield Claim("sharding.stage", known or Unknown("its sharding strategy is not known"), path)
        return
    path = path_of("optimizer", recipe) + ".use_distributed_optimizer"
    for each in (path, f"{ddp}.use_distributed_optimizer"):
        found = _setting(built, each)
        if isinstance(found, Value) and isinstance(found.value, bool) and _certain(switch):
            yield Claim("sharding.stage", found._replace(value=int(found.value)), each)
            return
    unsaid = _open(built, path) or _open(built, ddp) or ("" if _certain(switch) else "the switch of FSDP is not known")
    if unsaid or found is not None:
        yield Claim("sharding.stage", Unknown(unsaid or "it depends on a condition", "--set sharding.stage=N"), path)
    else:
        yield Claim("sharding.stage", default(0, "Megatron-Core"), path)


def _fsdp_switch(built: Built, recipe: bool) -> Setting | None:
    """The one of the switches of Megatron's FSDP that decides: one that is on, else one that is not known."""
    found = [_setting(built, path) for path in (NEMO_SWITCHES[:1] if recipe else BRIDGE_SWITCHES)]
    on = (each for each in found if isinstance(each, Value) and each.value)
    return next(on, None) or next((each for each in found if not _certain(each)), None)


def _certain(switch: Setting | None) -> bool:
    return switch is None or isinstance(switch, Value)


def _with_arguments(built: Built) -> None:
    """What a recipe's function of Megatron-Bridge is called with, where nothing is assigned over it."""
    for name, part in built.given.items():
        section, _, attribute = BRIDGE_ARGUMENTS.get(name, "").partition(".")
        owner = built.attribute(section, built.span) if section else None
        if isinstance(owner, Built) and not isinstance(part, Built):
            owner.fields.setdefault(attribute, part)


def _configure(built: Built, recipe: bool) -> None:
    """The model's config under its name where the model is given it as its first argument (`GPTModel(config)`)."""
    model = built.fields.get("model") if recipe else None
    config = model.given.get("0") if isinstance(model, Built) else None
    if isinstance(model, Built) and isinstance(config, Built) and "config" not in model.fields:
        model.fields["config"] = config


def _precision(built: Built, recipe: bool) -> None:
    """A list of plugins by the one that decides the precision."""
    plugins = _at(built, "trainer.plugins") if recipe else None
    if isinstance(plugins, Built) and plugins.name == LIST:
        kept = [item for item in plugins.fields.values() if isinstance(item, Built) and "recision" in item.name]
        trainer = built.fields["trainer"]
        if kept and isinstance(trainer, Built):
            trainer.fields["plugins"] = kept[0]


def _formats(built: Built, recipe: bool) -> Iterator[Claim]:
    path = "trainer.plugins" if recipe else "mixed_precision"
    part = _at(built, path)
    for name, value in recipe_formats(part).items():
        yield Claim(name, value, path)
    if part is None and (reason := _open(built, path)):
        yield Claim("precision.compute", Unknown(reason, "--set precision.compute=..."), path)


def _overlaps(built: Built, recipe: bool) -> Iterator[Claim]:
    """A callback or config for overlapped communication switches on what is not written, where it can."""
    ddp = path_of("ddp", recipe)
    more = _callback(built) if recipe else _at(built, "comm_overlap")
    for name, key in _OVERLAPS.items():
        found = _setting(built, f"{ddp}.{key}")
        if found is not None:
            yield Claim(name, found, f"{ddp}.{key}")
        elif isinstance(more, Built) or _open(built, f"{ddp}.{key}"):
            yield Claim(name, Unknown("it follows from the degrees, or is set elsewhere", f"--set {name}=..."), ddp)
    if isinstance(more, Built) and (tensor := _setting(more, "tp_comm_overlap")) is not None:
        yield Claim("overlap.tensor", tensor, "tp_comm_overlap")


def _callback(built: Built) -> Built | None:
    callbacks = _at(built, "trainer.callbacks")
    items = callbacks.fields.values() if isinstance(callbacks, Built) else ()
    return next((item for item in items if isinstance(item, Built) and item.name.endswith(_CALLBACK)), None)


def _clip(built: Built, recipe: bool) -> Iterator[Claim]:
    """Megatron-Core's optimizer clips unless it is told not to."""
    path = path_of("optimizer", recipe)
    part = _at(built, path)
    if isinstance(part, Built) and part.name.endswith("OptimizerConfig") and "clip_grad" not in part.fields:
        yield Claim("optimizer.clip", default(1.0, "Megatron-Core"), f"{path}.clip_grad")


def _adapters(built: Built) -> Iterator[Claim]:
    """Adapters by their class; 32 is the rank of those that name none."""
    part = built.fields.get("peft")
    if part is None and built.open:
        yield Claim("model.lora_rank", Unknown(built.open, "--set model.lora_rank=N"), "peft")
    if part is None or (isinstance(part, Value) and part.value is None):
        return
    if isinstance(part, Built) and part.name.rpartition(".")[2] in ("LoRA", "DoRA", "CanonicalLoRA"):
        yield Claim("model.lora_rank", _setting(part, "dim") or default(32, "NeMo"), "peft.dim")
    else:
        yield Claim("model.lora_rank", Unknown("its adapters are not known", "--set model.lora_rank=N"), "peft")
