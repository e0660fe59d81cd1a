"""torchtitan's TOML config with the overrides of its command line (v0.1 and v0.2), and the same keys as main's configs
in Python build them (`torchtitan_registry`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from dtlint.frameworks import Claim, Member, NamedFile, Reading
from dtlint.frameworks.arguments import stretch
from dtlint.frameworks.deepspeed.values import flag, format_name, known, number, whole_number, word
from dtlint.frameworks.dotted_keys import Keys, Read, hiding, keys_of, node_of, one, unread, whole, worded
from dtlint.frameworks.options import literal_place
from dtlint.frameworks.torchtitan.batches import batch_claims, degree, standing_for
from dtlint.frameworks.torchtitan.keys import misspelt, misspelt_options
from dtlint.frameworks.torchtitan.spelling import NAMES, REGISTRY_ROLE, spell_in
from dtlint.languages.json_tree import Document, Node, entry, setting
from dtlint.languages.traced import Word
from dtlint.source import Span
from dtlint.value import Plain, Setting, Value, default, written

__all__ = ["looks_like_config", "read_arguments", "read_config", "recognise", "spell_in", "without_config"]

LAYER = "torchtitan-toml"
ARGUMENTS_LAYER = "torchtitan-arguments"
_PROGRAMS = ("torchtitan.train", "torchtitan/train.py", "torchtitan.experiments.flux.train")
_FILE = "job.config_file"
_DEGREES = ("tensor_parallel_degree", "data_parallel_shard_degree", "pipeline_parallel_degree")
_SECTIONS = ("training", "parallelism", "experimental")
_REGISTRY = ("module", "config")
"""Options of main that choose a config function in place of a file."""

_COUNTS: tuple[str, ...] = (
    "parallel.tensor", "parallel.pipeline", "parallel.context", "data.sequence_length", "run.steps",
)  # fmt: skip
_SCHEDULES: Mapping[Plain, Plain] = {
    "1f1b": "1f1b",
    "gpipe": "gpipe",
    "interleaved1f1b": "interleaved",
    "zbvzerobubble": "zbv",
    "dualpipev": "dualpipe",
}
"""Schedules of torch.distributed.pipelining that the plan has a name for, in small letters."""
_OF_TWO_CHUNKS = frozenset(
    ("interleaved1f1b", "loopedbfs", "interleavedzerobubble", "zbvzerobubble", "dualpipev")
)  # fmt: skip
"""Schedules that get two stages on each rank where the layers of a stage are not written (torchtitan v0.2.2
distributed/pipeline_parallel.py).
"""
_OLD_EIGHT_BIT = "float8.enable_float8_linear"
"""The switch of earlier releases for 8-bit matrix products."""
_OWN_CODE = ("experimental.custom_import", "experimental.custom_args_module", "job.custom_config_module")
"""Keys by which a program of one's own comes in (v0.1.0 to v0.2.2), which may bring a loss."""
_MODES: Mapping[Plain, Plain] = {"none": "none", "selective": "selective", "full": "full"}


def recognise(program: Sequence[Word]) -> bool:
    """Whether a program with its arguments is torchtitan's training."""
    name = (program[0].text or "") if program else ""
    return name.endswith(_PROGRAMS) or any(_option(each) == _FILE for each in program[1:])


def read_arguments(program: Sequence[Word]) -> Reading:
    """The config that the command line names: a file, or a module of config functions. What its overrides say counts
    with it: `read_config`, `read_tree`.
    """
    named = {name: value for name, _, value in _options(program[1:])}
    place = stretch(program, literal_place(program[0]))
    path = named.get(_FILE)
    if path is not None:
        return Reading(ARGUMENTS_LAYER, place, files=(NamedFile("torchtitan", path),), framework="torchtitan")
    if any(name in named for name in _REGISTRY):
        files = (NamedFile(REGISTRY_ROLE, named[_REGISTRY[0]]),) if _REGISTRY[0] in named else ()
        told = () if files else without_config(program, "no module of configs is named").claims
        return Reading(ARGUMENTS_LAYER, place, told, files, framework="torchtitan")
    return read_config(None, program)._replace(place=place)


def function_of(program: Sequence[Word]) -> Word | None:
    """The config function that the command line names."""
    return next((value for name, _, value in _options(program[1:]) if name == _REGISTRY[1]), None)


def without_config(program: Sequence[Word], why: str) -> Reading:
    """What the command line says whose config could not be read."""
    return hiding(read_config(None, program), NAMES, why)


def looks_like_config(document: Document) -> bool:
    """Whether a file has a section of torchtitan's with a key that no other program has there."""
    sections = [found.node for name in _SECTIONS if (found := entry(document.root, name)) is not None]
    return any(entry(section, name) is not None for section in sections for name in _DEGREES)


