"""Loads a team's own rules (`--rules DIR`): validated by rule.schema.json, every mistake at its place in the file."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from dtlint.account import FOLDER, LINK, entries, is_file, is_folder
from dtlint.record import NamedTuple
from dtlint.rulebook.expressions import suggestion
from dtlint.rulebook.load import built_in, rules_folder
from dtlint.rulebook.mistakes import Mistake, mistakes
from dtlint.rulebook.mistakes import Path as Keys
from dtlint.rulebook.rule import Rule, RuleError, rule_of
from dtlint.runs.tree import root_of
from dtlint.source import Source, Unreadable, read_source

MOST_FILES = 1000
DEEPEST = 12
"""Levels of a rule file; rule.schema.json has fewer."""


class _File(NamedTuple):
    """A rule file as read: its data, and the node of every part, for places."""

    source: Source
    data: Mapping[str, object]
    root: Any


def house_rules(folder: Path, known: Iterable[Rule] | None = None) -> tuple[Rule, ...]:
    """The rules of a folder and of the folders in it; RuleError for the first mistake.

    `known` are rules whose names and ids are taken (by default the shipped ones, unless the folder is theirs).
    """
    files = _rule_files(folder)
    if known is None:
        known = () if folder.resolve() == rules_folder().resolve() else built_in()
    taken = {word: rule.path for rule in known for word in (rule.id, rule.name)}
    rules: list[Rule] = []
    for file in files:
        rule, read = _load(file, folder)
        for key, word in (("id", rule.id), ("name", rule.name)):
            if word in taken:
                raise _error(read, Mistake((key,), f"{key} '{word}' is taken by {taken[word]}"))
            taken[word] = rule.path
        rules.append(rule)
    return tuple(rules)


def check_rule(source: Source, family: str) -> Rule:
    """The rule in a text; RuleError for what is not whole."""
    return _checked(_read(source), family)


def _rule_files(folder: Path) -> list[Path]:
    inner = [folder / name for name, kind in entries(folder) or () if kind in (FOLDER, LINK)]
    found = sorted(file for each in (folder, *filter(is_folder, inner)) for file in _yaml_files(each))
    root = root_of([folder])
    files = [file for file in found if file.name != "sources.yaml" and _is_own(file, root)]
    if not files:
        raise RuleError(str(folder), 1, 1, "no rule files (*.yaml) in this folder")
    if len(files) > MOST_FILES:
        raise RuleError(str(folder), 1, 1, f"{len(files)} files; more than {MOST_FILES} are not read")
    return files


def _yaml_files(folder: Path) -> list[Path]:
    return [folder / name for name, _ in entries(folder) or () if name.endswith((".yaml", ".yml"))]


def _is_own(file: Path, root: Path) -> bool:
    """Whether it is a file, and no link that leads out of the work tree of its folder."""
    return is_file(file) and file.resolve().is_relative_to(root)


def _load(file: Path, folder: Path) -> tuple[Rule, _File]:
    try:
        source = read_source(file, file.as_posix())
    except Unreadable as error:
        raise RuleError(error.path, 1, 1, error.reason) from None
    read = _read(source)
    return _checked(read, folder.name if file.parent == folder else file.parent.name), read


def _checked(read: _File, family: str) -> Rule:
    for fault in _schema_faults(read.data):
        raise _error(read, fault)
    rule = rule_of(read.data, family, read.source.path)
    for mistake in mistakes(rule):
        raise _error(read, mistake)
    return rule


def _read(source: Source) -> _File:
    import yaml

    loader_class = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        _refuse_depth(source, yaml.parse(source.text, Loader=loader_class))
        loader = loader_class(source.text)
        root = loader.get_single_node()
        data = None if root is None else loader.construct_document(root)
    except RuleError:
        raise
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line, column = (mark.line + 1, mark.column + 1) if mark else (1, 1)
        raise RuleError(source.path, line, column, f"not YAML: {error.problem or error.context}") from None
    except (yaml.YAMLError, ValueError) as error:
        raise RuleError(source.path, 1, 1, f"not YAML: {error}") from None
    if not isinstance(data, dict):
        raise RuleError(source.path, 1, 1, "a rule file is a table of fields (id, name, when, say, ...)")
    return _File(source, data, root)


def _refuse_depth(source: Source, events: Iterator[Any]) -> None:
    """RuleError for aliases, which may stand for more text than any reader can walk, and for deep nesting."""
    depth = 0
    for event in events:
        kind = type(event).__name__
        depth += kind in ("MappingStartEvent", "SequenceStartEvent")
        depth -= kind in ("MappingEndEvent", "SequenceEndEvent")
        if kind == "AliasEvent" or depth > DEEPEST:
            message = "aliases are not allowed in rules" if kind == "AliasEvent" else "nested too deeply"
            raise RuleError(source.path, event.start_mark.line + 1, event.start_mark.column + 1, message)


def _schema_faults(data: Mapping[str, object]) -> Iterator[Mistake]:
    """What rule.schema.json refuses, the outermost first."""
    import json

    from jsonschema import Draft202012Validator

    schema = json.loads((rules_folder() / "rule.schema.json").read_text(encoding="utf-8"))
    errors = sorted(Draft202012Validator(schema).iter_errors(data), key=lambda error: len(error.absolute_path))
    for error in errors:
        yield _fault(tuple(error.absolute_path), error)


def _fault(path: Keys, error: Any) -> Mistake:
    if error.validator == "additionalProperties" and isinstance(error.validator_value, bool):
        known = error.schema["properties"]
        unknown = next(key for key in error.instance if key not in known)
        return Mistake((*path, unknown), f"unknown field '{unknown}'{suggestion(str(unknown), known)}", part="key")
    if error.instance is None and ")" in str(path[-1:]):
        return Mistake(path, "an expression with a comma in it stands in quotes inside { }", part="key")
    return Mistake(path, _spoken(error))


def _spoken(error: Any) -> str:
    """A sentence for what the schema refuses."""
    wanted: Any = error.validator_value
    if error.validator == "required":
        return f"the field '{next(key for key in wanted if key not in error.instance)}' is missing"
    if error.validator == "enum":
        return f"{error.instance!r} is none of {', '.join(wanted)}{suggestion(str(error.instance), wanted)}"
    if error.validator == "type":
        kinds = [wanted] if isinstance(wanted, str) else wanted
        return f"{' or '.join(_KINDS[kind] for kind in kinds)} is needed here"
    if error.validator == "pattern":
        return f"{error.instance!r} does not have the form {wanted}"
    if error.validator in ("anyOf", "oneOf"):
        return f"one of {', '.join(repr(each['required'][0]) for each in wanted)} is needed here"
    return str(error.message)


_KINDS = {
    "string": "a text",
    "boolean": "true or false",
    "number": "a number",
    "integer": "a whole number",
    "array": "a list",
    "object": "a table",
    "null": "nothing",
}


def _error(read: _File, mistake: Mistake) -> RuleError:
    line, column = _place(read, mistake)
    excerpt = mistake.error.caret() if mistake.error else ""
    return RuleError(read.source.path, line, column, mistake.message, excerpt)


def _place(read: _File, mistake: Mistake) -> tuple[int, int]:
    """Line and column of the mistake, or of the nearest part around it; within an expression only if it stands on one
    line.
    """
    name, node = read.root, read.root
    for key in mistake.path:
        found = _child(node, key)
        if found is None:
            break
        name, node = found
    scalar = isinstance(node.value, str)
    mark = name.start_mark if mistake.part == "key" or not scalar else node.start_mark
    offset = 0
    if mistake.error and scalar and node.style in (None, "", "'", '"') and node.start_mark.line == node.end_mark.line:
        offset = mistake.error.offset + bool(node.style)
    return mark.line + 1, mark.column + 1 + offset


def _child(node: Any, key: str | int) -> tuple[Any, Any] | None:
    """The name node (an item of a list: itself) and the value node of a part."""
    if isinstance(node.value, str):
        return None
    if isinstance(key, str):
        return next((pair for pair in node.value if isinstance(pair, tuple) and pair[0].value == key), None)
    if node.id != "sequence" or not isinstance(key, int):
        return None
    items = cast("Sequence[Any]", node.value)
    return (items[key], items[key]) if 0 <= key < len(items) else None
