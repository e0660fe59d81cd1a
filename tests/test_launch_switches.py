"""What a launch switches for its processes, and what is only a note or nothing: threads, transports, debugging."""

from __future__ import annotations

from pathlib import Path

import pytest
from earned_rules import EARNED

from dtlint.api import check

OFFLOADED = """distributed_type: DEEPSPEED
num_machines: 1
num_processes: 8
deepspeed_config: {zero_stage: 2, offload_optimizer_device: cpu}
"""


def severity(folder: Path, rule: str, **files: str) -> str | None:
    for name, text in files.items():
        path = folder / name.replace("__", ".")
        path.write_text(text)
    return {found.rule: found.severity for found in check([folder]).findings}.get(rule)


class TestThreadsOfAnOffloadedOptimizer:
    @pytest.mark.parametrize(
        ("flags", "told"),
        [
            ("--trainable_models dit", "warning"),
            ("--train_batch_size 4", "warning"),
            ("--mm_tunable_parts mm_vision_tower,mm_mlp_adapter,mm_language_model", "warning"),
            ("--training_type full-finetune", "warning"),
            ("--lora_rank 32 --lora_base_model dit", "note"),
            ("--use_lora --train_batch_size 4", "note"),
            ("--trainable_models animate_adapter", "note"),
            ("--mm_tunable_parts mm_mlp_adapter", "note"),
            ("--trainable_models controlnet,image_proj", "note"),
            ("--training_type lora --rank 64", "note"),
            ("--load_in_kbits 16 $MORE", "warning"),
            ("--network_module networks.lora", "note"),
            ("--freeze_backbone", "note"),
        ],
    )
    def test_it_has_little_to_compute_where_a_part_trains(self, tmp_path: Path, flags: str, told: str) -> None:
        launch = f"accelerate launch --config_file a.yaml train.py {flags}\n"
        assert severity(tmp_path, "cpu-threads", run__sh=launch, a__yaml=OFFLOADED) == told

    def test_the_name_of_the_program_tells_too(self, tmp_path: Path) -> None:
        launch = "accelerate launch --config_file a.yaml train_controlnet.py --train_batch_size 4\n"
        assert severity(tmp_path, "cpu-threads", run__sh=launch, a__yaml=OFFLOADED) == "note"

    @pytest.mark.parametrize(
        "set_here",
        [
            'os.environ["OMP_NUM_THREADS"] = "12"',
            'os.environ["OMP_NUM_THREADS"] = str(os.cpu_count() // 8)',
            "torch.set_num_threads(12)",
            "torch.set_num_threads(os.cpu_count() // 8)",
        ],
    )
    def test_a_program_may_ask_for_threads_itself(self, tmp_path: Path, set_here: str) -> None:
        launch = "accelerate launch --config_file a.yaml train.py --train_batch_size 4\n"
        program = f"import os\nimport torch\nimport torch.distributed\n{set_here}\nloss.backward()\noptimizer.step()\n"
        assert severity(tmp_path, "cpu-threads", run__sh=launch, a__yaml=OFFLOADED, train__py=program) is None

    def test_one_thread_is_what_it_has_anyway(self, tmp_path: Path) -> None:
        launch = "accelerate launch --config_file a.yaml train.py --train_batch_size 4\n"
        program = (
            "import torch\nimport accelerate\nimport torch.distributed\ntorch.set_num_threads(1)\n"
            "loss.backward()\noptimizer.step()\n"
        )
        assert severity(tmp_path, "cpu-threads", run__sh=launch, a__yaml=OFFLOADED, train__py=program) == "warning"

    @pytest.mark.parametrize(
        ("launch", "told"),
        [
            ("tune run --nproc_per_node 8 full_finetune_distributed --config a.yaml", None),
            ("torchrun --nproc_per_node 8 recipes/full_finetune_distributed.py --config a.yaml", None),
            ("tune run --nproc_per_node 8 full_finetune_distributed --config a.yaml fsdp_cpu_offload=$OFFLOAD", None),
        ],
    )
    def test_a_recipe_may_share_the_cores_out(self, tmp_path: Path, launch: str, told: str | None) -> None:
        recipe = (
            "tokenizer: {_component_: torchtune.models.llama3.llama3_tokenizer, path: t, max_seq_len: 2048}\n"
            "dataset: {_component_: torchtune.datasets.alpaca_dataset, packed: True}\n"
            "model: {_component_: torchtune.models.llama3_1.llama3_1_8b}\nbatch_size: 1\n"
            "optimizer: {_component_: torch.optim.AdamW, fused: True}\nfsdp_cpu_offload: True\ndtype: bf16\n"
        )
        assert severity(tmp_path, "cpu-threads", run__sh=f"{launch}\n", a__yaml=recipe) == told

    @pytest.mark.parametrize(
        ("line", "told"),
        [
            ("export $(cat .env | xargs)", None),
            ("export $(grep -v '^#' .env)", None),
            ("export PATH=$TOOLS:$PATH", "warning"),
            ("export NAME=$(hostname)", "warning"),
        ],
    )
    def test_words_that_are_not_known_may_export_them(self, tmp_path: Path, line: str, told: str | None) -> None:
        launch = f"{line}\naccelerate launch --config_file a.yaml train.py --train_batch_size 4\n"
        assert severity(tmp_path, "cpu-threads", run__sh=launch, a__yaml=OFFLOADED) == told

    def test_a_recipe_of_ones_own_may_share_them_out_the_same_way(self, tmp_path: Path) -> None:
        launch = "accelerate launch --config_file a.yaml train.py --train_batch_size 4\n"
        program = (
            "import torch.distributed\nfrom torchtune import training\ntraining.set_torch_num_threads()\n"
            "loss.backward()\noptimizer.step()\n"
        )
        assert severity(tmp_path, "cpu-threads", run__sh=launch, a__yaml=OFFLOADED, train__py=program) is None

    @pytest.mark.parametrize(("threads", "told"), [("12", None), ("1", "warning"), ("$THREADS", None)])
    def test_accelerate_is_told_them_by_a_flag(self, tmp_path: Path, threads: str, told: str | None) -> None:
        launch = f"accelerate launch --config_file a.yaml --num_cpu_threads_per_process {threads} train.py --lr 1e-5\n"
        assert severity(tmp_path, "cpu-threads", run__sh=launch, a__yaml=OFFLOADED) == told

    @pytest.mark.parametrize(("default", "flags", "told"), [
        ("False", "", "warning"), ("False", "--lora_enable True", "note"), ("True", "", "note"),
    ])  # fmt: skip
    def test_adapters_wait_for_the_flag_that_asks_for_them(
        self, tmp_path: Path, default: str, flags: str, told: str
    ) -> None:
        program = f"""from dataclasses import dataclass
import transformers
import torch.distributed
from peft import LoraConfig, get_peft_model

@dataclass
class Arguments(transformers.TrainingArguments):
    lora_enable: bool = {default}

def train():
    (arguments,) = transformers.HfArgumentParser((Arguments,)).parse_args_into_dataclasses()
    model = transformers.AutoModelForCausalLM.from_pretrained("x/y")
    if arguments.lora_enable:
        model = get_peft_model(model, LoraConfig(r=8))
    transformers.Trainer(model=model, args=arguments).train()

train()
"""
        launch = f"accelerate launch --config_file a.yaml train.py --bf16 True --output_dir out {flags}\n"
        assert severity(tmp_path, "cpu-threads", run__sh=launch, a__yaml=OFFLOADED, train__py=program) == told


