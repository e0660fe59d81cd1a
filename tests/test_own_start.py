"""What an imported file does only where it is started itself belongs to another program."""

import pytest

from dtlint.api import check
from dtlint.languages.python.imported import follow_imports
from dtlint.languages.python.reading import parse_module
from dtlint.source import Source

SINGLE = """
import torch

def accuracy(x):
    return x.mean()

class Trainer:
    def train(self, data):
        for x in data:
            loss = self.model(x).mean()
            if torch.isnan(loss):
                continue
            loss.backward()

def main():
    Trainer().train(data)
"""
START = 'if __name__ == "__main__":\n    main()\n'
ENTRY = """
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from single import accuracy

def main():
    dist.init_process_group("nccl")
    model = DistributedDataParallel(Net())
    for x in data:
        model(x).mean().backward()
        print(accuracy(x))
"""


@pytest.mark.parametrize(
    ("start", "more", "files"),
    [
        (START, "main()\n", []),
        ("main()\n", "main()\n", ["single.py"]),
        (START, "from single import Trainer\nTrainer().train(data)\n", ["single.py"]),
        (START, "import single\nsingle.main()\n", ["single.py"]),
        (START, "from single import main as begin\nbegin()\n", ["single.py"]),
        (START + "else:\n    main()\n", "main()\n", ["single.py"]),
    ],
)
def test_a_training_loop_of_an_imported_file(tree, start: str, more: str, files: list[str]) -> None:
    tree(
        {"single.py": SINGLE + start, "several.py": ENTRY + more, "run.sh": "torchrun --nproc_per_node 8 several.py\n"}
    )
    found = [each for each in check(["run.sh"]).findings if each.rule == "rank-divergent-control-flow"]
    assert [each.span.path for each in found] == files


@pytest.mark.parametrize(
    ("importing", "count"),
    [
        ("from other import Arguments\n", 1),
        ('if __name__ == "__main__":\n    from other import Arguments\n    Arguments()\n', 0),
        ('if __name__ != "__main__":\n    from other import Arguments\n', 1),
        (
            'def __getattr__(name):\n    return load(name)\nif __name__ == "__main__":\n    from other import Arguments\n',
            1,
        ),
        ('from other import Arguments\nif "__main__" == __name__:\n    from other import Arguments\n', 1),
    ],
)
def test_imports_of_an_imported_file_for_itself(importing: str, count: int) -> None:
    files = {"net": importing, "other": "x = 1\n"}
    found = {name: Source(f"{name}.py", text) for name, text in files.items()}
    entry = Source("train.py", "import net\n")
    modules, _ = follow_imports(entry, found.get, lambda source, name: parse_module(source)._replace(name=name))
    assert ("other" in modules) == bool(count)
