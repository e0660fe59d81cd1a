"""The war stories: each fixture says what its story is about, and the plan that is right stays clean."""

from pathlib import Path

import pytest

from dtlint.api import check

FIXTURES = Path(__file__).parent.parent / "fixtures"


def findings(name, **settings):
    report = check([FIXTURES / name], settings)
    return {finding.rule: finding for finding in report.findings}


class TestHalfIdlePipeline:
    def test_names_the_share_and_both_numbers(self):
        found = findings("half-idle-pipeline")["pipeline-bubble"]
        assert found.message == "pipeline idles 47% of each step: 8 micro-batches for 8 stages"  # 7 / (8 + 7)
        assert found.cost.share_of_step.low == pytest.approx(7 / 15)

    def test_64_micro_batches_give_ten_percent(self):
        remedies = findings("half-idle-pipeline")["pipeline-bubble"].remedies
        assert any("64 micro-batches: 10% idle" in remedy.text for remedy in remedies)  # 7 / (64 + 7)

    def test_points_at_the_number_of_stages(self):
        found = findings("half-idle-pipeline")["pipeline-bubble"]
        assert (Path(found.span.path).name, found.span.line, found.span.text) == ("launch.sh", 6, "8")

    def test_both_orders_of_the_files_and_the_script_alone_give_the_same(self):
        script, config = FIXTURES / "half-idle-pipeline/launch.sh", FIXTURES / "half-idle-pipeline/ds_config.json"
        reports = [check(paths) for paths in ([script, config], [config, script], [script], [config])]
        assert len({str([(f.rule, f.message, f.span.line) for f in report.findings]) for report in reports}) == 1
        assert all(len(report.runs) == 1 for report in reports)


class Test64GpuSlowdown:
    def test_names_the_tensor_group_over_the_node(self):
        found = findings("64-gpu-slowdown")["tp-crosses-node"]
        assert found.message == "tensor-parallel group spans 2 nodes: TP 16, 8 GPUs per node"

    def test_names_the_missing_overlap(self):
        found = findings("64-gpu-slowdown")["no-overlap"]
        assert "reduced after the backward pass, not beside it" in found.message
        assert "--overlap-grad-reduce" in found.remedies[0].text

    def test_the_remedy_stays_in_the_node(self):
        found = findings("64-gpu-slowdown")["tp-crosses-node"]
        assert all(remedy.set["parallel.tensor"] == 8 for remedy in found.remedies)


class TestOptimizerStateOom:
    def test_says_208_gb_where_26_were_counted(self):
        found = findings("optimizer-state-oom")["undersized-memory-oom"]
        assert "208 GB of states (16 bytes a parameter)" in found.message  # 16 x 13.0e9
        assert "26 GB of weights (2 bytes)" in found.message  # 2 x 13.0e9
        assert "of 85 GB" in found.message  # 79.1 GiB

    def test_sharding_is_the_way_out(self):
        remedies = findings("optimizer-state-oom")["undersized-memory-oom"].remedies
        assert any(remedy.set.get("sharding.stage") == 3 for remedy in remedies)


class TestSilentDivergence:
    def test_points_at_the_all_reduce(self):
        found = findings("silent-divergence")["allreduce-not-averaged"]
        assert (Path(found.span.path).name, found.span.line) == ("train.py", 18)
        assert found.severity == "error"


class TestBeforeYouLaunch:
    def test_has_no_error_or_warning(self):
        assert {found.severity for found in findings("before-you-launch").values()} <= {"note"}

    def test_the_plan_is_the_one_that_was_meant(self):
        plan = check([FIXTURES / "before-you-launch"]).runs[0].plan
        degrees = [plan.value(f"parallel.{axis}") for axis in ("tensor", "pipeline", "data", "world_size")]
        assert degrees == [8, 8, 1, 64]
