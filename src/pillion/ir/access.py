# SPDX-License-Identifier: Apache-2.0
"""Access maps: which elements of an operand an op reads for which elements of its result, axis by axis.

Each op declares one map per operand (`Op.access`). Stripes (tiles of rows), streams and their memory plans
derive from it."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from pillion.ir.types import Pair, Sides, Value

ROWS = 1
"""The axis of the rows that stripes tile: the lines of an image, the frames of a signal. Axis 0 is the batch."""
FIRST_ROW = "first_row"
"""The attribute that holds the number of the first row to compute, in ops whose rows depend on their number
(`Op.counts_rows`)."""


@dataclass(slots=True, unsafe_hash=True)
class Span:
    """A span of `count` consecutive rows from `first` on. Instances never change; a frozen class would take three
    times as long to create, and the search for stripes creates hundreds of thousands."""

    first: int
    count: int

    @property
    def end(self) -> int:
        """The row behind the last one."""
        return self.first + self.count


@dataclass(frozen=True)
class ReductionRowGroup:
    """One of several groups of operand rows that a reduction consumes one after another: the number of all rows,
    and whether this group is the first or the last."""

    of: int
    is_first: bool
    is_last: bool


@dataclass(frozen=True)
class AxisMap:
    """The relation between an axis of an operand and an axis of the result: element `i` of the result reads the
    elements `(i * stride + low) // unit` to `(i * stride + high) // unit` of the operand. A stride of 0 is a
    broadcast."""

    axis: int
    """The axis of the result."""
    low: int = 0
    high: int = 0
    stride: int = 1
    unit: int = 1
    padding_level: float | None = 0
    """The level that padding elements have; None if no level has their effect."""
    least: int = 1
    """The fewest elements that a tile reads; 0 if a tile may read padding alone."""
    not_tiled: str = ""
    """Why an op cannot compute some rows of its result alone; empty if it can."""
    not_streamed: str = ""
    """Why an op cannot compute rows of an endless signal one after another; empty if it can."""

    def _operand_range(self, span: Span) -> Pair:
        """Returns the operand's first element for a span of the result, and the one behind the last."""
        first = (span.first * self.stride + self.low) // self.unit
        return first, ((span.first + span.count - 1) * self.stride + self.high) // self.unit + 1

    def reach(self, span: Span) -> Span:
        """Returns the operand's elements for a span of the result, padding included: the first may be negative."""
        first, end = self._operand_range(span)
        return Span(first, end - first)

    def clipped_reach(self, span: Span, size: int) -> Span:
        """Returns the part of `reach` inside an operand of `size` elements, at least `least` elements."""
        first, end = self._operand_range(span)
        first = min(max(first, 0), size - self.least)
        return Span(first, max(min(end, size) - first, self.least))

    def padding_counts(self, span: Span, size: int) -> Pair:
        """Counts the elements of `reach` before and behind an operand of `size` elements."""
        first, end = self._operand_range(span)
        return min(max(-first, 0), end - first), min(max(end - size, 0), end - first)

    @property
    def shared(self) -> int:
        """The number of operand elements that two neighbouring elements of the result both read."""
        return max(self.high // self.unit + 1 - (self.stride + self.low) // self.unit, 0)

    @property
    def padding_before(self) -> int:
        """The number of padding elements that the first element of the result reads before the operand."""
        return max(-(self.low // self.unit), 0)

    def first_after(self, count: int) -> int:
        """Returns the first element of the result that reads neither the operand's first `count` elements nor
        padding before them."""
        return max(-((self.low - count * self.unit) // self.stride), 0)

    def is_same(self, size: int, results: int) -> bool:
        """Whether each element of the result reads the operand's element of the same number, or all read its only
        one."""
        return self.stride == 0 or (
            size == results and (self.low, self.high, self.stride, self.unit) == (0, 0, 1, 1)
        )


@dataclass(frozen=True, kw_only=True)
class ListedMap(AxisMap):
    """An axis map without a formula: the first and the last operand element for each element of the result."""

    firsts: Sequence[int]
    lasts: Sequence[int]

    def _operand_range(self, span: Span) -> Pair:
        """Returns an empty range for elements behind the result's last one, which planners may ask for."""
        rows = slice(span.first, span.end)
        firsts, behind = self.firsts[rows], self.lasts[-1] + 1
        return (firsts[0], self.lasts[rows][-1] + 1) if firsts else (behind, behind)


SAME_ROWS = AxisMap(ROWS)
"""The map of rows that are each made from the row of the same number."""

Access = tuple[AxisMap | str, ...]
"""The access map of an operand: for each of its axes the map to an axis of the result, or why the result depends
on the whole axis."""
WHOLE: Access = ()
"""The access map of weights and tables: every element of the result may read all of them."""


def elementwise_access(operand: Value, result: Value) -> Access:
    """Returns the access map of an op that keeps elements in place but reads all elements along some axes."""
    ahead = result.type.rank - operand.type.rank
    sizes = enumerate(operand.shape, ahead)
    return tuple(AxisMap(axis, stride=int(size != 1 or result.shape[axis] == 1)) for axis, size in sizes)


def identity_access(operand: Value, axes: Collection[int], why: str) -> Access:
    """Returns the access map of an op that keeps elements in place but reads all of them along some axes."""
    return tuple(why if axis in axes else AxisMap(axis) for axis in range(operand.type.rank))


def window_maps(
    x: Value,
    y: Value,
    kernel: Pair,
    stride: Pair,
    dilation: Pair,
    padding: Sides,
    padding_level: float | None,
) -> tuple[AxisMap, AxisMap]:
    """Returns the maps of padded windows over height and width of an NHWC image."""

    def of_side(side: int) -> AxisMap:
        axis, low = ROWS + side, -padding[side]
        high = low + dilation[side] * (kernel[side] - 1)
        is_blind = high < 0 or (y.shape[axis] - 1) * stride[side] + low >= x.shape[axis]
        why = "a window sees no row of the image" if is_blind else ""
        return AxisMap(axis, low, high, stride[side], padding_level=padding_level, not_tiled=why)

    return of_side(0), of_side(1)


def crop_tile_padding(padding: Sides, axis: int, missing: Pair) -> Sides:
    """Returns the padding of a windowed op for a tile: `missing` padding rows (axis 1) or columns (axis 2) remain."""
    top, left, bottom, right = padding
    if axis == ROWS:
        return missing[0], left, missing[1], right
    return (top, missing[0], bottom, missing[1]) if axis == ROWS + 1 else padding


def row_bytes(value: Value) -> int:
    """Returns the bytes of one row of one image."""
    images_and_rows = value.shape[0] * value.shape[ROWS]
    return value.type.size_bytes // max(images_and_rows, 1)


def row_map(access: Access, operand: Value, result: Value) -> AxisMap | str | None:
    """Returns the map from an operand's rows to the result's rows; None if all rows read the same elements of the
    operand; or why rows of the result cannot be computed a few at a time."""
    rank, rows = result.type.rank, None
    if max(rank, operand.type.rank) <= ROWS + 1:
        return f"a tensor of {rank} axes has no rows"
    if access == WHOLE:
        return None if operand.is_constant else f"each row is made from all of `{operand.name}`"
    if all(isinstance(axis_map, str) for axis_map in access):
        return str(access[0])
    ahead = max(rank - operand.type.rank, 0)
    for axis, axis_map in enumerate(access, ahead):
        size = operand.shape[axis - ahead]
        if isinstance(axis_map, str):
            if axis <= ROWS:
                return f"its {'rows' if axis else 'images'}: {axis_map}"
        elif axis != axis_map.axis and min(axis, axis_map.axis) <= ROWS:
            return f"it moves axes: {list(operand.shape)} becomes {list(result.shape)}"
        elif axis <= ROWS and axis_map.stride:
            why = _why_rows_do_not_follow(axis_map, operand, size, result)
            if why:
                return why
            rows = rows if axis != ROWS else SAME_ROWS if axis_map == SAME_ROWS else axis_map
    return rows if rank > ROWS + 1 else f"a tensor of {rank} axes has no rows"


def _why_rows_do_not_follow(axis_map: AxisMap, operand: Value, size: int, result: Value) -> str:
    """Explains why an operand's rows or images do not follow the result's; empty if they do."""
    if operand.type.rank < result.type.rank and size > 1:
        return f"an operand of {operand.type.rank} axes has rows of its own"
    if operand.is_constant and size > 1:
        return "a constant has other numbers for each row"
    if axis_map.axis == 0 and not axis_map.is_same(size, result.shape[0]):
        return f"it makes {result.shape[0]} images of {size}"
    return axis_map.not_tiled
