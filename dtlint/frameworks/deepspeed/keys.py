"""The keys of a DeepSpeed config against the catalog's table: unknown, removed, without effect, of the wrong type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from itertools import groupby

from dtlint.catalog import DeepSpeedKey, deepspeed_keys
from dtlint.catalog.packages import in_doubt
from dtlint.frameworks import Member
from dtlint.frameworks.arguments import texts
from dtlint.frameworks.deepspeed.inert import misplacement, weighed
from dtlint.frameworks.deepspeed.names import home, nearest, written_out
from dtlint.frameworks.deepspeed.refusals import Written, forbidden_by, refused_together
from dtlint.frameworks.deepspeed.types import Defect, defect, is_checked
from dtlint.frameworks.deepspeed.values import is_auto, whole_number
from dtlint.frameworks.renamed import without_doubled
from dtlint.languages.json_tree import Entry, Node, member, setting
from dtlint.record import NamedTuple
from dtlint.release import older, releases
from dtlint.source import Span
from dtlint.value import Setting, Value, written

MAX_DEPTH = 6
"""Deepest section that is looked into; DeepSpeed's own go to 4."""


class Placed(NamedTuple):
    """A key as written: `section` is the dotted path of the object that holds it, `known` its row of the table.

    `free` keys stand in a section whose content DeepSpeed hands on (`optimizer.params`).
    """

    section: str
    entry: Entry
    known: DeepSpeedKey | None
    free: bool = False

    @property
    def path(self) -> str:
        """The dotted path under the name that DeepSpeed uses (`stage3_` in front where it may be left out)."""
        name = self.known.name if self.known is not None else self.entry.key
        return f"{self.section}.{name}" if self.section else name


def collections(root: Node) -> Mapping[str, tuple[Member, ...]]:
    """What there is to say about the keys of a config, for rules to look at one by one; empty collections left out.

    Fields: `key` (as written), `section` ("" at the top level), and
    config.keys: `path` (dotted, canonical), `value`, of a list whose parts are known `items`;
    config.unknown: `effect` (refused, ignored; checked: refused from release `since` on), `suggestion`, `belongs` (the
    section that has a key of this name), `forbidden` (beside which the suggestion is refused); keys
    of one section that stand in a row are one member;
    config.removed: `first` and `last` release that has it, `instead`, `effect`;
    config.inert: `reason`, `matters` and `others` (deepspeed_inert.py);
    config.invalid: `expected`, `effect` (refused, misread), `since` where earlier releases take it, `earlier` what they
    do with it, `doubt` whether a run without any pin may have one;
    config.auto: `filled` (whether a front end fills it), `default` (what DeepSpeed takes alone, "" if it refuses);
    config.newer: `first` release that has it, `effect` in earlier ones (refused, ignored), `of` (whose releases, "" for
    those of the framework);
    config.absent: the config itself, where it lacks a key that DeepSpeed cannot do without.
    """
    keys = list(_walk(root, "", 0))
    found = {
        "config.keys": [_listed(key) for key in keys if key.known is not None or key.free],
        "config.unknown": list(_unknown_keys(_strange(keys), _written(root, keys))),
        "config.removed": list(_old_names(keys)),
        "config.inert": weighed(list(_inert(root, keys))),
        "launch.debugging": list(_debugging(keys)),
        "config.invalid": [*_refused_values(root, keys), *_twice_named(keys)],
        "config.auto": [_auto(key) for key in keys if _wants_filler(key)],
        "config.newer": [_newer(key) for key in keys if key.known is not None and key.known.first],
        "config.absent": list(_without_batch(root)),
    }
    return {name: tuple(members) for name, members in found.items() if members}


def stage_of(root: Node) -> int | None:
    """The ZeRO stage that the file sets, 0 if it sets none, None if it is not known or only assumed."""
    section = member(root, "zero_optimization")
    if section is not None and section.kind == "bool":
        return int(bool(section.value))
    node = member(section, "stage")
    if node is None:
        return 0 if section is None or section.hidden is None else None
    stage = whole_number(node)
    if not isinstance(stage, Value) or stage.origin.kind == "assumed":
        return None
    return stage.value if isinstance(stage.value, int) else None


def known_at_top(keys: Iterable[str]) -> int:
    """How many of these keys DeepSpeed has, or had, at the top of its config."""
    return sum(("", key) in _table() for key in keys)


def inert(root: Node, path: str) -> str:
    """Why the key at a dotted path has no effect at the file's stage; "" if it may have one."""
    return _without_effect(stage_of(root), path)


