# SPDX-License-Identifier: Apache-2.0
"""What is rewritten so that int8 rounds less: weighted sums, and constants that are joined with computed tensors."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion
from pillion.importers.torch.export import export
from pillion.importers.torch.fx_nodes import aten, calls
from pillion.importers.torch.rewrite.pipeline import accuracy_rewrites, rewrite_for_quantization
from pillion.ir.constraints import QuantizationConstraints
from pillion.ops import BatchMatmul, Concat, Linear, Mul, Pad

pytestmark = pytest.mark.torch
needs_cc = pytest.mark.skipif(shutil.which("cc") is None, reason="needs a C compiler")


class Of(nn.Module):
    """A function of one tensor, with a constant."""

    def __init__(self, function: Callable[[Tensor, Tensor], Tensor], constant: Tensor) -> None:
        super().__init__()
        self.function = function
        self.register_buffer("c", constant)

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, self.c)


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def rewritten(net: nn.Module, x: Tensor) -> torch.fx.GraphModule:
    module = rewrite_for_quantization(export(net.eval(), (x,)).module(check_guards=False))
    accuracy_rewrites(module, QuantizationConstraints())
    return module


def decibels(wanted: Tensor, found: np.ndarray) -> float:
    noise = float((wanted.double() - torch.from_numpy(found)).square().sum())
    return 10 * math.log10(float(wanted.double().square().sum()) / noise)


WEIGHTED = {
    "last axis": (lambda x, c: (x * c).sum(-1), (2, 3, 7), (7,)),
    "factor first": (lambda x, c: (c * x).sum(-1), (1, 5, 9), (9,)),
    "kept": (lambda x, c: (x * c).sum(-1, keepdim=True), (1, 5, 9), (9,)),
    "mean": (lambda x, c: (x * c).mean(-1), (1, 5, 9), (1, 1, 9)),
    "two axes": (lambda x, c: (x * c).sum((-1, -2)), (1, 3, 5, 7), (5, 7)),
    "an axis in the middle": (lambda x, c: (x * c).sum(1), (2, 5, 3), (5, 1)),
    "two axes apart": (lambda x, c: (x * c).sum((1, 3)), (2, 5, 3, 7), (5, 1, 7)),
    "repeated along one of them": (lambda x, c: (x * c).sum((2, 3)), (1, 4, 5, 7), (7,)),
    "all axes": (lambda x, c: (x * c).sum(), (1, 3, 5), (3, 5)),
    "outputs of the factors": (lambda x, c: (x.unsqueeze(-1) * c).sum(2), (1, 3, 11), (11, 2)),
    "outputs before rows": (lambda x, c: (x.unsqueeze(1) * c).sum(-1), (1, 3, 11), (1, 4, 1, 11)),
}


@pytest.mark.parametrize("name", WEIGHTED)
def test_a_weighted_sum_is_a_linear_layer_of_the_same_answer(name: str) -> None:
    function, shape, held = WEIGHTED[name]
    net, x = Of(function, numbers(*held, seed=1)), numbers(*shape)
    module = rewritten(net, x)
    targets = [node.target for node in calls(module.graph)]
    assert aten.linear.default in targets
    assert aten.mul.Tensor not in targets
    assert torch.allclose(module(x), net(x), atol=1e-5)
    assert module(x).shape == net(x).shape


def read_twice(x: Tensor, c: Tensor) -> Tensor:
    product = x * c
    return product.sum(-1) + product.relu().amax(-1)


OTHERS = {
    "the operand is repeated": (lambda x, c: (x * c).sum(-1), (2, 1, 1), (3, 7)),
    "an axis of both": (lambda x, c: (x * c).sum(-1), (1, 5, 9), (5, 9)),
    "the product is read twice": (read_twice, (1, 5, 9), (9,)),
    "a number": (lambda x, c: (x * c).sum(-1), (1, 5, 9), (1,)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_sums_stay(name: str) -> None:
    function, shape, held = OTHERS[name]
    net, x = Of(function, numbers(*held, seed=1)), numbers(*shape)
    module = rewritten(net, x)
    assert aten.linear.default not in [node.target for node in calls(module.graph)]
    assert torch.allclose(module(x), net(x), atol=1e-5)


class SoftArgmax(nn.Module):
    """Where the largest number of each map is, along both axes."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.conv = nn.Conv2d(3, 8, 3, 2, 1)

    def forward(self, x: Tensor) -> Tensor:
        maps = self.conv(x)
        _, _, h, w = maps.shape
        shares = maps.flatten(2).softmax(-1).reshape(maps.shape)
        across, down = torch.linspace(-1, 1, w), torch.linspace(-1, 1, h)
        return torch.cat([(shares.sum(2) * across).sum(-1), (shares.sum(3) * down).sum(-1)], 1)


