# SPDX-License-Identifier: Apache-2.0
"""Converts sums to layers with weights of 1. Neutron's reductions have one scale for operand and result: a sum as a
mean and a product loses 3 to 21 dB, a layer rounds once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from pillion.devices.device import NpuRule
from pillion.ir.graph import Graph, UniqueNames
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.rewriting import Replacement, RewriteSweep, rewrite_pass
from pillion.ir.types import DType, PerTensor, Shape, Value, constant_value
from pillion.ir.verdict import all_ok
from pillion.ops import DepthwiseConv2d, Linear, ReduceSum, Reshape
from pillion.passes.split_reductions import are_neighbours, joined_sizes

ONE = PerTensor(1.0, 0)


def layers_for_sums(rules: Sequence[NpuRule]) -> Callable[[Graph], Graph]:
    """Returns the pass for an NPU with these rules."""

    @rewrite_pass(ReduceSum)
    def sums_as_layers(op: ReduceSum, at: RewriteSweep) -> Replacement:
        """Converts sums over neighbouring axes to linear layers or depthwise convolutions with weights of 1, if
        these satisfy all rules. Sums of a .tflite file stay, as their bytes are the file's."""
        is_int8 = op.x.dtype is DType.INT8 and op.y.dtype is DType.INT8
        axes = [axis for axis in op.axes if op.x.shape[axis] > 1]
        if at.graph.arithmetic is not Arithmetic.CMSIS_NN or not is_int8 or not axes:
            return None
        if not are_neighbours(axes, op.x.shape):
            return None
        ops = _MiddleAxisSum(
            op, *joined_sizes(axes, op.x.shape), last=op.x.shape[max(axes)], names=at.names
        ).ops()
        return (
            ops
            if all_ok(rule.judge(new) for new in ops for rule in rules if isinstance(new, rule.op))
            else None
        )

    return sums_as_layers


@dataclass(frozen=True)
class _MiddleAxisSum:
    """A sum over the middle of three axes."""

    op: ReduceSum
    outer: int
    summed: int
    inner: int
    last: int
    """Elements along the last of the original axes."""
    names: UniqueNames

    def ops(self) -> list[Op]:
        """Returns the layer, between reshapes where the shapes differ."""
        is_linear = self.inner == 1
        window = (self.summed // self.last, self.last) if self.outer == 1 else (1, self.summed)
        shape = (self.outer, self.summed) if is_linear else (1, self.outer * window[0], window[1], self.inner)
        x = self.reshaped(self.op.x, shape)
        y = self.reshaped(self.op.y, (self.outer, 1) if is_linear else (1, self.outer, 1, self.inner))
        ones = np.ones((1, self.summed) if is_linear else (1, *window, self.inner), np.int8)
        layer = (Linear if is_linear else DepthwiseConv2d)(
            x=x,
            weights=constant_value(self.names.fresh(f"{self.op.name}_ones"), ones, ONE),
            bias=constant_value(self.names.fresh(f"{self.op.name}_bias"), np.zeros(self.inner, np.int32)),
            y=y,
            source=self.op.source,
        )
        before = [Reshape(x=self.op.x, y=x, source=self.op.source)] if x is not self.op.x else []
        after = [Reshape(x=y, y=self.op.y, source=self.op.source)] if y is not self.op.y else []
        return [*before, layer, *after]

    def reshaped(self, value: Value, shape: Shape) -> Value:
        """Returns a value of another shape; itself where that is its shape."""
        if value.shape == shape:
            return value
        return value.like(self.names.fresh(f"{value.name}_rows"), shape=shape)
