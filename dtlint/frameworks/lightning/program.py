"""Lightning in Python: what a program passes to its Trainer, its Fabric, or as defaults to LightningCLI."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.frameworks import Claim, Member, NamedFile, Reading
from dtlint.frameworks.deepspeed.dicts import written_dict
from dtlint.frameworks.dotted_keys import Keys
from dtlint.frameworks.lightning.faults import refused_arguments
from dtlint.frameworks.lightning.hydra import ROLE as HYDRA_ROLE
from dtlint.frameworks.lightning.strategies import CLASSES, files_of, strategy_of
from dtlint.frameworks.lightning.trainer import (
    DEVICES,
    WAYS,
    devices,
    framework_of,
    launch_claims,
    names,
    own_start,
    training_claims,
    trains_on_gpus,
)
from dtlint.frameworks.pytorch.names import FSDP1, FSDP2
from dtlint.languages.json_tree import Kind, Node
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.calls import Call, argument, call_at, called, calls, passed
from dtlint.languages.python.constants import live_ways, merged
from dtlint.languages.python.dicts import Passed
from dtlint.languages.python.following import ways
from dtlint.languages.python.places import Place
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import standing, stands
from dtlint.languages.traced import literal_word
from dtlint.value import Plain, Setting, Unknown, Value, written

LAYER = "lightning-python"
_PACKAGES = ("lightning", "lightning.pytorch", "pytorch_lightning", "lightning.fabric", "lightning_fabric")
TRAINERS = tuple(f"{package}.{name}" for package in _PACKAGES for name in ("Trainer", "Fabric"))
_CLIS = tuple(f"{package}.cli.LightningCLI" for package in ("lightning.pytorch", "pytorch_lightning"))
_MAKERS = tuple(f"hydra.{module}.{name}" for module in ("utils", "_internal.utils") for name in ("instantiate", "call"))
_LOADERS = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")
_ALONE = "LightningEnvironment"
"""Lightning's class for machines without a scheduler, which a program may insist on."""
_WRAPS = (
    "torch.distributed.fsdp.wrap.wrap",
    "torch.distributed.fsdp.wrap",
    "fairscale.nn.wrap",
    "fairscale.nn.auto_wrap",
)
"""Functions that wrap a layer by itself, under the strategy that a Trainer or a Fabric has."""
_SECTION = "trainer"
_ARGUMENTS = (
    "accelerator", "devices", "gpus", "num_nodes", "precision", "plugins", "accumulate_grad_batches",
    "gradient_clip_val", "gradient_clip_algorithm", "max_steps",
)  # fmt: skip
_BUILT = (ast.Set, ast.Call, ast.Lambda, ast.List, ast.Tuple, ast.Dict)
"""Expressions of which it is enough to know that they are there (a policy, a list of plugins)."""


def read(program: Program) -> Reading:
    """What the one Trainer or Fabric of a program is passed; the defaults that LightningCLI is given otherwise.

    `code.trainers` has the first call with `devices` and `nodes` as far as they are passed. Of several calls none is
    known to be the one that trains.
    """
    found = standing(program, TRAINERS)
    if not found:
        return _from_config(program) or _defaults(program)
    trainers: dict[str, tuple[Member, ...]] = {"code.trainers": (_expected(found[0]),)}
    if len(found) == 1 and _is_handed_config(found[0]):
        return _of_trainer(program, found[0], {})._replace(files=(_config_of(found[0]),))
    if len(found) > 1:
        return Reading(LAYER, found[0].head, frontend="lightning", collections=trainers, open="several Trainers")
    return _of_trainer(program, found[0], trainers)


def spell(setting: str, value: Plain) -> str | None:
    """How a Trainer is told this value, None if it is not."""
    if setting == "precision.compute":
        words = {"bf16": "bf16-mixed", "fp16": "16-mixed", "fp32": "32-true"}
        return f"precision='{words[str(value)]}'" if str(value) in words else None
    name = names(_SECTION).get(setting)
    return None if name is None else f"{name[0].rpartition('.')[2]}={value!r}"


def _from_config(program: Program) -> Reading | None:
    """The config of which hydra makes the Trainer, where the program has it make objects and hands it no argument of a
    Trainer's itself.
    """
    made = standing(program, _MAKERS)
    if not made or any(passed(call, name) for call in made for name in (*_ARGUMENTS, "strategy")):
        return None
    return Reading("program", files=(_config_of(made[0]),))


def _is_handed_config(call: Call) -> bool:
    """Whether a Trainer takes all that matters from a section of hydra's config (`Trainer(**cfg.trainer)`)."""
    node = call.place.node
    unpacked = [word.value for word in node.keywords if word.arg is None] if isinstance(node, ast.Call) else []
    section = len(unpacked) == 1 and dotted(unpacked[0]).endswith(f".{_SECTION}")
    hydra = "hydra.main" in call.place.module.source.text
    return section and hydra and not any(passed(call, name) for name in (*_ARGUMENTS, "strategy"))


def _config_of(call: Call) -> NamedFile:
    """The config that hydra composes for the program."""
    return NamedFile(HYDRA_ROLE, literal_word(call.name, call.head))


def _of_trainer(program: Program, call: Call, trainers: dict[str, tuple[Member, ...]]) -> Reading:
    keys = Keys(dict(_nodes(call)))
    claims = (
        *launch_claims(keys, _SECTION, call.head),
        *training_claims(keys, _SECTION),
        *_loaded(program),
        *_wrapped_by_hand(program, keys),
    )
    return Reading(
        LAYER,
        call.head,
        tuple(claim._replace(name=claim.name.rpartition(".")[2]) for claim in claims),
        tuple(files_of(strategy_of(keys, _SECTION))),
        framework=framework_of(keys, _SECTION),
        frontend="lightning",
        open=call.open,
        role="" if trains_on_gpus(keys, _SECTION) else "other",
        collections={**trainers, **refused_arguments(keys, _SECTION)},
    )


