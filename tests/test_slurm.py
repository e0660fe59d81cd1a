"""What #SBATCH lines allocate, what srun and mpirun start, and what stands around a command."""

from __future__ import annotations

from pathlib import Path

import pytest
from command_words import claims, fields, texts, words
from hypothesis import given, settings
from hypothesis import strategies as st

from dtlint.api import check
from dtlint.frameworks import mpirun, torchrun, wrappers
from dtlint.frameworks.options import Grammar
from dtlint.frameworks.slurm import read_directives, read_srun, spell
from dtlint.frameworks.slurm.grammar import GRAMMAR
from dtlint.languages.shell import read_script
from dtlint.languages.traced import Word
from dtlint.source import Source
from dtlint.value import Plain, Unknown, Value


def directives(*lines: str) -> dict[str, Plain]:
    return claims(read_directives(directive_words(*lines)))


def directive_words(*lines: str) -> tuple[Word, ...]:
    """The words of #SBATCH lines, in which a variable is literal text."""
    from dtlint.languages.traced import literal_word

    source = Source("job.sbatch", "\n".join(f"#SBATCH {line}" for line in lines))
    found, at = [], 0
    for text in source.text.split():
        start = source.text.index(text, at)
        at = start + len(text)
        found.append(literal_word(text, source.span(start, at)))
    return tuple(found)


@pytest.mark.parametrize(
    "lines",
    [
        ("--nodes=4", "--gres=gpu:8"),
        ("-N 4", "--gpus-per-node=8"),
        ("-N4", "--gpus-per-node 8"),
        ("--nodes=4-4", "--gres=gpu:a100:8"),
        ("--nodes=4", "--gpus=32"),
        ("--nodes=4", "-G 32"),
        ("--nodes=4", "--ntasks-per-node=8", "--gpus-per-task=1"),
        ("--nodes=4", "--ntasks=4", "--gpus-per-task=8"),
        ("--nodes=4", "--gpus-per-task=8"),
        ("--nodes=4", "--ntasks-per-node=8", "--tres-per-task=gres/gpu:1"),
        ("--nodes=4", "--gres=gpu:a100:8(S:0-1),shard:2"),
        ("--nodes=4 # four machines", "--gres=gpu:8"),
        ("--nodes=2", "--nodes=4", "--gpus-per-node=h100:8"),
        ("--ntasks=32", "--ntasks-per-node=8", "--gpus-per-node=8"),
        ("--site-option value", "--nodes=4", "--gpus-per-node=8"),
    ],
)
def test_spellings_of_four_nodes_with_eight_gpus(lines: tuple[str, ...]) -> None:
    found = directives(*lines)
    assert (found["cluster.nodes"], found["cluster.gpus_per_node"]) == (4, 8)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("--nodes=2-4", "?between 2 and 4 nodes are allocated"),
        ("--nodes=$NODES", "?Slurm does not expand $NODES in #SBATCH lines"),
        ("--nodes=four", "?`four` is not a whole number"),
        ("--ntasks=16", "?no --nodes: Slurm may spread the 16 tasks"),
    ],
)
def test_numbers_of_nodes_that_the_lines_leave_open(line: str, reason: str) -> None:
    assert directives(line)["cluster.nodes"] == reason


def test_lines_that_ask_for_no_nodes_claim_none() -> None:
    assert directives("--gres=gpu:8") == {"cluster.gpus_per_node": 8}


def test_one_task_needs_one_node() -> None:
    assert directives("--ntasks=1")["cluster.nodes"] == 1


@pytest.mark.parametrize(
    ("lines", "count"),
    [
        (("--nodes=3", "--gpus=8"), "?--gpus=8 is the total over 3 nodes"),
        (("--ntasks=6", "--nodes=4", "--gpus-per-task=2"), "?GPUs per task are given, but not the tasks of a node"),
        (("--gres=gpu",), 1),
        (("--gres=gpu:a100",), 1),
    ],
)
def test_counts_of_gpus(lines: tuple[str, ...], count: Plain) -> None:
    assert directives(*lines)["cluster.gpus_per_node"] == count


