"""What trains nothing, or not by the plan that is written, is not judged; and a root cause hides what follows from it."""

from pathlib import Path

import pytest

from dtlint.api import check, options_of
from dtlint.runs import read_runs
from dtlint.value import Unknown

BROKEN = (
    '{"train_batch_size": 100, "train_micro_batch_size_per_gpu": 7, "gradient_accumulation_steps": 3,'
    ' "zero_optimization": {"stage": 3}, "fp16": {"enabled": true}}'
)
"""100 is no 7 x 3 x 8: DeepSpeed refuses it where it trains on 8 GPUs."""
TRAINER = "--model_name_or_path facebook/opt-66b --output_dir out --fp16 --deepspeed ds.json"


def rules(*paths):
    return {finding.rule for finding in check(list(paths) or ["."]).findings}


class TestWhatIsNotJudged:
    @pytest.mark.parametrize(
        "command",
        [
            "deepspeed --num_gpus 8 evaluate.py --deepspeed_config ds.json",
            "deepspeed --num_gpus 8 run_generation.py --deepspeed_config ds.json",
            "deepspeed --num_gpus 8 zero_inference_without_trainer.py --deepspeed_config ds.json",
            "deepspeed --num_gpus 8 convert_checkpoint.py --deepspeed_config ds.json",
            "deepspeed --num_gpus 8 tests/test_engine.py --deepspeed_config ds.json",
            "deepspeed --num_gpus 8 gloo_validation.py --deepspeed_config ds.json",
            "deepspeed --num_gpus 8 tools/split_tp_partitions.py --deepspeed_config ds.json",
            "deepspeed --num_gpus 8 tools/weight_quantize.py --deepspeed_config ds.json",
            "deepspeed --num_gpus 8 doc_index.py --deepspeed_config ds.json",
            "deepspeed --num_gpus 8 dump_features.py --deepspeed_config ds.json",
            "deepspeed --num_gpus 8 embed.py --deepspeed_config ds.json",
            "deepspeed --num_gpus 8 tools/convert_checkpoint/model.py --deepspeed_config ds.json",
            "deepspeed --num_gpus 8 model.py --load_platform hf --save_platform mcore --deepspeed_config ds.json",
            "deepspeed --num_gpus 8 model.py --target-tensor-model-parallel-size 4 --deepspeed_config ds.json",
            "deepspeed --num_gpus 8 main.py --mode=predict --deepspeed_config ds.json",
            "deepspeed --num_gpus 8 main.py --mode evaluate --deepspeed_config ds.json",
            f"deepspeed --num_gpus 8 main.py --do_predict {TRAINER}",
            f"deepspeed --num_gpus 8 main.py --do_eval --do_predict {TRAINER}",
            f"deepspeed --num_gpus 8 main.py --do_train False --do_predict True {TRAINER}",
            f"deepspeed --autotuning tune --num_gpus 8 main.py {TRAINER}",
        ],
    )
    def test_a_program_that_does_not_train_by_the_config(self, tree, command):
        tree({"run.sh": f"{command}\n", "ds.json": BROKEN})
        assert rules("run.sh") == set()

    @pytest.mark.parametrize(
        ("body", "judged"),
        [
            ("net = Net()\nloss = net(x)\nloss.backward()\noptimizer.step()\n", True),
            ("net = Net()\noptimizer = None\nnet(x)\n", False),
        ],
    )
    def test_a_benchmark_is_judged_where_it_makes_steps_of_training(self, tree, body, judged):
        command = "deepspeed --num_gpus 8 resnet_benchmark.py --deepspeed_config ds.json"
        tree({"run.sh": f"{command}\n", "ds.json": BROKEN, "resnet_benchmark.py": body})
        assert bool(rules("run.sh")) is judged

    @pytest.mark.parametrize(
        ("body", "judged"),
        [
            ("trainer = Trainer(devices=8)\ntrainer.fit(net, data)\n", True),
            ("self.trainer = Trainer(net)\nself.trainer.train()\n", True),
            ("trainer = Trainer(devices=8)\ntrainer.fit(net, data)\ntrainer.test(net)\n", False),
            ("net(x).backward()\noptimizer.step()\ncompare(net)\n", False),
        ],
    )
    def test_a_test_is_judged_where_it_is_a_trainer_that_trains(self, tree, body, judged):
        command = "deepspeed --num_gpus 8 slurm_test.py --deepspeed_config ds.json"
        tree({"run.sh": f"{command}\n", "ds.json": BROKEN, "slurm_test.py": body})
        assert bool(rules("run.sh")) is judged

    @pytest.mark.parametrize(
        "command",
        [
            f"deepspeed --num_gpus 8 main.py --do_train --do_predict {TRAINER}",
            f"deepspeed --num_gpus 8 main.py --do_train $TRAIN --do_predict {TRAINER}",
            f"deepspeed --num_gpus 8 main.py --do_eval {TRAINER}",
            "deepspeed --num_gpus 8 main.py --mode train --deepspeed_config ds.json",
            "deepspeed --num_gpus 8 tools/convert/train.py --deepspeed_config ds.json",
        ],
    )
    def test_a_program_that_trains_as_well_is_judged(self, tree, command):
        tree({"run.sh": f"{command}\n", "ds.json": BROKEN})
        assert "batch-triple-mismatch" in rules("run.sh")

    @pytest.mark.parametrize(
        ("words", "judged"),
        [
            ("--do_eval", False),
            ("--do_predict --batch 4", False),
            ("--do-test", False),
            ("--do_eval --do_train", True),
            ('--do_eval "$@"', True),
            ("--batch 4", True),
        ],
    )
    def test_a_program_with_a_switch_for_training_trains_where_it_is_given(self, tree, words, judged):
        tree({"run.sh": f"deepspeed --num_gpus 8 main.py {words} --deepspeed_config ds.json\n", "ds.json": BROKEN})
        tree({"main.py": "args = parse()\nif args.do_train:\n    train(args)\nelse:\n    evaluate(args)\n"})
        assert ("batch-triple-mismatch" in rules("run.sh")) == judged

    @pytest.mark.parametrize(
        ("code", "judged"),
        [
            ("labels.encoder.fit(rows)\nwith torch.no_grad():\n    save(model(rows))\n", False),
            ("StandardScaler().fit_transform(rows)\nlabel_encoder.fit(rows)\nsave(model(rows))\n", False),
            ("label_encoder.fit(rows)\nmodel(rows).backward()\n", True),
            ("with torch.no_grad():\n    check(model)\ntrainer.fit(model)\n", True),
            ("engine = build(layers)\nfor _ in steps:\n    engine.train_batch()\n", True),
            ("engine = build(layers)\nengine.eval_batch(rows)\n", False),
            ("from lightning.pytorch.cli import LightningCLI\nLightningCLI(save_config_callback=None)\n", True),
        ],
    )
    def test_a_program_that_fits_encoders_alone_does_not_train(self, tree, code, judged):
        tree({"run.sh": "deepspeed --num_gpus 8 features.py --deepspeed_config ds.json\n", "ds.json": BROKEN})
        tree({"features.py": f"import torch\n{code}"})
        assert ("batch-triple-mismatch" in rules("run.sh")) == judged

    @pytest.mark.parametrize(
        "code",
        [
            "train(parse())\n",
            "parser.add_argument('--do_train', default=True)\ntrain(parser.parse_args())\n",
            "class Arguments:\n    do_train: bool = True\ntrain(Arguments())\n",
        ],
    )
    def test_a_program_that_trains_unasked_is_judged(self, tree, code):
        tree({"run.sh": "deepspeed --num_gpus 8 main.py --do_eval --deepspeed_config ds.json\n", "ds.json": BROKEN})
        tree({"main.py": code})
        assert "batch-triple-mismatch" in rules("run.sh")

    def test_a_file_of_arguments_that_asks_for_predictions_only(self, tree):
        text = "stage: sft\nfinetuning_type: full\ndo_predict: true\noutput_dir: out\ndeepspeed: ds.json\nfp16: true\n"
        tree(
            {
                "predict.yaml": text,
                "ds.json": BROKEN,
                "run.sh": "FORCE_TORCHRUN=1 NPROC_PER_NODE=8 lmf train predict.yaml\n",
            }
        )
        assert rules("run.sh") == set()

    @pytest.mark.parametrize(
        "text",
        [
            '{"train_batch_size": {{ batch }}, "zero_optimization": {"stage": 1}, "fp16": {"enabled": false}}',
            '{"train_batch_size": <BATCH>, "zero_optimization": {"stage": 1}, "bf16": {"enabled": false}}',
            '{"train_batch_size": BATCH, "zero_optimization": {"stage": 1, "offload_param": {"device": "cpu"}}}',
            '{"train_batch_size": "<BATCH>", "zero_optimization": {"stage": "$STAGE"}}',
            '{"train_batch_size": "@BATCH@", "zero_optimization": {"stage": "${STAGE}"}}',
            '{"train_batch_size": "%BATCH%", "zero_optimization": {"stage": "__STAGE__"}}',
        ],
    )
    def test_a_template_alone(self, tree, text):
        tree({"ds_TEMPLATE.json": text})
        assert rules("ds_TEMPLATE.json") == set()

    @pytest.mark.parametrize(
        "path",
        [
            "tests/unit/ds.json",
            "test_fixtures/ds_train.json",
            "tests/fixtures/train.json",
            "model/eval/ds.json",
            "ds_config_eval.json",
            "inference/ds-zero3.json",
        ],
    )
    def test_a_config_of_tests_or_evaluations_that_no_launch_names(self, tree, path):
        tree({path: '{"train_batch_size": 8, "zero_optimization": {"stage": 1}, "fp16": {"enabled": false}}'})
        assert rules(path) == set()

    def test_a_config_of_a_test_folder_that_a_training_launch_names_is_judged(self, tree):
        tree({"run.sh": "deepspeed --num_gpus 8 train.py --deepspeed_config tests/ds.json\n", "tests/ds.json": BROKEN})
        assert "batch-triple-mismatch" in rules("run.sh")

    @pytest.mark.parametrize(
        ("arguments", "role"), [("transformers.TrainingArguments", "train"), ("ServerArguments", "other")]
    )
    def test_a_program_that_parses_the_arguments_of_a_trainer_trains(self, tree, arguments, role):
        program = (
            "import transformers\nfrom recipes import from_arguments\n"
            f"(arguments,) = transformers.HfArgumentParser({arguments}).parse_args_into_dataclasses()\n"
            "from_arguments(arguments).run()\n"
        )
        tree({"run.sh": "torchrun --nproc_per_node 8 run.py\n", "run.py": program})
        (run,) = read_runs([Path("run.sh")], options_of()).runs
        assert run.role == role

    @pytest.mark.parametrize(("path", "judged"), [("tests/helpers.py", False), ("src/wrap.py", True)])
    def test_a_program_of_a_test_folder_that_no_launch_names(self, tree, path, judged):
        code = "from torch.distributed.fsdp import FullyShardedDataParallel as FSDP\n\nmodel = FSDP(Net().cuda())\nmodel(x).backward()\n"
        tree({path: code})
        assert ("fsdp-no-wrap-policy" in rules()) == judged

    def test_an_accelerate_template_alone(self, tree):
        text = (
            'distributed_type: FSDP\nnum_processes: "<WORLD>"\nnum_machines: $NODES\nmixed_precision: ${PRECISION}\n'
            'fsdp_config:\n  fsdp_sharding_strategy: FULL_SHARD\n  fsdp_auto_wrap_policy: "{{ policy }}"\n'
        )
        tree({"fsdp.yaml": text})
        assert rules("fsdp.yaml") == set()

    @pytest.mark.parametrize("text", ['"a<b"', '"$HOME/x"', '"100%"', '"auto"', '"__init__.py"'])
    def test_a_text_that_only_holds_such_a_sign_is_no_placeholder(self, tree, text):
        tree(
            {
                "ds.json": f'{{"train_batch_size": {text}, "zero_optimization": {{"stage": 1}}, "fp16": {{"enabled": true}}}}'
            }
        )
        (run,) = read_runs([Path("ds.json")], options_of()).runs
        assert run.role == "train"


