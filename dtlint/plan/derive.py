"""The value that a setting has where nothing states it: what follows from others, else what a front end or framework
takes by default.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dtlint.catalog import Default, defaults, in_time, package_of
from dtlint.plan.derived import RULES
from dtlint.release import releases
from dtlint.value import Choice, Unknown, Value, assumed, default

if TYPE_CHECKING:
    from dtlint.plan import Plan


def follow(plan: Plan, name: str) -> Value | Unknown | None:
    """The value of `name` that the front end fills in, or that follows from other settings, if any."""
    rule = RULES.get(name)
    if rule is None:
        return None
    return _filled_in(plan, name) or rule(plan)


def _filled_in(plan: Plan, name: str) -> Value | Unknown | None:
    """What a front end passes on where the user writes nothing: for the framework below it is as if written. What is
    written and not known is not the default.
    """
    if plan.setting(name) is not None or name in IDENTITY or name.startswith("version."):
        return None
    if plan.unread and _is_hidden(name):
        return None
    if _is_undecided(plan, name):
        return None
    frontend = plan.word("frontend") or "none"
    return None if frontend == "none" else _default_of(plan, name, frontend)


def _is_undecided(plan: Plan, name: str) -> bool:
    """Whether a setting is written with a value that is not known: then no default takes its place."""
    stated = plan.setting(name)
    return isinstance(stated, Choice) or (isinstance(stated, Unknown) and stated.reason != "auto")


def framework_default(plan: Plan, name: str) -> Value | Unknown | None:
    """What the front end or framework in charge takes when `name` is not written; None where neither is known.

    Assumed where the argument list is open; unknown where it depends on a version that no file tells.
    """
    if plan.unread and _is_hidden(name):
        return Unknown(plan.unread, f"--set {name}=...")
    return next((found for owner in _owners(plan, name) if (found := _default_of(plan, name, owner)) is not None), None)


def _default_of(plan: Plan, name: str, owner: str) -> Value | Unknown | None:
    entries = defaults(owner, name)
    if not entries:
        return None
    found = [entry for entry in entries if _in_use(plan, entry) and _holds(plan, entry)]
    return _one_default(plan, name, found) if found else None


def _in_use(plan: Plan, entry: Default) -> bool:
    """Whether a default is that of a version which the run can have."""
    return not (entry.since or entry.until) or in_time(entry, plan.word(f"version.{entry.package}") or "")


IDENTITY = ("frontend", "framework", "framework.version")
"""Settings that say who decides on defaults, so that no default decides on them."""

HIDDEN = ("sharding.", "batch.", "precision.", "optimizer.", "overlap.", "communication.bucket")
"""Settings that a config file holds: unknown, not at their default, when the file that is named could not be read."""


_OF_THE_TOOL = frozenset(("batch.remainder",))
"""Settings with these beginnings that no config file holds: how the tool itself goes about it."""


def _is_hidden(name: str) -> bool:
    return name.startswith(HIDDEN) and name not in _OF_THE_TOOL


def _owners(plan: Plan, name: str) -> tuple[str, ...]:
    """Who decides: the front end, then the framework; without a known framework only a front end that is known."""
    if name in IDENTITY or name.startswith("version."):
        return ("any",)
    frontend, framework = plan.word("frontend") or "none", plan.word("framework")
    if framework is None:
        return () if frontend == "none" else (frontend,)
    return (frontend, framework, "any")


def _holds(plan: Plan, entry: Default) -> bool:
    return all(plan.value(setting) in wanted for setting, wanted in entry.when.items())


def _one_default(plan: Plan, name: str, found: Sequence[Default]) -> Value | Unknown:
    """The first entry; unknown where entries of several versions are possible and disagree."""
    first = found[0]
    dated = next((entry for entry in found if entry.since or entry.until), None)
    if dated is not None and len({entry.value for entry in found}) > 1 and not _is_one(plan, dated):
        setting = (
            "framework.version"
            if package_of(plan.word("framework") or "") == dated.package
            else (f"version.{dated.package}")
        )
        return Unknown(f"the default of {name} depends on the version of {first.tool}", f"--set {setting}=...")
    if plan.open:
        return assumed(first.value, f"default of {first.tool}; {plan.open}", "write it down")
    return default(first.value, first.tool)


def _is_one(plan: Plan, entry: Default) -> bool:
    """Whether the version that decides on a default is one, not a range."""
    found = releases(plan.word(f"version.{entry.package}") or "")
    return found is not None and found.exact
