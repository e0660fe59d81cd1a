"""What an expression in a Python file is worth, where the value was written, and when it is not known."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from python_texts import plain, program_of, shown

from dtlint.frameworks.pytorch import fsdp
from dtlint.languages.python import command_line, follow, imported_modules, link, marker, read_module
from dtlint.languages.python.constants import evaluate
from dtlint.languages.python.program import Program, sites
from dtlint.languages.traced import literal_word
from dtlint.source import Source
from dtlint.value import Setting, Value


def worth_in(program: Program) -> Setting:
    return evaluate(shown(program))


def program(text: str, **others: str) -> Program:
    return program_of("", text, **others)


def worth(text: str, **others: str) -> Setting:
    return worth_in(program(text, **others))


KNOWN = {
    "show(8)": 8,
    "show(-1)": -1,
    "show(2 * 4 + 1)": 9,
    "show(7 // 2)": 3,
    "show('a' + 'b')": "ab",
    "show((1, 2))": (1, 2),
    "x = 8\nshow(x)": 8,
    "x = 4\nx = 8\nshow(x)": 8,
    "x = 8\nshow(x)\nx = 4": 8,
    "a, b = 1, 2\nshow(b)": 2,
    "def f():\n    show(x)\nx = 3": 3,
    "x = 1\ndef f():\n    x = 2\n    show(x)": 2,
    "def f(x=3):\n    show(x)": 3,
    "x = 3\ndef f():\n    def g():\n        nonlocal x\n        x = 2\n    x = 1\ndef h():\n    show(x)": 3,
    "def f(x):\n    show(x)\nf(5)": 5,
    "def f(x):\n    show(x)\nf(x=6)": 6,
    "def size():\n    return 16\nshow(size())": 16,
    "def sizes():\n    return 2, 4\n_, x = sizes()\nshow(x)": 4,
    "def double(x):\n    return x * 2\nshow(double(4))": 8,
    "import torch\nshow(torch.bfloat16)": "torch.bfloat16",
    "import torch as t\nshow(t.float16)": "torch.float16",
    "import torch\nshow(getattr(torch, 'bfloat16'))": "torch.bfloat16",
    "import torch\ntypes = {'bf16': torch.bfloat16}\nshow(types['bf16'])": "torch.bfloat16",
    "import torch\nshow(dict(bf16=torch.bfloat16)['bf16'])": "torch.bfloat16",
    "from torch.distributed.fsdp import ShardingStrategy as S\nshow(S.FULL_SHARD)": (
        "torch.distributed.fsdp.ShardingStrategy.FULL_SHARD"
    ),
    "show([4, 8][1])": 8,
    "show(int('8'))": 8,
    "show(None or 4)": 4,
    "show(max(2, 8))": 8,
    "show('bf16'.upper())": "BF16",
    "use = True\nx = 1 if use else 2\nshow(x)": 1,
    "x = 1\nif False:\n    x = 2\nshow(x)": 1,
    "x = 1\nif True:\n    x = 2\nshow(x)": 2,
    "kind = 'b'\nif kind == 'a':\n    x = 1\nelif kind == 'b':\n    x = 2\nelse:\n    x = 3\nshow(x)": 2,
    "if __name__ == '__main__':\n    show(8)": 8,
    "class A:\n    def __init__(self):\n        self.n = 4\n    def go(self):\n        show(self.n)": 4,
    "(x := 5)\nshow(x)": 5,
    "for i in data:\n    x = 1\n    show(x)\n    x = 2": 1,
    "x = 4\nx //= 2\nshow(x)": 2,
    "p = 'a'\nshow(f'{p}.b{1}')": "a.b1",
    "import copy\nx = copy.deepcopy({'a': 1})\nshow(x['a'])": 1,
    "d = {'a': 1}\nd['a'] = 2\nshow(d['a'])": 2,
    "d = {'a': 1}\nd.update(a=2)\nshow(d['a'])": 2,
    "show({'a': 1}.get('a', 2))": 1,
    "d = {'a': 1}\nshow(d.get('b', 2))": 2,
    "d = {'a': 1}\nshow(d.get('b'))": None,
    "def f(**options):\n    show(options['a'])\nf(a=3)": 3,
    "def f(x, **options):\n    show(options.get('b', 7))\nf(1)": 7,
    "args = parse()\nargs.n = 8\nshow(args.n)": 8,
    "import enum\nclass D(str, enum.Enum):\n    DP = 'dp'\nshow(D.DP.value)": "dp",
    "class A:\n    @staticmethod\n    def size(n):\n        return n\nshow(A.size(4))": 4,
    "class A:\n    def __init__(self, n):\n        self.n = n\na = A(4)\nshow(a.n)": 4,
    "class A:\n    def __init__(self, n):\n        self.n = n\n    def go(self):\n        show(self.n)\nA(4).go()": 4,
    "class A:\n    def __init__(self):\n        self.n = 4\n        self.n += 1\n    def go(self):\n        show(self.n)": 5,
    "class A:\n    def __init__(self):\n        self.n = 4\n    def go(self):\n        self.n //= 2\n        show(self.n)": 2,
    "class A:\n    n = 4\nclass B(A):\n    def go(self):\n        show(self.n)": 4,
    "class A:\n    def size(self, n=2):\n        return n * 2\na = A()\nshow(a.size(4))": 8,
    "class A:\n    @property\n    def size(self):\n        return 8\na = A()\nshow(a.size)": 8,
}


@pytest.mark.parametrize(("text", "value"), KNOWN.items(), ids=range(len(KNOWN)))
def test_known(text: str, value: object) -> None:
    assert plain(worth(text)) == value


CHOICES = {
    "x = 1 if flag else 2\nshow(x)": {"flag": 1, "not (flag)": 2},
    "if flag:\n    x = 1\nelse:\n    x = 2\nshow(x)": {"flag": 1, "not (flag)": 2},
    "x = 1\nif flag:\n    x = 2\nshow(x)": {"otherwise": 1, "flag": 2},
    "x = 1 if flag else 2\nshow(x * 4)": {"flag": 4, "not (flag)": 8},
    "x = 1 if flag else 2\nshow((x, x * 2))": {"flag": (1, 2), "not (flag)": (2, 4)},
    "x = 1 if flag else 2\nshow(x == 1)": {"flag": True, "not (flag)": False},
    "x = None if flag else 2\nshow(x or 4)": {"flag": 4, "not (flag)": 2},
    "def f(x):\n    show(x)\nf(1)\nf(2)": {"called at train.py:3": 1, "called at train.py:4": 2},
    "for x in (1, 2):\n    show(x)": {"x = 1": 1, "x = 2": 2},
    "for a, b in ((1, 2), (3, 4)):\n    show(b)": {"b = (1, 2)": 2, "b = (3, 4)": 4},
    "d = {'a': 1}\nif flag:\n    d['a'] = 2\nshow(d['a'])": {"otherwise": 1, "flag": 2},
    "d = {}\nif flag:\n    d['a'] = 3\nshow(d.get('a', 2))": {"flag": 3, "otherwise": 2},
    "args = parse()\nargs.n = 8\nif flag:\n    args.n = 4\nshow(args.n)": {"otherwise": 8, "flag": 4},
    "x = 1\ndef f():\n    global x\n    x = 2\nshow(x)": {"as the module sets it": 1, "as f sets it": 2},
}


@pytest.mark.parametrize(("text", "value"), CHOICES.items(), ids=range(len(CHOICES)))
def test_a_condition_makes_a_choice(text: str, value: object) -> None:
    assert plain(worth(text)) == value


def test_an_attribute_that_is_set_after_parsing_is_no_default() -> None:
    assert plain(worth(ARGPARSE + "args.micro_batch = 16\nshow(args.micro_batch)")) == 16
    found = worth(ARGPARSE + "if tiny:\n    args.micro_batch = 1\nshow(args.micro_batch)")
    assert plain(found) == {"otherwise": 4, "tiny": 1}


NESTED = """
from dataclasses import dataclass, field
@dataclass
class Parallelism:
    tensor: int = 2
