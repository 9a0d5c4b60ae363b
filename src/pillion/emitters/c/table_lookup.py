# SPDX-License-Identifier: Apache-2.0
"""Ops that become a lookup in a table of 256 entries: unary int8 functions, and binary ones with a constant scalar."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import numpy as np

from pillion.emitters.c.kernel import Call, Kernel, Params
from pillion.emitters.c.kernel_conditions import int8, same_shape
from pillion.emitters.c.kernel_library import Library
from pillion.errors import PillionError
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import BYTES, Array, Value
from pillion.ir.verdict import Verdict, all_ok
from pillion.ops.clamp import Clamp
from pillion.ops.elementwise import Add, Maximum, Minimum, Mul, Sub
from pillion.ops.formats import Quantize, Requantize
from pillion.ops.lut import Lut
from pillion.ops.prelu import Prelu
from pillion.ops.squared_difference import SquaredDifference
from pillion.ops.wide_lut import WideLut

EVERY_INT8 = np.arange(-128, 128, dtype=np.int8)
WITH_SCALAR: tuple[type[Op], ...] = (Add, Sub, SquaredDifference, Mul, Minimum, Maximum, Prelu)
"""Binary ops of which a constant scalar makes a unary function."""


@dataclass(frozen=True)
class TableLookup:
    """The table lookup kernel of a library, for every op that it computes."""

    library: Library
    is_unsigned: bool = False
    """Whether the kernel reads operands as unsigned bytes, so that the table begins with the entry for 0."""

    def call(self, op: Op, x: Value, entries: Array) -> tuple[Call, ...]:
        """Returns the call with a table of 256 entries in the order of int8."""
        y, table = op.results[0], np.ascontiguousarray(entries, np.int8)
        table = np.roll(table, 128) if self.is_unsigned else table
        params: Params = {"count": y.type.elements, "table": table}
        return (Call(self.library.routine("lut_s8"), params, (x,), y),)

    def with_scalar(self, op: Op, arithmetic: Arithmetic) -> tuple[Call, ...]:
        """Returns the call for a binary op with a constant scalar."""
        x = beside_scalar(op)
        assert x is not None
        operands = (EVERY_INT8 if v is x else v.constant.reshape(1) for v in op.operands)
        return self.call(op, x, op.reference(arithmetic, *operands).reshape(-1))

    def function(self, op: Lut, arithmetic: Arithmetic) -> tuple[Call, ...]:
        """Returns the call for a unary function."""
        return self.call(op, op.x, op.entries(arithmetic))

    def requantize(self, op: Requantize, arithmetic: Arithmetic) -> tuple[Call, ...]:
        """Returns the call for a requantization of bytes, signed or not."""
        entries = op.reference(arithmetic, EVERY_INT8.view(op.x.dtype.numpy))
        return self.call(op, op.x, entries.view(np.int8))

    def clamp(self, op: Clamp, arithmetic: Arithmetic) -> tuple[Call, ...]:
        """Returns the call for a clamp."""
        return self.call(op, op.x, op.reference(arithmetic, EVERY_INT8))

    def kernels(self) -> tuple[Kernel, ...]:
        """Returns the kernels of unary functions, and of binary ops with a constant scalar."""
        binary = (
            self.library.kernel(
                op,
                self.with_scalar,
                check_scalar,
                in_place=in_place_beside_scalar,
                name=f"{op.kind}_by_table",
            )
            for op in WITH_SCALAR
        )
        return (*binary, self.library.kernel(Lut, self.function, check_function, in_place=in_place_unary))


def beside_scalar(op: Op) -> Value | None:
    """Returns the operand next to a constant scalar, or None if neither operand is one."""
    for x, scalar in permutations(op.operands):
        if (
            scalar.is_constant
            and scalar.type.elements == 1
            and x.type.elements == op.results[0].type.elements
        ):
            return x
    return None


def check_scalar(op: Op, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether one operand is a constant scalar, and whether the other is long enough to be worth a table."""
    is_found, count = beside_scalar(op) is not None, op.results[0].type.elements
    first, second = op.operands
    got = f"{list(first.shape)} and {list(second.shape)}"
    return (
        *int8(**{v.name: v for v in (first, second, op.results[0])}),
        Verdict("number", is_found, "one operand is a constant of one element", got),
        Verdict(
            "elements", count >= len(EVERY_INT8), f"{len(EVERY_INT8)} as in the table, or more", str(count)
        ),
    )


def in_place_beside_scalar(op: Op) -> tuple[Value, ...]:
    """Returns the operand next to a constant scalar, whose memory the result may overwrite."""
    x = beside_scalar(op)
    return same_shape(op, x) if x is not None else ()


def check_function(op: Lut, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether a unary function maps int8 to int8, and whether the graph's arithmetic defines it."""
    types = int8(x=op.x, y=op.y)
    if not all_ok(types):
        return types
    wanted = f"a function of {arithmetic.value} arithmetic"
    try:
        op.entries(arithmetic)
    except PillionError as error:
        return (*types, Verdict("function", False, wanted, f"{op.function.value}: {error.what}"))
    return (*types, Verdict("function", True, wanted, op.function.value))


def check_requantize(op: Requantize, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether operand and result are int8 or uint8."""
    ends = {"x": op.x, "y": op.y}
    return tuple(Verdict(n, v.dtype in BYTES, "int8 or uint8", v.dtype.value) for n, v in ends.items())


def check_clamp(op: Clamp, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether a clamp maps int8 to int8."""
    return int8(x=op.x, y=op.y)


def in_place_unary(op: Lut | WideLut | Requantize | Clamp | Quantize) -> tuple[Value, ...]:
    """Returns the only operand, whose memory the result may overwrite."""
    return same_shape(op, op.x)
