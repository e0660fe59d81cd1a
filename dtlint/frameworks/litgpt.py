"""litgpt's configs, and its commands that train by them (`litgpt finetune_lora --config x.yaml --train.max_steps 5`).

Lightning-AI/litgpt 2685705 litgpt/pretrain.py, litgpt/finetune, litgpt/args.py; Fabric starts the processes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise

from dtlint.frameworks import Claim, Member, NamedFile, Reading
from dtlint.frameworks.arguments import stretch, texts
from dtlint.frameworks.deepspeed.values import known, number, whole_number
from dtlint.frameworks.dotted_keys import Keys
from dtlint.frameworks.interpreter import program_name
from dtlint.frameworks.keys import ON, Meaning, claims_of, flag_words, hidden, keys_of, model_named, spelled
from dtlint.frameworks.lengths import at_most
from dtlint.frameworks.lightning.strategies import Strategy
from dtlint.frameworks.lightning.trainer import devices, launch_claims, precision_claims
from dtlint.languages.json_tree import Document, Node, entry, setting
from dtlint.languages.traced import Word, literal_word
from dtlint.value import Origin, Plain, Unknown, Value, default

LAYER = "litgpt"
ROLE = "litgpt"

_SECTION = "trainer"
_FABRIC = ("devices", "num_nodes", "precision")
_COMMANDS = ("pretrain", "finetune", "finetune_lora", "finetune_full", "finetune_adapter", "finetune_adapter_v2")
_METHODS = ("full", "lora", "adapter", "adapter_v2")
_OF_ADAPTERS = ("finetune", "finetune_lora")
_ENDINGS = (".yaml", ".yml")
_LORA_RANK = 8
_TABLE = {
    "train.global_batch_size": Meaning("batch.global"),
    "train.micro_batch_size": Meaning("batch.micro"),
    "train.max_norm": Meaning("optimizer.clip", number),
    "train.max_tokens": Meaning("run.tokens", number),
    "train.max_steps": Meaning("run.steps"),
    "train.tie_embeddings": Meaning("model.tied_embeddings", words=ON),
    "lora_r": Meaning("model.lora_rank"),
}
_SPELLED = {
    **_TABLE,
    "devices": Meaning("launch.processes_per_node"),
    "num_nodes": Meaning("launch.nodes"),
    "train.max_seq_length": Meaning("data.sequence_length"),
    "precision": Meaning("precision.compute", words={"bf16-mixed": "bf16", "16-mixed": "fp16", "32-true": "fp32"}),
}


def recognise(document: Document) -> bool:
    """Whether a file is a config of litgpt: its batches stand in `train`, beside a precision and a logger."""
    root = document.root
    train = entry(root, "train")
    if train is None or entry(root, "logger_name") is None or entry(root, "precision") is None:
        return False
    return {"global_batch_size", "micro_batch_size"} <= {each.key for each in train.node.entries}


def recognise_launch(words: Sequence[Word]) -> bool:
    """Whether a command is one of litgpt's that trains."""
    return len(words) > 1 and program_name(words[0]) == "litgpt" and words[1].text in _COMMANDS


def recognise_program(program: Sequence[Word]) -> bool:
    """The same for the words that start it."""
    return recognise_launch(program)


def read_launch(words: Sequence[Word], env: Mapping[str, Word]) -> Reading:
    """The command is its own program, whose processes Fabric starts."""
    return Reading("program", words[0].place, rest=tuple(words), frontend="litgpt")


def read_program(program: Sequence[Word]) -> Reading:
    """The config that the command names, else what its options say."""
    place = stretch(program[1:], program[0].place)
    named = [after for word, after in pairwise(program) if word.text == "--config" and after.shown.endswith(_ENDINGS)]
    if named:
        return Reading("program", place, files=(NamedFile(ROLE, named[-1]),), frontend="litgpt")
    return read_config((), program[1:])._replace(place=place)


def read_config(documents: Sequence[Document], words: Sequence[Word] = ()) -> Reading:
    """What a config, and options over it, claim; on one device no model is sharded."""
    roots = [document.root for document in documents]
    keys = keys_of(roots, (*_model_word(words), *flag_words(words)))
    place = next((root.span for root in roots if root is not None), words[0].place if words else None)
    fabric = Keys(
        {f"{_SECTION}.{name}": node for name in _FABRIC if (node := keys.node(name)) is not None},
        {f"{_SECTION}.{name}": keys.spelled.get(name, name) for name in _FABRIC},
    )
    framework = _framework(keys)
    kind = "single" if framework != "fsdp" else "model-parallel" if _has_adapters(keys, words) else "fsdp"
    named, models = model_named(keys, "checkpoint_dir" if keys.node("checkpoint_dir") is not None else "model_name")
    claims = (
        *launch_claims(fabric, _SECTION, place),
        *precision_claims(fabric, _SECTION, Strategy(kind, None, Keys({}), "")),
        *claims_of(keys, _TABLE),
        *_length(keys),
        *_optimizer(keys),
        *_quantized(keys),
        *_unasked(keys),
        *_adapters(keys, _command(words)),
        *(_sharding(keys, words) if framework == "fsdp" else ()),
        *named,
    )
    refused = _refused(keys) if framework == "fsdp" else {}
    opened = hidden(roots, words)
    return Reading(
        LAYER, place, claims, models, framework=framework, frontend="litgpt", open=opened, collections=refused
    )


