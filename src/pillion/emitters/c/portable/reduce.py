# SPDX-License-Identifier: Apache-2.0
"""The portable kernels of products of tensors, transposed convolution, resizing, slopes, divisions and
reductions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from pillion.emitters.c.kernel import Call, Kernel, Params, Routine
from pillion.ir.numerics import Arithmetic, Multiplier
from pillion.ir.op import Op
from pillion.ir.types import DType, Shape, Value
from pillion.ir.verdict import Verdict
from pillion.ops.div import Div, reciprocals
from pillion.ops.matmul import BatchMatmul
from pillion.ops.prelu import Prelu
from pillion.ops.reduce import ReduceMax, ReduceMin, ReduceSum, Reduction
from pillion.ops.resize import ResizeBilinear, ResizeNearest
from pillion.ops.transpose_conv import TransposeConv2d

MAX_AXES = 8
"""As in walk.h."""
SUM_BYTES = 4


def routine(name: str) -> Routine:
    return Routine(f"pillion_{name}_s8", f"portable/{name}_s8.c")


def kernel(op: type[Op], calls: Any, **others: Any) -> Kernel:
    """A row whose functions take the op's own class: the emitter calls them with no other."""
    return Kernel(op.kind, op, calls, **others)


def numbers(held: Sequence[int] | NDArray[np.int64]) -> NDArray[np.int32]:
    return np.asarray(held, np.int32).reshape(-1)


def scaling(m: Multiplier) -> Params:
    return {"multiplier": m.mantissa, "shift": m.shift}


# --- products -----------------------------------------------------------------------------------------------


def batch_matmul(op: BatchMatmul, arithmetic: Arithmetic) -> tuple[Call, ...]:
    rows, depth, columns = op.rows, op.depth, op.columns
    params: Params = {
        "batch": op.a.shape[0],
        "rows": rows,
        "depth": depth,
        "columns": columns,
        "a_row_step": 1 if op.adj_x else depth,
        "a_depth_step": rows if op.adj_x else 1,
        "b_depth_step": 1 if op.adj_y else columns,
        "b_column_step": depth if op.adj_y else 1,
        "a_zp": op.a.zero_point,
        "b_zp": op.b.zero_point,
        "out_zp": op.y.zero_point,
        "low": op.low,
        "high": op.high,
        **scaling(op.multiplier(arithmetic)),
    }
    return (Call(routine("batch_matmul"), params, (op.a, op.b), op.y),)


def transpose_conv2d(op: TransposeConv2d, arithmetic: Arithmetic) -> tuple[Call, ...]:
    batch, in_h, in_w, in_c = op.x.shape
    sizes = {"batch": batch, "in_h": in_h, "in_w": in_w, "in_c": in_c}
    sizes |= {"out_h": op.y.shape[1], "out_w": op.y.shape[2], "out_c": op.out_channels}
    pairs = {"kernel": op.kernel, "stride": op.stride, "dilation": op.dilation, "pad": op.padding[:2]}
    names = {"pad_h": "pad_top", "pad_w": "pad_left"}
    window = {f"{name}_{axis}": pair[i] for name, pair in pairs.items() for i, axis in enumerate("hw")}
    levels = {"in_zp": op.x.zero_point, "out_zp": op.y.zero_point, "low": op.low, "high": op.high}
    mantissa, shift = op.multipliers
    constants = {
        "weights": np.ascontiguousarray(op.weights.constant.transpose(1, 2, 0, 3)).reshape(-1),
        "bias": op.bias.constant.astype(np.int32),
        "multiplier": mantissa,
        "shift": shift,
    }
    params: Params = {**sizes, **{names.get(k, k): v for k, v in window.items()}, **levels, **constants}
    return (Call(routine("transpose_conv2d"), params, (op.x,), op.y),)


