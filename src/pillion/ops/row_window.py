# SPDX-License-Identifier: Apache-2.0
"""The rows that windows see: of convolutions and pools."""

from __future__ import annotations

from dataclasses import dataclass

from pillion.ir.along import Along
from pillion.ir.rows import Span
from pillion.ir.types import Pair, Sides


@dataclass(frozen=True)
class RowWindow:
    """A window of `kernel` rows, `dilation` apart, that moves by `stride` over an image of `size` rows with `top` rows above it."""

    kernel: int
    stride: int
    dilation: int
    top: int
    size: int

    def _reach(self, span: Span) -> tuple[int, int]:
        """The rows under the windows of some rows of the result, those outside the image among them."""
        first = span.first * self.stride - self.top
        return first, (span.end - 1) * self.stride - self.top + self.dilation * (self.kernel - 1) + 1

    def seen(self, span: Span) -> Span:
        """Gives the rows of the image that some rows of the result see."""
        first, end = self._reach(span)
        first, end = max(first, 0), min(end, self.size)
        return Span(first, max(end - first, 0))

    def padding_of(self, span: Span, padding: Sides) -> Sides:
        """Gives the padding of the op that makes some rows of the result."""
        first, end = self._reach(span)
        return max(-first, 0), padding[1], max(end - self.size, 0), padding[3]

    def crosses(self, results: int) -> str:
        """Says why rows cannot be made one by one: where a window lies outside the image, there is no row to make it from."""
        outside = [i for i in (0, results - 1) if not self.seen(Span(i, 1)).count]
        return "a window sees no row of the image" if outside else ""


def window_along(
    axis: int, kernel: Pair, stride: Pair, dilation: Pair, padding: Sides, outside: float | None
) -> Along:
    """Says how windows over an NHWC image go along its height (axis 1) or its width (axis 2)."""
    side = axis - 1
    return Along(axis, dilation[side] * (kernel[side] - 1) + 1, stride[side], 1, padding[side], outside)


def unpadded(axis: int, padding: Sides) -> Sides:
    """Gives a padding of which nothing is left along the height (axis 1) or the width (axis 2)."""
    top, left, bottom, right = padding
    return {1: (0, left, 0, right), 2: (top, 0, bottom, 0)}.get(axis, padding)
