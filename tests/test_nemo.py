"""NeMo's YAML, with hydra's overrides and OmegaConf's references, claims what NeMo 1 does with it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from readings import claims

from dtlint.api import check
from dtlint.frameworks import Reading
from dtlint.frameworks.nemo import config as nemo
from dtlint.languages.shell import command_of
from dtlint.languages.yaml import read_yaml
from dtlint.report.json import report_json
from dtlint.source import Source
from dtlint.value import Unknown, Value


def reading(text: str, *words: str) -> Reading:
    program = command_of(["train.py", *words]).worlds[0].commands[0].argv
    return nemo.read_config(read_yaml(Source("conf.yaml", text)), program)


def read(text: str, *words: str) -> dict[str, object]:
    """What is claimed, without who starts the processes."""
    found = claims(reading(text, *words))
    return {name: value for name, value in found.items() if not name.startswith("launch.")}


def run(folder: Path, **files: str) -> dict[str, object]:
    """The one run of some files: its settings by name, an unknown one as None."""
    for name, text in files.items():
        file = folder / name.replace("__", ".").replace("_in_", "/")
        file.parent.mkdir(exist_ok=True)
        file.write_text(text, encoding="utf-8")
    runs = json.loads(report_json(check([folder])))["runs"]
    assert len(runs) == 1
    return {name: each.get("value") for name, each in runs[0]["settings"].items()}


GPT = """
trainer:
  devices: 8
  num_nodes: 4
  precision: bf16
model:
  micro_batch_size: 1
  global_batch_size: 128
  tensor_model_parallel_size: 4
  pipeline_model_parallel_size: 2
"""


def test_degrees_batch_and_machines():
    assert claims(reading(GPT)) == {
        "launch.launcher": "lightning",
        "launch.nodes": 4,
        "launch.processes_per_node": 8,
        "parallel.tensor": 4,
        "parallel.pipeline": 2,
        "batch.micro": 1,
        "batch.global": 128,
        "precision.compute": "bf16",
        "overlap.gradients": "it follows from the optimizer and the degrees",
    }


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("virtual_pipeline_model_parallel_size: 5", {"parallel.virtual_pipeline": 5}),
        ("virtual_pipeline_model_parallel_size: null", {}),
        ("sequence_parallel: True", {"parallel.sequence": True}),
        ("context_parallel_size: 2", {"parallel.context": 2}),
        ("expert_model_parallel_size: 8", {"parallel.expert": 8}),
        ("encoder_seq_length: 4096", {"data.sequence_length": 4096}),
        ("activations_checkpoint_granularity: selective", {"checkpointing.activations": "selective"}),
        ("activations_checkpoint_granularity: null", {}),
        (
            "activations_checkpoint_granularity: full\n  activations_checkpoint_method: block\n  activations_checkpoint_num_layers: 4",
            {"checkpointing.activations": "full", "checkpointing.layers": 4},
        ),
        (
            "activations_checkpoint_granularity: full\n  activations_checkpoint_method: uniform\n  activations_checkpoint_num_layers: 4",
            {"checkpointing.activations": "full", "checkpointing.unit": 4},
        ),
        ("cp_comm_type: a2a", {"parallel.context_exchange": "a2a"}),
        ("ub_tp_comm_overlap: True", {"overlap.tensor": True}),
        ("overlap_p2p_comm: True", {"overlap.pipeline": True}),
        ("num_layers: 48\n  hidden_size: 6144\n  num_attention_heads: 48\n  num_query_groups: 8", {"model.layers": 48, "model.hidden": 6144, "model.heads": 48, "model.kv_heads": 8}),
        ("activation: fast-swiglu", {"model.gated_mlp": True}),
        ("activation: gelu", {"model.gated_mlp": False}),
        ("share_embeddings_and_output_weights: False", {"model.tied_embeddings": False}),
        ("fp8: True", {"precision.compute": "fp8"}),
        ("peft:\n    peft_scheme: lora\n    lora_tuning:\n      adapter_dim: 32", {"model.lora_rank": 32}),
        ("hybrid_attention_ratio: 0.08", {"model.parameters": "model.hybrid_attention_ratio is of a model whose layers are not all alike"}),
        ("num_layers: 12\n  decoder_seq_length: 128", {"model.layers": "model.decoder_seq_length is of a model with an encoder and a decoder"}),
        ("peft:\n    peft_scheme: null\n    lora_tuning:\n      adapter_dim: 32", {}),
    ],
)  # fmt: skip
def test_keys_of_the_model(keys, expected):
    text = f"{GPT}  {keys}\n"
    before = read(GPT)
    after = read(text)
    assert {name: value for name, value in after.items() if before.get(name) != value} == expected


@pytest.mark.parametrize(
    ("name", "stage"), [("distributed_fused_adam", 1), ("mcore_distributed_optim", 1), ("fused_adam", 0)]
)
def test_the_optimizer_decides_on_sharding(name, stage):
    assert read(f"{GPT}  optim:\n    name: {name}\n")["sharding.stage"] == stage


RESTORED = """
trainer:
  num_nodes: 8
  devices: 8
