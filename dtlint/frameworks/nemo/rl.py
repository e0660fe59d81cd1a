"""NeMo-RL's config, YAML files that build on each other with hydra's words over them: the plan of the trained policy.

NVIDIA-NeMo/RL 7ea279a nemo_rl/utils/config.py, nemo_rl/models/policy and examples/configs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from dtlint.frameworks import Claim, Member, NamedFile, Reading
from dtlint.frameworks.arguments import stretch
from dtlint.frameworks.deepspeed.values import format_name, number, whole_number, word
from dtlint.frameworks.dotted_keys import Keys, number_at, put_over
from dtlint.frameworks.hydra.command_line import option, overrides
from dtlint.frameworks.hydra.omegaconf import resolved
from dtlint.frameworks.keys import ON, Meaning, claims_of, hidden, model_named, product, spelled
from dtlint.frameworks.lengths import at_most
from dtlint.frameworks.stage_cuts import keyed_cut
from dtlint.languages.json_tree import Document, Node, entry, setting
from dtlint.languages.traced import Word
from dtlint.source import Span
from dtlint.value import Origin, Plain, Setting, Unknown, Value, default

LAYER = "nemo-rl"
ROLE = "nemo_rl"
_TOOL = "NeMo-RL"
_VALUE = "value"
"""The section of PPO's critic."""
_POLICY, _MEGATRON, _TENSORS = "policy", "policy.megatron_cfg", "policy.dtensor_cfg"
_OWN = ("run_grpo.py", "run_grpo_math.py", "run_vlm_grpo.py", "run_distillation.py", "run_ppo.py")
_ITS_EXAMPLES = ("examples/run_sft.py", "examples/run_dpo.py", "examples/run_rm.py", "examples/run_vlm_sft.py")
"""Programs whose names other projects have too, by the folder that they lie in."""
_OVERRIDDEN = ("policy.", "cluster.num_nodes=", "cluster.gpus_per_node=")
_BASE = "defaults"
_REPLACED = "_override_"
"""The key by which a section replaces that of the file below, instead of being merged into it."""

_SHARED = {
    f"{_POLICY}.train_global_batch_size": Meaning("batch.global"),
    f"{_POLICY}.train_micro_batch_size": Meaning("batch.micro"),
    f"{_POLICY}.precision": Meaning("precision.compute", format_name),
    f"{_POLICY}.max_grad_norm": Meaning("optimizer.clip", number),
    f"{_POLICY}.make_sequence_length_divisible_by": Meaning("data.padded_to"),
}
_OF_MEGATRON = {
    f"{_MEGATRON}.tensor_model_parallel_size": Meaning("parallel.tensor"),
    f"{_MEGATRON}.pipeline_model_parallel_size": Meaning("parallel.pipeline"),
    f"{_MEGATRON}.context_parallel_size": Meaning("parallel.context"),
    f"{_MEGATRON}.expert_model_parallel_size": Meaning("parallel.expert"),
    f"{_MEGATRON}.expert_tensor_parallel_size": Meaning("parallel.expert_tensor"),
    f"{_MEGATRON}.sequence_parallel": Meaning("parallel.sequence", words=ON),
    f"{_MEGATRON}.moe_token_dispatcher_type": Meaning("communication.moe_dispatcher", word),
    f"{_MEGATRON}.optimizer.optimizer": Meaning("optimizer.name", word),
    f"{_MEGATRON}.optimizer.use_distributed_optimizer": Meaning("sharding.stage", words={"true": 1, "false": 0}),
    f"{_MEGATRON}.distributed_data_parallel_config.overlap_grad_reduce": Meaning("overlap.gradients", words=ON),
    f"{_MEGATRON}.distributed_data_parallel_config.overlap_param_gather": Meaning("overlap.parameters", words=ON),
}
_RECOMPUTED: dict[str, Plain] = {"true": "full", "false": "none"}
_OFFLOADED: dict[str, Plain] = {"true": "cpu", "false": "none"}
_OF_TENSORS = {
    f"{_TENSORS}.tensor_parallel_size": Meaning("parallel.tensor"),
    f"{_TENSORS}.context_parallel_size": Meaning("parallel.context"),
    f"{_TENSORS}.expert_parallel_size": Meaning("parallel.expert"),
    f"{_TENSORS}.sequence_parallel": Meaning("parallel.sequence", words=ON),
    f"{_TENSORS}.activation_checkpointing": Meaning("checkpointing.activations", words=_RECOMPUTED),
    f"{_TENSORS}.cpu_offload": Meaning("sharding.offload_parameters", words=_OFFLOADED),
    f"{_TENSORS}.dp_replicate_size": Meaning("sharding.instances"),
    f"{_TENSORS}.defer_fsdp_grad_sync": Meaning("sharding.sums_each_microbatch", words={"true": False, "false": True}),
}
_LAUNCH = {
    "cluster.num_nodes": Meaning("launch.nodes"),
    "cluster.gpus_per_node": Meaning("launch.processes_per_node"),
}
_ANSWERING = ("grpo", "ppo", "distillation")
"""Sections of the algorithms in which a model answers prompts (examples/configs)."""
_GENERATION = "policy.generation"
_COLOCATED = f"{_GENERATION}.colocated"
_ENGINE = {f"{_GENERATION}.vllm_cfg.tensor_parallel_size": Meaning("parallel.rollout")}
_TOGETHER = {f"{_COLOCATED}.enabled": Meaning("parallel.rollout_shares", words=ON)}
_PACKED = (("dynamic_batching", "dynamic batching"), ("sequence_packing", "sequence packing"))


