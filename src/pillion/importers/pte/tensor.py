# SPDX-License-Identifier: Apache-2.0
"""The tensors that calls read and write, and the information that calls give on them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from pillion.ir.types import Array, DType, PerTensor, Shape, UnknownScale

Table = NDArray[np.int8]


@dataclass(eq=False)
class SharedQuantParams:
    """The quantization parameters of tensors that share them. Calls with other parameters reinterpret the
    same bytes."""

    scale: float | None = None
    zero_point: int | None = None
    joined: SharedQuantParams | None = None

    @property
    def root(self) -> SharedQuantParams:
        """The representative of all joined labels."""
        label = self
        while label.joined is not None:
            label = label.joined
        return label

    def join(self, other: SharedQuantParams) -> None:
        """Joins two labels unless they are known to differ."""
        a, b = self.root, other.root
        if a is b or _scales_differ(a.scale, b.scale) or _scales_differ(a.zero_point, b.zero_point):
            return
        b.scale = a.scale if b.scale is None else b.scale
        b.zero_point = a.zero_point if b.zero_point is None else b.zero_point
        a.joined = b

    def add_known_params(self, zero_point: int, scale: float | None = None) -> None:
        """Adds a zero point and optionally a scale. Known parameters stay, and a scale belongs to its zero
        point."""
        root = self.root
        if not _scales_differ(root.zero_point, zero_point):
            root.zero_point = zero_point
            root.scale = scale if root.scale is None else root.scale


def _scales_differ(a: float | None, b: float | None) -> bool:
    return a is not None and b is not None and a != b


@dataclass(eq=False)
class ReadTensor:
    """A tensor of the program, with its elements in memory order."""

    name: str
    shape: Shape
    dtype: DType
    label: SharedQuantParams
    data: Array | None = None
    of: ReadTensor | None = None
    """The source of this tensor, an elementwise function of it."""
    table: Table | None = None
    """The function's values for -128, -127, … 127."""
    real_of: tuple[ReadTensor, PerTensor] | None = None
    """The integers behind a dequantized tensor."""

    @property
    def elements(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def nbytes(self) -> int:
        """The size of the tensor in bytes."""
        return self.elements * self.dtype.size_bytes

    @property
    def is_constant(self) -> bool:
        """Whether the file contains the data."""
        return self.data is not None

    @property
    def quant(self) -> PerTensor | UnknownScale:
        """The parameters from the calls: a zero point (0 if unknown) and, rarely, a scale."""
        known = self.label.root
        zero_point = known.zero_point or 0
        return UnknownScale(zero_point) if known.scale is None else PerTensor(known.scale, zero_point)


def constant_tensor(name: str, data: Array) -> ReadTensor:
    """Returns a tensor of constant data."""
    return ReadTensor(name, data.shape, DType(data.dtype.name), SharedQuantParams(), data)


@dataclass(frozen=True)
class Layout:
    """The logical sizes of a tensor argument, and its dim order."""

    sizes: Shape
    order: tuple[int, ...]

    @property
    def memory_shape(self) -> Shape:
        """The sizes in the order of the axes in memory."""
        return tuple(self.sizes[axis] for axis in self.order)

    @property
    def is_contiguous(self) -> bool:
        """Whether memory is in logical order, ignoring axes of size 1."""
        moved = [axis for axis in self.order if self.sizes[axis] != 1]
        return moved == sorted(moved)

    @property
    def is_image(self) -> bool:
        """Whether the channels are last. With one channel or one pixel, any order qualifies."""
        if len(self.sizes) != 4:
            return False
        return self.order == (0, 2, 3, 1) or self.sizes[1] == 1 or self.sizes[2:] == (1, 1)

    @property
    def image_shape(self) -> Shape:
        """The NHWC shape of an image."""
        n, c, h, w = self.sizes
        return (n, h, w, c)

    def has_same_memory_order(self, other: Layout) -> bool:
        """Whether both have the same shape and the same order in memory."""
        first, second = ([a for a in view.order if view.sizes[a] != 1] for view in (self, other))
        return self.sizes == other.sizes and first == second


@dataclass(frozen=True)
class TensorView(Layout):
    """A tensor argument: a tensor and its layout."""

    tensor: ReadTensor
