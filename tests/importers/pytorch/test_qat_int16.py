# SPDX-License-Identifier: Apache-2.0
"""Training with some tensors in 16 bits: the compiled program is what was trained, and modules come back from storage."""

from __future__ import annotations

import copy
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from quantized_graphs import random_inputs
from test_qat import EXAMPLE, Net
from torch import Tensor, nn
from torchao.quantization.pt2e import FakeQuantize
from training_loops import batches, compiled, train

import pillion
from pillion.errors import PillionError
from pillion.host_io.atomic_files import content_chunks
from pillion.importers.torch.train.qat_module import QatModule
from pillion.ir.types import DType
from torch_oracle import compare, compare_trained

pytestmark = pytest.mark.slow
TARGET = "cortex-m33"


class Attention(nn.Module):
    """Products of two tensors, a softmax, a concatenation, a scaled parameter and a sum without an operand of its own."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.query, self.key, self.value = (nn.Linear(12, 12) for _ in range(3))
        self.scale = nn.Parameter(torch.rand(12))
        self.head = nn.Linear(24, 5)

    def forward(self, x: Tensor) -> Tensor:
        """Runs the net."""
        shares = torch.softmax(self.query(x) @ self.key(x).transpose(1, 2) / 12**0.5, -1)
        y = torch.tanh(shares @ self.value(x)) + x * (self.scale * 2)
        return self.head(torch.cat([y, x], -1))


NETS: dict[str, tuple[Any, tuple[Tensor, ...]]] = {
    "images": (Net, EXAMPLE),
    "attention": (Attention, random_inputs((1, 7, 12))),
}
CHOICES: dict[str, dict[str, Any]] = {
    "none": {},
    "all": {"precision": "int16"},
    "head": {"int16": ["head", "last"]},
    "first": {"int16": ["conv", "norm", "query"]},
}
WIDTHS = {"none": {DType.INT8}, "all": {DType.INT16}}


def prepared(net: str, choice: str) -> QatModule:
    """A net with some tensors in 16 bits; names of the other net are left out."""
    make, inputs = NETS[net]
    model, options = make(), dict(CHOICES[choice])
    if "int16" in options:
        options["int16"] = [name for name in options["int16"] if hasattr(model, name)]
    return pillion.prepare_qat(model, inputs, TARGET, **options)


@cache
def trained(net: str, choice: str) -> QatModule:
    module = prepared(net, choice)
    train(module, batches(NETS[net][1], 4, size=8))
    return module.eval()


@pytest.mark.turns(2)
@pytest.mark.parametrize("choice", CHOICES)
@pytest.mark.parametrize("net", NETS)
def test_the_trained_module_is_the_program(net: str, choice: str) -> None:
    """Every op within one step of torch's integers and of the module in eval mode, and the bytes of all executors."""
    module, inputs = trained(net, choice), NETS[net][1]
    quantized, graph = compiled(module, inputs)
    x = batches(inputs, 1, seed=9)[0]
    found = compare(quantized.graph_module, graph, *x), compare_trained(module, graph, *x)
    assert len(found[0].largest) > 4
    assert all(largest <= 1 for comparison in found for largest in comparison.largest.values())
    program = pillion.compile(module, inputs, target=TARGET)
    widths = {value.dtype for op in program.graph.ops for value in op.results} & {DType.INT8, DType.INT16}
    assert widths == WIDTHS.get(choice, {DType.INT8, DType.INT16})
    exact = program.run(*x, on="reference")
    for executor in ("host", "mps2-an505"):
        np.testing.assert_array_equal(program.run(*x, on=executor)[0], exact[0])


@pytest.mark.parametrize("net", NETS)
def test_tensors_have_finer_steps_in_training(net: str) -> None:
    """The same weights, rounded, with tensors that are not rounded, judge: 48 dB less noise would be 256 times finer steps."""
    noise = {}
    x = [part / 2 for part in batches(NETS[net][1], 1, size=8, seed=9)[0]]  # nothing is clipped
    for choice, dtype in (("none", torch.int8), ("all", torch.int16)):  # parameters keep 8 bits
        module = trained(net, choice)
        plain = copy.deepcopy(module)
        for part in plain.modules():
            if isinstance(part, FakeQuantize) and not part.is_per_channel and part.dtype is dtype:
                part.disable_fake_quant()
        with torch.no_grad():
            noise[choice] = float((module(*x) - plain(*x)).square().mean() / plain(*x).square().mean())
    assert noise["all"] < noise["none"] * 10**-4


@pytest.mark.parametrize("choice", CHOICES)
def test_modules_come_back(choice: str, tmp_path: Path) -> None:
    """From a state dict, from a file, and as a copy."""
    module = trained("images", choice)
    (x,) = random_inputs((4, 3, 9, 7), seed=3)
    loaded = prepared("images", choice)
    loaded.load_state_dict(module.state_dict())
    torch.save(module, tmp_path / "qat.pt")
    stored = torch.load(tmp_path / "qat.pt", weights_only=False)
    for other in (loaded.eval(), stored, copy.deepcopy(module)):
        assert torch.equal(other(x), module(x))
        assert other.state_dict().keys() == module.state_dict().keys()
    assert stored.preparation.tuning == module.preparation.tuning


def test_state_dicts_of_other_widths_do_not_fit() -> None:
    with pytest.raises(RuntimeError, match="in_16_bits"):
        prepared("images", "head").load_state_dict(trained("images", "all").state_dict())


def test_compile_takes_the_options_of_training_or_none() -> None:
    module = trained("images", "all")
    pillion.compile(module, EXAMPLE, target=TARGET, precision="int16")
    with pytest.raises(PillionError, match="prepared for training") as error:
        pillion.compile(module, EXAMPLE, target=TARGET, int16=("last",))
    assert "prepare_qat" in error.value.rule


def test_choices_are_refused_with_the_way_to_them() -> None:
    with pytest.raises(PillionError, match="does not choose") as error:
        pillion.prepare_qat(Net(), EXAMPLE, TARGET, precision="mixed")
    assert "--min-quality" in error.value.help
    with pytest.raises(PillionError, match="names no tensor") as error:
        pillion.prepare_qat(Net(), EXAMPLE, TARGET, int16="tail")
    assert "conv" in error.value.here


@pytest.mark.parametrize(("net", "wish"), [("images", "48dB"), ("attention", "30dB")])
def test_names_that_were_chosen_name_the_same_tensors(net: str, wish: str) -> None:
    """As patterns of compile, byte for byte (the search changes no range), and of training."""
    make, inputs = NETS[net]
    options: dict[str, Any] = {"target": TARGET, "calibrate": [x for (x,) in batches(inputs, 12)]}
    chosen = pillion.compile(make().eval(), inputs, min_quality=wish, **options)
    assert chosen.precision is not None
    names = [tensor.name for tensor in chosen.precision.tensors]
    assert names
    named = pillion.compile(make().eval(), inputs, int16=tuple(names), **options)
    contents = [
        [b"".join(content_chunks(p.files[f"model/{file}"])) for file in ("model.c", "weights.c")]
        for p in (chosen, named)
    ]
    assert contents[0] == contents[1]
    assert pillion.prepare_qat(make(), inputs, TARGET, int16=names).preparation.tuning.int16 == tuple(names)
