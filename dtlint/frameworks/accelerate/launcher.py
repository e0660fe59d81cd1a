"""`accelerate launch`: the processes and the program that it starts, and the config file that it reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dtlint.frameworks import Claim, Member, NamedFile, Reading
from dtlint.frameworks.accelerate.config import named_files
from dtlint.frameworks.accelerate.flags import excluded, invalid
from dtlint.frameworks.accelerate.given import TOOL, Given
from dtlint.frameworks.accelerate.releases import NO_BEGINNINGS
from dtlint.frameworks.accelerate.settings import absent, common, family
from dtlint.frameworks.accelerate.spelling import spell_on_command_line
from dtlint.frameworks.arguments import behind_program, misspelt_flag, stretch, texts, unknown_flag
from dtlint.frameworks.environment import ENVIRONMENT
from dtlint.frameworks.interpreter import program_name, python_program
from dtlint.frameworks.options import Grammar, Option, Split, canonical, literal_place, split_options, text_of
from dtlint.languages.json_tree import Node
from dtlint.languages.traced import Word, setting_of
from dtlint.source import Span
from dtlint.value import Plain, Unknown, Value, assumed, default, written

LAYER = "accelerate-flags"
CONFIG_LAYER = "accelerate-yaml"

_MODULES = ("accelerate.commands.launch", "accelerate.commands.accelerate_cli")

# Options of accelerate/commands/launch.py in accelerate 1.15.0, and whether each takes a value.
_WITH_VALUE = (
    "config_file mixed_precision num_processes num_machines num_cpu_threads_per_process dynamo_backend dynamo_mode "
    "gpu_ids machine_rank main_process_ip main_process_port tee log_dir role rdzv_backend rdzv_conf max_restarts "
    "monitor_interval vm env main_training_function deepspeed_config_file zero_stage offload_optimizer_device "
    "offload_param_device offload_optimizer_nvme_path offload_param_nvme_path gradient_accumulation_steps "
    "gradient_clipping zero3_init_flag zero3_save_16bit_model deepspeed_hostfile deepspeed_exclusion_filter "
    "deepspeed_inclusion_filter deepspeed_multinode_launcher deepspeed_moe_layer_cls_names fsdp_version "
    "fsdp_offload_params fsdp_min_num_params fsdp_sharding_strategy fsdp_reshard_after_forward fsdp_auto_wrap_policy "
    "fsdp_transformer_layer_cls_to_wrap fsdp_backward_prefetch fsdp_state_dict_type fsdp_forward_prefetch "
    "fsdp_use_orig_params fsdp_cpu_ram_efficient_loading fsdp_sync_module_states fsdp_activation_checkpointing "
    "fsdp_activation_checkpointing_offload megatron_lm_tp_degree megatron_lm_use_custom_fsdp "
    "megatron_lm_no_load_optim megatron_lm_eod_mask_loss megatron_lm_overlap_cpu_optimizer_d2h_h2d "
    "megatron_lm_no_save_optim megatron_lm_optimizer_cpu_offload megatron_lm_use_precision_aware_optimizer "
    "megatron_lm_decoder_last_pipeline_num_layers megatron_lm_pp_degree megatron_lm_num_micro_batches "
    "megatron_lm_sequence_parallelism megatron_lm_recompute_activations megatron_lm_use_distributed_optimizer "
    "megatron_lm_gradient_clipping megatron_lm_recompute_granularity megatron_lm_recompute_method "
    "megatron_lm_recompute_num_layers megatron_lm_attention_backend megatron_lm_expert_model_parallel_size "
    "megatron_lm_context_parallel_size megatron_lm_attention_dropout megatron_lm_hidden_dropout "
    "megatron_lm_attention_softmax_in_fp32 megatron_lm_expert_tensor_parallel_size "
    "megatron_lm_calculate_per_token_loss megatron_lm_use_rotary_position_embeddings fp8_backend fp8_margin "
    "fp8_interval fp8_format fp8_amax_history_len fp8_amax_compute_algo fp8_override_linear_precision fp8_opt_level "
    "fp8_enable_fsdp_float8_all_gather fp8_pad_inner_dim aws_access_key_id aws_secret_access_key mpirun_hostfile "
    "parallelism_config_dp_replicate_size parallelism_config_dp_shard_size parallelism_config_tp_size "
    "parallelism_config_cp_size parallelism_config_cp_backend parallelism_config_cp_comm_strategy "
    "parallelism_config_sp_size parallelism_config_sp_backend parallelism_config_sp_seq_length "
    "parallelism_config_sp_seq_length_is_variable parallelism_config_sp_attn_implementation"
)
_FLAGS = (
    "help quiet cpu multi_gpu tpu enable_cpu_affinity dynamo_use_fullgraph dynamo_use_dynamic "
    "dynamo_use_regional_compilation use_deepspeed use_fsdp use_parallelism_config use_megatron_lm same_network module "
    "no_python tpu_cluster no_tpu_cluster tpu_use_sudo downcast_bf16 fp8_use_autocast_during_eval debug"
)
# Options of older releases (0.24 to 1.0).
_OLD_WITH_VALUE = "fsdp_backward_prefetch_policy mpirun_ccl"
_OLD_FLAGS = "fp16 use_mps_device use_xpu ipex"
GRAMMAR = Grammar(
    long={canonical(name): 1 for name in f"{_WITH_VALUE} {_OLD_WITH_VALUE}".split()}
    | {canonical(name): 0 for name in f"{_FLAGS} {_OLD_FLAGS}".split()},
    short={"q": "quiet", "m": "module", "t": "tee", "h": "help"},
    argparse=True,
)
_NAMES = tuple(f"--{name}" for name in (*_WITH_VALUE.split(), *_FLAGS.split()))

_OWN = (
    "num-processes", "num-machines", "machine-rank", "main-process-ip", "main-process-port", "multi-gpu",
    "use-deepspeed", "use-fsdp",
)  # fmt: skip
"""Options that no training script has too."""

_FRAMEWORKS = {"use-deepspeed": "deepspeed", "use-fsdp": "fsdp", "use-megatron-lm": "megatron", "multi-gpu": "ddp"}


def recognise(words: Sequence[Word]) -> bool:
    """Whether a command is `accelerate launch`, be it as a module."""
    return _arguments(words) is not None


def read_launch(words: Sequence[Word]) -> Reading:
    """What the command claims; `rest` is the script (or the module after -m) with its arguments.

    The config file that it names is among the files, with the role "accelerate".
    """
    arguments = _arguments(words) or tuple(words[1:])
    split = split_options(arguments, GRAMMAR)
    keys = Given({_key(option): _node(option) for option in split.options}, "--")
    framework = next((name for flag, name in _FRAMEWORKS.items() if split.last(flag) is not None), "")
    claims = (
        Claim("launch.launcher", setting_of(words[0], "accelerate"), words[0].shown),
        *_framework(split, framework),
        *_rendezvous(split),
        *common(keys),
        *family(keys, framework),
    )
    return Reading(
        LAYER,
        stretch(words[: len(words) - len(split.rest)], literal_place(words[0])),
        claims,
        files=tuple(_files(split, keys)),
        rest=split.rest,
        framework=framework,
        frontend="accelerate",
        open=split.open,
        collections=_collections(split, literal_place(words[0])),
    )


def without_config(launch: Reading, path: str = "") -> Reading:
    """What a launch leaves whose config file is not among the files: the one that it names, or, where it names none,
    the one that `accelerate config` keeps in the user's cache.

    Flags that choose the framework leave Accelerate's defaults, assumed; without them the settings are hidden. Under
    --multi_gpu no section of the config is read that shards or splits a model, and its number format alone counts.
    """
    why = f"the Accelerate config {path} was not found" if path else "the user's default Accelerate config may set it"
    place = launch.place
    if path or not launch.framework or place is None:
        recomputes = Claim("checkpointing.activations", Unknown(why, "--set checkpointing.activations=..."))
        return Reading(CONFIG_LAYER, None, (recomputes,), unread=why)
    nodes = assumed(1, f"default of {TOOL}; {why}", "--num_machines N")
    keys = Given({claim.name.removeprefix("--"): Node("unknown", None, place) for claim in launch.claims})
    claims = (_assumed(claim, why) for claim in absent(keys, launch.framework, place))
    static = () if launch.framework == "deepspeed" else (Claim("launch.rendezvous", default("static", TOOL)),)
    told = (Claim("launch.nodes", nodes, "--num_machines"), *static, *claims)
    if launch.framework == "ddp":
        return Reading(CONFIG_LAYER, None, (_format(why), *told))
    return Reading(CONFIG_LAYER, None, told, open=why)


def _format(why: str) -> Claim:
    """The number format that nothing asks for, where the config in the user's cache may."""
    value = assumed("fp32", f"default of {TOOL}; {why}", "--mixed_precision")
    return Claim("precision.compute", value, "--mixed_precision")


