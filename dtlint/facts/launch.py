"""Facts about how a run is started: on how many machines, which GPUs its processes see, what its GPUs ask of CUDA."""

from __future__ import annotations

from dtlint.facts.registry import FactValue, missing, register
from dtlint.frameworks import Member
from dtlint.plan import Plan
from dtlint.value import Unknown, Value

NEWER = ("B200", "B300", "GB200", "GB300", "RTX5090")
"""Beginnings of the catalog's names of NVIDIA's GPUs from Blackwell on (compute capability 10 and above)."""

OTHERS = ("MI", "Trainium", "TPU", "Gaudi")
"""Beginnings of the names of accelerators that are not NVIDIA's."""

VISIBLE = "CUDA_VISIBLE_DEVICES"


@register("launch.spread", "flag", "", (), "torchrun")
def spread(plan: Plan) -> FactValue:
    """Whether srun, mpirun, ssh or the like carries the launch to other machines."""
    return bool(plan.collection("launch.starters"))


@register("launch.starter", "word", "", (), "slurm")
def starter(plan: Plan) -> FactValue:
    """What carries the launch to other machines: srun, mpirun, ssh ..., or "none"."""
    found = plan.collection("launch.starters")
    member = found[0] if found else None
    name = member.fields["name"] if isinstance(member, Member) else None
    return str(name.value) if isinstance(name, Value) else "none"


@register("launch.rank_in_file", "flag", "", ("launch.node_rank",), "accelerate-launch")
def rank_in_file(plan: Plan) -> FactValue:
    """Whether a config gives the machine's number, so that it is the same wherever the config is read."""
    found = plan.stated("launch.node_rank")
    return found is not None and found.origin.kind == "written" and not plan.collection("launch.same_rank")


@register("launch.trainer_devices", "number", "GPUs", ("cluster.gpus_per_node",), "lightning-20391")
def trainer_devices(plan: Plan) -> FactValue:
    """Devices of a node that Lightning's Trainer expects: what it is passed, else all GPUs of the node."""
    found = plan.collection("code.trainers")
    member = found[0] if found else None
    if not isinstance(member, Member):
        return Unknown("the program has no Trainer of Lightning")
    devices = member.fields.get("devices")
    if isinstance(devices, Value) and isinstance(devices.value, int) and devices.value > 0:
        return devices.value
    every = devices is None or (isinstance(devices, Value) and devices.value in (-1, "auto", "-1"))
    if not every:
        return Unknown("the Trainer's devices are not known")
    return plan.integer("cluster.gpus_per_node") or missing(plan, "cluster.gpus_per_node")


@register("launch.visible_gpus", "number", "GPUs", ("communication.env",), "CUDA programming guide")
def visible_gpus(plan: Plan) -> FactValue:
    """GPUs that CUDA_VISIBLE_DEVICES leaves to the processes of one machine."""
    pairs = plan.value("communication.env")
    for pair in pairs if isinstance(pairs, tuple) else ():
        if isinstance(pair, tuple) and len(pair) == 2 and pair[0] == VISIBLE and isinstance(pair[1], str):
            return len({part.strip() for part in pair[1].split(",") if part.strip()})
    return Unknown(f"the launch does not set {VISIBLE}")


@register("cluster.before_blackwell", "flag", "", ("cluster.gpu",), "megatron-arguments")
def before_blackwell(plan: Plan) -> FactValue:
    """Whether the GPU is one of NVIDIA's before Blackwell (compute capability below 10)."""
    from dtlint.catalog import gpu

    name = plan.word("cluster.gpu")
    found = gpu(name) if name is not None else None
    if found is None:
        return missing(plan, "cluster.gpu")
    if found.name.startswith(OTHERS):
        return Unknown(f"{found.name} is not NVIDIA's")
    return not found.name.startswith(NEWER)
