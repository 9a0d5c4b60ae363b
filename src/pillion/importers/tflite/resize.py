# SPDX-License-Identifier: Apache-2.0
"""The reading of operators that give images another size."""

from __future__ import annotations

from typing import Any

from pillion.importers.tflite.model import Reading, ReadOperator
from pillion.importers.tflite.operands import int8_only, with_axes
from pillion.ir.op import Op

LARGEST_IMAGE = 2**15
"""The largest side of a resize, whose positions are in 32 bits, 10 of them below the pixel."""


def resize(cls: Any, options: Any) -> Reading:
    """Makes the reading of a resize of one kind."""

    def row(call: ReadOperator) -> list[Op]:
        int8_only(call)
        y, where = with_axes(call, call.result, 4), call.options_as(options)
        size = (y.shape[1], y.shape[2])
        call.want_shape(1, size)
        if max(size) > LARGEST_IMAGE:
            raise call.refuse(f"an image has at most {LARGEST_IMAGE} rows and columns", size)
        align_corners, half_pixel = where.align_corners, where.half_pixel_centers
        fields = {"size": size, "align_corners": align_corners, "half_pixel": half_pixel}
        return [cls(x=call.operand(0), y=y, source=call.source, **fields)]

    return row
