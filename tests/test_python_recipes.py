"""Plans that Python builds: torchtitan's config functions, NeMo 2, Megatron-Bridge, Megatron-Core as a library."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

import pytest

from dtlint.api import check
from dtlint.report.json import report_json

Files = Mapping[str, str]


def runs(folder: Path, files: Files) -> list[dict[str, object]]:
    """The runs of some files, each its settings by name, an unknown one as None."""
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(dedent(text), encoding="utf-8")
    found = json.loads(report_json(check([folder])))["runs"]
    return [{name: each.get("value") for name, each in run["settings"].items()} for run in found]


def run(folder: Path, files: Files) -> dict[str, object]:
    (found,) = runs(folder, files)
    return found


def shown(settings: Mapping[str, object], *names: str) -> list[object]:
    return [settings.get(name) for name in names]


DEGREES = ("parallel.tensor", "parallel.pipeline", "parallel.context", "parallel.data")

TITAN = """
    from torchtitan.config import ParallelismConfig, TrainingConfig
    from torchtitan.distributed.activation_checkpoint import FullAC
    from torchtitan.models.llama3 import model_registry
    from torchtitan.trainer import Trainer

    def base() -> Trainer.Config:
        return Trainer.Config(
            model_spec=model_registry("70B"),
            training=TrainingConfig(num_tokens_per_microbatch_per_dp_rank=2 * 8192, max_context_length=8192),
            parallelism=ParallelismConfig(tensor_parallel_degree=4),
            activation_checkpoint=FullAC.Config(),
        )

    def wide() -> Trainer.Config:
        config = base()
        config.parallelism.tensor_parallel_degree *= 2
        config.parallelism.context_parallel_degree = 2
        return config
