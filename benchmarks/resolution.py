"""How many of the arguments that decide on parallelism, as Python training code writes them, dtlint resolves.

    python benchmarks/resolution.py FOLDER... [--examples 3] [--sample 60] [--seed 0]

An argument is resolved if it is one value, a choice between a few that conditions tell apart, a setting of the cluster
(the world size), or an object whose parts are known. The functions and arguments that count stand in DECIDING. A call
is read in the programs of the scripts that lead to its file; where they leave it open, in those of the files that
import it, and last in that of its own file. Tests are left out. Prints
the share per folder and per function, the reasons of the rest with examples, and the time for each candidate file: one
that holds a word of `dtlint.languages.python.MARKERS`; nothing else is parsed. `--sample` lists resolved arguments at
random, for a reader of the code to judge.
"""

from __future__ import annotations

import argparse
import ast
import random
import re
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path

from dtlint.frameworks.pytorch.mesh_slices import mesh_names
from dtlint.languages.python import follow, imported_modules, marker, read_module
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.calls import Call, calls
from dtlint.languages.python.choices import LEFT_OUT
from dtlint.languages.python.constants import evaluate, live_ways, merged
from dtlint.languages.python.dicts import Passed, unpacked_dict
from dtlint.languages.python.following import ways
from dtlint.languages.python.grown import grown_items
from dtlint.languages.python.handed_on import FILLED
from dtlint.languages.python.imported import absolute
from dtlint.languages.python.names import qualified
from dtlint.languages.python.places import Place
from dtlint.languages.python.program import Program, definition
from dtlint.record import NamedTuple
from dtlint.runs.listing import walk
from dtlint.runs.programs import config_finder, module_finder
from dtlint.runs.tree import Tree
from dtlint.source import Unreadable
from dtlint.value import Choice, Setting, Unknown, Value

MOST_PROGRAMS = 4
"""Most programs in which one unresolved argument is looked at."""
_MOST_NESTING = 4
UNTOLD = "several values reach it, and no condition tells them apart"
_TESTS = re.compile(r"(^|/)([^/]*_?tests?|testing|test_utils|test_[^/]*\.py|[^/]*_test\.py|conftest\.py)(/|$)")

_FSDP1 = (
    "process_group sharding_strategy cpu_offload auto_wrap_policy backward_prefetch mixed_precision forward_prefetch "
    "limit_all_gathers use_orig_params device_mesh sync_module_states"
)
_FSDP2 = "mesh reshard_after_forward shard_placement_fn mp_policy offload_policy"
_DDP = (
    "broadcast_buffers process_group bucket_cap_mb find_unused_parameters gradient_as_bucket_view static_graph "
    "device_mesh mixed_precision"
)
_TRAINER = (
    "per_device_train_batch_size gradient_accumulation_steps bf16 fp16 tf32 fsdp fsdp_config deepspeed "
    "gradient_checkpointing gradient_checkpointing_kwargs ddp_find_unused_parameters ddp_bucket_cap_mb ddp_timeout "
    "ddp_backend optim max_grad_norm parallelism_config accelerator_config"
)
_LIGHTNING = "accelerator devices num_nodes strategy precision accumulate_grad_batches gradient_clip_val sync_batchnorm"
DECIDING: Mapping[str, str] = {
    "torch:FullyShardedDataParallel": _FSDP1,
    "torch:fully_shard": _FSDP2,
    "torch:DistributedDataParallel": _DDP,
    "torch:init_device_mesh": "device_type mesh_shape mesh_dim_names",
    "torch:DeviceMesh": "device_type mesh mesh_dim_names",
    "torch:MixedPrecision": "param_dtype reduce_dtype buffer_dtype keep_low_precision_grads cast_forward_inputs",
    "torch:MixedPrecisionPolicy": "param_dtype reduce_dtype output_dtype cast_forward_inputs",
    "torch:CPUOffload": "offload_params",
    "torch:CPUOffloadPolicy": "pin_memory",
    "torch:parallelize_module": "device_mesh parallelize_plan",
    "torch:checkpoint_wrapper": "checkpoint_impl checkpoint_fn",
    "torch:apply_activation_checkpointing": "checkpoint_wrapper_fn check_fn auto_wrap_policy",
    "transformers:TrainingArguments": _TRAINER,
    "transformers:Seq2SeqTrainingArguments": _TRAINER,
    "trl:SFTConfig": _TRAINER,
    "trl:DPOConfig": _TRAINER,
    "trl:GRPOConfig": _TRAINER,
    "accelerate:Accelerator": (
        "mixed_precision gradient_accumulation_steps fsdp_plugin deepspeed_plugin megatron_lm_plugin "
        "parallelism_config kwargs_handlers gradient_accumulation_plugin dataloader_config"
    ),
    "accelerate:FullyShardedDataParallelPlugin": (
        f"{_FSDP1} {_FSDP2} fsdp_version mixed_precision_policy activation_checkpointing state_dict_type"
    ),
    "accelerate:DeepSpeedPlugin": (
        "hf_ds_config gradient_accumulation_steps gradient_clipping zero_stage offload_optimizer_device "
        "offload_param_device zero3_init_flag"
    ),
    "accelerate:DistributedDataParallelKwargs": _DDP,
    "deepspeed:initialize": "config config_params",
    "lightning:Trainer": _LIGHTNING,
    "lightning:Fabric": _LIGHTNING,
    "lightning:FSDPStrategy": f"{_FSDP1} activation_checkpointing_policy state_dict_type",
    "lightning:DDPStrategy": _DDP,
    "lightning:DeepSpeedStrategy": "stage offload_optimizer offload_parameters config",
}
"""Of each function, after the package that it is imported from, the arguments that decide on the plan."""

