"""What training code decides through lists that grow, command lines, config files, objects and handed-over functions."""

from __future__ import annotations

import pytest
from python_texts import plain, program_of, shown

from dtlint.frameworks.pytorch.mesh_slices import mesh_names
from dtlint.languages.python import command_line, follow
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.imported import MAX_MODULES
from dtlint.languages.python.program import Program, with_given
from dtlint.languages.traced import literal_word
from dtlint.languages.yaml import read_yaml
from dtlint.source import Source
from dtlint.value import Setting, Value


def program(text: str) -> Program:
    return program_of("", text)


def launched(started: Program, *words: str) -> Program:
    """The program as a command with these words behind the script starts it."""
    traced = tuple(literal_word(word, Source("run.sh", word).span(0, len(word))) for word in words)
    return with_given(started, command_line(started, traced), False)


def worth(text: str, *words: str) -> object:
    started = program(text)
    return plain(evaluate(shown(launched(started, *words) if words else started)))


LISTS = {
    "x = []\nx.append(2)\nshow(x)": (2,),
    "x = [1]\nx.extend([2, 3])\nshow(tuple(x))": (1, 2, 3),
    "x = [1]\nx += [2]\nshow(x)": (1, 2),
    "x = [1]\nshow(x)\nx.append(2)": (1,),
    "x = []\nif flag:\n    x.append(2)\nshow(tuple(x))": {"flag": (2,), "not (flag)": ()},
    "def f(x):\n    show(x)\ny = [1]\ny.append(2)\nf(y)": (1, 2),
    "def f():\n    n = []\n    n.append(1)\n    return n\nshow(f())": (1,),
    "class A:\n    def __init__(self):\n        self.n = []\n        self.n.append(1)\n    def go(self):\n        show(self.n)": (1,),
    "x = []\nfor i in data:\n    x.append(1)\nshow(x)": "?",
    "x = [1]\nx.insert(0, 2)\nshow(x)": "?",
    "x = [1]\nx.extend(more)\nshow(x)": "?",
    "x = [1]\ndef f():\n    x.append(2)\nf()\nshow(x)": "?",
    "def f(x):\n    x.append(3)\n    show(x)\ny = [1]\nf(y)": "?",
    "class A:\n    def __init__(self):\n        self.n = []\n    def add(self):\n        self.n.append(1)\n    def go(self):\n        show(self.n)": "?",
}  # fmt: skip


@pytest.mark.parametrize(("text", "value"), LISTS.items(), ids=range(len(LISTS)))
def test_a_list_holds_what_statements_add_to_it(text: str, value: object) -> None:
    assert worth(text) == value


def test_dimensions_under_the_same_condition_go_hand_in_hand() -> None:
    text = """
names = []
if replicate > 1:
    names.append("dp_replicate")
if tensor > 1:
    names.append("tp")
show(tuple(names))
"""
    assert worth(text) == {
        "replicate > 1 and tensor > 1": ("dp_replicate", "tp"),
        "replicate > 1 and not (tensor > 1)": ("dp_replicate",),
        "not (replicate > 1) and tensor > 1": ("tp",),
        "not (replicate > 1) and not (tensor > 1)": (),
    }


FIRE = "import fire\ndef main(tp: int = 2, use: bool = False, name='a'):\n    show((tp, use, name))\nfire.Fire(main)"
TYPER = """
import typer
app = typer.Typer()
@app.command()
def main(tp: int = typer.Option(2), use: bool = True):
    show((tp, use))
app()
"""
CLICK = """
import click
@click.command()
@click.option("--tp", type=int, default=2)
@click.option("--deepspeed-config", default=None)
def main(tp, deepspeed_config):
    show((tp, deepspeed_config))
main()
"""
CLICK_WHOLE = """
import click
@click.command()
@click.option("--tp", type=int, default=2)
def main(**options):
    train(**options)
def train(tp):
    show(tp)
main()
"""
TYRO = "import tyro\nfrom dataclasses import dataclass\n@dataclass\nclass A:\n    tp: int = 2\nargs = tyro.cli(A)\nshow(args.tp)"


