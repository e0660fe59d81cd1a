"""torchtitan's TOML, with what its command line overrides, claims what torchtitan v0.2 does with it."""

from __future__ import annotations

import json

import pytest
from readings import claims, members, settings_of_run

from dtlint.api import check
from dtlint.frameworks.torchtitan import config as torchtitan
from dtlint.languages.shell import command_of
from dtlint.languages.toml import read_toml
from dtlint.report.json import report_json
from dtlint.source import Source


def read(text: str, *options: str) -> dict[str, object]:
    program = command_of(["train.py", *options]).worlds[0].commands[0].argv if options else ()
    return claims(torchtitan.read_config(read_toml(Source("conf.toml", text)), program))


def test_degrees_and_batch():
    assert read(
        """
        [training]
        local_batch_size = 4
        global_batch_size = 64
        seq_len = 8192
        steps = 1000
        max_norm = 0.5
        [parallelism]
        data_parallel_replicate_degree = 2
        data_parallel_shard_degree = 4
        tensor_parallel_degree = 2
        context_parallel_degree = 2
        """
    ) == {
        "batch.micro": 4,
        "batch.global": 64,
        "data.sequence_length": 8192,
        "run.steps": 1000,
        "optimizer.clip": 0.5,
        "parallel.data": 8,
        "sharding.instances": 2,
        "parallel.tensor": 2,
        "parallel.context": 2,
    }


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("data_parallel_shard_degree = -1", {}),
        ("data_parallel_shard_degree = 8", {"parallel.data": 8}),
        ("data_parallel_shard_degree = 1", {"parallel.data": 1, "sharding.stage": 0}),
        (
            "data_parallel_shard_degree = 1\ndata_parallel_replicate_degree = 8",
            {"parallel.data": 8, "sharding.stage": 0},
        ),
        ("data_parallel_replicate_degree = 4", {"sharding.instances": 4}),
        ("fsdp_reshard_after_forward = 'never'", {"sharding.reshard_after_forward": False}),
        ("fsdp_reshard_after_forward = 'always'", {"sharding.reshard_after_forward": True}),
        ("fsdp_reshard_after_forward = 'default'", {}),
    ],
)
def test_data_parallelism(keys, expected):
    assert read(f"[parallelism]\n{keys}\n") == expected


def test_keys_of_earlier_releases():
    text = "[training]\nbatch_size = 2\ntensor_parallel_degree = 4\n[experimental]\ncontext_parallel_degree = 2\n"
    assert read(text) == {"batch.micro": 2, "parallel.tensor": 4, "parallel.context": 2}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("local_batch_size = 16", {"batch.micro": 1, "batch.accumulation": 16}),
        ("", {"batch.micro": 1, "batch.accumulation": 8}),
        ("local_batch_size = 16\nglobal_batch_size = -1", {"batch.micro": 1, "batch.accumulation": 16}),
        (
            "local_batch_size = 16\nglobal_batch_size = 64",
            {"batch.global": 64, "batch.micro": 1, "schedule.microbatches": 16},
        ),
    ],
)
def test_a_pipeline_cuts_the_local_batch_into_single_samples(text, expected):
    found = read(f"[training]\n{text}\n[parallelism]\npipeline_parallel_degree = 4\n")
    assert found == {**expected, "parallel.pipeline": 4}


def test_the_size_of_a_pipelines_micro_batch():
    text = "[training]\nlocal_batch_size = 16\n[parallelism]\npipeline_parallel_degree = 4\npipeline_parallel_microbatch_size = 2\n"
    assert read(text) == {"batch.micro": 2, "batch.accumulation": 8, "parallel.pipeline": 4}


def test_earlier_releases_cut_the_local_batch_into_as_many_parts_as_stages():
    text = "[training]\nbatch_size = 16\n[experimental]\npipeline_parallel_degree = 4\n"
    assert read(text) == {"batch.micro": 4, "batch.accumulation": 4, "parallel.pipeline": 4}
    assert read(f"{text}pipeline_parallel_microbatches = 8\n") == {
        "batch.micro": 2,
        "batch.accumulation": 8,
        "parallel.pipeline": 4,
    }