class TestWrittenAndNotKnown:
    """A setting that is written with a value that no file tells is not at its default."""

    @pytest.mark.parametrize(
        ("flag", "setting"),
        [
            ("--per_device_train_batch_size", "batch.micro"),
            ("--gradient_accumulation_steps", "batch.accumulation"),
            ("--max_grad_norm", "optimizer.clip"),
            ("--ddp_timeout", "launch.timeout_seconds"),
        ],
    )
    @pytest.mark.parametrize("value", ["$X", '"$X"', "${X}"])
    def test_an_unset_variable(self, tree, flag, setting, value):
        tree({"run.sh": f"torchrun --nproc_per_node 8 train.py --bf16 --output_dir out {flag} {value}\n"})
        (run,) = read_runs([Path("run.sh")], options_of()).runs
        found = run.plan.get(setting)
        assert isinstance(found, Unknown)
        assert "$X" in found.reason

    def test_a_placeholder_of_accelerate(self, tree):
        tree({"a.yaml": 'distributed_type: FSDP\nnum_machines: 1\nfsdp_config:\n  fsdp_auto_wrap_policy: "{{ x }}"\n'})
        (run,) = read_runs([Path("a.yaml")], options_of()).runs
        assert isinstance(run.plan.get("sharding.units"), Unknown)


