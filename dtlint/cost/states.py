"""Model states: what weights, gradients and optimizer take per parameter, and how ZeRO or FSDP shares it out."""

from __future__ import annotations

from dtlint.cost.figures import Precision
from dtlint.record import NamedTuple


class StateBytes(NamedTuple):
    """Bytes per parameter on one rank. `transient` exists only while the optimizer steps."""

    weights: float
    gradients: float
    optimizer: float
    transient: float

    @property
    def resident(self) -> float:
        """What stays through the whole step."""
        return self.weights + self.gradients + self.optimizer


def states_bytes_per_parameter(
    stage: int, ranks: int, weight: float = 2.0, gradient: float = 2.0, optimizer: float = 12.0
) -> float:
    """Bytes of model states per parameter on each of `ranks` ranks at a ZeRO stage.

    Stage 0 w+g+o, 1 w+g+o/D, 2 w+(g+o)/D, 3 (w+g+o)/D: with 16-bit weights and gradients and Adam 16, 4+12/D, 2+14/D,
    16/D (Rajbhandari et al., ZeRO, section 3); Megatron's fp32 gradients make it 18 and 6+12/D (Megatron-LM
    dist_optimizer.md).
    """
    return shared_bytes(stage, ranks, weight, gradient, optimizer).resident


def shared_bytes(
    stage: int, ranks: int, weight: float, gradient: float, optimizer: float, transient: float = 0.0
) -> StateBytes:
    """The states per parameter with what the stage shares out divided by `ranks`."""
    return StateBytes(
        weight / ranks if stage >= 3 else weight,
        gradient / ranks if stage >= 2 else gradient,
        optimizer / ranks if stage >= 1 else optimizer,
        transient / ranks if stage >= 1 else transient,
    )


def offloads_gradients(style: str, stage: int) -> bool:
    """Whether gradients follow an offloaded optimizer to the host: DeepSpeed's from stage 2 on (zero/stage_1_and_2.py
    and stage3.py copy each reduced bucket), FSDP's with CPUOffload."""
    return style == "fsdp" or (style == "deepspeed" and stage >= 2)


def state_bytes(style: str, precision: Precision, stage: int, ranks: int, step_copy: float = 4.0) -> StateBytes:
    """The states per parameter as the keeper of the states (`style`) keeps them.

    Megatron fp16 copies its 16-bit gradients to fp32 for the step (20 bytes in all, dist_optimizer.md). DeepSpeed's
    step flattens the gradients it owns and copies them to fp32 (zero/stage_1_and_2.py); its optimizer for bf16 keeps
    fp32 gradients beside the others, shares its states out over the data-parallel ranks and flattens whole weights
    (bf16_optimizer.py). It is taken without ZeRO, and at stage 1 where fp32 gradients are asked for
    (engine.py, _do_optimizer_sanity_check). FSDP keeps fp32 weights that are their own masters.
    """
    optimizer = precision.master + precision.moments
    copy = 4.0 if precision.gradient < 4.0 and precision.master == 4.0 else 0.0
    if style == "megatron":
        return shared_bytes(stage, ranks, precision.weight, precision.gradient, optimizer + copy)
    fp32_gradients = stage == 0 or (stage == 1 and precision.gradient == 4.0)
    if style == "deepspeed" and precision.compute == "bf16" and fp32_gradients:
        both = precision.weight + 4.0
        return shared_bytes(1, ranks, precision.weight, both, optimizer)._replace(transient=precision.weight)
    if style == "deepspeed":
        return shared_bytes(stage, ranks, precision.weight, precision.gradient, optimizer, step_copy if copy else 0.0)
    shared = 3 if stage >= 2 else stage
    return shared_bytes(shared, ranks, precision.weight, precision.gradient, optimizer)