class TestSwitchesForDebugging:
    @pytest.mark.parametrize(
        ("switch", "processes", "told"),
        [
            ("TORCH_DISTRIBUTED_DEBUG=DETAIL", 8, "warning"),
            ("TORCH_DISTRIBUTED_DEBUG=DETAIL", 1, None),
            ("NCCL_BLOCKING_WAIT=1", 8, "warning"),
            ("NCCL_BLOCKING_WAIT=1", 1, None),
            ("CUDA_LAUNCH_BLOCKING=1", 1, "warning"),
            ("HCCL_CONNECT_TIMEOUT=1200 CUDA_LAUNCH_BLOCKING=1", 8, None),
            ("HCCL_CONNECT_TIMEOUT=1200 TORCH_DISTRIBUTED_DEBUG=DETAIL", 8, "warning"),
        ],
    )
    def test_what_reads_a_switch(self, tmp_path: Path, switch: str, processes: int, told: str | None) -> None:
        launch = f"export {switch}\ntorchrun --nproc_per_node {processes} train.py\n"
        assert severity(tmp_path, "debug-left-on", run__sh=launch) == told

    @pytest.mark.parametrize(
        ("wrapper", "torch", "told"),
        [
            ("from torch.nn.parallel import DistributedDataParallel as wrap", "torch==1.11.0", "note"),
            ("from torch.nn.parallel import DistributedDataParallel as wrap", "torch", "note"),
            ("from torch.nn.parallel import DistributedDataParallel as wrap", "torch==1.8.1", "warning"),
            ("from torch.distributed.fsdp import FullyShardedDataParallel as wrap", "torch==2.4.0", "warning"),
        ],
    )
    def test_ddp_waits_for_its_gradients_on_the_gpu(self, tmp_path: Path, wrapper: str, torch: str, told: str) -> None:
        program = (
            f"{wrapper}\nmodel = wrap(Net().cuda())\nfor x in data:\n    model(x).backward()\n    optimizer.step()\n"
        )
        launch = "export NCCL_BLOCKING_WAIT=1\ntorchrun --nproc_per_node 8 train.py\n"
        files = {"run__sh": launch, "train__py": program, "requirements__txt": torch}
        assert severity(tmp_path, "debug-left-on", **files) == told

    @pytest.mark.parametrize(
        ("conversion", "told"),
        [
            ("net = torch.nn.SyncBatchNorm.convert_sync_batchnorm(net)", "warning"),
            ("if dist.is_initialized():\n    net = torch.nn.SyncBatchNorm.convert_sync_batchnorm(net)", "warning"),
            ("net = apex.parallel.convert_syncbn_model(net)", "warning"),
            ("if args.sync_bn:\n    net = torch.nn.SyncBatchNorm.convert_sync_batchnorm(net)", "note"),
            (
                "if distributed and args.sync_bn:\n    net = torch.nn.SyncBatchNorm.convert_sync_batchnorm(net)",
                "note",
            ),
            ("if world_size == 1:\n    net = torch.nn.SyncBatchNorm.convert_sync_batchnorm(net)", "note"),
        ],
    )
    def test_synchronized_batch_norms_wait_on_the_cpu(self, tmp_path: Path, conversion: str, told: str) -> None:
        program = (
            "import apex.parallel\nimport torch\nimport torch.distributed as dist\n"
            "from torch.nn.parallel import DistributedDataParallel as DDP\n"
            f"from net import Net, args, data, distributed, optimizer, world_size\nnet = Net().cuda()\n{conversion}\n"
            "model = DDP(net)\nfor x in data:\n    model(x).backward()\n    optimizer.step()\n"
        )
        launch = "export NCCL_BLOCKING_WAIT=1\ntorchrun --nproc_per_node 8 train.py\n"
        assert severity(tmp_path, "debug-left-on", run__sh=launch, train__py=program) == told

    @pytest.mark.parametrize(
        ("before", "name", "told"),
        [
            ("import os", "TORCH_DISTRIBUTED_DEBUG", "warning"),
            ("import os\nimport torch", "TORCH_DISTRIBUTED_DEBUG", None),
            ("import os\nfrom transformers import Trainer", "TORCH_DISTRIBUTED_DEBUG", None),
            ("import os\nimport torch", "CUDA_LAUNCH_BLOCKING", "warning"),
        ],
    )
    def test_torch_reads_some_when_it_is_imported(
        self, tmp_path: Path, before: str, name: str, told: str | None
    ) -> None:
        value = "DETAIL" if name.startswith("TORCH") else "1"
        program = f'{before}\nos.environ["{name}"] = "{value}"\nimport torch.distributed\nloss.backward()\nopt.step()\n'
        launch = "torchrun --nproc_per_node 8 train.py\n"
        assert severity(tmp_path, "debug-left-on", run__sh=launch, train__py=program) == told

    @pytest.mark.parametrize(("call", "told"), [
        ("deterministic()", "warning"), ("if args.deterministic:\n    deterministic()", None),
    ])  # fmt: skip
    def test_a_function_that_sets_one_has_to_be_called(self, tmp_path: Path, call: str, told: str | None) -> None:
        program = (
            'import os\nimport torch.distributed\ndef deterministic():\n    os.environ["CUDA_LAUNCH_BLOCKING"] = "1"\n'
            f"{call}\nloss.backward()\noptimizer.step()\n"
        )
        launch = "torchrun --nproc_per_node 8 train.py\n"
        assert severity(tmp_path, "debug-left-on", run__sh=launch, train__py=program) == told

    @pytest.mark.parametrize(("script", "told"), [
        ("train.sh", "warning"), ("train_debug.sh", "note"), ("profile.slurm", "note"), ("debugger_model.sh", "warning"),
    ])  # fmt: skip
    def test_a_script_may_be_there_to_find_faults(self, tmp_path: Path, script: str, told: str) -> None:
        (tmp_path / script).write_text("export CUDA_LAUNCH_BLOCKING=1\ntorchrun --nproc_per_node 8 train.py\n")
        (tmp_path / "other.sh").write_text("torchrun --nproc_per_node 8 train.py\n")
        found = check([tmp_path], rules=EARNED).findings
        assert {each.rule: each.severity for each in found}["debug-left-on"] == told
        named = check([tmp_path / script]).findings
        assert {found.rule: found.severity for found in named}["debug-left-on"] == "warning"

    @pytest.mark.parametrize("program", ["demo/web.py", "gradio_app.py", "serving/worker.py", "sample.py"])
    def test_a_demo_does_not_train(self, tmp_path: Path, program: str) -> None:
        launch = f"CUDA_LAUNCH_BLOCKING=1 torchrun --nproc_per_node 2 {program} --beam 1\n"
        assert severity(tmp_path, "debug-left-on", run__sh=launch) is None


