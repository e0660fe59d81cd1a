"""The config.json of the model that a run names tells the model's shape."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from readings import claims

from dtlint.catalog import LatentAttention
from dtlint.frameworks.model_config import read_config
from dtlint.languages.json import read_json
from dtlint.plan import Plan
from dtlint.runs import Options, RunSet, read_runs
from dtlint.source import Source
from dtlint.value import Unknown, Value

LLAMA = {
    "model_type": "llama",
    "hidden_size": 2048,
    "intermediate_size": 5632,
    "num_hidden_layers": 22,
    "num_attention_heads": 32,
    "num_key_value_heads": 4,
    "vocab_size": 32000,
    "tie_word_embeddings": False,
}
"""The shape of TinyLlama 1.1B."""


def shape(config: object) -> dict[str, object]:
    return claims(read_config(read_json(Source("config.json", json.dumps(config)))))


def runs(folder: Path, files: dict[str, str], start: str) -> RunSet:
    (folder / ".git").mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return read_runs([folder / start], Options())


def plan(folder: Path, files: dict[str, str], start: str = "run.sh") -> Plan:
    (run,) = runs(folder, files, start).runs
    return run.plan


class TestShape:
    def test_a_llama(self) -> None:
        assert shape(LLAMA) == {
            "model.layers": 22,
            "model.hidden": 2048,
            "model.ffn": 5632,
            "model.heads": 32,
            "model.kv_heads": 4,
            "model.vocab": 32000,
            "model.tied_embeddings": False,
            "model.architecture": "llama",
            "model.gated_mlp": True,
        }

    def test_gpt2_has_other_keys_and_four_times_the_width(self) -> None:
        found = shape({"model_type": "gpt2", "n_embd": 768, "n_head": 12, "n_inner": None, "n_layer": 12})
        assert (found["model.layers"], found["model.ffn"]) == (12, 3072)
        assert (found["model.gated_mlp"], found["model.tied_embeddings"]) == (False, True)

    def test_experts_of_mixtral_have_the_width_of_the_layer(self) -> None:
        found = shape({"model_type": "mixtral", "num_local_experts": 8, "num_experts_per_tok": 2, **{
            key: value for key, value in LLAMA.items() if key != "model_type"}})  # fmt: skip
        assert (found["model.experts"], found["model.experts_per_token"], found["model.ffn"]) == (8, 2, 5632)
        assert "model.expert_ffn" not in found

    def test_deepseek(self) -> None:
        found = shape(
            {
                "model_type": "deepseek_v3",
                "num_hidden_layers": 61,
                "first_k_dense_replace": 3,
                "n_routed_experts": 256,
                "n_shared_experts": 1,
                "num_experts_per_tok": 8,
                "moe_intermediate_size": 2048,
                "kv_lora_rank": 512,
                "q_lora_rank": 1536,
                "qk_rope_head_dim": 64,
                "qk_nope_head_dim": 128,
                "v_head_dim": 128,
            }
        )
        assert (found["model.moe_layers"], found["model.shared_expert_ffn"]) == (58, 2048)
        assert found["model.latent_attention"] == LatentAttention(1536, 512, 64, 128, 128)

    @pytest.mark.parametrize(
        ("config", "groups"),
        [
            ({"model_type": "falcon", "multi_query": True, "num_attention_heads": 71}, 1),
            ({"model_type": "falcon", "new_decoder_architecture": True, "num_kv_heads": 8, "multi_query": True}, 8),
            ({"model_type": "gpt_bigcode", "n_head": 48}, 1),
            ({"model_type": "chatglm", "multi_query_group_num": 2, "num_attention_heads": 32}, 2),
        ],
    )
    def test_key_value_heads(self, config: dict[str, object], groups: int) -> None:
        assert shape(config)["model.kv_heads"] == groups

    def test_the_language_part_of_a_model_that_sees(self) -> None:
        found = shape(
            {
                "model_type": "gemma3",
                "text_config": {"model_type": "gemma3_text", "hidden_size": 2560, "num_hidden_layers": 34},
                "vision_config": {"hidden_size": 1152, "num_hidden_layers": 27},
            }
        )
        assert (found["model.hidden"], found["model.layers"], found["model.tied_embeddings"]) == (2560, 34, True)

    def test_a_nested_part_holds_only_what_differs_from_its_class(self) -> None:
        found = shape({"model_type": "llava", "text_config": {"model_type": "llama", "vocab_size": 32064}})
        assert (found["model.hidden"], found["model.layers"], found["model.vocab"]) == (4096, 32, 32064)

    @pytest.mark.parametrize(
        ("config", "reason"),
        [
            ({"model_type": "jamba", "num_hidden_layers": 32}, "mixed layers"),
            ({"model_type": "t5", "is_encoder_decoder": True, "num_layers": 12}, "an encoder and a decoder"),
            ([1], "cannot be read"),
        ],
    )
    def test_a_shape_that_does_not_follow_is_unknown(self, config: object, reason: str) -> None:
        found = shape(config)
        assert set(found) == {"model.layers", "model.hidden", "model.parameters"}
        assert all(reason in str(each) for each in found.values())

    def test_of_a_type_that_is_not_known_only_what_is_written_counts(self) -> None:
        found = shape({**LLAMA, "model_type": "my_model"})
        assert found["model.layers"] == 22
        assert "model.gated_mlp" not in found

    @pytest.mark.parametrize("value", [-1, 1e300, "40", True, [40], 10**12])
    def test_what_is_no_count_claims_nothing(self, value: object) -> None:
        assert "model.layers" not in shape({"model_type": "qwen3", "num_hidden_layers": value})


FILES = {"ckpt/tiny/config.json": json.dumps(LLAMA, indent=2)}
TRAINER = "torchrun --nproc_per_node 8 train.py --bf16 True --do_train --output_dir out"


class TestJoining:
    @pytest.mark.parametrize(
        "flags",
        [
            "--model_name_or_path ./ckpt/tiny",
            "--model_name_or_path=ckpt/tiny/",
            "--model-path ckpt/tiny",
            "--model_name_or_path ckpt/tiny/model.safetensors",
            "--model_name_or_path gpt2 --config_name ckpt/tiny",
            "--config_name ckpt/tiny/config.json --model_name_or_path gpt2",
        ],
    )
    def test_trainer(self, tmp_path: Path, flags: str) -> None:
        found = plan(tmp_path, {**FILES, "run.sh": f"{TRAINER} {flags}\n"})
        assert (found.value("model.layers"), found.value("model.kv_heads")) == (22, 4)
        # 22 layers x (attention 2048 x 2048 x 2 + 2048 x 256 x 2, feed-forward 3 x 2048 x 5632, norms 2 x 2048) and
        # two embeddings of 32000 x 2048: TinyLlama's 1.1 billion
        assert found.value("model.parameters") == 22 * (9_437_184 + 34_603_008 + 4096) + 131_072_000

    def test_origin_is_the_literal(self, tmp_path: Path) -> None:
        found = plan(tmp_path, {**FILES, "run.sh": f"{TRAINER} --model_name_or_path ckpt/tiny\n"})
        value = found.get("model.layers")
        assert isinstance(value, Value) and value.origin.span is not None
        assert (value.origin.kind, value.origin.span.text, value.origin.span.line) == ("written", "22", 5)

    def test_the_file_wins_over_the_catalog(self, tmp_path: Path) -> None:
        files = {"Llama-2-7b-hf/config.json": json.dumps(LLAMA)}
        found = plan(tmp_path, {**files, "run.sh": f"{TRAINER} --model_name_or_path ./Llama-2-7b-hf\n"})
        assert found.value("model.name") == "meta-llama/Llama-2-7b-hf"
        assert found.value("model.layers") == 22

    def test_a_flag_wins_over_the_file(self, tmp_path: Path) -> None:
        command = "torchrun --nproc_per_node 8 pretrain_gpt.py --num-layers 4 --hidden-size 2048 --micro-batch-size 1"
        found = plan(tmp_path, {**FILES, "run.sh": f"{command} --model ckpt/tiny\n"})
        assert (found.value("model.layers"), found.value("model.heads")) == (4, 32)

    def test_file_of_arguments(self, tmp_path: Path) -> None:
        text = "model_name_or_path: ckpt/tiny\nbf16: true\nper_device_train_batch_size: 1\nfinetuning_type: full\n"
        assert plan(tmp_path, {**FILES, "sft.yaml": text}, "sft.yaml").value("model.layers") == 22
        run = "llamafactory-cli train sft.yaml\n"
        assert plan(tmp_path, {**FILES, "sft.yaml": text, "run.sh": run}).value("model.layers") == 22

    @pytest.mark.parametrize(
        "line",
        [
            'AutoModelForCausalLM.from_pretrained("ckpt/tiny")',
            'AutoModelForCausalLM.from_config(AutoConfig.from_pretrained("./ckpt/tiny"))',
        ],
    )
    def test_program(self, tmp_path: Path, line: str) -> None:
        program = (
            "import torch.distributed\n"
            "from transformers import AutoConfig, AutoModelForCausalLM, Trainer, TrainingArguments\n"
            f"model = {line}\n"
            "Trainer(model, TrainingArguments('out', bf16=True)).train()\n"
        )
        files = {**FILES, "train.py": program, "run.sh": "torchrun --nproc_per_node 8 train.py\n"}
        assert plan(tmp_path, files).value("model.layers") == 22
        assert plan(tmp_path, files, "train.py").value("model.layers") == 22

    def test_program_with_a_loop_of_its_own(self, tmp_path: Path) -> None:
        program = (
            "import deepspeed\n"
            "from transformers import AutoModelForCausalLM\n"
            'model = AutoModelForCausalLM.from_pretrained("ckpt/tiny")\n'
            "model, optimizer, _, _ = deepspeed.initialize(model=model, config='ds.json')\n"
            "model.backward(loss)\nmodel.step()\n"
        )
        files = {**FILES, "train.py": program, "run.sh": "deepspeed --num_gpus 8 train.py\n"}
        assert plan(tmp_path, files).value("model.layers") == 22

    def test_a_program_that_only_loads_a_model_is_no_run(self, tmp_path: Path) -> None:
        program = 'import deepspeed\nfrom transformers import AutoModel\nmodel = AutoModel.from_pretrained("gpt2")\n'
        assert runs(tmp_path, {"look.py": program}, "look.py").runs == ()

    def test_nothing_outside_the_root_is_read(self, tmp_path: Path) -> None:
        outside, inside = tmp_path / "outside", tmp_path / "inside"
        outside.mkdir()
        inside.mkdir()
        (outside / "config.json").write_text(json.dumps(LLAMA))
        found = plan(inside, {"run.sh": f"{TRAINER} --model_name_or_path {outside}\n"})
        assert found.value("model.layers") is None

    @pytest.mark.parametrize("text", ['{"hidden_size": 2048,', '{"hidden_size": 2048,}', "not json"])
    def test_a_broken_file_is_unknown_and_said(self, tmp_path: Path, text: str) -> None:
        files = {"ckpt/config.json": text, "run.sh": f"{TRAINER} --model_name_or_path ckpt\n"}
        found = runs(tmp_path, files, "run.sh")
        assert [Path(problem.path).name for problem in found.problems] == ["config.json"]
        assert all(problem.fatal for problem in found.problems)
        assert "cannot be read as JSON" in getattr(found.runs[0].plan.get("model.parameters"), "reason", "")


class TestNames:
    """The model by its name on the command line, as the catalog knows it."""

    def named(self, folder: Path, script: str) -> Value | Unknown:
        return plan(folder, {"run.sh": script}).get("model.name")

    def test_size_words_of_variables(self, tmp_path: Path) -> None:
        script = f"MODEL=llama3\nSIZE=70b\n{TRAINER} --model_name_or_path /ckpt/${{MODEL}}_${{SIZE}}\n"
        found = self.named(tmp_path, script)
        assert isinstance(found, Value)
        assert (found.value, found.origin.kind) == ("meta-llama/Meta-Llama-3-70B", "written")

    def test_two_candidates_are_named(self, tmp_path: Path) -> None:
        found = plan(tmp_path, {"run.sh": f"{TRAINER} --model_name_or_path /ckpt/llama-70b-finetuned\n"})
        for setting in ("model.name", "model.parameters"):
            unknown = found.get(setting)
            assert isinstance(unknown, Unknown)
            assert "meta-llama/Llama-2-70b-hf or meta-llama/Meta-Llama-3-70B" in unknown.reason

    def test_a_tokenizer_tells_the_model_where_nothing_else_does(self, tmp_path: Path) -> None:
        found = self.named(tmp_path, f"{TRAINER} --tokenizer_name /data/Qwen2.5-7B\n")
        assert isinstance(found, Value)
        assert (found.value, found.origin.kind) == ("Qwen/Qwen2.5-7B", "assumed")

    @pytest.mark.parametrize(
        "flags", ["--num_layers 12", "--model_name_or_path ./mine", "--config_name mine", "--model_type gpt2"]
    )
    def test_a_borrowed_tokenizer_tells_nothing(self, tmp_path: Path, flags: str) -> None:
        assert isinstance(self.named(tmp_path, f"{TRAINER} --tokenizer_name gpt2 {flags}\n"), Unknown)
