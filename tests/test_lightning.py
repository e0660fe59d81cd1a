"""Lightning: what LightningCLI's files and options, and a Trainer in Python, say of the plan."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

from dtlint.api import check
from dtlint.plan import Plan
from dtlint.runs import Options, read_runs

CONFIG = """\
    seed_everything: 1
    trainer:
      accelerator: gpu
      devices: 8
      num_nodes: 2
      precision: bf16-mixed
      accumulate_grad_batches: 4
      gradient_clip_val: 0.5
      strategy: {strategy}
    data:
      class_path: corpus.Corpus
      init_args: {{{data}}}
    """
FIT = "python main.py fit --config run.yaml {options}\n"
BLOCKS = "[model.Block]"


def written(folder: Path, strategy: str = "ddp", options: str = "", data: str = "workers: 4") -> Path:
    (folder / "run.yaml").write_text(dedent(CONFIG).format(strategy=strategy, data=data))
    (folder / "run.sh").write_text(FIT.format(options=options))
    return folder / "run.sh"


def plan_at(path: Path) -> Plan:
    (run,) = read_runs([path], Options()).runs
    return run.plan


def plan(folder: Path, strategy: str = "ddp", options: str = "", data: str = "workers: 4") -> Plan:
    return plan_at(written(folder, strategy, options, data))


def values(found: Plan, *names: str) -> list[object]:
    return [found.value(name) for name in names]


def built(name: str, **arguments: object) -> str:
    inner = ", ".join(f"{key}: {value}" for key, value in arguments.items())
    return f"{{class_path: lightning.pytorch.strategies.{name}, init_args: {{{inner}}}}}"


class TestFiles:
    def test_the_trainer_starts_a_process_for_each_device_of_each_node(self, tmp_path: Path) -> None:
        found = plan(tmp_path)
        names = (
            "framework",
            "frontend",
            "launch.launcher",
            "launch.nodes",
            "parallel.world_size",
            "batch.accumulation",
        )
        assert values(found, *names) == ["ddp", "lightning", "lightning", 2, 16, 4]
        assert values(found, "optimizer.clip", "precision.compute", "precision.master") == [0.5, "bf16", "fp32"]

    @pytest.mark.parametrize(
        ("strategy", "expected"),
        [
            ("ddp_find_unused_parameters_true", {"framework": "ddp", "communication.find_unused": True}),
            ("fsdp_cpu_offload", {"framework": "fsdp", "sharding.stage": 3, "sharding.offload_parameters": "cpu"}),
            ("deepspeed", {"framework": "deepspeed", "sharding.stage": 2, "overlap.gradients": True}),
            ("deepspeed_stage_3_offload", {"sharding.stage": 3, "sharding.offload_optimizer": "cpu"}),
            ("deepspeed_stage_3_offload_nvme", {"sharding.offload_parameters": "nvme"}),
            (built("FSDPStrategy", sharding_strategy="SHARD_GRAD_OP"), {"sharding.stage": 2, "sharding.units": "none"}),
            (built("FSDPStrategy", auto_wrap_policy=BLOCKS), {"sharding.units": "wrapped"}),
            (built("FSDPStrategy", activation_checkpointing_policy=BLOCKS), {"checkpointing.activations": "full"}),
            (built("FSDPStrategy", sharding_strategy="HYBRID_SHARD", device_mesh=[4, 4]), {"sharding.group": 4}),
            (
                built("ModelParallelStrategy", data_parallel_size=4, tensor_parallel_size=4),
                {"framework": "fsdp", "parallel.tensor": 4, "parallel.data": 4},
            ),
            # one tensor-parallel group for each node of eight
            (built("ModelParallelStrategy", data_parallel_size="auto"), {"parallel.tensor": 8, "parallel.data": 2}),
            # 500 million numbers of two bytes each
            (
                built("DeepSpeedStrategy", stage=1, reduce_bucket_size=500000000),
                {"sharding.stage": 1, "communication.bucket_bytes": 1000000000},
            ),
        ],
    )
    def test_strategies_by_name_and_by_class(self, tmp_path: Path, strategy: str, expected: dict[str, object]) -> None:
        found = plan(tmp_path, strategy)
        assert {name: found.value(name) for name in expected} == expected

    def test_weights_of_16_bits_have_gradients_and_states_of_16_bits(self, tmp_path: Path) -> None:
        found = plan(tmp_path, "fsdp", "--trainer.precision=bf16-true")
        names = ("precision.compute", "precision.master", "precision.gradients", "precision.reduce")
        assert values(found, *names, "optimizer.state_dtype") == ["bf16"] * 5

    def test_a_data_modules_batch_is_not_taken_for_that_of_a_gpu(self, tmp_path: Path) -> None:
        assert plan(tmp_path, data="batch_size: 64").value("batch.micro") is None
        assert plan(tmp_path, data="micro_batch_size: 4").value("batch.global") == 4 * 16 * 4

    def test_a_config_of_ones_own_takes_the_place_of_deepspeeds_arguments(self, tmp_path: Path) -> None:
        (tmp_path / "ds.json").write_text('{"zero_optimization": {"stage": 3, "overlap_comm": false}}')
        found = plan(tmp_path, built("DeepSpeedStrategy", config="ds.json"))
        assert values(found, "framework", "sharding.stage", "overlap.gradients") == ["deepspeed", 3, False]

    def test_the_default_of_unused_parameters_depends_on_the_release(self, tmp_path: Path) -> None:
        assert plan(tmp_path).value("communication.find_unused") is None
        for release, found in (("1.9.5", True), ("2.4.0", False)):
            (tmp_path / "requirements.txt").write_text(f"pytorch-lightning=={release}\n")
            assert plan(tmp_path).value("communication.find_unused") is found


class TestOptions:
    def test_options_stand_over_the_file(self, tmp_path: Path) -> None:
        found = plan(tmp_path, "fsdp", "--trainer.devices 4 --trainer.num_nodes=1 --trainer.precision 16-mixed")
        assert values(found, "parallel.world_size", "precision.compute", "framework") == [4, "fp16", "fsdp"]

    def test_an_argument_of_the_files_strategy(self, tmp_path: Path) -> None:
        strategy = built("FSDPStrategy", sharding_strategy="FULL_SHARD", cpu_offload="true")
        found = plan(tmp_path, strategy, "--trainer.strategy.init_args.cpu_offload false")
        assert values(found, "sharding.stage", "sharding.offload_parameters") == [3, "none"]

    def test_another_strategy_has_none_of_the_files_arguments(self, tmp_path: Path) -> None:
        strategy = built("FSDPStrategy", cpu_offload="true")
        found = plan(tmp_path, strategy, "--trainer.strategy deepspeed_stage_1")
        assert values(found, "framework", "sharding.stage", "sharding.offload_parameters") == ["deepspeed", 1, "none"]

    def test_a_later_file_stands_over_an_earlier_one(self, tmp_path: Path) -> None:
        written(tmp_path)
        (tmp_path / "big.yaml").write_text("trainer:\n  num_nodes: 8\n")
        (tmp_path / "run.sh").write_text("python main.py fit -c run.yaml -c big.yaml\n")
        assert plan_at(tmp_path / "run.sh").value("parallel.world_size") == 64

    def test_options_alone(self, tmp_path: Path) -> None:
        (tmp_path / "run.sh").write_text("python main.py fit --trainer.devices=2 --trainer.strategy=fsdp\n")
        assert values(plan_at(tmp_path / "run.sh"), "parallel.world_size", "framework") == [2, "fsdp"]

    def test_a_config_that_is_not_here_hides_what_it_may_hold(self, tmp_path: Path) -> None:
        (tmp_path / "run.sh").write_text("python main.py fit -c gone.yaml --trainer.devices=2\n")
        found = plan_at(tmp_path / "run.sh")
        assert values(found, "launch.processes_per_node", "precision.compute", "sharding.stage") == [2, None, None]

    def test_other_commands_train_nothing(self, tmp_path: Path) -> None:
        written(tmp_path)
        (tmp_path / "run.sh").write_text("python main.py test --config run.yaml\n")
        assert [run.role for run in read_runs([tmp_path / "run.sh"], Options()).runs] == ["other"]


class TestPython:
    def plan(self, folder: Path, arguments: str, more: str = "") -> Plan:
        text = f"""\
            import lightning as L
            from lightning.pytorch.strategies import DeepSpeedStrategy, FSDPStrategy, ModelParallelStrategy
            from torch.utils.data import DataLoader
            {more}
            trainer = L.Trainer({arguments})
            trainer.fit(model, data)
            """
        (folder / "train.py").write_text(dedent(text))
        return plan_at(folder / "train.py")

    def test_a_strategy_built_in_the_call(self, tmp_path: Path) -> None:
        found = self.plan(tmp_path, "devices=[0, 1, 2, 3], num_nodes=2, strategy=DeepSpeedStrategy(stage=3)")
        assert values(found, "framework", "parallel.world_size", "sharding.stage") == ["deepspeed", 8, 3]

    def test_a_strategy_built_before(self, tmp_path: Path) -> None:
        more = "strategy = FSDPStrategy(auto_wrap_policy={Block}, cpu_offload=False)"
        found = self.plan(tmp_path, "devices=8, strategy=strategy, precision='bf16-true'", more)
        names = ("framework", "sharding.units", "sharding.offload_parameters", "precision.master")
        assert values(found, *names) == ["fsdp", "wrapped", "none", "bf16"]

    PICKS = """import sys
            def picked(name):
                if name == "fsdp":
                    return FSDPStrategy(sharding_strategy="FULL_SHARD")
                return name
            """

    @pytest.mark.parametrize(
        ("start", "found"),
        [
            ("python train.py fsdp", ["fsdp", 3]),
            ("python train.py ddp", ["ddp", 0]),
            ("python train.py ddp\npython train.py fsdp", [None, None]),
            ("python train.py $1", [None, None]),
        ],
    )
    def test_a_strategy_that_the_command_picks(self, tmp_path: Path, start: str, found: list[object]) -> None:
        (tmp_path / "run.sh").write_text(f"{start}\n")
        self.plan(tmp_path, "devices=4, strategy=picked(sys.argv[1])", self.PICKS)
        (run,) = read_runs([tmp_path], Options()).runs
        assert values(run.plan, "framework", "sharding.stage") == found

    @pytest.mark.parametrize(
        ("wraps", "units"),
        [("layer = wrap(layer)", "wrapped"), ("fully_shard(layer)", "wrapped"), ("layer = layer.cuda()", "none")],
    )
    def test_layers_that_a_module_wraps_itself(self, tmp_path: Path, wraps: str, units: str) -> None:
        more = f"""from torch.distributed.fsdp import fully_shard
            from torch.distributed.fsdp.wrap import wrap
            class Model(L.LightningModule):
                def configure_model(self):
                    for layer in self.layers:
                        {wraps}
            """
        found = self.plan(tmp_path, "devices=8, strategy=FSDPStrategy()", more)
        assert values(found, "sharding.units") == [units]

    def test_one_process_needs_no_framework(self, tmp_path: Path) -> None:
        assert values(self.plan(tmp_path, "devices=1"), "framework", "parallel.world_size") == ["pytorch", 1]

    def test_what_is_not_known_is_not_guessed(self, tmp_path: Path) -> None:
        found = self.plan(tmp_path, "**settings")
        assert values(found, "framework", "precision.compute", "launch.processes_per_node") == [None, None, None]

    def test_of_several_trainers_none_is_known_to_train(self, tmp_path: Path) -> None:
        found = self.plan(tmp_path, "devices=1", "other = L.Trainer(devices=8, strategy='fsdp')")
        assert values(found, "framework", "launch.processes_per_node") == [None, None]

    def test_processors_other_than_gpus_have_no_plan(self, tmp_path: Path) -> None:
        self.plan(tmp_path, "accelerator='cpu', devices=8")
        assert [run.role for run in read_runs([tmp_path / "train.py"], Options()).runs] == ["other"]


class TestFaults:
    def messages(self, folder: Path, strategy: str, options: str = "") -> list[str]:
        report = check([written(folder, strategy, options).parent])
        return [found.message for found in report.findings if found.severity == "error"]

    @pytest.mark.parametrize(
        ("strategy", "options", "sentence"),
        [
            (
                "fsdp2",
                "",
                "'strategy' takes the name of a strategy (auto, ddp, fsdp, deepspeed_stage_2 ...), not fsdp2",
            ),
            ("ddp", "--trainer.precision=fp16", "'precision' takes one of "),
            ("ddp", "--trainer.num_nodes=0", "'num_nodes' takes a positive whole number, not 0"),
            ("ddp", "--trainer.devices=0", "'devices' takes at least one device, not 0"),
            ("fsdp", "--trainer.precision=transformer-engine", "is refused beside 'fsdp'"),
            (built("FSDPStrategy", sharding_strategy="HYBRID_SHARD"), "", "is refused without 'device_mesh'"),
            ("ddp", "--trainer.accumulate_grad_batch=2", "accumulate_grad_batches"),
        ],
    )
    def test_what_lightning_refuses(self, tmp_path: Path, strategy: str, options: str, sentence: str) -> None:
        assert any(sentence in message for message in self.messages(tmp_path, strategy, options))

    @pytest.mark.parametrize("strategy", ["hpu_parallel", "my.package.OwnStrategy", "fsdp", "auto"])
    def test_what_it_takes(self, tmp_path: Path, strategy: str) -> None:
        assert self.messages(tmp_path, strategy) == []


def test_a_remedy_is_written_into_the_trainers_section(tmp_path: Path) -> None:
    """ZeRO-3's offload is not needed for a model of this size; the message speaks Lightning's words."""
    found = read_runs([written(tmp_path)], Options()).runs[0].plan
    assert found.dialect.spell("launch.nodes", 4) == "trainer.num_nodes: 4"
    assert found.dialect.spell("precision.compute", "bf16") == "trainer.precision: bf16-mixed"
    assert found.dialect.spell("communication.find_unused", True).endswith("ddp_find_unused_parameters_true")


class TestWordsOfTheProgram:
    """A strategy that the program makes an object of, or registers, before the Trainer looks."""

    COMPARED = 'if config["trainer"]["strategy"] == "ddp_own": config["trainer"]["strategy"] = DDPStrategy()\n'
    REGISTERED = 'StrategyRegistry.register(name="ddp_own", strategy=DDPStrategy)\n'
    ELSEWHERE = 'print("ddp_own")\n'

    @pytest.mark.parametrize(
        ("program", "word", "refused"),
        [
            (COMPARED, "ddp_own", False),
            (REGISTERED, "ddp_own", False),
            (COMPARED, "dpp", True),
            (ELSEWHERE, "ddp_own", True),
            ("", "ddp_own", True),
        ],
    )
    def test_are_refused_where_it_does_not_name_them(
        self, tmp_path: Path, program: str, word: str, refused: bool
    ) -> None:
        (tmp_path / ".git").mkdir()
        (tmp_path / "cli.py").write_text(program)
        path = written(tmp_path, options=f"--trainer.strategy={word}")
        assert ("setting-type" in {each.rule for each in check([path]).findings}) is refused

    @pytest.mark.parametrize(
        ("package", "refused"),
        [("from lightning.pytorch.strategies import StrategyRegistry\n" + REGISTERED, False), (ELSEWHERE, True)],
    )
    def test_are_refused_in_a_call_where_no_file_registers_them(self, tree, package: str, refused: bool) -> None:
        tree({"own/strategies.py": package, "train.py": f'{SELF_STARTED}strategy="ddp_own")\ntrainer.fit(Net())\n'})
        assert ("setting-type" in {each.rule for each in check([Path("train.py")]).findings}) is refused


SELF_STARTED = """
import lightning as L
from net import Net

