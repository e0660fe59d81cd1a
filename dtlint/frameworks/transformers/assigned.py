"""Arguments of the Trainer that a program sets anew after it has parsed them (`training_args.gradient_checkpointing =
True`): what the command line says of them does not count.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dtlint.frameworks import Claim, Reading
from dtlint.frameworks.transformers.program import SETTINGS
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.places import place_of
from dtlint.languages.python.program import Program, sites
from dtlint.languages.python.reach import stands
from dtlint.value import Origin, Unknown

LAYER = "assigned-arguments"
_ARGUMENTS = re.compile(r"(^|_)args$|^training_(config|arguments)$", re.IGNORECASE)
_OTHERS = {
    "gradient_checkpointing": "checkpointing.activations",
    "bf16": "precision.compute",
    "fp16": "precision.compute",
}


def read(program: Program) -> Reading:
    """What is not known any more, a claim for each setting; nothing of a program that has no Trainer's arguments."""
    if not any("TrainingArguments" in module.source.text for module in program.modules.values()):
        return Reading(LAYER)
    found = {claim.setting: claim for claim in _assigned(program)}
    return Reading(LAYER, claims=tuple(found.values()))


def _assigned(program: Program) -> Iterator[Claim]:
    for module in program.modules.values():
        if "args." not in module.source.text and "training_" not in module.source.text:
            continue
        for site in sites(module):
            for target in site.node.targets if isinstance(site.node, ast.Assign) else ():
                setting = _setting(target)
                if setting and stands(place_of(program, module, site)) is not False:
                    place = module.span(site.node)
                    why = f"the program sets {dotted(target)} itself"
                    yield Claim(setting, Unknown(why, f"--set {setting}=...", Origin("written", place)), dotted(target))


def _setting(target: ast.expr) -> str:
    """The setting that an assignment to an attribute decides on, "" for any other."""
    if not isinstance(target, ast.Attribute) or not _ARGUMENTS.search(dotted(target.value).rpartition(".")[2]):
        return ""
    return SETTINGS.get(target.attr, "") or _OTHERS.get(target.attr, "")
