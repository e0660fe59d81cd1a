"""A DeepSpeed config file, read as claims about the plan, and how a setting is written in it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from readings import claims, members

from dtlint.api import check
from dtlint.catalog import deepspeed_keys
from dtlint.frameworks import AUTO, Reading
from dtlint.frameworks.deepspeed.config import home, looks_like_config, read_config, spell, spell_in
from dtlint.frameworks.deepspeed.edits import edits
from dtlint.languages.json import read_json
from dtlint.plan.vocabulary import vocabulary
from dtlint.source import Source
from dtlint.value import Unknown, Value


def config(text: str) -> Reading:
    return read_config(read_json(Source("ds.json", text)))


def test_config_of_a_zero_3_run() -> None:
    reading = config(
        """{
        "train_batch_size": 256, "train_micro_batch_size_per_gpu": 4, "gradient_accumulation_steps": 8,
        "gradient_clipping": 1.0, "bf16": {"enabled": true}, "communication_data_type": "fp32",
        "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}},
        "zero_optimization": {"stage": 3, "overlap_comm": true, "reduce_bucket_size": 5e8, "contiguous_gradients": true,
          "zero_hpz_partition_size": 8, "offload_optimizer": {"device": "cpu"}, "offload_param": {"device": "nvme"}},
        "tensor_parallel": {"autotp_size": 4}, "sequence_parallel_size": 2, "dataloader_drop_last": true
        }"""
    )
    assert claims(reading) == {
        "batch.global": 256,
        "batch.micro": 4,
        "batch.accumulation": 8,
        "data.drop_last": True,
        "optimizer.name": "adamw",
        "optimizer.clip": 1.0,
        "precision.compute": "bf16",
        "precision.reduce": "fp32",
        "sharding.stage": 3,
        "sharding.group": 8,
        "sharding.offload_optimizer": "cpu",
        "sharding.offload_parameters": "nvme",
        "parallel.ulysses": 2,
        "parallel.tensor": 4,
        "overlap.gradients": True,
        "overlap.parameters": True,
        "communication.bucket_bytes": 1_000_000_000,
        "communication.whole_buckets": True,
    }
    assert (reading.layer, reading.framework, reading.open) == ("deepspeed-json", "deepspeed", "")
    assert set(reading.collections) == {"config.keys", "config.newer"}


def test_claim_points_at_the_value() -> None:
    (claim,) = config('{\n  "train_batch_size": 32\n}').claims
    assert isinstance(claim.value, Value)
    span = claim.value.origin.span
    assert span is not None
    assert (span.text, span.line, span.column, claim.name) == ("32", 2, 23, "train_batch_size")


def test_auto_is_left_to_the_front_end() -> None:
    reading = config('{"train_batch_size": "auto", "bf16": {"enabled": "auto"}, "zero_optimization": {"stage": 2}}')
    assert claims(reading) == {"batch.global": AUTO, "precision.compute": AUTO, "sharding.stage": 2}
    assert members(reading, "config.auto", "path", "filled", "default") == [
        ("train_batch_size", "yes", ""),
        ("bf16.enabled", "yes", "false"),
    ]


@pytest.mark.parametrize(
    ("text", "compute"),
    [
        ('{"fp16": {"enabled": true}}', "fp16"),
        ('{"bfloat16": {"enabled": true}, "fp16": {"enabled": false}}', "bf16"),
        ('{"fp16": {"enabled": false}, "bf16": {"enabled": false}}', "fp32"),
        ('{"fp16": {"enabled": "auto"}, "bf16": {"enabled": false}}', AUTO),
        ('{"fp16": {"enabled": FP16}}', "placeholder FP16 is filled by another program"),
        ('{"bf16": {"enabled": "true"}}', "bf16"),
        ('{"fp16": {"loss_scale": 0}}', None),
        ('{"fp16": {"enabled": false}, "amp": {"enabled": true}}', "amp decides on the format"),
        ('{"bf16": {"enabled": false}, "torch_autocast": {"enabled": true}}', "torch_autocast decides on the format"),
        ('{"fp16": {"enabled": false}, "amp": {"enabled": false}}', "fp32"),
    ],
)
def test_format_of_the_matrix_products(text: str, compute: str | None) -> None:
    assert claims(config(text)).get("precision.compute") == compute


def test_that_nothing_is_cast_leaves_the_format_to_the_program() -> None:
    (claim,) = config('{"fp16": {"enabled": false}}').claims
    assert isinstance(claim.value, Value) and claim.value.origin.kind == "assumed"
    assert claim.value.origin.span is not None and claim.value.origin.span.text == "false"


@pytest.mark.parametrize(
    ("text", "bucket"),
    [
        ('{"bf16": {"enabled": true}, "zero_optimization": {"reduce_bucket_size": 2e8}}', 400_000_000),
        ('{"zero_optimization": {"reduce_bucket_size": 2e8}}', 800_000_000),
        (
            '{"bf16": {"enabled": true}, "data_types": {"grad_accum_dtype": "fp32"},'
            ' "zero_optimization": {"reduce_bucket_size": 2e8}}',
            800_000_000,
        ),
        ('{"bf16": {"enabled": "auto"}, "zero_optimization": {"reduce_bucket_size": 2e8}}', 400_000_000),
        ('{"zero_optimization": {"reduce_bucket_size": "auto"}}', AUTO),
        (
            '{"bf16": {"enabled": BF16}, "zero_optimization": {"reduce_bucket_size": 2e8}}',
            "the format of the gradients is not known",
        ),
    ],
)
def test_bucket_counts_elements_of_the_gradients_format(text: str, bucket: object) -> None:
    assert claims(config(text))["communication.bucket_bytes"] == bucket


@pytest.mark.parametrize(
    ("text", "stage"),
    [
        ('{"zero_optimization": {"stage": "2"}}', 2),
        ('{"zero_optimization": true}', 1),
        ('{"zero_optimization": {"stage": "auto"}}', AUTO),
        ('{"zero_optimization": {"stage": ZERO_STAGE}}', "placeholder ZERO_STAGE is filled by another program"),
        ('{"zero_optimization": {"stage": "5e8"}}', '"5e8" stands where a whole number is expected'),
        ('{"zero_optimization": {"stage": null}}', None),
    ],
)
def test_stage_as_deepspeed_takes_it(text: str, stage: object) -> None:
    assert claims(config(text)).get("sharding.stage") == stage


def test_what_has_no_effect_at_the_stage_is_listed_and_not_claimed() -> None:
    reading = config(
        '{"zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}, "stage3_max_live_parameters": 1e9,'
        ' "allgather_partitions": true, "offload_optimizer": {"device": "nvme"}}}'
    )
    assert claims(reading) == {"sharding.stage": 2, "sharding.offload_optimizer": "cpu"}
    assert members(reading, "config.inert", "key", "reason") == [
        ("offload_param", "it works at ZeRO stage 3 only, and the stage is 2"),
        ("stage3_max_live_parameters", "it works at ZeRO stage 3 only, and the stage is 2"),
        ("allgather_partitions", "nothing in DeepSpeed reads it"),
        ("device", "at stage 2 the optimizer goes to main memory, as with cpu"),
    ]


@pytest.mark.parametrize(
    ("text", "prefetch"),
    [
        ('{"zero_optimization": {"stage": 3, "stage3_max_live_parameters": 0}}', "none"),
        ('{"zero_optimization": {"stage": 3, "prefetch_bucket_size": 0.0}}', "none"),
        ('{"zero_optimization": {"stage": 3, "stage3_prefetch_bucket_size": 5e7}}', None),
        ('{"zero_optimization": {"stage": 2, "stage3_prefetch_bucket_size": 0}}', None),
    ],
)
def test_stage_3_without_prefetch(text: str, prefetch: str | None) -> None:
    assert claims(config(text)).get("sharding.prefetch") == prefetch


@pytest.mark.parametrize(
    ("keys", "spelled"),
    [
        ('"stage3_max_live_parameters": 0', '"stage3_max_live_parameters": 1000000000 in zero_optimization'),
        ('"prefetch_bucket_size": 0', '"prefetch_bucket_size": 50000000 in zero_optimization'),
        (
            '"stage3_prefetch_bucket_size": 0, "stage3_max_live_parameters": 0',
            '"stage3_prefetch_bucket_size": 50000000, "stage3_max_live_parameters": 1000000000 in zero_optimization',
        ),
        ('"overlap_comm": true', '"stage3_prefetch_bucket_size": 50000000 in zero_optimization'),
    ],
)
def test_a_prefetch_is_switched_on_by_the_keys_that_switch_it_off(keys: str, spelled: str) -> None:
    reading = config(f'{{"zero_optimization": {{"stage": 3, {keys}}}}}')
    assert spell_in(reading, "sharding.prefetch", "backward_pre") == spelled
    assert spell_in(reading, "sharding.stage", 2) == '"stage": 2 in zero_optimization'


def test_key_in_the_wrong_place_has_no_effect() -> None:
    reading = config('{"train_batch_size": 8, "cpu_offload": true, "flops_profiler": {"stage": 3}}')
    assert members(reading, "config.inert", "key", "reason") == [
        ("cpu_offload", "DeepSpeed reads it as zero_optimization.cpu_offload only"),
        ("stage", "DeepSpeed reads it as zero_optimization.stage only"),
    ]
    assert "config.unknown" not in reading.collections


@pytest.mark.parametrize(
    ("key", "matters"),
    [
        ('"overlap_comm": true', "yes"),
        ('"offload_optimizer": {"device": "cpu"}', "yes"),
        ('"reduce_bucket_size": 2e8', "no"),
        ('"contiguous_gradients": true', "no"),
        ('"contiguous_gradients": false', None),
    ],
)
def test_a_key_in_the_wrong_place_matters_if_it_asks_for_more_than_the_default(key: str, matters: str | None) -> None:
    """The size of a buffer changes little wherever it stands; what is switched off asks for nothing."""
    reading = config(f'{{"train_batch_size": 8, "zero_optimization": {{"stage": 2}}, {key}}}')
    assert members(reading, "config.inert", "matters") == ([(matters,)] if matters else [])


def test_what_depends_on_an_unknown_stage_is_claimed() -> None:
    reading = config('{"zero_optimization": {"stage": STAGE, "offload_param": {"device": "cpu"}}}')
    assert claims(reading)["sharding.offload_parameters"] == "cpu"
    assert "config.inert" not in reading.collections


@pytest.mark.parametrize(
    ("zero", "device", "matters"),
    [
        ('"cpu_offload": true', "cpu", "no"),
        ('"offload_optimizer": {"device": "cpu"}', "cpu", "no"),
        ('"cpu_offload": false', "cpu", "yes"),
        ('"offload_optimizer": {"device": "cpu"}', "nvme", "yes"),
        ('"cpu_offload": true', "nvme", "yes"),
    ],
)
def test_a_misplaced_section_changes_nothing_where_its_home_asks_for_the_same(
    zero: str, device: str, matters: str
) -> None:
    reading = config(f'{{"zero_optimization": {{"stage": 3, {zero}}}, "offload_optimizer": {{"device": "{device}"}}}}')
    assert members(reading, "config.inert", "key", "matters") == [("offload_optimizer", matters)]


def test_offload_that_is_off_is_no_slip() -> None:
    reading = config('{"zero_optimization": {"stage": 1, "offload_param": {"device": "none"}, "cpu_offload": true}}')
    assert claims(reading) == {"sharding.stage": 1, "sharding.offload_optimizer": "cpu"}
    assert "config.inert" not in reading.collections


@pytest.mark.parametrize(("device", "inert"), [("auto", []), ("none", []), ("cpu", [("offload_param", "yes")])])
def test_a_device_that_is_left_to_a_front_end_asks_for_no_offload(device: str, inert: list[tuple[str, str]]) -> None:
    reading = config(f'{{"zero_optimization": {{"stage": 1, "offload_param": {{"device": "{device}"}}}}}}')
    assert members(reading, "config.inert", "key", "matters") == inert


def test_unknown_keys_and_what_happens_to_them() -> None:
    reading = config(
        '{"zero_optimisation": {"stage": 2}, "zero_optimization": {"overlap_com": true, "aio": {}},'
        ' "bf16": {"loss_scale": 0}, "flops_profiler": {"enable": true}, "//dtlint": "x", "_comment": "y"}'
    )
    assert members(reading, "config.unknown", "section", "key", "effect", "suggestion", "belongs") == [
        ("", "zero_optimisation", "ignored", "zero_optimization", ""),
        ("zero_optimization", "overlap_com", "refused", "overlap_comm", ""),
        ("zero_optimization", "aio", "refused", "", "aio"),
        ("bf16", "loss_scale", "checked", "", "fp16.loss_scale"),
        ("flops_profiler", "enable", "ignored", "enabled", ""),
    ]


@pytest.mark.parametrize(
    ("fp16", "forbidden"), [('{"enabled": true}', "fp16.enabled"), ('{"enabled": false}', ""), ("{}", "")]
)
def test_a_name_is_not_to_be_mended_where_deepspeed_refuses_it_beside_another(fp16: str, forbidden: str) -> None:
    reading = config(f'{{"fp16": {fp16}, "bf16": {{"enable": true}}}}')
    assert members(reading, "config.unknown", "suggestion", "forbidden") == [("enabled", forbidden)]


@pytest.mark.parametrize(
    ("fp16", "remedy", "severity"),
    [
        ("true", "remove it: bf16 takes enabled, which DeepSpeed refuses beside fp16.enabled", "note"),
        ("false", "write enabled", "error"),
    ],
)
def test_a_misspelt_switch_is_not_to_be_mended_so_that_the_run_stops(
    tmp_path: Path, fp16: str, remedy: str, severity: str
) -> None:
    """Where the switch could not be on, the run is the same without it."""
    text = f'{{"train_batch_size": 8, "fp16": {{"enabled": {fp16}}}, "bf16": {{"enable": true}}}}'
    (tmp_path / "ds.json").write_text(text)
    (tmp_path / "requirements.txt").write_text("deepspeed==0.9.2\n")
    (found,) = [each for each in check([tmp_path]).findings if each.rule == "unknown-setting"]
    assert ([each.text for each in found.remedies], found.severity) == ([remedy], severity)


@pytest.mark.parametrize(
    ("value", "suggestion"),
    [
        ("{}", "checkpoint"),
        ('{"load_universal": true, "every": 5}', "checkpoint"),
        ('{"enabled": true, "keep": 5}', ""),
    ],
)
def test_a_section_is_a_slip_of_one_that_has_some_of_its_keys(value: str, suggestion: str) -> None:
    reading = config(f'{{"train_batch_size": 8, "checkpointing": {value}}}')
    assert members(reading, "config.unknown", "suggestion") == [(suggestion,)]


@pytest.mark.parametrize(
    ("key", "suggestion", "belongs"),
    [
        ("gradient_accumulation_dtype", "", "data_types.grad_accum_dtype"),
        ("grad_accumulation_dtype", "", "data_types.grad_accum_dtype"),
        ("parameter_dtype", "", "data_types.param_dtype"),
        ("gradient_accumulation_step", "gradient_accumulation_steps", ""),
        ("train_micro_batch_size_per_cpu", "train_micro_batch_size_per_gpu", ""),
        ("communication_data_types", "communication_data_type", ""),
        ("train_batch_time", "", ""),
    ],
)
def test_a_name_of_other_words_is_no_slip(key: str, suggestion: str, belongs: str) -> None:
    """dtype is no slip of steps; grad and accum are gradient and accumulation cut short."""
    reading = config(f'{{"train_batch_size": 8, "{key}": "fp32"}}')
    assert members(reading, "config.unknown", "suggestion", "belongs") == [(suggestion, belongs)]


def test_a_block_of_unknown_keys_is_one_finding() -> None:
    reading = config(
        '{"bf16": {"enabled": true, "loss_scale": 0, "enabeld": true, "hysteresis": 2, "mine": 1}, "fp16": {"own": 1},'
        ' "compile": {"backend": "inductor", "kwargs": {}}}'
    )
    assert members(reading, "config.unknown", "section", "key", "suggestion", "belongs", "since") == [
        ("bf16", "enabeld", "enabled", "", "0.17.1"),
        ("bf16", "loss_scale', 'hysteresis', 'mine", "", "", "0.17.1"),
        ("fp16", "own", "", "", "0.17.1"),
        ("compile", "backend', 'kwargs", "", "", "0.16.6"),
    ]


def test_free_sections_and_short_stage_3_names_are_known() -> None:
    reading = config(
        '{"optimizer": {"type": "Lion", "params": {"betas": [0.9, 0.99], "odd": 1}},'
        ' "zero_optimization": {"stage": 3, "max_live_parameters": 0}}'
    )
    assert "config.unknown" not in reading.collections
    assert ("zero_optimization.stage3_max_live_parameters", 0) in members(reading, "config.keys", "path", "value")
    assert ("optimizer.params.odd", 1) in members(reading, "config.keys", "path", "value")


def test_removed_key_tells_its_last_release_and_what_to_write_instead() -> None:
    reading = config('{"elasticity": {"enabled": false}, "aio": {"thread_count": 4}}')
    assert members(reading, "config.removed", "key", "last", "instead", "effect") == [
        ("elasticity", "0.19.7", "", "refused"),
        ("thread_count", "0.15.4", "intra_op_parallelism", "ignored"),
    ]


def test_an_ignored_old_name_beside_its_new_one_loses_nothing() -> None:
    both = '{"aio": {"thread_count": 4, "intra_op_parallelism": 4}}'
    assert "config.removed" not in config(both).collections
    elsewhere = '{"aio": {"thread_count": 4}, "zero_optimization": {"intra_op_parallelism": 4}}'
    assert members(config(elsewhere), "config.removed", "key") == [("thread_count",)]


@pytest.mark.parametrize(
    ("text", "expected", "effect"),
    [
        ('{"train_batch_size": "32"}', "a whole number above 0 without quotes", "refused"),
        ('{"train_batch_size": 3.2e1}', "a whole number, written without a point or exponent", "fragile"),
        ('{"gradient_accumulation_steps": 0}', "a whole number above 0", "refused"),
        ('{"gradient_clipping": "1.0"}', "a number without quotes", "refused"),
        ('{"zero_optimization": {"stage": 4}}', "a stage from 0 to 3", "refused"),
        ('{"zero_optimization": {"reduce_bucket_size": "5e8"}}', "a whole number above 0", "refused"),
        ('{"zero_optimization": {"reduce_bucket_size": 0}}', "a whole number above 0", "refused"),
        ('{"zero_optimization": {"overlap_comm": "maybe"}}', "true or false", "refused"),
        ('{"zero_optimization": {"overlap_comm": [1]}}', "true or false", "refused"),
        ('{"zero_optimization": {"reduce_bucket_size": null}}', "a whole number above 0", "refused"),
        ('{"zero_optimization": {"reduce_bucket_size": true}}', "a whole number above 0", "misread"),
        ('{"zero_optimization": {"sub_group_size": -1}}', "a whole number of at least 0", "refused"),
        ('{"zero_optimization": {"zenflow": {"topk_ratio": 1.0}}}', "a number above 0 and below 1", "refused"),
        ('{"zero_optimization": {"offload_optimizer": {"device": "gpu"}}}', "one of none, cpu, nvme", "refused"),
        ('{"zero_optimization": {"offload_optimizer": {"device": "CPU"}}}', "one of none, cpu, nvme", "refused"),
        ('{"zero_optimization": {"offload_optimizer": {"device": "nvme", "nvme_path": 5}}}', "a text", "refused"),
        ('{"fp16": {"loss_scale": true}}', "a number of at least 0", "refused"),
        ('{"fp16": null}', "an object", "refused"),
        ('{"wall_clock_breakdown": "false"}', "true or false", "refused"),
        ('{"checkpoint": {"tag_validation": "never"}}', "one of warn, ignore, fail", "refused"),
        ('{"compile": {"passes": ["z2"]}}', "a list of z1, z3, autosp, autotp", "refused"),
        ('{"comms_logger": {"prof_ops": "all_reduce"}}', "a list", "refused"),
        ('{"data_types": {"keep_in_fp32_modules": ["norm", 1]}}', "a list of texts", "refused"),
        ('{"expert_parallel": {"load_balance_coeff": 0.1}}', "no value in a file", "refused"),
        ('{"bf16": {"enabled": 1}, "fp16": {"enabled": "true"}}', "one of fp16 and bf16", "refused"),
        ('{"bfloat16": {"enabled": true}, "fp16": {"enabled": true}}', "one of fp16 and bf16", "refused"),
        (
            '{"tensor_parallel": {"kernel_inject": false, "replace_with_kernel_inject": false}}',
            "one of the names of tensor_parallel.kernel_inject",
            "refused",
        ),
        ('{"zero_optimization": 2}', "an object", "refused"),
        ('{"communication_data_type": "float16"}', "one of fp16, bf16, fp32", "refused"),
        (
            '{"memory_breakdown": "false"}',
            "true or false without quotes (a text is true whatever it says)",
            "misread",
        ),
        ('{"fp16": {"enabled": true}, "bf16": {"enabled": true}}', "one of fp16 and bf16", "refused"),
        (
            '{"zero_optimization": {"stage3_max_live_parameters": 1, "max_live_parameters": 2}}',
            "one of the names of zero_optimization.stage3_max_live_parameters",
            "refused",
        ),
        (
            '{"zero_optimization": {"cpu_offload": true, "offload_optimizer": {"device": "cpu"}}}',
            "one of the names of zero_optimization.offload_optimizer",
            "refused",
        ),
    ],
)
def test_value_that_deepspeed_does_not_take(text: str, expected: str, effect: str) -> None:
    assert members(config(text), "config.invalid", "expected", "effect") == [(expected, effect)]


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ('{"bf16": {"enabled": true}, "fp16": {"enabled": true}}', "error"),
        ('{"fp16": {"fp16_master_weights_and_grads": true}, "zero_optimization": {"stage": 0}}', "error"),
        ('{"bf16": {"bf16_optimizer_states": true}, "zero_optimization": {"stage": 1}}', "note"),
        ('{"bf16": {"enabled": "yes indeed"}}', "note"),
    ],
)
def test_what_is_refused_together_is_older_than_the_check_of_the_sections_types(
    tmp_path: Path, text: str, severity: str
) -> None:
    """DeepSpeed looked at both formats before it checked the types of either section (0.17.1)."""
    (tmp_path / "ds.json").write_text('{"train_batch_size": 8, ' + text[1:])
    (found,) = [each for each in check([tmp_path]).findings if each.rule == "setting-type"]
    assert found.severity == severity


@pytest.mark.parametrize(
    "text",
    [
        '{"train_batch_size": 32, "zero_optimization": {"stage": "2", "reduce_bucket_size": 5e8, "overlap_comm": "y"}}',
        '{"train_batch_size": SIZE, "gradient_clipping": "auto", "zero_optimization": {"offload_optimizer": {}}}',
        '{"bf16": null, "aio": null, "zero_optimization": {"overlap_comm": null, "zenflow": null}}',
        '{"bf16": {"enabled": false}, "bfloat16": {"enabled": true}, "fp16": {"enabled": true}}',
        '{"zero_optimization": {"stage": "2.0", "overlap_comm": 1.0, "reduce_bucket_size": " 1000 "}}',
        '{"zero_optimization": {"leaf_module": {"classes": "Block"}}, "checkpoint": {"tag_validation": "FAIL"}}',
        '{"tensor_parallel": {"tensor_parallel": {"tp_size": 2}}, "data_types": {"grad_accum_dtype": "float32"}}',
        '{"communication_data_type": "FP32", "steps_per_print": null, "fp16": {"min_loss_scale": 2}}',
    ],
)
def test_value_that_deepspeed_takes(text: str) -> None:
    assert "config.invalid" not in config(text).collections


@pytest.mark.parametrize(
    ("text", "key", "expected"),
    [
        (
            '{"gradient_allreduce_op": "SUM", "zero_optimization": {"stage": 3}}',
            "gradient_allreduce_op",
            "mean at ZeRO stage 3",
        ),
        (
            '{"bf16": {"bf16_optimizer_states": true}, "zero_optimization": {"stage": 1}}',
            "bf16_optimizer_states",
            "false without bf16_master_weights_and_grads",
        ),
        ('{"zero_optimization": {"compute_grad_norm": false}}', "compute_grad_norm", "true at ZeRO stages 0 and 3"),
        (
            '{"zero_optimization": {"stage": 2, "offload_optimizer": {"ratio": 0.5}}}',
            "ratio",
            "1 below ZeRO stage 3 (a part of the states is offloaded at stage 3 only)",
        ),
        (
            '{"fp16": {"enabled": true, "loss_scale_window": 0}}',
            "loss_scale_window",
            "a whole number above 0 with the dynamic loss scale (loss_scale 0)",
        ),
        (
            '{"prescale_gradients": true, "zero_optimization": {"stage": 2}}',
            "prescale_gradients",
            "false at ZeRO stages 2 and 3 with reduce_scatter",
        ),
    ],
)
def test_settings_that_deepspeed_refuses_together(text: str, key: str, expected: str) -> None:
    assert members(config(text), "config.invalid", "key", "expected", "effect") == [(key, expected, "refused")]


@pytest.mark.parametrize(
    "text",
    [
        '{"gradient_allreduce_op": "sum", "zero_optimization": {"stage": 2}}',
        '{"gradient_allreduce_op": "sum", "zero_optimization": {"stage": STAGE}}',
        '{"bf16": {"bf16_optimizer_states": true, \ue000}, "zero_optimization": {"stage": 1}}',
        '{"fp16": {"enabled": true, "loss_scale": 128, "loss_scale_window": 0}}',
        '{"fp16": {"fp16_master_weights_and_grads": true}, "zero_optimization": true}',
        '{"prescale_gradients": true, "zero_optimization": {"stage": 2, "reduce_scatter": false}}',
    ],
)
def test_settings_that_go_together(text: str) -> None:
    assert "config.invalid" not in config(text).collections


@pytest.mark.parametrize(
    ("section", "found"),
    [
        ('{"enabled": true}', [("comms_logger.enabled", "blocks")]),
        ('{"enabled": false}', [("comms_logger", "blocks")]),
        ("{}", [("comms_logger", "blocks")]),
    ],
)
def test_section_of_the_communication_logger_turns_it_on(section: str, found: list[tuple[str, str]]) -> None:
    reading = config(f'{{"comms_logger": {section}}}')
    assert members(reading, "launch.debugging", "name", "effect") == found


def test_comments_are_keys_like_others_in_sections_that_deepspeed_checks() -> None:
    reading = config('{"_note": "a", "//": "b", "zero_optimization": {"_note": "c", "//": "d"}}')
    assert members(reading, "config.unknown", "section", "key", "effect") == [
        ("zero_optimization", "_note', '//", "refused"),
    ]


def test_section_under_its_other_name_has_the_same_keys() -> None:
    assert claims(config('{"bfloat16": {"enabled": true}}'))["precision.compute"] == "bf16"
    unknown = members(config('{"bfloat16": {"enabled": true, "loss_scale": 0}}'), "config.unknown", "section", "key")
    assert unknown == [("bf16", "loss_scale")]


@pytest.mark.parametrize(
    ("text", "absent"),
    [
        ('{"gradient_accumulation_steps": 4, "train_batch_size": null}', True),
        ('{"train_batch_size": "auto"}', False),
        ('{"train_micro_batch_size_per_gpu": SIZE}', False),
        ('{"zero_optimization": {}, \ue000}', False),
    ],
)
def test_config_without_a_batch(text: str, absent: bool) -> None:
    assert ("config.absent" in config(text).collections) is absent


@pytest.mark.parametrize(
    ("text", "is_open"),
    [
        ('{"train_batch_size": 32, \ue000}', True),
        ('{"zero_optimization": {"stage": 2 \ue000}}', True),
        ("\ue000", True),
        ('{"train_batch_size": \ue000}', False),
    ],
)
def test_config_that_a_script_fills_with_unknown_keys_is_open(text: str, is_open: bool) -> None:
    assert config(text).open == ("a variable of the script may add keys" if is_open else "")


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ('{"zero_optimization": {}}', True),
        ('{"train_batch_size": 8, "zero_optimisation": {}, "fp16": {"enabled": true}}', True),
        ('{"gradient_accumulation_steps": 2, "fp16": true}', False),
        (
            '{"train_batch_size": 8, "gradient_accumulation_steps": 4, "fp16": 1, "num_train_epochs": 2, "optim": "adamw", '
            '"learning_rate": 5e-5, "output_dir": "out"}',
            False,
        ),
        (
            '{"train_batch_size": 8, "gradient_accumulation_steps": 4, "fp16": {"enabled": true}, "my_note": "x", "my_other": 1}',
            True,
        ),
        ('{"model_type": "llama", "hidden_size": 4096}', False),
        ('{"pipe-parallel-size": 2, "zero_optimization": {"stage": 1}}', False),
        ("[1]", False),
        ("", False),
    ],
)
def test_looks_like_config(text: str, answer: bool) -> None:
    assert looks_like_config(read_json(Source("x.json", text))) is answer


SCALARS = st.sampled_from(["auto", "cpu", "2", "", None, True, 0, -1, 3, 5e8, 0.5, 10**30])
TREES = st.recursive(
    SCALARS,
    lambda inner: st.dictionaries(st.sampled_from([key.name for key in deepspeed_keys()]), inner, max_size=4),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([key.name for key in deepspeed_keys() if not key.section]), TREES))
@settings(max_examples=40, deadline=None)
def test_any_mixture_of_keys_and_values_is_read(data: dict[str, object]) -> None:
    reading = config(json.dumps(data))
    for claim in reading.claims:
        assert claim.setting in vocabulary()
        assert isinstance(claim.value, Unknown) or claim.value.origin.span is not None  # type: ignore[union-attr]


def test_not_an_object_claims_nothing() -> None:
    assert config("[1, 2]").claims == ()
    assert config("").claims == ()


@pytest.mark.parametrize(
    ("setting", "value", "spelled"),
    [
        ("overlap.gradients", True, '"overlap_comm": true in zero_optimization'),
        ("sharding.stage", 1, '"stage": 1 in zero_optimization'),
        ("sharding.offload_optimizer", "none", '"device": "none" in zero_optimization.offload_optimizer'),
        ("batch.micro", 2, '"train_micro_batch_size_per_gpu": 2'),
        ("communication.bucket_bytes", 100_000_000, '"reduce_bucket_size": 50000000 in zero_optimization'),
        ("precision.compute", "bf16", '"bf16": {"enabled": true}'),
        ("sharding.prefetch", "backward_pre", '"stage3_prefetch_bucket_size": 50000000 in zero_optimization'),
        ("launch.nodes", 4, "--num_nodes 4"),
        ("parallel.pipeline", 2, None),
    ],
)
def test_spell(setting: str, value: int | str | bool, spelled: str | None) -> None:
    assert spell(setting, value) == spelled


@pytest.mark.parametrize(
    ("setting", "place"),
    [
        ("overlap.gradients", '"zero_optimization"'),
        ("sharding.offload_optimizer", None),
        ("batch.micro", None),
    ],
)
def test_home_is_the_section_that_would_hold_the_setting(setting: str, place: str | None) -> None:
    reading = config('{"zero_optimization": {"stage": 2}}')
    found = home(reading, setting)
    assert found is not None
    assert found.text == (place or '{"zero_optimization": {"stage": 2}}')


def edited(text: str, setting: str, value: bool | int | str) -> str:
    source = Source("ds.json", text, Path("ds.json"))
    for edit in edits(read_config(read_json(source)), setting, value):
        text = text[: edit.span.start] + edit.text + text[edit.span.end :]
    return text


@pytest.mark.parametrize(
    ("text", "setting", "value", "result"),
    [
        ('{"train_batch_size": 8}', "batch.global", 16, '{"train_batch_size": 16}'),
        ('{"zero_optimization": {"stage": 2}}', "sharding.stage", 1, '{"zero_optimization": {"stage": 1}}'),
        (
            '{\n  "zero_optimization": {\n    "stage": 2\n  }\n}',
            "overlap.gradients",
            True,
            '{\n  "zero_optimization": {\n    "overlap_comm": true,\n    "stage": 2\n  }\n}',
        ),
        ('{"a": 1}', "sharding.stage", 3, '{"zero_optimization": {"stage": 3}, "a": 1}'),
        ("{}", "sharding.offload_optimizer", "cpu", '{"zero_optimization": {"offload_optimizer": {"device": "cpu"}}}'),
        ('{"zero_optimization": {}}', "sharding.stage", 1, '{"zero_optimization": {"stage": 1}}'),
        ('{"train_batch_size": 8}', "parallel.pipeline", 2, '{"train_batch_size": 8}'),
    ],
)
def test_edits_write_a_setting(text: str, setting: str, value: bool | int | str, result: str) -> None:
    assert edited(text, setting, value) == result


@pytest.mark.parametrize(
    ("text", "since", "earlier"),
    [
        ('{"zero_optimization": {"stage3_prefetch_bucket_size": 943718.4}}', "0.15.0", "cut off its fraction"),
        ('{"tensorboard": {"job_name": 7}}', "0.15.0", "make a text of it"),
        ('{"fp16": {"min_loss_scale": 0.5}}', "0.17.1", "do not look"),
        ('{"zero_optimization": {"reduce_bucket_size": 0.5}}', "0.7.0", "do not look"),
        ('{"zero_optimization": {"reduce_bucket_size": "5e8"}}', "0.7.0", "do not look"),
    ],
)
def test_from_which_release_on_a_value_is_refused(text: str, since: str, earlier: str) -> None:
    assert members(config(text), "config.invalid", "since", "earlier", "effect") == [(since, earlier, "refused")]


@pytest.mark.parametrize(
    ("pin", "severity"), [("", ["note"]), ("deepspeed==0.14.5", []), ("deepspeed>=0.15.1", ["error"])]
)
def test_a_fraction_of_a_count_stops_by_the_release(tree, pin: str, severity: list[str]) -> None:
    batch = '"train_micro_batch_size_per_gpu": 2'
    text = f'{{{batch}, "zero_optimization": {{"stage": 3, "stage3_prefetch_bucket_size": 943718.4}}}}'
    tree({"ds.json": text, "requirements.txt": f"{pin}\n"})
    assert [each.severity for each in check([Path()]).findings if each.rule == "setting-type"] == severity


@pytest.mark.parametrize("key", ["stage3_max_live_parameters", "stage3_prefetch_bucket_size", "prefetch_bucket_size"])
@pytest.mark.parametrize(("model", "severity"), [("facebook/opt-1.3b", "warning"), ("Qwen/Qwen2-72B", "note")])
def test_what_switches_prefetching_off_is_told_and_mended_where_it_stands(tree, key, model, severity) -> None:
    """A model of large matrices is not fetched ahead by the default bucket either."""
    units = f'"zero_optimization": {{"stage": 3,\n "{key}": 0}}'
    config = f'{{"train_micro_batch_size_per_gpu": 1, "bf16": {{"enabled": true}},\n {units}}}'
    launch = f"deepspeed --num_gpus 8 train.py --deepspeed_config ds.json --model_name_or_path {model}\n"
    tree({"ds.json": config, "run.sh": launch})
    (found,) = (each for each in check(["run.sh", "ds.json"]).findings if each.rule == "no-overlap")
    assert (found.severity, found.span.path, found.span.line) == (severity, "ds.json", 3)
    assert found.remedies[0].text.startswith(f'"{key}": ')
