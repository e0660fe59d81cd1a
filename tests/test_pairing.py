"""Pairing as public repositories do it: how a launch comes to its config, and when that config is not known."""

import base64
from pathlib import Path

import pytest

from dtlint.api import check, options_of
from dtlint.runs import read_runs
from dtlint.value import Unknown

CONFIG = '{"train_micro_batch_size_per_gpu": 4, "bf16": {"enabled": true}, "zero_optimization": {"stage": 2}}'
LAUNCH = "deepspeed --num_gpus 8 train.py --deepspeed_config"


def run_of(path):
    (run,) = read_runs([Path(path)], options_of()).runs
    return run


def stage(path):
    return run_of(path).plan.value("sharding.stage")


class TestFolders:
    @pytest.mark.parametrize(
        "head",
        [
            "$PWD/",
            "${PWD}/",
            "$(pwd)/",
            "`pwd`/",
            "./",
            "././",
        ],
    )
    def test_the_current_folder_before_a_path_is_left_off(self, tree, head):
        tree({"scripts/run.sh": f"{LAUNCH} {head}conf/ds.json\n", "conf/ds.json": CONFIG})
        run = run_of("scripts/run.sh")
        assert run.files == ("scripts/run.sh", "conf/ds.json")
        assert run.assumptions == ()

    def test_a_file_written_to_the_current_folder_is_found_without_it(self, tree):
        tree({"run.sh": f"cat > $PWD/ds.json <<EOF\n{CONFIG}\nEOF\n{LAUNCH} ds.json\n"})
        assert stage("run.sh") == 2

    @pytest.mark.parametrize(
        "path",
        [
            "$BASE/conf/ds.json",
            "${1}/conf/ds.json",
            "$HOME/repo/conf/ds.json",
            "/workspace/repo/conf/ds.json",
            "PATH_TO_CODE/conf/ds.json",
            '$(dirname "$(cd "$(dirname "$0")" && pwd)")/conf/ds.json',
        ],
    )
    def test_a_path_in_a_folder_that_is_not_here_is_tried_by_its_end_and_that_is_said(self, tree, path):
        tree({"scripts/run.sh": f"{LAUNCH} {path}\n", "conf/ds.json": CONFIG})
        run = run_of("scripts/run.sh")
        assert run.plan.value("sharding.stage") == 2
        assert run.assumptions[0].startswith("conf/ds.json was taken for ")

    def test_behind_an_unknown_folder_a_name_will_do_beside_the_script(self, tree):
        tree({"jobs/run.sh": f"{LAUNCH} $BASE/ds.json\n", "jobs/ds.json": CONFIG})
        assert stage("jobs/run.sh") == 2

    @pytest.mark.parametrize("folder", ["/home/me/code/repo/source", "$HOME/source", "/x/$USER/repo/source/"])
    def test_behind_a_cd_to_a_folder_that_is_not_here_its_end_is_tried(self, tree, folder):
        tree({"jobs/run.sh": f"cd {folder}\n{LAUNCH} ds.json\n", "source/ds.json": CONFIG})
        run = run_of("jobs/run.sh")
        assert run.plan.value("sharding.stage") == 2
        assert run.assumptions == ("source/ds.json was taken for ds.json, whose folder is not here",)

    def test_the_longest_end_of_it_is_taken_and_one_step_further_counts(self, tree):
        other = CONFIG.replace(": 2}", ": 1}")
        tree({"run.sh": f"cd /me/a/source\ncd ..\n{LAUNCH} ds.json\n", "a/ds.json": CONFIG, "ds.json": other})
        assert stage("run.sh") == 2
        tree({"run.sh": f"cd /me/a/source\ncd -\n{LAUNCH} ds.json\n"})
        assert stage("run.sh") == 1

    def test_a_cd_to_the_root_of_the_tree_leads_there(self, tree):
        tree({"jobs/run.sh": f"cd /home/me/repo\n{LAUNCH} ds.json\n", "ds.json": CONFIG})
        assert stage("jobs/run.sh") == 2

    def test_files_that_a_script_writes_behind_a_cd_are_its_own(self, tree):
        tree({"run.sh": f"cd /me/source\necho '{CONFIG}' > ds.json\n{LAUNCH} ds.json\n", "source/ds.json": "{}"})
        assert stage("run.sh") == 2

    def test_an_absolute_path_with_the_name_of_the_root_leads_to_what_it_holds(self, tree, tmp_path):
        tree({"jobs/run.sh": f"{LAUNCH} /home/me/{tmp_path.name}/ds.json\n", "ds.json": CONFIG, ".git/HEAD": ""})
        assert stage("jobs/run.sh") == 2

    def test_an_absolute_path_may_be_that_of_a_file_beside_the_script(self, tree):
        tree({"jobs/run.sh": f"{LAUNCH} /home/me/ds.json\n", "jobs/ds.json": CONFIG})
        assert stage("jobs/run.sh") == 2
        tree({"jobs/run.sh": f"{LAUNCH} /opt/lib/python3/site-packages/x/ds.json\n"})
        assert isinstance(run_of("jobs/run.sh").plan.get("sharding.stage"), Unknown)

    @pytest.mark.parametrize("path", ["$OUT/ds.json", "/data/ds.json", "elsewhere/ds.json", "conf$N/ds.json", "$X"])
    def test_a_name_alone_does_not_make_a_file_the_one_that_is_meant(self, tree, path):
        tree({"jobs/run.sh": f"{LAUNCH} {path}\n", "ds.json": CONFIG})
        found = run_of("jobs/run.sh").plan.get("sharding.stage")
        assert isinstance(found, Unknown)
        assert "was not found" in found.reason

    def test_an_unknown_name_is_no_other_file(self, tree):
        tree({"run.sh": f"{LAUNCH} conf/ds_zero$STAGE.json\n", "conf/ds_zero2.json": CONFIG})
        assert isinstance(run_of("run.sh").plan.get("sharding.stage"), Unknown)


