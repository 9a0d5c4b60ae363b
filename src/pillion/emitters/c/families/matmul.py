# SPDX-License-Identifier: Apache-2.0
"""The kernels of matrix products of two tensors. On cores with vectors, one operand's vectors are held in scratch
memory, and the other's stream past them; a cost estimate decides which operand is held."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any

from pillion.emitters.c.channel_scaling import MOST_SHIFT, SUM_LIMIT
from pillion.emitters.c.kernel import Kernel, Params
from pillion.emitters.c.kernel_conditions import (
    INT8_ABY,
    INT16_ABY,
    Condition,
    all_of,
    check_all_int8,
    is_within,
    shifted_right,
    short_circuit,
)
from pillion.emitters.c.kernel_library import DSP, MVE, PORTABLE, Library
from pillion.emitters.c.mve.pack import OVERREAD_BYTES
from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import Value
from pillion.ir.verdict import Verdict
from pillion.ops.matmul import BatchMatmul


def portable_params(op: BatchMatmul) -> Params:
    """Returns the parameters of the portable kernel; transposed operands are read with other steps."""
    a, b = matmul_sides(op)
    return {
        "batch": op.a.shape[0],
        **{"a_row_step": a.step, "a_depth_step": a.element_step},
        **{"b_depth_step": b.element_step, "b_column_step": b.step},
    }


@dataclass(frozen=True)
class MatmulSide:
    """The vectors of one operand in a batch: their number, and the steps between vectors, elements and results."""

    value: Value
    count: int
    step: int
    element_step: int
    y_step: int

    @property
    def fours(self) -> int:
        """The number of groups of four vectors."""
        return -(-self.count // 4)


def matmul_sides(op: BatchMatmul) -> tuple[MatmulSide, MatmulSide]:
    """Returns both operands as vectors: the rows of a and the columns of b."""
    rows, depth, columns = op.rows, op.depth, op.columns
    row_step, a_step = (1, rows) if op.adj_x else (depth, 1)
    column_step, b_step = (depth, 1) if op.adj_y else (1, columns)
    a = MatmulSide(op.a, rows, row_step, a_step, columns)
    return a, MatmulSide(op.b, columns, column_step, b_step, 1)


Cost = Callable[[MatmulSide, MatmulSide, int], int]
"""Estimated instructions for a held side, a moving side and the vector length."""
ScratchBytes = Callable[[MatmulSide, MatmulSide, int], int]


def held_and_moving(cost: Cost, op: BatchMatmul) -> tuple[MatmulSide, MatmulSide]:
    """Chooses the operand to hold in scratch: the one with strided elements, or the cheaper one."""
    a, b = matmul_sides(op)
    return (a, b) if cost(a, b, op.depth) <= cost(b, a, op.depth) else (b, a)


def walk_params(cost: Cost, op: BatchMatmul) -> Params:
    """Returns the sizes and steps of both operands as parameters."""
    sides = dict(zip(("held", "moving"), held_and_moving(cost, op), strict=True))
    walk: dict[str, int] = {"batch": op.a.shape[0], "depth": op.depth}
    for name, side in sides.items():
        walk |= {name: side.count, f"{name}_step": side.step, f"{name}_element_step": side.element_step}
        walk |= {f"y_{name}_step": side.y_step, f"{name}_zp": side.value.zero_point}
    return walk


def held_kernel(
    library: Library, cost: Cost, scratch: ScratchBytes, limits: Condition[BatchMatmul], **more: Any
) -> Kernel:
    """Returns the kernel of a library that holds one operand's vectors."""
    return library.kernel(
        BatchMatmul,
        "batch_matmul_s8",
        partial(walk_params, cost),
        requires=(short_circuit(INT8_ABY, limits),),
        operands=lambda op: tuple(side.value for side in held_and_moving(cost, op)),
        scratch_bytes=lambda op: scratch(*held_and_moving(cost, op), op.depth),
        **more,
    )


# --- DSP --------------------------------------------------------------------------------------------------------------

DSP_OVERREAD_BYTES = 7
"""Moving vectors are read in eights; elements behind the end meet held zeros."""


