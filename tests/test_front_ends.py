"""Front ends whose plan stands in files of keys: what their files, and arguments over them, say."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from dtlint.api import check
from dtlint.frameworks import Reading
from dtlint.languages.yaml import read_yaml
from dtlint.plan import Plan
from dtlint.runs import Options, read_runs
from dtlint.runs.front_ends import reader
from dtlint.source import Source
from dtlint.value import Value


def config(front_end: str, *texts: str) -> Reading:
    """What one front end's reader makes of files that it is given together."""
    documents = [read_yaml(Source(f"{number}.yaml", dedent(text))) for number, text in enumerate(texts)]
    return reader(front_end).read_config(documents)


def told(reading: Reading) -> dict[str, object]:
    """The values that a reading knows, by setting."""
    known = (claim for claim in reading.claims if isinstance(claim.value, Value))
    return {claim.setting: claim.value.value for claim in known if isinstance(claim.value, Value)}


def plan_of(folder: Path, focus: str, **files: str) -> Plan:
    """The only run's plan of a folder with these files, `__` for the dot of their names."""
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(dedent(text))
    (run,) = read_runs([folder / focus], Options()).runs
    return run.plan


def values(plan: Plan, *names: str) -> list[object]:
    return [plan.value(name) for name in names]


class TestVerl:
    SCRIPT = """\
        python3 -m verl.trainer.main_ppo \\
            data.train_batch_size={taken} data.max_prompt_length=512 data.max_response_length=1024 \\
            actor_rollout_ref.model.path=Qwen/Qwen2.5-7B-Instruct \\
            actor_rollout_ref.actor.ppo_mini_batch_size=64 \\
            actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu={micro} \\
            actor_rollout_ref.rollout.n=5 actor_rollout_ref.rollout.tensor_model_parallel_size=2 {more} \\
            trainer.nnodes=2 trainer.n_gpus_per_node=8
        """

    def plan(self, folder: Path, taken: int = 256, micro: int = 4, more: str = "") -> Plan:
        return plan_of(folder, "run.sh", run__sh=dedent(self.SCRIPT).format(taken=taken, micro=micro, more=more))

    def test_the_actor_trains_on_prompts_times_answers(self, tmp_path: Path) -> None:
        plan = self.plan(tmp_path)
        names = ("framework", "frontend", "launch.launcher", "parallel.world_size", "sharding.stage")
        assert values(plan, *names) == ["fsdp", "verl", "ray", 16, 3]
        # 64 prompts x 5 answers over 16 ranks are 20 samples each, in micro-batches of 4
        batches = ("batch.global", "batch.micro", "batch.accumulation", "batch.rollout")
        assert values(plan, *batches) == [320, 4, 5, 1280]
        assert values(plan, "data.sequence_length", "model.hidden") == [1536, 3584]

    def test_the_rollouts_tensor_parallelism_is_not_the_actors(self, tmp_path: Path) -> None:
        assert values(self.plan(tmp_path), "parallel.tensor", "parallel.data") == [1, 16]

    def test_megatron_carries_out_the_plan_if_the_strategy_says_so(self, tmp_path: Path) -> None:
        degrees = " ".join(
            f"actor_rollout_ref.actor.megatron.{axis}_model_parallel_size={size}"
            for axis, size in (("tensor", 2), ("pipeline", 4))
        )
        plan = self.plan(tmp_path, more=f"actor_rollout_ref.actor.strategy=megatron {degrees}")
        names = ("framework", "parallel.tensor", "parallel.pipeline", "parallel.data", "parallel.sequence")
        assert values(plan, *names) == ["megatron", 2, 4, 2, True]

    def test_packed_samples_have_no_micro_batch(self, tmp_path: Path) -> None:
        plan = self.plan(tmp_path, more="actor_rollout_ref.actor.use_dynamic_bsz=True")
        assert values(plan, "batch.global", "batch.micro", "batch.accumulation", "batch.rollout") == [320, *[None] * 3]

    def test_srun_starts_ray_and_not_the_workers(self, tmp_path: Path) -> None:
        text = "#!/bin/bash\n#SBATCH --nodes=2\nsrun --ntasks=1 " + dedent(self.SCRIPT)
        plan = plan_of(tmp_path, "run.sh", run__sh=text.format(taken=256, micro=4, more=""))
        assert values(plan, "launch.processes", "parallel.world_size") == [16, 16]

    @pytest.mark.parametrize(
        ("taken", "micro", "sentence"),
        [
            (256, 4, ""),
            # (100 x 5) / 16 leaves 4
            (100, 4, "500 samples of a roll-out do not divide by the 16 ranks"),
            # 64 x 5 / 16 = 20
            (256, 8, "leaves 20 samples for each of DP 16, which do not divide by micro batch 8"),
        ],
    )
    def test_batches_that_do_not_divide(self, tmp_path: Path, taken: int, micro: int, sentence: str) -> None:
        (tmp_path / "run.sh").write_text(dedent(self.SCRIPT).format(taken=taken, micro=micro, more=""))
        report = check([tmp_path / "run.sh"])
        found = [each.message for each in report.findings if each.rule == "batch-not-divisible"]
        assert sentence in found[0] if sentence else not found, found

    def test_a_config_of_ones_own_may_hold_more(self, tmp_path: Path) -> None:
        assert "mine holds further settings" in self.plan(tmp_path, more="--config-name=mine").open


