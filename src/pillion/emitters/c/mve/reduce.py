# SPDX-License-Identifier: Apache-2.0
"""The Helium kernels of means, sums and extrema over adjacent axes."""

from __future__ import annotations

from pillion.emitters.c import extremes
from pillion.emitters.c.kernel import Kernel
from pillion.emitters.c.kernel_conditions import INT8_XY, short_circuit
from pillion.emitters.c.kernel_library import MVE
from pillion.emitters.c.mve.elementwise import OVERREAD_BYTES
from pillion.emitters.c.reduction_blocks import (
    MEANS,
    MeanOrSum,
    as_means,
    block_sizes,
    is_tile,
    partial_sum_params,
    shifted_right,
    sums_below,
)
from pillion.ops.reduce import SUM_BYTES

LANES = 16
"""Results that are updated together."""


def partial_sum_bytes(op: MeanOrSum) -> int:
    """Returns the scratch bytes of the partial sums, in complete vectors."""
    return SUM_BYTES * LANES * -(-op.folded_bytes // (SUM_BYTES * LANES))


BLOCK = short_circuit(sums_below(2**31), shifted_right(0, 31))
KERNELS: tuple[Kernel, ...] = (
    *(
        MVE.kernel(
            op,
            "mean_rows_s8",
            partial_sum_params,
            requires=(is_tile, as_means, INT8_XY, shifted_right(0, 31)),
            name=f"{op.kind}_rows",
            scratch_bytes=partial_sum_bytes,
            overread_bytes=OVERREAD_BYTES,
            is_tiled=True,
        )
        for op in MEANS
    ),
    *(
        MVE.kernel(op, "reduce_sum_s8", block_sizes, requires=(BLOCK,), overread_bytes=OVERREAD_BYTES)
        for op in MEANS
    ),
    *extremes.kernels(MVE, LANES, OVERREAD_BYTES),
)
