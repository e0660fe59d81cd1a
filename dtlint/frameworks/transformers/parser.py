"""The parser of a Trainer's program: which arguments it takes, as far as its code tells."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from pathlib import PurePosixPath

from dtlint.catalog.training_arguments import training_arguments
from dtlint.frameworks import Member, Reading
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.transformers.arguments import read_arguments, recognise
from dtlint.frameworks.transformers.files import starts_with_file
from dtlint.languages.python.arguments import is_dataclass
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.calls import Call, calls
from dtlint.languages.python.names import qualified
from dtlint.languages.python.program import Program
from dtlint.languages.python.tree import Module, Scope
from dtlint.languages.traced import Word, literal_word
from dtlint.source import Span
from dtlint.value import written

LAYER = "trainer-parser"

_PARSERS = ("transformers.HfArgumentParser", "transformers.hf_argparser.HfArgumentParser")
_TRAINING = ("transformers.TrainingArguments", "transformers.Seq2SeqTrainingArguments")
FILE_PARSERS = frozenset(("parse_json_file", "parse_yaml_file", "parse_dict"))
"""Methods of the parser by which arguments come from elsewhere than the command line."""

_OF_LINE = "parse_args_into_dataclasses"
_READING = FILE_PARSERS | {_OF_LINE}
_TOLERANT = ("return_remaining_strings", "allow_extra_keys")
_KNOWN_ONLY = "parse_known_args"
_RANK = "--local_rank"
_DASHED = "4.46"
"""The release from which on HfArgumentParser takes `--local-rank` too (huggingface/transformers#33990)."""
_TAKER = f"HfArgumentParser before Transformers {_DASHED}"
_DEEPEST = 8
"""Base classes that are followed."""


def read(program: Program) -> Reading:
    """The collection `trainer.parser`: one member where the program has one HfArgumentParser with TrainingArguments:
    `names` (the arguments that it declares itself), `closed` (yes where it refuses all others), `line` (no where it
    is given files and never the command line). Where it is closed, `program.parser` too.
    """
    found = list(calls(program, _PARSERS))
    if len(found) != 1 or not isinstance(found[0].place.node, ast.Call):
        return Reading(LAYER)
    classes = [_ends(found[0], item, program) for item in _classes(found[0])]
    if not any("trainer" in ends for ends in classes):
        return Reading(LAYER)
    place = found[0].head
    closed = all("other" not in ends for ends in classes) and not _tolerates(program)
    of_files = _reads_files_alone(program)
    strict = (_strict(program, place),) if closed and not of_files else ()
    fields = {
        "names": written(tuple(sorted(program.arguments)), place),
        "closed": written("yes" if closed else "no", place),
        "line": written("no" if of_files else "yes", place),
    }
    return Reading(LAYER, collections={"trainer.parser": (Member(place, fields),), "program.parser": strict})


def _strict(program: Program, place: Span) -> Member:
    """The parser as one that stops at what it does not know: `flags` as they are written in every release, which takes
    them with dashes for underscores too from the release `dashed` of `package` on.
    """
    names = sorted({*program.arguments, *training_arguments()})
    told = texts(place, program=PurePosixPath(program.main.source.path).name, taker=_TAKER, declared=_RANK, both="")
    dashed = texts(place, package="transformers", dashed=_DASHED)
    return Member(place, {"flags": written(tuple(f"--{name}" for name in names), place), **told, **dashed})


def read_line(program: Program, words: Sequence[Word], parser: Reading) -> Reading:
    """The arguments of a launch whose words alone do not tell that the Trainer reads them, as its program does."""
    line = (literal_word(program.main.source.path, program.main.source.span(0, 0)), *words)
    if not parser.collections or recognise(line) or starts_with_file(words):
        return Reading("transformers-arguments")
    return read_arguments(line)


def _classes(call: Call) -> list[ast.expr]:
    """The dataclasses that the parser is made of; a name that is none of them where they are not written out."""
    node = call.place.node
    assert isinstance(node, ast.Call)
    given = node.args[0] if node.args else next((word.value for word in node.keywords), None)
    if given is None:
        return []
    return list(given.elts) if isinstance(given, (ast.Tuple, ast.List)) else [given]


def _ends(call: Call, node: ast.expr, program: Program) -> set[str]:
    """What the class and its bases come down to: "trainer", "own" or "other"."""
    names = qualified(call.place.module, node, call.place.scope)
    return set(_of_class(names[0] if len(names) == 1 else "", program, _DEEPEST))


def _of_class(name: str, program: Program, left: int) -> Iterator[str]:
    if name in _TRAINING:
        yield "trainer"
        return
    found = _definition(name.rpartition(".")[2], program) if name and left else None
    if found is None:
        yield "other"
        return
    module, scope, node = found
    yield "own" if is_dataclass(module, scope) else "other"
    for base in node.bases:
        names = qualified(module, base, scope.parent or scope)
        if names != ("object",):
            yield from _of_class(names[0] if len(names) == 1 else "", program, left - 1)


def _definition(name: str, program: Program) -> tuple[Module, Scope, ast.ClassDef] | None:
    for module in program.modules.values():
        for scope in module.scopes:
            if isinstance(scope.node, ast.ClassDef) and scope.node.name == name:
                return module, scope, scope.node
    return None


def _last(function: ast.expr) -> str:
    """The last name of what is called; `HfArgumentParser(TrainingArguments).parse_args()` has no whole one."""
    return function.attr if isinstance(function, ast.Attribute) else dotted(function)


def _reads_files_alone(program: Program) -> bool:
    """Whether the parser is given files and never the command line, which the program reads by itself."""
    called = {name for module in program.modules.values() for name in _READING if module.called.get(name)}
    return bool(called) and _OF_LINE not in called


def _tolerates(program: Program) -> bool:
    """Whether the program takes arguments that the parser does not know."""
    names = (*_READING, _KNOWN_ONLY)
    sites = (site for module in program.modules.values() for name in names for site in module.called.get(name, ()))
    for node in (site.node for site in sites):
        name = _last(node.func) if isinstance(node, ast.Call) else ""
        lenient = name in _READING and any(word.arg in _TOLERANT for word in getattr(node, "keywords", ()))
        if lenient or name == _KNOWN_ONLY:
            return True
    return False