def dsp_cost(held: MatmulSide, moving: MatmulSide, depth: int) -> int:
    """Estimates the instructions if one operand is held in scratch and the other streams past it."""
    eights = -(-depth // 8)
    each_moving = 50 + (10 if moving.element_step == 1 else 24) * eights
    group = (29 if held.y_step == 1 else 33) + 23 * eights
    return held.count * (45 + 38 * eights) + moving.count * (each_moving + held.fours * group)


def dsp_scratch_bytes(held: MatmulSide, moving: MatmulSide, depth: int) -> int:
    """Returns the scratch bytes: held vectors with their initial accumulators, and one moving vector, 16 bits for
    each element, in eights."""
    eights = -(-depth // 8)
    return held.fours * (16 + 64 * eights) + 16 * eights


def sum_fits(op: BatchMatmul) -> Verdict:
    """Checks whether sums are within the DSP kernel's limits."""
    return Verdict("sum", op.largest_sum < SUM_LIMIT, f"below {SUM_LIMIT}", f"up to {op.largest_sum}")


# --- Helium -----------------------------------------------------------------------------------------------------------

FURTHEST_LANE = 7
"""Elements are gathered in eights with 16-bit offsets."""


def mve_cost(held: MatmulSide, moving: MatmulSide, depth: int) -> int:
    """Estimates the instructions if one operand is held in scratch and the other streams past it."""
    eights, vectors, copied = -(-depth // 8), -(-depth // 16), moving.element_step != 1
    pair = 37 if vectors == 1 else 39 + 16 * vectors
    each_moving = 30 + (7 * eights if copied else 3 * vectors)
    groups = moving.fours * (110 + -(-held.count // 2) * pair)
    return held.count * (40 + 7 * eights) + moving.count * each_moving + groups


def mve_scratch_bytes(held: MatmulSide, moving: MatmulSide, depth: int) -> int:
    """Returns the scratch bytes: pairs of held vectors with their biases, repeated four times, and four moving
    vectors if these are copied."""
    vector = 16 * -(-depth // 16)
    return -(-held.count // 2) * (32 + 2 * vector) + (4 * vector if moving.element_step != 1 else 0)


def steps_fit(op: BatchMatmul) -> Verdict:
    """Checks whether steps are within the Helium kernel's limits."""
    furthest = FURTHEST_LANE * max(side.element_step for side in matmul_sides(op))
    return Verdict("step", furthest < 2**16, f"{FURTHEST_LANE} of them below {2**16}", str(furthest))


# --- 16 bits, in sums of 64 -------------------------------------------------------------------------------------------


def portable_params_16(op: BatchMatmul, arithmetic: Arithmetic) -> Params:
    """Returns the parameters of the portable kernel of 16-bit tensors."""
    return {**portable_params(op), **sizes_16(op, arithmetic), "rows": op.rows, "columns": op.columns}


def sizes_16(op: BatchMatmul, arithmetic: Arithmetic) -> Params:
    """Returns the sizes and the multiplier of a product of 16-bit tensors."""
    m = op.multiplier(arithmetic)
    multiplier, right = numerics.to_15_bits(m.mantissa, m.shift)
    scaling = {"multiplier": int(multiplier), "right": int(right)}
    return {"batch": op.a.shape[0], "depth": op.depth, **scaling}


def sides_16(cost: Cost, op: BatchMatmul) -> tuple[MatmulSide, MatmulSide]:
    """Chooses the operand to hold in scratch: the one whose elements lie apart, or the cheaper one."""
    a, b = matmul_sides(op)
    orders = ((a, b), (b, a))
    return min(orders, key=lambda order: (order[1].element_step != 1, cost(order[0], order[1], op.depth)))


def walk_params_16(cost: Cost, op: BatchMatmul, arithmetic: Arithmetic) -> Params:
    """Returns the parameters of a kernel that holds one operand's vectors."""
    held, moving = sides_16(cost, op)
    walk = {"held_element_step": held.element_step}
    for name, side in (("held", held), ("moving", moving)):
        walk |= {name: side.count, f"{name}_step": side.step, f"y_{name}_step": side.y_step}
    return {**walk, **sizes_16(op, arithmetic)}


def mve_cost_16(held: MatmulSide, moving: MatmulSide, depth: int) -> int:
    """Estimates the instructions of the Helium kernel, which keeps short vectors in registers."""
    pairs, eights = -(-held.count // 2), -(-depth // 8)
    each = moving.count * (24 + 3 * eights) if eights <= 2 else -(-moving.count // 2) * (90 + 11 * eights)
    return pairs * (90 + 12 * eights + each)


def dsp_cost_16(held: MatmulSide, moving: MatmulSide, depth: int) -> int:
    """Estimates the instructions of the DSP kernel."""
    threes, fours = -(-held.count // 3), -(-depth // 4)
    return threes * (105 + 45 * fours + moving.count * (33 + 11 * fours))


def dsp_limits_16(op: BatchMatmul, arithmetic: Arithmetic) -> Iterator[Verdict]:
    """Checks whether products with the multiplier, shifted to the left up to a right shift of 33, fit 63 bits."""
    scaling = sizes_16(op, arithmetic)
    right = int(scaling["right"])
    largest = op.depth * int(scaling["multiplier"]) << max(33 - right, 0)
    yield is_within("right_shift", right, least=17)
    yield Verdict("products", largest <= 2**32, "below 2^63", f"up to 2^{30 + largest.bit_length()}")


def held_kernel_16(
    library: Library, cost: Cost, held: int, unit: int, limits: Condition[BatchMatmul]
) -> Kernel:
    """Returns the kernel of a library that holds some vectors of one operand, in pieces of some elements."""

    def moves_whole_pieces(op: BatchMatmul) -> Verdict:
        step = sides_16(cost, op)[1].element_step
        return Verdict("moving", step == 1, "elements lie together", f"{step} apart")

    return library.kernel(
        BatchMatmul,
        "batch_matmul_s16",
        partial(walk_params_16, cost),
        requires=(short_circuit(INT16_ABY, moves_whole_pieces, limits),),
        operands=lambda op: tuple(side.value for side in sides_16(cost, op)),
        scratch_bytes=lambda op: 2 * held * unit * -(-op.depth // unit),
        overread_bytes=2 * (unit - 1),
        work=lambda op: op.a.shape[0] * cost(*sides_16(cost, op), op.depth),
    )


DSP_LIMITS = all_of(sum_fits, shifted_right(1, MOST_SHIFT))
MVE_LIMITS = all_of(steps_fit, shifted_right(0, 31))
KERNELS: tuple[Kernel, ...] = (
    PORTABLE.kernel(BatchMatmul, "batch_matmul_s8", portable_params, requires=(check_all_int8,)),
    held_kernel(
        DSP, dsp_cost, dsp_scratch_bytes, DSP_LIMITS, overread_bytes=DSP_OVERREAD_BYTES, also=("clamp",)
    ),
    held_kernel(MVE, mve_cost, mve_scratch_bytes, MVE_LIMITS, overread_bytes=OVERREAD_BYTES),
    PORTABLE.kernel(BatchMatmul, "batch_matmul_s16", portable_params_16, requires=(INT16_ABY,)),
    held_kernel_16(DSP, dsp_cost_16, 3, 4, dsp_limits_16),
    held_kernel_16(MVE, mve_cost_16, 2, 8, steps_fit),
)
