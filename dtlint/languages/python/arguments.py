"""Command-line arguments that a script declares: argparse, and dataclasses that become arguments."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from itertools import takewhile

from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.entry_points import entry_arguments
from dtlint.languages.python.names import qualified
from dtlint.languages.python.places import Budget, Place
from dtlint.languages.python.program import COUNT, HYDRA_OPTIONS, WORDS, Program, link_modules
from dtlint.languages.python.tree import Argument, Module, Scope
from dtlint.languages.traced import Word, setting_of
from dtlint.languages.yaml_scalars import plain_scalar
from dtlint.value import Origin, Setting, Unknown, Value, truth

_TOLD = frozenset(("action", "choices", "default", "nargs", "required", "type"))
"""What a program says of an argument that it adds."""
_LONG = re.compile(r"--[a-zA-Z][\w-]*")
_DENIABLE = ("flag", "BooleanOptionalAction")
"""Actions of arguments that `--no-flag` switches off."""
_DOTTED = re.compile(r"(?:--(?=[\w-]+\.)|\+{0,2})([A-Za-z_]\w*(?:\.\w+)*)=")
_DATACLASS = "dataclass"
"""What the decorators that make a class of fields end in: the standard library's, and those of libraries that build on
it (flax.struct.dataclass).
"""


def with_arguments(module: Module) -> Module:
    """The module with the arguments that it declares, by destination name."""
    program = link_modules({"": module})
    found = dict(_dataclass_fields(program, module))
    found.update(_argparse(program, module))
    found.update(entry_arguments(program, module))
    return module._replace(arguments=found)


def _argparse(program: Program, module: Module) -> Iterator[tuple[str, Argument]]:
    for scope in module.scopes:
        for site in scope.sites:
            node = site.node
            if isinstance(node, ast.Call) and (_adds(node) or _hands_on(node)):
                declared = _declared(Place(program, module, scope, node, site.guards, budget=Budget(200)), node)
                if declared is not None:
                    yield declared


def _adds(node: ast.Call) -> bool:
    return isinstance(node.func, ast.Attribute) and node.func.attr == "add_argument"


def _hands_on(node: ast.Call) -> bool:
    """Whether a call gives a function of the program's own a flag and what argparse wants to know of it."""
    told = {keyword.arg for keyword in node.keywords}
    if told.isdisjoint(_TOLD):
        return False
    flags = [item.value for item in node.args if isinstance(item, ast.Constant) and isinstance(item.value, str)]
    return len(flags) == 1 and _LONG.fullmatch(flags[0]) is not None


def _declared(place: Place, node: ast.Call) -> tuple[str, Argument] | None:
    flags = tuple(item.value for item in node.args if isinstance(item, ast.Constant) and isinstance(item.value, str))
    if not flags:
        return None
    words = {keyword.arg: keyword.value for keyword in node.keywords if keyword.arg}
    action = _action(words.get("action"))
    kind = dotted(words["type"]) if "type" in words else ""
    destination = words.get("dest")
    long = next((flag for flag in flags if flag.startswith("--")), flags[0])
    name = destination.value if isinstance(destination, ast.Constant) else long.lstrip("-").replace("-", "_")
    default = _default(place, node, words, action)
    return str(name), Argument(flags, default, place.module.span(node), action, kind, _takes_many(words.get("nargs")))


def _takes_many(nargs: ast.expr | None) -> bool:
    return nargs is not None and not (isinstance(nargs, ast.Constant) and nargs.value in ("?", None))


def _action(node: ast.expr | None) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    return dotted(node).rpartition(".")[2] if node is not None else "store"


def _default(place: Place, node: ast.Call, words: Mapping[str, ast.expr], action: str) -> Setting:
    if "default" in words:
        return evaluate(place.at(words["default"]))
    origin = Origin("written", place.module.span(node))
    if action in ("store_true", "store_false"):
        return Value(action == "store_false", origin)
    required = words.get("required")
    in_turn = "nargs" not in words and bool(node.args) and not _is_flag(node.args[0])
    if in_turn or (isinstance(required, ast.Constant) and required.value is True):
        return Unknown("the command must pass it", "", origin)
    return Value(None, origin)


