"""OpenRLHF's arguments (`openrlhf.cli.train_sft`, `train_ppo_ray` ...): the plan of the model that trains, and that of
the critic beside the actor.

OpenRLHF 3c3be62 openrlhf/cli and openrlhf/utils/deepspeed; releases before it have the names without dots.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dtlint.frameworks import Claim, Member, Reading
from dtlint.frameworks.answers import ray_workers
from dtlint.frameworks.arguments import stretch, texts
from dtlint.frameworks.deepspeed.values import format_name, known, number, whole_number
from dtlint.frameworks.deepspeed.values import word as written_word
from dtlint.frameworks.dotted_keys import Keys, Read, node_of, one, unread, written_name
from dtlint.frameworks.keys import model_named
from dtlint.frameworks.lengths import at_most
from dtlint.frameworks.openrlhf.references import beside_the_actor, beside_the_only
from dtlint.frameworks.options import known_head, literal_place
from dtlint.languages.json_tree import Document, Node, setting
from dtlint.languages.traced import Word
from dtlint.source import Span
from dtlint.value import Plain, Setting, Unknown, default

LAYER = "openrlhf"
CRITICS_LAYER = "openrlhf-critic"

_PACKAGE = "openrlhf"
_RAY = "train_ppo_ray"
_OWN_OPTION = "--micro_train_batch_size"
_NUMBERS: Mapping[str, tuple[str, ...]] = {
    "batch.micro": ("train.micro_batch_size", "micro_train_batch_size"),
    "batch.global": ("train.batch_size", "train_batch_size"),
    "sharding.stage": ("ds.zero_stage", "zero_stage"),
    "parallel.tensor": ("ds.tensor_parallel_size", "ds_tensor_parallel_size"),
    "parallel.context": ("ds.ring_attn_size", "ring_attn_size"),
    "model.lora_rank": ("ds.lora.rank", "lora_rank"),
}
_CLIPS = ("max_norm",)
_FORMATS = ("ds.param_dtype", "param_dtype")
_OVERLAPS = ("ds.overlap_comm", "overlap_comm")
_OFFLOADS = ("ds.adam_offload", "adam_offload")
_OPTIMIZERS = ("optimizer", "optim")
"""Options of forks; OpenRLHF itself has Adam alone."""
_SHARES = ("ds.zpg", "zpg")
_QUANTIZED = ("ds.load_in_4bit", "load_in_4bit")
_ENGINES = ("vllm.num_engines", "vllm_num_engines")
_TOGETHER = ("train.colocate_all", "colocate_all_models")
_ENGINE_SIZE = ("vllm.tensor_parallel_size", "vllm_tensor_parallel_size")
_DYNAMIC = ("train.dynamic_batch_enable", "use_dynamic_batch")
_LENGTHS = ("data.max_len", "max_len")
_SWITCHED = {"sharding.offload_optimizer": _OFFLOADS, "overlap.gradients": _OVERLAPS}


def recognise(document: Document) -> bool:
    """OpenRLHF has no files of its own."""
    return False


def recognise_program(program: Sequence[Word]) -> bool:
    """Whether a program is one of OpenRLHF's that trains: a module of the package, or a script named like one
    (`examples/train_sft.py` of early releases, and copies of it) with the option that no other trainer has.
    """
    name = (program[0].text or "") if program else ""
    if ".train_" not in f".{name.replace('/', '.')}":
        return False
    return _PACKAGE in name or any(known_head(word).startswith(_OWN_OPTION) for word in program[1:])


def read_config(documents: Sequence[Document], words: Sequence[Word] = ()) -> Reading:
    """Never asked: no program names a file."""
    return Reading(LAYER)


def read_program(program: Sequence[Word]) -> Reading:
    """What the arguments claim about the actor or the only model, and in `roles` about the critic."""
    keys = _keys(program[1:])
    place = stretch(program[1:], program[0].place)
    unknown = any(word.many and not word.adds_none for word in program[1:])
    opened = "the list of arguments is open" if unknown else ""
    if _RAY not in (program[0].text or ""):
        only = _reading(keys, "model", place)
        beside = beside_the_only(keys, program[0].text or "", program[0].place)
        return only._replace(claims=(*only.claims, *beside), open=opened)
    critic = _critic(keys, place)
    answers = {"run.answers": (Member(place, {}),)}
    roles = {role: each._replace(open=opened, collections=answers) for role, each in critic.items()}
    actor = _reading(keys, "actor", place)
    claims = (*_workers(keys, "actor", place), *_split(keys), *beside_the_actor(keys), *actor.claims)
    return actor._replace(claims=claims, open=opened, roles=roles, collections={**_refused(keys), **answers})


def spell_in(reading: Reading, setting_name: str, value: Plain) -> str | None:
    """A setting as an option (`--train.micro_batch_size 4`), by the names of the release whose names are written."""
    stated = written_name(reading, setting_name).lstrip("-")
    dotted = any("." in claim.name for claim in reading.claims)
    names = {
        **_NUMBERS,
        "parallel.rollout": _ENGINE_SIZE,
        "parallel.rollout_engines": _ENGINES,
        "optimizer.clip": _CLIPS,
        "data.sequence_length": _LENGTHS,
    }.get(setting_name)
    if names is not None:
        return f"--{stated or names[0 if dotted else -1]} {value}"
    switch = _SWITCHED.get(setting_name)
    if switch is not None and value in (True, "cpu"):
        return f"--{switch[0 if dotted else -1]}"
    if setting_name == "checkpointing.activations" and value == "full":
        return f"--{stated or 'gradient_checkpointing'}"
    return f"--{stated or _FORMATS[0]} {value}" if setting_name == "precision.compute" and value != "fp32" else None


def _keys(words: Sequence[Word]) -> Keys:
    """Each option with its value; one without is on."""
    nodes: dict[str, Node] = {}
    spelled: dict[str, str] = {}
    for index, word in enumerate(words):
        head = known_head(word)
        if not head.startswith("--"):
            continue
        name, sign, _ = head.partition("=")
        key = name[2:].replace("-", "_")
        after = words[index + 1] if index + 1 < len(words) else None
        if sign:
            nodes[key] = node_of(word.part(len(name) + 1))
        elif after is None or after.shown.startswith("--"):
            nodes[key] = Node("bool", True, literal_place(word))
        else:
            nodes[key] = node_of(after)
        spelled[key] = name
    return Keys(nodes, spelled)


def _reading(keys: Keys, model: str, place: Span) -> Reading:
    path = next((name for name in _models(model) if keys.node(name) is not None), "pretrain")
    named, files = model_named(keys, path)
    layer = CRITICS_LAYER if model == "critic" else LAYER
    claims = (*_claims(keys, model), *named)
    return Reading(layer, place, claims, files, framework="deepspeed", frontend="openrlhf")


def _models(model: str) -> tuple[str, ...]:
    return (f"{model}.model_name_or_path", "critic_pretrain" if model == "critic" else "pretrain")


def _claims(keys: Keys, model: str) -> Iterator[Claim]:
    for name, names in _NUMBERS.items():
        if name != "batch.micro" or keys.node(*_DYNAMIC) is None:
            yield from one(keys, names, name, whole_number)
    if (dynamic := keys.node(*_DYNAMIC)) is not None:
        for name in ("batch.micro", "batch.accumulation"):
            why = unread(dynamic, "samples are packed up to a number of tokens")
            yield Claim(name, why._replace(how=f"--set {name}=N"), _DYNAMIC[0])
    yield from one(keys, (f"{model}.max_norm", *_CLIPS), "optimizer.clip", number)
    recomputed = (f"{model}.gradient_checkpointing_enable", "gradient_checkpointing")
    yield from one(keys, recomputed, "checkpointing.activations", _standing_for("full"))
    yield from one(keys, _OPTIMIZERS, "optimizer.name", written_word)
    yield from one(keys, _OVERLAPS, "overlap.gradients", _standing_for(True))
    yield from one(keys, _OFFLOADS, "sharding.offload_optimizer", _standing_for("cpu"))
    yield from one(keys, _QUANTIZED, "precision.frozen", _standing_for("nf4"))
    yield from _shares(keys)
    yield from _precision(keys)
    yield from _attention(keys)
    yield from _length(keys)


def _standing_for(value: Plain) -> Read:
    """A reader that takes a switch that is on for a value."""

    def read(node: Node) -> Setting:
        return setting(node, value) if node.value is True else unread(node, f"{node.value} stands behind a switch")

    return read


def _shares(keys: Keys) -> Iterator[Claim]:
    """A second copy of the parameters inside groups (ZeRO++), at stage 3 alone."""
    node = keys.node(*_SHARES)
    size = None if node is None else known(whole_number(node))
    if node is not None and isinstance(size, int) and size > 1 and keys.known(*_NUMBERS["sharding.stage"]) == 3:
        yield from one(keys, _SHARES, "sharding.group", whole_number)


def _precision(keys: Keys) -> Iterator[Claim]:
    """Releases with dots take bf16 unasked; earlier ones a switch, or nothing."""
    if keys.node(*_FORMATS) is not None:
        yield from one(keys, _FORMATS, "precision.compute", format_name)
    elif keys.node("bf16") is not None:
        yield from one(keys, ("bf16",), "precision.compute", _standing_for("bf16"))
    elif not any("." in name for name in keys.nodes):
        why = Unknown("the format taken unasked depends on the release of OpenRLHF", "--set precision.compute=...")
        yield Claim("precision.compute", why, "bf16")


def _attention(keys: Keys) -> Iterator[Claim]:
    yield from one(keys, ("flash_attn",), "attention.flash", _standing_for(True))
    node = keys.node("ds.attn_implementation", "attn_implementation")
    if node is not None and node.kind == "string":
        flash = "flash" in str(node.value)
        yield Claim("attention.flash", setting(node, flash), "ds.attn_implementation")


def _length(keys: Keys) -> Iterator[Claim]:
    """The longest sample; packed ones share a row."""
    for claim in one(keys, _LENGTHS, "data.sequence_length", whole_number):
        yield claim._replace(value=at_most(claim.value))


# Workers under Ray


def _counts(keys: Keys, worker: str) -> tuple[Node | None, Node | None]:
    """The nodes of a worker group, and the GPUs that it has on each."""
    return (
        keys.node(f"{worker}.num_nodes", f"{worker}_num_nodes"),
        keys.node(f"{worker}.num_gpus_per_node", f"{worker}_num_gpus_per_node"),
    )


def _workers(keys: Keys, worker: str, place: Span) -> Iterator[Claim]:
    nodes, each = (None if node is None else whole_number(node) for node in _counts(keys, worker))
    yield from ray_workers(nodes, each, "OpenRLHF", place)


def _critic(keys: Keys, place: Span) -> Mapping[str, Reading]:
    """The critic's plan, where its model is named."""
    if keys.node(*_models("critic")) is None:
        return {}
    reading = _reading(keys, "critic", place)
    return {"critic": reading._replace(claims=(*_workers(keys, "critic", place), *reading.claims))}


