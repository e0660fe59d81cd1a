"""Front ends whose plan stands in files of keys: what their files, and arguments over them, say."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

import pytest

from dtlint.api import check
from dtlint.frameworks import Reading
from dtlint.frameworks.axolotl import config as axolotl
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

    @pytest.mark.parametrize(
        ("switch", "kind"),
        [("model.use_remove_padding=False", "written"), ("model.use_remove_padding=True", "assumed"), ("", "assumed")],
    )
    def test_a_sample_is_as_long_as_its_padding(self, tmp_path: Path, switch: str, kind: str) -> None:
        found = self.plan(tmp_path, more=f"actor_rollout_ref.{switch}" if switch else "").get("data.sequence_length")
        assert isinstance(found, Value)
        assert (found.value, found.origin.kind) == (1536, kind)

    def test_megatrons_workers_pack_whatever_the_switch_says(self, tmp_path: Path) -> None:
        more = "actor_rollout_ref.actor.strategy=megatron actor_rollout_ref.model.use_remove_padding=False"
        found = self.plan(tmp_path, more=more).get("data.sequence_length")
        assert isinstance(found, Value)
        assert found.origin.kind == "assumed"

    @pytest.mark.parametrize(("agents", "known"), [(1, True), (16, False)])
    def test_a_fork_that_repeats_prompts_for_its_agents_deals_out_what_it_makes(
        self, tmp_path: Path, agents: int, known: bool
    ) -> None:
        plain = self.plan(tmp_path).value("batch.rollout")
        found = self.plan(tmp_path, more=f"actor_rollout_ref.rollout.n_agent={agents}").value("batch.rollout")
        assert found == (plain if known else None)

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

    CRITIC = (
        "critic.model.path=Qwen/Qwen2.5-0.5B critic.ppo_micro_batch_size_per_gpu={micro} "
        "critic.model.enable_gradient_checkpointing=False"
    )

    def runs(self, folder: Path, more: str) -> dict[str, Plan]:
        (folder / "run.sh").write_text(dedent(self.SCRIPT).format(taken=256, micro=4, more=more))
        return {run.role: run.plan for run in read_runs([folder / "run.sh"], Options()).runs}

    def test_the_critic_has_a_plan_of_its_own(self, tmp_path: Path) -> None:
        plans = self.runs(tmp_path, self.CRITIC.format(micro=10))
        names = ("model.hidden", "batch.global", "batch.micro", "batch.accumulation", "checkpointing.activations")
        assert {role: values(plan, *names) for role, plan in plans.items()} == {
            "train": [3584, 320, 4, 5, "full"],
            "critic": [896, 320, 10, 2, "none"],
        }

    @pytest.mark.parametrize("more", ["algorithm.adv_estimator=grpo", "critic.enable=False"])
    def test_no_critic_where_none_is_needed(self, tmp_path: Path, more: str) -> None:
        assert set(self.runs(tmp_path, f"{self.CRITIC.format(micro=10)} {more}")) == {"train"}

    def test_the_critics_remedy_speaks_of_the_critic(self, tmp_path: Path) -> None:
        more = self.CRITIC.format(micro=8)
        (tmp_path / "run.sh").write_text(dedent(self.SCRIPT).format(taken=256, micro=4, more=more))
        (found,) = [each for each in check([tmp_path / "run.sh"]).findings if each.rule == "batch-not-divisible"]
        assert "leaves 20 samples for each of DP 16, which do not divide by micro batch 8" in found.message
        assert any("critic.ppo_micro_batch_size_per_gpu=5" in each.text for each in found.remedies)

    def test_ranks_that_share_a_sequence_share_the_states_too(self, tmp_path: Path) -> None:
        plan = self.plan(tmp_path, more="actor_rollout_ref.actor.ulysses_sequence_parallel_size=16")
        assert values(plan, "parallel.ulysses", "parallel.data", "sharding.group") == [16, 1, 16]
        assert "zero-no-dp" not in {each.rule for each in check([tmp_path / "run.sh"]).findings}

    def test_arguments_that_a_comment_cuts_off_are_found(self, tmp_path: Path) -> None:
        more = "algorithm.pf_ppo.reweight_method=pow \\  # or max_min"
        text = dedent(self.SCRIPT).replace("data.train_batch_size", f"{more}\n    data.train_batch_size", 1)
        (tmp_path / "run.sh").write_text(text.format(taken=256, micro=4, more=""))
        assert "lost-arguments" in {each.rule for each in check([tmp_path / "run.sh"]).findings}

    def test_a_config_of_ones_own_may_hold_more(self, tmp_path: Path) -> None:
        plan = self.plan(tmp_path, more="--config-name=mine")
        assert "mine.yaml was not found" in plan.unread


class TestVerlRefuses:
    """Ulysses over padded batches, which its trainer looks at before the workers split anything."""

    RUN = (
        "python3 -m verl.trainer.main_ppo data.train_batch_size=512 actor_rollout_ref.rollout.n=1"
        " actor_rollout_ref.actor.ppo_mini_batch_size=128 actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=4"
        " actor_rollout_ref.actor.ulysses_sequence_parallel_size={degree} trainer.nnodes=1 trainer.n_gpus_per_node=2"
        " actor_rollout_ref.model.use_remove_padding={switch} {more}\n"
    )

    @pytest.mark.parametrize(
        ("degree", "switch", "more", "rules"),
        [
            (8, "False", "", {"refused-combination"}),
            (8, "True", "", {"world-size-mismatch"}),
            (1, "False", "", set()),
            (2, "$PACKED", "", set()),
            (2, "False", "actor_rollout_ref.actor.strategy=megatron", set()),
        ],
    )
    def test_a_degree_beside_padding(
        self, tmp_path: Path, degree: int, switch: str, more: str, rules: set[str]
    ) -> None:
        (tmp_path / "run.sh").write_text(self.RUN.format(degree=degree, switch=switch, more=more))
        found = {each.rule for each in check([tmp_path / "run.sh"]).findings}
        assert found & {"refused-combination", "world-size-mismatch"} == rules


class TestEnginesDegree:
    """vLLM splits the actor's model too, over heads."""

    VERL = (
        "python3 -m verl.trainer.main_ppo data.train_batch_size=512 actor_rollout_ref.rollout.n=1"
        " actor_rollout_ref.model.path={model} actor_rollout_ref.rollout.tensor_model_parallel_size={degree}"
        " trainer.nnodes=1 trainer.n_gpus_per_node=8 {more}\n"
    )
    OPENRLHF = (
        "python3 -m openrlhf.cli.train_ppo_ray --pretrain {model} --vllm_tensor_parallel_size {degree} {more}"
        " --actor_num_nodes 1 --actor_num_gpus_per_node 8 --zero_stage 3 --bf16\n"
    )

    @pytest.mark.parametrize(
        ("command", "model", "degree", "more", "told"),
        [
            (VERL, "Qwen/Qwen2.5-7B-Instruct", 8, "", True),
            (VERL, "Qwen/Qwen2.5-7B-Instruct", 8, "actor_rollout_ref.rollout.name=vllm", True),
            (VERL, "Qwen/Qwen2.5-7B-Instruct", 7, "", True),  # 28 heads divide, 4 key-value heads do not
            (VERL, "Qwen/Qwen2.5-7B-Instruct", 8, "actor_rollout_ref.rollout.name=hf", False),
            (VERL, "Qwen/Qwen2.5-7B-Instruct", 4, "", False),
            (VERL, "Qwen/Qwen2.5-1.5B-Instruct", 4, "", False),  # 2 key-value heads are copied
            (VERL, "Qwen/Qwen2.5-7B-Instruct", "$DEGREE", "", False),
            (OPENRLHF, "Qwen/Qwen2.5-7B-Instruct", 8, "--vllm_num_engines 1", True),
            (OPENRLHF, "Qwen/Qwen2.5-7B-Instruct", 8, "", False),
            (OPENRLHF, "Qwen/Qwen2.5-7B-Instruct", 2, "--vllm_num_engines 4", False),
        ],
    )
    def test_heads_that_the_engine_cannot_share_out(self, tmp_path: Path, command, model, degree, more, told) -> None:
        (tmp_path / "run.sh").write_text(command.format(model=model, degree=degree, more=more))
        assert ("heads-not-divisible" in {each.rule for each in check([tmp_path / "run.sh"]).findings}) is told