def _without_effect(stage: int | None, path: str) -> str:
    """The same at a stage, None where that is not known."""
    parts = path.split(".")
    for length in range(1, len(parts) + 1):
        row = _table().get((".".join(parts[: length - 1]), parts[length - 1]))
        if row is not None and row.reach == "nowhere":
            return "nothing in DeepSpeed reads it"
        if row is not None and row.reach == "stage 3" and stage is not None and stage < 3:
            return f"it works at ZeRO stage 3 only, and the stage is {stage}"
    return ""


@cache
def _table() -> Mapping[tuple[str, str], DeepSpeedKey]:
    return {(row.section, row.name): row for row in deepspeed_keys()}


def _row(section: str, name: str) -> DeepSpeedKey | None:
    """A key's row; stage-3 keys may be written without their prefix."""
    row = _table().get((section, name))
    if row is None and section == "zero_optimization":
        return _table().get((section, f"stage3_{name}"))
    return row


def _walk(node: Node, section: str, depth: int) -> Iterator[Placed]:
    """All keys of the sections that the table knows, the outer ones first."""
    for entry in node.entries:
        row = _row(section, entry.key)
        yield Placed(section, entry, row)
        if row is None or entry.node.kind != "object" or depth >= MAX_DEPTH or _is_overruled(node, row):
            continue
        path = f"{section}.{_section_name(row)}" if section else _section_name(row)
        inside = (
            _walk_free(entry.node, path, depth + 1)
            if row.type == "free section"
            else _walk(entry.node, path, depth + 1)
        )
        yield from inside


def _section_name(row: DeepSpeedKey) -> str:
    """The name under which the table has the keys of a section: that of another spelling (bfloat16) is the first."""
    return row.instead if row.instead and not row.last else row.name


def _is_overruled(node: Node, row: DeepSpeedKey) -> bool:
    """Whether DeepSpeed does not look into a section, because it stands there under its other name too."""
    other = member(node, _section_name(row))
    return _section_name(row) != row.name and other is not None and other.kind != "null"


def _walk_free(node: Node, section: str, depth: int) -> Iterator[Placed]:
    for entry in node.entries:
        yield Placed(section, entry, None, free=True)
        if depth < MAX_DEPTH:
            yield from _walk_free(entry.node, f"{section}.{entry.key}", depth + 1)


def _member(key: Placed, fields: Mapping[str, Setting], **words: str) -> Member:
    place = key.entry.place
    return Member(place, {**texts(place, key=key.entry.key, section=key.section, **words), **fields})


def _listed(key: Placed) -> Member:
    items = [setting(item) for item in key.entry.node.items]
    known_items = tuple(item.value for item in items if isinstance(item, Value))
    told = {"items": written(known_items, key.entry.place)} if items and len(known_items) == len(items) else {}
    return _member(key, {"value": setting(key.entry.node), **told}, path=key.path)


def _is_unknown(key: Placed) -> bool:
    """Not in the table, and no comment (a key that starts like one) where DeepSpeed lets comments be."""
    if key.known is not None or key.free or key.entry.key.startswith(("$", "\ue000")):
        return False
    return _is_strict(key.section) or not key.entry.key.startswith(("_", "/", "#"))


def _misplaced(key: Placed) -> str:
    """Where DeepSpeed has a key that it ignores here, as a dotted path; "" if it has none of that name."""
    return home(key.entry.key) if _is_unknown(key) and not _is_strict(key.section) else ""


def _is_strict(section: str) -> bool:
    """Whether DeepSpeed refuses what it does not know in a section."""
    row = _row_of_section(section)
    return row is not None and row.type == "strict section"


def _strange(keys: list[Placed]) -> list[Placed]:
    return [key for key in keys if _is_unknown(key) and not _misplaced(key)]


def _unknown_keys(keys: list[Placed], written: Written) -> Iterator[Member]:
    """A member for each key, one for all that a section refuses and that resemble nothing it has: one copied block."""
    for section, group in groupby(keys, key=lambda key: key.section):
        members = [_unknown(key, written) for key in group]
        strange = [found for found in members if _says(found, "suggestion") == "" and _is_strict(section)]
        yield from (found for found in members if found not in strange)
        if strange:
            yield _block(strange, section)


def _block(members: list[Member], section: str) -> Member:
    """Several unknown keys as one member, at the first."""
    first, *others = members
    if not others:
        return first
    names = "', '".join(_says(found, "key") for found in members)
    homes = [_says(found, "belongs") for found in members]
    belongs = ", ".join(homes) if all(homes) else ""
    told = texts(first.place, key=names, section=section, belongs=belongs, several="yes")
    return Member(first.place, {**first.fields, **told}, tuple((found.place, "unknown too") for found in others))


def _says(found: Member, field: str) -> str:
    value = found.fields[field]
    return str(value.value) if isinstance(value, Value) else ""


