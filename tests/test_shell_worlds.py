"""What scripts do under conditions that the files do not decide, and where unknowns come from."""

from __future__ import annotations

from pathlib import Path

import pytest

from dtlint.api import check
from dtlint.languages.shell import command_of, read_script
from dtlint.languages.shell.filters import FILTERS
from dtlint.languages.shell.simple_commands import FILTERED
from dtlint.languages.traced import OPEN_ARGUMENTS, Command, Piece, Script, unknown_at
from dtlint.source import Source


def read(text: str, **told: dict[str, str]) -> Script:
    return read_script(Source("launch.sh", text), **told)  # type: ignore[arg-type]


def launches(text: str, **told: dict[str, str]) -> list[list[str]]:
    return [[word.shown for word in command.argv] for command in commands(text, **told)]


def commands(text: str, **told: dict[str, str]) -> tuple[Command, ...]:
    (world,) = read(text, **told).worlds
    return world.commands


def branches(text: str) -> dict[str | None, list[str]]:
    worlds = read(text).worlds
    return {
        world.branch: [" ".join(word.shown for word in command.argv) for command in world.commands] for world in worlds
    }


def last_pieces(text: str) -> list[Piece]:
    """The last piece of the last word of the launch, in each world."""
    return [world.commands[-1].argv[-1].pieces[-1] for world in read(text).worlds]


def last_piece(text: str, **told: dict[str, str]) -> Piece:
    return commands(text, **told)[-1].argv[-1].pieces[-1]


LADDER = """
if [ "$SIZE" = 7b ]; then TP=1
elif [ "$SIZE" = 70b ]; then TP=8
else echo "unknown size"; exit 1
fi
torchrun --tp $TP --size $SIZE
"""


def test_a_ladder_on_an_unset_variable_gives_a_world_for_each_rung_that_goes_on() -> None:
    assert branches(LADDER) == {
        "$SIZE = 7b": ["torchrun --tp 1 --size 7b"],
        "$SIZE = 70b": ["torchrun --tp 8 --size 70b"],
    }


def test_a_given_variable_picks_the_rung() -> None:
    assert launches(LADDER, environment={"SIZE": "70b"}) == [["torchrun", "--tp", "8", "--size", "70b"]]


def test_a_case_on_an_argument_forks_and_an_argument_picks() -> None:
    script = "case $1 in 7b) TP=1;; 70b) TP=8;; esac\ntorchrun --tp $TP"
    assert list(branches(script)) == ["$1 = 7b", "$1 = 70b", "none of: $1 = 7b, $1 = 70b"]
    assert launches(script, arguments={"1": "70b"}) == [["torchrun", "--tp", "8"]]


def test_the_same_condition_is_decided_once() -> None:
    script = 'if [ "$X" -gt 4 ]; then A=1; else A=2; fi; if [ "$X" -gt 4 ]; then B=1; else B=2; fi; torchrun $A $B'
    assert branches(script) == {"$X -gt 4": ["torchrun 1 1"], "not ($X -gt 4)": ["torchrun 2 2"]}


def test_branches_that_reach_no_launch_do_not_fork() -> None:
    assert branches('if [ "$VERBOSE" = 1 ]; then MESSAGE=loud; echo $MESSAGE; fi\ntorchrun a') == {None: ["torchrun a"]}


def test_beyond_sixteen_worlds_what_differs_is_unknown() -> None:
    script = "".join(f'if [ "$V{n}" = 1 ]; then A{n}=x; else A{n}=y; fi\n' for n in range(5))
    script += "torchrun --fixed $A0 $A1 $A2 $A3 $A4"
    (command,) = commands(script)
    assert [word.text for word in command.argv] == ["torchrun", "--fixed", None, None, None, None, None]
    assert command.argv[2].pieces[-1].unknown == "depends on $V0 = 1"


def test_a_usage_check_is_passed() -> None:
    assert branches('if [ $# -lt 1 ]; then echo usage; exit 1; fi\n[ -z "$1" ] && exit 1\ntorchrun a') == {
        None: ["torchrun a"]
    }