def read_config(document: Document | None, program: Sequence[Word] = ()) -> Reading:
    """What a config claims with the overrides of the program's command line; `document` None: the overrides alone."""
    root = document.root if document is not None else None
    keys = keys_of(root, _given(program))
    place = root.span if root is not None else literal_place(program[0]) if program else None
    unknown = (*(misspelt(root) if root is not None else ()), *misspelt_options(_places(program)))
    claims = (*_claims(keys), *(_loss(keys) if root is not None else ()))
    return Reading(LAYER, place, claims, framework="torchtitan", collections=_unknown(unknown))


def _unknown(members: tuple[Member, ...]) -> Mapping[str, tuple[Member, ...]]:
    return {"config.unknown": members} if members else {}


def _places(program: Sequence[Word]) -> Iterator[tuple[str, Span]]:
    return ((name, literal_place(word_)) for name, word_, _ in _options(program[1:]))


def read_tree(root: Node, program: Sequence[Word], hidden: str = "") -> Reading:
    """The same of a config that code builds; `hidden` is why it may have other values too."""
    claims, unknown = tuple(_claims(keys_of(root, _given(program)))), tuple(misspelt_options(_places(program)))
    reading = Reading(LAYER, root.span, claims, framework="torchtitan", collections=_unknown(unknown))
    return hiding(reading, NAMES, hidden) if hidden else reading


def _given(program: Sequence[Word]) -> dict[str, tuple[str, Node]]:
    """The keys that a command line sets."""
    return {name: (flag_.shown.partition("=")[0], node_of(value)) for name, flag_, value in _options(program[1:])}


# The command line (tyro): `--section.name=value`, `--section.name value`, `--section.name`, `--section.no-name`


def _options(words: Sequence[Word]) -> Iterator[tuple[str, Word, Word]]:
    """Each option's name, its word, and its value."""
    for index, each in enumerate(words):
        name = _option(each)
        if not name:
            continue
        head, sign, _ = each.shown.partition("=")
        after = words[index + 1] if index + 1 < len(words) else None
        if sign:
            yield name, each, each.part(len(head) + 1)
        elif after is not None and not after.shown.startswith("--"):
            yield name, each, after
        else:
            yield _switch(name, each)


def _option(each: Word) -> str:
    """The name of an option with `_` for `-`, "" for another word."""
    head = each.shown.partition("=")[0]
    return head[2:].replace("-", "_") if head.startswith("--") else ""


def _switch(name: str, each: Word) -> tuple[str, Word, Word]:
    section, _, last = name.rpartition(".")
    off = last.startswith("no_")
    piece = each.pieces[0]._replace(text="false" if off else "true")
    return f"{section}.{last.removeprefix('no_')}", each, Word((piece,), each.place)


# What the keys say


def _claims(keys: Keys) -> Iterator[Claim]:
    for name in _COUNTS:
        yield from one(keys, NAMES[name], name, whole_number)
    yield from _data_parallel(keys)
    yield from batch_claims(keys)
    yield from _pipeline(keys)
    yield from _experts(keys)
    yield from _precision(keys)
    yield from worded(keys, NAMES["checkpointing.activations"], "checkpointing.activations", _MODES)
    yield from one(keys, NAMES["optimizer.name"], "optimizer.name", word)
    yield from one(keys, NAMES["optimizer.clip"], "optimizer.clip", number)
    yield from _timeout(keys)
    yield from _overlap(keys)
    yield from _model(keys)


def _timeout(keys: Keys) -> Iterator[Claim]:
    """A timeout that a user chose; that of torchtitan's own class holds behind the first step only."""
    for claim in one(keys, NAMES["launch.timeout_seconds"], "launch.timeout_seconds", number):
        if not isinstance(claim.value, Value) or claim.value.origin.kind != "default":
            yield claim


def _data_parallel(keys: Keys) -> Iterator[Claim]:
    """-1 shards over the ranks that are left; one rank to a shard group is plain data parallelism (v0.2.2
    distributed/parallel_dims.py).
    """
    shards, replicas = NAMES["sharding.group"], NAMES["sharding.instances"]
    shard_node, replica_node = keys.node(*shards), keys.node(*replicas)
    shard = -1 if shard_node is None else whole(whole_number(shard_node))
    replica = 1 if replica_node is None else whole(whole_number(replica_node))
    if shard is None or replica is None:
        return
    if shard > 0:
        yield from one(keys, (*shards, *replicas), "parallel.data", standing_for(shard * replica))
    if shard == 1 and degree(keys, "parallel.context") == 1:
        yield from one(keys, shards, "sharding.stage", standing_for(0))
    elif replica > 1:
        yield from one(keys, replicas, "sharding.instances", whole_number)
    for name in ("sharding.offload_optimizer", "sharding.offload_parameters"):
        yield from worded(keys, NAMES[name], name, {True: "cpu", False: "none"})
    yield from _reshard(keys)


