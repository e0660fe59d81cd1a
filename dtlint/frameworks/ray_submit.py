"""Commands that submit a job to a Ray cluster: what of the shell's environment its processes see."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from dtlint.frameworks.interpreter import program_name
from dtlint.languages.traced import Command, Word

_JSON = "--runtime-env-json"
_FILE = "--runtime-env"
_VARIABLES = re.compile(r'"env_vars"\s{0,40}:\s{0,40}\{([^{}]{0,20000})\}')
_VARIABLE = re.compile(r'"([A-Za-z_]\w{0,100})"\s{0,40}:\s{0,40}"([^"]{0,2000})"')


def as_submitted(command: Command, before: Iterable[Command]) -> Command:
    """A command with the environment that its processes see: the job of `ray job submit` has that of the cluster, which
    one of the commands `before` may have started (Ray reads RAY_ADDRESS alone from the shell), and the variables of its
    runtime environment (https://docs.ray.io/en/latest/ray-core/handling-dependencies.html).
    """
    submitting = next((each for each in (*command.wrapper, command) if _says(each.argv, "ray", "job", "submit")), None)
    if submitting is None:
        return command
    cluster = next((each.env for each in before if _says(each.argv, "ray", "start")), {})
    options = _options(submitting.argv)
    text = options.get(_JSON)
    own = _variables(text) if text is not None else {}
    hidden = _FILE in options or (text is not None and "?" in text.shown and not own)
    sourced = "the job's runtime environment" if hidden else command.sourced
    return command._replace(env={**cluster, **own}, sourced=sourced)


def _says(words: Sequence[Word], *wanted: str) -> bool:
    """Whether a command names a program and its subcommands, be it behind others that start it."""
    ends = (index + 1 for index, word in enumerate(words) if word.text == wanted[-1])
    first = (end - len(wanted) for end in ends if end >= len(wanted))
    return any(tuple(map(program_name, words[at : at + len(wanted)])) == wanted for at in first)


def _options(words: Sequence[Word]) -> Mapping[str, Word]:
    """The options of a submission before its own command, each with its value."""
    end = next((index for index, word in enumerate(words) if word.text == "--"), len(words))
    found: dict[str, Word] = {}
    for word, after in pairwise(words[: end + 1]):
        head, equals, _ = word.shown.partition("=")
        if head in (_JSON, _FILE):
            found[head] = word.part(len(head) + 1) if equals else after
    return found


def _variables(text: Word) -> Mapping[str, Word]:
    """The variables of a runtime environment that is written as JSON; those that a file or another form holds are not
    read.
    """
    found = _VARIABLES.search(text.shown)
    inside = () if found is None else _VARIABLE.finditer(text.shown, *found.span(1))
    return {each[1]: text.part(*each.span(2)) for each in inside}
