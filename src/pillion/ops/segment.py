# SPDX-License-Identifier: Apache-2.0
"""Ops that go to an accelerator together: one op of the program, with a graph of its own inside."""

from __future__ import annotations

from collections.abc import Iterator

from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op, Quantization, op, operand, result
from pillion.ir.types import Array, TensorType, Value


@op("segment", quantization=Quantization.NONE)
class Segment(Op):
    """A graph that another processor runs, in the arithmetic of that graph."""

    is_idle = False
    crosses_rows = "another processor runs it"

    xs: tuple[Value, ...] = operand()
    ys: tuple[Value, ...] = result()
    body: Graph
    device: str = ""

    def infer(self) -> TensorType:
        first = self.body.outputs[0]
        return TensorType(first.shape, first.dtype)

    def check(self) -> None:
        for outer, inner in ((self.xs, self.body.inputs), (self.ys, self.body.outputs)):
            if [v.type for v in outer] != [v.type for v in inner]:
                raise self.refuse(
                    "operands and results are those of the inner graph", f"{list(outer)} and {list(inner)}"
                )

    @property
    def macs(self) -> int:
        return self.body.macs

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> tuple[Array, ...]:  # type: ignore[override]  # several results
        return self.body.reference(*operands)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        """Gives none: segments are made by placement; the zoo's models are their examples."""
        return iter(())
