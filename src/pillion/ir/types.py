# SPDX-License-Identifier: Apache-2.0
"""Types and values of tensors: shape, element type, quantization, and constant data."""

from __future__ import annotations

import dataclasses
import math
import re
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.generic]
Shape = tuple[int, ...]
Pair = tuple[int, int]
"""Height and width."""
Sides = tuple[int, int, int, int]
"""Top, left, bottom, right."""


class DType(Enum):
    """Element types; the value is the name in the text form."""

    INT4 = "int4"
    INT8 = "int8"
    UINT8 = "uint8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    """Biases of 16-bit layers beyond 32 bits, no other tensors."""
    FLOAT32 = "float32"
    BOOL = "bool"

    @property
    def numpy(self) -> np.dtype[np.generic]:
        """The corresponding element type of numpy; numbers of 4 bits are held in bytes."""
        return np.dtype("int8" if self is DType.INT4 else self.value)

    @property
    def size_bytes(self) -> int:
        """The bytes of one element in memory."""
        return self.numpy.itemsize

    @property
    def bits(self) -> int:
        """The bits of one element in files and in flash."""
        return 4 if self is DType.INT4 else 8 * self.size_bytes

    @property
    def bounds(self) -> Pair:
        """The smallest and the largest value of an integer type; 0 and 1 for booleans."""
        if self in (DType.BOOL, DType.INT4):
            return (0, 1) if self is DType.BOOL else (-8, 7)
        info = np.iinfo(self.value)
        return int(info.min), int(info.max)


BYTES = (DType.INT8, DType.UINT8)
"""The 8-bit types of quantized tensors."""

LEAST_SCALE = 2.0**-149
"""The smallest float32 number; smaller products of scales are replaced by it. Nothing is computed with them."""


@dataclass(frozen=True)
class PerTensor:
    """One scale for all elements: real = scale * (quantized - zero_point). The scale is representable in float32."""

    scale: float
    zero_point: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "scale", _as_float32_scale(self.scale))


@dataclass(frozen=True)
class PerChannel:
    """One scale per index along `axis`: real = scales[channel] * quantized, symmetric."""

    scales: tuple[float, ...]
    axis: int

    def __post_init__(self) -> None:
        if not self.scales:
            raise ValueError("there are no quantization scales")
        object.__setattr__(self, "scales", tuple(map(_as_float32_scale, self.scales)))


@dataclass(frozen=True)
class UnknownScale:
    """An unknown scale, in programs that store multipliers instead: real = scale * (quantized - zero_point). Two
    such tensors may have different scales."""

    zero_point: int = 0


def _as_float32_scale(number: float) -> float:
    """Rounds a scale to float32; raises if it becomes zero or infinite."""
    with np.errstate(over="ignore", under="ignore"):
        scale = float(np.float32(number))
    if not (scale > 0 and math.isfinite(scale)):
        raise ValueError(f"a quantization scale must be positive and finite in 32 bits, got {number!r}")
    return scale


Quant = PerTensor | PerChannel | UnknownScale


@dataclass(frozen=True)
class TensorType:
    """The type of a tensor: shape, element type and quantization."""

    shape: Shape
    dtype: DType
    quant: Quant | None = None

    def __post_init__(self) -> None:
        if any(d < 0 for d in self.shape):
            raise ValueError(f"a shape has no negative sizes, got {self.shape}")
        match self.quant:
            case PerChannel(scales, axis) if not (0 <= axis < self.rank and len(scales) == self.shape[axis]):
                raise ValueError(f"{len(scales)} scales on axis {axis} do not fit shape {self.shape}")
            case PerTensor(zero_point=zero_point) | UnknownScale(zero_point) if not (
                self.dtype.bounds[0] <= zero_point <= self.dtype.bounds[1]
            ):
                raise ValueError(f"zero point {zero_point} is outside {self.dtype.value}")

    @property
    def rank(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def elements(self) -> int:
        """The number of elements."""
        return math.prod(self.shape)

    @property
    def size_bytes(self) -> int:
        """The bytes of the tensor in files and in flash."""
        return -(-self.elements * self.dtype.bits // 8)


@dataclass(frozen=True, eq=False)
class Value:
    """A named tensor: computed by an op, an input, or constant. Two values are equal if they are the same object."""

    name: str
    type: TensorType
    data: Array | None = None

    def __post_init__(self) -> None:
        if self.data is None:
            return
        if self.data.shape != self.shape or self.data.dtype != self.dtype.numpy:
            raise ValueError(f"{self.name}: data {self.data.dtype}{self.data.shape} is not {self.type}")
        if (
            self.dtype is DType.INT4
            and self.data.size
            and np.abs(self.data.astype(np.int16) * 2 + 1).max() > 15
        ):
            raise ValueError(f"{self.name}: data is outside {self.dtype.bounds}")

    def __repr__(self) -> str:
        return f"{self.name}: {self.dtype.value}{list(self.shape)}"

    def like(self, name: str, **changes: Any) -> Value:
        """Returns a computed value of another name whose type differs in some fields: shape, dtype, quant."""
        return Value(name, dataclasses.replace(self.type, **changes))

    @property
    def shape(self) -> Shape:
        """The sizes of the axes."""
        return self.type.shape

    @property
    def dtype(self) -> DType:
        """The element type."""
        return self.type.dtype

    @property
    def is_constant(self) -> bool:
        """Whether the data is known at compile time."""
        return self.data is not None

    @property
    def constant(self) -> Array:
        """The data of a constant."""
        if self.data is None:
            raise ValueError(f"{self.name} is not a constant")
        return self.data

    @property
    def quant(self) -> PerTensor:
        """Scale and zero point of a tensor that is quantized per tensor; raises for other tensors."""
        if isinstance(self.type.quant, UnknownScale):
            raise ValueError(f"the scale of {self.name} is not known")
        if not isinstance(self.type.quant, PerTensor):
            raise ValueError(f"{self.name} is not quantized per tensor")
        return self.type.quant

    @property
    def scale(self) -> float:
        """The scale of a tensor that is quantized per tensor."""
        return self.quant.scale

    @property
    def zero_point(self) -> int:
        """The integer that represents 0 in a tensor that is quantized per tensor."""
        quant = self.type.quant
        return quant.zero_point if isinstance(quant, UnknownScale) else self.quant.zero_point

    @property
    def reach(self) -> int:
        """The largest distance of the tensor's integers from its zero point."""
        return max(abs(bound - self.zero_point) for bound in self.dtype.bounds)

    @property
    def is_quantized(self) -> bool:
        """Whether the integers represent real numbers."""
        return self.type.quant is not None

    @property
    def channel_scales(self) -> NDArray[np.float64]:
        """One scale per channel, or the tensor's one scale, as an array."""
        match self.type.quant:
            case PerChannel(scales):
                return np.array(scales)
            case PerTensor(scale):
                return np.array([scale])
            case UnknownScale():
                raise ValueError(f"the scale of {self.name} is not known")
            case _:
                raise ValueError(f"{self.name} is not quantized")


def integer_name(name: str, dtype: DType) -> str:
    """Returns the name of a float tensor's integer form: `conv_i8`, `conv_i16`."""
    return f"{name}_i{8 * dtype.size_bytes}"


def real_name(name: str) -> str:
    """Returns the name of the float tensor from the name of its integer form; other names are returned unchanged."""
    return _INTEGER_FORM.sub("", name)


_INTEGER_FORM = re.compile(r"_i(8|16)$")


def constant_value(name: str, data: Array, quant: Quant | None = None, dtype: DType | None = None) -> Value:
    """Makes a constant value; its type follows from the data, except for numbers of 4 bits."""
    data = np.asarray(data, order="C")  # ascontiguousarray would give scalars an axis
    return Value(name, TensorType(data.shape, dtype or DType(data.dtype.name), quant), data)
