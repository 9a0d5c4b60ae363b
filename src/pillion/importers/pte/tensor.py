# SPDX-License-Identifier: Apache-2.0
"""What calls read and write: tensors whose scales are still to be found."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pillion.ir.types import Array, DType, PerTensor, Shape

Table = NDArray[np.int8]

_ANY_SCALE = 2.0**-5


@dataclass(eq=False)
class Label:
    """The scale and zero point of tensors that share them, as far as they are known. They guide the choice where an op leaves one;
    ops that need others see the same bytes under others."""

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

    def learn(self, scale: float | None = None, zero_point: int | None = None) -> None:
        """Notes a scale or zero point; what is known already stays."""
        root = self.root
        root.scale = scale if root.scale is None else root.scale
        root.zero_point = zero_point if root.zero_point is None else root.zero_point


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
    def quant(self) -> PerTensor:
        """The scale and zero point; those that are not known are chosen."""
        return PerTensor(self.scale or _ANY_SCALE, self.zero_point or 0)

    @property
    def scale(self) -> float | None:
        """The scale, as far as it is known."""
        return self.label.root.scale

    @property
    def zero_point(self) -> int | None:
        """The zero point, as far as it is known."""
        return self.label.root.zero_point


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
