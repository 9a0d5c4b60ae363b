# SPDX-License-Identifier: Apache-2.0
"""Reads operators that only move data."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from pillion.codecs.tflite.geometry import axes_in_order, axis_of, resolve_strided_slice, single_axis
from pillion.codecs.tflite.read_operator import ReadOperator
from pillion.importers.tflite.op_chain import OpChain, as_constant
from pillion.ir.op import Op
from pillion.ir.types import PerTensor, Shape, Value
from pillion.ops.movement import Concat, Flip, Pad, Reshape, Slice
from pillion.schemas import tflite


def shape_of(call: ReadOperator) -> list[Op]:
    """Reads a shape as a constant."""
    return as_constant(call, np.array(call.operand(0).shape, np.int32))


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
    """Reads a change to the shape in the second operand, or in the options if that is omitted; one size may be -1."""
    options = call.options_as(tflite.ReshapeOptions)
    sizes = call.integers(1) if call.optional(1) is not None else list(options.new_shape)
    elements, known = call.operand(0).type.elements, math.prod(n for n in sizes if n != -1)
    if sizes.count(-1) > 1 or min(sizes, default=1) < -1 or (-1 in sizes and (not known or elements % known)):
        raise call.refuse(f"a shape for {elements} elements", sizes)
    return _reshape_ops(call, tuple(elements // known if n == -1 else n for n in sizes))


def squeeze(call: ReadOperator) -> list[Op]:
    """Reads a shape without some or all axes of size 1."""
    shape = call.operand(0).shape
    axes = {axis_of(call, a, len(shape)) for a in call.options_as(tflite.SqueezeOptions).squeeze_dims}
    if any(shape[axis] != 1 for axis in axes):
        raise call.refuse("only axes of size 1 are dropped", f"{sorted(axes)} of {list(shape)}")
    left = (n for axis, n in enumerate(shape) if n != 1 or (axes and axis not in axes))
    return _reshape_ops(call, tuple(left))


def expand_dims(call: ReadOperator) -> list[Op]:
    """Reads a shape with another axis of size 1."""
    shape = call.operand(0).shape
    axis = single_axis(call, call.integers(1), len(shape) + 1)
    return _reshape_ops(call, (*shape[:axis], 1, *shape[axis:]))


def _reshape_ops(call: ReadOperator, shape: Shape) -> list[Op]:
    return [Reshape(x=call.operand(0), y=call.result_of_shape(shape), source=call.source)]


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
    x, begin, sizes, chain = call.operand(0), call.integers(1), call.integers(2), OpChain(call)
    if not len(begin) == len(sizes) == x.type.rank:
        raise call.refuse(f"begin and size have {x.type.rank} numbers", f"{begin}, {sizes}")
    taken = tuple(d - b if n == -1 else n for d, b, n in zip(x.shape, begin, sizes, strict=True))
    if any(b < 0 or n < 1 or b + n > d for d, b, n in zip(x.shape, begin, taken, strict=True)):
        raise call.refuse(f"the slice lies inside {list(x.shape)}", f"{begin}, {sizes}")
    chain.slice(x, tuple(begin), taken, call.result)
    return chain.ops


def strided_slice(call: ReadOperator) -> list[Op]:
    """Reads a strided slice; axes of one index may be dropped."""
    x, chain = call.operand(0), OpChain(call)
    taken = resolve_strided_slice(call, x.shape, call.options_as(tflite.StridedSliceOptions))
    y = call.result_of_shape(taken.shape)
    is_whole = taken.sizes == y.shape
    part = chain.add(
        Slice, y if is_whole else "part", taken.sizes, x, x=x, begin=taken.begin, step=taken.step
    )
    if not is_whole:
        chain.reshape(part, y.shape, y)
    return chain.ops


def split(call: ReadOperator) -> list[Op]:
    """Reads a split into equal parts; the axis is the first operand."""
    x, count = call.operand(1), call.options_as(tflite.SplitOptions).num_splits
    axis = single_axis(call, call.integers(0), x.type.rank)
    if count < 1 or x.shape[axis] % count:
        raise call.refuse(f"axis {axis} has equal parts", f"{list(x.shape)} in {count} parts")
    return _consecutive_slices(call, x, axis, [x.shape[axis] // count] * count)


def split_v(call: ReadOperator) -> list[Op]:
    """Reads a split into parts of given sizes."""
    x, sizes = call.operand(0), call.constant(1).constant.ravel().tolist()
    axis = single_axis(call, call.integers(2), x.type.rank)
    rest = x.shape[axis] - sum(n for n in sizes if n != -1)
    if len(sizes) != call.options_as(tflite.SplitVOptions).num_splits:
        raise call.refuse("there are as many sizes as parts", sizes)
    if sizes.count(-1) > 1 or min(sizes, default=0) < -1 or rest < 0 or (rest and -1 not in sizes):
        raise call.refuse(f"the parts have {x.shape[axis]} elements along axis {axis}", sizes)
    return _consecutive_slices(call, x, axis, [rest if n == -1 else n for n in sizes])


def _consecutive_slices(call: ReadOperator, x: Value, axis: int, sizes: Sequence[int]) -> list[Op]:
    """Returns consecutive slices along an axis."""
    chain, begin = OpChain(call), 0
    for y, size in zip(_require_result_count(call, len(sizes)), sizes, strict=True):
        chain.cut(x, axis, begin, size, y)
        begin += size
    return chain.ops


def _require_result_count(call: ReadOperator, count: int) -> tuple[Value, ...]:
    if len(call.outputs) != count:
        raise call.refuse(f"there are {count} results", len(call.outputs))
    return call.outputs


def pack(call: ReadOperator) -> list[Op]:
    """Reads a stack: each operand gets a new axis, along which they are concatenated."""
    options, chain = call.options_as(tflite.PackOptions), OpChain(call)
    xs, shape = [call.operand(n) for n in range(len(call.inputs))], call.operand(0).shape
    if options.values_count != len(xs) or any(x.shape != shape for x in xs):
        raise call.refuse(f"there are {options.values_count} operands of one shape", xs)
    axis = axis_of(call, options.axis, len(shape) + 1)
    wide = (*shape[:axis], 1, *shape[axis:])
    chain.concat([chain.reshape(x, wide) for x in xs], axis, call.result)
    return chain.ops


def unpack(call: ReadOperator) -> list[Op]:
    """Reads an unpacking: consecutive slices along an axis, which is then dropped."""
    x, options, chain = call.operand(0), call.options_as(tflite.UnpackOptions), OpChain(call)
    axis = axis_of(call, options.axis, x.type.rank)
    if options.num != x.shape[axis]:
        raise call.refuse(f"there are {x.shape[axis]} results", options.num)
    shape = (*x.shape[:axis], *x.shape[axis + 1 :])
    for number, y in enumerate(_require_result_count(call, options.num)):
        chain.reshape(chain.cut(x, axis, number, 1), shape, y)
    return chain.ops
