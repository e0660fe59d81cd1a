"""Collectives that only some ranks reach by way of objects that come from elsewhere, and how conditions are worded."""

from __future__ import annotations

import pytest

from dtlint.frameworks import Member, code
from dtlint.languages.python import link, read_module
from dtlint.source import Source
from dtlint.value import Value

SAVERS = """
import torch
class Saver:
    def __init__(self, folder):
        self.folder = folder
    def save_all(self, trainer, step):
        torch.save({'step': step}, self.folder)
class ShardSaver(Saver):
    def save_all(self, trainer, step):
        trainer.engine.save_checkpoint(self.folder, tag=str(step))
def make(folder):
    return ShardSaver(folder)
"""
TRAINER = """
import deepspeed
import torch.distributed as dist
from savers import Saver, ShardSaver, make
class Base:
    def __init__(self, wrapped, saver=None):
        self.wrapped = wrapped
        self.saver = saver
        self.main = dist.get_rank() == 0
class Trainer(Base):
    def train(self):
        for step, batch in enumerate(self.batches):
            self.wrapped.backward(self.wrapped(batch))
            {save}
engine, _, _, _ = deepspeed.initialize(model=net, config="ds.json")
Trainer(engine, {saver}).train()
"""
GUARDED = "if self.main: self.saver.save_all(self, step)"


def guarded(trainer: str) -> list[tuple[object, object, object]]:
    """The call, what it goes through, and the condition of each that only some ranks make."""
    sources = {"train.py": trainer, "savers.py": SAVERS}
    program = link({name: read_module(Source(name, text)) for name, text in sources.items()}, "train.py")
    found = code.collections(program).get("code.guarded_collectives", ())
    return [(_told(each, "call"), _told(each, "through"), _told(each, "condition")) for each in found]


def _told(member: Member, name: str) -> object:
    value = member.fields[name]
    return value.value if isinstance(value, Value) else None


@pytest.mark.parametrize(
    ("save", "saver", "told"),
    [
        (GUARDED, "ShardSaver('out')", True),
        (GUARDED, "make('out')", True),
        (GUARDED, "saver=make('out')", True),
        (GUARDED, "ShardSaver('out') if zero else Saver('out')", False),
        (GUARDED, "Saver('out')", False),
        (GUARDED, "by_name(kind)", False),
        ("self.saver.save_all(self, step)", "ShardSaver('out')", False),
    ],
)
def test_a_method_of_an_object_that_is_handed_in(save: str, saver: str, told: bool) -> None:
    found = guarded(TRAINER.format(save=save, saver=saver))
    assert found == ([("save_checkpoint", "save_all", "self.main")] if told else [])


@pytest.mark.parametrize("attribute", ["wrapped", "engine"])
def test_an_attribute_that_a_class_sets_is_what_its_base_is_given(attribute: str) -> None:
    text = TRAINER.format(save=f"if self.main: self.{attribute}.save_checkpoint('out')", saver="None")
    assert [call for call, _, _ in guarded(text)] == ["save_checkpoint"]


def test_a_collective_that_is_called_as_what_leads_to_it_is_named_with_its_object() -> None:
    text = "import deepspeed\nimport torch.distributed as dist\nclass A:\n    def save_checkpoint(self):\n"
    text += "        self.engine.save_checkpoint('out')\nif dist.get_rank() == 0:\n    A().save_checkpoint()"
    assert [call for call, _, _ in guarded(text)] == ["self.engine.save_checkpoint"]


@pytest.mark.parametrize(
    ("condition", "worded"),
    [
        ("rank == 0", "rank == 0"),
        ("not rank != 0", "rank == 0"),
        ("not (not rank == 0)", "rank == 0"),
        ("not rank", "not (rank)"),
    ],
)
def test_a_condition_in_the_fewest_words(condition: str, worded: str) -> None:
    text = f"import torch.distributed as dist\nrank = dist.get_rank()\nif {condition}:\n    dist.barrier()"
    assert [told for _, _, told in guarded(text)] == [worded]


def test_what_a_return_keeps_away_is_worded_by_who_passes() -> None:
    text = "import torch.distributed as dist\ndef save(rank):\n    if rank != 0:\n        return\n    dist.barrier()"
    assert [told for _, _, told in guarded(text)] == ["rank == 0"]


IGNITE = """
import ignite.distributed as idist
from ignite.engine import Engine, Events, create_supervised_evaluator
from ignite.metrics import Accuracy, GpuInfo
def training(rank, options):
    metrics = {{"accuracy": Accuracy()}}
    trainer = Engine(step)
    evaluator = {made}
    def validate(engine):
        {turn}
    {registered}
"""
ALONE = "if idist.get_rank() == 0: evaluator.run(loader)"
EVALUATOR = "create_supervised_evaluator(net, metrics=metrics)"
ATTACHED = "Engine(infer)\n    {}.attach(evaluator, 'accuracy')"


