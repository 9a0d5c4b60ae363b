# SPDX-License-Identifier: Apache-2.0
"""The Helium kernel of norms."""

from __future__ import annotations

import math

from pillion.emitters.c.kernel import Kernel
from pillion.emitters.c.kernel_library import MVE
from pillion.emitters.c.portable import normalize as portable
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import Verdict
from pillion.ops.normalize import Standardize

MOST_POSITIONS = 2**16
"""The most positions whose squares, lane by lane, sum to 32 bits."""

FEW_CHANNELS = 48
"""With fewer channels, their constants are repeated in scratch, so that several positions fill a vector."""


def check(op: Standardize, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether a norm maps int8 to int8, and whether the squares of each channel fit 32 bits if there are
    groups."""
    positions = math.prod(op.x.shape[op.axis : -1])
    fits = op.groups == 1 or positions <= MOST_POSITIONS
    few = Verdict("positions", fits, f"one group, or at most {MOST_POSITIONS}", str(positions))
    return (*portable.check(op, arithmetic), few)


def scratch_bytes(op: Standardize) -> int:
    """Returns the scratch bytes of a norm with groups: two numbers for each channel; four, repeated, for few
    channels."""
    channels = op.x.shape[-1]
    if op.groups == 1:
        return 0
    return 16 * channels * -(-FEW_CHANNELS // channels) if channels < FEW_CHANNELS else 8 * channels


KERNELS: tuple[Kernel, ...] = (
    MVE.kernel(
        Standardize, MVE.port(portable.calls_norm_wide), portable.check_wide_group, name="standardize_wide"
    ),
    MVE.kernel(
        Standardize,
        MVE.port(portable.calls_norm),
        check,
        scratch_bytes=scratch_bytes,
        in_place=portable.in_place,
    ),
)
