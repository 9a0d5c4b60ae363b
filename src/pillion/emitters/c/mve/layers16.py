# SPDX-License-Identifier: Apache-2.0
"""The Helium kernels of layers with 16-bit operands and results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from pillion.emitters.c.accumulators import Int32Array
from pillion.emitters.c.kernel import CallCost, Kernel, Params
from pillion.emitters.c.kernel_conditions import fixed_point, is_within, short_circuit
from pillion.emitters.c.kernel_library import MVE
from pillion.emitters.c.layers16 import (
    IN_32_BITS,
    Layer,
    channels_16,
    has_one_filter,
    is_3x3,
    plane_bytes,
    rows_of_plane,
)
from pillion.emitters.c.mve import pack
from pillion.emitters.c.mve.conv import in_place_if, one_pixel
from pillion.emitters.c.mve.pack import EVEN, ODD, OVERREAD_BYTES
from pillion.ir.verdict import Verdict
from pillion.ops.conv import Conv2d, Convolution, DepthwiseConv2d
from pillion.ops.linear import Linear

INPUTS = 8
"""The inputs of a vector."""
FIXED: dict[str, int] = {"signs": 0}
DOT = ("dot16",)


def pack_dot(op: Layer) -> Int32Array:
    """Packs weights, biases and factors into the stream of pillion_mve_dot16 (kernels/mve/dot.h)."""
    g = pack.group_channels(channels_16(op), (*EVEN, *ODD), INPUTS, overlap=True)
    halves = ((g.bias[:, half], g.weights[:, half]) for half in (slice(0, 4), slice(4, 8)))
    parts = [p for bias, weights in halves for p in (bias, pack.chunks_of(weights, INPUTS))]
    return pack.join_groups(g.multipliers, *parts)


def pack_linear(op: Layer) -> Int32Array:
    """Packs the same for one vector of inputs."""
    g = pack.group_channels(channels_16(op), (*EVEN, *ODD), INPUTS)
    return pack.join_groups(g.bias, pack.chunks_of(g.weights, INPUTS), g.multipliers)


def pointwise_params(op: Conv2d) -> Params:
    """Returns the parameters of a convolution whose windows are pixels."""
    return {**pack.pointwise_sizes(op), **FIXED, "constants": pack_dot(op)}


def im2col_params(op: Conv2d) -> Params:
    """Returns the parameters of a convolution by gathered windows."""
    return {**pack.im2col_sizes(op), **FIXED, "constants": pack_dot(op)}


def linear_params(op: Layer) -> Params:
    """Returns the parameters of a fully connected layer, or of a convolution of one pixel."""
    out_features, in_features = channels_16(op).weights.shape
    sizes = {"in_features": in_features, "out_features": out_features}
    rows = op.rows if isinstance(op, Linear) else 1
    return {"rows": rows, **sizes, "chunks": -(-in_features // INPUTS), "constants": pack_linear(op)}


def rows_params(op: Linear) -> Params:
    """Returns the parameters of a fully connected layer of several vectors, as a convolution of pixels."""
    sizes = {"images": 1, "image_bytes": 0, "rows": 1, "row_bytes": 0, "pixels": op.rows}
    width = op.in_features * op.x.dtype.size_bytes
    more = {"pixel_bytes": width, "out_c": op.out_features, "chunks": pack.vector_count(width)}
    return {**sizes, **more, **FIXED, "constants": pack_dot(op)}


def several_rows(op: Linear) -> Verdict:
    """Checks whether a layer has several vectors of inputs, which share loads of weights."""
    return Verdict("rows", op.rows > 1, "at least 2", str(op.rows))


def depthwise_verdicts(op: DepthwiseConv2d) -> Iterator[Verdict]:
    """Checks the conditions of pillion_depthwise_3x3_s16_mve: offsets of gathered columns have 16 bits."""
    yield from is_3x3(op)
    yield is_within("pixels", 7 * op.stride[0] * pack.pixel_bytes(op), most=2**16 - 1, unit="bytes apart")


def band_sizes(op: DepthwiseConv2d) -> dict[str, int]:
    """Returns the bytes of a row of the plane, of which there are two to a row of the image at stride 2, and its bands."""
    pitch = 2 * (op.y.shape[2] + 2)
    return {"pitch": pitch, "band": rows_of_plane(op, op.stride[0] * pitch)}


def scratch_of_plane(op: DepthwiseConv2d) -> int:
    """Returns the scratch bytes of a plane."""
    sizes, stride = band_sizes(op), op.stride[0]
    return plane_bytes(op, sizes["band"], stride * sizes["pitch"])


def depthwise_params(op: DepthwiseConv2d) -> Params:
    """Returns the parameters of the depthwise kernel."""
    channels = channels_16(op)
    numbers = np.stack([channels.bias, channels.multipliers], axis=1).astype(np.int32)
    arrays: Params = {"kernels": np.ascontiguousarray(channels.weights), "numbers": numbers}
    return {**band_sizes(op), "stride": op.stride[0], "filters": op.depth_multiplier, **arrays}


def any_depthwise_params(op: DepthwiseConv2d) -> Params:
    """Returns the parameters of the depthwise kernel for any window."""
    g = pack.group_channels(channels_16(op), range(INPUTS), 1)
    numbers = [array[:, first::2] for first in (0, 1) for array in (g.bias, g.multipliers)]
    weights = np.ascontiguousarray(g.weights.swapaxes(1, 2)).reshape(-1)
    return {"weights": weights, "numbers": pack.join_groups(*numbers)}


def has_one_band(op: Convolution) -> bool:
    """Whether a result may overwrite the image: it is gathered channel by channel, all rows at once."""
    return (
        isinstance(op, DepthwiseConv2d)
        and op.depth_multiplier == 1
        and band_sizes(op)["band"] == op.y.shape[1]
    )


LINEAR = MVE.routine("linear_s16")
POINTWISE: dict[str, Any] = {"overread_bytes": OVERREAD_BYTES, "call_cost": CallCost(200.0, channel=4.5)}
IM2COL: dict[str, Any] = {
    "scratch_bytes": pack.im2col_scratch_bytes,
    "call_cost": CallCost(150.0, reread=0.45),
}
ROWS = MVE.routine("conv2d_1x1_s16", "pointwise", *DOT)

KERNELS: tuple[Kernel, ...] = (
    MVE.kernel(
        Conv2d,
        LINEAR,
        linear_params,
        requires=(short_circuit(IN_32_BITS, one_pixel),),
        name="conv2d_pixel_16",
        overread_bytes=OVERREAD_BYTES,
    ),
    MVE.kernel(
        Conv2d,
        ROWS,
        pointwise_params,
        requires=(short_circuit(IN_32_BITS, pack.pixels_are_windows),),
        name="conv2d_1x1_16",
        **POINTWISE,
    ),
    MVE.kernel(
        Conv2d,
        MVE.routine("conv2d_im2col_s16", "im2col", *DOT),
        im2col_params,
        requires=(short_circuit(IN_32_BITS, pack.is_ungrouped),),
        name="conv2d_im2col_16",
        **IM2COL,
    ),
    MVE.kernel(
        DepthwiseConv2d,
        "depthwise_3x3_s16",
        depthwise_params,
        requires=(short_circuit(IN_32_BITS, depthwise_verdicts),),
        name="depthwise_3x3_16",
        scratch_bytes=scratch_of_plane,
        in_place=in_place_if(has_one_band),
    ),
    MVE.kernel(
        DepthwiseConv2d,
        "depthwise_any_s16",
        any_depthwise_params,
        requires=(short_circuit(IN_32_BITS, has_one_filter),),
        name="depthwise_any_16",
        overread_bytes=OVERREAD_BYTES,
    ),
    MVE.kernel(
        Linear,
        ROWS,
        rows_params,
        requires=(short_circuit(fixed_point, IN_32_BITS, several_rows),),
        name="linear_rows_16",
        **POINTWISE,
    ),
    MVE.kernel(
        Linear,
        LINEAR,
        linear_params,
        requires=(short_circuit(fixed_point, IN_32_BITS),),
        name="linear_16",
        overread_bytes=OVERREAD_BYTES,
    ),
)
