# SPDX-License-Identifier: Apache-2.0
"""Functions of 16-bit tensors under `tflite`, as LiteRT's kernels compute them: sigmoid and tanh in steps of 2^-15 by a table of
256 entries, others by tables of 513, leaky relu and magnitudes by multipliers, roots in float32."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pillion.ir import numerics
from pillion.ir.numerics import Int64Array, Multiplier
from pillion.ir.types import Array, DType, PerTensor, TensorType, Value
from pillion.ops.litert_table import Reals, look_up, tabulate
from pillion.ops.lut_tflite import exp32, gelu32, gelu_tanh32, log32
from pillion.ops.softmax16 import OUTPUT_16
from pillion.ops.unary_functions import Function

Lut = Any
"""An op of the class `Lut`, whose module imports this one."""
STEPS = 24
"""Entries of the table of sigmoid(x) per unit of x."""
FULL = 2**16
"""The levels of the table: sigmoid(x) = 1 is the first beyond them."""
INPUT_STEPS = 3 * 2**12
"""Steps of the table's interpolation per unit of x for tanh, and per unit of x / 2 for sigmoid."""
LARGEST_FACTOR = 2**16 - 1
"""The largest factor whose products with 16-bit levels fit 32 bits."""

MOST_RIGHT = 30
"""The largest right shift with a rounding constant of 32 bits."""


SCALED = (Function.LEAKY_RELU, Function.ABS)
"""Functions that are a multiplication on either side of 0."""
NORMAL = 2.0**-100
"""The smallest scale of a root's operand and result: no number between them is subnormal."""


def _log(x: Reals, least: np.float32) -> Reals:
    return np.where(x <= 0, least, log32(np.where(x <= 0, np.float32(1), x)))


def _rsqrt(x: Reals, most: np.float32) -> Reals:
    return np.where(x <= 0, most, np.float32(1) / np.sqrt(np.where(x <= 0, np.float32(1), x)))


TABULATED: dict[Function, Callable[[Reals, np.float32], Reals]] = {
    Function.EXP: lambda x, _: exp32(x),
    Function.GELU: lambda x, _: gelu32(x),
    Function.GELU_TANH: lambda x, _: gelu_tanh32(x),
    Function.LOG: lambda x, scale: _log(x, scale * np.float32(DType.INT16.bounds[0])),
    Function.RSQRT: lambda x, scale: _rsqrt(x, scale * np.float32(DType.INT16.bounds[1])),
}
"""Functions of float32 numbers and the result's scale; LiteRT makes tables of 513 entries of them."""


def function_table(op: Lut) -> NDArray[np.int16]:
    """Returns the table of a function in `TABULATED`."""
    least, most = map(np.float32, DType.INT16.bounds)
    x, y = np.float32(op.x.scale), np.float32(op.y.scale)
    per_unit = np.float32(2**16) / (y * most - y * least)
    return tabulate(lambda reals: TABULATED[op.function](reals, y), x * least, x * most, per_unit)


@cache
def sigmoids() -> NDArray[np.uint16]:
    """Returns the table of sigmoid at multiples of 1/24; each entry halves the error in the middle between it and the
    next one."""

    def level(at: float) -> float:
        return FULL / (1 + math.exp(-at / STEPS))

    entries = [
        math.floor(level(i) - ((level(i) + level(i + 1)) / 2 - level(i + 0.5)) / 2 + 0.5) for i in range(255)
    ]
    return np.array([*entries, FULL - 1], np.uint16)


def input_factor(scale: float, is_tanh: bool) -> tuple[int, int]:
    """Returns the factor from levels to steps of the table, and the right shift behind it."""
    power = round(math.log2(scale))
    if abs(math.log2(scale) - power) <= 0.001 and 0 <= 12 + power <= is_tanh:
        return 3 << (12 + power), 0
    factor, right = scale * INPUT_STEPS, 0
    while factor <= (2**15 - 1) / 2 and right <= 30:
        factor, right = factor * 2, right + 1
    if factor > LARGEST_FACTOR or right > MOST_RIGHT:
        raise ValueError(f"operands of a 16-bit sigmoid or tanh in steps of {scale:.3g}")
    return int(factor), right


def has_function(op: Lut) -> bool:
    """Whether LiteRT has a function in 16 bits, with results in these steps."""
    fixed = op.function in (Function.SIGMOID, Function.TANH) and op.y.quant == OUTPUT_16
    return fixed or op.function in (*SCALED, Function.SQRT, *TABULATED)


