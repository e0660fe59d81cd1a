"""Facts about how a run is started: on how many machines, which GPUs its processes see, what its GPUs ask of CUDA."""

from __future__ import annotations

from dtlint.facts.registry import FactValue, missing, register
from dtlint.facts.variables import values_of
from dtlint.frameworks import Member
from dtlint.plan import Plan
from dtlint.value import Unknown, Value

NEWER = ("B200", "B300", "GB200", "GB300", "RTX5090")
"""Beginnings of the catalog's names of NVIDIA's GPUs from Blackwell on (compute capability 10 and above)."""

OTHERS = ("MI", "Trainium", "TPU", "Gaudi")
"""Beginnings of the names of accelerators that are not NVIDIA's."""

LONGEST_COUNT = 9
"""Digits that no number of processes has."""

VISIBLE = "CUDA_VISIBLE_DEVICES"
_EACH_SEES_ALL = ("torchrun", "torch.distributed.launch", "slurm", "mpi")
"""Launchers that show every process the GPUs of its machine, unless they are told to bind."""
_ONE_GPU_A_PROCESS = ("fsdp", "deepspeed")
"""Frameworks whose processes take one device each, that of their local rank."""


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


@register("launch.accompanied", "flag", "", (), "slurm")
def accompanied(plan: Plan) -> FactValue:
    """Whether the script starts something else on other machines, which may be the agents that this launch awaits."""
    return bool(plan.collection("launch.carried"))


@register("launch.strict_program", "flag", "", (), "torchrun-doc")
def strict_program(plan: Plan) -> FactValue:
    """Whether the program reads its arguments with a parser that stops at what it does not know."""
    return bool(plan.collection("program.parser"))


@register("launch.told_outside", "flag", "", (), "torchrun-doc")
def told_outside(plan: Plan) -> FactValue:
    """Whether whoever starts the script may tell where the nodes meet: nothing in it starts the launch on other
    machines, whose environment it would make, and its launcher asks the environment.
    """
    return bool(plan.collection("launch.inherited")) and not plan.collection("launch.starters")


@register("launch.met_outside", "flag", "", (), "torchrun-doc")
def met_outside(plan: Plan) -> FactValue:
    """Whether what is not here may tell where the nodes meet, or only machines of some numbers start the launch."""
    return told_outside(plan) is True or chosen_machine(plan) is True


@register("launch.own_ports", "flag", "", ("launch.rendezvous",), "torch-collectives")
def own_ports(plan: Plan) -> FactValue:
    """Whether each of several processes chooses the port itself at which all are to meet."""
    processes = plan.integer("launch.processes")
    return plan.word("launch.rendezvous") == "own-port" and (processes or 0) > 1


@register("launch.meets_itself", "flag", "", (), "torchrun-doc")
def meets_itself(plan: Plan) -> FactValue:
    """Whether each machine asks itself for the address at which all are to meet."""
    return bool(plan.collection("launch.own_hosts"))


@register("launch.chosen_machine", "flag", "", (), "torchrun-doc")
def chosen_machine(plan: Plan) -> FactValue:
    """Whether only machines of some numbers start the launch so (`if [ $NODE_RANK -eq 0 ]`)."""
    return bool(plan.collection("launch.chosen"))


@register("cluster.asks_for_rdma", "flag", "", (), "nccl-env")
def asks_for_rdma(plan: Plan) -> FactValue:
    """Whether the job asks its machines for adapters of InfiniBand or RoCE."""
    return bool(plan.collection("cluster.adapters"))


@register("launch.shares_cores", "flag", "", (), "deepspeed-launcher")
def shares_cores(plan: Plan) -> FactValue:
    """Whether the launcher, or the recipe that it starts, gives each process its share of the cores as threads."""
    return bool(plan.collection("launch.bound_cores"))


