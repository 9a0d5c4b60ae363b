# SPDX-License-Identifier: Apache-2.0
"""Rows for reductions: a sum is a convolution with ones, an extremum a pool over the reduced elements."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np

from pillion.devices.cortex_m import Isa
from pillion.emitters.pte import library_limits, scratch
from pillion.emitters.pte.conv import AccumulatorScaling, depthwise_conv_call, regular_conv_call
from pillion.emitters.pte.elementwise import LEVELS, lookup
from pillion.emitters.pte.movement import transposition_calls
from pillion.emitters.pte.node import (
    KernelCall,
    NodeView,
    PteSettings,
    constant_view,
    contiguous_view,
    int_vector,
    no_exact_kernel_error,
    temporary_tensor,
)
from pillion.emitters.pte.scratch import ScratchWindow
from pillion.emitters.pte.single_rounding import find_single_rounding, rounded_as_doubles
from pillion.ir.numerics import INT8_STEPS, Arithmetic, Multiplier, multiply_single_rounding
from pillion.ops import Mean, ReduceMax, ReduceMin, ReduceSum

FEWEST_CHANNELS = {Isa.MVE: 64, Isa.DSP: 8}
"""The channels from which on a sum over pixels is a depthwise convolution."""
MOST_ONES = 4096
"""The most bytes of its weights."""

Reduction = Mean | ReduceSum | ReduceMax | ReduceMin


@dataclass(frozen=True)
class ReducedAxes:
    """The operand as [outer, count, inner]; `count` is the reduced axis."""

    calls: list[KernelCall]
    x: NodeView
    outer: int
    count: int
    inner: int


def mean(op: Mean, settings: PteSettings) -> list[KernelCall]:
    """Returns the calls of a mean."""
    return _reduce_sum_calls(op, op.multiplier(settings.arithmetic), settings)


def reduce_sum(op: ReduceSum, settings: PteSettings) -> list[KernelCall]:
    """Returns the calls of a sum over axes."""
    m = op.multiplier
    if not settings.arithmetic.is_tflite:
        return _reduce_sum_calls(op, m, settings)
    is_double = settings.arithmetic is Arithmetic.TFLITE
    least = op.count * (-128 - op.x.zero_point)
    solution = find_single_rounding(
        np.array([op.ratio]),
        np.array([[least, least + op.count * INT8_STEPS]]),
        op.y.zero_point,
        lambda sums: (
            rounded_as_doubles(sums, np.array(op.ratio)) if is_double else multiply_single_rounding(sums, m)
        ),
    )
    if solution is None:
        raise no_exact_kernel_error(
            op,
            "sums are requantized with a fixed-point multiplier",
            f"`{settings.arithmetic.value}` arithmetic rounds once, which no multiplier does for {op.attributes}",
            "--arithmetic cmsis-nn, --kernels pillion, or write C: -o folder/",
        )
    multiplier = Multiplier(int(solution.mantissas[0]), int(solution.shifts[0]))
    return _reduce_sum_calls(op, multiplier, settings, int(solution.added[0]), solution.lift)


def _reduce_sum_calls(
    op: Mean | ReduceSum, m: Multiplier, settings: PteSettings, added: int = 0, lift: int = 0
) -> list[KernelCall]:
    """Returns the calls of a sum; `added` is added to the sum before and `lift` subtracted from the result
    after the requantization."""
    if m.shift < -31:
        raise no_exact_kernel_error(
            op,
            "the scale of a sum is at least 2^-32",
            op.attributes,
            "reduce fewer elements at once, --kernels pillion, or write C: -o folder/",
        )
    axes = _with_adjacent_axes(op, settings.isa)
    depthwise = _depthwise_window(axes)
    is_depthwise = _is_depthwise_better(depthwise, settings.isa)
    channels = axes.inner if is_depthwise else 1
    zero_points = op.x.zero_point, op.y.zero_point - lift
    bias, mantissas, shifts = ([number] * channels for number in (added, m.mantissa, m.shift))
    sums = AccumulatorScaling(int_vector(bias), *zero_points, mantissas, shifts, -128, 127)
    ones, y = constant_view(np.ones(axes.count * channels, np.int8)), contiguous_view(op.y)
    if is_depthwise:
        return [*axes.calls, depthwise_conv_call(op, settings, depthwise, axes.x, ones, sums, y)]
    axes = _move_axes_innermost(axes, settings.isa)
    window = ScratchWindow(1, (axes.outer, axes.inner), axes.count, (axes.outer, axes.inner), 1, (1, 1))
    return [*axes.calls, regular_conv_call(op, settings, window, axes.x, ones, sums, y)]


def _depthwise_window(axes: ReducedAxes) -> ScratchWindow:
    """Returns the window of a sum as a depthwise convolution, for 9 elements as 3x3, which DSP has a kernel for."""
    if (axes.outer, axes.count) == (1, 9):
        return ScratchWindow(1, (3, 3), axes.inner, (1, 1), axes.inner, (3, 3))
    row = (1, axes.count)
    return ScratchWindow(1, (axes.outer, axes.count), axes.inner, (axes.outer, 1), axes.inner, row, row)


def _is_depthwise_better(window: ScratchWindow, isa: Isa) -> bool:
    """Whether a depthwise convolution takes fewer instructions than a transposition and a 1x1 convolution, for few
    constants, and for at most twice the operand's memory."""
    ones = math.prod(window.kernel) * window.in_channels
    operand = math.prod(window.image) * window.in_channels
    return (
        isa in FEWEST_CHANNELS
        and window.in_channels >= FEWEST_CHANNELS[isa]
        and ones <= MOST_ONES
        and scratch.depthwise_conv2d_scratch_bytes(window, isa) <= 2 * operand
        and not library_limits.sizes_beyond_limit(window.sizes)
    )