def recognise(document: Document) -> bool:
    """Whether a file is a config of NeMo-RL: its policy has one of its two backends, or it builds on another file and
    says how large the cluster is.
    """
    policy, cluster = (entry(document.root, name) for name in (_POLICY, "cluster"))
    backends = {found.key for found in policy.node.entries} & {"megatron_cfg", "dtensor_cfg"} if policy else set()
    sizes = {found.key for found in cluster.node.entries} & {"gpus_per_node", "num_nodes"} if cluster else set()
    return bool(backends) or (bool(sizes) and bool(bases(document)))


def recognise_program(program: Sequence[Word]) -> bool:
    """Whether a program is one of NeMo-RL's examples, or its arguments override such a config."""
    name = (program[0].text or "") if program else ""
    named = name.rpartition("/")[2] in _OWN or name.endswith(_ITS_EXAMPLES)
    changed = sum(word.shown.lstrip("+").startswith(_OVERRIDDEN) for word in program[1:])
    return (named and (option(program[1:], "--config") is not None or changed > 0)) or changed >= 2


def read_program(program: Sequence[Word]) -> Reading:
    """The file that `--config` names; without one the words stand over one that the program names itself."""
    named = option(program[1:], "--config")
    place = stretch(program[1:], program[0].place)
    if named is None:
        return read_config((), program[1:])._replace(place=place, unread="the program's own config is not read")
    return Reading("program", place, files=(NamedFile(ROLE, named),), frontend="nemo-rl")


def bases(document: Document) -> tuple[str, ...]:
    """The files that a config builds on, as it names them: from its own folder, a later one over an earlier one."""
    found = entry(document.root, _BASE)
    items = found.node.items or (found.node,) if found is not None else ()
    return tuple(item.value for item in items if isinstance(item.value, str))


def read_config(documents: Sequence[Document], words: Sequence[Word] = ()) -> Reading:
    """What files, each over those before it, and words that override them claim about the policy's training, and in
    `roles` about that of the critic which PPO trains beside it.
    """
    roots = [document.root for document in documents]
    keys = resolved(_merged(roots, words))
    place = documents[-1].root.span if documents and documents[-1].root is not None else None
    policy = _reading(keys, place, hidden(roots, words))
    policy = policy._replace(claims=(*policy.claims, *_engine(keys)))
    if not keys.under(_VALUE):
        return policy
    return policy._replace(roles={"critic": _reading(_as_policy(keys), place, policy.open)})


def _as_policy(keys: Keys) -> Keys:
    """The keys of the critic under the names of the policy's; both have the same ones."""
    own = {name: node for name, node in keys.nodes.items() if not name.startswith(f"{_POLICY}.")}
    value = {f"{_POLICY}{name[len(_VALUE) :]}": node for name, node in own.items() if name.startswith(f"{_VALUE}.")}
    kept = {name: node for name, node in keys.nodes.items() if name.startswith(f"{_COLOCATED}.")}
    return keys._replace(nodes={**own, **kept, **value})


