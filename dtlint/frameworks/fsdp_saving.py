"""Where a program gathers the whole state of an FSDP1 model to save it, and what each rank keeps of it then."""

from __future__ import annotations

from collections.abc import Iterator

from dtlint.frameworks import Member
from dtlint.frameworks.torch_names import FSDP1
from dtlint.languages.python.calls import Call, argument, calls
from dtlint.languages.python.program import Program
from dtlint.languages.python.reach import stands
from dtlint.value import Setting, Value, default

_CONFIGS = ("torch.distributed.fsdp.FullStateDictConfig", "torch.distributed.fsdp.api.FullStateDictConfig")
_TYPES = tuple(f"{name}.{method}" for name in FSDP1 for method in ("state_dict_type", "set_state_dict_type"))


def full_states(program: Program) -> Iterator[Member]:
    """Members of `code.full_states`, one for each place that asks for a full state: whether the gathered weights go to
    main memory (`offloads`), and whether the first rank alone keeps them (`rank0_only`); neither unless written.
    """
    for call in calls(program, (*_CONFIGS, *_TYPES)):
        if stands(call.place) is False:
            continue
        if call.name in _CONFIGS:
            yield _member(call, argument(call, "offload_to_cpu", 0), argument(call, "rank0_only", 1))
        elif _asks_for_all(call) and argument(call, "state_dict_config", 2) is None and not call.open:
            yield _member(call, None, None)


def _asks_for_all(call: Call) -> bool:
    kind = argument(call, "state_dict_type", 1)
    return isinstance(kind, Value) and str(kind.value).endswith("FULL_STATE_DICT")


def _member(call: Call, offloads: Setting | None, rank0_only: Setting | None) -> Member:
    off = default(False, "PyTorch")
    return Member(call.head, {"offloads": offloads or off, "rank0_only": rank0_only or off})
