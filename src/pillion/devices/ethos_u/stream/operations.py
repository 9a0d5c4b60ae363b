# SPDX-License-Identifier: Apache-2.0
"""The typed operations of a command stream."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum, IntEnum
from typing import TypeVar

from pillion.ir.numerics import Int64Array
from pillion.ir.types import DType, Sides

Place = TypeVar("Place", int, Int64Array)
Axes = tuple[int, int, int]
"""An order of rows (0), columns (1) and channels (2)."""


class TensorLayout(IntEnum):
    """The memory layout of a feature map: NHWC, or bricks of 16 channels for each row."""

    NHWC = 0
    BRICKS = 1


class Rounding(IntEnum):
    """The rounding of a product with a scale: double rounding as in gemmlowp, toward zero, half up, or half away from zero."""

    DOUBLE = 0
    TRUNCATE = 1
    NATURAL = 2
    SYMMETRIC = 3


class Upscale(IntEnum):
    """The fill between the pixels of an input that is read at twice its size."""

    NONE = 0
    NEAREST = 1
    ZEROS = 2


class PoolKind(IntEnum):
    """The reduction of a pool: over its window or, for a channel sum, over channels."""

    MAX = 0
    AVERAGE = 1
    CHANNEL_SUM = 2
    SUM = 3
    MIN = 5


class ResizeKind(IntEnum):
    """The interpolation of a resize."""

    BILINEAR = 0
    NEAREST = 2


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


UNARY = {ElementwiseFunction.ABS, ElementwiseFunction.CLZ, ElementwiseFunction.LEAKY}
SUMS = {ElementwiseFunction.ADD, ElementwiseFunction.SUB}
WITHOUT_SCALE = {
    ElementwiseFunction.MIN,
    ElementwiseFunction.MAX,
    ElementwiseFunction.CLZ,
    ElementwiseFunction.SHL,
    ElementwiseFunction.SHR,
}


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
    order: Axes = (0, 1, 2)
    """The axes of `shape` in memory: U85 transposes results as it writes them."""
    flipped: int | None = None
    """The axis of `shape` that is written in reverse."""

    @property
    def stored_shape(self) -> tuple[int, int, int]:
        """The shape in memory, to which tiles and strides refer."""
        rows, columns, channels = (self.shape[axis] for axis in self.order)
        return rows, columns, channels


@dataclass(frozen=True)
class BlockSize:
    """The block in which results are computed, which determines the order of the weights."""

    height: int
    width: int
    depth: int
    channels: int
    """The result channels computed at once; weights are stored in groups of this size."""
    slice: int = 32
    """The input channels that the NPU reads at once while it sums over all channels: the depth of Vela's input
    block."""
    spare_taps: int = 0
    """The taps that a U85 leaves out behind each group of taps of a depthwise kernel."""
    part_taps: int = 1
    """The taps of a U85's part of a kernel, if the inputs of a part come first."""
    together: int = 0
    """The inputs of a slice whose taps are adjacent then; 0: all."""


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


@dataclass(frozen=True)
class Scale:
    """The factor `number / 2^shift`; the double rounding of an operand first rounds `early` bits further down."""

    number: int
    shift: int
    early: int = 0


UNSCALED = Scale(1, 0)


@dataclass(frozen=True)
class NpuActivation:
    """The last step of an operation: a clamp to bounds, or a lookup table at a place of 256 bytes in the internal memory."""

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
CHAIN = -2
"""The first of the buffers, in descending order, in which U85 passes a result to the next operation without memory."""
NOWHERE = -100
"""The place of the result of an operation whose sums are hidden."""


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
class Sums:
    """How an operation of a U85 shares its sums with its neighbours."""

    continued: bool = False
    """Whether it adds to the sums of the previous operation."""
    hidden: bool = False
    """Whether the next operation continues its sums; it has no result."""


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
    sums: Sums = field(default_factory=Sums, kw_only=True)


class ConvolutionKind(Enum):
    """Whether each result channel depends on all input channels, or on its own."""

    CONVOLUTION = "conv"
    DEPTHWISE = "depthwise"


@dataclass(frozen=True)
class WeightForm:
    """The order and coding of weights: U55's and U65's, or U85's."""

    is_u85: bool = False
    sparse: bool = False
    """Whether of every four weights along the inputs at most two are not 0."""
    fast: bool = False
    """Whether weights are coded for U85's fast decoder, all streams in one."""


@dataclass(frozen=True)
class Convolve(TensorOperation):
    """A convolution with compressed weights in a region."""

    product: ConvolutionKind
    kernel: KernelWindow
    upscale: Upscale
    weights: tuple[Range, ...]
    """The streams of weights, between which groups of channels alternate."""
    scales: Range
    """The bias, scale and shift of each channel, in 10 bytes."""
    form: WeightForm = WeightForm()


@dataclass(frozen=True)
class MatrixProduct(TensorOperation):
    """The product of each pixel's channels with the rows of a second operand."""

    second: FeatureMap


@dataclass(frozen=True)
class PoolOperation(TensorOperation):
    """The maximum, mean or sum of windows."""

    kind: PoolKind
    kernel: KernelWindow
    upscale: Upscale
    divides: bool
    """Whether each sum is divided by the taps inside the operand."""


@dataclass(frozen=True)
class Elementwise(TensorOperation):
    """An operation on one or two operands of the result's shape; the second may be a number or broadcast
    along axes."""

    kind: ElementwiseFunction
    second: FeatureMap | int | None
    second_zero_point: int
    reversed: bool
    """Whether the second operand is the left one."""
    first_scale: Scale = UNSCALED
    second_scale: Scale = UNSCALED


@dataclass(frozen=True)
class Resize(TensorOperation):
    """A resize: result row `i` is at row `(i * steps[0] + offsets[0]) / parts[0]` of the operand, columns
    likewise."""

    kind: ResizeKind
    parts: tuple[int, int]
    steps: tuple[int, int]
    offsets: tuple[int, int]

    def position(self, axis: int, at: Place) -> Place:
        """Returns the positions of result rows (axis 0) or columns (axis 1) in parts of a pixel of the operand."""
        return at * self.steps[axis] + self.offsets[axis]
