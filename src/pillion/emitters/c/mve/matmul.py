# SPDX-License-Identifier: Apache-2.0
"""The Helium kernel of matrix products of two tensors."""

from __future__ import annotations

from pillion.emitters.c.kernel import Kernel
from pillion.emitters.c.kernel_conditions import INT8_ABY, short_circuit, within
from pillion.emitters.c.kernel_library import MVE
from pillion.emitters.c.matmul_walk import MatmulSide, held_and_moving, matmul_sides, operands, walk_params
from pillion.emitters.c.mve.pack import OVERREAD_BYTES
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import Verdict
from pillion.ops.matmul import BatchMatmul

FURTHEST_LANE = 7
"""Elements are gathered in eights with 16-bit offsets."""


def vector_count(depth: int) -> int:
    """Returns the number of vectors of 16 elements that hold `depth` elements."""
    return -(-depth // 16)


def cost(held: MatmulSide, moving: MatmulSide, depth: int) -> int:
    """Estimates the instructions if one operand is held in scratch and the other streams past it."""
    eights, copied = -(-depth // 8), moving.element_step != 1
    pair = 37 if vector_count(depth) == 1 else 39 + 16 * vector_count(depth)
    each_moving = 30 + (7 * eights if copied else 3 * vector_count(depth))
    return (
        held.count * (40 + 7 * eights)
        + moving.count * each_moving
        + -(-moving.count // 4) * (110 + -(-held.count // 2) * pair)
    )


def steps_fit(op: BatchMatmul, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether steps and right shift are within the kernel's limits."""
    furthest = FURTHEST_LANE * max(side.element_step for side in matmul_sides(op))
    return (
        Verdict("step", furthest < 2**16, f"{FURTHEST_LANE} of them below {2**16}", str(furthest)),
        within("right_shift", -op.multiplier(arithmetic).shift, 1, 31),
    )


def scratch_bytes(op: BatchMatmul) -> int:
    """Returns the scratch bytes: pairs of held vectors with their biases, repeated four times, and four moving
    vectors if these are copied."""
    held, moving = held_and_moving(op, cost)
    vector = 16 * vector_count(op.depth)
    return -(-held.count // 2) * (32 + 2 * vector) + (4 * vector if moving.element_step != 1 else 0)


KERNELS: tuple[Kernel, ...] = (
    MVE.kernel(
        BatchMatmul,
        "batch_matmul_s8",
        lambda op: walk_params(op, cost),
        requires=(short_circuit(INT8_ABY, steps_fit),),
        operands=lambda op: operands(op, cost),
        scratch_bytes=scratch_bytes,
        overread_bytes=OVERREAD_BYTES,
    ),
)
