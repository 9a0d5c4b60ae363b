# SPDX-License-Identifier: Apache-2.0
"""The portable kernels of resizing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pillion.emitters.c.kernel import Call, Kernel, Params
from pillion.emitters.c.kernel_conditions import all_int8
from pillion.emitters.c.kernel_library import PORTABLE
from pillion.emitters.c.strides import numbers
from pillion.ir.numerics import Arithmetic, Int64Array
from pillion.ops.resize import Resize, ResizeBilinear, ResizeBilinearFloat, ResizeNearest


def calls_resize(op: ResizeNearest | ResizeBilinear, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of a resize with precomputed source positions. A tile computes its rows from the index of
    the first one."""
    if isinstance(op, ResizeBilinear) and op.heights is not None:
        return (Call(PORTABLE.routine("resize_bilinear_rows_s8"), tile_params(op), (op.x,), op.y, True),)
    if isinstance(op, ResizeNearest) and op.heights is not None:
        every: Params = {"rows": numbers(op.whole_sources(0)), "columns": numbers(op.sources(1))}
        return (
            Call(PORTABLE.routine("resize_nearest_rows_s8"), {**sizes(op), **every}, (op.x,), op.y, True),
        )
    places: Params = {"rows": numbers(op.sources(0)), "columns": numbers(op.sources(1))}
    return (Call(PORTABLE.routine(f"{op.kind}_s8"), {**sizes(op), **places}, (op.x,), op.y),)


def tile_params(op: ResizeBilinear) -> Params:
    """Returns the parameters of a tile of a bilinear resize."""
    assert op.heights is not None
    (_, _, in_w, channels), (step, start) = op.x.shape, op.rhythm(0)
    return {
        **{"in_w": in_w, "out_h": op.size[0], "out_w": op.size[1], "channels": channels},
        **{"step": step, "start": start, "last": op.heights[0] - 1},
        "columns": numbers(op.sources(1)),
    }


def calls_resize_float(op: ResizeBilinearFloat, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of a bilinear resize with float32 weights; a tile takes the index of its first row."""
    is_tile = op.heights is not None
    routine = PORTABLE.routine(f"{op.kind}_rows_s8" if is_tile else f"{op.kind}_s8")
    return (Call(routine, float_params(op), (op.x,), op.y, is_tile),)


def float_params(op: ResizeBilinearFloat) -> Params:
    """Returns the source rows and columns with their interpolation weights as parameters."""
    (rows, lower), (columns, right) = op.whole_places(0), op.places(1)
    places: Params = {"rows": numbers(rows), "row_shares": weight_pairs(lower), "shares": weight_pairs(right)}
    return {**sizes(op), **places, "runs": numbers(runs(columns, right))}


def weight_pairs(second: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns the interpolation weights of both neighbours."""
    return np.stack([np.float32(1) - second, second], axis=1)


def runs(columns: Int64Array, right: NDArray[np.float32]) -> Int64Array:
    """Returns runs of pixels between the same two source columns, as [left, right, pixels]. A right column of
    weight 0 is interchangeable, so it takes that of the next pixel."""
    between = columns.copy()
    for pixel in range(len(between) - 2, -1, -1):
        if right[pixel] == 0 and between[pixel, 0] == between[pixel + 1, 0]:
            between[pixel] = between[pixel + 1]
    starts = np.flatnonzero(np.any(np.diff(between, axis=0, prepend=-1), axis=1))
    counts = np.diff(starts, append=len(between))
    return np.concatenate([between[starts], counts[:, None]], axis=1)


def sizes(op: Resize) -> Params:
    """Returns the sizes of both images as parameters."""
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
    PORTABLE.kernel(ResizeNearest, calls_resize, all_int8),
    PORTABLE.kernel(ResizeBilinear, calls_resize, all_int8),
    PORTABLE.kernel(ResizeBilinearFloat, calls_resize_float, all_int8),
)
