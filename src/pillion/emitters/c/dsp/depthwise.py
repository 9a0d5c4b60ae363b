# SPDX-License-Identifier: Apache-2.0
"""The DSP kernels of depthwise convolution."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from pillion.emitters.c.accumulators import Int8Array, channels_of
from pillion.emitters.c.dsp import pack
from pillion.emitters.c.dsp.depthwise_cost import (
    Layout,
    any_work,
    depthwise_work,
    is_transposed,
    layout_of,
    layout_of_parts,
    plane_of,
    scratch_depthwise,
)
from pillion.emitters.c.dsp.linear import DOT
from pillion.emitters.c.dsp.pack16 import upper_word_factors
from pillion.emitters.c.kernel import Kernel, Params
from pillion.emitters.c.kernel_conditions import Condition, short_circuit
from pillion.emitters.c.kernel_library import DSP, types_suffix
from pillion.emitters.c.layers16 import IN_32_BITS, has_one_filter, weight_rows
from pillion.emitters.c.portable.conv import image_params, swap_height_and_width, window
from pillion.emitters.c.window_features import pool_features
from pillion.ir import numerics
from pillion.ir.types import Array, DType, Pair, Value
from pillion.ir.verdict import Verdict
from pillion.ops.conv import DepthwiseConv2d

Window = tuple[Pair, Pair, Pair]
DEPTHWISE_WINDOWS: dict[str, Window] = {
    "depthwise_3x3": ((3, 3), (1, 1), (1, 1)),
    "depthwise_3x3_stride2": ((3, 3), (2, 2), (1, 1)),
    "depthwise_5x5": ((5, 5), (1, 1), (1, 1)),
    "depthwise_5x5_stride2": ((5, 5), (2, 2), (1, 1)),
}
"""Variant → the kernel, stride and dilation that it is specialized for."""


def has_window(op: DepthwiseConv2d, window: Window) -> Verdict:
    """Checks whether a depthwise convolution has the kernel's window."""
    got = (op.kernel, op.stride, op.dilation)
    return Verdict("window", window == got, str(window), str(got))


def depthwise_params(op: DepthwiseConv2d, layout: Layout | None = None) -> Params:
    """Returns the parameters of the depthwise kernels: rows of weights are filled up, and heights and widths swapped, as the
    layout of the kernel for any window wants it."""
    transposed = layout.transposed if layout else is_transposed(op)
    sizes: Params = {**image_params(op), **window(op)}
    windows = weight_rows(op).reshape(-1, *op.kernel)
    if transposed:
        sizes, windows = swap_height_and_width(sizes), windows.swapaxes(1, 2)
    if layout and layout.parts:
        apart = np.zeros((*windows.shape[:2], layout.row_taps(op)), np.int8)
        step, taps = sizes["dilation_w"], windows.shape[2]
        apart[:, :, : step * taps : step] = windows
        sizes, windows = {**sizes, "kernel_w": step * (taps - 1) + 1, "dilation_w": 1}, apart
    weights = np.ascontiguousarray(windows).reshape(len(windows), -1)
    packed = pack_16(op, weights) if op.y.dtype is DType.INT16 else pack_8(op, weights)
    return {**sizes, "transposed": int(transposed), "band": plane_of(op, layout).band, **packed}


def pack_8(op: DepthwiseConv2d, weights: Int8Array) -> Params:
    """Returns the constants of a layer of 8 bits with packed weights."""
    return pack.pack_depthwise(replace(channels_of(op), weights=weights))


def pack_16(op: DepthwiseConv2d, weights: Int8Array) -> Params:
    """Returns the constants of a layer of 16 bits with packed weights."""
    bias = np.asarray(op.bias.constant, np.int32)
    is_rectified = (op.low, op.high) == (0, op.y.dtype.bounds[1])
    masks = np.full_like(bias, -1 if is_rectified else 1)
    constants = np.column_stack([bias, masks, upper_word_factors(op)]).astype(np.int32)
    spare = np.zeros(-weights.size % 4 or 4, np.int8)
    return {
        "rectified": int(is_rectified),
        "weights": np.append(weights.reshape(-1), spare),
        "constants": constants.reshape(-1),
    }


def in_place_depthwise(op: DepthwiseConv2d, layout: Layout | None = None) -> tuple[Value, ...]:
    """Returns the image if no result overwrites unread inputs: each channel is copied before its results are
    written, but further bands of rows and later images of a batch are not."""
    plane = plane_of(op, layout)
    fits = op.depth_multiplier == 1 and (op.x.shape[0] == 1 or op.x.shape == op.y.shape)
    fits = fits and plane.band == plane.output_rows
    return (op.x,) if fits and op.y.type.size_bytes <= op.x.type.size_bytes else ()


