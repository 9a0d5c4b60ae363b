# SPDX-License-Identifier: Apache-2.0
"""Tracks the memory layout of a model's tensors.

PyTorch addresses logical axes (images are N, C, H, W); values of the graph have physical axes (N, H, W, C). A
`Placed` tensor maps between them, so a permutation moves no data; a `Transpose` is emitted only if an op needs
another layout."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pillion.ir.graph import UniqueNames
from pillion.ir.op import Op, Quantization
from pillion.ir.types import BYTES, DType, PerChannel, Quant, Shape, TensorType, Value, constant_value
from pillion.ops import Reshape, Transpose

Order = tuple[int, ...]

NHWC: Order = (0, 2, 3, 1)
"""Channels-last layout of images."""
NLC: Order = (0, 2, 1)
"""Channels-last layout of sequences."""


@dataclass(frozen=True)
class LayoutValue:
    """A value and the logical axis of each of its physical axes."""

    value: Value
    order: Order

    @property
    def shape(self) -> Shape:
        """The shape in logical order of axes."""
        return tuple(self.value.shape[self.order.index(axis)] for axis in range(len(self.order)))

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self.order)

    def axis(self, logical: int) -> int:
        """Returns the physical axis of a logical axis; negative ones count from the end."""
        return self.order.index(logical % self.rank)

    def with_value(self, value: Value) -> LayoutValue:
        """Returns another value in the same layout."""
        return LayoutValue(value, self.order)

    def permuted(self, axes: Sequence[int]) -> LayoutValue:
        """Returns the tensor whose logical axis i is logical axis axes[i] of this one. No data moves."""
        axes = [a % self.rank for a in axes]
        return LayoutValue(self.value, tuple(axes.index(axis) for axis in self.order))


def from_logical_order(value: Value) -> LayoutValue:
    """Places a value whose physical axes are in logical order."""
    return LayoutValue(value, tuple(range(value.type.rank)))


class Builder:
    """Collects ops in order, and inserts transposes and reshapes."""

    def __init__(self, names: UniqueNames) -> None:
        self.names = names
        self.ops: list[Op] = []
        self.source = ""
        self.hint = "v"
        self.node: Any = None
        """Node that is being imported, for rows that need more than its arguments."""

    def emit(
        self,
        cls: type[Op],
        *,
        dtype: DType | None = None,
        quant: Quant | None = None,
        shape: Shape | None = None,
        name: str = "",
        **fields: Any,
    ) -> Value:
        """Appends an op. `shape` is the result's shape if it cannot be inferred (reshape, slice)."""
        name = self.names.fresh(name or self.hint)
        moved: Any = fields["xs"][0] if "xs" in fields else fields.get("x")
        if quant is None and cls.quantization is Quantization.SHARED and _is_byte(moved):
            dtype, quant = moved.dtype, moved.type.quant
        draft: Any = cls(
            y=Value(name, TensorType(shape or (), dtype or DType.FLOAT32, quant)),
            source=self.source,
            **fields,
        )  # type: ignore[call-arg]  # every op has a result y
        draft.check()
        inferred = draft.infer()
        y = Value(name, TensorType(inferred.shape, dtype or inferred.dtype, quant))
        self.ops.append(dataclasses.replace(draft, y=y))
        return y

    def arrange(self, x: LayoutValue, order: Order) -> Value:
        """Returns the tensor with its logical axes in this physical order."""
        if x.order == order:
            return x.value
        permutation = tuple(x.order.index(axis) for axis in order)
        if x.value.is_constant:
            return self.constant(transpose_constant(x.value, permutation))
        return self._emit_move(Transpose, x.value, f"{x.value.name}_moved", order=permutation)

    def plain(self, x: LayoutValue) -> Value:
        """Returns the tensor in logical order."""
        return self.arrange(x, tuple(range(x.rank)))

    def reshape(self, value: Value, shape: Shape) -> Value:
        """Reshapes a value in memory; constants are reshaped at compile time."""
        if value.shape == shape:
            return value
        if value.is_constant and not isinstance(value.type.quant, PerChannel):
            return self.constant(constant_value(value.name, value.constant.reshape(shape), value.type.quant))
        return self._emit_move(Reshape, value, f"{value.name}_shaped", shape=shape)

    def _emit_move(self, cls: type[Op], x: Value, name: str, **fields: Any) -> Value:
        return self.emit(cls, x=x, name=name, dtype=x.dtype, quant=x.type.quant, **fields)

    def constant(self, value: Value) -> Value:
        """Returns a constant under a fresh name."""
        return dataclasses.replace(value, name=self.names.fresh(value.name))


def _is_byte(value: Any) -> bool:
    """Whether an operand is computed bytes, which stay bytes when they move."""
    return isinstance(value, Value) and value.dtype in BYTES and not value.is_constant


def transpose_constant(value: Value, permutation: Order) -> Value:
    """Transposes a constant's data and the axis of its channel scales."""
    quant = value.type.quant
    if isinstance(quant, PerChannel):
        quant = PerChannel(quant.scales, permutation.index(quant.axis))
    return constant_value(value.name, np.ascontiguousarray(value.constant.transpose(permutation)), quant)