@pytest.mark.parametrize(
    ("check", "goes_on"),
    [
        ('[ ! -f $LANG/words ] && echo "no words" && exit 1', True),
        ('[ -f $LANG/words ] || { echo "no words" && exit 1; }', True),
        ('[ -z "$1" ] && echo "no argument" >&2 && exit 1', True),
        ("[ -f $A ] && [ -f $B ] && exit 1", True),
        ('[ -f $LANG/words ] || echo "no words" && exit 1', False),
    ],
)
def test_what_ends_a_script_behind_an_undecided_check_ends_it_only_where_the_check_holds(
    check: str, goes_on: bool
) -> None:
    assert branches(f"{check}\ntorchrun a") == {None: ["torchrun a"] if goes_on else []}


def test_a_list_goes_on_behind_the_other_operator_where_a_test_fails() -> None:
    assert branches('[ -n "$BIG" ] && TP=8 || TP=1\ntorchrun $TP') == {
        "-n $BIG": ["torchrun 8"],
        "not (-n $BIG)": ["torchrun 1"],
    }


def test_a_variable_that_the_script_itself_sets_is_empty_before() -> None:
    assert launches('ARGS="$ARGS --x"\ntorchrun $ARGS') == [["torchrun", "--x"]]
    assert launches('if [ -z "$NODES" ]; then NODES=2; fi\ntorchrun $NODES') == [["torchrun", "2"]]


@pytest.mark.parametrize("path", ["$1", "$CONFIG", "conf.sh", "conf/$1.sh", "$ROOT/env.sh"])
def test_what_a_sourced_file_that_is_not_at_hand_may_set_is_unknown(path: str) -> None:
    script = f"wiki() {{ STEPS=100; }}\nsource {path}\ntorchrun --steps $STEPS"
    piece = last_piece(script)
    assert (piece.text, piece.how) == (None, "--env STEPS=...")
    assert "is sourced and not at hand" in piece.unknown
    assert launches(script, environment={"STEPS": "5"}) == [["torchrun", "--steps", "5"]]


@pytest.mark.parametrize("path", ["~/.bashrc", "$VENV/bin/activate", "/etc/profile.d/conda.sh", "$HOME/.bash_profile"])
def test_a_sourced_file_that_prepares_the_machine_sets_nothing_of_the_script(path: str) -> None:
    assert launches(f'source {path}\nARGS="$ARGS --x"\ntorchrun $ARGS') == [["torchrun", "--x"]]


def test_a_sourced_file_that_the_caller_names_may_set_anew_what_is_set() -> None:
    assert last_piece("TP=2\nsource $1\ntorchrun $TP").assumed == "$1, which is sourced, may set it"
    assert not last_piece("TP=2\nsource conf.sh\ntorchrun $TP").assumed
    assert not last_piece("source $1\nTP=2\ntorchrun $TP").assumed


@pytest.mark.parametrize("nothing", ["", '""'])
def test_what_is_set_to_nothing_before_a_file_that_is_not_at_hand_may_be_set_there(nothing: str) -> None:
    guarded = 'if [ -z "$GPUS" ]; then exit 1; fi\ntorchrun --nproc $GPUS'
    assert launches(f"GPUS={nothing}\n. ./env.sh\n{guarded}") == [["torchrun", "--nproc", "?"]]
    assert launches(f". ./env.sh\nGPUS={nothing}\n{guarded}") == []
    assert launches(f"GPUS={nothing}\n. ~/.bashrc\n{guarded}") == []
    assert launches(f"GPUS={nothing}\n{guarded}", environment={"GPUS": "8"}) == []


KALDI = """
gpu=
n_gpus=2
. utils/parse_options.sh || exit 1
if [ -z ${gpu} ]; then echo "run.sh --gpu 0"; exit 1; fi
torchrun --nproc $n_gpus --gpu $gpu $1
"""


