"""torchtune's configs, and `tune run`, which starts a recipe by them: on one device, or under torchrun.

torchtune bd2a0fc (0.7) torchtune/_cli/run.py, recipes/full_finetune_distributed.py and lora_finetune_distributed.py,
torchtune/training/_distributed.py, which share a machine's cores out among its processes where FSDP offloads.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from dtlint.frameworks import Claim, Member, NamedFile, Reading, torchrun
from dtlint.frameworks.arguments import stretch, texts
from dtlint.frameworks.deepspeed.values import flag, known, number, whole_number
from dtlint.frameworks.dotted_keys import Keys
from dtlint.frameworks.hydra.omegaconf import resolved
from dtlint.frameworks.interpreter import program_name
from dtlint.frameworks.keys import ON, Meaning, claims_of, hidden, keys_of, spelled
from dtlint.frameworks.lengths import at_most
from dtlint.frameworks.program import model_claim
from dtlint.languages.json_tree import Document, Node, entry, setting
from dtlint.languages.traced import Word, literal_word, setting_of
from dtlint.value import Origin, Plain, Setting, Unknown, Value

LAYER = "torchtune"
ROLE = "torchtune"
SINGLE = "torchtune_single"
"""The role of a config that a recipe for one device is given."""

_MARKS = frozenset(("tokenizer", "checkpointer", "dataset", "model", "optimizer", "loss", "metric_logger"))
_SHIPPED = "recipes/configs/"
_ENDINGS = (".yaml", ".yml")
_FORMATS: Mapping[str, Plain] = {"bf16": "bf16", "fp16": "fp16", "fp32": "fp32"}
_RECOMPUTED: Mapping[str, Plain] = {"true": "full", "false": "none"}
_TABLE = {
    "batch_size": Meaning("batch.micro"),
    "gradient_accumulation_steps": Meaning("batch.accumulation"),
    "clip_grad_norm": Meaning("optimizer.clip", number),
    "optimizer_in_bwd": Meaning("optimizer.in_backward", words=ON),
    "enable_activation_checkpointing": Meaning("checkpointing.activations", words=_RECOMPUTED),
    "enable_activation_offloading": Meaning("checkpointing.offload", words=ON),
    "model.lora_rank": Meaning("model.lora_rank"),
}
_DISTRIBUTED = {
    "tensor_parallel_dim": Meaning("parallel.tensor"),
    "context_parallel_dim": Meaning("parallel.context"),
    "fsdp_reshard_after_forward": Meaning("sharding.reshard_after_forward", words=ON),
}
_SPELLED = {
    **_TABLE,
    **_DISTRIBUTED,
    "dtype": Meaning("precision.compute", words=_FORMATS),
    "fsdp_cpu_offload": Meaning("sharding.offload_parameters", words={"true": "cpu", "false": "none"}),
}
_FUSED = ("LinearCrossEntropyLoss", "CEWithChunkedOutputLoss", "ForwardKLWithChunkedOutputLoss", "SFTLoss")
_ALONE = ("single_device", "low_memory")
_KINDS = ("_single_device", "_distributed")


def recognise(document: Document) -> bool:
    """Whether a file is a config of torchtune: it names components of torchtune's, a model and a dataset among them."""
    if document.root is None or len({each.key for each in document.root.entries} & _MARKS) < 3:
        return False
    return any(entry(each.node, "_component_") is not None for each in document.root.entries)


def recognise_launch(words: Sequence[Word]) -> bool:
    """Whether a command is `tune run`."""
    return len(words) > 2 and program_name(words[0]) == "tune" and words[1].text == "run"


def recognise_program(program: Sequence[Word]) -> bool:
    """Whether a program is a recipe with a config, as `tune run` or torchrun start it."""
    name = (program[0].text or "").removesuffix(".py") if program else ""
    return name.endswith(_KINDS) and any(word.shown.startswith("--config") for word in program[1:])


def read_launch(words: Sequence[Word], env: Mapping[str, Word]) -> Reading:
    """torchrun with the options in front of the recipe; without any the recipe runs on one device."""
    read = torchrun.read_launch((words[0], *words[2:]), env)
    if read.rest and read.rest[0] is words[2]:
        claims = (
            Claim("launch.launcher", setting_of(words[0], "python"), words[0].shown),
            Claim("launch.processes", setting_of(words[0], 1), words[0].shown),
        )
        return Reading("python", words[0].place, claims, rest=read.rest, frontend="torchtune")
    return read._replace(frontend="torchtune", open=read.open)


def read_program(program: Sequence[Word]) -> Reading:
    """The config that a recipe is given: a file, or the name of one that the package brings along."""
    words = [word for word in program[1:] if not word.shown.startswith("--config=")]
    named = next((word.part(len("--config=")) for word in program[1:] if word.shown.startswith("--config=")), None)
    for before, word in pairwise(words):
        named = word if before.text == "--config" else named
    place = stretch(program[1:], program[0].place)
    if named is None:
        return Reading("program", place, frontend="torchtune", open="the config is not known")
    file = named if named.shown.endswith(_ENDINGS) or named.text is None else _shipped(named)
    single = (program[0].text or "").removesuffix(".py").endswith(_KINDS[0])
    return Reading("program", place, files=(NamedFile(SINGLE if single else ROLE, file),), frontend="torchtune")