@dataclass
class Job:
    parallelism: Parallelism = field(default_factory=Parallelism)
"""


def test_a_config_in_a_config_by_its_annotation() -> None:
    assert plain(worth(NESTED + "def run(job: Job):\n    show(job.parallelism.tensor)")) == 2
    assert plain(worth(NESTED + "def run(job: 'Job'):\n    show(job.parallelism.tensor)")) == 2
    assert (
        plain(
            worth(
                NESTED + "from typing import Optional\ndef run(job: Optional[Job]):\n    show(job.parallelism.tensor)"
            )
        )
        == 2
    )
    assert plain(worth(NESTED + "job = Job(parallelism=Parallelism(tensor=8))\nshow(job.parallelism.tensor)")) == 8


def test_a_config_that_an_object_keeps() -> None:
    text = NESTED + "class Trainer:\n    def __init__(self, job: Job):\n        self.job = job\n    def go(self):\n"
    assert plain(worth(text + "        show(self.job.parallelism.tensor)")) == 2


def test_a_default_in_a_look_up_is_assumed() -> None:
    for text in ("def f(config):\n    show(config.get('size', 8))", "show(getattr(options, 'size', 8))"):
        found = worth(text)
        assert isinstance(found, Value)
        assert (found.value, found.origin.kind) == (8, "assumed")


def test_a_dict_that_is_changed_under_another_name_is_not_known() -> None:
    assert plain(worth("def f(d):\n    show(d['a'])\nk = {'a': 1}\nk['a'] = 2\nf(k)")) == "?"


RETURNS = """
def size(big):
    if a:
        if b:
            return 8
        else:
            return 4
    return 2 if big else 1
