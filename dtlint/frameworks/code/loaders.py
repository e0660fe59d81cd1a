"""Finds loaders that give every rank the same samples, or deal them to ranks that need the same: `code.loaders`."""

from __future__ import annotations

import ast
import re
from collections.abc import Collection, Iterator, Mapping

from dtlint.frameworks import Member
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.code.cut_datasets import is_cut_by_rank
from dtlint.frameworks.code.lone_runs import is_for_one_rank
from dtlint.frameworks.code.loss_factors import AVERAGING
from dtlint.frameworks.code.mentions import holds_rank, mentions, passes, picked_by_rank, turned_over
from dtlint.frameworks.code.objects import kinds
from dtlint.frameworks.code.samplers import SAMPLERS, is_for_evaluation, is_left_to_front_end
from dtlint.languages.python.bindings import dotted, enclosing_class
from dtlint.languages.python.calls import Call, argument, called, calls, passed
from dtlint.languages.python.following import ways
from dtlint.languages.python.names import qualified
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Program, definition
from dtlint.languages.python.reach import enclosing_function, standing, stands
from dtlint.languages.python.tree import Scope
from dtlint.value import Unknown, Value

LOADERS = ("torch.utils.data.DataLoader", "torch.utils.data.dataloader.DataLoader")
_TRAIN_LOADER = "get_train_dataloader"
_SEEDS = ("manual_seed", "seed_everything", "set_seed", "seed_all", "manual_seed_all")
_LOCAL_SAMPLERS = tuple(
    f"torch.utils.data.{module}{name}" for module in ("", "sampler.") for name in ("RandomSampler", "SequentialSampler")
)
"""Samplers that know of no ranks: each goes through the whole data set."""
_BY_HAND = (
    r"(?<!\bRandom)(?<!\bSequential)Sampler"
    r"|sampler\s*=(?!\s*([\w.]{1,40}\.)?(Random|Sequential)Sampler\(|\s*(self\.)?\w{0,40}sampler\b(?!\s*[.(\[]))"
    r"|[Rr]ank\s*::|num_shards|num_replicas|\.shard\(|split_by_(node|rank)|split_dataset_by_node|IterableDataset"
    r"|webdataset|\bwds\b|datapipes|ffcv|dali|StreamingDataset|PipelineModule|init_device_mesh"
    r"|(tensor|pipeline|context|sequence)_parallel"
    r"|initialize_model_parallel|\bmpu\b|training_data\s*=|deepspeed_io|rank\s*\*|\*\s*(self\.|args\.)?(local_|global_)?rank\b"
)
_DEALT = re.compile(_BY_HAND + r"|\.prepare\(|prepare_data_?loader")
"""Words of programs that may deal their samples to the ranks themselves, or must not."""
_DEALT_BESIDE = re.compile(
    _BY_HAND + r"|split_between_processes|device_specific|process_index\s*(::|\*|\+)|prepare_data_?loader"
)
"""The same for programs that have an Accelerator or Fabric, which deals the loaders that it is given."""
_DEALERS: Mapping[frozenset[str], str] = {
    frozenset(("accelerator",)): "prepare",
    frozenset(("fabric",)): "setup_dataloaders",
}
"""What wraps models and deals the samples of the loaders that it is given, and the method that is given them."""
_GIVEN = ("prepare", "setup", "setup_module", "setup_dataloaders")
_LEVELS = 3
"""How many names a data set is followed through, to the rank that picks its part."""
_MAPS = re.compile(r"torchvision\.datasets\.(?!FakeData)\w+")
"""Datasets of libraries that are read by index."""
_DRAWN = re.compile(
    r"\brandn?\(|randint|random_\(|np\.random\.(rand|normal|uniform|choice)|random\.(random|gauss|uniform|randrange)\("
    r"|random\.choices?\(|Synthetic|Random\w{0,60}Dataset"
)
"""Words of code that makes samples up, other ones on each rank."""


def loaders(program: Program) -> tuple[Member, ...]:
    """The collection `code.loaders`: `kind` of each training loader that deals wrongly, or may.

    "same": every rank certainly reads the same batches; "all": every rank reads all samples, in an order of its own;
    "left out", "left out, same": so with an Accelerator or Fabric that wraps the model and is not given the loader,
    which is for `dealer`;
    "world": a DistributedSampler that deals to all ranks there are, which is wrong under model parallelism.
    """
    return (*_undealt(program), *_unprepared(program), *_left_out(program), *_dealt_to_all(program))


def _dealt_to_all(program: Program) -> Iterator[Member]:
    for call in calls(program, SAMPLERS):
        if not call.open and argument(call, "num_replicas", 1) is None and stands(call.place):
            yield Member(call.head, texts(call.head, kind="world"))


