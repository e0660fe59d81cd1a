"""Finds what ZeRO does not bear in code (`code.zero_no_syncs`, `code.zero_generations`), and what an Accelerator leaves
to DeepSpeed (`code.accelerated_clips`).
"""

from __future__ import annotations

import ast
import re

from dtlint.frameworks import Member
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.code.inside import taken_from
from dtlint.frameworks.code.lightning_models import is_held_by_lightning
from dtlint.frameworks.code.mentions import mentions
from dtlint.frameworks.code.objects import INITIALIZE, is_prepared, kinds, makers, wrapped_kinds
from dtlint.frameworks.code.ranks import bindings_at
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.calls import Call, argument, call_at, calls, passed
from dtlint.languages.python.places import Budget, Place, place_of
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands
from dtlint.value import Setting, Value

_GATHERED = re.compile(r"GatheredParameters|unwrap_model_for_generation|gather_deepspeed3_params|hybrid_engine")
"""Words of programs that gather the weights before they generate."""
_INPUTS = re.compile(r"\*\*(model_)?(inputs?|batch|prompts?|encod\w*|token\w*)", re.IGNORECASE)
"""Keyword arguments that are what a tokenizer makes, and hold no options."""
_TOKENIZERS = re.compile(r"tokeni[sz]er|processor|encod", re.IGNORECASE)
"""Names of what makes such arguments."""
_LENGTHS = (("min_new_tokens", "max_new_tokens"), ("min_length", "max_length"))
"""Arguments that say how long a text is at least and at most."""
_GIVEN = re.compile(r"synced_gpus\b(?!=False)")
"""How a program says elsewhere that ranks generate together."""
_TOLD = re.compile(
    r"HfDeepSpeedConfig|HfTrainerDeepSpeedConfig|\baccelerate\.Accelerator\b|\btransformers\.\w*Train(er|ingArguments)\b"
)
"""Words of programs in which Transformers learns of ZeRO-3, and since 4.28 sets synced_gpus by itself."""
_TELLING = {
    "accelerate": ("Accelerator",),
    "transformers": ("Trainer", "TrainingArguments"),
    "trl": ("Trainer", "Config"),
}
"""Endings of names that tell it, by the package that they are imported from."""
_ASKS = re.compile(r"deepspeed|distributed_type|zero", re.IGNORECASE)
"""Words of a condition that may keep no_sync to other backends."""
_EACH_BATCH = re.compile(r"sync_each_batch")
"""The switch that has Accelerate exchange the gradients of every micro-batch."""


def zero_no_syncs(program: Program) -> tuple[Member, ...]:
    """The collection `code.zero_no_syncs`: `call`, what asks an engine of DeepSpeed to hold the exchange back; `by`,
    who asks it ("engine": the program itself, "accelerate"); `always`, "no" where only accumulation over several
    micro-batches comes to it.
    """
    found = []
    for module in program.modules.values():
        for word in ("no_sync", "accumulate"):
            for site in module.called.get(word, ()):
                place = place_of(program, module, site)
                by = _asked_by(place, word)
                if by and stands(place) is not False:
                    span, call = module.span(site.node), module.text(site.node, 60)
                    always = "yes" if word == "no_sync" else "no"
                    found.append(Member(span, texts(span, call=call, by=by, always=always)))
    return tuple(found)


def accelerated_clips(program: Program) -> tuple[Member, ...]:
    """The collection `code.accelerated_clips`: `name`, a call that has an Accelerator clip gradients, and `value`, the
    norm that it is given.
    """
    found = []
    for module in program.modules.values():
        for site in module.called.get("clip_grad_norm_", ()):
            place = place_of(program, module, site)
            function = getattr(place.node, "func", None)
            if not isinstance(function, ast.Attribute) or kinds(place.at(function.value)) != {"accelerator"}:
                continue
            value, kept = argument(call_at(place, "clip_grad_norm_"), "max_norm", 1), _keeps_to_others(place)
            if isinstance(value, Value) and value.value and not kept and stands(place) is not False:
                span = module.span(site.node)
                found.append(Member(span, {**texts(span, name=dotted(function)), "value": value}))
    return tuple(found)


def _keeps_to_others(place: Place) -> bool:
    """Whether a condition may keep a call to other backends than DeepSpeed."""
    return any(guard.test is not None and _ASKS.search(place.module.text(guard.test)) for guard in place.guards)


def _asked_by(place: Place, word: str) -> str:
    """Who asks an engine to hold the exchange back, "" for any other object, and where a guard asks for DeepSpeed."""
    if word == "no_sync" and _engine(place):
        return "engine"
    node = place.node
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not (node.args or node.keywords):
        return ""
    if _keeps_to_others(place):
        return ""
    accelerator = kinds(place.at(node.func.value)) == {"accelerator"}
    return "accelerate" if accelerator and not mentions(place.program, _EACH_BATCH) else ""


