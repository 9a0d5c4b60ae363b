# SPDX-License-Identifier: Apache-2.0
"""Kernels that are never the first choice of an example have calls too: whoever takes an op can be asked to do it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from itertools import product

import numpy as np
import pytest

from pillion.devices.cortex_m import Isa
from pillion.emitters.c.kernel import Kernel
from pillion.emitters.c.kernel_choice import kernels
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import DType, PerTensor, constant_value
from pillion.ir.verdict import all_ok
from pillion.ops import ALL_OPS, Conv2d, DepthwiseConv2d
from pillion.ops.example_values import in_16_bits, make_op, value

KERNELS = [
    pytest.param(isa, k, id=f"{isa.value}-{k.name}")
    for isa in (Isa.SCALAR, Isa.DSP, Isa.MVE)
    for k in kernels(isa)
]


def convolutions() -> Iterator[Op]:
    """Of few and of many channels, with small and with large windows, on images with an even and an odd number of columns."""
    for channels in (1, 3, 4, 8, 16, 17, 32, 64):
        for side, width in product((1, 3, 5), (12, 17)):
            x = value("x", (1, 12, width, channels), 0.1, 3)
            for cls, shape in (
                (Conv2d, (8, side, side, channels)),
                (DepthwiseConv2d, (1, side, side, channels)),
                (DepthwiseConv2d, (1, side, side, 8 * channels)),
            ):
                weights = constant_value("w", np.ones(shape, np.int8), PerTensor(0.01))
                out = 8 if cls is Conv2d else shape[3]
                bias = constant_value("b", np.zeros(out, np.int32), PerTensor(1e-3))
                whole = value("x", (1, side, side, channels), 0.1, 3)
                yield make_op(cls, value("y", (), 0.4), x=whole, weights=weights, bias=bias)
                around = (side // 2,) * 4
                bounds = {"low": -(2**15), "high": 2**15 - 1}
                y, wide, wide_whole = map(in_16_bits, (value("y", (), 0.4), x, whole))
                if cls is Conv2d:
                    nibbles = constant_value("w", np.ones(shape, np.int8), PerTensor(0.01), DType.INT4)
                    yield make_op(cls, value("y", (), 0.4), x=whole, weights=nibbles, bias=bias)
                    yield make_op(cls, value("y", (), 0.4), x=x, weights=nibbles, bias=bias)
                    yield make_op(cls, y, x=wide_whole, weights=nibbles, bias=bias, **bounds)
                    yield make_op(cls, y, x=wide, weights=nibbles, bias=bias, padding=around, **bounds)
                    lowest = constant_value("w", np.full(shape, -8, np.int8), PerTensor(0.01), DType.INT4)
                    row = value("x", (1, side, side + 4, channels), 0.1, 3)
                    yield make_op(cls, y, x=in_16_bits(row), weights=lowest, bias=bias, **bounds)
                    coarse = y.like("y", quant=PerTensor(4 * y.scale))
                    for image, border in ((x, around), (whole, (0, 0, 0, 0))):
                        yield make_op(
                            cls, coarse, x=image, weights=weights, bias=bias, padding=border, **bounds
                        )
                layer = make_op(cls, y, x=wide, weights=weights, bias=bias, padding=around, **bounds)
                yield layer
                if isinstance(layer, Conv2d):
                    yield replace(layer, x_bounds=(0, 2**14 - 1))
                coarser = in_16_bits(value("y", (), 1.0))
                for image, stride in product((x, wide), ((1, 1), (2, 2))):
                    yield make_op(
                        cls,
                        coarser,
                        x=image,
                        weights=weights,
                        bias=bias,
                        padding=around,
                        stride=stride,
                        **bounds,
                    )
                yield make_op(cls, y, x=wide_whole, weights=weights, bias=bias, **bounds)
                yield make_op(cls, value("y", (), 0.4), x=x, weights=weights, bias=bias, padding=around)
                yield make_op(
                    cls, value("y", (), 0.4), x=x, weights=weights, bias=bias, padding=around, stride=(2, 2)
                )


@lru_cache(1)
def ops() -> tuple[Op, ...]:
    return (*convolutions(), *(op for cls in ALL_OPS for op in cls.examples()))


@pytest.mark.turns(6)
@pytest.mark.parametrize(("isa", "kernel"), KERNELS)
def test_accepted_ops_have_calls(isa: Isa, kernel: Kernel) -> None:
    taken = 0
    for op in ops():
        if isinstance(op, kernel.op) and all_ok(kernel.check(op, Arithmetic.CMSIS_NN)):
            calls = kernel.calls(op, Arithmetic.CMSIS_NN)
            assert all(call.output is op.results[0] for call in calls)
            assert all(value is not None for call in calls for value in call.params.values())
            taken += bool(calls)
    assert taken or kernel.op not in (Conv2d, DepthwiseConv2d), "no convolution of the tests is taken"
