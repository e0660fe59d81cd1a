"""Models that the Trainer does not take for Transformers' own: it has DDP search a PeftModel for unused parameters."""

from __future__ import annotations

import re

from dtlint.frameworks import Claim, Reading
from dtlint.frameworks.adapters_python import certainly_added
from dtlint.frameworks.code.mentions import mentions
from dtlint.frameworks.transformers.program import arguments_unseen, builds_on_trainer
from dtlint.languages.python.program import Program, imports_from
from dtlint.value import Origin, Value

LAYER = "wrapped-model"
_ARGUMENT = "ddp_find_unused_parameters"
_OTHERWISE = re.compile(r"\b_wrap_model\b|\b_set_static_graph\b|\bDistributedDataParallelKwargs\b|\bddp_handler\b")
"""Words of programs that see to it themselves how their model is wrapped."""


def read(program: Program) -> Reading:
    """`communication.find_unused` of a model with adapters, where the program shows its arguments: unless they say it,
    the Trainer turns the search on for every model that is no PreTrainedModel, recomputed or not (transformers 4.28.1
    to 4.57.1 trainer.py, _wrap_model; peft 0.2.0 to 0.17.1 peft_model.py, `class PeftModel(PushToHubMixin, Module)`).
    """
    adapters = certainly_added(program) if builds_on_trainer(program) else None
    if adapters is None or imports_from(program, "unsloth") or mentions(program, _OTHERWISE):
        return Reading(LAYER)
    if arguments_unseen(program, _ARGUMENT):
        return Reading(LAYER)
    origin = Origin("default", adapters.head, note="the Trainer, which is given a PeftModel")
    return Reading(LAYER, claims=(Claim("communication.find_unused", Value(True, origin), adapters.name),))
