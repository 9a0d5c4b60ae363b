# SPDX-License-Identifier: Apache-2.0
"""Resolves encoded geometry: padding, activations, axes, slices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice

from pillion.codecs.tflite.read_operator import ReadOperator
from pillion.ir.types import Pair, Shape, Sides, Value
from pillion.ops.lut_tflite import ACTIVATIONS, activation_levels
from pillion.schemas.tflite import Activation, Padding, StridedSliceOptions


def padding_sides(
    call: ReadOperator, code: int, image: Shape, kernel: Pair, stride: Pair, dilation: Pair
) -> Sides:
    """Returns the padding of SAME or VALID; the odd pixel of SAME is at the bottom or right."""
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
    """Returns the bounds of a fused activation; none in float."""
    if call.is_float:
        return {}
    name = Activation(code).name if code in Activation._value2member_map_ else f"number {code}"
    if name not in ACTIVATIONS:
        known = ", ".join(list(ACTIVATIONS)[:4])
        raise call.refuse(
            f"a fused activation is one of {known}", name, "an activation of its own behind the layer"
        )
    low, high = activation_levels(name, y.quant, y.dtype)
    return {"low": low, "high": high}


def axis_of(call: ReadOperator, axis: int, rank: int) -> int:
    """Returns an axis as a non-negative number."""
    if not -rank <= axis < rank:
        raise call.refuse(f"an axis is from {-rank} to {rank - 1}", axis)
    return axis % rank


def single_axis(call: ReadOperator, axes: Sequence[int], rank: int) -> int:
    """Returns the only one of some axes as a non-negative number."""
    if len(axes) != 1:
        raise call.refuse("there is one axis", list(axes))
    return axis_of(call, axes[0], rank)


def axes_in_order(call: ReadOperator) -> tuple[int, ...]:
    """Returns the axes in the second operand, in its order."""
    rank = call.operand(0).type.rank
    return tuple(axis_of(call, axis, rank) for axis in call.integers(1))


def sorted_axes(call: ReadOperator) -> tuple[int, ...]:
    """Returns the axes in the second operand, each once, in ascending order."""
    return tuple(sorted({*axes_in_order(call)}))


LARGEST_IMAGE = 2**15
"""The largest side of a resize: positions have 32 bits, 10 of which are fractional."""


def resized_shape(call: ReadOperator) -> Pair:
    """Returns the size of a resized image; the second operand may repeat it."""
    y = call.result
    if y.type.rank != 4:
        raise call.refuse(f"`{y.name}` has 4 axes", list(y.shape))
    size = (y.shape[1], y.shape[2])
    call.require_shape(1, size)
    if max(size) > LARGEST_IMAGE:
        raise call.refuse(f"an image has at most {LARGEST_IMAGE} rows and columns", size)
    return size


@dataclass(frozen=True)
class Strides:
    """A strided slice: begin, step and size of each axis, and the result's shape."""

    begin: tuple[int, ...]
    step: tuple[int, ...]
    sizes: tuple[int, ...]
    shape: Shape


def resolve_strided_slice(call: ReadOperator, shape: Shape, options: StridedSliceOptions) -> Strides:
    """Resolves the masks and negative positions of a strided slice."""
    begin, end, step = (call.integers(n) for n in (1, 2, 3))
    if options.offset and options.begin_mask | options.end_mask | options.new_axis_mask:
        raise call.refuse(
            "an end that counts from the begin has no masks of begin, end and new axes", options
        )
    named = [n for n in range(len(begin)) if not options.new_axis_mask >> n & 1]
    ellipses = [n for n in named if options.ellipsis_mask >> n & 1]
    missing = len(shape) - len(named) + len(ellipses)
    if not len(begin) == len(end) == len(step) or missing < 0 or len(ellipses) > 1:
        raise call.refuse("a slice names each axis at most once", f"{begin}, {end}, {step} of {shape}")
    if min((step[n] for n in named), default=1) < 1:
        raise call.refuse("steps are positive", step, "tf.reverse, then a slice with positive steps")
    left, axes, result = iter(shape), list[tuple[int, int, int]](), list[int]()
    for n in range(len(begin) + 1):  # the axes after the named ones are complete
        bit = 1 << n
        is_rest = n == len(begin)
        if is_rest or (options.ellipsis_mask & bit and not options.new_axis_mask & bit):
            complete = list(left if is_rest else islice(left, missing))
            axes += [(0, size, 1) for size in complete]
            result += complete
        elif options.new_axis_mask & bit:
            result.append(1)
        else:
            first, size = _resolve_axis_slice(call, options, n, next(left), begin[n], end[n], step[n])
            axes.append((first, size, step[n]))
            result += [] if options.shrink_axis_mask & bit else [size]
    starts, sizes, steps = zip(*axes, strict=True) if axes else ((), (), ())
    return Strides(starts, steps, sizes, tuple(result))


def _resolve_axis_slice(
    call: ReadOperator,
    options: StridedSliceOptions,
    position: int,
    size: int,
    begin: int,
    end: int,
    step: int,
) -> Pair:
    """Returns the first element and the number of elements of an axis."""
    bit = 1 << position
    first = 0 if options.begin_mask & bit else _clamp_position(begin, size)
    last = size if options.end_mask & bit else _clamp_position(begin + end if options.offset else end, size)
    if options.shrink_axis_mask & bit:
        last = first + 1
    if not 0 <= first < last <= size:
        raise call.refuse(
            f"a slice takes something of the {size} elements at place {position}", f"{begin} to {end}"
        )
    return first, -(-(last - first) // step)


def _clamp_position(position: int, size: int) -> int:
    """Returns a position counted from the start and clamped to the axis."""
    return min(max(position + size if position < 0 else position, 0), size)