"""


def test_a_config_function_of_torchtitan_builds_on_another(tmp_path: Path) -> None:
    launch = "torchrun --nnodes 8 --nproc_per_node 8 -m torchtitan.train --module mine.configs --config wide\n"
    found = run(tmp_path, {"mine/configs.py": TITAN, "launch.sh": launch})
    assert shown(found, "framework", *DEGREES) == ["torchtitan", 8, 1, 2, 4]
    assert shown(found, "batch.micro", "data.sequence_length") == [2, 8192]
    assert shown(found, "checkpointing.activations", "model.name") == ["full", "meta-llama/Meta-Llama-3-70B"]


def test_options_stand_over_what_the_function_builds(tmp_path: Path) -> None:
    options = "--parallelism.tensor_parallel_degree 2 --training.num_tokens_per_train_step=524288"
    launch = f"NGPU=8 MODULE=mine.configs CONFIG=base ./run_train.sh {options}\n"
    found = run(tmp_path, {"mine/configs.py": TITAN, "launch.sh": launch})
    assert shown(found, "parallel.tensor", "parallel.data", "batch.global", "batch.accumulation") == [2, 4, 64, 8]


def test_a_short_module_is_looked_for_where_torchtitan_has_it(tmp_path: Path) -> None:
    registry = "torchtitan/models/llama3/config_registry.py"
    launch = "torchrun --nproc_per_node 8 -m torchtitan.train --module llama3 --config wide\n"
    found = run(tmp_path, {registry: TITAN, "launch.sh": launch})
    assert shown(found, "parallel.tensor", "parallel.context") == [8, 2]


def test_a_module_of_a_package_imports_relatively(tmp_path: Path) -> None:
    text = """
        from torchtitan.trainer import Trainer
        from . import widened
        from .base import base

        def narrow() -> Trainer.Config:
            config = base()
            widened(config)
            return config
    """
    package = "def widened(config):\n    config.parallelism.pipeline_parallel_degree = 2\n"
    files = {"pkg/base.py": TITAN, "pkg/configs.py": text, "pkg/__init__.py": package}
    launch = "torchrun --nproc_per_node 8 -m torchtitan.train --module pkg.configs --config narrow\n"
    found = runs(tmp_path, {**files, "launch.sh": launch})[0]
    assert shown(found, "parallel.tensor", "parallel.pipeline") == [4, 2]


def test_a_function_that_is_not_here_hides_what_it_may_set(tmp_path: Path) -> None:
    launch = "torchrun --nproc_per_node 8 -m torchtitan.train --module llama3 --config llama3_70b\n"
    found = run(tmp_path, {"launch.sh": f"{launch[:-1]} --parallelism.pipeline_parallel_degree 2\n"})
    assert shown(found, *DEGREES, "batch.micro") == [None, 2, None, None, None]


def test_each_function_of_a_file_by_itself_is_a_plan(tmp_path: Path) -> None:
    assert [each["parallel.tensor"] for each in runs(tmp_path, {"configs.py": TITAN})] == [4, 8]


def test_a_condition_that_is_not_known_leaves_what_it_sets_unknown(tmp_path: Path) -> None:
    text = """
        import os
        from torchtitan.config import ParallelismConfig
        from torchtitan.trainer import Trainer

        def one() -> Trainer.Config:
            config = Trainer.Config(parallelism=ParallelismConfig(tensor_parallel_degree=4, context_parallel_degree=2))
            if os.environ["WIDE"]:
                config.parallelism.tensor_parallel_degree = 8
            return config
    """
    assert shown(run(tmp_path, {"configs.py": text}), "parallel.tensor", "parallel.context") == [None, 2]


def test_what_a_library_may_change_is_unknown(tmp_path: Path) -> None:
    text = """
        from presets import tuned
        from torchtitan.config import ParallelismConfig
        from torchtitan.trainer import Trainer

        def one() -> Trainer.Config:
            config = Trainer.Config(parallelism=ParallelismConfig(tensor_parallel_degree=4))
            tuned(config)
            config.parallelism.context_parallel_degree = 2
            return config
    """
    assert shown(run(tmp_path, {"configs.py": text}), "parallel.tensor", "parallel.context") == [None, 2]


NEMO = """
    import torch
    from megatron.core.distributed import DistributedDataParallelConfig
    from megatron.core.optimizer import OptimizerConfig
    from nemo import lightning as nl
    from nemo.collections import llm

    def main(length=4096):
        strategy = nl.MegatronStrategy(
            tensor_model_parallel_size=2, pipeline_model_parallel_size=2, sequence_parallel=True,
            ddp=DistributedDataParallelConfig(overlap_grad_reduce=True),
        )
        trainer = nl.Trainer(
            devices=8, num_nodes=2, max_steps=50, strategy=strategy,
            plugins=nl.MegatronMixedPrecision(precision="bf16-mixed"),
        )
        optim = nl.MegatronOptimizerModule(config=OptimizerConfig(optimizer="adam", use_distributed_optimizer=True))
        llm.train(
            model=llm.LlamaModel(llm.Llama3Config8B()),
            data=llm.MockDataModule(seq_length=length, global_batch_size=64, micro_batch_size=2),
            trainer=trainer, optim=optim,
        )

    if __name__ == "__main__":
        main()
