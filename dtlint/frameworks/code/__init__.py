"""What training code does with its ranks and gradients, as collections that rules look at one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING

from dtlint.frameworks import STEP_LOOPS, Member
from dtlint.languages.python.empty_objects import stopped_before
from dtlint.languages.python.own_start import is_of_own_start
from dtlint.languages.python.places import site_at
from dtlint.languages.python.program import Program, holder_of
from dtlint.languages.python.sharing import kept
from dtlint.languages.python.uncalled import uncalled
from dtlint.languages.python.unpassed import unpassed
from dtlint.languages.python.unreached import unreached
from dtlint.languages.python.unset import unset

if TYPE_CHECKING:
    from dtlint.frameworks.code.refused_calls import Refused

Collector = Callable[[Program], tuple[Member, ...]]

_EXCHANGES = (
    "all_reduce all_gather all_gather_into_tensor all_gather_object all_to_all all_to_all_single barrier broadcast "
    "broadcast_object_list compute gather reduce reduce_scatter scatter wait_for_everyone"
)
_COLLECTIVES = frozenset(_EXCHANGES.split())
"""Names of functions that all ranks call, for programs that do not go backward."""
_POLICIES = ("transformer_auto_wrap_policy", "size_based_auto_wrap_policy", "lambda_auto_wrap_policy")
"""Functions of torch that FSDP calls, and code hands over."""
MAX_PASSES = 300
"""Most backward passes of one file: nobody writes more, and what is asked of each looks at all bindings around it."""


def collections(program: Program) -> Mapping[str, tuple[Member, ...]]:
    """The collections about the code of one program; those that find nothing are left out."""
    if any(len(module.called.get("backward", ())) > MAX_PASSES for module in program.modules.values()):
        return {}
    words = {word for module in program.modules.values() for word in module.called}
    refused = _refused(program, words)
    found = ((name, _of_this(program, _collected(program, name, collect))) for name, collect in _collectors(words))
    placed = {name: tuple(_placed(program, refused, each) for each in members) for name, members in found if members}
    return placed | {name: tuple(_placed(program, (), each) for each in told) for name, told in _told_of(refused)}


def _refused(program: Program, words: set[str]) -> tuple[Refused, ...]:
    """The calls that Python refuses, of programs that call what is often called so."""
    if words.isdisjoint(("initialize", *_POLICIES)):
        return ()
    from dtlint.frameworks.code.refused_calls import refused_calls

    return refused_calls(program)


def _told_of(refused: tuple[Refused, ...]) -> Iterable[tuple[str, tuple[Member, ...]]]:
    if not refused:
        return ()
    from dtlint.frameworks.code.refused_calls import refused_members

    return refused_members(refused).items()


def _collected(program: Program, name: str, collect: Collector) -> tuple[Member, ...]:
    """What a collector finds; or what it found for another launch of the script, if that answers alike."""
    return kept(program, (name, program.entry, program.main.top), partial(collect, program))


def _of_this(program: Program, members: tuple[Member, ...]) -> tuple[Member, ...]:
    """The members without those in what an imported file does only where it is started itself: another program's."""
    held = ((each, holder_of(program, each.place.source)) for each in members)
    return tuple(each for each, module in held if not (module and is_of_own_start(program, module, each.place.line)))


def _placed(program: Program, refused: tuple[Refused, ...], member: Member) -> Member:
    """A member that says whether the program comes to it: whether anything calls the method or function that it stands
    in, changes what it waits for, gives what it asks for, or stops before, by a call that Python refuses among others.
    """
    source = member.place.source
    module = next((each for each in program.modules.values() if each.source is source), None)
    if module is None:
        return member
    site = site_at(module, member.place)
    line = member.place.line
    idle = (
        *uncalled(program, module, line),
        *unreached(program, module, line),
        *stopped_before(program, module, line),
    )
    unused = (*idle, *((*unset(program, module, site), *unpassed(module, site)) if site else ()))
    if refused:
        from dtlint.frameworks.code.refused_calls import stopped_by

        unused = (*stopped_by(program, refused, module, member.place), *unused)
    return member._replace(uncalled=unused) if unused else member


def _collectors(words: set[str]) -> Iterator[tuple[str, Collector]]:
    """The collectors that have anything to look at in a program that calls functions of these names.

    Each is imported for the programs that need it only: most have neither a rank nor a gradient.
    """
    if words & {"backward", "manual_backward", "step"}:
        yield from _of_training()
    else:
        yield "code.divergences", _without_training if words & _COLLECTIVES else _stop_flags
    if "DistributedSampler" in words:
        from dtlint.frameworks.code.samplers import samplers

        yield "code.samplers", samplers
    yield from _of_data(words)
    if words & {"no_sync", "accumulate", "generate", "clip_grad_norm_"}:
        from dtlint.frameworks.code.zero import accelerated_clips, zero_generations, zero_no_syncs

        yield "code.accelerated_clips", accelerated_clips

        yield "code.zero_generations", zero_generations
        yield "code.zero_no_syncs", zero_no_syncs
    if "FullyShardedDataParallel" in words or "fully_shard" in words:
        from dtlint.frameworks.code.early_optimizers import early_optimizers
        from dtlint.frameworks.code.sharded import shard_clips

        yield "code.early_optimizers", early_optimizers
        yield "code.shard_clips", shard_clips
        from dtlint.frameworks.code.loss_scales import unscaled_units

        yield "code.unscaled_units", unscaled_units
    yield from _of_recomputation(words)
    if "DataParallel" in words:
        from dtlint.frameworks.code.data_parallels import data_parallels

        yield "code.data_parallels", data_parallels
    yield from _of_processes(words)
    if words & {"DistributedDataParallel", "Accelerator", "Fabric"} and "backward" in words:
        from dtlint.frameworks.code.bypassing import bypassed_models

        yield "code.bypassed_models", bypassed_models
    if "DistributedDataParallel" in words:
        from dtlint.frameworks.code.wrapping import moved_models

        yield "code.moved_models", moved_models
    wrapped = words & {"DistributedDataParallel", "FullyShardedDataParallel", "Accelerator"} and "backward" in words
    if wrapped or any(word.endswith("_first") for word in words):
        from dtlint.frameworks.code.lone_work import lone_work

        yield "code.lone_work", lone_work
    if words & {"DistributedDataParallel", "DistributedDataParallelKwargs"}:
        from dtlint.frameworks.code.selected_parts import selected_parts
        from dtlint.frameworks.code.wrapping import searched_recomputations

        yield "code.selected_parts", selected_parts
        yield "code.searched_recomputations", searched_recomputations
    from dtlint.frameworks.code.guarded import guarded_collectives
    from dtlint.frameworks.code.halts import halts

    yield "code.halts", halts

    yield "code.guarded_collectives", guarded_collectives


