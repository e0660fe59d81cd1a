"""Megatron-Core used as a library: `initialize_model_parallel`, TransformerConfig and the wrapper's config."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from itertools import islice

from dtlint.frameworks import Claim, Reading
from dtlint.frameworks.pytorch.names import PRECISIONS, converted
from dtlint.frameworks.stage_cuts import CUTS
from dtlint.languages.python.bindings import last_word
from dtlint.languages.python.calls import Call, argument, call_at, calls
from dtlint.languages.python.following import ways
from dtlint.languages.python.places import Budget, Place, place_of
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands
from dtlint.value import Plain, Setting, Unknown, Value

LAYER = "megatron-python"
MARK = "initialize_model_parallel"
_CORE = "megatron.core"
_START = tuple(f"{_CORE}.{module}.{MARK}" for module in ("parallel_state", "mpu"))
_DEGREES: Mapping[str, tuple[str, int | None]] = {
    "tensor_model_parallel_size": ("parallel.tensor", 0),
    "pipeline_model_parallel_size": ("parallel.pipeline", 1),
    "virtual_pipeline_model_parallel_size": ("parallel.virtual_pipeline", 2),
    "context_parallel_size": ("parallel.context", None),
    "expert_model_parallel_size": ("parallel.expert", None),
    "expert_tensor_parallel_size": ("parallel.expert_tensor", None),
}
"""Parameters of megatron.core.parallel_state.initialize_model_parallel, with their positions (core_v0.4 to 0.19)."""
_CONFIGS = tuple(
    f"{_CORE}.{module}TransformerConfig" for module in ("", "transformer.", "transformer.transformer_config.")
)
_SHAPE: Mapping[str, str] = {
    "num_layers": "model.layers", "hidden_size": "model.hidden", "num_attention_heads": "model.heads",
    "num_query_groups": "model.kv_heads", "ffn_hidden_size": "model.ffn", "kv_channels": "model.head_dim",
    "num_moe_experts": "model.experts", "moe_router_topk": "model.experts_per_token",
    "gated_linear_unit": "model.gated_mlp", "sequence_parallel": "parallel.sequence",
    "recompute_granularity": "checkpointing.activations", "moe_token_dispatcher_type": "communication.moe_dispatcher",
}  # fmt: skip
_WRAPPERS = tuple(
    f"{_CORE}.distributed.{module}DistributedDataParallelConfig" for module in ("", "distributed_data_parallel_config.")
)
_WRAPPED: Mapping[str, str] = {
    "overlap_grad_reduce": "overlap.gradients", "overlap_param_gather": "overlap.parameters",
}  # fmt: skip
_SCHEDULE = "get_forward_backward_func"
"""What gives a program the function that runs the micro-batches of a step through the stages
(megatron/core/pipeline_parallel/schedules.py).
"""
_COUNT = "num_microbatches"
"""The parameter of that function for their number; keyword-only and without a default (core_v0.4 to 0.19)."""
_SENT: Mapping[str, str] = {"micro_batch_size": "batch.micro", "seq_length": "data.sequence_length"}
"""Its parameters for the shape of what stages send each other, which one stage alone does not look at."""
_STATED: Mapping[str, str] = {
    name: key for key, name in (*_SHAPE.items(), *_WRAPPED.items(), *_SENT.items(), (_COUNT, "batch.accumulation"))
} | {name: key for key, (name, _) in _DEGREES.items()}


def read(program: Program) -> Reading:
    """What the script itself hands to Megatron-Core, where it starts the groups in one place."""
    start = _only(program, _START)
    if start is None:
        return Reading(LAYER)
    claims = (*_degrees(start), *_shape(program), _format(program), *_wrapped(program), *_stepped(program, start))
    return Reading(LAYER, start.head, claims, framework="megatron")


def spell(setting: str, value: Plain) -> str | None:
    """A setting as the argument that states it."""
    key = _STATED.get(setting)
    return None if key is None else f"{key}={value!r}"


def _only(program: Program, names: tuple[str, ...]) -> Call | None:
    """The one call of the entry script that is reached; None where there are several."""
    found = [
        call for call in calls(program, names) if call.place.module is program.main and stands(call.place) is not False
    ]
    return found[0] if len(found) == 1 else None


def _degrees(start: Call) -> Iterator[Claim]:
    for key, (name, position) in _DEGREES.items():
        value = argument(start, key, position)
        if value is not None and not _is_none(value):
            yield Claim(name, value, key)


def _is_none(value: Setting) -> bool:
    return isinstance(value, Value) and value.value is None


def _shape(program: Program) -> Iterator[Claim]:
    config = _only(program, _CONFIGS)
    if config is None:
        return
    for key, name in _SHAPE.items():
        value = argument(config, key)
        if value is not None and not _is_none(value):
            yield Claim(name, value, key)
    yield from _cut(config)


def _cut(config: Call) -> Iterator[Claim]:
    """Which layers a stage has is not told where the config cuts them."""
    named = ((key, argument(config, key)) for key in CUTS)
    given = ((key, value) for key, value in named if isinstance(value, Value) and value.value not in (None, False))
    for key, value in islice(given, 1):
        cut = Unknown(f"{key} cuts the layers", "--set parallel.stage_layers=...", value.origin)
        yield Claim("parallel.stage_layers", cut, key)


def _format(program: Program) -> Claim:
    """The format of the weights; without Megatron's arguments no format is one that is taken unasked."""
    config = _only(program, _CONFIGS)
    dtype = None if config is None else argument(config, "params_dtype")
    if dtype is None:
        return Claim("precision.compute", Unknown("the model that is built decides on the format"), "params_dtype")
    return Claim("precision.compute", converted(dtype, PRECISIONS), "params_dtype")


