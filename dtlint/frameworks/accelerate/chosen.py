"""Accelerate's config under a launch whose flags choose the way of running: its distributed_type is not read then.

accelerate 1.15.0 commands/launch.py, _validate_launch_command: distributed_type counts only where none of --multi_gpu,
--tpu, --use_deepspeed, --use_fsdp and --use_megatron_lm is given.
"""

from __future__ import annotations

from collections.abc import Mapping

from dtlint.frameworks import Claim, Member, Reading
from dtlint.frameworks.accelerate.clashes import SECTION_OF
from dtlint.frameworks.accelerate.config import framework_of, read_config
from dtlint.frameworks.accelerate.keys import given
from dtlint.frameworks.arguments import texts
from dtlint.languages.json_tree import Document, Entry, Node
from dtlint.value import Value

_TYPES = {"ddp": "MULTI_GPU", "fsdp": "FSDP", "deepspeed": "DEEPSPEED", "megatron": "MEGATRON_LM"}
_KEY = "distributed_type"


def read_under(document: Document, launch: Reading) -> Reading:
    """What a config says under a launch: the section that its own distributed_type asks for is inert where a flag asks
    for another one.
    """
    root = document.root
    flag = next((claim for claim in launch.claims if claim.setting == "framework"), None)
    if root is None or flag is None or framework_of(given(root)) in ("", launch.framework):
        return read_config(document)
    asked = given(root).known(_KEY)
    entries = tuple(_chosen(entry, flag, launch.framework) for entry in root.entries)
    reading = read_config(document._replace(root=root._replace(entries=entries)))
    inert = tuple(_lost(each, flag, SECTION_OF.get(str(asked), "")) for each in _inert(reading.collections))
    return reading._replace(collections={**reading.collections, "config.inert": inert}) if inert else reading


def _chosen(entry: Entry, flag: Claim, framework: str) -> Entry:
    """The entry, with what the flag says in place of the file's distributed_type."""
    told = flag.value
    if entry.key != _KEY or not isinstance(told, Value) or told.origin.span is None:
        return entry
    kind = _TYPES[framework]
    return entry._replace(node=Node("string", kind, told.origin.span, told=told._replace(value=kind)))


def _inert(found: Mapping[str, tuple[Member, ...]]) -> tuple[Member, ...]:
    return found.get("config.inert", ())


def _lost(member: Member, flag: Claim, asked: str) -> Member:
    """A section that nothing reads, with the flag as its reason; it matters where the file asks for it."""
    key = member.fields["key"]
    section = str(key.value) if isinstance(key, Value) else ""
    if section not in SECTION_OF.values():
        return member
    reason = f"{flag.name} is given, and accelerate launch reads {_KEY} only where no flag chooses"
    told = texts(member.place, reason=reason, matters="yes" if section == asked else "no")
    place = flag.value.origin.span if isinstance(flag.value, Value) else None
    related = ((place, f"{flag.name} chooses here"),) if place is not None else ()
    return member._replace(fields={**member.fields, **told}, related=(*member.related, *related))