trainer = L.Trainer(devices=8, num_nodes=2, """


@pytest.mark.parametrize(
    ("program", "read"),
    [
        (f"{SELF_STARTED}strategy='ddp')\ntrainer.fit(Net())\n", True),
        ("from lightning.fabric import Fabric\nfabric = Fabric(devices=4, strategy='fsdp')\nfabric.launch()\n", True),
        ("print('lightning')\n", False),
    ],
)
def test_a_program_that_starts_its_own_processes_is_read_in_a_folder(tree, program: str, read: bool) -> None:
    """No launcher stands before it, and it need not name torch."""
    tree({"train.py": program})
    assert bool(read_runs([Path()], Options()).runs) is read


@pytest.mark.parametrize(
    ("trainer", "refused"),
    [
        ("precision: 32\n  callbacks: []\n  devices: 8\n  log_every_n_stepz: 1\n", True),
        ("kind: own\n  precision: 32\n  callbacks: []\n  max_updates: 9\n  log_every_n_epochs: 1\n", False),
    ],
)
def test_a_trainer_of_another_program_has_a_few_of_its_names(tree, trainer: str, refused: bool) -> None:
    tree({"run.yaml": f"trainer:\n  {trainer}"})
    assert bool([each for each in check([Path("run.yaml")]).findings if each.rule == "unknown-setting"]) is refused


_DICT = """
import lightning as L
from lightning.pytorch.strategies import DeepSpeedStrategy
from net import Model, data

ds = {"train_micro_batch_size_per_gpu": 4, MORE"zero_optimization": {"stage": 2}}
trainer = L.Trainer(devices=8, precision="bf16-mixed", strategy=DeepSpeedStrategy(config=ds), accumulate_grad_batches=4)
trainer.fit(Model(), data())
"""


@pytest.mark.parametrize(
    ("more", "rules"),
    [
        ('"gradient_accumulation_steps": 4, ', ["grad-accum-conflict"]),
        ('"train_batch_size": 96, ', ["batch-triple-mismatch"]),
        ('"train_batch_size": 128, ', []),
        ("", []),
    ],
)
def test_a_config_that_the_strategy_is_given_as_a_dict(tmp_path: Path, more: str, rules: list[str]) -> None:
    """Lightning sets the accumulation of the config itself, and refuses one that is there already."""
    (tmp_path / "train.py").write_text(_DICT.replace("MORE", more))
    found = check([tmp_path / "train.py"]).findings
    assert [each.rule for each in found if each.severity == "error"] == rules


def test_accumulation_in_a_json_of_lightning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ds.json").write_text('{"gradient_accumulation_steps": 2, "zero_optimization": {"stage": 2}}')
    (tmp_path / "train.py").write_text(_DICT.replace("config=ds", 'config="ds.json"').replace("MORE", ""))
    found = check([Path("train.py")]).findings
    assert [each.span.path for each in found if each.rule == "grad-accum-conflict"] == ["ds.json"]


ON_TWO = "torchrun --nnodes 2 --nproc_per_node 4 --node_rank $1 --master_addr 10.0.0.1 --master_port 29500 fit.py {}\n"
ARGUMENTS = """import argparse, os
import lightning as L
from lightning.pytorch.strategies import DDPStrategy
parser = argparse.ArgumentParser()
parser.add_argument("--gpus", type=int, default=4)
parser.add_argument("--nodes", type=int, default=1)
args = parser.parse_args()
world = int(os.environ.get("WORLD_SIZE", 1))
"""
COUNTED = {
    "all processes as nodes": ('devices=4, num_nodes=world, strategy="ddp"', "", 32),
    "all processes as devices": ("devices=world, num_nodes=2, strategy=DDPStrategy()", "", 16),
    "the tasks of Slurm as nodes": ('devices=args.gpus, num_nodes=int(os.environ["WORLD_SIZE"])', "", 32),
    "too many nodes": ("devices=4, num_nodes=4", "", 16),
    "a default of one node": ("devices=args.gpus, num_nodes=args.nodes", "", 4),
    "no nodes": ('devices=4, strategy="ddp"', "", 4),
    "a list": ("devices=[0, 1], num_nodes=2", "", 4),
    "right": ("devices=4, num_nodes=2", "", None),
    "right by arguments": ("devices=args.gpus, num_nodes=args.nodes", "--nodes 2", None),
    "right by what is told": ('devices=4, num_nodes=world // int(os.environ["LOCAL_WORLD_SIZE"])', "", None),
    "all of the machine": ('devices="auto", num_nodes=2', "", None),
    "its own processes": ('devices=4, num_nodes=4, strategy="ddp_spawn"', "", None),
    "an environment of its own": ("devices=4, num_nodes=4, plugins=[Environment()]", "", None),
    "one device that it takes by itself": ("devices=1", "", None),
    "not known": ("devices=4, num_nodes=count()", "", None),
    "what a file may tell": ('devices=cfg.get("devices", 1), num_nodes=cfg.get("nodes", 1), strategy="ddp"', "", None),
}


@pytest.mark.parametrize(("arguments", "words", "counted"), COUNTED.values(), ids=COUNTED)
def test_a_trainer_counts_on_what_its_launcher_starts(
    tmp_path: Path, arguments: str, words: str, counted: int | None
) -> None:
    (tmp_path / "fit.py").write_text(f"{ARGUMENTS}L.Trainer({arguments}).fit(model, data)\n")
    (tmp_path / "run.sh").write_text(ON_TWO.format(words))
    found = [each for each in check([tmp_path / "run.sh"]).findings if each.rule == "world-size-mismatch"]
    assert [each.severity for each in found] == (["error"] if counted else [])
    assert all(f"counts on {counted} processes" in each.message for each in found)


def test_a_file_for_a_trainer_counts_on_what_its_launcher_starts(tmp_path: Path) -> None:
    for each, rules in ((8, []), (4, ["world-size-mismatch"])):
        script = written(tmp_path)
        start = f"torchrun --nnodes 2 --nproc_per_node {each} --node_rank $1 --master_addr n0 --master_port 2950"
        script.write_text(f"{start} main.py fit --config run.yaml\n")
        told = {found.rule for found in check([script]).findings}
        assert sorted(told & {"world-size-mismatch"}) == rules