@pytest.mark.parametrize("line", ["--gres=gpu:a100:8", "--gpus-per-node=a100:4", "--constraint=a100", "-C a100&ib"])
def test_the_gpu_type_where_the_catalog_knows_it(line: str) -> None:
    assert "A100" in str(directives(line)["cluster.gpu"])


@pytest.mark.parametrize("line", ["--gres=gpu:purple:8", "--constraint=a100|h100", "--constraint=skylake"])
def test_no_gpu_type_is_guessed(line: str) -> None:
    assert "cluster.gpu" not in directives(line)


def test_a_name_of_cards_with_several_memories_leaves_the_memory_unknown() -> None:
    memory = read_directives(directive_words("--gres=gpu:a100:8")).claims[-1]
    assert memory.setting == "cluster.gpu_memory_gib"
    assert isinstance(memory.value, Unknown)
    assert "40 or 80 GB" in memory.value.reason


def test_the_older_name_of_tasks_on_a_node() -> None:
    reading = read_directives(directive_words("--nodes=2", "--tasks-per-node=8"))
    assert claims(reading)["launch.tasks_per_node"] == 8
    assert "config.unknown" not in reading.collections


@pytest.mark.parametrize(
    "flag", ["--cpu_bind=verbose,cores", "--mem_bind=local", "--pack-group=0", "--cluster=c1", "--nice=50", "--x11"]
)
def test_older_and_rarer_names_are_no_misspellings(flag: str) -> None:
    reading = read_srun(words(f"srun -N 2 {flag} torchrun train.py"))
    assert "config.unknown" not in reading.collections
    assert texts(reading.rest) == ["torchrun", "train.py"]


def test_ntasks_wins_over_ntasks_per_node() -> None:
    reading = read_directives(directive_words("--ntasks=1", "--nodes=1", "--ntasks-per-node=2"))
    assert claims(reading)["launch.tasks_per_node"] == 1
    assert fields(reading, "launch.tasks") == [{"tasks": 1, "tasks_per_node": 2, "nodes": 1, "limited": "yes"}]
    assert reading.collections["launch.tasks"][0].place.line == 1


def test_a_heterogeneous_job_has_no_single_size() -> None:
    found = directives("--nodes=1", "hetjob", "--nodes=4")
    assert found["cluster.nodes"] == "?a heterogeneous job: its components ask for different machines"


def test_an_option_of_the_site_is_left_alone() -> None:
    reading = read_srun(words("srun --quotatype=reserved torchrun train.py"))
    assert "config.unknown" not in reading.collections
    assert texts(reading.rest) == ["torchrun", "train.py"]


def test_a_misspelt_option_is_reported() -> None:
    reading = read_directives(directive_words("--nodes=2", "--ntask-per-node=8"))
    (member,) = fields(reading, "config.unknown")
    assert member["suggestion"] == "--ntasks-per-node"


@pytest.mark.parametrize(
    "command",
    [
        "srun torchrun train.py",
        "srun -N 2 -n16 --ntasks-per-node=8 -l -u torchrun train.py",
        "srun -lu --export=ALL,A=b --mpi pmix --cpu-bind=none torchrun train.py",
        "srun --kill-on-bad-exit=1 -K1 --exclusive --label torchrun train.py",
        "srun --container-image x.sqsh --container-mounts /a:/b --no-container-mount-home torchrun train.py",
        "srun $SRUN_ARGS torchrun train.py",
        "srun -- torchrun train.py",
        "srun --nodes $SLURM_NNODES -w $HEAD torchrun train.py",
    ],
)
def test_the_command_that_srun_starts(command: str) -> None:
    assert texts(read_srun(words(command)).rest) == ["torchrun", "train.py"]


def test_the_tasks_of_an_srun_of_python_are_the_training_processes() -> None:
    found = claims(read_srun(words("srun -N 2 -n 16 python train.py")))
    assert found["launch.launcher"] == "slurm"
    assert (found["launch.processes"], found["launch.tasks_per_node"], found["launch.nodes"]) == (16, 8, 2)


