# SPDX-License-Identifier: Apache-2.0
"""The DSP kernels of means, sums and extrema over adjacent axes."""

from __future__ import annotations

from pillion.emitters.c import extremes
from pillion.emitters.c.channel_scaling import MOST_SHIFT, SUM_LIMIT
from pillion.emitters.c.kernel import Kernel
from pillion.emitters.c.kernel_conditions import all_of, short_circuit
from pillion.emitters.c.kernel_library import DSP
from pillion.emitters.c.reduction_blocks import (
    MEANS,
    MeanOrSum,
    block_sizes,
    shifted_right,
    sums_below,
)
from pillion.ir.verdict import Verdict


def single_or_four(op: MeanOrSum) -> Verdict:
    """Checks whether results are computed one by one, or at least four neighbours together."""
    inner = block_sizes(op)["inner"]
    return Verdict("inner", inner not in (2, 3), "results one by one, or 4 neighbours and more", str(inner))


BLOCK = short_circuit(sums_below(SUM_LIMIT), all_of(single_or_four, shifted_right(1, MOST_SHIFT)))
KERNELS: tuple[Kernel, ...] = (
    *(DSP.kernel(op, "reduce_sum_s8", block_sizes, requires=(BLOCK,)) for op in MEANS),
    *extremes.kernels(DSP),
)