def test_the_options_of_kaldi_scripts_set_their_variables() -> None:
    (command,) = commands(KALDI)
    gpus, gpu = command.argv[2].pieces[0], command.argv[4].pieces[0]
    assert (gpus.text, gpus.assumed) == ("2", "an option of the script may set n_gpus")
    assert (gpu.text, gpu.how) == (None, "--arg 1=--gpu --arg 2=...")


def test_options_of_kaldi_scripts_that_are_given_are_taken() -> None:
    given = {"1": "--n-gpus", "2": "4", "3": "--gpu", "4": "0,1", "5": "data"}
    assert launches(KALDI, arguments=given) == [["torchrun", "--nproc", "4", "--gpu", "0,1", "data"]]
    assert launches(KALDI, arguments={"1": "--other", "2": "4"}) == []


def test_a_caller_in_the_script_gives_the_options_too() -> None:
    assert launches('set -- --gpu 0 --n_gpus 1 "$@"\n' + KALDI) == [["torchrun", "--nproc", "1", "--gpu", "0", "?"]]


def test_an_unset_variable_is_unknown_and_says_how_to_tell_it() -> None:
    piece = last_piece("torchrun --node_rank $NODE_RANK")
    assert (piece.text, piece.unknown, piece.how) == (
        None,
        "$NODE_RANK is not set in this script",
        "--env NODE_RANK=...",
    )
    assert last_piece("torchrun $2").how == "--arg 2=..."
    assert last_piece("shift; torchrun $2").how == "--arg 3=..."
    assert last_piece("torchrun $NODE_RANK", environment={"NODE_RANK": "3"}).text == "3"


@pytest.mark.parametrize(
    ("options", "first"),
    [
        ("set -e", "a"),
        ("set -euo pipefail", "a"),
        ("set -exuo pipefail", "a"),
        ("set -o pipefail -o nounset -e", "a"),
        ("set +eo pipefail", "a"),
        ("set -", "a"),
        ("set", "a"),
        ("set -e b", "b"),
        ("set -eo pipefail b", "b"),
        ("set -- b", "b"),
        ("set -eu -- b", "b"),
        ("set - b", "b"),
        ("set b", "b"),
        ("set -oo pipefail nounset b", "b"),
    ],
)
def test_set_takes_options_with_their_names_before_the_positional_parameters(options: str, first: str) -> None:
    assert last_piece(f"{options}\ntorchrun $1", arguments={"1": "a"}).text == first


def test_what_is_given_to_dtlint_stands_where_the_script_takes_it() -> None:
    piece = last_piece("set -e\nTP=${1}\ntorchrun $TP", arguments={"1": "16"})
    assert (piece.text, piece.span.line, piece.span.text) == ("16", 2, "${1}")
    piece = last_piece("set -e\ntorchrun $NODES", environment={"NODES": "4"})
    assert (piece.text, piece.span.line, piece.span.text) == ("4", 2, "$NODES")


def test_a_default_is_assumed() -> None:
    piece = last_piece("GPUS=${GPUS:-8}\ntorchrun $GPUS")
    assert (piece.text, piece.assumed, piece.span.text) == ("8", "the caller may set GPUS", "8")
    assert [step.label for step in piece.chain] == ["$GPUS", "${GPUS:-8}"]


@pytest.mark.parametrize(
    "fallback",
    [
        'if [ -z "$GPUS" ]; then GPUS=8; fi',
        '[ -z "$GPUS" ] && GPUS=8',
        '[ -n "$GPUS" ] || GPUS=8',
        "[[ -v GPUS ]] || GPUS=8",
        'if [[ "$GPUS" == "" ]]; then export GPUS=8; else echo $GPUS; fi',
        'if [ -n "$GPUS" ]; then echo; else GPUS=$((4 * 2)); fi',
    ],
)
def test_what_is_set_where_the_caller_has_not_set_it_is_assumed(fallback: str) -> None:
    texts = {(piece.text, piece.assumed) for piece in last_pieces(f"{fallback}\ntorchrun --gpus $GPUS")}
    assert ("8", "the caller may set GPUS") in texts
    assert ("8", "") not in texts


