"""Values of lists and dicts, as they are written and as statements add to them, and of their items."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from dtlint.languages.python.arithmetic import Known, as_sure_as, computed, written
from dtlint.languages.python.bindings import dotted
from dtlint.languages.python.choices import LEFT_OUT, combined, joined, options, over, same
from dtlint.languages.python.command_words import word_of
from dtlint.languages.python.constants import evaluate, holds, is_symbol, live_ways, merged
from dtlint.languages.python.dicts import Passed, changed_on_the_way, is_changed, unpacked_dict
from dtlint.languages.python.documents import document_value
from dtlint.languages.python.grown import grown_items
from dtlint.languages.python.library import environment_value
from dtlint.languages.python.names import qualified
from dtlint.languages.python.objects import rest_argument
from dtlint.languages.python.places import Place, conditions_at, guard_text, unknown
from dtlint.languages.python.program import WORDS
from dtlint.languages.python.tree import Guard, Module
from dtlint.value import Choice, Option, Plain, Setting, Unknown, Value


def looked_up(place: Place, node: ast.Call) -> Setting | None:
    """`options.get("key", default)` of a dict that is written out; None for any other call."""
    if not isinstance(node.func, ast.Attribute) or node.func.attr not in ("get", "pop") or not 1 <= len(node.args) <= 2:
        return None
    key = evaluate(place.inner(node.args[0]))
    if not isinstance(key, Value) or not isinstance(key.value, str | int):
        return None
    if qualified(place.module, node.func, place.scope) == ("os.environ.get",):
        return None
    item = ast.copy_location(ast.Subscript(node.func.value, ast.Constant(key.value), ast.Load()), node)
    in_file = document_value(place.at(item), item, evaluate)
    if in_file is not None:
        return in_file
    items = unpacked_dict(place.inner(node.func.value))
    if items is None:
        return _unless_set(place, evaluate(place.inner(node.args[1])), key) if len(node.args) > 1 else None
    found = items.get(str(key.value), ())
    if found and not all(item.guards for item in found):
        return merged(place, found)
    default = evaluate(place.inner(node.args[1])) if len(node.args) > 1 else written(place, None)
    if not found:
        return default
    several = [
        *options(merged(place, found))[:-1],
        *(option._replace(guard="otherwise") for option in options(default)),
    ]
    return combined(place, several)


def _unless_set(place: Place, default: Setting, key: Value) -> Setting:
    """The default of a look-up in a configuration that the files do not tell: only assumed."""
    if not isinstance(default, Value):
        return default
    note = f"the configuration may set {key.value}"
    return default._replace(origin=default.origin._replace(kind="assumed", note=note))


def sequence(place: Place, node: ast.Tuple | ast.List) -> Setting:
    """A tuple, or a list with what statements add to it."""
    if isinstance(node, ast.Tuple):
        return over(place, [evaluate(place.inner(element)) for element in node.elts], lambda known: _row(place, known))
    items = grown_items(place)
    if items is None:
        return unknown(place, "the list is changed on the way")
    return over(place, [_item_under_conditions(item) for item in items], lambda known: _row(place, known))


def _item_under_conditions(item: Passed) -> Setting:
    """An item of a list, and LEFT_OUT where a condition around the statement that adds it fails."""
    value = evaluate(item.place)
    if not item.guards:
        return value
    verdicts = [holds(condition) for condition in conditions_at(item.place, item.guards)]
    left_out = Unknown(LEFT_OUT)
    if False in verdicts:
        return left_out
    guards = [guard for guard, verdict in zip(item.guards, verdicts, strict=True) if verdict is None]
    if not guards:
        return value
    condition = joined(*(guard_text(item.place.module, guard) for guard in guards))
    several = [Option(joined(condition, option.guard), option.value) for option in options(value)]
    return Choice((*several, Option(_denied(item.place.module, guards), left_out)))


def _denied(module: Module, guards: Sequence[Guard]) -> str:
    """The text of the opposite of conditions that hold together."""
    if len(guards) == 1:
        return guard_text(module, guards[0]._replace(holds=not guards[0].holds))
    return f"not ({' and '.join(guard_text(module, guard) for guard in guards)})"


def _row(place: Place, items: list[Known]) -> Known:
    there = [item for item in items if not isinstance(item, Unknown) or item.reason != LEFT_OUT]
    values = [item for item in there if isinstance(item, Value)]
    if len(values) < len(there):
        return unknown(place, "an item of it is not known")
    return computed(place, tuple(value.value for value in values), *values)


def subscript(place: Place, node: ast.Subscript) -> Setting:
    """An item of a dict or list that is written out, an environment variable, or a member of an enumeration by name."""
    names = qualified(place.module, node.value, place.scope)
    if names == ("os.environ",):
        return environment_value(place, evaluate(place.inner(node.slice)), None)
    in_file = document_value(place, node, evaluate)
    if in_file is not None:
        return in_file
    key = evaluate(place.inner(node.slice))
    if names == (WORDS,):
        return _passed_word(place.inner(node.value), key)
    if len(names) == 1 and any(_names_member(names[0], option) for option in options(key)):
        return combined(
            place, [Option(option.guard, _member(place, names[0], option.value)) for option in options(key)]
        )
    holder = place.inner(node.value)
    if isinstance(key, Value) and isinstance(key.value, str):
        items = unpacked_dict(holder)
        if items is not None and key.value in items:
            return _chosen_by(node, as_sure_as(merged(place, items[key.value]), key), key)
        told = rest_argument(place, node.value, key.value)
        if told is not None:
            return told
        if items is None and is_changed(holder):
            return unknown(place, f"{dotted(node.value)} is changed on the way")
    found = [
        Option(joined(condition, option.guard), _item(place, _as_written(holder, way.end), option.value))
        for way, condition in live_ways(holder)
        for option in options(key)
    ]
    return combined(place, found)


def _passed_word(place: Place, key: Setting) -> Setting:
    """`sys.argv[1]`: the word of the launch."""
    passed = word_of(place, key.value) if isinstance(key, Value) else None
    return passed or unknown(place, "a word of the command, which no launch here passes")


def _as_written(holder: Place, end: Place | Unknown) -> Place | Unknown:
    """A dict or list as it is written, unless something is done to it on the way."""
    if isinstance(end, Place) and changed_on_the_way(holder, end):
        return unknown(holder, f"{dotted(holder.node)} is changed on the way")
    return end


def _names_member(enumeration: str, option: Option) -> bool:
    return isinstance(option.value, Value) and is_symbol(f"{enumeration}.{option.value.value}")


def _member(place: Place, enumeration: str, key: Known) -> Known:
    """`ShardingStrategy["FULL_SHARD"]`: the member, with the origin of its name."""
    if isinstance(key, Unknown):
        return key._replace(means="")
    return Value(f"{enumeration}.{key.value}", key.origin)


def _item(place: Place, holder: Place | Unknown, key: Known) -> Known:
    if isinstance(holder, Unknown):
        return holder
    if isinstance(key, Unknown):
        return key._replace(means="")
    told = word_of(holder, key.value)
    if told is not None:
        return unknown(place, "it depends on a condition") if isinstance(told, Choice) else told
    for name, item in _items(holder):
        if same(name, key.value):
            value = evaluate(holder.inner(item))
            sure = _chosen_by(place.node, as_sure_as(value, key), key)
            return unknown(place, "it depends on a condition") if isinstance(sure, Choice) else sure
    return unknown(place, f"no item {key.value!r} is written out")


def _chosen_by(node: ast.AST, value: Setting, key: Value) -> Setting:
    """An item of a table (`DTYPES[args.dtype]`): it stands where the key was written that chooses it."""
    literal = isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant | ast.UnaryOp)
    if literal or not isinstance(value, Value) or key.origin.span is None:
        return value
    chain = tuple(dict.fromkeys((*value.origin.chain, *key.origin.chain)))
    return value._replace(origin=key.origin._replace(kind=value.origin.kind, note=value.origin.note, chain=chain))


def _items(holder: Place) -> Iterator[tuple[Plain, ast.expr]]:
    node = holder.node
    if isinstance(node, ast.Tuple | ast.List):
        yield from enumerate(node.elts)
    elif isinstance(node, ast.Call) and dotted(node.func) == "dict":
        yield from ((keyword.arg, keyword.value) for keyword in node.keywords if keyword.arg)
    elif isinstance(node, ast.Dict):
        for key, item in zip(node.keys, node.values, strict=True):
            value = evaluate(holder.inner(key)) if key is not None else None
            if isinstance(value, Value):
                yield value.value, item
