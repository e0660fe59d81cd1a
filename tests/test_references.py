"""Models that answer beside the one that trains: who keeps them, what they take of the memory and of the step."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

import dtlint
from dtlint.api import check
from dtlint.cost import Estimate
from dtlint.facts import fact
from dtlint.plan import Plan
from dtlint.runs import Options, read_runs
from dtlint.value import Plain, Unknown, Value

EIGHT_BILLION: dict[str, Plain] = {
    "model.name": "meta-llama/Llama-3.1-8B",
    "cluster.gpu": "H100-SXM-80GB",
    "parallel.world_size": 8,
    "batch.micro": 1,
    "batch.global": 8,
    "data.sequence_length": 1024,
    "precision.compute": "bf16",
    "checkpointing.activations": "full",
    "framework": "deepspeed",
    "sharding.stage": 2,
}
WEIGHTS = 16.06e9
"""Two bytes for each of its parameters."""
ZERO_2 = """{"train_micro_batch_size_per_gpu": "auto", "gradient_accumulation_steps": "auto",
"bf16": {"enabled": true}, "zero_optimization": {"stage": 2}}"""


def priced(**settings: Plain) -> Estimate:
    named = {name.replace("__", "."): value for name, value in settings.items()}
    found = dtlint.estimate(Plan.of(EIGHT_BILLION | named))
    assert isinstance(found, Estimate)
    return found


def ends(found: Estimate) -> tuple[float, float]:
    return found.low.memory.parts["reference"], found.high.memory.parts["reference"]


def plan_of(folder: Path, script: str, **files: str) -> Plan:
    (folder / "ds.json").write_text(ZERO_2)
    for name, text in {"run__sh": script, **files}.items():
        (folder / name.replace("__", ".")).write_text(dedent(text))
    (run,) = read_runs([folder / "run.sh"], Options()).runs
    return run.plan


def copies(plan: Plan) -> object:
    """The copies as a number, with `assumed` where they are taken for lack of better; None where they are unknown."""
    found = plan.get("model.reference_copies")
    if isinstance(found, Unknown):
        return None
    return "assumed" if found.origin.kind == "assumed" else found.value


class TestMemory:
    def test_each_gpu_has_a_whole_reference_below_stage_3(self) -> None:
        assert ends(priced()) == (0.0, 0.0)
        low, high = ends(priced(model__reference_copies=1))
        assert low == high == pytest.approx(WEIGHTS, rel=0.01)
        more = priced(model__reference_copies=1).memory.peak_bytes - priced().memory.peak_bytes
        assert more == pytest.approx(WEIGHTS, rel=0.01)

    def test_zero_3_shares_the_reference_out(self) -> None:
        low, high = ends(priced(model__reference_copies=1, sharding__stage=3))
        assert low == high == pytest.approx(WEIGHTS / 8, rel=0.01)

    def test_what_zero_3_offloads_it_offloads_of_the_reference_too(self) -> None:
        away: dict[str, Plain] = {"sharding__stage": 3, "sharding__offload_parameters": "cpu"}
        found, without = priced(model__reference_copies=1, **away), priced(**away)
        assert ends(found) == (0.0, 0.0)
        assert found.memory.host_bytes - without.memory.host_bytes == pytest.approx(WEIGHTS / 8, rel=0.01)

    def test_releases_differ_on_what_fsdp_does_with_it(self) -> None:
        low, high = ends(priced(model__reference_copies=1, framework="fsdp", sharding__stage=3))
        assert low == pytest.approx(WEIGHTS / 8, rel=0.01)
        assert high == pytest.approx(2 * WEIGHTS, rel=0.01)  # whole, in fp32

    def test_the_states_of_the_model_that_trains_are_named_without_it(self) -> None:
        assert priced(model__reference_copies=1).memory.states_bytes == priced().memory.states_bytes

    def test_its_forward_passes_take_time(self) -> None:
        one, two, none = priced(model__reference_copies=1), priced(model__reference_copies=2), priced()
        assert none.step.reference == 0
        assert 0.1 < one.step.reference / none.step.compute < 0.4
        assert two.step.reference == pytest.approx(2 * one.step.reference)
        assert one.step_seconds == pytest.approx(none.step_seconds + one.step.reference)


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, 0),
        ({"model.reference": "none"}, 0),
        ({"model.reference": "copy", "model.lora_rank": 8}, 1),
        ({"model.reference": "adapters-off", "model.lora_rank": 0}, 1),
        ({"model.reference": "adapters-off", "model.lora_rank": 8}, 0),
        ({"model.reference": "adapters-off"}, None),
        ({"model.reference": "by-weight", "model.lora_rank": 0}, None),
        ({"model.reference": "by-weight", "model.lora_rank": 0, "model.reference_weight": 0.04}, 1),
        ({"model.reference": "by-weight", "model.lora_rank": 0, "model.reference_weight": 0.0}, 0),
        ({"model.reference": "by-weight", "model.lora_rank": 0, "frontend": "trl", "version.trl": "0.17.0"}, 1),
        ({"model.reference": "by-weight", "model.lora_rank": 0, "frontend": "trl", "version.trl": "0.20.0"}, 0),
        ({"model.reference": "by-weight", "model.lora_rank": 0, "frontend": "trl"}, None),
        ({"model.reference": "further"}, "assumed"),
    ],
)
def test_what_follows_for_the_copies(settings: dict[str, Plain], expected: object) -> None:
    assert copies(Plan.of(settings)) == expected


@pytest.mark.parametrize(("version", "expected"), [("", None), ("0.24.0", 0), ("1.0.0", 1), (">=0.20", None)])
def test_answers_that_are_there_beforehand_need_no_copy_in_early_releases(version: str, expected: object) -> None:
    told: dict[str, Plain] = {
        "model.reference": "adapters-off",
        "model.lora_rank": 0,
        "model.reference_precomputed": True,
    }
    assert copies(Plan.of(told | ({"version.trl": version} if version else {}))) == expected


def test_an_estimate_spans_what_is_open() -> None:
    open_weight = priced(model__reference="by-weight", model__lora_rank=0)
    assert ends(open_weight) == pytest.approx((0.0, WEIGHTS), rel=0.01)
    assert "model.reference_copies" in open_weight.assumed
    assert ends(priced(model__reference="further")) == pytest.approx((0.0, 2 * WEIGHTS), rel=0.01)


LLAMA_FACTORY = """\
    model_name_or_path: meta-llama/Llama-3.1-8B
    do_train: true
    deepspeed: ds.json
    dataset: preferences
    template: llama3
    cutoff_len: 1024
    output_dir: out
    per_device_train_batch_size: 1
    gradient_accumulation_steps: 8
    bf16: true
    """


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("stage: sft\nfinetuning_type: full", 0),
        ("stage: dpo\nfinetuning_type: full", 1),
        ("stage: dpo\nfinetuning_type: freeze", 1),
        ("stage: dpo\nfinetuning_type: lora", 0),
        ("stage: dpo", 0),
        ("stage: dpo\nfinetuning_type: full\npref_loss: orpo", 0),
        ("stage: dpo\nfinetuning_type: full\npref_loss: simpo", 0),
        ("stage: dpo\nfinetuning_type: full\npref_loss: ipo", 1),
        ("stage: dpo\nfinetuning_type: lora\nref_model: meta-llama/Llama-3.1-8B", 1),
        ("stage: dpo\nfinetuning_type: full\nref_model: somebody/other", None),
        ("stage: kto\nfinetuning_type: full", 1),
        ("stage: rm\nfinetuning_type: full", 0),
        ("stage: ppo\nfinetuning_type: lora\nreward_model: r", 0),
        ("stage: ppo\nfinetuning_type: full\nreward_model: r\nreward_model_type: full", "assumed"),
    ],
)
def test_llama_factory_by_its_stage(tmp_path: Path, keys: str, expected: object) -> None:
    script = "FORCE_TORCHRUN=1 NPROC_PER_NODE=8 llamafactory-cli train train.yaml"
    plan = plan_of(tmp_path, script, train__yaml=dedent(LLAMA_FACTORY) + keys)
    assert plan.word("frontend") == "llama-factory"
    assert copies(plan) == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("dpo", 1),
        ("dpo --use_peft --lora_r 16", 0),
        ("dpo --precompute_ref_log_probs", 1),  # the script loads it all the same
        ("kto --use_peft --lora_r 16", 1),
        ("grpo --beta 0.04", 1),
        ("grpo --beta 0.0", 0),
        ("grpo", None),
        ("sft", 0),
        ("reward", 0),
    ],
)
def test_trls_commands(tmp_path: Path, arguments: str, expected: object) -> None:
    common = "--accelerate_config zero2 --model_name_or_path meta-llama/Llama-3.1-8B --output_dir out --bf16"
    plan = plan_of(tmp_path, f"trl {arguments} {common} --per_device_train_batch_size 1")
    assert copies(plan) == expected


TRAINER = """\
    import torch
    from peft import LoraConfig
    from transformers import AutoModelForCausalLM
    from trl import {names}

    name = "meta-llama/Llama-3.1-8B"
    model = AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.bfloat16)
    {before}
    args = {config}(output_dir="out", per_device_train_batch_size=1, bf16=True, deepspeed="ds.json"{options})
    trainer = {trainer}({arguments}, args=args, train_dataset=load())
    trainer.train()
    """


def trained(folder: Path, trainer: str, arguments: str = "model", before: str = "", options: str = "") -> Plan:
    config = trainer.replace("Trainer", "Config")
    text = dedent(TRAINER).format(
        names=f"{trainer}, {config}, create_reference_model",
        trainer=trainer,
        config=config,
        arguments=arguments,
        before=before,
        options=options,
    )
    return plan_of(folder, "torchrun --nproc_per_node 8 train.py", train__py=text)


_AGAIN = "ref = AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.bfloat16)"


@pytest.mark.parametrize(
    ("trainer", "arguments", "before", "options", "expected"),
    [
        ("DPOTrainer", "model", "", "", 1),
        ("DPOTrainer", "model, None", "", "", 1),
        ("DPOTrainer", "model, ref_model=None", "", ", precompute_ref_log_probs=True", None),
        ("DPOTrainer", "model, ref", _AGAIN, "", 1),
        ("DPOTrainer", "model, ref", _AGAIN, ", precompute_ref_log_probs=True", 1),
        ("DPOTrainer", "model, ref", "ref = create_reference_model(model)", "", 1),
        ("DPOTrainer", "model, ref", _AGAIN.replace("(name", "('somebody/other'"), "", None),
        ("DPOTrainer", "model, ref", "ref = made_elsewhere()", "", None),
        ("DPOTrainer", "model, peft_config=adapters", "adapters = LoraConfig(r=8)", "", 0),
        ("KTOTrainer", "model", "", "", 1),
        ("GRPOTrainer", "model, reward_funcs=good", "", ", beta=0.04", 1),
        ("GRPOTrainer", "model, reward_funcs=good", "", ", beta=0.0", 0),
        ("GRPOTrainer", "model, reward_funcs=good", "", "", None),
        ("ORPOTrainer", "model", "", "", 0),
        ("CPOTrainer", "model", "", "", 0),
        ("SFTTrainer", "model", "", "", 0),
        ("PPOTrainer", "model, reward_model=judge", "", "", "assumed"),
    ],
)
def test_trls_trainers(
    tmp_path: Path, trainer: str, arguments: str, before: str, options: str, expected: object
) -> None:
    plan = trained(tmp_path, trainer, arguments, before, options)
    assert copies(plan) == expected


def test_a_model_that_is_loaded_twice_by_one_name_is_known(tmp_path: Path) -> None:
    assert trained(tmp_path, "DPOTrainer", "model, ref", _AGAIN).value("model.layers") == 32


@pytest.mark.parametrize(
    ("trainer", "body", "expected"),
    [
        ("DPOTrainer", "def log(self, values): pass", 1),
        ("DPOTrainer", "def __init__(self, *args, **kwargs): super().__init__(*args, **kwargs)", None),
        ("SFTTrainer", "def __init__(self, *args, **kwargs): super().__init__(*args, **kwargs)", 0),
    ],
)
def test_trainers_of_the_programs_own(tmp_path: Path, trainer: str, body: str, expected: object) -> None:
    config = trainer.replace("Trainer", "Config")
    text = f"""\
        from transformers import AutoModelForCausalLM
        from trl import {trainer}, {config}

        class Own({trainer}):
            {body}

        model = AutoModelForCausalLM.from_pretrained("meta-llama/Llama-3.1-8B")
        args = {config}(output_dir="out", per_device_train_batch_size=1, bf16=True, deepspeed="ds.json")
        Own(model, args=args, train_dataset=load()).train()
        """
    assert copies(plan_of(tmp_path, "torchrun --nproc_per_node 8 train.py", train__py=text)) == expected


def test_which_of_several_trainers_runs_is_not_known(tmp_path: Path) -> None:
    choosing = "from trl import SFTTrainer\n    if preferred():\n        SFTTrainer(model)"
    plan = trained(tmp_path, "DPOTrainer", "model", choosing.replace("\n    ", "\n"))
    assert copies(plan) is None


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("", 0),
        ("rl: dpo", 1),
        ("rl: ipo", 1),
        ("rl: kto", 1),
        ("rl: orpo", 0),
        ("rl: simpo", 0),
        ("rl: dpo\nadapter: lora\nlora_r: 8", 0),
        ("rl: dpo\nadapter: lora\nlora_r: 8\nrl_adapter_ref_model: true", 1),
        ("rl: grpo\ntrl:\n  beta: 0.001", 1),
        ("rl: grpo\ntrl:\n  beta: 0", 0),
        ("rl: grpo", None),
        ("rl: ${KIND}", None),
    ],
)
def test_axolotl_by_its_kind_of_training(tmp_path: Path, keys: str, expected: object) -> None:
    config = """\
        base_model: meta-llama/Llama-3.1-8B
        datasets: [{path: preferences}]
        micro_batch_size: 1
        gradient_accumulation_steps: 4
        sequence_len: 1024
        deepspeed: ds.json
        bf16: true
        """
    assert copies(plan_of(tmp_path, "axolotl train train.yml", train__yml=dedent(config) + keys)) == expected


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("rlhf --rlhf_type dpo --train_type full", 1),
        ("rlhf --train_type full", 1),  # dpo unasked
        ("rlhf --rlhf_type dpo", 0),
        ("rlhf --rlhf_type dpo --train_type lora", 0),
        ("rlhf --rlhf_type kto --tuner_type full", 1),
        ("rlhf --rlhf_type orpo --train_type full", 0),
        ("rlhf --rlhf_type grpo --train_type full", 1),
        ("rlhf --rlhf_type grpo --train_type full --beta 0", 0),
        ("rlhf --rlhf_type gkd --train_type full --teacher_model t", None),
        ("rlhf --rlhf_type $KIND --train_type full", None),
        ("sft --train_type full", 0),
    ],
)
def test_ms_swift_by_its_type(tmp_path: Path, arguments: str, expected: object) -> None:
    common = "--model Qwen/Qwen2.5-7B --deepspeed ds.json --output_dir out --dataset d --per_device_train_batch_size 1"
    assert copies(plan_of(tmp_path, f"NPROC_PER_NODE=8 swift {arguments} {common}")) == expected


@pytest.mark.parametrize(
    ("program", "more", "expected"),
    [
        ("train_sft", "", 0),
        ("train_dpo", "", 1),
        ("train_dpo", "--lora_rank 8", 1),
        ("train_dpo", "--ref_pretrain Qwen/Qwen2.5-7B", 1),
        ("train_dpo", "--ref_pretrain somebody/other", None),
        ("train_dpo", "--ref_offload", None),
        ("train_kto", "", 1),
        ("train_kd", "--teacher_model t", None),
        ("train_ppo_ray", "", 0),
        ("train_ppo_ray", "--colocate_actor_ref", 1),
        ("train_ppo_ray", "--colocate_actor_ref --init_kl_coef 0", 0),
        ("train_ppo_ray", "--colocate_all_models --reward_pretrain r", "assumed"),
    ],
)
def test_openrlhf_by_its_program(tmp_path: Path, program: str, more: str, expected: object) -> None:
    script = f"deepspeed --num_gpus 8 --module openrlhf.cli.{program} --pretrain Qwen/Qwen2.5-7B --zero_stage 2 --bf16"
    batches = "--micro_train_batch_size 1 --train_batch_size 8"
    assert copies(plan_of(tmp_path, f"{script} {batches} {more}")) == expected


def test_the_finding_names_what_the_reference_takes(tmp_path: Path) -> None:
    keys = dedent(LLAMA_FACTORY).replace("meta-llama/Llama-3.1-8B", "meta-llama/Llama-2-13b-hf")
    script = "FORCE_TORCHRUN=1 NPROC_PER_NODE=6 llamafactory-cli train train.yaml"
    messages = {}
    for stage in ("sft", "dpo"):
        folder = tmp_path / stage
        folder.mkdir()
        plan_of(folder, script, train__yaml=f"{keys}stage: {stage}\nfinetuning_type: full\n")
        found = check([folder / "run.sh"], {"cluster.gpu": "A100-SXM-80GB"})
        messages[stage] = [each.message for each in found.findings if each.rule == "undersized-memory-oom"]
    assert messages["sft"] == []
    (message,) = messages["dpo"]
    assert "26 GB of reference model" in message


def test_a_shape_that_is_not_known_has_its_least() -> None:
    told: dict[str, Plain] = {
        "model.parameters": 13e9,
        "framework": "deepspeed",
        "sharding.stage": 2,
        "parallel.world_size": 8,
    }
    told |= {"precision.compute": "bf16"}
    plans = Plan.of(told), Plan.of(told | {"model.reference_copies": 1})
    alone, beside = (fact(plan, "memory.peak_bytes") for plan in plans)
    assert isinstance(alone, float) and isinstance(beside, float)
    assert beside - alone == pytest.approx(26e9)


def test_a_setting_that_the_user_states_counts() -> None:
    found = Plan.of({"model.reference": "copy", "model.reference_copies": 2}).get("model.reference_copies")
    assert isinstance(found, Value)
    assert found.value == 2
