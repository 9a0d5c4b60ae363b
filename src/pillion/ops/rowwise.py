# SPDX-License-Identifier: Apache-2.0
"""The base class of elementwise ops and of ops along the last axis."""

from __future__ import annotations

from typing import ClassVar

from pillion.ir.access import Access, elementwise_access
from pillion.ir.op import Op, operand, result
from pillion.ir.types import TensorType, Value


class RowWise(Op):
    """The base class of ops that work element by element, with broadcasting, or vector by vector along the last
    axis."""

    y: Value = result()
    across_last: ClassVar[str] = ""
    """Why elements of the result depend on the whole last axis; empty if they do not."""

    def access(self, operand: Value) -> Access:
        maps = elementwise_access(operand, self.y)
        return (*maps[:-1], self.across_last) if self.across_last else maps


class Unary(RowWise):
    """The base class of row-wise ops with one computed operand; the result has its type."""

    x: Value = operand()

    def infer(self) -> TensorType:
        return TensorType(self.x.shape, self.x.dtype)
