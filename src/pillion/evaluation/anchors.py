# SPDX-License-Identifier: Apache-2.0
"""Which int8 tensor of a program stands for which tensor of the float model: by name, and by the order of axes that fits best."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from pillion.data.sample import Array
from pillion.ir.graph import Graph
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import DType, PerTensor, Value
from pillion.ops import Segment
from pillion.place import inline_segments

SUFFIXES = ("_i8", "_q")
"""What the names of int8 tensors have behind those of the tensors that they stand for."""
MOST_RANK = 5


@dataclass(frozen=True)
class Steps:
    """The ops of a program in running order, those of segments among them, each with the arithmetic that it computes in."""

    graph: Graph
    arithmetics: Mapping[Op, Arithmetic]

    def values(self, *inputs: Array) -> dict[Value, Array]:
        """Computes the exact integers of all tensors."""
        values = self.graph.given(inputs)
        for op in self.graph.ops:
            values.update(self.compute(op, values))
        return values

    def compute(self, op: Op, values: Mapping[Value, Array]) -> dict[Value, Array]:
        """Computes the results of one op."""
        operands = [v.constant if v.is_constant else values[v] for v in op.operands]
        made = op.reference(self.arithmetics[op], *operands)
        results = made if isinstance(made, tuple) else (made,)
        return dict(zip(op.results, map(np.asarray, results), strict=True))


def steps_of(graph: Graph) -> Steps:
    """Gives the ops of a program, with the segments of an NPU opened."""
    inlined = inline_segments(graph)
    kinds: list[Arithmetic] = []
    for op in graph.ops:
        inner = isinstance(op, Segment)
        kinds += [op.body.arithmetic] * len(op.body.ops) if inner else [graph.arithmetic]  # type: ignore[attr-defined]  # a segment
    return Steps(inlined, dict(zip(inlined.ops, kinds, strict=True)))


@dataclass(frozen=True)
class Anchor:
    """An int8 tensor, the name of its float tensor, and the axes of that in the order of the int8 tensor's."""

    value: Value
    name: str
    order: tuple[int, ...]
    float_shape: tuple[int, ...]

    def in_program(self, real: Array) -> Array:
        """Gives the float tensor with its axes as the program has them."""
        return real.transpose(self.order).reshape(self.value.shape)

    def in_model(self, held: Array) -> Array:
        """Gives a tensor of the program with its axes as the float model has them."""
        ordered = held.reshape([self.float_shape[axis] for axis in self.order])
        return ordered.transpose(np.argsort(self.order)).reshape(self.float_shape)

    def quantized(self, real: Array) -> Array:
        """Gives the integers nearest to real numbers, saturated."""
        low, high = self.value.dtype.bounds
        levels = np.rint(real.astype(np.float64) / self.value.scale) + self.value.zero_point
        return np.clip(levels, low, high).astype(self.value.dtype.numpy)

    def real(self, held: Array) -> Array:
        """Gives the real numbers that integers stand for."""
        return (held.astype(np.float64) - self.value.zero_point) * self.value.scale


def is_int8(value: Value) -> bool:
    """Whether a tensor is computed, and holds int8 numbers with one scale."""
    return not value.is_constant and value.dtype is DType.INT8 and isinstance(value.type.quant, PerTensor)


def float_name(value: Value) -> str:
    """Gives the name that the float tensor of an int8 tensor has, if it has one."""
    for suffix in SUFFIXES:
        if value.name.endswith(suffix):
            return value.name.removesuffix(suffix)
    return value.name


def anchor_of(value: Value, real: Array | None, held: Array) -> Anchor | None:
    """Finds the order of axes in which a float tensor is nearest to what the program computes; None where no order has the shape."""
    if real is None or real.size != held.size:
        return None
    orders = _orders(real.shape, value.shape)
    anchors = [Anchor(value, float_name(value), order, real.shape) for order in orders]
    if len(anchors) <= 1:
        return anchors[0] if anchors else None
    noises = [float(((a.real(held) - a.in_program(real)) ** 2).sum()) for a in anchors]
    return anchors[int(np.argmin(noises))]


def _orders(float_shape: tuple[int, ...], shape: tuple[int, ...]) -> list[tuple[int, ...]]:
    """The orders of axes that give the shape; other ranks are the same numbers in the same order."""
    rank = len(float_shape)
    if rank != len(shape) or rank > MOST_RANK:
        return [tuple(range(rank))]
    orders = itertools.permutations(range(rank))
    return [order for order in orders if tuple(float_shape[axis] for axis in order) == shape]
