"""Megatron's keys of recomputation in configs: a method that nothing reads for want of a granularity."""

from __future__ import annotations

from collections.abc import Iterator

from dtlint.frameworks import Member
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.dotted_keys import Keys
from dtlint.languages.json_tree import setting
from dtlint.value import Setting, Value

_METHODS = ("uniform", "block")


def lone_methods(keys: Keys, prefix: str, unsaid_is_none: bool) -> Iterator[Member]:
    """The member of config.inert for a method of recomputation beside no granularity (NVIDIA/Megatron-LM
    megatron/core/transformer/transformer_block.py: layers are recomputed where the granularity is full). `prefix` is
    how the keys begin, with their section; `unsaid_is_none`: a granularity that is not written is none. 0 layers are a
    way to switch recomputation off.
    """
    method, granularity = keys.node(f"{prefix}method"), keys.nodes.get(f"{prefix}granularity")
    off = unsaid_is_none if granularity is None else _is_none(setting(granularity))
    if method is None or method.value not in _METHODS or not off or keys.known(f"{prefix}num_layers") == 0:
        return
    section, _, key = f"{prefix}method".rpartition(".")
    reason = f"no activation is recomputed without {key.removesuffix('method')}granularity: full"
    yield Member(method.span, texts(method.span, key=key, section=section, reason=reason, setting="", matters="yes"))


def _is_none(value: Setting) -> bool:
    """Whether a key holds nothing, and no variable that may be set decides that."""
    return isinstance(value, Value) and value.value is None and value.origin.kind != "assumed"
