# SPDX-License-Identifier: Apache-2.0
"""Rows for reductions: a sum is a convolution with ones, an extremum a pool over all that is reduced."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from pillion.devices.cortex_m import Isa
from pillion.emitters.pte.convolve import Sums, regular
from pillion.emitters.pte.elementwise import LEVELS, lookup
from pillion.emitters.pte.movement import transposed
from pillion.emitters.pte.node import KernelCall, Settings, View, data, ints, plain, refusal, temp
from pillion.emitters.pte.once import once, rounded_as_doubles
from pillion.emitters.pte.scratch import Window
from pillion.ir.numerics import INT8_STEPS, Arithmetic, Multiplier, multiply_once
from pillion.ops import Mean, ReduceMax, ReduceMin, ReduceSum

Reduction = Mean | ReduceSum | ReduceMax | ReduceMin


@dataclass(frozen=True)
class Axes:
    """The operand as [outer, count, inner], of which `count` is reduced."""

    calls: list[KernelCall]
    x: View
    outer: int
    count: int
    inner: int


def mean(op: Mean, settings: Settings) -> list[KernelCall]:
    """Gives the calls of a mean."""
    return _sum(op, op.multiplier(settings.arithmetic), settings)


def reduce_sum(op: ReduceSum, settings: Settings) -> list[KernelCall]:
    """Gives the calls of a sum over some axes."""
    m = op.multiplier
    if not settings.arithmetic.is_tflite:
        return _sum(op, m, settings)
    is_double = settings.arithmetic is Arithmetic.TFLITE
    least = op.count * (-128 - op.x.zero_point)
    found = once(
        np.array([op.ratio]),
        np.array([[least, least + op.count * INT8_STEPS]]),
        op.y.zero_point,
        lambda sums: rounded_as_doubles(sums, np.array(op.ratio)) if is_double else multiply_once(sums, m),
    )
    if found is None:
        raise refusal(
            op,
            "sums are requantized with a fixed-point multiplier",
            f"`{settings.arithmetic.value}` arithmetic rounds once, which no multiplier does for {op.attributes}",
            "--arithmetic cmsis-nn, or write C: -o folder/",
        )
    multiplier = Multiplier(int(found.mantissas[0]), int(found.shifts[0]))
    return _sum(op, multiplier, settings, int(found.added[0]), found.lift)


def _sum(
    op: Mean | ReduceSum, m: Multiplier, settings: Settings, added: int = 0, lift: int = 0
) -> list[KernelCall]:
    """What is `added` to a sum is taken from the result as the `lift`."""
    if m.shift < -31:
        raise refusal(
            op,
            "the scale of a sum is at least 2^-32",
            op.attributes,
            "reduce fewer elements at once, or write C: -o folder/",
        )
    axes = _side_by_side(op, settings.isa)
    if axes.inner == 1:
        window = Window(1, (axes.outer, 1), axes.count, (axes.outer, 1), 1, (1, 1))
    else:
        window = Window(axes.outer, (axes.count, axes.inner), 1, (1, axes.inner), 1, (axes.count, 1))
    x = axes.x.image(window.batch, *window.image, window.in_channels)
    y = plain(op.y).image(window.batch, *window.result, 1)
    ones = data(np.ones((1, *window.kernel, window.in_channels), np.int8))
    zero_points = op.x.zero_point, op.y.zero_point - lift
    sums = Sums(ints([added]), *zero_points, [m.mantissa], [m.shift], -128, 127)
    return [*axes.calls, regular(op, settings, window, x, ones, sums, y)]


def reduce_max(op: ReduceMax, settings: Settings) -> list[KernelCall]:
    """Gives the calls of a maximum over some axes."""
    axes = _side_by_side(op, settings.isa)
    return [*axes.calls, _largest(axes, plain(op.y), op.y.zero_point)]


def reduce_min(op: ReduceMin, settings: Settings) -> list[KernelCall]:
    """Gives the calls of a minimum over some axes. The smallest is the largest of the mirror images; -1 - q mirrors all int8
    levels."""
    axes = _side_by_side(op, settings.isa)
    mirrored, y = temp(axes.x.sizes), plain(op.y)
    invert = np.invert(LEVELS)
    pool = _largest(axes, y, op.y.zero_point, mirrored)
    return [*axes.calls, lookup(axes.x, invert, mirrored), pool, lookup(y, invert, y)]


def _largest(axes: Axes, y: View, zero_point: int, x: View | None = None) -> KernelCall:
    image = (x or axes.x).image(axes.outer, axes.count, 1, axes.inner)
    window = ((axes.count, 1), (1, 1), (0, 0), (1, 1), False)
    args = (image, *window, zero_point, zero_point, -128, 127)
    return KernelCall("cortex_m::quantized_max_pool2d.out", args, y.image(axes.outer, 1, 1, axes.inner))


def _side_by_side(op: Reduction, isa: Isa) -> Axes:
    """The operand with the reduced axes as neighbours, transposed if need be."""
    if not op.axes or op.count == 0:
        raise refusal(op, "at least one element is reduced", f"axes {op.axes} of {list(op.x.shape)}")
    x, axes = plain(op.x), sorted(op.axes)
    kept = [a for a in range(op.x.type.rank) if a not in axes]
    calls: list[KernelCall] = []
    if any(axes[0] < a < axes[-1] and x.sizes[a] != 1 for a in kept):
        moved = temp(tuple(x.sizes[a] for a in (*kept, *axes)), x.dtype)
        calls = transposed(x, (*kept, *axes), moved, isa)
        return Axes(calls, moved, op.y.type.elements, op.count, 1)
    outer = math.prod(x.sizes[a] for a in kept if a < axes[0])
    return Axes(calls, x, outer, op.count, op.y.type.elements // max(outer, 1))