class TestRootCauses:
    """Where the number of GPUs is wrong, nothing is computed from it."""

    MODEL = (
        "--num-layers 32 --hidden-size 4096 --num-attention-heads 32 --seq-length 4096 --max-position-embeddings 4096"
        " --sequence-parallel --bf16"
    )
    FROM_WORLD = frozenset(
        ("batch-not-divisible", "pipeline-bubble", "undersized-memory-oom", "ep-not-divisible", "zero-no-dp")
    )

    @pytest.mark.parametrize(
        ("gpus", "degrees"),
        [
            (8, "--tensor-model-parallel-size 8 --pipeline-model-parallel-size 4"),
            (6, "--tensor-model-parallel-size 4 --context-parallel-size 2"),
            (12, "--tensor-model-parallel-size 8"),
        ],
    )
    def test_a_world_that_does_not_fit_the_degrees(self, tree, gpus, degrees):
        batch = "--micro-batch-size 3 --global-batch-size 100"
        tree({"run.sh": f"torchrun --nproc_per_node {gpus} pretrain_gpt.py {degrees} {self.MODEL} {batch}\n"})
        found = rules("run.sh")
        assert "world-size-mismatch" in found
        assert found.isdisjoint(self.FROM_WORLD)


class TestScriptsOfTests:
    @pytest.mark.parametrize("folder", ["tests", "test_fixtures", "tests/functional_tests/gpt3", "unit_tests"])
    def test_what_they_launch_is_not_judged(self, tree, folder):
        tree({f"{folder}/run.sh": "deepspeed --num_gpus 8 train.py --deepspeed_config ds.json\n", "ds.json": BROKEN})
        assert rules() == set()

    def test_a_script_of_another_folder_is(self, tree):
        tree({"scripts/run.sh": "deepspeed --num_gpus 8 train.py --deepspeed_config ds.json\n", "ds.json": BROKEN})
        assert "batch-triple-mismatch" in rules()


