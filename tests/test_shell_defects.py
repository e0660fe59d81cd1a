"""What bash refuses is said with its place, what comes before and behind is read; and loops without end are left."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from dtlint.api import check
from dtlint.languages.shell import read_script
from dtlint.languages.traced import Script
from dtlint.runs import Options, read_runs
from dtlint.source import Source


def read(text: str) -> Script:
    return read_script(Source("launch.sh", text))


def launches(script: Script) -> list[str]:
    (world,) = script.worlds
    return [
        " ".join(word.shown for word in command.argv)
        for command in world.commands
        if command.argv[0].text == "torchrun"
    ]


def refusals(script: Script) -> list[tuple[int, int, str]]:
    return [(problem.span.line, problem.span.column, problem.message) for problem in script.problems if problem.fatal]


@pytest.mark.parametrize(
    ("opened", "place", "message"),
    [
        ('echo "abc', (2, 6), 'this " is never closed'),
        ("echo 'abc", (2, 6), "this ' is never closed"),
        ("X=$(echo abc", (2, 3), "this parenthesis is never closed"),
        ("echo `abc", (2, 6), "this ` is never closed"),
        ("echo ${X", (2, 6), "${ is never closed"),
        ("X=((3 * 4))", (2, 3), "this is an array, which begins with no second (; $(( )) computes a number"),
        ("A=(1 2", (2, 3), "this ( of an array is never closed"),
        ("if true; then", (2, 1), "this if has no fi"),
        ("echo )", (2, 6), "')' has no beginning"),
    ],
)
def test_what_bash_refuses_is_fatal_and_the_lines_around_it_are_read(
    opened: str, place: tuple[int, int], message: str
) -> None:
    script = read(f"torchrun first.py\n{opened}\ntorchrun --nproc_per_node 8 second.py\n")
    assert refusals(script)[0] == (*place, message)
    assert launches(script)[0] == "torchrun first.py"
    assert launches(script)[-1].endswith("second.py") or opened.startswith(("A=", "X="))


@pytest.mark.parametrize(
    "text",
    [
        "for i in a; do if true; then torchrun train.py; fi done",
        "if true; then for i in a; do torchrun train.py; done fi",
        "if [[ a ]] then torchrun train.py; fi",
        "if ((1)) then torchrun train.py; fi",
        "if (true) then torchrun train.py; fi",
        "{ { torchrun train.py; } }",
        "for i in a; do true && { torchrun train.py; } done",
        "case a in a) { torchrun train.py; } esac",
        "if true; then { torchrun train.py; } else exit; fi",
        "for i in a; do run() { torchrun train.py; } done; run",
    ],
)
def test_behind_a_compound_command_bash_wants_no_separator(text: str) -> None:
    script = read(text)
    assert refusals(script) == []
    assert launches(script) == ["torchrun train.py"]


@pytest.mark.parametrize(
    "text",
    ["for i in a; do if true; then :; fi > log done\n", "if true then :; fi\n", "if true; then :; fi echo\n"],
)
def test_behind_a_simple_command_or_a_redirection_it_wants_one(text: str) -> None:
    assert refusals(read(text))


def test_placeholders_and_open_heredocs_are_no_refusals() -> None:
    script = read("CKPT=<Specify path>\ntorchrun --load <path> $CKPT x.py\ncat > ds.json <<EOF\n{}\n")
    assert launches(script) == ["torchrun --load ? ? x.py"]
    assert refusals(script) == []
    assert [problem.message for problem in script.problems] == ["the heredoc EOF is never closed"]


def test_a_placeholder_may_hold_parentheses() -> None:
    script = read("torchrun --nproc_per_node <number of GPUs (8)> x.py\n")
    assert launches(script) == ["torchrun --nproc_per_node ? x.py"]
    assert refusals(script) == []


@pytest.mark.parametrize(
    ("text", "count"), [("DATA=<where your data is >\n", 0), ("sort <a > b\n", 0), ("sort < a >\n", 1)]
)
def test_a_placeholder_may_end_in_a_blank_where_a_redirection_lacks_its_file(text: str, count: int) -> None:
    assert len(refusals(read(text))) == count


@pytest.mark.parametrize("hole", ['<"your_dir">', "<'your dir'>"])
def test_a_placeholder_may_hold_quotes(hole: str) -> None:
    script = read(f"torchrun x.py --out {hole} \\\n  --data {hole}/all --cache {hole}\n")
    assert launches(script) == ["torchrun x.py --out ? --data ?/all --cache ?"]
    assert refusals(script) == []


def test_a_quoted_name_between_redirections_is_a_file() -> None:
    assert launches(read("torchrun x.py <'in.txt'> out.txt\n")) == ["torchrun x.py"]


def test_a_redirection_without_a_file_is_refused() -> None:
    ((_, _, message),) = refusals(read("torchrun x.py --out 'dir' >\n"))
    assert message == "> is not followed by a file"


def test_a_template_is_not_refused_for_what_is_to_be_filled_in() -> None:
    script = read("torchrun --nproc_per_node {{ gpus }} x.py\nif {% if many %} then {{ a) }}\n")
    assert launches(script)[0].startswith("torchrun --nproc_per_node")
    assert refusals(script) == []


def test_a_backslash_at_the_end_of_a_file_is_nothing_and_in_a_command_text_itself() -> None:
    assert launches(read("torchrun x.py \\")) == ["torchrun x.py"]
    assert launches(read("torchrun x.py\\")) == ["torchrun x.py"]
    assert launches(read("bash -c 'torchrun x.py \\'")) == ["torchrun x.py \\"]


def test_every_line_behind_a_comment_in_a_continuation_is_lost_to_the_same_command() -> None:
    script = read(
        "torchrun a.py \\\n  # one\n  --b $(date) \\\n  # two\n  --c 1 \\\n  # three\n  model.d=2\ntorchrun e.py\n"
    )
    assert [(lost.command.line, lost.cause.line, lost.words.line) for lost in script.lost] == [
        (1, 2, 3),
        (1, 4, 5),
        (1, 6, 7),
    ]
    assert launches(script) == ["torchrun a.py", "torchrun e.py"]


def test_a_loop_that_a_condition_may_end_leaves_unknowns() -> None:
    assert launches(read("while true; do if ping $H; then break; fi; N=$((N+1)); done\ntorchrun $N\n")) == [
        "torchrun ?"
    ]
    assert launches(read("for i in 1 2; do if ping $H; then break; fi; L=$i; done\ntorchrun $L\n")) == ["torchrun ?"]
    assert launches(read("X=$(if ping $H; then echo a; else echo b; fi)\ntorchrun x$X\n")) == ["torchrun x??"]


def test_a_variable_that_the_caller_must_set_is_unknown_behind_the_check() -> None:
    check = 'if [ -z "$NODES" ]; then echo usage; exit 1; fi\n'
    assert launches(read(check + "torchrun --nnodes=$NODES x.py\nNODES=\n")) == ["torchrun --nnodes=? x.py"]


def test_what_an_option_of_the_script_must_set_is_unknown_behind_the_check() -> None:
    loop = "MODEL=''\nGPUS=8\nwhile [[ $# -gt 0 ]]; do case $1 in --m) MODEL=$2; shift 2;; --g) GPUS=$2; shift 2;; esac; done\n"
    check = 'if [[ -z "$MODEL" || -z "$GPUS" ]]; then echo usage; exit 1; fi\n'
    assert launches(read(loop + check + "torchrun --nproc_per_node=$GPUS x.py --m=$MODEL\n")) == [
        "torchrun --nproc_per_node=8 x.py --m=?"
    ]


def test_a_condition_of_several_tests_keeps_its_brackets() -> None:
    script = read("if [[ -f a ]] && grep -q b a; then N=1; else N=2; fi\ntorchrun $N\n")
    assert {world.branch for world in script.worlds} == {
        "[[ -f a ]] && grep -q b a",
        "not ([[ -f a ]] && grep -q b a)",
    }


def test_in_a_script_for_slurm_a_job_is_there() -> None:
    ladder = 'if [ -z "$SLURM_JOB_ID" ]; then N=1; else N=2; fi\ntorchrun $N\n'
    assert launches(read("#SBATCH --nodes=2\n" + ladder)) == ["torchrun 2"]
    assert len(read(ladder).worlds) == 2


@pytest.mark.parametrize(
    ("srun", "nodes"), [("srun", 2), ("srun -N 4", 4), ("srun --nodes=4 --container-image=x", 4), ("", 2)]
)
def test_a_shell_in_a_job_has_what_slurm_sets(srun: str, nodes: int) -> None:
    text = f"#SBATCH --nodes=2\n{srun} bash -c 'torchrun --nnodes $SLURM_NNODES train.py'\n"
    assert f"torchrun --nnodes {nodes} train.py" in launches(read(text))


@pytest.mark.parametrize(
    ("start", "words"),
    [
        ("mpirun -np 4 -npernode 1 -x A=$N -x B", "1 2"),
        ("mpiexec -n 4 -genv A $N", "1 2"),
        ("mpiexec -n 4 -env A=$N", "1 2"),
        ("srun --export=ALL,A=$N", "1 2"),
        ("srun --export A=$N", "1 ?"),
        ("srun --export=NONE", "? ?"),
        ("env A=$N B=3", "1 3"),
        ("B=3", "? 3"),
        ("docker run -e A=$N image", "1 ?"),
        ("docker run --env=A=$N -e B image", "1 2"),
        ("apptainer exec --env A=$N,B=3 image", "1 3"),
        ("mpirun -np 4", "? 2"),
        ("", "? 2"),
    ],
)
def test_a_shell_has_what_its_wrapper_hands_it(start: str, words: str) -> None:
    text = f"N=1\nexport B=2\n{start} bash -c 'torchrun --n $A $B \\\n  x.py'\n"
    assert f"torchrun --n {words} x.py" in launches(read(text))


def test_what_a_shell_is_handed_it_hands_on() -> None:
    text = "mpirun -x A=1 bash -c 'torchrun a.py; bash -c \"torchrun b.py \\$A\"'\n"
    script = read(text)
    assert "torchrun b.py 1" in launches(script)
    starts = [command for command in script.worlds[0].commands if command.argv[0].text == "torchrun"]
    assert [command.env["A"].text for command in starts] == ["1", "1"]


def test_arguments_behind_a_loop_that_may_leave_some_stay_open() -> None:
    loop = "while [ $# -gt 0 ]; do case $1 in --) shift; break;; *) shift;; esac; done\n"
    assert launches(read(loop + 'torchrun x.py "$@"\n')) == ["torchrun x.py ?"]


ENDLESS = {
    "one": "while true; do X=$((X+1)); done",
    "nested": "while :; do until false; do while [ 1 ]; do X=a$X; done; done; done",
    "arithmetic": "for ((;;)); do for i in {1..60}; do X=$(echo $i | tr 1 2); done; done",
    "grid": "for i in {1..60}; do for j in {1..60}; do for X in {1..60}; do :; done; done; done; X=$(f)",
}


@pytest.mark.parametrize("text", ENDLESS.values(), ids=ENDLESS.keys())
def test_a_loop_without_end_is_left_soon_and_what_it_sets_is_unknown(text: str) -> None:
    read("while true; do if [ 1 ]; then X=$(echo 1 | tr 1 2); fi; done")
    started = time.process_time()
    assert launches(read(text + "\ntorchrun $X\n")) == ["torchrun ?"]
    assert time.process_time() - started < 0.2  # 0.05 on an idle machine


def test_a_loop_that_starts_more_than_is_followed_says_so() -> None:
    script = read("for i in {1..100}; do torchrun $i; done\n")
    assert len(launches(script)) == 64
    assert [problem.message.partition(";")[0] for problem in script.problems] == [
        "this loop runs more often than is followed"
    ]


class TestCarriageReturns:
    def test_a_script_with_line_ends_of_windows_is_refused_once_and_read_on(self) -> None:
        script = read_script(Source("run.sh", "#!/bin/bash\r\nexport X=1\r\ntorchrun --nproc_per_node $X train.py\r\n"))
        assert [(problem.fatal, "CR LF" in problem.message) for problem in script.problems] == [(True, True)]
        (command,) = script.worlds[0].commands
        assert [word.shown for word in command.argv] == ["torchrun", "--nproc_per_node", "1", "train.py"]

    def test_one_command_runs(self) -> None:
        script = read_script(Source("run.sh", "deepspeed train.py --path './runs'\r\n"))
        assert not script.problems
        assert script.worlds[0].commands[0].argv[-1].shown == "./runs"

    @pytest.mark.parametrize("start", ["<<EOF", "<<'EOF'", "<<-EOF"])
    def test_they_end_a_heredoc_in_the_line_of_its_delimiter(self, start: str) -> None:
        text = f'cat > ds.json {start}\n{{"stage": 2}}\nEOF\ntorchrun train.py\n'.replace("\n", "\r\n")
        script = read_script(Source("run.sh", text))
        assert [problem.message for problem in script.problems if "heredoc" in problem.message] == []
        assert script.worlds[0].files["ds.json"].text == '{"stage": 2}\r\n'
        assert [word.shown for word in script.worlds[0].commands[0].argv] == ["torchrun", "train.py"]

    def test_a_lone_one_behind_a_delimiter_leaves_the_heredoc_open(self) -> None:
        script = read_script(Source("run.sh", "cat > a <<EOF\nx\nEOF\r\ntorchrun train.py\n"))
        assert [problem.message for problem in script.problems] == ["the heredoc EOF is never closed"]
        assert not script.worlds[0].commands

    def test_a_carriage_return_behind_a_backslash_ends_the_command(self) -> None:
        script = read_script(Source("run.sh", "torchrun train.py \\\r\n  --bf16 True\r\n"))
        assert [lost.words.text.strip() for lost in script.lost] == ["--bf16 True"]


@pytest.mark.parametrize(
    ("ends", "rules"), [("\r\n", ["unreadable-input"]), ("\n", ["lost-arguments"])], ids=["every line", "one line"]
)
def test_carriage_returns_are_told_once(tmp_path: Path, ends: str, rules: list[str]) -> None:
    text = f"#!/bin/bash{ends}torchrun --nproc_per_node 8 train.py \\\r\n  --bf16 True \\{ends}  --epochs 3{ends}"
    (tmp_path / "run.sh").write_text(text, newline="")
    found = check([tmp_path / "run.sh"]).findings
    assert [each.rule for each in found] == rules
    assert "carriage return" in found[0].message
    assert "LF" in found[0].remedies[0].text


def test_a_script_for_another_shell_is_not_held_against_bash(tmp_path: Path) -> None:
    text = "list=(${(s:,:)DEVICES})\ntorchrun --nproc_per_node 8 train.py\n"
    for shell, problems in (("bash", 1), ("zsh", 0)):
        (tmp_path / "run.sh").write_text(f"#!/usr/bin/env {shell}\n{text}")
        read_there = read_runs([tmp_path / "run.sh"], Options())
        assert (len(read_there.problems), len(read_there.runs)) == (problems, 1)