def _engine(place: Place) -> str:
    """The name of the DeepSpeed engine that a method is called on, "" for any other object."""
    node = place.node
    receiver = node.func.value if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
    if receiver is None or not dotted(receiver):
        return ""
    return dotted(receiver) if kinds(place.at(receiver)) == {"deepspeed"} else ""


def zero_generations(program: Program) -> tuple[Member, ...]:
    """The collection `code.zero_generations`: `call`, and `synced` of a generation that does not keep the ranks
    together: "off" where synced_gpus is False, "absent" where nothing sets it, not even Transformers, "told" where only
    a Transformers that sets it by itself does.
    """
    if mentions(program, _GATHERED):
        return ()
    found = []
    for module in program.modules.values():
        for site in module.called.get("generate", ()):
            place = place_of(program, module, site)
            synced = _synced(call_at(place, "generate"))
            if synced and stands(place) is not False:
                span = module.span(site.node)
                assert isinstance(site.node, ast.Call)
                found.append(Member(span, texts(span, call=module.text(site.node.func, 40), synced=synced)))
    return tuple(found)


def _synced(call: Call) -> str:
    """How a call of generate leaves the ranks on their own, "" if it may not."""
    if (call.open and not _holds_inputs(call)) or _is_alike(call):
        return ""
    value = argument(call._replace(open=""), "synced_gpus")
    if isinstance(value, Value) and value.value is False and value.origin.kind == "written":
        return "off"
    owner = _owner(call.place)
    if value is not None or owner is None or mentions(call.place.program, _GIVEN):
        return ""
    if is_prepared(owner, frozenset({"accelerator"})):
        return "told"
    if not _is_of_engine(owner):
        return ""
    return "told" if _is_told(call.place.program) else "absent"


def _is_of_engine(owner: Place) -> bool:
    """Whether a model is DeepSpeed's: its engine, or what is inside it; a Fabric and the Trainer of a LightningModule
    start one without a word to Transformers.
    """
    by_program = wrapped_kinds(owner) == {"deepspeed"} or _is_sharded(owner)
    by_fabric = by_program or is_prepared(owner._replace(budget=Budget()), frozenset({"fabric"}))
    return by_fabric or is_held_by_lightning(owner._replace(budget=Budget()))


def _is_told(program: Program) -> bool:
    """Whether Transformers learns that the program uses ZeRO-3."""
    names = (name for module in program.modules.values() for name in module.imports)
    return mentions(program, _TOLD) or any(name.endswith(_TELLING.get(name.partition(".")[0], ())) for name in names)


def _is_alike(call: Call) -> bool:
    """Whether all ranks may generate equally long: no end of the text is looked for, or only behind its full length."""
    ends = argument(call, "eos_token_id") if "eos_token_id" in call.keywords else None
    endless = isinstance(ends, Value) and (ends.value is None or ends.value == -1)
    lengths = [(argument(call, low), argument(call, high)) for low, high in _LENGTHS if low in call.keywords]
    return endless or "stopping_criteria" in call.keywords or any(not _differ(*pair) for pair in lengths)


def _differ(least: Setting | None, most: Setting | None) -> bool:
    """Whether two lengths are certainly not the same."""
    return isinstance(least, Value) and isinstance(most, Value) and least.value != most.value


def _owner(place: Place) -> Place | None:
    """What a method is called on; of the model inside a wrapper the wrapper."""
    node = place.node
    owner = place.at(node.func.value) if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) else None
    return None if owner is None else taken_from(owner) or owner


def _is_sharded(place: Place) -> bool:
    """Whether a model was handed to deepspeed.initialize, which shards its weights where they lie."""
    given = (passed(call, "model", 1) for call in calls(place.program, INITIALIZE) if stands(call.place) is not False)
    inside = {maker.call.node for items in given for item in items for maker in makers(item.place) if maker.call}
    made = [maker.call for maker in makers(place._replace(budget=Budget()))] if inside else []
    return bool(made) and all(call is not None and call.node in inside for call in made)


def _holds_inputs(call: Call) -> bool:
    """Whether the keyword arguments that a call unpacks hold no options: by their name, or as a tokenizer made them."""
    if _INPUTS.fullmatch(call.open):
        return True
    node = call.place.node
    unpacked = [keyword.value for keyword in node.keywords if keyword.arg is None] if isinstance(node, ast.Call) else []
    names = [value.id for value in unpacked if isinstance(value, ast.Name)]
    made = [binding.node for name in names for binding in bindings_at(call.place, name)]
    return len(names) == len(unpacked) and bool(made) and all(map(_is_encoded, made))


def _is_encoded(node: ast.AST | None) -> bool:
    """`tokenizer(prompts, return_tensors="pt").to(device)`"""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("to", "cuda"):
        node = node.func.value
    return isinstance(node, ast.Call) and bool(_TOKENIZERS.search(dotted(node.func)))