class TestEasyR1:
    CONFIG = """\
        data:
          rollout_batch_size: {taken}
          max_prompt_length: 2048
          max_response_length: 2048
        worker:
          actor:
            global_batch_size: 128
            micro_batch_size_per_device_for_update: 4
            model:
              model_path: Qwen/Qwen2.5-7B-Instruct
              enable_gradient_checkpointing: true
            fsdp:
              enable_full_shard: true
              enable_cpu_offload: false
            max_grad_norm: 1.0
          rollout:
            n: 5
            tensor_parallel_size: 2
        trainer:
          nnodes: 1
          n_gpus_per_node: 8
        """

    def test_the_file_alone_tells_the_plan(self) -> None:
        found = told(config("easyr1", self.CONFIG.format(taken=512)))
        assert found.pop("model.name") == "Qwen/Qwen2.5-7B"
        assert found == {
            "launch.launcher": "ray",
            "launch.nodes": 1,
            "launch.processes_per_node": 8,
            "launch.processes": 8,
            "batch.micro": 4,
            "batch.global": 640,
            "batch.rollout": 2560,
            "optimizer.clip": 1.0,
            "checkpointing.activations": "full",
            "sharding.stage": 3,
            "sharding.offload_parameters": "none",
            "data.sequence_length": 4096,
        }

    def test_words_of_the_command_override_the_file_that_it_names(self, tmp_path: Path) -> None:
        command = """\
            python3 -m verl.trainer.main config=config.yaml trainer.n_gpus_per_node=4 \\
                worker.actor.global_batch_size=64
            """
        text = dedent(self.CONFIG).format(taken=512)
        plan = plan_of(tmp_path, "run.sh", run__sh=command, config__yaml=text)
        names = ("parallel.world_size", "batch.global", "batch.micro", "sharding.stage")
        assert values(plan, *names) == [4, 320, 4, 3]


