"""A documented mistake as a value: what a rule file says, field by field."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Literal, cast

from dtlint.record import NamedTuple
from dtlint.value import Plain

Outcome = Literal["launch-fails", "out-of-memory", "hangs", "wrong-result", "slower", "advice"]
Severity = Literal["error", "warning", "note"]
Looks = Literal["plan", "run", "tree"]
Stops = Literal["launch", "step", "run"]

WORST_FIRST: tuple[Severity, ...] = ("error", "warning", "note")

SEVERITIES: Mapping[Outcome, Severity] = {
    "launch-fails": "error",
    "out-of-memory": "error",
    "hangs": "error",
    "wrong-result": "error",
    "slower": "warning",
    "advice": "note",
}
"""How bad each outcome is, unless a team says otherwise."""

WASTES: Outcome = "slower"
"""The outcome of what only takes time or money."""

STOPS: Mapping[Outcome, Stops] = {
    "launch-fails": "launch",
    "out-of-memory": "step",
    "hangs": "run",
    "wrong-result": "run",
}
"""What an outcome brings to nothing, unless the rule says otherwise: the launch, the first step, or the whole run."""


class Verdict(NamedTuple):
    """One condition of a rule and what comes of it. `say` overrides the rule's sentence, `at` the settings at which it
    points.
    """

    when: str
    outcome: Outcome
    say: str = ""
    at: tuple[str, ...] = ()


class Each(NamedTuple):
    """`call in code.collectives`: the name by which expressions speak of a member, and the collection."""

    variable: str
    collection: str


class Cure(NamedTuple):
    """What to change: expressions by setting, or a text where no setting of the plan expresses it. `when` is "" for
    always. `by_hand`: more has to be written than the settings say, so that there are no edits. `edit` names the
    member's edit that does what the text says, where the code is plain enough to have one.
    """

    set: Mapping[str, str]
    text: str = ""
    when: str = ""
    changes_training: bool = False
    say: str = ""
    by_hand: bool = False
    edit: str = ""


class Formula(NamedTuple):
    """A formula with holes for the plan's numbers, shown where `when` holds ("" for always)."""

    say: str
    when: str = ""


class Found(NamedTuple):
    """A finding that an example must have: the file ("" for the only one) and line; 0 for any line."""

    line: int
    file: str = ""


class Example(NamedTuple):
    """Files by name that have (`finds`) or do not have (empty `finds`) the mistake; `set` is what a user states
    beside them, `also` names other rules that find something in a good one.
    """

    kind: Literal["bad", "good"]
    files: Mapping[str, str]
    set: Mapping[str, Plain]
    finds: tuple[Found, ...] = ()
    also: tuple[str, ...] = ()


class Page(NamedTuple):
    """What is there to read about a rule; a check needs none of it."""

    why: str = ""
    fine_when: str = ""
    sources: tuple[str, ...] = ()
    examples: tuple[Example, ...] = ()


class Judged(NamedTuple):
    """How many findings of a rule people have judged in repositories that were new to dtlint, and how many were right
    (docs/precision.md).
    """

    right: int
    of: int


class Rule(NamedTuple):
    """One documented mistake. Expressions and sentences are texts here; `check` compiles those that it needs.
    `stock`: what it says is true of the framework's releases, and a fork may do otherwise. `first`: what it finds stops
    a run before anything else of its plan counts. `judged` is None for a rule of a team.

    `at` are the settings it points at, first written first. `cost` gives `seconds_per_step` or `memory_bytes` as
    expressions, `share` the share of a step where no estimate is possible. `path` is the rule's file. `page` gives what
    is there to read about it, which is loaded when it is asked for.
    """

    id: str
    name: str
    family: str
    summary: str
    scope: Looks
    verdicts: tuple[Verdict, ...]
    say: str
    applies: str = ""
    limits: Mapping[str, float] = {}
    at: tuple[str, ...] = ()
    each: Each | None = None
    share: str = ""
    stops: Stops | None = None
    cost: Mapping[str, str] = {}
    cures: tuple[Cure, ...] = ()
    formulas: tuple[Formula, ...] = ()
    ignorable: bool = True
    stock: bool = False
    first: bool = False
    judged: Judged | None = None
    path: str = ""
    page: Callable[[], Page] = Page

    @property
    def why(self) -> str:
        """The mechanism, and the formula."""
        return self.page().why

    @property
    def fine_when(self) -> str:
        """When the same setting is right."""
        return self.page().fine_when

    @property
    def sources(self) -> tuple[str, ...]:
        """Keys of rules/sources.yaml."""
        return self.page().sources

    @property
    def examples(self) -> tuple[Example, ...]:
        """Files that have the mistake, and files that do not."""
        return self.page().examples


class RuleError(ValueError):
    """A rule file that cannot be used: where (line and column from 1) and why. `excerpt` is an expression at fault with
    a mark under the place, "" if it is none.
    """

    def __init__(self, path: str, line: int, column: int, message: str, excerpt: str = "") -> None:
        super().__init__(f"{path}:{line}:{column}: {message}")
        self.path = path
        self.line = line
        self.column = column
        self.message = message
        self.excerpt = excerpt