@pytest.mark.parametrize(
    ("command", "launcher"),
    [
        ("python train.py", "slurm"),
        ("python -m pkg.train", "slurm"),
        ("singularity exec --nv x.sif python train.py", "slurm"),
        ("env A=b numactl -N 0 python -u train.py", "slurm"),
        ('bash -c "python train.py --lr 1"', "slurm"),
        ("torchrun train.py", None),
        ("python -m torch.distributed.run train.py", None),
        ("docker run image torchrun train.py", None),
        ('bash -c "torchrun train.py"', None),
        ("accelerate launch train.py", None),
        ("bash train.sh", None),
        ("hostname", None),
    ],
)
def test_whose_tasks_are_the_training_processes(command: str, launcher: str | None) -> None:
    slurm, mpi = (
        claims(read_srun(words(f"srun -n 4 {command}"))),
        claims(mpirun.read_launch(words(f"mpirun -n 4 {command}"))),
    )
    assert slurm.get("launch.launcher") == launcher
    assert mpi.get("launch.launcher") == (launcher and "mpi")
    assert slurm.get("launch.processes") == mpi.get("launch.processes") == (launcher and 4)


def test_a_step_tells_how_it_places_tasks() -> None:
    reading = read_srun(words("srun -N 2 --ntasks-per-node=8 -m cyclic --gpus-per-task=1 python train.py"))
    (step,) = fields(reading, "launch.steps")
    assert step == {
        "nodes": 2,
        "tasks_per_node": 8,
        "gpus_per_task": 1,
        "distribution": "cyclic",
    }


def test_how_settings_are_written() -> None:
    assert spell("launch.tasks_per_node", 1) == "--ntasks-per-node=1"
    assert spell("batch.micro", 1) is None


class TestMpi:
    @pytest.mark.parametrize(
        "command",
        [
            "mpirun -np 16 -N 8 python train.py",
            "mpirun -n 16 --map-by ppr:8:node -bind-to none -x NCCL_DEBUG=INFO --mca btl ^openib python train.py",
            "mpiexec -np 16 -H a:8,b:8 python train.py",
            "mpirun -n 16 -ppn 8 -env A=1 -genv B 2 python train.py",
            "horovodrun -np 16 -H a:8,b:8 python train.py",
        ],
    )
    def test_sixteen_processes_eight_on_each_node(self, command: str) -> None:
        reading = mpirun.read_launch(words(command))
        found = claims(reading)
        assert (found["launch.processes"], found["launch.tasks_per_node"]) == (16, 8)
        assert (found["launch.launcher"], texts(reading.rest)) == ("mpi", ["python", "train.py"])

    def test_a_hostfile_is_named(self) -> None:
        (named,) = mpirun.read_launch(words("mpirun --hostfile hosts.txt -np 4 python t.py")).files
        assert (named.role, named.path.text) == ("hostfile", "hosts.txt")

    def test_hosts_are_nodes(self) -> None:
        assert claims(mpirun.read_launch(words("mpirun -H a,b,c python t.py")))["cluster.nodes"] == 3


@pytest.mark.parametrize(
    "wrapper",
    [
        "env",
        "env -u X NCCL_DEBUG=INFO",
        "nohup",
        "time -p",
        "exec",
        "sudo -E -u me",
        "timeout -s KILL 10h",
        "timeout --signal=KILL 10h",
        "nice -n 5",
        "taskset -c 0-7",
        "taskset 0xff",
        "numactl --cpunodebind=0 --membind 0",
        "numactl -N 0 -m 0",
        "stdbuf -oL -eL",
        "xvfb-run -a",
        "nsys profile -t cuda,nvtx --output=x --force-overwrite true",
        "singularity exec --nv -B /data:/data image.sif",
        "apptainer run --nv --bind /data image.sif",
        "docker run --rm -it --gpus all --ipc=host -v /a:/b image:tag",
        "docker exec -it box",
        "uv run",
        "uv run --extra gpu",
        "poetry run",
        "conda run -n train --no-capture-output",
        "NCCL_DEBUG=INFO OMP_NUM_THREADS=8",
    ],
)
def test_a_wrapper_comes_off(wrapper: str) -> None:
    _, rest = wrappers.unwrap(words(f"{wrapper} torchrun --nnodes 2 train.py"))
    assert texts(rest) == ["torchrun", "--nnodes", "2", "train.py"]