def slopes(op: Lut) -> tuple[Multiplier, Multiplier]:
    """Returns the ratio of the operand's scale to the result's, in float32, for positive numbers, and for negative
    ones: times the absolute slope of a leaky relu, or negated for magnitudes."""
    scale = np.float32(op.x.scale)
    first, second = (
        numerics.encode_multiplier(float(scale * np.float32(factor) / np.float32(op.y.scale)))
        for factor in (1.0, abs(op.alpha))
    )
    return first, Multiplier(-first.mantissa, first.shift) if op.function is Function.ABS else second


def check_scales(op: Lut) -> None:
    """Raises a ValueError if scales have no multiplier."""
    if op.function in SCALED:
        slopes(op)
    elif op.function in TABULATED:
        function_table(op)
    elif op.function is Function.SQRT:
        largest = math.sqrt(op.x.scale * DType.INT16.bounds[1]) / op.y.scale
        if min(op.x.scale, op.y.scale) < NORMAL or largest >= 2**31 - 256:
            raise ValueError(f"a root of steps of {op.x.scale:.3g} in steps of {op.y.scale:.3g}")
    else:
        input_factor(op.x.scale, op.function is Function.TANH)


def largest_sums(op: Lut) -> Iterator[tuple[int, int]]:
    """Yields the largest integer that is requantized, with its shift."""
    if op.function in SCALED:
        yield op.x.reach, max(m.shift for m in slopes(op))


def reference(op: Lut, x: Int64Array) -> Array:
    """Returns the results of levels."""
    if op.function in TABULATED:
        levels = look_up(function_table(op), x)
    elif op.function is Function.SQRT:
        levels = _root(op, x)
    else:
        levels = _scaled(op, x) if op.function in SCALED else _interpolated(op, x)
    return np.clip(levels, *DType.INT16.bounds).astype(np.int16)


def _root(op: Lut, x: Int64Array) -> Int64Array:
    """Returns the root in float32, truncated. LiteRT stops at negative numbers, which count as 0 here."""
    root = np.sqrt(np.float32(op.x.scale) * np.maximum(x, 0).astype(np.float32))
    return np.floor(root / np.float32(op.y.scale)).astype(np.int64)


def _scaled(op: Lut, x: Int64Array) -> Int64Array:
    above, below = slopes(op)
    slope = numerics.requantize(x, below.mantissa, below.shift)
    positive = numerics.requantize(x, above.mantissa, above.shift)
    return np.where(x >= 0, positive, -slope if op.alpha < 0 else slope)


def _interpolated(op: Lut, x: Int64Array) -> Int64Array:
    is_tanh = op.function is Function.TANH
    factor, right = input_factor(op.x.scale, is_tanh)
    d = (x * factor + (1 << right >> 1)) >> right
    bits = 8 if is_tanh else 9
    table, at = sigmoids().astype(np.int64), np.abs(d) >> bits
    first, part = np.minimum(at, 254), np.abs(d) & ((1 << bits) - 1)
    inside = (table[first] << bits) + part * (table[first + 1] - table[first])
    if is_tanh:
        r = np.where(at >= 255, (FULL - 1) << 8, inside)
        return np.where(d >= 0, r - 2**23 + 128, 2**23 - r + 127) >> 8
    r = np.where(at >= 255, (2**15 - 1) << 10, inside)
    return np.where(d >= 0, r + 512, 2**25 - r + 511) >> 10


def examples() -> Iterator[tuple[Value, dict[str, Any]]]:
    """Yields results and the other fields of examples."""
    for number, scale in enumerate((2.0**-12, 2.0**-11, 2.0**-13, 3.1e-4, 1.7e-5, 0.9)):
        x = Value("x", TensorType((2, 3, 701), DType.INT16, PerTensor(scale)))
        for function in (Function.SIGMOID, Function.TANH):
            yield Value("y", TensorType((), DType.INT16, OUTPUT_16)), {"x": x, "function": function}
        y = Value("y", TensorType((), DType.INT16, PerTensor(scale * (1.0, 0.5, 0.7, 1.3)[number % 4])))
        alpha = float(np.float32((0.2, 0.01, 1.0, 0.0, 1.5, -0.3)[number]))
        yield y, {"x": x, "function": Function.LEAKY_RELU, "alpha": alpha}
    for number, scale in enumerate((2.0**-12, 2.9e-4)):
        x = Value("x", TensorType((2, 3, 701), DType.INT16, PerTensor(scale)))
        for function in (Function.ABS, Function.SQRT, *TABULATED):
            y = Value("y", TensorType((), DType.INT16, PerTensor(scale * (0.5, 0.7, 3.1)[number])))
            yield y, {"x": x, "function": function}
