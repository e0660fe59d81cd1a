"""Axolotl's config, and the commands that train by it: `axolotl train`, or axolotl.cli.train under another launcher.

axolotl 0.19.0 utils/schemas, cli/train.py and utils/trainer.py, which hand the keys on to the Hugging Face Trainer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from dtlint.frameworks import Claim, Member, NamedFile, Reading, torchrun
from dtlint.frameworks.accelerate import fsdp as accelerate_fsdp
from dtlint.frameworks.accelerate import launcher as accelerate_launcher
from dtlint.frameworks.accelerate.given import Given
from dtlint.frameworks.adapter_layers import EVERY_LAYER
from dtlint.frameworks.answering import of_keys
from dtlint.frameworks.axolotl.faults import refused
from dtlint.frameworks.axolotl.precision import precision
from dtlint.frameworks.axolotl.references import reference
from dtlint.frameworks.deepspeed import config as deepspeed
from dtlint.frameworks.deepspeed.values import flag, known, number, whole_number, word
from dtlint.frameworks.dotted_keys import Keys
from dtlint.frameworks.interpreter import program_name
from dtlint.frameworks.keys import (
    ON,
    Meaning,
    claims_of,
    flag_words,
    hidden,
    keys_of,
    model_named,
    product,
    spelled,
    word_of,
)
from dtlint.frameworks.lengths import at_most
from dtlint.frameworks.seen_devices import one_for_each
from dtlint.frameworks.strange_keys import strange_keys
from dtlint.languages.json_tree import Document, Node, setting
from dtlint.languages.traced import Word, literal_word, setting_of
from dtlint.source import Span
from dtlint.value import Origin, Plain, Unknown, Value, assumed, default, written

LAYER = "axolotl"
ROLE = "axolotl"

_MODULE = "axolotl.cli.train"
_SUFFIXES = (".yml", ".yaml")
_MIB = 1 << 20
_USUAL = frozenset(("micro_batch_size", "sequence_len", "datasets", "gradient_accumulation_steps", "num_epochs"))
_RECOMPUTED = {"true": "full", "false": "none", "offload": "full", "offload_disk": "full", "unsloth": "full"}
_TABLE = {
    "micro_batch_size": Meaning("batch.micro"),
    "gradient_accumulation_steps": Meaning("batch.accumulation"),
    "max_grad_norm": Meaning("optimizer.clip", number),
    "optimizer": Meaning("optimizer.name", word),
    "gradient_checkpointing": Meaning("checkpointing.activations", words=_RECOMPUTED),
    "gradient_checkpointing_kwargs.use_reentrant": Meaning("checkpointing.reentrant", words=ON),
    "tensor_parallel_size": Meaning("parallel.tensor"),
    "context_parallel_size": Meaning("parallel.context"),
    "sequence_parallel_degree": Meaning("parallel.context"),
    "expert_parallel_size": Meaning("parallel.expert"),
    "dp_replicate_size": Meaning("sharding.instances"),
    "ddp_timeout": Meaning("launch.timeout_seconds", number),
    "ddp_find_unused_parameters": Meaning("communication.find_unused", words=ON),
    "flash_attention": Meaning("attention.flash", words=ON),
    "max_steps": Meaning("run.steps"),
}
_FLASH: dict[str, Plain] = {"flash_attention_2": True, "flash_attention_3": True, "sdpa": True, "flex_attention": True}
_FUSED = ("cut_cross_entropy", "liger_fused_linear_cross_entropy")
_STRATEGIES = ("full_shard", "shard_grad_op", "hybrid_shard", "hybrid_shard_zero2", "no_shard")
_SPELLED = {
    **_TABLE,
    "sequence_len": Meaning("data.sequence_length"),
    "lora_r": Meaning("model.lora_rank"),
    "bf16": Meaning("precision.compute", words={"true": "bf16"}),
    "fp16": Meaning("precision.compute", words={"true": "fp16"}),
    "fsdp_config.offload_params": Meaning("sharding.offload_parameters", words={"true": "cpu", "false": "none"}),
    "fsdp_config.reshard_after_forward": Meaning("sharding.reshard_after_forward", words=ON),
    "fsdp_config.auto_wrap_policy": Meaning("sharding.units", words={"TRANSFORMER_BASED_WRAP": "wrapped"}),
    "fsdp_config.backward_prefetch": Meaning("sharding.prefetch", words={"BACKWARD_PRE": "backward_pre"}),
}


def recognise(document: Document) -> bool:
    """Whether a file is a config of Axolotl: it names a base model, and how to train it."""
    keys = {entry.key for entry in document.root.entries} if document.root is not None else set()
    return "base_model" in keys and len(keys & _USUAL) >= 2


def recognise_launch(words: Sequence[Word]) -> bool:
    """Whether a command is Axolotl's own training command."""
    return len(words) > 2 and program_name(words[0]) == "axolotl" and words[1].text == "train"


