"""llm-foundry's configs, and the command `composer` that starts a process on each GPU to train by them.

mosaicml/llm-foundry 0081bd2 (0.19) llmfoundry/utils/config_utils.py and command_utils/train.py; mosaicml/composer 0.32
composer/cli/launcher.py, composer/distributed/.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dtlint.frameworks import Claim, Reading
from dtlint.frameworks.deepspeed.values import known, number, whole_number, word
from dtlint.frameworks.dotted_keys import Keys
from dtlint.frameworks.hydra.omegaconf import resolved
from dtlint.frameworks.interpreter import program_name
from dtlint.frameworks.keys import ON, Meaning, claims_of, hidden, keys_of, model_named, product, spelled
from dtlint.frameworks.lengths import at_most
from dtlint.frameworks.options import Grammar, Option, Split, integer, split_options, text_of
from dtlint.frameworks.seen_devices import one_for_each
from dtlint.languages.json_tree import Document, Node, setting
from dtlint.languages.traced import Word, setting_of
from dtlint.value import Origin, Plain, Setting, Unknown, Value, assumed

LAYER = "composer"

GRAMMAR = Grammar(
    long={
        "nproc": 1, "world-size": 1, "base-rank": 1, "node-rank": 1, "master-addr": 1, "master-port": 1, "stdout": 1,
        "stderr": 1, "run-directory": 1, "version": 0, "verbose": 0, "module-mode": 0, "command-mode": 0, "help": 0,
    },
    short={"n": "nproc", "m": "module-mode", "c": "command-mode", "v": "verbose", "h": "help"},
)  # fmt: skip
_FORMATS: dict[str, Plain] = {
    "amp_bf16": "bf16",
    "bf16": "bf16",
    "amp_fp16": "fp16",
    "fp16": "fp16",
    "amp_fp8": "fp8",
    "fp32": "fp32",
}
_RECOMPUTED = {"true": "full", "false": "none"}
_FLASH: dict[str, Plain] = {"flash": True, "triton": True, "torch": False}
_TABLE = {
    "global_train_batch_size": Meaning("batch.global"),
    "precision": Meaning("precision.compute", words=_FORMATS),
    "optimizer.name": Meaning("optimizer.name", word),
    "algorithms.gradient_clipping.clipping_threshold": Meaning("optimizer.clip", number),
    "dist_timeout": Meaning("launch.timeout_seconds", number),
    "model.d_model": Meaning("model.hidden"),
    "model.n_heads": Meaning("model.heads"),
    "model.n_layers": Meaning("model.layers"),
    "model.vocab_size": Meaning("model.vocab"),
    "model.max_seq_len": Meaning("model.max_positions"),
    "model.tie_word_embeddings": Meaning("model.tied_embeddings", words=ON),
    "model.attn_config.kv_n_heads": Meaning("model.kv_heads"),
    "model.attn_config.attn_impl": Meaning("attention.flash", words=_FLASH),
    "model.use_flash_attention_2": Meaning("attention.flash", words={"true": True}),
    "model.ffn_config.moe_num_experts": Meaning("model.experts"),
    "model.ffn_config.moe_top_k": Meaning("model.experts_per_token"),
    "model.peft_config.r": Meaning("model.lora_rank"),
}
_SHARDED = {
    "fsdp_config.activation_checkpointing": Meaning("checkpointing.activations", words=_RECOMPUTED),
    "fsdp_config.activation_checkpointing_reentrant": Meaning("checkpointing.reentrant", words=ON),
    "fsdp_config.backward_prefetch": Meaning(
        "sharding.prefetch",
        words={"backward_pre": "backward_pre", "backward_post": "backward_post", "no_prefetch": "none"},
    ),
    "fsdp_config.data_parallel_shard_degree": Meaning("sharding.group"),
    "fsdp_config.data_parallel_replicate_degree": Meaning("sharding.instances"),
}
_STAGES: dict[str, Plain] = {
    "FULL_SHARD": 3,
    "SHARD_GRAD_OP": 2,
    "NO_SHARD": 0,
    "HYBRID_SHARD": 3,
    "_HYBRID_SHARD_ZERO2": 2,
}
_SPELLED = {
    **_TABLE,
    **_SHARDED,
    "device_train_microbatch_size": Meaning("batch.micro"),
    "max_seq_len": Meaning("data.sequence_length"),
    "fsdp_config.sharding_strategy": Meaning("sharding.stage", words=_STAGES),
    "fsdp_config.mixed_precision": Meaning("precision.reduce", words={"PURE": "bf16", "DEFAULT": "fp32"}),
}
_GATED = ("mptglu", "mptgeglu", "te_ln_mlp_glu", "mb_dmoe_glu")


def recognise(document: Document) -> bool:
    """Whether a file is a config of llm-foundry: a model, and a batch that is told for all devices."""
    keys = {entry.key for entry in document.root.entries} if document.root is not None else set()
    return {"model", "global_train_batch_size"} <= keys


def recognise_launch(words: Sequence[Word]) -> bool:
    """Whether a command is Composer's launcher."""
    return len(words) > 1 and program_name(words[0]) == "composer"


