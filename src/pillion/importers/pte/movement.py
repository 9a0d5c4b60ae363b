# SPDX-License-Identifier: Apache-2.0
"""Reads kernels that only move elements."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pillion.importers.pte.instructions import ReadCall
from pillion.importers.pte.steps import SameScaleStep
from pillion.importers.pte.tensor import ReadTensor
from pillion.ir.types import DType, Shape
from pillion.ops import Concat, Pad, Slice, Transpose

MOST_AXES = 4
"""The most axes of the library's pad."""


def _record_move(call: ReadCall, make: Any, x: ReadTensor, shape: Shape, **fields: Any) -> ReadTensor:
    """Records a copy of a part of a tensor, or of all of it in another order, and returns it."""
    if x.is_constant:
        raise call.refuse("what is moved is no constant", x.shape)
    y = call.make(shape, x.dtype, x.label)
    call.reader.add(SameScaleStep(call.source, make, ("x",), (x,), y, fields))
    return y


def _non_negative_axis(call: ReadCall, rank: int, axis: int | None = None) -> int:
    """Returns the argument `axis`, or the given one, as a non-negative number."""
    axis = call.number("axis") if axis is None else axis
    if not -rank <= axis < rank:
        raise call.refuse(f"an axis is from {-rank} to {rank - 1}", axis)
    return axis % rank


def read_view(call: ReadCall) -> None:
    """Reads a reshape."""
    _require_result_sizes(call, call.integers("sizes"))
    read_memory_copy(call)


def _require_result_sizes(call: ReadCall, declared: tuple[int, ...]) -> None:
    """Raises unless the call gives the result's sizes; -1 matches any."""
    sizes = call.out.sizes
    if len(declared) != len(sizes) or any(n not in (-1, d) for n, d in zip(declared, sizes, strict=True)):
        raise call.refuse(f"the result has sizes {sizes}", declared)


def read_squeeze(call: ReadCall) -> None:
    """Reads a reshape that drops axes of size 1."""
    sizes = call.view("x").sizes
    gone = {_non_negative_axis(call, len(sizes), axis) for axis in call.integers("axes")}
    _require_result_sizes(call, tuple(d for axis, d in enumerate(sizes) if axis not in gone or d != 1))
    read_memory_copy(call)


def read_unsqueeze(call: ReadCall) -> None:
    """Reads a reshape that adds an axis of size 1."""
    sizes = call.view("x").sizes
    at = _non_negative_axis(call, len(sizes) + 1)
    _require_result_sizes(call, (*sizes[:at], 1, *sizes[at:]))
    read_memory_copy(call)


def read_memory_copy(call: ReadCall) -> None:
    """Reads a copy of memory."""
    x = call.view("x").tensor
    if x.is_constant:
        raise call.refuse("what is copied is no constant", x.shape)
    y = call.make(call.out.memory_shape, x.dtype, x.label)
    call.reader.copy(x, y, call.source)


def change_dim_order(call: ReadCall) -> None:
    """Reads a change of the dim order."""
    view, out = call.view("x"), call.out
    if view.tensor.dtype is not out.dtype or view.sizes != out.sizes:
        raise call.refuse(
            "type and sizes stay", (view.tensor.dtype.value, out.dtype.value, view.sizes, out.sizes)
        )
    if "order" in call.numbers and not call.is_null("order") and call.integers("order") != out.order:
        raise call.refuse(f"the order of the result is {out.order}", call.integers("order"))
    order = tuple(view.order.index(axis) for axis in out.order)
    _record_move(call, Transpose, view.tensor, out.memory_shape, order=order)


def transpose(call: ReadCall) -> None:
    """Reads a transposition. The kernels assume contiguous tensors; the library's always exchanges two
    axes."""
    x, order = call.plain("x"), call.integers("order")
    rank = len(x.shape)
    if not all(-rank <= axis < rank for axis in order):
        raise call.refuse(f"an order of {rank} axes", order)
    _record_transpose(call, x, tuple(axis % rank for axis in order))


