# SPDX-License-Identifier: Apache-2.0
"""Writes resizes of images."""

from __future__ import annotations

from pillion.emitters.tflite.exact import int8_only
from pillion.emitters.tflite.node import Node, Writing, integers
from pillion.ops.resize import Resize
from pillion.schemas import tflite


def resize(
    code: str, options: type[tflite.ResizeBilinearOptions | tflite.ResizeNearestNeighborOptions]
) -> Writing:
    """Returns the row of a resize."""

    def row(op: Resize) -> list[Node]:
        int8_only(op)
        where = options(align_corners=op.align_corners, half_pixel_centers=op.half_pixel)
        return [Node(code, (op.x, integers(f"{op.name}/size", op.size)), (op.y,), where)]

    return row
