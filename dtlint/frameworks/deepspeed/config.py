"""DeepSpeed's config file: what it says about the plan, and how a user writes a setting in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from dtlint.frameworks import AUTO, Claim, Reading
from dtlint.frameworks.deepspeed.keys import collections, inert, known_at_top, stage_of
from dtlint.frameworks.deepspeed.spelling import spell, spell_in
from dtlint.frameworks.deepspeed.values import flag, format_name, known, number, whole_number, word
from dtlint.languages.json_tree import Document, Node, member, setting
from dtlint.languages.traced import unknown_at
from dtlint.source import Edit, Span
from dtlint.value import Origin, Plain, Setting, Unknown, Value, assumed

__all__ = ["edits", "home", "looks_like_config", "read_config", "spell", "spell_in"]

LAYER = "deepspeed-json"

_TELLING = frozenset({"zero_optimization", "train_micro_batch_size_per_gpu", "zero_allow_untested_optimizer"})
_USUAL = frozenset({"train_batch_size", "gradient_accumulation_steps", "gradient_clipping", "steps_per_print"})
_SECTIONS = frozenset(
    {"fp16", "bf16", "optimizer", "scheduler", "activation_checkpointing", "flops_profiler", "tensor_parallel", "aio"}
)


_FOREIGN = frozenset(
    {"pipe_parallel_size", "model_parallel_size", "num_layers", "hidden_size", "model_type", "architectures"}
)
"""Keys of configs that hold DeepSpeed's among their own (GPT-NeoX) or share words with it."""


def looks_like_config(document: Document) -> bool:
    """Whether a JSON file is a config of DeepSpeed: a key that only it has, or two that it usually has among its own.

    Programs name their batch and their precision with the same words, among many that DeepSpeed has not.
    """
    if document.root is None:
        return False
    keys = {entry.key for entry in document.root.entries}
    if any(key.replace("-", "_") in _FOREIGN for key in keys):
        return False
    sections = {entry.key for entry in document.root.entries if entry.node.kind == "object"}
    if keys & _TELLING:
        return True
    return len(keys & _USUAL) + len(sections & _SECTIONS) >= 2 and 2 * known_at_top(keys) >= len(keys)


def read_config(document: Document) -> Reading:
    """What a config says, as far as it is written. "auto" is claimed as the Unknown of reason AUTO.

    What has no effect at the stage that the file sets (parameter offload below stage 3) is not claimed but listed in
    `config.inert`; unknown keys stand in `config.unknown`, wrong values in `config.invalid`, removed keys in
    `config.removed`, all known keys with their values in `config.keys`.
    """
    root = document.root
    if root is None or root.kind != "object":
        return Reading(LAYER, root.span if root is not None else None, open=_hides(root))
    readers = (_batch, _optimizer, _precision, _sharding, _offload, _parallel, _communication, _prefetch)
    claims = tuple(claim for reader in readers for claim in reader(root))
    return Reading(LAYER, root.span, claims, framework="deepspeed", open=_hides(root), collections=collections(root))


def home(reading: Reading, setting: str) -> Span | None:
    """Where a setting that a config does not write belongs: the key of its section, else the whole config."""
    from dtlint.frameworks.deepspeed.edits import home as place_in

    return place_in(reading, setting)


def edits(reading: Reading, setting: str, value: Plain) -> tuple[Edit, ...]:
    """What to change in a config's text so that it writes a setting; () where its text cannot be changed so."""
    from dtlint.frameworks.deepspeed.edits import edits as written_in

    return written_in(reading, setting, value)


def _hides(root: Node | None) -> str:
    """Why keys may be hidden from us: a variable that nothing tells, where entries of the file or a section belong."""
    sections = [] if root is None else [root, *(entry.node for entry in root.entries)]
    places = [node.span if node is root and node.kind == "unknown" else node.hidden for node in sections]
    place = next((place for place in places if place is not None), None)
    if place is None:
        return ""
    piece = unknown_at(place.source, place.start)
    return piece.unknown if piece is not None and piece.unknown else "a variable of the script may add keys"


Read = Callable[[Node], Setting]


def _claim(root: Node, setting_name: str, path: str, read: Read) -> Iterator[Claim]:
    """The claim that the key at a dotted path makes, if it is there and not null."""
    node = member(root, *path.split("."))
    if node is not None and node.kind != "null":
        yield Claim(setting_name, read(node), path)


