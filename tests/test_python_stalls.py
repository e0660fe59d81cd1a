"""Calls that stop the GPU or wait for all ranks in every step: `code.stalls`."""

from __future__ import annotations

from textwrap import indent

import pytest

from dtlint.frameworks.pytorch import program as pytorch
from dtlint.languages.python import link, read_module
from dtlint.source import Source
from dtlint.value import Value

HEAD = "import time\nimport torch\nimport torch.distributed as dist\nfrom net import batches, model, optimizer, keep\n"
STEP = "for i, batch in enumerate(batches):\n    model(batch).mean().backward()\n    optimizer.step()\n"


def stalls(text: str) -> list[object]:
    program = link({"train.py": read_module(Source("train.py", HEAD + text))})
    members = pytorch.read(program).collections.get("code.stalls", ())
    return [value.value for member in members if isinstance(value := member.fields["name"], Value)]


TIMED = (
    "    now = time.time()\n    model(batch).mean().backward()\n    optimizer.step()\n    torch.cuda.empty_cache()\n"
)


def in_function(call: str) -> str:
    """A training loop that makes a call, in a function that gets all objects from its caller."""
    return "def train(average, thing):\n" + indent(f"{STEP}    {call}\n", "    ")


AVERAGE = (
    "class Average:\n    def step(self, weights):\n        if dist.is_initialized():\n            dist.barrier()\n"
)
STEPPING = "def go(batch):\n    model(batch).mean().backward()\n    STALL\n    optimizer.step()\n"
EACH = "for batch in batches:\n    go(batch)\n"
"""A function that takes one step, and a loop that calls it."""
IN_STEPS: dict[str, list[object]] = {
    STEP + "    torch.cuda.empty_cache()\n": ["torch.cuda.empty_cache()"],
    STEP + "    torch.cuda.synchronize()\n": ["torch.cuda.synchronize()"],
    STEP + "    torch.cuda.synchronize()\n    if i % 100 == 0:\n        keep(loss.item())\n": [
        "torch.cuda.synchronize()"
    ],
    STEP + "    dist.barrier()\n    dist.barrier()\n": ["dist.barrier()"],
    STEP + "    now = time.time()\n    torch.cuda.empty_cache()\n": ["torch.cuda.empty_cache()"],
    "for step in range(5000):\n" + TIMED: ["torch.cuda.empty_cache()"],
    "for step in range(steps):\n" + TIMED: ["torch.cuda.empty_cache()"],
    "for step in range(20):\n" + TIMED.replace("    now = time.time()\n", ""): ["torch.cuda.empty_cache()"],
    "for i, batch in enumerate(batches):\n    if i == 4000:\n        break\n" + TIMED: ["torch.cuda.empty_cache()"],
    "def wait():\n    if dist.is_initialized():\n        dist.barrier()\n" + STEP + "    wait()\n": ["wait()"],
    (
        "class Scaler:\n    def __call__(self, loss):\n        loss.backward()\n"
        "def train(scale):\n    for batch in batches:\n        scale(model(batch))\n        torch.cuda.synchronize()\n"
        "train(Scaler())\n"
    ): ["torch.cuda.synchronize()"],
    AVERAGE + STEP + "    average = Average()\n    average.step(model)\n": ["average.step(model)"],
    AVERAGE + in_function("average.step(model)"): ["average.step(model)"],
    AVERAGE.replace("step", "shrink") + in_function("thing.shrink(model)"): ["thing.shrink(model)"],
    STEPPING.replace("STALL", "dist.barrier()") + EACH: ["dist.barrier()"],
    STEPPING.replace("STALL", "if dist.is_initialized():\n        dist.barrier()") + EACH: ["dist.barrier()"],
    STEPPING.replace("STALL", "torch.cuda.empty_cache()") + EACH: ["torch.cuda.empty_cache()"],
    STEPPING.replace("STALL", "torch.cuda.synchronize()") + EACH: ["torch.cuda.synchronize()"],
    (
        STEPPING.replace("STALL", "pass")
        + "def outer(batch):\n    go(batch)\n    dist.barrier()\n"
        + EACH.replace("go", "outer")
    ): ["dist.barrier()"],
    (
        STEPPING.replace("STALL", "dist.barrier()") + "def outer(batch):\n    go(batch)\n" + EACH.replace("go", "outer")
    ): ["dist.barrier()"],
    (
        "class Trainer:\n    def train_step(self, batch):\n        self.model(batch).backward()\n        self.optim.step()\n"
        "        torch.cuda.empty_cache()\n    def fit(self):\n        for batch in batches:\n            self.train_step(batch)\n"
        "Trainer().fit()\n"
    ): ["torch.cuda.empty_cache()"],
    AVERAGE + STEP + "    average = Average() if keep else None\n    average.step(model)\n": ["average.step(model)"],
}
ELSEWHERE = {
    "in a few timed rounds": "for step in range(20):\n" + TIMED,
    "in rounds that end early": "for i, batch in enumerate(batches):\n    if i >= 10:\n        break\n" + TIMED,
    "in rounds that every caller keeps few": (
        "def demo(rounds=5):\n    for i, batch in enumerate(batches):\n        if i == rounds:\n            break\n"
        + TIMED.replace("    ", "        ")
        + "demo()\ndemo(20)\n"
    ),
    "in a measurement of a part": (
        "for trial in range(9):\n    dist.barrier()\n    started[trial].record()\n    model(keep).backward()\n"
        "    torch.cuda.synchronize()\n    torch.cuda.empty_cache()\n    profiler.step()\n"
    ),
    "once": STEP + "torch.cuda.empty_cache()\n",
    "once an epoch": (
        "for epoch in range(9):\n    for batch in batches:\n        model(batch).mean().backward()\n"
        "        optimizer.step()\n    torch.cuda.empty_cache()\n    dist.barrier()\n"
    ),
    "now and then": STEP + "    if i % 100 == 0:\n        torch.cuda.empty_cache()\n",
    "under a condition": STEP + "    if keep:\n        dist.barrier()\n",
    "to measure": STEP + "    torch.cuda.synchronize()\n    print(time.perf_counter())\n",
    "where the host asks for a number next": STEP + "    torch.cuda.synchronize()\n    keep(loss.item())\n",
    "where it asks after its own work": (
        STEP + "    torch.cuda.synchronize()\n    i += 1\n    meter = [each.item() for each in losses]\n"
    ),
    "in a profile": (
        "with torch.profiler.profile() as profiler:\n"
        "    for batch in batches:\n        model(batch).mean().backward()\n        dist.barrier()\n"
    ),
    "in a helper of the first epoch": (
        "def wait():\n    if epoch == 0:\n        dist.barrier()\n" + STEP + "    wait()\n"
    ),
    "in a helper that tells the time": (
        "def now():\n    torch.cuda.synchronize()\n    return time.time()\n" + STEP + "    print(now())\n"
    ),
    "in a method that a library's object has too": (
        AVERAGE + "scaler = torch.cuda.amp.GradScaler()\n" + STEP + "    scaler.step(optimizer)\n"
    ),
    "in a method of an object that is not in sight": AVERAGE + in_function("thing.step(optimizer)"),
    "in a method that takes other arguments": (
        AVERAGE.replace("step", "shrink") + in_function("thing.shrink(model, thing.shrink(), 2)")
    ),
    "in a method of an object that a library builds": (
        AVERAGE.replace("step", "shrink") + "memory = torch.Memory()\n" + STEP + "    memory.shrink(model)\n"
    ),
    "in a loop of epochs": (
        "class Scaler:\n    def __call__(self, loss):\n        loss.backward()\nscale = Scaler()\n"
        "for epoch in range(9):\n    for batch in batches:\n        scale(model(batch))\n    torch.cuda.empty_cache()\n"
    ),
    "for the rest of an epoch": (
        "for epoch in range(9):\n    for i, batch in enumerate(batches):\n        model(batch).mean().backward()\n"
        "        if i % every == 0:\n            optimizer.step()\n"
        "    if i % every:\n        optimizer.step()\n        torch.cuda.empty_cache()\n"
    ),
    "for kinds of numbers": (
        "for kind in (torch.float32, torch.bfloat16):\n    model(keep.to(kind)).sum().backward()\n"
        "    torch.cuda.empty_cache()\n"
    ),
    "to measure in nanoseconds": STEP + "    torch.cuda.synchronize()\n    keep(time.monotonic_ns())\n",
    "in a function that goes through an epoch": (
        "def epoch():\n    for batch in batches:\n        model(batch).mean().backward()\n        optimizer.step()\n"
        "    dist.barrier()\n    torch.cuda.empty_cache()\nfor number in range(9):\n    epoch()\n"
    ),
    "in a function of steps that is called once": STEPPING.replace("STALL", "dist.barrier()") + "go(batches)\n",
    "now and then in a function of steps": (
        STEPPING.replace("STALL", "if batch.number % 100 == 0:\n        dist.barrier()") + EACH
    ),
    "where a function of steps fails": (
        STEPPING.replace("STALL", "try:\n        keep()\n    except RuntimeError:\n        torch.cuda.empty_cache()")
        + EACH
    ),
    "in a function of steps that is tried on kinds of numbers": (
        STEPPING.replace("STALL", "torch.cuda.empty_cache()")
        + "for kind in (torch.float32, torch.bfloat16):\n    go(keep.to(kind))\n"
    ),
    "in a function of steps whose time a loop takes": (
        STEPPING.replace("STALL", "torch.cuda.synchronize()") + EACH + "    print(time.time())\n"
    ),
    "in a function that only evaluates": (
        STEPPING.replace("STALL", "pass") + EACH + "def judge(batch):\n    model(batch)\n    dist.barrier()\n"
        "for batch in batches:\n    judge(batch)\n"
    ),
    "in an evaluation": "for batch in batches:\n    model(batch)\n    torch.cuda.empty_cache()\n" + STEP,
}