class TestScriptsThatCannotBeRead:
    """Lines in CR LF, which bash takes for a part of the last word."""

    @pytest.mark.parametrize(
        "text",
        [
            "python 1.prepare_data.py --input_path data\r\n",
            "export MASTER_PORT=29501\r\npython llava/eval_robo.py --model_dir m\r\n",
            "torchrun --nproc_per_node 8 evaluate.py\r\n",
            "python -m tools.generate --n 4\r\n",
        ],
    )
    def test_what_starts_no_training_is_not_told(self, tree, text):
        tree({"run.sh": f"#!/bin/bash\r\n{text}"})
        assert rules() == set()

    def test_and_is_a_note_where_the_script_is_named(self, tree):
        tree({"run.sh": "#!/bin/bash\r\npython 1.prepare_data.py --input_path data\r\n"})
        (found,) = check(["run.sh"]).findings
        assert (found.rule, found.severity) == ("unreadable-input", "note")
        assert found.message.endswith("bash stops here; this is no script that starts a training run")

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("run.sh", "TOKENIZER=path/to/it (fast)\npython -u build_pretrain_bin.py --tokenizer $TOKENIZER\n"),
            ("run_inference.sh", "if [[ $A == x]]; then\n  torchrun --nproc_per_node 8 run.py\nfi\n"),
            ("run.sh", "if true; then\n  accelerate launch run_mt.py --do_predict \\\nfi\n"),
            ("run.sh", "# what train.sh wrote\nif [ -z $DIR ]; then\n  local/decode.sh $DIR\n"),
            ("run.sh", "accelerate launch --num_processes 1 -m tools.eval\n\nscores (all):\n"),
        ],
    )
    def test_nor_what_only_evaluates_or_makes_data(self, tree, name, text):
        tree({name: text})
        assert rules() == set()

    @pytest.mark.parametrize(
        "notes",
        [
            "torchrun train.py\n\nbest (so far):\n|lr |loss|\n|---|----|\n|1e-4|2.0|\n",
            "torchrun train.py\n\nWhat to pass:\n- lr: 1e-4 (small)\n- batch: 8, 16 (large)\n",
        ],
    )
    def test_a_notepad_of_commands_is_no_script(self, tree, notes):
        tree({"notes.sh": notes})
        assert "unreadable-input" not in rules()

    @pytest.mark.parametrize(
        "text",
        [
            "for name in a b typesdo\n  python -m src.train --name $name\ndone\n",
            "if true; then\n  torchrun main.py --do_train --do_eval \\\nfi\n",
            "if true; then\n  srun bash scripts/train.sh\n",
            "if true; then\n  python $PROGRAM --lr 1\n",
            "torchrun train.py; cat log |\n",
            "torchrun train.py --size small\nfor size in a b; do\n  torchrun train.py --size $size\n",
            "start() {\n  torchrun train.py\n}\necho ready\nif true; then\n  start\n",
        ],
    )
    def test_a_script_that_breaks_before_its_training_is_told(self, tree, text):
        tree({"run.sh": text})
        assert "unreadable-input" in {found.rule for found in check(["run.sh"]).findings if found.severity == "error"}

    @pytest.mark.parametrize(
        "behind",
        ["else\n  echo none\nfi\n", "done\n", "cat log |\n", "echo 'over\n", "if true; then\n  echo over\n"],
    )
    def test_one_that_breaks_behind_it_has_run_it(self, tree, behind):
        """Bash runs each line of commands before it parses the next."""
        tree({"run.sh": f"for lr in 1 2; do\n  torchrun train.py --lr $lr\ndone  # both\n{behind}"})
        (found,) = [each for each in check(["."]).findings if each.rule == "unreadable-input"]
        assert (found.severity, found.outcome) == ("note", "advice")
        assert found.message.endswith("bash stops here, and has run the launches before it by then")

    @pytest.mark.parametrize(
        "text",
        [
            "torchrun --nproc_per_node 8 main.py\r\n",
            "python train.py --lr 1\r\n",
            "python main.py --per_device_train_batch_size 1\r\n",
            "#SBATCH --nodes 2\r\npython main.py\r\n",
            "python prepare.py\r\naccelerate launch main.py\r\n",
            "export OPTIONS='--deepspeed ds.json'\r\nexport NAME=x\r\n",
        ],
    )
    def test_what_may_is(self, tree, text):
        tree({"run.sh": f"#!/bin/bash\r\n{text}"})
        assert "unreadable-input" in rules()


