# SPDX-License-Identifier: Apache-2.0
"""The portable kernels of resizing."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from pillion.emitters.c.axes import numbers
from pillion.emitters.c.conditions import all_int8
from pillion.emitters.c.kernel import Call, Kernel, Params
from pillion.emitters.c.library import PORTABLE, Library
from pillion.ir.numerics import Arithmetic, Int64Array
from pillion.ops.resize import Resize, ResizeBilinear, ResizeBilinearFloat, ResizeNearest


def resize(op: ResizeNearest | ResizeBilinear, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of a resize, with the places of all rows and columns computed beforehand; where some rows are made, they are
    computed from the number of the first one."""
    if isinstance(op, ResizeBilinear) and op.heights is not None:
        return (Call(PORTABLE.routine("resize_bilinear_rows_s8"), some_rows(op), (op.x,), op.y, True),)
    if isinstance(op, ResizeNearest) and op.heights is not None:
        every: Params = {"rows": numbers(op.whole_sources(0)), "columns": numbers(op.sources(1))}
        return (
            Call(PORTABLE.routine("resize_nearest_rows_s8"), {**sizes(op), **every}, (op.x,), op.y, True),
        )
    places: Params = {"rows": numbers(op.sources(0)), "columns": numbers(op.sources(1))}
    return (Call(PORTABLE.routine(f"{op.kind}_s8"), {**sizes(op), **places}, (op.x,), op.y),)


def some_rows(op: ResizeBilinear) -> Params:
    """Gives the parameters of some rows of a bilinear resize."""
    assert op.heights is not None
    (_, _, in_w, channels), (step, start) = op.x.shape, op.rhythm(0)
    return {
        **{"in_w": in_w, "out_h": op.size[0], "out_w": op.size[1], "channels": channels},
        **{"step": step, "start": start, "last": op.heights[0] - 1},
        "columns": numbers(op.sources(1)),
    }


def resize_in_float(op: ResizeBilinearFloat, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of a resize whose shares are float32."""
    return (call_in_float(op, PORTABLE),)


def call_in_float(op: ResizeBilinearFloat, library: Library) -> Call:
    """Gives the call of all rows, or that of some, which is handed the number of the first."""
    is_part = op.heights is not None
    name = f"{op.kind}_rows_s8" if is_part else f"{op.kind}_s8"
    return Call(library.routine(name), params_in_float(op), (op.x,), op.y, is_part)


def params_in_float(op: ResizeBilinearFloat) -> Params:
    """Gives the places of all rows and columns, and what each of two counts for."""
    (rows, lower), (columns, right) = op.whole_places(0), op.places(1)
    places: Params = {"rows": numbers(rows), "row_shares": shares(lower), "shares": shares(right)}
    return {**sizes(op), **places, "runs": numbers(runs(columns, right))}


def shares(second: NDArray[np.float32]) -> NDArray[np.float32]:
    """Gives what the first of two counts for, and what the second does."""
    return np.stack([np.float32(1) - second, second], axis=1)


def runs(columns: Int64Array, right: NDArray[np.float32]) -> Int64Array:
    """Gives the pixels side by side that lie between the same two columns: these two, and how many pixels. Where the second
    column counts for nothing it may be any, as that of the next pixel."""
    between = columns.copy()
    for pixel in range(len(between) - 2, -1, -1):
        if right[pixel] == 0 and between[pixel, 0] == between[pixel + 1, 0]:
            between[pixel] = between[pixel + 1]
    starts = np.flatnonzero(np.any(np.diff(between, axis=0, prepend=-1), axis=1))
    counts = np.diff(starts, append=len(between))
    return np.concatenate([between[starts], counts[:, None]], axis=1)


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
