# SPDX-License-Identifier: Apache-2.0
"""The typed operations of a command stream."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum

from pillion.ir.types import DType, Sides


class TensorLayout(IntEnum):
    """The memory layout of a feature map: NHWC, or bricks of 16 channels for each row."""

    NHWC = 0
    BRICKS = 1


class Rounding(IntEnum):
    """The rounding of a product with a scale: double rounding as in gemmlowp, toward zero, or half up."""

    DOUBLE = 0
    TRUNCATE = 1
    NATURAL = 2


class ScaleMode(IntEnum):
    """The operand of a sum that is scaled in 32 bits."""

    BOTH = 0
    FIRST = 1
    SECOND = 2


class Upscale(IntEnum):
    """The fill between the pixels of an input that is read at twice its size."""

    NONE = 0
    NEAREST = 1
    ZEROS = 2


class PoolKind(IntEnum):
    """The reduction of a pool: over its window or, for a sum, over channels."""

    MAX = 0
    AVERAGE = 1
    SUM = 2


class ElementwiseFunction(IntEnum):
    """The function of an elementwise operation."""

    MUL = 0
    ADD = 1
    SUB = 2
    MIN = 3
    MAX = 4
    LEAKY = 5
    ABS = 6
    CLZ = 7
    SHR = 8
    SHL = 9


@dataclass(frozen=True)
class FeatureMap:
    """A tensor of height, width and depth in a region, in up to four tiles."""

    region: int
    bases: tuple[int, int, int, int]
    tile: tuple[int, int, int]
    """Rows of the upper left tile, rows of the upper right tile, columns of both left tiles."""
    strides: tuple[int, int, int]
    """Bytes between rows, between columns, between bricks of channels."""
    layout: TensorLayout
    dtype: DType
    zero_point: int
    shape: tuple[int, int, int]
    """Rows, columns, channels."""


@dataclass(frozen=True)
class BlockSize:
    """The block in which results are computed. Its depth determines the order of the weights."""

    height: int
    width: int
    depth: int


@dataclass(frozen=True)
class KernelWindow:
    """The window of a convolution or pool: its taps, stride, dilation and padding."""

    height: int
    width: int
    stride: tuple[int, int]
    dilation: tuple[int, int]
    pads: Sides
    part_first: bool
    """Whether weights are ordered by parts of the kernel before channels."""

    def slice_channels(self, element_bytes: int) -> int:
        """Returns the input channels that the NPU reads at once while it sums over all of them: the depth of
        Vela's input block."""
        return 16 if self.part_first or element_bytes == 2 else 32


@dataclass(frozen=True)
class Scale:
    """The factor `number / 2^shift`."""

    number: int
    shift: int


@dataclass(frozen=True)
class NpuActivation:
    """The last step of an operation: a clamp to bounds, or a lookup table in the internal memory."""

    low: int
    high: int
    table: int | None = None


@dataclass(frozen=True)
class Range:
    """Consecutive bytes of a region."""

    region: int
    start: int
    length: int

    @property
    def end(self) -> int:
        """The offset after the last byte."""
        return self.start + self.length

    def overlaps(self, other: Range) -> bool:
        """Whether two ranges have a byte in common."""
        return self.region == other.region and self.start < other.end and other.start < self.end


INTERNAL = -1
"""The internal memory as the destination of a copy; it receives only tables."""


@dataclass(frozen=True)
class Operation:
    """One step of a stream; `at` is the word of its command."""

    at: int


@dataclass(frozen=True)
class DmaCopy(Operation):
    """A copy from one region to another, or to the internal memory, concurrent with operations."""

    source: Range
    destination: Range


@dataclass(frozen=True)
class Wait(Operation):
    """A wait until at most `most` earlier copies, or operations on tensors, are in progress."""

    copies: bool
    most: int


@dataclass(frozen=True)
class Stop(Operation):
    """The end of a stream."""


@dataclass(frozen=True)
class TensorOperation(Operation):
    """An operation on tensors: its operand, its result, and the requantization of the result."""

    x: FeatureMap
    y: FeatureMap
    scale: Scale | None
    """The scale of all results; None if each channel has its own."""
    rounding: Rounding
    activation: NpuActivation
    block: BlockSize
    overlap: int
    """The jobs of the previous operation that may be in progress at the start."""


class ConvolutionKind(Enum):
    """Whether each result channel depends on all input channels, or on its own."""

    CONVOLUTION = "conv"
    DEPTHWISE = "depthwise"


@dataclass(frozen=True)
class Convolve(TensorOperation):
    """A convolution with compressed weights in a region."""

    product: ConvolutionKind
    kernel: KernelWindow
    upscale: Upscale
    weights: Range
    scales: Range
    """The bias, scale and shift of each channel, in 10 bytes."""


@dataclass(frozen=True)
class PoolOperation(TensorOperation):
    """The maximum, mean or sum of windows."""

    kind: PoolKind
    kernel: KernelWindow
    upscale: Upscale


@dataclass(frozen=True)
class Elementwise(TensorOperation):
    """An operation on one or two operands of the result's shape; the second may be a number or broadcast
    along axes."""

    kind: ElementwiseFunction
    second: FeatureMap | int | None
    second_zero_point: int
    reversed: bool
    """Whether the second operand is the left one."""
    mode: ScaleMode
    first_scale: Scale
    second_scale: int
