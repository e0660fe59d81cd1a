"""Reads how a program loads pretrained weights: onto which devices."""

from __future__ import annotations

from collections.abc import Iterator

from dtlint.frameworks import Member, Reading
from dtlint.languages.python.calls import Call, argument, calls, passed
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands
from dtlint.source import Span
from dtlint.value import Setting

LAYER = "loading-python"
CLASSES = (
    "AutoModel AutoModelForCausalLM AutoModelForSeq2SeqLM AutoModelForSequenceClassification AutoModelForVision2Seq "
    "AutoModelForImageTextToText AutoModelForTokenClassification AutoModelForMaskedLM AutoModelForSpeechSeq2Seq "
    "LlamaForCausalLM LlamaForSequenceClassification MistralForCausalLM MixtralForCausalLM Qwen2ForCausalLM "
    "Qwen2VLForConditionalGeneration GPT2LMHeadModel GPTNeoXForCausalLM T5ForConditionalGeneration BloomForCausalLM"
)
LOADERS = tuple(f"transformers.{name}.from_pretrained" for name in CLASSES.split())
ARGUMENTS = ("device_map", "low_cpu_mem_usage")


def read(program: Program) -> Reading:
    """The collection `code.loadings`: calls that load weights with a `device_map`, or with `low_cpu_mem_usage`, as far
    as these are known.
    """
    loadings = tuple(_loadings(program))
    return Reading(LAYER, collections={"code.loadings": loadings} if loadings else {})


def _loadings(program: Program) -> Iterator[Member]:
    for call in calls(program, LOADERS):
        fields = _fields(call)
        if fields and stands(call.place):
            yield Member(_place(call), fields)


def _fields(call: Call) -> dict[str, Setting]:
    return {name: value for name in ARGUMENTS if (value := argument(call, name)) is not None}


def _place(call: Call) -> Span:
    """Where the first of the arguments is written, else the call."""
    found = next((each for name in ARGUMENTS if (each := passed(call, name))), None)
    return found[0].place.module.span(found[0].place.node) if found else call.head
