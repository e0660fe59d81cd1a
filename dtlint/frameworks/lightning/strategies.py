"""Lightning's strategies, by the names under which they are registered or as classes with arguments.

Lightning 7f0c343 (2.6) pytorch/strategies/ddp.py, fsdp.py, deepspeed.py and model_parallel.py, where each registers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from dtlint.frameworks import Claim, NamedFile
from dtlint.frameworks.deepspeed.values import flag, known, number, whole_number
from dtlint.frameworks.dotted_keys import Keys, unread
from dtlint.frameworks.keys import ON, Meaning, claims_of, word_of
from dtlint.languages.json_tree import Kind, Node, setting
from dtlint.record import NamedTuple
from dtlint.value import Origin, Plain, Setting, Unknown, Value, default

_DDP_STARTS = ("ddp", "ddp_spawn", "ddp_fork", "ddp_notebook")
REGISTERED: Mapping[str, tuple[str, Mapping[str, Plain]]] = {
    "auto": ("auto", {}),
    **{name: ("ddp", {}) for name in _DDP_STARTS},
    **{f"{name}_find_unused_parameters_true": ("ddp", {"find_unused_parameters": True}) for name in _DDP_STARTS},
    **{f"{name}_find_unused_parameters_false": ("ddp", {"find_unused_parameters": False}) for name in _DDP_STARTS},
    "fsdp": ("fsdp", {}),
    "fsdp_cpu_offload": ("fsdp", {"cpu_offload": True}),
    "fsdp_native": ("fsdp", {}),
    "deepspeed": ("deepspeed", {}),
    "deepspeed_stage_1": ("deepspeed", {"stage": 1}),
    "deepspeed_stage_1_offload": ("deepspeed", {"stage": 1, "offload_optimizer": True}),
    "deepspeed_stage_2": ("deepspeed", {"stage": 2}),
    "deepspeed_stage_2_offload": ("deepspeed", {"stage": 2, "offload_optimizer": True}),
    "deepspeed_stage_3": ("deepspeed", {"stage": 3}),
    "deepspeed_stage_3_offload": (
        "deepspeed", {"stage": 3, "offload_optimizer": True, "offload_parameters": True},
    ),
    "deepspeed_stage_3_offload_nvme": (
        "deepspeed",
        {"stage": 3, "offload_optimizer": True, "offload_parameters": True, "offload_params_device": "nvme",
         "offload_optimizer_device": "nvme"},
    ),
}  # fmt: skip
"""By the name: the kind of the strategy and the arguments that the name stands for."""
CLASSES = {
    "DDPStrategy": "ddp",
    "FSDPStrategy": "fsdp",
    "DDPFullyShardedNativeStrategy": "fsdp",
    "DeepSpeedStrategy": "deepspeed",
    "ModelParallelStrategy": "model-parallel",
    "SingleDeviceStrategy": "single",
}
_FRAMEWORKS = {"ddp": "ddp", "fsdp": "fsdp", "deepspeed": "deepspeed", "model-parallel": "fsdp", "single": "pytorch"}
_STAGES: Mapping[str, Plain] = {
    "FULL_SHARD": 3, "SHARD_GRAD_OP": 2, "NO_SHARD": 0, "HYBRID_SHARD": 3, "_HYBRID_SHARD_ZERO2": 2,
}  # fmt: skip
_PREFETCH: Mapping[str, Plain] = {
    "backward_pre": "backward_pre", "backward_post": "backward_post", "backwardprefetch.backward_pre": "backward_pre",
    "backwardprefetch.backward_post": "backward_post",
}  # fmt: skip
_RECOMPUTED = ("activation_checkpointing_policy", "activation_checkpointing")
_MIB = 1 << 20
_BYTES = {"bf16": 2, "fp16": 2, "fp32": 4}
_PARTS = ("class_path", "init_args", "_target_", "dict_kwargs")


class Strategy(NamedTuple):
    """A strategy: its kind ("auto" where none is named, "" where it is not known), what names it, and its arguments,
    each by name with its path.
    """

    kind: str
    node: Node | None
    arguments: Keys
    path: str

    @property
    def framework(self) -> str:
        """What carries it out, "" where that is not known."""
        return _FRAMEWORKS.get(self.kind, "")

    def spelled(self, name: str) -> str:
        """The key under which an argument stands, that of the strategy where its name stands for it."""
        return self.arguments.spelled.get(name, self.path)


def strategy_of(keys: Keys, section: str) -> Strategy:
    """The strategy of a Trainer, by its name or as `class_path` (`_target_`) with its arguments."""
    path = f"{section}.strategy"
    named = keys.node(f"{path}.class_path", f"{path}._target_")
    node = named if named is not None else keys.node(path)
    if node is None:
        return Strategy("auto", None, Keys({}), path)
    told = setting(node)
    if not isinstance(told, Value) or not isinstance(told.value, str):
        return Strategy("", node, Keys({}), path)
    written = _arguments(keys, path)
    if told.value.lower() in REGISTERED:
        kind, meant = REGISTERED[told.value.lower()]
        nodes = {name: _standing_for(node, told, value) for name, value in meant.items()}
        return Strategy(kind, node, Keys({**nodes, **written.nodes}, written.spelled), path)
    return Strategy(CLASSES.get(told.value.rpartition(".")[2], ""), node, written, path)


class Machines(NamedTuple):
    """How many nodes the Trainer is told, and how many devices of each; None where it is not."""

    nodes: Setting | None
    devices: Setting | None


def claims_of_strategy(strategy: Strategy, compute: str, machines: Machines) -> Iterator[Claim]:
    """What a strategy claims; `compute` is the format of the matrix products, "" where it is not known."""
    if strategy.kind == "ddp":
        yield from _ddp(strategy)
    elif strategy.kind == "fsdp":
        yield from _fsdp(strategy)
    elif strategy.kind == "deepspeed":
        yield from _deepspeed(strategy, compute)
    elif strategy.kind == "model-parallel":
        yield from _model_parallel(strategy, machines)


def files_of(strategy: Strategy) -> Iterator[NamedFile]:
    """The DeepSpeed config that a strategy is given as a file; the strategy's other arguments have no effect then."""
    config = strategy.arguments.node("config")
    if strategy.kind == "deepspeed" and config is not None and config.kind in ("string", "bare", "unknown"):
        yield NamedFile("deepspeed", word_of(config))