class TestWrittenFiles:
    @pytest.mark.parametrize(
        "writes",
        [
            "jq '.train_micro_batch_size_per_gpu = 8' base.json > ds.json\n",
            "jq '.train_micro_batch_size_per_gpu = 8' ds.json > tmp.json && mv tmp.json ds.json\n",
            "python - <<EOF\nimport json\njson.dump(make(), open('ds.json', 'w'))\nEOF\n",
            "python3 -c \"import json; json.dump(make(), open('ds.json', 'w'))\"\n",
            "python - <<EOF\nfrom pathlib import Path\nPath('ds.json').write_text(text)\nEOF\n",
            "python make_config.py --micro 16 --output ds.json\n",
            "python make_config.py --out=ds.json\n",
            "yq -i '.zero_optimization.stage = 3' ds.json\n",
            "sed -i '1{h;d};G' ds.json\n",
            "cp $HOME/configs/mine.json ds.json\n",
        ],
    )
    def test_a_file_that_a_program_writes_is_not_the_one_of_the_tree(self, tree, writes):
        tree({"run.sh": f"{writes}{LAUNCH} ds.json\n", "ds.json": CONFIG, "base.json": CONFIG})
        found = run_of("run.sh").plan.get("sharding.stage")
        assert isinstance(found, Unknown)
        assert "ds.json: " in found.reason
        assert "writes this when it runs" in found.reason

    @pytest.mark.parametrize(
        "reads",
        [
            "python show.py --config ds.json\n",
            "python - <<EOF\nprint(open('ds.json').read())\nEOF\n",
            "cp ds.json backup.json\n",
            "python train.py --output_dir out\n",
        ],
    )
    def test_a_program_that_reads_a_file_leaves_it_as_it_is(self, tree, reads):
        tree({"run.sh": f"{reads}{LAUNCH} ds.json\n", "ds.json": CONFIG})
        found = [run.plan.value("sharding.stage") for run in read_runs([Path("run.sh")], options_of()).runs]
        assert found[-1] == 2

    @pytest.mark.parametrize(
        "writes",
        [
            'sed "s/STAGE/$Z/" template.json > ds.json\n',
            "cp template.json ds.json\nsed -i -e s/STAGE/2/ ds.json\n",
            "sed s/STAGE/2/ template.json | tee ds.json\n",
            "export STAGE=2\nsed 's/STAGE/$STAGE/' template.json | envsubst > ds.json\n",
        ],
    )
    def test_a_template_becomes_the_config_that_it_is_turned_into(self, tree, writes):
        template = '{"train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": STAGE}}'
        tree({"run.sh": f"Z=2\n{writes}{LAUNCH} ds.json\n", "template.json": template})
        assert stage("run.sh") == 2