def spell(setting_name: str, value: Plain, framework: str = "") -> str | None:
    """A setting as the file has it (`train.micro_batch_size: 2`)."""
    found = spelled(_SPELLED, setting_name, value)
    return None if found is None else ": ".join(found)


def _command(words: Sequence[Word]) -> str:
    """The command, by one name: releases before 0.4 have `finetune full` for finetune_full."""
    for index, word in enumerate(words):
        if word.text in _COMMANDS:
            after = words[index + 1].text if index + 1 < len(words) else None
            return f"finetune_{after}" if after in _METHODS else word.text or ""
    return ""


def _has_adapters(keys: Keys, words: Sequence[Word]) -> bool:
    """Whether adapters of low rank train, by their rank or by the command."""
    return keys.node("lora_r") is not None or _command(words) in _OF_ADAPTERS


def _model_word(words: Sequence[Word]) -> Iterator[Word]:
    """The model behind the command (`litgpt finetune_full checkpoints/meta-llama/Llama-2-13b-hf`), as the key that it
    stands for.
    """
    for word, after in pairwise(words):
        if word.text in _COMMANDS and not after.shown.startswith("-") and after.text not in _METHODS:
            head = literal_word("model_name=" if word.text == "pretrain" else "checkpoint_dir=", after.place)
            yield Word((*head.pieces, *after.pieces), after.place)
            return


def _adapters(keys: Keys, command: str) -> Iterator[Claim]:
    """What trains where a command trains a part of the model, and no rank is written."""
    if command.startswith("finetune_adapter"):
        yield Claim("model.lora_rank", Unknown("the adapter's parameters train alone", "--set model.lora_rank=N"))
    elif command in _OF_ADAPTERS and keys.node("lora_r") is None:
        yield Claim("model.lora_rank", default(_LORA_RANK, "litgpt"))


def _framework(keys: Keys) -> str:
    several, nodes = keys.node("devices"), keys.node("num_nodes")
    count = None if several is None else known(devices(several))
    machines = 1 if nodes is None else known(whole_number(nodes))
    return "pytorch" if count == 1 and machines == 1 else "fsdp"


def _sharding(keys: Keys, words: Sequence[Word]) -> Iterator[Claim]:
    """Pretraining shards inside a node; fine-tuning over all ranks, and recomputes each block."""
    command = _command(words)
    pretrains = command == "pretrain" or keys.node("initial_checkpoint_dir", "tokenizer_dir") is not None
    if pretrains or keys.node("model_name") is not None:
        why = Unknown("a hybrid strategy shards inside a node", "--set cluster.gpus_per_node=N", None)
        yield Claim("sharding.group", why._replace(means="cluster.gpus_per_node"), "")
        yield Claim("checkpointing.activations", default("none", "litgpt"), "")
    elif _has_adapters(keys, words) or command == "finetune_full":
        yield Claim("checkpointing.activations", default("full", "litgpt"), "")
    else:
        yield Claim("checkpointing.activations", Unknown("the command decides", "--set checkpointing.activations=..."))


def _length(keys: Keys) -> Iterator[Claim]:
    """It bounds the samples of fine-tuning; pretraining cuts its text into samples of that length."""
    node = keys.node("train.max_seq_length")
    if node is None:
        return
    value = whole_number(node)
    tuned = keys.node("checkpoint_dir") is not None
    yield Claim("data.sequence_length", at_most(value) if tuned else value, "train.max_seq_length")


def _optimizer(keys: Keys) -> Iterator[Claim]:
    node = keys.node("optimizer.class_path", "optimizer")
    told = None if node is None else setting(node)
    if isinstance(told, Value):
        yield Claim("optimizer.name", told._replace(value=str(told.value).rpartition(".")[2].lower()), "optimizer")


def _unasked(keys: Keys) -> Iterator[Claim]:
    """Without a precision the GPU decides."""
    if keys.node("precision") is None:
        why = Unknown("the GPU decides on the precision", "--set precision.compute=...")
        yield Claim("precision.compute", why, "precision")


def _refused(keys: Keys) -> dict[str, tuple[Member, ...]]:
    """Quantized weights are not shared out among GPUs (a member of `config.refused`)."""
    node, several = keys.node("quantize"), keys.node("devices")
    count = None if several is None else known(devices(several))
    if node is None or several is None or not isinstance(count, int) or count < 2:
        return {}
    reason = "litgpt quantizes on one GPU alone"
    words = texts(node.span, key="quantize", relation="excludes", partner=f"devices: {count}", reason=reason, since="")
    return {"config.refused": (Member(node.span, words, ((several.span, "several devices"),)),)}


_STORED: Mapping[str, Plain] = {"bnb.nf4": "nf4", "bnb.nf4-dq": "nf4", "bnb.int8-training": "int8"}


def _quantized(keys: Keys) -> Iterator[Claim]:
    node: Node | None = keys.node("quantize")
    if node is not None:
        stored = _STORED.get(str(node.value))
        why = Unknown("how the weights are stored is not known", "", Origin("written", node.span))
        yield Claim("precision.frozen", setting(node, stored) if stored else why, "quantize")
