"""What Axolotl and LLaMA-Factory refuse in their files before a model is loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtlint.api import check

AXOLOTL = """base_model: meta-llama/Llama-3.1-8B
datasets: [{path: x, type: alpaca}]
sequence_len: 2048
num_epochs: 1
bf16: auto
"""
FACTORY = """model_name_or_path: meta-llama/Llama-3.1-8B
stage: sft
do_train: true
dataset: x
template: llama3
output_dir: out
per_device_train_batch_size: 2
"""


def refused(folder: Path, text: str, launch: str, *beside: str) -> list[str]:
    (folder / "config.yaml").write_text(text + "".join(f"{line}\n" for line in beside))
    (folder / "run.sh").write_text(f"{launch}\n")
    if "deepspeed: ds.json" in beside:
        config = '{"train_micro_batch_size_per_gpu": "auto", "zero_optimization": {"stage": 3}}'
        (folder / "ds.json").write_text(config)
    return [found.rule for found in check([folder]).findings if found.outcome == "launch-fails"]


class TestAxolotl:
    @pytest.mark.parametrize(
        ("lines", "rule"),
        [
            (("batch_size: 8", "gradient_accumulation_steps: 2"), "refused-combination"),
            (("batch_size: 8",), "refused-combination"),
            (("deepspeed: ds.json", "fsdp: [full_shard]"), "refused-combination"),
            (("load_in_8bit: true",), "refused-combination"),
            (("adapter: qlora", "lora_r: 8"), "refused-combination"),
            (("adapter: qlora", "lora_r: 8", "load_in_4bit: true", "load_in_8bit: true"), "refused-combination"),
            (("context_parallel_size: 2", "sdp_attention: true"), "refused-combination"),
            (("micro_batch_size: two",), "setting-type"),
            (("gradient_checkpointing: selective",), "setting-type"),
            (("adapter: lorra", "lora_r: 8"), "setting-type"),
            (("fsdp_version: 2", "fsdp_config: {auto_wrap_policy: TRANSFORMER}"), "setting-type"),
        ],
    )
    def test_refused(self, tmp_path: Path, lines: tuple[str, ...], rule: str) -> None:
        assert refused(tmp_path, AXOLOTL, "axolotl train config.yaml", *lines) == [rule]

    @pytest.mark.parametrize(
        "lines",
        [
            ("batch_size: 8", "micro_batch_size: 2"),
            ("deepspeed:", "fsdp: [full_shard, auto_wrap]"),
            ("deepspeed: ${DEEPSPEED}", "fsdp: ${FSDP}"),
            ("batch_size: ${BATCH_SIZE}", "gradient_accumulation_steps: ${STEPS}"),
            ("adapter: qlora", "lora_r: 8", "load_in_4bit: true"),
            ("adapter: mine", "lora_r: 8", "plugins: [mine.Plugin]"),
            ("context_parallel_size: 2", "attn_implementation: kernels-community/flash-attn3"),
            ('micro_batch_size: "2"', "bf16: true", "fp16: true"),
            ("tensor_parallel_size: 2", "optimizer: adamw_bnb_8bit"),
            ("micro_batchsize: 2",),
        ],
    )
    def test_accepted(self, tmp_path: Path, lines: tuple[str, ...]) -> None:
        assert refused(tmp_path, AXOLOTL, "axolotl train config.yaml", *lines) == []


class TestLlamaFactory:
    @pytest.mark.parametrize(
        ("lines", "rule"),
        [
            (("finetuning_type: qlora",), "setting-type"),
            (("finetuning_type: full", "quantization_bit: 4"), "refused-combination"),
            (("finetuning_type: freeze", "use_dora: true"), "refused-combination"),
            (("finetuning_type: lora", "use_galore: true"), "refused-combination"),
            (("finetuning_type: full", "use_galore: true", "deepspeed: ds.json"), "refused-combination"),
            (("finetuning_type: full", "pure_bf16: true", "deepspeed: ds.json"), "setting-type"),
            (("finetuning_type: full", "streaming: true"), "refused-combination"),
            (("finetuning_type: lora", "lora_rnk: 8"), "unknown-setting"),
        ],
    )
    def test_refused(self, tmp_path: Path, lines: tuple[str, ...], rule: str) -> None:
        assert refused(tmp_path, FACTORY, "FORCE_TORCHRUN=1 llamafactory-cli train config.yaml", *lines) == [rule]

    @pytest.mark.parametrize(
        "lines",
        [
            ("finetuning_type: oft", "quantization_bit: 4"),
            ("finetuning_type: lora", "use_dora: true", "use_rslora: true"),
            ("finetuning_type: full", "pure_bf16: true"),
            ("finetuning_type: full", "streaming: true", "max_steps: 100"),
            ("finetuning_type: lora", "my_own_argument: 8"),
        ],
    )
    def test_accepted(self, tmp_path: Path, lines: tuple[str, ...]) -> None:
        assert refused(tmp_path, FACTORY, "FORCE_TORCHRUN=1 llamafactory-cli train config.yaml", *lines) == []

    def test_values_of_another_kind_on_a_command_line_alone(self, tmp_path: Path) -> None:
        words = (
            "torchrun --nproc_per_node 8 src/train.py --stage sft --do_train --finetuning_type lora --template llama3"
        )
        assert refused(tmp_path, "", f"{words} --output_dir out --lora_rank two") == ["setting-type"]


class TestACopyOfLlamaFactory:
    """What dataclasses in the tree declare, the copy of the front end takes."""

    CLASSES = (
        "from dataclasses import dataclass, field\nfrom typing import Literal\n\n\n@dataclass\nclass TuningArguments:\n"
        "    use_qlora: bool = field(default=False)\n"
        "    finetuning_type: Literal['lora', 'full', 'ladder'] = field(default='lora')\n"
    )

    @pytest.mark.parametrize(
        ("lines", "rules"),
        [
            (("finetuning_type: lora", "use_qlora: true"), []),
            (("finetuning_type: lora", "use_rslorra: true"), ["unknown-setting"]),
            (("finetuning_type: ladder",), []),
            (("finetuning_type: lorra",), ["setting-type"]),
        ],
    )
    def test_takes_fields_of_its_own(self, tmp_path: Path, lines: tuple[str, ...], rules: list[str]) -> None:
        (tmp_path / "hparams.py").write_text(self.CLASSES)
        assert refused(tmp_path, FACTORY, "llamafactory-cli train config.yaml", *lines) == rules

    @pytest.mark.parametrize(("word", "rules"), [("bridge", []), ("brigde", ["setting-type"])])
    def test_takes_a_word_that_it_asks_for_itself(self, tmp_path: Path, word: str, rules: list[str]) -> None:
        """A file of arguments is held against no Literal, but against what the copy asserts."""
        check = "    def __post_init__(self):\n        assert self.finetuning_type in ['lora', 'full', 'bridge']\n"
        (tmp_path / "hparams.py").write_text(self.CLASSES + check)
        assert refused(tmp_path, FACTORY, "llamafactory-cli train config.yaml", f"finetuning_type: {word}") == rules

    def test_and_a_release_does_not(self, tmp_path: Path) -> None:
        lines = ("finetuning_type: lora", "use_qlora: true")
        assert refused(tmp_path, FACTORY, "llamafactory-cli train config.yaml", *lines) == ["unknown-setting"]


class TestAForkOfLlamaFactory:
    """The program is not here, and a README asks for somebody else's copy."""

    LAUNCH = (
        "deepspeed --num_gpus 8 src/train.py --stage dpo --do_train --finetuning_type full --template qwen"
        " --dataset pairs --pref_loss own_pairs --output_dir out --model_name_or_path a/b\n"
    )

    @pytest.mark.parametrize(
        ("readme", "severity"),
        [
            ("Install https://github.com/someone/their-LLaMA-Factory first.\n", "note"),
            ("Install [it](https://github.com/hiyouga/LLaMA-Factory) first.\n", "error"),
            ("Not https://github.com/someone/LLaMA-Factory but https://github.com/hiyouga/LLaMA-Factory.\n", "error"),
            ("Install it first.\n", "error"),
        ],
    )
    def test_may_have_words_of_its_own(self, tmp_path: Path, readme: str, severity: str) -> None:
        (tmp_path / ".git").mkdir()
        (tmp_path / "README.md").write_text(readme)
        (tmp_path / "run.sh").write_text(self.LAUNCH)
        found = {each.rule: each.severity for each in check([tmp_path / "run.sh"]).findings}
        assert found["setting-type"] == severity


@pytest.mark.parametrize(("key", "rules"), [("num_heads: 12", []), ("hidden_sizes: 8", ["unknown-setting"])])
def test_a_fork_of_gpt_neox_takes_the_fields_of_its_own_classes(tmp_path: Path, key: str, rules: list[str]) -> None:
    (tmp_path / "arguments.py").write_text(
        "from dataclasses import dataclass\n\n\n@dataclass\nclass ConvolutionArgs:\n    num_heads: int = 4\n"
    )
    config = tmp_path / "small.yml"
    config.write_text(
        "pipe_parallel_size: 1\nmodel_parallel_size: 1\nnum_layers: 12\nhidden_size: 768\nnum_attention_heads: 12\n"
        f"seq_length: 2048\nmax_position_embeddings: 2048\ntrain_micro_batch_size_per_gpu: 4\n{key}\n"
    )
    found = check([config]).findings
    assert [each.rule for each in found if each.rule == "unknown-setting"] == rules
