# SPDX-License-Identifier: Apache-2.0
"""The kernels of sums, differences and products of two tensors, of int8 and of 16 bits."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import Any

from pillion.emitters.c.channel_scaling import MOST_SHIFT
from pillion.emitters.c.families.sum_formulas import (
    ROUNDED_TWICE,
    SHIFTED,
    has_factors,
    has_formula,
    sum_formula,
)
from pillion.emitters.c.kernel import Kernel, Params
from pillion.emitters.c.kernel_conditions import (
    INT8_ABY,
    Check,
    all_of,
    in_own_form,
    in_place_same_shape,
    is_within,
    shifted_right,
    short_circuit,
)
from pillion.emitters.c.kernel_library import DSP, HOST, MVE, PORTABLE, SCALAR, Library
from pillion.emitters.c.op_fields import high_and_low, operand_walk
from pillion.emitters.c.walk import few_walk_axes, rows_verdict
from pillion.ir.numerics import INT32_MAX, MOST_PLACES, Arithmetic, wrap_to_32_bits
from pillion.ir.types import DType, Shape, Value
from pillion.ir.verdict import Verdict
from pillion.ops.elementwise import ADD_LEFT_SHIFT, Add, AddOrSub, Binary, Mul, ScaledBinary, Sub, SumOfOne
from pillion.ops.formats import Requantize
from pillion.ops.squared_difference import SquaredDifference

ANY_BROADCAST = (INT8_ABY, few_walk_axes)

# --- rows of the larger operand: DSP, scalar, host --------------------------------------------------------------------


def ends_with(shape: Shape, end: Shape) -> bool:
    """Whether `shape` ends with `end` without its leading ones, so that `end` broadcasts row by row."""
    while end and end[0] == 1:
        end = end[1:]
    return not end or shape[-len(end) :] == end


def full_and_broadcast(op: Binary) -> tuple[Value, Value] | None:
    """Returns the operand with the shape of the result and the operand that broadcasts along its rows; None if the
    operands have other shapes."""
    for full, part in ((op.a, op.b), (op.b, op.a)):
        is_full = math.prod(full.shape) == op.y.type.elements
        if is_full and ends_with(op.y.shape, part.shape) and part.type.elements > 1:
            return full, part
    return None


def fitting_shapes(op: Binary) -> Verdict:
    """Checks whether the operands have equal shapes, or one broadcasts along the last axes of the other."""
    requirement = "equal, or one repeats along the last axes of the other"
    got = f"{list(op.a.shape)} and {list(op.b.shape)}"
    return Verdict("shapes", full_and_broadcast(op) is not None, requirement, got)


SHAPES = all_of(INT8_ABY, fitting_shapes)


def larger_operand_first(op: Binary) -> tuple[Value, Value]:
    """Returns the operands of an op with fitting shapes, the larger one first."""
    operands = full_and_broadcast(op)
    assert operands is not None
    return operands


def row_params(op: Binary) -> Params:
    """Returns the parameters of a walk over the larger operand in rows as long as the smaller one."""
    elements = larger_operand_first(op)[1].type.elements
    return {"rows": op.y.type.elements // elements, "count": elements}


def in_place_full(op: Binary) -> tuple[Value, ...]:
    """Returns the operands that the result may overwrite; a broadcast operand must stay."""
    full, part = full_and_broadcast(op) or (op.a, op.b)
    return in_place_same_shape(op, full, *([part] if part.type.elements == op.y.type.elements else []))


def shifted_sum_params(op: AddOrSub, arithmetic: Arithmetic) -> Params:
    """Returns the parameters of a sum by one shift, with the larger operand first."""
    formula = sum_formula(op, arithmetic, SHIFTED)
    assert formula is not None
    a, b = (formula.a, formula.b) if larger_operand_first(op)[0] is op.a else (formula.b, formula.a)
    return {**row_params(op), "a": a, "b": b, "c": formula.c, "shift": formula.shift}


def product_params(op: Mul) -> Params:
    """Returns the parameters of a product, with the larger operand first."""
    first, second = larger_operand_first(op)
    return {**row_params(op), "zp1": first.zero_point, "zp2": second.zero_point}


def kernels_in_rows(library: Library, most_shift: int, *also: str) -> tuple[Kernel, ...]:
    """Returns the kernels that compute an op as a 16-bit sum with an ignored second operand."""
    common: Any = {"operands": larger_operand_first, "in_place": in_place_full, "also": also}
    with_formula = short_circuit(SHAPES, has_formula)
    shifted = short_circuit(SHAPES, shifted_right(1, most_shift))
    return (
        *(
            library.kernel(op, "sum_s8", shifted_sum_params, requires=(with_formula,), name="sum", **common)
            for op in (Add, Sub)
        ),
        library.kernel(Mul, "mul_s8", product_params, requires=(shifted,), **common),
    )


# --- Helium -----------------------------------------------------------------------------------------------------------

ROWS = all_of(INT8_ABY, rows_verdict)


def factor_params(op: AddOrSub, arithmetic: Arithmetic) -> Params:
    """Returns the parameters of the sum kernel with two factors."""
    formula = sum_formula(op, arithmetic, ROUNDED_TWICE)
    assert formula is not None
    return {"a_factor": formula.a, "b_factor": formula.b, "constant": formula.c - ROUNDED_TWICE.rounding}


def rescaled_params(op: AddOrSub) -> Params:
    """Returns the parameters of the kernel that rescales both operands and then the sum."""
    offsets = (("a_offset", op.a), ("b_offset", op.b))
    return {name: -value.zero_point << ADD_LEFT_SHIFT for name, value in offsets}


RIGHT_SHIFTS = short_circuit(ROWS, shifted_right(0, 31))
FACTORS = short_circuit(ROWS, has_factors)

# --- 16 bits ----------------------------------------------------------------------------------------------------------

BitsOf = Callable[[int], int]
"""The number of bits, without the sign, that a sum may have before a shift by a number of bits."""
ROW_STEPS = ("a_row_step", "b_row_step")
"""The fields of a walk in rows of contiguous elements."""
ANY_STEPS = ("axes", *ROW_STEPS)
"""The fields of a walk with any broadcasting."""


WIDE_WALK = short_circuit(in_own_form, few_walk_axes)
IN_ROWS = short_circuit(WIDE_WALK, rows_verdict)


def in_place_wide(op: ScaledBinary) -> tuple[Value, ...]:
    """Returns the operands that the result may overwrite: those of its element type."""
    return in_place_same_shape(op, *(v for v in (op.a, op.b) if v.dtype is op.y.dtype))


def in_width_order(op: ScaledBinary) -> tuple[Value, Value]:
    """Returns the operands, the wider one first."""
    return op.int16_form.a, op.int16_form.b


def wide_walk(op: ScaledBinary, fields: Sequence[str] = ROW_STEPS) -> dict[str, Any]:
    """Returns the walk over both operands, the wider one first, with their element sizes, as parameters."""
    a, b = in_width_order(op)
    sizes = {"a_bytes": a.dtype.size_bytes, "b_bytes": b.dtype.size_bytes}
    return {**operand_walk(replace(op, a=a, b=b), fields), **sizes}


def wide_multipliers(op: AddOrSub) -> Params:
    """Returns the factors and the constant of a 16-bit sum as parameters."""
    first, second = op.int16_form.multipliers
    high, low = high_and_low(op.int16_form.offset)
    factors = {"a_multiplier": first, "b_multiplier": second, "places": op.int16_form.places}
    return {**wide_walk(op, ANY_STEPS), **factors, "offset_high": high, "offset_low": low}


def wide_factors(fields: Sequence[str], op: Mul) -> dict[str, Any]:
    """Returns the factors of a 16-bit product as parameters."""
    wide = op.int16_form
    zeros = {"a_zp": wide.a.zero_point, "b_zp": wide.b.zero_point}
    return {**wide_walk(op, fields), **zeros, "multiplier": wide.multiplier, "left": wide.left}


def sum_condition(least: int, most: int, bits_of: BitsOf) -> Check[AddOrSub]:
    """Returns the condition of the element types, the broadcasting, the shift and the bits of a sum."""

    def sum_fits(op: AddOrSub) -> Verdict:
        wide, (first, second) = op.int16_form, op.int16_form.multipliers
        corners = product(wide.a.dtype.bounds, wide.b.dtype.bounds)
        sums = [a * first + b * second + wide.offset for a, b in corners]
        sum_bits, bits = max(max(sums), -min(sums) - 1).bit_length(), bits_of(wide.places)
        return Verdict("sum", sum_bits <= bits, f"below 2^{bits}", f"up to 2^{sum_bits}")

    of_sum = all_of(rows_verdict, lambda op: is_within("places", op.int16_form.places, least, most), sum_fits)
    return short_circuit(WIDE_WALK, of_sum)


MOST_LEFT = 15
"""The largest left shift of a 16-bit operand that fits 32 bits."""
UPPER_WORD = sum_condition(32 - MOST_LEFT, MOST_PLACES, lambda places: 31 + min(places, 32))
"""The operands can be shifted so far left that the result lies in the upper word of their sum."""


def upper_word_params(op: AddOrSub) -> Params:
    """Returns the parameters of a 16-bit sum by long multiplication."""
    places = op.int16_form.places
    left, (first, second) = max(32 - places, 0), op.int16_form.multipliers
    high, low = high_and_low(op.int16_form.offset << left)
    return {
        **wide_walk(op),
        **{"a_multiplier": first, "b_multiplier": second, "left": left, "right": max(places - 32, 0)},
        **{"offset_high": high, "offset_low": low},
    }


LOW_BITS = 16
"""The bits of the lower halves of multipliers."""


def split_32_bits(number: int) -> tuple[int, int]:
    """Returns a number as a signed lower half and the upper half modulo 2^32."""
    half = 1 << LOW_BITS >> 1
    low = (number + half) % (1 << LOW_BITS) - half
    return low, int(wrap_to_32_bits(number - low >> LOW_BITS))


def halves_fit(op: AddOrSub) -> Verdict:
    """Checks whether products with lower halves, and the sum of the upper ones, fit 32 bits."""
    wide = op.int16_form
    parts = [abs(split_32_bits(number)[0]) for number in (*wide.multipliers, wide.offset)]
    largest = parts[0] * -wide.a.dtype.bounds[0] + parts[1] * -wide.b.dtype.bounds[0] + parts[2]
    return Verdict("halves", largest <= INT32_MAX, "below 2^31", f"up to {largest}")


IN_HALVES = short_circuit(sum_condition(LOW_BITS, LOW_BITS + 31, lambda places: LOW_BITS + 31), halves_fit)


def halves_params(op: AddOrSub) -> Params:
    """Returns the parameters of a 16-bit sum, with multipliers and offset in halves."""
    wide, parts = op.int16_form, {}
    for name, number in zip(("a", "b", "offset"), (*wide.multipliers, wide.offset), strict=True):
        parts[f"{name}_low"], parts[f"{name}_high"] = split_32_bits(number)
    return {**wide_walk(op), **parts, "shift": LOW_BITS - wide.places}


def same_steps(op: AddOrSub) -> Verdict:
    """Checks whether both operands and the result have 16 bits, and the same scale."""
    types = {(v.dtype, v.scale, v.zero_point) for v in (op.a, op.b, op.y)}
    fits = len(types) == 1 and op.y.dtype is DType.INT16 and op.y.zero_point == 0
    got = ", ".join(f"{v.dtype.value} {v.scale:.6g}" for v in (op.a, op.b, op.y))
    return Verdict("scales", fits, "the same of three int16 tensors", got)


def unscaled_kernels(library: Library) -> tuple[Kernel, ...]:
    """Returns the kernels of 16-bit tensors in the same steps, which need no multipliers."""
    return tuple(
        library.kernel(
            op,
            "add_unscaled_s16",
            lambda op: {**operand_walk(op, ROW_STEPS), "sign": op.sign},
            requires=(short_circuit(WIDE_WALK, all_of(rows_verdict, same_steps)),),
            name=f"{op.kind}_unscaled_16",
            in_place="a b",
        )
        for op in (Add, Sub)
    )


def fits_lanes(op: Mul) -> Iterator[Verdict]:
    """Checks whether lanes of 16 bits hold the operands without their zero points, in pairs, and 32 bits the factor of
    their products."""
    zeros = [v.zero_point for v in (op.a, op.b, op.y) if v.dtype is DType.INT16]
    params = wide_factors(ROW_STEPS, op)
    yield Verdict("zero_points", not any(zeros), "0 of 16-bit tensors", ", ".join(map(str, zeros)))
    yield is_within("factor", params["multiplier"] << params["left"], most=INT32_MAX)
    yield Verdict("row", params["count"] % 2 == 0, "an even number of elements", str(params["count"]))


def as_sum(op: Requantize | Mul) -> SumOfOne:
    """Returns a requantization, or a product with a constant number, as a sum with itself, which does not count."""
    if isinstance(op, Requantize):
        low, high = op.y.dtype.bounds
        return SumOfOne(a=op.x, b=op.x, y=op.y, low=low, high=high)
    scaling = op.int16_form.scaling
    assert scaling is not None
    return SumOfOne(a=scaling.a, b=scaling.b, y=op.y, low=op.low, high=op.high, scaling=scaling)


def params_of_sum(params: Callable[[AddOrSub], Params], op: Requantize | Mul) -> Params:
    """Returns the parameters of the sum that computes an op, with the op's bounds."""
    total = as_sum(op)
    return {**params(total), "low": total.low, "high": total.high}