@pytest.mark.parametrize(("text", "found"), IN_STEPS.items(), ids=range(len(IN_STEPS)))
def test_calls_in_every_step(text: str, found: list[object]) -> None:
    assert stalls(text) == found


@pytest.mark.parametrize("text", ELSEWHERE.values(), ids=ELSEWHERE)
def test_calls_elsewhere(text: str) -> None:
    assert stalls(text) == []


LOGGED = "    logger.update(loss=loss)\n"
BESIDE_WAITS: dict[str, str] = {
    "behind a number": STEP + "    keep(loss.item())\n    torch.cuda.synchronize()\n",
    "behind the state of a scaler": STEP + "    scale = scaler.state_dict()\n    torch.cuda.synchronize()\n",
    "behind the step of a scaler": STEP.replace("optimizer.step", "scaler.step") + "    torch.cuda.synchronize()\n",
    "behind the step of an engine": (
        "for batch in batches:\n    model.backward(model(batch))\n    model.step()\n    torch.cuda.synchronize()\n"
    ),
    "in a function of steps whose loss its loop reads": (
        STEPPING.replace("    STALL\n", "") + "    dist.barrier()\n" + EACH + "    keep(loss.item())\n"
    ),
    "in a function of steps, behind a number": (
        STEPPING.replace("STALL", "keep(loss.item())\n    dist.barrier()") + EACH
    ),
    "ahead of a log": STEP + "    torch.cuda.synchronize()\n    if logger:\n    " + LOGGED,
    "ahead of the log of the first rank": STEP + "    dist.barrier()\n    if dist.get_rank() == 0:\n    " + LOGGED,
    "ahead of a number in the next forward pass": (
        "for batch in batches:\n    loss = model(batch)\n    keep(loss.item())\n    loss.backward()\n"
        "    optimizer.step()\n    torch.cuda.synchronize()\n"
    ),
    "ahead of the next copy": (
        "for batch in batches:\n    model(batch.cuda()).backward()\n    optimizer.step()\n    dist.barrier()\n"
    ),
    "ahead of a copy in a helper": (
        "def fetch(batch):\n    return [each.to('cuda') for each in batch]\n"
        "for batch in batches:\n    model(fetch(batch)).backward()\n    optimizer.step()\n    dist.barrier()\n"
    ),
    "behind a check": (
        "for batch in batches:\n    loss = model(batch)\n    if torch.isnan(loss):\n        continue\n"
        "    dist.barrier()\n    loss.backward()\n    optimizer.step()\n"
    ),
    "behind rare steps": (
        "for i, batch in enumerate(batches):\n    loss = model(batch)\n    loss.backward()\n    keep(loss.item())\n"
        "    if i % 4 == 0:\n        optimizer.step()\n    dist.barrier()\n"
    ),
}
AWAY_FROM_WAITS: dict[str, str] = {
    "between the passes": (
        "for batch in batches:\n    loss = model(batch.cuda())\n    dist.barrier()\n    loss.backward()\n"
        "    optimizer.step()\n    keep(loss.item())\n"
    ),
    "with a number now and then": STEP + "    dist.barrier()\n    if i % 50 == 0:\n        keep(loss.item())\n",
    "with copies that nobody waits for": (
        "for batch in batches:\n    model(batch.cuda(non_blocking=True)).backward()\n    optimizer.step()\n"
        "    torch.cuda.synchronize()\n"
    ),
    "with a cast": (
        "for batch in batches:\n    model(batch.to(torch.bfloat16)).backward()\n    optimizer.step()\n"
        "    torch.cuda.synchronize()\n"
    ),
    "of memory": STEP + "    keep(loss.item())\n    torch.cuda.empty_cache()\n",
}