pretrained_checkpoint:
  restore_from_path: null
model:
  micro_batch_size: 2
  global_batch_size: 64
  pipeline_model_parallel_size: 2
"""


def test_what_a_restored_model_brings_is_not_known():
    found = read(RESTORED)
    assert (found["batch.micro"], found["parallel.pipeline"]) == (2, 2)
    why = "it comes with the model of pretrained_checkpoint.restore_from_path"
    assert {found[name] for name in ("parallel.tensor", "parallel.context", "model.layers", "parallel.sequence")} == {
        why
    }


def test_degrees_of_a_model_that_begins_anew_are_one():
    assert "parallel.tensor" not in read(RESTORED.replace("restore_from_path", "resume_from_checkpoint"))
    assert "parallel.tensor" not in read(f"{RESTORED}  num_layers: 12\n")


def test_a_shape_beside_a_model_that_is_restored_leaves_the_rest_to_it():
    text = RESTORED.replace("null", "/models/base.nemo") + "  num_layers: 12\n"
    assert read(text)["parallel.tensor"] == "it comes with the model of pretrained_checkpoint.restore_from_path"


@pytest.mark.parametrize(("strategy", "stage"), [("full", 3), ("grad", 2)])
def test_fsdp_shards_whatever_the_optimizer_is(strategy, stage):
    text = f"{GPT}  fsdp: True\n  fsdp_sharding_strategy: '{strategy}'\n  optim:\n    name: fused_adam\n"
    assert read(text)["sharding.stage"] == stage


@pytest.mark.parametrize(
    ("precision", "expected"),
    [("32", "fp32"), ("16", "fp16"), ("'16-mixed'", "fp16"), ("bf16-mixed", "bf16"), ("bf16", "bf16")],
)
def test_precision(precision, expected):
    assert read(GPT.replace("precision: bf16", f"precision: {precision}"))["precision.compute"] == expected


@pytest.mark.parametrize(("devices", "count"), [("8", 8), ("'8'", 8), ("[0, 1, 2]", 3), ("'0,1'", 2)])
def test_devices(devices, count):
    assert claims(reading(GPT.replace("devices: 8", f"devices: {devices}")))["launch.processes_per_node"] == count


@pytest.mark.parametrize("devices", ["-1", "auto"])
def test_every_device_of_a_node_is_what_the_cluster_has(devices):
    found = reading(GPT.replace("devices: 8", f"devices: {devices}"))
    value = next(claim.value for claim in found.claims if claim.setting == "launch.processes_per_node")
    assert isinstance(value, Unknown) and value.means == "cluster.gpus_per_node"


class TestOverrides:
    def test_they_count_more_than_the_file(self):
        found = read(GPT, "model.tensor_model_parallel_size=8", "++model.sequence_parallel=True")
        assert (found["parallel.tensor"], found["parallel.sequence"]) == (8, True)

    def test_a_key_may_be_new(self):
        assert read(GPT, "+model.context_parallel_size=2")["parallel.context"] == 2

    def test_a_key_may_be_deleted(self):
        assert "parallel.pipeline" not in read(GPT, "~model.pipeline_model_parallel_size")

    def test_null_takes_a_value_back(self):
        assert "parallel.pipeline" not in read(GPT, "model.pipeline_model_parallel_size=null")


class TestReferences:
    def test_another_key(self):
        text = f"{GPT}  encoder_seq_length: ${{model.data.seq_length}}\n  data:\n    seq_length: 2048\n"
        found = next(c.value for c in reading(text).claims if c.setting == "data.sequence_length")
        assert isinstance(found, Value)
        assert (found.value, found.origin.span and found.origin.span.line, len(found.origin.chain)) == (2048, 13, 1)

    def test_a_key_of_the_same_section(self):
        text = f"{GPT}  ffn_hidden_size: ${{.hidden_size}}\n  hidden_size: 512\n"
        assert read(text)["model.ffn"] == 512

    def test_a_key_of_the_section_above(self):
        text = f"{GPT}  hidden_size: 512\n  data:\n    seq_length: ${{..hidden_size}}\n"
        assert read(text)["data.sequence_length"] == 512

    def test_an_override_reaches_what_refers_to_it(self):
        text = f"{GPT}  encoder_seq_length: ${{model.data.seq_length}}\n  data:\n    seq_length: 2048\n"
        assert read(text, "model.data.seq_length=512")["data.sequence_length"] == 512

    def test_the_environment_is_not_known(self):
        text = GPT.replace("num_nodes: 4", "num_nodes: ${oc.env:NODES}")
        assert claims(reading(text))["launch.nodes"] == "the environment sets NODES"

    def test_a_default_of_the_environment_is_assumed(self):
        found = reading(GPT.replace("num_nodes: 4", "num_nodes: ${oc.env:NODES,2}"))
        value = next(claim.value for claim in found.claims if claim.setting == "launch.nodes")
        assert isinstance(value, Value) and (value.value, value.origin.kind) == (2, "assumed")

    def test_a_circle_leads_nowhere(self):
        found = read(f"{GPT}  num_layers: ${{model.hidden_size}}\n  hidden_size: ${{model.num_layers}}\n")
        assert found["model.layers"] == "placeholder ${model.hidden_size} is filled by another program"

    def test_a_resolver_of_the_program_is_not_evaluated(self):
        reason = "${multiply:2,3} is what the program's resolver multiply makes of it"
        assert read(f"{GPT}  num_layers: ${{multiply:2,3}}\n")["model.layers"] == reason

    def test_what_refers_to_a_missing_value_is_not_known(self):
        text = f"{GPT}  encoder_seq_length: ${{model.data.seq_length}}\n  data:\n    seq_length: ???\n"
        assert read(text)["data.sequence_length"] == "model.data.seq_length has to be given on the command line"

    def test_a_number_without_a_point_is_one(self):
        text = GPT.replace("precision: bf16", "gradient_clip_val: 1e-1\n  max_steps: ${steps}") + "steps: 1e5\n"
        found = read(text)
        assert (found["optimizer.clip"], found["run.steps"]) == (0.1, 100000)

    def test_a_missing_value_is_not_known(self):
        text = GPT.replace("micro_batch_size: 1", "micro_batch_size: ???")
        assert read(text)["batch.micro"] == "??? has to be given on the command line"
        assert read(text, "model.micro_batch_size=2")["batch.micro"] == 2


class TestOtherModels:
    def test_a_model_without_megatrons_keys_is_copied_by_ddp(self):
        text = """