def recognise_program(program: Sequence[Word]) -> bool:
    """Whether a program is Axolotl's trainer with a config."""
    return len(program) > 1 and (program[0].text or "") in (_MODULE, "axolotl.cli.train.py", "scripts/finetune.py")


def read_launch(words: Sequence[Word], env: Mapping[str, Word]) -> Reading:
    """`axolotl train FILE [--launcher L] [-- ARGUMENTS OF L]`: accelerate, unless it says torchrun or python, with one
    process on each GPU of this machine unless the launcher's arguments say otherwise.
    """
    stop = next((index for index, each in enumerate(words) if each.text == "--"), len(words))
    own, handed = words[2:stop], words[stop + 1 :]
    launcher = next((value.text for each, value in pairwise(own) if each.text == "--launcher"), "accelerate")
    module = literal_word(_MODULE, words[1].place)
    if launcher == "torchrun":
        read = torchrun.read_launch((words[0], *handed, literal_word("-m", words[0].place), module), env)
        return read._replace(rest=(module, *own), frontend="axolotl")
    claims = _accelerated(words[0], handed, env) if launcher == "accelerate" else ()
    return Reading(LAYER, words[0].place, claims, rest=(module, *own), frontend="axolotl")


def read_program(program: Sequence[Word]) -> Reading:
    """The config that the trainer is given; flags beside it override its keys."""
    named = next((each for each in program[1:] if each.shown.endswith(_SUFFIXES) and each.shown[:1] != "-"), None)
    files = () if named is None else (NamedFile(ROLE, named),)
    why = "" if files else "the config is not known"
    return Reading("program", program[0].place, files=files, frontend="axolotl", open=why)


def read_config(documents: Sequence[Document], words: Sequence[Word] = ()) -> Reading:
    """What files, and flags that override them, claim."""
    roots = [document.root for document in documents]
    keys = keys_of(roots, flag_words(words))
    named, models = model_named(keys, "base_model")
    place = next((document.root.span for document in documents if document.root is not None), None)
    claims = (
        *claims_of(keys, _TABLE),
        *_length(keys),
        *precision(keys),
        *_adapter(keys),
        *reference(keys),
        *_attention(keys),
        *_loss(keys),
        *_fsdp(keys),
        *_groups(keys),
        *_buckets(keys),
        *named,
    )
    section = _section(keys, documents)
    files = (*_files(keys), *models)
    return Reading(
        LAYER,
        place,
        (*section, *claims),
        files,
        framework=_framework(keys),
        frontend="axolotl",
        open=hidden(roots, words),
        collections={**refused(keys), **_arguments(keys, place), **_strange(documents), **of_keys(keys)},
    )


def _strange(documents: Sequence[Document]) -> Mapping[str, tuple[Member, ...]]:
    """Members of `config.unknown`: its schemas pass over what they do not know."""
    found = tuple(strange_keys(documents, "axolotl", "ignored"))
    return {"config.unknown": found} if found else {}


def _arguments(keys: Keys, place: Span | None) -> Mapping[str, tuple[Member, ...]]:
    """The weight decay that the Trainer is given, 0 unless it is written, as a member of `config.arguments`."""
    node = keys.node("weight_decay")
    here = node.span if node is not None else place
    if here is None:
        return {}
    value = number(node) if node is not None else default(0.0, "Axolotl")
    return {"config.arguments": (Member(here, {"name": written("weight-decay", here), "value": value}),)}


def spell(setting_name: str, value: Plain, framework: str = "") -> str | None:
    """A setting as the file has it (`micro_batch_size: 2`); FSDP offloads parameters and optimizer together."""
    alike = "sharding.offload_parameters" if setting_name == "sharding.offload_optimizer" else setting_name
    found = spelled(_SPELLED, alike, value)
    return None if found is None else ": ".join(found)