_MESHES = ("mesh", "device_mesh")
_SLICE = "mesh["
_FILLED = "the front end's "
"""How a mesh that is told by name, and a setting that a front end fills, are put in words."""
_WORDS = tuple({name.partition(":")[2].encode() for name in DECIDING})
_PACKAGES = {"pytorch_lightning": "lightning"}
_POSITIONS: Mapping[str, tuple[str, ...]] = {
    "torch:FullyShardedDataParallel": ("module", "process_group", "sharding_strategy", "cpu_offload"),
    "torch:fully_shard": ("module",),
    "torch:DistributedDataParallel": ("module", "device_ids", "output_device", "dim", "broadcast_buffers"),
    "torch:init_device_mesh": ("device_type", "mesh_shape"),
    "torch:DeviceMesh": ("device_type", "mesh"),
    "torch:MixedPrecision": ("param_dtype", "reduce_dtype", "buffer_dtype"),
    "torch:MixedPrecisionPolicy": ("param_dtype", "reduce_dtype", "output_dtype"),
    "torch:CPUOffload": ("offload_params",),
    "torch:CPUOffloadPolicy": ("pin_memory",),
    "torch:parallelize_module": ("module", "device_mesh", "parallelize_plan"),
    "torch:checkpoint_wrapper": ("module", "checkpoint_impl", "checkpoint_fn"),
    "torch:apply_activation_checkpointing": ("model", "checkpoint_wrapper_fn", "check_fn", "auto_wrap_policy"),
}
"""The parameters that may be passed by position."""


Key = tuple[str, int, int, str]


class Judged(NamedTuple):
    """One argument: where it stands, and its value as a reader of reports would see it, or why it has none."""

    place: str
    function: str
    name: str
    text: str
    value: str
    reason: str

    @property
    def is_plain(self) -> bool:
        """Whether it is resolved without what a front end fills and without meshes that are told by name."""
        return not self.reason and _FILLED not in self.value and not self.value.startswith(_SLICE)


