"""Models that a program loads in few bits: how their weights are stored, and the recomputation that peft turns on when
it prepares them for training.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dtlint.frameworks import Claim
from dtlint.frameworks.pytorch.checkpointing import variant
from dtlint.frameworks.pytorch.model_loading import LOADERS
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.calls import Call, argument, call_at, called, passed
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.following import ways
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import standing, stands
from dtlint.value import Origin, Setting, Unknown, Value

_FORMATS = {"load_in_4bit": "nf4", "load_in_8bit": "int8"}
"""Arguments of from_pretrained and of BitsAndBytesConfig, and the formats of the weights that they ask for."""
_CONFIG = "quantization_config"
_QUANTIZERS = ("transformers.BitsAndBytesConfig",)
_LOADER = "from_pretrained"
_MODULES = ("peft", "peft.utils", "peft.utils.other")
_PREPARERS = tuple(f"{module}.prepare_model_for_{bits}_training" for module in _MODULES for bits in ("kbit", "int8"))
"""Functions of peft that freeze a model of few bits and turn its recomputation on, unless use_gradient_checkpointing
says otherwise (peft utils/other.py); the second has the name of releases before 0.10.
"""
_SWITCH = "use_gradient_checkpointing"
_OF_TRAINER = "gradient_checkpointing"
"""The Trainer's own switch, which is what it says wherever it is handed on."""
_HOW = "--set precision.frozen=..."


def few_bits_claims(program: Program) -> Iterator[Claim]:
    """`precision.frozen` where a load asks for few bits or may do so, and what peft's preparation then does."""
    stored, name = _stored(program)
    if stored is not None:
        yield Claim("precision.frozen", stored, name)
        yield from _prepared(program, stored)


def _stored(program: Program) -> tuple[Setting | None, str]:
    """The format of the weights as all loads of the program agree on it, with what says so; None where none asks for
    few bits.
    """
    loads = list(_loads(program))
    told = [(load, _format(load)) for load in loads]
    asking = [(load, value) for load, value in told if value is not None]
    if not asking:
        return _unseen(program, loads), _LOADER
    whole = len(asking) < len(loads) + len(_plain_loads(program, loads))
    values = [value for _, value in asking]
    first = values[0]
    known = {value.value for value in values if isinstance(value, Value)}
    if whole or len(known) != 1 or not all(isinstance(value, Value) for value in values):
        reason = first.reason if isinstance(first, Unknown) and not whole else "one of several loads asks for few bits"
        return Unknown(reason, _HOW, Origin("written", asking[0][0].head)), asking[0][0].name
    return first, asking[0][0].name


def _unseen(program: Program, loads: Sequence[Call]) -> Unknown | None:
    """Few bits that something else may ask for: a config that is built somewhere, or a model that is prepared for it
    and whose load is not seen.
    """
    built = standing(program, _QUANTIZERS)
    prepared = [] if loads or _plain_loads(program, loads) else standing(program, _PREPARERS)
    found = next(iter((*built, *prepared)), None)
    reason = "the program may quantize the frozen weights"
    return None if found is None else Unknown(reason, _HOW, Origin("written", found.head))


def _loads(program: Program) -> Iterator[Call]:
    """The calls of from_pretrained, of whichever class, that are told something of few bits."""
    for module in program.modules.values():
        if not any(word in module.source.text for word in (*_FORMATS, _CONFIG)):
            continue
        for site in module.called.get(_LOADER, ()):
            place = place_of(program, module, site)
            call = call_at(place, called(place) or module.text(site.node, 60))
            if any(name in call.keywords for name in (*_FORMATS, _CONFIG)) and stands(place) is not False:
                yield call


def _plain_loads(program: Program, loads: Sequence[Call]) -> list[Call]:
    """The loads of language models beside those, which ask for nothing that is known."""
    heads = {load.head for load in loads}
    return [call for call in standing(program, LOADERS) if call.head not in heads]


def _format(call: Call) -> Setting | None:
    """What a load, or the config that it is given, asks for; None for the weights as they are."""
    own = _asked(call)
    config = passed(call, _CONFIG)
    if own is not None or not config:
        return own
    if all(_is_nothing(evaluate(item.place)) for item in config):
        return None
    ends = [way.end for item in config for way in ways(item.place)]
    built = [end for end in ends if isinstance(end, Place) and called(end) in _QUANTIZERS]
    if len(ends) == 1 and built:
        return _asked(call_at(built[0], _QUANTIZERS[0]))
    if len(ends) == 1 and isinstance(ends[0], Place) and _is_nothing(evaluate(ends[0])):
        return None
    return Unknown("a condition decides whether the weights are quantized", _HOW, Origin("written", call.head))


def _is_nothing(value: Setting) -> bool:
    return isinstance(value, Value) and not value.value


def _asked(call: Call) -> Setting | None:
    for name, stored in _FORMATS.items():
        value = argument(call, name) if name in call.keywords else None
        if value is None or _is_nothing(value):
            continue
        if isinstance(value, Value):
            return value._replace(value=stored)
        return Unknown(f"whether {name} is on is not known", _HOW, Origin("written", call.head))
    return None


def _prepared(program: Program, stored: Setting) -> Iterator[Claim]:
    """Recomputation as peft turns it on; the model that it prepares has few bits, or it leaves it as it is."""
    for call in standing(program, _PREPARERS):
        on = _switched(call)
        if on is None:
            continue
        name = call.head.text
        certain = on and isinstance(stored, Value) and stands(call.place)
        reason = f"whether {name} turns recomputation on is not known"
        unknown = Unknown(reason, "--set checkpointing.activations=...", Origin("written", call.head))
        full = Value("full", Origin("written", call.head))
        yield Claim("checkpointing.activations", full if certain else unknown, name)
        told = variant(call, 2)
        if told is not None:
            yield Claim("checkpointing.reentrant", told, "use_reentrant")
        return


def _switched(call: Call) -> bool | None:
    """Whether a preparation certainly turns recomputation on; None where it does not, or leaves it to the Trainer."""
    given = passed(call, _SWITCH, 1 if "kbit" in call.name else None)
    value = argument(call, _SWITCH, 1 if "kbit" in call.name else None)
    if isinstance(value, Value):
        return True if value.value else None
    if any(dotted(item.place.node).rpartition(".")[2] == _OF_TRAINER for item in given):
        return None
    return value is None
