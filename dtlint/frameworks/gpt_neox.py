"""GPT-NeoX: YAML files that make one config together, and `deepy.py`, which starts training by them.

EleutherAI/gpt-neox ea7aefd deepy.py and megatron/neox_arguments/. Keys of DeepSpeed's config stand among its own.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from dtlint.frameworks import Claim, NamedFile, Reading
from dtlint.frameworks.deepspeed import config as deepspeed
from dtlint.frameworks.deepspeed.values import flag, known, number, whole_number
from dtlint.frameworks.dotted_keys import Keys
from dtlint.frameworks.interpreter import program_name
from dtlint.frameworks.keys import ON, Meaning, claims_of, hidden, keys_of, spelled, word_of
from dtlint.frameworks.strange_keys import strange_keys
from dtlint.languages.json_tree import Document, Entry, Node, setting
from dtlint.languages.traced import Word, literal_word, setting_of
from dtlint.value import Origin, Plain, Unknown, Value, assumed, default

LAYER = "gpt-neox"
ROLE = "gpt_neox"

_TELLING = frozenset(("pipe_parallel_size", "model_parallel_size"))
_FOREIGN = frozenset(("tensor_model_parallel_size", "pipeline_model_parallel_size"))
"""Keys of Megatron's own configs."""
_SUFFIXES = (".yml", ".json")
_FOLDER_FLAGS = ("-d", "--conf_dir")
_VALUED_FLAGS = (
    "--wandb_group",
    "--wandb_team",
    "--wandb_run_name",
    "--eval_tasks",
    "-o",
    "-i",
    "-w",
    "-g",
    "-s",
    "-l",
)

_TABLE = {
    "sequence_parallel": Meaning("parallel.sequence", words=ON),
    "context_parallel_size": Meaning("parallel.context"),
    "moe_expert_parallel_size": Meaning("parallel.expert"),
    "moe_top_k": Meaning("model.experts_per_token"),
    "num_layers": Meaning("model.layers"),
    "hidden_size": Meaning("model.hidden"),
    "num_attention_heads": Meaning("model.heads"),
    "num_kv_heads": Meaning("model.kv_heads"),
    "intermediate_size": Meaning("model.ffn"),
    "max_position_embeddings": Meaning("model.max_positions"),
    "no_weight_tying": Meaning("model.tied_embeddings", words={"true": False, "false": True}),
    "seq_length": Meaning("data.sequence_length"),
    "checkpoint_activations": Meaning("checkpointing.activations", words={"true": "full", "false": "none"}),
    "checkpoint_num_layers": Meaning("checkpointing.unit"),
    "partition_activations": Meaning("checkpointing.partitioned", words=ON),
    "fp32_allreduce": Meaning("precision.reduce", words={"true": "fp32"}),
    "train_iters": Meaning("run.steps"),
    "exit_interval": Meaning("run.steps_per_launch"),
    "global_num_gpus": Meaning("launch.processes"),
}
_DEGREES = {
    "pipe_parallel_size": Meaning("parallel.pipeline"),
    "model_parallel_size": Meaning("parallel.tensor"),
}
_COUNTS = {"num_nodes": Meaning("launch.nodes"), "num_gpus": Meaning("launch.processes_per_node")}
_FORMATS: dict[str, Plain] = {"fp16": "fp16", "bfloat16": "bf16", "bf16": "bf16", "fp32": "fp32"}
_NAMES = ("fp16.type", "precision")
_SWITCHES = ("fp16.enabled", "bf16.enabled", "amp.enabled")
_DEEPSPEED = frozenset(
    (
        "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "optimizer", "fp16",
        "bf16", "amp", "gradient_clipping", "zero_optimization", "data_types", "communication_data_type",
    )
)  # fmt: skip
"""Keys that go on to DeepSpeed as they are."""
_STEPS = "gradient_accumulation_steps"
_BATCHES = ("train_batch_size", "train_micro_batch_size_per_gpu")
_SPELLED = {
    **_TABLE,
    **_DEGREES,
    **_COUNTS,
    "train_batch_size": Meaning("batch.global"),
    "train_micro_batch_size_per_gpu": Meaning("batch.micro"),
    "gradient_accumulation_steps": Meaning("batch.accumulation"),
    "gradient_clipping": Meaning("optimizer.clip", number),
    "precision": Meaning("precision.compute", words=_FORMATS),
    "zero_optimization.stage": Meaning("sharding.stage"),
    "zero_optimization.overlap_comm": Meaning("overlap.gradients", flag),
}