def test_parameters_that_the_command_line_fills() -> None:
    assert worth(FIRE) == (2, False, "a")
    assert worth(FIRE, "--tp", "4", "--use") == (4, True, "a")
    assert worth(FIRE, "--tp=8", "--name", "b") == (8, False, "b")
    assert worth(TYPER) == (2, True)
    assert worth(TYPER, "--tp", "4", "--no-use") == (4, False)
    assert worth(CLICK) == (2, None)
    assert worth(CLICK, "--tp", "4", "--deepspeed-config", "ds.json") == (4, "ds.json")
    assert worth(CLICK_WHOLE) == 2
    assert worth(CLICK_WHOLE, "--tp", "4") == 4
    assert worth(TYRO) == 2
    assert worth(TYRO, "--tp", "4") == 4


def test_a_default_of_the_command_line_is_assumed_without_a_launch_and_certain_with_one() -> None:
    started = program(CLICK_WHOLE)
    assert _kind(evaluate(shown(started))) == "assumed"
    assert _kind(evaluate(shown(launched(started, "--lr", "1")))) == "written"


def _kind(value: Setting) -> str:
    return value.origin.kind if isinstance(value, Value) else ""


CONFIG = Source(
    "conf/main.yaml",
    "defaults:\n  - model: small\n  - _self_\ntrainer:\n  devices: 4\n  name: ${model.name}\n  lacking: ???\nmodel:\n  name: llama\n",
)
HYDRA = "import hydra\n@hydra.main(config_path='conf', config_name='main')\ndef main(cfg):\n"
LOADS = "from omegaconf import OmegaConf\nfrom pathlib import Path\nfrom types import SimpleNamespace\nimport yaml\n"


FILE = LOADS + "c = yaml.safe_load(open('conf/main.yaml'))\n"


def configured(text: str, *words: str, config: Source = CONFIG) -> Setting:
    started = follow(
        Source("train.py", text),
        lambda name: None,
        lambda path: read_yaml(config).root if path == "conf/main.yaml" else None,
    )
    return evaluate(shown(launched(started, *words) if words else started))


CONFIGURED = {
    HYDRA + "    show(cfg.trainer.devices)": 4,
    HYDRA + "    show(cfg['trainer']['devices'])": 4,
    HYDRA + "    show(cfg.trainer.name)": "llama",
    HYDRA + "    show(cfg.trainer.lacking)": "?",
    HYDRA + "    show(cfg.trainer.other)": "?",
    HYDRA + "    show(cfg.trainer.get('devices', 2))": 4,
    HYDRA + "    show(cfg.trainer.get('other', 2))": 2,
    HYDRA + "    run(cfg)\ndef run(config):\n    go(config.trainer)\ndef go(trainer):\n    show(trainer.devices)": 4,
    LOADS + "c = OmegaConf.load('conf/main.yaml')\nshow(c.trainer.devices)": 4,
    LOADS + "with open('conf/main.yaml') as f:\n    c = yaml.safe_load(f)\nshow(c['trainer']['devices'])": 4,
    LOADS + "c = yaml.safe_load(open('conf/main.yaml').read())\nshow(c['trainer']['devices'])": 4,
    LOADS + "c = yaml.safe_load(Path('conf/main.yaml').read_text())\nshow(c['trainer']['devices'])": 4,
    LOADS + "with Path('conf/main.yaml').open() as f:\n    c = yaml.safe_load(f)\nshow(c['trainer']['devices'])": 4,
    LOADS + "c = SimpleNamespace(**yaml.safe_load(open('conf/main.yaml')))\nshow(c.trainer['devices'])": 4,
    LOADS + "c = SimpleNamespace(**yaml.safe_load(open('conf/main.yaml')), more=1)\nshow(c.trainer['devices'])": "?",
    LOADS + "c = yaml.safe_load(archive.open('conf/main.yaml'))\nshow(c['trainer']['devices'])": "?",
    LOADS + "c = OmegaConf.load(path)\nshow(c.trainer.devices)": "?",
    FILE + "c['trainer']['devices'] = 8\nshow(c['trainer']['devices'])": 8,
    FILE + "c['trainer']['devices'] = c['trainer']['devices'] * 2\nshow(c['trainer']['devices'])": 8,
    FILE + "t = c['trainer']\nt['devices'] = 8\nshow(c['trainer']['devices'])": 8,
    FILE + "c['trainer']['devices'] = counted()\nshow(c['trainer']['devices'])": "?",
    FILE + "if many:\n    c['trainer']['devices'] = 8\nshow(c['trainer']['devices'])": 4,
    FILE + "show(c['trainer']['devices'])\nc['trainer']['devices'] = 8": 4,
    FILE + "c['model']['devices'] = 8\nshow(c['trainer']['devices'])": 4,
    FILE + "d['devices'] = 8\nshow(c['trainer']['devices'])": 4,
}