def _assumed(claim: Claim, why: str) -> Claim:
    """A default that the config in the user's cache may replace."""
    value = claim.value
    if not isinstance(value, Value):
        return claim
    return claim._replace(value=assumed(value.value, f"default of {TOOL}; {why}", "", value.origin.span))


def spell(setting: str, value: Plain, framework: str = "") -> str | None:
    """A setting as the command line has it (`--num_processes 16`); None for what it has no option for."""
    return spell_on_command_line(setting, value, framework)


def _arguments(words: Sequence[Word]) -> tuple[Word, ...] | None:
    """The words after `accelerate launch`, None for another command."""
    if not words:
        return None
    name = program_name(words[0])
    if name == "accelerate-launch":
        return tuple(words[1:])
    if name == "accelerate":
        return tuple(words[2:]) if len(words) > 1 and words[1].text == "launch" else None
    program = python_program(words)
    if program is None or not program.words:
        return None
    module = program.words[0].shown.removesuffix(".py").replace("/", ".")
    if module.endswith(_MODULES[0]):
        return program.words[1:]
    launches = len(program.words) > 1 and program.words[1].text == "launch"
    return program.words[2:] if module.endswith(_MODULES[1]) and launches else None


def _key(option: Option) -> str:
    return option.name.replace("-", "_")