exp_manager: {}
trainer:
  devices: 8
  num_nodes: 2
  precision: 16
  accumulate_grad_batches: 4
  strategy: ddp_find_unused_parameters_true
model:
  train_ds:
    batch_size: 32
"""
        found = reading(text)
        assert (found.framework, found.frontend) == ("ddp", "lightning")
        assert read(text) == {
            "precision.compute": "fp16",
            "batch.micro": 32,
            "batch.accumulation": 4,
            "communication.find_unused": True,
        }

    def test_a_config_that_applies_a_model_trains_nothing(self):
        assert reading(f"{GPT}inference:\n  greedy: True\n").role == "other"

    def test_other_yaml_is_nothing(self):
        for text in ("trainer:\n  total_epochs: 3\nactor: {}\n", "model:\n  micro_batch_size: 2\n"):
            assert not nemo.looks_like_config(read_yaml(Source("a.yaml", text)))


class TestLaunches:
    def test_the_command_names_the_config(self, tmp_path):
        found = run(
            tmp_path,
            conf_in_gpt__yaml=GPT,
            run__sh="python train.py --config-path=conf --config-name=gpt model.tensor_model_parallel_size=8\n",
        )
        assert [found[name] for name in ("framework", "parallel.tensor", "parallel.data", "batch.accumulation")] == [
            "nemo",
            8,
            2,
            64,
        ]

    def test_the_program_names_the_config(self, tmp_path):
        program = '@hydra_runner(config_path="conf", config_name="gpt")\ndef main(cfg):\n    pass\n'
        found = run(
            tmp_path,
            conf_in_gpt__yaml=GPT,
            train__py=program,
            run__sh="srun python train.py model.pipeline_model_parallel_size=4 exp_manager.name=x\n",
        )
        assert (found["parallel.pipeline"], found["parallel.tensor"]) == (4, 4)

    def test_an_example_names_its_config_in_a_container_and_overrides_nothing(self, tmp_path):
        found = run(
            tmp_path,
            conf_in_gpt__yaml=GPT,
            run__sh="srun -N 4 --ntasks-per-node 8 --container-mounts=$PWD:/job python /opt/NeMo/examples/nlp/"
            "megatron_gpt_pretraining.py --config-path=/job/conf --config-name=gpt\n",
        )
        assert (found["launch.launcher"], found["parallel.tensor"], found["parallel.data"]) == ("slurm", 4, 4)

    def test_the_config_that_nemo_brings_for_its_example(self, tmp_path):
        words = "trainer.devices=8 trainer.num_nodes=4 model.pipeline_model_parallel_size=4 model.global_batch_size=256"
        names = ("parallel.pipeline", "parallel.context", "parallel.data", "checkpointing.activations", "model.layers")
        found = run(tmp_path, run__sh=f"srun python /opt/NeMo/examples/nlp/megatron_gpt_pretraining.py {words}\n")
        assert [found.get(name) for name in names] == [4, 1, 8, "none", None]
        found = run(tmp_path, run__sh=f"srun python megatron_gpt_pretraining.py --config-name=mine {words}\n")
        assert [found.get(name) for name in names] == [4, None, None, None, None]

    @pytest.mark.parametrize(
        ("words", "known"),
        [
            ("megatron_gpt_finetuning.py --config-name gpt", True),
            ("megatron_gpt_pretraining.py", False),
            ("megatron_gpt_eval.py --config-name gpt", False),
            ("pretraining.py --config-name gpt", False),
        ],
    )
    def test_an_example_that_trains_is_known_by_its_name_beside_a_config(self, words, known):
        assert nemo.recognise(command_of(words.split()).worlds[0].commands[0].argv) == known

    def test_a_config_that_is_not_there_hides_settings(self, tmp_path):
        found = run(tmp_path, run__sh="python train.py trainer.devices=8 model.tensor_model_parallel_size=8\n")
        assert (found["framework"], found["parallel.tensor"], found["batch.micro"]) == ("nemo", 8, None)
        assert (found["parallel.pipeline"], found["parallel.sequence"]) == (None, None)

    def test_the_nodes_that_a_config_by_itself_does_not_tell_are_left_to_the_command_line(self, tmp_path):
        config = GPT.replace("  num_nodes: 4\n", "")
        assert run(tmp_path, gpt__yaml=config).get("launch.nodes") is None
        called = run(tmp_path, gpt__yaml=config, run__sh="python train.py --config-name gpt exp_manager.name=x\n")
        assert called["launch.nodes"] == 1

    def test_a_config_that_converts_a_checkpoint_trains_nothing(self):
        assert reading(GPT).role == ""
        assert reading("run: {huggingface_ckpt_path: hf}\n" + GPT).role == "other"

    def test_images_and_text_fill_a_sequence_as_far_as_they_go(self, tmp_path):
        config = GPT.replace("model:\n", "model:\n  mm_cfg: {llm: {freeze: true}}\n")
        assert run(tmp_path, gpt__yaml=config)["data.sequence_length"] is None

    def test_one_device_of_a_config_by_itself_is_a_blank(self, tmp_path):
        found = run(tmp_path, gpt__yaml=GPT.replace("devices: 8", "devices: 1").replace("num_nodes: 4", "num_nodes: 1"))
        assert found.get("parallel.world_size") is None

    def test_a_config_by_itself_is_a_run(self, tmp_path):
        found = run(tmp_path, gpt__yaml=GPT)
        assert (found["parallel.world_size"], found["parallel.data"], found["batch.accumulation"]) == (32, 4, 32)


def spelled(text: str, setting: str, value: object, *words: str) -> str | None:
    return nemo.spell_in(reading(text, *words), setting, value)  # type: ignore[arg-type]


class TestSpelling:
    def test_as_the_file_has_it(self):
        assert spelled(GPT, "parallel.tensor", 8) == "model.tensor_model_parallel_size: 8"

    def test_as_the_command_line_has_it(self):
        assert spelled(GPT, "parallel.tensor", 8, "++model.tensor_model_parallel_size=16") == (
            "++model.tensor_model_parallel_size=8"
        )

    def test_a_key_that_is_not_written(self):
        assert spelled(GPT, "parallel.sequence", True) == "model.sequence_parallel: true"

    def test_the_optimizer_that_shards(self):
        text = f"{GPT}  optim:\n    name: fused_adam\n"
        assert spelled(text, "sharding.stage", 1) == "model.optim.name: distributed_fused_adam"

    def test_a_value_that_another_key_decides(self):
        assert spelled(f"{GPT}  fp8: True\n", "precision.compute", "bf16") == "trainer.precision: bf16"
        assert spelled(f"{GPT}  activation: gelu\n", "model.gated_mlp", True) is None

    def test_lightnings_strategy(self):
        text = "exp_manager: {}\ntrainer:\n  strategy: ddp_find_unused_parameters_true\nmodel: {}\n"
        assert spelled(text, "communication.find_unused", False) == "trainer.strategy: ddp"
        assert spelled(text, "parallel.tensor", 2) is None


@pytest.mark.parametrize(
    ("keys", "words", "dead"),
    [
        ("activations_checkpoint_granularity: null", (), True),
        ("mcore_gpt: true", (), True),
        ("activations_checkpoint_granularity: null", ("model.activations_checkpoint_granularity=full",), False),
        ("activations_checkpoint_granularity: selective", (), False),
        ("activations_checkpoint_granularity: ${oc.env:KIND,null}", (), False),
        ("activations_checkpoint_granularity: null", ("model.activations_checkpoint_num_layers=0",), False),
        ("activations_checkpoint_granularity: null", ("model.activations_checkpoint_method=null",), False),
        ("seed: 1", (), False),
    ],
    ids=["null", "left out of Core", "override", "selective", "variable", "no layers", "no method", "older NeMo"],
)
def test_a_method_of_recomputation_is_dead_without_a_granularity(keys, words, dead):
    text = f"{GPT}  {keys}\n  activations_checkpoint_method: uniform\n  activations_checkpoint_num_layers: 1\n"
    found = reading(text, *words).collections.get("config.inert", ())
    assert [member.place.text for member in found] == (["uniform"] if dead else [])


def test_a_config_in_python_is_dead_alike(tmp_path):
    text = """
