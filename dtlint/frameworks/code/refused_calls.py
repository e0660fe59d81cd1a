"""Finds calls of frameworks' functions that Python refuses as they stand, by their parameters: a TypeError ends the
program there, and what comes behind is not come to.

torch.distributed.fsdp.wrap has policies that FSDP calls for each module with `recurse` and the number of parameters
not wrapped yet (`unwrapped_params` in torch 1.11 and 1.12), neither of which has a default in any release: code hands
them over (functools.partial) and does not call them. deepspeed.initialize has no **kwargs in any release
(deepspeed/__init__.py, 0.1 to 0.19): what it does not name, it refuses.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from difflib import get_close_matches

from dtlint.frameworks import Member
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.code.with_blocks import with_blocks
from dtlint.frameworks.pytorch.names import DDP, FSDP1, FSDP2
from dtlint.languages.python.bindings import dotted, last_word
from dtlint.languages.python.callers import callers
from dtlint.languages.python.calls import Call, calls
from dtlint.languages.python.places import Place, place_of
from dtlint.languages.python.program import Definition, Program, definition
from dtlint.languages.python.reach import enclosing_function, stands
from dtlint.languages.python.tree import Module, Scope
from dtlint.languages.unused import Unused
from dtlint.record import NamedTuple
from dtlint.source import Span

_POLICIES = tuple(
    f"torch.distributed.fsdp.wrap.{kind}_auto_wrap_policy" for kind in ("transformer", "size_based", "lambda")
)
"""Functions that FSDP calls."""
_ENGINE = "deepspeed.initialize"
_OF_FSDP = (("recurse",), ("nonwrapped_numel", "unwrapped_params"))
"""What FSDP gives a policy behind the module, with its names in the releases."""
_NAMED = (
    "args model optimizer model_parameters training_data lr_scheduler distributed_port mpu dist_init_required "
    "collate_fn config mesh_param config_params"
)
_OF_ENGINE = tuple(_NAMED.split())
"""The parameters of deepspeed.initialize in all releases together."""
_MEANT = {"lr": "optimizer.params.lr", "learning_rate": "optimizer.params.lr", "parameters": "model_parameters"}
_MEANT |= dict.fromkeys(("ds_config", "deepspeed_config", "config_file", "config_dict"), "config")
"""What stands elsewhere, or under another name."""
_EXCHANGING = (*DDP, *FSDP1, *FSDP2, _ENGINE)
_OTHER_WRAPPERS = frozenset({"Accelerator", "Fabric", "Trainer", "all_reduce"})
"""Words of what has the ranks exchange gradients beside the calls that are looked at."""
_LEAVING = frozenset({"exit", "_exit", "sys.exit", "os._exit", "quit"})
_MOST_LEVELS = 2
_MOST_CALLS_OUT = 4
"""Calls that lead to a refused one and are asked whether they catch the error; behind more nobody knows."""
_MOST_ENDS = 20


class Refused(NamedTuple):
    """A call that Python refuses: the parameters without default that it does not give, and the keywords that the
    function does not have, each with its place.
    """

    call: Call
    lacking: tuple[str, ...] = ()
    strange: tuple[tuple[str, Span], ...] = ()

    @property
    def function(self) -> str:
        """The function by its last words."""
        return self.call.name.removeprefix("torch.distributed.fsdp.wrap.")


def refused_calls(program: Program) -> tuple[Refused, ...]:
    """The calls that may be reached and that Python refuses, where nothing catches the error and goes on."""
    found = (*_of_policies(program), *_of_engines(program))
    return tuple(each for each in found if _ends(program, each.call.place))


def _of_policies(program: Program) -> Iterator[Refused]:
    for call in calls(program, _POLICIES):
        lacking = [
            names[0]
            for position, names in enumerate(_OF_FSDP, 1)
            if position >= len(call.positional) and call.keywords.keys().isdisjoint(names)
        ]
        if lacking and not call.open:
            yield Refused(call, tuple(lacking))


def _of_engines(program: Program) -> Iterator[Refused]:
    for call in calls(program, (_ENGINE,)):
        strange = [(name, _place(given[0].place)) for name, given in call.keywords.items() if name not in _OF_ENGINE]
        if strange and definition(program, call.place.module, _ENGINE) is None:
            yield Refused(call, (), tuple(strange))


def _place(place: Place) -> Span:
    return place.module.span(place.node)


def _ends(program: Program, place: Place) -> bool:
    """Whether the program may come to a call, and ends by an error there."""
    return stands(place) is not False and not _is_caught(program, place.module, place.node, place, 0)


def _is_caught(program: Program, module: Module, node: ast.AST, place: Place, level: int) -> bool:
    """Whether an error at a node may be caught, and the program go on: in its function, or around what calls this."""
    tries = (each for each in ast.walk(module.top.node) if isinstance(each, ast.Try) and each.handlers)
    if any(_holds(each.body, node) and not all(map(_leaves, each.handlers)) for each in tries):
        return True
    if any(_holds(block.body, node) and _suppresses(block) for block in with_blocks(place)):
        return True
    function = enclosing_function(place.scope)
    around = callers(program, Definition(module, function)) if function is not None else ()
    if level == _MOST_CALLS_OUT:
        return bool(around)
    return any(
        _is_caught(program, outer, site.node, place_of(program, outer, site), level + 1) for outer, site in around
    )


def _suppresses(block: ast.With) -> bool:
    """`with contextlib.suppress(TypeError):`"""
    entered = (item.context_expr for item in block.items)
    return any(isinstance(each, ast.Call) and last_word(each.func) in ("suppress", "raises") for each in entered)


def _holds(body: list[ast.stmt], node: ast.AST) -> bool:
    return any(part is node for statement in body for part in ast.walk(statement))


def _leaves(handler: ast.ExceptHandler) -> bool:
    """Whether a handler ends the program too."""
    last = handler.body[-1]
    called = dotted(last.value.func) if isinstance(last, ast.Expr) and isinstance(last.value, ast.Call) else ""
    return isinstance(last, ast.Raise) or called in _LEAVING


def refused_members(refused: tuple[Refused, ...]) -> Mapping[str, tuple[Member, ...]]:
    """The members of `config.needed` (`key`, `function`, `given`: how it is handed over) and of `config.unknown`
    (`effect` is called, `section` the function, `word` the keyword, `suggestion` and `belongs`).
    """
    needed = tuple(_needed(each) for each in refused if each.lacking)
    unknown = tuple(_unknown(each, word, place) for each in refused for word, place in each.strange)
    return {name: found for name, found in (("config.needed", needed), ("config.unknown", unknown)) if found}


def _needed(refused: Refused) -> Member:
    call = refused.call
    of_fsdp = {"module", *(name for names in _OF_FSDP for name in names)}
    own = (
        f"{name}={given[0].place.module.text(given[0].place.node, 60)}"
        for name, given in call.keywords.items()
        if name not in of_fsdp
    )
    given = ", ".join((refused.function, *own))
    fields = texts(call.head, key=" and ".join(refused.lacking), function=refused.function, given=given)
    return Member(call.head, fields)


def _unknown(refused: Refused, word: str, place: Span) -> Member:
    near = get_close_matches(word, _OF_ENGINE, 1, 0.8)
    meant = _MEANT.get(word) or (near[0] if near else "")
    belongs = meant if "." in meant else ""
    fields = texts(
        place,
        key=f"{refused.function}({word}=)",
        section=refused.function,
        word=word,
        effect="called",
        suggestion="" if belongs else meant,
        belongs=belongs,
    )
    return Member(place, fields, ((refused.call.head, "refused by this call"),))


def stopped_by(program: Program, refused: tuple[Refused, ...], module: Module, place: Span) -> tuple[Unused, ...]:
    """The refused call that a place lies behind: every way to it leads over the call, or it trains with a model that
    only such calls, and what lies behind them, would have wrapped.
    """
    found = next((each for each in refused if _is_behind(program, _ends_of(program, each), module, place)), None)
    if found is None and refused and _trains_unwrapped(program, refused, module, place):
        found = refused[0]
    return (Unused("call", found.function, (_said(found),)),) if found is not None else ()


def _said(refused: Refused) -> str:
    if refused.lacking:
        return f"is called without {' and '.join(refused.lacking)}"
    return f"does not take {' and '.join(word for word, _ in refused.strange)}"


def _ends_of(program: Program, refused: Refused) -> tuple[Place, ...]:
    """The calls at which the program ends with a refused call: itself, and those of functions that always come to it,
    an object's construction among them.
    """
    found = [refused.call.place]
    for place in found:
        function = enclosing_function(place.scope)
        if function is not None and len(found) < _MOST_ENDS and _always_comes(function.node, place.node):
            wanted = Definition(place.module, function)
            found += [place_of(program, module, site) for module, site in callers(program, wanted)]
    return tuple(found[:_MOST_ENDS])


def _always_comes(function: ast.AST, call: ast.AST) -> bool:
    body = function.body if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef) else []
    return _holds(body, call) and _follows_straight(body, call)


def _is_behind(program: Program, ends: tuple[Place, ...], module: Module, place: Span, level: int = 0) -> bool:
    """Whether every way to a place leads over one of these calls: in its function, or to all that call this."""
    if any(each.module is module and _leads_over(each, place) for each in ends):
        return True
    function = _function_at(module, place)
    if function is None or level == _MOST_LEVELS:
        return False
    sites = [(around, around.span(site.node)) for around, site in callers(program, Definition(module, function))]
    return bool(sites) and all(_is_behind(program, ends, around, span, level + 1) for around, span in sites)


def _function_at(module: Module, place: Span) -> Scope | None:
    """The innermost function that holds a place."""
    functions = (each for each in module.scopes if isinstance(each.node, ast.FunctionDef | ast.AsyncFunctionDef))
    around = [each for each in functions if _lies_in(module, each.node, place)]
    return max(around, key=lambda each: module.span(each.node).start, default=None)


def _trains_unwrapped(program: Program, refused: tuple[Refused, ...], module: Module, place: Span) -> bool:
    """Whether a place lies in a function that goes backward, or that only such call, of a program in which nothing
    wraps the model before it stops.
    """
    if any(not _OTHER_WRAPPERS.isdisjoint(each.called) for each in program.modules.values()):
        return False
    ends = tuple(end for each in refused for end in _ends_of(program, each))
    wrapping = [call.place for call in calls(program, _EXCHANGING) if stands(call.place) is not False]
    if not all(_is_one_of(each, ends) or _is_behind(program, ends, each.module, _place(each)) for each in wrapping):
        return False
    function = _function_at(module, place)
    return bool(wrapping) and function is not None and _trains(program, Definition(module, function), ends)


def _trains(program: Program, wanted: Definition, ends: tuple[Place, ...], level: int = 0) -> bool:
    """Whether a function goes backward, or only such call it; in one that comes to a refused call itself what stands
    before it is come to.
    """
    if any(enclosing_function(each.scope) is wanted.scope for each in ends):
        return False
    if level == _MOST_LEVELS or _goes_backward(wanted.scope.node):
        return _goes_backward(wanted.scope.node)
    found = [(around, enclosing_function(site.scope)) for around, site in callers(program, wanted)]
    return bool(found) and all(
        scope is not None and _trains(program, Definition(around, scope), ends, level + 1) for around, scope in found
    )


def _is_one_of(place: Place, ends: tuple[Place, ...]) -> bool:
    return any(place.node is each.node for each in ends)


def _goes_backward(node: ast.AST) -> bool:
    called = (each.func for each in ast.walk(node) if isinstance(each, ast.Call))
    return any(isinstance(each, ast.Attribute) and each.attr == "backward" for each in called)


def _leads_over(call: Place, place: Span) -> bool:
    """Whether every way to a place of the same function leads over a call."""
    function, module = enclosing_function(call.scope), call.module
    node = module.top.node if function is None else function.node
    body = node.body if isinstance(node, ast.Module | ast.FunctionDef | ast.AsyncFunctionDef) else []
    inside = function is None or _lies_in(module, node, place)
    return inside and not _lies_in(module, call.node, place) and _follows(module, body, call.node, place)


def _lies_in(module: Module, node: ast.AST, place: Span) -> bool:
    span = module.span(node)
    return span.start <= place.start < span.end


def _follows(module: Module, block: list[ast.stmt], call: ast.AST, place: Span) -> bool:
    """Whether a place of a block lies behind the statement of it that holds a call, which is always come to."""
    holder = next((each for each in block if _holds([each], call)), None)
    if holder is None:
        return False
    inner = _blocks(holder)
    if not inner:
        return any(_lies_in(module, each, place) for each in block[block.index(holder) :])
    around = next((each for each in inner if _holds(each, call)), None)
    if around is None:
        return False
    if any(_lies_in(module, each, place) for each in around):
        return _follows(module, around, call, place)
    later = block[block.index(holder) + 1 :]
    always = isinstance(holder, ast.With | ast.AsyncWith) or (isinstance(holder, ast.Try) and around is holder.body)
    straight = always and _follows_straight(around, call)
    return straight and any(_lies_in(module, each, place) for each in later)


def _follows_straight(block: list[ast.stmt], call: ast.AST) -> bool:
    """Whether a block always comes to a call."""
    holder = next(each for each in block if _holds([each], call))
    inner = _blocks(holder)
    if not inner:
        return True
    always = isinstance(holder, ast.With | ast.AsyncWith | ast.Try)
    around = inner[0]
    return always and _holds(around, call) and _follows_straight(around, call)


def _blocks(statement: ast.stmt) -> list[list[ast.stmt]]:
    """The blocks of a statement, its body first; [] for one that is its expressions alone."""
    handlers = [each.body for each in getattr(statement, "handlers", ())]
    cases = [each.body for each in getattr(statement, "cases", ())]
    own = [getattr(statement, name, []) for name in ("body", "orelse", "finalbody")]
    return [each for each in (*own, *handlers, *cases) if each]
