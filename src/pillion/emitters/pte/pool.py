# SPDX-License-Identifier: Apache-2.0
"""Rows for pooling and softmax."""

from __future__ import annotations

import dataclasses
import math

from pillion.emitters.pte import scratch
from pillion.emitters.pte.elementwise import result_clamp_calls
from pillion.emitters.pte.library_limits import LONGEST_SOFTMAX
from pillion.emitters.pte.node import (
    KernelCall,
    NodeView,
    PteSettings,
    contiguous_view,
    image_view,
    no_exact_kernel_error,
    result_bounds,
    scratch_argument,
    temporary_tensor,
)
from pillion.ir.types import Sides
from pillion.ops import AvgPool2d, AvgPool2dUp, MaxPool2d, Softmax
from pillion.ops.softmax import OUTPUT

FINER = "C has finer steps; saving a program as .pte gives it the usual ones, and the file is a program of its own: verify that"
SMALLEST = -128
"""The padding value of a max pool."""


def max_pool2d(op: MaxPool2d, settings: PteSettings) -> list[KernelCall]:
    """Returns the calls of a max pool. Asymmetric padding is a separate call that fills with the smallest
    number."""
    calls: list[KernelCall] = []
    x, padding = image_view(op.x), op.padding[:2]
    if not _allows_symmetric_padding(op):
        calls, x, padding = _pad_before_pool(op, x)
    zero = op.x.zero_point
    args = (x, op.kernel, op.stride, padding, (1, 1), False, zero, zero, *result_bounds(op))
    return [*calls, KernelCall("cortex_m::quantized_max_pool2d.out", args, image_view(op.y))]


def _pad_before_pool(op: MaxPool2d, x: NodeView) -> tuple[list[KernelCall], NodeView, tuple[int, int]]:
    n, h, w, c = op.x.shape
    top, left, bottom, right = op.padding
    shape = (n, h + top + bottom, w + left + right, c)
    padded = temporary_tensor(shape).image(*shape)
    return (
        [KernelCall("cortex_m::pad.out", (x, (0, top, left, 0), (0, bottom, right, 0), SMALLEST), padded)],
        padded,
        (0, 0),
    )


def avg_pool2d(op: AvgPool2d, settings: PteSettings) -> list[KernelCall]:
    """Returns the calls of an average pool; padding that PyTorch cannot express is refused."""
    ceil_mode = not _allows_symmetric_padding(op)
    if ceil_mode and not _allows_ceil_mode(op):
        raise no_exact_kernel_error(
            op,
            "the windows are those of equal padding on both sides, rounded down or up",
            f"padding {op.padding}, image {list(op.x.shape[1:3])}, result {list(op.y.shape[1:3])}",
            "pad all sides alike",
        )
    need = scratch_argument(scratch.avg_pool2d_scratch_bytes(op.x.shape[3], settings.isa))
    modes = () if settings.runtime == "1.4" else (ceil_mode,)
    # The kernel ignores zero point and scale, which together are 1.0.
    args = (image_view(op.x), op.kernel, op.stride, op.padding[:2], *modes, op.x.zero_point, 2**30, 1, need)
    return [KernelCall("cortex_m::quantized_avg_pool2d.out", args, image_view(op.y)), *result_clamp_calls(op)]


def avg_pool2d_up(op: AvgPool2dUp, settings: PteSettings) -> list[KernelCall]:
    """Returns the calls of an average pool with ties rounded up; LiteRT's arithmetic is refused, because no
    kernel has it."""
    if settings.arithmetic.is_tflite:
        rule, fix = "halves of means go away from zero, and those of uint8 go up", "--arithmetic cmsis-nn"
        raise no_exact_kernel_error(op, rule, f"`{settings.arithmetic.value}` arithmetic", fix)
    return avg_pool2d(AvgPool2d(x=op.x, y=op.y, source=op.source, **op.attributes), settings)


def _allows_symmetric_padding(op: AvgPool2d | MaxPool2d) -> bool:
    """Whether symmetric padding gives the same windows."""
    top, left, _, _ = op.padding
    even: Sides = (top, left, top, left)
    return dataclasses.replace(op, padding=even).output_shape == op.y.shape


def _allows_ceil_mode(op: AvgPool2d) -> bool:
    """Whether symmetric padding with ceil mode gives the same windows."""
    axes = zip(op.x.shape[1:3], op.kernel, op.stride, op.padding[:2], op.y.shape[1:3], strict=True)
    return all(_ceil_mode_size(*axis) == result for *axis, result in axes)


def _ceil_mode_size(size: int, kernel: int, stride: int, padding: int) -> int:
    windows = math.ceil((size + 2 * padding - kernel) / stride) + 1
    return windows - ((windows - 1) * stride >= size + padding)


def softmax(op: Softmax, settings: PteSettings) -> list[KernelCall]:
    """Returns the call of a softmax; rows beyond the library's limit are refused."""
    last = op.x.shape[-1]
    if last > LONGEST_SOFTMAX:
        raise no_exact_kernel_error(
            op,
            f"a row has at most {LONGEST_SOFTMAX} elements: the library's sums of more are too large for its shifts",
            f"{last} elements",
            "leave the softmax to the application, --kernels pillion, or write C: -o folder/",
        )
    if op.y.quant != OUTPUT:
        raise no_exact_kernel_error(
            op, "the library's softmax has steps of 1/256", f"steps of {op.y.scale:g}", FINER
        )
    rows = op.x.type.elements // last
    x, y = contiguous_view(op.x).reshaped(rows, last), contiguous_view(op.y).reshaped(rows, last)
    m = op.multiplier
    args = (x, 1, op.x.zero_point, op.y.zero_point, m.mantissa, m.shift, op.smallest_difference)
    return [KernelCall("cortex_m::softmax.out", args, y)]
