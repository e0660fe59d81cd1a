"""Claims of several readings, settled into one set of settings: who wins, who loses, which framework is in charge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import cast

from dtlint.frameworks import AUTO, Claim, Member, Reading
from dtlint.frameworks.cards import is_family, of_family
from dtlint.plan.derive import HIDDEN
from dtlint.plan.vocabulary import beyond, term
from dtlint.record import NamedTuple
from dtlint.runs.model import Options
from dtlint.value import Choice, Setting, Unknown, Value, assumed, written

PRECEDENCE = Path(__file__).parent.parent / "catalog" / "data" / "precedence.yaml"

STRENGTH = (
    "nemo",
    "nanotron",
    "gpt-neox",
    "torchtitan",
    "megatron-deepspeed",
    "megatron",
    "deepspeed",
    "fsdp",
    "ddp",
    "pytorch",
)
"""Frameworks from the one that decides most: a Megatron command under torchrun is a Megatron run, a DDP call beside
DeepSpeed is not DDP.
"""


class Settled(NamedTuple):
    """The effective settings, and the claims that lost against another value."""

    settings: Mapping[str, Setting]
    conflicts: tuple[Member, ...]

    @property
    def framework(self) -> str:
        """The framework in charge, "" if none is known."""
        found = self.settings.get("framework")
        return str(found.value) if isinstance(found, Value) else ""


class _Stated(NamedTuple):
    claim: Claim
    layer: str
    rank: int


def settle(readings: Sequence[Reading], options: Options) -> Settled:
    """One value per setting. A later claim of one layer beats an earlier one (argparse keeps the last), a known one
    an unknown or "auto".
    """
    stated: dict[str, list[_Stated]] = {}
    unread = any(reading.unread for reading in readings)
    for reading in readings:
        for claim in reading.claims:
            if unread and claim.setting.startswith(HIDDEN) and not _may_stand(claim.value):
                continue
            rank = _rank(claim.setting, reading.layer)
            stated.setdefault(claim.setting, []).append(_Stated(claim, reading.layer, rank))
    settings: dict[str, Setting] = {name: value for name, value in options.cluster.items() if name not in stated}
    settings.update({name: _possible(name, _winner(claims)) for name, claims in stated.items()})
    settings.update(_identity(readings))
    settings.update(options.settings)
    settings = _sized(settings, options)
    settings.update(_confirmed(settings))
    lost = (member for name, claims in stated.items() for member in _conflicts(name, claims))
    compared = not starts_engine(readings) and not _is_looped(settings)
    return Settled(settings, tuple(member for member in lost if compared or not _is_refused(member)))


def _sized(settings: dict[str, Setting], options: Options) -> dict[str, Setting]:
    """The settings with the card that the user names, or the team for its cluster, where the files name a family of
    cards alone: its memory is known then.
    """
    named, given, told = settings.get(_CARD), options.settings.get(_CARD), options.cluster.get(_CARD)
    if not isinstance(settings.get(_MEMORY), Unknown):
        return settings
    without = {name: value for name, value in settings.items() if name != _MEMORY}
    if given is not None:
        return settings if is_family(given.value) else without
    if not isinstance(named, Value) or told is None or not of_family(named.value, told.value):
        return settings
    return without | {name: options.cluster[name] for name in (_CARD, _MEMORY) if name in options.cluster}


_CARD, _MEMORY = "cluster.gpu", "cluster.gpu_memory_gib"
_MACHINES = {"launch.nodes": "cluster.nodes", "launch.processes_per_node": "cluster.gpus_per_node"}
"""What a launch says of its machines, and what else may say it."""


def _confirmed(settings: Mapping[str, Setting]) -> Iterator[tuple[str, Setting]]:
    """Fallbacks of a launch (`${NNODES:-2}`) that are what its machines are told to be, and no assumption any more."""
    for name, machines in _MACHINES.items():
        found, told = settings.get(name), settings.get(machines)
        if not isinstance(found, Value) or not isinstance(told, Value) or found.value != told.value:
            continue
        if (
            found.origin.kind == "assumed"
            and found.origin.span is not None
            and told.origin.kind in ("written", "given")
        ):
            yield name, found._replace(origin=found.origin._replace(kind="written"))


def starts_engine(readings: Sequence[Reading]) -> bool:
    """Whether the program hands its config to DeepSpeed by itself: no Trainer, to which a dict may be handed too,
    compares it with its arguments.
    """
    own = (reading for reading in readings if reading.layer == "deepspeed-python" and reading.framework)
    return any(not reading.frontend for reading in own)


def _is_looped(settings: Mapping[str, Setting]) -> bool:
    """Whether a loop with an Accelerator trains, which no Trainer has a part in."""
    front = settings.get("frontend")
    return isinstance(front, Value) and front.value == "accelerate"


def _is_refused(lost: Member) -> bool:
    effect = lost.fields["effect"]
    return isinstance(effect, Value) and effect.value == "refused"


def _winner(claims: Sequence[_Stated]) -> Setting:
    return _best(claims).claim.value


def _possible(name: str, value: Setting) -> Setting:
    """A number that the setting cannot have (a micro batch of 0) tells nothing: what follows from it is not known."""
    if isinstance(value, Choice):
        return Choice(tuple(option._replace(value=_in_range(name, option.value)) for option in value.options))
    return _in_range(name, value)


def _in_range(name: str, value: Value | Unknown) -> Value | Unknown:
    if isinstance(value, Unknown):
        return value
    reason = beyond(term(name), value.value)
    return Unknown(reason, f"--set {name}=...", value.origin) if reason else value


def _best(claims: Sequence[_Stated]) -> _Stated:
    latest_first = reversed(list(enumerate(claims)))
    ordered = [each for _, each in sorted(latest_first, key=lambda item: (item[1].rank, -item[0]))]
    best = next((each for each in ordered if not _is_auto(each.claim.value)), ordered[0])
    if isinstance(best.claim.value, Unknown) and best.layer not in FINAL:
        told = next((each for each in ordered if _is_told(each.claim.value)), best)
        return _taken_for(best, told) if best.layer in LAUNCHERS else told
    return best


def _taken_for(launcher: _Stated, told: _Stated) -> _Stated:
    """What a program says in place of what its launcher was given, which is not known: the two may differ."""
    value = told.claim.value
    if not isinstance(value, Value) or value.origin.kind != "written":
        return told
    why = f"{launcher.claim.name} is not known, and {told.claim.name} says {value.value}"
    stand_in = assumed(value.value, why, f"--set {told.claim.setting}=N")
    return told._replace(claim=told.claim._replace(value=stand_in))


FINAL = frozenset(("assigned-arguments", "accelerate-flags", "verl", "verl-critic", "easyr1", "gpt-neox"))
"""Layers that replace what a weaker one says even where their own word is not known (`--num_processes $N`)."""


LAUNCHERS = frozenset(("torchrun",))
"""Layers of launchers whose own number counts where a program says another: the trainer takes it from them."""


OVERRIDES = frozenset(
    (
        ("transformers-file", "transformers-arguments"),
        ("transformers-declared", "transformers-arguments"),
        ("transformers-declared", "transformers-file"),
        *((layer, "assigned-arguments") for layer in ("transformers-arguments", "transformers-file")),
        *((layer, "assigned-arguments") for layer in ("transformers-declared", "transformers-python")),
        *(("filled-arguments", layer) for layer in ("transformers-arguments", "transformers-file")),
        *(("filled-arguments", layer) for layer in ("transformers-declared", "transformers-python")),
    )
)
"""Files of arguments with the command lines that are laid over them, which is what such a command line is for,
defaults with what takes their place, and arguments with what a program sets them to afterwards.
"""


GIVING_WAY = frozenset(("own-loop", "fsdp-plugin-unasked", "wrapped-model"))
"""Layers of what a loop is seen to do, and of what a plugin or a trainer takes unasked: no settings that another
overrides.
"""


OWNED = frozenset(("batch.accumulation", layer) for layer in ("lightning-python", "lightning-cli", "lightning-hydra"))
"""Settings that only their layer may say: a config that has them too is refused, whether or not the two differ."""


def _may_stand(value: Setting) -> bool:
    """Whether a value holds whatever a file says that could not be read: all but what a tool takes unasked."""
    return not isinstance(value, Value) or _is_told(value)


def _is_told(value: Setting) -> bool:
    """Whether a value is known without being what a tool takes unasked."""
    return isinstance(value, Value) and value.origin.kind != "default"


def _is_auto(value: Setting) -> bool:
    return isinstance(value, Unknown) and value.reason == AUTO


def _conflicts(name: str, claims: Sequence[_Stated]) -> list[Member]:
    """The losers whose value differs from the winner's, one per layer."""
    last = {each.layer: each for each in claims}
    best = _best(claims)
    winner = best.claim.value
    if isinstance(winner, (Unknown, Choice)) or winner.origin.span is None:
        return []
    speaking = (each for each in last.values() if each.layer not in GIVING_WAY)
    rivals = (each for each in speaking if (each.layer, best.layer) not in OVERRIDES)
    lost = (each for each in rivals if (name, each.layer) not in OWNED)
    return [_loser(name, each, best) for each in lost if _differs(each.claim.value, winner)]


