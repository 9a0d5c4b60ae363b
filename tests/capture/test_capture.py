# SPDX-License-Identifier: Apache-2.0
"""What `-m` takes, and how it says no."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import pillion
from pillion import zoo
from pillion.errors import PillionError
from pillion.importers.torch import capture
from pillion.importers.torch.export import check_static, export

HEAD = "import torch\nfrom torch import nn\n"
INPUTS = "def example_inputs():\n    return (torch.randn(1, 4),)\n"
NET = "class Net(nn.Linear):\n    def __init__(self):\n        super().__init__(4, 2)\n"


def write(tmp_path: Path, *parts: str) -> Path:
    path = tmp_path / "model.py"
    path.write_text(HEAD + "".join(parts))
    return path


@pytest.mark.turns(2)
def test_zoo_name_and_alias() -> None:
    source = capture.load_model("mv2", input_size=32)
    assert source.name == "mobilenet_v2"
    assert source.example_inputs[0].shape == (1, 3, 32, 32)


@pytest.mark.parametrize(
    "parts",
    [
        (NET, INPUTS),
        (NET, "def example_inputs():\n    return torch.randn(1, 4)\n"),
        ("def Net():\n    return nn.Linear(4, 2), (torch.randn(1, 4),)\n",),
        ("Net = nn.Linear(4, 2)\n", INPUTS),
        (NET, "example_inputs = (torch.randn(1, 4),)\n"),
        (NET, "example_inputs = torch.randn(1, 4)\n"),
    ],
    ids=["class", "one_tensor", "pair", "module", "tuple_without_function", "tensor_without_function"],
)
def test_file(tmp_path: Path, parts: tuple[str, ...]) -> None:
    source = capture.load_model(f"{write(tmp_path, *parts)}:Net")
    assert source.module is not None
    assert source.example_inputs[0].shape == (1, 4)
    assert source.name == "net"


def test_weights(tmp_path: Path) -> None:
    file = write(tmp_path, NET, INPUTS)
    model = nn.Linear(4, 2)
    zoo.save_weights(model, tmp_path / "w.npz")
    source = capture.load_model(f"{file}:Net", weights=tmp_path / "w.npz")
    x = source.example_inputs[0]
    torch.testing.assert_close(source.exported.module()(x), model(x))


def test_pt2(tmp_path: Path) -> None:
    x = torch.randn(1, 4)
    torch.export.save(torch.export.export(nn.Linear(4, 2), (x,)), tmp_path / "small.pt2")
    source = capture.load_model(str(tmp_path / "small.pt2"))
    assert source.module is None
    assert source.name == "small"
    torch.testing.assert_close(source.example_inputs[0], x)


def test_missing_things_are_named(tmp_path: Path) -> None:
    file = write(tmp_path, NET)
    for spec, words in (
        (f"{tmp_path}/none.py:Net", "no file"),
        (f"{tmp_path}/none.pt2", "no file"),
        (f"{file}:Nett", "has no Nett"),
        (f"{file}:Net", "does not say what the inputs look like"),
        (str(file), "file.py:factory"),
        ("./thing", "does not name a model"),
        ("mobilenet_v9", "mobilenet"),
    ):
        with pytest.raises(PillionError, match=words):
            capture.load_model(spec)
    with pytest.raises(PillionError) as error:
        capture.load_model(f"{file}:Net")
    assert "def example_inputs()" in error.value.help
    with pytest.raises(PillionError) as error:
        capture.load_model(f"{file}:Nett")
    assert "it has Net" in error.value.here


@pytest.mark.parametrize(
    ("parts", "words"),
    [
        (("raise RuntimeError('oops')\n",), "oops"),
        (("def Net():\n    raise ValueError('bad')\n", INPUTS), "model.py:4"),
        (("def Net():\n    return 3\n", INPUTS), "gives no module"),
        ((NET, "def example_inputs():\n    return ['x']\n"), "not tensors"),
        (("def Net(\n",), "SyntaxError"),
    ],
    ids=["import", "factory", "no_module", "inputs", "syntax"],
)
def test_broken_files(tmp_path: Path, parts: tuple[str, ...], words: str) -> None:
    with pytest.raises(PillionError, match=words):
        capture.load_model(f"{write(tmp_path, *parts)}:Net")


def test_export_failure_shows_reason_and_line(tmp_path: Path) -> None:
    body = "class Net(nn.Module):\n    def forward(self, x):\n        return x if x.sum() > 0 else -x\n"
    with pytest.raises(PillionError, match="torch cannot export Net") as error:
        capture.load_model(f"{write(tmp_path, body, INPUTS)}:Net")
    assert "model.py:5" in error.value.here
    assert "\n" not in error.value.here
    assert "torch.where" in error.value.help


class Named(nn.Module):
    """Takes an input by name alone."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 4)

    def forward(self, x: Tensor, *, gain: Tensor) -> Tensor:
        return self.layer(x) * gain


