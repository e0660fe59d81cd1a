"""Arguments of the Trainer that a program sets anew after it has parsed them (`training_args.gradient_checkpointing =
True`): what the command line says of them does not count. What the Trainer reads only when it trains is what it is set
to; the others a DeepSpeed config may have taken over before.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

from dtlint.frameworks import Claim, Reading
from dtlint.frameworks.pytorch.checkpointing import variant_in
from dtlint.frameworks.transformers.program import SETTINGS
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Program, sites
from dtlint.languages.python.reach import stands
from dtlint.record import NamedTuple
from dtlint.source import Span
from dtlint.value import Origin, Setting, Unknown, Value

LAYER = "assigned-arguments"
_ARGUMENTS = re.compile(r"(^|_)args$|^training_(config|arguments)$", re.IGNORECASE)
_OF_TRAINER = re.compile(r"(?:(?:hf_?)?(?:train|trainer|training|sft|dpo)_?)?args|training_(?:config|arguments)", re.I)
"""Names of what holds the Trainer's own arguments, and not those of the model or the data beside them."""
_SWITCH, _OPTIONS = "gradient_checkpointing", "gradient_checkpointing_kwargs"
_MARK = re.compile(r"TrainingArguments|(?:SFT|DPO|GRPO|KTO|Reward)Config")
"""What a program says that has arguments of the Trainer."""
_OTHERS = {
    _SWITCH: "checkpointing.activations",
    _OPTIONS: "checkpointing.reentrant",
    "bf16": "precision.compute",
    "fp16": "precision.compute",
}


def _as_flag(place: Place) -> Setting | None:
    value = evaluate(place)
    return value if isinstance(value, Value) and isinstance(value.value, bool) else None


def _extent(place: Place) -> Setting | None:
    value = _as_flag(place)
    return value._replace(value="full" if value.value else "none") if isinstance(value, Value) else None


_READ_LATE: Mapping[str, Callable[[Place], Setting | None]] = {
    _SWITCH: _extent,
    _OPTIONS: variant_in,
    "ddp_find_unused_parameters": _as_flag,
}
"""Arguments that the Trainer reads when it starts to train and wraps the model (transformers 4.57.1 trainer.py,
_inner_training_loop and create_accelerator_and_postprocess, _wrap_model), and what they are set to."""


class _Assigned(NamedTuple):
    """An argument that is set anew: its setting and spelling, where, and to what (None: not known)."""

    setting: str
    name: str
    place: Span
    value: Value | None


def read(program: Program) -> Reading:
    """What the program sets, a claim for each setting; nothing of a program that has no Trainer's arguments."""
    if not any(_MARK.search(module.source.text) for module in program.modules.values()):
        return Reading(LAYER)
    found: dict[str, list[_Assigned]] = {}
    for each in _assigned(program):
        found.setdefault(each.setting, []).append(each)
    return Reading(LAYER, claims=tuple(map(_claim, found.values())))


def _claim(every: Sequence[_Assigned]) -> Claim:
    """What all assignments to an argument agree on, else that it is not known any more."""
    last = every[-1]
    values = {each.value.value if each.value is not None else None for each in every}
    if last.value is not None and len(values) == 1:
        return Claim(last.setting, last.value, last.name)
    why, how = f"the program sets {last.name} itself", f"--set {last.setting}=..."
    return Claim(last.setting, Unknown(why, how, Origin("written", last.place)), last.name)


def _assigned(program: Program) -> Iterator[_Assigned]:
    for module in program.modules.values():
        if "args." not in module.source.text and "training_" not in module.source.text:
            continue
        for site in sites(module):
            for target in site.node.targets if isinstance(site.node, ast.Assign) else ():
                setting = _setting(target)
                place = _where_it_counts(target, place_of(program, module, site))
                if setting and isinstance(site.node, ast.Assign) and stands(place) is not False:
                    value = _set_to(target, place, site.node.value)
                    yield _Assigned(setting, dotted(target), module.span(site.node), value)


def _where_it_counts(target: ast.expr, place: Place) -> Place:
    """A place without the question whether recomputation is on, if what is set there says how it runs."""
    if not isinstance(target, ast.Attribute) or target.attr != _OPTIONS:
        return place
    guards = (guard for guard in place.guards if not (guard.holds and _asks_for_recomputation(guard.test)))
    return place._replace(guards=tuple(guards))


def _asks_for_recomputation(test: ast.expr | None) -> bool:
    return isinstance(test, ast.Attribute) and test.attr == _SWITCH


def _set_to(target: ast.expr, place: Place, value: ast.expr) -> Value | None:
    """What an argument that is read late is certainly set to."""
    if not isinstance(target, ast.Attribute) or target.attr not in _READ_LATE or not stands(place):
        return None
    holder = dotted(target.value).rpartition(".")[2]
    found = _READ_LATE[target.attr](place.at(value)) if _OF_TRAINER.fullmatch(holder) else None
    return found if isinstance(found, Value) else None


def _setting(target: ast.expr) -> str:
    """The setting that an assignment to an attribute decides on, "" for any other."""
    if not isinstance(target, ast.Attribute) or not _ARGUMENTS.search(dotted(target.value).rpartition(".")[2]):
        return ""
    return SETTINGS.get(target.attr, "") or _OTHERS.get(target.attr, "")
