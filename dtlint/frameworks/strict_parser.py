"""The argparse parser of a program that stops at what it does not know: which flags it takes, for certain."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterable, Iterator
from functools import partial
from pathlib import PurePosixPath

from dtlint.frameworks import Member, Reading
from dtlint.frameworks.arguments import texts
from dtlint.languages.python.bindings import dotted, last_word
from dtlint.languages.python.callers import called_by_name
from dtlint.languages.python.editing import inserted_behind
from dtlint.languages.python.entered import called_function
from dtlint.languages.python.following import ways
from dtlint.languages.python.names import lookup, qualified
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Program, of_file
from dtlint.languages.python.reach import stands
from dtlint.languages.python.tree import Binding, Module, Site
from dtlint.record import NamedTuple
from dtlint.value import written

LAYER = "strict-parser"
COLLECTION = "program.parser"

_PARSER = "argparse.ArgumentParser"
_PARSES, _ADDS, _KNOWN_ONLY = "parse_args", "add_argument", "parse_known_args"
_PLAIN = frozenset(
    ("prog", "usage", "description", "epilog", "parents", "formatter_class", "argument_default", "conflict_handler",
     "add_help", "allow_abbrev", "fromfile_prefix_chars")
)  # fmt: skip
"""What a parser may be told without taking other words for that (not `prefix_chars`, `exit_on_error`)."""
_PARTS = frozenset(("add_argument_group", "add_mutually_exclusive_group"))
"""Methods whose results add arguments to the parser."""
_OPENING = ("add_subparsers", "parse_intermixed_args")
"""Methods by which other words are taken than those that the calls of `add_argument` name."""
_ADDERS = {
    "deepspeed.add_config_arguments": (
        "--deepspeed", "--deepspeed_config", "--deepspeed_mpi", "--deepscale", "--deepscale_config",
    ),
}  # fmt: skip
"""Functions of libraries that add known flags (deepspeed/__init__.py; there is no local rank among them)."""
_BUILTINS = frozenset(dir(builtins))
_CHANGES_WORDS = re.compile(
    r"\bsys\.argv(?:\[[^\]\n]{0,40}\])?(?:\s{0,4}\+?=(?!=)|\.(?:append|clear|extend|insert|pop|remove)\b)"
    r"|\bdel sys\.argv"
)
"""Statements by which a program changes the words that it was started with."""
_RESTS = ("'...'", "'A...'")
_RANK = "local_rank"
"""The name of the argument that launchers hand to the program."""


class _Rank(NamedTuple):
    """The call that declares the local rank in one spelling."""

    flag: str
    call: Place
    item: ast.expr


def read(program: Program) -> Reading:
    """The collection `program.parser`: one member where the program surely reads its words by a parser of its own
    that stops at unknown ones: `program` (the file's name), `taker` (what takes its words: the file that declares its
    local rank, else the same), `flags` (all that may be declared anywhere in it), `declared` (the flag of the local
    rank, "" where there is none), `both` (a call that declares its two spellings). The edit `both` makes it that call.
    """
    found = next(_strict(program), None)
    handed = tuple(_handed(program)) if found is not None else ()
    if found is None or _is_open(program) or any(map(_may_add, handed)):
        return Reading(LAYER)
    ranks = tuple(_ranks(program))
    place, rank = found.module.span(found.node), next((each for each in ranks if _is_made(each, found)), None)
    if ranks and rank is None:
        return Reading(LAYER)
    name = _file_name(program.main)
    flags = _all_flags(program, handed)
    fields = {"flags": written(flags, place), **texts(place, program=name, taker=name, declared="", both="")}
    if rank is None:
        return Reading(LAYER, collections={COLLECTION: (Member(place, fields),)})
    return Reading(LAYER, collections={COLLECTION: (_with_rank(Member(place, fields), rank),)})


def taken_flags(program: Program) -> tuple[str, ...] | None:
    """All flags that may be declared anywhere in a program, None where its parser may take others or other words."""
    handed = tuple(_handed(program))
    return None if _is_open(program) or any(map(_may_add, handed)) else _all_flags(program, handed)


def _all_flags(program: Program, handed: Iterable[Place]) -> tuple[str, ...]:
    return tuple(sorted({*_flags(program), *_of_libraries(handed)}))


def _is_made(rank: _Rank, found: Place) -> bool:
    """Whether a declaration is one of the program's parser, not of another that a file beside it may make."""
    return rank.call.module is found.module or bool(stands(rank.call))