from nemo import lightning as nl
from nemo.collections import llm

config = llm.GPTConfig(num_layers=32, hidden_size=4096, num_attention_heads=32, recompute_method="uniform"{more})
strategy = nl.MegatronStrategy(tensor_model_parallel_size=2)
llm.train(model=llm.GPTModel(config), data=data, trainer=nl.Trainer(devices=8, num_nodes=1, strategy=strategy))
"""
    for more, dead in (("", 1), (', recompute_granularity="full"', 0), (", recompute_granularity=kind", 0)):
        (tmp_path / "train.py").write_text(text.replace("{more}", more), encoding="utf-8")
        assert [each.rule for each in check([tmp_path]).findings].count("inert-setting") == dead


STRATEGY = "ddp.data_parallel_sharding_strategy=optim_grads_params"


def inert(folder: Path, files: dict[str, str]) -> list[str]:
    for name, text in files.items():
        (folder / name).write_text(text, encoding="utf-8")
    found = check([folder / name for name in files]).findings
    return [f"{each.severity} {each.message}" for each in found if each.rule == "inert-setting"]


def over_a_recipe(recipe: str, words: str) -> dict[str, str]:
    launch = f"torchrun --nproc_per_node 8 finetune.py --recipe {recipe} {words}\n"
    return {"run.sh": launch}


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        ("qwen3_vl_8b_finetune_config", f"model.tensor_model_parallel_size=8 {STRATEGY}"),
        ("llama3_8b_pretrain_config", f"train.global_batch_size=64 {STRATEGY.replace('_params', '')}"),
        ("qwen3_8b_sft_config", f"{STRATEGY} ddp.use_megatron_fsdp=false"),
    ],
    ids=["degrees", "batch", "switched off"],
)
def test_a_strategy_of_fsdp_over_a_recipe_that_has_none_is_dead(tmp_path, recipe, words):
    (found,) = inert(tmp_path, over_a_recipe(recipe, words))
    assert found.startswith("warning 'ddp.data_parallel_sharding_strategy' has no effect: optim_grads")
    assert "ddp.use_megatron_fsdp=true" in found


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        ("qwen3_8b_sft_config", f"{STRATEGY} ddp.use_megatron_fsdp=true"),
        ("qwen3_8b_sft_config", f"{STRATEGY} dist.use_megatron_fsdp=True"),
        ("qwen3_8b_sft_config", f"{STRATEGY} ddp.use_megatron_fsdp=$FSDP"),
        ("qwen3_8b_sft_config", f'{STRATEGY} "$@"'),
        ("qwen3_8b_sft_config", f"{STRATEGY} $MORE"),
        ("qwen3_8b_sft_config", f"--config-file more.yaml {STRATEGY}"),
        ("qwen3_8b_sft_config", "ddp.data_parallel_sharding_strategy=optim ddp.overlap_grad_reduce=true"),
        ("qwen35_vl_35b_a3b_sft_2gpu_h100_bf16_fsdp_config", STRATEGY),
        ("ours:large", STRATEGY),
        ("$RECIPE", STRATEGY),
    ],
    ids=["on", "on elsewhere", "variable", "arguments", "more", "config", "as without", "by name", "own", "unknown"],
)
def test_a_strategy_that_may_be_read_is_left_alone(tmp_path, recipe, words):
    assert inert(tmp_path, over_a_recipe(recipe, f"model.tensor_model_parallel_size=2 {words}")) == []


BUILT = """
from megatron.bridge import AutoBridge
from megatron.bridge.training.config import ConfigContainer, DistributedDataParallelConfig, TrainingConfig
from megatron.bridge.training.pretrain import pretrain