class TestConfigsWithoutAFile:
    def test_json_on_the_command_line_is_the_config(self, tree):
        tree({"run.sh": f"torchrun --nproc_per_node 8 train.py --bf16 --deepspeed '{CONFIG}'\n"})
        assert stage("run.sh") == 2

    def test_base64_on_the_command_line_is_the_config(self, tree):
        tree({"run.sh": f"{LAUNCH} {base64.urlsafe_b64encode(CONFIG.encode()).decode()}\n"})
        assert stage("run.sh") == 2

    @pytest.mark.parametrize(
        ("name", "expected", "optimizer", "parameters"),
        [
            ("zero0", 0, "none", "none"),
            ("zero1", 1, "none", "none"),
            ("zero2", 2, "none", "none"),
            ("zero3", 3, "none", "none"),
            ("zero2_offload", 2, "cpu", "none"),
            ("zero3_offload", 3, "cpu", "cpu"),
            ("default-zero2", 2, "none", "none"),
            ("default-zero3", 3, "none", "none"),
            ("zero3-offload", 3, "cpu", "cpu"),
        ],
    )
    def test_ms_swift_knows_its_configs_by_name(self, tree, name, expected, optimizer, parameters):
        tree({"run.sh": f"NPROC_PER_NODE=8 swift sft --model Qwen/Qwen2.5-7B --deepspeed {name}\n"})
        plan = run_of("run.sh").plan
        assert plan.value("sharding.stage") == expected
        assert plan.value("sharding.offload_optimizer") == optimizer
        assert plan.value("sharding.offload_parameters") == parameters

    def test_what_the_user_did_not_write_is_the_tools_choice(self, tree):
        tree({"run.sh": "NPROC_PER_NODE=8 swift sft --model Qwen/Qwen2.5-7B --deepspeed zero3\n"})
        plan = run_of("run.sh").plan
        origins = [plan.get(name).origin for name in ("sharding.stage", "overlap.gradients")]
        assert [origin.kind for origin in origins] == ["written", "default"]
        assert [origin.span.text for origin in origins] == ["zero3", "zero3"]

    @pytest.mark.parametrize(("named", "severity"), [("zero3", "note"), ("ds.json", "warning")])
    def test_overlap_that_is_off_in_a_config_of_the_tools_own_is_a_note(self, tree, named, severity):
        off = '{"zero_optimization": {"stage": 3, "overlap_comm": false}}'
        line = "swift sft --model Qwen/Qwen2.5-7B --train_type full --max_length 512 --packing true"
        tree({"ds.json": off, "run.sh": f"NPROC_PER_NODE=8 {line} --deepspeed {named}\n"})
        findings = check(["run.sh"], {"cluster.gpu": "A100-SXM-80GB"}).findings
        assert [each.severity for each in findings if each.rule == "no-overlap"] == [severity]

    @pytest.mark.parametrize(
        ("path", "expected", "optimizer"),
        [
            ("examples/deepspeed/ds_z3_config.json", 3, "none"),
            ("../LLaMA-Factory/examples/deepspeed/ds_z2_offload_config.json", 2, "cpu"),
            ("deepspeed_configs/zero2.json", 2, "cpu"),
            ("/workspace/axolotl/deepspeed_configs/zero1.json", 1, "none"),
        ],
    )
    def test_a_path_under_which_a_tool_ships_a_config_stands_for_it_and_that_is_said(
        self, tree, path, expected, optimizer
    ):
        tree({"run.sh": f"torchrun --nproc_per_node 8 train.py --bf16 --output_dir out --deepspeed {path}\n"})
        run = run_of("run.sh")
        assert run.plan.value("sharding.stage") == expected
        assert run.plan.value("sharding.offload_optimizer") == optimizer
        assert run.assumptions[0].startswith(f"{path} was taken as ")

    def test_a_file_of_the_tree_counts_before_the_one_that_a_tool_ships(self, tree):
        path = "examples/deepspeed/ds_z3_config.json"
        tree({"run.sh": f"{LAUNCH} {path}\n", path: CONFIG})
        run = run_of("run.sh")
        assert run.plan.value("sharding.stage") == 2
        assert run.assumptions == ()

    def test_a_file_of_arguments_names_a_config_that_its_tool_ships(self, tree):
        arguments = "stage: sft\nfinetuning_type: full\nbf16: true\ndeepspeed: examples/deepspeed/ds_z3_config.json\n"
        tree({"run.yaml": arguments + "per_device_train_batch_size: 4\noutput_dir: out\n"})
        run = run_of("run.yaml")
        assert run.plan.value("sharding.stage") == 3
        assert run.assumptions == ("examples/deepspeed/ds_z3_config.json was taken as LLaMA-Factory ships it",)

    def test_a_name_that_is_not_wholly_known_is_no_stage(self, tree):
        tree({"run.sh": "NPROC_PER_NODE=8 swift sft --model Qwen/Qwen2.5-7B --deepspeed zero$STAGE\n"})
        assert isinstance(run_of("run.sh").plan.get("sharding.stage"), Unknown)

    def test_a_flag_with_a_config_is_no_file_of_arguments(self, tree):
        tree({"run.sh": "deepspeed --num_gpus 8 train.py --deepspeed_config=ds.json --steps 9\n", "ds.json": CONFIG})
        run = run_of("run.sh")
        assert run.plan.value("sharding.stage") == 2
        assert run.plan.open == ""