def test_arguments_that_are_taken_by_name_alone_have_a_way_out() -> None:
    """Which is run as it is printed."""
    inputs = (torch.randn(1, 8), torch.randn(1, 4))
    with pytest.raises(PillionError, match="Named takes `gain` by name alone") as error:
        pillion.compile(Named(), inputs, target="cortex-m33", progress=False)
    assert error.value.here == "forward(x, *, gain), 2 example inputs"
    made: dict[str, Any] = {"nn": nn}
    exec(textwrap.dedent("\n".join((error.value.help or "").splitlines()[1:])), made)
    program = pillion.compile(made["Plain"](Named()), inputs, target="cortex-m33", progress=False)
    assert [value.name for value in program.graph.inputs] == ["x", "gain"]


def test_other_numbers_of_inputs_are_said() -> None:
    with pytest.raises(PillionError, match="Linear takes other inputs") as error:
        export(nn.Linear(8, 4), (torch.randn(1, 8),) * 2)
    assert error.value.here == "forward(input), 2 example inputs"
    assert error.value.help == "give input"


def test_errors_of_forward_name_their_line(tmp_path: Path) -> None:
    """Also where the words of the error name no line."""
    body = "class Net(nn.Module):\n    def forward(self, x):\n        raise KeyError('oops')\n"
    with pytest.raises(PillionError, match="torch cannot export Net") as error:
        capture.load_model(f"{write(tmp_path, body, INPUTS)}:Net")
    assert "oops" in error.value.here
    assert "model.py:5" in error.value.here
    assert "model(*example_inputs)" in error.value.help


def test_broken_pt2(tmp_path: Path) -> None:
    path = tmp_path / "x.pt2"
    for content in (b"", b"PK\x03\x04 not a zip", b"hello"):
        path.write_bytes(content)
        with pytest.raises(PillionError, match="not an exported program"):
            capture.load_model(str(path))
    with pytest.raises(PillionError, match="input size and weights inside"):
        capture.load_model(str(path), input_size=32)


def test_dynamic_dimension_is_refused() -> None:
    exported = torch.export.export(
        nn.Linear(4, 2), (torch.zeros(3, 4),), dynamic_shapes=({0: torch.export.Dim("n")},)
    )
    with pytest.raises(PillionError, match="dynamic dimension"):
        check_static(exported)


def test_modes_are_left_as_they_were() -> None:
    model = nn.Sequential(nn.Linear(4, 2), nn.Dropout()).train()
    model[1].eval()
    capture.export(model, (torch.zeros(1, 4),))
    assert [part.training for part in model.modules()] == [True, True, False]


def test_random_weights_and_inputs_are_the_same_each_time(tmp_path: Path) -> None:
    file = write(tmp_path, NET, "Net()\n", INPUTS)
    torch.manual_seed(5)
    first = capture.load_model(f"{file}:Net")
    after = torch.rand(1)
    second = capture.load_model(f"{file}:Net")
    assert first.module is not None
    assert second.module is not None
    torch.testing.assert_close(first.module.state_dict(), second.module.state_dict(), rtol=0, atol=0)
    torch.testing.assert_close(first.example_inputs, second.example_inputs, rtol=0, atol=0)
    torch.manual_seed(5)
    assert after == torch.rand(1), "the caller's random numbers go on as if nothing had been drawn"


@pytest.mark.parametrize("kind", ["module", "parameter", "buffer"])
def test_names_that_are_keywords_are_refused(kind: str) -> None:
    """torch.fx writes `self.in.weight`."""
    net = nn.Sequential(nn.ModuleDict({"in_": nn.Linear(4, 2)})["in_"])
    part: Any = net[0]
    add = {
        "module": lambda: part.add_module("in", nn.ReLU()),
        "parameter": lambda: part.register_parameter("in", nn.Parameter(torch.ones(1))),
        "buffer": lambda: part.register_buffer("in", torch.ones(1)),
    }
    add[kind]()
    with pytest.raises(PillionError, match="keyword of Python") as refused:
        export(net, (torch.rand(1, 4),))
    assert "`0.in`" in str(refused.value)