class TestEnginesRanks:
    """Engines on the GPUs of the trainer split the model over its ranks, which their degree has to divide."""

    VERL = (
        "python3 -m verl.trainer.main_ppo data.train_batch_size=96 actor_rollout_ref.rollout.n=4"
        " actor_rollout_ref.model.path=Qwen/Qwen2.5-3B-Instruct {more} trainer.n_gpus_per_node={gpus}\n"
    )
    TRL = (
        "accelerate launch --num_processes {gpus} trl/scripts/grpo.py --model_name_or_path Qwen/Qwen2.5-3B-Instruct"
        " --per_device_train_batch_size 4 --bf16 --output_dir out {more}\n"
    )
    SWIFT = (
        "NPROC_PER_NODE={gpus} swift rlhf --rlhf_type grpo --model Qwen/Qwen2.5-3B-Instruct --train_type full"
        " --per_device_train_batch_size 4 --bf16 true --output_dir out {more}\n"
    )
    DEGREE = "actor_rollout_ref.rollout.tensor_model_parallel_size"

    @pytest.mark.parametrize(
        ("command", "gpus", "more", "told"),
        [
            (VERL, 6, f"{DEGREE}=4", True),
            (VERL, 6, f"actor_rollout_ref.rollout.name=sglang {DEGREE}=4", True),
            (VERL, 8, f"{DEGREE}=4", False),
            (VERL, 1, "", True),  # 2 where none is written
            (VERL, 1, f"{DEGREE}=1", False),
            (VERL, 2, "", False),
            (VERL, 1, "--config-name=mine", False),  # which may have the degree
            (VERL, 1, "actor_rollout_ref.actor.strategy=megatron", False),  # 1 or 2, by the release
            (VERL, 6, f"actor_rollout_ref.hybrid_engine=False {DEGREE}=4", False),
            (VERL, 6, f"+rollout.nnodes=1 +rollout.n_gpus_per_node=4 {DEGREE}=4", False),
            (TRL, 6, "--use_vllm --vllm_mode colocate --vllm_tensor_parallel_size 4", True),
            (TRL, 6, "--use_vllm --vllm_mode server --vllm_tensor_parallel_size 4", False),
            (TRL, 6, "--use_vllm --vllm_mode colocate --vllm_tensor_parallel_size 2", False),
            (SWIFT, 6, "--use_vllm true --vllm_mode colocate --vllm_tensor_parallel_size 4", True),
            (SWIFT, 6, "--use_vllm false --vllm_mode colocate --vllm_tensor_parallel_size 4", False),
        ],
    )
    def test_the_degree_divides_the_ranks(self, tmp_path: Path, command, gpus, more, told) -> None:
        (tmp_path / "run.sh").write_text(command.format(gpus=gpus, more=more))
        assert ("world-size-mismatch" in {each.rule for each in check([tmp_path / "run.sh"]).findings}) is told

    def test_the_config_of_a_copy_has_a_degree_of_its_own(self, tmp_path: Path) -> None:
        folder = tmp_path / "verl" / "trainer"
        (folder / "config").mkdir(parents=True)
        (folder / "main_ppo.py").write_text(
            "import hydra\n\n\n@hydra.main(config_path='config', config_name='ppo_trainer', version_base=None)\n"
            "def main(config):\n    run_ppo(config)\n\n\nif __name__ == '__main__':\n    main()\n"
        )
        config = (
            "actor_rollout_ref:\n  rollout:\n    name: vllm\n    tensor_model_parallel_size: 1\ntrainer:\n  nnodes: 1\n"
        )
        (folder / "config" / "ppo_trainer.yaml").write_text(config)
        (tmp_path / "run.sh").write_text(self.VERL.format(gpus=1, more=""))
        assert "world-size-mismatch" not in {each.rule for each in check([tmp_path / "run.sh"]).findings}