NAMED = "import json\nimport sys\nimport tomllib\nimport yaml\nfrom pathlib import Path\n"
BY_NAME = {
    "c = yaml.safe_load(open(sys.argv[1]))\nshow(c['trainer']['devices'])": 4,
    "def main(path):\n    with open(path) as f:\n        c = yaml.safe_load(f)\n    show(c['trainer']['devices'])\n"
    "main(sys.argv[1])": 4,
    "with open(sys.argv[1], 'rb') as f:\n    c = tomllib.load(f)\nshow(c['trainer']['devices'])": 4,
    "c = json.loads(Path(sys.argv[1]).read_text())\nshow(c['trainer']['devices'])": 4,
    "name = sys.argv[1] if len(sys.argv) > 1 else 'other.yaml'\n"
    "c = yaml.safe_load(open(name))\nshow(c['trainer']['devices'])": 4,
    "words = sys.argv[1:]\nshow(words[0])": "conf/main.yaml",
    "show((len(sys.argv), sys.argv[-1]))": (3, "7"),
    "show(int(sys.argv[2]))": 7,
    "show(sys.argv[3])": "?",
    "sys.argv.pop(1)\nshow(sys.argv[1])": "?",
    "import argparse\np = argparse.ArgumentParser()\np.add_argument('config')\np.add_argument('seed', type=int)\n"
    "p.add_argument('--lr', type=float)\na = p.parse_args()\nshow((a.config, a.seed))": ("conf/main.yaml", 7),
    "import argparse\np = argparse.ArgumentParser()\np.add_argument('config')\na = p.parse_args()\nshow(a.config)": "?",
}


@pytest.mark.parametrize(("text", "value"), BY_NAME.items(), ids=range(len(BY_NAME)))
def test_the_words_behind_the_script_are_known_by_their_places(text: str, value: object) -> None:
    assert plain(configured(NAMED + text, "conf/main.yaml", "7")) == value


def test_a_key_of_a_file_is_certain_where_every_word_is_known() -> None:
    text = f"{NAMED}c = yaml.safe_load(open(sys.argv[1]))\nshow(c['trainer']['devices'])"
    assert _kind(configured(text, "conf/main.yaml")) == "written"


def test_an_item_of_a_table_stands_where_it_is_chosen() -> None:
    table = "WIDTHS = {'llama': 4, 'other': 8}\n"
    text = f"{NAMED}{table}c = yaml.safe_load(open(sys.argv[1]))\nshow(WIDTHS[c['model']['name']])"
    found = configured(text, "conf/main.yaml")
    assert isinstance(found, Value)
    assert found.origin.span is not None
    assert (found.value, found.origin.span.text) == (4, "llama")
    written = configured(f"{table}show(WIDTHS['llama'])")
    assert isinstance(written, Value)
    assert written.origin.span is not None
    assert (written.value, written.origin.span.text) == (4, "4")


@pytest.mark.parametrize(("text", "value"), CONFIGURED.items(), ids=range(len(CONFIGURED)))
def test_a_config_file_that_the_program_loads(text: str, value: object) -> None:
    assert plain(configured(text)) == value


