"""Programs whose Trainer spreads the model over all GPUs of one process, where no launcher starts more of them."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator

from dtlint.frameworks import Member
from dtlint.frameworks.arguments import texts
from dtlint.languages.python.calls import Call, calls
from dtlint.languages.python.names import qualified
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands
from dtlint.value import Unknown

_OTHERWISE = re.compile(
    r"device_map|CUDA_VISIBLE_DEVICES|\b_n_gpu\s{0,4}=|load_in_|BitsAndBytes|\bunsloth\b|parallelize|model_parallel"
    r"|use_cpu|no_cuda|_wrap_model|notebook_launcher|\.spawn\(|init_process_group|dispatch_model|\.set_device\("
)
"""What a program says that keeps one process to one GPU, or lays the model out by itself (transformers 5.24.0
trainer.py, is_model_parallel and _wrap_model; training_args.py, _setup_devices)."""
_LOADED = re.compile(r"[Mm]odel\w{0,60}\.from_(?:pretrained|config)\(|For[A-Z]\w{0,60}\.from_(?:pretrained|config)\(")
"""A model that is loaded in sight."""


def spread_models(program: Program, trainers: Iterable[str]) -> tuple[Member, ...]:
    """code.data_parallels of the Trainers that a program makes (classes of `trainers`, or its own that stand on one):
    `devices` is not known, `by` is the Trainer.
    """
    sources = [module.source.text for module in program.modules.values()]
    if any(_OTHERWISE.search(text) for text in sources) or not any(_LOADED.search(text) for text in sources):
        return ()
    classes = frozenset(trainers)
    made = [call for call in calls(program, (*classes, *_own(program, classes))) if stands(call.place) is not False]
    return tuple(_member(call) for call in made[:1])


def _own(program: Program, trainers: frozenset[str]) -> Iterator[str]:
    """The classes of a program that stand on a Trainer, by their qualified names."""
    for name, module in program.modules.items():
        for scope in module.scopes:
            node, around = scope.node, scope.parent
            if not isinstance(node, ast.ClassDef) or around is None:
                continue
            if any(trainers.issuperset(qualified(module, base, around) or ("",)) for base in node.bases):
                yield from (node.name, f"{name.removesuffix('.py').replace('/', '.')}.{node.name}")


def _member(call: Call) -> Member:
    fields = texts(call.head, by="the Trainer")
    return Member(call.head, {**fields, "devices": Unknown("all GPUs that the process sees")})