class TestEnginesBeside:
    """An engine with GPUs of its own takes those on which no rank trains."""

    TRL = (
        "accelerate launch --multi_gpu --num_processes 7 grpo.py --model_name_or_path Qwen/Qwen2.5-7B-Instruct --bf16"
        " --output_dir out --per_device_train_batch_size 8 --num_generations 8"
    )
    PLAIN = "torchrun --nproc_per_node 4 train.py --output_dir out --bf16 --per_device_train_batch_size 8"
    AXOLOTL = "accelerate launch --num_processes 7 -m axolotl.cli.train grpo.yaml"

    def idle(self, tmp_path: Path, commands: str, config: str = "") -> bool:
        (tmp_path / "run.sh").write_text(f"#SBATCH --nodes=1\n#SBATCH --gres=gpu:8\n{commands}\n")
        (tmp_path / "grpo.yaml").write_text(
            f"base_model: Qwen/Qwen2.5-7B-Instruct\nmicro_batch_size: 8\nnum_epochs: 1\nbf16: true\n{config}"
        )
        return "idle-gpus" in {each.rule for each in check([tmp_path / "run.sh"]).findings}

    @pytest.mark.parametrize(
        ("flags", "idle"),
        [
            ("", True),
            ("--use_vllm false", True),
            ("--use_vllm true --vllm_mode colocate", True),
            ("--use_vllm true --vllm_mode server", False),
            ("--use_vllm --vllm_device auto", False),
            ("--use_vllm --vllm_server_host 10.0.0.7", False),
            ("--use_vllm", False),  # a server's in TRL 0.16, the ranks' own in later releases
            ("--use_vllm --vllm_mode $MODE", False),
        ],
    )
    def test_flags_ask_for_it(self, tmp_path: Path, flags: str, idle: bool) -> None:
        assert self.idle(tmp_path, f"{self.TRL} {flags}") is idle

    @pytest.mark.parametrize(
        ("config", "idle"),
        [
            ("trl: {num_generations: 8}\n", True),
            ("trl: {use_vllm: false}\n", True),
            ("trl: {use_vllm: true, vllm_mode: colocate}\n", True),
            ("trl: {use_vllm: true, vllm_mode: server}\n", False),
            ("trl: {use_vllm: true}\n", False),
        ],
    )
    def test_axolotl_hands_it_on(self, tmp_path: Path, config: str, idle: bool) -> None:
        assert self.idle(tmp_path, self.AXOLOTL, config) is idle

    @pytest.mark.parametrize(
        ("server", "idle"),
        [
            ("tensorboard --logdir out &", True),
            ("python -m vllm.entrypoints.openai.api_server --model Qwen/Qwen2.5-7B-Instruct &", False),
            ("CUDA_VISIBLE_DEVICES=4,5,6,7 nohup vllm serve Qwen/Qwen2.5-7B-Instruct &", False),
            ("trl vllm-serve --model Qwen/Qwen2.5-7B-Instruct &", False),
            ("python3 -m sglang.launch_server --model-path Qwen/Qwen2.5-7B-Instruct &", False),
        ],
    )
    def test_the_script_starts_it_too(self, tmp_path: Path, server: str, idle: bool) -> None:
        assert self.idle(tmp_path, f"{server}\n{self.PLAIN}") is idle