"""


def test_nemo_2_trains_by_what_the_call_is_given(tmp_path: Path) -> None:
    found = run(tmp_path, {"pretrain.py": NEMO})
    assert shown(found, "framework", *DEGREES) == ["nemo", 2, 2, 1, 4]
    assert shown(found, "launch.nodes", "launch.processes_per_node", "run.steps") == [2, 8, 50]
    assert shown(found, "batch.micro", "batch.global", "data.sequence_length") == [2, 64, 4096]
    assert shown(found, "sharding.stage", "overlap.gradients", "overlap.parameters") == [1, True, False]
    assert shown(found, "precision.compute", "optimizer.clip", "parallel.sequence") == ["bf16", 1.0, True]
    assert found["model.name"] == "meta-llama/Meta-Llama-3-8B"


def test_a_recipe_of_the_library_is_known_as_far_as_it_is_changed(tmp_path: Path) -> None:
    text = """
        import nemo_run as run
        from nemo.collections import llm

        def configure(nodes):
            recipe = llm.llama3_70b.pretrain_recipe(name="x", num_nodes=nodes, num_gpus_per_node=8)
            recipe.trainer.strategy.tensor_model_parallel_size = 4
            recipe.data.micro_batch_size = 2
            return recipe

        if __name__ == "__main__":
            run.run(configure(nodes=4), executor=run.LocalExecutor(launcher="torchrun"))
    """
    found = run(tmp_path, {"recipe.py": text})
    assert shown(found, *DEGREES) == [4, None, None, None]
    assert shown(found, "launch.nodes", "launch.processes_per_node", "batch.micro") == [4, 8, 2]
    assert shown(found, "batch.accumulation", "sharding.stage", "precision.compute") == [None, None, None]
    assert found["model.name"] == "meta-llama/Meta-Llama-3-70B"


def test_a_recipe_of_the_tree_is_followed(tmp_path: Path) -> None:
    recipes = """
        import nemo_run as run
        from nemo import lightning as nl
        from nemo.collections import llm

        def pretrain_recipe(num_nodes=1, tensor=4):
            strategy = run.Config(nl.MegatronStrategy, tensor_model_parallel_size=tensor)
            trainer = run.Config(nl.Trainer, num_nodes=num_nodes, devices=8, strategy=strategy)
            return run.Partial(llm.pretrain, trainer=trainer, data=run.Config(llm.MockDataModule, micro_batch_size=1))
    """
    text = """
        import nemo_run as run
        from recipes import pretrain_recipe

        recipe = pretrain_recipe(num_nodes=2)
        recipe.trainer.strategy.context_parallel_size = 2
        with run.Experiment("x") as experiment:
            experiment.add(recipe, executor=None)
    """
    found = run(tmp_path, {"recipes.py": recipes, "train.py": text})
    assert shown(found, *DEGREES, "batch.micro") == [4, 1, 2, 2, 1]


BRIDGE = """
    from megatron.bridge import AutoBridge
    from megatron.bridge.training.config import ConfigContainer, DistributedDataParallelConfig, OptimizerConfig
    from megatron.bridge.training.config import TrainingConfig
    from megatron.bridge.training.pretrain import pretrain

    provider = AutoBridge.from_hf_pretrained("meta-llama/Llama-3.1-70B").to_megatron_provider(load_weights=False)
    provider.tensor_model_parallel_size = 8
    provider.pipeline_model_parallel_size = 2
    config = ConfigContainer(
        model=provider,
        train=TrainingConfig(train_iters=100, global_batch_size=32, micro_batch_size=1),
        optimizer=OptimizerConfig(lr=1e-4, use_distributed_optimizer=True),
        ddp=DistributedDataParallelConfig(overlap_grad_reduce=True, use_distributed_optimizer=True),
        mixed_precision="bf16_with_fp8_delayed_scaling_mixed",
    )
    pretrain(config, None)
"""


def test_megatron_bridge_with_overrides_on_the_command_line(tmp_path: Path) -> None:
    launch = "torchrun --nnodes 4 --nproc_per_node 8 train.py model.context_parallel_size=2 train.micro_batch_size=2\n"
    found = run(tmp_path, {"train.py": BRIDGE, "launch.sh": launch})
    assert shown(found, *DEGREES) == [8, 2, 2, 1]
    assert shown(found, "batch.micro", "batch.global", "sharding.stage", "run.steps") == [2, 32, 1, 100]
    assert shown(found, "precision.compute", "model.name") == ["fp8", "meta-llama/Llama-3.1-70B"]


@pytest.mark.parametrize(("dist", "stage"), [("use_megatron_fsdp=True", 3), ("use_megatron_fsdp=False", 1), ("", 1)])
def test_either_section_of_bridge_switches_fsdp_on(tmp_path: Path, dist: str, stage: int) -> None:
    more = 'ddp=DistributedDataParallelConfig(data_parallel_sharding_strategy="optim_grads_params", '
    text = BRIDGE.replace("ddp=DistributedDataParallelConfig(", f"dist=DistributedInitConfig({dist}),\n        {more}")
    text = text.replace("import TrainingConfig", "import DistributedInitConfig, TrainingConfig")
    found = run(tmp_path, {"train.py": text, "launch.sh": "torchrun --nnodes 4 --nproc_per_node 8 train.py\n"})
    assert shown(found, "sharding.stage") == [stage]


FUNCTION = """
    from megatron.bridge.models.gpt_provider import GPTModelProvider
    from megatron.bridge.training.config import ConfigContainer, TokenizerConfig, TrainingConfig


    def _model():
        return GPTModelProvider(num_layers=80, hidden_size=8192, num_attention_heads=64, seq_length=8192)


    def large():
        model = _model()
        model.tensor_model_parallel_size = 4
        model.pipeline_model_parallel_size = 8
        return ConfigContainer(
            model=model,
            train=TrainingConfig(global_batch_size=128, micro_batch_size=1),
            tokenizer=TokenizerConfig(vocab_size=128256),
        )
