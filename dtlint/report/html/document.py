"""A page that fetches nothing: its head with the policy that forbids it, the style and the script inside."""

from __future__ import annotations

from base64 import b64encode
from functools import cache
from hashlib import sha256
from pathlib import Path

from dtlint import __version__
from dtlint.report.html.markup import Markup, element

_ASKED = '@media screen and (prefers-color-scheme: dark) { :root:not([data-theme="light"]) {'
_CHOSEN = '@media screen { :root[data-theme="dark"] {'


def document(title: str, style: str, body: Markup, script: str = "") -> str:
    """The page as a file has it; `script` is the one in the body, which alone may run."""
    page = element("html", _head(title, style, script), element("body", body), lang="en")
    return f"<!DOCTYPE html>\n{page}\n"


@cache
def text_of(file: str) -> Markup:
    """A file of this package: style or script."""
    return Markup(Path(__file__).with_name(file).read_text(encoding="utf-8"))


@cache
def plan_style() -> Markup:
    """The style of a plan's page, dark where the reader's system asks for it and where the reader does."""
    dark = text_of("dark.css")
    return Markup("\n".join((text_of("page.css"), f"{_ASKED}\n{dark}}} }}", f"{_CHOSEN}\n{dark}}} }}", "")))


def _head(title: str, style: str, script: str) -> Markup:
    return element(
        "head",
        element("meta", charset="utf-8"),
        element("meta", http_equiv="Content-Security-Policy", content=_policy(script)),
        element("meta", name="viewport", content="width=device-width, initial-scale=1"),
        element("meta", name="generator", content=f"dtlint {__version__}"),
        element("title", title),
        element("style", Markup(style)),
    )


def _policy(script: str) -> str:
    closed = "default-src 'none'; style-src 'unsafe-inline'"
    if not script:
        return closed
    digest = b64encode(sha256(script.encode()).digest()).decode()
    return f"{closed}; script-src 'sha256-{digest}'"