class TestEnginesNodes:
    """An engine wider than a node exchanges activations over the network."""

    VERL = (
        "python3 -m verl.trainer.main_ppo data.train_batch_size=512 actor_rollout_ref.model.path={model}"
        " actor_rollout_ref.rollout.tensor_model_parallel_size={degree} trainer.nnodes=4 trainer.n_gpus_per_node=8\n"
    )
    OPENRLHF = (
        "python3 -m openrlhf.cli.train_ppo_ray --pretrain {model} --vllm_num_engines 1 --zero_stage 3 --bf16"
        " --vllm_tensor_parallel_size {degree} --actor_num_nodes 2 --actor_num_gpus_per_node 8\n"
    )

    @pytest.mark.parametrize(
        ("command", "model", "degree", "severity"),
        [
            (VERL, "Qwen/Qwen2.5-72B-Instruct", 16, "warning"),
            (VERL, "Qwen/Qwen2.5-72B-Instruct", 8, ""),
            (VERL, "deepseek-ai/DeepSeek-V3", 16, "note"),  # 1.3 TB of weights
            (OPENRLHF, "Qwen/Qwen2.5-72B-Instruct", 16, ""),  # no file tells how large a node is
        ],
    )
    def test_an_engine_that_leaves_its_node(self, tmp_path: Path, command, model, degree, severity) -> None:
        (tmp_path / "run.sh").write_text(command.format(model=model, degree=degree))
        found = [each.severity for each in check([tmp_path / "run.sh"]).findings if each.rule == "tp-crosses-node"]
        assert found == ([severity] if severity else [])

    def test_nodes_of_a_known_size(self, tmp_path: Path) -> None:
        (tmp_path / "run.sh").write_text(self.OPENRLHF.format(model="Qwen/Qwen2.5-72B-Instruct", degree=16))
        report = check([tmp_path / "run.sh"], {"cluster.gpus_per_node": 8})
        (found,) = (each for each in report.findings if each.rule == "tp-crosses-node")
        assert found.message == "the engine that generates the answers spans 2 nodes: TP 16, 8 GPUs per node"
        # as many GPUs for the engines as before
        assert dict(found.remedies[0].set) == {"parallel.rollout": 8, "parallel.rollout_engines": 2}


