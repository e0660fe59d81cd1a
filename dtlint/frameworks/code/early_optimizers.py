"""Finds optimizers that hold a model's parameters from before FSDP replaces them, where both stand in one function and
where functions of the program do either.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from dtlint.frameworks import Member
from dtlint.frameworks.pytorch.names import FSDP1, FSDP2
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.called import argument_node
from dtlint.languages.python.callers import callers
from dtlint.languages.python.calls import Call, argument, called, calls, passed
from dtlint.languages.python.entered import called_function
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Definition, Program
from dtlint.languages.python.reach import enclosing_function, stands
from dtlint.languages.python.tree import Guard, Scope, Site
from dtlint.record import NamedTuple
from dtlint.value import Setting, Value, written

_OPTIMIZERS = (
    "torch.optim.",
    "torchao.optim.",
    "bitsandbytes.optim.",
    "apex.optimizers.",
    "transformers.AdamW",
    "transformers.Adafactor",
    "transformers.optimization.A",
)
"""Packages and classes of optimizers, by how their names begin."""
_OWN = "configure_optimizers"
"""The method by which a model builds its optimizer, as in minGPT and nanoGPT."""
_PARAMETERS = frozenset({"parameters", "named_parameters"})
_ADDS = "add_param_group"
_MAX_NAMES = 3
_MAX_LEVELS = 3
_MAX_CALLERS = 6
_SELF = "self."


class _Wrap(NamedTuple):
    """A statement after which a model's parameters are others: the wrapping call, or a call that leads to it; `sure`
    where no condition on the way from there to the wrapping call is open.
    """

    place: Place
    model: str
    sure: bool = True


class _Built(NamedTuple):
    """A call that builds an optimizer, where it stands, and the conditions in the function that wraps the model."""

    place: Place
    node: ast.Call
    guards: tuple[Guard, ...] = ()


def early_optimizers(program: Program) -> tuple[Member, ...]:
    """Optimizers built from a model's parameters before FSDP replaces these; `sure` is false where a condition that the
    files leave open keeps a run from FSDP (`if args.fsdp: model = FSDP(model)`).
    """
    found: dict[ast.Call, Member] = {}
    for call in (*calls(program, FSDP1), *calls(program, FSDP2)):
        if stands(call.place) is False or _keeps_parameters(call) or call.loops:
            continue
        model = passed(call, "module", 0)
        name = dotted(model[0].place.node) if model else ""
        wraps = _leading_to(_Wrap(call.place, name), 0) if name else ()
        early = next(((wrap, built) for wrap in wraps if (built := _optimizer_before(wrap)) is not None), None)
        if early is not None:
            wrap, built = early
            span = built.place.module.span(built.node)
            replaced = (call.head, "the parameters are replaced here")
            fields: dict[str, Setting] = {"model": written(wrap.model, span)}
            fields["sure"] = written(wrap.sure and _is_decided(wrap, built), span)
            found.setdefault(built.node, Member(span, fields, (replaced,)))
    return tuple(found.values())


def _keeps_parameters(call: Call) -> bool:
    """Whether FSDP1 keeps the parameter objects, or may."""
    if call.name not in FSDP1:
        return bool(call.open)
    value = argument(call, "use_orig_params")
    return bool(call.open) or (value is not None and not (isinstance(value, Value) and value.value is False))


# Where the model is wrapped


def _leading_to(wrap: _Wrap, level: int) -> Iterator[_Wrap]:
    """The wrapping call and the calls of the functions that it stands in, each with the model's name there."""
    yield wrap
    function = enclosing_function(wrap.place.scope)
    if function is None or function is not wrap.place.scope or level >= _MAX_LEVELS:
        return
    if not _is_as_passed(wrap, function):
        return
    program, sure = wrap.place.program, wrap.sure and (not _kept(wrap.place.guards) or stands(wrap.place) is True)
    for module, site in callers(program, Definition(wrap.place.module, function))[:_MAX_CALLERS]:
        outside = _Wrap(place_of(program, module, site), _name_outside(function, wrap.model, site.node), sure)
        if outside.model and not site.loops and stands(outside.place) is not False:
            yield from _leading_to(outside, level + 1)