def _accelerated(command: Word, handed: Sequence[Word], env: Mapping[str, Word]) -> tuple[Claim, ...]:
    """What the arguments of accelerate claim about the launch, over one process on each GPU of one machine."""
    program = (literal_word("-m", command.place), literal_word(_MODULE, command.place))
    read = accelerate_launcher.read_launch((command, *handed, *program))
    told = tuple(claim for claim in read.claims if claim.setting.startswith("launch."))
    known_counts = {claim.setting for claim in told}
    alone = Claim("launch.nodes", assumed(1, "axolotl starts on one machine", "--num_machines N"))
    by_gpu = Claim("launch.processes_per_node", one_for_each(env), command.shown)
    nodes = () if "launch.nodes" in known_counts else (alone,)
    counts = () if "launch.processes" in known_counts else (by_gpu,)
    return (Claim("launch.launcher", setting_of(command, "accelerate"), command.shown), *nodes, *counts, *told)


def _framework(keys: Keys) -> str:
    """DeepSpeed or FSDP where a key asks for them; else DDP, which follows from the launch."""
    if _on(keys.node("deepspeed")):
        return "deepspeed"
    return "fsdp" if _on(keys.node("fsdp")) or _on(keys.node("fsdp_config")) or _shards(keys) else ""


def _on(node: Node | None) -> bool:
    return node is not None and bool(node.entries or node.items or node.value)


def _shards(keys: Keys) -> bool:
    """Whether a degree of sharding asks for FSDP2."""
    size = keys.known("dp_shard_size")
    return isinstance(size, int) and size > 1 and keys.node("fsdp_version") is not None


def _files(keys: Keys) -> Iterator[NamedFile]:
    node = keys.node("deepspeed")
    if node is not None and node.kind in ("string", "bare", "unknown") and _framework(keys) == "deepspeed":
        yield NamedFile("deepspeed", word_of(node))


def _section(keys: Keys, documents: Sequence[Document]) -> tuple[Claim, ...]:
    """DeepSpeed's config where it stands in the file itself."""
    node = keys.node("deepspeed")
    if node is None or node.kind != "object" or not documents:
        return ()
    return deepspeed.read_config(Document(documents[0].source, node)).claims


def _length(keys: Keys) -> Iterator[Claim]:
    """Packed samples are as long as they may be; others may be far shorter."""
    node = keys.node("sequence_len")
    if node is None:
        return
    value = whole_number(node)
    packed = keys.known("sample_packing") is True
    yield Claim("data.sequence_length", value if packed else at_most(value, "sample_packing: true"), "sequence_len")


def _adapter(keys: Keys) -> Iterator[Claim]:
    """The rank of adapters, 0 where the whole model trains; how weights are stored that do not train."""
    adapter, rank = keys.node("adapter"), keys.node("lora_r")
    if adapter is None:
        yield from _whole_model(keys)
        return
    unknown = Unknown("the rank of the adapters is not in the file", "--set model.lora_rank=N")
    yield Claim("model.lora_rank", whole_number(rank) if rank is not None else unknown, "lora_r")
    yield from _adapted(keys)
    for name, stored in (("load_in_4bit", "nf4"), ("load_in_8bit", "int8")):
        node = keys.node(name)
        if node is not None and known(flag(node)) is True:
            yield Claim("precision.frozen", setting(node, stored), name)


def _adapted(keys: Keys) -> Iterator[Claim]:
    """The layers that have adapters: every linear one (lora_target_linear, which adds to the list), or those listed."""
    every, listed = keys.node("lora_target_linear"), keys.node("lora_target_modules")
    if every is not None and known(flag(every)) is True:
        yield Claim("model.lora_targets", setting(every, (EVERY_LAYER,)), "lora_target_linear")
    elif listed is not None and listed.kind == "array" and all(item.kind == "string" for item in listed.items):
        names = tuple(str(item.value) for item in listed.items)
        yield Claim("model.lora_targets", written(names, listed.span), "lora_target_modules")


def _whole_model(keys: Keys) -> Iterator[Claim]:
    """Without an adapter all of the model trains, unless parts are picked."""
    picked = next((node for name in ("unfrozen_parameters", "lisa_n_layers") if (node := keys.node(name))), None)
    if picked is not None:
        why = Unknown(
            "part of the model is frozen", "--set model.trainable_parameters=N", Origin("written", picked.span)
        )
        yield Claim("model.lora_rank", why, "unfrozen_parameters")