"""


@pytest.mark.parametrize("option", ["--recipe recipes.large:large", "--config-fn=recipes.large:large"])
def test_a_function_that_the_command_line_names_with_its_module(tmp_path: Path, option: str) -> None:
    launch = f"srun -N 8 --ntasks-per-node 8 --gpus-per-node 8 python scripts/pretrain.py {option}\n"
    found = run(tmp_path, {"recipes/large.py": FUNCTION, "launch.sh": launch})
    assert shown(found, *DEGREES, "parallel.world_size") == [4, 8, 1, 2, 64]
    assert shown(found, "model.layers", "model.vocab", "data.sequence_length", "batch.global") == [
        80,
        128256,
        8192,
        128,
    ]


def test_the_command_line_overrides_what_the_function_builds(tmp_path: Path) -> None:
    option = "--recipe recipes.large:large model.pipeline_model_parallel_size=4"
    launch = f"srun -N 8 --ntasks-per-node 8 --gpus-per-node 8 python scripts/pretrain.py {option}\n"
    found = run(tmp_path, {"recipes/large.py": FUNCTION, "launch.sh": launch})
    assert shown(found, *DEGREES, "parallel.world_size") == [4, 4, 1, 4, 64]


@pytest.mark.parametrize("option", ["--recipe recipes.large:other", "--recipe recipes.absent:large", "--at head:large"])
def test_a_function_that_is_not_there_says_nothing(tmp_path: Path, option: str) -> None:
    launch = f"torchrun --nproc_per_node 8 scripts/pretrain.py {option}\n"
    found = run(tmp_path, {"recipes/large.py": FUNCTION, "launch.sh": launch})
    assert shown(found, "parallel.world_size", "model.layers") == [8, None]


def test_a_config_that_a_library_makes_hides_its_defaults(tmp_path: Path) -> None:
    text = """
        from megatron.bridge.recipes.llama import llama3_8b_pretrain_config
        from megatron.bridge.training.pretrain import pretrain

        config = llama3_8b_pretrain_config()
        config.train.micro_batch_size = 2
        pretrain(config=config, forward_step_func=None)
    """
    found = run(tmp_path, {"train.py": text})
    assert shown(found, "batch.micro", "batch.global", "parallel.tensor", "sharding.stage") == [2, None, None, None]


@pytest.mark.parametrize(
    "arguments",
    [
        "tensor_model_parallel_size=8, pipeline_model_parallel_size=4, context_parallel_size=1",
        "tensor_parallelism=8, pipeline_parallelism=4, context_parallelism=1",
    ],
)
def test_arguments_of_bridges_recipes(tmp_path: Path, arguments: str) -> None:
    text = f"""
        from megatron.bridge.recipes.llama import llama3_70b_pretrain_config
        from megatron.bridge.training.pretrain import pretrain

        config = llama3_70b_pretrain_config({arguments}, global_batch_size=100, micro_batch_size=1)
        config.train.global_batch_size = 96
        pretrain(config=config, forward_step_func=None)
    """
    found = run(tmp_path, {"train.py": text})
    assert shown(found, *DEGREES[:3]) == [8, 4, 1]
    assert shown(found, "batch.micro", "batch.global", "sharding.stage") == [1, 96, None]


def test_megatron_core_as_a_library(tmp_path: Path) -> None:
    text = """
        from megatron.core import parallel_state
        from megatron.core.transformer.transformer_config import TransformerConfig

        def train():
            parallel_state.initialize_model_parallel(4, 2, context_parallel_size=2)
            config = TransformerConfig(num_layers=32, hidden_size=4096, num_attention_heads=32, sequence_parallel=True)
            optimizer.step()

        train()
    """
    found = run(tmp_path, {"train.py": text, "launch.sh": "torchrun --nproc_per_node 16 train.py\n"})
    assert shown(found, "framework", *DEGREES) == ["megatron", 4, 2, 2, 1]
    assert shown(found, "model.layers", "model.hidden", "parallel.sequence") == [32, 4096, True]


def test_megatron_core_as_a_library_takes_no_format_unasked(tmp_path: Path) -> None:
    """Megatron-LM's arguments train in fp32 where neither --bf16 nor --fp16 is given; a program without them builds its own model."""
    text = """
        from megatron.core import mpu

        def train(model):
            mpu.initialize_model_parallel(tensor_model_parallel_size=2)
            model.bfloat16()
            optimizer.step()

        train(load())
    """
    found = run(tmp_path, {"train.py": text, "launch.sh": "torchrun --nproc_per_node 8 train.py\n"})
    assert shown(found, "framework", "parallel.tensor", "precision.compute") == ["megatron", 2, None]