def _differs(value: Setting, winner: Value) -> bool:
    if not isinstance(value, Value) or not _is_told(value):
        return False
    return value.value != winner.value and value.origin.span is not None


def _loser(name: str, lost: _Stated, best: _Stated) -> Member:
    winner = best.claim.value
    assert isinstance(lost.claim.value, Value) and isinstance(winner, Value)
    place, won = lost.claim.value.origin.span, winner.origin.span
    assert place is not None and won is not None
    fields: dict[str, Setting] = {
        "setting": written(name, place),
        "name": written(lost.claim.name or name, place),
        "value": lost.claim.value,
        "winner_name": written(best.claim.name or name, won),
        "winner": winner,
        "effect": written("overridden" if _is_uncompared(lost, best) else _effect(name, lost.layer, best.layer), place),
    }
    return Member(place, fields, ((won, f"{name} = {winner.value}"),))


TRAINER = "transformers"
"""What the layers of the Trainer's readers begin with."""
ARGUED = (TRAINER, "axolotl")
"""What the layers begin with that become the Trainer's arguments."""
DEEPSPEED_CONFIGS = frozenset(("deepspeed-json", "deepspeed-python"))
"""The layers of DeepSpeed's config: a file, or a dict of the program."""
MATCHED = ("batch.global", "batch.micro", "batch.accumulation", "optimizer.clip", "precision.compute")
"""Settings of a DeepSpeed config that the Hugging Face Trainer compares with its own arguments."""


