"""Finds what stands against recomputation in programs on Transformers: a cache that is asked for, adapters behind which
no gradient flows.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial

from dtlint.frameworks import Member
from dtlint.frameworks.arguments import texts
from dtlint.languages.python.calls import calls
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Program, of_file, sites
from dtlint.languages.python.reach import stands
from dtlint.languages.python.tree import Module, Site
from dtlint.source import Span

SWITCHES = ("gradient_checkpointing_enable", "activation_checkpointing_enable")
_CACHE = "use_cache"
_ADAPTERS = ("peft.get_peft_model", "peft.mapping.get_peft_model", "peft.mapping_func.get_peft_model")
_LORA = ("peft.LoraConfig", "peft.tuners.lora.LoraConfig", "peft.tuners.LoraConfig")
_TRAINERS = ("transformers.Trainer", "transformers.Seq2SeqTrainer")
_OPENERS = (
    "enable_input_require_grads", "prepare_model_for_kbit_training", "prepare_model_for_int8_training",
    "requires_grad_", "get_input_embeddings", "modules_to_save", "embed_tokens", "wte", "requires_grad = True",
    "trl", "unsloth", "swift",
)  # fmt: skip
"""Words of programs in which gradients flow into the first block after all, or may."""


def obstacles(program: Program) -> tuple[Member, ...]:
    """The collection `code.obstacles`: `kind` (cache, adapters) and `name`, the text that asks for it."""
    return (*_caches(program), *_adapters(program))


def _caches(program: Program) -> Iterator[Member]:
    """Calls and statements that turn the cache on in a program that nowhere turns it off."""
    found = [item for module in program.modules.values() for item in _cache_settings(program, module)]
    if all(on for _, _, on in found):
        for place, span, _ in found:
            if stands(place):
                yield Member(span, texts(span, kind="cache", name=f"{_CACHE}=True"))


def _cache_settings(program: Program, module: Module) -> Iterator[tuple[Place, Span, bool]]:
    """Where the cache is set to anything, and whether to a literal True: `from_pretrained(..., use_cache=True)`, and
    `model.config.use_cache = True` ahead of the training in the same function.
    """
    for site, value in of_file(program, "cache settings", module.top, partial(_cache_values, module)):
        on = isinstance(value, ast.Constant) and value.value is True
        if not on or isinstance(site.node, ast.Call) or _trains_later(site):
            yield place_of(program, module, site), module.span(value), on


def _cache_values(module: Module) -> tuple[tuple[Site, ast.expr], ...]:
    if _CACHE not in module.source.text:
        return ()
    return tuple((site, value) for site in sites(module) for value in _values(site))


def _values(site: Site) -> Iterator[ast.expr]:
    node = site.node
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and node.func.attr == "from_pretrained":
            yield from (keyword.value for keyword in node.keywords if keyword.arg == _CACHE)
    elif isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Attribute) and target.attr == _CACHE:
                yield node.value


def _trains_later(site: Site) -> bool:
    """Whether a model is trained further down in the same function; behind the training the cache serves generation."""
    later = (other.node for other in site.scope.sites if _line(other.node) > _line(site.node))
    return any(_is_method(node, ("train", "backward")) for node in later)


def _adapters(program: Program) -> Iterator[Member]:
    """Calls of get_peft_model ahead of the switch that turns recomputation on: nothing then makes the frozen
    embeddings hand out gradients, which reentrant recomputation needs.
    """
    if any(word in module.source.text for module in program.modules.values() for word in _OPENERS):
        return
    if not any(stands(call.place) for call in calls(program, _LORA)):
        return
    trained = any(stands(call.place) for call in calls(program, _TRAINERS))
    for call in calls(program, _ADAPTERS):
        switched = [site for module in program.modules.values() for site in _switches(module)]
        behind = all(site.scope is call.place.scope and _line(site.node) > _line(call.place.node) for site in switched)
        if stands(call.place) and behind and (trained or switched):
            yield Member(call.head, texts(call.head, kind="adapters", name="get_peft_model"))


def _switches(module: Module) -> list[Site]:
    return [site for name in SWITCHES for site in module.called.get(name, ())]


def _is_method(node: ast.AST, names: tuple[str, ...]) -> bool:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in names


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)
