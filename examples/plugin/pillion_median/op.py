# SPDX-License-Identifier: Apache-2.0
"""The op: its shape rule, and the exact reference that every executor is compared with."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op, Quantization, op, operand, result
from pillion.ir.types import Array, TensorType, Value
from pillion.ops.example_values import make_op, value
from pillion.ops.rowwise import RowWise


@op("median3", quantization=Quantization.SHARED)
class Median3(RowWise):
    """Returns the median of each element and its two neighbours on the last axis; the ends are repeated."""

    across_last = "a median depends on neighbours"

    x: Value = operand()
    y: Value = result()

    @property
    def is_identity(self) -> bool:
        """Whether there are no neighbours but repeated ends."""
        return self.x.shape[-1] <= 2

    def infer(self) -> TensorType:
        """Returns the operand's shape and type."""
        return TensorType(self.x.shape, self.x.dtype)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        """Computes the medians: they need no scales, as operand and result share theirs."""
        x = operands[0]
        padded = np.concatenate([x[..., :1], x, x[..., -1:]], axis=-1)
        return np.sort(np.stack([padded[..., :-2], x, padded[..., 2:]]), axis=0)[1]

    @classmethod
    def examples(cls) -> Iterator[Op]:
        """Yields instances for tests."""
        for shape in ((3, 7), (1, 2, 5), (4, 1)):
            x = value("x", shape, 0.0625, 3)
            yield make_op(cls, value("y", (), 0.0625, 3), x=x)