def _with_rank(member: Member, rank: _Rank) -> Member:
    """The member with the flag of the local rank that the program declares, and the edit that adds the other."""
    module, call = rank.call.module, rank.call.node
    assert isinstance(call, ast.Call)
    quote = module.text(rank.item)[0]
    other = rank.flag.replace("_", "-") if "_" in rank.flag else "--" + _RANK
    head, given = module.text(call.func, 40), f"{quote}{rank.flag}{quote}, {quote}{other}{quote}"
    told = texts(member.place, taker=_file_name(module), declared=rank.flag, both=f"{head}({given}, ...)")
    edit = inserted_behind(module, rank.item, f", {quote}{other}{quote}")
    return Member(
        member.place,
        {**member.fields, **told},
        ((module.span(call), "declared here"),),
        {"both": (edit,)} if edit is not None else {},
    )


def _file_name(module: Module) -> str:
    return PurePosixPath(module.source.path).name


def _strict(program: Program) -> Iterator[Place]:
    """Calls of `parse_args` on what the program was started with that surely run, by a parser of argparse."""
    for module, site in called_by_name(program, _PARSES):
        place = place_of(program, module, site)
        node = site.node
        if isinstance(node, ast.Call) and reads_words(place, node) and stands(place) and is_parser(place, node):
            yield place


def reads_words(place: Place, node: ast.Call) -> bool:
    """Whether a call parses what the program was started with, or what another parser has left of it."""
    return not node.keywords and all(_are_words(place, item) for item in node.args)


def _are_words(place: Place, item: ast.expr) -> bool:
    if not isinstance(item, ast.Name):
        return ast.unparse(item) in ("None", "sys.argv[1:]")
    bindings = lookup(place.scope, item.id)[1]
    return bool(bindings) and all(_is_rest(binding) for binding in bindings)


def _is_rest(binding: Binding) -> bool:
    """Whether a name is bound to the words that a parser does not know: `args, rest = parser.parse_known_args()`."""
    node = binding.node
    last = last_word(node.func) if isinstance(node, ast.Call) and not node.args else ""
    return last == _KNOWN_ONLY and binding.path == (1,)


def is_parser(place: Place, node: ast.Call) -> bool:
    """Whether a call is of a method of argparse's parser."""
    return isinstance(node.func, ast.Attribute) and _are_parsers(place.at(node.func.value))


def _are_parsers(place: Place) -> bool:
    """Whether an expression is a parser of argparse on every way, with all that it inherits."""
    return all(isinstance(way.end, Place) and _is_built(way.end) for way in ways(place))


def _is_built(end: Place) -> bool:
    node, callee = end.node, _callee(end)
    if isinstance(node, ast.Call) and callee in _ADDERS:
        return bool(node.args) and _are_parsers(end.inner(node.args[0]))
    if not isinstance(node, ast.Call) or callee != _PARSER:
        return False
    told = {word.arg: word.value for word in node.keywords}
    parents = told.get("parents")
    if not _PLAIN.issuperset(name or "**" for name in told) or any(isinstance(item, ast.Starred) for item in node.args):
        return False
    if parents is None:
        return True
    inner = parents.elts if isinstance(parents, (ast.List, ast.Tuple)) else [None]
    return all(item is not None and _are_parsers(end.inner(item)) for item in inner)


def _is_open(program: Program) -> bool:
    """Whether the parser may take flags that no text in sight names, or not see all words."""
    if any(called_by_name(program, name) for name in _OPENING):
        return True
    if any(_CHANGES_WORDS.search(module.source.text) for module in program.modules.values()):
        return True
    return any(not _is_plain(node) for _, node in _additions(program))


