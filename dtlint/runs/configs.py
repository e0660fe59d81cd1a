"""Config files: which front end's a file is, and what its reader finds in it."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dtlint.frameworks import NamedFile, Reading
from dtlint.languages.json_tree import Document
from dtlint.languages.traced import Word
from dtlint.record import NamedTuple
from dtlint.runs.front_ends import is_marked, reader_of
from dtlint.runs.kinds import TOML_START
from dtlint.runs.model import FileProblem
from dtlint.source import Source

YAML_SUFFIXES = (".yaml", ".yml")
JSON_OBJECT = re.compile(r"\s*\{\s*\"")
"""How a JSON object begins: DeepSpeed's loaders take one whatever the name of its file."""
MANY = "documents"
"""The loader of the problem that a file holds several documents, which no launcher takes."""


class Config(NamedTuple):
    """A config file, what it says, and what is wrong with it as a file. A file that no reader knows says nothing."""

    source: Source
    reading: Reading
    problems: tuple[FileProblem, ...]

    @property
    def speaks(self) -> bool:
        """Whether a reader found anything in it."""
        return bool(self.reading.claims or self.reading.collections)


def read_config(source: Source, role: str = "", program: Sequence[Word] = ()) -> Config:
    """A config as the reader of `role` ("deepspeed", "accelerate", "arguments", "torchtitan", "nemo") reads it; without
    a role the file itself decides. `program` is the command line that names it, for readers that let it override the
    file.

    A template trains nothing before it is filled in. A YAML file that no reader knows has no problems either: it
    belongs to another program.
    """
    return read_document(document_of(source), role, program)


def read_document(document: Document, role: str = "", program: Sequence[Word] = ()) -> Config:
    """The same of a config that is read already, or as a program changes it."""
    source, reading = document.source, _reading(document, role, program)
    if any(problem.loader == "template" for problem in document.problems):
        reading = reading._replace(role="other")
    ours = role or document.root is None or reading.claims or reading.collections
    return Config(source, reading, _problems(document) if ours and _is_meant(document, role) else ())


def without_config(named: NamedFile, program: Sequence[Word]) -> Reading:
    """What the command line of a program says whose config could not be read."""
    from dtlint.frameworks.nemo import config as nemo
    from dtlint.frameworks.torchtitan import config as torchtitan

    reader = torchtitan if named.role == "torchtitan" else nemo
    reading: Reading = reader.without_config(program, f"the config {named.path.shown} was not found")
    return reading


def problems_of(source: Source, role: str) -> tuple[FileProblem, ...]:
    """What is wrong with a config that a program is given, as a file."""
    document = document_of(source)
    return _problems(document) if _is_meant(document, role) else ()


def read_model_config(source: Source) -> Config:
    """The config.json of a model. Transformers reads it as strict JSON, so that what others forgive is a problem."""
    from dtlint.frameworks.model_config import broken, read_config
    from dtlint.languages.json import read_json

    document = read_json(source)
    problems = tuple(FileProblem(source.path, each.span.original(), each.message) for each in broken(document))
    return Config(source, read_config(document), problems)


def document_of(source: Source) -> Document:
    """A config as its own language reads it."""
    if _is_toml(source):
        from dtlint.languages.toml import read_toml

        return read_toml(source)
    if _is_yaml(source):
        from dtlint.languages.yaml import read_yaml

        return read_yaml(source)
    from dtlint.languages.json import read_json

    return read_json(source)


def _is_toml(source: Source) -> bool:
    named = "." in source.path.rpartition("/")[2]
    return source.path.lower().endswith(".toml") or (not named and TOML_START.match(source.text) is not None)


def _is_yaml(source: Source) -> bool:
    if _is_toml(source):
        return False
    if source.path.lower().endswith(YAML_SUFFIXES):
        return JSON_OBJECT.match(source.text) is None or _is_read_by_suffix(source.text)
    return not source.path.lower().endswith(".json") and not source.text.lstrip().startswith(("{", "["))


def _is_read_by_suffix(text: str) -> bool:
    """Whether the loader of a config goes by the name of its file: Accelerate's and NeoX's, not DeepSpeed's."""
    return is_marked(text, "gpt_neox") or '"distributed_type"' in text


def _is_meant(document: Document, role: str) -> bool:
    """Whether a broken file is one of ours: a template of another program is not, nor a log whose lines hold JSON."""
    if role:
        return True
    if _is_yaml(document.source) or _is_toml(document.source):
        return document.root is not None or _marked(document.source.text)
    return _starts_as_json(document.source)


def _starts_as_json(source: Source) -> bool:
    """Whether a text begins as an object or a list, perhaps behind comments, or is empty; HJSON needs no bracket."""
    start = source.text.lstrip("\ufeff \t\r\n")[:1]
    return start in ("", "{", "[", "/", "#") or source.path.lower().endswith(".hjson")


def _marked(text: str) -> bool:
    return any(
        word in text
        for word in ("distributed_type:", "per_device_train_batch_size:", "[parallelism]", "_model_parallel_size:")
    )


def _reading(document: Document, role: str, program: Sequence[Word]) -> Reading:
    """What a file says in its role, "" for what its keys tell. The likeliest reader is asked, and loaded, first."""
    if role == "torchtitan" or _is_toml(document.source):
        from dtlint.frameworks.torchtitan import config as torchtitan

        known = bool(role) or torchtitan.looks_like_config(document)
        return torchtitan.read_config(document, program) if known else Reading("program")
    own = reader_of(document) if role in ("", "arguments") and document.root is not None else None
    if own is not None:
        reading = own.read_config((document,))
        return reading._replace(role="other") if any(problem.fatal for problem in document.problems) else reading
    if role not in ("accelerate", "arguments", "nemo"):
        from dtlint.frameworks.deepspeed import config as deepspeed

        if role or (not _is_yaml(document.source) and deepspeed.looks_like_config(document)):
            return deepspeed.read_config(document)
    if role == "accelerate" or (not role and "distributed_type" in document.source.text):
        from dtlint.frameworks.accelerate import config as accelerate

        if role or accelerate.looks_like_config(document):
            return accelerate.read_config(document)
    if role == "nemo" or (not role and "trainer:" in document.source.text):
        from dtlint.frameworks.nemo import config as nemo

        if role or nemo.looks_like_config(document):
            return nemo.read_config(document, program)
    if not role and "parallelism:" in document.source.text:
        from dtlint.frameworks.nanotron import config as nanotron

        if nanotron.looks_like_config(document):
            return nanotron.read_config(document)
    from dtlint.frameworks.transformers import files as transformers_files

    fits = transformers_files.may_be_arguments if role == "arguments" else transformers_files.looks_like_arguments
    if fits(document):
        return transformers_files.read_file(document)
    return Reading("program" if role else "deepspeed-json")


def _problems(document: Document) -> tuple[FileProblem, ...]:
    """What a launcher would refuse; YAML's loader takes the last of repeated keys without a word. Of what strict JSON
    refuses and hjson takes, the first: a strict loader stops there.
    """
    refused = (MANY,) if _is_yaml(document.source) else ("duplicate",)
    strict = () if _is_yaml(document.source) else [each for each in document.problems if each.loader == "json"][:1]
    return tuple(
        FileProblem(
            document.source.path,
            problem.span.original(),
            problem.message,
            problem.fatal or problem.loader == MANY,
            problem.loader,
        )
        for problem in document.problems
        if problem.fatal or problem.loader in refused or problem in strict
    )
