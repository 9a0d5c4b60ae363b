# SPDX-License-Identifier: Apache-2.0
"""Reads resizes of images."""

from __future__ import annotations

from typing import Any

from pillion.importers.tflite.model import Reading, ReadOperator
from pillion.importers.tflite.operands import int8_only, with_axes
from pillion.ir.op import Op

LARGEST_IMAGE = 2**15
"""The largest side of a resize: positions have 32 bits, 10 of them fractional."""


def resize(cls: Any, options: Any) -> Reading:
    """Returns the reader of a resize."""

    def row(call: ReadOperator) -> list[Op]:
        int8_only(call)
        y, where = with_axes(call, call.result, 4), call.options_as(options)
        size = (y.shape[1], y.shape[2])
        call.require_shape(1, size)
        if max(size) > LARGEST_IMAGE:
            raise call.refuse(f"an image has at most {LARGEST_IMAGE} rows and columns", size)
        align_corners, half_pixel = where.align_corners, where.half_pixel_centers
        fields = {"size": size, "align_corners": align_corners, "half_pixel": half_pixel}
        return [cls(x=call.operand(0), y=y, source=call.source, **fields)]

    return row