def _arguments(keys: Keys, path: str) -> Keys:
    nodes: dict[str, Node] = {}
    spelled: dict[str, str] = {}
    for full, node in keys.nodes.items():
        for prefix in (f"{path}.", f"{path}.init_args.", f"{path}.dict_kwargs."):
            name = full.removeprefix(prefix)
            if full.startswith(prefix) and name.partition(".")[0] not in _PARTS and node.kind != "null":
                nodes[name] = node
                spelled[name] = keys.spelled.get(full, full)
    return Keys(nodes, spelled)


def _standing_for(node: Node, told: Value, value: Plain) -> Node:
    """What a registered name stands for, at the name's place."""
    kind: Kind = "bool" if isinstance(value, bool) else "number" if isinstance(value, int) else "string"
    return node._replace(kind=kind, value=value, told=told._replace(value=value))


def _ddp(strategy: Strategy) -> Iterator[Claim]:
    table = {
        "find_unused_parameters": Meaning("communication.find_unused", words=ON),
        "static_graph": Meaning("communication.static_graph", words=ON),
    }
    yield from _spelled(strategy, claims_of(strategy.arguments, table))
    node = strategy.arguments.node("bucket_cap_mb")
    size = None if node is None else number(node)
    if isinstance(size, Value) and isinstance(size.value, float):
        value = size._replace(value=int(size.value * _MIB))
        yield Claim("communication.bucket_bytes", value, strategy.spelled("bucket_cap_mb"))
    hook = strategy.arguments.node("ddp_comm_hook")
    if hook is not None:
        yield Claim("precision.reduce", _of_hook(hook), strategy.spelled("ddp_comm_hook"))


def _of_hook(hook: Node) -> Setting:
    for format_ in ("fp16", "bf16"):
        if str(hook.value).endswith(f".{format_}_compress_hook"):
            return setting(hook, format_)
    return unread(hook, "a hook decides how gradients travel")


def _fsdp(strategy: Strategy) -> Iterator[Claim]:
    """Without a policy the model is one unit."""
    given = strategy.arguments
    yield from _sharding(strategy)
    offload = given.node("cpu_offload")
    if offload is not None:
        for what in ("parameters", "optimizer"):
            yield Claim(f"sharding.offload_{what}", _on_cpu(offload), strategy.spelled("cpu_offload"))
    policy = given.node("auto_wrap_policy")
    if policy is not None:
        yield Claim("sharding.units", _wrapped(policy), strategy.spelled("auto_wrap_policy"))
    recomputed = next((name for name in _RECOMPUTED if given.node(name) is not None), "")
    if recomputed:
        value = _wrapped(given.nodes[recomputed], "full")
        yield Claim("checkpointing.activations", value, strategy.spelled(recomputed))
    prefetch = given.node("backward_prefetch")
    if prefetch is not None:
        told = setting(prefetch)
        text = str(told.value).rpartition("fsdp.")[2].lower() if isinstance(told, Value) else ""
        value = setting(prefetch, _PREFETCH[text]) if text in _PREFETCH else unread(prefetch, "when it gathers")
        yield Claim("sharding.prefetch", value, strategy.spelled("backward_prefetch"))
    mixed = given.node("mixed_precision")
    if mixed is not None:
        yield Claim("precision.reduce", unread(mixed, "mixed_precision decides"), strategy.spelled("mixed_precision"))


def _wrapped(node: Node, value: Plain = "wrapped") -> Setting:
    """A policy is there, whatever it is; one that is built elsewhere may be None."""
    if node.kind == "unknown" and not isinstance(node.told, Value):
        return setting(node)
    return Value(value, Origin("written", node.span))


