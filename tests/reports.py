"""A report with everything in it, for the tests of report formats: two findings on a launch script and its config."""

from __future__ import annotations

from dtlint.frameworks import Reading
from dtlint.interval import Interval
from dtlint.languages.traced import Word, literal_word
from dtlint.plan import Plan
from dtlint.rulebook.check import Report
from dtlint.rulebook.finding import Cost, Finding, Related, Remedy, Saving, Stop, Summary, Undecided
from dtlint.rulebook.rule import Rule
from dtlint.runs.model import Launch, Run
from dtlint.source import Edit, Source, Span
from dtlint.value import Setting, Unknown, assumed, default, derived, given, written

LAUNCH = Source(
    "launch.sh",
    """\
#!/bin/bash
#SBATCH --nodes=512
NPROC=8
MICRO=2

torchrun --nnodes $SLURM_NNODES --nproc_per_node $NPROC --node_rank $RANK train.py \\
    --tensor-model-parallel-size 8 \\
    --pipeline-model-parallel-size 8 \\
    --micro-batch-size $MICRO \\
    --global-batch-size 512 \\
    --deepspeed ds.json
""",
)
CONFIG = Source("ds.json", '{\n\t"zero_optimization": {"stage": 3}\n}\n')


def at(source: Source, text: str, after: str = "") -> Span:
    """The place of `text` in a source, the first one behind `after`."""
    start = source.text.index(text, source.text.index(after) + len(after))
    return source.span(start, start + len(text))


def words() -> tuple[Word, ...]:
    """The launcher's words, the node rank unknown."""
    rank = literal_word("0", at(LAUNCH, "$RANK"))
    unknown = rank._replace(pieces=(rank.pieces[0]._replace(text=None, unknown="$RANK is not set"),))
    known = [
        literal_word(text, at(LAUNCH, "torchrun")) for text in ("torchrun", "--nproc_per_node", "8", "--node_rank")
    ]
    return (*known, unknown, literal_word("train.py", at(LAUNCH, "train.py")))


SETTINGS: dict[str, Setting] = {
    "framework": given("megatron"),
    "cluster.gpu": given("H100", "dtlint.toml"),
    "parallel.world_size": derived(4096, "launch.nodes", "launch.processes_per_node"),
    "parallel.tensor": written(8, at(LAUNCH, "8", "--tensor-model-parallel-size")),
    "parallel.pipeline": written(8, at(LAUNCH, "8", "--pipeline-model-parallel-size")),
    "parallel.data": derived(64, "parallel.world_size", "parallel.tensor", "parallel.pipeline"),
    "batch.micro": written(2, at(LAUNCH, "2", "MICRO=")),
    "batch.global": written(512, at(LAUNCH, "512", "--global-batch-size")),
    "sharding.stage": written(3, at(CONFIG, "3")),
    "overlap.gradients": default(False, "Megatron-LM"),
    "checkpointing.activations": assumed("none", "no file tells it", "--set checkpointing.activations=..."),
    "data.sequence_length": Unknown("$SEQ is not set in this script", "--env SEQ=..."),
}

RUN = Run(
    Launch(at(LAUNCH, "torchrun"), words(), {"NCCL_DEBUG": literal_word("INFO", at(LAUNCH, "MICRO"))}),
    "train",
    None,
    (LAUNCH, CONFIG),
    (Reading("torchrun"),),
    Plan(SETTINGS),
    ("ds.json was joined because no other launch stands beside it",),
)

BUBBLE = Finding(
    "pipeline-bubble",
    "DT301",
    "warning",
    "slower",
    "high",
    "pipeline idles 64% of each step: 4 micro-batches for 8 stages",
    at(LAUNCH, "8", "--pipeline-model-parallel-size"),
    (
        Related(at(LAUNCH, "8", "--pipeline-model-parallel-size"), "8 stages"),
        Related(at(LAUNCH, "512", "--nodes="), "512 nodes x 8 GPUs"),
        Related(at(LAUNCH, "2", "MICRO="), "micro batch 2"),
        Related(at(LAUNCH, "512", "--global-batch-size"), "global batch 512"),
    ),
    Cost(
        share_of_step=Interval(0.64, 0.64),
        seconds_per_step=Interval(0.4, 0.5),
        gpu_hours_per_day=Interval(62915, 62915),
        needs=("cluster.usd_per_gpu_hour",),
        assumed=("cluster.gpu", "data.sequence_length"),
    ),
    (
        Remedy(
            {"batch.micro": 1},
            "--micro-batch-size 1",
            Saving(Interval(0.17, 0.17), Interval(0.5, 0.6)),
            edits=(Edit(at(LAUNCH, "2", "MICRO="), "1"),),
        ),
        Remedy(
            {"batch.global": 4096},
            "--global-batch-size 4096",
            Saving(Interval(0.3, 0.41)),
            changes_training=True,
            raises=("global-batch-too-large",),
        ),
    ),
    (0,),
)

OUT_OF_MEMORY = Finding(
    "undersized-memory-oom",
    "DT201",
    "error",
    "out-of-memory",
    "medium",
    "208 GB of model states do not fit the 80 GB of a GPU: 16 bytes for each of 13B parameters",
    at(CONFIG, "3"),
    (Related(at(LAUNCH, "ds.json"), "this run reads it"),),
    Cost(memory_bytes=Interval(208e9, 215e9), stops=Stop("step", 4096, Interval(60, 600))),
    (),
    (0,),
)

REPORT = Report(
    (OUT_OF_MEMORY, BUBBLE),
    (
        Undecided("no-overlap", (0,), ("data.sequence_length",)),
        Undecided("tp-too-large-for-model", (0,), ("model.hidden", "data.sequence_length")),
        Undecided("zero3-internode-comm", (0,), ("data.sequence_length",)),
    ),
    Summary(("batch.micro=1",), Interval(0.5, 0.6), Interval(0.7, 0.8)),
    (RUN,),
)

RULES = tuple(
    Rule(finding.id, finding.rule, "family", "A summary", "plan", (), "") for finding in (OUT_OF_MEMORY, BUBBLE)
)

CLEAN = Report((), (), None, (RUN,), RULES)
