"""Programs that freeze their model as a whole and then train a part of it: how much, they do not say in a number."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.frameworks import Claim, Reading
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands
from dtlint.value import Origin, Unknown

LAYER = "pytorch-python"
_METHOD = "requires_grad_"
_MODELS = ("model", "self.model", "net", "self.net")
"""What the whole model is called; another object is a part, or a second model beside it."""


def read(program: Program) -> Reading:
    """The rank of the adapters as unknown where a statement that may be reached freezes the model."""
    place = next(_frozen(program), None)
    if place is None:
        return Reading(LAYER)
    origin = Origin("written", place.module.span(place.node))
    unknown = Unknown("the program freezes the model and trains a part", "--set model.trainable_parameters=N", origin)
    return Reading(LAYER, claims=(Claim("model.lora_rank", unknown, _METHOD),))


def _frozen(program: Program) -> Iterator[Place]:
    for module in program.modules.values():
        for site in module.called.get(_METHOD, ()):
            if _freezes(site.node) and stands(place := place_of(program, module, site)) is not False:
                yield place


def _freezes(node: ast.AST) -> bool:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        return False
    given = [*node.args, *(keyword.value for keyword in node.keywords)]
    off = len(given) == 1 and isinstance(given[0], ast.Constant) and given[0].value is False
    return off and ast.unparse(node.func.value) in _MODELS
