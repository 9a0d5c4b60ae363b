# SPDX-License-Identifier: Apache-2.0
"""Unary functions. In int8 each is a lookup table of 256 entries, so all share one kernel."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op, op, optional_operand
from pillion.ir.types import Array, DType, Value, constant_value
from pillion.ops.example_values import ZERO_POINTS, make_op, value
from pillion.ops.lut_tflite import tflite_entries
from pillion.ops.rowwise import Unary
from pillion.ops.unary_functions import Function

Reals = NDArray[np.float64]


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


@op("lut")
class Lut(Unary):
    """Applies a unary function to each element.

    Under `cmsis-nn` the table holds the function in double precision, rounded half away from zero after the
    zero point is added. Under `tflite` the functions that LiteRT has follow its kernels; that arithmetic lacks
    the others."""

    takes_int16 = True

    table: Value | None = optional_operand()
    function: Function = Function.TABLE
    alpha: float = 0.0
    low: float = -math.inf
    high: float = math.inf

    def check(self) -> None:
        if (self.function is Function.TABLE) != (self.table is not None):
            raise self.refuse("`table` goes with the function `table`, and only with it", self.function.value)
        if self.table is not None and (self.table.shape, self.table.dtype) != ((256,), DType.INT8):
            raise self.refuse("a table has 256 int8 entries", repr(self.table))

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
    def is_identity(self) -> bool:
        """Whether the table maps every number to itself."""
        same = self.x.is_quantized and self.x.type == self.y.type
        return same and np.array_equal(self.entries(Arithmetic.CMSIS_NN), np.arange(-128, 128))

    def check_scales(self, arithmetic: Arithmetic) -> None:
        self.entries(arithmetic)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        return self.entries(arithmetic)[operands[0].astype(np.int64) + 128]

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