def test_the_launch_stands_over_the_file() -> None:
    text = HYDRA + "    show(cfg.trainer.devices)"
    found = configured(text, "trainer.devices=8")
    assert (plain(found), _kind(found)) == (8, "written")
    found = configured(text, "model.name=qwen")
    assert isinstance(found, Value)
    assert (found.value, found.origin.kind) == (4, "written")
    assert found.origin.span is not None
    assert (found.origin.span.source.path, found.origin.span.line) == ("conf/main.yaml", 5)


OWN_MAIN = "from omegaconf import OmegaConf\nfrom own import started\n@started(config_name=None, version_base=None)\ndef main(cfg):\n"
MERGED = "from omegaconf import OmegaConf\nfile = OmegaConf.load('conf/main.yaml')\n"
WORDS = "import argparse\na, rest = argparse.ArgumentParser().parse_known_args()\n"
UNNAMED = {
    OWN_MAIN + "    show(cfg.trainer.devices)\nmain()": (8, "?"),
    OWN_MAIN + "    cfg = OmegaConf.merge(Run(), cfg)\n    run(cfg)\ndef run(c):\n    t, m = c.trainer, c.model\n"
    "    show(t.devices)\nmain()": (8, "?"),
    OWN_MAIN + "    cfg = other(cfg)\n    show(cfg.trainer.devices)\nmain()": ("?", "?"),
    OWN_MAIN + "    show(cfg.trainer.get('devices', 2))\nmain()": (8, 2),
    "def started(f):\n    return f\n@started\ndef main(cfg):\n    show(cfg.trainer.devices)": ("?", "?"),
    MERGED + "show(OmegaConf.from_cli().trainer.devices)": (8, "?"),
    MERGED + "show(OmegaConf.from_cli(words).trainer.devices)": ("?", "?"),
    MERGED + "c = OmegaConf.merge(file, OmegaConf.from_cli())\nshow(c.trainer.devices)": (8, 4),
    MERGED + WORDS + "c = OmegaConf.merge(file, OmegaConf.from_dotlist(rest))\nshow(c.trainer.devices)": (8, 4),
    MERGED + WORDS + "c = OmegaConf.merge(file, OmegaConf.from_dotlist(a.more))\nshow(c.trainer.devices)": (8, 4),
    MERGED + "c = OmegaConf.merge(file, OmegaConf.from_dotlist(other()))\nshow(c.trainer.devices)": ("?", "?"),
    MERGED + "c = OmegaConf.merge(file, OmegaConf.from_dotlist(['trainer.devices=2']))\nshow(c.trainer.devices)": (
        "?",
        "?",
    ),
    MERGED
    + "def load():\n    return OmegaConf.to_container(OmegaConf.merge(file, OmegaConf.from_cli()), resolve=True)\n"
    "c = load()\nshow(c['trainer']['devices'])": (8, 4),
    MERGED + "c = OmegaConf.merge(OmegaConf.structured(Run), file)\nshow(c.trainer.devices)": (8, 4),
    MERGED + "c = OmegaConf.merge(file, other)\nshow(c.trainer.devices)": ("?", "?"),
    MERGED + "c = OmegaConf.merge(*parts)\nshow(c.trainer.devices)": ("?", "?"),
}


@pytest.mark.parametrize(("text", "values"), UNNAMED.items(), ids=range(len(UNNAMED)))
def test_the_words_of_the_launch_stand_over_files_that_are_not_known(text: str, values: tuple[object, object]) -> None:
    told = plain(configured(text, "trainer.devices=8"))
    assert (told, plain(configured(text))) == values


