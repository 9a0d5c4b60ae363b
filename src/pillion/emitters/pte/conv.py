# SPDX-License-Identifier: Apache-2.0
"""Rows for convolutions, and for ops expressed as one: linear layers with a scale per feature, means."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from pillion.devices.cortex_m import Isa
from pillion.emitters.pte import library_limits, scratch
from pillion.emitters.pte.column_folding import best_folding
from pillion.emitters.pte.node import (
    KernelCall,
    NodeView,
    PteSettings,
    constant_view,
    contiguous_view,
    image_view,
    int_vector,
    no_exact_kernel_error,
    result_bounds,
    scratch_argument,
    temporary_tensor,
)
from pillion.emitters.pte.scratch import ScratchWindow
from pillion.emitters.pte.single_rounding import (
    Int64Array,
    SingleRounding,
    find_single_rounding,
    rounded_as_doubles,
)
from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic
from pillion.ir.op import Op
from pillion.ir.types import Array, DType
from pillion.ops import Conv2d, DepthwiseConv2d, Linear, TransposeConv2d
from pillion.ops.conv import Convolution
from pillion.ops.layer import Layer


@dataclass(frozen=True)
class AccumulatorScaling:
    """The requantization of a convolution's accumulators: multipliers, zero points and bounds."""

    bias: NodeView
    in_zero_point: int
    out_zero_point: int
    mantissas: ArrayLike
    shifts: ArrayLike
    low: int
    high: int

    @property
    def args(self) -> tuple[int, int, NodeView, NodeView, int, int]:
        """The arguments of the kernel for requantization."""
        scale = int_vector(self.mantissas), int_vector(self.shifts)
        return (-self.in_zero_point, self.out_zero_point, *scale, self.low, self.high)


def conv2d(op: Conv2d, settings: PteSettings) -> list[KernelCall]:
    """Returns the call of a convolution."""
    _require_constants(op)
    window, weights, sums = (
        _convolution_window(op, op.groups),
        contiguous_view(op.weights),
        _accumulator_scaling(op),
    )
    folding = best_folding(window) if settings.isa is Isa.MVE else None
    if folding:
        window, weights = folding.window, constant_view(folding.weights(op.weights.constant))
        bias, mantissas, shifts = (np.tile(of, folding.results) for of in (op.bias.constant, *op.multipliers))
        sums = replace(sums, bias=constant_view(bias), mantissas=mantissas, shifts=shifts)
    return [
        regular_conv_call(op, settings, window, contiguous_view(op.x), weights, sums, contiguous_view(op.y))
    ]


def depthwise_conv2d(op: DepthwiseConv2d, settings: PteSettings) -> list[KernelCall]:
    """Returns the calls of a depthwise convolution. The kernel supports one image; several use a grouped
    convolution."""
    _require_constants(op)
    x, y, sums = contiguous_view(op.x), contiguous_view(op.y), _accumulator_scaling(op)
    if op.x.shape[0] != 1:
        weights = constant_view(
            np.moveaxis(op.weights.constant, 3, 0).reshape(op.out_channels, *op.kernel, 1)
        )
        return [regular_conv_call(op, settings, _convolution_window(op, op.in_channels), x, weights, sums, y)]
    window = _convolution_window(op, 1)
    # With one input channel, Helium runs it as a regular convolution, with that kernel's limits.
    if window.in_channels == 1 and window.row_kernel_fails:
        window = window.turned
    return [depthwise_conv_call(op, settings, window, x, contiguous_view(op.weights), sums, y)]


