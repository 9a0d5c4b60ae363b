# SPDX-License-Identifier: Apache-2.0
"""Segments: ops that run on an NPU together, as one op with an inner graph."""

from __future__ import annotations

from collections.abc import Iterator

from pillion.errors import PillionError
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op, Quantization, op, operand, result
from pillion.ir.types import Array, TensorType, Value


@op("segment", quantization=Quantization.NONE)
class Segment(Op):
    """A graph that an NPU runs, in the arithmetic of that graph. The inner graph of a segment that was read from a
    file with the NPU's own code has inputs and outputs but no ops."""

    is_identity = False
    why_whole = "another processor runs it"

    xs: tuple[Value, ...] = operand()
    ys: tuple[Value, ...] = result()
    body: Graph
    device: str = ""

    @property
    def is_closed(self) -> bool:
        """Whether only the NPU's code defines the computation of the segment."""
        return not self.body.ops

    def require_open(self) -> None:
        """Raises if only the NPU's code defines the computation of the segment."""
        if self.is_closed:
            raise PillionError(
                "a segment holds code for the NPU itself",
                rule="the ops of a segment are kept where it is TFLite under Pillion's mark",
                here=f"a segment for {self.device}, which the NPU's own converter has made",
                help="`pillion run` with --on npu executes it; anything else starts from the model that it was compiled from",
            )

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
        self.require_open()
        return self.body.reference(*operands)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        """Yields nothing: partitioning makes segments, and the models of the zoo are their examples."""
        return iter(())