def _expected(call: Call) -> Member:
    named = next((name for name in DEVICES if passed(call, name)), DEVICES[0])
    given = {"devices": argument(call, named), "nodes": argument(call, "num_nodes")}
    fields = {name: value for name, value in given.items() if value is not None}
    several = next((node for name, node in _plain(call) if name == f"{_SECTION}.{named}"), None)
    count = None if several is None else devices(several)
    if isinstance(count, Value):
        fields["devices"] = count
    alone = _starts_itself(call)
    return Member(call.head, fields if alone is None else {**fields, "devices": alone})


def _starts_itself(call: Call) -> Unknown | None:
    """Why Slurm does not start the process of each GPU: the strategy, or an environment that is not Slurm's."""
    if any(isinstance(node, ast.Call) and dotted(node.func).endswith(_ALONE) for node in ast.walk(call.place.node)):
        return Unknown(f"{_ALONE} has the Trainer start its processes itself")
    told = (argument(call, name) for name in WAYS if passed(call, name))
    return own_start(next((way.value for way in told if isinstance(way, Value)), None))


def _defaults(program: Program) -> Reading:
    """What LightningCLI takes where neither file nor option says otherwise."""
    found = standing(program, _CLIS)
    given = passed(found[0], "trainer_defaults") if len(found) == 1 else ()
    held = written_dict(given[0].place) if len(given) == 1 else None
    if not found:
        return Reading(LAYER)
    if held is None:
        why = "trainer_defaults hold further settings" if given else ""
        wrapped = tuple(_wrapped_by_hand(program, Keys({})))
        return Reading(LAYER, found[0].head, wrapped, frontend="lightning", open=why)
    keys = Keys({f"{_SECTION}.{name}": _node(found[0], item) for name, item in held.items.items()})
    told = (claim for claim in training_claims(keys, _SECTION) if claim.name)
    claims = tuple(claim._replace(name=claim.name.rpartition(".")[2]) for claim in told)
    claims = (*claims, *_wrapped_by_hand(program, keys))
    return Reading(LAYER, found[0].head, claims, frontend="lightning")


def _nodes(call: Call) -> Iterator[tuple[str, Node]]:
    yield from _plain(call)
    found = passed(call, "strategy")
    if not found and not call.open:
        return
    built = _built(found[0].place) if len(found) == 1 and not found[0].guards else None
    if built is None:
        yield f"{_SECTION}.strategy", _argument_node(call, "strategy")
        return
    yield f"{_SECTION}.strategy.class_path", Node("string", built.name, built.span)
    for name in built.keywords:
        yield f"{_SECTION}.strategy.init_args.{name}", _argument_node(built, name)


def _plain(call: Call) -> Iterator[tuple[str, Node]]:
    for name in _ARGUMENTS:
        if passed(call, name) or call.open:
            yield f"{_SECTION}.{name}", _argument_node(call, name)


def _built(place: Place) -> Call | None:
    """The call that builds a strategy, where an expression stands for one; one with `**arguments` is not known."""
    ends = [way.end for way, _ in live_ways(place)]
    end = ends[0] if len(ends) == 1 else None
    if not isinstance(end, Place) or not isinstance(end.node, ast.Call):
        return None
    name = called(end)
    built = call_at(end, name) if name.rpartition(".")[2] in CLASSES else None
    return built if built is not None and not built.open and not built.positional else None


def _argument_node(call: Call, name: str) -> Node:
    found = passed(call, name)
    if found:
        return _node(call, found)
    return Node("unknown", None, call.head, told=argument(call, name))


def _node(call: Call, found: tuple[Passed, ...]) -> Node:
    """An argument as the value that a config would hold."""
    place = found[-1].place
    span = place.module.span(place.node)
    told = merged(call.place, found)
    if isinstance(told, Value):
        return _told(told)._replace(span=told.origin.span or span)
    ends = [way.end for way in ways(place)] if isinstance(told, Unknown) and not told.means else []
    end = ends[0] if len(ends) == 1 else None
    if isinstance(end, Place) and isinstance(end.node, _BUILT) and not found[-1].guards:
        return Node("object", None, span)
    return Node("unknown", None, span, told=told)


def _told(value: Value) -> Node:
    held = value.value
    span = value.origin.span
    assert span is not None
    items = tuple(_told(value._replace(value=item)) for item in held) if isinstance(held, tuple) else ()
    return Node(_kind(held), None if items else held, span, items=items, told=value)


def _kind(held: Plain) -> Kind:
    if held is None:
        return "null"
    if isinstance(held, bool):
        return "bool"
    if isinstance(held, (int, float)):
        return "number"
    return "string" if isinstance(held, str) else "array"


def _wrapped_by_hand(program: Program, keys: Keys) -> Iterator[Claim]:
    """The layers that a module wraps itself (`configure_model`), beside a strategy that is given no policy."""
    if keys.node(f"{_SECTION}.strategy.init_args.auto_wrap_policy") is None:
        wraps = standing(program, (*_WRAPS, *FSDP1, *FSDP2))
        yield from (Claim("sharding.units", written("wrapped", call.head), "wrap") for call in wraps[:1])


def _loaded(program: Program) -> Iterator[Claim]:
    """The batch of the one loader that a `train_dataloader` builds: that of each process."""
    found = [
        call
        for call in calls(program, _LOADERS)
        if call.place.scope.name == "train_dataloader" and stands(call.place) is not False
    ]
    size: Setting | None = argument(found[0], "batch_size", 1) if len(found) == 1 else None
    if size is not None:
        yield Claim("batch.micro", size, "batch_size")
