"""Accelerate's config file, which `accelerate config` writes and `accelerate launch` reads."""

from __future__ import annotations

from collections.abc import Iterator

from dtlint.frameworks import Claim, NamedFile, Reading
from dtlint.frameworks.accelerate.given import TOOL, Given
from dtlint.frameworks.accelerate.keys import collections, given, section_place
from dtlint.frameworks.accelerate.settings import FAMILIES, absent, common, family
from dtlint.frameworks.accelerate.spelling import spell_in_file
from dtlint.languages.json_tree import Document, Node, entry, setting
from dtlint.languages.traced import Word, pieces_between
from dtlint.source import Span
from dtlint.value import Origin, Plain, Value, default

__all__ = ["home", "looks_like_config", "read_config", "spell"]

LAYER = "accelerate-yaml"

_USUAL = frozenset((
    "compute_environment", "num_processes", "num_machines", "machine_rank", "mixed_precision", "use_cpu",
    "main_training_function", "fsdp_config", "deepspeed_config", "same_network", "rdzv_backend", "downcast_bf16",
))  # fmt: skip


def looks_like_config(document: Document) -> bool:
    """Whether a file is a config of Accelerate: distributed_type with a value that it knows, beside another of its
    keys.
    """
    kind = entry(document.root, "distributed_type")
    if document.root is None or kind is None:
        return False
    return any(other.key in _USUAL for other in document.root.entries)


def read_config(document: Document) -> Reading:
    """What a config says, as far as it is written, with Accelerate's defaults where the framework's own differ.

    A config for SageMaker, or for CPUs and TPUs, claims no framework. The DeepSpeed file that it names is among the
    files. Unknown keys stand in `config.unknown`, wrong values and refused combinations in `config.invalid`, what has
    no effect in `config.inert`, all keys in `config.keys`.
    """
    root = document.root
    if root is None or root.kind != "object" or _is_sagemaker(root):
        return Reading(LAYER, root.span if root is not None else None)
    keys = given(root)
    framework = framework_of(keys)
    kind = entry(root, "distributed_type")
    place = section_place(root, framework)
    claims = (
        Claim("launch.launcher", _reads(kind.node.span if kind is not None else root.span)),
        *_framework(keys, framework),
        *common(keys),
        *_absent_counts(keys),
        *_rendezvous(keys, framework),
        *family(keys, framework or "none"),
        *absent(keys, framework, place),
    )
    return Reading(
        LAYER,
        root.span,
        claims,
        files=tuple(named_files(keys, framework)),
        framework=framework,
        frontend="accelerate",
        open="entries of the file are not known" if root.hidden is not None else "",
        collections=collections(root),
    )


def home(reading: Reading, setting_name: str) -> Span | None:
    """The section in which a setting would be written."""
    told = {claim.setting: claim.value for claim in reading.claims}.get(setting_name)
    if isinstance(told, Value) and told.origin.span is not None:
        return told.origin.span
    return reading.place


def spell(setting_name: str, value: Plain, framework: str = "") -> str | None:
    """A setting as the file has it (`num_processes: 16`); None for what it has no key for."""
    return spell_in_file(setting_name, value, framework)


def framework_of(keys: Given) -> str:
    """The framework that distributed_type names, "" where it names none or is not known; `NO` without quotes is false
    to YAML.
    """
    node = keys.node("distributed_type")
    if node is None or keys.known("use_cpu") is True:
        return ""
    return FAMILIES.get("NO" if node.value is False else str(node.value), "")


def named_files(keys: Given, framework: str) -> Iterator[NamedFile]:
    """The DeepSpeed config and the host file that the keys name."""
    roles = {"deepspeed_config_file": "deepspeed", "deepspeed_hostfile": "hostfile"}
    for name, role in roles.items():
        node = keys.node(name)
        if framework in ("deepspeed", "") and node is not None and node.kind in ("string", "bare", "unknown"):
            yield NamedFile(role, word_of(node))


def word_of(node: Node) -> Word:
    """A text as a word, its quotes left off."""
    start, end = node.span.start, node.span.end
    if node.span.source.text[start : start + 1] in ("'", '"') and end - start > 2:
        start, end = start + 1, end - 1
    return Word(pieces_between(node.span.source, start, end), node.span)


def _is_sagemaker(root: Node) -> bool:
    environment = entry(root, "compute_environment")
    return environment is not None and environment.node.value == "AMAZON_SAGEMAKER"


def _reads(place: Span) -> Value:
    """The launcher that reads the file; that it is called is said elsewhere."""
    return Value("accelerate", Origin("default", place, (), TOOL))


def _framework(keys: Given, framework: str) -> Iterator[Claim]:
    node = keys.node("distributed_type")
    if node is not None and framework:
        yield Claim("framework", setting(node, framework), "distributed_type")


def _absent_counts(keys: Given) -> Iterator[Claim]:
    if keys.node("num_machines") is None:
        yield Claim("launch.nodes", default(1, TOOL), "num_machines")


def _rendezvous(keys: Given, framework: str) -> Iterator[Claim]:
    """Static unless the command line says otherwise: the file's rdzv_backend never reaches torchrun (accelerate 1.15.0
    commands/launch.py). DeepSpeed's own launchers number the machines themselves.
    """
    if framework != "deepspeed" or keys.known("deepspeed_multinode_launcher") == "standard":
        yield Claim("launch.rendezvous", default("static", TOOL), "rdzv_backend")