@pytest.mark.parametrize("test", ["[ -v SLURM_NNODES ]", '[ -n "$SLURM_JOB_ID" ]', '! [ -z "$SLURM_NNODES" ]'])
def test_what_stands_for_a_job_system_that_is_not_there_is_assumed(test: str) -> None:
    script = f"if {test}; then N=$SLURM_NTASKS; HOSTS=(a b)\nelse N=1; HOSTS=(localhost); fi\n"
    for name, text in (("$N", "1"), ("${HOSTS[0]}", "localhost")):
        assert (text, "") not in {(piece.text, piece.assumed) for piece in last_pieces(f"{script}torchrun {name}")}


def test_what_is_set_because_another_variable_is_not_set_stands() -> None:
    script = 'if [ -n "$DEBUG" ]; then GPUS=1; else GPUS=8; fi\ntorchrun $GPUS'
    assert {(piece.text, piece.assumed) for piece in last_pieces(script)} == {("1", ""), ("8", "")}


def test_unknowns_of_the_cluster_mean_settings() -> None:
    assert last_piece("torchrun $SLURM_NNODES").means == "cluster.nodes"
    assert last_piece("N=$(nvidia-smi -L | wc -l); torchrun $N").means == "cluster.gpus_per_node"
    assert (
        last_piece("torchrun $(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)").means == "cluster.first_host"
    )
    assert last_piece("H=($(scontrol show hostnames $L)); torchrun ${H[0]}").means == "cluster.first_host"
    assert last_piece("H=($(scontrol show hostnames $L)); torchrun ${#H[@]}").means == "cluster.nodes"
    assert last_piece("torchrun $((SLURM_NNODES))").means == "cluster.nodes"
    assert last_piece("torchrun $((SLURM_NNODES * 8))").means == ""


def test_what_the_cluster_is_told_to_be_becomes_text() -> None:
    assert launches("torchrun $((SLURM_NNODES * 8))", cluster={"cluster.nodes": "4"}) == [["torchrun", "32"]]


def test_directives_fix_slurm_variables_unless_the_cluster_is_told() -> None:
    script = "#!/bin/bash\n#SBATCH --nodes=4 --gres=gpu:a100:8 # all\n#SBATCH -n 32\n"
    script += "torchrun $SLURM_NNODES $SLURM_GPUS_ON_NODE $SLURM_NTASKS"
    assert launches(script) == [["torchrun", "4", "8", "32"]]
    assert [word.text for word in read(script).directives] == ["--nodes=4", "--gres=gpu:a100:8", "-n", "32"]
    assert launches(script, cluster={"cluster.nodes": "2"})[0][1] == "2"


def test_arguments_that_are_not_given_add_an_open_word() -> None:
    word = commands('torchrun train.py "$@"')[0].argv[-1]
    assert word.many and word.pieces[0].unknown == OPEN_ARGUMENTS
    assert launches('torchrun "$@"', arguments={"1": "a", "2": "b c"}) == [["torchrun", "a", "b c"]]


def test_an_unquoted_unknown_may_be_several_words_a_quoted_one_is_one() -> None:
    words = commands('A=(--x $MORE); torchrun $MORE "$MORE" --y=$MORE "${A[@]}"')[0].argv
    assert [word.many for word in words] == [False, True, False, False, False, True]


def test_a_placeholder_is_an_unknown_value_and_the_lines_below_are_read() -> None:
    script = "DATA=<Specify path>\nTP=4\ntorchrun --tp $TP --data $DATA --out <path/to/out> end"
    assert launches(script) == [["torchrun", "--tp", "4", "--data", "?", "--out", "?", "end"]]


