"""Reports for CI servers and review bots: valid by the formats' own schemas, and right in what those cannot say."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from reports import BUBBLE, CLEAN, LAUNCH, OUT_OF_MEMORY, REPORT, RULES, RUN, at
from snapshot import holds

from dtlint.report.github import report_github
from dtlint.report.gitlab import report_gitlab
from dtlint.report.junit import report_junit
from dtlint.report.markdown import report_markdown
from dtlint.report.markdown_text import capped, code, escaped
from dtlint.report.places import byte_column, repository_path, token
from dtlint.report.rdjson import report_rdjson
from dtlint.report.sarif import report_sarif
from dtlint.rulebook.check import Report
from dtlint.source import Source

SCHEMAS = Path(__file__).parent / "data" / "schemas"
FULL = REPORT._replace(rules=RULES)
HOSTILE = FULL._replace(
    findings=(
        BUBBLE._replace(message="]]>&<b>|[x](javascript:1) @team `rm`\n::error::\x1b[31m", rule="a-rule", id="TST001"),
    )
)
REPORTS = pytest.mark.parametrize("report", [FULL, CLEAN, HOSTILE], ids=["findings", "clean", "hostile"])


def schema(name: str) -> Any:
    return json.loads((SCHEMAS / name).read_text(encoding="utf-8"))


def many(count: int) -> Report:
    findings = tuple(BUBBLE._replace(message=f"finding {number}") for number in range(count))
    return Report((*findings, OUT_OF_MEMORY), (), None, (RUN,), RULES)


class TestSarif:
    @REPORTS
    def test_is_valid_by_the_published_schema(self, report: Report) -> None:
        jsonschema.validate(json.loads(report_sarif(report)), schema("sarif-2.1.0.json"))

    def test_results_are_there_even_without_findings(self) -> None:
        (run,) = json.loads(report_sarif(CLEAN))["runs"]
        assert run["results"] == []

    def test_a_result(self) -> None:
        (run,) = json.loads(report_sarif(FULL))["runs"]
        result = run["results"][1]
        assert (result["ruleId"], result["level"]) == ("DT301", "warning")
        assert run["tool"]["driver"]["rules"][result["ruleIndex"]]["name"] == "pipeline-bubble"
        (location,) = result["locations"]
        region = location["physicalLocation"]["region"]
        assert (region["startLine"], region["startColumn"], region["endLine"], region["endColumn"]) == (8, 36, 8, 37)
        assert location["physicalLocation"]["artifactLocation"] == {"uri": "launch.sh"}
        assert result["message"]["text"].startswith(
            "pipeline idles 64% of each step: 4 micro-batches for 8 stages. Cost: 64% of each step, 400-500 ms per step"
        )
        assert "[512 nodes x 8 GPUs](2)" in result["message"]["text"]
        assert [each["id"] for each in result["relatedLocations"]] == [1, 2, 3, 4]

    def test_a_remedy_with_edits_is_a_fix(self) -> None:
        (run,) = json.loads(report_sarif(FULL))["runs"]
        (fix,) = run["results"][1]["fixes"]
        assert fix["artifactChanges"] == [
            {
                "artifactLocation": {"uri": "launch.sh"},
                "replacements": [
                    {
                        "deletedRegion": {"startLine": 4, "startColumn": 7, "endLine": 4, "endColumn": 8},
                        "insertedContent": {"text": "1"},
                    }
                ],
            }
        ]

    def test_fingerprints_outlive_a_change_of_lines(self) -> None:
        longer = Source("launch.sh", "# a new first line\n" + LAUNCH.text)
        moved = FULL._replace(findings=(BUBBLE._replace(span=at(longer, "8", "--pipeline-model-parallel-size")),))
        here = FULL._replace(findings=(BUBBLE,))
        assert _fingerprints(moved) == _fingerprints(here)

    def test_fingerprints_of_equal_findings_differ(self) -> None:
        found = _fingerprints(FULL._replace(findings=(BUBBLE, BUBBLE)))
        assert found[0]["dtlint/v1"] != found[1]["dtlint/v1"]
        assert found[0]["primaryLocationLineHash"] != found[1]["primaryLocationLineHash"]

    def test_brackets_of_a_message_make_no_link(self) -> None:
        (run,) = json.loads(report_sarif(HOSTILE))["runs"]
        assert r"\[x\](javascript:1)" in run["results"][0]["message"]["text"]


def _fingerprints(report: Report) -> list[dict[str, str]]:
    (run,) = json.loads(report_sarif(report))["runs"]
    return [result["partialFingerprints"] for result in run["results"]]


class TestGitlab:
    @REPORTS
    def test_each_entry_is_valid_by_gitlabs_schema(self, report: Report) -> None:
        entries = json.loads(report_gitlab(report))
        assert len(entries) == len(report.findings)
        for entry in entries:
            jsonschema.validate(entry, schema("gitlab-code-quality.json"))

    def test_severities_and_fingerprints(self) -> None:
        entries = json.loads(report_gitlab(many(2)))
        assert [entry["severity"] for entry in entries] == ["minor", "minor", "major"]
        assert len({entry["fingerprint"] for entry in entries}) == 3

    def test_the_description_begins_with_the_rule(self) -> None:
        (entry,) = json.loads(report_gitlab(FULL._replace(findings=(BUBBLE,))))
        assert entry["description"].startswith("DT301 pipeline idles 64% of each step")


class TestRdjson:
    @REPORTS
    def test_is_valid_by_reviewdogs_schema(self, report: Report) -> None:
        jsonschema.validate(json.loads(report_rdjson(report)), schema("rdjson.json"))

    def test_columns_count_bytes(self) -> None:
        source = Source("launch.sh", "# größe 𐐀\necho 'größe' --tp 8\n")
        span = at(source, "8", "--tp")
        found = json.loads(report_rdjson(FULL._replace(findings=(BUBBLE._replace(span=span),))))
        line = "echo 'größe' --tp "
        start = found["diagnostics"][0]["location"]["range"]["start"]
        assert start == {"line": 2, "column": len(line.encode()) + 1}
        assert byte_column(source.span(8, 9), 9) == len("# größe 𐐀".encode()) + 1

    def test_an_edit_that_keeps_the_training_is_a_suggestion(self) -> None:
        found = json.loads(report_rdjson(FULL))["diagnostics"][1]
        assert found["suggestions"] == [
            {"range": {"start": {"line": 4, "column": 7}, "end": {"line": 4, "column": 8}}, "text": "1"}
        ]

    def test_an_edit_that_changes_the_training_is_none(self) -> None:
        remedy = BUBBLE.remedies[0]._replace(changes_training=True)
        found = json.loads(report_rdjson(FULL._replace(findings=(BUBBLE._replace(remedies=(remedy,)),))))
        assert found["diagnostics"][0]["suggestions"] == []


class TestJunit:
    @REPORTS
    def test_is_valid_by_the_schema_that_jenkins_uses(self, report: Report) -> None:
        xmlschema = pytest.importorskip("xmlschema")
        xmlschema.XMLSchema(str(SCHEMAS / "junit-10.xsd")).validate(report_junit(report))

    def test_a_suite_per_file_and_a_failed_case_per_finding(self) -> None:
        text = report_junit(FULL)
        assert re.findall(r'<testsuite name="([^"]*)" tests="(\d)" failures="(\d)"', text) == [
            ("ds.json", "1", "1"),
            ("launch.sh", "1", "1"),
        ]

    def test_a_clean_report_has_a_case_that_passed(self) -> None:
        assert '<testcase name="dtlint" classname="dtlint"/>' in report_junit(CLEAN)


class TestGithub:
    def test_a_command_per_finding_the_worst_first(self) -> None:
        first, second = report_github(FULL).splitlines()
        assert first.startswith("::error title=dtlint DT201 undersized-memory-oom,file=ds.json,line=2,")
        assert second.startswith(
            "::warning title=dtlint DT301 pipeline-bubble,file=launch.sh,line=8,col=36,endLine=8,endColumn=37::"
            "launch.sh:8: pipeline idles 64%25 of each step: 4 micro-batches for 8 stages%0Acost: 64%25"
        )

    def test_no_text_starts_a_command_of_its_own(self) -> None:
        assert len(report_github(HOSTILE).splitlines()) == 1

    def test_more_than_are_shown_end_with_their_number(self) -> None:
        lines = report_github(many(20)).splitlines()
        assert len(lines) == 10
        assert lines[0].startswith("::error")
        assert lines[-1] == "::notice title=dtlint::12 more findings; the step summary has all of them"

    def test_nothing_found_prints_nothing(self) -> None:
        assert report_github(CLEAN) == ""


class TestMarkdown:
    def test_the_whole_comment(self) -> None:
        holds("comment.md", report_markdown(FULL))

    def test_text_of_files_formats_links_and_notifies_nothing(self) -> None:
        row = next(line for line in report_markdown(HOSTILE).splitlines() if "TST001" in line)
        assert "&lt;b&gt;" in row and "<b>" not in row
        assert r"\[x\](" not in row and "](" not in row.replace(r"\](", "").replace(r"\]\(", "")
        assert "@team" not in row and r"\`rm\`" in row
        assert row.count(" | ") == 5

    def test_a_comment_too_long_for_the_host_loses_its_middle(self) -> None:
        text = report_markdown(many(400))
        assert len(text) <= 65_536
        assert text.startswith("[//]: <> (dtlint-comment)\n### dtlint: 1 error, 400 warnings")
        assert "more than fits here" in text

    @pytest.mark.parametrize(
        ("text", "shown"),
        [
            ("a_b*c*", r"a\_b\*c\*"),
            ("<script>", "&lt;script&gt;"),
            ("a&b", "a&amp;b"),
            ("@org/team", "@\N{ZERO WIDTH SPACE}org/team"),
            ("#12", "\\#\N{ZERO WIDTH SPACE}12"),
        ],
    )
    def test_escaping(self, text: str, shown: str) -> None:
        assert escaped(text) == shown

    @pytest.mark.parametrize(("text", "shown"), [("x", "`x`"), ("a`b", "`` a`b ``"), ("a|b", "`a\N{BROKEN BAR}b`")])
    def test_code(self, text: str, shown: str) -> None:
        assert code(text) == shown

    def test_capped_keeps_both_ends(self) -> None:
        lines = [f"line {number}" for number in range(100)]
        kept = capped(lines, 300)
        assert kept[0] == "line 0" and kept[-1] == "line 99" and sum(map(len, kept)) + len(kept) <= 300


class TestPlaces:
    def test_a_path_is_counted_from_the_top_of_the_repository(self, tmp_path: Path) -> None:
        (tmp_path / ".git").mkdir()
        file = tmp_path / "jobs" / "run.sh"
        file.parent.mkdir()
        file.write_text("x\n")
        assert repository_path(Source("run.sh", "x\n", file).span(0, 1)) == "jobs/run.sh"

    def test_a_link_is_resolved(self, tmp_path: Path) -> None:
        (tmp_path / ".git").mkdir()
        (tmp_path / "real.sh").write_text("x\n")
        (tmp_path / "link.sh").symlink_to(tmp_path / "real.sh")
        assert repository_path(Source("link.sh", "x\n", tmp_path / "link.sh").span(0, 1)) == "real.sh"

    @pytest.mark.parametrize(
        ("text", "start", "end", "shown"),
        [
            ("torchrun a \\\n  b c\n", 0, 16, "torchrun a \\"),
            ("  --tp 8\n", 0, 0, "--tp"),
            ("\n", 0, 0, ""),
            ("a b\n", 2, 3, "b"),
            ("ab  \n", 3, 4, "ab"),
        ],
    )
    def test_one_token_stands_for_a_block(self, text: str, start: int, end: int, shown: str) -> None:
        assert token(Source("a.sh", text).span(start, end)).text == shown