def transpose_two(call: ReadCall) -> None:
    """Reads an exchange of two axes."""
    x = call.plain("x")
    order = list(range(len(x.shape)))
    first, second = (
        _non_negative_axis(call, len(order)),
        _non_negative_axis(call, len(order), call.number("other_axis")),
    )
    order[first], order[second] = second, first
    _record_transpose(call, x, tuple(order))


def _record_transpose(call: ReadCall, x: ReadTensor, order: tuple[int, ...]) -> None:
    if sorted(order) != list(range(len(x.shape))):
        raise call.refuse(f"an order of {len(x.shape)} axes", order)
    if order == (0, 1) and call.operator.startswith("cortex_m"):
        raise call.refuse("two axes are always exchanged by this kernel", order)
    shape = tuple(x.shape[axis] for axis in order)
    if call.contiguous_out_shape != shape:
        raise call.refuse(f"the result has sizes {shape}", call.contiguous_out_shape)
    _record_move(call, Transpose, x, shape, order=order)


def pad(call: ReadCall) -> None:
    """Reads a padding. Paddings are four, in memory order; a tensor of fewer axes has the last ones. The
    kernel takes a contiguous tensor for an image if certain sizes are 1."""
    view = call.view("x")
    rank = len(view.sizes)
    if not 1 <= rank <= MOST_AXES or not (view.is_contiguous or view.is_image):
        raise call.refuse("an image, or a contiguous tensor", (view.sizes, view.order))
    x = call.shaped(view.tensor, view.image_shape) if view.is_image else call.plain("x")
    before, after = call.integers("before", MOST_AXES), call.integers("after", MOST_AXES)
    if min(*before, *after) < 0 or any(before[:-rank]) or any(after[:-rank]):
        raise call.refuse(f"paddings are of {rank} axes, none negative", (before, after))
    _record_pad(call, call.int8(x), before[-rank:], after[-rank:], call.number("value"))
    padded = tuple(b + size + a for b, size, a in zip(before[-rank:], x.shape, after[-rank:], strict=True))
    if (call.out_image if view.is_image else call.contiguous_out_shape) != padded:
        rule = f"the result has sizes {padded} in memory"
        raise call.refuse(rule, f"{call.out.sizes} in order {call.out.order}")


