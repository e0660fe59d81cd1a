"""What torchrun and the modules behind it start."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_words import claims, fields, texts, words
from hypothesis import given, settings
from hypothesis import strategies as st

from dtlint.api import check
from dtlint.frameworks import Reading, swift
from dtlint.frameworks.torchrun import read_launch, recognise, spell
from dtlint.value import Value


def read(text: str, env: dict[str, str] | None = None) -> Reading:
    return read_launch(words(text), {name: words(value)[0] for name, value in (env or {}).items()})


@pytest.mark.parametrize(
    "command",
    [
        "torchrun train.py",
        "/opt/conda/bin/torchrun train.py",
        "$ENV/bin/torchrun train.py",
        "python -m torch.distributed.run train.py",
        "python3.11 -u -m torch.distributed.launch train.py",
        "python -um torch.distributed.launch train.py",
        "python -W ignore -m torch.distributed.run train.py",
        "$PYTHON -m torch.distributed.run train.py",
        "python /usr/lib/python3/site-packages/torch/distributed/launch.py train.py",
    ],
)
def test_a_launcher_is_recognised_however_it_is_called(command: str) -> None:
    assert recognise(words(command))


@pytest.mark.parametrize(
    "command", ["python train.py", "python -m train", "srun torchrun train.py", "deepspeed train.py"]
)
def test_other_commands_are_not_torchrun(command: str) -> None:
    assert not recognise(words(command))


@pytest.mark.parametrize(
    "flags",
    [
        "--nnodes 4 --nproc_per_node 8",
        "--nnodes=4 --nproc-per-node=8",
        "--nno 4 --nproc-per 8",
        "--nnodes 2 --nproc_per_node 8 --nnodes 4",
        "--nnodes 4:4 --nproc_per_node 8",
    ],
)
def test_spellings_of_the_geometry(flags: str) -> None:
    found = claims(read(f"torchrun {flags} train.py"))
    assert (found["launch.nodes"], found["launch.processes_per_node"]) == (4, 8)


def test_defaults_are_one_process_on_one_node_that_meets_itself() -> None:
    assert claims(read("torchrun train.py")) == {
        "launch.launcher": "torchrun",
        "launch.nodes": 1,
        "launch.processes_per_node": 1,
    }


def test_several_nodes_meet_statically_by_default() -> None:
    found = claims(read("torchrun --nnodes 2 train.py"))
    assert (found["launch.rendezvous"], found["launch.rendezvous_host"]) == ("static", "127.0.0.1")


@pytest.mark.parametrize("flag", ["--nproc 8", "--node=1", "--nproc-per_node 8", "--rdzv c10d", "--use_env"])
def test_spellings_that_argparse_does_not_take(flag: str) -> None:
    (member,) = fields(read(f"torchrun {flag} train.py"), "config.unknown")
    assert member["effect"] == "refused"


@pytest.mark.parametrize(
    ("flags", "env", "key"),
    [
        ("--nproc_per_node eight", {}, "--nproc_per_node"),
        ("--nnodes 4:2", {}, "--nnodes"),
        ("--nnodes 2 --rdzv_backend c10d --rdzv_endpoint node0:port", {}, "--rdzv_endpoint"),
        ("--nnodes 2 --rdzv_endpoint node0 --node_rank 0", {}, "--rdzv_endpoint"),
        ("--standalone=true", {}, "--standalone"),
        ("--nproc_per_node --standalone", {}, "--nproc_per_node"),
        ("", {"PET_NODE_RANK": "first"}, "--node-rank"),
        ("", {"PET_STANDALONE": "true"}, "--standalone"),
    ],
)
def test_values_that_are_refused(flags: str, env: dict[str, str], key: str) -> None:
    members = fields(read(f"torchrun {flags} train.py", env), "config.invalid")
    assert {member["key"] for member in members} == {key}


@pytest.mark.parametrize(
    "flags",
    [
        "--nproc_per_node npu", "--nnodes 1:4", "--nproc_per_node $N", "--rdzv_conf timeout=900,join_timeout=60",
        "--nnodes 2 --rdzv_backend c10d --rdzv_endpoint [fe80::1]:29400", "--tee 0:1,1:2",
    ],
)  # fmt: skip
def test_values_that_are_taken(flags: str) -> None:
    assert fields(read(f"torchrun {flags} train.py"), "config.invalid") == []


@pytest.mark.parametrize(
    ("flags", "key"),
    [
        ("--nproc_per_node", "--nproc_per_node"),
        ("--nnodes 2 --master_addr", "--master_addr"),
        ("--master_addr --master_port 29500 --nproc_per_node 8", "--master_addr"),
    ],
)
def test_behind_a_missing_value_the_program_and_its_flags_are_no_flags_of_the_launcher(flags: str, key: str) -> None:
    found = read(f"torchrun {flags} train.py --lr 1 --gpus 4")
    assert [word.shown for word in found.rest] == ["train.py", "--lr", "1", "--gpus", "4"]
    assert [member["key"] for member in fields(found, "config.invalid")] == [key]
    assert fields(found, "config.unknown") == fields(found, "launch.lost") == []


@pytest.mark.parametrize("flags", ["--nproc_per_node 8 --gpus 4", "--nproc_per_node --gpus 4"])
def test_an_unknown_flag_before_the_program_is_refused(flags: str) -> None:
    assert [member["key"] for member in fields(read(f"torchrun {flags} train.py"), "config.unknown")] == ["--gpus"]


def test_a_module_is_python() -> None:
    (member,) = fields(read("torchrun --no-python -m package.train"), "config.refused")
    assert (member["relation"], member["partner"]) == ("excludes", "-m")


def test_the_environment_counts_where_the_command_line_is_silent() -> None:
    env = {"PET_NNODES": "4", "PET_NPROC_PER_NODE": "8", "PET_NODE_RANK": "$RANK"}
    found = claims(read("torchrun --nproc_per_node 2 train.py", env))
    assert found["launch.nodes"] == 4
    assert found["launch.processes_per_node"] == 2
    assert found["launch.node_rank"] == "?$RANK is not set"


def test_words_after_the_script_belong_to_it() -> None:
    reading = read("torchrun --nnodes 2 train.py --nproc_per_node 8")
    assert texts(reading.rest) == ["train.py", "--nproc_per_node", "8"]
    assert claims(reading)["launch.processes_per_node"] == 1


def test_a_module_is_named_by_what_follows_m() -> None:
    reading = read("torchrun --nproc_per_node 8 -m pkg.train --lr 1")
    assert texts(reading.rest) == ["pkg.train", "--lr", "1"]
    assert [(each.role, each.path.text) for each in reading.files] == [("module", "pkg.train")]


def test_an_elastic_range_is_not_a_number() -> None:
    reading = read("torchrun --nnodes 2:4 --nproc_per_node 8 train.py")
    assert claims(reading)["launch.nodes"] == "?between 2 and 4 nodes join (elastic)"
    assert fields(reading, "launch.elastic") == [{"minimum": 2, "maximum": 4}]


@pytest.mark.parametrize(
    ("word", "means"), [("gpu", "cluster.gpus_per_node"), ("auto", "cluster.gpus_per_node"), ("cpu", "")]
)
def test_devices_counted_by_the_launcher_stand_for_the_clusters(word: str, means: str) -> None:
    claim = next(each for each in read(f"torchrun --nproc_per_node {word} t.py").claims if "per_node" in each.setting)
    assert getattr(claim.value, "means", None) == means


def test_an_unknown_value_keeps_its_meaning() -> None:
    reading = read('torchrun --nnodes $SLURM_NNODES --nproc_per_node "$N" train.py')
    nodes, processes = reading.claims[1].value, reading.claims[2].value
    assert (getattr(nodes, "means", None), getattr(processes, "reason", None)) == ("cluster.nodes", "$N is not set")
    assert reading.open == ""


@pytest.mark.parametrize(
    ("flags", "backend", "host"),
    [
        ("--standalone --rdzv_backend etcd", "c10d", "localhost"),
        ("--rdzv_backend c10d --rdzv_endpoint node1:29500", "c10d", "node1"),
        ("--rdzv_backend=c10d --rdzv_endpoint=$HEAD:29500", "c10d", "?$HEAD is not set"),
        ("--rdzv_endpoint [fe80::1]:29500", "static", "[fe80::1]"),
        ("--master_addr 10.0.0.1 --master_port 29500", "static", "10.0.0.1"),
    ],
)
def test_where_the_processes_meet(flags: str, backend: str, host: str) -> None:
    found = claims(read(f"torchrun {flags} train.py"))
    assert (found["launch.rendezvous"], found["launch.rendezvous_host"]) == (backend, host)


class TestOpenLists:
    def test_hidden_options_leave_the_geometry_unknown(self) -> None:
        reading = read("torchrun $DISTRIBUTED_ARGS train.py --lr 1")
        assert texts(reading.rest) == ["train.py", "--lr", "1"]
        assert reading.open == "$DISTRIBUTED_ARGS is not set"
        assert claims(reading)["launch.nodes"] == "?hidden in the launcher's arguments: $DISTRIBUTED_ARGS is not set"

    def test_what_is_written_beside_hidden_options_counts(self) -> None:
        assert claims(read("torchrun --nproc_per_node 8 $MORE train.py"))["launch.processes_per_node"] == 8

    def test_an_option_that_torchrun_lacks_shows_that_the_word_held_the_script(self) -> None:
        assert texts(read("torchrun --nproc_per_node 8 $SCRIPT --model_name x").rest) == ["?", "--model_name", "x"]

    def test_an_option_of_unknown_name_hides_one(self) -> None:
        reading = read('torchrun --$X "-$Y" --nnodes 2 train.py')
        assert (texts(reading.rest), reading.open) == (["train.py"], "$X is not set")

    def test_nothing_but_an_unknown_word_is_the_program(self) -> None:
        assert texts(read("torchrun --nproc_per_node 8 $@").rest) == ["?"]


def test_an_option_that_torchrun_lacks_is_reported_with_the_nearest() -> None:
    (member,) = fields(read("torchrun --nproc_per_nodes=8 train.py"), "config.unknown")
    assert (member["key"], member["suggestion"]) == ("--nproc_per_nodes", "--nproc-per-node")


def test_values_point_at_the_characters_that_hold_them() -> None:
    reading = read("torchrun --nnodes=16 train.py")
    (value,) = [claim.value for claim in reading.claims if claim.setting == "launch.nodes"]
    assert isinstance(value, Value)
    assert value.origin.kind == "written"
    assert value.origin.span is not None
    assert value.origin.span.text == "16"


def test_a_missing_option_belongs_at_the_end_of_the_launchers_own() -> None:
    reading = read("torchrun --nnodes 2 --nproc_per_node 8 train.py --lr 1")
    assert reading.place is not None
    assert reading.place.text == "--nnodes 2 --nproc_per_node 8"


def test_a_missing_option_belongs_behind_the_quotes_of_the_last() -> None:
    reading = read('torchrun --nnodes 2 --master_addr "$HEAD" train.py')
    assert reading.place is not None
    assert reading.place.text == '--nnodes 2 --master_addr "$HEAD"'


@pytest.mark.parametrize(
    ("setting", "value", "spelled"),
    [
        ("launch.nodes", 4, "--nnodes 4"),
        ("launch.processes_per_node", 8, "--nproc-per-node 8"),
        ("batch.micro", 1, None),
    ],
)
def test_how_settings_are_written(setting: str, value: int, spelled: str | None) -> None:
    assert spell(setting, value) == spelled


OPTIONS = ["--nnodes", "--nnodes=$N", "--standalone", "-m", "-mx", "--", "-", "=", "8", "$X", "--master-addr=[::]:"]
WORDS = st.sampled_from(["torchrun", "python", "torch.distributed.run", "a.py", *OPTIONS])


@settings(deadline=None)
@given(st.lists(WORDS))
def test_any_order_of_words_is_read_without_an_error(parts: list[str]) -> None:
    found = words(" ".join(["torchrun", *parts]))
    assert len(read_launch(found, {}).rest) <= len(found)


class TestSwift:
    def test_the_environment_tells_the_geometry(self) -> None:
        command = words("megatron sft --tensor_model_parallel_size 8")
        assert swift.recognise(command)
        reading = swift.read_launch(command, {"NPROC_PER_NODE": words("8")[0], "NNODES": words("4")[0]})
        found = claims(reading)
        assert (found["launch.launcher"], found["launch.nodes"], found["launch.processes_per_node"]) == (
            "torchrun",
            4,
            8,
        )
        assert texts(reading.rest) == ["sft", "--tensor_model_parallel_size", "8"]

    def test_without_it_there_is_one_process(self) -> None:
        assert claims(swift.read_launch(words("swift sft --model x"), {})) == {
            "launch.launcher": "python",
            "launch.processes": 1,
        }

    def test_arguments_in_a_file(self) -> None:
        reading = swift.read_launch(words("megatron sft moe.yaml"), {})
        assert texts(reading.rest) == ["sft", "moe.yaml"]

    @pytest.mark.parametrize(
        ("command", "environment", "partner"),
        [
            ("swift sft --model x --deepspeed zero3", {"CUDA_VISIBLE_DEVICES": "0,1,2,3"}, "NPROC_PER_NODE=4"),
            ("swift rlhf --model x --deepspeed=zero2", {"CUDA_VISIBLE_DEVICES": "0,1"}, "NPROC_PER_NODE=2"),
            (
                "swift sft --deepspeed zero3",
                {"CUDA_VISIBLE_DEVICES": "0,1,2,3,4,5,6,7", "NPROC_PER_NODE": "2"},
                "NPROC_PER_NODE=8",
            ),
            ("swift sft --model x --deepspeed zero3", {"CUDA_VISIBLE_DEVICES": "0"}, None),
            ("swift sft --model x --deepspeed zero3", {}, None),
            ("swift sft --model x", {"CUDA_VISIBLE_DEVICES": "0,1,2,3"}, None),
            ("swift sft --deepspeed zero3", {"CUDA_VISIBLE_DEVICES": "0,1", "NPROC_PER_NODE": "2"}, None),
            (
                "swift rlhf --deepspeed zero3",
                {"CUDA_VISIBLE_DEVICES": "0,1", "SWIFT_SINGLE_DEVICE_MODE": "1"},
                None,
            ),
            ("swift rlhf --deepspeed zero3 --use_ray true", {"CUDA_VISIBLE_DEVICES": "0,1"}, None),
        ],
    )
    def test_deepspeed_is_refused_where_a_process_sees_several_gpus(
        self, command: str, environment: dict[str, str], partner: str | None
    ) -> None:
        reading = swift.read_launch(words(command), {name: words(text)[0] for name, text in environment.items()})
        found = [each.fields["partner"] for each in reading.collections.get("config.refused", ())]
        assert [each.value for each in found if isinstance(each, Value)] == ([partner] if partner else [])
        if partner and "NPROC_PER_NODE" not in environment:
            assert str(claims(reading)["launch.processes"]).startswith("?")

    @pytest.mark.parametrize("command", ["swift infer --model x", "swift", "megatron export", "torchrun sft"])
    def test_other_commands_train_nothing(self, command: str) -> None:
        assert not swift.recognise(words(command))


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("export NNODES=2 NPROC_PER_NODE=8\nswift sft --model x", False),
        ("export NNODES=2 NPROC_PER_NODE=8 NODE_RANK=$RANK\nmegatron sft --model x", False),
        ("export FORCE_TORCHRUN=1 NNODES=2\nllamafactory-cli train x.yaml", False),
        ("export NNODES=2 NPROC_PER_NODE=8\nxtuner train my.py", False),
        ("export NNODES=2 NPROC_PER_NODE=8 NODE_RANK=1\nswift sft --model x", True),
        ("export NNODES=2 NPROC_PER_NODE=8 MASTER_ADDR=127.0.0.1\nswift sft --model x", True),
        ("export NNODES=2 NPROC_PER_NODE=8\nsrun --nodes 2 swift sft --model x", True),
        ("torchrun --nnodes 2 --nproc_per_node 8 train.py", True),
    ],
)
def test_an_address_that_the_environment_may_tell_is_not_the_default(tmp_path: Path, script: str, told: bool) -> None:
    (tmp_path / "run.sh").write_text(f"{script}\n", encoding="utf-8")
    found = [each.rule for each in check([tmp_path]).findings if each.severity == "error"]
    assert ("rendezvous-self" in found) is told
