# SPDX-License-Identifier: Apache-2.0
"""Functions of 16-bit tensors as LiteRT's int16 kernels compute them; `WideLut` interpolates in our own arithmetic."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cache

import numpy as np
from numpy.typing import NDArray

from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic, Int64Array, Multiplier
from pillion.ir.op import Op, op, require_dtype
from pillion.ir.types import Array, DType, PerTensor, TensorType, Value
from pillion.ops.conv import require_symmetric
from pillion.ops.example_values import make_op
from pillion.ops.lut import Lut
from pillion.ops.rowwise import Unary
from pillion.ops.softmax16 import OUTPUT_16
from pillion.ops.unary_functions import Function

STEPS = 24
"""Entries of the table of sigmoid(x) per unit of x."""
FULL = 2**16
"""The levels of the table: sigmoid(x) = 1 is the first beyond them."""
INPUT_STEPS = 3 * 2**12
"""Steps of the table's interpolation per unit of x, for tanh; those for sigmoid are of x / 2."""
LARGEST_FACTOR = 2**16 - 1
"""The largest factor whose products with 16-bit levels fit 32 bits."""

MOST_RIGHT = 30
"""The largest right shift with a rounding constant of 32 bits."""


@cache
def sigmoids() -> NDArray[np.uint16]:
    """Returns the table of sigmoid at multiples of 1/24, of which each entry halves the error in the middle between it
    and the next one."""

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


def is_litert_function(op: Lut) -> bool:
    """Whether LiteRT has a function in 16 bits, with results in these steps."""
    fixed = op.function in (Function.SIGMOID, Function.TANH) and op.y.quant == OUTPUT_16
    return fixed or op.function is Function.LEAKY_RELU


@op("lut_16")
class Lut16(Unary):
    """Applies sigmoid, tanh or leaky relu to each element of a 16-bit tensor, as LiteRT does: the first two by
    interpolation in a table of 256 entries, with results in steps of 2^-15."""

    takes_int16 = True

    function: Function = Function.SIGMOID
    alpha: float = 0.0

    is_identity = False

    @property
    def is_tanh(self) -> bool:
        """Whether the function is tanh."""
        return self.function is Function.TANH

    @property
    def multiplier(self) -> Multiplier:
        """The scale of the operand over that of the result, in float32, for leaky relu."""
        return self._multiplier(1.0)

    @property
    def negative(self) -> Multiplier:
        """The same with the absolute slope of negative numbers."""
        return self._multiplier(abs(self.alpha))

    def _multiplier(self, factor: float) -> Multiplier:
        scale, slope = np.float32(self.x.scale), np.float32(factor)
        return numerics.encode_multiplier(float(scale * slope / np.float32(self.y.scale)))

    def infer(self) -> TensorType:
        return TensorType(self.x.shape, DType.INT16)

    def check(self) -> None:
        require_dtype(self, self.x, DType.INT16)
        require_symmetric(self, self.x, self.y)
        if self.function not in (Function.SIGMOID, Function.TANH, Function.LEAKY_RELU):
            raise self.refuse("the function is sigmoid, tanh or leaky_relu", self.function.value)
        if self.function is not Function.LEAKY_RELU and self.y.quant != OUTPUT_16:
            raise self.refuse("the result has steps of 2^-15", repr(self.y))

    def check_scales(self, arithmetic: Arithmetic) -> None:
        if self.function is Function.LEAKY_RELU:
            _ = self.multiplier, self.negative
        else:
            input_factor(self.x.scale, self.is_tanh)

    def largest_sums(self) -> Iterator[tuple[int, int]]:
        if self.function is Function.LEAKY_RELU:
            yield self.x.reach, max(self.multiplier.shift, self.negative.shift)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        x = operands[0].astype(np.int64)
        levels = self._leaky_relu(x) if self.function is Function.LEAKY_RELU else self._interpolated(x)
        return np.clip(levels, *DType.INT16.bounds).astype(np.int16)

    def _leaky_relu(self, x: Int64Array) -> Int64Array:
        above, below = self.multiplier, self.negative
        slope = numerics.requantize(x, below.mantissa, below.shift)
        positive = numerics.requantize(x, above.mantissa, above.shift)
        return np.where(x >= 0, positive, -slope if self.alpha < 0 else slope)

    def _interpolated(self, x: Int64Array) -> Int64Array:
        factor, right = input_factor(self.x.scale, self.is_tanh)
        d = (x * factor + (1 << right >> 1)) >> right
        bits = 8 if self.is_tanh else 9
        table, at = sigmoids().astype(np.int64), np.abs(d) >> bits
        first, part = np.minimum(at, 254), np.abs(d) & ((1 << bits) - 1)
        inside = (table[first] << bits) + part * (table[first + 1] - table[first])
        if self.is_tanh:
            r = np.where(at >= 255, (FULL - 1) << 8, inside)
            return np.where(d >= 0, r - 2**23 + 128, 2**23 - r + 127) >> 8
        r = np.where(at >= 255, (2**15 - 1) << 10, inside)
        return np.where(d >= 0, r + 512, 2**25 - r + 511) >> 10

    @classmethod
    def examples(cls) -> Iterator[Op]:
        for number, scale in enumerate((2.0**-12, 2.0**-11, 2.0**-13, 3.1e-4, 1.7e-5, 0.9)):
            x = Value("x", TensorType((2, 3, 701), DType.INT16, PerTensor(scale)))
            for function in (Function.SIGMOID, Function.TANH):
                yield make_op(cls, Value("y", TensorType((), DType.INT16, OUTPUT_16)), x=x, function=function)
            y = Value("y", TensorType((), DType.INT16, PerTensor(scale * (1.0, 0.5, 0.7, 1.3)[number % 4])))
            alpha = float(np.float32((0.2, 0.01, 1.0, 0.0, 1.5, -0.3)[number]))
            yield make_op(cls, y, x=x, function=Function.LEAKY_RELU, alpha=alpha)
