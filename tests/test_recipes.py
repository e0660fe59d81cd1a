"""torchtune's recipes, OLMo's configs and OpenRLHF's arguments: what they say of the plan."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from dtlint.api import check
from dtlint.plan import Plan
from dtlint.runs import Options, read_runs


def plans(folder: Path, focus: str) -> dict[str, Plan]:
    return {run.role: run.plan for run in read_runs([folder / focus], Options()).runs}


def values(found: Plan, *names: str) -> list[object]:
    return [found.value(name) for name in names]


def errors(folder: Path) -> list[str]:
    return [found.message for found in check([folder]).findings if found.severity == "error"]


class TestTorchtune:
    CONFIG = """\
        model: {_component_: torchtune.models.BUILDER}
        tokenizer: {_component_: torchtune.models.llama3.llama3_tokenizer, max_seq_len: 4096}
        dataset: {_component_: torchtune.datasets.alpaca_dataset, packed: True}
        checkpointer: {_component_: torchtune.training.FullModelHFCheckpointer}
        optimizer: {_component_: torch.optim.AdamW, lr: 2e-5}
        loss: {_component_: torchtune.modules.loss.LinearCrossEntropyLoss}
        batch_size: 2
        gradient_accumulation_steps: 8
        enable_activation_checkpointing: True
        fsdp_cpu_offload: True
        dtype: bf16
        """

    def plan(self, folder: Path, command: str, builder: str = "llama3.llama3_8b", more: str = "") -> Plan:
        text = dedent(self.CONFIG).replace("BUILDER", builder) + more
        (folder / "mine.yaml").write_text(text)
        (folder / "run.sh").write_text(f"{command}\n")
        return plans(folder, "run.sh")["train"]

    FULL = "tune run --nproc_per_node 8 full_finetune_distributed --config mine.yaml"

    def test_torchrun_starts_a_distributed_recipe(self, tmp_path: Path) -> None:
        found = self.plan(tmp_path, f"{self.FULL} batch_size=4")
        names = ("framework", "frontend", "launch.launcher", "parallel.world_size", "batch.global", "sharding.stage")
        assert values(found, *names) == ["fsdp", "torchtune", "torchrun", 8, 4 * 8 * 8, 3]
        names = ("model.name", "checkpointing.activations", "sharding.offload_optimizer", "data.sequence_length")
        assert values(found, *names) == ["meta-llama/Meta-Llama-3-8B", "full", "cpu", 4096]
        assert values(found, "model.fused_loss", "optimizer.name") == [True, "adamw"]

    def test_dtype_is_that_of_weights_gradients_and_states(self, tmp_path: Path) -> None:
        names = ("precision.compute", "precision.master", "precision.gradients", "optimizer.state_dtype")
        assert values(self.plan(tmp_path, self.FULL), *names) == ["bf16"] * 4

    def test_a_recipe_for_one_device_shards_nothing(self, tmp_path: Path) -> None:
        found = self.plan(tmp_path, "tune run full_finetune_single_device --config mine.yaml")
        names = ("framework", "parallel.world_size", "sharding.offload_parameters", "batch.global")
        assert values(found, *names) == ["pytorch", 1, "none", 16]

    @pytest.mark.parametrize(
        ("builder", "rank", "frozen"), [("llama3.lora_llama3_8b", 16, "bf16"), ("llama3.qlora_llama3_8b", 16, "nf4")]
    )
    def test_adapters_by_the_builders_name(self, tmp_path: Path, builder: str, rank: int, frozen: str) -> None:
        found = self.plan(tmp_path, f"{self.FULL} model.lora_rank=16", builder)
        assert values(found, "model.lora_rank", "precision.frozen", "model.hidden") == [rank, frozen, 4096]

    def test_degrees_are_those_of_the_mesh(self, tmp_path: Path) -> None:
        more = (
            "tensor_parallel_dim: 2\ntensor_parallel_plan: {_component_: torchtune.models.llama3.base_llama_tp_plan}\n"
        )
        found = self.plan(tmp_path, f"{self.FULL} data_parallel_replicate_dim=2", more=more)
        assert values(found, "parallel.tensor", "parallel.data", "sharding.instances") == [2, 4, 2]

    def test_a_config_that_ships_with_the_package_is_read_where_the_tree_holds_it(self, tmp_path: Path) -> None:
        command = "tune run --nproc_per_node 4 full_finetune_distributed --config llama3/8B_full"
        found = self.plan(tmp_path, command)
        assert values(found, "launch.processes", "batch.micro", "precision.compute") == [4, None, None]
        shipped = tmp_path / "recipes" / "configs" / "llama3"
        shipped.mkdir(parents=True)
        (shipped / "8B_full.yaml").write_text(dedent(self.CONFIG))
        assert plans(tmp_path, "run.sh")["train"].value("batch.micro") == 2

    @pytest.mark.parametrize(
        ("words", "sentence"),
        [
            ("optimizer_in_bwd=True", "'gradient_accumulation_steps: 8' is refused beside 'optimizer_in_bwd'"),
            ("optimizer_in_bwd=True clip_grad_norm=1.0", "'optimizer_in_bwd' is refused beside 'clip_grad_norm'"),
            ("tensor_parallel_dim=2", "'tensor_parallel_dim' is refused without 'tensor_parallel_plan'"),
            (
                "enable_activation_checkpointing=False enable_activation_offloading=True",
                "'enable_activation_offloading' is refused without 'enable_activation_checkpointing'",
            ),
            ("tensor_parallel_dim=1", ""),
            ("optimizer_in_bwd=True gradient_accumulation_steps=1 clip_grad_norm='${clip}'", ""),
            ("optimizer_in_bwd='${switch}'", ""),
        ],
    )
    def test_what_the_recipes_refuse(self, tmp_path: Path, words: str, sentence: str) -> None:
        self.plan(tmp_path, f"{self.FULL} {words}")
        found = [message for message in errors(tmp_path) if "is refused" in message]
        assert any(message.startswith(sentence) for message in found) if sentence else found == []

    def test_evaluation_trains_nothing(self, tmp_path: Path) -> None:
        text = dedent(self.CONFIG).replace("optimizer:", "quantizer:")
        (tmp_path / "eleuther.yaml").write_text(text)
        assert list(plans(tmp_path, "eleuther.yaml")) == ["other"]


class TestOlmo:
    CONFIG = """\
        run_name: mine
        model:
          d_model: 4096
          n_heads: 32
          n_layers: 32
          mlp_hidden_size: 22016
          vocab_size: 50280
          embedding_size: 50304
          max_sequence_length: 2048
          weight_tying: false
        optimizer: {name: adamw}
        data: {num_workers: 4}
        max_duration: 2e12T
        global_train_batch_size: 2048
        device_train_microbatch_size: 2
        precision: amp_bf16
        max_grad_norm: 1.0
        activation_checkpointing: one_in_two
        fsdp:
          wrapping_strategy: by_block
          precision: mixed
        """

    def plan(self, folder: Path, options: str = "") -> Plan:
        (folder / "mine.yaml").write_text(dedent(self.CONFIG))
        (folder / "run.sh").write_text(f"torchrun --nnodes=2 --nproc_per_node=8 scripts/train.py mine.yaml {options}\n")
        return plans(folder, "run.sh")["train"]

    def test_the_file_tells_the_plan(self, tmp_path: Path) -> None:
        found = self.plan(tmp_path)
        # 2048 samples over 16 ranks are 128 each, in micro-batches of 2
        names = ("framework", "frontend", "batch.global", "batch.micro", "batch.accumulation", "run.tokens")
        assert values(found, *names) == ["fsdp", "olmo", 2048, 2, 64, 2e12]
        names = ("sharding.stage", "sharding.units", "precision.compute", "precision.reduce", "precision.master")
        assert values(found, *names) == [3, "wrapped", "bf16", "fp32", "fp32"]

    def test_the_shape_of_the_model(self, tmp_path: Path) -> None:
        names = ("model.hidden", "model.layers", "model.ffn", "model.gated_mlp", "model.vocab", "data.sequence_length")
        # both halves of the gated layer together are 22016 wide
        assert values(self.plan(tmp_path), *names) == [4096, 32, 11008, True, 50304, 2048]

    def test_every_second_layer_is_recomputed(self, tmp_path: Path) -> None:
        found = self.plan(tmp_path)
        assert values(found, "checkpointing.activations", "checkpointing.layers") == ["full", 16]

    def test_options_stand_over_the_file(self, tmp_path: Path) -> None:
        options = "--fsdp.sharding_strategy=HYBRID_SHARD --fsdp.precision=pure --device_train_microbatch_size=4"
        found = self.plan(tmp_path, options)
        assert values(found, "sharding.group", "precision.reduce", "batch.accumulation") == [8, "bf16", 32]

    def test_ddp_sums_once_a_step(self, tmp_path: Path) -> None:
        found = self.plan(tmp_path, "--distributed_strategy=ddp --ddp.grad_sync_mode=batch")
        assert values(found, "framework", "sharding.sums_each_microbatch") == ["ddp", False]


class TestOpenrlhf:
    SFT = """\
        deepspeed --num_gpus 8 --module openrlhf.cli.train_sft --max_len 2048 --train_batch_size 256 \\
          --micro_train_batch_size 2 --pretrain meta-llama/Meta-Llama-3-8B --zero_stage 2 --bf16 --flash_attn \\
          --packing_samples --gradient_checkpointing {more}
        """
    PPO = """\
        ray job submit -- python3 -m openrlhf.cli.train_ppo_ray --actor.num_nodes 2 --actor.num_gpus_per_node 8 \\
          --critic.num_nodes 1 --critic.num_gpus_per_node 4 --vllm.num_engines 8 --vllm.tensor_parallel_size 2 \\
          --actor.model_name_or_path Qwen/Qwen2.5-7B --critic.model_name_or_path Qwen/Qwen2.5-0.5B \\
          --train.batch_size 128 --train.micro_batch_size 4 --ds.zero_stage 3 --actor.gradient_checkpointing_enable {more}
        """

    def plans(self, folder: Path, script: str, more: str = "") -> dict[str, Plan]:
        (folder / "run.sh").write_text(dedent(script).format(more=more))
        return plans(folder, "run.sh")

    def test_fine_tuning(self, tmp_path: Path) -> None:
        found = self.plans(tmp_path, self.SFT)["train"]
        names = ("framework", "frontend", "parallel.world_size", "batch.global", "batch.accumulation", "sharding.stage")
        # 256 over 8 GPUs in micro-batches of 2
        assert values(found, *names) == ["deepspeed", "openrlhf", 8, 256, 16, 2]
        names = ("precision.compute", "attention.flash", "checkpointing.activations", "model.hidden", "optimizer.clip")
        assert values(found, *names) == ["bf16", True, "full", 4096, 1.0]

    def test_a_script_of_early_releases_is_known_by_its_option(self, tmp_path: Path) -> None:
        script = self.SFT.replace("--module openrlhf.cli.train_sft", "../train_sft.py")
        names = ("framework", "frontend", "batch.global", "batch.micro")
        assert values(self.plans(tmp_path, script)["train"], *names) == ["deepspeed", "openrlhf", 256, 2]
        other = script.replace("--micro_train_batch_size", "--batch_size")
        assert self.plans(tmp_path, other)["train"].value("frontend") != "openrlhf"

    def test_ring_attention_and_tensor_parallelism_take_ranks(self, tmp_path: Path) -> None:
        found = self.plans(tmp_path, self.SFT, "--ring_attn_size 2 --ds_tensor_parallel_size 2 --adam_offload")["train"]
        assert values(found, "parallel.context", "parallel.tensor", "parallel.data") == [2, 2, 2]
        assert found.value("sharding.offload_optimizer") == "cpu"

    def test_the_format_of_earlier_releases_is_not_guessed(self, tmp_path: Path) -> None:
        script = self.SFT.replace(" --bf16", "")
        assert self.plans(tmp_path, script)["train"].value("precision.compute") is None

    def test_actor_and_critic_have_a_plan_each(self, tmp_path: Path) -> None:
        found = self.plans(tmp_path, self.PPO)
        names = (
            "launch.launcher",
            "parallel.world_size",
            "batch.accumulation",
            "checkpointing.activations",
            "model.hidden",
        )
        assert {role: values(each, *names) for role, each in found.items()} == {
            "train": ["ray", 16, 2, "full", 3584],
            "critic": ["ray", 4, 8, "none", 896],
        }

    def test_packed_batches_have_no_size(self, tmp_path: Path) -> None:
        found = self.plans(tmp_path, self.PPO, "--train.dynamic_batch_enable")["train"]
        assert values(found, "batch.global", "batch.micro", "batch.accumulation") == [128, None, None]

    @pytest.mark.parametrize(("engines", "refused"), [(8, False), (4, True)])
    def test_groups_that_share_gpus_have_as_many(self, tmp_path: Path, engines: int, refused: bool) -> None:
        script = self.PPO.replace("num_engines 8", f"num_engines {engines}")
        self.plans(tmp_path, script, "--train.colocate_all")
        found = [message for message in errors(tmp_path) if "engines" in message]
        assert found == (
            ["4 engines of TP 2 that generate the answers are 8 GPUs, and they share the 16 of the model that trains"]
            if refused
            else []
        )


class TestXtuner:
    def plan(self, folder: Path, command: str) -> Plan:
        (folder / "run.sh").write_text(f"{command}\n")
        return plans(folder, "run.sh")["train"]

    def test_variables_make_it_start_torchrun(self, tmp_path: Path) -> None:
        command = "NPROC_PER_NODE=8 NNODES=2 NODE_RANK=0 ADDR=10.0.0.1 PORT=29500 xtuner train my.py"
        found = self.plan(tmp_path, f"{command} --deepspeed deepspeed_zero2")
        names = ("framework", "launch.launcher", "parallel.world_size", "sharding.stage", "overlap.gradients")
        assert values(found, *names) == ["deepspeed", "torchrun", 16, 2, True]

    def test_a_config_in_python_is_not_read(self, tmp_path: Path) -> None:
        found = self.plan(tmp_path, "NPROC_PER_NODE=8 xtuner train my.py --deepspeed deepspeed_zero3_offload")
        assert values(found, "batch.micro", "batch.global", "sharding.offload_parameters") == [None, None, "cpu"]
        assert "my.py is not read" in found.open


class TestLitgpt:
    CONFIG = """\
        checkpoint_dir: checkpoints/meta-llama/Meta-Llama-3-8B
        precision: bf16-true
        quantize:
        devices: 4
        num_nodes: 1
        lora_r: 32
        train:
          global_batch_size: 64
          micro_batch_size: 2
          max_seq_length: 512
          max_norm:
        optimizer: {class_path: torch.optim.AdamW}
        logger_name: csv
        """

    def plan(self, folder: Path, options: str = "") -> Plan:
        (folder / "mine.yaml").write_text(dedent(self.CONFIG))
        (folder / "run.sh").write_text(f"litgpt finetune_lora --config mine.yaml {options}\n")
        return plans(folder, "run.sh")["train"]

    def test_several_devices_share_the_model_out(self, tmp_path: Path) -> None:
        found = self.plan(tmp_path)
        names = (
            "framework",
            "frontend",
            "launch.launcher",
            "parallel.world_size",
            "batch.global",
            "batch.accumulation",
        )
        # 64 over 4 devices in micro-batches of 2
        assert values(found, *names) == ["fsdp", "litgpt", "lightning", 4, 64, 8]
        names = ("model.lora_rank", "precision.master", "checkpointing.activations", "sharding.units", "optimizer.clip")
        assert values(found, *names) == [32, "bf16", "full", "wrapped", 0.0]

    def test_one_device_shares_nothing(self, tmp_path: Path) -> None:
        found = self.plan(tmp_path, "--devices 1 --train.micro_batch_size 4")
        assert values(found, "framework", "parallel.world_size", "batch.micro") == ["pytorch", 1, 4]

    @pytest.mark.parametrize(
        ("command", "rank"),
        [
            ("finetune_full", 0),
            ("finetune_lora", 8),
            ("finetune", 8),
            ("finetune full --checkpoint_dir", 0),
            ("finetune_adapter", None),
        ],
    )
    def test_the_model_stands_behind_the_command(self, tmp_path: Path, command: str, rank: int | None) -> None:
        options = "--devices 4 --precision bf16-true --train.micro_batch_size 1"
        (tmp_path / "run.sh").write_text(f"litgpt {command} checkpoints/meta-llama/Llama-2-13b-hf {options}\n")
        found = plans(tmp_path, "run.sh")["train"]
        assert values(found, "model.name", "model.lora_rank", "model.layers") == [
            "meta-llama/Llama-2-13b-hf", rank, 40,
        ]  # fmt: skip

    def test_pretraining_names_a_model_of_its_own(self, tmp_path: Path) -> None:
        (tmp_path / "run.sh").write_text("litgpt pretrain pythia-160m --devices 4 --train.micro_batch_size 1\n")
        assert values(plans(tmp_path, "run.sh")["train"], "model.hidden", "model.lora_rank") == [768, 0]

    def test_quantized_weights_are_refused_on_several_devices(self, tmp_path: Path) -> None:
        self.plan(tmp_path, "--quantize bnb.nf4")
        assert any("'quantize' is refused beside 'devices: 4'" in message for message in errors(tmp_path))
