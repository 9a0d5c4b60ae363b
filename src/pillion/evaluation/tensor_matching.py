# SPDX-License-Identifier: Apache-2.0
"""Matches int8 tensors of a program with float tensors of the model, by name and best axis order."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pillion.data.sample import Array, InputSpec
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import DType, PerTensor, Value, real_name
from pillion.ops import Segment
from pillion.partition import inline_segments

QUANTIZED_INPUT = "_q"
"""The suffix of a quantized input's name."""
MOST_RANK = 5


@dataclass(frozen=True)
class IntegerOpExecutor:
    """The ops of a program in execution order, with segments expanded, each with its arithmetic."""

    graph: Graph
    arithmetics: Mapping[Op, Arithmetic]

    def values(self, *inputs: Array) -> dict[Value, Array]:
        """Computes the exact integers of all tensors."""
        values = self.graph.source_arrays(inputs)
        for op in self.graph.ops:
            values.update(self.compute(op, values))
        return values

    def compute(self, op: Op, values: Mapping[Value, Array]) -> dict[Value, Array]:
        """Computes the results of one op."""
        return op.compute(self.arithmetics[op], values)


def integer_op_executor(graph: Graph) -> IntegerOpExecutor:
    """Returns the ops of a program with NPU segments expanded."""
    inlined = inline_segments(graph)
    kinds: list[Arithmetic] = []
    for op in graph.ops:
        inner = isinstance(op, Segment)
        kinds += [op.body.arithmetic] * len(op.body.ops) if inner else [graph.arithmetic]  # type: ignore[attr-defined]  # a segment
    return IntegerOpExecutor(inlined, dict(zip(inlined.ops, kinds, strict=True)))


@dataclass(frozen=True)
class TensorMatch:
    """An int8 tensor, its float tensor's name, and the permutation between them."""

    value: Value
    name: str
    order: tuple[int, ...]
    float_shape: tuple[int, ...]

    def in_program(self, real: Array) -> Array:
        """Permutes the float tensor to the program's axis order."""
        return real.transpose(self.order).reshape(self.value.shape)

    def in_model(self, integers: Array) -> Array:
        """Permutes a program's tensor to the float model's axis order."""
        ordered = integers.reshape([self.float_shape[axis] for axis in self.order])
        return ordered.transpose(np.argsort(self.order)).reshape(self.float_shape)

    def quantized(self, real: Array) -> Array:
        """Quantizes real numbers, saturating."""
        return InputSpec.of(self.value).quantized(real)

    def dequantized(self, integers: Array) -> Array:
        """Dequantizes integers to real numbers."""
        return (integers.astype(np.float64) - self.value.zero_point) * self.value.scale


def is_computed_integer(value: Value) -> bool:
    """Whether a tensor is computed, of 8 or 16 bits, with a single scale."""
    is_one = value.dtype in (DType.INT8, DType.INT16) and isinstance(value.type.quant, PerTensor)
    return is_one and not value.is_constant


def float_name(value: Value) -> str:
    """Returns the name of the float tensor that an integer tensor may have."""
    return real_name(value.name.removesuffix(QUANTIZED_INPUT))


def match_tensor(value: Value, real: Array | None, integers: Array) -> TensorMatch | None:
    """Finds the axis order in which a float tensor is nearest to the program's; None if no order has the shape."""
    if real is None or real.size != integers.size:
        return None
    orders = _candidate_axis_orders(real.shape, value.shape)
    matches = [TensorMatch(value, float_name(value), order, real.shape) for order in orders]
    if len(matches) <= 1:
        return matches[0] if matches else None
    noises = [float(((a.dequantized(integers) - a.in_program(real)) ** 2).sum()) for a in matches]
    return matches[int(np.argmin(noises))]


def _candidate_axis_orders(float_shape: tuple[int, ...], shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """Returns the axis orders that give the shape; shapes of other rank are compared flat."""
    rank = len(float_shape)
    if rank != len(shape) or rank > MOST_RANK:
        return [tuple(range(rank))]
    orders = itertools.permutations(range(rank))
    return [order for order in orders if tuple(float_shape[axis] for axis in order) == shape]
