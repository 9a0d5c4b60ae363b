# SPDX-License-Identifier: Apache-2.0
"""Reads operators that only move data."""

from __future__ import annotations

from itertools import accumulate

import numpy as np

from pillion.codecs.tflite.geometry import axes_in_order, axis_of, strides
from pillion.codecs.tflite.read_operator import ReadOperator
from pillion.ir.op import Op
from pillion.ir.types import PerTensor, Shape, Value, constant
from pillion.ops.movement import Concat, Flip, Pad, Reshape, Slice
from pillion.schemas import tflite


def reshaped(call: ReadOperator, x: Value, shape: Shape) -> tuple[list[Op], Value]:
    """Returns an operand in another shape, and the ops that reshape it."""
    if x.shape == shape:
        return [], x
    y = call.intermediate("reshaped", shape, x)
    return [Reshape(x=x, y=y, source=call.source)], y


def shape_of(call: ReadOperator) -> list[Op]:
    """Reads a shape as a constant."""
    y, shape = call.result, call.operand(0).shape
    call.bind(y, constant(y.name, np.array(shape, np.int32)))
    return []


def concat(call: ReadOperator) -> list[Op]:
    """Reads a concatenation."""
    options, y = call.options_as(tflite.ConcatenationOptions), call.result
    if options.fused_activation:
        raise call.refuse(
            "a concatenation has no activation",
            options.fused_activation,
            "an activation of its own behind it",
        )
    xs = tuple(call.operand(number) for number in range(len(call.inputs)))
    if {x.type.rank for x in xs} != {y.type.rank}:
        raise call.refuse(f"operands have {y.type.rank} axes like the result", list(xs))
    return [Concat(xs=xs, y=y, axis=axis_of(call, options.axis, y.type.rank), source=call.source)]


def reshape(call: ReadOperator) -> list[Op]:
    """Reads a change of shape."""
    return [Reshape(x=call.operand(0), y=call.result, source=call.source)]


def reverse(call: ReadOperator) -> list[Op]:
    """Reads REVERSE_V2, elements in reverse order along axes."""
    return [Flip(x=call.operand(0), y=call.result, axes=axes_in_order(call), source=call.source)]


def pad(call: ReadOperator) -> list[Op]:
    """Reads a padding with zeros."""
    x, y = call.operand(0), call.result
    zero = y.zero_point if isinstance(y.type.quant, PerTensor) else 0
    return [_padded(call, x, y, zero)]


def padv2(call: ReadOperator) -> list[Op]:
    """Reads a padding with a given number."""
    x, y, fill = call.operand(0), call.result, call.constant(2)
    if fill.type.elements != 1 or (fill.dtype, fill.type.quant) != (y.dtype, y.type.quant):
        raise call.refuse("the fill is one number of the result's type and scale", repr(fill))
    return [_padded(call, x, y, fill.constant.ravel()[0].item())]


def _padded(call: ReadOperator, x: Value, y: Value, value: float) -> Op:
    pairs = call.integers(1)
    if len(pairs) != 2 * x.type.rank:
        raise call.refuse(f"paddings are {x.type.rank} pairs", pairs)
    return Pad(x=x, y=y, before=tuple(pairs[::2]), after=tuple(pairs[1::2]), value=value, source=call.source)


def slice(call: ReadOperator) -> list[Op]:
    """Reads a slice."""
    return [_cut(call, call.operand(0), call.result, tuple(call.integers(1)))]


def _cut(call: ReadOperator, x: Value, y: Value, begin: tuple[int, ...], step: tuple[int, ...] = ()) -> Op:
    return Slice(x=x, y=y, begin=begin, step=step or (1,) * x.type.rank, source=call.source)


def strided_slice(call: ReadOperator) -> list[Op]:
    """Reads a strided slice; axes of one index may be dropped."""
    x, y = call.operand(0), call.result
    taken = strides(call, x.shape, call.options_as(tflite.StridedSliceOptions))
    part = y if taken.sizes == y.shape else call.intermediate("part", taken.sizes, x)
    made = [_cut(call, x, part, taken.begin, taken.step)]
    return made if part is y else [*made, Reshape(x=part, y=y, source=call.source)]


def split(call: ReadOperator) -> list[Op]:
    """Reads a split into equal parts; the axis is the first operand."""
    x = call.operand(1)
    (axis,) = call.integers(0)
    return _parts(call, x, axis_of(call, axis, x.type.rank))


def split_v(call: ReadOperator) -> list[Op]:
    """Reads a split into parts of given sizes."""
    x = call.operand(0)
    (axis,) = call.integers(2)
    return _parts(call, x, axis_of(call, axis, x.type.rank))


def _parts(call: ReadOperator, x: Value, axis: int) -> list[Op]:
    """Returns consecutive slices along an axis."""
    ends = accumulate(y.shape[axis] for y in call.outputs)
    begins = (end - y.shape[axis] for y, end in zip(call.outputs, ends, strict=True))
    places = (tuple(at if i == axis else 0 for i in range(x.type.rank)) for at in begins)
    return [_cut(call, x, y, place) for y, place in zip(call.outputs, places, strict=True)]


def pack(call: ReadOperator) -> list[Op]:
    """Reads a stack: each operand gets a new axis, along which they are concatenated."""
    y = call.result
    axis = axis_of(call, call.options_as(tflite.PackOptions).axis, y.type.rank)
    shape = tuple(1 if i == axis else size for i, size in enumerate(y.shape))
    made = [reshaped(call, call.operand(n), shape) for n in range(len(call.inputs))]
    ops = [op for before, _ in made for op in before]
    return [*ops, Concat(xs=tuple(x for _, x in made), y=y, axis=axis, source=call.source)]


def unpack(call: ReadOperator) -> list[Op]:
    """Reads an unpacking: consecutive slices along an axis, which is then dropped."""
    x = call.operand(0)
    axis = axis_of(call, call.options_as(tflite.UnpackOptions).axis, x.type.rank)
    shape = tuple(1 if i == axis else size for i, size in enumerate(x.shape))
    ops: list[Op] = []
    for number, y in enumerate(call.outputs):
        part = call.intermediate("part", shape, x)
        ops.append(_cut(call, x, part, tuple(number if i == axis else 0 for i in range(x.type.rank))))
        ops.append(Reshape(x=part, y=y, source=call.source))
    return ops
