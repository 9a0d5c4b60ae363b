# SPDX-License-Identifier: Apache-2.0
"""Ops that become a lookup in a table of 256 entries: unary int8 functions, and binary ones with a constant scalar."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import permutations

import numpy as np

from pillion.emitters.c.kernel import Kernel, Params
from pillion.emitters.c.kernel_conditions import (
    INT8_XY,
    has_dtypes,
    in_place_same_shape,
    int8_values,
    short_circuit,
)
from pillion.emitters.c.kernel_library import Library
from pillion.errors import PillionError
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import BYTES, Array, Value
from pillion.ir.verdict import Verdict
from pillion.ops.clamp import Clamp
from pillion.ops.elementwise import Add, Maximum, Minimum, Mul, Sub
from pillion.ops.formats import Requantize
from pillion.ops.lut import Lut
from pillion.ops.prelu import Prelu
from pillion.ops.squared_difference import SquaredDifference

EVERY_INT8 = np.arange(-128, 128, dtype=np.int8)
WITH_SCALAR: tuple[type[Op], ...] = (Add, Sub, SquaredDifference, Mul, Minimum, Maximum, Prelu)
"""Binary ops that a constant scalar makes unary functions."""


@dataclass(frozen=True)
class TableLookup:
    """The table lookup kernel of a library, for every op that it computes."""

    library: Library
    is_unsigned: bool = False
    """Whether the kernel reads operands as unsigned bytes: the table begins with the entry for 0."""

    def table(self, op: Op, entries: Array) -> Params:
        """Returns the parameters with a table of 256 entries in the order of int8."""
        table = np.ascontiguousarray(entries, np.int8)
        table = np.roll(table, 128) if self.is_unsigned else table
        return {"count": op.results[0].type.elements, "table": table}

    def scalar_binary_call(self, op: Op, arithmetic: Arithmetic) -> Params:
        """Returns the parameters of a binary op with a constant scalar."""
        (x,) = scalar_operands(op)
        operands = (EVERY_INT8 if v is x else v.constant.reshape(1) for v in op.operands)
        return self.table(op, op.reference(arithmetic, *operands).reshape(-1))

    def function(self, op: Lut, arithmetic: Arithmetic) -> Params:
        """Returns the parameters of a unary function."""
        return self.table(op, op.entries(arithmetic))

    def bytes(self, op: Requantize | Clamp, arithmetic: Arithmetic) -> Params:
        """Returns the parameters of a requantization or clamp of bytes, signed or not."""
        entries = op.reference(arithmetic, EVERY_INT8.view(op.x.dtype.numpy))
        return self.table(op, entries.view(np.int8))

    def kernels(self) -> tuple[Kernel, ...]:
        """Returns the kernels of unary functions, and of binary ops with a constant scalar."""
        binary = (
            self.library.kernel(
                op,
                "lut_s8",
                self.scalar_binary_call,
                requires=(check_scalar,),
                operands=scalar_operands,
                in_place=lambda lookup_op: in_place_same_shape(lookup_op, *scalar_operands(lookup_op)),
                name=f"{op.kind}_by_table",
            )
            for op in WITH_SCALAR
        )
        function = self.library.kernel(Lut, "lut_s8", self.function, requires=(FUNCTION,), in_place="x")
        return (*binary, function)

    def byte_kernel(self, op: type[Requantize] | type[Clamp], name: str = "") -> Kernel:
        """Returns the kernel of requantizations or clamps of bytes."""
        requires = (INT8_XY if op is Clamp else ALL_BYTES,)
        return self.library.kernel(op, "lut_s8", self.bytes, requires=requires, in_place="x", name=name)


def scalar_operands(op: Op) -> tuple[Value, ...]:
    """Returns the operand next to a constant scalar; empty if neither operand is one."""
    for x, scalar in permutations(op.operands):
        same = x.type.elements == op.results[0].type.elements
        if scalar.is_constant and scalar.type.elements == 1 and same:
            return (x,)
    return ()


def check_scalar(op: Op, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether one operand is a constant scalar, and whether the other is long enough to be worth a table."""
    is_found, count = bool(scalar_operands(op)), op.results[0].type.elements
    first, second = op.operands
    got = f"{list(first.shape)} and {list(second.shape)}"
    return (
        *int8_values(first, second, *op.results),
        Verdict("number", is_found, "one operand is a constant of one element", got),
        Verdict(
            "elements", count >= len(EVERY_INT8), f"{len(EVERY_INT8)} as in the table, or more", str(count)
        ),
    )


def has_entries(op: Lut, arithmetic: Arithmetic) -> Verdict:
    """Checks whether the graph's arithmetic defines a unary function."""
    requirement = f"a function of {arithmetic.value} arithmetic"
    try:
        op.entries(arithmetic)
    except PillionError as error:
        return Verdict("function", False, requirement, op.function.value, error.what, error.help)
    return Verdict("function", True, requirement, op.function.value)


FUNCTION = short_circuit(INT8_XY, has_entries)
"""A unary function of int8 that the graph's arithmetic defines."""
ALL_BYTES = has_dtypes("x y", *BYTES)
"""Operand and result are int8 or uint8."""