def constant_weights(op: TransposeConv2d, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    computed = ", ".join(v.name for v in (op.weights, op.bias) if not v.is_constant)
    return (
        *all_int8(op),
        Verdict("weights", not computed, "constants", f"`{computed}` is not" if computed else "constants"),
    )


# --- images -------------------------------------------------------------------------------------------------


def resize(op: ResizeNearest | ResizeBilinear, arithmetic: Arithmetic) -> tuple[Call, ...]:
    batch, in_h, in_w, channels = op.x.shape
    sizes = {
        "batch": batch,
        "in_h": in_h,
        "in_w": in_w,
        "out_h": op.size[0],
        "out_w": op.size[1],
        "channels": channels,
    }
    places = {"rows": numbers(op.sources(0)), "columns": numbers(op.sources(1))}
    return (Call(routine(op.kind), {**sizes, **places}, (op.x,), op.y),)


# --- element by element -------------------------------------------------------------------------------------


def prelu(op: Prelu, arithmetic: Arithmetic) -> tuple[Call, ...]:
    axis = next((i for i, size in enumerate(op.slope_shape) if size > 1), 0)
    slopes = op.slope.type.elements
    plain, sloped = op.multipliers(arithmetic)
    params: Params = {
        "outer": math.prod(op.x.shape[:axis]) if slopes > 1 else 1,
        "slopes": slopes,
        "inner": math.prod(op.x.shape[axis + 1 :]) if slopes > 1 else op.x.type.elements,
        "in_zp": op.x.zero_point,
        "slope_zp": op.slope.zero_point,
        "out_zp": op.y.zero_point,
        **scaling(plain),
        "slope_multiplier": sloped.mantissa,
        "slope_shift": sloped.shift,
    }
    return (Call(routine("prelu"), params, (op.x, op.slope), op.y),)


def prelu_in_place(op: Prelu) -> tuple[Value, ...]:
    return () if op.x.is_constant else (op.x,)


def div(op: Div, arithmetic: Arithmetic) -> tuple[Call, ...]:
    extent, (a_step, b_step) = quotient_axes(op)
    walk: Params = {"elements": op.y.type.elements, "axes": len(extent)}
    walk = {**walk, "extent": numbers(extent), "a_step": numbers(a_step), "b_step": numbers(b_step)}
    levels = {
        "a_zp": op.a.zero_point,
        "b_zp": op.b.zero_point,
        "out_zp": op.y.zero_point,
        "low": op.low,
        "high": op.high,
    }
    if arithmetic is Arithmetic.TFLITE:
        fixed: Params = {**walk, "reciprocals": numbers(reciprocals()), **levels, **scaling(op.multiplier)}
        return (Call(routine("div_tflite"), fixed, (op.a, op.b), op.y),)
    real: Params = {**walk, **levels, "ratio": np.array([op.ratio], np.float32)}
    return (Call(routine("div"), real, (op.a, op.b), op.y),)


def quotient_axes(op: Div) -> tuple[Shape, list[Shape]]:
    return collapsed(op.y.shape, [broadcast_steps(v.shape, op.y.shape) for v in (op.a, op.b)])


def div_in_place(op: Div) -> tuple[Value, ...]:
    return tuple(v for v in (op.a, op.b) if not v.is_constant and v.shape == op.y.shape)


# --- reductions ---------------------------------------------------------------------------------------------


def reduction(op: Reduction, arithmetic: Arithmetic) -> tuple[Call, ...]:
    (kept_extent, [kept_step]), (extent, [step]) = reduction_axes(op)
    params: Params = {
        "results": op.y.type.elements,
        "kept_axes": len(kept_extent),
        "kept_extent": numbers(kept_extent),
        "kept_step": numbers(kept_step),
        "count": op.count,
        "axes": len(extent),
        "extent": numbers(extent),
        "step": numbers(step),
    }
    if not isinstance(op, ReduceSum):
        return (Call(routine(op.kind), params, (op.x,), op.y),)
    params = {**params, "in_zp": op.x.zero_point, "out_zp": op.y.zero_point}
    if arithmetic is Arithmetic.TFLITE:
        rounded_once: Params = {**params, "ratio": np.array([op.ratio], np.float64)}
        return (Call(routine("reduce_sum_tflite"), rounded_once, (op.x,), op.y),)
    return (Call(routine("reduce_sum"), {**params, **scaling(op.multiplier)}, (op.x,), op.y),)


def reduction_axes(op: Reduction) -> list[tuple[Shape, list[Shape]]]:
    """Of the axes that stay and of those that go: sizes, and steps in x."""
    every, steps = range(op.x.type.rank), contiguous_steps(op.x.shape)
    sides = ([a for a in every if a not in op.axes], [a for a in every if a in op.axes])
    return [collapsed(tuple(op.x.shape[a] for a in axes), [tuple(steps[a] for a in axes)]) for axes in sides]


# --- nested loops -------------------------------------------------------------------------------------------


def contiguous_steps(shape: Shape) -> Shape:
    return tuple(math.prod(shape[axis + 1 :]) for axis in range(len(shape)))


def broadcast_steps(shape: Shape, result: Shape) -> Shape:
    """Steps through an operand while the result is walked through: 0 along axes that it repeats."""
    whole = (1,) * (len(result) - len(shape)) + shape
    return tuple(step if size > 1 else 0 for step, size in zip(contiguous_steps(whole), whole, strict=True))


def collapsed(extent: Shape, steps: list[Shape]) -> tuple[Shape, list[Shape]]:
    """The same walk over as few axes as possible: none of size 1, and neighbours joined where they are one
    run."""
    axes: list[tuple[int, ...]] = []
    for axis in zip(extent, *steps, strict=True):
        if axis[0] == 1:
            continue
        if axes and all(
            outer == axis[0] * inner for outer, inner in zip(axes[-1][1:], axis[1:], strict=True)
        ):
            axes[-1] = (axes[-1][0] * axis[0], *axis[1:])
        else:
            axes.append(axis)
    return tuple(a[0] for a in axes), [tuple(a[1 + i] for a in axes) for i in range(len(steps))]


def few_axes(*counts: int) -> tuple[Verdict, ...]:
    return (
        Verdict("axes", max(counts) <= MAX_AXES, f"at most {MAX_AXES} that are no runs", str(max(counts))),
    )


def all_int8(op: Op, arithmetic: Arithmetic | None = None) -> tuple[Verdict, ...]:
    """No kernel of this file computes in float."""
    values = dict.fromkeys((*op.activations, *op.results))
    return tuple(Verdict(v.name, v.dtype is DType.INT8, "int8", v.dtype.value) for v in values)


KERNELS: tuple[Kernel, ...] = (
    kernel(
        TransposeConv2d,
        transpose_conv2d,
        takes=constant_weights,
        scratch_bytes=lambda op: SUM_BYTES * op.out_channels,
    ),
    kernel(BatchMatmul, batch_matmul, takes=all_int8),
    kernel(
        Div,
        div,
        takes=lambda op, _: (*all_int8(op), *few_axes(len(quotient_axes(op)[0]))),
        in_place=div_in_place,
    ),
    kernel(Prelu, prelu, takes=all_int8, in_place=prelu_in_place),
    *(
        kernel(
            op,
            reduction,
            takes=lambda op, _: (
                *all_int8(op),
                *few_axes(*(len(extent) for extent, _ in reduction_axes(op))),
            ),
        )
        for op in (ReduceSum, ReduceMax, ReduceMin)
    ),
    *(kernel(op, resize, takes=all_int8) for op in (ResizeNearest, ResizeBilinear)),
)