show(size(False))
"""


def test_a_last_return_hides_none_before_it() -> None:
    assert plain(worth(RETURNS)) == {"a and b": 8, "a and not (b)": 4, "not (a)": 1}
    loop = "def size(big):\n    for x in data:\n        if x:\n            return 8\n    return 2 if big else 1\nshow(size(0))"
    assert plain(worth(loop)) == {"x": 8, "otherwise": 1}


def test_what_an_assumed_key_picks_is_assumed() -> None:
    for text in ("{1: 'a', 4: 'b'}[args.micro_batch]", "['a', 'c', 'c', 'c', 'b'][args.micro_batch]"):
        found = worth(ARGPARSE + f"show({text})")
        assert isinstance(found, Value)
        assert (found.value, found.origin.kind) == ("b", "assumed")
    words = ARGPARSE + "parser.add_argument('--kind', default='float16')\nimport torch\n"
    for text in ("getattr(torch, args.kind)", "{'float16': torch.float16}[args.kind]"):
        found = worth(words + f"show({text})")
        assert isinstance(found, Value)
        assert (found.value, found.origin.kind) == ("torch.float16", "assumed")


def test_a_count_of_the_cluster_is_not_zero() -> None:
    assert plain(worth("import torch\nshow(torch.cuda.device_count() or 1)")) == "?cluster.gpus_per_node"


def test_under_its_own_condition_a_value_is_certain() -> None:
    assert plain(worth("if flag:\n    x = 2\n    show(x)")) == 2


def test_callers_that_agree() -> None:
    assert plain(worth("def f(x):\n    show(x)\nf(4)\nf(4)")) == 4


UNKNOWN = {
    "class A:\n    def __init__(self):\n        self.n = 0\n    def go(self):\n        self.n += 1\n        show(self.n)": "?",
    "def f(x):\n    show(x)\nparser.add_argument('--a', type=f)\ndata.type(3)": "?",
    "def f():\n    def g():\n        nonlocal x\n        x = 2\n    x = 1\n    g()\n    show(x)": "?",
    "show(x)": "?",
    "for x in data:\n    show(x)": "?",
    "for x in (1, 2):\n    n += x\n    show(n)": "?",
    "x = 1\nfor i in data:\n    x += 1\n    show(x)": "?",
    "x = 1\nfor i in data:\n    show(x)\n    x = x * 2": "?",
    "show(input())": "?",
    "show(1 / 0)": "?",
    "show(9 ** 9 ** 9)": "?",
    "show('a' * 10**9)": "?",
    "def f(x):\n    show(x)": "?",
    "x = x\nshow(x)": "?",
    "def f():\n    return f()\nshow(f())": "?",
    "import os\nshow(os.environ['N'])": "?",
    "import os\nshow(os.environ['WORLD_SIZE'])": "?parallel.world_size",
    "import os\nshow(int(os.environ.get('WORLD_SIZE', 1)))": "?parallel.world_size",
    "import torch.distributed as dist\nshow(dist.get_world_size())": "?parallel.world_size",
    "import torch\nshow(torch.cuda.device_count())": "?cluster.gpus_per_node",
    "import torch.distributed as dist\nshow(dist.get_world_size() // 2)": "?parallel.world_size // 2",
    "import torch.distributed as dist\nshow(dist.get_world_size() // 2 * 4)": "?parallel.world_size // 2 * 4",
    "import torch.distributed as dist\nshow(2 * (dist.get_world_size() // 2))": "?",
    "import torch.distributed as dist\nshow(dist.get_world_size() - 1)": "?",
    "import torch.distributed as dist\nshow(dist.get_world_size() // n)": "?",
    "def f():\n    global x\n    x = input()\nx = 1\nshow(x)": {"as the module sets it": 1, "as f sets it": "?"},
}


@pytest.mark.parametrize(("text", "value"), UNKNOWN.items(), ids=range(len(UNKNOWN)))
def test_unknown_is_never_guessed(text: str, value: object) -> None:
    assert plain(worth(text)) == value


def test_the_origin_is_the_literal_and_the_chain_leads_to_it() -> None:
    found = worth("size = 8\nshow(size)")
    assert isinstance(found, Value)
    assert found.origin.span is not None
    assert (found.origin.span.line, found.origin.span.column) == (1, 8)
    assert [(step.span.line, step.label) for step in found.origin.chain] == [(2, "size")]


def test_columns_count_code_points() -> None:
    found = worth("é = 'größe'; size = 8\nshow(size)")
    assert isinstance(found, Value)
    assert found.origin.span is not None
    assert (found.origin.span.text, found.origin.span.column) == ("8", 21)


def test_lone_carriage_returns_end_lines_as_in_python() -> None:
    found = worth("a = 1\rsize = 8\r\nshow(size)")
    assert isinstance(found, Value)
    assert found.origin.span is not None
    assert found.origin.span.text == "8"


def test_constants_of_another_file() -> None:
    assert plain(worth("from settings import SIZE\nshow(SIZE)", settings="SIZE = 8")) == 8
    assert plain(worth("import settings\nshow(settings.SIZE)", settings="SIZE = 8")) == 8
    assert plain(worth("from settings import SIZE\nshow(SIZE)")) == "?"


def test_constants_that_a_package_hands_on() -> None:
    files = {
        "pkg": ("pkg/__init__.py", "from .sizes import *\nfrom .names import NAME"),
        "pkg.sizes": ("pkg/sizes.py", "SIZE = 8"),
        "pkg.names": ("pkg/names.py", "NAME = 'x'\ndef twice(n):\n    return 2 * n"),
    }

    def find(name: str) -> Source | None:
        return Source(*files[name]) if name in files else None

    def shown(text: str) -> object:
        return plain(worth_in(follow(Source("train.py", text), find)))

    assert shown("import pkg\nshow(pkg.SIZE)") == 8
    assert shown("from pkg import *\nshow(SIZE)") == 8
    assert shown("from pkg import NAME\nshow(NAME)") == "x"
    assert shown("from pkg.names import twice\nshow(twice(4))") == 8


def test_a_class_of_another_file_as_a_config() -> None:
    config = "class config:\n    size: int = 8"
    assert plain(worth("from settings import config\nshow(config.size)", settings=config)) == 8


ARGPARSE = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--micro-batch", "-b", type=int, default=4)
parser.add_argument("--fast", action="store_true")
parser.add_argument("--name", required=True)
args = parser.parse_args()
"""


