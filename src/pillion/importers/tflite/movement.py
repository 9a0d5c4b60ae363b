# SPDX-License-Identifier: Apache-2.0
"""Reads operators that only move data."""

from __future__ import annotations

import numpy as np

from pillion.codecs.tflite.geometry import axes_in_order, axis_of, strides
from pillion.codecs.tflite.read_operator import ReadOperator
from pillion.importers.tflite.op_chain import OpChain
from pillion.ir.op import Op
from pillion.ir.types import PerTensor, Value, constant
from pillion.ops.movement import Concat, Flip, Pad, Reshape, Slice
from pillion.schemas import tflite


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
    return [_pad_op(call, x, y, zero)]


def padv2(call: ReadOperator) -> list[Op]:
    """Reads a padding with a given number."""
    x, y, fill = call.operand(0), call.result, call.constant(2)
    if fill.type.elements != 1 or (fill.dtype, fill.type.quant) != (y.dtype, y.type.quant):
        raise call.refuse("the fill is one number of the result's type and scale", repr(fill))
    return [_pad_op(call, x, y, fill.constant.ravel()[0].item())]


def _pad_op(call: ReadOperator, x: Value, y: Value, value: float) -> Op:
    pairs = call.integers(1)
    if len(pairs) != 2 * x.type.rank:
        raise call.refuse(f"paddings are {x.type.rank} pairs", pairs)
    return Pad(x=x, y=y, before=tuple(pairs[::2]), after=tuple(pairs[1::2]), value=value, source=call.source)


def slice(call: ReadOperator) -> list[Op]:
    """Reads a slice."""
    chain, y = OpChain(call), call.result
    chain.slice(call.operand(0), tuple(call.integers(1)), y.shape, y)
    return chain.ops


def strided_slice(call: ReadOperator) -> list[Op]:
    """Reads a strided slice; axes of one index may be dropped."""
    x, y, chain = call.operand(0), call.result, OpChain(call)
    taken = strides(call, x.shape, call.options_as(tflite.StridedSliceOptions))
    is_whole = taken.sizes == y.shape
    part = chain.add(
        Slice, y if is_whole else "part", taken.sizes, x, x=x, begin=taken.begin, step=taken.step
    )
    if not is_whole:
        chain.reshape(part, y.shape, y)
    return chain.ops


def split(call: ReadOperator) -> list[Op]:
    """Reads a split into equal parts; the axis is the first operand."""
    x = call.operand(1)
    (axis,) = call.integers(0)
    return _consecutive_slices(call, x, axis_of(call, axis, x.type.rank))


def split_v(call: ReadOperator) -> list[Op]:
    """Reads a split into parts of given sizes."""
    x = call.operand(0)
    (axis,) = call.integers(2)
    return _consecutive_slices(call, x, axis_of(call, axis, x.type.rank))


def _consecutive_slices(call: ReadOperator, x: Value, axis: int) -> list[Op]:
    """Returns consecutive slices along an axis."""
    chain, begin = OpChain(call), 0
    for y in call.outputs:
        chain.cut(x, axis, begin, y.shape[axis], y)
        begin += y.shape[axis]
    return chain.ops


def pack(call: ReadOperator) -> list[Op]:
    """Reads a stack: each operand gets a new axis, along which they are concatenated."""
    y, chain = call.result, OpChain(call)
    axis = axis_of(call, call.options_as(tflite.PackOptions).axis, y.type.rank)
    shape = tuple(1 if i == axis else size for i, size in enumerate(y.shape))
    chain.concat([chain.reshape(call.operand(n), shape) for n in range(len(call.inputs))], axis, y)
    return chain.ops


def unpack(call: ReadOperator) -> list[Op]:
    """Reads an unpacking: consecutive slices along an axis, which is then dropped."""
    x, chain = call.operand(0), OpChain(call)
    axis = axis_of(call, call.options_as(tflite.UnpackOptions).axis, x.type.rank)
    for number, y in enumerate(call.outputs):
        chain.reshape(chain.cut(x, axis, number, 1), y.shape, y)
    return chain.ops
