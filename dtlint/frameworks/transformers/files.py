"""Files that hold a Trainer's arguments: JSON for HfArgumentParser, YAML for TRL and LLaMA-Factory."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

from dtlint.frameworks import NamedFile, Reading
from dtlint.frameworks import program as programs
from dtlint.frameworks.interpreter import program_name
from dtlint.frameworks.transformers.arguments import read_entries, recognise, tells
from dtlint.languages.json_tree import Document, Node
from dtlint.languages.traced import Word, literal_word, pieces_between

LAYER = "transformers-file"
SUFFIXES = (".json", ".yaml", ".yml")
_COMMANDS = ("train", "sft", "dpo", "grpo", "pt", "rlhf")
"""Words that stand between a command line tool (llamafactory-cli, trl) and the file."""
_MOST_ARGUMENTS = 400
_OF_OBJECTS = ("gradient_checkpointing_kwargs", "activation_checkpointing_kwargs")
"""Arguments whose value is an object."""


def looks_like_arguments(document: Document) -> bool:
    """Whether a file's keys are those of TrainingArguments."""
    root = document.root
    return root is not None and root.kind == "object" and recognise(_program(document))


def may_be_arguments(document: Document) -> bool:
    """Whether a file that a program is given holds the Trainer's arguments, be it beside others."""
    root = document.root
    return root is not None and root.kind == "object" and tells(_program(document))


def read_file(document: Document, overrides: Sequence[Word] = ()) -> Reading:
    """What a file of arguments claims, as if each of its entries stood on the command line, `key=value` words of the
    real one behind them.
    """
    program = (*_program(document), *(part for word in overrides for part in _override(word)))
    own, named = read_entries(program), programs.read(program)
    files = tuple(file for file in (*own.files, *named.files) if file.role != "script")
    claims = tuple(claim._replace(name=claim.name.removeprefix("--")) for claim in (*own.claims, *named.claims))
    place = document.root.span if document.root is not None else None
    return own._replace(layer=LAYER, place=place, claims=claims, files=files)


def overrides_of(program: Sequence[Word]) -> tuple[Word, ...]:
    """The `key=value` words of a command, by which LLaMA-Factory overrides its file."""
    return tuple(word for word in program[1:] if re.match(r"[a-z_]\w*=", word.shown))


def starts_with_file(words: Sequence[Word]) -> bool:
    """Whether a launch passes its arguments in a file (`train.py args.json`): what the words lack may stand there."""
    return any((word.text or "").endswith(SUFFIXES) for word in words[:1])


def named_file(program: Sequence[Word]) -> tuple[NamedFile, ...]:
    """The file of arguments that a program is given: as its first argument, or by --config."""
    words = [word for word in program[1:] if word.text not in _COMMANDS]
    first = (words[0].text or "") if words else ""
    if first.endswith(SUFFIXES) and not first.startswith("-"):
        return (NamedFile("arguments", words[0]),)
    for word, value in pairwise(words):
        if word.text == "--config" and (value.text or "").endswith(SUFFIXES):
            return (NamedFile("arguments", value),)
    return ()


def _program(document: Document) -> tuple[Word, ...]:
    """The entries as the words of a command, whose script is the file."""
    start = document.source.span(0, 0)
    return (literal_word(program_name(literal_word(document.source.path, start)), start), *_words(document.root))


def _override(word: Word) -> Iterator[Word]:
    name = word.shown.partition("=")[0]
    yield literal_word(f"--{name}", word.place)
    yield word.part(len(name) + 1)


def _words(root: Node | None) -> Iterator[Word]:
    for entry in (root.entries if root is not None else ())[:_MOST_ARGUMENTS]:
        if entry.key in _OF_OBJECTS and entry.node.kind == "object":
            yield from (literal_word(f"--{entry.key}", entry.place), literal_word(_json(entry.node), entry.place))
        values = entry.node.items if entry.node.kind == "array" else (entry.node,)
        if entry.node.kind in ("object", "null"):
            continue
        yield literal_word(f"--{entry.key}", entry.place)
        yield from (_value(node) for node in values if node.kind not in ("object", "array", "null"))


def _json(node: Node) -> str:
    """A flat object as the text in which a command line passes it."""
    return json.dumps({entry.key: entry.node.value for entry in node.entries if isinstance(entry.node.value, bool)})


def _value(node: Node) -> Word:
    if node.kind in ("bare", "unknown"):
        return Word(pieces_between(node.span.source, node.span.start, node.span.end), node.span)
    text = str(node.value).lower() if isinstance(node.value, bool) else str(node.value)
    return literal_word(text, node.span)