def depthwise_conv_call(
    op: Op,
    settings: PteSettings,
    window: ScratchWindow,
    x: NodeView,
    weights: NodeView,
    sums: AccumulatorScaling,
    y: NodeView,
) -> KernelCall:
    """Returns a call of the depthwise convolution, of one image."""
    _require_sizes(op, window)
    need = scratch_argument(scratch.depthwise_conv2d_scratch_bytes(window, settings.isa))
    geometry = (window.stride, window.padding, window.dilation, window.out_channels // window.in_channels)
    weights = weights.reshaped(1, *window.kernel, window.out_channels)
    args = (_view_as_image(x, window), weights, sums.bias, *geometry, *sums.args, need)
    return KernelCall("cortex_m::quantized_depthwise_conv2d.out", args, _view_as_result(y, window))


def linear(op: Linear, settings: PteSettings) -> list[KernelCall]:
    """Returns the calls of a fully connected layer: a linear kernel if all features share a scale, otherwise
    a convolution with a 1x1 window."""
    _require_constants(op)
    if settings.arithmetic is Arithmetic.TFLITE:
        return _rounded_once(op, settings)
    mantissas, shifts = (of.astype(np.int64) for of in op.multipliers)
    twice = SingleRounding(mantissas, shifts, np.zeros(1, np.int64), 0)
    return [_linear_part_call(op, settings, slice(None), twice, contiguous_view(op.y))]


def _rounded_once(op: Linear, settings: PteSettings) -> list[KernelCall]:
    """Returns calls that round once, as LiteRT does. Without a solution for all features, the features are
    split."""
    low, high = numerics.row_bounds(op.weights.constant)
    zeros = op.x.zero_point * numerics.row_sums(op.weights.constant)
    bias = op.bias.constant.astype(np.int64)
    limits = np.stack([low - zeros + bias, high - zeros + bias], axis=1)
    parts: list[tuple[slice, SingleRounding]] = []
    waiting = [(0, op.out_features)]
    while waiting:
        first, end = waiting.pop()
        part = slice(first, end)
        solution = _single_rounding_numbers(op.ratios[part], limits[part], op.y.zero_point)
        if solution is not None:
            parts.append((part, solution))
        elif end - first > 1:
            middle = (first + end) // 2
            waiting += [(middle, end), (first, middle)]
        else:
            raise no_exact_kernel_error(
                op,
                "accumulators are requantized with a fixed-point multiplier",
                f"`tflite` arithmetic rounds once, which no multiplier for feature {first} does",
                "--arithmetic cmsis-nn, --kernels pillion, or write C: -o folder/",
            )
    if len(parts) == 1:
        return [_linear_part_call(op, settings, *parts[0], contiguous_view(op.y))]
    ys = [temporary_tensor((op.rows, part.stop - part.start)) for part, _ in parts]
    calls = [_linear_part_call(op, settings, *of, y) for of, y in zip(parts, ys, strict=True)]
    joined = contiguous_view(op.y).reshaped(op.rows, op.out_features)
    return [*calls, KernelCall("aten::cat.out", (tuple(ys), 1), joined)]


def _single_rounding_numbers(
    ratios: NDArray[np.float64], limits: Int64Array, zero_point: int
) -> SingleRounding | None:
    """Returns the numbers with which accumulators are rounded once; features of one scale share them."""
    if len(set(ratios.tolist())) == 1:
        ratios, limits = ratios[:1], np.array([[limits.min(), limits.max()]])
    return find_single_rounding(
        ratios, limits, zero_point, lambda sums: rounded_as_doubles(sums, ratios[:, None])
    )


def _linear_part_call(
    op: Linear, settings: PteSettings, part: slice, scaling: SingleRounding, y: NodeView
) -> KernelCall:
    """Returns the call for some features."""
    weights = op.weights.constant[part]
    bias = (op.bias.constant[part].astype(np.int64) + scaling.added).astype(np.int32)
    is_complete = len(weights) == op.out_features
    weights_view = contiguous_view(op.weights) if is_complete else constant_view(weights)
    y = y.reshaped(op.rows, len(weights))
    pairs = set(zip(scaling.mantissas.tolist(), scaling.shifts.tolist(), strict=True))
    zero_point = op.y.zero_point - scaling.lift
    bias_view = contiguous_view(op.bias) if is_complete and not scaling.lift else constant_view(bias)
    if len(pairs) > 1:
        sums = AccumulatorScaling(
            bias_view, op.x.zero_point, zero_point, scaling.mantissas, scaling.shifts, *result_bounds(op)
        )
        return _pointwise_conv_call(op, settings, weights_view, sums, y)
    ((mantissa, shift),) = pairs
    low, high = result_bounds(op)
    x = contiguous_view(op.x).reshaped(op.rows, op.in_features)
    helium = settings.isa is Isa.MVE
    of_bias = (None, _bias_with_zero_points(op, weights, bias)) if helium else (bias_view, None)
    offsets = (-op.x.zero_point, 0, zero_point)
    args = (x, weights_view, *of_bias, *offsets, (mantissa,), (shift,), high, low)
    return KernelCall("cortex_m::quantized_linear.out", args, y)


def _bias_with_zero_points(op: Linear, weights: Array, bias: Array) -> NodeView:
    """Returns the bias with the zero point's share added, for Helium's kernel."""
    folded_bias = bias.astype(np.int64) - op.x.zero_point * numerics.row_sums(weights)
    return constant_view(folded_bias.astype(np.int32).reshape(1, -1))


def _pointwise_conv_call(
    op: Linear, settings: PteSettings, weights: NodeView, sums: AccumulatorScaling, y: NodeView
) -> KernelCall:
    count, inner, outer = op.rows, op.in_features, y.sizes[1]
    window = ScratchWindow(1, (count, 1), inner, (count, 1), outer, (1, 1))
    return regular_conv_call(op, settings, window, contiguous_view(op.x), weights, sums, y)


def transpose_conv2d(op: TransposeConv2d, settings: PteSettings) -> list[KernelCall]:
    """Returns the calls of a transposed convolution. The kernel supports only symmetric padding and some
    windows; other cases are a convolution with reversed weights over the image with zero points between its
    pixels."""
    _require_constants(op)
    window = _convolution_window(op, 1)
    if not (_is_supported_by_kernel(op) and library_limits.is_transposed_conv_exact(window)):
        return _over_spread_image(op, settings)
    _require_sizes(op, window)
    first, second = (
        scratch_argument(size) for size in scratch.transpose_conv2d_scratch_bytes(window, settings.isa)
    )
    sums = _accumulator_scaling(op)
    geometry = (op.stride, op.padding[:2], (0, 0), (1, 1))
    args = (image_view(op.x), contiguous_view(op.weights), sums.bias, *geometry, *sums.args, first, second)
    return [KernelCall("cortex_m::quantized_transpose_conv2d.out", args, image_view(op.y))]


def _is_supported_by_kernel(op: TransposeConv2d) -> bool:
    """Whether the kernel has parameters for the op."""
    top, left, bottom, right = op.padding
    return (top, left) == (bottom, right) and op.output_padding == (0, 0) and op.dilation == (1, 1)


def _over_spread_image(op: TransposeConv2d, settings: PteSettings) -> list[KernelCall]:
    n, h, w, c = op.x.shape
    reach = [d * (k - 1) - p for d, k, p in zip(op.dilation, op.kernel, op.padding[:2], strict=True)]
    if min(reach) < 0:
        raise no_exact_kernel_error(
            op,
            "padding is smaller than the window",
            op.attributes,
            "--kernels pillion, or write C: -o folder/",
        )
    calls: list[KernelCall] = []
    x = _insert_zero_point_rows(
        contiguous_view(op.x).reshaped(n * h * w, 1, c), op.stride[1], op.x.zero_point, calls
    )
    x = _insert_zero_point_rows(
        x.reshaped(n * h, 1, w * op.stride[1] * c), op.stride[0], op.x.zero_point, calls
    )
    sides = (h * op.stride[0], w * op.stride[1])
    padding = (reach[0], reach[1])
    result = (op.y.shape[1], op.y.shape[2])
    window = ScratchWindow(n, sides, c, result, op.out_channels, op.kernel, (1, 1), padding, op.dilation)
    weights = constant_view(op.weights.constant[:, ::-1, ::-1])
    return [
        *calls,
        regular_conv_call(op, settings, window, x, weights, _accumulator_scaling(op), contiguous_view(op.y)),
    ]


def _insert_zero_point_rows(x: NodeView, stride: int, zero_point: int, calls: list[KernelCall]) -> NodeView:
    """Returns [outer, 1, inner] with stride - 1 rows of zero points behind each row."""
    if stride == 1:
        return x
    outer, _, inner = x.sizes
    y = temporary_tensor((outer, stride, inner))
    calls.append(KernelCall("cortex_m::pad.out", (x, (0, 0, 0, 0), (0, 0, stride - 1, 0), zero_point), y))
    return y


def regular_conv_call(
    op: Op,
    settings: PteSettings,
    window: ScratchWindow,
    x: NodeView,
    weights: NodeView,
    sums: AccumulatorScaling,
    y: NodeView,
) -> KernelCall:
    """Returns a call of the regular convolution."""
    if window.loses_pixels or (settings.isa is Isa.DSP and window.is_of_few_pixels):
        window = window.with_dilation
    if window.row_kernel_fails:
        window = window.turned
    if window.row_kernel_fails:
        raise no_exact_kernel_error(
            op, "the padding of an image of one row can be split as the library splits it", window
        )
    _require_sizes(op, window)
    need = scratch_argument(scratch.conv2d_scratch_bytes(window, settings.isa))
    weights = weights.reshaped(window.out_channels, *window.kernel, window.in_channels // window.groups)
    args = (
        _view_as_image(x, window),
        weights,
        sums.bias,
        window.stride,
        window.padding,
        window.dilation,
        *sums.args,
        need,
    )
    return KernelCall("cortex_m::quantized_conv2d.out", args, _view_as_result(y, window))


def _view_as_image(view: NodeView, window: ScratchWindow) -> NodeView:
    """Returns the bytes as the image of a window."""
    return view.image(window.batch, *window.image, window.in_channels)


def _view_as_result(view: NodeView, window: ScratchWindow) -> NodeView:
    """Returns the bytes as the result of a window."""
    return view.image(window.batch, *window.result, window.out_channels)


def _convolution_window(op: Convolution, groups: int) -> ScratchWindow:
    n, h, w, c = op.x.shape
    result = (op.y.shape[1], op.y.shape[2])
    return ScratchWindow(
        n, (h, w), c, result, op.out_channels, op.kernel, op.stride, op.padding[:2], op.dilation, groups
    )


def _accumulator_scaling(op: Layer) -> AccumulatorScaling:
    return AccumulatorScaling(
        contiguous_view(op.bias), op.x.zero_point, op.y.zero_point, *op.multipliers, *result_bounds(op)
    )


def _require_sizes(op: Op, window: ScratchWindow) -> None:
    if too_large := library_limits.sizes_beyond_limit(window.sizes):
        raise no_exact_kernel_error(
            op,
            f"sizes are at most {library_limits.LARGEST_SIDE}: the library holds them in 16 bits",
            f"{max(too_large)}, of {window}",
            "--kernels pillion, or write C: -o folder/",
        )


def _require_constants(op: Layer) -> None:
    for value in (op.weights, op.bias):
        if not value.is_constant:
            raise no_exact_kernel_error(op, "weights and bias are constants", repr(value))
    if op.weights.dtype is DType.INT4:
        rule = "weights of the cortex_m library have 8 bits; with --kernels pillion they may have 4"
        raise no_exact_kernel_error(op, rule, repr(op.weights), "--kernels pillion, or leave --max-flash out")