def _batch(root: Node) -> Iterator[Claim]:
    yield from _claim(root, "batch.global", "train_batch_size", whole_number)
    yield from _claim(root, "batch.micro", "train_micro_batch_size_per_gpu", whole_number)
    yield from _claim(root, "batch.accumulation", "gradient_accumulation_steps", whole_number)
    yield from _claim(root, "data.drop_last", "dataloader_drop_last", flag)


def _optimizer(root: Node) -> Iterator[Claim]:
    yield from _claim(root, "optimizer.name", "optimizer.type", word)
    yield from _claim(root, "optimizer.clip", "gradient_clipping", number)
    yield from _format_claim(root, "optimizer.state_dtype", "bf16.bf16_optimizer_states", "bf16")


def _precision(root: Node) -> Iterator[Claim]:
    compute = _compute(root)
    if compute is not None:
        yield compute
    yield from _format_claim(root, "precision.master", "fp16.fp16_master_weights_and_grads", "fp16")
    yield from _format_claim(root, "precision.master", f"{_bf16(root)}.bf16_master_weights_and_grads", "bf16")
    yield from _claim(root, "precision.gradients", "data_types.grad_accum_dtype", format_name)
    yield from _claim(root, "precision.reduce", "communication_data_type", word)


def _bf16(root: Node) -> str:
    """How the file spells the section; bf16 is the one that counts."""
    node = member(root, "bf16")
    return "bf16" if node is not None and node.kind != "null" else "bfloat16"


def _format_claim(root: Node, setting_name: str, path: str, name: str) -> Iterator[Claim]:
    """A flag that puts something into a 16-bit format."""
    node = member(root, *path.split("."))
    if node is not None and known(flag(node)) is True:
        yield Claim(setting_name, setting(node, name), path)


def _compute(root: Node) -> Claim | None:
    """The format of the matrix products: the enabled one of fp16 and bf16; assumed to be fp32 where those that are
    written are off, for then DeepSpeed leaves the weights as the program has them.
    """
    sections = (("fp16", "fp16"), ("bf16", _bf16(root)))
    found = [(name, f"{section}.enabled", member(root, section, "enabled")) for name, section in sections]
    switches = [(name, path, node, flag(node)) for name, path, node in found if node is not None]
    for name, path, node, value in switches:
        if known(value) is True:
            return Claim("precision.compute", setting(node, name), path)
    for _, path, _, value in switches:
        if isinstance(value, Unknown):
            return Claim("precision.compute", value, path)
    return _cast_elsewhere(root) or (_uncast(switches[-1][2], switches[-1][1]) if switches else None)


_CASTS = ("torch_autocast", "amp")
"""Sections that compute in a 16-bit format whatever the weights are kept in."""


def _cast_elsewhere(root: Node) -> Claim | None:
    for section in _CASTS:
        node = member(root, section, "enabled")
        if node is not None and known(flag(node)) is not False:
            how = Unknown(
                f"{section} decides on the format", "--set precision.compute=...", Origin("written", node.span)
            )
            return Claim("precision.compute", how, f"{section}.enabled")
    return None


def _uncast(node: Node, path: str) -> Claim:
    """What follows from switches that are off: the program may load or turn the weights into a 16-bit format itself."""
    why, how = "DeepSpeed leaves the weights as the program has them", "--set precision.compute=..."
    return Claim("precision.compute", assumed("fp32", why, how, node.span), path)


def _sharding(root: Node) -> Iterator[Claim]:
    stage = _stage(root)
    if stage is not None:
        yield stage
    for path in ("zero_optimization.zero_hpz_partition_size", "zero_optimization.mics_shard_size"):
        for claim in _claim(root, "sharding.group", path, whole_number):
            size = known(claim.value)
            if not isinstance(size, int) or (size > 1 and not inert(root, path)):
                yield claim


def _stage(root: Node) -> Claim | None:
    """The ZeRO stage; `"zero_optimization": true` is an old form of stage 1."""
    section = member(root, "zero_optimization")
    if section is not None and section.kind == "bool":
        return Claim("sharding.stage", setting(section, 1 if section.value else 0), "zero_optimization")
    return next(_claim(root, "sharding.stage", "zero_optimization.stage", whole_number), None)