WHOLE = Source("conf/main.yaml", "model:\n  depth: 4\n  recompute: false\n  name: small\n")
BUILD = "def build(depth=1, recompute=True, width=8, **rest):\n    show({})\n"
PASSED = {
    HYDRA + "    build(**cfg.model)\n": 4,
    HYDRA + "    build(**OmegaConf.to_container(cfg.model, resolve=True))\n": 4,
    HYDRA + "    known = dict(cfg.model)\n    build(**known)\n": 4,
    HYDRA + "    Model(cfg.model)\nclass Model:\n    def __init__(self, of):\n        build(**of)\n": 4,
    LOADS + "c = yaml.safe_load(open('conf/main.yaml'))\nbuild(**c['model'])\n": 4,
    LOADS + "c = OmegaConf.load('conf/main.yaml').model\nbuild(**c)\n": 4,
    "of = dict(depth=4)\nbuild(**of)\n": 4,
    "of = {'width': 4}\nif other:\n    of['depth'] = 4\nbuild(**of)\n": "?",
    LOADS + "c = OmegaConf.load('conf/main.yaml').model\nc['depth'] = 5\nbuild(**c)\n": "?",
    LOADS + "c = OmegaConf.to_container(OmegaConf.load('conf/main.yaml'), resolve=True)\nbuild(**c['model'])\n": 4,
    LOADS + "import copy\nc = copy.deepcopy(yaml.safe_load(open('conf/main.yaml')))\nbuild(**c['model'])\n": 4,
    LOADS
    + "c = OmegaConf.to_container(OmegaConf.load('conf/main.yaml'))\nc['model']['depth'] = 5\nbuild(**c['model'])\n": 5,
    LOADS + "c = OmegaConf.to_container(other)\nbuild(**c['model'])\n": "?",
    LOADS + "c = OmegaConf.load(path).model\nbuild(**c)\n": "?",
}


@pytest.mark.parametrize(("text", "value"), PASSED.items(), ids=range(len(PASSED)))
def test_what_is_unpacked_into_a_call_fills_its_parameters(text: str, value: object) -> None:
    started = f"from omegaconf import OmegaConf\n{BUILD.format('depth')}{text}"
    assert plain(configured(started, config=WHOLE)) == value


def test_what_the_unpacked_part_lacks_has_its_default() -> None:
    text = HYDRA + "    build(**cfg.model)\n"
    assert plain(configured(BUILD.format("width") + text, config=WHOLE)) == 8
    assert plain(configured(BUILD.format("width") + text, "+model.width=2", config=WHOLE)) == 2
    assert plain(configured(BUILD.format("recompute") + text, "++model.recompute=true", config=WHOLE)) is True
    listed = Source(WHOLE.path, f"defaults:\n  - model: big\n  - _self_\n{WHOLE.text}")
    assert plain(configured(BUILD.format("width") + text, config=listed)) == "?"


def test_the_launch_names_the_config_of_hydra() -> None:
    text = HYDRA.replace("config_name='main'", "config_name=None") + "    show(cfg.trainer.devices)"
    assert plain(configured(text)) == "?"
    for words in (("-cn", "main"), ("--config-name=main",), ("--config-name", "main.yaml")):
        assert plain(configured(text, *words)) == 4
    assert plain(configured(text.replace("conf'", "other'"), "-cp", "conf", "-cn", "main")) == 4


def test_a_file_that_the_launch_names() -> None:
    text = "import argparse\np = argparse.ArgumentParser()\np.add_argument('--config')\nargs = p.parse_args()\n"
    text += LOADS + "c = OmegaConf.load(args.config)\nshow(c.trainer.devices)"
    assert plain(configured(text)) == "?"
    assert plain(configured(text, "--config", "conf/main.yaml")) == 4


BY_TURN = (
    "import argparse, sys\np = argparse.ArgumentParser()\np.add_argument('config')\np.add_argument('out', nargs='?')\n"
)
BY_TURN += "p.add_argument('--tags', nargs='+')\np.add_argument('-v', action='store_true')\nargs = p.parse_args()\n"


@pytest.mark.parametrize(
    ("words", "config", "out"),
    [
        ("a.yaml", "a.yaml", None),
        ("a.yaml b", "a.yaml", "b"),
        ("-v a.yaml --tags x y", "a.yaml", None),
        ("a.yaml --other b", "a.yaml", None),
        ("--other a.yaml", "?", None),
        ("a.yaml b c", "?", None),
    ],
)
def test_a_word_fills_the_argument_whose_turn_it_is(words: str, config: str, out: str | None) -> None:
    assert worth(BY_TURN + "show(args.config)", *words.split()) == config
    assert worth(BY_TURN + "show(args.out)", *words.split()) == out