def beside(text: str) -> list[object]:
    program = link({"train.py": read_module(Source("train.py", HEAD + text))})
    members = pytorch.read(program).collections.get("code.stalls", ())
    return [value.value for member in members if isinstance(value := member.fields["beside"], Value)]


@pytest.mark.parametrize("text", BESIDE_WAITS.values(), ids=BESIDE_WAITS)
def test_calls_beside_what_waits_anyway(text: str) -> None:
    assert all(beside(text)) and len(beside(text)) == 1


@pytest.mark.parametrize("text", AWAY_FROM_WAITS.values(), ids=AWAY_FROM_WAITS)
def test_calls_away_from_other_waits(text: str) -> None:
    assert beside(text) == [""]


OWN_CLASS = """\
class Base:
    pass


class Own(Base):
    def go(self, batch):
        model(batch).mean().backward()
        torch.cuda.empty_cache()
        optimizer.step()

    def train(self):
        run = retried(self.loop)
        run()

    def loop(self):
        for batch in batches:
            self.go(batch)


MADE
"""


@pytest.mark.parametrize(
    ("made", "told"),
    [
        ("own = False\nif own:\n    trainer = Own()\nelse:\n    trainer = Base()\ntrainer.train()", False),
        ("own = True\nif own:\n    trainer = Own()\nelse:\n    trainer = Base()\ntrainer.train()", True),
        ("own = keep()\nif own:\n    trainer = Own()\nelse:\n    trainer = Base()\ntrainer.train()", True),
        ("own = False\nif own:\n    trainer = Own()\nkinds = {'own': Own}\nkinds[keep()]().train()", True),
        ("own = False\nif own:\n    trainer = Own()\nclass Further(Own):\n    pass\nFurther().train()", True),
        ("", True),
    ],
)
def test_methods_of_what_is_built_in_a_branch_that_is_not_taken(made: str, told: bool) -> None:
    assert bool(stalls(OWN_CLASS.replace("MADE", made))) is told