_OFFLOADS = (
    ("sharding.offload_optimizer", "offload_optimizer", "cpu_offload"),
    ("sharding.offload_parameters", "offload_param", "cpu_offload_param"),
)


def _offload(root: Node) -> Iterator[Claim]:
    for setting_name, section, switch in _OFFLOADS:
        path = f"zero_optimization.{section}.device"
        if not inert(root, path):
            yield from (_at_stage(root, claim) for claim in _claim(root, setting_name, path, word))
        old = member(root, "zero_optimization", switch)
        if old is not None and known(flag(old)) is True and not inert(root, f"zero_optimization.{switch}"):
            yield Claim(setting_name, setting(old, "cpu"), f"zero_optimization.{switch}")


def _at_stage(root: Node, claim: Claim) -> Claim:
    """Below stage 3 an optimizer offloaded to NVMe stays in main memory."""
    value, stage = claim.value, stage_of(root)
    if isinstance(value, Value) and value.value == "nvme" and stage in (1, 2):
        return claim._replace(value=value._replace(value="cpu"))
    return claim


def _parallel(root: Node) -> Iterator[Claim]:
    yield from _claim(root, "parallel.ulysses", "sequence_parallel_size", whole_number)
    yield from _claim(root, "parallel.data", "data_parallel_size", whole_number)
    for claim in _claim(root, "parallel.tensor", "tensor_parallel.autotp_size", whole_number):
        if known(claim.value) != 0:
            yield claim
    yield from _claim(root, "overlap.tensor", "tensor_parallel.tp_overlap_comm", flag)
    enabled = member(root, "expert_parallel", "enabled")
    if enabled is not None and known(flag(enabled)) is True:
        yield from _claim(root, "parallel.expert", "expert_parallel.autoep_size", whole_number)
        path = "expert_parallel.expert_tensor_parallel_size"
        yield from _claim(root, "parallel.expert_tensor", path, whole_number)


def _communication(root: Node) -> Iterator[Claim]:
    path = "zero_optimization.overlap_comm"
    yield from _claim(root, "overlap.gradients", path, flag)
    if stage_of(root) == 3 and not any(_prefetch(root)):
        yield from _claim(root, "overlap.parameters", path, flag)
    yield from _claim(root, "communication.whole_buckets", "zero_optimization.contiguous_gradients", flag)
    for claim in _claim(root, "communication.bucket_bytes", "zero_optimization.reduce_bucket_size", whole_number):
        yield claim._replace(value=_bucket_bytes(root, claim.value))


_BYTES: dict[Plain, int] = {"fp32": 4, "fp16": 2, "bf16": 2}


_PREFETCH_SWITCHES = ("stage3_prefetch_bucket_size", "stage3_max_live_parameters")


def _prefetch(root: Node) -> Iterator[Claim]:
    """Stage 3 gathers nothing ahead where the prefetch bucket, or the parameters that may be live, are 0."""
    for name in _PREFETCH_SWITCHES:
        for written in (name, name.removeprefix("stage3_")):
            node = member(root, "zero_optimization", written)
            if node is not None and known(whole_number(node)) == 0 and stage_of(root) not in (0, 1, 2):
                yield Claim("sharding.prefetch", setting(node, "none"), f"zero_optimization.{written}")


def _bucket_bytes(root: Node, elements: Setting) -> Setting:
    """A bucket counts elements; its bytes follow from the format in which gradients are kept.

    Where the format is left to "auto" it is a 16-bit one: a front end fills fp16 or bf16.
    """
    if not isinstance(elements, Value) or not isinstance(elements.value, int):
        return elements
    formats = [
        claim.value for claim in _precision(root) if claim.setting in ("precision.gradients", "precision.compute")
    ]
    kept = formats[-1] if formats else None
    if isinstance(kept, Unknown) and kept.reason == AUTO:
        origin = elements.origin
        return assumed(
            elements.value * 2, "gradients in the 16-bit format that auto stands for", "", origin.span, origin.chain
        )
    size = _BYTES.get(kept.value) if isinstance(kept, Value) else 4 if kept is None else None
    if size is None:
        return Unknown("the format of the gradients is not known", "--set precision.gradients=bf16", elements.origin)
    return elements._replace(value=elements.value * size)
