"""The deepspeed command and its host file, read as claims about the plan."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from command_words import fields, words
from readings import claims, members

from dtlint.api import check, options_of
from dtlint.frameworks import Reading
from dtlint.frameworks.deepspeed.launcher import read_launch, recognise
from dtlint.frameworks.hostfile import Absent, absent, all_slots, filtered, read_hostfile
from dtlint.plan import Plan
from dtlint.runs import read_runs
from dtlint.source import Source
from dtlint.value import Plain, Unknown, Value


def launch(text: str, files: Mapping[str, str] | None = None, **env: str) -> Reading:
    def read_file(path: str) -> Source | None:
        content = (files or {}).get(path)
        return None if content is None else Source(path, content)

    return read_launch(words(text), read_file, {name: words(value)[0] for name, value in env.items()})


HOSTS = {"hostfile": "# ours\nnode-0 slots=8\nnode-1 slots=8 # rack 2\n"}
UNEVEN = {"hostfile": "a slots=8\nb slots=4\n"}


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("deepspeed train.py", True),
        ("/opt/conda/bin/deepspeed --num_gpus 8 train.py", True),
        ("python -m deepspeed.launcher.runner train.py", True),
        ("python -u train.py --deepspeed ds.json", False),
        ("torchrun train.py", False),
    ],
)
def test_recognise(text: str, answer: bool) -> None:
    assert recognise(words(text)) is answer


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("deepspeed --num_gpus 4 train.py", {"launch.nodes": 1, "launch.processes_per_node": 4}),
        ("deepspeed --num_gpus=4 --num_nodes=2 train.py", {"launch.nodes": 2, "launch.processes_per_node": 4}),
        ("deepspeed --num_accel 4 train.py", {"launch.nodes": 1, "launch.processes_per_node": 4}),
        ("deepspeed --include localhost:0,1,3 train.py", {"launch.nodes": 1, "launch.processes_per_node": 3}),
        ("deepspeed -i localhost:5 train.py", {"launch.nodes": 1, "launch.processes_per_node": 1}),
        (
            "deepspeed train.py --num_gpus 4",
            {"launch.nodes": 1, "launch.processes_per_node": "one process for each of the machine's devices"},
        ),
        (
            "deepspeed --hostfile elsewhere --num_gpus 8 train.py",
            {
                "launch.nodes": "the host file elsewhere is not among the files",
                "launch.processes_per_node": 8,
            },
        ),
        (
            "deepspeed --num_gpus 8 --node_rank 1 --master_addr host-0 --no_ssh train.py",
            {
                "launch.nodes": 1,
                "launch.processes_per_node": 8,
                "launch.node_rank": 1,
                "launch.rendezvous_host": "host-0",
            },
        ),
    ],
)
def test_launch_without_a_host_file(text: str, found: dict[str, object]) -> None:
    assert claims(launch(text)) == {"launch.launcher": "deepspeed", **found}


def test_all_devices_stand_for_the_machines_gpus() -> None:
    claim = next(claim for claim in launch("deepspeed train.py").claims if claim.setting == "launch.processes_per_node")
    assert isinstance(claim.value, Unknown)
    assert claim.value.means == "cluster.gpus_per_node"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("deepspeed train.py", 2),
        ("deepspeed --num_gpus 8 train.py", 8),
    ],
)
def test_visible_devices_count_without_filters_only(text: str, count: int) -> None:
    assert claims(launch(text, CUDA_VISIBLE_DEVICES="2,3"))["launch.processes_per_node"] == count


@pytest.mark.parametrize(
    ("options", "nodes", "per_node", "processes"),
    [
        ("", 2, 8, 16),
        ("--num_nodes 1", 1, 8, 8),
        ("--num_nodes 5", 2, 8, 16),
        ("--num_gpus 4", 2, 4, 8),
        ("--include node-1", 1, 8, 8),
        ("--include node-0:0,1@node-1:2,3", 2, 2, 4),
        ("--exclude node-0", 1, 8, 8),
        ("--exclude node-0:0@node-1:7", 2, 7, 14),
    ],
)
def test_launch_with_a_host_file(options: str, nodes: int, per_node: int, processes: int) -> None:
    found = claims(launch(f"deepspeed --hostfile hostfile {options} train.py", HOSTS))
    assert (found["cluster.nodes"], found["cluster.gpus_per_node"]) == (2, 8)
    assert (found["launch.nodes"], found["launch.processes_per_node"]) == (nodes, per_node)
    assert found["launch.processes"] == processes


def test_uneven_machines_have_no_count_per_node() -> None:
    found = claims(launch("deepspeed -H hostfile train.py", UNEVEN))
    assert (found["cluster.nodes"], found["launch.nodes"], found["launch.processes"]) == (2, 2, 12)
    assert found["launch.processes_per_node"] == "machines have 4 to 8 processes"
    assert found["cluster.gpus_per_node"] == "machines have 4 to 8 slots"


def test_program_and_files_of_a_launch() -> None:
    reading = launch("deepspeed --hostfile hostfile --module pkg.train --deepspeed ds.json", HOSTS)
    assert [word.text for word in reading.rest] == ["pkg.train", "--deepspeed", "ds.json"]
    assert [(file.role, file.path.text) for file in reading.files] == [("hostfile", "hostfile")]


@pytest.mark.parametrize(
    ("text", "key", "suggestion"),
    [
        ("deepspeed --num_gpu 8 train.py", None, None),
        ("deepspeed --nun_gpus=8 train.py", "--nun_gpus", "--num_gpus"),
        ("deepspeed --num-gpus 8 train.py", "--num-gpus", "--num_gpus"),
    ],
)
def test_option_that_the_launcher_does_not_have(text: str, key: str | None, suggestion: str | None) -> None:
    found = members(launch(text), "config.unknown", "key", "suggestion", "effect")
    assert found == ([] if key is None else [(key, suggestion, "refused")])


@pytest.mark.parametrize(
    ("text", "files", "expected"),
    [
        ("deepspeed --num_gpus 2 --include localhost:1 train.py", {}, "either --num_gpus or --include"),
        ("deepspeed -H hostfile train.py", {"hostfile": "a slots=8\na slots=8\n"}, "one line for a"),
        ("deepspeed -H hostfile train.py", {"hostfile": "a slots=8\nb slots =8\n"}, "NAME slots=N"),
        ("deepspeed -H hostfile train.py", {"hostfile": "# none\n"}, "at least one line NAME slots=N"),
        ("deepspeed -H hostfile --include node-0 --exclude node-1 t.py", HOSTS, "either --include or --exclude"),
    ],
)
def test_launch_that_deepspeed_refuses(text: str, files: dict[str, str], expected: str) -> None:
    assert members(launch(text, files), "config.invalid", "expected", "effect") == [(expected, "refused")]


@pytest.mark.parametrize(
    ("text", "each"),
    [
        ("node_ip slots=8\nnode_ip slots=8", 8),
        ("x.x.x.x slots=8\nx.x.x.x slots=8\n", 8),
        ("<ip> slots=4\n<ip> slots=4\n", 4),
        ("worker-ip-1 slots=<gpus>\n", None),
    ],
)
def test_a_hostfile_that_is_a_template_leaves_its_machines_open(text: str, each: int | None) -> None:
    reading = launch("deepspeed -H hostfile train.py", {"hostfile": text})
    found = {claim.setting: claim.value for claim in reading.claims}
    assert "config.invalid" not in reading.collections
    nodes = found["launch.nodes"]
    assert isinstance(nodes, Unknown)
    assert nodes.reason == "the host file leaves its machines to fill in"
    assert "cluster.nodes" not in found
    slots = found.get("launch.processes_per_node")
    assert (slots.value if isinstance(slots, Value) else None) == each


WRITTEN_HOSTS = {
    "slots of the caller": ('echo "localhost slots=$1"', None),
    "all of the caller": ('echo "$HOST slots=$1"', None),
    "two machines of the caller": ('(echo "$A slots=8"; echo "$B slots=8")', None),
    "no slots": ('echo "localhost gpus=$1"', "'localhost gpus=?': NAME slots=N is wanted here"),
    "one machine twice": ('(echo "a slots=8"; echo "a slots=8")', "'a slots=8': one line for a is wanted here"),
}


@pytest.mark.parametrize(("writes", "told"), WRITTEN_HOSTS.values(), ids=WRITTEN_HOSTS)
def test_a_hostfile_that_holds_what_only_the_caller_knows(tmp_path: Path, writes: str, told: str | None) -> None:
    (tmp_path / "run.sh").write_text(f"{writes} > /job/hostfile\ndeepspeed --hostfile /job/hostfile train.py\n")
    found = [each.message for each in check([tmp_path]).findings if each.rule == "setting-type"]
    assert found == ([] if told is None else [told])


def test_hostfile_keeps_the_places_of_its_entries() -> None:
    hostfile = read_hostfile(Source("hostfile", "\n  node-1 slots=16\n"))
    (host,) = hostfile.hosts
    assert (host.name, host.slots, host.place.text, host.digits.text, host.digits.line) == (
        "node-1",
        16,
        "node-1 slots=16",
        "16",
        2,
    )


def test_a_filter_that_cannot_be_read_is_told_what_is_wanted() -> None:
    slots = all_slots(read_hostfile(Source("hostfile", HOSTS["hostfile"])).hosts)
    assert filtered(slots, "node-0", "node-1") == "either --include or --exclude"
    assert filtered(slots, "node-0:x", "") == "NAME:0,1 with slots by number, not node-0:x,"


@pytest.mark.parametrize(
    ("text", "lacking"),
    [
        ("node-0:9", Absent("node-0", 9)),
        ("node-0:2,11,9@node-1", Absent("node-0", 11)),
        ("node-1@c:0", Absent("c")),
        ("node-0:0,1@node-1", None),
        ("", None),
    ],
)
def test_what_a_filter_names_and_the_host_file_does_not_have(text: str, lacking: Absent | None) -> None:
    slots = all_slots(read_hostfile(Source("hostfile", HOSTS["hostfile"])).hosts)
    assert absent(slots, text) == lacking


def test_slots_that_a_host_file_does_not_have_count_as_they_are_meant() -> None:
    files = {"hostfile": "a slots=2\nb slots=2\n"}
    reading = launch("deepspeed -H hostfile --include a:2,3@b:2,3 train.py", files)
    counts = {claim.setting: claim.value.value for claim in reading.claims if isinstance(claim.value, Value)}
    assert [counts["launch.nodes"], counts["launch.processes_per_node"], counts["launch.processes"]] == [2, 2, 4]
    assert members(reading, "launch.absent_slots", "option", "machine", "slot", "slots") == [("--include", "a", 3, 2)]
    assert members(launch("deepspeed -H hostfile --exclude c train.py", files), "launch.absent_slots", "machine") == [
        ("c",)
    ]


EVERY = "scontrol show hostnames $SLURM_JOB_NODELIST | sed 's/$/ slots=8/' > hosts\n"


class TestHostfilesOfJobs:
    def plan(self, folder: Path, script: str, **files: str) -> Plan:
        (folder / "job.sh").write_text(script)
        for name, text in files.items():
            (folder / name).write_text(text)
        (run,) = read_runs([folder / "job.sh"], options_of()).runs
        return run.plan

    def test_a_file_that_is_written_for_the_nodes_of_the_job_has_as_many(self, tmp_path: Path) -> None:
        plan = self.plan(tmp_path, "#!/bin/bash\n#SBATCH --nodes=4\n" + EVERY + "deepspeed --hostfile hosts train.py\n")
        assert (plan.value("launch.nodes"), plan.value("launch.processes")) == (4, 32)

    def test_without_an_allocation_their_number_is_not_known(self, tmp_path: Path) -> None:
        plan = self.plan(tmp_path, EVERY + "deepspeed --hostfile hosts train.py\n")
        assert (plan.value("launch.nodes"), plan.value("launch.processes_per_node")) == (None, 8)

    def test_uneven_machines_have_no_one_number_of_processes(self, tmp_path: Path) -> None:
        plan = self.plan(tmp_path, "deepspeed --hostfile hosts train.py\n", hosts="a slots=8\nb slots=4\n")
        assert (plan.value("launch.processes"), plan.value("launch.processes_per_node")) == (12, None)
        assert plan.value("cluster.gpus_per_node") is None


def invalid(command: str) -> list[Plain]:
    return [member["key"] for member in fields(read_launch(words(command), lambda _: None), "config.invalid")]


REFUSED = {
    "deepspeed --launcher pdshh train.py": ["--launcher pdshh"],
    "deepspeed --launcher OpenMPI train.py": [],
    "deepspeed --launcher openmpi --num_gpus 8 train.py": ["--num_gpus"],
    "deepspeed --launcher mpich --include a train.py": ["--include"],
    "deepspeed --launcher slurm --num_nodes 2 train.py": [],
    "deepspeed --no_ssh --master_addr h train.py": ["--no_ssh"],
    "deepspeed --no_ssh --node_rank $R --master_addr h train.py": [],
    "deepspeed --no_ssh $ARGS train.py": [],
}


@pytest.mark.parametrize(("command", "keys"), REFUSED.items(), ids=list(REFUSED))
def test_what_the_launcher_refuses(command: str, keys: list[str]) -> None:
    assert invalid(command) == keys


DROPPED = {
    ("2,3", "--num_gpus 2"): True,
    ("0,1", "--num_gpus 4"): True,
    ("0,1,2,3", "--num_gpus 2"): False,
    ("0,1", "--num_gpus 2"): False,
    ("2,3", ""): False,
    ("2,3", "--include localhost:2,3"): False,
    ("2,3", "--include localhost:0,1"): True,
    ("2,3", "--exclude localhost:0"): False,
    ("$GPUS", "--num_gpus 2"): False,
}


@pytest.mark.parametrize(("case", "dropped"), DROPPED.items(), ids=[" ".join(case) for case in DROPPED])
def test_visible_devices_beside_a_count(case: tuple[str, str], dropped: bool) -> None:
    visible, options = case
    env = {"CUDA_VISIBLE_DEVICES": words(visible)[0]}
    reading = read_launch(words(f"deepspeed {options} train.py"), lambda _: None, env)
    assert bool(reading.collections.get("config.inert")) is dropped


def test_behind_a_missing_value_the_program_and_its_flags_are_no_flags_of_the_launcher() -> None:
    found = launch("deepspeed --num_gpus train.py --lr 1")
    assert members(found, "config.invalid", "key") == [("--num_gpus",)]
    assert "config.unknown" not in found.collections
    assert [word.shown for word in found.rest] == ["train.py", "--lr", "1"]
    strange = launch("deepspeed --num_gpus 8 --lr 1 train.py")
    assert members(strange, "config.unknown", "key") == [("--lr",)]


EXPORTED = "NCCL_IB_DISABLE=1\n# NCCL_P2P_DISABLE=1\nNCCL_DEBUG = WARN\nNCCL_DEBUG='INFO'\nMINE=2\nnothing\n"


@pytest.mark.parametrize(
    ("text", "file", "found"),
    [
        ("deepspeed -H hostfile train.py", ".deepspeed_env", {"NCCL_IB_DISABLE": "1", "NCCL_DEBUG": "INFO"}),
        ("deepspeed --force_multi train.py", ".deepspeed_env", {"NCCL_IB_DISABLE": "1", "NCCL_DEBUG": "INFO"}),
        ("deepspeed -H hostfile --num_nodes 1 train.py", ".deepspeed_env", {}),
        ("deepspeed --num_gpus 8 train.py", ".deepspeed_env", {}),
        ("deepspeed -H hostfile train.py", "other_env", {}),
    ],
)
def test_variables_that_the_launcher_exports_on_several_machines(text: str, file: str, found: dict[str, str]) -> None:
    reading = launch(text, {**HOSTS, file: EXPORTED})
    assert dict(members(reading, "launch.environment", "name", "value")) == found


def test_the_file_of_variables_may_have_another_name() -> None:
    reading = launch("deepspeed -H hostfile train.py", {**HOSTS, "my_env": EXPORTED}, DS_ENV_FILE="my_env")
    assert members(reading, "launch.environment", "name") == [("NCCL_IB_DISABLE",), ("NCCL_DEBUG",)]
