# SPDX-License-Identifier: Apache-2.0
"""What the file says in codes, in numbers: padding, activations, slices."""

from __future__ import annotations

from dataclasses import dataclass

from pillion.importers.tflite.model import ReadOperator
from pillion.ir.types import Pair, Shape, Sides, Value
from pillion.ops.lut_tflite import ACTIVATIONS, activation_levels
from pillion.schemas.tflite import Activation, Padding, StridedSliceOptions


def sides(call: ReadOperator, code: int, image: Shape, kernel: Pair, stride: Pair, dilation: Pair) -> Sides:
    """Gives the padding of SAME: as many windows as strides fit the image, the odd pixel below and to the right."""
    if min(*kernel, *stride, *dilation) < 1 or len(image) != 4:
        raise call.refuse(
            "an image has four axes; kernel, stride and dilation are positive",
            f"{image}, {kernel}, {stride}, {dilation}",
        )
    if code == Padding.VALID:
        return (0, 0, 0, 0)
    if code != Padding.SAME:
        raise call.refuse("padding is SAME or VALID", code)
    totals = [
        max((-(-size // s) - 1) * s + d * (k - 1) + 1 - size, 0)
        for size, k, s, d in zip(image[1:3], kernel, stride, dilation, strict=True)
    ]
    top, left = (total // 2 for total in totals)
    return top, left, totals[0] - top, totals[1] - left


def levels(call: ReadOperator, y: Value, code: int) -> dict[str, int]:
    """Gives the bounds that a fused activation puts on the result."""
    name = Activation(code).name if code in Activation._value2member_map_ else f"number {code}"
    if name not in ACTIVATIONS:
        known = ", ".join(list(ACTIVATIONS)[:4])
        raise call.refuse(
            f"a fused activation is one of {known}", name, "an activation of its own behind the layer"
        )
    low, high = activation_levels(name, y.quant)
    return {"low": low, "high": high}


def axis_of(call: ReadOperator, axis: int, rank: int) -> int:
    """Gives an axis by its number, which may be counted from the end."""
    if not -rank <= axis < rank:
        raise call.refuse(f"an axis is from {-rank} to {rank - 1}", axis)
    return axis % rank


@dataclass(frozen=True)
class Strides:
    """A strided slice: where it begins, its steps, and how many elements it takes, axis by axis."""

    begin: tuple[int, ...]
    step: tuple[int, ...]
    sizes: tuple[int, ...]


def strides(call: ReadOperator, shape: Shape, options: StridedSliceOptions) -> Strides:
    """Resolves masks and negative positions of a strided slice."""
    begin, end, step = (call.integers(n) for n in (1, 2, 3))
    if (
        options.ellipsis_mask
        or options.new_axis_mask
        or not len(begin) == len(end) == len(step) == len(shape)
    ):
        raise call.refuse("a slice names every axis once", f"{begin}, {end}, {step} of {shape}")
    if min(step, default=1) < 1:
        raise call.refuse("steps are positive", step, "tf.reverse, then a slice with positive steps")
    axes = [_axis(call, options, *a) for a in zip(range(len(shape)), shape, begin, end, step, strict=True)]
    return Strides(tuple(a for a, _ in axes), tuple(step), tuple(n for _, n in axes))


def _axis(
    call: ReadOperator, options: StridedSliceOptions, axis: int, size: int, begin: int, end: int, step: int
) -> Pair:
    """First element and number of elements."""
    bit = 1 << axis
    first = 0 if options.begin_mask & bit else _inside(begin, size)
    last = size if options.end_mask & bit else _inside(begin + end if options.offset else end, size)
    if options.shrink_axis_mask & bit:
        last = first + 1
    if not 0 <= first < last <= size:
        raise call.refuse(
            f"a slice takes something of the {size} elements of axis {axis}", f"{begin} to {end}"
        )
    return first, -(-(last - first) // step)


def _inside(position: int, size: int) -> int:
    """Counted from the end where negative, and not beyond either end."""
    return min(max(position + size if position < 0 else position, 0), size)