class TestVerlFineTuning:
    SCRIPT = """\
        torchrun --standalone --nproc_per_node=8 -m verl.trainer.fsdp_sft_trainer \\
            data.max_length=2048 {more} model.partial_pretrain=Qwen/Qwen2.5-0.5B-Instruct \\
            ulysses_sequence_parallel_size=2 use_remove_padding=true
        """

    def plan(self, folder: Path, more: str = "") -> Plan:
        return plan_of(folder, "run.sh", run__sh=dedent(self.SCRIPT).format(more=more))

    def test_what_is_not_written_stands_in_verls_config(self, tmp_path: Path) -> None:
        names = ("framework", "launch.launcher", "parallel.world_size", "parallel.ulysses", "parallel.data")
        plan = self.plan(tmp_path)
        assert values(plan, *names) == ["fsdp", "torchrun", 8, 2, 4]
        # 256 samples over 4 replicas in micro-batches of 4
        assert values(plan, "batch.global", "batch.micro", "batch.accumulation") == [256, 4, 16]
        assert values(plan, "sharding.stage", "sharding.group", "data.sequence_length") == [3, 8, 2048]

    @pytest.mark.parametrize(
        ("more", "expected"),
        [
            ("engine.ulysses_sequence_parallel_size=2", ["fsdp", 4, 2, 1, 96, None]),
            ("data.use_dynamic_bsz=False data.micro_batch_size_per_gpu=3", ["fsdp", 8, 1, 1, 96, 3]),
            ("engine=megatron engine.tensor_model_parallel_size=2", ["megatron", 4, 1, 2, 96, None]),
        ],
    )
    def test_the_newer_trainer_packs_and_has_engines(self, tmp_path: Path, more: str, expected: list[object]) -> None:
        command = "torchrun --nproc_per_node=8 -m verl.trainer.sft_trainer data.train_batch_size=96 "
        plan = plan_of(tmp_path, "run.sh", run__sh=f"{command}model.path=Qwen/Qwen3-4B {more}\n")
        names = ("framework", "parallel.data", "parallel.ulysses", "parallel.tensor", "batch.global", "batch.micro")
        assert values(plan, *names) == expected

    def test_what_does_not_divide_is_refused(self, tmp_path: Path) -> None:
        # 72 over 4 replicas are 18 samples, no multiple of 4
        self.plan(tmp_path, "data.train_batch_size=72")
        assert "batch-not-divisible" in {each.rule for each in check([tmp_path / "run.sh"]).findings}

    @pytest.mark.parametrize(
        ("words", "verls"),
        [
            ("sft_trainer.py --recipe recipe.yaml", False),
            ("sft_trainer.py --output_dir=out --bf16", False),
            ("sft_trainer.py", False),
            ("-m ours.sft_trainer --config own.yaml", False),
            ("verl/trainer/sft_trainer.py", True),
            ("sft_trainer.py --config-name=sft model.path=Qwen/Qwen3-4B data.train_batch_size=96", True),
        ],
    )
    def test_other_trainers_have_the_same_name(self, tmp_path: Path, words: str, verls: bool) -> None:
        (tmp_path / "run.sh").write_text(f"torchrun --nproc_per_node=8 {words}\n")
        found = read_runs([tmp_path], Options({})).runs
        assert any(run.plan.word("frontend") == "verl" for run in found) is verls


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

    @pytest.mark.parametrize(("padding_free", "kind"), [("false", "written"), ("true", "assumed")])
    def test_samples_that_keep_their_padding_are_all_as_long(self, padding_free: str, kind: str) -> None:
        text = self.CONFIG.format(taken=512).replace(
            "max_grad_norm: 1.0", f"max_grad_norm: 1.0\n            padding_free: {padding_free}"
        )
        (length,) = (each.value for each in config("easyr1", text).claims if each.setting == "data.sequence_length")
        assert isinstance(length, Value)
        assert (length.value, length.origin.kind) == (4096, kind)

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
            "batch.answers": 5,
            "batch.rollout": 2560,
            "parallel.rollout": 2,
            "parallel.rollout_shares": True,
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

    def test_how_recomputed_layers_keep_their_inputs(self) -> None:
        text = self.MODEL.replace(
            '"fp16": {"fp16"', '"checkpoint-num-layers": 2, "partition-activations": true, "fp16": {"fp16"'
        )
        found = told(config("gpt_neox", text))
        assert (found["checkpointing.unit"], found["checkpointing.partitioned"]) == (2, True)

    @pytest.mark.parametrize(
        ("text", "format_name"),
        [
            ('"precision": "bfloat16"', "bf16"),
            ('"precision": "fp16"', "fp16"),
            ('"fp16": {"enabled": false}', "fp32"),
            ('"fp16": {"enabled": false}, "precision": "bfloat16"', "bf16"),
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

    def test_what_a_missing_file_may_say_is_not_known(self, tmp_path: Path) -> None:
        plan = self.launched(tmp_path, "python deepy.py train.py -d configs 20B.yml site.yml")
        assert values(plan, "parallel.pipeline", "batch.micro", "optimizer.clip") == [4, 4, 1.0]
        assert values(plan, "optimizer.name", "precision.reduce") == [None, None]

    def test_what_generates_text_does_not_train(self, tmp_path: Path) -> None:
        self.launched(tmp_path, "python deepy.py generate.py -d configs 20B.yml local.yml")
        assert [run.role for run in read_runs([tmp_path / "run.sh"], Options()).runs] == ["other"]

    def test_too_few_hosts(self, tmp_path: Path) -> None:
        self.launched(tmp_path, "python deepy.py train.py -d configs 20B.yml local.yml", '{"global_num_gpus": 12}')
        found = {each.rule: each.message for each in check([tmp_path]).findings}
        assert "12 processes are no multiple of 8" in found["world-size-mismatch"]


class TestAxolotl:
    PLAIN = """\
        base_model: NousResearch/Llama-3.2-1B
        datasets:
          - path: teknium/GPT4-LLM-Cleaned
            type: alpaca
        sequence_len: 2048
        sample_packing: true
        gradient_accumulation_steps: 4
        micro_batch_size: 2
        num_epochs: 1
        optimizer: adamw_8bit
        bf16: auto
        gradient_checkpointing: true
        attn_implementation: flash_attention_2
        """

    def with_lines(self, *lines: str) -> str:
        return dedent(self.PLAIN) + "".join(f"{line}\n" for line in lines)

    def test_the_keys_of_the_trainer(self) -> None:
        found = told(config("axolotl", self.PLAIN))
        assert found == {
            "model.name": "meta-llama/Llama-3.2-1B",
            "data.sequence_length": 2048,
            "batch.accumulation": 4,
            "batch.micro": 2,
            "optimizer.name": "adamw_8bit",
            "precision.compute": "bf16",
            "checkpointing.activations": "full",
            "attention.flash": True,
        }

    @pytest.mark.parametrize(
        ("lines", "expected"),
        [
            (("adapter: qlora", "lora_r: 32", "load_in_4bit: true"), ("model.lora_rank", 32)),
            (("adapter: qlora", "lora_r: 32", "load_in_4bit: true"), ("precision.frozen", "nf4")),
            (("fp8: true",), ("precision.compute", "fp8")),
            (("liger_fused_linear_cross_entropy: true",), ("model.fused_loss", True)),
            (
                ("plugins:", "  - axolotl.integrations.cut_cross_entropy.CutCrossEntropyPlugin"),
                ("model.fused_loss", True),
            ),
            (("gradient_checkpointing_kwargs:", "  use_reentrant: false"), ("checkpointing.reentrant", False)),
            (("tensor_parallel_size: 2",), ("parallel.tensor", 2)),
            (("context_parallel_size: 4",), ("parallel.context", 4)),
            (("dp_replicate_size: 2", "dp_shard_size: 4"), ("sharding.group", 4)),
            (("dp_shard_size: 4",), ("sharding.group", 4)),
            (("dp_shard_size: 2", "context_parallel_size: 4"), ("sharding.group", 8)),
            (("ddp_bucket_cap_mb: 100",), ("communication.bucket_bytes", 104_857_600)),
        ],
    )
    def test_more_keys(self, lines: tuple[str, ...], expected: tuple[str, object]) -> None:
        name, value = expected
        assert told(config("axolotl", self.with_lines(*lines)))[name] == value

    def test_samples_that_are_not_packed_may_be_shorter(self) -> None:
        text = dedent(self.PLAIN).replace("sample_packing: true", "sample_packing: false")
        (claim,) = [each for each in config("axolotl", text).claims if each.setting == "data.sequence_length"]
        assert isinstance(claim.value, Value)
        assert (claim.value.value, claim.value.origin.kind) == (2048, "assumed")

    FIRST = ("fsdp: [full_shard, auto_wrap]", "fsdp_config:", "  fsdp_offload_params: true")
    SECOND = (
        "fsdp_version: 2",
        "fsdp_config:",
        "  offload_params: false",
        "  auto_wrap_policy: TRANSFORMER_BASED_WRAP",
        "  transformer_layer_cls_to_wrap: LlamaDecoderLayer",
        "  reshard_after_forward: false",
    )

    @pytest.mark.parametrize(
        ("lines", "expected"),
        [
            (FIRST, [3, "wrapped", "cpu", None]),
            (SECOND, [None, "wrapped", "none", False]),
        ],
    )
    def test_fsdp_of_both_versions(self, lines: tuple[str, ...], expected: list[object]) -> None:
        reading = config("axolotl", self.with_lines(*lines))
        found = told(reading)
        names = ("sharding.stage", "sharding.units", "sharding.offload_parameters", "sharding.reshard_after_forward")
        assert (reading.framework, [found.get(name) for name in names]) == ("fsdp", expected)

    def test_a_deepspeed_config_may_stand_in_the_file(self) -> None:
        lines = ("deepspeed:", "  zero_optimization:", "    stage: 3", "    overlap_comm: true")
        reading = config("axolotl", self.with_lines(*lines))
        assert (reading.framework, told(reading)["sharding.stage"]) == ("deepspeed", 3)

    @pytest.mark.parametrize(
        ("command", "world"),
        [
            ("axolotl train cfg.yml -- --num-processes 4", 4),
            ("axolotl train cfg.yml --launcher torchrun -- --nproc-per-node=4 --nnodes=2", 8),
            ("accelerate launch --num_processes 16 --num_machines 2 -m axolotl.cli.train cfg.yml", 16),
            ("torchrun --nproc_per_node 2 -m axolotl.cli.train cfg.yml", 2),
        ],
    )
    def test_what_starts_it(self, tmp_path: Path, command: str, world: int) -> None:
        lines = ("deepspeed: deepspeed_configs/zero3_bf16.json",)
        plan = plan_of(tmp_path, "run.sh", run__sh=f"{command}\n", cfg__yml=self.with_lines(*lines))
        names = ("framework", "frontend", "parallel.world_size", "sharding.stage", "batch.global")
        assert values(plan, *names) == ["deepspeed", "axolotl", world, 3, 8 * world]

    @pytest.mark.parametrize(
        ("launch", "told"), [("", "note"), ("accelerate launch --num_processes 64 --num_machines 8", "warning")]
    )
    def test_shipped_zero3_prefetches_nothing_for_a_key_of_its_own(
        self, tmp_path: Path, launch: str, told: str
    ) -> None:
        lines = ("deepspeed: deepspeed_configs/zero3_bf16.json", "sequence_len: 2048")
        (tmp_path / "cfg.yml").write_text(self.with_lines(*lines))
        if launch:
            (tmp_path / "run.sh").write_text(f"{launch} -m axolotl.cli.train cfg.yml\n")
        found = next(each for each in check([tmp_path]).findings if each.rule == "no-overlap")
        text = '"max_live_parameters": 1000000000 in zero_optimization of a copy of deepspeed_configs/zero3_bf16.json'
        assert (found.severity, [each.text for each in found.remedies]) == (told, [text])

    def test_shipped_offloading_keeps_the_optimizer(self, tmp_path: Path) -> None:
        # deepspeed_configs/zero3_bf16_cpuoffload_all.json sets zero_force_ds_cpu_optimizer to false
        (tmp_path / "cfg.yml").write_text(
            self.with_lines("deepspeed: deepspeed_configs/zero3_bf16_cpuoffload_all.json", "weight_decay: 0.0")
        )
        assert "optimizer-exchanged" not in {each.rule for each in check([tmp_path / "cfg.yml"]).findings}

    def test_flags_override_the_file(self, tmp_path: Path) -> None:
        command = "axolotl train cfg.yml --micro-batch-size 1 --gradient_accumulation_steps=16\n"
        plan = plan_of(tmp_path, "run.sh", run__sh=command, cfg__yml=dedent(self.PLAIN))
        assert values(plan, "batch.micro", "batch.accumulation") == [1, 16]

    def test_the_remedy_speaks_the_files_words(self) -> None:
        assert axolotl.spell("batch.micro", 1) == "micro_batch_size: 1"
        assert axolotl.spell("sharding.offload_optimizer", "none") == "fsdp_config.offload_params: false"


class TestLlamaFactory:
    CONFIG = """\
        model_name_or_path: Qwen/Qwen3-4B
        stage: sft
        do_train: true
        finetuning_type: full
        deepspeed: examples/deepspeed/ds_z3_config.json
        cutoff_len: 2048
        template: qwen3
        per_device_train_batch_size: 1
        gradient_accumulation_steps: 2
        learning_rate: 1.0e-5
        bf16: true
        """

    @pytest.mark.parametrize(
        ("more", "batches"),
        [("", [1, 2, 32]), (" per_device_train_batch_size=4 gradient_accumulation_steps=1", [4, 1, 64])],
    )
    def test_words_of_the_command_override_the_file(self, tmp_path: Path, more: str, batches: list[int]) -> None:
        command = f"FORCE_TORCHRUN=1 NNODES=2 NODE_RANK=0 NPROC_PER_NODE=8 llamafactory-cli train x.yaml{more}\n"
        plan = plan_of(tmp_path, "run.sh", run__sh=command, x__yaml=self.CONFIG)
        assert values(plan, "batch.micro", "batch.accumulation", "batch.global") == batches
        assert values(plan, "framework", "sharding.stage", "frontend") == ["deepspeed", 3, "llama-factory"]

    def test_the_file_alone_tells_what_it_trains(self, tmp_path: Path) -> None:
        plan = plan_of(tmp_path, "x.yaml", x__yaml=self.CONFIG)
        names = ("model.lora_rank", "checkpointing.activations", "data.sequence_length", "model.layers")
        assert values(plan, *names) == [0, "full", 2048, 36]


class TestComposer:
    MPT = """\
        variables:
          max_seq_len: 2048
          batch: {batch}
        max_seq_len: ${{variables.max_seq_len}}
        model:
          name: mpt_causal_lm
          d_model: 4096
          n_heads: 32
          n_layers: 32
          expansion_ratio: 4
          max_seq_len: ${{max_seq_len}}
          vocab_size: 50368
          attn_config:
            attn_impl: flash
        train_loader:
          name: text
        optimizer:
          name: decoupled_adamw
        algorithms:
          gradient_clipping:
            clipping_type: norm
            clipping_threshold: 1.0
        max_duration: 63900ba
        global_train_batch_size: ${{variables.batch}}
        device_train_microbatch_size: {micro}
        precision: amp_bf16
        fsdp_config:
          sharding_strategy: FULL_SHARD
          mixed_precision: PURE
          activation_checkpointing: true
          activation_checkpointing_reentrant: false
        """

    def text(self, batch: int = 1024, micro: object = 8) -> str:
        return dedent(self.MPT).format(batch=batch, micro=micro)

    def test_references_lead_to_what_they_name(self) -> None:
        reading = config("composer", self.text())
        assert told(reading) == {
            "batch.global": 1024,
            "batch.micro": 8,
            "precision.compute": "bf16",
            "precision.reduce": "bf16",
            "optimizer.name": "decoupled_adamw",
            "optimizer.clip": 1.0,
            "model.hidden": 4096,
            "model.heads": 32,
            "model.layers": 32,
            "model.ffn": 16384,
            "model.vocab": 50368,
            "model.max_positions": 2048,
            "model.gated_mlp": False,
            "model.tied_embeddings": True,
            "attention.flash": True,
            "data.sequence_length": 2048,
            "run.steps": 63900,
            "sharding.stage": 3,
            "checkpointing.activations": "full",
            "checkpointing.reentrant": False,
        }
        (claim,) = [each for each in reading.claims if each.setting == "model.max_positions"]
        assert isinstance(claim.value, Value)
        assert [step.label for step in claim.value.origin.chain] == [
            "model.max_seq_len is ${max_seq_len}",
            "max_seq_len is ${variables.max_seq_len}",
        ]
        assert claim.value.origin.span is not None
        assert claim.value.origin.span.line == 2

    def test_a_reference_in_a_circle_ends(self) -> None:
        assert told(config("composer", "a: ${b}\nb: ${a}\nmax_seq_len: ${a}\nglobal_train_batch_size: 8\n")) == {
            "batch.global": 8
        }

    def test_a_micro_batch_that_is_looked_for_is_not_known(self, tmp_path: Path) -> None:
        plan = plan_of(tmp_path, "run.sh", run__sh="composer -n 8 train.py x.yaml\n", x__yaml=self.text(micro="auto"))
        assert values(plan, "batch.global", "batch.micro", "batch.accumulation") == [1024, None, None]

    @pytest.mark.parametrize(
        ("command", "nodes", "world"),
        [
            ("composer -n 8 train.py x.yaml", 1, 8),
            ("composer --nproc 8 --world_size 32 --node_rank $RANK --master_addr head train.py x.yaml", 4, 32),
            ("WORLD_SIZE=16 composer -n 8 train/train.py x.yaml", 2, 16),
            ("torchrun --nproc_per_node 4 train.py x.yaml", 1, 4),
        ],
    )
    def test_what_starts_it(self, tmp_path: Path, command: str, nodes: int, world: int) -> None:
        plan = plan_of(tmp_path, "run.sh", run__sh=f"{command}\n", x__yaml=self.text())
        assert values(plan, "frontend", "launch.nodes", "parallel.world_size") == ["composer", nodes, world]

    def test_words_of_the_command_override_the_file(self, tmp_path: Path) -> None:
        command = "composer -n 8 train.py x.yaml variables.batch=512 fsdp_config.sharding_strategy=SHARD_GRAD_OP\n"
        plan = plan_of(tmp_path, "run.sh", run__sh=command, x__yaml=self.text())
        assert values(plan, "batch.global", "sharding.stage") == [512, 2]

    @pytest.mark.parametrize(
        ("batch", "micro", "count", "fails"),
        [
            (64, 4, 2, False),
            # 72 over 8 ranks are 9 samples each: micro-batches of 4, 4 and 1
            (72, 4, 3, False),
            # more than a rank's part: its whole part at once
            (8, 16, 1, False),
            (36, 4, None, True),
        ],
    )
    def test_the_last_micro_batch_may_be_smaller(
        self, tmp_path: Path, batch: int, micro: int, count: int | None, fails: bool
    ) -> None:
        command = "composer -n 8 train.py x.yaml\n"
        plan = plan_of(tmp_path, "run.sh", run__sh=command, x__yaml=self.text(batch, micro))
        assert plan.value("batch.accumulation") == count
        found = {each.rule for each in check([tmp_path]).findings}
        assert ("batch-not-divisible" in found) == fails

    def test_without_fsdp_it_is_ddp(self) -> None:
        text = self.text().split("fsdp_config:")[0]
        assert config("composer", text).framework == "ddp"


WRAPPED = "from torch.nn.parallel import DistributedDataParallel\nfrom net import Net\nmodel = DistributedDataParallel(Net())\n"
ENGINE = "import deepspeed\nfrom net import Net\nengine, *_ = deepspeed.initialize(model=Net(), config=chosen)\n"


@pytest.mark.parametrize(("text", "said"), [(WRAPPED, "batch.global = 64"), (ENGINE, '"train_batch_size": 64')])
def test_words_of_a_front_end_that_the_program_does_not_use_are_not_said(tmp_path: Path, text: str, said: str) -> None:
    files = {"train__py": text, "run__sh": "torchrun --nproc_per_node 8 train.py\n"}
    assert plan_of(tmp_path, "run.sh", **files).dialect.spell("batch.global", 64) == said


class TestSeenDevices:
    """Launchers that start a process for each GPU that they see."""

    FILES: Mapping[str, str] = {
        "lf__yaml": "stage: sft\ndo_train: true\nfinetuning_type: full\nmodel_name_or_path: gpt2\ntemplate: default\n",
        "ax__yml": "base_model: gpt2\ndatasets: [{path: a/b, type: alpaca}]\nmicro_batch_size: 1\n",
    }

    @pytest.mark.parametrize(
        ("command", "processes"),
        [
            ("FORCE_TORCHRUN=1 llamafactory-cli train lf.yaml", 3),
            ("FORCE_TORCHRUN=1 NPROC_PER_NODE=2 llamafactory-cli train lf.yaml", 2),
            ("axolotl train ax.yml", 3),
            ("axolotl train ax.yml --launcher accelerate -- --num_processes 2", 2),
        ],
    )
    def test_they_see_what_the_variable_shows(self, tmp_path: Path, command: str, processes: int) -> None:
        plan = plan_of(tmp_path, "run.sh", **self.FILES, run__sh=f"export CUDA_VISIBLE_DEVICES=0,1,2\n{command}\n")
        assert plan.integer("launch.processes") == processes