def main() -> int:
    """Measure the folders given and print the tables."""
    options = _options()
    judged: list[Judged] = []
    files, seconds = 0, 0.0
    for folder in options.folders:
        started = time.process_time()
        found, count = measure(folder)
        seconds, files = seconds + time.process_time() - started, files + count
        judged.extend(found)
        resolved = sum(not item.reason for item in found)
        print(f"{folder.name:44} {resolved:4} of {len(found):4}  {count:4} candidates", flush=True)
    _print_functions(judged)
    _print_reasons(judged, options.examples)
    _print_sample(judged, options.sample, options.seed)
    resolved = sum(not item.reason for item in judged)
    print(f"\nresolved {resolved} of {len(judged)} ({resolved / max(1, len(judged)):.1%})")
    plain = sum(item.is_plain for item in judged)
    filled = sum(_FILLED in item.value for item in judged)
    print(f"{plain} ({plain / max(1, len(judged)):.1%}) without {filled} that a front end fills", end=" ")
    print(f"and {resolved - plain - filled} meshes that are told by name")
    print(f"{files} candidate files, {seconds / max(1, files) * 1000:.1f} ms of processor time each, all in")
    return 0


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=Path)
    parser.add_argument("--examples", type=int, default=3)
    parser.add_argument("--sample", type=int, default=0)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def measure(folder: Path) -> tuple[list[Judged], int]:
    """The arguments of a checkout judged, and how many candidate files it has."""
    tree = Tree(folder.resolve(), folder.resolve())
    files = list(candidates(folder.resolve()))
    found: dict[Key, Judged] = {}
    looked: Counter[Key] = Counter()
    scripts = [file for file in files if b"__main__" in file.read_bytes()]
    seen = _judge_all(scripts, tree, found, looked)
    left = [file for file in files if tree.shown(file) in _open_paths(found) or _is_unseen(file, tree, seen)]
    importers = _importers(files, tree) if left else {}
    for file in left:
        _judge_all([*importers.get(file, ())[:MOST_PROGRAMS], file], tree, found, looked)
    return [item._replace(place=f"{folder.name}/{item.place}") for _, item in sorted(found.items())], len(files)


def _judge_all(entries: Iterable[Path], tree: Tree, found: dict[Key, Judged], looked: Counter[Key]) -> set[str]:
    """Judge what is not resolved yet in the programs of some files; the paths of their modules."""
    seen = set[str]()
    for entry in entries:
        for program in _program(entry, tree, seen):
            for key, judge in _arguments(program):
                if looked[key] < MOST_PROGRAMS and (key not in found or found[key].reason):
                    looked[key] += 1
                    found[key] = judge()
    return seen


def _open_paths(found: Mapping[Key, Judged]) -> set[str]:
    return {key[0] for key, item in found.items() if item.reason}


def _is_unseen(file: Path, tree: Tree, seen: set[str]) -> bool:
    """Whether no script leads to a file that calls something of DECIDING."""
    return tree.shown(file) not in seen and any(word in file.read_bytes() for word in _WORDS)


def candidates(folder: Path) -> Iterator[Path]:
    """The Python files that hold a marker, tests left out."""
    for file in walk(folder, folder):
        named = file.suffix == ".py" and not _TESTS.search(file.relative_to(folder).as_posix())
        if named and marker(file.read_bytes()):
            yield file


def _importers(files: Iterable[Path], tree: Tree) -> dict[Path, list[Path]]:
    """Which of the files import each file."""
    found: dict[Path, list[Path]] = defaultdict(list)
    for file in files:
        try:
            source = tree.source(file)
        except Unreadable:
            continue
        find = module_finder(source, tree)
        package = ".".join(file.relative_to(tree.root).parts[:-1])
        for name in imported_modules(read_module(source)):
            target = find(absolute(package, name))
            if target is not None and target.file is not None and target.file != file:
                found[target.file].append(file)
    return found


def _program(file: Path, tree: Tree, seen: set[str]) -> Iterator[Program]:
    try:
        source = tree.source(file)
    except Unreadable:
        return
    program = follow(source, module_finder(source, tree), config_finder(source, tree))
    seen.update(module.source.path for module in program.modules.values())
    yield program


def _arguments(program: Program) -> Iterator[tuple[Key, Callable[[], Judged]]]:
    for call, function in _deciding_calls(program):
        deciding = DECIDING[function].split()
        for name, given in _given(call, function).items():
            if name in deciding:
                yield _key(call, name), partial(_judge, call, function, name, given)
        if call.open:
            yield _key(call, "**"), partial(_judge, call, function, "**", ())


def _deciding_calls(program: Program) -> Iterator[tuple[Call, str]]:
    short = {name.partition(":")[2] for name in DECIDING}
    names = {
        name
        for module in program.modules.values()
        for word in short
        for site in module.called.get(word, ())
        if isinstance(site.node, ast.Call)
        for name in qualified(module, site.node.func, site.scope)
    }
    known = {name: function for name in names if (function := _function(name))}
    for call in calls(program, known):
        yield call, known[call.name]


def _function(name: str) -> str:
    package, last = name.partition(".")[0], name.rpartition(".")[2]
    key = f"{_PACKAGES.get(package, package)}:{last}"
    return key if key in DECIDING else ""


def _given(call: Call, function: str) -> dict[str, tuple[Passed, ...]]:
    by_position = dict(zip(_POSITIONS.get(function, ()), ((item,) for item in call.positional), strict=False))
    return {**by_position, **call.keywords}