def _row_of_section(section: str) -> DeepSpeedKey | None:
    holder, _, name = section.rpartition(".")
    return _table().get((holder, name))


def _unknown(key: Placed, written: Written) -> Member:
    row = _row_of_section(key.section)
    since = row.checked if row is not None else ""
    looks = "checked" if since and in_doubt("deepspeed", since) else "refused"
    near = _meant(key)
    forbidden = forbidden_by(written, f"{key.section}.{near}", key.entry.node) if near and key.section else ""
    told = {"effect": looks if _is_strict(key.section) else "ignored", "since": since, "forbidden": forbidden}
    belongs = "" if near else home(key.entry.key) or written_out(key.entry.key, key.section)
    return _member(key, {}, suggestion=near, belongs=belongs, **told)


def _meant(key: Placed) -> str:
    """The known key that a misspelt one is likely meant to be; of a section, one that has some of its keys."""
    near, inner = nearest(key.entry.key, key.section), key.entry.node.entries
    path = f"{key.section}.{near}".lstrip(".")
    fits = not inner or any((path, entry.key) in _table() for entry in inner)
    return near if fits else ""


def _old_names(keys: list[Placed]) -> Iterator[Member]:
    """Keys that newer releases lack, but for those that they ignore beside the new names."""
    gone = (_removed(key) for key in keys if key.known is not None and key.known.last)
    return without_doubled(gone, {(key.section, key.entry.key) for key in keys})


def _removed(key: Placed) -> Member:
    row = key.known
    assert row is not None
    strict = key.section in ("", "zero_optimization")
    effect = "ignored" if row.instead or not strict else "refused"
    return _member(key, {}, first=row.first, last=row.last, instead=row.instead, effect=effect, of="")


def _newer(key: Placed) -> Member:
    row = key.known
    assert row is not None
    return _member(key, {}, first=row.first, effect="refused" if _is_strict(key.section) else "ignored", of="")


_BATCH_KEYS = ("train_batch_size", "train_micro_batch_size_per_gpu")


def _without_batch(root: Node) -> Iterator[Member]:
    """The config, if neither its global nor its micro batch is written and none can be hidden."""
    written = [node for key in _BATCH_KEYS if (node := member(root, key)) is not None and node.kind != "null"]
    if not written and root.hidden is None:
        yield Member(root.span, texts(root.span, key=" or ".join(_BATCH_KEYS), section=""))


def _inert(root: Node, keys: list[Placed]) -> Iterator[Member]:
    """Keys without effect; of a section that has none, the section alone."""
    dead: list[str] = []
    stage = None if _serves_several(root) else stage_of(root)
    for key in keys:
        if any(key.path.startswith(f"{path}.") for path in dead):
            continue
        reason = _without_effect(stage, key.path)
        if reason:
            dead.append(key.path)
        if reason and not _is_off(key.entry.node):
            yield _member(key, {}, reason=reason)
    yield from _nvme_below_stage_3(root, keys)
    for key in keys:
        home = _misplaced(key)
        if home and not _is_off(key.entry.node):
            yield _member(key, {}, reason=misplacement(home, key.entry.node, root))


def _serves_several(root: Node) -> bool:
    """Whether another text than the config's own tells the stage: a function that builds it for whoever asks."""
    node = member(member(root, "zero_optimization"), "stage")
    told = node.told if node is not None else None
    return isinstance(told, Value) and told.origin.span is not None and told.origin.span.source is not root.span.source


_DEBUGGING: Mapping[str, tuple[str, str]] = {
    "wall_clock_breakdown": ("logs", "the GPU is waited for after every phase of a step"),
    "memory_breakdown": ("logs", "the GPU is waited for to read its memory"),
    "comms_logger.enabled": ("blocks", "the GPU is waited for after every collective, which ends their overlap"),
    "flops_profiler.enabled": ("logs", "the step that is profiled is slow"),
}
"""Switches for measuring: whether they block every step or cost little, and what they do."""


def _debugging(keys: list[Placed]) -> Iterator[Member]:
    for key in keys:
        effect, reason = _DEBUGGING.get(key.path, ("", ""))
        if effect and key.entry.node.value is True:
            yield _member(key, {}, name=key.path, value="true", effect=effect, reason=reason)
        elif key.path == "comms_logger" and _is_left_off(key.entry.node):
            effect, reason = _DEBUGGING["comms_logger.enabled"]
            yield _member(key, {}, name=key.path, value="present", effect=effect, reason=f"{reason}; {_BY_PRESENCE}")


_BY_PRESENCE = "the section alone turns it on, whatever enabled says"
"""comm/config.py and utils/comms_logging.py: the logger is on where the config has its section."""


def _is_left_off(section: Node) -> bool:
    node = member(section, "enabled")
    return section.kind == "object" and (node is None or node.value is not True)


