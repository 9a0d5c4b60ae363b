# SPDX-License-Identifier: Apache-2.0
"""Results that would not fit 32 bits on their way to int8 are refused when a model is compiled."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import pillion
from pillion.errors import PillionError
from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import PerChannel, Value, constant_value
from pillion.ops import Add, BatchMatmul, Conv2d, DepthwiseConv2d, Linear, Mean, Mul, Prelu, ReduceSum, Sub
from pillion.ops.example_values import make_op, value
from pillion.passes.overflow_checks import require_sums_fit_32_bits

pytestmark = pytest.mark.torch


class Call(nn.Module):
    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def linear(factor: float) -> nn.Module:
    layer = nn.Linear(8, 3)
    nn.init.constant_(layer.weight, factor)
    return nn.Sequential(layer, nn.Hardtanh(0, 1))


MODELS: dict[str, Callable[[float], nn.Module]] = {
    "mul": lambda factor: Call(lambda x: (x * factor).clamp(0, 1)),
    "linear": linear,
    "batch_matmul": lambda factor: Call(lambda x: (torch.bmm(x, x.mT) * factor).clamp(0, 1)),
}


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("factor", [1e8, 1e12])
def test_steps_that_are_too_hard_are_refused(name: str, factor: float) -> None:
    x = (torch.randn(1, 8, 8, generator=torch.Generator().manual_seed(0)),)
    with pytest.raises(PillionError, match="fit 32 bits"):
        pillion.compile(MODELS[name](factor).eval(), x, target="cortex-m33")


@pytest.mark.parametrize("name", MODELS)
def test_hard_steps_are_right(name: str) -> None:
    x = torch.randn(1, 8, 8, generator=torch.Generator().manual_seed(0))
    module = MODELS[name](1e4).eval()
    found = pillion.compile(module, (x,), target="cortex-m33").run(x)[0]
    with torch.no_grad():
        assert abs(module(x).numpy() - found).mean() < 0.05


X = value("x", (1, 3, 5, 2), 0.5, -128)
"""From 0 to 255 steps."""
ROWS = value("a", (2, 3, 5), 0.5, -128)


def weighted(cls: type[Op], y: Value, shape: tuple[int, ...], axis: int) -> Op:
    """The largest weights of one sign, and a bias that adds to them."""
    scales = PerChannel((0.25,) * shape[axis], axis)
    weights = constant_value("w", np.full(shape, 127, np.int8), scales)
    bias = constant_value("b", np.full(shape[axis], 12345, np.int32), PerChannel((0.125,) * shape[axis], 0))
    return make_op(cls, y, x=X, weights=weights, bias=bias)


OPS: dict[str, Callable[[Value], Op]] = {
    "conv2d": lambda y: weighted(Conv2d, y, (3, 2, 2, 2), 0),
    "depthwise_conv2d": lambda y: weighted(DepthwiseConv2d, y, (1, 3, 2, 2), 3),
    "linear": lambda y: weighted(Linear, y, (4, 2), 0),
    "add": lambda y: make_op(Add, y, a=X, b=X),
    "sub": lambda y: make_op(Sub, y, a=X, b=value("b", X.shape, 0.5, 127)),
    "mul": lambda y: make_op(Mul, y, a=X, b=value("b", X.shape, 0.5, 127)),
    "batch_matmul": lambda y: make_op(
        BatchMatmul, y, a=ROWS, b=value("b", (2, 5, 4), 0.5, 127), adj_x=False, adj_y=False
    ),
    "mean": lambda y: make_op(Mean, y, x=X, axes=(1, 2)),
    "reduce_sum": lambda y: make_op(ReduceSum, y, x=X, axes=(1, 2)),
    "prelu": lambda y: make_op(
        Prelu, y, x=value("x", X.shape, 0.5, 127), slope=value("slope", (2,), 0.5, -128)
    ),
    "prelu of positive numbers": lambda y: make_op(Prelu, y, x=X, slope=value("slope", (2,), 2.0**-9, 0)),
}


def wraps(op: Op, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether the definition of an op wraps, for operands at the ends of their ranges that make it as large as can be."""
    largest: list[int] = []

    def watched(x: Any, mantissa: Any, shift: Any) -> Any:
        largest.append(int(np.abs(np.asarray(x, np.int64) << np.maximum(shift, 0)).max()))
        return requantize(x, mantissa, shift)

    requantize = numerics.requantize
    with monkeypatch.context() as patched:
        patched.setattr(numerics, "requantize", watched)
        ends = [np.full(v.shape, 127 if v.zero_point < 0 else -128, np.int8) for v in op.activations]
        given = iter(ends)
        op.reference(
            Arithmetic.CMSIS_NN, *(v.constant if v.is_constant else next(given) for v in op.operands)
        )
    assert largest, "the definition requantizes"
    return max(largest) > numerics.INT32_MAX


@pytest.mark.parametrize("name", OPS)
def test_exactly_the_overflowing_ops_are_refused(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps of the result are halved until 32 bits are not enough: the last that fits is taken, the next is not."""
    found = []
    for halvings in range(32):
        op = OPS[name](value("y", (), 2.0**-halvings, 0))
        try:
            expected = wraps(op, monkeypatch)
        except ValueError:  # no shift is large enough
            expected = True
        if expected:
            with pytest.raises(PillionError, match="fit 32 bits"):
                require_sums_fit_32_bits(op)
        else:
            require_sums_fit_32_bits(op)
        found.append(expected)
    assert found == sorted(found), "once it wraps, it wraps"
    assert len(set(found)) == 2, "both sides of the bound are seen"