def _wrapped(program: Program) -> Iterator[Claim]:
    wrapper = _only(program, _WRAPPERS)
    if wrapper is None:
        return
    for key, name in _WRAPPED.items():
        value = argument(wrapper, key)
        if value is not None:
            yield Claim(name, value, key)
    sharded = argument(wrapper, "use_distributed_optimizer")
    if isinstance(sharded, Value) and isinstance(sharded.value, bool):
        yield Claim("sharding.stage", sharded._replace(value=int(sharded.value)), "use_distributed_optimizer")


def _stepped(program: Program, start: Call) -> Iterator[Claim]:
    """The batch as the steps that train hand it to the schedule. Without Megatron's arguments no number is taken
    unasked.
    """
    steps = tuple(call for call in _schedule_calls(program) if not _is_true(argument(call, "forward_only")))
    count = _agreed(steps, _COUNT)
    unread = Unknown(f"the schedule is told {_COUNT} where that is not seen", "--set batch.accumulation=N")
    yield Claim("batch.accumulation", unread if count is None else count, _COUNT)
    if _sends_fixed_shapes(program, start):
        for key, name in _SENT.items():
            value = _agreed(steps, key)
            if value is not None:
                yield Claim(name, value, key)


def _sends_fixed_shapes(program: Program, start: Call) -> bool:
    """Whether there are several stages, and all micro-batches have the shape that the schedule is told."""
    config, stages = _only(program, _CONFIGS), argument(start, *_stages())
    several = stages is not None and not (isinstance(stages, Value) and stages.value in (None, 1))
    return several and config is not None and not _is_true(argument(config, "variable_seq_lengths"))


def _stages() -> tuple[str, int | None]:
    return next((key, position) for key, (name, position) in _DEGREES.items() if name == "parallel.pipeline")


def _is_true(value: Setting | None) -> bool:
    """Whether a switch may be on: it is given, and not known to be off."""
    return value is not None and not (isinstance(value, Value) and not value.value)


def _agreed(steps: tuple[Call, ...], key: str) -> Setting | None:
    """What all steps pass for a parameter; None where they differ, or one passes nothing."""
    given = [argument(call, key) for call in steps]
    told = {each.value for each in given if isinstance(each, Value)}
    alike = len(told) == 1 and all(isinstance(each, Value) and each.value is not None for each in given)
    return given[0] if alike or len(given) == 1 else None


def _schedule_calls(program: Program) -> Iterator[Call]:
    """The calls of what get_forward_backward_func gives, under whatever name the program keeps it."""
    if any(_SCHEDULE in module.called for module in program.modules.values()):
        for place in _told_counts(program):
            node = place.node
            if isinstance(node, ast.Call) and _is_schedule(place.at(node.func)) and stands(place) is not False:
                yield call_at(place, _SCHEDULE)


def _told_counts(program: Program) -> Iterator[Place]:
    """The calls that are told a number of micro-batches."""
    for module in program.modules.values():
        for site in (site for scope in module.scopes for site in scope.sites):
            given = site.node.keywords if isinstance(site.node, ast.Call) else ()
            if any(keyword.arg == _COUNT for keyword in given):
                yield place_of(program, module, site)


def _is_schedule(function: Place) -> bool:
    ends = [way.end for way in ways(function._replace(budget=Budget()))]
    made = [end.node for end in ends if isinstance(end, Place) and isinstance(end.node, ast.Call)]
    return bool(made) and all(last_word(call.func) == _SCHEDULE for call in made)
