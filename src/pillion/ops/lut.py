# SPDX-License-Identifier: Apache-2.0
"""Unary functions. In int8 each is a lookup table of 256 entries, so all share one kernel; in 16 bits tables are
interpolated."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op, op, optional_operand
from pillion.ir.types import Array, DType, PerTensor, TensorType, Value, constant_value
from pillion.ops import lut_interpolation, lut_tflite16
from pillion.ops.example_values import ZERO_POINTS, make_op, value
from pillion.ops.lut_interpolation import Reals
from pillion.ops.lut_tflite import tflite_entries
from pillion.ops.rowwise import Unary
from pillion.ops.unary_functions import Function
from pillion.ops.wide_arithmetic import has_16_bits, in_litert_form, wide_example_value


def _sigmoid(x: Reals) -> Reals:
    small = np.exp(-np.abs(x))
    return np.where(x >= 0, 1 / (1 + small), small / (1 + small))


def _gelu_tanh(x: Reals) -> Reals:
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


REAL: dict[Function, Callable[[Reals, Lut], Reals]] = {
    Function.SIGMOID: lambda x, _: _sigmoid(x),
    Function.TANH: lambda x, _: np.tanh(x),
    Function.HARDSIGMOID: lambda x, _: np.clip(x + 3, 0, 6) / 6,
    Function.HARDSWISH: lambda x, _: x * np.clip(x + 3, 0, 6) / 6,
    Function.SILU: lambda x, _: x * _sigmoid(x),
    Function.GELU: lambda x, _: 0.5 * x * (1 + np.vectorize(math.erf, otypes=[np.float64])(x / math.sqrt(2))),
    Function.GELU_TANH: lambda x, _: _gelu_tanh(x),
    Function.ELU: lambda x, op: np.where(x > 0, x, op.alpha * np.expm1(np.minimum(x, 0))),
    Function.LEAKY_RELU: lambda x, op: np.where(x >= 0, x, op.alpha * x),
    Function.CLAMP: lambda x, op: np.clip(x, op.low, op.high),
    Function.EXP: lambda x, _: np.exp(x),
    Function.LOG: lambda x, _: np.log(x),
    Function.SQRT: lambda x, _: np.sqrt(x),
    Function.RSQRT: lambda x, _: 1 / np.sqrt(x),
    Function.RECIPROCAL: lambda x, _: 1 / x,
    Function.SQUARE: lambda x, _: x * x,
    Function.ABS: lambda x, _: np.abs(x),
    Function.NEG: lambda x, _: -x,
    Function.SOFTPLUS: lambda x, _: np.logaddexp(0, x),
}
"""Each function in double precision: its definition under `cmsis-nn`."""
STEEP_NEAR_ZERO = (Function.LOG, Function.SQRT, Function.RSQRT, Function.RECIPROCAL)
"""Functions whose table in 16 bits has entries per octave."""
WIDE_ENTRIES = (lut_interpolation.ENTRIES, 2 * lut_interpolation.SIDE)
"""Entries of tables in 16 bits."""


@op("lut")
class Lut(Unary):
    """Applies a unary function to each element.

    Under `cmsis-nn` the table holds the function in double precision, rounded half away from zero after the
    zero point is added. Under `tflite` the functions that LiteRT has follow its kernels; that arithmetic lacks
    the others.

    In 16 bits the table holds the results for every 256th level, and results between two entries are interpolated and
    rounded half up. Logarithms, roots and reciprocals of tensors with zero point 0 have 64 entries per octave instead. Under `tflite`,
    functions of tensors with zero point 0 follow LiteRT's int16 kernels, as far as there are any; sigmoid and tanh if the result has
    steps of 2^-15."""

    takes_int16 = True

    table: Value | None = optional_operand()
    function: Function = Function.TABLE
    alpha: float = 0.0
    low: float = -math.inf
    high: float = math.inf

    def check(self) -> None:
        if (self.function is Function.TABLE) != (self.table is not None):
            raise self.refuse("`table` goes with the function `table`, and only with it", self.function.value)
        is_wide = self.x.dtype is DType.INT16
        counts, dtype = (WIDE_ENTRIES, DType.INT16) if is_wide else ((256,), DType.INT8)
        if self.table is not None and (
            self.table.type.rank != 1 or self.table.shape[0] not in counts or self.table.dtype is not dtype
        ):
            words = " or ".join(map(str, counts))
            raise self.refuse(f"a table has {words} {dtype.value} entries", repr(self.table))
        if self.table is not None and self.has_octaves and self.x.zero_point:
            raise self.refuse("a table by octaves is of an operand with zero point 0", self.x.zero_point)

    def has_own_int16_form(self, arithmetic: Arithmetic) -> bool:
        in_litert = in_litert_form(arithmetic, (self.x, self.y)) and lut_tflite16.has_function(self)
        return has_16_bits((self.x, self.y)) and not in_litert

    def entries(self, arithmetic: Arithmetic) -> NDArray[np.int8]:
        """Returns the table: the results for -128, -127, … 127."""
        if self.table is not None:
            return self.table.constant.astype(np.int8)
        if arithmetic.is_tflite:
            return tflite_entries(self)
        return self.double_entries()

    def double_entries(self) -> NDArray[np.int8]:
        """Returns the table of the function in double precision, rounded half away from zero."""
        x: Reals = (np.arange(-128, 128) - self.x.zero_point) * np.float64(self.x.scale)
        with np.errstate(all="ignore"):
            levels = numerics.round_half_away(REAL[self.function](x, self) / self.y.scale + self.y.zero_point)
        return numerics.clamp_to_int8(np.nan_to_num(levels, nan=-128, posinf=127, neginf=-128), -128, 127)

    @property
    def has_octaves(self) -> bool:
        """Whether the table in 16 bits has entries per octave."""
        if self.table is not None:
            return self.table.type.elements == 2 * lut_interpolation.SIDE
        return self.function in STEEP_NEAR_ZERO and not self.x.zero_point

    @property
    def line_ends(self) -> NDArray[np.int16]:
        """The table in 16 bits: the results for the levels of `entry_levels`."""
        if self.table is not None:
            return self.table.constant.astype(np.int16)
        return lut_interpolation.tabulate(
            lambda x: REAL[self.function](x, self), self.x, self.y, self.has_octaves
        )

    @property
    def is_identity(self) -> bool:
        """Whether the table maps every int8 number to itself."""
        same = self.x.is_quantized and self.x.type == self.y.type and self.x.dtype is DType.INT8
        return same and np.array_equal(self.entries(Arithmetic.CMSIS_NN), np.arange(-128, 128))

    def largest_sums(self) -> Iterator[tuple[int, int]]:
        if has_16_bits((self.x, self.y)) and not self.has_own_int16_form(Arithmetic.TFLITE):
            yield from lut_tflite16.largest_sums(self)

    def check_scales(self, arithmetic: Arithmetic) -> None:
        if not has_16_bits((self.x, self.y)):
            self.entries(arithmetic)
        elif not self.has_own_int16_form(arithmetic):
            lut_tflite16.check_scales(self)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        levels = operands[0].astype(np.int64)
        if self.has_own_int16_form(arithmetic):
            return lut_interpolation.interpolate(self.line_ends, levels)
        if self.x.dtype is DType.INT16:
            return lut_tflite16.reference(self, levels)
        return self.entries(arithmetic)[levels + 128]

    @classmethod
    def examples(cls) -> Iterator[Op]:
        for number, function in enumerate(Function):
            x = value("x", (2, 3, 7), 2.0**-4 if number % 2 else 0.043, ZERO_POINTS[number % 4])
            fixed = getattr(function, "fixed_output", None) or (2.0**-3, ZERO_POINTS[(number + 1) % 4])
            options: dict[str, Any] = {"alpha": 0.1} if function.value in ("leaky_relu", "elu") else {}
            if function.value == "clamp":
                options = {"low": -0.5, "high": 1.25}
            if function.value == "table":
                options = {
                    "table": constant_value(
                        "table", np.random.default_rng(7).integers(-128, 128, 256).astype(np.int8)
                    )
                }
            yield make_op(cls, value("y", (), *fixed), x=x, function=function, **options)
            wide = wide_example_value("x", (2, 3, 7), DType.INT16, number, 1.0)
            y = wide_example_value("y", (), DType.INT16, number + 1, 0.25)
            if function is Function.TABLE:
                ends = np.random.default_rng(7).integers(-(2**15), 2**15, lut_interpolation.ENTRIES)
                options = {"table": constant_value("table", ends.astype(np.int16))}
            yield make_op(cls, y, x=wide, function=function, **options)
            if function in (*STEEP_NEAR_ZERO, Function.TABLE):
                symmetric = Value("x", TensorType(wide.shape, DType.INT16, PerTensor(wide.scale)))
                if function is Function.TABLE:
                    ends = np.random.default_rng(8).integers(-(2**15), 2**15, 2 * lut_interpolation.SIDE)
                    options = {"table": constant_value("table", ends.astype(np.int16))}
                yield make_op(cls, y, x=symmetric, function=function, **options)
        yield from (make_op(cls, y, **fields) for y, fields in lut_tflite16.examples())