def _key(call: Call, name: str) -> Key:
    span = call.span
    return span.source.path, span.start, span.end, name


def _judge(call: Call, function: str, name: str, given: tuple[Passed, ...]) -> Judged:
    place = f"{call.span.source.path}:{call.span.line}"
    if not given:
        return Judged(place, function, name, call.open, "", f"passed by {_kind(call.open)}")
    text = " | ".join(item.place.module.text(item.place.node, 60) for item in given)
    value, reason = told(merged(call.place, given), [item.place for item in given])
    if reason and name in _MESHES:
        value, reason = _mesh([item.place for item in given], reason)
    return Judged(place, function, name, text, value, reason)


def _mesh(places: list[Place], reason: str) -> tuple[str, str]:
    """The dimensions of a mesh, where the code tells them by name, in words and ""; else "" and the reason."""
    found = [mesh_names(place) for place in places]
    if not all(found):
        return "", reason
    words = dict.fromkeys(_words(name) for names in found for name in names or ())
    return " / ".join(f"{_SLICE}{word}]" for word in words), ""


def told(value: Setting, places: list[Place], depth: int = 0) -> tuple[str, str]:
    """A setting in words and "", or "" and the reason why it is not resolved."""
    unknown = _reason(value)
    if not unknown:
        return _words(value), ""
    if unknown == UNTOLD and all(isinstance(item, Value) for item in _ends(places)):
        return "", unknown
    parts = [_object(place, depth) for place in places]
    failed = next((reason for _, reason in parts if reason), "")
    return ("", failed or unknown) if failed or not parts else (" | ".join(words for words, _ in parts), "")


def _ends(places: list[Place]) -> list[Setting]:
    """The values in which the ways from some places end."""
    ends = (way.end for place in places for way, _ in live_ways(place))
    return [end if isinstance(end, Unknown) else evaluate(end) for end in ends]


def _reason(value: Setting) -> str:
    found = [option.value for option in value.options] if isinstance(value, Choice) else [value]
    open_ones = [item for item in found if isinstance(item, Unknown) and not item.means and item.reason != LEFT_OUT]
    return open_ones[0].reason if open_ones else ""


def _words(value: Setting) -> str:
    if isinstance(value, Choice):
        return " / ".join(f"{option.guard}: {_words(option.value)}" for option in value.options)
    if isinstance(value, Unknown):
        filled = value.means and value.reason.endswith(FILLED)
        return f"{_FILLED}{value.means}" if filled else value.means or value.reason
    return f"{value.value!r}" + (" (assumed)" if value.origin.kind == "assumed" else "")


def _object(place: Place, depth: int) -> tuple[str, str]:
    """What an expression stands for in each way that is open: a value, or an object with known parts."""
    words = []
    if any(isinstance(way.end, Place) and isinstance(way.end.node, ast.Dict) for way, _ in live_ways(place)):
        return _dict(place, depth)
    for way, _ in live_ways(place):
        if isinstance(way.end, Unknown):
            return "", way.end.reason
        text, reason = _built(way.end, depth)
        if reason:
            return "", reason
        words.append(text)
    return " / ".join(words), ""


def _dict(place: Place, depth: int) -> tuple[str, str]:
    """A dict with what statements do to it."""
    items = unpacked_dict(place)
    if items is None:
        return "", "a dict that is not written out as a whole"
    found = {
        name: told(merged(place, given), [item.place for item in given], depth + 1) for name, given in items.items()
    }
    failed = next((reason for _, reason in found.values() if reason), "")
    return ("", failed) if failed else (str({name: text for name, (text, _) in found.items()}), "")


def _built(place: Place, depth: int) -> tuple[str, str]:
    node = place.node
    value = evaluate(place)
    unknown = _reason(value)
    if not unknown:
        return _words(value), ""
    parts = _parts(place, node) if depth < _MOST_NESTING else None
    if parts is None:
        return "", unknown
    found = [told(evaluate(part), [part], depth + 1) for part in parts]
    failed = next((reason for _, reason in found if reason), "")
    return ("", failed) if failed else (f"{_head(place)}({', '.join(text for text, _ in found)})", "")