@register(
    "launch.without_peers", "flag", "", ("cluster.gpu", "cluster.nvlink_domain"), "the link of the card in gpus.csv"
)
def without_peers(plan: Plan) -> FactValue:
    """Whether no GPU of a machine can read another's memory: the newer GeForce cards, or machines told to be so."""
    from dtlint.catalog import gpu

    name = plan.word("cluster.gpu")
    found = gpu(name) if name is not None else None
    return plan.integer("cluster.nvlink_domain") == 1 or (found is not None and not found.peer_access)


@register("launch.rank_in_file", "flag", "", ("launch.node_rank",), "accelerate-launch")
def rank_in_file(plan: Plan) -> FactValue:
    """Whether a config gives the machine's number, so that it is the same wherever the config is read."""
    found = plan.stated("launch.node_rank")
    return found is not None and found.origin.kind == "written" and not plan.collection("launch.same_rank")


@register("launch.needs_rank", "flag", "", (), "accelerate-launch")
def needs_rank(plan: Plan) -> FactValue:
    """Whether the command line alone has to give the machine's number, as no config file is named that could."""
    needs = [need.fields["key"] for need in plan.collection("config.needed") if isinstance(need, Member)]
    return any(isinstance(key, Value) and key.value == "machine_rank" for key in needs)


@register("launch.hides_flags", "flag", "", (), "accelerate-launch")
def hides_flags(plan: Plan) -> FactValue:
    """Whether words that are not known may hold more flags of the launcher (`$LAUNCH_FLAGS`)."""
    return bool(plan.collection("launch.hidden"))


@register("launch.trainer_devices", "number", "GPUs", ("cluster.gpus_per_node",), "lightning-20391")
def trainer_devices(plan: Plan) -> FactValue:
    """Devices of a node that Lightning's Trainer expects: what it is passed, else all GPUs of the node."""
    found = plan.collection("code.trainers")
    member = found[0] if found else None
    if not isinstance(member, Member):
        return Unknown("the program has no Trainer of Lightning")
    devices = member.fields.get("devices")
    if isinstance(devices, Value) and devices.origin.kind == "assumed":
        return Unknown(f"the Trainer's devices are {devices.value} only where nothing else is told")
    if isinstance(devices, Value) and isinstance(devices.value, int) and devices.value > 0:
        return devices.value
    every = devices is None or (isinstance(devices, Value) and devices.value in (-1, "auto", "-1"))
    if not every:
        return Unknown("the Trainer's devices are not known")
    return plan.integer("cluster.gpus_per_node") or missing(plan, "cluster.gpus_per_node")


@register("launch.default_nodes", "number", "nodes", (), "slurm")
def default_nodes(plan: Plan) -> FactValue:
    """The one node that Slurm gives a job whose #SBATCH lines ask for no number of them, and for nothing it follows
    from.
    """
    return 1 if plan.collection("launch.unsaid_nodes") else Unknown("the job asks for nodes, or is none of Slurm's")


@register("launch.started_nodes", "number", "nodes", ("cluster.nodes",), "slurm")
def started_nodes(plan: Plan) -> FactValue:
    """Nodes on which srun starts the launch: as many as it is told, else all of the job that it has a task for."""
    steps = [member for member in plan.collection("launch.steps") if isinstance(member, Member)]
    if starter(plan) != "srun" or len(steps) != 1 or _plain(steps[0], "open"):
        return Unknown("no one srun that is read whole starts the launch")
    told = steps[0].fields
    of_job = Unknown("srun names its nodes") if "nodelist" in told else plan.get("cluster.nodes")
    counts = [told.get("nodes", of_job), *([told["tasks"]] if "tasks" in told else [])]
    known = [count.value for count in counts if isinstance(count, Value) and isinstance(count.value, int)]
    return min(known) if len(known) == len(counts) else Unknown("on how many nodes srun starts it is not known")


@register("launch.asked_machines", "number", "machines", (), "deepspeed-launcher")
def asked_machines(plan: Plan) -> FactValue:
    """Machines that the launch asks for where the host file has fewer."""
    asked = (member.fields["asked"] for member in plan.collection("launch.short_hosts") if isinstance(member, Member))
    known = next((value.value for value in asked if isinstance(value, Value) and isinstance(value.value, int)), None)
    return known if known is not None else Unknown("the host file has as many machines as the launch asks for")