def _of_processes(words: set[str]) -> Iterator[tuple[str, Collector]]:
    """What is asked of the device of each process, and of what its layers exchange."""
    if "init_process_group" in words:
        from dtlint.frameworks.code.devices import shared_devices

        yield "code.shared_devices", shared_devices
    if words & {"set_device", "device", "DistributedDataParallel"}:
        from dtlint.frameworks.code.numbered_devices import numbered_devices

        yield "code.numbered_devices", numbered_devices
    if words & {"convert_sync_batchnorm", "convert_syncbn_model"}:
        from dtlint.frameworks.code.synchronized_norms import synchronized_norms

        yield "code.synchronized_norms", synchronized_norms


def _stop_flags(program: Program) -> tuple[Member, ...]:
    """Flags that stop a front end's loop; of programs that speak of one, since few do."""
    from dtlint.frameworks.code.stop_flags import FLAGS, stop_flags

    texts = (module.source.text for module in program.modules.values())
    return stop_flags(program) if any(flag in text for text in texts for flag in FLAGS) else ()


def _without_training(program: Program) -> tuple[Member, ...]:
    """What parts the ranks in files that go backward nowhere: layers and losses that exchange something."""
    from dtlint.frameworks.code.divergence import left_collectives

    return (*left_collectives(program), *_stop_flags(program))


def _of_recomputation(words: set[str]) -> Iterator[tuple[str, Collector]]:
    """What is asked of how activations are recomputed."""
    from dtlint.frameworks.code.deepspeed_checkpoints import deepspeed_checkpoints

    yield "code.deepspeed_checkpoints", deepspeed_checkpoints
    if "from_pretrained" in words:
        from dtlint.frameworks.code.obstacles import obstacles

        yield "code.obstacles", obstacles


def _of_data(words: set[str]) -> Iterator[tuple[str, Collector]]:
    """What is asked of how samples come to the ranks, and features and weights together."""
    if words & {"DataLoader", "DistributedSampler"}:
        from dtlint.frameworks.code.loaders import loaders

        yield "code.loaders", loaders
    if "backward" in words:
        from dtlint.frameworks.code.evaluated_shards import evaluated_shards
        from dtlint.frameworks.code.floored_batches import floored_batches
        from dtlint.frameworks.code.held_steps import held_steps
        from dtlint.frameworks.code.loss_scales import loss_scales
        from dtlint.frameworks.code.overscaling import overscaled_losses
        from dtlint.frameworks.code.replicas import replicas
        from dtlint.frameworks.code.rescaling import rescaled_losses
        from dtlint.frameworks.code.shards import shards

        yield "code.floored_batches", floored_batches
        yield "code.loss_scales", loss_scales
        yield "code.overscaled_losses", overscaled_losses
        yield "config.conflicts", lambda of: (*rescaled_losses(of), *held_steps(of))
        yield "code.replicas", replicas
        yield "code.shards", lambda of: (*shards(of), *evaluated_shards(of))
    elif "generate" in words:
        from dtlint.frameworks.code.evaluated_shards import evaluated_shards

        yield "code.shards", evaluated_shards
    if words & {"backward", "all_gather"}:
        from dtlint.frameworks.code.gathers import local_losses

        yield "code.local_losses", local_losses


def _of_training() -> Iterator[tuple[str, Collector]]:
    """What loops that go backward are asked."""
    from dtlint.frameworks.code.averaging import averaged_losses
    from dtlint.frameworks.code.divergence import divergences
    from dtlint.frameworks.code.grad_sync import unskipped_exchanges, wrong_microsteps
    from dtlint.frameworks.code.idle_no_syncs import idle_no_syncs
    from dtlint.frameworks.code.late_flags import late_flags
    from dtlint.frameworks.code.stalls import stalls
    from dtlint.frameworks.code.step_loops import step_loops

    yield "code.averaged_losses", averaged_losses
    yield "code.divergences", lambda of: (*divergences(of), *_stop_flags(of))
    yield "code.idle_no_syncs", idle_no_syncs
    yield "code.late_flags", late_flags
    yield "code.stalls", stalls
    yield STEP_LOOPS, step_loops
    yield "code.unskipped_exchanges", unskipped_exchanges
    yield "code.wrong_microsteps", wrong_microsteps
