# SPDX-License-Identifier: Apache-2.0
"""Resizing of images. Source positions are computed at compile time as LiteRT computes them, in both arithmetics;
the nearest pixel is then also PyTorch's."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from pillion.ir.access import FIRST_ROW, ROWS, Access, AxisMap, ListedMap, Span
from pillion.ir.numerics import Arithmetic, Int64Array
from pillion.ir.op import Op, Quantization, op, operand, require_rank, require_same_quant, result
from pillion.ir.types import Array, DType, Pair, Shape, TensorType, Value
from pillion.ops.example_values import ZERO_POINTS, in_16_bits, make_op, value

FRACTION_BITS = 10
"""Fraction bits of a source position."""
ONE = 1 << FRACTION_BITS
MOST_ROWS = 1 << 20
"""The maximum image height: positions stay below 2^31."""
MOST_UNIT = 16
"""The most rows of a result after which the rows of the image repeat their rhythm."""


class Resize(Op):
    """The base class of resizing."""

    x: Value = operand()
    y: Value = result()
    size: Pair = (1, 1)
    align_corners: bool = False
    half_pixel: bool = False
    first_row: int = dataclasses.field(default=0, metadata={"role": "rows"})
    """The number of the first row of a tile, if positions depend on it."""
    heights: Pair | None = dataclasses.field(default=None, metadata={"role": "rows"})
    """Of a tile whose positions depend on the row: the heights of the whole image and of the whole result. The
    operand begins with the first row that is read."""

    @property
    def is_identity(self) -> bool:
        return self.size == self.x.shape[1:3]

    def access(self, operand: Value) -> Access:
        sides = (
            AxisMap(axis) if self.size[axis - 1] == self.x.shape[axis] else self.stretched(axis)
            for axis in (1, 2)
        )
        return AxisMap(0), *sides, AxisMap(3)

    def stretched(self, axis: int) -> AxisMap | str:
        """Returns the access map of an axis whose size changes, or why its rows cannot be computed a few at a
        time."""
        raise NotImplementedError

    @property
    def row_unit(self) -> int:
        """The number of result rows after which source rows repeat their pattern: 4 for 5 rows that become 4."""
        return self.size[0] // math.gcd(self.size[0], self.x.shape[ROWS])

    @property
    def why_not_periodic(self) -> str:
        """Explains why source positions are not periodic; empty if they are."""
        before, after = self.x.shape[ROWS], self.size[0]
        if self.row_unit <= MOST_UNIT and (
            not self.align_corners or 1 in (self.row_unit, self.row_unit * before // after)
        ):
            return ""
        return f"{before} to {after} rows: how many lie between two rows of the image has no rhythm of up to {MOST_UNIT} rows"

    @property
    def counts_rows(self) -> bool:
        return self.size[0] != self.x.shape[ROWS]

    def whole_sizes(self, axis: int) -> Pair:
        """Returns the size of the whole image and of the whole result along an axis."""
        sides = self.x.shape[1 + axis], self.size[axis]
        return self.heights if axis == 0 and self.heights is not None else sides

    def whole_ratio(self, axis: int) -> tuple[np.float32, int]:
        """Returns the distance between source positions in float32, and the size of the image, along an axis."""
        before, after = self.whole_sizes(axis)
        apart = int(self.align_corners and after > 1)
        return np.float32(np.float32(before - apart) / np.float32(after - apart)), before

    def tile(self, axis: int, span: Span, missing: Pair) -> dict[str, object]:
        if axis == ROWS + 1:
            return {"size": (self.size[0], span.count)}
        if axis != ROWS:
            return {}
        attributes: dict[str, object] = {"size": (span.count, self.size[1])}
        heights = self.x.shape[ROWS], self.size[0]
        return attributes | {FIRST_ROW: span.first, "heights": heights} if self.counts_rows else attributes

    def infer(self) -> TensorType:
        return TensorType((self.x.shape[0], *self.size, self.x.shape[3]), self.x.dtype)

    def check(self) -> None:
        require_rank(self, self.x, 4)
        if min(*self.size, *self.x.shape[1:3]) < 1:
            raise self.refuse("height and width are positive", f"{self.x.shape[1:3]} to {self.size}")
        if self.align_corners and self.half_pixel:
            raise self.refuse("align_corners and half_pixel exclude each other", self.attributes)
        if self.x.dtype in (DType.INT8, DType.INT16):
            require_same_quant(self, self.x, self.y)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        for number, (shape, size) in enumerate(RESIZES):
            for align_corners, half_pixel in ((False, False), (True, False), (False, True)):
                x = value("x", shape, 0.1, ZERO_POINTS[number % 4])
                mode = {"align_corners": align_corners, "half_pixel": half_pixel}
                yield make_op(cls, x.like("y", shape=()), x=x, size=size, **mode)
                if cls.takes_int16:
                    x = in_16_bits(x)
                    yield make_op(cls, x.like("y", shape=()), x=x, size=size, **mode)


@op("resize_nearest", quantization=Quantization.SHARED)
class ResizeNearest(Resize):
    """Returns the nearest pixel. By default the centers of the first pixels coincide; with `align_corners` also the
    centers of the last; with `half_pixel` the outer edges."""

    takes_int16 = True

    @property
    def counts_rows(self) -> bool:
        return isinstance(self.row_maps[self.x], ListedMap)

    def stretched(self, axis: int) -> AxisMap | str:
        before, after, sources = self.x.shape[axis], self.size[axis - 1], self.whole_sources(axis - 1)
        unit, stride = max(after // before, 1), max(before // after, 1)
        if np.array_equal(sources, np.arange(after) * stride // unit + sources[0]):
            return AxisMap(axis, 0, stride - 1, stride, unit)
        why = f"it stretches {before} to {after}: they repeat in no fixed rhythm"
        if not self.align_corners:
            return why
        positions = sources.tolist()
        return ListedMap(
            axis, not_tiled=self.why_not_periodic, not_streamed=why, firsts=positions, lasts=positions
        )

    def sources(self, axis: int) -> Int64Array:
        """Returns the image row (axis 0) or column (axis 1) of each row or column of the result."""
        if axis == 1 or self.heights is None:
            return self.whole_sources(axis)
        rows = self.whole_sources(0)[self.first_row : self.first_row + self.size[0]]
        return rows - rows[0]

    def whole_sources(self, axis: int) -> Int64Array:
        """Returns `sources` of the whole result, with float32 positions."""
        (scale, before), after = self.whole_ratio(axis), self.whole_sizes(axis)[1]
        offset = np.float32(0.5 if self.half_pixel else 0)
        position = (np.arange(after, dtype=np.float32) + offset) * scale
        nearest = np.floor(position + np.float32(0.5)) if self.align_corners else np.floor(position)
        return np.asarray(np.clip(nearest.astype(np.int64), 0, before - 1), np.int64)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        return np.ascontiguousarray(operands[0][:, self.sources(0)][:, :, self.sources(1)])


@op("resize_bilinear", quantization=Quantization.SHARED)
class ResizeBilinear(Resize):
    """Interpolates between four pixels, with 10-bit weights along each axis, rounded half away from zero.
    PyTorch's `align_corners=False` is `half_pixel`."""

    takes_int16 = True

    def stretched(self, axis: int) -> AxisMap | str:
        step, start = self.source_step_and_start(axis - 1)
        is_far = self.x.shape[axis] >= MOST_ROWS
        why = self.why_not_periodic or (
            f"{self.x.shape[axis]} rows have positions beyond 32 bits" if is_far else ""
        )
        return AxisMap(
            axis, start, start + ONE - 1, step, ONE, not_tiled=why, not_streamed="it stretches them"
        )

    def sources(self, axis: int) -> NDArray[np.int64]:
        """Returns [size, 3]: for each row or column of the result two of the image, and the weight of the second
        one in 1024ths."""
        return self.sources_of(range(self.size[axis]), axis)

    def sources_of(self, pixels: Sequence[int], axis: int) -> NDArray[np.int64]:
        """Returns `sources` of some rows or columns. The last one lies furthest in the image."""
        if axis == 1 or self.heights is None:
            return self._compute_sources(np.asarray(pixels, np.int64), axis)
        positions = self._compute_sources(np.asarray([0, *pixels], np.int64) + self.first_row, axis)
        return positions[1:] - [positions[0, 0], positions[0, 0], 0]

    def _compute_sources(self, pixels: Int64Array, axis: int) -> Int64Array:
        """Returns `sources` of some rows or columns of the whole result."""
        before, _ = self.whole_sizes(axis)
        step, start = self.source_step_and_start(axis)
        position = pixels * step + start
        first = np.maximum(position // ONE, 0)
        second = np.minimum(-(-position // ONE), before - 1)
        return np.stack([first, second, position - ONE * first], axis=1)

    def source_step_and_start(self, axis: int) -> tuple[int, int]:
        """Returns the distance between source positions and the first position, in 1024ths of a pixel."""
        before, after = self.whole_sizes(axis)
        if self.align_corners and after > 1:
            return (((before - 1) << FRACTION_BITS) + (after - 1) // 2) // (after - 1), 0
        step = ((before << FRACTION_BITS) + after // 2) // after
        return step, step // 2 - ONE // 2 if self.half_pixel else 0

    def check(self) -> None:
        super().check()
        last = [self.sources_of([self.size[axis] - 1], axis)[0, 0] for axis in (0, 1)]
        if any(source >= side for source, side in zip(last, self.x.shape[1:3], strict=True)):
            raise self.refuse(
                "10 bits are enough to stay inside the image", f"{self.x.shape[1:3]} to {self.size}"
            )

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        x = operands[0].astype(np.int64)
        rows, columns = self.sources(0), self.sources(1)
        lower = rows[:, 2].reshape(-1, 1, 1)
        mixed = x[:, rows[:, 0]] * (ONE - lower) + x[:, rows[:, 1]] * lower
        right = columns[:, 2].reshape(-1, 1)
        sums = mixed[:, :, columns[:, 0]] * (ONE - right) + mixed[:, :, columns[:, 1]] * right
        half = ONE * ONE // 2
        rounded = np.sign(sums) * ((np.abs(sums) + half) >> (2 * FRACTION_BITS))
        return np.asarray(rounded, self.y.dtype.numpy)

    @property
    def macs(self) -> int:
        return 4 * self.y.type.elements


LEAST = -128
"""The int8 number that represents 0 of uint8."""


@op("resize_bilinear_float", quantization=Quantization.SHARED)
class ResizeBilinearFloat(Resize):
    """Interpolates between four pixels in float32, rounded half up: LiteRT's kernel for uint8."""

    def stretched(self, axis: int) -> AxisMap | str:
        firsts, lasts = self.whole_places(axis - 1)[0].T.tolist()
        why = self.why_not_periodic
        return ListedMap(axis, not_tiled=why, not_streamed="it stretches them", firsts=firsts, lasts=lasts)

    def places(self, axis: int) -> tuple[Int64Array, NDArray[np.float32]]:
        """Returns [size, 2], two image rows or columns for each of the result, and [size], the weight of the
        second one. With `half_pixel` the weight is negative before the first pixel, which is then both."""
        places, shares = self.whole_places(axis)
        if axis == 1 or self.heights is None:
            return places, shares
        here = slice(self.first_row, self.first_row + self.size[0])
        return places[here] - places[self.first_row, 0], shares[here]

    def whole_places(self, axis: int) -> tuple[Int64Array, NDArray[np.float32]]:
        """Returns `places` of the whole result."""
        (scale, before), after = self.whole_ratio(axis), self.whole_sizes(axis)[1]
        position = np.arange(after, dtype=np.float32)
        if self.half_pixel:
            position = (position + np.float32(0.5)) * scale - np.float32(0.5)
        else:
            position = position * scale
        first = np.maximum(np.floor(position), 0)
        second = np.minimum(np.ceil(position), before - 1)
        return np.stack([first, second], axis=1).astype(np.int64), (position - first).astype(np.float32)

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        x, one = operands[0].astype(np.float32) - np.float32(LEAST), np.float32(1)
        (rows, lower), (columns, right) = self.places(0), self.places(1)
        lower, right = lower.reshape(-1, 1, 1), right.reshape(-1, 1)
        upper, left = one - lower, one - right
        (top, bottom), (first, second) = rows.T, columns.T
        sums = x[:, top][:, :, first] * upper * left
        sums += x[:, bottom][:, :, first] * lower * left
        sums += x[:, top][:, :, second] * upper * right
        sums += x[:, bottom][:, :, second] * lower * right
        return np.asarray((sums + np.float32(0.5)).astype(np.int32) + LEAST, np.int8)

    @property
    def macs(self) -> int:
        return 4 * self.y.type.elements


RESIZES: tuple[tuple[Shape, tuple[int, int]], ...] = (
    ((1, 3, 5, 8), (6, 10)),
    ((2, 5, 3, 7), (13, 11)),
    ((1, 7, 2, 1), (7, 16)),
    ((1, 13, 11, 3), (5, 4)),
    ((1, 1, 1, 9), (3, 1)),
    ((1, 4, 31, 2), (1, 8)),
    ((2, 5, 3, 4), (20, 6)),
    ((1, 12, 2, 3), (6, 5)),
)