def test_an_argparse_default_is_assumed() -> None:
    found = worth(ARGPARSE + "show(args.micro_batch)")
    assert isinstance(found, Value)
    assert (found.value, found.origin.kind) == (4, "assumed")
    assert found.origin.span is not None
    assert found.origin.span.text == "4"


def test_what_the_launch_leaves_out_has_its_default() -> None:
    found = worth_in(program(ARGPARSE + "show(args.micro_batch)")._replace(given={}))
    assert isinstance(found, Value)
    assert (found.value, found.origin.kind) == (4, "written")


def test_what_the_launch_passes() -> None:
    text = "--micro-batch 8 --fast --name=run"
    source = Source("launch.sh", text)
    words, start = [], 0
    for word in text.split():
        start = text.index(word, start)
        words.append(literal_word(word, source.span(start, start + len(word))))
    read = program(ARGPARSE + "show(args.micro_batch)")
    passed = command_line(read, tuple(words))
    told = {name: plain(value) for name, value in passed.items() if name in read.arguments}
    assert told == {"micro_batch": 8, "fast": True, "name": "run"}
    found = worth_in(read._replace(given=passed))
    assert isinstance(found, Value)
    assert found.value == 8
    assert found.origin.span is not None
    assert found.origin.span.path == "launch.sh"