def reduce_max(op: ReduceMax, settings: PteSettings) -> list[KernelCall]:
    """Returns the calls of a maximum over axes."""
    axes = _with_adjacent_axes(op, settings.isa)
    return [*axes.calls, _max_call(axes, contiguous_view(op.y), op.y.zero_point)]


def reduce_min(op: ReduceMin, settings: PteSettings) -> list[KernelCall]:
    """Returns the calls of a minimum over axes, as the maximum of the mirrored numbers -1 - q."""
    axes = _with_adjacent_axes(op, settings.isa)
    mirrored, y = temporary_tensor(axes.x.sizes), contiguous_view(op.y)
    invert = np.invert(LEVELS)
    pool = _max_call(axes, y, op.y.zero_point, mirrored)
    return [*axes.calls, lookup(axes.x, invert, mirrored), pool, lookup(y, invert, y)]


def _max_call(axes: ReducedAxes, y: NodeView, zero_point: int, x: NodeView | None = None) -> KernelCall:
    image = (x or axes.x).image(axes.outer, axes.count, 1, axes.inner)
    window = ((axes.count, 1), (1, 1), (0, 0), (1, 1), False)
    args = (image, *window, zero_point, zero_point, -128, 127)
    return KernelCall("cortex_m::quantized_max_pool2d.out", args, y.image(axes.outer, 1, 1, axes.inner))


def _move_axes_innermost(axes: ReducedAxes, isa: Isa) -> ReducedAxes:
    """Moves the reduced axes to the end, for the 1x1 kernel, which reads adjacent elements. Transposing and
    adding takes a fifth of the instructions (DSP) or a tenth (Helium) of a one-column window."""
    if axes.inner == 1:
        return axes
    moved = temporary_tensor((axes.outer, axes.inner, axes.count), axes.x.dtype)
    x = axes.x.reshaped(axes.outer, axes.count, axes.inner)
    return replace(axes, calls=[*axes.calls, *transposition_calls(x, (0, 2, 1), moved, isa)], x=moved)


def _with_adjacent_axes(op: Reduction, isa: Isa) -> ReducedAxes:
    """Returns the operand with adjacent reduced axes, transposed if necessary."""
    if not op.axes or op.count == 0:
        raise no_exact_kernel_error(
            op, "at least one element is reduced", f"axes {op.axes} of {list(op.x.shape)}"
        )
    x, axes = contiguous_view(op.x), sorted(op.axes)
    other_axes = [a for a in range(op.x.type.rank) if a not in axes]
    calls: list[KernelCall] = []
    if any(axes[0] < a < axes[-1] and x.sizes[a] != 1 for a in other_axes):
        moved = temporary_tensor(tuple(x.sizes[a] for a in (*other_axes, *axes)), x.dtype)
        calls = transposition_calls(x, (*other_axes, *axes), moved, isa)
        return ReducedAxes(calls, moved, op.y.type.elements, op.count, 1)
    outer = math.prod(x.sizes[a] for a in other_axes if a < axes[0])
    return ReducedAxes(calls, x, outer, op.count, op.y.type.elements // max(outer, 1))