def test_wrapped_variables_are_claimed() -> None:
    reading, _ = wrappers.unwrap(words("env NCCL_IB_DISABLE=1 torchrun train.py"))
    assert reading is not None
    assert claims(reading)["communication.env"] == (("NCCL_IB_DISABLE", "1"),)


@pytest.mark.parametrize("command", ["torchrun train.py", "docker build .", "singularity pull x", "uv sync", ""])
def test_other_commands_stay_as_they_are(command: str) -> None:
    assert texts(wrappers.unwrap(words(command))[1]) == command.split()


def test_srun_waits_a_number_of_seconds_and_sends_the_program_without_a_path() -> None:
    reading = read_srun(words("srun --wait 60 -W 60 --bcast python train.py"))
    assert texts(reading.rest) == ["python", "train.py"]
    assert texts(read_srun(words("srun --bcast=/tmp/run python train.py")).rest) == ["python", "train.py"]


SRUN = ["srun", "-N", "2", "-n16", "-l", "--gres=gpu:", "--gpus=a:", "-K1", "--"]
WORDS = st.sampled_from([*SRUN, "mpirun", "-H", "a:8,", "--map-by", "ppr:", "env", "A=b", "docker", "run", "$X", "="])


@settings(deadline=None)
@given(st.lists(WORDS))
def test_any_order_of_words_is_read_without_an_error(parts: list[str]) -> None:
    for name in ("srun", "mpirun", "env", "docker"):
        found = words(" ".join([name, *parts]))
        assert len(wrappers.unwrap(found)[1]) < len(found) or name in ("env", "docker")
    read_directives(directive_words(" ".join(parts)))


@pytest.mark.parametrize(
    "grammar",
    [
        GRAMMAR,
        mpirun.GRAMMAR,
        torchrun.GRAMMARS["torchrun"],
        *(each.options.grammar for forms in wrappers.WRAPPERS.values() for each in forms),
    ],
)
def test_every_letter_stands_for_an_option(grammar: Grammar) -> None:
    assert set(grammar.short.values()) | grammar.dashed <= set(grammar.long)


BINDINGS = {
    "--gpus-per-task=1": (1, "way"),
    "--gpus-per-task=a100:2": (2, "way"),
    "--ntasks-per-gpu=1": (1, "way"),
    "--tres-per-task=gres/gpu:1": (1, "way"),
    "--tres-per-task=cpu:4,gres/gpu:a100:2": (2, "way"),
    "--gpu-bind=single:1": (1, "name"),
    "--gpu-bind=per_task:2": (2, "name"),
    "--gpu-bind=map_gpu:0,1,2,3": (1, "name"),
    "--gpu-bind=verbose,map_gpu:0,1": (1, "name"),
    "--gpu-bind=none": (0, "name"),
    "--tres-bind=gres/gpu:single:1": (1, "name"),
    "--gpus-per-task=1 --gpu-bind=none": (0, "name"),
    "--gpus-per-task=1 --gres-flags=allow-task-sharing": (0, "name"),
    "--gpu-bind=closest": (None, "name"),
    "--gpu-bind=$BIND": (None, "name"),
}


@pytest.mark.parametrize(("options", "seen"), BINDINGS.items(), ids=list(BINDINGS))
def test_how_many_gpus_a_task_sees(options: str, seen: tuple[int | None, str]) -> None:
    (member,) = read_srun(words(f"srun {options} python train.py")).collections["launch.bindings"]
    gpus, by = member.fields["gpus_per_task"], member.fields["by"]
    assert (gpus.value if isinstance(gpus, Value) else None, by.value if isinstance(by, Value) else "") == seen


@pytest.mark.parametrize("options", ["--gpus-per-node=8", "--gres=gpu:8", "--tres-per-task=cpu:4", ""])
def test_requests_that_bind_no_task(options: str) -> None:
    assert "launch.bindings" not in read_srun(words(f"srun {options} python train.py")).collections