def test_a_required_argument_is_unknown() -> None:
    assert plain(worth(ARGPARSE + "show(args.name)")) == "?"


def test_dataclass_fields_are_arguments() -> None:
    text = """
from dataclasses import dataclass, field
from transformers import HfArgumentParser
@dataclass
class Arguments:
    size: int = 8
    name: str = field(default="run", metadata={})
    flag: bool = False
parser = HfArgumentParser(Arguments)
args, = parser.parse_args_into_dataclasses()
"""
    assert plain(worth(text + "show(args.size)")) == 8
    assert plain(worth(text + "show(args.name)")) == "run"


def test_a_parse_that_is_taken_apart_gives_arguments_under_any_name() -> None:
    text = """
from dataclasses import dataclass
from transformers import HfArgumentParser
@dataclass
class Model:
    quantized: bool = False
@dataclass
class Training:
    size: int = 8
parser = HfArgumentParser((Model, Training))
m, t = parser.parse_args_into_dataclasses()
"""
    assert plain(worth(text + "show(m.quantized)")) is False
    assert plain(worth(text + "show(t.size)")) == 8
    assert plain(worth(text.replace("parser.parse_args_into_dataclasses", "build") + "show(t.size)")) == "?"


def test_a_config_object() -> None:
    text = "from dataclasses import dataclass\n@dataclass\nclass Config:\n    size: int = 8\n"
    assert plain(worth(text + "cfg = Config()\nshow(cfg.size)")) == 8
    assert plain(worth(text + "cfg = Config(size=16)\nshow(cfg.size)")) == 16
    assert plain(worth(text + "def f(c: Config):\n    show(c.size)")) == 8


def test_an_environment_default_is_assumed() -> None:
    found = worth("import os\nshow(os.environ.get('SIZE', 8))")
    assert isinstance(found, Value)
    assert (found.value, found.origin.kind) == (8, "assumed")


def test_imported_modules_as_written() -> None:
    module = read_module(Source("a.py", "import a.b\nfrom . import c\nfrom ..d import e\nfrom f import *"))
    assert imported_modules(module) == ("a.b", ".c", ".", "..d", "..d.e", "f")


def test_following_the_imports_of_an_entry_script() -> None:
    files = {"utils": "from deep import x", "deep": "x = 1", "unused": "x = 2"}
    read = follow(
        Source("train.py", "import utils, torch"), lambda name: Source(name, files[name]) if name in files else None
    )
    assert list(read.modules) == ["__main__", "utils", "deep"]