def fours(weights: Array, *columns: Array) -> Params:
    """Returns the parameters of the kernels that compute a pixel and four channels at a time, from numbers of each channel."""
    behind = (0, -len(weights) % 4)
    numbers = np.hstack([np.pad(column, behind, mode="edge").reshape(-1, 4) for column in columns])
    grouped = np.pad(weights, (behind, (0, 0))).reshape(-1, 4, weights.shape[1]).swapaxes(1, 2)
    return {
        "weights": np.ascontiguousarray(grouped).reshape(-1),
        "numbers": numbers.astype(np.int32).reshape(-1),
    }


def fours_8(op: DepthwiseConv2d) -> Params:
    """Returns the parameters of 8 bits; zero points are subtracted from inputs instead of sums."""
    packed, rows = pack_8(op, weight_rows(op)), weight_rows(op)
    weights = np.asarray(packed["weights"])[: rows.size].reshape(rows.shape)
    twice, rounds, multipliers = np.asarray(packed["constants"]).reshape(-1, 3).T
    bias = numerics.wrap_to_32_bits((twice >> 1) + op.x.zero_point * numerics.row_sums(weights))
    return fours(weights, bias, rounds, multipliers)


def fours_16(op: DepthwiseConv2d) -> Params:
    """Returns the parameters of 16 bits."""
    return fours(weight_rows(op).astype(np.int16), np.asarray(op.bias.constant), upper_word_factors(op))


def pixels_work(op: DepthwiseConv2d) -> float:
    """Estimates the instructions of the kernels that compute a pixel and four channels at a time."""
    found, (batch, height, width, channels) = pool_features(op), op.y.shape
    pixels, rows, taps = found["pixels"], found["window_rows"], found["taps"]
    outside = pixels * sum(op.kernel) - rows - batch * height * width * taps / max(rows, 1)
    four, tap = (75.0, 13.3) if op.y.dtype is DType.INT16 else (95.0, 16.7)
    is_clamped = (op.low, op.high) != op.y.dtype.bounds
    of_pixels = 136.0 * pixels + 7.6 * outside + 3.0 * pixels * channels * is_clamped
    return 80.0 + of_pixels + -(-channels // 4) * (four * pixels + 12.5 * rows + tap * taps)


def has_parts(op: DepthwiseConv2d) -> Verdict:
    """Checks whether outputs are two apart at most along an axis."""
    return Verdict("stride", min(op.stride) <= 2, "1 or 2 along an axis", str(op.stride))


def depthwise_kernel(
    name: str,
    types: str,
    requires: Condition[DepthwiseConv2d],
    layout: Callable[[DepthwiseConv2d], Layout | None] = lambda op: None,
) -> Kernel:
    """Builds a depthwise kernel of some types, for one window, or with a layout for any."""

    def work(op: DepthwiseConv2d) -> float:
        return any_work(op, chosen) if (chosen := layout(op)) else depthwise_work(op, name)

    return DSP.kernel(
        DepthwiseConv2d,
        f"{name}_{types}",
        lambda op: depthwise_params(op, layout(op)),
        requires=(requires,),
        name=name + types_suffix(types),
        scratch_bytes=lambda op: scratch_depthwise(op, layout(op)),
        in_place=lambda op: in_place_depthwise(op, layout(op)),
        also=("depthwise", "clamp") if types == "s8" else ("depthwise_16",),
        work=work,
    )


def pixels_kernel(
    types: str,
    layer: Condition[DepthwiseConv2d],
    params: Callable[[DepthwiseConv2d], Params],
    also: tuple[str, ...] = (),
) -> Kernel:
    """Builds the depthwise kernel of a pixel and four channels at a time."""
    return DSP.kernel(
        DepthwiseConv2d,
        f"depthwise_pixels_{types}",
        params,
        requires=(short_circuit(layer, has_one_filter),),
        name=f"depthwise_pixels{types_suffix(types)}",
        overread_bytes=3 if types == "s8" else 6,
        also=also,
        work=pixels_work,
    )


def of_window(name: str, layer: Condition[DepthwiseConv2d]) -> Condition[DepthwiseConv2d]:
    """Returns the condition that a layer has the window that a kernel is made for."""
    return short_circuit(layer, lambda op: has_window(op, DEPTHWISE_WINDOWS[name]))


KERNELS: tuple[Kernel, ...] = (
    *(depthwise_kernel(name, "s8", of_window(name, DOT)) for name in DEPTHWISE_WINDOWS),
    depthwise_kernel("depthwise_any", "s8", DOT, layout_of),
    pixels_kernel("s8", DOT, fours_8, also=("clamp",)),
    *(depthwise_kernel(name, "s16", of_window(name, IN_32_BITS)) for name in list(DEPTHWISE_WINDOWS)[:2]),
    depthwise_kernel("depthwise_any", "s16", short_circuit(IN_32_BITS, has_parts), layout_of_parts),
    pixels_kernel("s16", IN_32_BITS, fours_16),
)