LATE = {
    "below a command": ("#SBATCH -N 2\nset -e\n#SBATCH --gres=gpu:8\n", ["--gres=gpu:8"]),
    "two lines": ("#SBATCH -N 2\ncd /x\n#SBATCH --ntasks=4\n#SBATCH -n 8\n", ["--ntasks=4", "-n 8"]),
    "of no machine": ("#SBATCH -N 2\ncd /x\n#SBATCH --output=log\n", []),
    "commented out": ("#SBATCH -N 2\ncd /x\n##SBATCH --gres=gpu:8\n", []),
    "above all commands": ("#SBATCH -N 2\n\n# a note\n#SBATCH --gres=gpu:8\ncd /x\n", []),
    "of another script": ("#SBATCH -N 2\ncat > job.sh <<'EOF'\n#!/bin/bash\n#SBATCH --gres=gpu:8\nEOF\n", []),
    "of a script that sbatch is not given": ("cd /x\n#SBATCH --gres=gpu:8\n", []),
}


@pytest.mark.parametrize(("lines", "lost"), LATE.values(), ids=LATE)
def test_directives_that_stand_too_low(lines: str, lost: list[str]) -> None:
    script = read_script(Source("job.sh", f"#!/bin/bash\n{lines}srun python train.py\n"))
    reading = read_directives(script.directives, script.late)
    assert [member["words"] for member in fields(reading, "launch.lost")] == lost


FEWER = """#!/bin/bash
GPUS=${{GPUS:-8}}
PER_NODE=${{PER_NODE:-8}}
{more}
srun --gres=gpu:${{PER_NODE}} --ntasks=${{GPUS}} --ntasks-per-node=${{PER_NODE}} python -u fit.py --launcher slurm
"""


@pytest.mark.parametrize(
    ("more", "told"),
    [
        ("", {"idle-gpus"}),
        ("export WORLD_SIZE=$PER_NODE", {"idle-gpus", "slurm-tasks-mismatch"}),
        ("export WORLD_SIZE=$GPUS", {"idle-gpus"}),
    ],
)
def test_fewer_tasks_than_a_node_takes_are_the_processes(tmp_path: Path, more: str, told: set[str]) -> None:
    (tmp_path / "start.sh").write_text(FEWER.format(more=more))
    (tmp_path / "all.sh").write_text("#!/bin/bash\nGPUS=4 PER_NODE=8 ./start.sh\n")
    report = check([tmp_path])
    assert {run.plan.integer("launch.tasks_per_node") for run in report.runs} == {4}
    assert {found.rule for found in report.findings} & {"idle-gpus", "slurm-tasks-mismatch"} == told


STEP = """#!/bin/bash
{nodes}
#SBATCH --ntasks-per-node=4
#SBATCH --gpus-per-node=4
nnodes=$SLURM_JOB_NUM_NODES
srun --ntasks={tasks} torchrun --nnodes=$nnodes --nproc_per_node=4 --rdzv_backend=c10d --rdzv_endpoint=$HEAD:1234 fit.py
"""


@pytest.mark.parametrize(
    ("nodes", "tasks", "each"),
    [
        ("#SBATCH --nodes=8", "$nnodes", 1),
        ("#SBATCH --nodes=8", "8", 1),
        ("#SBATCH --nodes=8", "32", 4),
        ("#SBATCH --job-name=fit", "$nnodes", 1),
        ("#SBATCH --job-name=fit", "8", None),
        ("#SBATCH --nodes=8", "$COUNT", None),
    ],
)
def test_the_tasks_of_a_step_win_over_those_of_a_node_of_the_job(
    tmp_path: Path, nodes: str, tasks: str, each: int | None
) -> None:
    (tmp_path / "job.sh").write_text(STEP.format(nodes=nodes, tasks=tasks))
    report = check([tmp_path])
    (run,) = report.runs
    assert run.plan.integer("launch.tasks_per_node") == each
    assert ("slurm-tasks-mismatch" in {found.rule for found in report.findings}) is (each == 4)