def _undealt(program: Program) -> Iterator[Member]:
    wraps = standing(program, AVERAGING)
    if not wraps or is_left_to_front_end(program) or mentions(program, _DEALT) or _seeds_differ(program):
        return
    for call in _whole(program, trained_loaders(program)):
        related = ((wraps[0].head, "the model is wrapped here, one copy for each rank"),)
        yield Member(call.head, texts(call.head, kind=_kind(call)), related)


def _whole(program: Program, trained: Collection[int]) -> Iterator[Call]:
    """The loaders of training loops that certainly go through a whole data set on each rank."""
    for call in calls(program, LOADERS):
        if id(call.place.node) not in trained or call.open or is_for_evaluation(call) or stands(call.place) is False:
            continue
        if is_for_one_rank(call.place) or _is_dealt(call) or _is_drawn(call):
            continue
        if _is_sampled(call) or _is_by_index(call):
            yield call


def _kind(call: Call) -> str:
    return "all" if _shuffles(call) and not _is_seeded(call.place.program) else "same"


def _left_out(program: Program) -> Iterator[Member]:
    """Loaders that an Accelerator or a Fabric is not given, where all of the program's backward passes are its own."""
    prepared = _prepared(program)
    if not prepared or mentions(program, _DEALT_BESIDE) or _seeds_differ(program):
        return
    given = {word for place in prepared for word in _words(place.node)}
    trained = trained_loaders(program, certain=True)
    for call in _whole(program, trained):
        if given.isdisjoint({*trained[id(call.place.node)], *_names_of(call)}):
            kind = "left out" if _kind(call) == "all" else "left out, same"
            related = ((prepared[0].module.span(prepared[0].node), "what is wrapped for the ranks"),)
            yield Member(call.head, texts(call.head, kind=kind, dealer=_dealer(prepared[0])), related)


def _prepared(program: Program) -> list[Place]:
    """The calls by which a program gives its Accelerator or Fabric what it wraps; none where one may hide, or where
    another backward pass trains.
    """
    found = [
        place_of(program, module, site)
        for module in program.modules.values()
        for word in ("backward", *_GIVEN)
        for site in module.called.get(word, ())
    ]
    own = [place for place in found if _is_of_dealer(place)]
    hidden = any(isinstance(node, ast.Starred) for place in own for node in ast.walk(place.node))
    others = [place for place in found if place not in own and _spelled(place) in ("backward", "prepare")]
    return [place for place in own if _spelled(place) != "backward"] if not hidden and not others else []


def _spelled(place: Place) -> str:
    function = place.node.func if isinstance(place.node, ast.Call) else None
    return function.attr if isinstance(function, ast.Attribute) else ""


def _is_of_dealer(place: Place) -> bool:
    function = place.node.func if isinstance(place.node, ast.Call) else None
    return isinstance(function, ast.Attribute) and kinds(place.at(function.value)) in _DEALERS


def _dealer(given: Place) -> str:
    """The method that a loader is to be given to, as the program would call it."""
    function = given.node.func if isinstance(given.node, ast.Call) else None
    assert isinstance(function, ast.Attribute)
    return f"{dotted(function.value)}.{_DEALERS[kinds(given.at(function.value))]}"


def _words(node: ast.AST) -> Iterator[str]:
    """The last words of all names in an expression."""
    for part in ast.walk(node):
        if isinstance(part, ast.Name | ast.Attribute):
            yield part.id if isinstance(part, ast.Name) else part.attr


def _names_of(call: Call) -> Iterator[str]:
    """What a loader is called where it is made."""
    for name, bindings in call.place.scope.bindings.items():
        if any(binding.node is call.place.node for binding in bindings):
            yield name.rpartition(".")[2]


def _unprepared(program: Program) -> Iterator[Member]:
    """Loaders that a Trainer of the program's own makes in place of the Trainer's, which would prepare it for the
    ranks; the Trainer has seeded all ranks alike.
    """
    if mentions(program, _DEALT):
        return
    for call in calls(program, LOADERS):
        own = not call.open and _is_of_trainer(call.place.scope) and _is_returned(call)
        if own and (_is_sampled(call) or _is_by_index(call)) and not _is_dealt(call):
            yield Member(call.head, texts(call.head, kind="same"))


def _is_of_trainer(scope: Scope) -> bool:
    """Whether a method takes the place of the Trainer's get_train_dataloader."""
    owner = enclosing_class(scope)
    bases = owner.node.bases if owner is not None and isinstance(owner.node, ast.ClassDef) else []
    return scope.name.endswith(f".{_TRAIN_LOADER}") and any(dotted(base).endswith("Trainer") for base in bases)


