"""DeepSpeed in Python: the config that a script builds as a dict and hands to deepspeed.initialize, a Trainer's
arguments, or a plugin of Accelerate's.
"""

from __future__ import annotations

from collections.abc import Iterator

from dtlint.frameworks import Claim, Member, NamedFile, Reading
from dtlint.frameworks.deepspeed.changes import changes
from dtlint.frameworks.deepspeed.config import read_config
from dtlint.frameworks.deepspeed.dicts import loaded_file, written_dict
from dtlint.frameworks.deepspeed.model_parallel import with_groups
from dtlint.frameworks.deepspeed.spelling import key_of, value_of
from dtlint.languages.json_tree import Document, Entry, Kind, Node
from dtlint.languages.python.calls import Call, argument, calls, passed
from dtlint.languages.python.constants import merged
from dtlint.languages.python.dicts import Passed
from dtlint.languages.python.program import Program, declared_argument, given_argument
from dtlint.languages.python.reach import standing, stands
from dtlint.languages.traced import literal_word
from dtlint.value import Plain, Setting, Unknown, Value

LAYER = "deepspeed-python"
MAX_DEPTH = 6
"""Deepest nesting of dicts that is read; DeepSpeed's own sections go to 4."""

_INITIALIZE = ("deepspeed.initialize", "deepspeed.runtime.engine.initialize")
_CONFIG = ("config", "config_params")
_CONFIG_POSITION = 10
_ARGUMENT = "deepspeed_config"
"""The argument by which deepspeed.initialize(args=args) finds its config."""
_OF_A_STEP = (("optimizer", 2), ("model_parameters", 3), ("training_data", 4), ("lr_scheduler", 5))
"""Arguments of deepspeed.initialize, with their places, that an engine takes steps by."""
_TRAINER_ARGUMENTS = {
    "transformers.TrainingArguments": "transformers",
    "transformers.Seq2SeqTrainingArguments": "transformers",
    "trl.SFTConfig": "trl",
    "trl.DPOConfig": "trl",
    "trl.GRPOConfig": "trl",
}
_STRATEGIES = tuple(
    f"{package}.strategies{module}.DeepSpeedStrategy"
    for package in ("lightning.pytorch", "pytorch_lightning", "lightning.fabric")
    for module in ("", ".deepspeed")
)
"""Lightning's strategy, whose `config` takes the place of all its other arguments."""
_PLUGINS = tuple(f"accelerate{module}.DeepSpeedPlugin" for module in ("", ".utils", ".utils.dataclasses"))
"""Accelerate's plugin, whose `hf_ds_config` takes the place of its fields."""
_OF_PLUGIN = {
    "gradient_accumulation_steps": ("batch.accumulation", 1),
    "gradient_clipping": ("optimizer.clip", 2),
    "zero_stage": ("sharding.stage", 3),
    "offload_optimizer_device": ("sharding.offload_optimizer", 5),
    "offload_param_device": ("sharding.offload_parameters", 6),
}
"""What the fields of the plugin claim, with their places (accelerate 1.15.0 utils/dataclasses.py)."""


def read(program: Program) -> Reading:
    """What the config in a program's code says; a Reading without framework if the program does not call DeepSpeed.

    A config that is a file's name is listed among the files; `config.by_path` holds a call of deepspeed.initialize that
    gets its config as a file, by its arguments or by name. One that is built in a way that is not followed leaves the
    reading open; `config.changed` are the keys that the program sets then.
    """
    for call in _live(program, _TRAINER_ARGUMENTS):
        found = passed(call, "deepspeed")
        if found:
            return _of_config(call, found)._replace(frontend=_TRAINER_ARGUMENTS[call.name])
    for call in _live(program, _STRATEGIES):
        told = _of_config(call, found) if (found := passed(call, "config")) else None
        if told is not None and (told.claims or told.files):
            return told
    plugins = list(calls(program, _PLUGINS))
    if len(plugins) == 1 and stands(plugins[0].place):
        return _of_plugin(plugins[0])
    told = _of_engines([_of_engine(call) for call in _training(list(_live(program, _INITIALIZE)))])
    if told.place is None or not told.open:
        return told
    return told._replace(collections={**told.collections, "config.changed": changes(program, told.place)})


def _of_plugin(call: Call) -> Reading:
    """What Accelerate's plugin is given: a config, or fields of its own. What it is not given the launcher may say."""
    config = passed(call, "hf_ds_config", 0)
    if config:
        return _of_config(call, config)._replace(frontend="accelerate")
    claims = tuple(_plugin_claims(call))
    return Reading(LAYER, call.head, claims, framework="deepspeed", frontend="accelerate", open=call.open)


def _plugin_claims(call: Call) -> Iterator[Claim]:
    for name, (setting, position) in _OF_PLUGIN.items():
        value = argument(call, name, position)
        if value is not None and not (isinstance(value, Value) and value.value is None):
            yield Claim(setting, value, name)