def constant_pad(call: ReadCall) -> None:
    """Reads a padding in ATen's form, whose list begins with the last axis."""
    x, listed = call.plain("x"), call.integers("sides")
    rank = len(x.shape)
    if len(listed) % 2 or len(listed) > 2 * rank or min(listed, default=0) < 0:
        raise call.refuse(f"paddings of at most {rank} axes, none negative", listed)
    before, after = [0] * rank, [0] * rank
    for number in range(len(listed) // 2):
        before[rank - 1 - number], after[rank - 1 - number] = listed[2 * number : 2 * number + 2]
    is_real = x.dtype is DType.FLOAT32
    _record_pad(call, x, tuple(before), tuple(after), call.real("value") if is_real else call.number("value"))


def _record_pad(
    call: ReadCall, x: ReadTensor, before: tuple[int, ...], after: tuple[int, ...], value: float
) -> None:
    shape = tuple(b + size + a for b, size, a in zip(before, x.shape, after, strict=True))
    _record_move(call, Pad, x, shape, before=before, after=after, value=value)


def cat(call: ReadCall) -> None:
    """Reads a concatenation; the kernel assumes contiguous tensors."""
    views = call.views("xs")
    rank = len(call.contiguous_out_shape)
    if not all(view.is_contiguous and len(view.sizes) == rank for view in views) or not rank:
        raise call.refuse(
            f"all tensors are contiguous, of {rank} axes", [(v.sizes, v.order) for v in views[:4]]
        )
    xs = tuple(call.shaped(view.tensor, view.sizes) for view in views)
    active = next((x for x in xs if not x.is_constant), None)
    if active is None or len({x.dtype for x in xs}) > 1:
        raise call.refuse("tensors of one type, not all constant", [x.dtype.value for x in xs[:4]])
    for x in xs:
        if not x.is_constant:
            x.label.join(active.label)
    axis = _non_negative_axis(call, rank)
    y = call.make(call.contiguous_out_shape, active.dtype, active.label)
    call.reader.add(SameScaleStep(call.source, Concat, ("xs",), xs, y, {"axis": axis}))


def slice_copy(call: ReadCall) -> None:
    """Reads a slice along one axis."""
    x = call.plain("x")
    axis = _non_negative_axis(call, len(x.shape))
    size, step = x.shape[axis], call.number("step")
    begin = 0 if call.is_null("begin") else call.number("begin")
    end = size if call.is_null("end") else call.number("end")
    if step < 1:
        raise call.refuse("steps are positive", step)
    chosen = range(*slice(begin, end, step).indices(size))
    if not chosen:
        raise call.refuse("something is left", (begin, end, step))
    _record_slice(call, x, axis, chosen)


def select(call: ReadCall) -> None:
    """Reads one index of an axis, which is dropped."""
    x = call.plain("x")
    axis = _non_negative_axis(call, len(x.shape))
    index = call.number("index")
    if not -x.shape[axis] <= index < x.shape[axis]:
        raise call.refuse("the index is inside the axis", (index, x.shape))
    begin = index % x.shape[axis]
    _record_slice(call, x, axis, range(begin, begin + 1))


def _record_slice(call: ReadCall, x: ReadTensor, axis: int, chosen: range) -> None:
    shape = tuple(len(chosen) if a == axis else size for a, size in enumerate(x.shape))
    begin = tuple(chosen.start if a == axis else 0 for a in range(len(shape)))
    step = tuple(chosen.step if a == axis else 1 for a in range(len(shape)))
    if math.prod(shape) != math.prod(call.contiguous_out_shape):
        raise call.refuse(f"the result has sizes {shape}", call.contiguous_out_shape)
    _record_move(call, Slice, x, shape, begin=begin, step=step)


def expand(call: ReadCall) -> None:
    """Reads a broadcast, as concatenations axis by axis."""
    sizes, x = call.contiguous_out_shape, call.plain("x")
    _require_result_sizes(call, call.integers("sizes"))
    shape = (1,) * (len(sizes) - len(x.shape)) + x.shape
    if len(shape) != len(sizes) or any(s not in (1, d) for s, d in zip(shape, sizes, strict=True)):
        raise call.refuse(f"sizes are 1 or those of the result, {sizes}", x.shape)
    x = call.shaped(x, shape)
    if x.data is not None:
        _expanded_constant(call, x, sizes)
        return
    for axis in range(len(sizes)):
        if x.shape[axis] != sizes[axis]:
            x = _repeat_axis(call, x, axis, sizes[axis])
    y = call.make(sizes, x.dtype, x.label)
    call.reader.copy(x, y, call.source)


def _expanded_constant(call: ReadCall, x: ReadTensor, sizes: Shape) -> None:
    if math.prod(sizes) > MOST_CONSTANTS:
        raise call.refuse(f"constants are repeated to at most {MOST_CONSTANTS} elements", sizes)
    y = call.make(sizes, x.dtype)
    y.data = np.ascontiguousarray(np.broadcast_to(x.data, sizes)) if x.data is not None else None


MOST_CONSTANTS = 1 << 20
MOST_REPEATS = 1024


def _repeat_axis(call: ReadCall, x: ReadTensor, axis: int, count: int) -> ReadTensor:
    if count > MOST_REPEATS:
        raise call.refuse(f"an axis is repeated at most {MOST_REPEATS} times", count)
    shape = tuple(count if a == axis else size for a, size in enumerate(x.shape))
    y = ReadTensor(f"{x.name}_repeated", shape, x.dtype, x.label)
    call.reader.add(SameScaleStep(call.source, Concat, ("xs",), (x,) * count, y, {"axis": axis}))
    return y
