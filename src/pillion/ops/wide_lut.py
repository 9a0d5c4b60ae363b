# SPDX-License-Identifier: Apache-2.0
"""16-bit unary functions: gates of a loop, whose sums have 16 bits, too."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op, op, optional_operand
from pillion.ir.types import Array, DType, TensorType, Value, constant_value
from pillion.ops.example_values import make_op
from pillion.ops.lut import REAL, Lut, Reals
from pillion.ops.rowwise import Unary
from pillion.ops.unary_functions import Function
from pillion.ops.wide_add import wide_example_value

ENTRIES = 257
"""Entries of a table: one per 256 levels, and one for the end."""
NAMED = frozenset({Function.SIGMOID, Function.TANH, Function.SILU, Function.SOFTPLUS})
"""Functions that linear interpolation between entries approximates well."""


@op("wide_lut")
class WideLut(Unary):
    """Applies a unary function to each 16-bit element. A table holds the results for every 256th level, in double
    precision and rounded half away from zero; results between two entries are interpolated and rounded half up."""

    table: Value | None = optional_operand()
    function: Function = Function.TABLE

    is_identity = False

    def infer(self) -> TensorType:
        return TensorType(self.x.shape, DType.INT16)

    def check(self) -> None:
        if {self.x.dtype, self.y.dtype} != {DType.INT16}:
            raise self.refuse(
                "operand and result are int16", f"{self.x.dtype.value} and {self.y.dtype.value}"
            )
        if (self.function is Function.TABLE) != (self.table is not None):
            raise self.refuse("`table` goes with the function `table`, and only with it", self.function.value)
        if self.table is not None and (self.table.shape, self.table.dtype) != ((ENTRIES,), DType.INT16):
            raise self.refuse(f"a table has {ENTRIES} int16 entries", repr(self.table))
        if self.table is None and self.function not in NAMED:
            known = ", ".join(sorted(f.value for f in NAMED))
            raise self.refuse(f"functions are {known}, or a table", self.function.value)

    @property
    def entries(self) -> NDArray[np.int16]:
        """The table: the results for -32768, -32512, … 32768."""
        if self.table is not None:
            return self.table.constant.astype(np.int16)
        narrow = Lut(x=self.x, table=None, y=self.y, function=self.function)
        return tabulate_16_bit(lambda x: REAL[self.function](x, narrow), self.x, self.y)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        table = self.entries.astype(np.int64)
        at = operands[0].astype(np.int64) - DType.INT16.bounds[0]
        first, part = at >> 8, at & 255
        slope = table[first + 1] - table[first]
        return (table[first] + (slope * part + 128 >> 8)).astype(np.int16)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        for number, function in enumerate((*sorted(NAMED, key=lambda f: f.value), Function.TABLE)):
            x = wide_example_value("x", (2, 3, 7), DType.INT16, number, 1.0)
            y = wide_example_value("y", (), DType.INT16, number + 1, 0.25)
            entries = np.random.default_rng(7).integers(-(2**15), 2**15, ENTRIES).astype(np.int16)
            table = constant_value("table", entries) if function is Function.TABLE else None
            yield make_op(cls, y, x=x, table=table, function=function)


def tabulate_16_bit(function: Callable[[Reals], Reals], x: Value, y: Value) -> NDArray[np.int16]:
    """Returns the table of a real function at the scales of an operand and a result."""
    least, most = DType.INT16.bounds
    reals: Reals = (np.arange(least, most + 2, 256) - x.zero_point) * np.float64(x.scale)
    with np.errstate(all="ignore"):
        levels = numerics.round_half_away(function(reals) / y.scale + y.zero_point)
    entries = np.clip(np.nan_to_num(levels, nan=least, posinf=most, neginf=least), least, most)
    return entries.astype(np.int16)


def as_int8_table(table: NDArray[np.int16], x: Value, y: Value, of: tuple[Value, Value]) -> NDArray[np.int8]:
    """Returns the 8-bit table that corresponds to a 16-bit table, for 8-bit operand and result."""
    wide_x, wide_y = of
    reals = (np.arange(-128, 128) - x.zero_point) * np.float64(x.scale)
    at = reals / wide_x.scale + wide_x.zero_point
    interpolated = np.interp(at, np.arange(DType.INT16.bounds[0], DType.INT16.bounds[1] + 2, 256), table)
    levels = numerics.round_half_away(
        (interpolated - wide_y.zero_point) * wide_y.scale / y.scale + y.zero_point
    )
    return numerics.clamp_to_int8(levels, *DType.INT8.bounds).astype(np.int8)
