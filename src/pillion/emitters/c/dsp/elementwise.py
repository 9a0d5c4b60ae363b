# SPDX-License-Identifier: Apache-2.0
"""The DSP kernels of elementwise ops, pooling and transposes."""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from pillion.emitters.c import reciprocals, sums_int16
from pillion.emitters.c.channel_scaling import MOST_SHIFT
from pillion.emitters.c.dsp import pair_formula
from pillion.emitters.c.kernel import Kernel, Params
from pillion.emitters.c.kernel_conditions import (
    INT8_ABY,
    INT8_X,
    INT8_XY,
    all_of,
    in_arithmetic,
    in_place_same_shape,
    shifted_right,
    short_circuit,
    within,
)
from pillion.emitters.c.kernel_library import DSP, Library
from pillion.emitters.c.op_fields import high_and_low
from pillion.emitters.c.portable.elementwise import (
    INT8_Y,
    TO_FLOAT,
    finite_reciprocal,
    in_place_wide,
    quantize_params,
    quantize_routine,
    real_scale,
)
from pillion.emitters.c.portable.pool import pool_routine
from pillion.emitters.c.strides import collapsed, contiguous_steps
from pillion.emitters.c.table_lookup import EVERY_INT8, TableLookup
from pillion.ir.numerics import MOST_PLACES, Arithmetic
from pillion.ir.types import Shape, Value
from pillion.ir.verdict import Verdict
from pillion.ops.clamp import Clamp
from pillion.ops.elementwise import Add, AddOrSub, Binary, Mul, Sub
from pillion.ops.formats import Dequantize, Quantize, Requantize
from pillion.ops.movement import Transpose
from pillion.ops.pool import AvgPool2d, AvgPool2dUp, MaxPool2d, Pool
from pillion.ops.wide_add import WideAdd

TABLE = TableLookup(DSP, is_unsigned=True)

# --- two operands -----------------------------------------------------------------------------------------------------


def ends_with(shape: Shape, end: Shape) -> bool:
    """Whether `shape` ends with `end` without its leading ones, so that `end` broadcasts row by row."""
    while end and end[0] == 1:
        end = end[1:]
    return not end or shape[-len(end) :] == end


def full_and_broadcast(op: Binary) -> tuple[Value, Value] | None:
    """Returns the operand with the shape of the result, and the one that broadcasts along its rows; None if there
    are no such."""
    for full, part in ((op.a, op.b), (op.b, op.a)):
        if (
            math.prod(full.shape) == op.y.type.elements
            and ends_with(op.y.shape, part.shape)
            and part.type.elements > 1
        ):
            return full, part
    return None


def fitting_shapes(op: Binary) -> Verdict:
    """Checks whether the operands have equal shapes, or one broadcasts along the last axes of the other."""
    requirement, got = (
        "equal, or one repeats along the last axes of the other",
        f"{list(op.a.shape)} and {list(op.b.shape)}",
    )
    return Verdict("shapes", full_and_broadcast(op) is not None, requirement, got)


SHAPES = all_of(INT8_ABY, fitting_shapes)


def ordered(op: Binary) -> tuple[Value, Value]:
    """Returns the operands of an op with fitting shapes, the larger one first."""
    operands = full_and_broadcast(op)
    assert operands is not None
    return operands