@pytest.mark.parametrize(
    ("exclusive", "told"), [("#SBATCH --exclusive\n", False), ("", True), ("#SBATCH --exclusive=user\n", True)]
)
def test_an_exclusive_job_has_all_gpus_of_its_nodes(tmp_path: Path, exclusive: str, told: bool) -> None:
    """What it asks for is the least, and more processes than that are no fault."""
    (tmp_path / "job.sh").write_text(
        f"#!/bin/bash\n#SBATCH -N 1\n#SBATCH --gres=gpu:1\n{exclusive}torchrun --nproc_per_node 4 train.py\n"
    )
    rules = {each.rule for each in check([tmp_path / "job.sh"]).findings}
    assert ("hostfile-slot-mismatch" in rules) is told


FIT = 'import lightning as L\nL.Trainer(devices=4, num_nodes=2, strategy="ddp").fit(model, data)\n'
TRAIN = "from torch.nn.parallel import DistributedDataParallel as DDP\nDDP(net)(batch).backward()\n"
FOUR = "#SBATCH --ntasks-per-node=4\n#SBATCH --gres=gpu:4"
TRAINER = "srun python fit.py"
AGENT = "srun torchrun --nnodes {} --nproc_per_node 4 --rdzv_backend c10d --rdzv_endpoint $HEAD:29500 fit.py"
JOBS = {
    "no nodes": (FOUR, TRAINER, "", True),
    "in an array": (f"{FOUR}\n#SBATCH --array=0-3", TRAINER, "", True),
    "submitted with other options": (FOUR, TRAINER, "sbatch --time=$T job.sh", True),
    "submitted with one node": (FOUR, TRAINER, "sbatch -N 1 job.sh", True),
    "agents": ("#SBATCH --gres=gpu:4", AGENT.format(2), "", True),
    "agents on fewer nodes": ("#SBATCH --gres=gpu:4\n#SBATCH -N 2", AGENT.format(4), "", True),
    "nodes": (f"{FOUR}\n#SBATCH -N 2", TRAINER, "", False),
    "as many nodes as tasks make": (f"{FOUR}\n#SBATCH -n 8", TRAINER, "", False),
    "as many nodes as GPUs make": (f"{FOUR}\n#SBATCH -G 8", TRAINER, "", False),
    "nodes by name": (f"{FOUR}\n#SBATCH -w node[01-02]", TRAINER, "", False),
    "submitted with nodes": (FOUR, TRAINER, "sbatch -N 2 job.sh", False),
    "submitted with anything": (FOUR, TRAINER, "sbatch $OPTIONS job.sh", False),
    "agents on all nodes": ("#SBATCH --gres=gpu:4\n#SBATCH -N 2", AGENT.format(2), "", False),
    "agents on as many as there are": ("#SBATCH --gres=gpu:4", AGENT.format("$SLURM_NNODES"), "", False),
}


@pytest.mark.parametrize(("lines", "start", "submits", "told"), JOBS.values(), ids=JOBS)
def test_a_job_that_asks_for_fewer_nodes_than_it_counts_on(
    tmp_path: Path, lines: str, start: str, submits: str, told: bool
) -> None:
    (tmp_path / "fit.py").write_text(FIT if start == TRAINER else TRAIN)
    (tmp_path / "job.sh").write_text(f"#!/bin/bash\n{lines}\n{start}\n")
    (tmp_path / "submit.sh").write_text(f"{submits}\n")
    found = [each for each in check([tmp_path]).findings if each.rule == "slurm-tasks-mismatch"]
    assert [each.severity for each in found] == (["error"] if told else [])


def test_devices_that_a_config_may_tell_otherwise_are_not_counted(tmp_path: Path) -> None:
    given = 'import lightning as L\nL.Trainer(devices=cfg.get("devices", 1), strategy="ddp").fit(model, data)\n'
    (tmp_path / "fit.py").write_text(given)
    (tmp_path / "job.sh").write_text(f"#!/bin/bash\n{FOUR}\n#SBATCH -N 1\n{TRAINER} +devices=4\n")
    assert [each for each in check([tmp_path / "job.sh"]).findings if each.rule == "slurm-tasks-mismatch"] == []


ON_EACH_NODE = """#!/bin/bash
#SBATCH --nodes=4
#SBATCH --ntasks-per-node=1
#SBATCH --gpus-per-node=8
{srun} {launch} train.py
"""
BY_FILE = "accelerate launch --config_file accelerate.yaml"
BY_TORCHRUN = "torchrun --nnodes=1 --nproc_per_node=8"


