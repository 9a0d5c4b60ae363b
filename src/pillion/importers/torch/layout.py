# SPDX-License-Identifier: Apache-2.0
"""Where the axes of a model's tensors lie in memory.

PyTorch's operators speak of logical axes (images are N, C, H, W); the graph's values are what lies in memory (N, H, W, C).
A `Placed` tensor is a value together with the logical axis that each of its physical axes holds. A permutation of logical
axes then costs nothing: it only changes that note. A `Transpose` is made where an op really needs another order.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from pillion.ir.graph import Names
from pillion.ir.op import Op
from pillion.ir.types import DType, PerChannel, Quant, Shape, TensorType, Value, constant
from pillion.ops import Reshape, Transpose

Order = tuple[int, ...]

NHWC: Order = (0, 2, 3, 1)
"""Images: the channels lie last."""
NLC: Order = (0, 2, 1)
"""Sequences: the channels lie last."""


@dataclass(frozen=True)
class Placed:
    """A value and, for each of its axes, the logical axis that lies there."""

    value: Value
    order: Order

    @property
    def shape(self) -> Shape:
        """The shape that the model sees, whatever lies where in memory."""
        return tuple(self.value.shape[self.order.index(axis)] for axis in range(len(self.order)))

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.order)

    def axis(self, logical: int) -> int:
        """Says where a logical axis (negative ones count from the end) lies."""
        return self.order.index(logical % self.rank)

    def with_value(self, value: Value) -> Placed:
        """Gives another value whose axes lie the same way."""
        return Placed(value, self.order)

    def permuted(self, axes: Sequence[int]) -> Placed:
        """Gives the tensor whose logical axis i is logical axis axes[i] of this one. No data moves."""
        axes = [a % self.rank for a in axes]
        return Placed(self.value, tuple(axes.index(axis) for axis in self.order))


def plain(value: Value) -> Placed:
    """Places a value that lies in logical order."""
    return Placed(value, tuple(range(value.type.rank)))


class Builder:
    """Collects ops in order, and knows how to bring tensors into another order or shape."""

    def __init__(self, names: Names) -> None:
        self.names = names
        self.ops: list[Op] = []
        self.source = ""
        self.hint = "v"
        self.node: Any = None
        """What is being imported: for rows that must ask it more than its arguments."""

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
        """Appends an op; the result's shape is inferred unless given (reshape, slice)."""
        name = self.names.fresh(name or self.hint)
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

    def like(self, x: Placed, cls: type[Op], **fields: Any) -> Placed:
        """Appends an op that keeps the shape and order of its operand x."""
        return x.with_value(
            self.emit(cls, x=x.value, dtype=x.value.dtype, quant=x.value.type.quant, **fields)
        )

    def arrange(self, x: Placed, order: Order) -> Value:
        """Gives the tensor with its logical axes in this order in memory."""
        if x.order == order:
            return x.value
        permutation = tuple(x.order.index(axis) for axis in order)
        if x.value.is_constant:
            return self.constant(transposed(x.value, permutation))
        return self.emit(
            Transpose,
            x=x.value,
            order=permutation,
            name=f"{x.value.name}_moved",
            dtype=x.value.dtype,
            quant=x.value.type.quant,
        )

    def plain(self, x: Placed) -> Value:
        """Gives the tensor in logical order."""
        return self.arrange(x, tuple(range(x.rank)))

    def reshape(self, value: Value, shape: Shape) -> Value:
        """Gives a value another shape in memory; constants are reshaped at once."""
        if value.shape == shape:
            return value
        if value.is_constant and not isinstance(value.type.quant, PerChannel):
            return self.constant(constant(value.name, value.constant.reshape(shape), value.type.quant))
        return self.emit(
            Reshape,
            x=value,
            shape=shape,
            name=f"{value.name}_shaped",
            dtype=value.dtype,
            quant=value.type.quant,
        )

    def constant(self, value: Value) -> Value:
        """Gives a constant a name of its own."""
        return dataclasses.replace(value, name=self.names.fresh(value.name))


def transposed(value: Value, permutation: Order) -> Value:
    """Gives a constant with its axes, data and channel scales moved."""
    quant = value.type.quant
    if isinstance(quant, PerChannel):
        quant = PerChannel(quant.scales, permutation.index(quant.axis))
    return constant(value.name, np.ascontiguousarray(value.constant.transpose(permutation)), quant)