def _is_as_passed(wrap: _Wrap, function: Scope) -> bool:
    """Whether a function was given the model, or has it from its object, and has made no other of it before."""
    given = wrap.model.startswith(_SELF) or any(
        binding.kind == "parameter" for binding in function.bindings.get(wrap.model, ())
    )
    return given and not _rebound_between(function, wrap.model, function.node, wrap.place.node)


def _name_outside(function: Scope, name: str, call: ast.AST) -> str:
    """How a caller names what a function has as `name`: the argument, or the attribute of the object that it is called
    on.
    """
    if not name.startswith(_SELF):
        passed_on = argument_node(function, name, call)
        return "" if passed_on is None else dotted(passed_on)
    owner = call.func.value if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) else None
    holder = "" if owner is None else dotted(owner)
    return f"{holder}.{name.removeprefix(_SELF)}" if holder else ""


# Where the optimizer is built


def _optimizer_before(wrap: _Wrap) -> _Built | None:
    """The optimizer that is built from this model's parameters before it is wrapped, wherever it is wrapped, and that
    nothing builds anew behind that.
    """
    early, names = None, set[str]()
    for site in wrap.place.scope.sites:
        before = getattr(site.node, "lineno", 0) < getattr(wrap.place.node, "lineno", 0)
        if not before and _binds_anew(site, wrap, names):
            return None
        if not before or not _is_implied(site.guards, wrap.place.guards):
            continue
        built, targets = _built_at(site, wrap)
        if built is not None and not _rebound_between(wrap.place.scope, wrap.model, site.node, wrap.place.node):
            early, names = built._replace(guards=site.guards), (names | targets) - {wrap.model}
    return early


def _binds_anew(site: Site, wrap: _Wrap, names: set[str]) -> bool:
    """Whether a statement gives the optimizer's name to what a call makes, but for what wraps that optimizer alone, or
    the optimizer new parameters, in a branch in which the model may be wrapped.
    """
    node = site.node
    if not names or _is_opposed(site.guards, wrap.place.guards):
        return False
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == _ADDS:
        return dotted(node.func.value) in names
    targets = {dotted(element) for element in _elements(node.targets[0])} if isinstance(node, ast.Assign) else set()
    if isinstance(node, ast.Assign) and not targets.isdisjoint(names):
        mentioned = {dotted(part) for part in ast.walk(node.value) if isinstance(part, ast.Name | ast.Attribute)}
        return isinstance(node.value, ast.Call) and (wrap.model in mentioned or names.isdisjoint(mentioned))
    return not _built_at(site, wrap)[1].isdisjoint(names)


def _kept(guards: tuple[Guard, ...]) -> dict[str, bool]:
    """The conditions that a run has to keep to, by their text; one that fails otherwise does not miss them."""
    return {"" if guard.test is None else ast.dump(guard.test): guard.holds for guard in guards if not guard.raises}


def _is_implied(guards: tuple[Guard, ...], others: tuple[Guard, ...]) -> bool:
    """Whether what is reached under `others` has certainly passed the place under `guards` before."""
    return _kept(guards).items() <= _kept(others).items()


def _is_opposed(guards: tuple[Guard, ...], others: tuple[Guard, ...]) -> bool:
    """Whether one of two places is reached only where the other is not."""
    kept = _kept(others)
    return any(kept.get(test, holds) is not holds for test, holds in _kept(guards).items())


def _is_decided(wrap: _Wrap, built: _Built) -> bool:
    """Whether no condition stands between the optimizer and the wrapping, or the files tell that it holds."""
    return _kept(wrap.place.guards) == _kept(built.guards) or stands(wrap.place) is True


