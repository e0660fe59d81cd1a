"""Accelerate: what its config file and its command line say, and how the two make one run."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest
from command_words import texts, words
from hypothesis import given, settings
from hypothesis import strategies as st
from readings import claims, members

from dtlint.api import check, options_of
from dtlint.frameworks import Reading
from dtlint.frameworks.accelerate import config as accelerate
from dtlint.frameworks.accelerate import keys as accelerate_keys
from dtlint.frameworks.accelerate import launcher as accelerate_launcher
from dtlint.languages.yaml import read_yaml
from dtlint.runs import read_runs
from dtlint.runs.model import Run
from dtlint.source import Source
from dtlint.value import Unknown, Value


def config(text: str) -> Reading:
    return accelerate.read_config(read_yaml(Source("accelerate.yaml", dedent(text))))


def fsdp(*lines: str) -> dict[str, object]:
    inner = "".join(f"  {line}\n" for line in lines)
    return claims(config(f"distributed_type: FSDP\nnum_processes: 8\nfsdp_config:\n{inner}"))


def deepspeed(*lines: str, beside: str = "") -> Reading:
    inner = "".join(f"  {line}\n" for line in lines)
    return config(f"distributed_type: DEEPSPEED\nnum_processes: 8\n{beside}\ndeepspeed_config:\n{inner}")


def launch(text: str) -> Reading:
    return accelerate_launcher.read_launch(words(text))


RUN = "accelerate launch --config_file a.yaml train.py\n"


class TestFile:
    def test_counts_are_those_of_all_machines(self) -> None:
        found = claims(
            config("""
                distributed_type: MULTI_GPU
                num_processes: 16
                num_machines: 2
                machine_rank: 1
                main_process_ip: 10.0.0.1
                mixed_precision: bf16
                """)
        )
        assert found == {
            "launch.launcher": "accelerate",
            "framework": "ddp",
            "launch.processes": 16,
            "launch.nodes": 2,
            "launch.node_rank": 1,
            "launch.rendezvous": "static",
            "launch.rendezvous_host": "10.0.0.1",
            "precision.compute": "bf16",
            "sharding.stage": 0,
        }

    @pytest.mark.parametrize(
        ("kind", "framework"),
        [
            ("NO", "pytorch"),
            ("'NO'", "pytorch"),
            ("MULTI_GPU", "ddp"),
            ("FSDP", "fsdp"),
            ("DEEPSPEED", "deepspeed"),
            ("MEGATRON_LM", "megatron"),
            ("MULTI_CPU", ""),
            ("XLA", ""),
            ("{{ kind }}", ""),
        ],
    )
    def test_the_distributed_type_names_the_framework(self, kind: str, framework: str) -> None:
        assert config(f"distributed_type: {kind}\nnum_processes: 2\n").framework == framework

    def test_minus_one_leaves_the_processes_to_the_command_line(self) -> None:
        assert "launch.processes" not in claims(config("distributed_type: MULTI_GPU\nnum_processes: -1\n"))

    def test_one_machine_is_the_default(self) -> None:
        assert claims(config("distributed_type: MULTI_GPU\nnum_processes: 8\n"))["launch.nodes"] == 1

    def test_a_sagemaker_file_claims_nothing(self) -> None:
        found = config("compute_environment: AMAZON_SAGEMAKER\ndistributed_type: DATA_PARALLEL\nregion: x\n")
        assert (found.claims, found.collections, found.framework) == ((), {}, "")

    @pytest.mark.parametrize(
        ("text", "ours"),
        [
            ("distributed_type: FSDP\nfsdp_config: {}\n", True),
            ("distributed_type: 'NO'\nnum_processes: 1\n", True),
            ("distributed_type: FSDP\n", False),
            ("model_name_or_path: gpt2\nbf16: true\n", False),
            ("- distributed_type\n", False),
            ("", False),
        ],
    )
    def test_a_file_is_known_by_its_keys(self, text: str, ours: bool) -> None:
        assert accelerate.looks_like_config(read_yaml(Source("a.yaml", text))) is ours


class TestFsdp:
    def test_nothing_written_is_one_unit_without_prefetch_loaded_on_one_rank(self) -> None:
        found = fsdp("fsdp_sharding_strategy: FULL_SHARD")
        assert (found["sharding.units"], found["sharding.prefetch"]) == ("none", "none")
        assert found["loading.whole_copies"] == "first"

    def test_fsdp_without_a_word_on_how_may_be_told_by_a_plugin_in_the_program(self) -> None:
        found = claims(config("distributed_type: FSDP\nnum_processes: 8\nfsdp_config: {}\n"))
        assert "plugin" in str(found["sharding.units"])

    @pytest.mark.parametrize(
        ("strategy", "stage"),
        [("FULL_SHARD", 3), ("1", 3), ("SHARD_GRAD_OP", 2), ("'2'", 2), ("NO_SHARD", 0), ("hybrid_shard", 3)],
    )
    def test_strategies_are_stages_and_may_be_numbers(self, strategy: str, stage: int) -> None:
        assert fsdp(f"fsdp_sharding_strategy: {strategy}")["sharding.stage"] == stage

    def test_a_hybrid_strategy_shards_inside_a_node(self) -> None:
        assert (
            fsdp("fsdp_sharding_strategy: HYBRID_SHARD")["sharding.group"] == "a hybrid strategy shards inside a node"
        )

    @pytest.mark.parametrize(
        ("lines", "units"),
        [
            (("fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP",), "wrapped"),
            (("auto_wrap_policy: TRANSFORMER_BASED_WRAP",), "wrapped"),
            (("fsdp_auto_wrap_policy: NO_WRAP",), "none"),
            (("fsdp_auto_wrap_policy: null",), "none"),
            (("fsdp_auto_wrap_policy: SIZE_BASED_WRAP",), "wrapped"),
            (("fsdp_auto_wrap_policy: SIZE_BASED_WRAP", "fsdp_min_num_params: 20000"), "wrapped"),
            (("fsdp_auto_wrap_policy: SIZE_BASED_WRAP", "fsdp_min_num_params: 0"), "none"),
        ],
    )
    def test_wrap_policies(self, lines: tuple[str, ...], units: str) -> None:
        assert fsdp(*lines)["sharding.units"] == units

    @pytest.mark.parametrize(
        ("line", "prefetch"),
        [
            ("fsdp_backward_prefetch: BACKWARD_PRE", "backward_pre"),
            ("fsdp_backward_prefetch: BACKWARD_POST", "backward_post"),
            ("fsdp_backward_prefetch: NO_PREFETCH", "none"),
            ("fsdp_backward_prefetch: null", "none"),
        ],
    )
    def test_prefetch(self, line: str, prefetch: str) -> None:
        assert fsdp(line)["sharding.prefetch"] == prefetch

    def test_the_old_name_of_the_prefetch_works_in_old_releases_only(self) -> None:
        text = "distributed_type: FSDP\nfsdp_config:\n  fsdp_backward_prefetch_policy: BACKWARD_PRE\n"
        assert "old releases" in str(claims(config(text))["sharding.prefetch"])
        assert members(config(text), "config.removed", "key", "instead") == [
            ("fsdp_backward_prefetch_policy", "fsdp_backward_prefetch")
        ]

    def test_an_old_name_beside_its_new_one_loses_nothing(self) -> None:
        text = (
            "distributed_type: FSDP\nfsdp_config:\n  fsdp_backward_prefetch_policy: BACKWARD_PRE\n"
            "  fsdp_backward_prefetch: BACKWARD_PRE\n"
        )
        assert "config.removed" not in config(text).collections
        assert claims(config(text))["sharding.prefetch"] == "backward_pre"

    def test_an_old_name_of_what_is_not_read_is_without_effect(self) -> None:
        second = (
            "distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\n  fsdp_backward_prefetch_policy: BACKWARD_PRE\n"
        )
        other = "distributed_type: MULTI_GPU\nfsdp_config:\n  fsdp_backward_prefetch_policy: BACKWARD_PRE\n"
        for text, key in ((second, "fsdp_backward_prefetch_policy"), (other, "fsdp_config")):
            assert "config.removed" not in config(text).collections
            assert members(config(text), "config.inert", "key") == [(key,)]

    def test_a_field_that_is_refused_is_so_beside_its_new_one(self) -> None:
        text = "distributed_type: FSDP\ntp_config: {}\nparallelism_config: {}\n"
        assert members(config(text), "config.removed", "key", "effect") == [("tp_config", "refused")]

    def test_the_second_version_prefetches_by_itself_and_ignores_the_keys_of_the_first(self) -> None:
        text = """
            distributed_type: FSDP
            fsdp_config:
              fsdp_version: 2
              fsdp_reshard_after_forward: false
              fsdp_sharding_strategy: SHARD_GRAD_OP
              fsdp_backward_prefetch: NO_PREFETCH
            """
        found = claims(config(text))
        assert found["sharding.prefetch"] == "backward_pre"
        assert found["sharding.reshard_after_forward"] is False
        assert "sharding.stage" not in found
        assert members(config(text), "config.inert", "key") == [
            ("fsdp_sharding_strategy",),
            ("fsdp_backward_prefetch",),
        ]

    @pytest.mark.parametrize(
        "line", ["fsdp_reshard_after_forward: FULL_SHARD", "fsdp_state_dict_type: LOCAL_STATE_DICT"]
    )
    def test_what_the_second_version_refuses(self, line: str) -> None:
        found = config(f"distributed_type: FSDP\nfsdp_config:\n  fsdp_version: 2\n  {line}\n")
        assert members(found, "config.invalid", "key") == [(line.partition(":")[0],)]

    def test_the_first_version_reads_its_strategy_from_its_own_key(self) -> None:
        text = "distributed_type: FSDP\nfsdp_config:\n  fsdp_reshard_after_forward: SHARD_GRAD_OP\n"
        assert members(config(text), "config.inert", "key", "matters") == [("fsdp_reshard_after_forward", "yes")]
        assert "sharding.stage" not in claims(config(text))

    def test_offload_takes_parameters_and_optimizer(self) -> None:
        found = fsdp("fsdp_offload_params: true", "fsdp_activation_checkpointing: 'true'")
        assert (found["sharding.offload_parameters"], found["sharding.offload_optimizer"]) == ("cpu", "cpu")
        assert found["checkpointing.activations"] == "full"

    def test_loading_on_every_rank(self) -> None:
        lines = ("fsdp_cpu_ram_efficient_loading: false", "fsdp_sync_module_states: false")
        assert fsdp(*lines)["loading.whole_copies"] == "all"

    def test_loading_on_one_rank_needs_the_weights_to_be_sent(self) -> None:
        text = "distributed_type: FSDP\nfsdp_config:\n  fsdp_sync_module_states: false\n"
        assert members(config(text), "config.invalid", "key", "effect") == [("fsdp_sync_module_states", "refused")]

    def test_degrees_decide_the_data_parallel_size_and_the_shard_group(self) -> None:
        found = claims(
            config("""
                distributed_type: FSDP
                num_processes: 32
                fsdp_config: {fsdp_version: 2}
                parallelism_config:
                  parallelism_config_dp_replicate_size: 2
                  parallelism_config_dp_shard_size: 4
                  parallelism_config_tp_size: 2
                  parallelism_config_cp_size: 2
                """)
        )
        assert (found["parallel.data"], found["sharding.group"]) == (8, 8)
        assert (found["parallel.tensor"], found["parallel.context"]) == (2, 2)


class TestDeepSpeed:
    def test_stage_two_is_what_nothing_written_means(self) -> None:
        assert claims(deepspeed("gradient_clipping: 1.0"))["sharding.stage"] == 2

    def test_a_section(self) -> None:
        found = claims(
            deepspeed(
                "zero_stage: 3",
                "offload_optimizer_device: cpu",
                "offload_param_device: none",
                "gradient_accumulation_steps: 4",
                "gradient_clipping: 0.5",
                "zero3_init_flag: false",
            )
        )
        assert found["sharding.stage"] == 3
        assert (found["sharding.offload_optimizer"], found["sharding.offload_parameters"]) == ("cpu", "none")
        assert (found["batch.accumulation"], found["optimizer.clip"]) == (4, 0.5)
        assert found["loading.whole_copies"] == "all"

    def test_a_file_decides_alone(self) -> None:
        found = deepspeed("deepspeed_config_file: ds.json", "zero_stage: 3", beside="mixed_precision: bf16")
        assert [(file.role, file.path.text) for file in found.files] == [("deepspeed", "ds.json")]
        assert members(found, "config.conflicts", "name", "effect", "others") == [("mixed_precision", "excluded", 1)]
        (clash,) = found.collections["config.conflicts"]
        assert [label for _, label in clash.related] == ["the file that decides", "refused too"]
        assert "sharding.stage" not in claims(deepspeed("deepspeed_config_file: ds.json"))


def test_megatron_degrees() -> None:
    found = claims(
        config("""
            distributed_type: MEGATRON_LM
            num_processes: 16
            megatron_lm_config:
              megatron_lm_tp_degree: 4
              megatron_lm_pp_degree: 2
              megatron_lm_num_micro_batches: 8
              megatron_lm_sequence_parallelism: true
              megatron_lm_recompute_activations: true
              megatron_lm_use_distributed_optimizer: true
            """)
    )
    assert (found["parallel.tensor"], found["parallel.pipeline"], found["batch.accumulation"]) == (4, 2, 8)
    assert (found["parallel.sequence"], found["sharding.stage"]) == (True, 1)
    assert found["checkpointing.activations"] == "selective"


@pytest.mark.parametrize(
    ("method", "setting"), [("block", "checkpointing.layers"), ("uniform", "checkpointing.unit"), ("null", None)]
)
def test_the_number_of_megatrons_recomputed_layers_is_what_the_method_says(method: str, setting: str | None) -> None:
    found = claims(
        config(f"""
            distributed_type: MEGATRON_LM
            megatron_lm_config:
              megatron_lm_recompute_granularity: full
              megatron_lm_recompute_method: {method}
              megatron_lm_recompute_num_layers: 4
            """)
    )
    counts = {name: value for name, value in found.items() if name in ("checkpointing.layers", "checkpointing.unit")}
    assert counts == ({setting: 4} if setting else {})


class TestKeys:
    def test_a_strange_key_at_the_top_stops_the_start_and_in_a_section_is_ignored(self) -> None:
        found = config(
            "distributed_type: DEEPSPEED\nnum_process: 8\nnum_machines: 1\ndeepspeed_config: {zero_stag: 2}\n"
        )
        assert members(found, "config.unknown", "key", "effect", "suggestion") == [
            ("num_process", "refused", "num_processes"),
            ("zero_stag", "ignored", "zero_stage"),
        ]

    @pytest.mark.parametrize(
        ("key", "suggestion", "belongs"),
        [
            ("stage: 3", "zero_stage", ""),
            ("offload_optimizer: cpu", "offload_optimizer_device", ""),
            ("overlap_comm: true", "", "zero_optimization.overlap_comm in the file that deepspeed_config_file names"),
            ("bf16: {enabled: true}", "", "bf16 in the file that deepspeed_config_file names"),
            ("mixed_precision: bf16", "", "mixed_precision at the top level"),
            ("train_batch_size: auto", "", ""),
            ("data_parallel_size: 8", "", ""),
            ("note_of_mine: 2", "", ""),
        ],
    )
    def test_deepspeeds_own_keys_work_in_its_own_file(self, key: str, suggestion: str, belongs: str) -> None:
        found = members(deepspeed("zero_stage: 2", key), "config.unknown", "effect", "suggestion", "belongs")
        assert found == [("ignored", suggestion, belongs)]

    def test_of_a_section_that_is_not_read_no_key_is_strange(self) -> None:
        found = config("distributed_type: MULTI_GPU\nnum_processes: 8\ndeepspeed_config: {overlap_comm: true}\n")
        assert "config.unknown" not in found.collections
        assert members(found, "config.inert", "key") == [("deepspeed_config",)]

    def test_a_file_of_yaml_in_braces_is_yaml(self, tree) -> None:
        """Accelerate goes by the name of the file, where DeepSpeed takes JSON under any."""
        text = '{\n  "distributed_type": "MULTI_GPU",  # plain\n  "num_processes": 2, "num_machines": 1,\n}\n'
        tree({"a.yaml": text, "run.sh": RUN, "train.py": ""})
        report = check(["run.sh"])
        assert "unreadable-input" not in [each.rule for each in report.findings]
        assert report.runs[0].plan.integer("parallel.world_size") == 2

    def test_a_field_that_some_releases_have_is_none_that_none_has(self) -> None:
        found = config("distributed_type: MULTI_CPU\nnum_processes: 2\nipex_config: {ipex: true}\ntp_confg: {}\n")
        assert members(found, "config.unknown", "key") == [("tp_confg",)]
        assert members(found, "config.removed", "key", "first", "last", "effect") == [
            ("ipex_config", "0.19.0", "1.12.0", "refused")
        ]

    @pytest.mark.parametrize(
        ("line", "release", "rules"),
        [
            ("ipex_config: {ipex: true}", "==0.27.2", {}),
            ("ipex_config: {ipex: true}", "==1.13.0", {"removed-or-renamed": "error"}),
            ("ipex_config: {ipex: true}", ">=0.27", {"removed-or-renamed": "note"}),
            ("mpirun_config: {}", "==0.27.2", {"newer-setting": "error"}),
            ("mpirun_config: {}", "==0.28.0", {}),
        ],
    )
    def test_the_release_decides_on_a_field(self, tree, line: str, release: str, rules: dict[str, str]) -> None:
        text = f"distributed_type: MULTI_GPU\nnum_processes: 2\nnum_machines: 1\n{line}\n"
        tree({"a.yaml": text, "requirements.txt": f"accelerate{release}\n", "run.sh": RUN, "train.py": ""})
        found = check(["run.sh"]).findings
        assert {each.rule: each.severity for each in found if each.span.path == "a.yaml"} == rules

    def test_every_field_that_is_known_has_its_releases(self) -> None:
        from dtlint.catalog.accelerate_fields import accelerate_fields

        assert accelerate_fields().keys() == accelerate_keys._TOP.keys()

    @pytest.mark.parametrize(
        ("line", "expected"),
        [
            ("num_processes: eight", "a whole number"),
            ("num_machines: '1'", "a whole number without quotes"),
            ("num_machines: 2\nnum_processes: '8'", "a whole number without quotes"),
            ("num_machines: 2\nmachine_rank: first", "a whole number"),
            ("num_machines: 1.0", "a whole number"),
            ("main_process_port: '29500'", "a whole number without quotes"),
            ("compute_environment: local_machine", "one of LOCAL_MACHINE, AMAZON_SAGEMAKER"),
            ("gpu_ids: 0", "a text of numbers (in quotes)"),
            (
                "fsdp_config: {fsdp_state_dict_type: FULL}",
                "one of FULL_STATE_DICT, LOCAL_STATE_DICT, SHARDED_STATE_DICT",
            ),
            (
                "fsdp_config: {fsdp_activation_checkpointing_offload: true, fsdp_activation_checkpointing: true}",
                "fsdp_version 2 beside it",
            ),
            (
                "fsdp_config: {fsdp_activation_checkpointing_offload: true, fsdp_version: 2}",
                "fsdp_activation_checkpointing true beside it",
            ),
            ("num_processes: 8.5", "a whole number"),
            ("mixed_precision: no", "the word no in quotes (without them YAML reads it as false)"),
            ("mixed_precision: bfloat16", "one of no, fp16, bf16, fp8"),
            ("use_cpu: maybe", "true or false"),
            ("fsdp_config: true", "a mapping of keys"),
            (
                "fsdp_config: {fsdp_auto_wrap_policy: LAYER_WRAP}",
                "one of TRANSFORMER_BASED_WRAP, SIZE_BASED_WRAP, NO_WRAP",
            ),
            ("parallelism_config: {parallelism_config_tp_size: 0}", "a whole number above 0"),
        ],
    )
    def test_values_of_the_wrong_kind(self, line: str, expected: str) -> None:
        found = config(f"distributed_type: FSDP\n{line}\n")
        assert members(found, "config.invalid", "expected", "effect") == [(expected, "refused")]

    @pytest.mark.parametrize(
        ("line", "expected"),
        [
            ("zero_stage: 4", "a stage from 0 to 3"),
            ("zero_stage: auto", "a stage from 0 to 3"),
            ("gradient_accumulation_steps: 0", "a whole number above 0"),
            ("offload_optimizer_device: gpu", "one of none, cpu, nvme"),
        ],
    )
    def test_values_of_the_wrong_kind_in_the_section_of_deepspeed(self, line: str, expected: str) -> None:
        assert members(deepspeed(line), "config.invalid", "expected") == [(expected,)]

    @pytest.mark.parametrize("line", ["num_processes: '8'", "machine_rank: '0'", "gpu_ids: '0'", "num_processes: auto"])
    def test_texts_that_are_turned_into_numbers(self, line: str) -> None:
        assert "config.invalid" not in config(f"distributed_type: FSDP\n{line}\n").collections

    def test_the_section_of_another_framework_is_not_read(self) -> None:
        found = config("distributed_type: MULTI_GPU\nnum_processes: 8\nfsdp_config: {fsdp_auto_wrap_policy: NONE}\n")
        assert "config.invalid" not in found.collections

    @pytest.mark.parametrize(
        ("sizes", "expected"),
        [
            ({"cp": 2, "sp": 2}, "1 beside a context-parallel size above 1"),
            ({"dp_replicate": 4, "tp": 2}, "1 where nothing is sharded beside tensor or context parallelism"),
            ({"tp": 8}, "a size above 1: FSDP has nothing to shard over"),
        ],
    )
    def test_degrees_that_exclude_each_other(self, sizes: dict[str, int], expected: str) -> None:
        inner = ", ".join(f"parallelism_config_{axis}_size: {size}" for axis, size in sizes.items())
        found = config(
            f"distributed_type: FSDP\nnum_processes: 8\nfsdp_config: {{fsdp_version: 2}}\nparallelism_config: {{{inner}}}"
        )
        assert members(found, "config.invalid", "expected") == [(expected,)]

    @pytest.mark.parametrize(
        "line",
        [
            "mixed_precision: 'no'",
            "num_processes: {{ gpus }}",
            "main_process_port: null",
            "fsdp_config: {fsdp_version: 1, fsdp_offload_params: 'false', fsdp_state_dict_type: FULL_STATE_DICT}",
            "fsdp_config: {fsdp_auto_wrap_policy: transformer_based_wrap, fsdp_backward_prefetch: NO_PREFETCH}",
            "deepspeed_config: {gradient_clipping: auto, zero3_init_flag: 'true'}",
            "dynamo_config: {dynamo_backend: INDUCTOR, dynamo_mode: default}",
            "tpu_env: []",
        ],
    )
    def test_values_that_are_taken(self, line: str) -> None:
        found = config(f"distributed_type: FSDP\n{line}\n")
        assert members(found, "config.invalid", "key", "expected") == []
        assert members(found, "config.unknown", "key") == []

    def test_a_section_of_another_framework_has_no_effect(self) -> None:
        found = config("distributed_type: MULTI_GPU\ndeepspeed_config: {zero_stage: 3}\nfsdp_config: {}\n")
        assert members(found, "config.inert", "key") == [("deepspeed_config",)]
        assert claims(found)["sharding.stage"] == 0


class TestCommand:
    @pytest.mark.parametrize(
        "command",
        [
            "accelerate launch train.py",
            "/opt/conda/bin/accelerate launch train.py",
            "accelerate-launch train.py",
            "python -m accelerate.commands.launch train.py",
            "python -m accelerate.commands.accelerate_cli launch train.py",
        ],
    )
    def test_it_is_recognised_however_it_is_called(self, command: str) -> None:
        assert accelerate_launcher.recognise(words(command))
        assert texts(launch(command).rest) == ["train.py"]

    @pytest.mark.parametrize(
        "command", ["accelerate config", "accelerate", "accelerate estimate-memory gpt2", "torchrun a.py"]
    )
    def test_other_commands_are_none(self, command: str) -> None:
        assert not accelerate_launcher.recognise(words(command))

    def test_flags_claim_what_the_keys_do(self) -> None:
        found = launch(
            "accelerate launch --num_processes 16 --num-machines=2 --machine_rank 1 --main_process_ip h0 "
            "--use_fsdp --mixed_precision bf16 --fsdp_sharding_strategy SHARD_GRAD_OP --fsdp_offload_params false "
            "train.py --num_processes 3"
        )
        assert claims(found) == {
            "launch.launcher": "accelerate",
            "framework": "fsdp",
            "launch.processes": 16,
            "launch.nodes": 2,
            "launch.node_rank": 1,
            "launch.rendezvous_host": "h0",
            "precision.compute": "bf16",
            "sharding.stage": 2,
            "sharding.offload_parameters": "none",
            "sharding.offload_optimizer": "none",
        }
        assert texts(found.rest) == ["train.py", "--num_processes", "3"]

    def test_files_that_it_names(self) -> None:
        found = launch("accelerate launch --config_file a.yaml --deepspeed_config_file ds.json -m pkg.train --x 1")
        assert [(file.role, file.path.text) for file in found.files] == [
            ("accelerate", "a.yaml"),
            ("deepspeed", "ds.json"),
            ("module", "pkg.train"),
        ]

    def test_a_variable_is_not_known(self) -> None:
        found = launch('accelerate launch --num_machines "$SLURM_NNODES" train.py')
        claim = next(claim for claim in found.claims if claim.setting == "launch.nodes")
        assert isinstance(claim.value, Unknown)
        assert claim.value.means == "cluster.nodes"

    def test_options_of_older_releases_take_their_values(self) -> None:
        found = launch("accelerate launch --ipex --fsdp_backward_prefetch_policy BACKWARD_PRE train.py")
        assert (texts(found.rest), found.collections) == (["train.py"], {})

    def test_it_takes_no_beginnings_of_names(self) -> None:
        found = launch("accelerate launch --num_proc 8 --multi_gpus train.py")
        assert members(found, "config.unknown", "key", "effect") == [
            ("--multi_gpus", "refused"),
            ("--num_proc", "shortened"),
        ]

    @given(
        st.lists(
            st.sampled_from(
                ["--num_processes", "8", "$X", '"$@"', "--use_fsdp", "-m", "--", "t.py", "=", "--config_file"]
            ),
            max_size=6,
        )
    )
    @settings(max_examples=60, deadline=None, derandomize=True)
    def test_no_command_is_too_strange(self, arguments: list[str]) -> None:
        found = launch(" ".join(["accelerate", "launch", *arguments]))
        assert found.layer == "accelerate-flags"


class TestSpelling:
    @pytest.mark.parametrize(
        ("setting", "value", "framework", "written"),
        [
            ("launch.processes", 16, "ddp", "num_processes: 16"),
            ("sharding.stage", 3, "deepspeed", "zero_stage: 3"),
            ("sharding.stage", 3, "ddp", "fsdp_sharding_strategy: FULL_SHARD"),
            ("sharding.units", "wrapped", "fsdp", "fsdp_auto_wrap_policy: TRANSFORMER_BASED_WRAP"),
            ("sharding.offload_parameters", "none", "fsdp", "fsdp_offload_params: false"),
            ("sharding.offload_parameters", "none", "deepspeed", "offload_param_device: none"),
            ("loading.whole_copies", "first", "fsdp", "fsdp_cpu_ram_efficient_loading: true"),
            ("loading.whole_copies", "none", "deepspeed", "zero3_init_flag: true"),
            ("precision.compute", "bf16", "", "mixed_precision: bf16"),
            ("framework", "fsdp", "ddp", "distributed_type: FSDP"),
            ("parallel.tensor", 2, "megatron", "megatron_lm_tp_degree: 2"),
        ],
    )
    def test_settings_in_the_file(self, setting: str, value: object, framework: str, written: str) -> None:
        assert accelerate.spell(setting, value, framework) == written  # type: ignore[arg-type]

    def test_settings_on_the_command_line(self) -> None:
        assert accelerate_launcher.spell("launch.processes", 16, "ddp") == "--num_processes 16"
        assert accelerate_launcher.spell("framework", "fsdp") == "--use_fsdp"
        assert accelerate_launcher.spell("model.layers", 3) is None


class TestRuns:
    FSDP = "distributed_type: FSDP\nnum_processes: 8\nnum_machines: 1\nfsdp_config:\n  fsdp_sharding_strategy: FULL_SHARD\n"

    @pytest.fixture(autouse=True)
    def _tree(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / ".git").mkdir()
        monkeypatch.chdir(tmp_path)

    def runs(self, files: dict[str, str], *focus: str) -> tuple[Run, ...]:
        for name, text in files.items():
            Path(name).parent.mkdir(parents=True, exist_ok=True)
            Path(name).write_text(text)
        return read_runs([Path(name) for name in focus or files], options_of()).runs

    def test_the_command_line_wins_over_the_file_that_it_names(self) -> None:
        command = "accelerate launch --config_file conf/a.yaml --num_processes 4 train.py\n"
        (run,) = self.runs({"run.sh": command, "conf/a.yaml": self.FSDP}, "run.sh")
        assert run.files == ("run.sh", "conf/a.yaml")
        assert (run.plan.value("launch.processes"), run.plan.value("framework")) == (4, "fsdp")

    FULLY_SHARDED = (
        "distributed_type: FSDP\nnum_processes: 8\nfsdp_config: {fsdp_version: 1, fsdp_offload_params: true}\n"
    )

    @pytest.mark.parametrize(
        ("flag", "framework", "stage", "inert"),
        [
            ("--multi_gpu", "ddp", 0, True),
            ("--use_deepspeed", "deepspeed", 2, True),
            ("--use_fsdp", "fsdp", 3, False),
            ("", "fsdp", 3, False),
        ],
    )
    def test_a_flag_that_chooses_leaves_the_type_in_the_file_unread(
        self, flag: str, framework: str, stage: int, inert: bool
    ) -> None:
        command = f"accelerate launch {flag} --config_file a.yaml train.py\n"
        run = self.runs({"a.yaml": self.FULLY_SHARDED, "run.sh": command}, "run.sh")[0]
        assert run.plan.value("framework") == framework
        assert run.plan.value("sharding.stage") == stage
        assert (run.plan.value("sharding.offload_optimizer") == "cpu") is not inert
        found = run.plan.collection("config.inert")
        assert [member.fields["matters"].value for member in found] == ["yes"] * inert

    def test_a_variable_on_the_command_line_hides_what_the_file_says(self) -> None:
        command = "accelerate launch --config_file a.yaml --num_processes $N train.py\n"
        (run,) = self.runs({"run.sh": command, "a.yaml": self.FSDP}, "run.sh")
        assert isinstance(run.plan.get("launch.processes"), Unknown)

    def test_the_deepspeed_config_of_the_file_is_followed(self) -> None:
        files = {
            "run.sh": "accelerate launch --config_file a.yaml train.py\n",
            "a.yaml": "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config: {deepspeed_config_file: ds.json}\n",
            "ds.json": '{"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 1}}',
        }
        (run,) = self.runs(files)
        assert run.files == ("run.sh", "a.yaml", "ds.json")
        assert run.plan.value("sharding.stage") == 1
        (alone,) = self.runs({}, "a.yaml", "ds.json")
        assert alone.plan.value("sharding.stage") == 1

    def test_a_deepspeed_config_that_is_missing_hides_the_stage(self) -> None:
        text = "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config: {deepspeed_config_file: ds.json}\n"
        (run,) = self.runs({"a.yaml": text})
        stage = run.plan.get("sharding.stage")
        assert isinstance(stage, Unknown)
        assert "ds.json was not found" in stage.reason

    def test_a_file_beside_the_only_launch_without_one_is_its_config(self) -> None:
        (run,) = self.runs({"run.sh": "accelerate launch train.py\n", "default_config.yaml": self.FSDP})
        assert run.plan.value("launch.processes") == 8
        assert "default_config.yaml" in run.assumptions[0]

    def test_a_file_of_another_path_beside_the_launch_stands_for_the_one_that_is_not_there(self) -> None:
        files = {"run.sh": "accelerate launch --config_file /data/me/a.yaml train.py\n", "conf/a.yaml": self.FSDP}
        (run,) = self.runs(files)
        assert run.plan.value("framework") == "fsdp"
        assert "conf/a.yaml" in run.assumptions[0]

    def test_the_trainers_recomputation_lies_outside_the_units_of_the_file(self) -> None:
        command = "accelerate launch --config_file a.yaml run_clm.py --do_train --output_dir o --gradient_checkpointing true\n"
        (run,) = self.runs({"run.sh": command, "a.yaml": self.FSDP})
        assert run.plan.value("checkpointing.placement") == "outside"
        inside = self.FSDP + "  fsdp_activation_checkpointing: true\n"
        (run,) = self.runs({"run.sh": command, "a.yaml": inside})
        assert run.plan.value("checkpointing.placement") == "both"

    @pytest.mark.parametrize(
        ("program", "words"),
        [
            ("tool, args = parser.parse_yaml_file(sys.argv[2])", "--config args.yaml"),
            ("args = TrainingArguments('out', gradient_checkpointing=True)", ""),
        ],
    )
    def test_the_trainers_recomputation_in_a_file_or_in_code(self, program: str, words: str) -> None:
        imports = "import sys\nfrom transformers import HfArgumentParser, Trainer, TrainingArguments\n"
        text = f"{imports}parser = HfArgumentParser((Own, TrainingArguments))\n{program}\nTrainer(net, args).train()\n"
        files = {
            "run.sh": f"accelerate launch --config_file a.yaml train.py {words}\n",
            "a.yaml": self.FSDP + "  fsdp_activation_checkpointing: true\n",
            "args.yaml": "output_dir: out\nbf16: true\nlearning_rate: 1.0e-5\ngradient_checkpointing: true\n",
            "train.py": text,
        }
        (run,) = self.runs(files, "run.sh")
        assert run.plan.value("checkpointing.placement") == "both"

    def test_the_trainer_compares_the_keys_of_deepspeed_with_its_arguments(self) -> None:
        text = "distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config: {gradient_accumulation_steps: 4}\n"
        command = "accelerate launch --config_file a.yaml run_clm.py --do_train --output_dir o\n"
        (run,) = self.runs({"run.sh": command, "a.yaml": text})
        assert [member.fields["name"].value for member in run.plan.collection("config.conflicts")] == [  # type: ignore[attr-defined]
            "--gradient_accumulation_steps"
        ]

    def test_a_file_beside_another_launcher_is_a_run_of_its_own(self) -> None:
        found = self.runs({"run.sh": "torchrun --nproc_per_node 4 train.py\n", "a.yaml": self.FSDP})
        assert [run.files for run in found] == [("run.sh",), ("a.yaml",)]

    def test_a_focused_file_finds_the_launch_that_names_it(self) -> None:
        files = {
            "jobs/run.sh": "accelerate launch --config_file a.yaml --num_processes 2 t.py\n",
            "jobs/a.yaml": self.FSDP,
        }
        (run,) = self.runs(files, "jobs/a.yaml")
        assert run.plan.value("launch.processes") == 2

    def test_the_default_config_in_the_users_cache_is_not_known(self) -> None:
        (run,) = self.runs({"run.sh": "accelerate launch train.py\n"})
        stage = run.plan.get("sharding.stage")
        assert isinstance(stage, Unknown)
        assert "default Accelerate config" in stage.reason

    def test_flags_that_name_the_framework_leave_defaults_that_are_assumed(self) -> None:
        (run,) = self.runs({"run.sh": "accelerate launch --use_fsdp --fsdp_offload_params true train.py\n"})
        prefetch, nodes = run.plan.get("sharding.prefetch"), run.plan.get("launch.nodes")
        assert isinstance(prefetch, Value) and isinstance(nodes, Value)
        assert (prefetch.value, prefetch.origin.kind, nodes.value) == ("none", "assumed", 1)

    def test_a_file_that_is_not_there_hides_everything(self) -> None:
        (run,) = self.runs({"run.sh": "accelerate launch --config_file a.yaml --use_fsdp train.py\n"})
        units = run.plan.get("sharding.units")
        assert isinstance(units, Unknown)
        assert "a.yaml was not found" in units.reason

    def test_a_yaml_of_another_program_says_nothing(self) -> None:
        assert self.runs({"k8s.yaml": "kind: Job\nspec: {{ broken\n", "b.yaml": "a: 1\n---\nb: 2\n"}) == ()


class TestRefusedFlags:
    @pytest.mark.parametrize(
        ("flag", "expected"),
        [
            ("--num_processes eight", "a whole number"),
            ("--gradient_clipping auto", "a number"),
            ("--mixed_precision BF16", "one of no, fp16, bf16, fp8"),
            ("--fsdp_version 3", "one of 1, 2"),
            ("--num_processes 1", "2 or more beside --multi_gpu"),
            ("--use_parallelism_config", "--use_fsdp and --fsdp_version 2 beside it"),
        ],
    )
    def test_values_that_the_parser_does_not_take(self, flag: str, expected: str) -> None:
        found = launch(f"accelerate launch --multi_gpu {flag} train.py")
        assert members(found, "config.invalid", "expected") == [(expected,)]

    def test_a_value_that_is_not_known(self) -> None:
        assert "config.invalid" not in launch("accelerate launch --num_processes $N train.py").collections

    def test_two_ways_to_train(self) -> None:
        found = launch("accelerate launch --multi_gpu --num_processes 8 --use_fsdp train.py")
        assert members(found, "config.conflicts", "winner_name", "name", "effect") == [
            ("--multi_gpu", "--use_fsdp", "exclusive")
        ]

    def test_a_flag_that_the_version_in_the_file_gives_its_meaning(self) -> None:
        found = claims(launch("accelerate launch --config_file a.yaml --fsdp_reshard_after_forward false train.py"))
        assert found["sharding.reshard_after_forward"] is False


def test_what_remains_of_the_processes_is_not_started(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text(
        "accelerate launch --multi_gpu --num_machines 2 --num_processes 15 --machine_rank $R --main_process_ip $H train.py"
    )
    (run,) = read_runs([script], options_of()).runs
    assert (run.plan.value("launch.processes_per_node"), run.plan.value("parallel.world_size")) == (7, 14)


def test_a_degree_that_cannot_be_leaves_the_plan_unknown(tmp_path: Path) -> None:
    script = tmp_path / "run.sh"
    script.write_text("accelerate launch --use_fsdp --num_processes 8 --parallelism_config_tp_size 0 train.py")
    (run,) = read_runs([script], options_of()).runs
    assert isinstance(run.plan.get("parallel.tensor"), Unknown)


def test_a_config_that_a_launch_names_is_in_the_focus_whatever_it_holds(tmp_path: Path) -> None:
    (tmp_path / "acc.yaml").write_text("num_processes: 8\n")
    (tmp_path / "run.sh").write_text("accelerate launch --config_file acc.yaml train.py\n")
    assert any(path.endswith("acc.yaml") for path in read_runs([tmp_path], options_of()).focus)


@pytest.mark.parametrize(
    ("pinned", "told"),
    [("accelerate==0.33.0", []), ("accelerate==1.6.0", ["error"]), ("accelerate", ["note"]), ("", ["note"])],
)
def test_false_for_no_is_refused_since_a_release(tmp_path: Path, pinned: str, told: list[str]) -> None:
    (tmp_path / "requirements.txt").write_text(f"{pinned}\n")
    (tmp_path / "config.yaml").write_text("distributed_type: MULTI_GPU\nnum_processes: 8\nmixed_precision: no\n")
    found = [finding for finding in check([tmp_path]).findings if finding.rule == "setting-type"]
    assert [finding.severity for finding in found] == told


@pytest.mark.parametrize(
    ("pinned", "told"),
    [("accelerate==0.10.0", []), ("accelerate==0.16.0", ["error"]), ("accelerate>=0.12", ["note"]), ("", ["error"])],
)
def test_one_process_beside_multi_gpu_is_refused_since_a_release(tmp_path: Path, pinned: str, told: list[str]) -> None:
    """The environment of a script is described in its folder, be it below the root."""
    folder = tmp_path / "lm"
    folder.mkdir()
    below = f"  - pip:\n    - {pinned}\n" if pinned else ""
    (folder / "environment.yml").write_text(f"dependencies:\n  - python=3.8\n{below}")
    (folder / "run.sh").write_text("accelerate launch --multi_gpu --num_processes 1 train.py\n")
    found = [finding for finding in check([tmp_path]).findings if finding.rule == "setting-type"]
    assert [finding.severity for finding in found] == told


@pytest.mark.parametrize(
    ("old", "told"),
    [
        ("fsdp_config:\n  fsdp_backward_prefetch_policy: BACKWARD_PRE\n", "warning"),
        ("tp_config: {tp_size: 2}\n", "error"),
    ],
)
def test_a_name_that_newer_releases_pass_over_wastes_and_one_that_they_refuse_stops(tree, old: str, told: str) -> None:
    """Without prefetching each gather of the backward pass is waited for; the gradients are the same."""
    config = f"distributed_type: FSDP\nnum_machines: 1\nnum_processes: 4\n{old}"
    tree({"fsdp.yaml": config, "requirements.txt": "accelerate==1.10.1\n"})
    tree({"run.sh": "accelerate launch --config_file fsdp.yaml train.py\n"})
    found = [each.severity for each in check([Path("fsdp.yaml")]).findings if each.rule == "removed-or-renamed"]
    assert found == [told]


_ACCUMULATES = """
import argparse
from accelerate import Accelerator
from net import batches, model, optimizer