class TestTransportsOfNccl:
    @pytest.mark.parametrize(
        ("variables", "launch", "told"),
        [
            ("NCCL_P2P_DISABLE=1", "torchrun --nproc_per_node 8 train.py --batch 1", "warning"),
            ("NCCL_P2P_DISABLE=1", "torchrun --nproc_per_node 8 train.py --lora_rank 8", "note"),
            ("NCCL_P2P_DISABLE=1", "torchrun --nproc_per_node $GPUS train.py --batch 1", "warning"),
            ("NCCL_P2P_DISABLE=1", "torchrun --nproc_per_node 2 train.py --training_type lora --rank 64", "note"),
            ("NCCL_P2P_DISABLE=1", "accelerate launch train.py --batch 1", "note"),
            ("NCCL_P2P_DISABLE=1", "torchrun --nproc_per_node 1 train.py --batch 1", None),
            ("NCCL_IB_DISABLE=1", "torchrun --nnodes 4 --nproc_per_node 8 train.py", "warning"),
            ("NCCL_IB_DISABLE=1 NCCL_SOCKET_IFNAME=ib0", "torchrun --nnodes 4 --nproc_per_node 8 train.py", "warning"),
            ("NCCL_IB_DISABLE=1 NCCL_SOCKET_IFNAME=eth0", "torchrun --nnodes 4 --nproc_per_node 8 train.py", "note"),
        ],
    )
    def test_what_is_known_of_the_traffic(self, tmp_path: Path, variables: str, launch: str, told: str | None) -> None:
        assert severity(tmp_path, "nccl-transport-disabled", run__sh=f"export {variables}\n{launch}\n") == told