@pytest.mark.parametrize(
    ("made", "turn", "told"),
    [
        (EVALUATOR, ALONE, True),
        ("create_supervised_evaluator(net, {'accuracy': Accuracy()})", ALONE, True),
        (ATTACHED.format("Accuracy()"), ALONE, True),
        ("Engine(infer)\n    for name, metric in metrics.items(): metric.attach(evaluator, name)", ALONE, True),
        (ATTACHED.format("GpuInfo()"), ALONE, False),
        ("create_supervised_evaluator(net)", ALONE, False),
        ("create_supervised_evaluator(net, metrics=options.metrics)", ALONE, False),
        (EVALUATOR, "evaluator.run(loader)\n        if idist.get_rank() == 0: print(evaluator.state.metrics)", False),
        ("subprocess", ALONE, False),
    ],
)
def test_an_engine_of_ignite_sums_its_metrics_over_the_ranks(made: str, turn: str, told: bool) -> None:
    found = guarded(IGNITE.format(made=made, turn=turn, registered="pass"))
    assert found == ([("evaluator.run()", "", "idist.get_rank() == 0")] if told else [])


@pytest.mark.parametrize(
    ("registered", "expected"),
    [
        (
            "if rank == 0: trainer.add_event_handler(Events.EPOCH_COMPLETED, validate)",
            [("evaluator.run()", "validate", "rank == 0")],
        ),
        ("trainer.add_event_handler(Events.EPOCH_COMPLETED, validate)", []),
        (
            "@idist.one_rank_only()\n    def report(engine): evaluator.run(loader)",
            [("evaluator.run()", "", "idist.one_rank_only()")],
        ),
        ("if rank == 0: idist.barrier()", [("barrier", "", "rank == 0")]),
    ],
)
def test_what_an_engine_of_ignite_runs_on_the_first_rank(registered: str, expected: list[tuple[str, ...]]) -> None:
    assert guarded(IGNITE.format(made=EVALUATOR, turn="evaluator.run(loader)", registered=registered)) == expected


@pytest.mark.parametrize(
    ("call", "told"),
    [
        ("dist.all_reduce(loss, dist.ReduceOp.SUM, mpu.get_data_parallel_group())", False),
        ("dist.broadcast(loss, 0, node_group())", False),
        ("dist.barrier(mpu.get_model_parallel_group())", False),
        ("dist.all_reduce(grouped(loss))", True),
        ("dist.barrier()", True),
    ],
)
def test_a_group_that_a_function_gives_is_one_of_some_ranks(call: str, told: bool) -> None:
    text = f"import torch.distributed as dist\nfrom net import loss, mpu\nif dist.get_rank() == 0:\n    {call}\n"
    assert bool(guarded(f"{text}loss.backward()\n")) is told


HELD = """
import torch.distributed as dist
rank = dist.get_rank()
{bound}
for step, batch in enumerate(batches):
    if {test}:
        dist.barrier()
"""


@pytest.mark.parametrize(
    ("bound", "test", "told"),
    [
        ("bar = tqdm(batches) if rank == 0 else None", "bar is not None", True),
        ("bar = None if rank != 0 else tqdm(batches)", "step % 10 == 0 and bar is not None", True),
        ("writer = Writer() if rank == 0 else None", "writer", True),
        ("writer = Writer() if rank == 0 else None", "writer is None", True),
        ("writer = None\nwriter = Writer() if rank == 0 else None", "not (writer is None)", True),
        ("writer = Writer() if rank == 0 else False", "writer is not None", False),
        ("writer = Writer() if args.log else None", "writer is not None", False),
        ("writer = Writer() if rank == 0 else Silent()", "writer is not None", False),
        ("writer = Writer() if rank == 0 else None\nwriter = Silent()", "writer is not None", False),
        ("scaler = Scaler() if dist.is_initialized() else None", "scaler is not None", False),
    ],
)
def test_an_object_that_one_rank_has(bound: str, test: str, told: bool) -> None:
    assert bool(guarded(HELD.format(bound=bound, test=test))) is told


TRAINERS = """
import torch.distributed as dist
import lightning as L
from transformers import Trainer as Base
from trainers import Trainer
{made}
if dist.get_rank() == 0:
    trainer.{method}()
"""
OWN_TRAINER = "class Model:\n    def train(self):\n        self.net.train()\nclass Trainer(Model):\n    pass\n"


@pytest.mark.parametrize(
    ("made", "method", "told"),
    [
        ("trainer = Trainer(options)", "train", False),
        ("from elsewhere import DefaultTrainer\ntrainer = DefaultTrainer(options)", "train", False),
        ("from trl import SFTTrainer\ntrainer = SFTTrainer(net)", "train", True),
        ("class Runner(Base):\n    pass\ntrainer = Runner(net)", "train", True),
        ("class Runner(L.Trainer):\n    pass\ntrainer = Runner()", "validate", True),
        ("class Own(Base):\n    def evaluate(self):\n        return 1\ntrainer = Own(net)", "evaluate", False),
        ("class Own(Base):\n    def evaluate(self):\n        return super().evaluate()\ntrainer = Own(net)", "evaluate", True),
        ("class Own(Base):\n    def evaluate(self):\n        return Base.evaluate(self)\ntrainer = Own(net)", "evaluate", True),
    ],
)  # fmt: skip
def test_a_class_is_a_trainer_by_what_it_is_built_on(made: str, method: str, told: bool) -> None:
    sources = {"train.py": TRAINERS.format(made=made, method=method), "trainers.py": OWN_TRAINER}
    program = link({name: read_module(Source(name, text)) for name, text in sources.items()}, "train.py")
    found = code.collections(program).get("code.guarded_collectives", ())
    assert [_told(each, "call") for each in found] == ([method] if told else [])


