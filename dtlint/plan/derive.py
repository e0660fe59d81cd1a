"""What follows from stated settings: degrees, batch, machines, model shape; and the framework's defaults where
nothing follows.

Each function answers for one setting from others, or returns None. A setting that is derived in both directions (the
batch triple, the
launch's counts) asks for the other side only as stated, so that no derivation hangs on itself.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import lcm
from typing import TYPE_CHECKING

from dtlint.catalog import Default, Gpu, defaults, gpu, in_time, model, package_of
from dtlint.plan.parameters import count_parameters, lora_parameters
from dtlint.release import releases
from dtlint.value import Choice, Unknown, Value, assumed, default, derived

if TYPE_CHECKING:
    from dtlint.plan import Plan

Rule = Callable[["Plan"], "Value | Unknown | None"]
RULES: dict[str, Rule] = {}


def follow(plan: Plan, name: str) -> Value | Unknown | None:
    """The value of `name` that the front end fills in, or that follows from other settings, if any."""
    rule = RULES.get(name)
    if rule is None:
        return None
    return _filled_in(plan, name) or rule(plan)


def _filled_in(plan: Plan, name: str) -> Value | Unknown | None:
    """What a front end passes on where the user writes nothing: for the framework below it is as if written. What is
    written and not known is not the default.
    """
    if plan.setting(name) is not None or name in IDENTITY or name.startswith("version."):
        return None
    if plan.unread and name.startswith(HIDDEN):
        return None
    if _is_undecided(plan, name):
        return None
    frontend = plan.word("frontend") or "none"
    return None if frontend == "none" else _default_of(plan, name, frontend)


def _is_undecided(plan: Plan, name: str) -> bool:
    """Whether a setting is written with a value that is not known: then no default takes its place."""
    stated = plan.setting(name)
    return isinstance(stated, Choice) or (isinstance(stated, Unknown) and stated.reason != "auto")


def framework_default(plan: Plan, name: str) -> Value | Unknown | None:
    """What the front end or framework in charge takes when `name` is not written; None where neither is known.

    Assumed where the argument list is open; unknown where it depends on a version that no file tells.
    """
    if plan.unread and name.startswith(HIDDEN):
        return Unknown(plan.unread, f"--set {name}=...")
    return next((found for owner in _owners(plan, name) if (found := _default_of(plan, name, owner)) is not None), None)


def _default_of(plan: Plan, name: str, owner: str) -> Value | Unknown | None:
    found = [entry for entry in defaults(owner, name) if _in_use(plan, entry) and _holds(plan, entry)]
    return _one_default(plan, name, found) if found else None


def _in_use(plan: Plan, entry: Default) -> bool:
    """Whether a default is that of a version which the run can have."""
    return not (entry.since or entry.until) or in_time(entry, plan.word(f"version.{entry.package}") or "")


IDENTITY = ("frontend", "framework", "framework.version")
"""Settings that say who decides on defaults, so that no default decides on them."""

HIDDEN = ("sharding.", "batch.", "precision.", "optimizer.", "overlap.", "communication.bucket")
"""Settings that a config file holds: unknown, not at their default, when the file that is named could not be read."""


def _owners(plan: Plan, name: str) -> tuple[str, ...]:
    """Who decides: the front end, then the framework; without a known framework nobody does."""
    if name in IDENTITY or name.startswith("version."):
        return ("any",)
    frontend, framework = plan.word("frontend") or "none", plan.word("framework")
    return (frontend, framework, "any") if framework is not None else ()


def _holds(plan: Plan, entry: Default) -> bool:
    return all(plan.value(setting) in wanted for setting, wanted in entry.when.items())


def _one_default(plan: Plan, name: str, found: Sequence[Default]) -> Value | Unknown:
    """The first entry; unknown where entries of several versions are possible and disagree."""
    first = found[0]
    dated = next((entry for entry in found if entry.since or entry.until), None)
    if dated is not None and len({entry.value for entry in found}) > 1 and not _is_one(plan, dated):
        setting = (
            "framework.version"
            if package_of(plan.word("framework") or "") == dated.package
            else (f"version.{dated.package}")
        )
        return Unknown(f"the default of {name} depends on the version of {first.tool}", f"--set {setting}=...")
    if plan.open:
        return assumed(first.value, f"default of {first.tool}; {plan.open}", "write it down")
    return default(first.value, first.tool)


def _is_one(plan: Plan, entry: Default) -> bool:
    """Whether the version that decides on a default is one, not a range."""
    found = releases(plan.word(f"version.{entry.package}") or "")
    return found is not None and found.exact


def _rule(name: str) -> Callable[[Rule], Rule]:
    def register(rule: Rule) -> Rule:
        RULES[name] = rule
        return rule

    return register


# Versions


@_rule("framework.version")
def _framework_version(plan: Plan) -> Value | Unknown | None:
    """The version of the package that the framework in charge is."""
    package = package_of(plan.word("framework") or "")
    found = plan.setting(f"version.{package}") if package else None
    if isinstance(found, Value):
        return derived(found.value, f"version.{package}")
    return found if isinstance(found, Unknown) else None


def _package_version(package: str) -> None:
    def rule(plan: Plan) -> Value | None:
        told = plan.stated("framework.version")
        mine = told is not None and package_of(plan.word("framework") or "") == package
        return derived(told.value, "framework.version") if told is not None and mine else None

    RULES[f"version.{package}"] = rule


for _package in ("deepspeed", "megatron_core", "torch", "transformers", "accelerate", "trl"):
    _package_version(_package)


# Machines and processes


@_rule("cluster.nodes")
def _nodes(plan: Plan) -> Value | None:
    launched = plan.integer("launch.nodes")
    if launched is not None:
        return derived(launched, "launch.nodes")
    world, per_node = _stated_integer(plan, "parallel.world_size"), plan.integer("cluster.gpus_per_node")
    return _quotient(world, per_node, "parallel.world_size", "cluster.gpus_per_node")


@_rule("cluster.gpus_per_node")
def _gpus_per_node(plan: Plan) -> Value | None:
    each = plan.integer("launch.processes_per_node")
    if each is not None:
        return derived(each, "launch.processes_per_node", note="one process a GPU")
    world, nodes = _stated_integer(plan, "parallel.world_size"), _stated_integer(plan, "cluster.nodes")
    return _quotient(world, nodes, "parallel.world_size", "cluster.nodes")


@_rule("launch.nodes")
def _launch_nodes(plan: Plan) -> Value | None:
    processes, each = _stated_integer(plan, "launch.processes"), _stated_integer(plan, "launch.processes_per_node")
    found = _quotient(processes, each, "launch.processes", "launch.processes_per_node") or _nodes_of_tasks(plan)
    return found or (_same(plan, "cluster.nodes") if plan.stated("launch.launcher") else None)


def _nodes_of_tasks(plan: Plan) -> Value | None:
    """The nodes that so many processes fill: of mpirun always, of srun where no allocation spreads them."""
    launcher = plan.word("launch.launcher")
    if launcher != "mpi" and not (launcher == "slurm" and plan.stated("cluster.nodes") is None):
        return None
    processes, tasks = _stated_integer(plan, "launch.processes"), _stated_integer(plan, "launch.tasks_per_node")
    return _quotient(processes, tasks, "launch.processes", "launch.tasks_per_node")


@_rule("launch.processes_per_node")
def _processes_per_node(plan: Plan) -> Value | None:
    if plan.collection("launch.uneven"):
        return None
    if plan.word("launch.launcher") == "mpi" and plan.stated("launch.tasks_per_node") is not None:
        return _same(plan, "launch.tasks_per_node")
    processes, nodes = (
        _stated_integer(plan, "launch.processes"),
        _stated_integer(plan, "launch.nodes") or _stated_integer(plan, "cluster.nodes"),
    )
    if plan.word("launch.launcher") == "accelerate" and processes is not None and nodes and processes >= nodes:
        return derived(processes // nodes, "launch.processes", "launch.nodes", note="what remains is not started")
    found = _quotient(processes, nodes, "launch.processes", "cluster.nodes")
    if found is None and plan.word("launch.launcher") in ("slurm", "mpi"):
        return _same(plan, "launch.tasks_per_node")
    return found


@_rule("launch.processes")
def _processes(plan: Plan) -> Value | None:
    if plan.word("launch.launcher") == "python" and plan.word("frontend") in TRAINERS:
        return derived(1, "launch.launcher", note="the Trainer starts no further processes")
    nodes, each = plan.integer("launch.nodes"), plan.integer("launch.processes_per_node")
    if plan.stated("launch.launcher") is None or nodes is None or each is None:
        return None
    return derived(nodes * each, "launch.nodes", "launch.processes_per_node")


TRAINERS = ("transformers", "trl", "llama-factory", "axolotl", "ms-swift")
"""Front ends that are the Hugging Face Trainer, or stand on it."""


@_rule("framework")
def _framework(plan: Plan) -> Value | None:
    """The Trainer wraps the model in DDP where several processes run and nothing else is asked for; what Accelerate's
    launcher asks for may stand in a file that is not at hand.
    """
    launcher = plan.word("launch.launcher")
    if plan.unread or launcher in (None, "accelerate") or plan.word("frontend") not in TRAINERS:
        return None
    alone = plan.integer("launch.processes") == 1 and launcher in ("python", "slurm", "mpi")
    return derived("pytorch" if alone else "ddp", "frontend", "launch.processes", note="the Trainer's choice")


@_rule("parallel.world_size")
def _world_size(plan: Plan) -> Value | None:
    processes = plan.integer("launch.processes")
    if processes is not None:
        return _started(plan, processes)
    data = _stated_integer(plan, "parallel.data")
    if data is not None:
        product = data * model_parallel_size(plan)
        return derived(product, "parallel.data", "parallel.tensor", "parallel.pipeline", "parallel.context")
    nodes, gpus = _stated_integer(plan, "cluster.nodes"), _stated_integer(plan, "cluster.gpus_per_node")
    if nodes is None or gpus is None or plan.stated("launch.launcher") is not None:
        return None
    return assumed(nodes * gpus, "every GPU of the cluster trains", "--set parallel.world_size=N")


def _started(plan: Plan, processes: int) -> Value:
    """Accelerate starts as many on each machine, and none of those that remain."""
    nodes = plan.integer("launch.nodes") if plan.word("launch.launcher") == "accelerate" else None
    if nodes and processes > nodes and processes % nodes:
        return derived(processes // nodes * nodes, "launch.processes", "launch.nodes")
    return derived(processes, "launch.processes")


@_rule("cluster.gpu_memory_gib")
def _gpu_memory(plan: Plan) -> Value | None:
    if isinstance(plan.setting("cluster.gpu_memory_gib"), Unknown):
        return None
    found = _gpu(plan)
    return derived(found.memory_gib, "cluster.gpu") if found is not None and found.memory_gib else None


@_rule("cluster.intranode_gb_per_s")
def _intranode(plan: Plan) -> Value | None:
    found = _gpu(plan)
    return derived(found.intranode_gb_per_s, "cluster.gpu") if found is not None and found.intranode_gb_per_s else None


@_rule("cluster.nvlink_domain")
def _nvlink_domain(plan: Plan) -> Value | None:
    """The GPU's own domain where it reaches over several machines (NVL72), else the node."""
    found, node = _gpu(plan), plan.get("cluster.gpus_per_node")
    if (
        found is not None
        and found.nvlink_domain
        and found.gpus_per_node
        and found.nvlink_domain > found.gpus_per_node > 1
    ):
        return derived(found.nvlink_domain, "cluster.gpu")
    return derived(node.value, "cluster.gpus_per_node") if isinstance(node, Value) else None