def read_launch(words: Sequence[Word], env: Mapping[str, Word]) -> Reading:
    """A process on each GPU that the machine has, unless -n says otherwise; as many in all, unless --world_size does.
    What no option says, a variable may (WORLD_SIZE, NODE_RANK, MASTER_ADDR).
    """
    split = split_options(words[1:], GRAMMAR)
    ranks = split.last("nproc")
    per_node = integer(ranks.value) if ranks is not None else one_for_each(env)
    claims = (
        Claim("launch.launcher", setting_of(words[0], "composer"), words[0].shown),
        Claim("launch.processes_per_node", per_node, "--nproc"),
        *_world(split, env, per_node),
        *_told(split, env, "node-rank", "NODE_RANK", "launch.node_rank"),
        *_told(split, env, "master-addr", "MASTER_ADDR", "launch.rendezvous_host"),
    )
    return Reading(LAYER, words[0].place, claims, rest=split.rest, open=split.open)


def read_config(documents: Sequence[Document], words: Sequence[Word] = ()) -> Reading:
    """What files, and `key=value` words over them, claim; without fsdp_config Composer trains with DDP."""
    roots = [document.root for document in documents]
    keys = resolved(keys_of(roots, words))
    named, files = model_named(keys, "model.pretrained_model_name_or_path")
    place = next((document.root.span for document in documents if document.root is not None), None)
    sharded = keys.node("fsdp_config") is not None
    claims = (
        *claims_of(keys, {**_TABLE, **_SHARDED} if sharded else _TABLE),
        *_micro(keys),
        *_length(keys),
        *_steps(keys),
        *_model(keys),
        *(_sharding(keys) if sharded else ()),
        *named,
    )
    framework = "fsdp" if sharded else "ddp"
    return Reading(LAYER, place, claims, files, framework=framework, frontend="composer", open=hidden(roots, words))


def spell(setting_name: str, value: Plain, framework: str = "") -> str | None:
    """A setting as the file has it, by its path (`fsdp_config.activation_checkpointing: true`)."""
    found = spelled(_SPELLED, setting_name, value)
    return None if found is None else ": ".join(found)


