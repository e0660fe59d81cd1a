"""docs/rules.md says what the rule files say, and its links lead somewhere."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import ModuleType

from dtlint.rulebook.load import built_in

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "rules.md").read_text(encoding="utf-8")


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("write_rules_page", ROOT / "scripts" / "write_rules_page.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_is_current() -> None:
    assert script().written() == PAGE, "python scripts/write_rules_page.py writes it anew"


def test_every_rule_has_a_section_that_the_index_leads_to() -> None:
    headings = [heading.replace(" ", "-").lower() for heading in re.findall(r"(?m)^### (.*)$", PAGE)]
    assert re.findall(r"\]\(#([^)]*)\)", PAGE) == headings
    assert len(headings) == len(built_in())


def test_the_files_that_the_page_names_are_there() -> None:
    links = set(re.findall(r"\]\(([^)#:]+)\)", PAGE))
    assert [link for link in links if not (ROOT / "docs" / link).exists()] == []