def _on_cpu(node: Node) -> Setting:
    told = flag(node)
    if isinstance(told, Value):
        return told._replace(value="cpu" if told.value else "none")
    return told


def _sharding(strategy: Strategy) -> Iterator[Claim]:
    given = strategy.arguments
    node = given.node("sharding_strategy")
    told = None if node is None else setting(node)
    name = str(told.value).rpartition(".")[2].upper() if isinstance(told, Value) else ""
    spelled = strategy.spelled("sharding_strategy")
    if node is not None:
        stage = setting(node, _STAGES[name]) if name in _STAGES else unread(node, "the sharding strategy is not known")
        yield Claim("sharding.stage", stage, spelled)
    if node is not None and "HYBRID" in name:
        yield Claim("sharding.group", _group(given, node), spelled)


def _group(given: Keys, node: Node) -> Setting:
    """The ranks of one node share a model, unless a mesh (replicas, shards) says otherwise."""
    mesh = given.node("device_mesh")
    if mesh is not None and len(mesh.items) == 2:
        return whole_number(mesh.items[1])
    if mesh is not None or given.node("process_group") is not None:
        return unread(mesh or node, "the mesh is built when the program runs")
    origin, how = Origin("written", node.span), "--set cluster.gpus_per_node=N"
    return Unknown("a hybrid strategy shards inside a node", how, origin, "cluster.gpus_per_node")


def _deepspeed(strategy: Strategy, compute: str) -> Iterator[Claim]:
    """A config of one's own takes the place of all arguments."""
    given = strategy.arguments
    if given.node("config") is not None:
        return
    yield from _spelled(strategy, _in_turn(claims_of(given, {"stage": Meaning("sharding.stage")}), "sharding.stage"))
    overlap = {"overlap_comm": Meaning("overlap.gradients", words=ON)}
    yield from _spelled(strategy, _in_turn(claims_of(given, overlap), "overlap.gradients"))
    yield from _offloads(strategy)
    yield from _bucket(strategy, compute)


def _in_turn(claims: Iterator[Claim], name: str) -> Iterator[Claim]:
    """What is claimed, else what the strategy takes unasked."""
    found = tuple(claims)
    yield from found or (_unasked(name),)


def _unasked(name: str, compute: str = "") -> Claim:
    from dtlint.catalog import defaults

    entries = defaults("lightning-deepspeed", name)
    entry = next(each for each in entries if compute in each.when.get("precision.compute", (compute,)))
    return Claim(name, default(entry.value, entry.tool))


def _offloads(strategy: Strategy) -> Iterator[Claim]:
    """Stage 3 alone offloads parameters."""
    given = strategy.arguments
    for what, name, device in (
        ("optimizer", "offload_optimizer", "offload_optimizer_device"),
        ("parameters", "offload_parameters", "offload_params_device"),
    ):
        node = given.node(name)
        on = None if node is None else flag(node)
        if node is None or on is None:
            continue
        kind = given.node(device)
        where = known(setting(kind)) if kind is not None else "cpu"
        value = on._replace(value=str(where) if on.value else "none") if isinstance(on, Value) else on
        yield Claim(f"sharding.offload_{what}", value, strategy.spelled(name))


def _bucket(strategy: Strategy, compute: str) -> Iterator[Claim]:
    """The size is told in numbers, which travel in the format of the compute."""
    node = strategy.arguments.node("reduce_bucket_size")
    if compute not in _BYTES:
        return
    if node is None:
        yield _unasked("communication.bucket_bytes", compute)
        return
    size = whole_number(node)
    if isinstance(size, Value) and isinstance(size.value, int):
        size = size._replace(value=size.value * _BYTES[compute])
    yield Claim("communication.bucket_bytes", size, strategy.spelled("reduce_bucket_size"))


def _model_parallel(strategy: Strategy, machines: Machines) -> Iterator[Claim]:
    """ "auto" is one tensor-parallel group for each node, which the GPUs of the node make up."""
    for name, meant, unasked, means in (
        ("tensor_parallel_size", "parallel.tensor", machines.devices, "cluster.gpus_per_node"),
        ("data_parallel_size", "parallel.data", machines.nodes, "cluster.nodes"),
    ):
        node = strategy.arguments.node(name)
        if node is not None and str(node.value) != "auto":
            yield Claim(meant, whole_number(node), strategy.spelled(name))
        elif isinstance(unasked, Value):
            yield Claim(meant, unasked, strategy.path)
        else:
            yield Claim(meant, Unknown("it is as large as the machine", f"--set {meant}=N", None, means), name)


def _spelled(strategy: Strategy, claims: Iterator[Claim]) -> Iterator[Claim]:
    """Claims under the whole path of their arguments."""
    for claim in claims:
        yield claim._replace(name=strategy.spelled(claim.name) if claim.name else "")