def test_arguments_behind_one_that_takes_several_words_are_not_told() -> None:
    text = BY_TURN.replace("'config'", "'config', nargs='*'") + "show(args.out)"
    assert worth(text, "a", "b") is None


def test_a_word_of_the_command_by_its_number() -> None:
    assert worth("import sys\nshow(sys.argv[1])", "a.yaml") == "a.yaml"
    assert worth("import sys\nshow(int(sys.argv[2]))", "a.yaml", "8") == 8
    assert worth("import sys\nshow(sys.argv[2])", "a.yaml") == "?"
    assert worth("import sys\nshow(sys.argv[1])") == "?"


def test_a_file_below_its_defaults_list_tells_nothing_for_certain() -> None:
    below = Source("conf/main.yaml", "defaults:\n  - _self_\n  - model: small\ntrainer:\n  devices: 4\n")
    assert plain(configured(HYDRA + "    show(cfg.trainer.devices)", config=below)) == "?"


NARROWED = {
    "def f(n=1):\n    if n > 1:\n        show(n)": "?",
    "def f(n=1):\n    if n > 1:\n        show(n)\nf(1)\nf(4)": 4,
    "def f(n=1):\n    if n <= 1:\n        return\n    show(n)": "?",
    "def f(n=4):\n    if n > 1:\n        show(n)": 4,
    "def f(n=None):\n    if n is None:\n        n = 4\n    show(n)": 4,
    "def f(n=None):\n    if n is None:\n        n = 4\n        show(n)": 4,
    "def f(n=2):\n    if other > 1:\n        show(n)": 2,
}


@pytest.mark.parametrize(("text", "value"), NARROWED.items(), ids=range(len(NARROWED)))
def test_a_condition_around_the_use_excludes_a_default(text: str, value: object) -> None:
    assert worth(text) == value


def test_what_replaces_a_default_is_no_surer_than_it() -> None:
    assert _kind(evaluate(shown(program("def f(n=None):\n    if n is None:\n        n = 4\n    show(n)")))) == "assumed"


MATCH = """
def f(policy, staged):
    match policy:
        case "always":
            return True
        case "never" | "no":
            return False
        case _:
            return not staged
"""


def test_the_cases_of_a_match() -> None:
    assert worth(MATCH + "show(f('never', 1))") is False
    assert worth(MATCH + "show(f('other', False))") is True
    assert worth("match x:\n    case 1:\n        y = 1\n    case z:\n        y = 2\nshow(y)") == {
        "x == 1": 1,
        "not (x == 1)": 2,
    }
    assert worth("match x:\n    case [a, b]:\n        y = 1\n    case _:\n        y = 2\nshow(y)") == "?"


ATTRIBUTES = {
    "class A:\n    def __init__(self, n):\n        self.n = n\n    def more(self):\n        self.n = 8\n    def go(self):\n        show(self.n)\nA(4)": {
        "as A.__init__ sets it": 4,
        "as A.more sets it": 8,
    },
    "class A:\n    def __init__(self):\n        self.n = None\n    def fill(self):\n        self.n = 8\n    def go(self):\n        show(self.n)": 8,
    "class A:\n    def go(self):\n        self.n = 1\n        show(self.n)\n    def more(self):\n        self.n = 8": 1,
    "class A:\n    n: int = 2\n    def __post_init__(self):\n        if flag:\n            self.n = 8\n    def go(self):\n        show(self.n)": {
        "otherwise": 2,
        "flag": 8,
    },
}  # fmt: skip


@pytest.mark.parametrize(("text", "value"), ATTRIBUTES.items(), ids=range(len(ATTRIBUTES)))
def test_an_attribute_that_several_methods_set(text: str, value: object) -> None:
    assert worth(text) == value


def test_an_object_may_be_of_a_class_that_overrides_the_default() -> None:
    text = "class A:\n    name: str = ''\nclass B(A):\n    name = 'gpu'\ndef f(a: A):\n    show(a.name)"
    assert worth(text) == "?"
    assert worth(text.replace("B(A)", "B")) == ""


