"""Stretches of texts that another program fills, and what is said of them."""

from __future__ import annotations

TO_FILL_IN = " is a placeholder to fill in"
"""What is said of an unknown text behind the placeholder that it is."""


_HOLE = r"\{\{(?:(?!\{\{).)*?\}\}"
"""`{{ gpus }}`; what opens twice opens at the second place."""

HOLE = _HOLE + r"|\$\{(?:(?!\$\{)[^}\n])*\}"
"""A stretch of a text that is left for another program: `{{ gpus }}`, `${gpus}`."""

TEMPLATE_HOLE = _HOLE + r"|\{%(?:(?!\{%).)*?%\}"
"""A stretch that a template engine fills: `{{ gpus }}`, `{% if gpus %}`."""