def of_sum(check: Check[AddOrSub]) -> Check[Requantize | Mul]:
    """Returns the condition that the sum that computes an op meets `check`."""
    return lambda op, arithmetic: check(as_sum(op), arithmetic)


def one_number(op: Mul) -> Iterator[Verdict]:
    """Checks whether one operand is a constant number with a factor that fits 32 bits."""
    scaling, got = op.int16_form.scaling, f"{list(op.a.shape)} and {list(op.b.shape)}"
    yield Verdict("operands", scaling is not None, "one is a constant number", got)
    if scaling:
        yield is_within("factor", scaling.factor, -INT32_MAX, INT32_MAX)


def kernels_by_sum(
    library: Library, params: Callable[[AddOrSub], Params], requires: Check[AddOrSub], *also: str
) -> tuple[Kernel, ...]:
    """Returns the kernels of a library that compute as 16-bit sums whose second operand does not count."""
    common: Any = {
        "operands": lambda op: (as_sum(op).a,) * 2,
        "in_place": lambda op: in_place_wide(as_sum(op)),
        "also": also,
    }
    numbers = [] if library is PORTABLE else [(Mul, "wide_scale", (one_number,))]
    return tuple(
        library.kernel(
            op,
            "wide_add",
            partial(params_of_sum, params),
            requires=(short_circuit(in_own_form, *conditions, of_sum(requires)),),
            name=name,
            **common,
        )
        for op, name, conditions in ((Requantize, "wide_requantize", ()), *numbers)
    )