Data = Mapping[str, object]
"""A rule file as YAML reads it."""


PAGE = frozenset(Page._fields)
"""The parts of a rule file that `page_of` reads."""


def page_of(data: Data) -> Page:
    """What a rule file has for people to read."""
    examples = tuple(_example(entry) for entry in _entries(data, "examples"))
    return Page(_text(data, "why"), _text(data, "fine_when"), _words(data.get("sources")), examples)


def rule_of(data: Data, family: str, path: str, page: Callable[[], Page] | None = None) -> Rule:
    """The rule that a file of the form of rule.schema.json states; without `page` the file has that too."""
    return Rule(
        id=_text(data, "id"),
        name=_text(data, "name"),
        family=family,
        summary=_text(data, "summary"),
        scope=cast("Looks", data.get("scope", "plan")),
        verdicts=_verdicts(data),
        say=_text(data, "say"),
        applies=_expression(data.get("applies")),
        limits=cast("Mapping[str, float]", data.get("limits", {})),
        at=_words(data.get("at")),
        each=_each(_text(data, "each")),
        share=_expression(data.get("share")),
        stops=cast("Stops | None", data.get("stops")),
        cost={part: _expression(text) for part, text in _table(data, "cost").items()},
        cures=tuple(_cure(entry) for entry in _entries(data, "remedies")),
        formulas=_formulas(data.get("formula", ())),
        ignorable=bool(data.get("ignorable", True)),
        stock=bool(data.get("stock", False)),
        first=bool(data.get("first", False)),
        judged=_judged(_table(data, "judged")),
        path=path,
        page=page or partial(page_of, data),
    )


def _judged(counts: Data) -> Judged | None:
    return Judged(cast("int", counts["right"]), cast("int", counts["of"])) if counts else None


def _verdicts(data: Data) -> tuple[Verdict, ...]:
    outcome, when = data.get("outcome", "advice"), data.get("when", True)
    if isinstance(when, list):
        return tuple(_verdict(entry, outcome) for entry in cast("Sequence[Data]", when))
    return (Verdict(_expression(when), cast("Outcome", outcome)),)


def _verdict(entry: Data, otherwise: object) -> Verdict:
    outcome = entry.get("outcome", otherwise)
    at = _words(entry.get("at"))
    return Verdict(_expression(entry.get("when", True)), cast("Outcome", outcome), _text(entry, "say"), at)


def _formulas(stated: object) -> tuple[Formula, ...]:
    if isinstance(stated, str):
        return (Formula(stated.strip()),)
    entries = cast("Sequence[Data]", stated)
    return tuple(Formula(_text(entry, "say"), _expression(entry.get("when", True))) for entry in entries)


def _cure(entry: Data) -> Cure:
    changes = {name: _expression(value) for name, value in _table(entry, "set").items()}
    return Cure(
        changes,
        _text(entry, "text"),
        _expression(entry.get("when")),
        bool(entry.get("changes_training", False)),
        _text(entry, "say"),
        bool(entry.get("by_hand", False)),
        _text(entry, "edit"),
    )


def _example(entry: Data) -> Example:
    kind: Literal["bad", "good"] = "bad" if "bad" in entry else "good"
    content = entry[kind]
    if isinstance(content, str):
        files = {_text(entry, "file") or guessed_name(content): content}
    else:
        files = dict(cast("Mapping[str, str]", entry.get("files", {})))
    finds = tuple(Found(cast("int", found.get("line", 0)), _text(found, "file")) for found in _entries(entry, "finds"))
    settings = cast("Mapping[str, Plain]", entry.get("set", {}))
    found = finds or ((Found(0),) if kind == "bad" else ())
    return Example(kind, files, settings, found, _words(entry.get("also")))


def guessed_name(content: str) -> str:
    """The file name for an example's only text, by how it begins."""
    start = content.lstrip()
    if start.startswith("{"):
        return "ds_config.json"
    if start.startswith(("import ", "from ", '"""', "def ", "with ", "model", "dist.")):
        return "train.py"
    first = start.split("\n", 1)[0]
    if ":" in first and not first.startswith("#") and " " not in first.split(":", 1)[0]:
        return "config.yaml"
    return "config.toml" if first.startswith("[") else "launch.sh"


def _each(text: str) -> Each | None:
    variable, _, collection = text.partition(" in ")
    return Each(variable.strip(), collection.strip()) if collection else None


def _expression(value: object) -> str:
    """An expression; YAML reads `true`, `none` and numbers as values of their own."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return "" if value is None else str(value).strip()


def _text(data: Data, key: str) -> str:
    found = data.get(key, "")
    return found.strip() if isinstance(found, str) else ""


def _words(value: object) -> tuple[str, ...]:
    if value is None:
        return ()
    return (value,) if isinstance(value, str) else tuple(cast("Sequence[str]", value))


def _table(data: Data, key: str) -> Data:
    return cast("Data", data.get(key, {}))


def _entries(data: Data, key: str) -> Sequence[Data]:
    return cast("Sequence[Data]", data.get(key, ()))
