"""Arguments of the Trainer that a program declares itself: the fields of a class of its own, with their defaults."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator, Mapping
from typing import TypeGuard

from dtlint.catalog.training_arguments import training_arguments
from dtlint.frameworks import Claim, Member, Reading
from dtlint.frameworks import program as programs
from dtlint.frameworks.argument_classes import is_derived, is_field_of, is_used
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.transformers.arguments import REPEATED, read_arguments
from dtlint.frameworks.transformers.program import (
    ARGUMENTS,
    ARGUMENTS_NAME,
    SETTINGS,
    builds_on_trainer,
    uses_arguments,
    words_of,
)
from dtlint.languages.python.program import Program
from dtlint.languages.traced import Word, literal_word
from dtlint.value import Origin, Setting, Unknown, Value

LAYER = "transformers-declared"
_LENGTHS = ("max_length", "max_seq_length", "model_max_length")
"""Fields for the longest sample, which programs add to those of the Trainer."""
BASES = ("TrainingArguments", "SFTConfig", "DPOConfig", "GRPOConfig", "RewardConfig", "KTOConfig")
"""What the names of the classes end with that have the Trainer's fields: its own, and those of TRL."""


def read(program: Program) -> Reading:
    """The arguments that the program declares itself (`class TrainingArguments(...)` with fields), read as if they
    stood on a command line: as given, else their defaults.
    """
    if not builds_on_trainer(program):
        return Reading(LAYER, claims=tuple(_lengths(program)))
    told = {name: value for name, value in _told(program).items() if is_used(program, program.arguments[name])}
    reading = _as_line(program, {name: value for name, value in told.items() if _is_of_trainer(program, name)})
    claims = {claim.setting: claim for claim in (*_numbers(told), *reading.claims)}
    numbers = tuple(_repeated(program, told))
    collections = {**reading.collections, **({ARGUMENTS: numbers} if numbers else {})}
    return reading._replace(claims=tuple(claims.values()), collections=collections)


def _lengths(program: Program) -> Iterator[Claim]:
    """The longest sample by a field of the program's own class of such arguments, whatever loop trains by them."""
    fields = {name: each for name, each in program.arguments.items() if name in _LENGTHS}
    for name, field in fields.items():
        value = (program.given or {}).get(name, field.default)
        if is_field_of(program, field, ARGUMENTS_NAME) and is_used(program, field) and _is_number(value):
            yield Claim("data.sequence_length", value, name)


def _repeated(program: Program, told: Mapping[str, Setting]) -> Iterator[Member]:
    """Numbers that a file of DeepSpeed may repeat, as members of `config.arguments`."""
    for flag in REPEATED:
        name = flag.replace("-", "_")
        if name in told and name in program.arguments:
            place = program.arguments[name].place
            yield Member(place, {**texts(place, name=flag), "value": told[name]})


def _told(program: Program) -> dict[str, Setting]:
    """The values of the arguments that the entry script declares, or a module that has to do with the Trainer's:
    another module's parser may belong to another program.
    """
    own = {module.source for module in program.modules.values() if uses_arguments(program, module)}
    own.add(program.main.source)
    given = program.given or {}
    told = {name: given.get(name, each.default) for name, each in program.arguments.items() if each.place.source in own}
    return {**told, **{name: value for name, value in given.items() if name in program.arguments}}


def _is_of_trainer(program: Program, name: str) -> bool:
    """Whether an argument is one of the Trainer's, with a default of its own."""
    return name in training_arguments() and is_derived(program, program.arguments[name], BASES)


def _numbers(told: dict[str, Setting]) -> Iterator[Claim]:
    """What arguments of a Trainer's names say wherever they are declared."""
    for name, setting in (*SETTINGS.items(), *((name, "data.sequence_length") for name in _LENGTHS)):
        value = told.get(name)
        if _is_number(value):
            yield Claim(setting, value, name)
    for name in ("bf16", "fp16"):
        value = told.get(name)
        if isinstance(value, Value) and value.value is True:
            yield Claim("precision.compute", value._replace(value=name), name)


def _is_number(value: Setting | None) -> TypeGuard[Value]:
    return isinstance(value, Value) and isinstance(value.value, (int, float)) and not isinstance(value.value, bool)


def _as_line(program: Program, told: dict[str, Setting]) -> Reading:
    """What the fields of the Trainer's class say, as its reader takes them from a command line."""
    script = literal_word(program.main.source.path, program.main.source.span(0, 0))
    words = [word for name, value in told.items() for word in _words(program, name, value)]
    line, named = read_arguments((script, *words)), programs.read((script, *words))
    claims = tuple(claim._replace(name=claim.name.removeprefix("--")) for claim in line.claims)
    files = tuple(file for file in (*line.files, *named.files) if file.role != "script")
    place = words[-1].place if line.framework else None
    return Reading(LAYER, place, claims, files, framework=line.framework)


def _words(program: Program, name: str, value: Setting) -> tuple[Word, ...]:
    """A field as a flag and its value; none for a text that names nothing (`deepspeed: str = ""`)."""
    empty = isinstance(value, Value) and value.value == ""
    return () if empty else words_of(name, _as_json(value), program.arguments[name].place)


def _as_json(value: Setting) -> Setting:
    """A default that is a dict as the text by which a command line says it (`gradient_checkpointing_kwargs: dict =
    field(default_factory=lambda: {"use_reentrant": False})`), anything else as it is.
    """
    span = value.origin.span if isinstance(value, Unknown) and value.origin is not None else None
    told = _dict_in(span.text) if span is not None else None
    return value if told is None else Value(json.dumps(told), Origin("written", span))


def _dict_in(text: str) -> dict[str, object] | None:
    """The dict that an expression of constants is: `{"x": True}`, `dict(x=True)`."""
    try:
        told = _constants(ast.parse(text, mode="eval").body) if text.startswith(("{", "dict(")) else None
        json.dumps(told)
        return told
    except (ValueError, SyntaxError, TypeError, RecursionError):
        return None


def _constants(node: ast.expr) -> dict[str, object] | None:
    if not isinstance(node, ast.Call):
        told = ast.literal_eval(node)
        return told if isinstance(told, dict) else None
    whole = not node.args and all(each.arg is not None for each in node.keywords)
    return {str(each.arg): ast.literal_eval(each.value) for each in node.keywords} if whole else None
