# SPDX-License-Identifier: Apache-2.0
"""What a command stream does, as typed operations: the registers are read, and their meaning is checked."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum, IntEnum

from pillion.ir.types import DType, Sides


class Layout(IntEnum):
    """How a feature map lies in memory: by pixels, or in bricks of 16 channels for each row."""

    NHWC = 0
    BRICKS = 1


class Rounding(IntEnum):
    """How a product with a scale is rounded: twice as gemmlowp does, toward zero, or half up."""

    DOUBLE = 0
    TRUNCATE = 1
    NATURAL = 2


class ScaleMode(IntEnum):
    """Which of the two operands of a sum is scaled in 32 bits."""

    BOTH = 0
    FIRST = 1
    SECOND = 2


class Upscale(IntEnum):
    """What stands between the pixels of an input that is read at twice its size."""

    NONE = 0
    NEAREST = 1
    ZEROS = 2


class PoolKind(IntEnum):
    """What a pool makes of its window, or, for a sum, of a pixel's channels."""

    MAX = 0
    AVERAGE = 1
    SUM = 2


class Pointwise(IntEnum):
    """What an elementwise operation computes."""

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
    """Rows of the left upper tile, rows of the right upper tile, columns of both left tiles."""
    strides: tuple[int, int, int]
    """Bytes between rows, between columns, between bricks of channels."""
    layout: Layout
    dtype: DType
    zero_point: int
    shape: tuple[int, int, int]
    """Rows, columns, channels."""


@dataclass(frozen=True)
class Block:
    """The portions in which results are made. Only the depth is seen from outside: weights are stored in this order."""

    height: int
    width: int
    depth: int


@dataclass(frozen=True)
class Kernel:
    """The window of a convolution or pool: its taps, the distance between windows and between taps, and the border."""

    height: int
    width: int
    stride: tuple[int, int]
    dilation: tuple[int, int]
    pads: Sides
    part_first: bool
    """Whether weights are stored by parts of the kernel before channels."""


@dataclass(frozen=True)
class Scale:
    """A factor `number / 2^shift`."""

    number: int
    shift: int


@dataclass(frozen=True)
class Activation:
    """What happens to a result at the end: clamped to bounds, or looked up in a table in the internal memory."""

    low: int
    high: int
    table: int | None = None


@dataclass(frozen=True)
class Range:
    """Bytes of a region."""

    region: int
    start: int
    length: int

    @property
    def end(self) -> int:
        """The byte behind the last."""
        return self.start + self.length


INTERNAL = -1
"""The internal memory, as the region of a copy's destination: only tables are put there."""


@dataclass(frozen=True)
class Operation:
    """One step of a stream; `at` is the word of its command."""

    at: int


@dataclass(frozen=True)
class Copy(Operation):
    """Bytes moved from one region to another, or to the internal memory, while operations run."""

    source: Range
    destination: Range


@dataclass(frozen=True)
class Wait(Operation):
    """A halt until no more than `most` earlier copies, or operations on tensors, are under way."""

    copies: bool
    most: int


@dataclass(frozen=True)
class Stop(Operation):
    """The end of a stream."""


@dataclass(frozen=True)
class Compute(Operation):
    """An operation on tensors: what it reads, what it writes, and how results become integers of the wanted width."""

    x: FeatureMap
    y: FeatureMap
    scale: Scale | None
    """The scale of all results; None where each channel has its own."""
    rounding: Rounding
    activation: Activation
    block: Block
    overlap: int
    """How many jobs of the operation before may be under way when it starts."""


class Product(Enum):
    """Whether each result channel is made from all input channels, or from its own."""

    CONVOLUTION = "conv"
    DEPTHWISE = "depthwise"


@dataclass(frozen=True)
class Convolve(Compute):
    """Sums of products with weights, which lie in a region in compressed form."""

    product: Product
    kernel: Kernel
    upscale: Upscale
    weights: Range
    scales: Range
    """A bias, a scale and a shift of each channel, in 10 bytes."""


@dataclass(frozen=True)
class Pool(Compute):
    """The largest, the mean or the sum of windows."""

    kind: PoolKind
    kernel: Kernel
    upscale: Upscale


@dataclass(frozen=True)
class Elementwise(Compute):
    """One or two operands of the result's shape; the second may be a number, or be repeated along axes."""

    kind: Pointwise
    second: FeatureMap | int | None
    second_zero_point: int
    reversed: bool
    """Whether the second operand is the left one."""
    mode: ScaleMode
    first_scale: Scale
    second_scale: int