def _reading(keys: Keys, place: Span | None, why: str) -> Reading:
    megatron = keys.known(f"{_MEGATRON}.enabled") is True
    framework = "megatron" if megatron else "fsdp" if keys.known(f"{_TENSORS}.enabled") is True else ""
    named, files = model_named(keys, f"{_POLICY}.model_name")
    table = {**_SHARED, **(_OF_MEGATRON if megatron else _OF_TENSORS)}
    packed = tuple(_packed(keys))
    untold = {"batch.micro"} if packed else set()
    untold |= set() if _pads_batches(keys, framework, why) else {"data.padded_to"}
    own = (claim for claim in claims_of(keys, table) if claim.setting not in untold)
    claims = (*_launch(keys, place), *own, *packed, *_derived(keys, framework), *named)
    answers = {"run.answers": (Member(place, {}),)} if place is not None and _answers(keys) else {}
    return Reading(LAYER, place, claims, files, framework=framework, frontend="nemo-rl", open=why, collections=answers)


def _engine(keys: Keys) -> Iterator[Claim]:
    """How vLLM splits the policy that answers (models/generation/vllm/vllm_generation.py asserts that it divides its
    GPUs), and whether these are the policy's.
    """
    if keys.known(f"{_GENERATION}.backend") == "vllm" and _answers(keys):
        yield from claims_of(keys, _ENGINE)
        yield from claims_of(keys, _TOGETHER)


def _answers(keys: Keys) -> bool:
    """Whether the policy answers prompts between its steps."""
    return any(keys.under(section) for section in _ANSWERING)


def spell(setting_name: str, value: Plain, framework: str = "") -> str | None:
    """A setting as an override has it (`policy.train_micro_batch_size=1`)."""
    own = _OF_MEGATRON if framework == "megatron" else _OF_TENSORS
    if (setting_name, framework) == ("checkpointing.activations", "megatron"):
        return f"{_MEGATRON}.activation_checkpointing={'false' if value == 'none' else 'true'}"
    found = spelled({**_LAUNCH, **_SHARED, **_ENGINE, **own}, setting_name, value)
    return None if found is None else "=".join(found)


# Files that build on each other


def _merged(roots: Iterable[Node | None], words: Sequence[Word]) -> Keys:
    """The keys of all files: sections are merged, unless one says that it replaces what is below it."""
    nodes: dict[str, Node] = {}
    for root in roots:
        _lay_over(nodes, root, "")
    return put_over(nodes, overrides(words))


def _lay_over(nodes: dict[str, Node], root: Node | None, above: str) -> None:
    for found in root.entries if root is not None else ():
        path = f"{above}{found.key}"
        replaced = entry(found.node, _REPLACED)
        if found.node.kind != "object" or (replaced is not None and replaced.node.value is True):
            for each in [name for name in nodes if name.startswith(f"{path}.")]:
                del nodes[each]
        nodes[path] = found.node
        _lay_over(nodes, found.node, f"{path}.")


# What several keys tell together


def _launch(keys: Keys, place: Span | None) -> Iterator[Claim]:
    """Ray starts a worker for each GPU; generation on GPUs of its own leaves the others to the training."""
    yield Claim("launch.launcher", Value("ray", Origin("default", place, (), _TOOL)), "cluster")
    nodes, each = (_count(keys, path) for path in ("cluster.num_nodes", "cluster.gpus_per_node"))
    if keys.known(f"{_COLOCATED}.enabled") is False:
        nodes, each = _left_to_training(keys, nodes, each)
    yield Claim("launch.nodes", nodes, "cluster.num_nodes")
    yield Claim("launch.processes_per_node", each, "cluster.gpus_per_node")
    yield Claim("launch.processes", product(each, nodes, "nodes"), "cluster.gpus_per_node")
    segment = keys.node("cluster.segment_size")
    if segment is not None:
        yield Claim(
            "cluster.nvlink_domain", product(whole_number(segment), each, "GPUs a node"), "cluster.segment_size"
        )


def _count(keys: Keys, path: str) -> Setting:
    node = keys.node(path)
    return Unknown("the size of the cluster is not written", f"--set {path}=N") if node is None else whole_number(node)


def _left_to_training(keys: Keys, nodes: Setting, each: Setting) -> tuple[Setting, Setting]:
    """What generation's own nodes leave, or of a single node its own GPUs (nemo_rl/algorithms/grpo.py, setup)."""
    taken = [keys.node(f"{_COLOCATED}.resources.{name}") for name in ("num_nodes", "gpus_per_node")]
    if isinstance(nodes, Value) and nodes.value == 1:
        return nodes, _less(each, taken[1])
    return _less(nodes, taken[0]), each


