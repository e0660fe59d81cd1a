"""Names the branches of undecided conditions for people: `$SIZE = 7b`."""

from __future__ import annotations

import re
from collections.abc import Sequence

from dtlint.languages.shell.syntax import AndOr, Node, WordSyntax
from dtlint.languages.shell.syntax import Sequence as SequenceNode

MAX_LABEL = 80
OPENING = re.compile(r"(?:\[\[?|test|\(\()\s+")
CLOSING = ("]]", "]", "))")
QUOTED = re.compile(r"\"([^\"\s]*)\"|'([^'\s]*)'")
BRACED = re.compile(r"\$\{(\w+)(?::?-)?\}")


def _plain(text: str) -> str:
    text = QUOTED.sub(lambda match: match[1] or match[2] or "''", " ".join(text.split()))
    text = BRACED.sub(r"$\1", text).replace(" == ", " = ")
    return text if len(text) <= MAX_LABEL else text[: MAX_LABEL - 3] + "..."


def condition_label(node: Node) -> str:
    """A condition as people would say it: without the brackets of a single test, with those of several."""
    text = node.span.text.strip().rstrip(";")
    test = node.items[0] if isinstance(node, SequenceNode) and len(node.items) == 1 else node
    return _plain(text if isinstance(test, AndOr) else _without_brackets(_without_brackets(text)))


def _without_brackets(text: str) -> str:
    text = text.strip()
    opening = OPENING.match(text)
    text = text[opening.end() :] if opening is not None else text
    bare = text.removesuffix(";").rstrip()
    closing = next((bracket for bracket in CLOSING if bare.endswith(bracket)), None)
    return text if closing is None else bare.removesuffix(closing)


def arm_label(subject: WordSyntax, patterns: Sequence[WordSyntax]) -> str:
    """An arm of a case."""
    choices = " or ".join(pattern.span.text for pattern in patterns)
    return _plain(f"{subject.span.text} = {choices}")


def otherwise_label(labels: Sequence[str]) -> str:
    """The condition under which none of `labels` holds."""
    if len(labels) == 1:
        return f"not ({labels[0]})"
    return _plain("none of: " + ", ".join(labels)) if labels else "always"
