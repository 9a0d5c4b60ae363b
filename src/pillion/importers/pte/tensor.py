# SPDX-License-Identifier: Apache-2.0
"""What calls read and write: tensors, of which each call says something."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pillion.ir.types import Array, DType, PerTensor, Shape, Unscaled

Table = NDArray[np.int8]


@dataclass(eq=False)
class Label:
    """What the calls say of tensors that share a scale and a zero point. Calls that say something else see the same bytes under
    other parameters."""

    scale: float | None = None
    zero_point: int | None = None
    joined: Label | None = None

    @property
    def root(self) -> Label:
        """The label that speaks for all that were joined."""
        found = self
        while found.joined is not None:
            found = found.joined
        return found

    def join(self, other: Label) -> None:
        """Makes two labels one, unless they are known to differ."""
        a, b = self.root, other.root
        if a is b or _differ(a.scale, b.scale) or _differ(a.zero_point, b.zero_point):
            return
        b.scale = a.scale if b.scale is None else b.scale
        b.zero_point = a.zero_point if b.zero_point is None else b.zero_point
        a.joined = b

    def learn(self, zero_point: int, scale: float | None = None) -> None:
        """Notes a zero point and perhaps a scale. What is known already stays, and a scale goes with its zero point."""
        root = self.root
        if not _differ(root.zero_point, zero_point):
            root.zero_point = zero_point
            root.scale = scale if root.scale is None else root.scale


def _differ(a: float | None, b: float | None) -> bool:
    return a is not None and b is not None and a != b


@dataclass(eq=False)
class Tensor:
    """A tensor of the program: elements in the order of memory."""

    name: str
    shape: Shape
    dtype: DType
    label: Label
    data: Array | None = None
    of: Tensor | None = None
    """The tensor of which this one is a function, element by element."""
    table: Table | None = None
    """That function: its values for -128, -127, … 127."""
    real_of: tuple[Tensor, PerTensor] | None = None
    """The integers that a float tensor stands for."""

    @property
    def elements(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The bytes of the tensor."""
        return self.elements * self.dtype.size_bytes

    @property
    def is_constant(self) -> bool:
        """Whether the file holds the data."""
        return self.data is not None

    @property
    def quant(self) -> PerTensor | Unscaled:
        """What the calls say of the tensor: a zero point (0 where no call says one) and, seldom, a scale."""
        known = self.label.root
        zero_point = known.zero_point or 0
        return Unscaled(zero_point) if known.scale is None else PerTensor(known.scale, zero_point)


def fixed(name: str, data: Array) -> Tensor:
    """Makes a tensor of constant data."""
    return Tensor(name, data.shape, DType(data.dtype.name), Label(), data)


@dataclass(frozen=True)
class View:
    """A tensor argument: a tensor under logical sizes, and the logical axis that each axis in memory holds."""

    tensor: Tensor
    sizes: Shape
    order: tuple[int, ...]

    @property
    def is_contiguous(self) -> bool:
        """Whether memory is in logical order, axes of size 1 aside."""
        moved = [axis for axis in self.order if self.sizes[axis] != 1]
        return moved == sorted(moved)

    @property
    def is_image(self) -> bool:
        """Whether the channels lie last. Where there is one channel or one pixel, any order is that."""
        if len(self.sizes) != 4:
            return False
        return self.order == (0, 2, 3, 1) or self.sizes[1] == 1 or self.sizes[2:] == (1, 1)

    def lies_as(self, other: View) -> bool:
        """Whether both have one shape, and their elements one order in memory."""
        first, second = ([a for a in view.order if view.sizes[a] != 1] for view in (self, other))
        return self.sizes == other.sizes and first == second

    @property
    def image_shape(self) -> Shape:
        """The shape of an image with its channels last."""
        n, c, h, w = self.sizes
        return (n, h, w, c)

    @property
    def memory_shape(self) -> Shape:
        """The sizes in the order of the axes in memory."""
        return tuple(self.sizes[axis] for axis in self.order)
