# SPDX-License-Identifier: Apache-2.0
"""The Helium kernel of norms."""

from __future__ import annotations

import math

from pillion.emitters.c.kernel import Kernel
from pillion.emitters.c.kernel_conditions import INT8_XY, equals
from pillion.emitters.c.kernel_library import MVE
from pillion.emitters.c.portable.normalize import INT16_TO_INT8, params
from pillion.ir.verdict import Verdict
from pillion.ops.normalize import Normalize

MOST_POSITIONS = 2**16
"""The most positions whose squares, lane by lane, sum to 32 bits."""

FEW_CHANNELS = 48
"""With fewer channels, their constants are repeated in scratch, so that several positions fill a vector."""


def few_positions(op: Normalize) -> Verdict:
    """Checks whether the squares of each channel fit 32 bits if there are groups."""
    positions = math.prod(op.x.shape[op.axis : -1])
    fits = op.groups == 1 or positions <= MOST_POSITIONS
    return Verdict("positions", fits, f"one group, or at most {MOST_POSITIONS}", str(positions))


def scratch_bytes(op: Normalize) -> int:
    """Returns the scratch bytes of a norm with groups: two numbers for each channel; four, repeated, for few
    channels."""
    channels = op.x.shape[-1]
    if op.groups == 1:
        return 0
    return 16 * channels * -(-FEW_CHANNELS // channels) if channels < FEW_CHANNELS else 8 * channels


KERNELS: tuple[Kernel, ...] = (
    MVE.kernel(
        Normalize,
        "normalize_s16",
        params,
        requires=(*INT16_TO_INT8, equals("groups", 1)),
        name="normalize_wide",
    ),
    MVE.kernel(
        Normalize,
        "normalize_s8",
        params,
        requires=(INT8_XY, few_positions),
        scratch_bytes=scratch_bytes,
        in_place="x",
    ),
)
