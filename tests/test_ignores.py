"""Ignores in files: what they cover, that they give a reason, and that they hide something."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from plans_in_text import checked, rule, run_of, runs_of

from dtlint.config import Config
from dtlint.rulebook.check import Report, check
from dtlint.rulebook.ignores import ignores_in
from dtlint.rulebook.load import built_in
from dtlint.source import Source

WIDE = rule("when: parallel.tensor > 8\nat: parallel.tensor", id="TST001", name="too-wide")
DEEP = rule("when: parallel.pipeline > 8\nat: parallel.pipeline", id="TST002", name="too-deep")
PINNED = rule("when: parallel.tensor > 8\nat: parallel.tensor\nignorable: false", id="TST003", name="pinned")
ON_IGNORES = [each for each in built_in() if each.id in ("DT009", "DT010")]


def found(text: str) -> list[tuple[str, int]]:
    report = checked(text, WIDE, DEEP, *ON_IGNORES)
    return [(finding.rule, finding.span.line) for finding in report.findings]


@pytest.mark.parametrize(
    "text",
    [
        "parallel.tensor = 16  # dtlint: ignore[too-wide] NVL72 racks",
        "parallel.tensor = 16  # dtlint: ignore[TST001] NVL72 racks",
        "parallel.tensor = 16  # dtlint: ignore[too-wide]: NVL72 racks",
        "# dtlint: ignore[too-wide] NVL72 racks\nparallel.tensor = 16",
        "#dtlint:ignore[too-wide] NVL72 racks\nparallel.tensor = 16",
        "# dtlint: ignore-file[too-wide] NVL72 racks\n\n\nparallel.tensor = 16",
        "# dtlint: ignore[too-wide] NVL72 racks\ntorchrun \\\n  --first \\\nparallel.tensor = 16",
    ],
)
def test_an_ignore_hides_what_is_found_on_its_line_or_in_the_statement_below(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "# dtlint: ignore[too-wide] NVL72 racks\n\nparallel.tensor = 16",
        "parallel.tensor = 16\n# dtlint: ignore[too-wide] NVL72 racks",
        "x = 1  # dtlint: ignore[too-wide] NVL72 racks\nparallel.tensor = 16",
        "parallel.tensor = 16\necho 'dtlint: ignore[too-wide] NVL72 racks'",
        "parallel.tensor = 16  # dtlint: ignore[] NVL72 racks",
    ],
)
def test_an_ignore_elsewhere_hides_nothing(text: str) -> None:
    assert ("too-wide", text[: text.index("parallel")].count("\n") + 1) in found(text)


def test_an_ignore_at_a_place_that_a_finding_rests_on_hides_it_too() -> None:
    text = "cluster.gpus_per_node = 8  # dtlint: ignore[wide-node] NVL72 racks\nparallel.tensor = 16"
    wide = rule("when: parallel.tensor > cluster.gpus_per_node\nat: parallel.tensor", name="wide-node")
    assert checked(text, wide).findings == ()


def test_several_rules_are_ignored_by_one_comment() -> None:
    text = "# dtlint: ignore-file[too-wide, too-deep] NVL72 racks\nparallel.tensor = 16\nparallel.pipeline = 16"
    assert found(text) == []


def test_an_ignore_without_a_reason_is_found() -> None:
    assert found("parallel.tensor = 16  # dtlint: ignore[too-wide]") == [("unexplained-ignore", 1)]


def test_an_ignore_that_hides_nothing_is_found() -> None:
    assert found("parallel.tensor = 8  # dtlint: ignore[too-wide] NVL72 racks") == [("unused-ignore", 1)]


def test_an_ignore_of_an_undecided_rule_may_be_needed() -> None:
    assert found("parallel.tensor ?  # dtlint: ignore[too-wide] NVL72 racks") == []


def test_an_ignore_of_a_rule_that_does_not_exist_is_found_with_the_name_that_was_meant() -> None:
    report = checked("# dtlint: ignore[too-wid] NVL72 racks\nparallel.tensor = 8", WIDE, *ON_IGNORES)
    (finding,) = report.findings
    assert finding.rule == "unused-ignore"
    assert "did you mean 'too-wide'?" in finding.message


def test_some_rules_cannot_be_ignored() -> None:
    text = "parallel.tensor = 16  # dtlint: ignore[pinned] NVL72 racks"
    assert [finding.rule for finding in checked(text, PINNED).findings] == ["pinned"]


def in_json(value: str) -> Report:
    source = Source("ds.json", f'{{\n"//dtlint": {value},\nparallel.tensor = 16\n}}')
    return check(runs_of(run_of(source)), [WIDE, *ON_IGNORES], Config())


@pytest.mark.parametrize(
    "value",
    [
        '{"too-wide": "NVL72 racks"}',
        '"ignore[too-wide] NVL72 racks"',
        '["ignore[TST001] NVL72 racks", "a remark"]',
    ],
)
def test_a_key_in_json_ignores_a_rule_in_the_whole_file(value: str) -> None:
    assert in_json(value).findings == ()


def test_a_key_in_json_needs_a_reason_too() -> None:
    assert [finding.rule for finding in in_json('{"too-wide": ""}').findings] == ["unexplained-ignore"]


@pytest.mark.parametrize("value", ["{" * 3000, "17", "null", '"no ignore"', '{"too-wide"'])
def test_a_key_in_json_that_says_nothing_ignores_nothing(value: str) -> None:
    assert "too-wide" in [finding.rule for finding in in_json(value).findings]


def test_a_team_leaves_rules_out_by_file(tmp_path: Path) -> None:
    folder = tmp_path
    source = Source("old/launch.sh", "parallel.tensor = 16", folder / "old" / "launch.sh")
    config = Config(folder=folder.resolve(), file_ignores=(("old/*", ("too-wide",)),))
    assert check(runs_of(run_of(source)), [WIDE], config).findings == ()
    assert (
        len(check(runs_of(run_of(source)), [WIDE], config._replace(file_ignores=(("new/*", ("too-wide",)),))).findings)
        == 1
    )


@given(st.text(alphabet='#/ dtlint:ignore[-file],\n"{}\\', max_size=200))
def test_any_text_is_searched_without_a_crash(text: str) -> None:
    for ignore in ignores_in([Source("x", "dtlint" + text)]):
        assert ignore.rule
