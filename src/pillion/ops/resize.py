# SPDX-License-Identifier: Apache-2.0
"""Images of another height and width. Positions are found at compile time, as LiteRT finds them, for both
arithmetics; the nearest pixel is then also PyTorch's."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from pillion.ir.along import Along, Course
from pillion.ir.numerics import Arithmetic, Int64Array
from pillion.ir.op import Op, Quantization, op, operand, result, want_rank, want_same_quant
from pillion.ir.rows import FIRST_ROW, ROWS, Span
from pillion.ir.types import Array, DType, Pair, Shape, TensorType, Value
from pillion.ops.samples import ZERO_POINTS, make, value

FRACTION_BITS = 10
"""Bits of a position between two pixels."""
ONE = 1 << FRACTION_BITS
MOST_ROWS = 1 << 20
"""Images of so many rows have positions beyond 32 bits, or nearly."""


class Resize(Op):
    """The shape rule of both kinds of resizing."""

    x: Value
    y: Value
    size: Pair
    align_corners: bool
    half_pixel: bool

    @property
    def is_idle(self) -> bool:
        return self.size == self.x.shape[1:3]

    def along(self, operand: Value, axis: int) -> Course:
        is_kept = axis in (0, 3) or self.size[axis - 1] == self.x.shape[axis]
        return Along(axis) if is_kept else "it stretches them"

    @property
    def row_unit(self) -> int:
        """The rows of the result for one row of the image, where there are more of them."""
        return max(self.size[0] // self.x.shape[ROWS], 1)

    @property
    def rows_apart(self) -> int:
        """How many rows of the image there are for one row of the result, where these are fewer."""
        return max(self.x.shape[ROWS] // self.size[0], 1)

    @property
    def why_no_rhythm(self) -> str:
        """Says why the rows of the result do not lie between those of the image in a rhythm; empty if they do."""
        before, after = self.x.shape[ROWS], self.size[0]
        if before * self.row_unit == after * self.rows_apart:
            return ""
        return f"{before} to {after} rows: how many lie between two rows of the image has no fixed rhythm"

    def numbered_rows(self, span: Span) -> dict[str, object]:
        """Gives the attributes of some rows, where what they are made of follows from their numbers."""
        heights = self.x.shape[ROWS], self.size[0]
        return {"size": (span.count, self.size[1]), FIRST_ROW: span.first, "heights": heights}

    def all_inside(self, axis: int, count: int) -> dict[str, object]:
        return (
            {"size": (count, self.size[1]) if axis == 1 else (self.size[0], count)} if axis in (1, 2) else {}
        )

    def infer(self) -> TensorType:
        return TensorType((self.x.shape[0], *self.size, self.x.shape[3]), self.x.dtype)

    def check(self) -> None:
        want_rank(self, self.x, 4)
        if min(*self.size, *self.x.shape[1:3]) < 1:
            raise self.refuse("height and width are positive", f"{self.x.shape[1:3]} to {self.size}")
        if self.align_corners and self.half_pixel:
            raise self.refuse("align_corners and half_pixel exclude each other", self.attributes)
        if self.x.dtype is DType.INT8:
            want_same_quant(self, self.x, self.y)

    @classmethod
    def examples(cls) -> Iterator[Op]:
        yield from _resize_examples(cls)


@op("resize_nearest", quantization=Quantization.SHARED)
class ResizeNearest(Resize):
    """The nearest pixel. The first pixels lie on each other; or, with `align_corners`, the first and the
    last; or, with `half_pixel`, the outer edges."""

    x: Value = operand()
    y: Value = result()
    size: Pair = (1, 1)
    align_corners: bool = False
    half_pixel: bool = False
    first_row: int = dataclasses.field(default=0, metadata={"role": "rows"})
    """The number of the first row that is made, where only some are and they count."""
    heights: Pair | None = dataclasses.field(default=None, metadata={"role": "rows"})
    """Where only some rows are made and they count: the rows of the whole image and of the whole result. The operand then begins with
    the first row that is read."""

    @property
    def counts_rows(self) -> bool:
        return self.align_corners and self.size[0] != self.x.shape[ROWS]

    def sources(self, axis: int) -> Int64Array:
        """Gives for each row (axis 0) or column (axis 1) of the result that of the image."""
        if axis == 1 or self.heights is None:
            return self.whole_sources(axis)
        rows = self.whole_sources(0)[self.first_row : self.first_row + self.size[0]]
        return rows - rows[0]

    def whole_sources(self, axis: int) -> Int64Array:
        """Gives `sources` of the whole result, with positions in float32."""
        sides = self.x.shape[1 + axis], self.size[axis]
        before, after = self.heights if axis == 0 and self.heights else sides
        apart = self.align_corners and after > 1
        scale = (
            np.float32(before - 1) / np.float32(after - 1)
            if apart
            else np.float32(before) / np.float32(after)
        )
        offset = np.float32(0.5 if self.half_pixel else 0)
        position = (np.arange(after, dtype=np.float32) + offset) * np.float32(scale)
        nearest = np.floor(position + np.float32(0.5)) if self.align_corners else np.floor(position)
        return np.asarray(np.clip(nearest.astype(np.int64), 0, before - 1), np.int64)

    def along(self, operand: Value, axis: int) -> Course:
        if axis in (0, 3):
            return Along(axis)
        before, after, sources = self.x.shape[axis], self.size[axis - 1], self.sources(axis - 1)
        unit, stride = max(after // before, 1), max(before // after, 1)
        if not np.array_equal(sources, np.arange(after) * stride // unit + sources[0]):
            return f"it stretches {before} to {after}: they repeat in no fixed rhythm"
        return Along(axis, extent=stride, stride=stride, unit=unit)

    @property
    def crosses_rows(self) -> str:
        if self.counts_rows:
            return self.why_no_rhythm
        before, after = self.x.shape[ROWS], self.size[0]
        sources = self.sources(0)
        regular = np.arange(after) * self.rows_apart // self.row_unit + sources[0]
        whole = before == after * self.rows_apart or after == before * self.row_unit
        if not whole or not np.array_equal(sources, regular):
            return f"{before} to {after} rows: not every row is repeated or left out equally often"
        return ""

    def rows_of(self, operand: Value, span: Span) -> Span | None:
        if self.counts_rows:
            rows = self.sources(0)[span.first : span.end]
            return Span(int(rows[0]), int(rows[-1] + 1 - rows[0]))
        return Span(
            span.first * self.rows_apart // self.row_unit,
            max(span.count * self.rows_apart // self.row_unit, 1),
        )

    def on_rows(self, span: Span) -> dict[str, object]:
        return self.numbered_rows(span) if self.counts_rows else {"size": (span.count, self.size[1])}

    def reference(self, arithmetic: Arithmetic, *operands: Array) -> Array:
        return np.ascontiguousarray(operands[0][:, self.sources(0)][:, :, self.sources(1)])


@op("resize_bilinear", quantization=Quantization.SHARED)
class ResizeBilinear(Resize):
    """A mixture of the four pixels around, in 10 bits for each axis, rounded half away from zero. PyTorch's
    `align_corners=False` is `half_pixel`."""

    x: Value = operand()
    y: Value = result()
    size: Pair = (1, 1)
    align_corners: bool = False
    half_pixel: bool = False
    first_row: int = dataclasses.field(default=0, metadata={"role": "rows"})
    """The number of the first row that is made, where only some are."""
    heights: Pair | None = dataclasses.field(default=None, metadata={"role": "rows"})
    """Where only some rows are made: the rows of the whole image and of the whole result. The operand then begins with the first row
    that is read."""
    counts_rows = True

    @property
    def crosses_rows(self) -> str:
        before = self.x.shape[ROWS]
        if not self.why_no_rhythm and before >= MOST_ROWS:
            return f"{before} rows have positions beyond 32 bits"
        return self.why_no_rhythm

    def rows_of(self, operand: Value, span: Span) -> Span | None:
        sources = self.sources_of(range(span.first, span.end), 0)
        first, last = int(sources[:, :2].min()), int(sources[:, :2].max())
        return Span(first, last + 1 - first)

    def on_rows(self, span: Span) -> dict[str, object]:
        return self.numbered_rows(span)

    def sources(self, axis: int) -> NDArray[np.int64]:
        """Gives [size, 3]: for each row or column of the result, two of the image, and how many of 1024 parts come from the second
        one."""
        return self.sources_of(range(self.size[axis]), axis)

    def sources_of(self, pixels: Sequence[int], axis: int) -> NDArray[np.int64]:
        """Gives `sources` of some rows or columns only. The last one lies furthest in the image."""
        if axis == 1 or self.heights is None:
            return self._places(np.asarray(pixels, np.int64), axis)
        places = self._places(np.asarray([0, *pixels], np.int64) + self.first_row, axis)
        return places[1:] - [places[0, 0], places[0, 0], 0]

    def _places(self, pixels: Int64Array, axis: int) -> Int64Array:
        """`sources` of some rows or columns of the whole result."""
        before, _ = self._sides(axis)
        step, start = self.rhythm(axis)
        position = pixels * step + start
        first = np.maximum(position // ONE, 0)
        second = np.minimum(-(-position // ONE), before - 1)
        return np.stack([first, second, position - ONE * first], axis=1)

    def _sides(self, axis: int) -> Pair:
        """The rows or columns of the whole image, and those of the whole result."""
        is_part = axis == 0 and self.heights is not None
        return self.heights if is_part and self.heights else (self.x.shape[1 + axis], self.size[axis])

    def rhythm(self, axis: int) -> tuple[int, int]:
        """Gives how far it is from pixel to pixel and where the first one of all lies, in 1024 parts of a pixel of the image."""
        before, after = self._sides(axis)
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
        return np.asarray(np.sign(sums) * ((np.abs(sums) + half) >> (2 * FRACTION_BITS)), np.int8)

    @property
    def macs(self) -> int:
        return 4 * self.y.type.elements


LEAST = -128
"""The int8 number that stands for 0 of uint8."""


@op("resize_bilinear_float", quantization=Quantization.SHARED)
class ResizeBilinearFloat(Resize):
    """A mixture of the four pixels around in float32, counted from 0 and rounded half up: that of LiteRT's kernel for uint8."""

    x: Value = operand()
    y: Value = result()
    size: Pair = (1, 1)
    align_corners: bool = False
    half_pixel: bool = False
    first_row: int = dataclasses.field(default=0, metadata={"role": "rows"})
    """The number of the first row that is made, where only some are."""
    heights: Pair | None = dataclasses.field(default=None, metadata={"role": "rows"})
    """Where only some rows are made: the rows of the whole image and of the whole result. The operand then begins with the first row
    that is read."""
    counts_rows = True

    @property
    def crosses_rows(self) -> str:
        return self.why_no_rhythm

    def rows_of(self, operand: Value, span: Span) -> Span | None:
        rows, _ = self.whole_places(0)
        return Span(int(rows[span.first, 0]), int(rows[span.end - 1, 1] + 1 - rows[span.first, 0]))

    def on_rows(self, span: Span) -> dict[str, object]:
        return self.numbered_rows(span)

    def places(self, axis: int) -> tuple[Int64Array, NDArray[np.float32]]:
        """Gives [size, 2], for each row or column of the result two of the image, and [size], the share of the second one. With
        `half_pixel` that is negative before the first pixel, which is then both."""
        places, shares = self.whole_places(axis)
        if axis == 1 or self.heights is None:
            return places, shares
        here = slice(self.first_row, self.first_row + self.size[0])
        return places[here] - places[self.first_row, 0], shares[here]

    def whole_places(self, axis: int) -> tuple[Int64Array, NDArray[np.float32]]:
        """Gives `places` of the whole result."""
        sides = self.x.shape[1 + axis], self.size[axis]
        before, after = self.heights if axis == 0 and self.heights else sides
        apart = self.align_corners and after > 1
        scale = np.float32(before - apart) / np.float32(after - apart)
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


def _resize_examples(cls: type[Op]) -> Iterator[Op]:
    for number, (shape, size) in enumerate(RESIZES):
        for align_corners, half_pixel in ((False, False), (True, False), (False, True)):
            x = value("x", shape, 0.1, ZERO_POINTS[number % 4])
            yield make(
                cls,
                value("y", (), 0.1, x.zero_point),
                x=x,
                size=size,
                align_corners=align_corners,
                half_pixel=half_pixel,
            )