HANDED = {
    "def f(x):\n    show(x)\ndef run(fn):\n    fn(4)\nrun(f)": 4,
    "def f(x):\n    show(x)\ndef run(a, fn=None):\n    fn(4)\nrun(1, fn=f)": 4,
    "def f(m, x):\n    show(x)\nspec = Spec(apply=f)\ndef go(spec):\n    spec.apply(1, 8)": 8,
    "def f(x):\n    show(x)\nlist(map(f, [1]))": "?",
}


@pytest.mark.parametrize(("text", "value"), HANDED.items(), ids=range(len(HANDED)))
def test_a_function_that_is_handed_over(text: str, value: object) -> None:
    assert worth(text) == value


DEVICES = {
    "import torch\nshow(torch.accelerator.current_accelerator().type)": "cuda",
    "import torch\nd = torch.device(f'cuda:{rank}')\nshow(d.type)": "cuda",
    "import torch\nd = torch.device('cpu', 0)\nshow(d.type)": "cpu",
    "import torch\nd = torch.accelerator.current_accelerator() or torch.device('cpu')\nshow(d.type)": "cuda",
    "show(x.type)": "?",
}


@pytest.mark.parametrize(("text", "value"), DEVICES.items(), ids=range(len(DEVICES)))
def test_the_type_of_a_device(text: str, value: object) -> None:
    assert worth(text) == value


INHERITED = "from transformers import TrainingArguments\nclass A(TrainingArguments):\n    x: int = 1\n"
FILLED = {
    "def f(accelerator):\n    p = accelerator.state.fsdp_plugin\n    show(p.cpu_offload)": "?sharding.offload_parameters",
    "def f(plugin):\n    show(plugin.cpu_offload)": "?",
    INHERITED + "def f(args: A):\n    show(args.gradient_accumulation_steps)": "?batch.accumulation",
    INHERITED + "def f(args: B):\n    show(args.gradient_accumulation_steps)": "?",
}


@pytest.mark.parametrize(("text", "value"), FILLED.items(), ids=range(len(FILLED)))
def test_what_a_front_end_fills_means_a_setting(text: str, value: object) -> None:
    assert worth(text) == value


MESHES = {
    "def f(m: DeviceMesh):\n    tp = m['tp']\n    show(tp)": ["tp"],
    "def f(device_mesh):\n    show(device_mesh['dp', 'tp'])": [("dp", "tp")],
    "class D:\n    def get(self, names: str) -> DeviceMesh:\n        return self.x[names]\ndef f(d: D):\n    show(d.get(['a', 'b'] if d.on else ['b']))": [
        {"d.on": ("a", "b"), "not (d.on)": ("b",)}
    ],
    "def build() -> DeviceMesh:\n    return init_device_mesh('cuda', (n,), mesh_dim_names=('dp',))\nshow(build())": [("dp",)],
    "def f(m):\n    show(m['tp'])": None,
    "def f(m: DeviceMesh):\n    show(m)": None,
    "def f(m: DeviceMesh, name):\n    show(m[name])": None,
}  # fmt: skip


@pytest.mark.parametrize(("text", "names"), MESHES.items(), ids=range(len(MESHES)))
def test_the_dimensions_of_a_mesh_by_name(text: str, names: object) -> None:
    head = "from torch.distributed.device_mesh import DeviceMesh, init_device_mesh\n"
    found = mesh_names(shown(program(head + text)))
    assert (found if found is None else [plain(item) for item in found]) == names


def test_a_module_beyond_the_limit_is_read_when_a_name_leads_into_it() -> None:
    count = MAX_MODULES + 5
    texts = {f"m{number}": f"SIZE = {number}\n" for number in range(count)}
    entry = "".join(f"import m{number}\n" for number in range(count)) + f"show(m{count - 1}.SIZE)"
    found = follow(Source("train.py", entry), lambda name: Source(f"{name}.py", texts[name]) if name in texts else None)
    assert len(found.modules) == MAX_MODULES
    assert plain(evaluate(shown(found))) == count - 1
