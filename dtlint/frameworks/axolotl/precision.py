"""The number formats of an Axolotl config: which of its keys decides, and in which format the weights train."""

from __future__ import annotations

from collections.abc import Iterator

from dtlint.frameworks import Claim
from dtlint.frameworks.deepspeed.values import flag, known
from dtlint.frameworks.dotted_keys import Keys
from dtlint.languages.json_tree import Node, setting
from dtlint.value import Setting, assumed, written


def precision(keys: Keys) -> Iterator[Claim]:
    """fp8 stands over bf16, bf16 over fp16; `auto`, which holds where nothing is written, is bf16 on GPUs that have it
    unless fp16 is on. Without any of them a model in 8 bits is loaded, and computes, in fp16 (axolotl 0.19.0
    utils/config, resolve_dtype).
    """
    name = next((each for each in ("fp8", "bf16", "bfloat16") if _is_on(keys, each)), None)
    if name is None and "bf16" not in keys.nodes and keys.known("fp16") is not True:
        return
    name = name or next((each for each in ("fp16", "float16") if _is_on(keys, each)), None)
    yield from _without_format(keys) if name is None else _in_format(keys, name)


def _is_on(keys: Keys, name: str) -> bool:
    """Whether a key asks for its format, or may: its value is not known."""
    node = keys.node(name)
    if node is None or str(node.value).lower() == "false":
        return False
    return node.value != "auto" or keys.known("fp16") is not True


def _in_format(keys: Keys, name: str) -> Iterator[Claim]:
    """`full` and `float16` ask the Trainer for no mixed precision, so that FSDP leaves the weights in the format in
    which they are loaded (core/builders/base.py, _configure_precision_settings).
    """
    node = keys.node(name)
    if node is None:
        return
    yield Claim("precision.compute", _format(node, name), name)
    if name == "float16" or node.value == "full":
        yield Claim("precision.master", setting(node, "none"), name)


def _without_format(keys: Keys) -> Iterator[Claim]:
    off = keys.nodes.get("bf16", keys.nodes.get("fp16"))
    eight = keys.node("load_in_8bit")
    if off is not None and eight is not None and known(flag(eight)) is True:
        yield Claim("precision.compute", setting(eight, "fp16"), "load_in_8bit")
    elif off is not None:
        asked = written("fp32", off.span) if off.kind == "null" else setting(off, "fp32")
        yield Claim("precision.compute", asked, "bf16")


def _format(node: Node, name: str) -> Setting:
    compute = {"bfloat16": "bf16", "float16": "fp16"}.get(name, name)
    if node.value == "auto":
        return assumed("bf16", "auto is bf16 on GPUs that have it", f"{name}: true", node.span)
    return setting(node, compute)