def test_forks_that_accumulate_by_a_key_of_their_own():
    found = read("[training]\nbatch_size = 2\n", "--training.gradient_accumulation_steps", "4")
    assert found == {"batch.micro": 2, "batch.accumulation": 4}


def test_offload_moves_parameters_and_optimizer():
    found = read("[training]\nenable_cpu_offload = true\n")
    assert found == {"sharding.offload_optimizer": "cpu", "sharding.offload_parameters": "cpu"}


class TestMisspeltKeys:
    def found(self, text):
        reading = torchtitan.read_config(read_toml(Source("conf.toml", text)))
        return members(reading, "config.unknown", "key", "suggestion")

    def test_a_key_that_resembles_a_known_one(self):
        assert self.found("[parallelism]\ntensor_paralel_degree = 2\n") == [
            ("tensor_paralel_degree", "tensor_parallel_degree")
        ]

    def test_another_front_ends_name_for_a_key(self):
        assert self.found("[parallelism]\ntensor_parallel_size = 2\nour_parallel_size = 2\n") == [
            ("tensor_parallel_size", "tensor_parallel_degree")
        ]

    def test_a_key_of_a_fork_is_left_alone(self):
        assert self.found("[parallelism]\nhybrid_degree = 2\n[mine]\nx = 1\n") == []

    def test_a_module_may_add_keys(self):
        assert self.found("[job]\ncustom_config_module = 'a'\n[parallelism]\ntensor_paralel_degree = 2\n") == []


@pytest.mark.parametrize(
    ("schedule", "expected"),
    [
        ("1F1B", {"schedule.kind": "1f1b"}),
        ("GPipe", {"schedule.kind": "gpipe"}),
        ("Interleaved1F1B", {"schedule.kind": "interleaved", "parallel.virtual_pipeline": 2}),
        ("ZBVZeroBubble", {"schedule.kind": "zbv", "parallel.virtual_pipeline": 2}),
        ("DualPipeV", {"schedule.kind": "dualpipe", "parallel.virtual_pipeline": 2}),
    ],
)
def test_schedules(schedule, expected):
    text = f"[parallelism]\npipeline_parallel_degree = 4\npipeline_parallel_schedule = '{schedule}'\n"
    found = read(text)
    assert {name: found[name] for name in expected} == expected


def test_a_schedule_without_a_pipeline_says_nothing():
    assert read("[parallelism]\npipeline_parallel_schedule = 'Interleaved1F1B'\npipeline_parallel_degree = 1\n") == {
        "parallel.pipeline": 1
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[training]\nmixed_precision_param = 'bfloat16'", {"precision.compute": "bf16"}),
        ("[model]\nconverters = ['float8']", {"precision.compute": "fp8"}),
        (
            "[model]\nconverters = ['float8']\n[quantize.linear.float8]\nrecipe_name = 'rowwise'",
            {"precision.compute": "fp8-rowwise"},
        ),
        ("[float8]\nenable_float8_linear = true", {"precision.compute": "fp8"}),
        ("[model]\nconverters = ['mx']", {"precision.compute": "mxfp8"}),
        ("[model]\nconverters = ['quantize.grouped_mm.float8']", {}),
        (
            "[training]\ndtype = 'bfloat16'",
            {"precision.master": "bf16", "precision.gradients": "bf16", "optimizer.state_dtype": "bf16"},
        ),
    ],
)
def test_precision(text, expected):
    assert read(text) == expected


def test_asynchronous_tensor_parallelism_needs_a_compiled_model():
    keys = "[parallelism]\nenable_async_tensor_parallel = true\n"
    assert read(keys) == {"overlap.tensor": False}
    assert read(f"{keys}[compile]\nenable = true\n") == {"overlap.tensor": True}


@pytest.mark.parametrize(
    ("name", "flavor", "expected"),
    [
        ("llama3", "8B", {"model.name": "meta-llama/Meta-Llama-3-8B", "model.plain_loss": True}),
        ("deepseek_v3", "671B", {"model.name": "deepseek-ai/DeepSeek-V3", "model.plain_loss": True}),
        ("llama3", "debugmodel", {}),
        ("mymodel", "8B", {}),
    ],
)
def test_flavors(name, flavor, expected):
    assert read(f"[model]\nname = '{name}'\nflavor = '{flavor}'\n") == expected