def _additions(program: Program) -> Iterator[tuple[Place, ast.Call]]:
    for module, site in called_by_name(program, _ADDS):
        if isinstance(site.node, ast.Call):
            yield place_of(program, module, site), site.node


def _is_plain(node: ast.Call) -> bool:
    """Whether a call names its flags as texts, and is of no argument that takes the rest of the words."""
    named = all(isinstance(item, ast.Constant) for item in node.args) and all(word.arg for word in node.keywords)
    counts = (ast.unparse(word.value) for word in node.keywords if word.arg == "nargs")
    takes_rest = any("REMAINDER" in count or count in _RESTS for count in counts)
    return named and not (takes_rest and not any(text.startswith("-") for text in _texts(node)))


def _flags(program: Program) -> Iterator[str]:
    for _, node in _additions(program):
        yield from _texts(node)


def _texts(node: ast.Call) -> Iterator[str]:
    yield from (item.value for item in node.args if isinstance(item, ast.Constant) and isinstance(item.value, str))


def _of_libraries(handed: Iterable[Place]) -> Iterator[str]:
    for place in handed:
        yield from _ADDERS.get(_callee(place), ())


def _handed(program: Program) -> Iterator[Place]:
    """Calls of other functions that are given a parser, or what may be one."""
    names = dict.fromkeys(_holders(program))
    for module in program.modules.values():
        given = of_file(program, "named arguments", module.top, partial(_named_arguments, module))
        for site, item in (each for name in names for each in given.get(name, ())):
            place = place_of(program, module, site)
            if not _is_parsed(place.at(item)):
                yield place


def _named_arguments(module: Module) -> dict[str, tuple[tuple[Site, ast.expr], ...]]:
    """The arguments of a module's calls that are names (`parser`, `self.parser`), by name, with their calls."""
    found: dict[str, list[tuple[Site, ast.expr]]] = {}
    for site in dict.fromkeys(site for sites in module.called.values() for site in sites):
        node = site.node
        given = [*node.args, *(word.value for word in node.keywords)] if isinstance(node, ast.Call) else []
        for item in given:
            found.setdefault(dotted(item), []).append((site, item))
    return {name: tuple(each) for name, each in found.items() if name}


def _is_parsed(place: Place) -> bool:
    """Whether an expression is what a parser has made of the words: `args = args.parse_args()`."""
    ends = [way.end for way in ways(place)]
    calls = [end.node for end in ends if isinstance(end, Place) and isinstance(end.node, ast.Call)]
    return len(calls) == len(ends) and all(last_word(call.func) in (_PARSES, _KNOWN_ONLY) for call in calls)


def _holders(program: Program) -> Iterator[str]:
    """The names that parsers and groups of arguments have in the program."""
    for method in (_ADDS, _PARSES, *_PARTS):
        for _, site in called_by_name(program, method):
            function = site.node.func if isinstance(site.node, ast.Call) else None
            name = dotted(function.value) if isinstance(function, ast.Attribute) else ""
            if name:
                yield name


def _may_add(place: Place) -> bool:
    """Whether a call may add flags that are not in sight: one that leads out of the program, to no known adder."""
    assert isinstance(place.node, ast.Call)
    callee = _callee(place)
    return callee not in _ADDERS and callee not in _BUILTINS and called_function(place, place.node) is None


def _callee(place: Place) -> str:
    node = place.node
    names = qualified(place.module, node.func, place.scope) if isinstance(node, ast.Call) else ()
    return names[0] if len(names) == 1 else ""


def _ranks(program: Program) -> Iterator[_Rank]:
    """Where the local rank is declared."""
    for place, node in _additions(program):
        for item in node.args:
            flag = item.value if isinstance(item, ast.Constant) else None
            if isinstance(flag, str) and flag.startswith("--") and flag[2:].replace("-", "_") == _RANK:
                yield _Rank(flag, place, item)