config = ConfigContainer(
    model=AutoBridge.from_hf_pretrained("meta-llama/Llama-3.1-8B").to_megatron_provider(load_weights=False),
    train=TrainingConfig(train_iters=100, global_batch_size=32, micro_batch_size=1),
    ddp=DistributedDataParallelConfig(use_distributed_optimizer=True{more}),
)
pretrain(config, None)
"""


@pytest.mark.parametrize(
    ("more", "words", "told"),
    [
        (', data_parallel_sharding_strategy="optim_grads_params"', "", ["note"]),
        (', data_parallel_sharding_strategy="optim_grads_params", use_megatron_fsdp=True', "", []),
        (', data_parallel_sharding_strategy="optim_grads_params", use_megatron_fsdp=wish', "", []),
        ("", STRATEGY, ["warning"]),
        (", use_megatron_fsdp=True", STRATEGY, []),
    ],
    ids=["as recipes have it", "read", "may be read", "command line", "over a config with FSDP"],
)
def test_a_strategy_in_a_config_of_bridge(tmp_path, more, words, told):
    files = {"train.py": BUILT.replace("{more}", more), "run.sh": f"torchrun --nproc_per_node 8 train.py {words}\n"}
    assert [each.split()[0] for each in inert(tmp_path, files)] == told


@pytest.mark.parametrize(("more", "told"), [("", ["note"]), (', fsdp="megatron"', [])], ids=["dead", "read"])
def test_a_strategy_in_nemo_2(tmp_path, more, told):
    text = f"""