SCHEDULED = """
    import argparse
    from megatron.core import parallel_state
    from megatron.core.pipeline_parallel import get_forward_backward_func
    from megatron.core.transformer import TransformerConfig
    from net import forward_step, batches, optimizer, build

    parser = argparse.ArgumentParser()
    parser.add_argument("--steps-per-batch", type=int, default=16)
    args = parser.parse_args()
    parallel_state.initialize_model_parallel(2, 4)
    model = build(TransformerConfig(num_layers=32, hidden_size=4096, num_attention_heads=32{config}))

    {body}
    optimizer.step()
"""
STEP = "forward_step_func=forward_step, data_iterator=batches, model=model, forward_only=False"
SHAPE = "seq_length=4096, micro_batch_size=2"


@pytest.mark.parametrize(
    ("body", "config", "count", "micro", "length"),
    [
        (f"get_forward_backward_func()({STEP}, num_microbatches=8, {SHAPE})", "", 8, 2, 4096),
        (
            f"run = get_forward_backward_func()\n    run({STEP}, num_microbatches=args.steps_per_batch, {SHAPE})",
            "",
            16,
            2,
            4096,
        ),
        # the shape is not looked at where each micro-batch sends its own
        (
            f"get_forward_backward_func()({STEP}, num_microbatches=8, {SHAPE})",
            ", variable_seq_lengths=True",
            8,
            None,
            None,
        ),
        (f"get_forward_backward_func()({STEP}, num_microbatches=len(batches), {SHAPE})", "", None, 2, 4096),
        ("train_step(model)", "", None, None, None),
        # an evaluation says nothing of the steps that train
        (
            f"run = get_forward_backward_func()\n    run({STEP.replace('False', 'True')}, num_microbatches=1)",
            "",
            None,
            None,
            None,
        ),
    ],
)
def test_micro_batches_are_those_that_the_schedule_is_told(
    tmp_path: Path, body: str, config: str, count: int | None, micro: int | None, length: int | None
) -> None:
    """Megatron-LM's arguments train one micro-batch unasked; a program without them tells the schedule a number."""
    files = {
        "train.py": SCHEDULED.format(body=body, config=config),
        "launch.sh": "torchrun --nproc_per_node 16 train.py\n",
    }
    found = run(tmp_path, files)
    assert shown(found, "framework", "parallel.pipeline", "schedule.microbatches") == ["megatron", 4, count]
    assert shown(found, "batch.micro", "data.sequence_length") == [micro, length]