def read_config(documents: Sequence[Document], words: Sequence[Word] = ()) -> Reading:
    """What a config, and `key=value` words over it, claim. The recipe decides whether the model is sharded; by itself a
    file is one for a single device if its name says so.
    """
    names = [document.source.path.rpartition("/")[2] for document in documents]
    alone = any(word in name for name in names for word in _ALONE)
    return _read(documents, words, single=alone)


def read_single(documents: Sequence[Document], words: Sequence[Word] = ()) -> Reading:
    """The same under a recipe for one device."""
    return _read(documents, words, single=True)


def _read(documents: Sequence[Document], words: Sequence[Word], *, single: bool) -> Reading:
    roots = [document.root for document in documents]
    keys = resolved(keys_of(roots, words))
    place = next((root.span for root in roots if root is not None), words[0].place if words else None)
    claims = (
        *claims_of(keys, _table(keys, single)),
        *_precision(keys),
        *_length(keys),
        *_optimizer(keys),
        *_model(keys),
        *_loss(keys),
        *(() if single else (*_offload(keys), *_degrees(keys))),
    )
    return Reading(
        LAYER,
        place,
        claims,
        framework="pytorch" if single else "fsdp",
        frontend="torchtune",
        open=hidden(roots, words),
        collections={**_refused(keys), **({} if single else _bound_cores(keys))},
        role="" if place is None or not documents or _trains(keys) else "other",
    )


def spell(setting_name: str, value: Plain, framework: str = "") -> str | None:
    """A setting as the file has it (`batch_size: 2`)."""
    alike = "sharding.offload_parameters" if setting_name == "sharding.offload_optimizer" else setting_name
    found = spelled(_SPELLED, alike, value)
    return None if found is None else ": ".join(found)


def _shipped(named: Word) -> Word:
    """The file of a config that is asked for by name (`llama3/8B_full`), where the tree holds it."""
    return literal_word(f"{_SHIPPED}{named.text}.yaml", named.place)


def _trains(keys: Keys) -> bool:
    """Evaluation, generation and quantization have configs too, without an optimizer."""
    return keys.under("optimizer")


def _table(keys: Keys, single: bool) -> Mapping[str, Meaning]:
    """PPO's recipe makes batch_size answers at a time, and learns from parts of them."""
    table = _TABLE if single else {**_TABLE, **_DISTRIBUTED}
    answers = keys.node("ppo_batch_size") is not None
    return {**table, "batch_size": Meaning("batch.rollout")} if answers else table


def _precision(keys: Keys) -> Iterator[Claim]:
    """`dtype` is that of the weights, and so of gradients and optimizer states."""
    node = keys.node("dtype")
    told = None if node is None else setting(node)
    if node is None or not isinstance(told, Value):
        return
    text = str(told.value).lower()
    if text not in _FORMATS:
        yield Claim("precision.compute", Unknown(f"{text} is a format that is not known here"), "dtype")
        return
    eight = keys.node("enable_fp8_training")
    on = eight is not None and known(flag(eight)) is True
    yield Claim(
        "precision.compute", setting(eight, "fp8") if on and eight is not None else setting(node, text), "dtype"
    )
    for name in ("precision.master", "precision.gradients", "precision.reduce", "optimizer.state_dtype"):
        yield Claim(name, setting(node, text), "dtype")


def _length(keys: Keys) -> Iterator[Claim]:
    """Packed samples are as long as they may be; others may be far shorter."""
    node = keys.node("tokenizer.max_seq_len")
    if node is None:
        return
    value = whole_number(node)
    packed = keys.known("dataset.packed") is True
    told = value if packed else at_most(value, "dataset.packed: True")
    yield Claim("data.sequence_length", told, "tokenizer.max_seq_len")


def _optimizer(keys: Keys) -> Iterator[Claim]:
    node = keys.node("optimizer._component_")
    told = None if node is None else setting(node)
    if isinstance(told, Value):
        name = str(told.value).rpartition(".")[2].lower()
        yield Claim("optimizer.name", told._replace(value=name), "optimizer._component_")
        if "8bit" in name:
            yield Claim("optimizer.state_dtype", told._replace(value="int8"), "optimizer._component_")