# Degrees


def model_parallel_size(plan: Plan) -> int:
    """Ranks that hold one copy of the model: TP x PP x CP x Ulysses (unknown degrees count as 1)."""
    product = 1
    for axis in ("tensor", "pipeline", "context", "ulysses"):
        product *= plan.integer(f"parallel.{axis}") or 1
    return product


@_rule("parallel.data")
def _data(plan: Plan) -> Value | Unknown | None:
    world = plan.integer("parallel.world_size")
    if world is None:
        return None
    for axis in ("tensor", "pipeline", "context"):
        if isinstance(missing := plan.get(f"parallel.{axis}"), Unknown):
            return missing
    product = model_parallel_size(plan)
    if world % product:
        return Unknown(f"{world} processes are no multiple of {product} (TP x PP x CP)")
    return derived(world // product, "parallel.world_size", "parallel.tensor", "parallel.pipeline", "parallel.context")


@_rule("parallel.expert_tensor")
def _expert_tensor(plan: Plan) -> Value | None:
    return _same(plan, "parallel.tensor") if _is_megatron(plan) else None


@_rule("sharding.group")
def _sharding_group(plan: Plan) -> Value | None:
    data, context = plan.integer("parallel.data"), plan.integer("parallel.context") or 1
    groups = plan.integer("sharding.instances") or 1
    if data is None or data * context % groups:
        return None
    inputs = ("parallel.data", "parallel.context", *(("sharding.instances",) if groups > 1 else ()))
    return derived(data * context // groups, *inputs)


@_rule("sharding.reshard_after_forward")
def _reshard(plan: Plan) -> Value | None:
    return derived(False, "sharding.stage") if _parameters_stay_whole(plan) else None


@_rule("sharding.units")
def _units(plan: Plan) -> Value | None:
    return derived("wrapped", "sharding.stage") if _parameters_stay_whole(plan) else None


def _parameters_stay_whole(plan: Plan) -> bool:
    """Below stage 3 nothing is gathered, but for FSDP, whose shards of stage 2 are gathered for the whole step."""
    stage = plan.integer("sharding.stage")
    return stage is not None and (stage < 2 or (stage == 2 and plan.word("framework") != "fsdp"))


# Batch


def counted_ranks(plan: Plan) -> int | None:
    """Ranks whose micro-batches make up the global batch; None if unknown.

    That is one of each replica; DeepSpeed counts every rank of its automatic tensor parallelism, though they compute
    the same samples (runtime/config.py, DeepSpeedConfig without an mpu).
    """
    data, tensor = plan.integer("parallel.data"), plan.integer("parallel.tensor") or 1
    return data if data is None or plan.word("framework") != "deepspeed" else data * tensor


@_rule("batch.accumulation")
def _accumulation(plan: Plan) -> Value | Unknown | None:
    total, micro, ranks = plan.stated("batch.global"), plan.integer("batch.micro"), counted_ranks(plan)
    if total is None or not isinstance(total.value, int):
        return None
    if micro is None or ranks is None:
        return Unknown("the micro batch or the data-parallel size is unknown", "--set batch.micro=N")
    local = micro * ranks
    if total.value % local:
        return Unknown(f"a global batch of {total.value} is no multiple of micro batch {micro} x DP {ranks}")
    return derived(total.value // local, "batch.global", "batch.micro", "parallel.data")


@_rule("batch.global")
def _global(plan: Plan) -> Value | None:
    micro, count, ranks = plan.integer("batch.micro"), plan.integer("batch.accumulation"), counted_ranks(plan)
    if micro is None or count is None or ranks is None:
        return None
    return derived(micro * count * ranks, "batch.micro", "batch.accumulation", "parallel.data")


@_rule("batch.micro")
def _micro(plan: Plan) -> Value | None:
    total, ranks = plan.stated("batch.global"), counted_ranks(plan)
    count = _stated_integer(plan, "batch.accumulation") or 1
    if total is None or not isinstance(total.value, int) or ranks is None or total.value % (ranks * count):
        return None
    return derived(total.value // (ranks * count), "batch.global", "batch.accumulation", "parallel.data")


@_rule("schedule.microbatches")
def _microbatches(plan: Plan) -> Value | Unknown | None:
    if plan.word("framework") in _CUT_THE_LOCAL_BATCH and (plan.integer("parallel.pipeline") or 1) > 1:
        return Unknown("PyTorch's schedules cut the local batch themselves", "--set schedule.microbatches=N")
    found = plan.get("batch.accumulation")
    return derived(found.value, "batch.accumulation") if isinstance(found, Value) else found


_CUT_THE_LOCAL_BATCH = ("torchtitan", "fsdp", "ddp", "pytorch")
"""Frameworks on torch.distributed.pipelining, whose micro-batches are parts of one rank's batch, not batches of it."""


@_rule("schedule.kind")
def _schedule(plan: Plan) -> Value | None:
    chunks = plan.integer("parallel.virtual_pipeline") or 1
    return derived("interleaved", "parallel.virtual_pipeline") if chunks > 1 else None


@_rule("schedule.group")
def _group(plan: Plan) -> Value | None:
    """As many micro-batches as there are stages in Megatron's interleaved schedule (model_parallel_config.py)."""
    interleaved = plan.word("schedule.kind") == "interleaved" and plan.word("framework") in ("megatron", "nemo")
    return _same(plan, "parallel.pipeline") if interleaved else None


@_rule("parallel.pipeline_engine")
def _pipeline_engine(plan: Plan) -> Value | None:
    """Megatron-DeepSpeed builds a pipeline even of one stage, unless it is told not to."""
    stages, framework = plan.integer("parallel.pipeline"), plan.word("framework")
    if stages is None or (stages == 1 and framework is None):
        return None
    return derived(stages > 1 or framework == "megatron-deepspeed", "parallel.pipeline", "framework")


@_rule("parallel.virtual_pipeline")
def _virtual_pipeline(plan: Plan) -> Value | None:
    return derived(1, "parallel.pipeline") if plan.integer("parallel.pipeline") == 1 else None


# Model


def _from_model(setting: str, field: str) -> None:
    def rule(plan: Plan) -> Value | None:
        name = plan.word("model.name")
        found = model(name) if name is not None else None
        value = getattr(found, field) if found is not None else None
        if value is None:
            return _shape_fallback(plan, setting)
        return derived(value, "model.name", note=f"{found.name} in the catalog" if found is not None else "")

    RULES[setting] = rule


for _setting in (
    "architecture", "layers", "hidden", "ffn", "heads", "kv_heads", "head_dim", "vocab", "experts", "experts_per_token",
    "expert_ffn", "shared_expert_ffn", "moe_layers", "gated_mlp", "tied_embeddings",
):  # fmt: skip
    _from_model(f"model.{_setting}", _setting)


def _shape_fallback(plan: Plan, setting: str) -> Value | None:
    found = {
        "model.ffn": _ffn,
        "model.head_dim": _head_dim,
        "model.kv_heads": _kv_heads,
        "model.expert_ffn": _expert_ffn,
        "model.moe_layers": _moe_layers,
    }.get(setting)
    return found(plan) if found is not None else None


def _ffn(plan: Plan) -> Value | None:
    """Megatron's own width: 4h, or with a gate 8/3 h rounded down to 64 (arguments.py)."""
    hidden = plan.integer("model.hidden")
    if hidden is None or not _is_megatron(plan):
        return None
    gated = bool(plan.flag("model.gated_mlp"))
    return derived(hidden * 8 // 3 // 64 * 64 if gated else 4 * hidden, "model.hidden", "model.gated_mlp")


def _head_dim(plan: Plan) -> Value | None:
    return _quotient(plan.integer("model.hidden"), plan.integer("model.heads"), "model.hidden", "model.heads")


def _kv_heads(plan: Plan) -> Value | None:
    heads = plan.integer("model.heads")
    if heads is None:
        return None
    return (
        derived(heads, "model.heads")
        if _is_megatron(plan)
        else assumed(heads, "no grouped queries are named", "--set model.kv_heads=N")
    )


def _expert_ffn(plan: Plan) -> Value | None:
    return _same(plan, "model.ffn") if plan.integer("model.experts") else None


def _moe_layers(plan: Plan) -> Value | None:
    return _same(plan, "model.layers") if plan.integer("model.experts") else None


@_rule("model.parameters")
def _parameters(plan: Plan) -> Value | Unknown | None:
    name = plan.word("model.name")
    found = model(name) if name is not None else None
    if found is not None and found.parameters and plan.stated("model.layers") is None:
        return derived(found.parameters, "model.name", note=f"{found.name} in the catalog")
    count = count_parameters(plan)
    if count is None:
        named = plan.setting("model.name")
        return named if isinstance(named, Unknown) and plan.setting("model.parameters") is None else None
    inputs = ("model.layers", "model.hidden", "model.ffn", "model.vocab")
    for setting, why in _COUNTED_AS_USUAL.items():
        if plan.value(setting) is None:
            return assumed(count, why, f"--set {setting}=...")
    return derived(count, *inputs)


_COUNTED_AS_USUAL = {
    "model.vocab": "the vocabulary size is not in the files",
    "model.gated_mlp": "whether the feed-forward layer has a gate is not in the files",
}
"""Settings for which the count takes a typical value, and what to say then."""


@_rule("model.trainable_parameters")
def _trainable(plan: Plan) -> Value | Unknown | None:
    found = plan.get("model.lora_rank")
    if isinstance(found, Unknown) and plan.setting("model.lora_rank") is not None:
        return found
    rank = plan.integer("model.lora_rank")
    if not rank:
        return _same(plan, "model.parameters")
    count = lora_parameters(plan, rank)
    if count is None:
        return Unknown("how many parameters the adapters have is unknown", "--set model.trainable_parameters=N")
    return assumed(count, "adapters on every linear layer", "--set model.trainable_parameters=N")


# Communication and precision


@_rule("communication.bucket_bytes")
def _bucket(plan: Plan) -> Value | None:
    """What the Trainer writes for "auto": hidden size squared elements, which are of a 16-bit format
    (transformers integrations/deepspeed.py, trainer_config_finalize).
    """
    stated, hidden = plan.setting("communication.bucket_bytes"), plan.integer("model.hidden")
    filled = isinstance(stated, Unknown) and stated.reason == "auto" and plan.word("frontend") in TRAINERS
    if not filled or hidden is None:
        return None
    size = 4 if plan.word("precision.compute") == "fp32" else 2
    return derived(hidden * hidden * size, "model.hidden", note='"auto" is hidden size squared elements')


@_rule("model.fused_loss")
def _fused_loss(plan: Plan) -> Value | None:
    return None if plan.setting("model.fused_loss") is not None else default(False, "every framework")


@_rule("precision.frozen")
def _frozen(plan: Plan) -> Value | None:
    if plan.setting("precision.frozen") is not None:
        return None
    compute = plan.word("precision.compute")
    return derived("fp32" if compute == "fp32" else "bf16", "precision.compute")


# Small helpers


def _gpu(plan: Plan) -> Gpu | None:
    name = plan.word("cluster.gpu")
    return gpu(name) if name is not None else None


def _is_megatron(plan: Plan) -> bool:
    return plan.word("framework") in ("megatron", "megatron-deepspeed", "nemo")


def _stated_integer(plan: Plan, name: str) -> int | None:
    found = plan.stated(name)
    return found.value if found is not None and isinstance(found.value, int) else None


def _same(plan: Plan, name: str) -> Value | None:
    found = plan.get(name)
    return derived(found.value, name) if isinstance(found, Value) else None


def _quotient(total: int | None, part: int | None, *names: str) -> Value | None:
    if total is None or not part or total % part:
        return None
    return derived(total // part, *names)


def smallest_world(plan: Plan) -> int:
    """The smallest world that the degrees allow: PP x lcm(TP x CP, EP x ETP)."""
    pipeline = plan.integer("parallel.pipeline") or 1
    dense = model_parallel_size(plan) // pipeline
    expert = (plan.integer("parallel.expert") or 1) * (plan.integer("parallel.expert_tensor") or 1)
    return pipeline * (lcm(dense, expert) if plan.integer("parallel.expert") not in (None, 1) else dense)