class TestLineEnds:
    """bash takes the CR of CR LF for a character of the last word, so that a script of one line still starts."""

    def test_a_command_that_ends_with_cr_lf_is_a_launch(self, tree):
        tree({"run.sh": f"{LAUNCH} ds.json --x 'a'\r\n", "ds.json": CONFIG})
        assert stage("run.sh") == 2

    def test_a_reserved_word_before_cr_is_refused_and_the_reason_said(self, tree):
        tree({"run.sh": f"{LAUNCH} ds.json\nif true; then\r\n echo x\r\nfi\r\n", "ds.json": CONFIG})
        (finding,) = [each for each in check(["run.sh"]).findings if each.id == "DT001"]
        assert "CR LF" in finding.message


class TestChangedFolders:
    @pytest.mark.parametrize(
        ("moves", "path"),
        [
            ("cd sub\n", "conf/ds.json"),
            ("cd ./sub/\n", "./conf/ds.json"),
            ("cd sub\ncd conf\n", "ds.json"),
            ("cd sub/conf && pwd\ncd ..\n", "conf/ds.json"),
            ("pushd sub\n", "conf/ds.json"),
            ('cd "$(dirname "$0")/sub"\n', "$PWD/conf/ds.json"),
            ("cd sub\n", "$(pwd)/conf/ds.json"),
            ("HERE=$(pwd)\ncd other\n", "$HERE/sub/conf/ds.json"),
            ("HERE=$(cd sub && pwd)\n", "$HERE/conf/ds.json"),
            ("HERE=$(cd sub/conf/.. && pwd)\n", "$(dirname $HERE)/sub/conf/ds.json"),
            ("cd other\ncd ../sub\n", "conf/ds.json"),
            ("(cd other)\ncd sub\n", "conf/ds.json"),
        ],
    )
    def test_a_path_counts_from_where_cd_led(self, tree, moves, path):
        other = CONFIG.replace('"stage": 2', '"stage": 1')
        tree({"run.sh": f"{moves}{LAUNCH} {path}\n", "sub/conf/ds.json": CONFIG, "conf/ds.json": other})
        assert stage("run.sh") == 2

    def test_the_folder_above_one_that_cd_led_to(self, tree):
        other = CONFIG.replace('"stage": 2', '"stage": 1')
        script = f'HERE=$(cd "$(dirname "$0")/.." && pwd)\n{LAUNCH} $(dirname "$HERE")/conf/ds.json\n'
        tree({"a/b/run.sh": script, "conf/ds.json": CONFIG, "a/conf/ds.json": other})
        assert stage("a/b/run.sh") == 2

    def test_a_folder_that_is_not_known_leaves_the_search_as_it_was(self, tree):
        tree({"jobs/run.sh": f"cd $WORK\n{LAUNCH} ds.json\n", "ds.json": CONFIG})
        assert stage("jobs/run.sh") == 2

    def test_a_file_is_written_and_read_where_cd_led(self, tree):
        write = f"cat > ds.json <<EOF\n{CONFIG}\nEOF\n"
        tree({"run.sh": f"cd sub\n{write}cd ..\n{LAUNCH} sub/ds.json\n", "ds.json": CONFIG.replace("2}", "1}")})
        assert stage("run.sh") == 2

    def test_a_template_is_read_where_cd_led(self, tree):
        template = CONFIG.replace('"stage": 2', '"stage": STAGE')
        script = f"cd sub\nsed s/STAGE/2/ template.json > ds.json\n{LAUNCH} ds.json\n"
        tree({"run.sh": script, "sub/template.json": template})
        assert stage("run.sh") == 2


class TestWithoutAWorkTree:
    """Where no .git stands above, files may be named in any order, and scripts' paths begin where the user stands."""

    CONFIG = '{"train_batch_size": 100, "train_micro_batch_size_per_gpu": 4, "zero_optimization": {"stage": 2}}'
    LAUNCH = "deepspeed --num_gpus 8 train.py --deepspeed_config configs/ds.json\n"

    @pytest.mark.parametrize(
        "named",
        [
            ["configs/ds.json", "scripts/run.sh"],
            ["scripts/run.sh", "configs/ds.json"],
            ["scripts/run.sh"],
            ["configs/ds.json", "scripts"],
        ],
    )
    def test_a_launch_finds_its_config(self, tmp_path, monkeypatch, named):
        (tmp_path / "configs").mkdir()
        (tmp_path / "scripts").mkdir()
        (tmp_path / "configs/ds.json").write_text(self.CONFIG)
        (tmp_path / "scripts/run.sh").write_text(self.LAUNCH)
        monkeypatch.chdir(tmp_path)
        (run,) = read_runs([Path(name) for name in named], options_of()).runs
        assert set(run.files) == {"configs/ds.json", "scripts/run.sh"}
