# SPDX-License-Identifier: Apache-2.0
"""Run lengths of labels."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pillion.ir.access import Access, AxisMap
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op, op, operand, require_dtype, result
from pillion.ir.types import Array, DType, TensorType, Value
from pillion.ops.example_values import make_op


@op("run_lengths")
class RunLengths(Op):
    """Returns the first `most` runs of equal numbers along the last axis, each as the number and how often it stands there;
    pairs of 0 behind the last run."""

    is_identity = False

    x: Value = operand()
    y: Value = result()
    most: int

    def access(self, operand: Value) -> Access:
        rows = operand.type.rank - 1
        return (*map(AxisMap, range(rows)), "a run may begin anywhere before")

    def infer(self) -> TensorType:
        return TensorType((*self.x.shape[:-1], self.most, 2), DType.INT32)

    def check(self) -> None:
        require_dtype(self, self.x, DType.INT32)
        if not self.x.shape or not self.x.shape[-1] or self.most < 1:
            raise self.refuse(
                "rows have 1 number or more, and 1 run or more", f"{list(self.x.shape)} and {self.most}"
            )

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        (x,) = operands
        y = np.zeros((x[..., 0].size, self.most, 2), np.int32)
        for row, runs in zip(x.reshape(len(y), -1), y, strict=True):
            begins = np.flatnonzero(np.append(True, row[1:] != row[:-1]))[: self.most + 1]
            lengths = np.diff(begins, append=len(row))[: self.most]
            runs[: len(lengths)] = np.stack([row[begins[: len(lengths)]], lengths], axis=1)
        return y.reshape(self.y.shape)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        for shape, most in (((2, 11), 4), ((1, 1), 3), ((2, 3, 17), 40), ((5,), 1), ((3, 1000), 999)):
            x = Value("x", TensorType(shape, DType.INT32))
            yield make_op(cls, Value("y", TensorType((), DType.INT32)), x=x, most=most)