def spell(setting: str, value: Plain) -> str | None:
    """A setting as a dict in Python has it (`"overlap_comm": True` in zero_optimization), or as a layer of experts is
    given it; None if there is no key.
    """
    if setting == "parallel.expert":
        return f"ep_size={value}"
    path = key_of(setting)
    if path is None:
        return None
    section, _, key = path.rpartition(".")
    return f'"{key}": {value_of(setting, value)!r}' + (f" in {section}" if section else "")


def _live(program: Program, names: dict[str, str] | tuple[str, ...]) -> Iterator[Call]:
    """The calls that may be reached, the last one first."""
    yield from reversed(standing(program, names))


def _position(name: str) -> int | None:
    return _CONFIG_POSITION if name == "config" else None


def _training(engines: list[Call]) -> list[Call]:
    """The engines that take steps: those that are given what a step needs. The others of a program that has such (a
    reference or reward model, one for evaluation) have configs of their own, which no step follows.
    """
    found = [call for call in engines if call.open or any(passed(call, *each) for each in _OF_A_STEP)]
    return found or engines


def _of_engine(call: Call) -> Reading:
    found = next((given for name in _CONFIG if (given := passed(call, name, _position(name)))), ())
    told = _of_config(call, found) if found else _of_arguments(call)
    by_path = not found or bool(told.files)
    if by_path:
        told = told._replace(collections={"config.by_path": (Member(call.head, {}),)})
    return with_groups(told, call)


def _of_arguments(call: Call) -> Reading:
    """An engine that takes its config from the command line: the file that its argument names where the launch passes
    none.
    """
    declared = declared_argument(call.place.program, _ARGUMENT)
    passed_on, _ = given_argument(call.place.program, _ARGUMENT)
    default = declared.default if declared is not None and passed_on is None and not call.open else None
    named = default if isinstance(default, Value) and isinstance(default.value, str) else None
    span = named.origin.span if named is not None else None
    files = (NamedFile("deepspeed", literal_word(str(named.value), span)),) if named is not None and span else ()
    return Reading(LAYER, call.head, files=files, framework="deepspeed", open=call.open)


def _of_engines(engines: list[Reading]) -> Reading:
    """One reading of the engines that a program starts: what their configs disagree on is not known."""
    if not engines:
        return Reading(LAYER)
    first, *others = engines
    return first._replace(claims=tuple(_agreed(claim, others) for claim in first.claims))


def _agreed(claim: Claim, others: list[Reading]) -> Claim:
    values = [_value_in(other, claim.setting) for other in others]
    if not isinstance(claim.value, Value) or all(value in (None, claim.value.value) for value in values):
        return claim
    why = f"the program starts several engines, whose {claim.name or claim.setting} differ"
    return claim._replace(value=Unknown(why, f"--set {claim.setting}=...", claim.value.origin))


def _value_in(reading: Reading, setting: str) -> Plain:
    """What another engine's config has, None where it has nothing that is known."""
    found = (claim.value for claim in reading.claims if claim.setting == setting)
    return next((value.value for value in found if isinstance(value, Value)), None)


def _of_config(call: Call, found: tuple[Passed, ...]) -> Reading:
    """The reading of what a call gets as its config: a dict, a file's name, or something else."""
    node = _node(call, found, 0)
    if node.kind == "object":
        reading = read_config(Document(node.span.source, node))
        hidden = "some keys of the config are not followed" if reading.open else call.open
        return reading._replace(layer=LAYER, framework="deepspeed", open=hidden)
    name = (str(node.value), node.span) if node.kind == "string" else loaded_file(found)
    if name is not None:
        file = NamedFile("deepspeed", literal_word(*name))
        return Reading(LAYER, call.head, files=(file,), framework="deepspeed")
    return Reading(LAYER, call.head, framework="deepspeed", open="the config is not written out in the files read")


def _node(call: Call, found: tuple[Passed, ...], depth: int) -> Node:
    """An argument or a dict's item as a node of a config."""
    place = found[-1].place
    span = place.module.span(place.node)
    if len(found) == 1 and not found[0].guards and depth < MAX_DEPTH:
        held = written_dict(place)
        if held is not None:
            entries = tuple(_entry(call, key, item, depth) for key, item in held.items.items())
            return Node("object", None, held.span, entries, hidden=held.span if held.hidden else None)
    told = merged(call.place, found)
    return Node(_kind(told), told.value if isinstance(told, Value) else None, span, told=told)


def _entry(call: Call, key: str, item: tuple[Passed, ...], depth: int) -> Entry:
    node = _node(call, item, depth + 1)
    return Entry(key, node.span, node)


def _kind(told: Setting) -> Kind:
    """What a value would be in JSON."""
    if not isinstance(told, Value):
        return "unknown"
    value = told.value
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, (int, float)):
        return "number"
    return "string" if isinstance(value, str) else "array"
