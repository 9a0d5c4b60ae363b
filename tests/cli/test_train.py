# SPDX-License-Identifier: Apache-2.0
"""`pillion train` with loops as users write them: what it writes, what it leaves alone, and how it says no."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from pillion.cli import main
from pillion.emitters.c.manifest import read_manifest
from pillion.run.executor_list import run_project

pytestmark = pytest.mark.slow

HEAD = """
import torch
from torch import nn

def example_inputs():
    return (torch.zeros(1, 2, 6, 6),)

class Net(nn.Sequential):
    def __init__(self):
        torch.manual_seed(0)
        super().__init__(nn.Conv2d(2, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(128, 2))

model = Net
"""
LOOP = """
def train(model):
    import steps
    optimizer = torch.optim.Adam(model.parameters(), 0.03)
    data = torch.Generator().manual_seed(0)
    for step in range(steps.STEPS):
        x, wanted = torch.randn(16, 2, 6, 6, generator=data), torch.randint(2, (16,), generator=data)
        x[:, 0] += 2 * wanted.reshape(-1, 1, 1) - 1
        loss = nn.functional.cross_entropy(model(x), wanted)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(f"step {step} loss {loss.item():.4f}", flush=True)
    return model
"""


@dataclass
class Answer:
    code: int
    out: str
    err: str


class Command:
    """`pillion` in a folder of its own, with a loop in `loop.py`."""

    def __init__(
        self, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, folder: Path
    ) -> None:
        self.capsys, self.monkeypatch, self.folder = capsys, monkeypatch, folder
        monkeypatch.chdir(folder)
        monkeypatch.delitem(sys.modules, "steps", raising=False)
        Path("steps.py").write_text("STEPS = 30\n")

    def write(self, *parts: str, name: str = "loop.py") -> None:
        (self.folder / name).write_text("".join(parts))

    def __call__(self, *arguments: str) -> Answer:
        self.monkeypatch.setattr(sys, "argv", ["pillion", *arguments])
        code = 0
        try:
            main()
        except SystemExit as end:
            code = int(end.code or 0)
        return Answer(code, *self.capsys.readouterr())

    def train(self, *options: str, function: str = "loop.py:train") -> Answer:
        return self("train", function, "--target", "imxrt700", "-o", "fw", *options)


@pytest.fixture
def pillion(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Command:
    return Command(capsys, monkeypatch, tmp_path)


def losses(text: str) -> list[float]:
    return [float(line.split()[-1]) for line in text.splitlines() if line.startswith("step ")]


@pytest.mark.slow
def test_the_compiled_program_has_learned(pillion: Command) -> None:
    """The loop prints as it does alone, imports what lies beside it, and its result answers on this computer."""
    pillion.write(HEAD, LOOP)
    answer = pillion.train()
    assert answer.code == 0, answer.err
    assert len(losses(answer.out)) == 30
    assert losses(answer.out)[-1] < 0.6 * losses(answer.out)[0]
    assert answer.err == ""
    assert answer.out.splitlines()[-1].split() == ["batches", "30"]
    assert read_manifest(Path("fw")).model == "net"
    for seed in range(4):
        x = np.random.default_rng(seed).standard_normal((1, 2, 6, 6), np.float32)
        x[:, 0] += (-1) ** seed
        (logits,) = run_project(Path("fw"), [x]).outputs
        assert logits.argmax() == (x[:, 0].mean() > 0)


@pytest.mark.slow
def test_json_is_alone_on_standard_output(pillion: Command) -> None:
    pillion.write(HEAD, LOOP)
    answer = pillion.train("--json")
    assert json.loads(answer.out)["batches"] == 30
    assert len(losses(answer.err)) == 30


@pytest.mark.slow
@pytest.mark.parametrize("output", ["m.pte", "m.tflite"])
def test_other_forms_and_models_of_other_files(pillion: Command, output: str) -> None:
    pillion.write(HEAD.replace("model = Net", ""), name="nets.py")
    pillion.write("import torch\nfrom torch import nn\n", LOOP)
    answer = pillion("train", "loop.py:train", "-m", "nets.py:Net", "-t", "cortex-m55+int8", "-o", output)
    assert answer.code == 0, answer.err
    assert Path(output).stat().st_size > 1000


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--int16", "4"), {"4"}),
        (("--precision", "int16"), {"*"}),
        (("--min-quality", "30dB", "--calibrate", "x.npy"), None),
    ],
)
def test_tensors_are_trained_and_compiled_in_16_bits(
    pillion: Command, tmp_path: Path, options: tuple[str, ...], named: set[str] | None
) -> None:
    np.save(tmp_path / "x.npy", np.random.default_rng(0).standard_normal((8, 2, 6, 6)).astype(np.float32))
    pillion.write(HEAD, LOOP)
    answer = pillion("train", "loop.py:train", "-t", "cortex-m55", "-o", "fw", *options, "--json")
    assert answer.code == 0, answer.err
    chosen = set(json.loads(answer.out)["int16"])
    assert chosen == named if named else chosen
    wide = [op for op in read_manifest(tmp_path / "fw").ops if "int16" in str(op)]
    assert wide


@pytest.mark.parametrize("options", [("--min-quality", "45dB"), ("--calibrate", "x.npy")])
def test_a_choice_before_training_takes_data(pillion: Command, options: tuple[str, ...]) -> None:
    pillion.write(HEAD, LOOP)
    refused(pillion.train(*options), "--calibrate goes with --min-quality", "--int16 PATTERN")


@pytest.mark.slow
def test_a_file_is_run_once(pillion: Command) -> None:
    pillion.write("print('read')\n", HEAD, LOOP)
    assert pillion.train("-m", "loop.py:Net").out.count("read") == 1


@pytest.mark.slow
def test_a_copy_may_come_back(pillion: Command) -> None:
    pillion.write(HEAD, LOOP.replace("return model", "import copy\n    return copy.deepcopy(model).eval()"))
    assert pillion.train().code == 0


def refused(answer: Answer, *parts: str) -> None:
    """One message of four parts, no traceback, nothing written."""
    assert answer.code == 2
    assert answer.err.startswith("error: ")
    assert all(f"\n  {label}  " in answer.err for label in ("rule", "here", "help"))
    assert "Traceback" not in answer.err
    for part in parts:
        assert part in answer.err
    assert not Path("fw").exists()


BODIES = {
    "raises": ("def train(model):\n    return step(model)\n\ndef step(model):\n    raise ValueError('too blue')\n",
               "raised ValueError", "too blue", "in train: return step(model)", "in step: raise ValueError"),
    "leaves": ("def train(model):\n    raise SystemExit(3)\n", "raised SystemExit"),
    "torch raises": ("def train(model):\n    model(torch.zeros(1, 5, 6, 6))\n", "in train: model(torch.zeros(1, 5, 6, 6))"),
    "nothing": (LOOP.replace("return model", "return"), "gave back something else", "here  nothing", "return model"),
    "float": (LOOP.replace("return model", "return Net()"), "gave back something else", "a Net"),
    "untrained": ("def train(model):\n    return model\n", "trained nothing", "0 batches", "model.train()"),
    "eval": ("def train(model):\n    model.eval()\n    model(*example_inputs())\n    return model\n", "0 batches"),
    "other name": ("def training(model):\n    return model\n", "no function train", "training", "loop.py:training"),
    "no function": ("train = 3\n", "no function train", "train is a int"),
    "no argument": ("def train():\n    pass\n", "cannot be called with a model", "def train()"),
    "two arguments": ("def train(model, data):\n    pass\n", "cannot be called with a model", "def train(model, data)"),
}  # fmt: skip


@pytest.mark.turns(5)
@pytest.mark.parametrize("body", BODIES)
def test_errors_of_training_loops_are_explained(pillion: Command, body: str) -> None:
    code, *parts = BODIES[body]
    pillion.write(HEAD, code)
    refused(pillion.train(), *parts)


NEVER = "def train(model):\n    raise AssertionError('the loop must not begin')\n"


@pytest.mark.parametrize(
    ("options", "part"),
    [
        (("-m", "loop.py:Absent"), "has no Absent"),
        (("-m", "net.pt2"), "cannot be trained"),
        (("-m", "loop.py:Odd"), "would stay in float"),
        (("-m", "loop.py:Bare", "--only-npu"), "NPU"),
        (("--io-dtype", "int4"), "--io-dtype int4"),
        (("--target", "imxrt7000"), "no target"),
        (("-o", "fw.elf"), "cannot be written"),
        (("-o", "fw.txt"), "cannot be written"),
        (("-o", "."), "not empty"),
    ],
)
def test_invalid_options_are_refused_before_training(
    pillion: Command, options: tuple[str, ...], part: str
) -> None:
    product = (
        "class Product(nn.Module):\n    def forward(self, x):\n        return torch.logcumsumexp(x, 1)\n"
    )
    odd = product + "def Odd():\n    return nn.Sequential(Net(), Product())\n"
    bare = "def Bare():\n    return nn.Sequential(nn.Conv2d(2, 3, 3), nn.GELU())\n"
    pillion.write(HEAD, odd, bare, NEVER)
    refused(pillion.train(*options), part)


@pytest.mark.parametrize("function", ["loop.py", "loop.py:", "loop", "loop:train"])
def test_invalid_function_names_are_refused(pillion: Command, function: str) -> None:
    pillion.write(HEAD, LOOP)
    refused(pillion.train(function=function), "does not name a function", "loop.py:train")


def test_no_model_and_no_file(pillion: Command) -> None:
    pillion.write("def train(model):\n    return model\n")
    refused(pillion.train(), "has no model", "-m")
    refused(pillion.train(function="absent.py:train"), "`absent.py` cannot be read")


def test_an_edited_project_is_refused_before_training(pillion: Command) -> None:
    """Not after hours of it."""
    pillion.write(HEAD, LOOP)
    assert pillion.train("-o", "fw").code == 0
    changed = Path("fw/model/model.c").read_text() + "/* mine */\n"
    Path("fw/model/model.c").write_text(changed)
    pillion.write(HEAD, "def train(model):\n    raise SystemExit('it has begun')\n")
    answer = pillion.train("-o", "fw")
    assert answer.code == 2
    assert "model/model.c: changed" in answer.err
    assert "it has begun" in pillion.train("-o", "fw", "--force").err
    assert Path("fw/model/model.c").read_text() == changed
