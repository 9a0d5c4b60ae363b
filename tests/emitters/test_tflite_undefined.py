# SPDX-License-Identifier: Apache-2.0
"""What LiteRT's kernels leave undefined is refused: scales so far apart that numbers leave their registers."""

from __future__ import annotations

import numpy as np
import pytest

from pillion.emitters.tflite import emit
from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import DType, PerTensor, TensorType, Value, constant_value
from pillion.ops import Add, Function, Linear, Lut, Sub


def value(name: str, scale: float) -> Value:
    return Value(name, TensorType((2, 4), DType.INT8, PerTensor(scale)))


def total(cls: type[Op], scale: float) -> Op:
    return cls(a=value("a", 1.0), b=value("b", 2.0**-4), y=value("y", scale))  # type: ignore[call-arg]  # ops of two operands


def linear(scale: float, bias: int) -> Linear:
    weights = constant_value("w", np.full((4, 4), 3, np.int8), PerTensor(0.5))
    biases = constant_value("b", np.full(4, bias, np.int32), PerTensor(0.5))
    return Linear(x=value("x", 1.0), weights=weights, bias=biases, y=value("y", scale))


def hardswish(scale: float) -> Lut:
    return Lut(x=value("x", 1.0), y=value("y", scale), function=Function.HARDSWISH)


def emitted(op: Op) -> bytes:
    return emit(Graph("one", op.activations, (op,), op.results, Arithmetic.TFLITE))


@pytest.mark.parametrize(
    ("inside", "outside", "rule"),
    [
        (total(Add, 2.0**-18), total(Add, 2.0**-19), "ADD"),
        (total(Sub, 2.0**-18), total(Sub, 2.0**-19), "SUB"),
        (linear(2.0**-10, 2**21 - 9999), linear(2.0**-10, 2**22), "FULLY_CONNECTED"),
    ],
    ids=["add", "sub", "linear"],
)
def test_overflows_of_registers_are_refused(inside: Op, outside: Op, rule: str) -> None:
    assert emitted(inside)
    with pytest.raises(PillionError) as refused:
        emitted(outside)
    assert rule in refused.value.rule


def test_hard_swish_of_scales_far_apart_has_no_table() -> None:
    assert hardswish(256.0).entries(Arithmetic.TFLITE).shape == (256,)
    with pytest.raises(PillionError):
        hardswish(1024.0).entries(Arithmetic.TFLITE)