def _built_at(site: Site, wrap: _Wrap) -> tuple[_Built | None, set[str]]:
    """The optimizer that a statement builds, and the names that it has then. What the object does that holds the model
    when it is made, or in one of its methods, counts where it gives itself the optimizer.
    """
    node, holder = site.node, wrap.model.rpartition(".")[0]
    if isinstance(node, ast.Assign):
        names = {dotted(element) for element in _elements(node.targets[0])}
        if holder and names == {holder} and isinstance(node.value, ast.Call):
            return _built_by_object(wrap.place.at(node.value), wrap.model)
        return _built_by(wrap.place.at(node.value), node.targets[0], wrap.model, 0), names
    if isinstance(node, ast.Call) and holder and dotted(node.func).rpartition(".")[0] == holder:
        return _built_by_object(wrap.place.at(node), wrap.model)
    return None, set()


def _built_by_object(place: Place, model: str) -> tuple[_Built | None, set[str]]:
    """The optimizer that an object with a model gives itself in a method (`self.set_up()`), or when it is made."""
    (holder, _, rest), node = model.rpartition("."), place.node
    helper = _entered(called_function(place, node)) if isinstance(node, ast.Call) else None
    found = _built_inside(place, helper, rest, 0) if helper is not None else None
    return (None, set()) if found is None else (found[0], {f"{holder}.{found[1]}"})


def _entered(found: Definition | None) -> Definition | None:
    """The function itself, of a class its `__init__`."""
    if found is None or not isinstance(found.scope.node, ast.ClassDef):
        return found
    made = found.module.definitions.get(f"{found.scope.name}.__init__")
    return None if made is None else Definition(found.module, made)


def _built_inside(place: Place, helper: Definition, rest: str, level: int) -> tuple[_Built, str] | None:
    """The optimizer of `self.<rest>` that a method gives its object, and the attribute's name."""
    inside = place._replace(module=helper.module, scope=helper.scope, guards=(), depth=place.depth + 1)
    for site in helper.scope.sites if level < _MAX_LEVELS else ():
        found, node = None, site.node
        if isinstance(node, ast.Assign) and not site.guards and dotted(node.targets[0]).startswith(_SELF):
            built = _built_by(inside.at(node.value), node.targets[0], f"{_SELF}{rest}", 1)
            found = (built, dotted(node.targets[0]).removeprefix(_SELF)) if built is not None else None
        elif isinstance(node, ast.Call) and not site.guards and dotted(node.func).startswith(_SELF):
            method = called_function(inside.at(node), node)
            found = _built_inside(inside, method, rest, level + 1) if method is not None else None
        if found is not None:
            return found
    return None


def _elements(target: ast.expr) -> list[ast.expr]:
    return target.elts if isinstance(target, ast.Tuple | ast.List) else [target]


def _built_by(place: Place, target: ast.expr, model: str, level: int) -> _Built | None:
    """The optimizer of a model's parameters that a call builds, itself or in a function of the program that returns
    it. `target` is what the call's value is bound to: such a function may return the model beside its optimizer.
    """
    node = place.node
    if not isinstance(node, ast.Call):
        return None
    if _optimises(place, node, model):
        return _Built(place, node)
    helper = called_function(place, node) if level < _MAX_NAMES else None
    if helper is None or not isinstance(helper.scope.node, ast.FunctionDef):
        return None
    returned = [site for site in helper.scope.sites if isinstance(site.node, ast.Return)]
    if len(returned) != 1 or returned[0].guards:
        return None
    inside = _name_inside(helper.scope, returned[0], node, target, model)
    return _returned(place, helper, returned[0], inside, level) if inside else None


def _name_inside(helper: Scope, returned: Site, call: ast.Call, target: ast.expr, model: str) -> str:
    """How a function names the model that its caller names so: a parameter, or one of several values that it
    returns.
    """
    for name, bindings in helper.bindings.items():
        handed = argument_node(helper, name, call) if any(each.kind == "parameter" for each in bindings) else None
        if handed is not None and dotted(handed) == model:
            return name
    value = returned.node.value if isinstance(returned.node, ast.Return) else None
    told = _elements(value) if value is not None else []
    taken = _elements(target)
    pairs = zip(told, taken, strict=True) if len(told) == len(taken) else ()
    return next((dotted(here) for here, there in pairs if dotted(there) == model), "")