def test_a_broken_line_costs_only_itself() -> None:
    assert launches("A=1\nfoo ( bar\nif then\ntorchrun $A") == [["torchrun", "1"]]


def test_every_character_knows_where_it_was_written() -> None:
    script = 'N=16\nDS=(--a "$N")\nsrun bash -c "torchrun --n=$N ${DS[*]}"\n'
    outer, inner = commands(script)
    assert inner.wrapper == (outer,)
    word = inner.argv[1]
    assert [(piece.text, piece.span.line, piece.span.text) for piece in word.pieces] == [
        ("--n=", 3, "--n="),
        ("16", 1, "16"),
    ]


def test_a_written_config_maps_back_to_the_script() -> None:
    script = 'B=32\ncat > ds.json <<EOF\n{"train_batch_size": $B, "lr": $LR}\nEOF\ntorchrun --ds ds.json\n'
    (world,) = read(script).worlds
    config = world.files["ds.json"]
    at = config.text.index("32")
    original = config.span(at, at + 2).original()
    assert (original.path, original.line, original.text) == ("launch.sh", 1, "32")
    unknown = unknown_at(config, config.text.index("\ue000"))
    assert unknown is not None and unknown.how == "--env LR=..."


def test_a_template_filled_by_sed_maps_back_to_template_and_script() -> None:
    template = Source("t.json", '{"bs": BS, "lr": 1}')
    script = Source("launch.sh", 'B=8\nsed "s/BS/$B/" t.json > "ds_$JOB.json"\n')
    (world,) = read_script(script, read_file=lambda path: template if path == "t.json" else None).worlds
    config = world.files["ds_?.json"]
    assert config.text == '{"bs": 8, "lr": 1}'
    at = config.text.index("8")
    assert config.span(at, at + 1).original() == script.span(2, 3)
    assert config.span(at + 3, at + 7).original().path == "t.json"


def test_arguments_behind_a_comment_in_a_continuation_are_lost() -> None:
    (lost,) = read("torchrun train.py \\\n  # --zero 3 \\\n  --bf16 --lr 1\n").lost
    assert (lost.command.text, lost.cause.text, lost.words.text) == (
        "torchrun train.py",
        "# --zero 3 \\",
        "--bf16 --lr 1",
    )


def test_arguments_behind_a_backslash_and_a_blank_are_lost() -> None:
    (lost,) = read("torchrun train.py \\ \n  --bf16\n").lost
    assert (lost.cause.text, lost.words.text) == ("\\ ", "--bf16")


def test_background_commands_and_their_environment() -> None:
    first, second = commands("export A=1\nB=2 torchrun a &\ntorchrun b")
    assert (first.background, second.background) == (True, False)
    assert {name: word.text for name, word in first.env.items()} == {"A": "1", "B": "2"}


def test_scripts_handed_to_sbatch_are_read() -> None:
    script = read("sbatch <<EOF\n#!/bin/bash\n#SBATCH --nodes=2\nsrun torchrun \\$SLURM_NNODES\nEOF\n")
    assert [[word.shown for word in command.argv] for command in script.worlds[0].commands] == [
        ["sbatch"],
        ["srun", "torchrun", "2"],
    ]
    assert [word.text for word in script.directives] == ["--nodes=2"]


def test_a_command_given_word_by_word() -> None:
    script = command_of(["torchrun", "--nnodes=$N", "a b"])
    assert [word.text for word in script.worlds[0].commands[0].argv] == ["torchrun", "--nnodes=$N", "a b"]


def test_the_filters_that_are_known_by_name_are_those_that_exist() -> None:
    assert FILTERS.keys() == FILTERED


COUNTED = """if [ $PP -eq 0 ]; then
    PP=1
fi
torchrun --nproc_per_node 8 pretrain_gpt.py --pipeline-model-parallel-size $PP --micro-batch-size 1
"""


