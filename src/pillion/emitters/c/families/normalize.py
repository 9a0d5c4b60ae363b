# SPDX-License-Identifier: Apache-2.0
"""The kernels of norms."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pillion.emitters.c.kernel import Kernel, Params
from pillion.emitters.c.kernel_conditions import INT8_XY, INT16_XY, field_equals, has_dtypes
from pillion.emitters.c.kernel_library import DSP, MVE, PORTABLE, Library
from pillion.ir.types import DType
from pillion.ir.verdict import Verdict
from pillion.ops.normalize import Normalize

MOST_POSITIONS = 2**16
"""The most positions with squares that sum to 32 bits, lane by lane."""
FEW_CHANNELS = 48
"""With fewer channels, scratch memory repeats their constants, and a Helium vector holds several positions."""


def params(op: Normalize) -> Params:
    """Returns the parameters of all norm kernels."""
    factors, offsets = op.factors_and_offsets()
    return {
        "rows": math.prod(op.x.shape[: op.axis]),
        "positions": math.prod(op.x.shape[op.axis : -1]),
        **{"inner": op.x.shape[-1] // op.groups, "centred": int(op.centred)},
        "each_channel": int(len(factors) > 1),
        **{"factors": factors.astype(np.int32), "offsets": offsets.astype(np.int32)},
    }


def few_positions(op: Normalize) -> Verdict:
    """Checks whether the squares of each channel fit 32 bits if there are groups."""
    positions = math.prod(op.x.shape[op.axis : -1])
    fits = op.groups == 1 or positions <= MOST_POSITIONS
    return Verdict("positions", fits, f"one group, or at most {MOST_POSITIONS}", str(positions))


def dsp_scratch_bytes(op: Normalize) -> int:
    """Returns the scratch bytes of a norm with groups: four numbers for each channel."""
    return 16 * op.x.shape[-1] if op.groups > 1 else 0


def mve_scratch_bytes(op: Normalize) -> int:
    """Returns the scratch bytes of a norm with groups: two numbers for each channel; four, repeated, for few
    channels."""
    channels = op.x.shape[-1]
    if op.groups == 1:
        return 0
    return 16 * channels * -(-FEW_CHANNELS // channels) if channels < FEW_CHANNELS else 8 * channels


INT16_TO_INT8 = (has_dtypes("x", DType.INT16), has_dtypes("y", DType.INT8))
"""A norm maps int16 to int8."""
ONE_GROUP = field_equals("groups", 1)
INT8_NORM = ("normalize_s8", params)


def wide_norms(library: Library, *also: str) -> tuple[Kernel, ...]:
    """Returns a library's kernels of 16-bit norms. Kernels with vectors or pairs take one group."""
    one_group = () if library is PORTABLE else (ONE_GROUP,)
    to_bytes: Any = {"requires": (*INT16_TO_INT8, *one_group), "also": also, "name": "normalize_wide"}
    fine: Any = {"requires": (INT16_XY, *one_group), "in_place": "x", "name": "normalize_fine"}
    return (
        library.kernel(Normalize, "normalize_s16", params, **to_bytes),
        library.kernel(Normalize, "normalize_s16_s16", params, **fine),
    )


KERNELS: tuple[Kernel, ...] = (
    PORTABLE.kernel(Normalize, *INT8_NORM, requires=(INT8_XY,), in_place="x"),
    *wide_norms(PORTABLE),
    *wide_norms(DSP, "clamp"),
    DSP.kernel(
        Normalize,
        *INT8_NORM,
        requires=(INT8_XY,),
        scratch_bytes=dsp_scratch_bytes,
        in_place="x",
        also=("clamp",),
    ),
    *wide_norms(MVE),
    MVE.kernel(
        Normalize,
        *INT8_NORM,
        requires=(INT8_XY, few_positions),
        scratch_bytes=mve_scratch_bytes,
        in_place="x",
    ),
)