@pytest.mark.parametrize(
    ("keys", "options", "plain"),
    [
        ("", (), True),
        ("[compile]\nenable = false\n", (), True),
        ("[compile]\nenable = true\n", (), None),
        ("[training]\ncompile = true\n", (), None),
        ("", ("--compile.enable",), None),
        ("[parallelism]\ntensor_parallel_degree = 2\n", (), None),
        ("[experimental]\ncustom_import = 'mine'\n", (), None),
    ],
)
def test_the_loss_goes_over_whole_logits_unless_it_is_compiled(keys, options, plain):
    assert read(f"[model]\nname = 'llama3'\nflavor = '8B'\n{keys}", *options).get("model.plain_loss") is plain


def test_the_command_line_counts_more_than_the_file():
    text = "[training]\nlocal_batch_size = 4\n[parallelism]\ntensor_parallel_degree = 2\n"
    found = read(text, "--parallelism.tensor_parallel_degree=8", "--training.local-batch-size", "1", "--compile.enable")
    assert found == {"parallel.tensor": 8, "batch.micro": 1}


def test_switches_of_the_command_line():
    text = "[parallelism]\nenable_async_tensor_parallel = true\n"
    assert read(text, "--compile.enable", "--training.steps=5") == {"overlap.tensor": True, "run.steps": 5}
    assert read(text, "--parallelism.no-enable-async-tensor-parallel") == {"overlap.tensor": False}


def test_a_launch_joins_its_config(tmp_path):
    found = settings_of_run(
        tmp_path,
        conf__toml="[training]\nlocal_batch_size = 2\n[parallelism]\ntensor_parallel_degree = 2\n",
        run__sh="torchrun --nproc_per_node=8 -m torchtitan.train --job.config_file ./conf.toml --training.seq_len=4096\n",
    )
    assert [found[name] for name in ("framework", "parallel.data", "batch.global", "data.sequence_length")] == [
        "torchtitan",
        4,
        8,
        4096,
    ]


def test_the_script_of_the_repository_takes_its_config_from_a_variable(tmp_path):
    found = settings_of_run(
        tmp_path,
        conf__toml="[parallelism]\ntensor_parallel_degree = 4\n",
        run_train__sh=(
            "NGPU=${NGPU:-8}\nCONFIG_FILE=${CONFIG_FILE:-./conf.toml}\n"
            'torchrun --nproc_per_node=${NGPU} -m torchtitan.train --job.config_file ${CONFIG_FILE} "$@"\n'
        ),
    )
    assert (found["parallel.tensor"], found["parallel.data"], found["sharding.stage"]) == (4, 2, 3)


def test_a_config_that_is_not_there_hides_settings(tmp_path):
    found = settings_of_run(
        tmp_path,
        run__sh="torchrun --nproc_per_node=8 -m torchtitan.train --job.config_file gone.toml --parallelism.tensor_parallel_degree=4\n",
    )
    assert (found["framework"], found["parallel.tensor"], found["batch.micro"]) == ("torchtitan", 4, None)


def test_nothing_is_taken_for_granted_of_a_config_that_is_not_there(tmp_path):
    found = settings_of_run(
        tmp_path, run__sh="torchrun --nproc_per_node=8 -m torchtitan.train --job.config_file $CONFIG\n"
    )
    assert (found["parallel.tensor"], found["parallel.data"], found["sharding.stage"]) == (None, None, None)


def test_a_config_beside_the_only_launch_is_its_config(tmp_path):
    found = settings_of_run(
        tmp_path,
        conf__toml="[training]\nlocal_batch_size = 2\n[parallelism]\ntensor_parallel_degree = 2\n",
        run__sh="torchrun --nproc_per_node=8 -m torchtitan.train --job.config_file $CONFIG --training.local_batch_size=4\n",
    )
    assert (found["parallel.tensor"], found["parallel.data"], found["batch.micro"]) == (2, 4, 4)


