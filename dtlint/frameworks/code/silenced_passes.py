"""Finds training whose every forward pass stands in a no_sync, so that no backward pass exchanges."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from dtlint.frameworks.code.collective_names import OPEN
from dtlint.frameworks.code.microsteps import SILENCERS, asks_for_wrapper, is_inside, optimizer_steps, outermost
from dtlint.frameworks.code.objects import PREPARERS, kinds, wrapped_kinds
from dtlint.frameworks.code.passes import without_gradients
from dtlint.frameworks.pytorch.exchange import collectives
from dtlint.frameworks.pytorch.names import DDP
from dtlint.languages.python.bindings import dotted, enclosing_class, last_word
from dtlint.languages.python.called import given_to
from dtlint.languages.python.callers import callers
from dtlint.languages.python.calls import called, calls
from dtlint.languages.python.constants import holds
from dtlint.languages.python.entered import called_function
from dtlint.languages.python.names import lookup, qualified
from dtlint.languages.python.places import Budget, Frame, Place, conditions_at, place_of
from dtlint.languages.python.program import Definition, Program, subclasses
from dtlint.languages.python.reach import enclosing_function, stands
from dtlint.languages.python.tree import Guard, Site
from dtlint.record import NamedTuple

_MAX_LEVELS = 3
_BY_HAND = re.compile(r"\.grad\b|parameters\(|state_dict|averag|\bparams?\b|all_?reduce_?grad|comm_hook", re.IGNORECASE)
"""Words of functions that exchange gradients or weights themselves."""
_STATE = (
    "parameters named_parameters modules named_modules children state_dict load_state_dict train eval zero_grad to "
    "cuda values items keys no_sync no_backward_sync requires_grad_ register_forward_hook clip_grad_norm_ append"
)
_NO_PASS = frozenset(_STATE.split())
"""Methods of a model, or of what holds several, that make no forward pass."""


class _Entry(NamedTuple):
    """What a `with` statement enters, and the last words of what the models that it silences are kept under."""

    place: Place
    block: ast.With
    names: frozenset[str]


class Silenced(NamedTuple):
    """A no_sync that holds every forward pass before a step of the optimizer: its entry, one such pass, the step."""

    entry: Place
    forward: Place
    step: Place


def silenced_passes(program: Program) -> Iterator[Silenced]:
    """The functions that train and step with every forward pass in a no_sync that nothing switches off; none where the
    program exchanges gradients or weights by hand.
    """
    entries = [entry for entry in _entries(program) if stands(entry.place) is not False]
    if not entries or _exchanges_by_hand(program):
        return
    wrapped = frozenset(_wrapped_names(program))
    for scope in dict.fromkeys(entry.place.scope for entry in entries):
        found = _silenced([entry for entry in entries if entry.place.scope is scope], wrapped)
        if found is not None:
            yield found


def _silenced(entries: list[_Entry], wrapped: frozenset[str]) -> Silenced | None:
    """Whether the models that one function silences make no other forward pass in it, and no other model of DDP any."""
    here = entries[0].place
    sites = (site for site in here.scope.sites if isinstance(site.node, ast.Call))
    places = [place_of(here.program, here.module, site) for site in sites]
    passing = [place for place in places if not without_gradients(place)]
    steps = optimizer_steps(here)
    names = frozenset[str]().union(*(entry.names for entry in entries))
    outside = [place for place in passing if not any(is_inside(place.node, entry.block) for entry in entries)]
    if not steps or all(_called_word(place.node) != "backward" for place in places):
        return None
    others = any(_runs(place, wrapped - names, _MAX_LEVELS) is not False for place in passing)
    if others or any(_runs(place, names, _MAX_LEVELS) is not False for place in outside):
        return None
    for entry in entries:
        inside = (place for place in passing if is_inside(place.node, entry.block))
        forward = next((place for place in inside if _runs(place, entry.names, _MAX_LEVELS)), None)
        if forward is not None:
            return Silenced(entry.place, forward, steps[0])
    return None


def _entries(program: Program) -> Iterator[_Entry]:
    """The expressions by which `with` statements certainly enter a no_sync of DDP: its call, or that of a function of
    the program that enters it or returns it.
    """
    for module in program.modules.values():
        for site in (site for word in SILENCERS for site in module.called.get(word, ())):
            place = place_of(program, module, site)
            names = frozenset(map(last_word, _models(place))) - {""}
            for way in (place, *_through(place, site)):
                here = outermost(way)
                block = _block(here)
                if block is not None and names and _silences(place, block) and _is_certain(way):
                    yield _Entry(here, block, names)


def _models(place: Place) -> Iterator[ast.AST]:
    """The model whose no_sync is called, or that it is given; of a variable of a loop what the loop turns over."""
    node = place.node
    assert isinstance(node, ast.Call)
    model = node.args[0] if node.args else node.func.value if isinstance(node.func, ast.Attribute) else node
    loops = [item.node for item in lookup(place.scope, dotted(model))[1] if item.kind == "loop"]
    for turned in loops or [model]:
        if isinstance(turned, ast.Call) and isinstance(turned.func, ast.Attribute):
            yield turned.func.value
        elif isinstance(turned, ast.List | ast.Tuple):
            yield from turned.elts
        elif turned is not None:
            yield turned


def _through(place: Place, site: Site) -> Iterator[Place]:
    """A call in a function as each call of the function leads to it."""
    function = enclosing_function(site.scope)
    if function is not None:
        for module, call in callers(place.program, Definition(place.module, function)):
            yield place._replace(frames=(Frame(function, place_of(place.program, module, call)),))


def _block(place: Place) -> ast.With | None:
    """The `with` statement that enters what an expression gives."""
    for node in ast.walk(place.scope.node):
        if isinstance(node, ast.With) and any(item.context_expr is place.node for item in node.items):
            return node
    return None


def _is_certain(place: Place) -> bool:
    """Whether nothing but the question whether the model is wrapped stands before a no_sync, or keeps it off."""
    node = place.node
    if isinstance(node, ast.Call) and (node.keywords or len(node.args) > 1):
        return False
    parts = [(place, guard) for guard in place.guards]
    parts += [(outermost(place), guard) for guard in outermost(place).guards] if place.frames else []
    return all(asks_for_wrapper(here, guard) or _holds(here, guard) for here, guard in parts)


def _holds(place: Place, guard: Guard) -> bool:
    return all(holds(condition) is True for condition in conditions_at(place._replace(budget=Budget()), (guard,)))


def _silences(place: Place, block: ast.With) -> bool:
    """Whether a no_sync is that of a model of DDP, by what makes it or by the condition around (`isinstance`); or one
    of an Accelerator or a Fabric, whose model may be one of FSDP: that exchanges nothing where the backward pass stands
    in the block.
    """
    function = place.node.func if isinstance(place.node, ast.Call) else None
    if not isinstance(function, ast.Attribute):
        return False
    found = kinds(place.at(function.value))
    if found <= PREPARERS:
        return any(isinstance(node, ast.Call) and _called_word(node) == "backward" for node in ast.walk(block))
    if all(wrapped_kinds(place.at(model)) == {"ddp"} for model in _models(place)):
        return True
    return any(_asks_for_ddp(place, guard, dotted(function.value)) for guard in place.guards if guard.holds)


def _asks_for_ddp(place: Place, guard: Guard, name: str) -> bool:
    """`isinstance(module, DistributedDataParallel)`"""
    for node in ast.walk(guard.test) if guard.test is not None else ():
        if isinstance(node, ast.Call) and dotted(node.func) == "isinstance" and len(node.args) == 2:
            wrapped = any(each in DDP for each in qualified(place.module, node.args[1], place.scope))
            if wrapped and dotted(node.args[0]) == name:
                return True
    return False


def _exchanges_by_hand(program: Program) -> bool:
    """Whether the program may exchange gradients or weights itself: by a collective in a function that speaks of them,
    or by a hook, or by a class that averages.
    """
    if any(True for _ in collectives(program)):
        return True
    for module in program.modules.values():
        for word in (*OPEN, "register_comm_hook", "register_hook", "register_post_accumulate_grad_hook"):
            if any(_BY_HAND.search(_text_around(module.source.text, site)) for site in module.called.get(word, ())):
                return True
        if any(re.search("averag|local_?sgd|diloco", word, re.IGNORECASE) for word in module.called):
            return True
    return False


def _text_around(text: str, site: Site) -> str:
    """The lines of the function that a call stands in; those of the call itself at the level of the module."""
    function = enclosing_function(site.scope)
    node = function.node if function is not None else site.node
    lines = text.splitlines()
    return "\n".join(lines[getattr(node, "lineno", 1) - 1 : getattr(node, "end_lineno", 1)])


def _wrapped_names(program: Program) -> Iterator[str]:
    """The last words of what models of DDP are kept under: `self.model`, `modules` of `self.modules[name] = DDP()`."""
    for call in calls(program, DDP):
        for site in call.place.scope.sites:
            node = site.node
            if isinstance(node, ast.Assign) and any(part is call.place.node for part in ast.walk(node.value)):
                yield from (word for target in node.targets for word in _kept_in(target) if word)


def _kept_in(target: ast.expr) -> Iterator[str]:
    for part in target.elts if isinstance(target, ast.Tuple | ast.List) else [target]:
        yield last_word(part.value if isinstance(part, ast.Subscript) else part)


def _runs(place: Place, words: frozenset[str], levels: int) -> bool | None:
    """Whether a call makes a forward pass of a model of DDP, itself or by functions of the program; None: perhaps."""
    node = place.node
    assert isinstance(node, ast.Call)
    if _is_forward(node, words):
        return True
    helpers = _functions(place, node)
    if helpers and levels:
        inside = [place_of(place.program, each.module, site) for each in helpers for site in each.scope.sites]
        found = {_runs(each, words, levels - 1) for each in inside if isinstance(each.node, ast.Call)}
        return True if True in found else None if None in found else False
    is_of_torch = called(place).startswith("torch.") or _called_word(node) in _NO_PASS
    given = [] if is_of_torch else given_to(node)
    return None if any(last_word(item) in words for item in given if dotted(item)) else False


def _called_word(node: ast.AST) -> str:
    function = node.func if isinstance(node, ast.Call) else node
    return function.attr if isinstance(function, ast.Attribute) else last_word(function)


def _is_forward(node: ast.Call, words: frozenset[str]) -> bool:
    """`model(x)`, `self.model.encode(x)`, `self.modules["encoder"](x)`"""
    if _called_word(node) in _NO_PASS:
        return False
    if isinstance(node.func, ast.Subscript):
        return last_word(node.func.value) in words
    parts = dotted(node.func).split(".")
    return bool(words & {parts[-1], *parts[-2:-1]})


def _functions(place: Place, node: ast.Call) -> list[Definition]:
    """The functions of the program that a call may run: of a method those of the classes below too."""
    found = called_function(place._replace(budget=Budget()), node)
    if found is not None and not isinstance(found.scope.node, ast.FunctionDef):
        return []
    owner, _, name = found.scope.name.rpartition(".") if found is not None else _own_method(place, node)
    own = [found] if found is not None else []
    return [*own, *_below(place.program, owner, name)] if owner else own


def _own_method(place: Place, node: ast.Call) -> tuple[str, str, str]:
    """The class and the name of `self.loss(...)`, which only the classes below may define."""
    owner = enclosing_class(place.scope)
    function = node.func if isinstance(node.func, ast.Attribute) else None
    is_own = owner is not None and function is not None and dotted(function.value) == "self"
    return (owner.name, ".", function.attr) if owner is not None and function is not None and is_own else ("", "", "")


def _below(program: Program, owner: str, name: str) -> list[Definition]:
    """The methods of a name in the classes that inherit from one."""
    scopes = subclasses(program, owner.rpartition(".")[2])
    return [
        Definition(module, module.definitions[f"{scope.name}.{name}"])
        for module in (program.modules.values() if scopes else ())
        for scope in scopes
        if module.definitions.get(scope.name) is scope and f"{scope.name}.{name}" in module.definitions
    ]