OVER = """
    import argparse
    from pathlib import Path
    from omegaconf import OmegaConf
    from megatron.bridge.recipes.llama import llama3_70b_pretrain_config
    from megatron.bridge.training.pretrain import pretrain
    from megatron.bridge.training.config import ConfigContainer
    from megatron.bridge.training.utils.omegaconf_utils import apply_overrides, create_omegaconf_dict_config
    from megatron.bridge.training.utils.omegaconf_utils import parse_hydra_overrides, process_config_with_overrides

    def words():
        parser = argparse.ArgumentParser()
        parser.add_argument("--config-file", type={kind}, default=None)
        return parser.parse_known_args()

    def main():
        args, given = words()
        cfg = llama3_70b_pretrain_config()
        {body}
        pretrain(cfg, None)

    main()
"""
IN_PLACE = """merged, excluded = create_omegaconf_dict_config(cfg)
        if args.config_file:
            merged = OmegaConf.merge(merged, OmegaConf.load({path}))
        if given:
            merged = parse_hydra_overrides(merged, given)
        apply_overrides(cfg, OmegaConf.to_container(merged, resolve=True), excluded)"""
AT_ONCE = "cfg = process_config_with_overrides(cfg, config_filepath=args.config_file, cli_overrides=given or None)"
OVER_FILE = """
    model:
      tensor_model_parallel_size: 4
      pipeline_model_parallel_size: 2
      context_parallel_size: ${model.pipeline_model_parallel_size}
      num_moe_experts: null
    train: {micro_batch_size: 2, global_batch_size: 64}
    ddp: {use_distributed_optimizer: true}
"""
LAUNCH_OVER = "torchrun --nnodes 2 --nproc_per_node 8 train.py --config-file over.yaml {words}\n"


class TestFilesOverRecipes:
    """What a file says that a program lays over a recipe of Megatron-Bridge's."""

    @pytest.mark.parametrize(
        ("kind", "body"),
        [
            ("str", IN_PLACE.format(path="args.config_file")),
            ("Path", IN_PLACE.format(path="str(args.config_file)")),
            ("str", AT_ONCE),
            ("str", AT_ONCE.replace("config_filepath=", "")),
            ("str", "cfg = ConfigContainer.from_yaml(args.config_file)"),
        ],
        ids=["in place", "a path", "at once", "by position", "made of it"],
    )
    def test_it_counts(self, tmp_path: Path, kind: str, body: str) -> None:
        text = OVER.format(kind=kind, body=body)
        found = run(tmp_path, {"train.py": text, "over.yaml": OVER_FILE, "run.sh": LAUNCH_OVER.format(words="")})
        assert shown(found, "parallel.tensor", "parallel.pipeline", "parallel.context") == [4, 2, None]
        assert shown(found, "batch.micro", "batch.global", "sharding.stage") == [2, 64, 1]

    def test_words_stand_over_it_and_statements_behind_it(self, tmp_path: Path) -> None:
        body = f"{AT_ONCE}\n        cfg.model.pipeline_model_parallel_size = 1"
        launch = LAUNCH_OVER.format(words="model.tensor_model_parallel_size=8")
        found = run(
            tmp_path, {"train.py": OVER.format(kind="str", body=body), "over.yaml": OVER_FILE, "run.sh": launch}
        )
        assert shown(found, "parallel.tensor", "parallel.pipeline", "batch.micro") == [8, 1, 2]

    def test_one_that_is_not_here_or_one_of_several_tells_nothing(self, tmp_path: Path) -> None:
        launch = LAUNCH_OVER.format(words="")
        several = IN_PLACE.format(path="args.config_file").replace(
            "if given", 'merged = OmegaConf.merge(merged, OmegaConf.load("over.yaml"))\n        if given'
        )
        for body, files in ((AT_ONCE, {}), (several, {"over.yaml": OVER_FILE})):
            text = OVER.format(kind="str", body=body)
            (tmp_path / "over.yaml").unlink(missing_ok=True)
            found = run(tmp_path, {"train.py": text, "run.sh": launch, **files})
            assert shown(found, "parallel.tensor", "batch.micro") == [None, None]

    def test_a_file_that_is_loaded_for_something_else(self, tmp_path: Path) -> None:
        text = OVER.format(kind="str", body='shown = OmegaConf.load("over.yaml")')
        launch = "torchrun --nnodes 2 --nproc_per_node 8 train.py\n"
        found = run(tmp_path, {"train.py": text, "over.yaml": OVER_FILE, "run.sh": launch})
        assert shown(found, "parallel.tensor", "batch.micro") == [None, None]