def _model(keys: Keys) -> Iterator[Claim]:
    """The model by the name of its builder (`llama3_8b`); adapters by the `lora_` or `qlora_` in front of it."""
    node = keys.node("model._component_")
    told = None if node is None else setting(node)
    if node is None or not isinstance(told, Value):
        return
    builder = str(told.value).rpartition(".")[2]
    plain = builder.removeprefix("q").removeprefix("lora_") if builder.startswith(("lora_", "qlora_")) else builder
    claim = model_claim("model._component_", literal_word(_usual(plain), node.span))
    if claim is not None:
        yield claim
    if builder == plain:
        return
    if keys.node("model.lora_rank") is None:
        why = Unknown("the builder decides the rank", "--set model.lora_rank=N", Origin("written", node.span))
        yield Claim("model.lora_rank", why, "model._component_")
    if builder.startswith("qlora_"):
        yield Claim("precision.frozen", setting(node, "nf4"), "model._component_")


def _usual(builder: str) -> str:
    """A builder's name as the catalog has it (`llama3_1_8b` is llama-3.1-8b)."""
    family, _, size = builder.rpartition("_")
    name = family.replace("_", ".")
    head = name.rstrip("0123456789.")
    return f"{head}-{name[len(head) :]}-{size}" if len(head) < len(name) else f"{name}-{size}"


def _loss(keys: Keys) -> Iterator[Claim]:
    node = keys.node("loss._component_")
    if node is not None and str(node.value).endswith(_FUSED):
        yield Claim("model.fused_loss", setting(node, True), "loss._component_")


def _offload(keys: Keys) -> Iterator[Claim]:
    """The policy of fully_shard moves parameters, gradients and optimizer states."""
    node = keys.node("fsdp_cpu_offload")
    told = None if node is None else flag(node)
    for what in ("parameters", "optimizer"):
        if told is not None:
            value: Setting = told._replace(value="cpu" if told.value else "none") if isinstance(told, Value) else told
            yield Claim(f"sharding.offload_{what}", value, "fsdp_cpu_offload")


def _bound_cores(keys: Keys) -> dict[str, tuple[Member, ...]]:
    """The switch with which a recipe gives each process its share of the cores, whatever OMP_NUM_THREADS is (`if
    fsdp_cpu_offload: training.set_torch_num_threads()`, which takes the cores over the processes of the machine).
    """
    node = keys.node("fsdp_cpu_offload")
    if node is None or known(flag(node)) is not True:
        return {}
    return {"launch.bound_cores": (Member(node.span, texts(node.span, name="fsdp_cpu_offload")),)}


def _degrees(keys: Keys) -> Iterator[Claim]:
    """-1 shards over the ranks that are left."""
    shard, replicas = keys.node("data_parallel_shard_dim"), keys.node("data_parallel_replicate_dim")
    count, size = (None if node is None else whole_number(node) for node in (replicas, shard))
    times, ranks = 1 if count is None else known(count), known(size)
    if isinstance(size, Value) and isinstance(ranks, int) and ranks > 0 and isinstance(times, int):
        yield Claim("parallel.data", size._replace(value=ranks * times), "data_parallel_shard_dim")
    if count is not None and times != 1:
        yield Claim("sharding.instances", count, "data_parallel_replicate_dim")


_EXCLUDED: tuple[tuple[str, str, str, str], ...] = (
    ("optimizer_in_bwd", "clip_grad_norm", "excludes", "the gradients are gone when they would be clipped"),
    (
        "enable_activation_offloading", "enable_activation_checkpointing", "needs",
        "activations are offloaded where they are checkpointed",
    ),
    ("tensor_parallel_dim", "tensor_parallel_plan", "needs", "the plan says how the layers are cut"),
)  # fmt: skip


def _refused(keys: Keys) -> dict[str, tuple[Member, ...]]:
    """Members of `config.refused`: keys that the recipes refuse together, or one without another."""
    found = [
        _together(keys.nodes[key], key, relation, partner, reason)
        for key, partner, relation, reason in _EXCLUDED
        if _asks(keys.node(key)) and (_asks if relation == "excludes" else _is_off)(keys.node(partner))
    ]
    steps = keys.node("gradient_accumulation_steps")
    count = None if steps is None else known(whole_number(steps))
    if _asks(keys.node("optimizer_in_bwd")) and steps is not None and isinstance(count, int) and count > 1:
        reason = "each gradient is applied in the backward pass that makes it"
        found.append(_together(steps, f"gradient_accumulation_steps: {count}", "excludes", "optimizer_in_bwd", reason))
    return {"config.refused": tuple(found)} if found else {}


def _asks(node: Node | None) -> bool:
    """Whether a key asks for something: a switch that is on, a degree above one, a section or a number; what a template
    leaves to its reader may be nothing.
    """
    return node is not None and node.kind not in ("bare", "unknown") and not _is_off(node)


def _is_off(node: Node | None) -> bool:
    """Whether a key is known to ask for nothing."""
    if node is None or node.kind == "null":
        return True
    return node.kind not in ("object", "bare", "unknown") and str(node.value).lower() in ("false", "1", "none", "null")


def _together(node: Node, key: str, relation: str, partner: str, reason: str) -> Member:
    fields = texts(node.span, key=key, relation=relation, partner=partner, reason=reason, since="")
    return Member(node.span, fields)