@register("launch.names_gpus", "flag", "", (), "deepspeed-launcher")
def names_gpus(plan: Plan) -> FactValue:
    """Whether the launch names the GPUs that it takes (`--include a:0,1`, `--gpu_ids 0,1`), and leaves the others to
    somebody else.
    """
    return bool(plan.collection("launch.chosen_gpus"))


@register("launch.engine_beside", "flag", "", (), "rollout-ranks")
def engine_beside(plan: Plan) -> FactValue:
    """Whether an engine that answers (vLLM, SGLang) has GPUs of the machine that no process of the launch takes."""
    sure = [_plain(member, "sure") for member in plan.collection("launch.engines") if isinstance(member, Member)]
    if sure and "yes" not in sure:
        return Unknown("whether vLLM has GPUs of its own goes by TRL's release", "--vllm_mode server or colocate")
    return bool(sure)


@register("launch.steps_beside", "flag", "", (), "slurm")
def steps_beside(plan: Plan) -> FactValue:
    """Whether srun starts other programs while the launch runs, on machines of the same allocation."""
    return bool(plan.collection("launch.steps_beside"))


@register("launch.filter", "word", "", (), "deepspeed-launcher")
def slot_filter(plan: Plan) -> FactValue:
    """The option that names machines or slots which the host file does not have."""
    return _of_filter(plan, "option")


@register("launch.absent_machine", "word", "", (), "deepspeed-launcher")
def absent_machine(plan: Plan) -> FactValue:
    """The machine of such an option: not in the host file, or with fewer slots there."""
    return _of_filter(plan, "machine")


@register("launch.absent_slot", "number", "", (), "deepspeed-launcher")
def absent_slot(plan: Plan) -> FactValue:
    """The highest slot of the machine that the option names, where the host file does not have it."""
    return _of_filter(plan, "slot")


@register("launch.slots_there", "number", "slots", (), "deepspeed-launcher")
def slots_there(plan: Plan) -> FactValue:
    """Slots that the host file gives that machine."""
    return _of_filter(plan, "slots")


def _of_filter(plan: Plan, field: str) -> FactValue:
    members = [member for member in plan.collection("launch.absent_slots") if isinstance(member, Member)]
    value = members[0].fields.get(field) if members else None
    if isinstance(value, Value) and isinstance(value.value, int | str):
        return value.value
    return Unknown("the host file has what the launch names")


@register("launch.keeps_to_slots", "flag", "", (), "openmpi-slots")
def keeps_to_slots(plan: Plan) -> FactValue:
    """Whether mpirun starts the processes and is not told to start more than there are slots."""
    return any(isinstance(step, Member) and _plain(step, "over") == "no" for step in plan.collection("launch.tasks"))


@register("launch.one_gpu_each", "flag", "", ("framework",), "torchrun-doc")
def one_gpu_each(plan: Plan) -> FactValue:
    """Whether the program has each process keep to one GPU: FSDP, DDP with `device_ids=[rank]`, DeepSpeed's engine,
    which takes the device of its local rank (runtime/engine.py, _set_distributed_vars).
    """
    return bool(plan.collection("code.lone_devices")) or plan.word("framework") in _ONE_GPU_A_PROCESS


@register("launch.numbers_gpus", "flag", "", (), "slurm")
def numbers_gpus(plan: Plan) -> FactValue:
    """Whether each process takes the GPU with the number that Slurm gives it, which it has to see under that number."""
    found = (each.fields["variable"] for each in plan.collection("code.numbered_devices") if isinstance(each, Member))
    return any(isinstance(each, Value) and each.value == "SLURM_LOCALID" for each in found)


@register("launch.waits_for_one", "flag", "", (), "torchrun-doc")
def waits_for_one(plan: Plan) -> FactValue:
    """Whether all ranks wait at a barrier for the first, which goes through the data before it."""
    return bool(plan.collection("code.lone_work"))