from megatron.core.distributed import DistributedDataParallelConfig
from nemo import lightning as nl
from nemo.collections import llm

config = llm.GPTConfig(num_layers=32, hidden_size=4096, num_attention_heads=32)
ddp = DistributedDataParallelConfig(data_parallel_sharding_strategy="optim_grads_params")
strategy = nl.MegatronStrategy(tensor_model_parallel_size=2, ddp=ddp{more})
llm.train(model=llm.GPTModel(config), data=data, trainer=nl.Trainer(devices=8, num_nodes=1, strategy=strategy))
"""
    assert [each.split()[0] for each in inert(tmp_path, {"train.py": text})] == told


JOB = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --gres=gpu:8\n{tasks}srun {command}\n"
ONE, EIGHT = ("#SBATCH --ntasks-per-node=1\n", "#SBATCH --ntasks-per-node=8\n")
GPT_WORDS = "megatron_gpt_pretraining.py trainer.num_nodes=2 model.tensor_model_parallel_size=2"
RECIPE = """
from nemo import lightning as nl
from nemo.collections import llm

strategy = nl.MegatronStrategy(tensor_model_parallel_size=2)
trainer = nl.Trainer(devices=8, num_nodes=2, max_steps=100, strategy=strategy)
llm.train(model=model, data=data, trainer=trainer)
"""


class TestTasks:
    """NeMo runs under Lightning's Trainer, which takes a task of Slurm for each device."""

    @pytest.mark.parametrize(
        ("tasks", "command", "told"),
        [
            (ONE, f"python {GPT_WORDS} trainer.devices=8", True),
            ("", f"python {GPT_WORDS} trainer.devices=8", True),  # one task a node
            (EIGHT, f"python {GPT_WORDS} trainer.devices=8", False),
            (ONE, f"python {GPT_WORDS}", False),  # the config that is not here says how many
            (ONE, f"python {GPT_WORDS} trainer.devices=8 +cluster_type=BCP", False),
            (ONE, "torchrun --nnodes 2 --nproc_per_node 8 --rdzv_backend c10d --rdzv_endpoint a:29500 "
             f"{GPT_WORDS} trainer.devices=8", False),
            (ONE, "python train.py --config-path=conf --config-name=gpt exp_manager.name=x trainer.num_nodes=2", True),
            (EIGHT, "python train.py --config-path=conf --config-name=gpt exp_manager.name=x trainer.num_nodes=2", False),
            (ONE, "python recipe.py", True),
            (EIGHT, "python recipe.py", False),
            ("#SBATCH --exclusive\n#SBATCH --cpus-per-task=12\n", "python recipe.py", False),
        ],
    )  # fmt: skip
    def test_one_for_each_device(self, tmp_path, tasks, command, told):
        (tmp_path / "conf").mkdir()
        (tmp_path / "conf" / "gpt.yaml").write_text(GPT.replace("num_nodes: 4", "num_nodes: 2"), encoding="utf-8")
        (tmp_path / "recipe.py").write_text(RECIPE, encoding="utf-8")
        (tmp_path / "job.sh").write_text(JOB.format(tasks=tasks, command=command), encoding="utf-8")
        rules = {finding.rule for finding in check([tmp_path / "job.sh"]).findings}
        assert ("slurm-tasks-mismatch" in rules) is told