def test_a_variable_that_is_compared_with_a_number_before_it_is_set_is_the_callers(tmp_path: Path) -> None:
    (tmp_path / "run.sh").write_text(COUNTED)
    report = check([tmp_path])
    assert "setting-type" not in {found.rule for found in report.findings}
    (tmp_path / "run.sh").write_text(f"PP=\n{COUNTED}")
    assert "setting-type" in {found.rule for found in check([tmp_path]).findings}


COPIED = {
    "a copy of itself": ("NODES=$NODES", 'if [ -n "$ONE" ]; then\n  NODES=1\nfi\n'),
    "a copy of what is overwritten": ("NODES=$WORLD_SIZE", "WORLD_SIZE=$((NODES * 8))\n"),
    "exported": ("export NODES=$WORLD_SIZE", "export WORLD_SIZE=16\n"),
}


@pytest.mark.parametrize(("copy", "later"), COPIED.values(), ids=COPIED)
def test_what_a_script_copies_before_it_sets_it_is_the_callers(copy: str, later: str) -> None:
    start = "torchrun --nnodes $NODES --node_rank 0 train.py\n"
    assert {word.shown for world in read(f"{copy}\n{start}{later}").worlds for word in world.commands[0].argv} >= {"?"}
    own = read(f"WORLD_SIZE=\nNODES=\n{copy}\n{start}{later}").worlds[0].commands[0]
    assert "?" not in {word.shown for word in own.argv}


SOME_WAYS = {
    "case": 'case "$SIZE" in\n  7b) N=2; EXTRA="--max_restarts 1";;\nesac\n',
    "if": 'if [ "$SIZE" = 7b ]; then\n  N=2\n  EXTRA="--max_restarts 1"\nfi\n',
    "options": 'while [ $# -gt 0 ]; do\n  case $1 in\n    -n) N=$2; shift 2;;\n    -e) EXTRA="--tee 3"; shift;;\n  esac\ndone\n',
}


@pytest.mark.parametrize("start", SOME_WAYS.values(), ids=SOME_WAYS)
@pytest.mark.parametrize("words", ["--nnodes $N $EXTRA train.py", "--standalone $EXTRA --nnodes $N train.py"])
def test_an_option_gets_a_value_on_ways_that_set_none(start: str, words: str) -> None:
    for world in read(f"{start}torchrun {words}\n").worlds:
        shown = [word.shown for word in world.commands[-1].argv]
        assert shown[shown.index("--nnodes") + 1] in ("2", "?")
        assert shown[shown.index("--nnodes") + 2 :][:1] in (["train.py"], ["--max_restarts"])
        assert "?" not in shown[: shown.index("--nnodes")]


def test_a_value_that_a_script_leaves_empty_is_no_value() -> None:
    assert launches("N=\ntorchrun --nnodes $N train.py\n") == [["torchrun", "--nnodes", "train.py"]]


JOINED = "".join(f'if [ "$M{number}" = a ]; then P{number}=1; else P{number}=3; fi\n' for number in range(5))
"""More conditions than there are worlds."""

APART = {
    "the number of arguments": ("if [ $# -eq 2 ]; then\n", "$1"),
    "another option": ('A=""\nB=""\nwhile [ $# -gt 0 ]; do\n  case $1 in\n    -a) A=$2; shift 2;;\n    -b) B=$2; shift 2;;\n'
    '  esac\ndone\nif [ "$A" = 2 ]; then\n', "$B"),
    "what a number is made of": ("GPUS=$((N * 8))\nif [ $GPUS -eq 2 ]; then\n", "$N"),
    "what is joined": (f'{JOINED}[ "$P0" != 2 ] && exit 1\nif [ -e "$P0$P1$P2$P3$P4" ]; then\n', "$M0"),
}  # fmt: skip


@pytest.mark.parametrize(("condition", "other"), APART.values(), ids=APART)
def test_what_is_learnt_of_an_unknown_says_nothing_of_another(condition: str, other: str) -> None:
    found = {
        word.shown
        for world in read(f"{condition}  torchrun --nnodes {other} train.py\nfi\n").worlds
        for command in world.commands
        for word in command.argv[2:3]
    }
    assert "2" not in found


