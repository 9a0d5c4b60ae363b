# SPDX-License-Identifier: Apache-2.0
"""Every class of ops says when it is idle, and says so of the ops that answer with their operand, and of no others."""

from __future__ import annotations

import pytest

from pillion.errors import PillionError
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Array, DType, PerTensor, TensorType, Value, constant_value
from pillion.ops import (
    ALL_OPS,
    Add,
    AvgPool2d,
    Clamp,
    Concat,
    Function,
    Lut,
    Maximum,
    MaxPool2d,
    Mean,
    Minimum,
    Mul,
    Pad,
    Prelu,
    ReduceMax,
    ReduceSum,
    Requantize,
    Reshape,
    ResizeBilinear,
    ResizeNearest,
    Slice,
    Sub,
    Transpose,
)
from pillion.ops.example_values import random_like

Q, OTHER = PerTensor(0.05, 3), PerTensor(0.1, 3)


def value(name: str, *shape: int, quant: PerTensor = Q) -> Value:
    return Value(name, TensorType(shape, DType.INT8, quant))


def number(level: int, quant: PerTensor = Q) -> Value:
    return constant_value(
        "number", random_like(value("", 1, 1, 1, 1)) * 0 + DType.INT8.numpy.type(level), quant
    )


X, Y, COARSE = value("x", 1, 4, 6, 3), value("y", 1, 4, 6, 3), value("y", 1, 4, 6, 3, quant=OTHER)
ROW = value("x", 1, 1, 6, 3)
UP, UP_Y = (value(name, 1, 4, 6, 3, quant=PerTensor(0.05, -128)) for name in "xy")
ZERO, ONE = number(3), number(127, PerTensor(1.0, 126))

PAIRS: dict[str, tuple[Op, Op]] = {
    "reshape": (
        Reshape(x=X, y=value("y", 24, 3)),
        Transpose(x=X, y=value("y", 1, 6, 4, 3), order=(0, 2, 1, 3)),
    ),
    "transpose": (
        Transpose(x=X, y=value("y", 4, 1, 6, 3), order=(1, 0, 2, 3)),
        Transpose(x=X, y=value("y", 1, 4, 3, 6), order=(0, 1, 3, 2)),
    ),
    "slice": (
        Slice(x=X, y=Y, begin=(0,) * 4, step=(1,) * 4),
        Slice(x=X, y=value("y", 1, 3, 6, 3), begin=(0, 1, 0, 0), step=(1,) * 4),
    ),
    "concat": (Concat(xs=(X,), y=Y, axis=1), Concat(xs=(X, X), y=value("y", 1, 8, 6, 3), axis=1)),
    "pad": (
        Pad(x=X, y=Y, before=(0,) * 4, after=(0,) * 4),
        Pad(x=X, y=value("y", 1, 5, 6, 3), before=(0,) * 4, after=(0, 1, 0, 0)),
    ),
    "add": (Add(a=ZERO, b=X, y=Y), Add(a=X, b=number(4), y=Y)),
    "add a bound": (Add(a=X, b=ZERO, y=Y), Add(a=X, b=ZERO, y=Y, low=-127)),
    "sub": (Sub(a=X, b=ZERO, y=Y), Sub(a=ZERO, b=X, y=Y)),
    "mul": (Mul(a=X, b=ONE, y=Y), Mul(a=X, b=ONE, y=COARSE)),
    "minimum": (Minimum(a=X, b=number(127), y=Y), Minimum(a=X, b=number(126), y=Y)),
    "maximum": (Maximum(a=number(-128), b=X, y=Y), Maximum(a=number(-127), b=X, y=Y)),
    "mean": (
        Mean(x=ROW, y=value("y", 6, 3), axes=(0, 1)),
        Mean(x=X, y=value("y", 6, 3), axes=(0, 1)),
    ),
    "reduce_sum": (
        ReduceSum(x=ROW, y=value("y", 6, 3), axes=(0, 1)),
        ReduceSum(x=ROW, y=value("y", 6, 3, quant=OTHER), axes=(0, 1)),
    ),
    "reduce_max": (
        ReduceMax(x=ROW, y=value("y", 6, 3), axes=(0, 1)),
        ReduceMax(x=X, y=value("y", 1, 6, 3), axes=(1,)),
    ),
    "max_pool2d": (MaxPool2d(x=X, y=Y), MaxPool2d(x=X, y=value("y", 1, 2, 3, 3), stride=(2, 2))),
    "avg_pool2d": (AvgPool2d(x=X, y=Y), AvgPool2d(x=X, y=Y, high=100)),
    "resize_nearest": (
        ResizeNearest(x=X, y=Y, size=(4, 6), half_pixel=True),
        ResizeNearest(x=X, y=value("y", 1, 8, 6, 3), size=(8, 6)),
    ),
    "resize_bilinear": (
        ResizeBilinear(x=X, y=Y, size=(4, 6), align_corners=True),
        ResizeBilinear(x=X, y=value("y", 1, 4, 12, 3), size=(4, 12)),
    ),
    "clamp": (Clamp(x=X, y=Y), Clamp(x=X, y=Y, low=-127)),
    "lut": (Lut(x=UP, y=UP_Y, function=Function.ABS), Lut(x=X, y=Y, function=Function.ABS)),
    "prelu": (Prelu(x=X, slope=ONE, y=Y), Prelu(x=X, slope=ZERO, y=Y)),
    "prelu of what is not negative": (Prelu(x=UP, slope=ZERO, y=UP_Y), Prelu(x=X, slope=ZERO, y=Y)),
    "requantize": (Requantize(x=X, y=Y), Requantize(x=X, y=COARSE)),
}
"""An op that is idle, and one that is almost."""