def test_markers() -> None:
    assert marker(b"import torch.distributed as dist")
    assert not marker(b"print('hello')")


def test_a_syntax_error_is_a_problem_with_its_place() -> None:
    module = read_module(Source("train.py", "x = 1\ndef f(:\n    pass\n"))
    (problem,) = module.problems
    assert (problem.fatal, problem.span.line) == (True, 2)


HOSTILE = {
    "deep parentheses": "(" * 5000 + ")" * 5000,
    "deep attributes": "x = a" + ".b" * 3000 + "\nshow(x)",
    "a long sum": "show(" + "+".join(["1"] * 3000) + ")",
    "a long chain of names": "x0 = 1\n" + "".join(f"x{i + 1} = x{i}\n" for i in range(3000)) + "show(x3000)",
    "doubling": "x0 = 1\n" + "".join(f"x{i + 1} = x{i} + x{i}\n" for i in range(60)) + "show(x60)",
    "doubling conditions": "x0 = 1\n"
    + "".join(f"x{i + 1} = x{i} if c{i} else x{i}\n" for i in range(60))
    + "show(x60)",
    "deep calls": "".join(f"def f{i}(x):\n    return f{i + 1}(x) + f{i + 1}(x)\n" for i in range(40)) + "show(f0(1))",
    "a null byte": "x = 1\0",
    "a huge number": "show(" + "9" * 5000 + ")",
    "deep lists": "show(" + "[" * 150 + "]" * 150 + ")",
    "a surrogate": "x = '\ud800'\nshow(x)",
}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_files_end_soon_and_raise_nothing(text: str) -> None:
    read = program(text)
    if not read.main.problems:
        worth_in(read)


PIECES = st.sampled_from(
    [
        "x",
        "=",
        "1",
        "(",
        ")",
        "\n",
        "    ",
        "if ",
        ":",
        "def f",
        "return ",
        "class C",
        "for ",
        " in ",
        "lambda",
        ",",
        "*",
        "**",
        ".grad",
        "é",
        "\r",
        "'",
        "args.x",
        "import a as b",
    ]
)


@settings(max_examples=150, deadline=None)
@given(st.lists(PIECES, max_size=30).map("".join))
def test_any_text_is_read_or_is_a_problem(text: str) -> None:
    module = read_module(Source("a.py", text))
    for site in sites(module):
        span = module.span(site.node)
        assert 0 <= span.start <= span.end <= len(text)


@settings(max_examples=60, deadline=None)
@given(st.integers(-1000, 1000), st.integers(-1000, 1000), st.sampled_from(["+", "-", "*", "//", "%"]))
def test_arithmetic_is_pythons(a: int, b: int, operator: str) -> None:
    found = plain(worth(f"a = {a}\nb = {b}\nshow(a {operator} b)"))
    assert found == ("?" if b == 0 and operator in ("//", "%") else eval(f"{a} {operator} {b}"))


def test_a_module_that_imports_from_itself_ends() -> None:
    text = "from train import model\nfrom torch.distributed.fsdp import FullyShardedDataParallel as FSDP\nmodel = FSDP(model)\n"
    assert fsdp.read(link({"train.py": read_module(Source("train.py", text))})).framework == "fsdp"


METHOD = (
    "class Model:\n    def fit(self, steps=1):\n        show(steps)\nclass Other:\n    def fit(self):\n        pass\n"
)


@pytest.mark.parametrize(
    ("calls", "known"),
    [
        ("", True),
        ("load().fit()\n", True),
        ("load().fit(steps=4)\n", False),
        ("Other().run(steps=4)\n", True),
        ("fit(steps=4)\n", True),
    ],
)
def test_a_default_is_not_the_value_where_a_call_that_may_be_one_passes_another(calls: str, known: bool) -> None:
    found = worth(METHOD + calls)
    assert isinstance(found, Value) is known
    if isinstance(found, Value):
        assert (found.value, found.origin.kind) == (1, "assumed")