@register("communication.in_norms", "flag", "", ("framework",), "torch-sync-batchnorm")
def in_norms(plan: Plan) -> FactValue:
    """Whether the layers of the model themselves exchange something in each pass: batch norms over all ranks."""
    return bool(plan.collection("code.synchronized_norms"))


@register("launch.awaited_processes", "number", "processes", (), "torchrun-doc")
def awaited_processes(plan: Plan) -> FactValue:
    """Processes that WORLD_SIZE tells each to wait for, where the launch sets it."""
    told = next(values_of(plan, "WORLD_SIZE"), None) or ""
    if told.isdecimal() and len(told) < LONGEST_COUNT:
        return int(told)
    return Unknown("the launch does not set WORLD_SIZE to a number")


@register("config.as_written", "flag", "", (), "deepspeed-config")
def as_written(plan: Plan) -> FactValue:
    """Whether the program hands its DeepSpeed config to deepspeed.initialize as a file, so that nothing is added."""
    return bool(plan.collection("config.by_path")) and not plan.open


@register("launch.visible_gpus", "number", "GPUs", ("communication.env", "launch.named_gpus"), "CUDA programming guide")
def visible_gpus(plan: Plan) -> FactValue:
    """GPUs that CUDA_VISIBLE_DEVICES leaves to the processes of one machine, be it set by the launcher."""
    if isinstance(named := plan.get("launch.named_gpus"), Value) and isinstance(named.value, int):
        return named.value
    pairs = plan.value("communication.env")
    for pair in pairs if isinstance(pairs, tuple) else ():
        if isinstance(pair, tuple) and len(pair) == 2 and pair[0] == VISIBLE and isinstance(pair[1], str):
            return len({part.strip() for part in pair[1].split(",") if part.strip()})
    return Unknown(f"the launch does not set {VISIBLE}")


@register("launch.hides_gpus", "flag", "", ("communication.env",), "CUDA programming guide")
def hides_gpus(plan: Plan) -> FactValue:
    """Whether the launch sets CUDA_VISIBLE_DEVICES to something that is not known."""
    return _hidden(plan)


@register("launch.gpus_of_a_task", "number", "GPUs", (), "slurm")
def gpus_of_a_task(plan: Plan) -> FactValue:
    """GPUs that each task sees: what binds by name counts before what binds by the way, srun before sbatch."""
    found = [member for member in plan.collection("launch.bindings") if isinstance(member, Member)]
    chief = next((member for member in found if _plain(member, "by") == "name"), found[0] if found else None)
    if chief is None:
        return Unknown("nothing binds tasks to GPUs")
    seen = chief.fields["gpus_per_task"]
    if isinstance(seen, Value) and isinstance(seen.value, int) and seen.value > 0:
        return seen.value
    return seen if isinstance(seen, Unknown) else Unknown(f"{_plain(chief, 'option')}: each sees the GPUs of its node")


@register("launch.picks_gpus", "flag", "", (), "slurm")
def picks_gpus(plan: Plan) -> FactValue:
    """Whether each process takes the GPU of its number on the machine, which has to be among those that it sees."""
    return bool(plan.collection("code.numbered_devices"))


@register("launch.shares_gpus", "flag", "", ("launch.launcher", "communication.env"), "slurm")
def shares_gpus(plan: Plan) -> FactValue:
    """Whether every process sees more than one GPU, so that it must pick its own."""
    if plan.word("launch.launcher") not in _EACH_SEES_ALL:
        return Unknown("what starts the processes may show each its own GPU")
    visible, bound = visible_gpus(plan), gpus_of_a_task(plan)
    if _hidden(plan):
        return Unknown(f"{VISIBLE} is not known")
    return 1 not in (visible, bound)


def _hidden(plan: Plan) -> bool:
    """Whether the launch sets CUDA_VISIBLE_DEVICES to something that is not known."""
    return any(not value for value in values_of(plan, VISIBLE))


def _plain(member: Member, field: str) -> str:
    value = member.fields.get(field)
    return str(value.value) if isinstance(value, Value) else ""


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
