# SPDX-License-Identifier: Apache-2.0
"""TFLite operators that only move data."""

from __future__ import annotations

import numpy as np

from pillion.importers.tflite.geometry import axis_of, strides
from pillion.importers.tflite.model import ReadOperator
from pillion.ir.op import Op
from pillion.ir.types import PerTensor, Shape, Value, constant
from pillion.ops.movement import Concat, Flip, Pad, Reshape, Slice, Transpose
from pillion.schemas import tflite


def reshaped(call: ReadOperator, x: Value, shape: Shape) -> tuple[list[Op], Value]:
    """Gives the operand under another shape, and what makes it."""
    if x.shape == shape:
        return [], x
    y = call.intermediate("reshaped", shape, x)
    return [Reshape(x=x, y=y, source=call.source)], y


def shape_of(call: ReadOperator) -> list[Op]:
    """Reads the question for a shape: shapes are fixed, hence constants."""
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
    """Reads a reshape. The shape of the result says it all; the operand that says it too may be left out or computed."""
    call.want_shape(1, call.result.shape)
    return same_elements(call)


def same_elements(call: ReadOperator) -> list[Op]:
    """Reads a change of shape in which axes of one element come or go."""
    return [Reshape(x=call.operand(0), y=call.result, source=call.source)]


def transpose(call: ReadOperator) -> list[Op]:
    """Reads a transpose."""
    x = call.operand(0)
    order = tuple(axis_of(call, axis, x.type.rank) for axis in call.integers(1))
    return [Transpose(x=x, y=call.result, order=order, source=call.source)]


def reverse(call: ReadOperator) -> list[Op]:
    """Reads REVERSE_V2 as elements in reverse order along some axes."""
    x = call.operand(0)
    axes = tuple(axis_of(call, axis, x.type.rank) for axis in call.integers(1))
    return [Flip(x=x, y=call.result, axes=axes, source=call.source)]


def pad(call: ReadOperator) -> list[Op]:
    """Reads a pad with zeros."""
    x, y = call.operand(0), call.result
    zero = y.zero_point if isinstance(y.type.quant, PerTensor) else 0
    return [_padded(call, x, y, zero)]


def padv2(call: ReadOperator) -> list[Op]:
    """Reads a pad with a number of its own."""
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
    """Reads a slice. A size of -1 is the rest; what comes out is the shape of the result."""
    x, y, begin = call.operand(0), call.result, tuple(call.integers(1))
    sizes = call.integers(2)
    if not len(begin) == len(sizes) == x.type.rank:
        raise call.refuse(f"begin and size have {x.type.rank} numbers", f"{begin}, {sizes}")
    rest = tuple(d - b if size == -1 else size for d, b, size in zip(x.shape, begin, sizes, strict=True))
    if rest != y.shape:
        raise call.refuse(f"the result has the shape {rest}", list(y.shape))
    return [_cut(call, x, y, begin)]


def _cut(call: ReadOperator, x: Value, y: Value, begin: tuple[int, ...], step: tuple[int, ...] = ()) -> Op:
    return Slice(x=x, y=y, begin=begin, step=step or (1,) * x.type.rank, source=call.source)


def strided_slice(call: ReadOperator) -> list[Op]:
    """Reads a slice; axes of one index may go."""
    x, y = call.operand(0), call.result
    taken = strides(call, x.shape, call.options_as(tflite.StridedSliceOptions))
    part = y if taken.sizes == y.shape else call.intermediate("part", taken.sizes, x)
    made = [_cut(call, x, part, taken.begin, taken.step)]
    return made if part is y else [*made, Reshape(x=part, y=y, source=call.source)]


def split(call: ReadOperator) -> list[Op]:
    """Reads a split into equal parts; its first operand is the axis."""
    x = call.operand(1)
    (axis,) = call.integers(0) or [0]
    return _parts(call, x, axis_of(call, axis, x.type.rank))


def split_v(call: ReadOperator) -> list[Op]:
    """Reads a split into parts of given sizes."""
    x = call.operand(0)
    (axis,) = call.integers(2) or [0]
    return _parts(call, x, axis_of(call, axis, x.type.rank))


def _parts(call: ReadOperator, x: Value, axis: int) -> list[Op]:
    """One after another along an axis; the shapes of the results say how much each takes."""
    made: list[Op] = []
    at = 0
    for y in call.outputs:
        made.append(_cut(call, x, y, tuple(at if i == axis else 0 for i in range(x.type.rank))))
        at += y.shape[axis] if y.type.rank == x.type.rank else 0
    if at != x.shape[axis]:
        raise call.refuse(f"the parts have {x.shape[axis]} elements along axis {axis}", at)
    return made


def pack(call: ReadOperator) -> list[Op]:
    """Reads a stack of operands: each gets a new axis, along which they are put together."""
    y = call.result
    axis = axis_of(call, call.options_as(tflite.PackOptions).axis, y.type.rank)
    shape = tuple(1 if i == axis else size for i, size in enumerate(y.shape))
    made = [reshaped(call, call.operand(n), shape) for n in range(len(call.inputs))]
    ops = [op for before, _ in made for op in before]
    return [*ops, Concat(xs=tuple(x for _, x in made), y=y, axis=axis, source=call.source)]


def unpack(call: ReadOperator) -> list[Op]:
    """Reads an unpacking: one slice after another along an axis, which is then dropped."""
    x = call.operand(0)
    axis = axis_of(call, call.options_as(tflite.UnpackOptions).axis, x.type.rank)
    shape = tuple(1 if i == axis else size for i, size in enumerate(x.shape))
    if len(call.outputs) != x.shape[axis]:
        raise call.refuse(f"there are {x.shape[axis]} results", len(call.outputs))
    ops: list[Op] = []
    for number, y in enumerate(call.outputs):
        part = call.intermediate("part", shape, x)
        ops.append(_cut(call, x, part, tuple(number if i == axis else 0 for i in range(x.type.rank))))
        ops.append(Reshape(x=part, y=y, source=call.source))
    return ops