parser = argparse.ArgumentParser()
parser.add_argument("--gradient_accumulation_steps", type=int, default=1)
args = parser.parse_args()
accelerator = Accelerator(gradient_accumulation_steps=COUNT)
for batch in batches:
    with accelerator.accumulate(model):
        accelerator.backward(model(batch))
        optimizer.step()
"""


@pytest.mark.parametrize(
    ("written", "count", "flags", "told"),
    [
        ("gradient_accumulation_steps: 16", "4", "", True),
        (
            "gradient_accumulation_steps: 1",
            "args.gradient_accumulation_steps",
            " --gradient_accumulation_steps 8",
            True,
        ),
        ("gradient_accumulation_steps: 4", "4", "", False),
        ("gradient_accumulation_steps: 16", "args.gradient_accumulation_steps", "", False),
        ("gradient_clipping: 1.0", "4", "", False),
    ],
)
def test_the_launcher_replaces_the_accumulation_that_the_code_asks_for(
    tmp_path: Path, written: str, count: str, flags: str, told: bool
) -> None:
    """The config's number reaches the Accelerator in the environment, which counts more than its argument."""
    config = f"distributed_type: DEEPSPEED\nnum_processes: 8\ndeepspeed_config:\n  zero_stage: 2\n  {written}\n"
    (tmp_path / "acc.yaml").write_text(config)
    (tmp_path / "train.py").write_text(_ACCUMULATES.replace("COUNT", count))
    (tmp_path / "run.sh").write_text(f"accelerate launch --config_file acc.yaml train.py{flags}\n")
    found = [each.severity for each in check([tmp_path]).findings if each.rule == "grad-accum-conflict"]
    assert found == (["error"] if told else [])