def _is_flag(node: ast.expr) -> bool:
    return not isinstance(node, ast.Constant) or str(node.value).startswith("-")


def _dataclass_fields(program: Program, module: Module) -> Iterator[tuple[str, Argument]]:
    for scope in module.scopes:
        if isinstance(scope.node, ast.ClassDef) and is_dataclass(module, scope):
            for item in scope.node.body:
                if isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                    yield (
                        item.target.id,
                        _field(Place(program, module, scope, item, budget=Budget(200)), item, item.target.id),
                    )


def is_dataclass(module: Module, scope: Scope) -> bool:
    """Whether a scope is of a class whose annotated names are fields, and so arguments where a parser is made of it."""
    if not isinstance(scope.node, ast.ClassDef):
        return False
    heads = [item.func if isinstance(item, ast.Call) else item for item in scope.node.decorator_list]
    names = (name for head in heads for name in qualified(module, head, scope.parent or scope))
    decorated = any(name.rpartition(".")[2] == _DATACLASS for name in names)
    return decorated or any(dotted(base).endswith("TrainingArguments") for base in scope.node.bases)


def _field(place: Place, item: ast.AnnAssign, name: str) -> Argument:
    kind = place.module.text(item.annotation, 60)
    action = "flag" if kind.replace(" ", "") in ("bool", "Optional[bool]", "bool|None") else "store"
    flags = (f"--{name}", f"--{name.replace('_', '-')}")
    return Argument(flags, _field_default(place, item), place.module.span(item), action, kind)


def _field_default(place: Place, item: ast.AnnAssign) -> Setting:
    """A field's default, also inside `field(default=...)` and `field(default_factory=lambda: ...)`."""
    value = item.value
    if value is None:
        return Unknown("the command must pass it", "", Origin("written", place.module.span(item)))
    if isinstance(value, ast.Call) and dotted(value.func).rpartition(".")[2] in ("field", "Field", "HfArg"):
        inner = next((found for keyword in value.keywords if (found := _told_default(keyword)) is not None), None)
        if inner is None:
            return Unknown(
                "the default is computed when the script runs", "", Origin("written", place.module.span(value))
            )
        return evaluate(place.at(inner))
    return evaluate(place.at(value))


def _told_default(keyword: ast.keyword) -> ast.expr | None:
    if keyword.arg == "default_factory" and isinstance(keyword.value, ast.Lambda):
        return keyword.value.body
    return keyword.value if keyword.arg == "default" else None


def parse_words(declared: Mapping[str, Argument], words: tuple[Word, ...]) -> dict[str, Setting]:
    """What a command's words after the script give its declared arguments, by destination name."""
    flags = {flag: name for name, argument in declared.items() for flag in argument.flags if flag.startswith("-")}
    denials = {f"--no-{flag[2:]}": name for flag, name in flags.items() if declared[name].action in _DENIABLE}
    given: dict[str, Setting] = {}
    free: list[Word] = []
    index = 0
    while index < len(words):
        shown, _, tail = words[index].shown.partition("=")
        name = flags.get(shown, "")
        index += 1
        if not name and shown in denials:
            given[denials[shown]] = setting_of(words[index - 1], False)
        elif not name:
            free.append(words[index - 1])
        if not name:
            continue
        argument = declared[name]
        if tail:
            given[name] = _typed(words[index - 1].part(len(shown) + 1), argument)
        elif argument.action in ("store_true", "store_false"):
            given[name] = setting_of(words[index - 1], argument.action == "store_true")
        elif index < len(words) and not words[index].shown.startswith("--"):
            given[name] = _typed(words[index], argument)
            index += 1
        elif argument.action in ("flag", "BooleanOptionalAction"):
            given[name] = setting_of(words[index - 1], True)
        while argument.many and index < len(words) and not words[index].shown.startswith("-"):
            index += 1
    return {**given, **_in_turn(declared, free)}