def _parts(place: Place, node: ast.AST) -> list[Place] | None:
    """The parts of an object that is written out, those left off that are counted themselves; None for what is no
    object.
    """
    if isinstance(node, ast.Lambda):
        return []
    if isinstance(node, ast.Dict):
        return [place.inner(item) for item in node.values]
    if isinstance(node, ast.List | ast.Set) or _is_empty_set(node):
        items = grown_items(place)
        return None if items is None else [item.place for item in items]
    if isinstance(node, ast.Tuple | ast.BoolOp):
        return [place.inner(item) for item in (node.values if isinstance(node, ast.BoolOp) else node.elts)]
    if isinstance(node, ast.Name | ast.Attribute):
        names = qualified(place.module, node, place.scope)
        return [] if len(names) == 1 and (_of_program(place, names[0]) or _is_imported(names[0])) else None
    if isinstance(node, ast.Subscript):
        return [place.inner(node.slice)] if _is_mesh(place.inner(node.value)) else None
    if isinstance(node, ast.Call) and _is_counted(place, node):
        return []
    if isinstance(node, ast.Call) and _builds(place, node):
        return [place.inner(item) for item in (*node.args, *(keyword.value for keyword in node.keywords))]
    return None


def _is_empty_set(node: ast.AST) -> bool:
    return isinstance(node, ast.Call) and dotted(node.func) == "set" and not node.args


def _is_counted(place: Place, node: ast.Call) -> bool:
    names = qualified(place.module, node.func, place.scope)
    return len(names) == 1 and bool(_function(names[0]))


def _is_mesh(place: Place) -> bool:
    """Whether an expression is a mesh that the program builds, or a part of one."""
    ends = [way.end for way in ways(place)]
    return bool(ends) and all(isinstance(end, Place) and _is_mesh_end(end) for end in ends)


def _is_mesh_end(end: Place) -> bool:
    if isinstance(end.node, ast.Subscript):
        return _is_mesh(end.inner(end.node.value))
    names = qualified(end.module, end.node.func, end.scope) if isinstance(end.node, ast.Call) else ()
    return len(names) == 1 and _function(names[0]) in ("torch:init_device_mesh", "torch:DeviceMesh")


def _of_program(place: Place, name: str) -> bool:
    return definition(place.program, place.module, name) is not None


def _is_imported(name: str) -> bool:
    return "." in name and not name.startswith("<")


def _builds(place: Place, node: ast.Call) -> bool:
    """Whether a call builds an object: a class by its name, a partial, a set, a mesh."""
    names = qualified(place.module, node.func, place.scope)
    last = names[0].rpartition(".")[2] if len(names) == 1 else ""
    return last[:1].isupper() or last in ("partial", "set", "timedelta", "dict", "new_group", "device")


def _head(place: Place) -> str:
    node = place.node
    return place.module.text(node.func if isinstance(node, ast.Call) else node, 40)


def _kind(reason: str) -> str:
    """A reason without the names in it."""
    reason = re.sub(
        r"^\S+ (is not given|takes several|is changed|is an argument|may stand|is not passed)", r"X \1", reason
    )
    reason = re.sub(r"^.* (is computed when|is looked up when)", r"X \1", reason)
    reason = re.sub(r"variable \S+ is", "variable X is", reason)
    return re.sub(r"\*\*.*", "**X", re.sub(r"no item .* is", "no item X is", reason))


def _print_functions(judged: list[Judged]) -> None:
    print("\nBy function")
    totals = Counter(item.function for item in judged)
    for function, total in totals.most_common():
        resolved = sum(item.function == function and not item.reason for item in judged)
        print(f"{function:44} {resolved:4} of {total:4} ({resolved / total:.0%})")


def _print_reasons(judged: list[Judged], examples: int) -> None:
    print("\nNot resolved")
    kinds: dict[str, list[Judged]] = defaultdict(list)
    for item in judged:
        if item.reason:
            kinds[_kind(item.reason)].append(item)
    for kind, items in sorted(kinds.items(), key=lambda pair: -len(pair[1])):
        print(f"{len(items):4}  {kind}")
        for item in random.Random(0).sample(items, min(examples, len(items))):
            print(f"        {item.place} {item.function} {item.name}={item.text}  [{item.reason}]")


def _print_sample(judged: list[Judged], size: int, seed: int) -> None:
    resolved = [item for item in judged if not item.reason]
    for item in random.Random(seed).sample(resolved, min(size, len(resolved))):
        print(f"\n{item.place} {item.function} {item.name}={item.text}\n    {item.value}")


if __name__ == "__main__":
    sys.exit(main())