def _is_uncompared(lost: _Stated, best: _Stated) -> bool:
    """Whether a format stands under the older name of its section, which the Trainer does not compare (transformers
    integrations/deepspeed.py, trainer_config_process: bf16.enabled alone).
    """
    return any(each.layer in DEEPSPEED_CONFIGS and each.claim.name.startswith("bfloat16.") for each in (lost, best))


def _effect(name: str, lost: str, won: str) -> str:
    """What comes of a disagreement of two layers: the Trainer refuses a DeepSpeed config, be it Accelerate's section,
    that differs from its arguments; elsewhere the stronger layer's value counts.
    """
    layers, own = (lost, won), [layer for layer in (lost, won) if layer.startswith(ARGUED)]
    config = not DEEPSPEED_CONFIGS.isdisjoint(layers) or (
        any(layer.startswith("accelerate") for layer in layers) and name in ("batch.accumulation", "optimizer.clip")
    )
    return "refused" if name in MATCHED and len(own) == 1 and config else "overridden"


def _identity(readings: Sequence[Reading]) -> dict[str, Setting]:
    """The framework and front end that the readings speak for, where no claim states them."""
    found: dict[str, Setting] = {}
    frameworks = [reading for reading in readings if reading.framework]
    if frameworks:
        chief = min(
            frameworks,
            key=lambda reading: STRENGTH.index(reading.framework) if reading.framework in STRENGTH else len(STRENGTH),
        )
        like = (reading for reading in frameworks if reading.framework == chief.framework)
        claims = (claim for reading in like for claim in reading.claims)
        claimed = next((claim.value for claim in claims if claim.setting == "framework"), None)
        found["framework"] = claimed or _named(chief.framework, chief)
    front = _front(readings)
    if front is not None:
        found["frontend"] = _named(front.frontend, front)
    return found


_GENERAL = ("transformers", "accelerate")
_CODE = "transformers-python"


def _front(readings: Sequence[Reading]) -> Reading | None:
    """Who speaks for the front end: one that stands on the Trainer, else what the program itself uses. A program that
    takes Megatron's arguments has Megatron's loop, whatever else its modules hold.
    """
    megatron = any(reading.layer == "megatron-arguments" for reading in readings)
    speaking = [each for each in readings if each.frontend and not (megatron and each.layer == _CODE)]
    own = [reading for reading in speaking if reading.frontend not in _GENERAL]
    code = [reading for reading in speaking if reading.layer == _CODE]
    return next(iter((*own, *code, *speaking)), None)


def _named(name: str, reading: Reading) -> Value:
    from dtlint.value import derived

    return written(name, reading.place) if reading.place is not None else derived(name, note=reading.layer)


def _rank(setting: str, layer: str) -> int:
    order = _order(setting)
    return order.index(layer) if layer in order else len(order)


@lru_cache(maxsize=256)
def _order(setting: str) -> tuple[str, ...]:
    table = _table()["any"]
    best = max((prefix for prefix in table if setting.startswith(prefix)), key=len)
    return tuple(table[best])


@lru_cache(maxsize=1)
def _table() -> dict[str, dict[str, list[str]]]:
    from dtlint.compiled import load

    return cast("dict[str, dict[str, list[str]]]", load("precedence", [PRECEDENCE]))


def read_table() -> object:
    """The precedence table as YAML reads it: what is compiled."""
    import yaml

    return yaml.load(PRECEDENCE.read_text(encoding="utf-8"), Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