def _is_returned(call: Call) -> bool:
    """Whether a function hands out a loader as it is made."""
    returned = [site.node.value for site in call.place.scope.sites if isinstance(site.node, ast.Return)]
    ends = (way.end for value in returned if value is not None for way in ways(call.place.at(value)))
    return any(isinstance(end, Place) and end.node is call.place.node for end in ends)


def trained_loaders(program: Program, certain: bool = False) -> dict[int, set[str]]:
    """The calls whose results loops turn over that go backward, each with the names by which they do; `certain`: of
    loops that turn over nothing but such loaders, whatever branch made them.
    """
    found: dict[int, set[str]] = {}
    for place, site in passes(program):
        for iterable in turned_over(site):
            ends = [way.end for way in ways(place.at(iterable))]
            made = [end for end in ends if isinstance(end, Place)]
            if certain and (len(made) < len(ends) or any(called(end) not in LOADERS for end in made)):
                continue
            for end in made:
                found.setdefault(id(end.node), set()).update(_words(iterable))
    return found


def _is_dealt(call: Call) -> bool:
    """Whether a sampler of the loader may deal, or its data set may be the part that the rank picks, or pick it."""
    sampled = bool(passed(call, "sampler", 3) or passed(call, "batch_sampler", 4))
    read = [item.place for item in passed(call, "dataset", 0)]
    by_hand = any(picked_by_rank(place, _LEVELS) or is_cut_by_rank(place) for place in read)
    return (sampled and not _is_sampled(call)) or by_hand


def _is_sampled(call: Call) -> bool:
    """Whether a sampler that knows of no ranks draws, which needs a data set that is read by index."""
    ends = _sampler_ends(call)
    return bool(ends) and all(isinstance(end, Place) and _goes_through_all(end) for end in ends)


def _sampler_ends(call: Call) -> list[Place | Unknown]:
    return [way.end for item in passed(call, "sampler", 3) for way in ways(item.place)]


def _goes_through_all(sampler: Place) -> bool:
    """A sampler of the whole data set: one that is told how many samples to draw may draw the share of a rank."""
    node = sampler.node
    if called(sampler) not in _LOCAL_SAMPLERS or not isinstance(node, ast.Call):
        return False
    told = {keyword.arg for keyword in node.keywords}
    return len(node.args) <= 1 and told <= {"data_source", "generator"}


def _shuffles(call: Call) -> bool:
    if any(isinstance(end, Place) and called(end).endswith("RandomSampler") for end in _sampler_ends(call)):
        return True
    value = argument(call, "shuffle", 2)
    return value is not None and not (isinstance(value, Value) and value.value is False)


def _is_by_index(call: Call) -> bool:
    """Whether a dataset is certainly read by index, and whole: a shuffled one, one of a library, a class in sight."""
    value = argument(call, "shuffle", 2)
    if isinstance(value, Value) and value.value is True:
        return True
    ends = [way.end for item in passed(call, "dataset", 0) for way in ways(item.place)]
    return bool(ends) and all(isinstance(end, Place) and _is_map(end) for end in ends)


def _is_map(end: Place) -> bool:
    if not isinstance(end.node, ast.Call):
        return False
    names = qualified(end.module, end.node.func, end.scope)
    if len(names) != 1 or holds_rank(end):
        return False
    found = definition(end.program, end.module, names[0])
    return _has_items(found.scope) if found is not None else bool(_MAPS.fullmatch(names[0]))


def _has_items(owner: Scope) -> bool:
    return any(scope.name.endswith(".__getitem__") for scope in owner.inner)


def _is_drawn(call: Call) -> bool:
    """Whether the samples may be made up: where the dataset is built, or in its class."""
    ends = [way.end for item in passed(call, "dataset", 0) for way in ways(item.place)]
    return bool(ends) and all(isinstance(end, Place) and any(map(_DRAWN.search, _texts_of(end))) for end in ends)


def _texts_of(end: Place) -> Iterator[str]:
    """The text of the function that builds a dataset, and of the dataset's class."""
    module, function = end.module, enclosing_function(end.scope)
    yield module.source.text[slice(*module.span(end.node if function is None else function.node)[1:])]
    names = qualified(module, end.node.func, end.scope) if isinstance(end.node, ast.Call) else ()
    found = definition(end.program, module, names[0]) if len(names) == 1 else None
    if found is not None:
        yield found.module.source.text[slice(*found.module.span(found.scope.node)[1:])]


def _seeds_differ(program: Program) -> bool:
    """Whether a seed is taken from the rank, so that the ranks shuffle differently on purpose."""
    return any(picked_by_rank(place, 2) for place in _seed_calls(program))


def _is_seeded(program: Program) -> bool:
    return any(stands(place) for place in _seed_calls(program))


def _seed_calls(program: Program) -> Iterator[Place]:
    for module in program.modules.values():
        for word in _SEEDS:
            yield from (place_of(program, module, site) for site in module.called.get(word, ()))