def row_params(op: Binary) -> Params:
    """Returns the parameters of a walk over the larger operand in rows as long as the smaller one."""
    _, part = full_and_broadcast(op) or (op.a, op.b)
    return {"rows": op.y.type.elements // part.type.elements, "count": part.type.elements}


def in_place_full(op: Binary) -> tuple[Value, ...]:
    """Returns the operands whose memory the result may overwrite; a broadcast one must stay."""
    full, part = full_and_broadcast(op) or (op.a, op.b)
    return in_place_same_shape(op, full, *([part] if part.type.elements == op.y.type.elements else []))


@lru_cache(maxsize=256)
def formula(op: AddOrSub, arithmetic: Arithmetic) -> pair_formula.PairFormula | None:
    """Returns the cheap formula of a sum, with the operands in their own order."""
    expected = op.reference(arithmetic, EVERY_INT8[:, None], EVERY_INT8[None, :]).astype(np.int64)
    return pair_formula.find(expected, op.slopes, op.low, op.high)


def has_formula(op: AddOrSub, arithmetic: Arithmetic) -> Verdict:
    """Checks whether a cheap formula computes the sum of every pair of numbers."""
    exists = formula(op, arithmetic) is not None
    requirement = "(a x1 + b x2 + c) >> shift, right for all pairs"
    return Verdict("formula", exists, requirement, "found" if exists else "none found")


def sum_params(op: AddOrSub, arithmetic: Arithmetic) -> Params:
    """Returns the parameters of the sum kernel, with the larger operand first."""
    coefficients = formula(op, arithmetic)
    assert coefficients is not None
    a, b = (coefficients.a, coefficients.b) if ordered(op)[0] is op.a else (coefficients.b, coefficients.a)
    return {**row_params(op), "a": a, "b": b, "c": coefficients.c, "shift": coefficients.shift}


def sum_kernel(library: Library, op: type[AddOrSub]) -> Kernel:
    """Builds the kernel of sums or differences by a cheap formula."""
    return library.kernel(
        op,
        "sum_s8",
        sum_params,
        requires=(short_circuit(SHAPES, has_formula),),
        operands=ordered,
        in_place=in_place_full,
        also=clamped(library),
        name="sum",
    )


def clamped(library: Library) -> tuple[str, ...]:
    """Returns the name of the file that the library's kernels share for bounds other than those of int8."""
    return ("clamp",) if library is DSP else ()


MOST_LEFT = 15
"""The largest left shift of a 16-bit operand that fits 32 bits."""


WIDE_SUM = sums_int16.sum_condition(32 - MOST_LEFT, MOST_PLACES, lambda places: 31 + min(places, 32))
"""The operands can be shifted so far left that the result lies in the upper word of their sum."""


def wide_sum_params(op: WideAdd) -> Params:
    """Returns the parameters of a 16-bit sum."""
    ordered = sums_int16.wider_first(op)
    first, second = ordered.multipliers
    left, right = max(32 - op.places, 0), max(op.places - 32, 0)
    return {
        **sums_int16.row_params(ordered.op),
        **{"a_multiplier": first, "b_multiplier": second, "left": left, "right": right},
        **dict(zip(("offset_high", "offset_low"), high_and_low(op.offset << left), strict=True)),
    }


def mul_params(op: Mul) -> Params:
    """Returns the parameters of the product kernel, with the larger operand first."""
    first, second = ordered(op)
    return {**row_params(op), "zp1": first.zero_point, "zp2": second.zero_point}


def mul_kernel(library: Library) -> Kernel:
    """Builds the kernel of products."""
    return library.kernel(
        Mul,
        "mul_s8",
        mul_params,
        requires=(short_circuit(SHAPES, shifted_right(1, MOST_SHIFT)),),
        operands=ordered,
        in_place=in_place_full,
        also=clamped(library),
        name="mul",
    )


# --- one operand ------------------------------------------------------------------------------------------------------


def quantize_kernel(library: Library, name: str = "quantize") -> Kernel:
    """Builds the kernel of quantizations. It rounds ties to even; LiteRT rounds them away from zero."""
    requires = (in_arithmetic(Arithmetic.CMSIS_NN), INT8_Y, finite_reciprocal)
    return library.kernel(
        Quantize, quantize_routine, quantize_params, requires=requires, in_place="x", name=name
    )


def dequantize_kernel(library: Library, name: str = "dequantize") -> Kernel:
    """Builds the kernel of dequantizations of int8."""
    return library.kernel(Dequantize, "dequantize_s8", real_scale, requires=TO_FLOAT, name=name)


# --- pooling ----------------------------------------------------------------------------------------------------------

MOST_PIXELS = 255
"""The widest window whose row sums fit 16 bits."""


def sums_fit(op: Pool) -> Verdict:
    """Checks whether the row sums of an average pool fit 16 bits."""
    return within("kernel_width", op.kernel[1], most=MOST_PIXELS)


# --- movement ---------------------------------------------------------------------------------------------------------


def transposed_matrices(op: Transpose) -> tuple[int, int, int] | None:
    """Returns batch, rows and columns if the op transposes matrices, otherwise None."""
    steps = contiguous_steps(op.x.shape)
    walk = tuple(steps[a] for a in op.order), contiguous_steps(op.y.shape)
    extent, (x_steps, _) = collapsed(op.y.shape, list(walk))
    batch, columns, rows = (1,) * (3 - len(extent)) + extent if len(extent) <= 3 else (0, 0, 0)
    return (batch, rows, columns) if x_steps[-2:] == (1, columns) else None


def two_axes(op: Transpose) -> Verdict:
    """Checks whether a transpose exchanges two axes, or two groups of adjacent axes."""
    requirement = "two axes or groups of axes change places"
    return Verdict("order", transposed_matrices(op) is not None, requirement, str(op.order))


def transpose_params(op: Transpose) -> Params:
    """Returns the parameters of the kernel that transposes matrices."""
    return dict(zip(("batch", "rows", "columns"), transposed_matrices(op) or (), strict=True))


KERNELS: tuple[Kernel, ...] = (
    *TABLE.kernels(),
    sum_kernel(DSP, Add),
    sum_kernel(DSP, Sub),
    DSP.kernel(
        WideAdd,
        "wide_add",
        wide_sum_params,
        requires=(WIDE_SUM,),
        operands=sums_int16.operands,
        in_place=in_place_wide,
        name="wide_add",
    ),
    sums_int16.product_kernel(DSP),
    mul_kernel(DSP),
    reciprocals.kernel(DSP, "clamp"),
    TABLE.byte_kernel(Requantize, "lut"),
    TABLE.byte_kernel(Clamp, "lut"),
    quantize_kernel(DSP),
    dequantize_kernel(DSP),
    *(
        DSP.kernel(op, pool_routine, requires=(INT8_XY, sums_fit), also=("clamp",), name=op.kind)
        for op in (AvgPool2d, AvgPool2dUp)
    ),
    DSP.kernel(Transpose, "transpose_s8", transpose_params, requires=(INT8_X, two_axes), name="transpose"),
    DSP.kernel(MaxPool2d, pool_routine, requires=(INT8_XY,), also=("clamp",), name="max_pool2d"),
)
