# SPDX-License-Identifier: Apache-2.0
"""The Helium kernels of means, sums and extrema over adjacent axes."""

from __future__ import annotations

from pillion.emitters.c import extremes
from pillion.emitters.c.kernel import Kernel, Params, multiplier_params
from pillion.emitters.c.kernel_conditions import INT8_XY, short_circuit
from pillion.emitters.c.kernel_library import MVE
from pillion.emitters.c.mve.elementwise import OVERREAD_BYTES, sign_correction
from pillion.emitters.c.reduction_blocks import (
    MEANS,
    MeanOrSum,
    as_means,
    block_sizes,
    is_tile,
    multiplier,
    partial_sum_params,
    shifted_right,
    sums_below,
)
from pillion.ir.numerics import Arithmetic
from pillion.ops.reduce import SUM_BYTES

LANES = 16
"""Results that are updated together."""


def rescaling(op: MeanOrSum, arithmetic: Arithmetic) -> Params:
    """Returns the scale of a mean or sum as parameters."""
    m = multiplier(op, arithmetic)
    return {**multiplier_params(m), "fix": sign_correction(m.shift)}


def params(op: MeanOrSum, arithmetic: Arithmetic) -> Params:
    """Returns the parameters of the kernel."""
    return {**block_sizes(op), **rescaling(op, arithmetic)}


def tile_with_fix(op: MeanOrSum, arithmetic: Arithmetic) -> Params:
    """Returns the parameters with which a tile is added to the partial sums."""
    return {**partial_sum_params(op), **rescaling(op, arithmetic)}


def partial_sum_bytes(op: MeanOrSum) -> int:
    """Returns the scratch bytes of the partial sums, in complete vectors."""
    return SUM_BYTES * LANES * -(-op.folded_bytes // (SUM_BYTES * LANES))


BLOCK = short_circuit(sums_below(2**31), shifted_right(0, 31))
KERNELS: tuple[Kernel, ...] = (
    *(
        MVE.kernel(
            op,
            "mean_rows_s8",
            tile_with_fix,
            requires=(is_tile, as_means, INT8_XY, shifted_right(0, 31)),
            name=f"{op.kind}_rows",
            scratch_bytes=partial_sum_bytes,
            overread_bytes=OVERREAD_BYTES,
            is_tiled=True,
        )
        for op in MEANS
    ),
    *(
        MVE.kernel(op, "reduce_sum_s8", params, requires=(BLOCK,), overread_bytes=OVERREAD_BYTES)
        for op in MEANS
    ),
    *extremes.kernels(MVE, LANES, OVERREAD_BYTES),
)