def recognise(document: Document) -> bool:
    """Whether a file is a config of GPT-NeoX that tells degrees or the model; others only make sense beside one."""
    root = document.root
    keys = {_name(entry.key) for entry in root.entries} if root is not None else set()
    return bool(keys & _TELLING) and not keys & _FOREIGN


def recognise_program(program: Sequence[Word]) -> bool:
    """Whether a program is GPT-NeoX's launcher with a program to start."""
    return len(program) > 2 and program_name(program[0]) == "deepy.py"


def read_program(program: Sequence[Word]) -> Reading:
    """What `deepy.py train.py [-d FOLDER] FILE...` says: DeepSpeed's launcher starts a process on each GPU."""
    launcher = setting_of(program[0], "deepspeed")
    each = Unknown("one process for each GPU of a node", "--set cluster.gpus_per_node=N", None, "cluster.gpus_per_node")
    alone = assumed(1, "no host file is named; /job/hostfile counts where it exists", "--set launch.nodes=N")
    claims = (
        Claim("launch.launcher", launcher, program[0].shown),
        Claim("launch.processes_per_node", each, program[0].shown),
        Claim("launch.nodes", alone, "num_nodes"),
    )
    role = "" if "train" in program_name(program[1]) else "other"
    files = tuple(NamedFile(ROLE, word) for word in _files(program[2:]))
    return Reading(LAYER, program[0].place, claims, files, framework="gpt-neox", role=role)


def read_config(documents: Sequence[Document], words: Sequence[Word] = ()) -> Reading:
    """What files claim together. Of DeepSpeed's keys in them nothing else is said: the fork that GPT-NeoX brings has
    keys of its own.
    """
    roots = [document.root for document in documents]
    keys = keys_of(roots, (), _name)
    place = next((document.root.span for document in documents if document.root is not None), None)
    claims = (
        *(_handed_on(keys, documents) if place is not None else ()),
        *claims_of(keys, _TABLE),
        *_degrees(keys),
        *_hosts(keys),
        *(claim for claim in claims_of(keys, _COUNTS) if not _is_left_open(claim)),
        *_precision(keys),
        *_model(keys),
        *_attention(keys),
        *_steps(keys),
    )
    strange = tuple(strange_keys(documents, "gpt-neox", "refused", _name))
    return Reading(
        LAYER,
        place,
        claims,
        tuple(_hostfile(keys)),
        framework="gpt-neox",
        open=hidden(roots),
        collections={"config.unknown": strange} if strange else {},
    )


def spell(setting_name: str, value: Plain, framework: str = "") -> str | None:
    """A setting as the file has it (`"pipe_parallel_size": 4`)."""
    found = spelled(_SPELLED, setting_name, value)
    return None if found is None else f'"{found[0]}": {_quoted(found[1])}'


def _quoted(text: str) -> str:
    return f'"{text}"' if text[0].isalpha() and text not in ON else text


def _name(key: str) -> str:
    return key.replace("-", "_")


def _files(words: Sequence[Word]) -> Iterator[Word]:
    """The configs on deepy.py's command line, each with its folder; the suffix may be left off."""
    folder: Word | None = None
    named: list[Word] = []
    before = ""
    for word in words:
        if before in _FOLDER_FLAGS:
            folder = word
        elif not word.shown.startswith("-") and before not in _VALUED_FLAGS:
            named.append(word)
        before = word.shown
    yield from (_in_folder(folder, word) for word in named)


def _in_folder(folder: Word | None, word: Word) -> Word:
    end = "" if word.shown.endswith(_SUFFIXES) else _SUFFIXES[0]
    tail = (*word.pieces, *(literal_word(end, word.place).pieces if end else ()))
    if folder is None or word.shown.startswith("/"):
        return Word(tail, word.place)
    slash = () if folder.shown.endswith("/") else literal_word("/", folder.place).pieces
    return Word((*folder.pieces, *slash, *tail), word.place)


def _handed_on(keys: Keys, documents: Sequence[Document]) -> Iterator[Claim]:
    """What DeepSpeed's keys claim, as it would read them from a config of its own."""
    entries = [Entry(name, node.span, node) for name, node in keys.nodes.items() if name in _DEEPSPEED]
    first = documents[0]
    span = first.source.span(0, 0) if first.root is None else first.root.span
    root = Node("object", None, span, tuple(entries))
    found = deepspeed.read_config(Document(first.source, root)).claims
    yield from (claim for claim in found if not _leaves_format_open(claim))


def _leaves_format_open(claim: Claim) -> bool:
    """Whether DeepSpeed takes the format of the program's weights; GPT-NeoX has them in fp32 then."""
    value = claim.value
    return claim.setting == "precision.compute" and isinstance(value, Value) and value.origin.kind == "assumed"