def positional(declared: Mapping[str, Argument]) -> list[str]:
    """The arguments that are told by their turn (`parser.add_argument("config")`), in the order in which they are
    declared, up to the first that takes several words.
    """
    names = [name for name, argument in declared.items() if not any(flag.startswith("-") for flag in argument.flags)]
    return list(takewhile(lambda name: not declared[name].many, names))


def _in_turn(declared: Mapping[str, Argument], free: list[Word]) -> dict[str, Setting]:
    """What words give by their turn, up to the first flag that is not declared: it may take the next word. Nothing
    where there are more words than arguments that wait for one.
    """
    names = positional(declared)
    leading = list(takewhile(lambda word: not word.many and not word.shown.startswith(("-", "+")), free))
    fit = len(leading) <= len(names)
    return {name: _typed(word, declared[name]) for name, word in zip(names, leading, strict=False)} if fit else {}


def numbered_words(words: tuple[Word, ...]) -> dict[str, Setting]:
    """The words of a command as the script may ask for them (`sys.argv[1]`), up to one that may stand for several, and
    their count with the script where none may.
    """
    told = list(takewhile(lambda word: not word.many, words))
    given = {f"{WORDS}[{number}]": setting_of(word) for number, word in enumerate(told, start=1)}
    return given if len(told) < len(words) else {**given, COUNT: Value(len(words) + 1, Origin("written"))}


def may_hide(declared: Mapping[str, Argument], words: tuple[Word, ...]) -> bool:
    """Whether words that are not known may be more arguments than are seen: all but the value of an argument."""
    flags = (flag for each in declared.values() if each.action not in _SWITCHES for flag in each.flags)
    taking = {flag for flag in flags if flag.startswith("-")}
    before = ("", *(word.shown for word in words))
    return any(word.many and flag not in taking for flag, word in zip(before, words, strict=False))


_SWITCHES = frozenset(("store_true", "store_false", "store_const", "count", "flag", "BooleanOptionalAction"))
"""Actions of arguments that need no value."""


def dotted_words(words: tuple[Word, ...]) -> dict[str, Setting]:
    """What words such as `trainer.devices=8` give the keys of a config (`trainer.devices=`), the value read as YAML;
    and which config hydra is to take (HYDRA_OPTIONS).
    """
    found: dict[str, Setting] = {}
    for index, word in enumerate(words):
        head, sign, _ = word.shown.partition("=")
        key = _DOTTED.match(word.shown)
        option = HYDRA_OPTIONS.get(head, "")
        if option and sign:
            found[f"hydra:{option}"] = setting_of(word.part(len(head) + 1))
        elif option and index + 1 < len(words):
            found[f"hydra:{option}"] = setting_of(words[index + 1])
        elif key is not None:
            found[f"{key[1]}="] = _as_yaml(word.part(key.end()))
    return found


def _as_yaml(word: Word) -> Setting:
    kind, value = plain_scalar(word.text, "safe") if word.text else ("unknown", None)
    told = setting_of(word, value)
    return told._replace(value=None) if kind == "null" and isinstance(told, Value) else told


def _typed(word: Word, argument: Argument) -> Setting:
    """A word converted as its argument converts it: by its type, else by the type of its default."""
    text = word.text
    if text is None:
        return setting_of(word)
    sample = argument.default.value if isinstance(argument.default, Value) else None
    kind = argument.kind or type(sample).__name__
    if "bool" in kind or argument.action == "flag":
        value = truth(text)
        return setting_of(word) if value is None else setting_of(word, value)
    try:
        if "float" in kind:
            return setting_of(word, float(text))
        if "int" in kind:
            return setting_of(word, int(text))
    except ValueError:
        return setting_of(word)
    return setting_of(word)
