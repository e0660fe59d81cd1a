"""Scripts that other scripts, jobs and manifests start: each is read with what its caller hands it, and judged once."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dtlint.api import check, options_of
from dtlint.runs import read_runs
from dtlint.runs.model import Run, RunSet

BASH = shutil.which("bash")
LAUNCH = "torchrun --nproc_per_node 8 train.py"


def reading(folder: Path, files: Mapping[str, str], *focus: str, arguments: Mapping[str, str] | None = None) -> RunSet:
    """What the focused files of a tree, or all of it, amount to."""
    (folder / ".git").mkdir()
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    paths = [folder / name for name in focus] or [folder]
    options = options_of({})._replace(arguments=arguments or {}, current=folder)
    return read_runs(paths, options)


def words(run: Run) -> str:
    """The arguments of the program that a run launches, `?` for what is unknown."""
    assert run.launch is not None
    shown = [word.shown for word in run.launch.argv]
    return " ".join(shown[shown.index("train.py") + 1 :])


def place(run: Run) -> tuple[str, int]:
    assert run.launch is not None
    return run.launch.place.path, run.launch.place.line


def launched(folder: Path, files: Mapping[str, str], *focus: str) -> list[str]:
    return [words(run) for run in reading(folder, files, *focus).runs]


INNER = f'{LAUNCH} --a "$1" --b "$B"\n'


class TestWhatTheCallerHandsOver:
    @pytest.mark.parametrize(
        "command",
        [
            "bash inner.sh 4",
            "sh inner.sh 4",
            "bash -ex ./inner.sh 4",
            "bash -o pipefail inner.sh 4",
            "./inner.sh 4",
            "exec ./inner.sh 4",
            "command bash inner.sh 4",
            "nohup bash inner.sh 4 > log 2>&1 &",
            "timeout 3h bash inner.sh 4",
            "time bash inner.sh 4",
            "env C=1 bash inner.sh 4",
            "numactl --membind 0 bash inner.sh 4",
            "srun bash inner.sh 4",
            "srun -N 2 --ntasks-per-node 1 ./inner.sh 4",
            "mpirun -np 2 -x B bash inner.sh 4",
            "ssh host bash inner.sh 4",
            "singularity exec image.sif bash inner.sh 4",
            "docker run --rm -e B image bash inner.sh 4",
            "bash -c 'bash inner.sh 4'",
            "srun bash -c './inner.sh 4'",
            "sbatch inner.sh 4",
            "sbatch --export=ALL inner.sh 4",
            "xargs -n 1 bash inner.sh 4",
            "f() { bash inner.sh $1; }; f 4",
            "X=$(pwd); bash $X/inner.sh 4",
            'bash "$(dirname "$0")/inner.sh" 4',
            'bash "$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)/inner.sh" 4',
        ],
    )
    def test_arguments_and_exported_variables(self, tmp_path: Path, command: str) -> None:
        files = {"outer.sh": f"export B=7\n{command}\n", "inner.sh": INNER}
        assert launched(tmp_path, files, "outer.sh") == ["--a 4 --b 7"]

    @pytest.mark.parametrize(
        ("command", "told"),
        [
            ("B=8 bash inner.sh 4", "--a 4 --b 8"),
            ("env B=8 bash inner.sh 4", "--a 4 --b 8"),
            ("docker run -e B=8 image bash inner.sh 4", "--a 4 --b 8"),
            ("srun --export=ALL,B=8 bash inner.sh 4", "--a 4 --b 8"),
            ("srun --export=NONE bash inner.sh 4", "--a 4 --b ?"),
            ("mpiexec -n 2 -genv B 8 bash inner.sh 4", "--a 4 --b 8"),
            ("sbatch --export=B=8 inner.sh 4", "--a 4 --b 8"),
            ("sbatch --export=ALL,B=8 inner.sh 4", "--a 4 --b 8"),
            ("docker run image bash inner.sh 4", "--a 4 --b ?"),
            ("sbatch --export=NONE inner.sh 4", "--a 4 --b ?"),
            ("export -n B; bash inner.sh 4", "--a 4 --b ?"),
            ("bash inner.sh $UNKNOWN", "--a ? --b 7"),
        ],
    )
    def test_what_a_wrapper_sets_or_holds_back(self, tmp_path: Path, command: str, told: str) -> None:
        files = {"outer.sh": f"export B=7\n{command}\n", "inner.sh": INNER}
        assert launched(tmp_path, files, "outer.sh") == [told]

    def test_arguments_that_may_follow_stay_open(self, tmp_path: Path) -> None:
        files = {"outer.sh": 'bash inner.sh 4 "$@"\n', "inner.sh": f'{LAUNCH} --a "$1" --b "$2"\n'}
        (run,) = reading(tmp_path, files, "outer.sh").runs
        assert run.launch is not None
        assert words(run) == "--a 4 --b ?"
        assert run.launch.argv[-1].pieces[0].how == "--arg 1=..."

    @pytest.mark.parametrize(
        "lines",
        [
            'if [[ $1 -eq 1 ]]; then MORE=--more; fi\n$LAUNCH --a "$1" --b "$2" $MORE\n',
            'A=($X $Y)\nif [ "${A[0]}" = 1 ]; then MORE=--more; fi\n$LAUNCH --a "${A[0]}" --b "${A[1]}" $MORE\n',
        ],
    )
    def test_what_is_learnt_of_one_unknown_word_says_nothing_of_the_next(self, tmp_path: Path, lines: str) -> None:
        files = {"outer.sh": "bash inner.sh $X $Y\n", "inner.sh": lines.replace("$LAUNCH", LAUNCH)}
        assert launched(tmp_path, files, "outer.sh") == ["--a 1 --b ? --more", "--a ? --b ?"]

    def test_paths_begin_where_the_caller_stands(self, tmp_path: Path) -> None:
        files = {
            "outer.sh": "cd work\nbash ../scripts/inner.sh\n",
            "scripts/inner.sh": "deepspeed train.py --deepspeed --deepspeed_config ds.json\n",
            "work/ds.json": '{"train_batch_size": 64}',
            "scripts/ds.json": '{"train_batch_size": 32}',
        }
        (run,) = reading(tmp_path, files, "outer.sh").runs
        assert run.plan.value("batch.global") == 64

    def test_files_beside_the_script_are_found_too(self, tmp_path: Path) -> None:
        files = {
            "outer.sh": "bash scripts/inner.sh\n",
            "scripts/inner.sh": "deepspeed train.py --deepspeed --deepspeed_config ds.json\n",
            "scripts/ds.json": '{"train_batch_size": 32}',
        }
        (run,) = reading(tmp_path, files, "outer.sh").runs
        assert run.plan.value("batch.global") == 32

    def test_a_file_that_the_caller_writes(self, tmp_path: Path) -> None:
        files = {
            "outer.sh": "echo '{\"train_batch_size\": 48}' > ds.json\nbash inner.sh\n",
            "inner.sh": "deepspeed train.py --deepspeed --deepspeed_config ds.json\n",
        }
        (run,) = reading(tmp_path, files, "outer.sh").runs
        assert run.plan.value("batch.global") == 48

    def test_a_script_that_the_caller_writes(self, tmp_path: Path) -> None:
        script = f"cat > job.sh <<EOF\n#!/bin/bash\n#SBATCH --nodes=3\n{LAUNCH} --a $A\nEOF\nsbatch job.sh\n"
        (run,) = reading(tmp_path, {"outer.sh": f"A=5\n{script}"}, "outer.sh").runs
        assert (words(run), run.plan.value("cluster.nodes")) == ("--a 5", 3)
        assert place(run)[0] == "outer.sh"


class TestJobs:
    JOB = f"#!/bin/bash\n#SBATCH --nodes=8\n#SBATCH --gpus-per-node=4\nsrun {LAUNCH} --a $SLURM_NNODES\n"

    def test_a_submitted_script_has_its_own_directives(self, tmp_path: Path) -> None:
        (run,) = reading(tmp_path, {"submit.sh": "sbatch job.sh\n", "job.sh": self.JOB}, "submit.sh").runs
        assert (run.plan.value("cluster.nodes"), words(run)) == (8, "--a 8")

    def test_what_sbatch_is_told_counts_more(self, tmp_path: Path) -> None:
        (run,) = reading(tmp_path, {"submit.sh": "sbatch -N 2 job.sh\n", "job.sh": self.JOB}, "submit.sh").runs
        assert (run.plan.value("cluster.nodes"), run.plan.value("cluster.gpus_per_node")) == (2, 4)
        assert words(run) == "--a 2"

    @pytest.mark.parametrize("waiting", ["--wait", "-W", "--parsable --wait", "--wait -p gpu"])
    def test_a_submission_that_waits_says_its_nodes_behind(self, tmp_path: Path, waiting: str) -> None:
        files = {"submit.sh": f"sbatch {waiting} -N 2 job.sh\n", "job.sh": self.JOB}
        (run,) = reading(tmp_path, files, "submit.sh").runs
        assert (run.plan.value("cluster.nodes"), words(run)) == (2, "--a 2")

    def test_a_submission_that_waits_for_a_script(self, tmp_path: Path) -> None:
        (run,) = reading(tmp_path, {"submit.sh": "sbatch -N 2 --wait job.sh\n", "job.sh": self.JOB}, "submit.sh").runs
        assert (run.plan.value("cluster.nodes"), words(run)) == (2, "--a 2")

    def test_each_submission_is_a_run(self, tmp_path: Path) -> None:
        files = {"submit.sh": "for n in 1 2 4; do sbatch -N $n job.sh; done\n", "job.sh": self.JOB}
        assert [run.plan.value("cluster.nodes") for run in reading(tmp_path, files, "submit.sh").runs] == [1, 2, 4]

    def test_a_script_inside_a_job_runs_on_its_machines(self, tmp_path: Path) -> None:
        files = {
            "job.sh": "#!/bin/bash\n#SBATCH --nodes=8\nsrun --ntasks-per-node=1 bash inner.sh\n",
            "inner.sh": f"#!/bin/bash\n#SBATCH --nodes=2\n{LAUNCH} --a $SLURM_NNODES\n",
        }
        (run,) = reading(tmp_path, files, "job.sh").runs
        assert (run.plan.value("cluster.nodes"), words(run)) == (8, "--a 8")

    def test_the_machines_of_a_node_loop_are_one_run(self, tmp_path: Path) -> None:
        files = {
            "outer.sh": "for i in 0 1; do ssh host$i bash inner.sh $i & done\n",
            "inner.sh": "torchrun --nnodes 2 --nproc_per_node 8 --node_rank $1 --master_addr host0 train.py\n",
        }
        (run,) = reading(tmp_path, files, "outer.sh").runs
        assert run.plan.value("launch.nodes") == 2


class TestHandingOn:
    @pytest.mark.parametrize("ending", ['exec "$@"', '"$@"', 'numactl --localalloc "$@"'])
    def test_a_wrapper_script_starts_what_it_is_given(self, tmp_path: Path, ending: str) -> None:
        files = {
            "outer.sh": f"#!/bin/bash\nsrun -N 2 bash wrap.sh {LAUNCH} --a 3\n",
            "wrap.sh": f"export NCCL_DEBUG=WARN\n{ending}\n",
        }
        (run,) = reading(tmp_path, files).runs
        assert (words(run), place(run)) == ("--a 3", ("outer.sh", 2))
        assert run.plan.value("communication.env") == (("NCCL_DEBUG", "WARN"),)
        assert run.files == ("outer.sh", "wrap.sh")

    def test_a_wrapper_script_names_the_launcher(self, tmp_path: Path) -> None:
        files = {"outer.sh": "bash wrap.sh --a 3\n", "wrap.sh": f'{LAUNCH} "$@"\n'}
        (run,) = reading(tmp_path, files).runs
        assert (words(run), place(run)) == ("--a 3", ("wrap.sh", 1))

    def test_places_stay_where_the_text_stands(self, tmp_path: Path) -> None:
        files = {"outer.sh": "bash inner.sh 3\n", "inner.sh": f"{LAUNCH} --a $1\n"}
        (run,) = reading(tmp_path, files).runs
        assert run.launch is not None
        assert [(span.path, span.line) for span in (run.launch.place, run.launch.argv[-1].pieces[0].span)] == [
            ("inner.sh", 1),
            ("outer.sh", 1),
        ]


class TestJudgedOnce:
    FILES: Mapping[str, str] = {
        "outer.sh": "export B=7\nbash inner.sh 4\n",
        "inner.sh": INNER,
        "other.sh": f"{LAUNCH} --c\n",
    }

    def test_a_folder_tells_each_launch_as_its_callers_make_it(self, tmp_path: Path) -> None:
        assert sorted(launched(tmp_path, self.FILES)) == ["--a 4 --b 7", "--c"]

    def test_a_focused_script_has_the_callers_of_the_tree(self, tmp_path: Path) -> None:
        assert launched(tmp_path, self.FILES, "inner.sh") == ["--a 4 --b 7"]

    def test_callers_have_callers(self, tmp_path: Path) -> None:
        files = {"job.sh": "bash outer.sh 4\n", "outer.sh": "export B=9\nbash inner.sh $1\n", "inner.sh": INNER}
        assert launched(tmp_path, files, "inner.sh") == ["--a 4 --b 9"]

    def test_several_callers_are_several_runs(self, tmp_path: Path) -> None:
        files = {"one.sh": "B=1 bash inner.sh 4\n", "two.sh": "B=2 bash inner.sh 4\n", "inner.sh": INNER}
        runs = reading(tmp_path, files).runs
        assert sorted((words(run), run.branch) for run in runs) == [
            ("--a 4 --b 1", "one.sh starts it with 4"),
            ("--a 4 --b 2", "two.sh starts it with 4"),
        ]

    def test_equal_starts_are_one_run(self, tmp_path: Path) -> None:
        files = {"one.sh": "B=1 bash inner.sh 4\n", "two.sh": "B=1 bash inner.sh 4\n", "inner.sh": INNER}
        (run,) = reading(tmp_path, files).runs
        assert (words(run), run.branch) == ("--a 4 --b 1", None)

    def test_a_launch_that_no_caller_reaches_stays(self, tmp_path: Path) -> None:
        inner = f'if [ "$1" = a ]; then\n{LAUNCH} --first\nelse\n{LAUNCH} --second\nfi\n'
        files = {"outer.sh": "bash inner.sh a\n", "inner.sh": inner}
        assert sorted(launched(tmp_path, files)) == ["--first", "--second"]

    def test_the_user_tells_the_arguments(self, tmp_path: Path) -> None:
        runs = reading(tmp_path, self.FILES, "inner.sh", arguments={"1": "5"}).runs
        assert [words(run) for run in runs] == ["--a 5 --b ?"]

    def test_a_finding_that_the_caller_makes_stands_in_its_file(self, tmp_path: Path) -> None:
        megatron = "pretrain_gpt.py --num-layers 32 --hidden-size 4096 --num-attention-heads 32 --bf16"
        inner = f"torchrun --nproc_per_node 8 {megatron} --micro-batch-size 1 --tensor-model-parallel-size $1\n"
        reading(tmp_path, {"outer.sh": "bash inner.sh 16\n", "inner.sh": inner}, "inner.sh")
        for focus in ("inner.sh", "outer.sh"):
            found = check([tmp_path / focus]).findings
            places = {Path(each.span.path).name: each.span.line for each in found if each.rule == "world-size-mismatch"}
            assert places == {"outer.sh": 1}


class TestOrchestrators:
    def test_a_manifest_starts_a_script(self, tmp_path: Path) -> None:
        pod = """
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  template:
    spec:
      containers:
        - name: main
          image: image
          command: ["bash", "/workspace/scripts/inner.sh", "4"]
          env: [{name: B, value: "7"}]
          resources: {limits: {nvidia.com/gpu: 8}}
