"""Arguments of Lightning's Trainer that it refuses: words that it does not know, and some that exclude each other.

Lightning 7f0c343 (2.6) pytorch/trainer/connectors/accelerator_connector.py, pytorch/plugins/precision and
pytorch/strategies; each raises before the first step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dtlint.frameworks import Member
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.deepspeed.values import known, whole_number
from dtlint.frameworks.dotted_keys import Keys
from dtlint.frameworks.lightning.strategies import REGISTERED, Strategy, strategy_of
from dtlint.frameworks.lightning.trainer import PRECISIONS, names
from dtlint.languages.json_tree import Node, setting
from dtlint.value import Value

_OF_OTHERS = (
    "dp", "ddp2", "horovod", "bagua", "colossalai", "hivemind", "ipu_strategy", "hpu_parallel", "hpu_single",
    "ddp_sharded", "ddp_sharded_spawn", "ddp_fully_sharded", "xla", "xla_fsdp", "single_xla", "tpu_spawn",
    "single_device", "single_tpu", "megatron", "ray",
)  # fmt: skip
"""Names of earlier releases, of other machines and of packages that register their own."""
ARGUMENTS = (
    "accelerator", "strategy", "devices", "num_nodes", "precision", "logger", "callbacks", "fast_dev_run", "max_epochs",
    "min_epochs", "max_steps", "min_steps", "max_time", "limit_train_batches", "limit_val_batches",
    "limit_test_batches", "limit_predict_batches", "overfit_batches", "val_check_interval", "check_val_every_n_epoch",
    "num_sanity_val_steps", "log_every_n_steps", "enable_checkpointing", "enable_progress_bar", "enable_model_summary",
    "accumulate_grad_batches", "gradient_clip_val", "gradient_clip_algorithm", "deterministic", "benchmark",
    "inference_mode", "use_distributed_sampler", "profiler", "detect_anomaly", "barebones", "plugins", "sync_batchnorm",
    "reload_dataloaders_every_n_epochs", "default_root_dir", "model_registry", "enable_autolog_hparams",
)  # fmt: skip
"""The arguments of the Trainer."""
EARLIER = (
    "gpus", "num_gpus", "tpu_cores", "ipus", "num_processes", "auto_select_gpus", "auto_scale_batch_size",
    "auto_lr_find", "replace_sampler_ddp", "resume_from_checkpoint", "weights_save_path", "checkpoint_callback",
    "progress_bar_refresh_rate", "weights_summary", "terminate_on_nan", "flush_logs_every_n_steps", "process_position",
    "stochastic_weight_avg", "track_grad_norm", "multiple_trainloader_mode", "move_metrics_to_cpu", "amp_backend",
    "amp_level", "prepare_data_per_node", "reload_dataloaders_every_epoch", "log_gpu_memory", "truncated_bptt_steps",
    "distributed_backend", "early_stop_callback", "row_log_interval", "train_percent_check", "val_percent_check",
)  # fmt: skip
"""Those that earlier releases had."""
_ACCEPTED: Mapping[str, tuple[str, ...]] = {
    "fsdp": ("16-true", "16-mixed", "16", "bf16-true", "bf16-mixed", "bf16", "32-true", "32"),
    "model-parallel": ("32-true", "32", "bf16-mixed", "bf16", "bf16-true", "16-true"),
}
"""Precisions that a strategy takes, where it does not take them all."""


_OWN = frozenset(
    (
        "accelerator", "strategy", "devices", "gpus", "num_nodes", "precision", "max_epochs", "max_steps",
        "accumulate_grad_batches", "gradient_clip_val", "sync_batchnorm", "log_every_n_steps", "callbacks", "logger",
        "use_distributed_sampler", "check_val_every_n_epoch", "num_sanity_val_steps", "limit_val_batches",
        "val_check_interval", "enable_checkpointing", "default_root_dir",
    )
)  # fmt: skip
"""Arguments of Lightning's Trainer that those of other programs seldom have."""


def is_of_lightning(trainer: Sequence[str]) -> bool:
    """Whether what a `trainer` section says is for Lightning's Trainer: most of it has to be, for trainers of other
    programs have a few of its names.
    """
    known = [key for key in trainer if key in ARGUMENTS or key in EARLIER or key.startswith("_")]
    return len(_OWN.intersection(trainer)) >= 2 and 2 * len(known) > len(trainer)