class TestJsonOfAnotherProgram:
    """What no reader knows is no config: samples and logs, one object a line, hold words of configs too."""

    @pytest.mark.parametrize(
        ("name", "text"),
        [
            ("samples.json", '{"code": "deepspeed.initialize(zero_optimization=2)"}\n{"code": "train_batch_size"}\n'),
            ("log.txt", '{\n  "run": {"train_batch_size": 8}\n}\n{"train_lr": 0.1, "train_loss": 1.3}\n'),
        ],
    )
    def test_is_no_config_that_breaks_off(self, tree, name, text):
        tree({name: text, "run.sh": "torchrun train.py\n"})
        assert "unreadable-input" not in rules()

    def test_a_config_that_goes_on_after_its_end_is_told(self, tree):
        tree({"ds.json": '{"train_batch_size": 8, "zero_optimization": {"stage": 2}}\n{"train_lr": 0.1}\n'})
        assert "unreadable-input" in rules()


class TestAConfigBesideTheOnlyLaunch:
    """A DeepSpeed config that no launch names is that of the only launch, if this can take one."""

    TRAINS = (
        "from transformers import Trainer, TrainingArguments\nTrainer(args=TrainingArguments(output_dir='o')).train()\n"
    )
    WRAPS = (
        "import torch\nfrom torch.nn.parallel import DistributedDataParallel as DDP\n"
        "model = DDP(net)\nfor batch in batches:\n    model(batch).backward()\n    optimizer.step()\n"
    )

    @staticmethod
    def joined():
        return any("ds.json" in run.files and run.launch is not None for run in read_runs([Path()], options_of()).runs)

    @pytest.mark.parametrize(
        ("command", "program", "taken"),
        [
            ("deepspeed --num_gpus 8 train.py", "", True),
            ("torchrun --nproc_per_node 8 train.py", "", True),
            ("torchrun --nproc_per_node 8 train.py", TRAINS, True),
            ('python train.py --do_train --output_dir o --learning_rate 1e-5 "$@"', TRAINS, True),
            ("python train.py --do_train --output_dir o --learning_rate 1e-5", TRAINS, False),
            (
                "torchrun --nproc_per_node 8 train.py --do_train --output_dir o --learning_rate 1e-5",
                TRAINS.replace("output_dir='o'", "**made()"),
                True,
            ),
            ("python train.py --do_train --output_dir o --learning_rate 1e-5", "import own\nown.main()\n", False),
            ("torchrun --nproc_per_node 8 train.py", WRAPS, False),
        ],
    )
    def test_only_what_can_take_it(self, tree, command, program, taken):
        tree({"scripts/run.sh": f"{command}\n", "train.py": program, "ds.json": BROKEN})
        assert self.joined() is taken