@needs_cc
def test_a_soft_argmax_over_both_axes() -> None:
    """Measured: 28 dB, and 18 where products are rounded before they are added."""
    samples = [numbers(1, 3, 24, 26, seed=seed) for seed in range(14)]
    net = SoftArgmax().eval()
    program = pillion.compile(net, samples[0], target="cortex-m55", calibrate=samples[:8], progress=False)
    assert not any(isinstance(op, (Mul, BatchMatmul)) for op in program.graph.ops)
    assert sum(isinstance(op, Linear) for op in program.graph.ops) == 2
    with torch.no_grad():
        wanted = torch.stack([net(x) for x in samples[8:]])
    found = np.stack([program.run(x)[0] for x in samples[8:]])
    assert decibels(wanted, found) > 25
    assert np.array_equal(found[0], program.run(samples[8], on="host")[0])


class Tokens(nn.Module):
    """A class token before patches, and positions: what a vision transformer begins with."""

    def __init__(self, size: float, *, behind: bool = False, second: bool = False) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.patches = nn.Conv2d(3, 24, 4, 4)
        self.token = nn.Parameter(torch.randn(1, 1, 24) * size)
        self.positions = nn.Parameter(torch.randn(1, 17 + second, 24) * 0.02)
        self.norm = nn.LayerNorm(24)
        self.behind, self.second = behind, second

    def forward(self, x: Tensor) -> Tensor:
        patches = self.patches(x).flatten(2).transpose(1, 2)
        token = self.token.expand(x.shape[0], -1, -1)
        parts = [patches, token] if self.behind else [token, patches]
        return self.norm(torch.cat(parts + [token] * self.second, 1) + self.positions)


@pytest.mark.turns(3)
@needs_cc
@pytest.mark.parametrize("behind", [False, True])
@pytest.mark.parametrize("second", [False, True])
def test_a_small_token_beside_large_patches_is_kept(behind: bool, second: bool) -> None:
    """Measured: 30 to 33 dB of the token's own row, of which 0 to 3 are left where it has the scale of the patches."""
    samples = [numbers(1, 3, 16, 16, seed=seed) for seed in range(12)]
    net = Tokens(0.02, behind=behind, second=second).eval()
    program = pillion.compile(net, samples[0], target="cortex-m55", calibrate=samples[:8], progress=False)
    kinds = [type(op) for op in program.graph.ops]
    assert Pad in kinds
    assert Concat not in kinds
    assert any(op.has_own_int16_form(program.graph.arithmetic) for op in program.graph.ops)
    row = 16 if behind else 0
    with torch.no_grad():
        wanted = torch.stack([net(x)[:, row] for x in samples[8:]])
    found = np.stack([program.run(x)[0][:, row] for x in samples[8:]])
    assert decibels(wanted, found) > 25
    assert np.array_equal(program.run(samples[8])[0], program.run(samples[8], on="host")[0])


def test_a_token_that_is_larger_than_positions_is_joined() -> None:
    """Positions of 0.02 in the steps of a token of 1 would be lost for all."""
    net, x = Tokens(1.0), numbers(1, 3, 16, 16)
    module = rewritten(net, x)
    targets = [node.target for node in calls(module.graph)]
    assert aten.cat.default in targets
    assert aten.pad.default not in targets
    assert torch.allclose(module(x), net(x), atol=1e-5)


def joined_for_two(x: Tensor, c: Tensor) -> Tensor:
    joined = torch.cat([c, x], 1)
    return (joined + c[:, :1]) * joined


def test_concats_with_other_readers_stay() -> None:
    net, x = Of(joined_for_two, numbers(1, 2, 5)), numbers(1, 3, 5, seed=2)
    module = rewritten(net, x)
    assert aten.cat.default in [node.target for node in calls(module.graph)]
    assert torch.allclose(module(x), net(x), atol=1e-5)


def test_constants_between_computed_tensors_are_zeros_there() -> None:
    net = Of(lambda x, c: torch.cat([x, c[:, :2], x, c[:, 2:3]], 1) + c, numbers(1, 7, 5))
    x = numbers(1, 2, 5, seed=2)
    module = rewritten(net, x)
    assert torch.allclose(module(x), net(x), atol=1e-5)
    joined = next(node for node in calls(module.graph) if node.target is aten.cat.default)
    held = [getattr(module, n.target) for n in joined.args[0] if n.op == "get_attr"]
    assert len(held) == 2
    assert not any(bool(t.any()) for t in held)