def _world(split: Split, env: Mapping[str, Word], per_node: Setting) -> Iterator[Claim]:
    """All processes, and the machines that they make up."""
    option, variable = split.last("world-size"), env.get("WORLD_SIZE")
    told = integer(option.value) if option is not None else integer(variable) if variable is not None else None
    if told is None:
        yield Claim("launch.nodes", assumed(1, "neither --world_size nor WORLD_SIZE is given", "--world_size N"))
        return
    yield Claim("launch.processes", told, "--world_size")
    count, whole = known(per_node), known(told)
    if isinstance(count, int) and isinstance(whole, int) and isinstance(told, Value) and count and not whole % count:
        yield Claim("launch.nodes", told._replace(value=whole // count), "--world_size")


def _told(split: Split, env: Mapping[str, Word], name: str, variable: str, setting_name: str) -> Iterator[Claim]:
    option: Option | None = split.last(name)
    word_ = option.value if option is not None else env.get(variable)
    if word_ is not None:
        read = integer if setting_name.endswith("rank") else text_of
        yield Claim(setting_name, read(word_), f"--{name.replace('-', '_')}")


def _micro(keys: Keys) -> Iterator[Claim]:
    """`auto` halves the micro batch until it fits."""
    node = keys.node("device_train_microbatch_size")
    if node is None:
        return
    found = Unknown("auto halves it until it fits", "--set batch.micro=N", Origin("written", node.span))
    value = found if node.value == "auto" else whole_number(node)
    yield Claim("batch.micro", value, "device_train_microbatch_size")
    if node.value == "auto":
        how = found._replace(how="--set batch.accumulation=N")
        yield Claim("batch.accumulation", how, "device_train_microbatch_size")


def _length(keys: Keys) -> Iterator[Claim]:
    """Text is cut into samples of the whole length; samples to answer may be shorter, unless they are packed."""
    node = keys.node("max_seq_len")
    if node is None:
        return
    value = whole_number(node)
    packed = (
        keys.node("train_loader.dataset.packing_ratio") is not None or keys.known("train_loader.name") != "finetuning"
    )
    yield Claim("data.sequence_length", value if packed else at_most(value), "max_seq_len")


def _steps(keys: Keys) -> Iterator[Claim]:
    """A duration in batches; others count epochs, samples or tokens."""
    node = keys.node("max_duration")
    text = str(node.value) if node is not None else ""
    if node is not None and text.endswith("ba") and text[:-2].isdecimal() and len(text) < 20:
        yield Claim("run.steps", setting(node, int(text[:-2])), "max_duration")


def _model(keys: Keys) -> Iterator[Claim]:
    """What MPT's own keys leave to be worked out: the width of the feed-forward layer, and its gate."""
    if keys.known("model.name") != "mpt_causal_lm":
        return
    hidden, ratio = keys.node("model.d_model"), keys.node("model.expansion_ratio")
    if hidden is not None and ratio is not None:
        yield Claim("model.ffn", product(whole_number(hidden), whole_number(ratio), "times"), "model.expansion_ratio")
    kind = keys.node("model.ffn_config.ffn_type")
    gated = kind is not None and kind.value in _GATED
    yield Claim("model.gated_mlp", Value(gated, _origin(kind)), "model.ffn_config.ffn_type")
    if keys.node("model.tie_word_embeddings") is None:
        yield Claim("model.tied_embeddings", Value(True, _origin(None)), "model.tie_word_embeddings")


def _origin(node: Node | None) -> Origin:
    return Origin("default", note="llm-foundry") if node is None else Origin("written", node.span)


def _sharding(keys: Keys) -> Iterator[Claim]:
    strategy = keys.node("fsdp_config.sharding_strategy")
    if strategy is not None and str(strategy.value).upper() in _STAGES:
        name = str(strategy.value).upper()
        yield Claim("sharding.stage", setting(strategy, _STAGES[name]), "fsdp_config.sharding_strategy")
        if "HYBRID" in name:
            yield Claim("sharding.group", _one_node(strategy), "fsdp_config.sharding_strategy")
    offload = keys.node("fsdp_config.cpu_offload")
    if offload is not None and offload.value is True:
        for what in ("parameters", "optimizer"):
            yield Claim(f"sharding.offload_{what}", setting(offload, "cpu"), "fsdp_config.cpu_offload")
    mixed = keys.node("fsdp_config.mixed_precision")
    if mixed is not None and mixed.kind == "string":
        yield Claim("precision.reduce", _reduced(keys, mixed), "fsdp_config.mixed_precision")


def _one_node(node: Node) -> Unknown:
    origin, how = Origin("written", node.span), "--set cluster.gpus_per_node=N"
    return Unknown("a hybrid strategy shards inside a node", how, origin, "cluster.gpus_per_node")


def _reduced(keys: Keys, mixed: Node) -> Setting:
    """PURE reduces in the format of the compute, the others in fp32."""
    compute = _FORMATS.get(str(keys.known("precision")))
    if str(mixed.value).upper() != "PURE":
        return setting(mixed, "fp32")
    kept = "bf16" if compute == "fp8" else compute
    return setting(mixed, kept) if kept else Unknown("the format of the compute is not known", "")