@pytest.mark.parametrize(
    ("made", "call", "needs"),
    [
        ("run, _, _, _ = deepspeed.initialize(model=net)", "load_checkpoint", "stage 3"),
        ("run, _, _, _ = deepspeed.initialize(model=net)", "save_checkpoint", "always"),
        ("run = accelerate.Accelerator()", "load_state", "sharded"),
        ("run = accelerate.Accelerator()", "save_state", "engine"),
    ],
)
def test_loading_waits_for_others_only_where_weights_are_gathered(made: str, call: str, needs: str) -> None:
    text = f"import accelerate, deepspeed\nimport torch.distributed as dist\n{made}\n"
    text += f"if dist.get_rank() == 0:\n    run.{call}('out')\n"
    program = link({"train.py": read_module(Source("train.py", text))}, "train.py")
    found = code.collections(program)["code.guarded_collectives"]
    assert [(_told(each, "call"), _told(each, "needs")) for each in found] == [(call, needs)]


HEAD = """
import torch
import torch.distributed as dist
from accelerate import Accelerator
from torch.nn.parallel import DistributedDataParallel as DDP
from transformers import AutoConfig, AutoModelForCausalLM, AutoTokenizer, BitsAndBytesConfig, LlamaForCausalLM
from data import args, four_bits, net, samples, state
def load(name):
    return AutoModelForCausalLM.from_pretrained(name, torch_dtype=torch.bfloat16)
accelerator = Accelerator()
"""
OWN = "class Own(LlamaForCausalLM):\n    @classmethod\n    def from_pretrained(cls, name):\n        return net\n"
LOAD = "model = AutoModelForCausalLM.from_pretrained('m')"
FIRST = "with accelerator.main_process_first():"


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (f"{FIRST}\n    {LOAD}", [("from_pretrained", "")]),
        (f"{FIRST}\n    model = load('m')", [("from_pretrained", "load")]),
        (f"with accelerator.local_main_process_first():\n    {LOAD}", [("from_pretrained", "")]),
        ("with args.main_process_first(desc='m'):\n    m = LlamaForCausalLM.from_config(c)", [("from_config", "")]),
        (f"{FIRST}\n    model = DDP(net)", [("DDP", "")]),
        (f"{FIRST}\n    dist.all_reduce(state)", [("all_reduce", "")]),
        (f"if accelerator.is_main_process:\n    {LOAD}", [("from_pretrained", "")]),
        (f"class Own(LlamaForCausalLM): ...\n{FIRST}\n    m = Own.from_pretrained('m')", [("from_pretrained", "")]),
        (f"class Own(torch.nn.Module): ...\n{FIRST}\n    m = Own.from_pretrained('m')", []),
        (f"{OWN}{FIRST}\n    m = Own.from_pretrained('m')", []),
        (f"{FIRST}\n    tokens = AutoTokenizer.from_pretrained('m')\n    data = samples.map(tokens)\n{LOAD}", []),
        (f"{FIRST}\n    config = AutoConfig.from_pretrained('m')", []),
        (f"{FIRST}\n    m = AutoModelForCausalLM.from_pretrained('m', quantization_config=four_bits)", []),
        (f"{FIRST}\n    with plugin.zero3_init_context_manager(enable=False):\n        {LOAD}", []),
        (f"{FIRST}\n    accelerator.wait_for_everyone()", []),
        (f"{FIRST}\n    if accelerator.num_processes == 1:\n        {LOAD}", []),
        (f"if accelerator.is_main_process:\n    {LOAD}\nelse:\n    model = load('n')", []),
    ],
)
def test_loads_and_collectives_where_the_first_rank_goes_first(body: str, told: list[tuple[str, str]]) -> None:
    assert [(call, through) for call, through, _ in guarded(f"{HEAD}{body}\n")] == told


def test_a_load_before_the_stage_is_known_and_a_context_that_waits_for_nobody() -> None:
    early = HEAD.replace(
        "accelerator = Accelerator()\n", f"if dist.get_rank() == 0:\n    {LOAD}\naccelerator = Accelerator()"
    )
    own = "import contextlib\n@contextlib.contextmanager\ndef rank_first():\n    yield\n"
    assert guarded(early) == guarded(f"{HEAD}{own}with rank_first():\n    {LOAD}\n") == []


def test_a_load_does_not_hide_the_barrier_behind_it() -> None:
    helper = f"def begin():\n    {LOAD}\n    dist.barrier()\n"
    assert guarded(f"{HEAD}{helper}if dist.get_rank() == 0:\n    begin()\n") == [
        ("barrier", "begin", "dist.get_rank() == 0")
    ]
