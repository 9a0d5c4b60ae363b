# SPDX-License-Identifier: Apache-2.0
"""The portable kernels of resizing."""

from __future__ import annotations

from pillion.emitters.c.axes import numbers
from pillion.emitters.c.conditions import all_int8
from pillion.emitters.c.kernel import Call, Kernel, Params
from pillion.emitters.c.library import PORTABLE
from pillion.ir.numerics import Arithmetic
from pillion.ops.resize import Resize, ResizeBilinear, ResizeBilinearFloat, ResizeNearest


def resize(op: ResizeNearest | ResizeBilinear, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of a resize, with the places of all rows and columns computed beforehand."""
    places: Params = {"rows": numbers(op.sources(0)), "columns": numbers(op.sources(1))}
    return (Call(PORTABLE.routine(f"{op.kind}_s8"), {**sizes(op), **places}, (op.x,), op.y),)


def resize_in_float(op: ResizeBilinearFloat, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of a resize whose shares are float32."""
    (rows, lower), (columns, right) = op.places(0), op.places(1)
    places: Params = {"rows": numbers(rows), "lower": lower, "columns": numbers(columns), "right": right}
    return (Call(PORTABLE.routine(f"{op.kind}_s8"), {**sizes(op), **places}, (op.x,), op.y),)


def sizes(op: Resize) -> Params:
    """Gives the sizes of both images."""
    batch, in_h, in_w, channels = op.x.shape
    return {
        "batch": batch,
        "in_h": in_h,
        "in_w": in_w,
        "out_h": op.size[0],
        "out_w": op.size[1],
        "channels": channels,
    }


KERNELS: tuple[Kernel, ...] = (
    PORTABLE.row(ResizeNearest, resize, all_int8),
    PORTABLE.row(ResizeBilinear, resize, all_int8),
    PORTABLE.row(ResizeBilinearFloat, resize_in_float, all_int8),
)