def filled(held: Value) -> Array:
    """Random data with the least and the largest number."""
    data = random_like(held)
    if held.dtype is DType.INT8 and data.size > 1:
        data.flat[0], data.flat[-1] = -128, 127
    return data


def answers_with_its_operand(op: Op, arithmetic: Arithmetic) -> bool:
    operands = {v: v.constant if v.is_constant else filled(v) for v in op.operands}
    answer = op.reference(arithmetic, *(operands[v] for v in op.operands))
    # An answer of one element may be the operand by chance.
    return answer.size > 4 and any(
        answer.tobytes() == operands[v].tobytes()
        for v in op.activations
        if v.type.quant == op.results[0].type.quant and v.dtype == op.results[0].dtype
    )


def has_tflite_form(op: Lut) -> bool:
    try:
        return bool(op.entries(Arithmetic.TFLITE).size)
    except PillionError:
        return False


@pytest.mark.parametrize("arithmetic", Arithmetic)
@pytest.mark.parametrize("name", PAIRS)
def test_idle_and_almost(name: str, arithmetic: Arithmetic) -> None:
    idle, busy = PAIRS[name]
    for op in (idle, busy):
        op.check()
        assert op.infer().shape == op.results[0].shape
    assert idle.is_identity
    assert answers_with_its_operand(idle, arithmetic)
    assert not busy.is_identity
    assert not answers_with_its_operand(busy, arithmetic)


@pytest.mark.parametrize("arithmetic", Arithmetic)
@pytest.mark.parametrize("cls", ALL_OPS, ids=lambda cls: cls.kind)
def test_is_identity_agrees_with_the_reference(cls: type[Op], arithmetic: Arithmetic) -> None:
    for op in cls.examples():
        if not (isinstance(op, Lut) and arithmetic.is_tflite and not has_tflite_form(op)):
            assert op.is_identity == answers_with_its_operand(op, arithmetic), op


def test_an_op_that_does_not_say_so_is_found() -> None:
    class Silent(Op):
        pass

    with pytest.raises(NotImplementedError):
        _ = Silent().is_identity