def wide_kernels(
    library: Library, params: Callable[[AddOrSub], Params], requires: Check[AddOrSub], *also: str
) -> tuple[Kernel, ...]:
    """Returns the kernels of 16-bit sums and products of a library."""
    common: Any = {"operands": in_width_order, "in_place": in_place_wide, "also": also}
    is_portable = library is PORTABLE
    factors = partial(wide_factors, ANY_STEPS if is_portable else ROW_STEPS)
    return (
        *(
            library.kernel(op, "wide_add", params, requires=(requires,), name="wide_add", **common)
            for op in (Add, Sub)
        ),
        *kernels_by_sum(library, params, requires, *also),
        library.kernel(
            Mul,
            "wide_mul",
            factors,
            requires=(WIDE_WALK if is_portable else IN_ROWS,),
            name="wide_mul",
            **common,
        ),
    )


KERNELS: tuple[Kernel, ...] = (
    *(PORTABLE.kernel(op, "add_s8", requires=ANY_BROADCAST, in_place="a b") for op in (Add, Sub)),
    PORTABLE.kernel(Mul, "mul_s8", requires=ANY_BROADCAST, in_place="a b"),
    PORTABLE.kernel(
        SquaredDifference,
        "squared_difference_s8",
        lambda op: {"low": -128, "high": 127},
        requires=ANY_BROADCAST,
        in_place="a b",
    ),
    *wide_kernels(PORTABLE, wide_multipliers, WIDE_WALK),
    *kernels_in_rows(SCALAR, MOST_SHIFT),
    *kernels_in_rows(DSP, MOST_SHIFT, "clamp"),
    *kernels_in_rows(HOST, 31),
    *unscaled_kernels(DSP),
    *wide_kernels(DSP, upper_word_params, UPPER_WORD, "clamp"),
    *(MVE.kernel(op, "add_s8", factor_params, requires=(FACTORS,), in_place="a b") for op in (Add, Sub)),
    *(
        MVE.kernel(
            op,
            "add_rescaled_s8",
            rescaled_params,
            requires=(RIGHT_SHIFTS,),
            name=f"{op.kind}_rescaled",
            in_place="a b",
        )
        for op in (Add, Sub)
    ),
    MVE.kernel(Mul, "mul_s8", requires=(RIGHT_SHIFTS,), in_place="a b"),
    *unscaled_kernels(MVE),
    MVE.kernel(
        Mul,
        "mul_s16",
        partial(wide_factors, ROW_STEPS),
        requires=(short_circuit(IN_ROWS, fits_lanes),),
        operands=in_width_order,
        in_place=in_place_wide,
    ),
    *wide_kernels(MVE, halves_params, IN_HALVES),
)
