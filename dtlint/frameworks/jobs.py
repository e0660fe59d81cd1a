"""Jobs that an orchestrator starts: the commands, what their environment holds, and the machines that they run on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from dtlint.frameworks import Member, Reading
from dtlint.languages.json_tree import Document, Node, member, setting
from dtlint.languages.shell.text import Text, literal, unknown
from dtlint.languages.traced import Piece
from dtlint.languages.yaml_text import text_of
from dtlint.record import NamedTuple
from dtlint.source import Span
from dtlint.value import Choice, Origin, Setting, Unknown, Value


class Job(NamedTuple):
    """What one kind of machine of a job runs, in the words of a shell.

    `words` are the arguments of the script, `variables` its environment, `files` the texts that stand at a path on the
    machine, `before` a script that has run there in a shell of its own. `reading` tells of the machines. `hosts` is
    the host file that the orchestrator writes for mpirun.
    """

    script: Text
    reading: Reading
    words: tuple[Text, ...] = ()
    variables: Mapping[str, Text] = {}
    files: Mapping[str, Text] = {}
    hosts: Text = ()
    before: Text = ()


def known_keys(document: Document) -> frozenset[str]:
    """The keys of a document's top level."""
    return frozenset(found.key for found in document.root.entries) if document.root is not None else frozenset()


def string(node: Node | None, *path: str) -> str:
    """The text that a path leads to, "" where there is none or a template fills it in."""
    found = member(node, *path)
    return str(found.value) if found is not None and found.kind == "string" else ""


def items(node: Node | None, *path: str) -> tuple[Node, ...]:
    """The items of the list that a path leads to."""
    found = member(node, *path)
    return found.items if found is not None else ()


def count(node: Node | None, otherwise: int | None, place: Span, tool: str) -> Setting:
    """A number of machines, processes or devices, written as a number or as text; `otherwise` is what `tool` takes
    where none is written.
    """
    if node is None or node.kind == "null":
        if otherwise is None:
            return Unknown("no number is written", "", Origin("written", place))
        return Value(otherwise, Origin("default", None, note=tool))
    if node.kind == "string" and str(node.value).isdecimal() and len(str(node.value)) < 10:
        return setting(node, int(str(node.value)))
    found = setting(node)
    if isinstance(found, Value) and (type(found.value) is not int or found.value < 0):
        return Unknown(f"{found.value} is no number of them", "", found.origin)
    return found


def number(value: Setting) -> int | None:
    """The number that a setting is, None where it is not known."""
    return value.value if isinstance(value, Value) and type(value.value) is int else None


def combined(values: Sequence[Setting], total: int) -> Setting:
    """A number made of several: at the place of the last one that is written; unknown where one of them is."""
    missing = next((value for value in values if not isinstance(value, Value)), None)
    if missing is not None:
        return missing if isinstance(missing, Unknown) else Unknown("it depends on a condition")
    if not values:
        return Unknown("no number is written")
    known = [value for value in values if isinstance(value, Value)]
    told = [value for value in known if value.origin.kind == "written"]
    return (told or known)[-1]._replace(value=total)


def summed(values: Sequence[Setting]) -> Setting:
    """The sum of numbers."""
    return combined(values, sum(number(value) or 0 for value in values))


def text_of_setting(value: Setting, place: Span) -> Text:
    """A number or word as the text of a variable; `place` is where it is taken from if it is not written."""
    if isinstance(value, Value):
        span = value.origin.span or place._replace(end=place.start)
        return (Piece(str(value.value), span, value.origin.chain),)
    if isinstance(value, Choice):
        return unknown(place, "it depends on a condition")
    origin = value.origin.span if value.origin is not None else None
    return (Piece(None, origin or place, unknown=value.reason, how=value.how, means=value.means),)


def made(characters: str, place: Span) -> Text:
    """A text that the orchestrator makes up."""
    return literal(characters, place._replace(end=place.start))


def told_at_run(name: str, place: Span, means: str = "") -> Text:
    """A variable that has its value when the job runs, another one on every machine."""
    return unknown(place, f"{name} is told when the job runs", f"--env {name}=...", means)


def everywhere(value: Setting, place: Span) -> dict[str, tuple[Member, ...]]:
    """That every machine starts the same words, as a member of `launch.everywhere`: `nodes`."""
    origin = value.origin.span if isinstance(value, (Value, Unknown)) and value.origin is not None else None
    return {"launch.everywhere": (Member(origin or place, {"nodes": value}),)}


def texts(nodes: Iterable[Node]) -> tuple[Text, ...]:
    """The texts of a list's scalars."""
    return tuple(text_of(node) for node in nodes)