def _returned(place: Place, helper: Definition, returned: Site, model: str, level: int) -> _Built | None:
    """The optimizer among what a function returns: built in the return, or bound to a name that it returns."""
    value = returned.node.value if isinstance(returned.node, ast.Return) else None
    told = _elements(value) if value is not None else []
    names = {dotted(element) for element in told} - {""}
    inside = place._replace(module=helper.module, scope=helper.scope, guards=(), depth=place.depth + 1)
    for element in told:
        found = _built_by(inside.at(element), element, model, level + 1)
        if found is not None:
            return found
    for site in helper.scope.sites:
        if isinstance(site.node, ast.Assign) and not site.guards and dotted(site.node.targets[0]) in names:
            found = _built_by(inside.at(site.node.value), site.node.targets[0], model, level + 1)
            if found is not None:
                return found
    return None


def _optimises(place: Place, node: ast.Call, model: str) -> bool:
    """Whether a call builds an optimizer of a model's parameters: a class of optimizers that is given them, or the
    model's own `configure_optimizers`.
    """
    if isinstance(node.func, ast.Attribute) and node.func.attr == _OWN:
        return dotted(node.func.value) == model
    first = node.args[0] if node.args else next((item.value for item in node.keywords if item.arg == "params"), None)
    if first is None or not called(place).startswith(_OPTIMIZERS):
        return False
    owners = set(_owners(place.at(first), 0))
    return bool(owners) and all(owner == model or owner.startswith(f"{model}.") for owner in owners)


def _owners(place: Place, depth: int) -> Iterator[str]:
    """The models whose parameters an expression holds, also by way of names, `[p for p in model.parameters() ...]`, and
    of functions that group the parameters of a model.
    """
    for node in ast.walk(place.node):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _PARAMETERS:
            yield dotted(node.func.value)
        elif isinstance(node, ast.Call):
            yield from _grouped(place, node)
        elif isinstance(node, ast.Name) and depth < _MAX_NAMES:
            for binding in place.scope.bindings.get(node.id, ()):
                if binding.kind == "value" and binding.node is not None:
                    yield from _owners(place.at(binding.node), depth + 1)
            for turn in _appending_loops(place.scope, node.id):
                yield from _owners(place.at(turn.iter), _MAX_NAMES)


def _appending_loops(scope: Scope, name: str) -> Iterator[ast.For]:
    """The loops in which something is added to a list (`(decay if p.ndim > 1 else other).append(p)`)."""
    for site in scope.sites:
        function = site.node.func if isinstance(site.node, ast.Call) else None
        if isinstance(function, ast.Attribute) and function.attr == "append" and site.loops:
            lists = {each.id for each in ast.walk(function.value) if isinstance(each, ast.Name)}
            turn = site.loops[-1]
            if name in lists and isinstance(turn, ast.For):
                yield turn


def _grouped(place: Place, node: ast.Call) -> Iterator[str]:
    """The models whose parameters a function of the program goes through (`param_groups(model, weight_decay)`)."""
    helper = called_function(place, node)
    if helper is None or not isinstance(helper.scope.node, ast.FunctionDef):
        return
    asked = (each for each in ast.walk(helper.scope.node) if isinstance(each, ast.Call))
    for owner in dict.fromkeys(_owner_asked(call) for call in asked):
        if owner == "self":
            yield dotted(node.func.value) if isinstance(node.func, ast.Attribute) else ""
        elif owner:
            passed_on = argument_node(helper.scope, owner, node)
            yield "" if passed_on is None else dotted(passed_on)


def _owner_asked(call: ast.Call) -> str:
    """The name of the model that a call asks for its parameters, "" for another call."""
    asks = isinstance(call.func, ast.Attribute) and call.func.attr in _PARAMETERS
    return dotted(call.func.value) if isinstance(call.func, ast.Attribute) and asks else ""


def _rebound_between(scope: Scope, name: str, start: ast.AST, end: ast.AST) -> bool:
    """Whether a name is bound anew between two statements, so that it means another model."""
    lines = [getattr(binding.place, "lineno", 0) for binding in scope.bindings.get(name, [])]
    first, last = getattr(start, "lineno", 0), getattr(end, "lineno", 0)
    return any(first < line < last for line in lines)
