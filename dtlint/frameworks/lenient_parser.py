"""The argparse parser of a program that builds the Trainer's arguments itself and drops the words that it does not
know: which flags it takes, for certain.
"""

from __future__ import annotations

import ast

from dtlint.frameworks import Member, Reading
from dtlint.frameworks.strict_parser import is_parser, reads_words, taken_flags
from dtlint.frameworks.transformers.program import ARGUMENT_CLASSES
from dtlint.languages.python.callers import called_by_name
from dtlint.languages.python.calls import calls
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands
from dtlint.value import written

LAYER = "lenient-parser"
COLLECTION = "program.lenient"

_PARSES = "parse_known_args"
_OTHER_WAYS = ("sys.argv", "HfArgumentParser", "TrlParser", "parse_args_into_dataclasses", "OmegaConf", "hydra")
"""What a program says that may hand words of its command line to the Trainer past its parser."""


def read(program: Program) -> Reading:
    """The collection `program.lenient`: one member where the words that the parser does not know surely end there:
    `flags` (all that may be declared anywhere in the program).
    """
    texts = [module.source.text for module in program.modules.values()]
    if not any(_PARSES in text for text in texts) or any(way in text for text in texts for way in _OTHER_WAYS):
        return Reading(LAYER)
    built, parses = list(calls(program, ARGUMENT_CLASSES)), called_by_name(program, _PARSES)
    if len(built) != 1 or built[0].open or len(parses) != 1:
        return Reading(LAYER)
    module, site = parses[0]
    place = place_of(program, module, site)
    flags = taken_flags(program)
    if flags is None or not _is_dropping(place):
        return Reading(LAYER)
    span = module.span(site.node)
    return Reading(LAYER, collections={COLLECTION: (Member(span, {"flags": written(flags, span)}),)})


def _is_dropping(place: Place) -> bool:
    """Whether a call reads the words that the program was started with, and nothing asks for those that it leaves."""
    node = place.node
    if not isinstance(node, ast.Call) or stands(place) is False:
        return False
    return reads_words(place, node) and is_parser(place, node) and _is_left(place.scope.node, node)


def _is_left(scope: ast.AST, call: ast.Call) -> bool:
    """Whether the second value of a call is dropped: `parser.parse_known_args()[0]`, `args, _ = ...`."""
    for node in ast.walk(scope):
        if isinstance(node, ast.Subscript) and node.value is call:
            return isinstance(node.slice, ast.Constant) and node.slice.value == 0
        if isinstance(node, ast.Assign) and node.value is call:
            return all(_is_unread(scope, target) for target in node.targets)
    return False


def _is_unread(scope: ast.AST, target: ast.expr) -> bool:
    """Whether a target takes the second value apart, under a name that nothing in the scope reads."""
    parts = target.elts if isinstance(target, ast.Tuple | ast.List) else []
    rest = parts[1] if len(parts) == 2 else None
    if not isinstance(rest, ast.Name):
        return False
    names = (node for node in ast.walk(scope) if isinstance(node, ast.Name) and node.id == rest.id)
    return all(isinstance(node.ctx, ast.Store) for node in names)