ESM2 = """#!/bin/bash
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=8
#SBATCH --gpus-per-node=8
srun --container-image=bionemo.sqsh train_esm2 --num-nodes=2 --num-gpus=8 --micro-batch-size 16 {more}
"""


@pytest.mark.parametrize(
    ("more", "rules"),
    [
        ("--pipeline-model-parallel-size=2 --accumulate-grad-batches=8", {"layers-not-divisible"}),
        ("--pipeline-model-parallel-size 4 --num-layers 34 --accumulate-grad-batches 16", {"layers-not-divisible"}),
        ("--tensor-model-parallel-size=8", {"heads-not-divisible"}),
        ("--pipeline-model-parallel-size 2 --num-layers 36 --accumulate-grad-batches 16", set()),
        ("--pipeline-model-parallel-size 2 --num-layers $LAYERS --accumulate-grad-batches 16", set()),
        ("--pipeline-model-parallel-size 2 --accumulate-grad-batches 16 $MORE", set()),
    ],
)
def test_plans_of_bionemos_command(tmp_path: Path, more: str, rules: set[str]) -> None:
    (tmp_path / "job.sbatch").write_text(ESM2.format(more=more))
    report = check([tmp_path / "job.sbatch"])
    of_interest = {"layers-not-divisible", "heads-not-divisible", "slurm-tasks-mismatch", "world-size-mismatch"}
    assert {found.rule for found in report.findings if found.severity != "note"} & of_interest == rules
    assert [run.plan.value("parallel.world_size") for run in report.runs] == [16]
