"""The pages in docs/ and the README: their links lead somewhere, and the commands that they show exist."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from dtlint.cli_commands import commands

ROOT = Path(__file__).parent.parent
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
LINK = re.compile(r"\[[^\]]*\]\((?!https?:|#|mailto:)([^)#\s]+)(?:#[^)]*)?\)")
BLOCK = re.compile(r"^```(?:sh|console|bash)\n(.*?)^```", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    targets = LINK.findall(re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL))
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_and_options_exist(page: Path) -> None:
    lines = [line for block in BLOCK.findall(page.read_text()) for line in block.replace("\\\n", " ").splitlines()]
    shown = [shlex.split(line, comments=True) for line in lines if line.lstrip("$ ").startswith("dtlint ")]
    assert [words for words in shown if not is_known([word for word in words if word != "$"])] == []


def is_known(words: list[str]) -> bool:
    """Whether the command exists and takes these options."""
    command = commands.commands.get(words[1], commands)
    known = {name for each in command.params if isinstance(each, click.Option) for name in each.opts}
    own = words[1 : words.index("--")] if "--" in words else words[1:]
    options = {word.partition("=")[0] for word in own if word.startswith("--")}
    return options <= known | {"--help", "--version"}