def _node(option: Option) -> Node:
    """An option's value as a config file would hold it."""
    if option.value is None:
        return Node("bool", True, option.place, told=written(True, option.place))
    told, place = setting_of(option.value), literal_place(option.value)
    return Node("unknown" if isinstance(told, Unknown) else "string", option.value.text, place, told=told)


def _framework(split: Split, framework: str) -> Iterator[Claim]:
    option = next((option for flag in _FRAMEWORKS if (option := split.last(flag)) is not None), None)
    if option is not None:
        yield Claim("framework", written(framework, option.place), option.spelled)


def _rendezvous(split: Split) -> Iterator[Claim]:
    option = split.last("rdzv-backend")
    if option is not None:
        yield Claim("launch.rendezvous", text_of(option.value), option.spelled)


def _files(split: Split, keys: Given) -> Iterator[NamedFile]:
    config = split.last("config-file")
    if config is not None and config.value is not None:
        yield NamedFile("accelerate", config.value)
    for file in named_files(keys, ""):
        value = split.last("deepspeed-config-file" if file.role == "deepspeed" else "deepspeed-hostfile")
        if value is not None and value.value is not None:
            yield NamedFile(file.role, value.value)
    if split.rest:
        role = "module" if split.last("module") else "script"
        yield NamedFile("program" if split.last("no-python") else role, split.rest[0])


def _collections(split: Split, place: Span) -> Mapping[str, tuple[Member, ...]]:
    strange = (unknown_flag(option, _NAMES, "accelerate") for option in split.unknown)
    found = {
        "config.unknown": (*strange, *map(_shortened, filter(_is_shortened, split.options))),
        "config.invalid": tuple(invalid(split)),
        "config.conflicts": tuple(excluded(split)),
        "config.needed": () if split.open else tuple(_needed(split)),
        ENVIRONMENT: tuple(_threads(split)),
        "launch.lost": tuple(behind_program(split, _OWN)),
        "launch.chosen_gpus": tuple(_chosen(split)),
        "launch.hidden": (Member(place, texts(place, reason=split.open)),) if split.open else (),
    }
    return {name: members for name, members in found.items() if members}


def _chosen(split: Split) -> Iterator[Member]:
    """`--gpu_ids 0,1`, which names the GPUs that the launch takes."""
    option = split.last("gpu-ids")
    if option is not None and option.value is not None and option.value.text not in (None, "all"):
        yield Member(option.place, texts(option.place, option=option.spelled))


def _threads(split: Split) -> Iterator[Member]:
    """The variable that `--num_cpu_threads_per_process` becomes (accelerate/utils/launch.py)."""
    option = split.last("num-cpu-threads-per-process")
    if option is not None and option.value is not None:
        value = setting_of(option.value)
        yield Member(option.place, {"name": written("OMP_NUM_THREADS", option.place), "value": value})


def _needed(split: Split) -> Iterator[Member]:
    """What several machines have to be told where no config file is named (`key`)."""
    machines = split.last("num-machines")
    if machines is not None and split.last("config-file") is None:
        for name in ("machine_rank", "main_process_ip"):
            yield Member(machines.place, texts(machines.place, key=name))


def _shortened(option: Option) -> Member:
    """A member of `config.unknown` for the beginning of a name, with the first release that takes none (`since`)."""
    name = next((name for name in _NAMES if canonical(name) == option.name), f"--{option.name}")
    member = misspelt_flag(option, name, "accelerate", "shortened")
    return member._replace(fields={**member.fields, **texts(option.place, since=NO_BEGINNINGS)})


def _is_shortened(option: Option) -> bool:
    """The command takes no beginnings of names, as other commands do."""
    return option.spelled.startswith("--") and canonical(option.spelled) != option.name