"""
        (run,) = reading(tmp_path, {"job.yaml": pod, "scripts/inner.sh": INNER}, "job.yaml").runs
        assert (words(run), run.plan.value("cluster.gpus_per_node")) == ("--a 4 --b 7", 8)
        assert run.assumptions == (
            "scripts/inner.sh was taken for /workspace/scripts/inner.sh, whose folder is not here",
        )

    @pytest.mark.parametrize("focus", ["task.yaml", "inner.sh"])
    def test_a_task_starts_a_script(self, tmp_path: Path, focus: str) -> None:
        task = "num_nodes: 2\nresources: {accelerators: H100:8}\nenvs: {B: 7}\nrun: |\n  bash inner.sh 4\n"
        (run,) = reading(tmp_path, {"task.yaml": task, "inner.sh": INNER}, focus).runs
        assert (words(run), run.plan.value("cluster.nodes")) == ("--a 4 --b 7", 2)


class TestBounds:
    def test_scripts_that_start_each_other_end(self, tmp_path: Path) -> None:
        files = {"one.sh": f"bash two.sh\n{LAUNCH} --one\n", "two.sh": f"bash one.sh\n{LAUNCH} --two\n"}
        assert sorted(launched(tmp_path, files)) == ["--one", "--two"]

    def test_many_starts_are_not_all_followed_and_said(self, tmp_path: Path) -> None:
        starts = "".join(f"bash inner.sh {number}\n" for number in range(500))
        found = reading(tmp_path, {"outer.sh": starts, "inner.sh": f"{LAUNCH} --a $1\n"}, "outer.sh")
        assert len(found.runs) == 400
        assert [problem.message for problem in found.problems] == [
            "this starts more scripts than are followed; launches of the rest are not read"
        ]

    def test_long_scripts_are_not_followed_often(self, tmp_path: Path) -> None:
        starts = "".join(f"bash inner.sh {number}\n" for number in range(100))
        loop = 'for a in {1..60}; do for b in {1..3}; do echo "$1"; echo "$b"; done; done\n'
        found = reading(tmp_path, {"outer.sh": starts, "inner.sh": f"{loop}{LAUNCH} --a $1\n"}, "outer.sh")
        assert 10 < len(found.runs) < 99
        assert len(found.problems) == 1

    @pytest.mark.parametrize("command", ["bash $SCRIPT 4", "bash gone.sh 4", "bash -s 4 < inner.txt", "$RUN inner.sh"])
    def test_what_is_not_known_to_be_started_is_not_followed(self, tmp_path: Path, command: str) -> None:
        assert launched(tmp_path, {"outer.sh": f"{command}\n", "inner.sh": INNER}) == ["--a ? --b ?"]


RECORD = '#!/bin/bash\nprintf \'%s\\0\' "$#" "$@" >> "$RECORD"\n'
values = st.sampled_from(("1", "x y", "$A", '"$A"', '"$1"', "$2", '"$@"', "$#", "${C:-d}", "'$A'", '"$B/$1"', "$*"))
some = st.lists(values, max_size=3).map(" ".join)
settings_ = st.sampled_from(("A=1", "export A=2", "export B='p q'", 'export A="$1"', "unset B", "C=3", 'B="$B-$2"'))
starting = st.builds(
    "{}{}{} {}".format,
    st.sampled_from(("", "A=5 ", "B=$1 ", "env C=6 ", "nohup ", "timeout 9 ", "srun -N 2 ", "exec ")),
    st.sampled_from(("bash ", "sh ", "", "bash -e ")),
    st.sampled_from(("./two.sh", "./three.sh", "./sub/three.sh")),
    some,
).filter(lambda line: not line.startswith(("exec A", "exec B")))
launching = st.builds("{}torchrun {}".format, st.sampled_from(("", "srun ", "exec ")), some)
shifted = st.sampled_from(("shift", "set -- a b", 'case "$1" in x*) A=9;; *) A=8;; esac', "cd sub", ""))
loops = st.builds("for n in 1 2; do {} $n; done".format, starting.filter(lambda line: "exec" not in line))


def scripts(*lines: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.lists(st.one_of(*lines), min_size=1, max_size=5).map(lambda found: "\n".join((*found, "")))


last = scripts(
    launching, settings_, shifted.filter(lambda line: line != "cd sub"), st.just('"$@"'), st.just('torchrun "$@"')
)
middle = scripts(launching, settings_, starting.map(lambda line: line.replace("two.sh", "three.sh")), shifted)
first = scripts(launching, settings_, starting, loops, shifted)


def bash_starts(folder: Path) -> list[list[str]] | None:
    """The arguments of each torchrun that one.sh leads to; None where bash finds an error."""
    environment = {"PATH": f"{folder}/bin:{os.environ['PATH']}", "RECORD": f"{folder}/record", "LC_ALL": "C"}
    done = subprocess.run(
        [BASH or "", "one.sh"], cwd=folder, env=environment, capture_output=True, timeout=20, check=False
    )
    if any(not line.startswith(b"nohup:") for line in done.stderr.splitlines()):
        return None
    record = folder / "record"
    fields = iter(record.read_text("utf-8").split("\0")[:-1] if record.exists() else ())
    return [[next(fields) for _ in range(int(count))] for count in fields]


def put(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
        (folder / name).chmod(0o755)


def fits(ours: Sequence[str | None], theirs: Sequence[str]) -> bool:
    """Whether known words are those of bash; an unknown one may be any, and any number."""
    if None in ours:
        return all(word is None or word in theirs for word in ours)
    return list(ours) == list(theirs)


@pytest.mark.skipif(BASH is None, reason="there is no bash here")
@given(first, middle, last, last)
@settings(max_examples=60, deadline=None)
def test_chains_of_scripts_start_what_bash_starts(one: str, two: str, three: str, other: str) -> None:
    with TemporaryDirectory() as name:
        folder = Path(name)
        srun = '#!/bin/bash\nwhile [[ "$1" == -* ]]; do shift 2; done\nexec "$@"\n'
        put(folder, {"bin/torchrun": RECORD, "bin/srun": srun})
        put(folder, {"one.sh": f"set -- 'x y' 2\n{one}", "two.sh": two, "three.sh": three, "sub/three.sh": other})
        theirs = bash_starts(folder)
        if theirs is None:
            return
        runs = read_runs([folder / "one.sh"], options_of({})._replace(current=folder)).runs
        ours = {
            tuple(word.text for word in run.launch.argv[1:])
            for run in runs
            if run.launch is not None and run.launch.argv[0].text == "torchrun"
        }
        for started in ours:
            assert any(fits(started, each) for each in theirs), (started, theirs)
        for each in theirs:
            assert any(fits(started, each) for started in ours) or not each, (each, ours)