def _reshard(keys: Keys) -> Iterator[Claim]:
    """ "default" depends on the pipeline, as an absent key does."""
    if keys.known(*NAMES["sharding.reshard_after_forward"]) != "default":
        words: Mapping[Plain, Plain] = {"always": True, "never": False}
        yield from worded(keys, NAMES["sharding.reshard_after_forward"], "sharding.reshard_after_forward", words)


def _pipeline(keys: Keys) -> Iterator[Claim]:
    """How the stages of a pipeline take turns."""
    if degree(keys, "parallel.pipeline") == 1:
        return
    yield from worded(keys, NAMES["schedule.kind"], "schedule.kind", _SCHEDULES)
    if str(keys.known(*NAMES["schedule.kind"])).lower() in _OF_TWO_CHUNKS:
        yield from one(keys, NAMES["schedule.kind"], "parallel.virtual_pipeline", _chunks(keys))


def _chunks(keys: Keys) -> Read:
    cut = ("pipeline_parallel_layers_per_stage", "pipeline_parallel_split_points", "module_fqns_per_model_part")
    written_ = [name for name in cut if keys.node(f"parallelism.{name}", f"experimental.{name}") is not None]

    def read(node: Node) -> Setting:
        return unread(node, f"{written_[0]} decides how many stages a rank has") if written_ else setting(node, 2)

    return read


def _experts(keys: Keys) -> Iterator[Claim]:
    for name in ("parallel.expert", "parallel.expert_tensor"):
        yield from one(keys, NAMES[name], name, whole_number)


def _precision(keys: Keys) -> Iterator[Claim]:
    """Converters to 8-bit matrix products count over the format of the mixed precision; `training.dtype` is that of
    weights, gradients and optimizer states.
    """
    converters = keys.node("model.converters")
    names = [str(item.value) for item in converters.items] if converters is not None else []
    eight = next((_eight_bit(name, keys) for name in names if _eight_bit(name, keys)), "")
    if keys.known(_OLD_EIGHT_BIT) is True:
        yield from worded(keys, (_OLD_EIGHT_BIT,), "precision.compute", {True: "fp8"})
    elif converters is not None and eight:
        yield Claim("precision.compute", written(eight, converters.span), keys.spelled.get("model.converters", ""))
    else:
        yield from one(keys, NAMES["precision.compute"], "precision.compute", format_name)
    yield from one(keys, NAMES["precision.reduce"], "precision.reduce", format_name)
    for name in ("precision.master", "precision.gradients", "optimizer.state_dtype"):
        yield from one(keys, NAMES["precision.master"], name, format_name)


def _eight_bit(converter: str, keys: Keys) -> str:
    if "float8" in converter and "grouped" not in converter:
        recipe = keys.known("quantize.linear.float8.recipe_name", "float8.recipe_name")
        return "fp8-rowwise" if str(recipe).startswith("rowwise") else "fp8"
    if converter == "quantize.linear.nvfp4":
        return "nvfp4"
    return "mxfp8" if converter in ("mx", "quantize.linear.mx") else ""


def _overlap(keys: Keys) -> Iterator[Claim]:
    """Asynchronous tensor parallelism works in compiled models only."""
    for claim in one(keys, NAMES["overlap.tensor"], "overlap.tensor", flag):
        compiled = keys.known("compile.enable", "training.compile")
        if known(claim.value) is not True or compiled is True:
            yield claim
        elif isinstance(claim.value, Value):
            yield claim._replace(value=claim.value._replace(value=False))


def _model(keys: Keys) -> Iterator[Claim]:
    """The model that a flavor stands for, where the catalog knows it; a flavor of a fork may be any."""
    from dtlint.catalog import model

    node = keys.node("model.flavor")
    if node is None:
        return
    family, flavor = keys.known("model.name"), keys.known("model.flavor")
    found = model(f"torchtitan-{family}-{flavor}")
    if found is not None:
        yield Claim("model.name", setting(node, found.name), keys.spelled.get("model.flavor", "model.flavor"))


def _loss(keys: Keys) -> Iterator[Claim]:
    """The cross entropy of torchtitan's own models, which goes over an fp32 copy of all logits and is compiled with the
    model (v0.1.0 train.py; v0.2.2 components/loss.py). Tensor-parallel ranks have another one.
    """
    compiled = keys.node("compile.enable", "training.compile")
    is_plain = compiled is None or known(flag(compiled)) is False
    own = keys.node(*_OWN_CODE) is not None
    if is_plain and not own and any(_model(keys)) and degree(keys, "parallel.tensor") == 1:
        yield Claim("model.plain_loss", default(True, "torchtitan"), "compile.enable")