def _less(whole: Setting, node: Node | None) -> Setting:
    part = None if node is None else whole_number(node)
    if not isinstance(whole, Value) or not isinstance(part, Value):
        return Unknown("generation has GPUs of its own, how many is not known", "--set launch.processes=N")
    if isinstance(whole.value, int) and isinstance(part.value, int) and 0 < part.value < whole.value:
        return whole._replace(value=whole.value - part.value)
    return Unknown("generation has GPUs of its own, how many is not known", "--set launch.processes=N")


def _derived(keys: Keys, framework: str) -> Iterator[Claim]:
    yield from _length(keys)
    yield from _adapters(keys, f"{_MEGATRON}.peft" if framework == "megatron" else f"{_TENSORS}.lora_cfg")
    if framework == "megatron":
        yield from _recomputed(keys)
        yield from _eight_bit(keys)
        yield from keyed_cut(keys, _MEGATRON, None, number_at(keys, f"{_MEGATRON}.pipeline_model_parallel_size"))
    elif framework == "fsdp":
        yield from _optimizer(keys)


def _packed(keys: Keys) -> Iterator[Claim]:
    """Batches that are filled up to a number of tokens have no size in samples."""
    for section, said in _PACKED:
        node = keys.node(f"{_POLICY}.{section}.enabled")
        if node is not None and node.value is True:
            reason = f"{said} fills a micro-batch up to a number of tokens"
            for name in ("batch.micro", "batch.accumulation"):
                yield Claim(name, Unknown(reason, f"--set {name}=N", Origin("written", node.span)), section)


def _pads_batches(keys: Keys, framework: str, hidden_by: str) -> bool:
    """Whether what batches are padded to is what the ranks cut: not where dynamic batching rounds their length anew;
    Megatron's workers check it of samples that they pack too (models/megatron/data.py).
    """
    sections = [section for section, _ in _PACKED if framework != "megatron" or section == "dynamic_batching"]
    switches = [keys.node(f"{_POLICY}.{section}.enabled") for section in sections]
    return all(switch.value is False if switch is not None else not hidden_by for switch in switches)


def _length(keys: Keys) -> Iterator[Claim]:
    node = keys.node(f"{_POLICY}.max_total_sequence_length")
    value = None if node is None else whole_number(node)
    if isinstance(value, Value):
        yield Claim("data.sequence_length", at_most(value), f"{_POLICY}.max_total_sequence_length")


def _adapters(keys: Keys, section: str) -> Iterator[Claim]:
    rank = keys.node(f"{section}.dim")
    if keys.known(f"{section}.enabled") is True and rank is not None:
        yield Claim("model.lora_rank", whole_number(rank), f"{section}.dim")


def _recomputed(keys: Keys) -> Iterator[Claim]:
    """The switch, and how much it recomputes."""
    node = keys.node(f"{_MEGATRON}.activation_checkpointing")
    if node is None:
        return
    kind = keys.known(f"{_MEGATRON}.recompute_granularity") or "full"
    amount = {True: kind, False: "none"}.get(node.value) if isinstance(node.value, bool) else None
    value = setting(node) if amount is None else setting(node, amount)
    yield Claim("checkpointing.activations", value, f"{_MEGATRON}.activation_checkpointing")


def _eight_bit(keys: Keys) -> Iterator[Claim]:
    node = keys.node(f"{_MEGATRON}.fp8_cfg.enabled")
    if node is not None and node.value is True:
        mxfp8 = keys.known(f"{_MEGATRON}.fp8_cfg.fp8_recipe") == "mxfp8"
        yield Claim("precision.compute", setting(node, "mxfp8" if mxfp8 else "fp8"), f"{_MEGATRON}.fp8_cfg.enabled")


def _optimizer(keys: Keys) -> Iterator[Claim]:
    """DTensor's workers shard by fully_shard; weights are kept in fp32 for the optimizer."""
    yield Claim("sharding.stage", default(3, _TOOL))
    yield Claim("precision.master", default("fp32", _TOOL))
    node = keys.node("policy.optimizer.name")
    if node is not None and node.kind == "string":
        yield Claim(
            "optimizer.name", setting(node, str(node.value).rpartition(".")[2].lower()), "policy.optimizer.name"
        )
