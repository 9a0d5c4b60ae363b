# SPDX-License-Identifier: Apache-2.0
"""Norms of PyTorch, and those that models write by hand, are one op; trained, saved and read they are what they were."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import pillion
from pillion.ops import Clamp, Normalize
from pillion.passes import compose_norms

pytestmark = pytest.mark.torch
TARGET = "cortex-m55"


class Call(nn.Module):
    """A function as a module."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


class RootMeanSquare(nn.Module):
    """As language models write it."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))

    def forward(self, x: Tensor) -> Tensor:
        kind = x.dtype
        x = x.to(torch.float32)
        x = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * x.to(kind)


class OverChannels(nn.Module):
    """As nets of images write a layer norm whose channels come first."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.ones(size)), nn.Parameter(torch.zeros(size))

    def forward(self, x: Tensor) -> Tensor:
        mean = x.mean(1, keepdim=True)
        variance = (x - mean).pow(2).mean(1, keepdim=True)
        x = (x - mean) / torch.sqrt(variance + 1e-6)
        return self.weight[:, None, None] * x + self.bias[:, None, None]


def by_variance(x: Tensor) -> Tensor:
    return (x - x.mean(-1, keepdim=True)) / torch.sqrt(x.var(-1, keepdim=True, unbiased=False) + 1e-5)


def convolved(norm: nn.Module) -> nn.Module:
    return nn.Sequential(nn.Conv2d(3, 12, 3), norm, nn.ReLU())


NETS: dict[str, tuple[Callable[[], nn.Module], tuple[int, ...]]] = {
    "layer norm": (lambda: nn.LayerNorm(24), (2, 5, 24)),
    "layer norm over two axes": (lambda: nn.LayerNorm((5, 24)), (2, 5, 24)),
    "layer norm of an image": (lambda: convolved(nn.LayerNorm((12, 5, 7))), (1, 3, 7, 9)),
    "layer norm of one number": (lambda: nn.LayerNorm(1), (2, 5, 1)),
    "rms norm": (lambda: nn.RMSNorm(24), (2, 5, 24)),
    "group norm": (lambda: convolved(nn.GroupNorm(4, 12)), (2, 3, 7, 9)),
    "group norm of vectors": (lambda: nn.GroupNorm(3, 12), (2, 12)),
    "group norm of signals": (lambda: nn.GroupNorm(1, 6), (2, 6, 17)),
    "instance norm": (lambda: convolved(nn.InstanceNorm2d(12, affine=True)), (1, 3, 7, 9)),
    "instance norm without weights": (lambda: nn.InstanceNorm1d(5), (2, 5, 33)),
    "normalize": (lambda: Call(lambda x: F.normalize(x, dim=1)), (2, 12, 3, 5)),
    "rms norm by hand": (lambda: RootMeanSquare(24), (1, 5, 24)),
    "layer norm by hand": (lambda: OverChannels(6), (1, 6, 5, 7)),
    "layer norm by variance": (lambda: Call(by_variance), (2, 5, 24)),
    "square by product": (lambda: Call(lambda x: x / torch.sqrt((x * x).mean(-1, True))), (3, 24)),
}


def drawn(make: Callable[[], nn.Module], shape: tuple[int, ...]) -> tuple[nn.Module, list[Tensor]]:
    """A net with weights of its own, and samples that are not around zero."""
    torch.manual_seed(0)
    net = make().eval()
    with torch.no_grad():
        for held in net.parameters():
            held.add_(0.3 * torch.randn_like(held))
    return net, [2 * torch.randn(shape) + 0.5 for _ in range(6)]


def compiled(net: nn.Module, samples: list[Tensor], **options: Any) -> pillion.Program:
    return pillion.compile(
        net, (samples[0],), target=TARGET, calibrate=[(x,) for x in samples], progress=False, **options
    )


def decibels(wanted: Any, got: Any) -> float:
    return float(10 * np.log10((wanted**2).mean() / max(((wanted - got) ** 2).mean(), 1e-12)))