@pytest.mark.parametrize(
    ("srun", "launch", "told"),
    [
        ("srun", BY_FILE, ["srun starts the launcher on 4 nodes, and num_machines is 1"]),
        ("srun -n 4", BY_FILE, ["srun starts the launcher on 4 nodes, and num_machines is 1"]),
        ("srun -N 2", BY_FILE, ["srun starts the launcher on 2 nodes, and num_machines is 1"]),
        (
            "srun",
            "accelerate launch --multi_gpu --num_machines 2 --num_processes 16 --main_process_ip head",
            ["srun starts the launcher on 4 nodes, and num_machines is 2"],
        ),
        ("srun", BY_TORCHRUN, ["4 nodes are allocated, the launch spans 1"]),
        ("srun --nodes=1 --ntasks=1", BY_FILE, []),
        ("srun --nodes=1 --ntasks=1", BY_TORCHRUN, ["4 nodes are allocated, the launch spans 1"]),
        ("srun -w $host", BY_FILE, []),
        ("srun $MORE", BY_FILE, []),
        ("srun -N 2", BY_FILE + " --num_machines 2 --num_processes 16", []),
        ("srun", "accelerate launch --multi_gpu --num_processes 8", []),
    ],
)
def test_nodes_that_srun_starts_a_launch_on_and_that_it_does_not_count(
    tmp_path: Path, srun: str, launch: str, told: list[str]
) -> None:
    (tmp_path / "job.sh").write_text(ON_EACH_NODE.format(srun=srun, launch=launch))
    (tmp_path / "accelerate.yaml").write_text("distributed_type: MULTI_GPU\nnum_machines: 1\nnum_processes: 8\n")
    found = [each.message for each in check([tmp_path / "job.sh"]).findings if each.rule == "idle-gpus"]
    assert [message.partition(":")[0] for message in found] == told


TWO_NODES = "#!/bin/bash\n#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --gres=gpu:4\n"
ONE_OF_THEM = "srun -N1 -n1 torchrun --nnodes=1 --nproc_per_node=4 train.py"
NUMBERED = "srun -N1 -n1 torchrun --nnodes=2 --nproc_per_node=4 --master_addr $A --node_rank"


@pytest.mark.parametrize(
    ("lines", "idle"),
    [
        (f"{ONE_OF_THEM}\n", True),
        (f"{ONE_OF_THEM} --lr 1\n{ONE_OF_THEM} --lr 2\n", True),
        (f"{ONE_OF_THEM} --lr 1 &\nwait\n{ONE_OF_THEM} --lr 2 &\nwait\n", True),
        (f"srun -N1 nvidia-smi dmon &\n{ONE_OF_THEM}\n", True),
        (f"{ONE_OF_THEM} --lr 1 &\n{ONE_OF_THEM} --lr 2 &\nwait\n", False),
        (f"{ONE_OF_THEM} --lr 1 &\nsleep 5\n{ONE_OF_THEM} --lr 2\n", False),
        (f"for lr in 1 2; do\n  {ONE_OF_THEM} --lr $lr &\ndone\nwait\n", False),
        (f"srun -N1 -n1 python serve.py &\n{ONE_OF_THEM}\n", False),
        (f"{ONE_OF_THEM} &\nsrun -N1 -n1 bash evaluate.sh\nwait\n", False),
    ],
)
def test_nodes_on_which_other_steps_run_are_not_idle(tmp_path: Path, lines: str, idle: bool) -> None:
    (tmp_path / "job.sh").write_text(TWO_NODES + lines)
    assert ("idle-gpus" in {each.rule for each in check([tmp_path / "job.sh"]).findings}) == idle


def test_the_nodes_of_one_launch_are_no_steps_beside_it(tmp_path: Path) -> None:
    script = TWO_NODES.replace("nodes=2", "nodes=4") + f"{NUMBERED} 0 train.py &\n{NUMBERED} 1 train.py\n"
    (tmp_path / "job.sh").write_text(script)
    assert "idle-gpus" in {each.rule for each in check([tmp_path / "job.sh"]).findings}