def test_accumulation_in_code_alone_is_what_the_plan_has(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(_ACCUMULATES.replace("COUNT", "4"))
    (tmp_path / "run.sh").write_text("accelerate launch --multi_gpu --num_processes 8 train.py\n")
    (run,) = read_runs([tmp_path], options_of()).runs
    assert run.plan.value("batch.accumulation") == 4


def test_behind_a_missing_value_the_program_and_its_flags_are_no_flags_of_the_launcher() -> None:
    found = launch("accelerate launch --num_processes train.py --gpus 4")
    assert members(found, "config.invalid", "key", "expected") == [("--num_processes", "a whole number")]
    assert members(found, "config.unknown", "key") == []
    strange = launch("accelerate launch --num_processes 8 --gpus 4 train.py")
    assert members(strange, "config.unknown", "key") == [("--gpus",)]


@pytest.mark.parametrize(("flags", "tensor"), [("--multi_gpu", "default"), ("--use_fsdp", "assumed")])
def test_a_config_in_the_home_folder_splits_nothing_under_multi_gpu(tmp_path: Path, flags: str, tensor: str) -> None:
    path = tmp_path / "run.sh"
    path.write_text(f"accelerate launch {flags} --num_processes 4 train.py\n")
    (run,) = read_runs([path], options_of()).runs
    split, compute = run.plan.get("parallel.tensor"), run.plan.get("precision.compute")
    assert isinstance(split, Value) and isinstance(compute, Value)
    assert (split.origin.kind, compute.origin.kind) == (tensor, "assumed")


@pytest.mark.parametrize(
    ("command", "more", "severity"),
    [
        ("accelerate launch --multi_gpu --num_processes 4 trl/scripts/sft.py --config sft.yaml", "", ["error"]),
        ("accelerate launch --multi_gpu --num_processes 4 trl/scripts/sft.py --config sft.yaml", "use_peft: true", []),
        # the config in the home folder may shard
        ("accelerate launch --num_processes 4 trl/scripts/sft.py --config sft.yaml", "", []),
    ],
)
def test_what_is_not_sharded_under_multi_gpu_has_to_fit(
    tmp_path: Path, command: str, more: str, severity: list[str]
) -> None:
    lines = ("model_name_or_path: Qwen/Qwen2.5-14B", "bf16: true", "gradient_checkpointing: true", "output_dir: out")
    (tmp_path / "sft.yaml").write_text("\n".join((*lines, "per_device_train_batch_size: 1", more)))
    (tmp_path / "run.sh").write_text(f"{command}\n")
    found = check([tmp_path], {"cluster.gpu": "RTX4090-24GB", "cluster.gpu_memory_gib": 24}).findings
    assert [each.severity for each in found if each.rule == "undersized-memory-oom"] == severity


class TestNamedGpus:
    """gpu_ids becomes CUDA_VISIBLE_DEVICES, and every machine starts num_processes // num_machines processes."""

    @pytest.mark.parametrize(
        ("line", "named"),
        [
            ("gpu_ids: 0,1,2", 3),
            ("gpu_ids: '5'", 1),
            ("gpu_ids: all", None),
            ("gpu_ids: 0,1\nuse_cpu: true", None),
        ],
    )
    def test_they_are_counted(self, line: str, named: int | None) -> None:
        found = claims(config(f"distributed_type: MULTI_GPU\nnum_machines: 2\nnum_processes: 4\n{line}\n"))
        assert found.get("launch.named_gpus") == named

    @pytest.mark.parametrize(
        ("flags", "told"),
        [
            ("--num_machines 1 --gpu_ids 0,1 --num_processes 4", ["error"]),
            ("--num_machines 1 --gpu_ids 0,1,2,3 --num_processes 4", []),
            ("--num_machines 1 --gpu_ids 0,1,2,3 --num_processes 3", []),
            ("--num_machines 1 --gpu_ids $IDS --num_processes 3", []),
            ("--num_machines 2 --gpu_ids 0,1,2,3 --num_processes 4", ["warning"]),
            ("--num_machines 2 --gpu_ids 0,1,2,3 --num_processes 8", []),
            ("--num_machines 2 --gpu_ids 0,1 --num_processes 8", ["error"]),
        ],
    )
    def test_each_process_needs_one(self, tmp_path: Path, flags: str, told: list[str]) -> None:
        command = f"CUDA_VISIBLE_DEVICES=0,1,2,3 accelerate launch --multi_gpu {flags}"
        (tmp_path / "run.sh").write_text(f"{command} --machine_rank $R --main_process_ip $H train.py\n")
        found = check([tmp_path]).findings
        assert [each.severity for each in found if each.rule == "num-processes-vs-machines"] == told
        assert not [each for each in found if each.rule in ("hostfile-slot-mismatch", "idle-gpus")]


@pytest.mark.parametrize(
    ("asked", "severities"),
    [("accelerate==0.10.0", []), ("accelerate>=0.17", ["note"]), ("accelerate==0.18.0", ["error"]), ("", ["error"])],
)
def test_the_beginning_of_a_name_is_refused_since_0_18(tmp_path: Path, asked: str, severities: list[str]) -> None:
    (tmp_path / "requirements.txt").write_text(asked + "\n")
    (tmp_path / "run.sh").write_text("accelerate launch --multi_gpu --num_machine 1 --num_processes 8 train.py\n")
    found = [each for each in check([tmp_path]).findings if each.rule == "unknown-setting"]
    assert [each.severity for each in found] == severities
    assert all("did you mean '--num_machines'" in each.message for each in found if each.severity == "error")


DIVIDES = """\
from accelerate import Accelerator
from net import Net, args, batches, optimizer

accelerator = Accelerator()
model, optimizer, batches = accelerator.prepare(Net(), optimizer, batches)
for step, batch in enumerate(batches):
    loss = model(batch).loss / args.gradient_accumulation_steps
    accelerator.backward(loss)
    optimizer.step()
    optimizer.zero_grad()
"""


@pytest.mark.parametrize(
    ("section", "lines"),
    [
        ("distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 2, gradient_accumulation_steps: 4}\n", [7]),
        ("distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 2, gradient_accumulation_steps: 1}\n", []),
        ("distributed_type: DEEPSPEED\ndeepspeed_config: {zero_stage: 2}\n", []),
        ("distributed_type: MULTI_GPU\n", []),
    ],
)
def test_deepspeed_divides_by_its_own_accumulation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, section: str, lines: list[int]
) -> None:
    (tmp_path / "acc.yaml").write_text(section + "num_processes: 8\nnum_machines: 1\n", encoding="utf-8")
    (tmp_path / "train.py").write_text(DIVIDES, encoding="utf-8")
    (tmp_path / "run.sh").write_text("accelerate launch --config_file acc.yaml train.py\n", encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert [each.span.line for each in check(["run.sh"]).findings if each.rule == "grad-accum-conflict"] == lines


DEGREES = """
from accelerate import ParallelismConfig
from transformers import AutoModelForCausalLM, Trainer, TrainingArguments
{built}
args = TrainingArguments(output_dir="out", per_device_train_batch_size=1, deepspeed="ds.json"{passed})
model = AutoModelForCausalLM.from_pretrained("Qwen/Qwen2.5-7B-Instruct")
Trainer(model=model, args=args, train_dataset=data).train()
"""
SHARDED = '{"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 3}}'


@pytest.mark.parametrize(
    ("built", "passed", "told"),
    [
        ("", ', parallelism_config=ParallelismConfig(sp_backend="deepspeed", sp_size=8)', True),
        ("degrees = ParallelismConfig(sp_size=8)", ", parallelism_config=degrees", True),
        ("", ', parallelism_config=ParallelismConfig(sp_backend="deepspeed", sp_size=4)', False),
        ("", ", parallelism_config=ParallelismConfig(cp_size=8)", False),
        ("if wanted():\n    degrees = ParallelismConfig(sp_size=8)", ", parallelism_config=degrees", False),
        ("", "", False),
    ],
)
def test_degrees_that_a_program_builds(tmp_path: Path, built: str, passed: str, told: bool) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / "train.py").write_text(DEGREES.format(built=built, passed=passed))
    (tmp_path / "ds.json").write_text(SHARDED)
    (tmp_path / "run.sh").write_text("accelerate launch --num_processes 8 train.py\n")
    rules = {finding.rule for finding in check([tmp_path / "run.sh"], {}).findings}
    assert ("heads-not-divisible" in rules) is told