class TestGptNeox:
    MODEL = """\
        {
          "pipe-parallel-size": 4,
          "model-parallel-size": 2,
          "num-layers": 44,
          "hidden-size": 6144,
          "num-attention-heads": 64,
          "seq-length": 2048,
          "max-position-embeddings": 2048,
          "no-weight-tying": true,
          "zero_optimization": {"stage": 1, "overlap_comm": True, "reduce_bucket_size": 500000000},
          "train_micro_batch_size_per_gpu": 4,
          "gradient_accumulation_steps": 32,
          "checkpoint-activations": true,
          "fp16": {"fp16": true, "enabled": true},
          "gradient_clipping": 1.0,
        }
        """

    def test_keys_with_dashes_and_those_of_deepspeed(self) -> None:
        assert told(config("gpt_neox", self.MODEL)) == {
            "parallel.pipeline": 4,
            "parallel.pipeline_engine": True,
            "parallel.tensor": 2,
            "model.layers": 44,
            "model.hidden": 6144,
            "model.heads": 64,
            "model.max_positions": 2048,
            "model.tied_embeddings": False,
            "model.gated_mlp": False,
            "data.sequence_length": 2048,
            "sharding.stage": 1,
            "overlap.gradients": True,
            "communication.bucket_bytes": 1_000_000_000,
            "batch.micro": 4,
            "batch.accumulation": 32,
            "checkpointing.activations": "full",
            "precision.compute": "fp16",
            "optimizer.clip": 1.0,
        }

    @pytest.mark.parametrize(
        ("text", "format_name"),
        [
            ('"precision": "bfloat16"', "bf16"),
            ('"precision": "fp16"', "fp16"),
            ('"fp16": {"enabled": true, "type": "bfloat16"}', "bf16"),
            ('"bf16": {"enabled": true}', "bf16"),
        ],
    )
    def test_what_decides_on_the_format(self, text: str, format_name: str) -> None:
        assert told(config("gpt_neox", f"{{{text}}}"))["precision.compute"] == format_name

    def test_no_stages_are_no_pipeline(self) -> None:
        found = told(config("gpt_neox", '{"pipe_parallel_size": 0, "model_parallel_size": 0}'))
        engine = found["parallel.pipeline_engine"]
        assert (found["parallel.pipeline"], found["parallel.tensor"], engine) == (1, 1, False)

    def test_attention_and_experts(self) -> None:
        text = '{"attention_config": [[["flash"], 12]], "moe_num_experts": 1, "activation": "swiglu"}'
        found = told(config("gpt_neox", text))
        assert (found["attention.flash"], found["model.experts"], found["model.gated_mlp"]) == (True, 0, True)
        assert "model.ffn" not in found

    def launched(self, folder: Path, command: str, local: str = "") -> Plan:
        (folder / "configs").mkdir()
        (folder / "configs" / "20B.yml").write_text(dedent(self.MODEL))
        (folder / "configs" / "local.yml").write_text(local or '{"data_path": "data/pile"}')
        (folder / "hosts").write_text("".join(f"node{number} slots=8\n" for number in range(12)))
        return plan_of(folder, "run.sh", run__sh=f"{command}\n")

    @pytest.mark.parametrize("command", ["python ./deepy.py", "./deepy.py"])
    def test_the_files_of_a_launch_make_one_config(self, tmp_path: Path, command: str) -> None:
        local = '{"hostfile": "hosts", "train_iters": 150000, "precision": "bfloat16"}'
        plan = self.launched(tmp_path, f"{command} train.py -d configs 20B local.yml", local)
        names = ("framework", "launch.launcher", "parallel.world_size", "parallel.data", "batch.global", "run.steps")
        # 12 hosts of 8 GPUs hold 12 replicas of 4 x 2 GPUs, each with 4 x 32 samples
        assert values(plan, *names) == ["gpt-neox", "deepspeed", 96, 12, 1536, 150000]
        assert plan.value("precision.compute") == "bf16"

    def test_counts_limit_the_hosts(self, tmp_path: Path) -> None:
        local = '{"hostfile": "hosts", "num_nodes": 4, "num_gpus": 4}'
        plan = self.launched(tmp_path, "python deepy.py train.py -d configs 20B.yml local.yml", local)
        assert values(plan, "launch.nodes", "cluster.nodes", "parallel.world_size") == [4, 12, 16]

    def test_what_generates_text_does_not_train(self, tmp_path: Path) -> None:
        self.launched(tmp_path, "python deepy.py generate.py -d configs 20B.yml local.yml")
        assert [run.role for run in read_runs([tmp_path / "run.sh"], Options()).runs] == ["other"]

    def test_too_few_hosts(self, tmp_path: Path) -> None:
        self.launched(tmp_path, "python deepy.py train.py -d configs 20B.yml local.yml", '{"global_num_gpus": 12}')
        found = {each.rule: each.message for each in check([tmp_path]).findings}
        assert "12 processes are no multiple of 8" in found["world-size-mismatch"]