def _degrees(keys: Keys) -> Iterator[Claim]:
    """No pipeline is written as 0 stages, which builds none; one of 1 stage is a pipeline."""
    for path, meaning in _DEGREES.items():
        node = keys.node(path)
        value = None if node is None else whole_number(node)
        if node is None or value is None:
            continue
        count = known(value)
        yield Claim(meaning.setting, setting(node, 1) if count == 0 else value, path)
        if path == "pipe_parallel_size" and isinstance(count, int):
            yield Claim("parallel.pipeline_engine", setting(node, count >= 1), path)


def _steps(keys: Keys) -> Iterator[Claim]:
    """One micro-batch to a step where none are told: what else is written has to make that up (NeoXArgs has 1 for
    gradient_accumulation_steps before it derives a batch).
    """
    if any(keys.node(name) is not None for name in _BATCHES) and keys.node(_STEPS) is None:
        yield Claim("batch.accumulation", default(1, "GPT-NeoX"), _STEPS)


def _is_left_open(claim: Claim) -> bool:
    """Whether a count is written as all there are (-1, or 0)."""
    value = claim.value
    return isinstance(value, Value) and isinstance(value.value, int) and value.value < 1


def _precision(keys: Keys) -> Iterator[Claim]:
    """The key `precision`, or the type that the section of fp16 names, decide over what is switched on; where nothing
    is, GPT-NeoX trains in fp32.
    """
    told = [(path, node) for path, node in _written(keys, _NAMES) if str(node.value) in _FORMATS]
    for path, node in told:
        yield Claim("precision.compute", setting(node, _FORMATS[str(node.value)]), path)
    switches = list(_written(keys, _SWITCHES))
    if switches and not told and all(known(flag(node)) is False for _, node in switches):
        path, node = switches[-1]
        yield Claim("precision.compute", Value("fp32", Origin("default", node.span, note="GPT-NeoX")), path)


def _written(keys: Keys, paths: Sequence[str]) -> Iterator[tuple[str, Node]]:
    return ((path, node) for path in paths if (node := keys.node(path)) is not None)


def _model(keys: Keys) -> Iterator[Claim]:
    """Experts, 1 of which is none, and the gate, which makes the feed-forward layer narrower unless its width is
    written.
    """
    experts = keys.node("moe_num_experts")
    if experts is not None:
        count = whole_number(experts)
        yield Claim("model.experts", setting(experts, 0) if known(count) == 1 else count, "moe_num_experts")
    gate = next((node for path, node in _gates(keys)), None)
    yield Claim("model.gated_mlp", setting(gate, True) if gate is not None else _no_gate(), "activation")
    if gate is not None and keys.node("intermediate_size") is None:
        why = "the width of a feed-forward layer with a gate depends on GPT-NeoX's version"
        yield Claim("model.ffn", Unknown(why, "--set model.ffn=N", Origin("written", gate.span)), "intermediate_size")


def _gates(keys: Keys) -> Iterator[tuple[str, Node]]:
    for path, words in (("activation", ("swiglu", "geglu", "reglu")), ("mlp_type", ("llama", "swiglu"))):
        node = keys.node(path)
        if node is not None and node.value in words:
            yield path, node


def _no_gate() -> Value:
    return Value(False, Origin("default", note="GPT-NeoX"))


def _attention(keys: Keys) -> Iterator[Claim]:
    """Kinds of attention, each with the layers that have it (`[[["flash"], 12]]`)."""
    node = keys.node("attention_config")
    kinds = set() if node is None else set(_kinds(node))
    if node is not None and kinds in ({"flash"}, {"global"}):
        place = node.span
        flash = Value(kinds == {"flash"}, Origin("written", place))
        yield Claim("attention.flash", flash, "attention_config")


def _kinds(node: Node) -> Iterator[str]:
    for item in node.items:
        yield from (str(item.value),) if item.kind == "string" else _kinds(item)


def _hosts(keys: Keys) -> Iterator[Claim]:
    """Every machine of the host file takes part, unless a count says otherwise."""
    for file in _hostfile(keys):
        origin = Origin("written", file.path.place)
        every = Unknown("the machines of the host file", "--set cluster.nodes=N", origin, "cluster.nodes")
        yield Claim("launch.nodes", every, "hostfile")


def _hostfile(keys: Keys) -> Iterator[NamedFile]:
    node = keys.node("hostfile")
    if node is not None and node.value != "None":
        yield NamedFile("hostfile", word_of(node))