def _refused(keys: Keys) -> dict[str, tuple[Member, ...]]:
    """Groups that share GPUs and differ in their number (members of `config.refused`)."""
    found = tuple(_pairs(keys))
    return {"config.refused": found} if found else {}


def _split(keys: Keys) -> Iterator[Claim]:
    """vLLM's engines, where there are any: how many, how each splits the actor's model, and whether they have the GPUs
    of the actor, all of which they have to make up then.
    """
    if not keys.known(*_ENGINES):
        return
    yield from one(keys, _ENGINES, "parallel.rollout_engines", whole_number)
    yield from one(keys, _ENGINE_SIZE, "parallel.rollout", whole_number)
    if keys.node(*_ENGINE_SIZE) is None:
        yield Claim("parallel.rollout", default(1, "OpenRLHF"), f"--{_ENGINE_SIZE[-1]}")
    if keys.node("train.async_enable", "async_train") is None:
        yield from one(keys, _TOGETHER, "parallel.rollout_shares", _standing_for(True))


def _pairs(keys: Keys) -> Iterator[Member]:
    for one_, other, switch in (
        ("actor", "ref", keys.node("train.colocate_actor_ref", "colocate_actor_ref")),
        ("critic", "reward", keys.node("train.colocate_critic_reward", "colocate_critic_reward")),
    ):
        counts = _gpus(keys, one_), _gpus(keys, other)
        if switch is not None and None not in counts and counts[0] != counts[1] and keys.known("init_kl_coef") != 0:
            reason = f"the {one_} has {counts[0]} GPUs and the {other} {counts[1]}"
            yield _member(switch, f"--colocate_{one_}_{other}", "excludes", f"--{other}_num_gpus_per_node", reason)


def _gpus(keys: Keys, worker: str) -> int | None:
    found = [None if node is None else known(whole_number(node)) for node in _counts(keys, worker)]
    return found[0] * found[1] if isinstance(found[0], int) and isinstance(found[1], int) else None


def _member(node: Node, key: str, relation: str, partner: str, reason: str) -> Member:
    return Member(node.span, texts(node.span, key=key, relation=relation, partner=partner, reason=reason, since=""))