def test_what_is_learnt_of_an_unknown_holds_for_its_copies() -> None:
    script = 'M=$N\nif [ "$M" = 2 ]; then\n  torchrun --nnodes $N --nproc_per_node $M train.py\nfi\n'
    assert branches(script)["$M = 2"] == ["torchrun --nnodes 2 --nproc_per_node 2 train.py"]


def test_what_only_some_branches_fill_into_a_template_is_not_known(tmp_path: Path) -> None:
    (tmp_path / "ds_TEMPLATE.json").write_text(
        '{"train_micro_batch_size_per_gpu": MICRO, "data_efficiency": {"data_sampling": {"num_workers": WORKERS}}}\n'
    )
    (tmp_path / "run.sh").write_text(
        'if [ "$CL" = "true" ]; then\n  workers=0\nfi\n'
        'sed "s/WORKERS/${workers}/" ds_TEMPLATE.json | sed "s/MICRO/4/" > ds.json\n'
        "deepspeed --num_gpus 8 train.py --deepspeed_config ds.json\n"
    )
    report = check([tmp_path / "run.sh"])
    assert "unreadable-input" not in {found.rule for found in report.findings}
    assert {run.plan.integer("batch.micro") for run in report.runs} == {4}


@pytest.mark.parametrize(
    "reads",
    [
        'readarray -d , -t G <<< "$GPUS"',
        'mapfile -t G <<< "$GPUS"',
        'readarray -d , -t G <<< "0,$GPUS"',
        'readarray -d "$END" -t G <<< 0,1',
        'mapfile -t -s "$SKIP" G <<< 0',
        "mapfile -t -u 3 G <<< 0",
    ],
)
def test_how_many_elements_an_unknown_list_has_is_unknown(reads: str) -> None:
    assert launches(f'{reads}\ntorchrun --nproc_per_node "${{#G[@]}}" t.py') == [
        ["torchrun", "--nproc_per_node", "?", "t.py"]
    ]


def test_an_unknown_in_the_midst_of_a_line_ends_no_line() -> None:
    assert launches('mapfile -t G <<< "host-$N slots=8"\ntorchrun "${#G[@]}"') == [["torchrun", "1"]]


ODD = """ <<EOF
{"train_batch_size": 7}
EOF
"""
JOB = 'JOB=$(mktemp)\ncat > "$JOB"' + ODD
CONFIG = 'CONFIG=$(mktemp)\ncat > "$CONFIG"' + ODD
EVEN = 'OTHER=$(mktemp)\necho "Job ID:  $N" > "$OTHER"\n'
TAKES = 'deepspeed --num_gpus 2 train.py --deepspeed_config "$CONFIG"\n'


@pytest.mark.parametrize(
    ("script", "is_read"),
    [
        (JOB + TAKES, False),
        (JOB + "CONFIG=$(mktemp)\n" + TAKES, False),
        ("cat > conf/$A" + ODD + TAKES.replace("$CONFIG", "conf/$B"), False),
        ("cat > conf/$A" + ODD + TAKES.replace("$CONFIG", "conf/$A"), True),
        ("cat > $A.json" + ODD + TAKES.replace("$CONFIG", "$A.json"), True),
        ("cat > $A.json" + ODD + TAKES.replace("$CONFIG", "$B.json"), False),
        (CONFIG + EVEN + TAKES, True),
        (EVEN + CONFIG + TAKES, True),
    ],
)
def test_files_whose_names_are_unknown_are_one_where_the_same_unknown_names_them(
    tmp_path: Path, script: str, is_read: bool
) -> None:
    (tmp_path / "run.sh").write_text(script, encoding="utf-8")
    (tmp_path / "train.py").write_text("import deepspeed\n", encoding="utf-8")
    found = [finding.rule for finding in check([tmp_path / "run.sh"]).findings]
    assert ("batch-not-divisible" in found) is is_read
