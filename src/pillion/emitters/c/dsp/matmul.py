# SPDX-License-Identifier: Apache-2.0
"""The DSP kernel of matrix products of two tensors."""

from __future__ import annotations

from pillion.emitters.c.channel_scaling import MOST_SHIFT, SUM_LIMIT
from pillion.emitters.c.kernel import Kernel
from pillion.emitters.c.kernel_conditions import INT8_ABY, short_circuit, within
from pillion.emitters.c.kernel_library import DSP
from pillion.emitters.c.matmul_walk import MatmulSide, groups_of_four, held_and_moving, operands, walk_params
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import Verdict
from pillion.ops.matmul import BatchMatmul

OVERREAD_BYTES = 7
"""Moving vectors are read in eights; elements behind the end meet held zeros."""


def cost(held: MatmulSide, moving: MatmulSide, depth: int) -> int:
    """Estimates the instructions if one operand is held in scratch and the other streams past it."""
    eights = -(-depth // 8)
    each_moving = 50 + (10 if moving.element_step == 1 else 24) * eights
    group = (29 if held.y_step == 1 else 33) + 23 * eights
    return held.count * (45 + 38 * eights) + moving.count * (each_moving + groups_of_four(held) * group)


def sum_fits(op: BatchMatmul, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether sums and right shift are within the kernel's limits."""
    fits = op.largest_sum < SUM_LIMIT
    return (
        Verdict("sum", fits, f"below {SUM_LIMIT}", f"up to {op.largest_sum}"),
        within("right_shift", -op.multiplier(arithmetic).shift, 1, MOST_SHIFT),
    )


def scratch_bytes(op: BatchMatmul) -> int:
    """Returns the scratch bytes: held vectors with their initial accumulators, and one moving vector, 16 bits for
    each element, in eights."""
    held, _ = held_and_moving(op, cost)
    eights = -(-op.depth // 8)
    return groups_of_four(held) * (16 + 64 * eights) + 16 * eights


KERNELS: tuple[Kernel, ...] = (
    DSP.kernel(
        BatchMatmul,
        "batch_matmul_s8",
        lambda op: walk_params(op, cost),
        requires=(short_circuit(INT8_ABY, sum_fits),),
        operands=lambda op: operands(op, cost),
        scratch_bytes=scratch_bytes,
        overread_bytes=OVERREAD_BYTES,
        also=("clamp",),
    ),
)