def _is_off(node: Node) -> bool:
    """A section whose device is none, or left to a front end to fill, or a switch that is off, asks for nothing; of a
    device that is not known nobody knows what it asks for.
    """
    device = member(node, "device")
    if device is not None:
        return device.kind in ("bare", "unknown") or device.value == "none" or is_auto(device)
    return node.value in (False, "none", None) and node.kind != "object"


def _nvme_below_stage_3(root: Node, keys: list[Placed]) -> Iterator[Member]:
    stage = stage_of(root)
    for key in keys:
        if (
            key.path == "zero_optimization.offload_optimizer.device"
            and key.entry.node.value == "nvme"
            and stage in (1, 2)
        ):
            yield _member(key, {}, reason=f"at stage {stage} the optimizer goes to main memory, as with cpu")


def _refused_values(root: Node, keys: list[Placed]) -> Iterator[Member]:
    """The values that their keys do not take, and those that they do not take beside others; each key once."""
    alone = list(_invalid(keys))
    yield from alone
    told = {(_says(found, "section"), _says(found, "key")) for found in alone}
    for found in refused_together(_written(root, keys)):
        if (_says(found, "section"), _says(found, "key")) not in told:
            yield _dated(found, _says(found, "since") if "since" in found.fields else "", _NOT_LOOKED_AT)


_NOT_LOOKED_AT = "do not look"
"""What releases do with a value in a section whose values they do not check."""


def _since_refused(found: Member, of_value: Defect) -> Member:
    """A member with the release from which on DeepSpeed refuses its value, if that is not all: the one that checks the
    types of its section, or a later one that takes less.
    """
    row = _row_of_section(_says(found, "section"))
    checked = row.checked if row is not None else ""
    one, other = releases(checked), releases(of_value.since)
    if of_value.since and (not checked or (one is not None and other is not None and older(one, other))):
        return _dated(found, of_value.since, of_value.earlier)
    return _dated(found, checked, _NOT_LOOKED_AT)


def _dated(found: Member, since: str, earlier: str) -> Member:
    """A member with the release from which on DeepSpeed refuses it, "" for all, what earlier ones do, and whether a run
    without any pin may have one of these. What it refuses together has a date of its own: bf16 beside fp16 was refused
    long before the types of either section were checked.
    """
    if not since:
        return found
    doubt = "yes" if in_doubt("deepspeed", since) else "no"
    return found._replace(fields={**found.fields, **texts(found.place, since=since, earlier=earlier, doubt=doubt)})


def _invalid(keys: list[Placed]) -> Iterator[Member]:
    for key in keys:
        if key.known is None:
            continue
        found = defect(key.known, key.entry.node)
        if found is not None:
            value = {"value": setting(key.entry.node)}
            yield _since_refused(_member(key, value, expected=found.expected, effect=found.effect), found)


def _written(root: Node, keys: list[Placed]) -> Written:
    """What the file says, for the table of what is refused together; `"zero_optimization": true` means stage 1."""
    nodes = {key.path: key.entry.node for key in keys}
    section = nodes.get("zero_optimization")
    if section is not None and section.kind == "bool":
        nodes["zero_optimization.stage"] = section
    return Written(nodes, _table(), any(node.hidden is not None for node in (root, *nodes.values())))


def _twice_named(keys: list[Placed]) -> Iterator[Member]:
    """A key under its old and its new name, or with and without its prefix."""
    first: dict[str, Span] = {}
    for key in keys:
        if key.known is None or not is_checked(key.section):
            continue
        name = f"{key.section}.{key.known.instead or key.known.name}"
        other = first.setdefault(name, key.entry.place)
        if other is not key.entry.place and other.text != key.entry.place.text:
            fields = texts(key.entry.place, key=key.entry.key, section=key.section)
            words = texts(key.entry.place, expected=f"one of the names of {name}", effect="refused")
            yield Member(key.entry.place, {**fields, **words}, ((other, "the other name"),))


def _wants_filler(key: Placed) -> bool:
    return is_auto(key.entry.node) and (key.known is None or key.known.auto != "own")


_REFUSED_AUTO = frozenset(
    {"train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps", "gradient_clipping"}
)


def _auto(key: Placed) -> Member:
    refused = key.free or key.path in _REFUSED_AUTO or _is_whole_section(key)
    default = "" if refused or key.known is None else key.known.default
    filled = "yes" if key.free or (key.known is not None and key.known.auto == "yes") else "no"
    return _member(key, {}, path=key.path, filled=filled, default=default)


def _is_whole_section(key: Placed) -> bool:
    """Whether the word stands for a section of the top level, where DeepSpeed does not drop it."""
    return key.section == "" and key.known is not None and key.known.type.endswith("section")