def refused_arguments(keys: Keys, section: str) -> dict[str, tuple[Member, ...]]:
    """Members of `config.unknown` (an argument that looks like another one), `config.invalid` (a value that no release
    takes) and `config.refused` (two that exclude each other).
    """
    strategy = strategy_of(keys, section)
    found = {
        "config.unknown": tuple(_misspelt(keys, section)),
        "config.invalid": (*_names(keys, section), *_counts(keys, section), *_precision(keys, section)),
        "config.refused": (*_beside(keys, section, strategy), *_hybrid(strategy)),
    }
    return {name: members for name, members in found.items() if members}


def _misspelt(keys: Keys, section: str) -> Iterator[Member]:
    """An argument that the Trainer does not have, where it looks like one that it has; a Trainer of one's own may have
    others.
    """
    from difflib import get_close_matches

    for path, node in keys.nodes.items():
        name = path.removeprefix(f"{section}.")
        if not path.startswith(f"{section}.") or not name.isidentifier() or name in (*ARGUMENTS, *EARLIER):
            continue
        near = get_close_matches(name, ARGUMENTS, 1, 0.85)
        if near:
            words = texts(node.span, key=name, section=section, effect="refused", suggestion=near[0], since="0")
            yield Member(node.span, words)


def _names(keys: Keys, section: str) -> Iterator[Member]:
    node = keys.node(f"{section}.strategy")
    told = None if node is None else setting(node)
    if node is None or not isinstance(told, Value) or not isinstance(told.value, str):
        return
    name = told.value.lower()
    classed = "." in name or name.endswith("strategy")
    if not classed and name not in REGISTERED and name not in _OF_OTHERS:
        yield _invalid(node, "strategy", "the name of a strategy (auto, ddp, fsdp, deepspeed_stage_2 ...)")


def _counts(keys: Keys, section: str) -> Iterator[Member]:
    node = keys.node(f"{section}.num_nodes")
    count = None if node is None else known(whole_number(node))
    if node is not None and isinstance(count, int) and count < 1:
        yield _invalid(node, "num_nodes", "a positive whole number")
    several = keys.node(*names(section)["launch.processes_per_node"])
    told = None if several is None else setting(several)
    if several is not None and isinstance(told, Value) and str(told.value) == "0":
        yield _invalid(several, "devices", "at least one device")


def _precision(keys: Keys, section: str) -> Iterator[Member]:
    node = keys.node(f"{section}.precision")
    told = None if node is None else setting(node)
    if node is not None and isinstance(told, Value) and str(told.value) not in PRECISIONS:
        yield _invalid(node, "precision", f"one of {', '.join(PRECISIONS)}")


def _beside(keys: Keys, section: str, strategy: Strategy) -> Iterator[Member]:
    node = keys.node(f"{section}.precision")
    told = None if node is None else setting(node)
    accepted = _ACCEPTED.get(strategy.kind)
    word = str(told.value) if isinstance(told, Value) and accepted is not None else ""
    if node is not None and accepted is not None and word in PRECISIONS and word not in accepted:
        yield _excluded(node, f"precision: {word}", strategy, f"it takes {', '.join(accepted)}")
    way = keys.node(f"{section}.gradient_clip_algorithm")
    clips = keys.node(f"{section}.gradient_clip_val")
    if way is not None and clips is not None and way.value == "value" and strategy.kind == "deepspeed":
        yield _excluded(way, "gradient_clip_algorithm: value", strategy, "DeepSpeed clips by the norm alone")


def _hybrid(strategy: Strategy) -> Iterator[Member]:
    """A hybrid strategy that is told neither its groups nor its units."""
    given = strategy.arguments
    node = given.node("sharding_strategy")
    told = None if node is None else setting(node)
    if (
        strategy.kind != "fsdp"
        or node is None
        or not isinstance(told, Value)
        or "HYBRID" not in str(told.value).upper()
    ):
        return
    if given.node("auto_wrap_policy", "process_group", "device_mesh") is None:
        fields = texts(
            node.span,
            key="sharding_strategy: HYBRID_SHARD",
            relation="needs",
            partner="device_mesh",
            reason="Lightning wants auto_wrap_policy, process_group or device_mesh beside it",
            since="",
        )
        yield Member(node.span, fields)


def _invalid(node: Node, key: str, expected: str) -> Member:
    words = texts(node.span, key=key, section="trainer", expected=expected, effect="refused")
    return Member(node.span, {**words, "value": setting(node)})


def _excluded(node: Node, key: str, strategy: Strategy, reason: str) -> Member:
    shown = str(strategy.node.value).rpartition(".")[2] if strategy.node is not None else strategy.kind
    fields = texts(node.span, key=key, relation="excludes", partner=shown, reason=reason, since="")
    related = ((strategy.node.span, f"{shown} is asked for here"),) if strategy.node is not None else ()
    return Member(node.span, fields, related)
