# SPDX-License-Identifier: Apache-2.0
"""Rows for ops of one or two operands, element by element, and for the borders between float and int8."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from pillion.emitters.pte.node import KernelCall, Settings, View, bounds, data, plain, refusal, temp
from pillion.ir.numerics import Multiplier
from pillion.ir.op import Op
from pillion.ir.types import Array, DType, Shape, Value
from pillion.ops import Add, Clamp, Dequantize, Lut, Maximum, Minimum, Mul, Quantize, Requantize, Sub
from pillion.ops.elementwise import Binary
from pillion.schemas.pte import ScalarType

MOST_AXES = 4
"""The most axes along which the kernels for extrema repeat an operand."""
ONE_HALF = Multiplier(2**30, 0)
LEVELS = np.arange(-128, 128, dtype=np.int8)
"""What the entries of a table stand for."""


def function(op: Lut | Clamp | Requantize, settings: Settings) -> list[KernelCall]:
    """Gives the table lookup that every function from int8 to int8 is."""
    if isinstance(op, Requantize):
        return [_rescaled(op, settings)]
    if op.x.dtype is not DType.INT8:
        raise refusal(op, "functions are of int8", repr(op.x), "quantize the model")
    entries = (
        op.entries(settings.arithmetic) if isinstance(op, Lut) else op.reference(settings.arithmetic, LEVELS)
    )
    return [lookup(plain(op.x), entries, plain(op.y))]


def _rescaled(op: Requantize, settings: Settings) -> KernelCall:
    """A lookup by the byte, whatever it stands for: the kernel sees uint8 tensors as int8 ones."""
    entries = op.reference(settings.arithmetic, LEVELS.view(op.x.dtype.numpy))
    x, y = (replace(plain(v), dtype=DType.INT8) for v in (op.x, op.y))
    return lookup(x, entries.view(np.int8), y)


def lookup(x: View, entries: Array, y: View) -> KernelCall:
    """Gives the call of a lookup in a table with an entry for every int8 number."""
    return KernelCall("cortex_m::quantized_activation.out", (x, data(entries.astype(np.int8))), y)


def clamped(op: Op) -> list[KernelCall]:
    """Gives the clamp, in place, that an op with bounds needs whose kernel has none."""
    y, (low, high) = plain(op.results[0]), bounds(op)
    return [] if (low, high) == (-128, 127) else [lookup(y, np.clip(LEVELS, low, high), y)]


def quantize(op: Quantize, settings: Settings) -> list[KernelCall]:
    """Gives the call that makes float32 int8; the runtime has it in one arithmetic only."""
    if settings.arithmetic.is_tflite:
        raise refusal(
            op,
            "quantizing multiplies by the reciprocal and rounds ties to even",
            f"`{settings.arithmetic.value}` arithmetic",
            "--io-dtype int8, or --arithmetic cmsis-nn",
        )
    return [_border("cortex_m::quantize_per_tensor.out", op.x, op.y, op.y)]


def dequantize(op: Dequantize, settings: Settings) -> list[KernelCall]:
    """Gives the call that makes int8 float32."""
    if op.x.dtype is not DType.INT8:
        raise refusal(op, "what is dequantized is int8 with one scale", repr(op.x))
    return [_border("cortex_m::dequantize_per_tensor.out", op.x, op.y, op.x)]


def _border(operator: str, x: Value, y: Value, levels: Value) -> KernelCall:
    args = (plain(x), levels.scale, levels.zero_point, -128, 127, int(ScalarType.INT8))
    return KernelCall(operator, args, plain(y))


def add(op: Add, settings: Settings) -> list[KernelCall]:
    """Gives the calls of a sum, or of a table lookup where one operand is a constant number."""
    return by_table(op, settings) or _sum(op, plain(op.a), op.a.zero_point, plain(op.b), op.b.zero_point)


def sub(op: Sub, settings: Settings) -> list[KernelCall]:
    """Gives the calls of a - b as a sum. An int8 level q has the mirror image -1 - q around the zero point's mirror image -1 - z.

    Rescaling is not symmetric where the product is a tie, so only the operand of the larger scale is mirrored: its ratio
    to the common scale is exactly one half and has no ties. If that is a, the sum is b - a, and its multiplier turns the
    sign."""
    if table := by_table(op, settings):
        return table
    mirror_b, mirror_a = (m == ONE_HALF for m in op.rescale[1::-1])
    if not (mirror_b or mirror_a):
        raise refusal(op, "the multiplier of an operand is one half", f"{op.rescale[0]}, {op.rescale[1]}")
    calls, mirrored = _mirrored(op.b if mirror_b else op.a)
    if mirror_b:
        return [*calls, *_sum(op, plain(op.a), op.a.zero_point, mirrored, -1 - op.b.zero_point)]
    if op.rescale[2].shift > 2:
        raise refusal(
            op,
            "the result's scale is not far below the operands': its multiplier shifts by at most 2",
            op.rescale[2].shift,
        )
    return [*calls, *_sum(op, mirrored, -1 - op.a.zero_point, plain(op.b), op.b.zero_point, sign=-1)]


def _mirrored(x: Value) -> tuple[list[KernelCall], View]:
    if x.is_constant:
        return [], data(np.invert(x.constant))
    y = temp(x.shape)
    return [lookup(plain(x), np.invert(LEVELS), y)], y


def _sum(op: Add | Sub, a: View, a_zero: int, b: View, b_zero: int, sign: int = 1) -> list[KernelCall]:
    first, second, out = op.rescale
    calls, a, b, y = over_channels(a, b, plain(op.y))
    args = (
        *(a, a_zero, first.mantissa, first.shift),
        *(b, b_zero, second.mantissa, second.shift),
        *(op.y.zero_point, sign * out.mantissa, out.shift, *bounds(op)),
    )
    return [*calls, KernelCall("cortex_m::quantized_add.out", args, y)]


def mul(op: Mul, settings: Settings) -> list[KernelCall]:
    """Gives the calls of a product, or of a table lookup where one operand is a constant number."""
    if table := by_table(op, settings):
        return table
    m: Multiplier = op.multiplier(settings.arithmetic)
    calls, a, b, y = over_channels(plain(op.a), plain(op.b), plain(op.y))
    args = (a, op.a.zero_point, b, op.b.zero_point, op.y.zero_point, m.mantissa, m.shift)
    return [*calls, KernelCall("cortex_m::quantized_mul.out", args, y), *clamped(op)]


def extremum(op: Minimum | Maximum, settings: Settings) -> list[KernelCall]:
    """Gives the calls of a minimum or maximum, or of a table lookup where one operand is a constant number."""
    if table := by_table(op, settings):
        return table
    if op.y.dtype is not DType.INT8:
        raise refusal(op, "operands are int8", repr(op.a), "quantize the model")
    calls, a, b, y = _over_axes(plain(op.a), plain(op.b), plain(op.y), MOST_AXES)
    return [*calls, KernelCall(f"cortex_m::{op.kind}.out", (a, b), y)]


def by_table(op: Binary, settings: Settings) -> list[KernelCall]:
    """Gives the table lookup that an op of two operands is where one is a constant number; no call where none is."""
    for number, other, swap in ((op.b, op.a, False), (op.a, op.b, True)):
        if number.is_constant and number.type.elements == 1 and other.type.elements == op.y.type.elements:
            level = number.constant.reshape(1)
            operands = (level, LEVELS) if swap else (LEVELS, level)
            return [
                lookup(
                    plain(other),
                    op.reference(settings.arithmetic, *operands),
                    plain(op.y).reshaped(*other.shape),
                )
            ]
    return []


Operands = tuple[list[KernelCall], View, View, View]


def over_channels(a: View, b: View, y: View) -> Operands:
    """Prepares operands for kernels that repeat one only as a vector over the channels of an image: it is the last axes of the
    other one, seen as channels. Everything else is written out first."""
    for small, big, swap in ((b, a, False), (a, b, True)):
        if small.elements != y.elements == big.elements and _ends_with(
            y.sizes, _without_leading_ones(small.sizes)
        ):
            channels = small.elements
            rows = y.elements // channels
            whole, vector = big.image(1, rows, 1, channels), small.image(1, 1, 1, channels)
            first, second = (vector, whole) if swap else (whole, vector)
            return [], first, second, y.image(1, rows, 1, channels)
    return _over_axes(a, b, y, most_axes=0)


def _over_axes(a: View, b: View, y: View, most_axes: int) -> Operands:
    """Operands of one rank: as vectors where their shapes are equal, repeated by the kernel along so many axes at most,
    else written out by a call of their own."""
    if a.elements == b.elements == y.elements:
        return [], flattened(a), flattened(b), flattened(y)
    a, b = (_of_rank(view, len(y.sizes)) for view in (a, b))
    for small, whole, swap in ((b, a, False), (a, b, True)):
        few, all_of_them = _together(small.sizes, y.sizes)
        if whole.sizes == y.sizes and len(few) <= most_axes:
            first, second = whole.reshaped(*all_of_them), small.reshaped(*few)
            return [], *((second, first) if swap else (first, second)), y.reshaped(*all_of_them)
    calls: list[KernelCall] = []
    a, b = (repeated(view, y.sizes, calls) for view in (a, b))
    return calls, flattened(a), flattened(b), flattened(y)


def _together(small: Shape, whole: Shape) -> tuple[Shape, Shape]:
    """Both shapes with neighbouring axes as one where the small operand is repeated along both, or along neither.

    The library goes astray where an operand is repeated along the last two axes and not along the one before."""
    few: list[int] = []
    all_of_them: list[int] = []
    for one, size in zip(small, whole, strict=True):
        if size == 1:
            continue
        if few and (few[-1] == 1) == (one == 1):
            few[-1], all_of_them[-1] = few[-1] * one, all_of_them[-1] * size
        else:
            few.append(one)
            all_of_them.append(size)
    return tuple(few), tuple(all_of_them)


def flattened(view: View) -> View:
    """Sees a tensor as a vector."""
    return view.reshaped(view.elements)


def _of_rank(view: View, rank: int) -> View:
    return view.reshaped(*(1,) * (rank - len(view.sizes)), *view.sizes)


def repeated(view: View, shape: Shape, calls: list[KernelCall]) -> View:
    """Gives an operand in a wanted shape; where it has to be written out, the copy is added to the calls."""
    if view.sizes == shape:
        return view
    whole = temp(shape, view.dtype)
    calls.append(KernelCall("aten::expand_copy.out", (view, shape, False), whole))
    return whole


def _without_leading_ones(shape: Shape) -> Shape:
    kept = next((i for i, size in enumerate(shape) if size != 1), len(shape))
    return shape[kept:]


def _ends_with(shape: Shape, end: Shape) -> bool:
    return len(end) <= len(shape) and shape[len(shape) - len(end) :] == end