@pytest.mark.turns(2)
@pytest.mark.parametrize("name", NETS)
def test_each_is_one_op(name: str) -> None:
    net, samples = drawn(*NETS[name])
    program = compiled(net, samples)
    kinds = [op.kind for op in program.graph.ops]
    assert kinds.count("normalize") == 1
    assert set(kinds) <= {"quantize", "dequantize", "transpose", "reshape", "normalize", "conv2d"}
    assert not any(isinstance(op, Clamp) for op in program.graph.ops)  # it is the bounds of the norm
    with torch.no_grad():
        assert decibels(net(samples[1]).numpy(), program.run(samples[1])[0]) > 34


@pytest.mark.parametrize("name", ["layer norm", "group norm of signals", "rms norm by hand"])
def test_trained_programs_equal_their_simulation(name: str) -> None:
    net, samples = drawn(*NETS[name])
    trained = pillion.prepare_qat(net, (samples[0],), target=TARGET)
    optimizer = torch.optim.SGD(trained.parameters(), 0.01)
    for x in (*samples, torch.cat(samples)):  # batches of other sizes, too
        optimizer.zero_grad()
        trained(x).square().mean().backward()  # type: ignore[no-untyped-call]  # of torch
        optimizer.step()
    trained.eval()
    program = pillion.compile(trained, (samples[0],), target=TARGET, progress=False)
    assert sum(isinstance(op, Normalize) for op in program.graph.ops) == 1
    scale = program.graph.ops[-1].operands[0].scale
    with torch.no_grad():
        far = np.abs(trained(samples[1]).numpy() - program.run(samples[1])[0]) / scale
    assert far.max() < 1.01
    assert (far > 0.01).mean() < 0.02


def test_weights_that_are_computed_are_applied_behind_it() -> None:
    class Adaptive(nn.Module):
        def forward(self, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
            return F.layer_norm(x, (24,), weight, bias)

    inputs = (torch.randn(3, 24), torch.randn(24), torch.randn(24))
    program = pillion.compile(Adaptive(), inputs, target=TARGET, calibrate=[inputs], progress=False)
    assert {"normalize", "mul", "add"} <= {op.kind for op in program.graph.ops}
    assert decibels(Adaptive()(*inputs).numpy(), program.run(*inputs)[0]) > 30


def test_a_norm_whose_parts_others_read_stays_as_it_is() -> None:
    """The product with a weight is the norm's own only where nobody else reads what it is a product of."""

    class Both(nn.Module):
        def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
            y = F.layer_norm(x, (24,))
            return y, y * torch.linspace(0.5, 2, 24)

    x = torch.randn(3, 24)
    program = pillion.compile(Both(), (x,), target=TARGET, calibrate=[(x,)], progress=False)
    assert [op.kind for op in program.graph.ops].count("mul") == 1
    for wanted, got in zip(Both()(x), program.run(x), strict=True):
        assert decibels(wanted.numpy(), got) > 34


@pytest.mark.parametrize("name", ["layer norm", "group norm", "instance norm", "rms norm"])
def test_files_have_norms_as_other_ops(name: str, tmp_path: Path) -> None:
    net, samples = drawn(*NETS[name])
    program = compiled(net, samples, io_dtype="int8")
    x = program.graph.inputs[0]
    data = np.random.default_rng(0).normal(0, 40, x.shape).clip(-128, 127).astype(np.int8)
    wanted = compose_norms(program.graph).reference(data)[0]
    read = pillion.load(program.save(tmp_path / "net.pte"))
    assert np.array_equal(read.run(data)[0], wanted)
    assert not any(isinstance(op, Normalize) for op in read.graph.ops)
    lite = pillion.compile(program.save(tmp_path / "net.tflite"), target=TARGET, io_dtype="int8")
    exact = program.run(data)[0].astype(np.float64) - program.graph.outputs[0].zero_point
    for got in (wanted, lite.run(data)[0]):
        assert decibels(exact, got.astype(np.float64) - program.graph.outputs[0].zero_point) > 24


def test_executorch_is_asked_about_the_file() -> None:
    net, samples = drawn(*NETS["layer norm"])
    program = compiled(net, samples)
    skipped = {run.executor: run.skipped for run in program.verify(1).runs if run.skipped}
    assert "save the .pte" in skipped["executorch"].help