@pytest.mark.parametrize("start", ["./run_train.sh", "bash run_train.sh"])
def test_the_script_of_the_repository_starts_eight_processes(tmp_path, start):
    found = settings_of_run(
        tmp_path,
        conf__toml="[parallelism]\ntensor_parallel_degree = 2\n",
        go__sh=f"CONFIG_FILE=./conf.toml {start} --parallelism.tensor_parallel_degree=4\n",
    )
    assert (found["launch.processes"], found["parallel.tensor"], found["parallel.data"]) == (8, 4, 2)


def test_the_script_of_the_repository_starts_as_many_as_it_is_told(tmp_path):
    found = settings_of_run(
        tmp_path,
        conf__toml="[parallelism]\ntensor_parallel_degree = 2\n",
        go__sh="export NGPU=4\nCONFIG_FILE=./conf.toml ./run_train.sh\n",
    )
    assert (found["launch.processes"], found["parallel.data"]) == (4, 2)


def test_a_config_in_code_is_not_read(tmp_path):
    found = settings_of_run(
        tmp_path,
        run__sh="torchrun --nproc_per_node=8 -m torchtitan.train --module llama3 --config llama3_8b --parallelism.tensor_parallel_degree 4\n",
    )
    assert (found["framework"], found["parallel.tensor"], found["parallel.pipeline"]) == ("torchtitan", 4, None)


def test_a_config_that_a_script_writes(tmp_path):
    found = settings_of_run(
        tmp_path,
        run__sh=(
            "TP=4\ncat > conf.toml <<EOF\n[parallelism]\ntensor_parallel_degree = $TP\nEOF\n"
            "torchrun --nproc_per_node=8 -m torchtitan.train --job.config_file conf.toml\n"
        ),
    )
    assert (found["parallel.tensor"], found["parallel.data"]) == (4, 2)


def test_a_config_by_itself_is_a_run(tmp_path):
    found = settings_of_run(
        tmp_path, conf__toml="[parallelism]\ndata_parallel_shard_degree = 4\ntensor_parallel_degree = 2\n"
    )
    assert (found["framework"], found["parallel.world_size"]) == ("torchtitan", 8)


def test_other_toml_is_nothing(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[tool.x]\ntensor_parallel_degree = 2\n", encoding="utf-8")
    assert json.loads(report_json(check([tmp_path / "pyproject.toml"])))["runs"] == []


def spelled(text: str, setting: str, value: object, *options: str) -> str | None:
    program = command_of(["train.py", *options]).worlds[0].commands[0].argv if options else ()
    return torchtitan.spell_in(torchtitan.read_config(read_toml(Source("c.toml", text)), program), setting, value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("setting", "value", "expected"),
    [
        ("parallel.tensor", 8, "parallelism.tensor_parallel_degree = 8"),
        ("batch.micro", 2, "training.local_batch_size = 2"),
        ("batch.global", 64, "training.global_batch_size = 64"),
        ("checkpointing.activations", "full", 'activation_checkpoint.mode = "full"'),
        ("sharding.offload_optimizer", "cpu", "training.enable_cpu_offload = true"),
        ("optimizer.clip", 0.5, "training.max_norm = 0.5"),
        ("model.layers", 2, None),
    ],
)
def test_spelling(setting, value, expected):
    assert spelled("[training]\nlocal_batch_size = 4\n", setting, value) == expected


def test_spelling_in_a_pipeline():
    text = "[training]\nlocal_batch_size = 8\n[parallelism]\npipeline_parallel_degree = 4\n"
    assert spelled(text, "batch.micro", 2) == "parallelism.pipeline_parallel_microbatch_size = 2"
    assert spelled(text, "batch.accumulation", 16) == "training.local_batch_size = 16"
    assert spelled(text, "batch.global", 64) == "training.local_batch_size x DP = 64"


def test_spelling_of_what_another_key_decides():
    assert spelled("[model]\nconverters = ['float8']\n", "precision.compute", "bf16") == (
        'training.mixed_precision_param = "bfloat16"'
    )


def test_spelling_on_the_command_line():
    found = spelled("", "parallel.tensor", 4, "--parallelism.tensor_parallel_degree", "8")
    assert found == "--parallelism.tensor_parallel_degree=4"
