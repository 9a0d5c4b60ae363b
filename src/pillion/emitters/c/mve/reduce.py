# SPDX-License-Identifier: Apache-2.0
"""The Helium kernels of means, sums and extrema over adjacent axes."""

from __future__ import annotations

from pillion.emitters.c import extremes
from pillion.emitters.c.kernel import Call, Kernel, Params
from pillion.emitters.c.kernel_conditions import int8
from pillion.emitters.c.kernel_library import MVE
from pillion.emitters.c.mve.elementwise import OVERREAD_BYTES, sign_correction
from pillion.emitters.c.reduction_blocks import (
    MeanOrSum,
    block_sizes,
    check_block,
    check_is_tile,
    check_right_shift,
    check_rounding,
    multiplier,
    tile_params,
)
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import Verdict, all_ok
from pillion.ops.reduce import SUM_BYTES, Mean, ReduceSum


def check(op: MeanOrSum, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether axes, sums and right shift are within the kernel's limits."""
    known = check_block(op, arithmetic, 2**31)
    return (*known, check_right_shift(-multiplier(op, arithmetic).shift, 0, 31)) if all_ok(known) else known


def calls(op: MeanOrSum, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of the kernel."""
    m = multiplier(op, arithmetic)
    numbers = {"multiplier": m.mantissa, "shift": m.shift, "fix": sign_correction(m.shift)}
    params: Params = {**block_sizes(op), **numbers, "out_zp": op.y.zero_point}
    return (Call(MVE.routine("reduce_sum_s8"), params, (op.x,), op.y),)


LANES = 16
"""Results that are updated together."""


def check_tile(op: MeanOrSum, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether the op reduces one tile, and whether its rescaling is within the kernel's limits."""
    right = check_right_shift(-multiplier(op, arithmetic).shift, 0, 31)
    return (check_is_tile(op), *check_rounding(op, arithmetic), *int8(x=op.x, y=op.y), right)


def calls_tile(op: MeanOrSum, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call that adds a tile to the partial sums."""
    params: Params = {**tile_params(op, arithmetic), "fix": sign_correction(multiplier(op, arithmetic).shift)}
    return (Call(MVE.routine("mean_rows_s8"), params, (op.x,), op.y),)


def partial_sum_bytes(op: MeanOrSum) -> int:
    """Returns the scratch bytes of the partial sums, in complete vectors."""
    return SUM_BYTES * LANES * -(-op.folded_bytes // (SUM_BYTES * LANES))


def tile_kernel(op: type[Mean] | type[ReduceSum]) -> Kernel:
    """Builds the kernel of a tiled mean or sum."""
    return MVE.kernel(
        op,
        calls_tile,
        check_tile,
        name=f"{op.kind}_rows",
        scratch_bytes=partial_sum_bytes,
        overread_bytes=OVERREAD_BYTES,
        is_tiled=True,
    )


KERNELS: tuple[Kernel, ...] = (
    tile_kernel(Mean),
    tile_kernel(ReduceSum),
    MVE.kernel(Mean, calls, check, overread_bytes=OVERREAD_BYTES),
    MVE.kernel(ReduceSum, calls, check, overread_bytes=OVERREAD_BYTES),
    *extremes.kernels(MVE, LANES, OVERREAD_BYTES),
)
