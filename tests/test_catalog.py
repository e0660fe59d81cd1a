"""The catalog answers for GPUs, instances, models and defaults under the names that people write."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
import yaml

from dtlint import compiled
from dtlint.catalog import (
    Default,
    LatentAttention,
    deepspeed_keys,
    defaults,
    display_name,
    gpu,
    in_time,
    instance,
    model,
    models_of_size,
)
from dtlint.catalog.frameworks import _names, _table
from dtlint.catalog.hardware import DATA

PLAN = Path(compiled.__file__).parent / "plan" / "vocabulary.yaml"


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("H100", "H100-SXM-80GB"),
        ("h100-80gb", "H100-SXM-80GB"),
        ("NVIDIA H100 80GB HBM3", "H100-SXM-80GB"),
        ("NVIDIA H100 PCIe", "H100-PCIe-80GB"),
        ("a100", "A100-SXM-40GB"),
        ("a100-40gb", "A100-SXM-40GB"),
        ("A100_80GB", "A100-SXM-80GB"),
        ("NVIDIA A100-SXM4-80GB", "A100-SXM-80GB"),
        ("NVIDIA A100 80GB PCIe", "A100-PCIe-80GB"),
        ("NVIDIA A100-PCIE-40GB", "A100-PCIe-40GB"),
        ("a800-80gb", "A800-SXM-80GB"),
        ("A6000-48GB", "A6000-48GB"),
        ("NVIDIA RTX A6000", "A6000-48GB"),
        ("v100-32g", "V100-SXM-32GB"),
        ("Tesla V100-SXM2-32GB", "V100-SXM-32GB"),
        ("gpu:a100", "A100-SXM-40GB"),
        ("gpu:h100:8", "H100-SXM-80GB"),
        ("A100-80GB:8", "A100-SXM-80GB"),
        ("nvidia-h100-mega-80gb", "H100-SXM-80GB"),
        ("NVIDIA GH200 480GB", "GH200-96GB"),
        ("NVIDIA GeForce RTX 4090", "RTX4090-24GB"),
        ("AMD Instinct MI300X", "MI300X-192GB"),
        ("T4", "T4-16GB"),
    ],
)
def test_gpu_is_found_by_the_name_that_people_and_tools_use(written: str, name: str) -> None:
    found = gpu(written)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize("written", ["", "gpu", "80gb", "sxm", "gpu:8", "a100-96gb", "h100-pcie-94gb", "x100"])
def test_gpu_that_the_catalog_does_not_have_is_not_guessed(written: str) -> None:
    assert gpu(written) is None


def test_gpu_memory_is_what_a_process_can_have() -> None:
    found = {name: gpu(name) for name in ("A100-80GB", "A100-40GB", "H100", "A6000")}
    assert {name: entry and round(entry.memory_gib) for name, entry in found.items()} == {
        "A100-80GB": 79,
        "A100-40GB": 40,
        "H100": 79,
        "A6000": 48,
    }


def test_every_gpu_says_its_memory_and_source() -> None:
    with (DATA / "gpus.csv").open(encoding="utf-8", newline="") as lines:
        names = [row["name"] for row in csv.DictReader(lines)]
    found = [gpu(name) for name in names]
    assert [entry.name for entry in found if entry] == names
    assert all(
        entry and 0.9 * entry.memory_gb < entry.memory_gib <= entry.memory_gb and entry.source for entry in found
    )


def test_bandwidth_is_one_direction_of_one_gpu() -> None:
    found = gpu("H100")
    assert found is not None
    assert (found.intranode_gb_per_s, found.nvlink_domain, found.gpus_per_node) == (450, 8, 8)


@pytest.mark.parametrize(
    ("written", "gpu_name", "gpus", "network"),
    [
        ("p4d.24xlarge", "A100-SXM-40GB", 8, 400),
        ("P5.48XLARGE", "H100-SXM-80GB", 8, 3200),
        ("Standard_ND96isr_H100_v5", "H100-SXM-80GB", 8, 3200),
        ("BM.GPU.GB200.4", "GB200-NVL72", 4, 1600),
    ],
)
def test_instance_tells_its_gpus_and_network(written: str, gpu_name: str, gpus: int, network: float) -> None:
    found = instance(written)
    assert found is not None
    assert (found.gpu, found.gpus, found.network_gbit_per_s) == (gpu_name, gpus, network)


def test_unknown_instance_is_none() -> None:
    assert instance("p99.metal") is None


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("meta-llama/Llama-2-7b-hf", "meta-llama/Llama-2-7b-hf"),
        ("/data/models/Llama-2-7b-hf/", "meta-llama/Llama-2-7b-hf"),
        ("models--meta-llama--Llama-2-7b-hf/snapshots/01c7f73", "meta-llama/Llama-2-7b-hf"),
        ("/models/Qwen_Qwen2.5-7B-Instruct-1M", "Qwen/Qwen2.5-7B"),
        ("meta-llama--Llama-2-7b-hf", "meta-llama/Llama-2-7b-hf"),
        ("/models/mistralai__Mistral-7B-v0.1/", "mistralai/Mistral-7B-v0.1"),
        ("vicuna-7b-v1.5", "meta-llama/Llama-2-7b-hf"),
        ("llama-7b", "huggyllama/llama-7b"),
        ("Baichuan2-13B-Chat", "baichuan-inc/Baichuan2-13B-Base"),
        ("Qwen2-72B", "Qwen/Qwen2-72B"),
        ("Qwen2.5-72B-Instruct-AWQ", "Qwen/Qwen2.5-72B"),
        ("R1-Distill-Qwen-1.5B", "deepseek-ai/DeepSeek-R1-Distill-Qwen-1.5B"),
        ("falcon-40b", "tiiuae/falcon-40b"),
        ("unsloth/llama-3-8b-bnb-4bit", "meta-llama/Meta-Llama-3-8B"),
        ("opt-1.3b", "facebook/opt-1.3b"),
        ("opt_1_3b", "facebook/opt-1.3b"),
        ("opt-13b", "facebook/opt-13b"),
        ("/ckpt/llama3_70b", "meta-llama/Meta-Llama-3-70B"),
        ("/ckpt/llama-2/70b/", "meta-llama/Llama-2-70b-hf"),
        ("/data/llama/7B-hf", "huggyllama/llama-7b"),
        ("/data/DeepSeek-V3", "deepseek-ai/DeepSeek-V3"),
        ("llama-v2-7b", "meta-llama/Llama-2-7b-hf"),
        ("out/Llama-2-7b-hf-finetuned", "meta-llama/Llama-2-7b-hf"),
        ("unsloth/Qwen3-14B-unsloth-bnb-4bit", "Qwen/Qwen3-14B"),
        ("openchat/openchat-3.5-0106", "mistralai/Mistral-7B-v0.1"),
        ("upstage/SOLAR-10.7B-Instruct-v1.0", "upstage/SOLAR-10.7B-v1.0"),
    ],
)
def test_model_is_found_by_name_or_path(written: str, name: str) -> None:
    found = model(written)
    assert found is not None
    assert found.name == name


@pytest.mark.parametrize(
    "written", ["", "/", "llama", "my-llama-7b-clone", "llama-7b/checkpoint-500", "7b", "-hf", "my_qwen2.5-7b"]
)
def test_model_is_never_guessed_from_a_likeness(written: str) -> None:
    assert model(written) is None


@pytest.mark.parametrize(
    ("written", "names"),
    [
        ("llama-70b", ["meta-llama/Llama-2-70b-hf", "meta-llama/Meta-Llama-3-70B"]),
        ("/ckpt/llama_70b-finetuned", ["meta-llama/Llama-2-70b-hf", "meta-llama/Meta-Llama-3-70B"]),
        ("gemma-27b", ["google/gemma-2-27b", "google/gemma-3-27b-pt"]),
        ("llama-8b", ["meta-llama/Meta-Llama-3-8B"]),
        ("llama-2-70b", []),
        ("llama-7b", []),
        ("my-llama-70b", []),
        ("llama-71b", []),
        ("qwen-8b", ["Qwen/Qwen3-8B"]),
    ],
)
def test_what_a_family_with_a_size_may_mean(written: str, names: list[str]) -> None:
    assert [found.name for found in models_of_size(written)] == names


def test_other_names_are_of_models_that_the_catalog_has() -> None:
    from dtlint.catalog.build import _rows

    names = {row["name"] for row in _rows(DATA / "models.csv")}
    aliases = _rows(DATA / "model_aliases.csv")
    assert {row["model"] for row in aliases} <= names
    assert all(model(row["alias"]) is not None and row["source"] for row in aliases)


def test_dense_model_has_no_experts() -> None:
    found = model("llama-2-70b")
    assert found is not None
    assert (found.layers, found.hidden, found.heads, found.kv_heads, found.head_dim) == (80, 8192, 64, 8, 128)
    assert (found.experts, found.moe_layers, found.latent_attention) == (0, 0, None)
    assert found.active_parameters == found.parameters == pytest.approx(68.98e9, rel=1e-3)


def test_mixture_of_experts_with_latent_attention() -> None:
    found = model("deepseek-v3")
    assert found is not None
    assert (found.experts, found.experts_per_token, found.expert_ffn, found.shared_expert_ffn) == (256, 8, 2048, 2048)
    assert (found.layers, found.moe_layers) == (61, 58)
    assert found.latent_attention == LatentAttention(query=1536, key_value=512, rope=64, nope=128, value=128)
    assert (found.parameters, found.active_parameters) == (pytest.approx(671.03e9, rel=1e-4), pytest.approx(37e9))


def test_rounded_size_in_a_name_is_not_taken_for_the_parameter_count() -> None:
    found = model("gpt3-1.3B")
    assert found is not None
    assert found.parameters == pytest.approx(1.3109e9)


def test_no_alias_names_two_models() -> None:
    from dtlint.catalog.build import _names, _rows

    owners: dict[str, str] = {}
    for row in _rows(DATA / "models.csv"):
        for alias in _names(row):
            assert owners.setdefault(alias, row["name"]) == row["name"]


def test_default_that_depends_on_another_setting() -> None:
    found = defaults("deepspeed", "overlap.gradients")
    assert [(each.value, each.when) for each in found] == [
        (True, {"sharding.stage": (3,)}),
        (False, {"sharding.stage": (0, 1, 2)}),
    ]
    assert found[0].tool == "DeepSpeed"


@pytest.mark.parametrize(
    ("version", "clip"), [("0.19.2", 0.0), ("0.19.3", 1.0), ("v0.20", 1.0), ("0.19.3+cu126", 1.0), ("0.9.0", 0.0)]
)
def test_default_that_changed_with_a_version(version: str, clip: float) -> None:
    found = [each.value for each in defaults("deepspeed", "optimizer.clip") if in_time(each, version)]
    assert found == [clip]


@pytest.mark.parametrize(("versions", "clips"), [(">=0.9,<0.12", [0.0]), (">=0.19.3", [1.0]), (">=0.9", [1.0, 0.0])])
def test_defaults_of_a_range_of_versions(versions: str, clips: list[float]) -> None:
    assert [each.value for each in defaults("deepspeed", "optimizer.clip") if in_time(each, versions)] == clips


def test_front_end_takes_over_the_defaults_of_another() -> None:
    assert [each.value for each in defaults("llama-factory", "batch.micro")] == [8]
    assert [each.value for each in defaults("axolotl", "batch.micro")] == [1]


def test_what_has_no_default_has_none() -> None:
    assert defaults("deepspeed", "batch.micro") == ()
    assert defaults("nothing", "batch.micro") == ()


def test_display_name_is_the_name_for_people() -> None:
    assert (display_name("megatron"), display_name("unheard-of")) == ("Megatron-LM", "unheard-of")


def test_defaults_name_settings_and_values_of_the_vocabulary() -> None:
    vocabulary = yaml.safe_load(PLAN.read_text(encoding="utf-8"))
    tables = map(_table, _names())
    entries = [(name, each) for table in tables for name, found in table.items() for each in found]
    for name, each in entries:
        assert name in vocabulary
        assert each.value in vocabulary[name].get("values", [each.value])
        assert set(each.when) <= set(vocabulary)
        assert isinstance(each, Default)
        assert each.source


def test_deepspeed_keys_have_unique_names_that_their_sections_list() -> None:
    keys = deepspeed_keys()
    paths = [f"{key.section}.{key.name}".lstrip(".") for key in keys]
    assert len(paths) == len(set(paths))
    sections = {path for path, key in zip(paths, keys, strict=True) if "section" in key.type.split()}
    assert {key.section for key in keys} - {""} <= sections
    assert all(key.default == "" or json.loads(key.default) is not ... for key in keys)


class TestCompiled:
    """Data that is parsed once."""

    def _load(self, source: Path, calls: list[int]) -> object:
        def build() -> object:
            calls.append(1)
            return source.read_text(encoding="utf-8").split()

        return compiled.load("words", [source], build)

    def test_second_load_comes_from_the_cache(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        source, calls = tmp_path / "data.txt", list[int]()
        source.write_text("a b")
        assert self._load(source, calls) == self._load(source, calls) == ["a", "b"]
        assert len(calls) == 1

    def test_changed_data_is_built_anew(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        source, calls = tmp_path / "data.txt", list[int]()
        source.write_text("a b")
        self._load(source, calls)
        source.write_text("a b c")
        assert self._load(source, calls) == ["a", "b", "c"]

    def test_broken_cache_is_built_anew(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
        source, calls = tmp_path / "data.txt", list[int]()
        source.write_text("a b")
        self._load(source, calls)
        (cache,) = (tmp_path / "cache" / "dtlint").iterdir()
        stamp = cache.read_text().partition("\n")[0]
        for broken in (b"\xff\xfe", b"", stamp.encode() + b'\n["a", '):
            cache.write_bytes(broken)
            assert self._load(source, calls) == ["a", "b"]

    @pytest.mark.parametrize("folder", ["relative/folder", "/proc/nowhere"])
    def test_without_a_usable_folder_data_is_built_each_time(
        self, folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("XDG_CACHE_HOME", folder)
        monkeypatch.setenv("HOME", "/proc/nowhere")
        source, calls = tmp_path / "data.txt", list[int]()
        source.write_text("a b")
        assert self._load(source, calls) == self._load(source, calls) == ["a", "b"]
        assert len(calls) == 2

    def test_every_table_that_a_wheel_carries_is_plain_json(self) -> None:
        for name in compiled.BUILDERS:
            assert json.dumps(compiled.compiled(name), allow_nan=False)
