# SPDX-License-Identifier: Apache-2.0
"""The kernels of resizing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pillion.emitters.c.kernel import Kernel, Params
from pillion.emitters.c.kernel_conditions import INT16_XY, check_all_int8, has_dtypes, is_within
from pillion.emitters.c.kernel_library import MVE, PORTABLE
from pillion.emitters.c.strides import as_int32_array
from pillion.ir.numerics import Int64Array
from pillion.ir.types import DType
from pillion.ops.resize import Resize, ResizeBilinear, ResizeBilinearFloat, ResizeNearest


def resize_params(op: ResizeNearest | ResizeBilinear) -> Params:
    """Returns the parameters of a resize with precomputed source positions."""
    if op.heights is None:
        return {"rows": as_int32_array(op.sources(0)), "columns": as_int32_array(op.sources(1))}
    if isinstance(op, ResizeNearest):
        return {"rows": as_int32_array(op.whole_sources(0)), "columns": as_int32_array(op.sources(1))}
    step, start = op.source_step_and_start(0)
    return {"step": step, "start": start, "last": op.heights[0] - 1, "columns": as_int32_array(op.sources(1))}


def float_params(op: ResizeBilinearFloat) -> Params:
    """Returns the source rows and columns with their interpolation weights as parameters."""
    (rows, lower), (columns, right) = op.whole_places(0), op.places(1)
    interpolation: Params = {
        "rows": as_int32_array(rows),
        "row_shares": interpolation_weights(lower),
        "shares": interpolation_weights(right),
    }
    return {**interpolation, "runs": as_int32_array(source_column_runs(columns, right))}


def is_tile(op: Resize) -> bool:
    """Whether a resize computes some rows only; the kernel then takes the index of the first one."""
    return getattr(op, "heights", None) is not None


def resize_routine(op: Resize) -> str:
    """Returns the routine of a resize or of a tile of it. One that copies moves bytes."""
    bits = 8 if isinstance(op, ResizeNearest) else 8 * op.x.dtype.size_bytes
    return f"{op.kind}{'_rows' * is_tile(op)}_s{bits}"


def interpolation_weights(second: NDArray[np.float32]) -> NDArray[np.float32]:
    """Returns the interpolation weights of both neighbours."""
    return np.stack([np.float32(1) - second, second], axis=1)


def source_column_runs(columns: Int64Array, right: NDArray[np.float32]) -> Int64Array:
    """Returns runs of pixels between the same two source columns, as [left, right, pixels]. A right column of weight
    0 may be any, and takes the next pixel's."""
    between = columns.copy()
    for pixel in range(len(between) - 2, -1, -1):
        if right[pixel] == 0 and between[pixel, 0] == between[pixel + 1, 0]:
            between[pixel] = between[pixel + 1]
    starts = np.flatnonzero(np.any(np.diff(between, axis=0, prepend=-1), axis=1))
    counts = np.diff(starts, append=len(between))
    return np.concatenate([between[starts], counts[:, None]], axis=1)


LEAST_CHANNELS = 2
"""For one channel, portable C takes fewer instructions than Helium."""
CHANNELS = (check_all_int8, lambda op: is_within("channels", op.x.shape[-1], LEAST_CHANNELS))

EQUAL_TYPES = (has_dtypes("x y", DType.INT8, DType.INT16),)


def nearest_params(op: ResizeNearest) -> Params:
    """Returns the parameters of a resize that copies pixels, which are as long as their bytes."""
    return {**resize_params(op), "channels": op.x.shape[-1] * op.x.dtype.size_bytes}


RESIZES: tuple[tuple[type[Resize], Callable[[Any], Params]], ...] = (
    (ResizeBilinear, resize_params),
    (ResizeBilinearFloat, float_params),
)
KERNELS: tuple[Kernel, ...] = (
    PORTABLE.kernel(ResizeNearest, resize_routine, nearest_params, requires=EQUAL_TYPES, counts_rows=is_tile),
    PORTABLE.kernel(
        ResizeBilinear,
        resize_routine,
        resize_params,
        requires=(INT16_XY,),
        name="resize_bilinear_16",
        counts_rows=is_tile,
    ),
    *(
        PORTABLE.kernel(op, resize_routine, params, requires=(check_all_int8,), counts_rows=is_tile)
        for op, params in RESIZES
    ),
    MVE.kernel(
        ResizeBilinear, resize_routine, resize_params, requires=(check_all_int8,), counts_rows=is_tile
    ),
    MVE.kernel(ResizeBilinearFloat, resize_routine, float_params, requires=CHANNELS, counts_rows=is_tile),
)
