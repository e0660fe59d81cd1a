"""Reads how a program loads pretrained weights: onto which devices."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.frameworks import Member, Reading
from dtlint.frameworks.code.ranks import is_alone, is_apart
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.calls import Call, argument, calls, passed
from dtlint.languages.python.constants import live_ways, undecided
from dtlint.languages.python.dicts import Passed
from dtlint.languages.python.places import Condition, Place, conditions_at
from dtlint.languages.python.program import Program, is_entry
from dtlint.languages.python.reach import stands
from dtlint.languages.python.tree import Scope
from dtlint.source import Span
from dtlint.value import Setting, Value, written

LAYER = "loading-python"
CLASSES = (
    "AutoModel AutoModelForCausalLM AutoModelForSeq2SeqLM AutoModelForSequenceClassification AutoModelForVision2Seq "
    "AutoModelForImageTextToText AutoModelForTokenClassification AutoModelForMaskedLM AutoModelForSpeechSeq2Seq "
    "LlamaForCausalLM LlamaForSequenceClassification MistralForCausalLM MixtralForCausalLM Qwen2ForCausalLM "
    "Qwen2VLForConditionalGeneration GPT2LMHeadModel GPTNeoXForCausalLM T5ForConditionalGeneration BloomForCausalLM"
)
LOADERS = tuple(f"transformers.{name}.from_pretrained" for name in CLASSES.split())
_ADAPTED = "AutoPeftModel AutoPeftModelForCausalLM AutoPeftModelForSeq2SeqLM AutoPeftModelForSequenceClassification"
_OTHERS = (
    "Gemma2ForCausalLM Gemma3ForCausalLM Gemma3ForConditionalGeneration Idefics2ForConditionalGeneration "
    "Idefics3ForConditionalGeneration LlavaForConditionalGeneration LlavaNextForConditionalGeneration "
    "MllamaForConditionalGeneration PaliGemmaForConditionalGeneration Phi3ForCausalLM "
    "Qwen2_5_VLForConditionalGeneration Qwen3ForCausalLM"
)
_PLACING = (
    *LOADERS,
    *(f"transformers.{name}.from_pretrained" for name in _OTHERS.split()),
    *(f"peft.{name}.from_pretrained" for name in _ADAPTED.split()),
)
"""What takes a device_map: models of Transformers, and peft's, which hand it on to the model inside (peft 0.17.1
auto.py, from_pretrained).
"""
ARGUMENTS = ("device_map", "low_cpu_mem_usage")
_ARGUMENTS = (
    "TrainingArguments",
    "SFTConfig",
    "DPOConfig",
    "GRPOConfig",
    "RewardConfig",
    "parse_args_into_dataclasses",
)
"""Ends of the names of what reads the DeepSpeed config of a Trainer."""


def read(program: Program) -> Reading:
    """The collection `code.loadings`: calls that load weights with a `device_map`, or with `low_cpu_mem_usage`, as far
    as these are known; `mapped` where a run of several processes certainly has a map, be it one that is computed;
    `early` of those ahead of the arguments of the Trainer in the same function.
    """
    loadings = tuple(_loadings(program))
    return Reading(LAYER, collections={"code.loadings": loadings} if loadings else {})


def _loadings(program: Program) -> Iterator[Member]:
    for call in calls(program, _PLACING):
        fields = _fields(call)
        if fields and stands(call.place) and _is_asked_for(program, call.place):
            yield Member(_place(call), {**fields, **_mapped(call), **_early(call)})


def _mapped(call: Call) -> dict[str, Setting]:
    """`mapped`, where all that the argument may stand for is a map, as the last one is written; `apart` where that
    holds in a run of several processes alone.
    """
    value = argument(call, "device_map")
    if isinstance(value, Value):
        return {"mapped": value} if value.value is not None else {}
    every = [each for item in passed(call, "device_map") for each in _ends(item)]
    apart = _among_ranks(every)
    if not apart or not all(end is not None and _is_map(end) for end in apart):
        return {}
    last = apart[-1]
    assert last is not None
    told = written(last.module.text(last.node, _LONGEST), last.module.span(last.node))
    return {"mapped": told} if len(apart) == len(every) else {"mapped": told, "apart": written(True, call.head)}


_LONGEST = 60
"""Characters of a map that are shown."""


def _among_ranks(every: list[tuple[list[Condition], Place | None]]) -> list[Place | None]:
    """What is left in a run of several processes: what a condition gives to these alone hides what stands before."""
    left: list[Place | None] = []
    for conditions, end in every:
        if any(is_alone(each.place, each.guard) for each in conditions):
            continue
        if conditions and all(is_apart(each.place, each.guard) for each in conditions):
            left.clear()
        left.append(end)
    return left


def _ends(item: Passed) -> Iterator[tuple[list[Condition], Place | None]]:
    """What an argument may stand for, None for what is not known, and the conditions that stay open."""
    around = undecided(conditions_at(item.place, item.guards))
    for way, _ in live_ways(item.place) if around is not None else ():
        yield [*(around or ()), *(undecided(way.conditions) or ())], way.end if isinstance(way.end, Place) else None


def _is_map(end: Place) -> bool:
    node = end.node
    if isinstance(node, ast.Constant):
        return isinstance(node.value, str) and node.value != ""
    return isinstance(node, ast.Dict) and bool(node.keys)


def _early(call: Call) -> dict[str, Setting]:
    """`early`, where a load stands above the arguments by which Transformers learns of a ZeRO stage."""
    line = getattr(call.place.node, "lineno", 0)
    behind = [site for site in call.place.scope.sites if tells_arguments(site.node)]
    if behind and all(getattr(site.node, "lineno", 0) > line for site in behind):
        return {"early": written(True, call.head)}
    return {}


def tells_arguments(node: ast.AST) -> bool:
    """Whether a node makes the arguments of a Trainer, which reads the DeepSpeed config then."""
    last = dotted(node.func).rpartition(".")[2] if isinstance(node, ast.Call) else ""
    return last.endswith(_ARGUMENTS)


def _is_asked_for(program: Program, place: Place) -> bool:
    """Whether the program calls what the loading stands in by its name: a class of another module that only a table
    holds is one of several models, of which the launch chooses.
    """
    outermost = _outermost(place.scope)
    if outermost is None or is_entry(program, place.module):
        return True
    return any(outermost.name in module.called for module in program.modules.values())


def _outermost(scope: Scope | None) -> Scope | None:
    """The function or class of the module that a scope is or lies in; None at the level of the module."""
    found = None
    while scope is not None and scope.parent is not None:
        found, scope = scope, scope.parent
    return found


def _fields(call: Call) -> dict[str, Setting]:
    return {name: value for name in ARGUMENTS if (value := argument(call, name)) is not None}


def _place(call: Call) -> Span:
    """Where the first of the arguments is written, else the call."""
    found = next((each for name in ARGUMENTS if (each := passed(call, name))), None)
    return found[0].place.module.span(found[0].place.node) if found else call.head
