"""What stands around a launch: its environment, what carries it to other machines, words that it loses, its port."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtlint.api import check, options_of
from dtlint.facts import fact
from dtlint.frameworks import Member
from dtlint.plan import Plan
from dtlint.runs import read_runs
from dtlint.value import Plain, Unknown, Value
from dtlint.value import given as by_user


def plans(folder: Path, script: str, **settings_: Plain) -> list[Plan]:
    file = folder / "launch.sh"
    file.write_text(script, encoding="utf-8")
    return [
        run.plan
        for run in read_runs([file], options_of({name: by_user(value) for name, value in settings_.items()})).runs
    ]


def listed(plan: Plan, collection: str, *fields: str) -> list[tuple[object, ...]]:
    found = [member for member in plan.collection(collection) if isinstance(member, Member)]
    return [tuple(_plain(member, field) for field in fields) for member in found]


def _plain(member: Member, field: str) -> object:
    value = member.fields[field]
    return value.value if isinstance(value, Value) else "?"


class TestEnvironment:
    @pytest.mark.parametrize(
        ("before", "value"),
        [("source $ENVIRONMENT\n", "?"), ("source env.sh\n", "?"), ("source ~/.bashrc\n", ""), ("", "")],
    )
    def test_what_a_sourced_file_that_is_not_at_hand_exports_is_unknown(
        self, tmp_path: Path, before: str, value: str
    ) -> None:
        (plan,) = plans(tmp_path, f"{before}export NCCL_DEBUG=WARN\ntorchrun --nproc_per_node 8 pretrain_gpt.py\n")
        found = listed(plan, "launch.environment", "name", "value")
        assert ("CUDA_DEVICE_MAX_CONNECTIONS", value) in found and ("NCCL_DEBUG", "WARN") in found

    def test_what_stands_nearest_to_the_launch_counts(self, tmp_path: Path) -> None:
        (plan,) = plans(tmp_path, "export NCCL_DEBUG=INFO\nenv NCCL_DEBUG=WARN torchrun --nproc_per_node 8 train.py\n")
        assert plan.value("communication.env") == (("NCCL_DEBUG", "WARN"),)

    @pytest.mark.parametrize(
        ("start", "value"),
        [
            ("srun --export=ALL,CUDA_DEVICE_MAX_CONNECTIONS=1,NCCL_DEBUG=WARN", "1"),
            ("srun --export CUDA_DEVICE_MAX_CONNECTIONS=1", "1"),
            ("srun --export=ALL", ""),
            ("mpirun -np 8 -x PATH -x CUDA_DEVICE_MAX_CONNECTIONS=1", "1"),
            ("mpiexec -n 8 -genv CUDA_DEVICE_MAX_CONNECTIONS 1", "1"),
            ("mpirun -np 8 -x CUDA_DEVICE_MAX_CONNECTIONS", ""),
            ("docker run --gpus all -e CUDA_DEVICE_MAX_CONNECTIONS=1 image", "1"),
            ("docker run --gpus all -e NCCL_DEBUG=WARN image", ""),
        ],
    )
    def test_a_command_may_set_variables_for_what_it_starts(self, tmp_path: Path, start: str, value: str) -> None:
        (plan,) = plans(tmp_path, f"{start} torchrun --nproc_per_node 8 pretrain_gpt.py\n")
        assert ("CUDA_DEVICE_MAX_CONNECTIONS", value) in listed(plan, "launch.environment", "name", "value")

    def test_a_value_with_commas_is_one_value_but_for_srun(self, tmp_path: Path) -> None:
        start = "mpirun -np 8 -x NCCL_IB_HCA=mlx5_0,mlx5_1 -x NCCL_DEBUG=INFO"
        (plan,) = plans(tmp_path, f"{start} torchrun --nproc_per_node 8 train.py\n")
        assert plan.value("communication.env") == (("NCCL_DEBUG", "INFO"), ("NCCL_IB_HCA", "mlx5_0,mlx5_1"))

    def test_what_srun_sets_replaces_what_the_shell_exports(self, tmp_path: Path) -> None:
        script = "export NCCL_DEBUG=INFO\nsrun --export=ALL,NCCL_DEBUG=WARN torchrun --nproc_per_node 8 train.py\n"
        (plan,) = plans(tmp_path, script)
        assert plan.value("communication.env") == (("NCCL_DEBUG", "WARN"),)

    def test_a_variable_that_is_looked_for_and_not_set_is_empty_at_the_launch(self, tmp_path: Path) -> None:
        (plan,) = plans(tmp_path, "export NCCL_DEBUG=INFO\ntorchrun --nproc_per_node 8 train.py\n")
        places = {
            _plain(member, "name"): (member.place.line, _plain(member, "value"))
            for member in plan.collection("launch.environment")
            if isinstance(member, Member)
        }
        assert places["NCCL_DEBUG"] == (1, "INFO")
        assert places["CUDA_DEVICE_MAX_CONNECTIONS"] == (2, "")

    def test_a_value_from_outside_is_not_known(self, tmp_path: Path) -> None:
        (plan,) = plans(tmp_path, "export NCCL_IB_DISABLE=$IB\ntorchrun --nproc_per_node 8 train.py\n")
        assert ("NCCL_IB_DISABLE", "?") in listed(plan, "launch.environment", "name", "value")

    @pytest.mark.parametrize(
        ("variable", "effect"),
        [
            ("CUDA_LAUNCH_BLOCKING=1", "serializes"),
            ("TORCH_DISTRIBUTED_DEBUG=DETAIL", "compares"),
            ("NCCL_BLOCKING_WAIT=1", "waits"),
            ("NCCL_DEBUG=trace", "logs"),
            ("NCCL_DEBUG=WARN", ""),
            ("CUDA_LAUNCH_BLOCKING=0", ""),
        ],
    )
    def test_switches_for_hunting_faults(self, tmp_path: Path, variable: str, effect: str) -> None:
        (plan,) = plans(tmp_path, f"{variable} torchrun --nproc_per_node 8 train.py\n")
        assert listed(plan, "launch.debugging", "effect") == ([(effect,)] if effect else [])

    @pytest.mark.parametrize(
        ("submission", "effects"),
        [
            ("ray job submit -- {}", []),
            ("ray job submit --address=http://head:8265 --no-wait -- {}", []),
            ("ray start --head\nray job submit -- {}", [("serializes",)]),
            ("ray stop\nray start --head --num-gpus 8\nray status\nray job submit -- {}", [("serializes",)]),
            ("srun ray start --head\nray job submit -- {}", [("serializes",)]),
            ("""ray job submit --runtime-env-json='{{"env_vars": {{"NCCL_DEBUG": "INFO"}}}}' -- {}""", [("logs",)]),
            (
                """E='{{"env_vars": {{"NCCL_DEBUG": "INFO"}}}}'\nray job submit --runtime-env-json "$E" -- {}""",
                [("logs",)],
            ),
            ("""ray job submit --runtime-env-json='{{"pip": ["NCCL_DEBUG"]}}' -- {}""", []),
            ("ray job submit --runtime-env env.yaml -- {}", []),
            ("ray status\n{}", [("serializes",)]),
        ],
    )
    def test_a_job_of_ray_has_the_variables_of_its_cluster(
        self, tmp_path: Path, submission: str, effects: list[tuple[str]]
    ) -> None:
        launch = submission.format("torchrun --nproc_per_node 8 train.py")
        (plan,) = plans(tmp_path, f"export CUDA_LAUNCH_BLOCKING=1\n{launch}\n")
        assert listed(plan, "launch.debugging", "effect") == effects

    @pytest.mark.parametrize(
        ("option", "value"), [("", ""), ("--runtime-env env.yaml", "?"), ('--runtime-env-json="$JSON"', "?")]
    )
    def test_what_a_runtime_environment_out_of_sight_sets_is_unknown(
        self, tmp_path: Path, option: str, value: str
    ) -> None:
        (plan,) = plans(tmp_path, f"ray job submit {option} -- torchrun --nproc_per_node 8 pretrain_gpt.py\n")
        assert ("CUDA_DEVICE_MAX_CONNECTIONS", value) in listed(plan, "launch.environment", "name", "value")

    def test_a_variable_that_nothing_reads(self, tmp_path: Path) -> None:
        (plan,) = plans(tmp_path, "NCCL_AVOID_RECORD_STREAMS=1 torchrun --nproc_per_node 8 train.py\n")
        assert listed(plan, "config.inert", "key", "reason") == [
            ("NCCL_AVOID_RECORD_STREAMS", "torch reads it as TORCH_NCCL_AVOID_RECORD_STREAMS")
        ]

    @settings(max_examples=20, deadline=None)
    @given(devices=st.lists(st.integers(0, 15), min_size=1, max_size=16, unique=True))
    def test_visible_gpus_are_counted(self, tmp_path_factory: pytest.TempPathFactory, devices: list[int]) -> None:
        text = ",".join(map(str, devices))
        folder = tmp_path_factory.mktemp("visible")
        (plan,) = plans(folder, f"CUDA_VISIBLE_DEVICES={text} torchrun --nproc_per_node 2 train.py\n")
        assert fact(plan, "launch.visible_gpus") == len(devices)


class TestStarters:
    @pytest.mark.parametrize(
        ("command", "starter"),
        [
            ("torchrun --nnodes 2 train.py", "none"),
            ("nohup torchrun --nnodes 2 train.py", "none"),
            ("srun torchrun --nnodes 2 train.py", "srun"),
            ("srun bash -c 'torchrun --nnodes 2 train.py'", "srun"),
            ("mpirun -np 2 torchrun --nnodes 2 train.py", "mpirun"),
            ('ssh node1 "torchrun --nnodes 2 train.py"', "ssh"),
        ],
    )
    def test_what_carries_a_launch_to_other_machines(self, tmp_path: Path, command: str, starter: str) -> None:
        (plan,) = plans(tmp_path, command + "\n")
        assert fact(plan, "launch.starter") == starter
        assert fact(plan, "launch.spread") is (starter != "none")

    @pytest.mark.parametrize(
        ("command", "cause"),
        [
            ("srun torchrun --nnodes 2 --node_rank $SLURM_NODEID train.py", ["early"]),
            ("srun torchrun --nnodes 2 --node_rank=0 train.py", ["constant"]),
            ("srun torchrun --nnodes 2 --node_rank=0 --node-rank 0 train.py", ["constant"]),
            ("srun bash -c 'torchrun --nnodes 2 --node_rank $SLURM_NODEID train.py'", []),
            ("srun -w node1 torchrun --nnodes 2 --node_rank 1 train.py", []),
            ("srun torchrun --nnodes 2 --rdzv_backend c10d --node_rank 0 train.py", []),
            ("srun torchrun --nnodes 2 --rdzv-backend etcd-v2 --node_rank $SLURM_PROCID train.py", []),
            ("srun torchrun --nnodes 2 --rdzv_backend=etcd --node_rank 0 train.py", []),
            ("srun torchrun --nnodes 2 --rdzv_backend static --node_rank 0 train.py", ["constant"]),
            ("srun torchrun --nnodes 2 --rdzv_backend c10d --rdzv_backend static --node_rank 0 train.py", ["constant"]),
            ("srun torchrun --nnodes 2 --node_rank 0 train.py --backend c10d", ["constant"]),
            ("torchrun --nnodes 2 --node_rank $SLURM_NODEID train.py", []),
            ("export N=$SLURM_NODEID\nsrun bash -c 'torchrun --nnodes 2 --node_rank $N train.py'", ["early"]),
            ("N=$SLURM_NODEID srun bash -c 'torchrun --nnodes 2 --node_rank $N train.py'", ["early"]),
            ("srun bash -c 'N=$SLURM_NODEID; torchrun --nnodes 2 --node_rank $N train.py'", []),
            ("go() { torchrun --nnodes 2 --node_rank $SLURM_NODEID t.py; }\nexport -f go\nsrun bash -c go", []),
            ("mpirun -np 2 torchrun --nnodes 2 --node_rank $OMPI_COMM_WORLD_RANK train.py", ["early"]),
            ('mpiexec -n 2 bash -c "torchrun --nnodes 2 --node_rank $PMI_RANK train.py"', ["early"]),
            ("mpirun -np 2 bash -c 'torchrun --nnodes 2 --node_rank $OMPI_COMM_WORLD_RANK train.py'", []),
            ("mpirun -np 1 -H a torchrun --nnodes 2 --node_rank 0 train.py", []),
        ],
    )
    def test_a_node_rank_that_every_task_gets(self, tmp_path: Path, command: str, cause: list[str]) -> None:
        (plan,) = plans(tmp_path, command + "\n")
        assert listed(plan, "launch.same_rank", "cause") == [(each,) for each in cause]


PARSED = """import torch
from transformers import HfArgumentParser, Trainer, TrainingArguments
(arguments,) = HfArgumentParser((TrainingArguments,)).parse_args_into_dataclasses()
Trainer(torch.nn.Linear(8, 8), arguments).train()
"""


class TestLostWords:
    def test_a_comment_in_a_continuation(self, tmp_path: Path) -> None:
        script = "torchrun --nproc_per_node 8 train.py \\\n  # --lr 1 \\\n  --bf16 \\\n  # --wd 0 \\\n  --fp8\n"
        (plan,) = plans(tmp_path, script)
        assert listed(plan, "launch.lost", "cause", "words") == [("comment", "--bf16")]

    def test_an_empty_line_behind_the_backslash(self, tmp_path: Path) -> None:
        (plan,) = plans(tmp_path, "torchrun --nproc_per_node 8 train.py \\\n  --lr 1 \\\n\n  --bf16 \\\n  --fp8\n")
        assert listed(plan, "launch.lost", "cause", "words") == [("empty line", "--bf16 --fp8")]

    def test_a_blank_behind_the_backslash(self, tmp_path: Path) -> None:
        (plan,) = plans(tmp_path, "torchrun --nproc_per_node 8 train.py \\ \n  --bf16\n")
        assert listed(plan, "launch.lost", "cause") == [("blank",)]

    @pytest.mark.parametrize(
        ("text", "cause", "words"),
        [
            ("torchrun --nproc_per_node 8 \\ \n  train.py \\\n  --lr 1\n", "blank", "train.py --lr 1"),
            ("torchrun --nproc_per_node 8 \\\t\ntrain.py --lr 1\n", "blank", "train.py --lr 1"),
            ("deepspeed --num_gpus 8 \\ \n  $PROGRAM --lr 1\n", "blank", "$PROGRAM --lr 1"),
            ("accelerate launch \\ # here\n  --num_processes 8 train.py\n", "remark", "--num_processes 8 train.py"),
            ("torchrun --nnodes 2 \\  # one id\n  --rdzv_id 7 train.py\n", "remark", "--rdzv_id 7 train.py"),
            ("torchrun --nproc_per_node 8 \\\n  # the program\n  train.py --lr 1\n", "comment", "train.py --lr 1"),
            ("python -m torch.distributed.run \\ \n  train.py\n", "blank", "train.py"),
            ("srun --nodes 2 \\ # tasks\n  -n 8 python train.py\n", "remark", "-n 8 python train.py"),
            ("srun --nodes 2 \\ \n  torchrun train.py\n  \n", "blank", "torchrun train.py"),
            ("torchrun --nproc_per_node 8 \\\n\n  train.py --lr 1\n", "empty line", "train.py --lr 1"),
            ("deepspeed --num_gpus 8 \\\n  \n\n# here\ntrain.py --lr 1\n", "empty line", "train.py --lr 1"),
            ("RUN='torchrun \\ \n  --nproc_per_node 8'\n$RUN train.py\n", "blank", "--nproc_per_node 8 train.py"),
            ("RUN='torchrun \\ \n  --nproc_per_node 8'\nbash -c \"$RUN train.py\"\n", "blank", "the next line"),
            ('A=(--nproc_per_node 8 \\ \n  --nnodes 1)\ntorchrun "${A[@]}" train.py\n', "blank", "--nnodes 1 train.py"),
        ],
    )
    def test_a_command_that_ends_before_its_program(self, tmp_path: Path, text: str, cause: str, words: str) -> None:
        plan = plans(tmp_path, text)[0]
        assert listed(plan, "launch.lost", "cause", "words", "part") == [(cause, words, "program")]

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("CUDA_VISIBLE_DEVICES=0,1 \\ \ntorchrun --nproc_per_node 2 train.py\n", "CUDA_VISIBLE_DEVICES=0,1"),
            ("sudo -E \\ \n  torchrun --nproc_per_node 2 train.py\n", "sudo -E"),
            ("CUDA_VISIBLE_DEVICES=0,1 \\\n\ntorchrun --nproc_per_node 2 train.py\n", "CUDA_VISIBLE_DEVICES=0,1"),
            ("A=1 \\\nNPROC_PER_NODE=2 \\\n\n# tune\nswift sft --model m --bf16\n", "A=1 NPROC_PER_NODE=2"),
        ],
    )
    def test_what_stands_before_a_launch_is_cut_off(self, tmp_path: Path, text: str, words: str) -> None:
        (plan,) = plans(tmp_path, text)
        assert listed(plan, "launch.lost", "words", "part") == [(words, "front")]

    @pytest.mark.parametrize(
        "text",
        [
            "torchrun --nproc_per_node 8 train.py \\ \n\n  python other.py\n",
            "torchrun --nproc_per_node 8 train.py \\ \npython other.py\n",
            "torchrun --nproc_per_node 8 train.py \\\n  # --lr 1\n\nother.py --a\n",
            "torchrun --nproc_per_node 8 train.py --name a\\ b \\\n  --lr 1\n",
            "torchrun --nproc_per_node 8 \\\n  train.py --mark '#1' \\\n  --lr 1\n",
            "A=(--nproc_per_node 8 \\ \n  --nnodes 1)\ntorchrun ${A[@]} train.py\n",
            "torchrun --nproc_per_node 8 train.py \\\n\n  python other.py\n",
            "torchrun --nproc_per_node 8 train.py \\\n\nother.py --a\n",
            "GPUS=8 \\\n\ntorchrun --nproc_per_node $GPUS train.py\n",
            "OMP_NUM_THREADS=8 \\\n\nexport OMP_NUM_THREADS\ntorchrun --nproc_per_node 8 train.py\n",
            "export OMP_NUM_THREADS=1\nOMP_NUM_THREADS=8 \\\n\ntorchrun --nproc_per_node 8 train.py\n",
            "PYTHONPATH=src \\\n\ntorchrun --nproc_per_node 8 train.py\n",
            "#SBATCH --gres=gpu:8\nCUDA_VISIBLE_DEVICES=0,1 \\\n\ntorchrun --nproc_per_node 2 train.py\n",
            "NPROC_PER_NODE=8 \\\n\nmkdir out\nswift sft --model m --bf16\n",
        ],
    )
    def test_a_command_below_is_one_of_its_own(self, tmp_path: Path, text: str) -> None:
        assert all(listed(plan, "launch.lost", "cause") == [] for plan in plans(tmp_path, text))

    def test_the_program_that_a_broken_line_loses_is_no_launch(self, tmp_path: Path) -> None:
        found = plans(tmp_path, "deepspeed --num_gpus 8 \\ \n  train.py --per_device_train_batch_size 4\n")
        assert [plan.value("launch.launcher") for plan in found] == ["deepspeed"]

    def test_an_srun_that_loses_another_program_is_no_launch(self, tmp_path: Path) -> None:
        assert plans(tmp_path, "srun --nodes 2 \\ \n  hostname\n") == []

    def test_what_a_broken_line_hides_is_no_default(self, tmp_path: Path) -> None:
        (plan,) = plans(tmp_path, "torchrun --nnodes 2 \\ # one id\n  --rdzv_endpoint a:29500 train.py\n")
        assert not isinstance(plan.setting("launch.rendezvous_host"), Value)

    def test_flags_of_the_launcher_behind_the_script(self, tmp_path: Path) -> None:
        (plan,) = plans(tmp_path, "deepspeed train.py --hostfile hosts --num_gpus 8 --deepspeed_config ds.json\n")
        assert listed(plan, "launch.lost", "cause", "words") == [("script", "--hostfile and --num_gpus")]

    @pytest.mark.parametrize(
        ("text", "counts"),
        [
            ("deepspeed train.py --hostfile hosts\n", (4, 8)),
            ("cd there\ndeepspeed train.py --hostfile=others\n", (2, 6)),
            ("deepspeed --num_gpus 2 train.py --num_nodes 2 --hostfile hosts\n", (2, 4)),
            ("torchrun train.py --nproc_per_node 8\n", (1, 8)),
            ("torchrun --nproc_per_node 4 train.py --nnodes=2\n", (4, 8)),
            ("export PET_NPROC_PER_NODE=4\ntorchrun train.py --nnodes 2\n", (4, 8)),
        ],
    )
    def test_how_many_processes_start_without_the_flags_behind_the_script(
        self, tmp_path: Path, text: str, counts: tuple[int, int]
    ) -> None:
        (tmp_path / "hosts").write_text("a slots=4\nb slots=4\n")
        (tmp_path / "there").mkdir()
        (tmp_path / "there" / "others").write_text("a slots=2\nb slots=2\nc slots=2\n")
        (plan,) = plans(tmp_path, text)
        assert listed(plan, "launch.lost", "started", "meant") == [counts]

    @pytest.mark.parametrize(
        "text",
        [
            "deepspeed train.py --num_gpus 8\n",
            "deepspeed train.py --hostfile absent\n",
            "torchrun train.py --nproc_per_node $N\n",
            "torchrun train.py --rdzv_id 7\n",
            "accelerate launch train.py --num_processes 8\n",
        ],
    )
    def test_counts_that_nothing_tells(self, tmp_path: Path, text: str) -> None:
        (plan,) = plans(tmp_path, text)
        (member,) = plan.collection("launch.lost")
        assert isinstance(member, Member) and "started" not in member.fields

    @pytest.mark.parametrize(("parse", "severity"), [("parse_args", "error"), ("parse_known_args", "warning")])
    def test_a_parser_that_stops_at_the_launchers_flag(self, tmp_path: Path, parse: str, severity: str) -> None:
        text = f"import argparse\nparser = argparse.ArgumentParser()\nparser.add_argument('--lr')\nargs = parser.{parse}()\n"
        (tmp_path / "train.py").write_text(f"{text}loss.backward()\n")
        (tmp_path / "run.sh").write_text("accelerate launch train.py --lr 1 --num_processes 8\n")
        (found,) = [each for each in check([tmp_path / "run.sh"]).findings if each.rule == "lost-arguments"]
        assert found.severity == severity

    @pytest.mark.parametrize(
        ("launch", "shown"),
        [
            ("accelerate launch --config_file acc.yaml train.py --num_processes 8", "--num_processes 8"),
            ("accelerate launch train.py --multi_gpu --num_processes $N", "--multi_gpu and --num_processes"),
            ("torchrun train.py --nproc_per_node=4 --lr 1", "--nproc_per_node=4"),
        ],
    )
    def test_they_are_shown_with_their_values(self, tmp_path: Path, launch: str, shown: str) -> None:
        (plan,) = plans(tmp_path, f"{launch}\n")
        assert listed(plan, "launch.lost", "shown", "counts") == [(shown, "yes")]

    def test_a_flag_of_both_is_the_scripts_too(self, tmp_path: Path) -> None:
        (plan,) = plans(tmp_path, "deepspeed --num_gpus 8 train.py --num_gpus 8 --deepspeed_config ds.json\n")
        assert listed(plan, "launch.lost", "cause") == []

    @pytest.mark.parametrize(
        ("first", "second", "name"),
        [
            ("torchrun --nproc_per_node 4 train.py", "torchrun --nproc_per_node 2 train.py", "torchrun"),
            ("torchrun --nproc_per_node 4 train.py --bf16 True", "CUDA_VISIBLE_DEVICES=0 torchrun eval.py", "torchrun"),
            ("deepspeed train.py --deepspeed ds.json", "deepspeed --num_gpus 2 train.py", "deepspeed"),
            ("accelerate launch train.py --seed=1", "accelerate launch --num_processes 2 train.py", "accelerate"),
            ("python -m torch.distributed.run train.py", "python -m torch.distributed.launch train.py", "python"),
            ("RUN='torchrun --nproc_per_node 4'\n$RUN train.py", "$RUN train.py --seed 2", "torchrun"),
        ],
    )
    def test_a_launch_that_a_backslash_makes_an_argument(self, tmp_path: Path, first, second, name) -> None:
        (plan,) = plans(tmp_path, f"{first} \\\n{second} \\\n  --lr 0.1\n")
        assert listed(plan, "launch.lost", "cause", "words", "program") == [("second", name, "train.py")]

    @pytest.mark.parametrize(
        "text",
        [
            "torchrun --nproc_per_node 4 train.py --launcher \\\n  torchrun --seed 1\n",
            "torchrun --nproc_per_node 4 train.py --launcher torchrun \\\n  --seed 1\n",
            'torchrun --nproc_per_node 4 train.py \\\n  "torchrun train.py"\n',
            "torchrun --nproc_per_node 4 watch.py \\\n  -- \\\n  torchrun train.py\n",
            "torchrun --nproc_per_node 4 compare.py \\\n  torchrun \\\n  deepspeed\n",
            "torchrun --nproc_per_node 4 train.py --seed 1 \\\n\ntorchrun --nproc_per_node 4 train.py --seed 2\n",
            "accelerate launch --no_python ./pin.sh \\\n  torchrun train.py\n",
            "srun --nodes 2 \\\n  torchrun --nproc_per_node 4 train.py\n",
        ],
    )
    def test_a_launcher_that_is_an_argument_on_purpose(self, tmp_path: Path, text: str) -> None:
        assert [listed(plan, "launch.lost", "cause") for plan in plans(tmp_path, text)].count([("second",)]) == 0

    @pytest.mark.parametrize(("program", "micro"), [("train.py", 4), ("other.py", 2)])
    def test_the_words_behind_the_second_launch_are_its_programs(
        self, tmp_path: Path, program: str, micro: int
    ) -> None:
        (tmp_path / "train.py").write_text(PARSED)
        arguments = "--output_dir out --per_device_train_batch_size"
        (plan,) = plans(tmp_path, f"torchrun train.py {arguments} 2 \\\ntorchrun {program} {arguments} 4\n")
        assert plan.value("batch.micro") == micro

    def test_the_launch_behind_is_no_list_of_unknown_flags(self, tmp_path: Path) -> None:
        command = "torchrun --nnodes=1 --nproc_per_node=1 train.py"
        (tmp_path / "train.py").write_text(PARSED)
        (tmp_path / "run.sh").write_text(
            f"{command} \\\n{command} \\\n--output_dir out --bf16 True --lerning_rate 1e-4\n"
        )
        told = [(each.rule, each.span.line) for each in check([tmp_path]).findings if each.severity == "error"]
        assert told == [("lost-arguments", 2), ("unknown-setting", 3)]


class TestPorts:
    LAUNCH = "torchrun --nproc_per_node 2 --master_port {} train.py --seed {}"

    @pytest.mark.parametrize(
        ("between", "ports", "clashes"),
        [
            (" &\n", (1234, 1234), 1),
            ("\n", (1234, 1234), 0),
            (" &\nwait\n", (1234, 1234), 0),
            (" &\n", (1234, 1235), 0),
        ],
    )
    def test_a_port_that_is_taken(self, tmp_path: Path, between: str, ports: tuple[int, int], clashes: int) -> None:
        first, second = (self.LAUNCH.format(port, seed) for seed, port in enumerate(ports))
        found = plans(tmp_path, first + between + second + "\n")
        assert [len(plan.collection("launch.port_clash")) for plan in found] == [0, clashes]

    @pytest.mark.parametrize(
        ("script", "clashes"),
        [
            ("run() {{\n  {launch} --seed $1\n}}\nrun 0 &\nrun 1 &\nwait\n", 1),
            ("run() {{\n  {launch} --seed $1\n}}\nrun 0 &\nwait\nrun 1 &\n", 0),
            ("run() {{\n  {launch} --seed $1\n}}\nrun 0\nrun 1\n", 0),
            ("for i in 0 1; do\n  CUDA_VISIBLE_DEVICES=$i {launch} --seed $i &\ndone\nwait\n", 1),
            ("for i in 0 1; do\n  {launch} --seed $i &\n  wait\ndone\n", 0),
            ("for i in 0 1; do\n  {launch} --seed $i &\n  if busy; then sleep 60; fi\ndone\nwait\n", 0),
            ("for i in 0 1; do\n  docker run --gpus all image {launch} --seed $i &\ndone\n", 0),
            ("for i in 0 1; do\n  docker run --net=host image {launch} --seed $i &\ndone\n", 1),
            ("for i in 0 1; do\n  {launch} --rdzv_id $i --seed $i &\ndone\n", 0),
            ("bash one.sh 0 &\nbash one.sh 1 &\nwait\n", 1),
            ("bash one.sh 0 &\nwait\nbash one.sh 1 &\n", 0),
            ("bash one.sh 0\nbash one.sh 1\n", 0),
            ("bash behind.sh 0\nbash behind.sh 1\n", 0),
        ],
    )
    def test_one_place_that_launches_several_times(self, tmp_path: Path, script: str, clashes: int) -> None:
        launch = "torchrun --nproc_per_node 1 --master_port 1234 train.py"
        (tmp_path / "one.sh").write_text(f"{launch} --seed $1\n")
        (tmp_path / "behind.sh").write_text(f"{launch} --seed $1 &\nwait\n")
        found = plans(tmp_path, script.format(launch=launch))
        assert sum(len(plan.collection("launch.port_clash")) for plan in found) == clashes

    def test_other_machines_have_ports_of_their_own(self, tmp_path: Path) -> None:
        script = "".join(f'ssh node{n} "{self.LAUNCH.format(1234, n)}" &\n' for n in (0, 1))
        assert all(not plan.collection("launch.port_clash") for plan in plans(tmp_path, script))


class TestGroupsOnMachines:
    PLAN: ClassVar = {
        "parallel.world_size": 32,
        "cluster.gpus_per_node": 8,
        "cluster.nodes": 4,
        "framework": "megatron",
        "parallel.tensor": 4,
    }

    @pytest.mark.parametrize(("context", "nodes"), [(1, 1), (2, 1), (4, 2), (8, 4)])
    def test_context_groups_lie_a_tensor_group_apart(self, context: int, nodes: int) -> None:
        plan = Plan.of({**self.PLAN, "parallel.context": context})
        assert fact(plan, "topology.context_nodes") == nodes

    @pytest.mark.parametrize(("tensor", "expert", "nodes"), [(1, 8, 1), (1, 16, 2), (2, 8, 2), (4, 2, 1)])
    def test_expert_groups_lie_an_expert_tensor_group_apart(self, tensor: int, expert: int, nodes: int) -> None:
        plan = Plan.of({**self.PLAN, "parallel.expert": expert, "parallel.expert_tensor": tensor})
        assert fact(plan, "topology.expert_nodes") == nodes

    @pytest.mark.parametrize(
        ("degrees", "parts"),
        [
            ({"parallel.sequence": True}, 4),
            ({"parallel.sequence": False}, 1),
            ({"parallel.sequence": True, "parallel.context": 2}, 16),
            ({"parallel.sequence": False, "parallel.context": 2}, 4),
        ],
    )
    def test_parts_of_a_sequence(self, degrees: dict[str, object], parts: int) -> None:
        assert fact(Plan.of({**self.PLAN, **degrees}), "topology.sequence_parts") == parts  # type: ignore[dict-item]


class TestGpuGenerations:
    @pytest.mark.parametrize(("gpu", "before"), [("H100", True), ("A100", True), ("B200", False), ("GB200", False)])
    def test_blackwell_needs_no_single_queue(self, gpu: str, before: bool) -> None:
        assert fact(Plan.of({"cluster.gpu": gpu}), "cluster.before_blackwell") is before

    @pytest.mark.parametrize("settings_", [{}, {"cluster.gpu": "MI300X"}])
    def test_not_known_of_no_gpu_and_of_others(self, settings_: dict[str, str]) -> None:
        assert isinstance(fact(Plan.of(settings_), "cluster.before_blackwell"), Unknown)


class TestShardsOverTheNetwork:
    PLAN: ClassVar = {
        "framework": "fsdp",
        "sharding.units": "wrapped",
        "precision.compute": "bf16",
        "model.name": "Qwen/Qwen2-72B",
        "model.parameters": 72.7e9,
        "optimizer.name": "adamw",
        "optimizer.in_backward": False,
        "precision.master": "fp32",
        "data.sequence_length": 2048,
        "batch.micro": 1,
        "batch.accumulation": 8,
        "checkpointing.activations": "full",
        "parallel.world_size": 64,
        "cluster.gpus_per_node": 8,
        "cluster.nodes": 8,
        "cluster.gpu": "A100-SXM-80GB",
    }

    def test_two_gathers_and_a_scatter_a_micro_batch(self) -> None:
        plan = Plan.of(self.PLAN)
        assert fact(plan, "communication.shard_micro_bytes") == pytest.approx(3 * 2 * 72.7e9 * 63 / 64, rel=0.01)
        assert fact(plan, "communication.shard_step_bytes") == pytest.approx(8 * 3 * 2 * 72.7e9 * 63 / 64, rel=0.01)

    def test_a_copy_in_each_node(self) -> None:
        assert fact(Plan.of(self.PLAN), "memory.node_copy_bytes") == pytest.approx(2 * 72.7e9 / 8)
        assert fact(Plan.of(self.PLAN), "memory.node_copy_fits") is True
        assert fact(Plan.of({**self.PLAN, "cluster.gpu": "A10G"}), "memory.node_copy_fits") is False

    def test_the_compute_that_hides_the_gathers_does_not_depend_on_the_model(self):
        plan = Plan.of({**self.PLAN, "cluster.internode_gbit_per_s": 50})
        # 312 TFLOPS at 40%, against 7/8 of the weights over 6.25 GB/s
        tokens = 312e12 * 0.4 * 7 / 8 / 6.25e9
        assert fact(plan, "communication.hiding_tokens") == pytest.approx(tokens)
        other = Plan.of({**self.PLAN, "cluster.internode_gbit_per_s": 50, "model.parameters": 7e9})
        assert fact(other, "communication.hiding_tokens") == pytest.approx(tokens)

    def test_states_of_parameters_that_stay_inside_the_node(self):
        each = fact(Plan.of(self.PLAN), "memory.bytes_per_parameter")
        assert fact(Plan.of(self.PLAN), "memory.near_states_bytes") == pytest.approx(72.7e9 * each / 8)
        plan = Plan.of({**self.PLAN, "framework": "deepspeed"})
        each = fact(plan, "memory.bytes_per_parameter")
        # shared out over 64 ranks, beside a copy of the weights in each node
        assert fact(plan, "memory.near_states_bytes") == pytest.approx(72.7e9 * (each / 64 + 2 / 8))

    def test_states_of_72b_do_not_fit_into_one_node(self) -> None:
        assert fact(Plan.of(self.PLAN), "sharding.fits_in_node") is False  # 16 x 72.7e9 / 8 = 145 GB

    def test_a_lean_recipe_may_fit(self) -> None:
        told = {name: value for name, value in self.PLAN.items() if name not in ("optimizer.name", "precision.master")}
        del told["optimizer.in_backward"]
        found = fact(Plan.of(told), "sharding.fits_in_node")  # 2 x 72.7e9 / 8 = 18 GB, and gathered units
        assert isinstance(found, Unknown)

    def test_deepspeeds_smaller_group_is_a_second_copy_of_the_weights(self) -> None:
        zero = {**self.PLAN, "framework": "deepspeed", "sharding.stage": 3}
        before, after = Plan.of(zero), Plan.of({**zero, "sharding.group": 8})
        extra = fact(after, "memory.states_bytes") - fact(before, "memory.states_bytes")  # type: ignore[operator]
        assert extra == pytest.approx(2 * 72.7e9 / 8, rel=0.001)
        sent = fact(after, "communication.shard_micro_bytes")
        assert sent == pytest.approx(2 * 72.7e9 * (63 / 64 + 7 / 8 + 63 / 64), rel=0.01)


@pytest.mark.parametrize(
    ("job", "step", "lines"),
    [
        ("--ntasks-per-node=2", "", [2]),
        ("--ntasks-per-node=2", "--ntasks-per-node=4", [3]),
        ("--ntasks=2", "--ntasks=4", [3]),
        ("--ntasks=2", "--ntasks-per-node=4", [2, 3]),
        ("--cpus-per-task=2", "--ntasks-per-node=4", [3]),
    ],
)
def test_a_steps_number_of_tasks_stands_for_the_jobs(tmp_path: Path, job: str, step: str, lines: list[int]) -> None:
    (plan,) = plans(tmp_path, f"#!/bin/bash\n#SBATCH {job}\nsrun {step} python train.py\n")
    found = [member for member in plan.collection("launch.tasks") if isinstance(member, Member)]
    assert sorted(member.place.line for member in found) == lines


class TestPrograms:
    def plan(self, folder: Path, program: str) -> Plan:
        (folder / "train.py").write_text(program + "\nloss.backward()\n", encoding="utf-8")
        (plan,) = plans(folder, "srun --ntasks-per-node 4 python train.py\n", **{"cluster.gpus_per_node": 8})
        return plan

    @pytest.mark.parametrize(
        ("arguments", "devices"),
        [
            ("devices=4", 4),
            ("devices=-1", 8),
            ('devices="auto"', 8),
            ("", 8),
            ("gpus=2", 2),
            ("gpus=[0, 1, 2]", 3),
            ("gpus=-1, distributed_backend='ddp'", 8),
        ],
    )
    def test_devices_of_lightnings_trainer(self, tmp_path: Path, arguments: str, devices: int) -> None:
        plan = self.plan(tmp_path, f"import lightning as L\nL.Trainer({arguments}).fit(model)")
        assert fact(plan, "launch.trainer_devices") == devices

    @pytest.mark.parametrize(
        "arguments",
        [
            "gpus=4, accelerator='dp'",
            "gpus=4, distributed_backend='ddp_spawn'",
            "devices=4, strategy='ddp_notebook'",
            "devices=4, plugins=[LightningEnvironment()]",
        ],
    )
    def test_slurm_starts_no_process_for_each_device_of_a_trainer_that_starts_them(
        self, tmp_path: Path, arguments: str
    ) -> None:
        plan = self.plan(tmp_path, f"import lightning as L\nL.Trainer({arguments}).fit(model)")
        assert isinstance(fact(plan, "launch.trainer_devices"), Unknown)

    def test_without_a_trainer_they_are_not_known(self, tmp_path: Path) -> None:
        assert isinstance(fact(self.plan(tmp_path, "import torch.distributed"), "launch.trainer_devices"), Unknown)

    @pytest.mark.parametrize(
        ("written", "found"),
        [('device_map="auto"', ["auto"]), ("device_map=None", [None]), ('device_map={"": 0}', ["?"]), ("", [])],
    )
    def test_device_maps(self, tmp_path: Path, written: str, found: list[object]) -> None:
        program = (
            "import torch.distributed\nfrom transformers import AutoModelForCausalLM\n"
            f'model = AutoModelForCausalLM.from_pretrained("x/y", {written})'
        )
        plan = self.plan(tmp_path, program)
        assert listed(plan, "code.loadings", "device_map") == [(each,) for each in found]

    @pytest.mark.parametrize(
        "name",
        [
            "peft.AutoPeftModelForCausalLM",
            "transformers.LlavaForConditionalGeneration",
            "transformers.Qwen3ForCausalLM",
        ],
    )
    def test_other_classes_that_take_device_maps(self, tmp_path: Path, name: str) -> None:
        package, _, loaded = name.partition(".")
        program = (
            f"import torch.distributed\nfrom {package} import {loaded}\n"
            f'model = {loaded}.from_pretrained("x/y", device_map="auto")'
        )
        plan = self.plan(tmp_path, program)
        assert listed(plan, "code.loadings", "device_map") == [("auto",)]

    def test_variables_that_the_program_sets_for_itself(self, tmp_path: Path) -> None:
        program = (
            "import os\nimport torch.distributed\n"
            'os.environ["NCCL_P2P_DISABLE"] = "1"\n'
            'if debugging:\n    os.environ["CUDA_LAUNCH_BLOCKING"] = "1"'
        )
        found = listed(self.plan(tmp_path, program), "launch.environment", "name", "value")
        assert ("NCCL_P2P_DISABLE", "1") in found
        assert ("CUDA_LAUNCH_BLOCKING", "1") not in found

    @pytest.mark.parametrize(("mode", "found"), [("True", ["blocks"]), ("False", []), ("args.debug", [])])
    def test_anomaly_detection(self, tmp_path: Path, mode: str, found: list[str]) -> None:
        program = f"import torch\nimport torch.distributed\ntorch.autograd.set_detect_anomaly({mode})"
        plan = self.plan(tmp_path, program)
        assert listed(plan, "launch.debugging", "effect") == [(each,) for each in found]

    PASS = "with torch.autograd.detect_anomaly():\n            loss(b).backward()"
    TRAINS = "def train():\n    for b in batches:\n        PASS\nif args.do_train:\n    train()\n"

    @pytest.mark.parametrize(
        ("text", "found"),
        [
            (TRAINS.replace("PASS", PASS), ["blocks"]),
            (
                "if args.do_train:\n    torch.autograd.set_detect_anomaly(True)\n    for b in batches:\n"
                "        loss(b).backward()\n",
                ["blocks"],
            ),
            (TRAINS.replace("PASS", f"if args.debug:\n            {PASS.replace('    ', '        ')}\n"
                            "        else:\n            loss(b).backward()"), []),
            (f"{TRAINS.replace('PASS', 'loss(b).backward()')}if args.debug:\n    torch.autograd.set_detect_anomaly(True)\n", []),
            (f"{TRAINS.replace('PASS', PASS)}if args.tune:\n    loss(0).backward()\n", []),
            ("if args.do_train:\n    torch.autograd.set_detect_anomaly(True)\n", []),
            (f"class T:\n    def train(self):\n        {PASS.replace('    ', '        ')}\n", []),
        ],
        ids=["around", "above", "one of two", "for another reason", "not in all", "no training", "not called"],
    )  # fmt: skip
    def test_what_is_on_whenever_the_run_trains(self, tmp_path: Path, text: str, found: list[str]) -> None:
        head = "import torch\nimport torch.distributed\nfrom net import args, batches, loss\n"
        (tmp_path / "train.py").write_text(head + text, encoding="utf-8")
        (plan,) = plans(tmp_path, "srun --ntasks-per-node 4 python train.py\n")
        assert listed(plan, "launch.debugging", "effect") == [(each,) for each in found]


class TestMachinesOfMpi:
    @pytest.mark.parametrize(
        ("command", "nodes", "each"),
        [
            ("mpirun -n 16 -N 8 python train.py", 2, 8),
            ("mpirun -np 16 --map-by ppr:4:node python train.py", 4, 4),
            ("mpirun -np 16 --hostfile hosts python train.py", 2, 8),
            ("mpirun --hostfile hosts python train.py", 2, 8),
            ("mpirun -np 8 --hostfile hosts python train.py", 1, 8),
            ("mpirun -np 4 --hostfile hosts python train.py", 1, 4),
            ("mpirun -np 8 -npernode 4 --hostfile hosts python train.py", 2, 4),
            ("mpiexec.hydra -n 16 -f machines python train.py", 2, 8),
            ("mpirun -np 16 --hostfile bare python train.py", None, None),
        ],
    )
    def test_processes_fill_the_machines(
        self, tmp_path: Path, command: str, nodes: int | None, each: int | None
    ) -> None:
        (tmp_path / "hosts").write_text("# machines\na slots=8 max_slots=8\nb slots=8\n")
        (tmp_path / "machines").write_text("a:8\nb:8\n")
        (tmp_path / "bare").write_text("a\nb\n")
        (plan,) = plans(tmp_path, command + "\n")
        assert (plan.value("launch.nodes"), plan.value("launch.processes_per_node")) == (nodes, each)


class TestOneRankOnTwoMachines:
    LAUNCH = "torchrun --nnodes 2 --nproc_per_node 8 --node_rank {rank} --master_addr a --master_port 1 train.py"

    def ranks(self, folder: Path, first: str, second: str) -> list[tuple[object, ...]]:
        (plan,) = plans(folder, f"{first} &\n{second} &\nwait\n")
        return listed(plan, "launch.same_rank", "variable", "cause")

    def test_the_same_number_twice(self, tmp_path: Path) -> None:
        one = self.LAUNCH.format(rank=0)
        assert self.ranks(tmp_path, f'ssh a "{one}"', f'ssh b "{one}"') == [("0", "repeated")]

    def test_numbers_of_their_own(self, tmp_path: Path) -> None:
        first, second = self.LAUNCH.format(rank=0), self.LAUNCH.format(rank=1)
        assert self.ranks(tmp_path, f'ssh a "{first}"', f'ssh b "{second}"') == []

    def test_a_second_attempt_on_one_machine(self, tmp_path: Path) -> None:
        one = self.LAUNCH.format(rank=0)
        assert self.ranks(tmp_path, f'ssh a "{one}"', f'ssh a "{one}"') == []


def test_gpus_that_a_variable_shows_are_counted(tmp_path: Path) -> None:
    (plan,) = plans(tmp_path, "export CUDA_VISIBLE_DEVICES=0,1,2,3\ntorchrun --nproc_per_node gpu train.py\n")
    assert plan.value("launch.processes") == 4


class TestDevicesOfAStep:
    """Slurm sets CUDA_VISIBLE_DEVICES anew for each step that has GPUs."""

    JOB = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gres=gpu:4\n"
    WITHOUT = JOB.replace("#SBATCH --gres=gpu:4\n", "")
    SHOWN = "export CUDA_VISIBLE_DEVICES=0\n"
    LAUNCH = "torchrun --nnodes 2 --nproc_per_node 4 train.py"

    def seen(self, folder: Path, script: str) -> object:
        (folder / "inner.sh").write_text(f"{self.LAUNCH}\n")
        (folder / "setting.sh").write_text(f"{self.SHOWN}{self.LAUNCH}\n")
        (plan,) = plans(folder, script + "\n")
        return fact(plan, "launch.visible_gpus")

    @pytest.mark.parametrize(
        "step",
        [f"srun {LAUNCH}", f'srun bash -c "{LAUNCH}"', "srun bash inner.sh", f"CUDA_VISIBLE_DEVICES=1 srun {LAUNCH}"],
    )
    def test_what_the_batch_script_exports_does_not_reach_it(self, tmp_path: Path, step: str) -> None:
        assert isinstance(self.seen(tmp_path, self.JOB + self.SHOWN + step), Unknown)

    def test_a_step_that_asks_for_gpus_itself(self, tmp_path: Path) -> None:
        step = f"srun --gpus-per-node=4 {self.LAUNCH}"
        assert isinstance(self.seen(tmp_path, self.WITHOUT + self.SHOWN + step), Unknown)

    @pytest.mark.parametrize(
        "step",
        [
            f'srun bash -c "export CUDA_VISIBLE_DEVICES=0; {LAUNCH}"', f"srun env CUDA_VISIBLE_DEVICES=0 {LAUNCH}",
            "srun bash setting.sh", LAUNCH,
        ],
    )  # fmt: skip
    def test_what_is_set_inside_or_without_a_step_counts(self, tmp_path: Path, step: str) -> None:
        assert self.seen(tmp_path, self.JOB + self.SHOWN + step) == 1

    def test_a_step_without_gpus_of_slurm_sees_what_is_exported(self, tmp_path: Path) -> None:
        assert self.seen(tmp_path, f"{self.WITHOUT}{self.SHOWN}srun {self.LAUNCH}") == 1


class TestMapsOfTheModel:
    """Whether a model is loaded with a device map in a run of several processes, be the map computed."""

    NONE = "device_map = None\n"
    OWN = 'device_map = {"": int(os.environ["LOCAL_RANK"])}\n'

    @pytest.mark.parametrize(
        ("lines", "mapped", "apart"),
        [
            (OWN, '{"": int(os.environ["LOCAL_RANK"])}', "?"),
            (
                f'{NONE}if os.environ.get("LOCAL_RANK") is not None:\n    {OWN}',
                '{"": int(os.environ["LOCAL_RANK"])}',
                True,
            ),
            (f'{NONE}if "LOCAL_RANK" in os.environ:\n    {OWN}', '{"": int(os.environ["LOCAL_RANK"])}', True),
            (f'device_map = "auto"\nif int(os.environ["WORLD_SIZE"]) != 1:\n    {NONE}', "?", "?"),
            (f'{NONE}if int(os.environ.get("WORLD_SIZE", 1)) == 1:\n    device_map = "auto"\n', "?", "?"),
            (f"{NONE}if quantized():\n    {OWN}", "?", "?"),
            (f'device_map = "auto"\nif quantized():\n    {OWN}', '{"": int(os.environ["LOCAL_RANK"])}', "?"),
            ("device_map = choose()\n", "?", "?"),
        ],
    )
    def test_it_is_a_map(self, tmp_path: Path, lines: str, mapped: str, apart: object) -> None:
        program = (
            "import os\nimport torch.distributed\nfrom transformers import AutoModelForCausalLM\n"
            f'{lines}model = AutoModelForCausalLM.from_pretrained("x/y", device_map=device_map)\nloss.backward()\n'
        )
        (tmp_path / "train.py").write_text(program, encoding="utf-8")
        (plan,) = plans(tmp_path, "torchrun --nproc_per_node 8 train.py\n")
        (loading,) = plan.collection("code.loadings")
        found = [loading.fields.get(name) for name in ("mapped", "apart")]
        assert ["?" if each is None else each.value for each in found] == [mapped, apart]