class TestTemplates:
    """A launch with words to fill in, on one machine that meets itself, leaves the machines to its reader too."""

    LAUNCH = (
        "torchrun --nproc_per_node 8 --nnodes {nodes} --node_rank 0 --master_addr {host} --master_port 6000 pretrain_gpt.py"
        " --tensor-model-parallel-size 1 --pipeline-model-parallel-size {stages} --num-layers 48 --hidden-size 4096"
        " --num-attention-heads 32 --seq-length 4096 --micro-batch-size 1 --bf16 --data-path {data}\n"
    )

    @pytest.mark.parametrize(
        ("nodes", "host", "stages", "data", "severity"),
        [
            (1, "localhost", 16, "/path/to/data", "note"),
            (1, "localhost", 16, "YOUR_DATA", "note"),
            (1, "127.0.0.1", 16, "<Specify path>_text_document", "note"),
            (1, "localhost", 16, "/data/pile", "error"),
            (1, "localhost", 12, "/path/to/data", "error"),
            (1, "node0", 16, "/path/to/data", "error"),
            (3, "localhost", 48, "/path/to/data", "error"),
        ],
    )
    def test_more_machines_than_written(self, tree, nodes, host, stages, data, severity):
        tree({"run.sh": self.LAUNCH.format(nodes=nodes, host=host, stages=stages, data=data)})
        found = [finding for finding in check(["run.sh"]).findings if finding.rule == "world-size-mismatch"]
        assert [finding.severity for finding in found] == [severity]