def _attention(keys: Keys) -> Iterator[Claim]:
    for name in ("attn_implementation", "attention"):
        node = keys.node(name)
        if node is not None and node.kind == "string":
            text = str(node.value)
            flash = _FLASH.get(text, "flash" in text or None if text != "eager" else False)
            if flash is not None:
                yield Claim("attention.flash", setting(node, flash), name)


def _loss(keys: Keys) -> Iterator[Claim]:
    """A loss that never holds all logits."""
    on = next((node for name in _FUSED if (node := keys.node(name)) is not None and known(flag(node)) is True), None)
    plugins = keys.node("plugins")
    cut = next((item for item in (plugins.items if plugins is not None else ()) if "CutCross" in str(item.value)), None)
    found = on if on is not None else cut
    if found is not None:
        yield Claim("model.fused_loss", setting(found, True), "plugins" if on is None else _FUSED[1])


def _placement(keys: Keys, inside: Node | None) -> Iterator[Claim]:
    """Where FSDP's own recomputation is wrapped: beside the Trainer's, which is told of gradient_checkpointing unless
    activations are offloaded (core/builders/base.py of 0.19.0, _configure_gradient_checkpointing).
    """
    told = _on(keys.node("gradient_checkpointing")) and not _on(keys.node("activation_offloading"))
    if inside is not None and known(flag(inside)) is True:
        yield Claim(
            "checkpointing.placement", setting(inside, "both" if told else "inside"), "activation_checkpointing"
        )


def _fsdp(keys: Keys) -> Iterator[Claim]:
    """The words of `fsdp`, and the keys of fsdp_config with or without `fsdp_` in front, which reach Accelerate's
    plugin.
    """
    if _framework(keys) != "fsdp":
        return
    words = _fsdp_words(keys)
    nodes = {f"fsdp_{name.removeprefix('fsdp_')}": node for name, node in _fsdp_nodes(keys)}
    version = keys.node("fsdp_version")
    if version is not None:
        nodes["fsdp_version"] = version
    strategy = next((words[name] for name in _STRATEGIES if name in words), None)
    if strategy is not None:
        nodes.setdefault("fsdp_sharding_strategy", strategy)
    for claim in accelerate_fsdp.fsdp(Given(nodes)):
        off = claim.setting == "checkpointing.activations" and known(claim.value) == "none"
        if not off or not _on(keys.node("gradient_checkpointing")):
            yield claim._replace(name=f"fsdp_config.{claim.name}")
    yield from _placement(keys, nodes.get("fsdp_activation_checkpointing"))
    if "offload" in words and "fsdp_offload_params" not in nodes:
        for what in ("parameters", "optimizer"):
            yield Claim(f"sharding.offload_{what}", setting(words["offload"], "cpu"), "fsdp")
    if "auto_wrap" in words and "fsdp_auto_wrap_policy" not in nodes:
        yield Claim("sharding.units", setting(words["auto_wrap"], "wrapped"), "fsdp")


def _fsdp_words(keys: Keys) -> dict[str, Node]:
    node = keys.node("fsdp")
    return {str(item.value): item for item in (node.items if node is not None else ())}


def _fsdp_nodes(keys: Keys) -> Iterator[tuple[str, Node]]:
    for path, node in keys.nodes.items():
        section, dot, name = path.partition(".")
        if section == "fsdp_config" and dot and node.kind != "null":
            yield name, node


def _groups(keys: Keys) -> Iterator[Claim]:
    """A shard group of fixed size, over which context parallelism is laid too; the ranks that are left are replicas
    of it (axolotl 0.19.0 utils/distributed.py, build_parallelism_config).
    """
    size, context = keys.node("dp_shard_size"), keys.node("context_parallel_size", "sequence_parallel_degree")
    told = None if size is None else known(whole_number(size))
    if size is not None and isinstance(told, int) and told > 1:
        each = None if context is None else whole_number(context)
        yield Claim("sharding.group", product(whole_number(size), each, "context parallel"), "dp_shard_size")


def _buckets(keys: Keys) -> Iterator[Claim]:
    node = keys.node("ddp_bucket_cap_mb")
    value = None if node is None else number(node)
    if isinstance(value, Value) and isinstance(value.value, (int, float)):
        yield Claim("communication.bucket_bytes", value._replace(value=int(value.value * _MIB)), "ddp_bucket_cap_mb")
