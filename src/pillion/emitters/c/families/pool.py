# SPDX-License-Identifier: Apache-2.0
"""The kernels of pooling, softmax and L2 normalization."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from pillion.emitters.c.kernel import CallCost, Kernel, Params
from pillion.emitters.c.kernel_conditions import INT8_XY, INT16_XY, has_dtypes, is_within
from pillion.emitters.c.kernel_library import DSP, MVE, PORTABLE
from pillion.emitters.c.mve.pack import OVERREAD_BYTES
from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import DType
from pillion.ir.verdict import Verdict
from pillion.ops.l2_normalize import L2Normalize
from pillion.ops.log_softmax import LogSoftmax
from pillion.ops.pool import AvgPool2d, AvgPool2dUp, MaxPool2d, Pool
from pillion.ops.softmax import Softmax, exp_of_negative

LONGEST_SOFTMAX = 8191
"""The longest row with exponentials, at most 2^19 each in Q12, that sum to less than 2^32."""
ENTRIES = 256
"""The number of differences between two int8 values that a table covers."""


def pool_routine(op: Pool, arithmetic: Arithmetic) -> str:
    """Returns the routine of a pool: rounding half up exists in LiteRT's arithmetic only."""
    is_up = arithmetic.is_tflite or not isinstance(op, AvgPool2dUp)
    return f"{op.kind if is_up else AvgPool2d.kind}_s8"


MOST_ROW_PIXELS = 255
"""The widest window with row sums of int8 that fit 16 bits in the DSP kernels."""
MOST_COLUMNS, MOST_PIXELS = 256, 4096
"""The largest window of the Helium kernels: row sums of int8 fit 16 bits, and the mean of that many pixels is exact in
float32."""
AVERAGES = (AvgPool2d, AvgPool2dUp)


def narrow_window(op: Pool) -> Verdict:
    """Checks whether the row sums of an average pool fit 16 bits."""
    return is_within("kernel_width", op.kernel[1], most=MOST_ROW_PIXELS)


def small_window(op: Pool) -> Verdict:
    """Checks whether an average pool's window is small enough for exact sums and means."""
    rows, columns = op.kernel
    fits = columns <= MOST_COLUMNS and rows * columns <= MOST_PIXELS
    requirement = f"at most {MOST_COLUMNS} wide and {MOST_PIXELS} pixels"
    return Verdict("window", fits, requirement, f"{rows}x{columns}")


# --- softmax ----------------------------------------------------------------------------------------------------------


def softmax_exponentials(op: Softmax | LogSoftmax) -> Params:
    """Returns exp of 0, -1, -2, … steps of the input as parameters, down to the smallest difference that counts."""
    differences = -np.arange(min(ENTRIES, 1 - op.smallest_difference))
    m = op.multiplier
    table = exp_of_negative(numerics.multiply_high(differences << m.shift, m.mantissa)).astype(np.int32)
    return {"exponentials_count": len(table), "exponentials": table}


def row_sizes(op: Softmax | LogSoftmax | L2Normalize) -> Params:
    """Returns the number of rows and their length as parameters."""
    return {"rows": math.prod(op.x.shape[:-1]), "count": op.x.shape[-1]}


def log_softmax_params(op: LogSoftmax) -> Params:
    """Returns the parameters of a log-softmax."""
    return {
        **{**row_sizes(op), **softmax_exponentials(op)},
        "farthest": max(op.smallest_difference, -ENTRIES),
    }


def softmax_few_params(op: Softmax) -> Params:
    """Returns the parameters of a softmax that computes its exponentials, for tensors shorter than the table."""
    return {**row_sizes(op), "farthest": min(255, -op.smallest_difference)}


def few_elements(op: Softmax) -> Verdict:
    """Checks whether a softmax has fewer elements than the table of exponentials."""
    elements = op.x.type.elements
    requirement = f"fewer than the {ENTRIES} exponentials of a table"
    return Verdict("elements", elements < ENTRIES, requirement, str(elements))


def row_sum_fits(op: Softmax) -> Verdict:
    """Checks whether the sum of a row fits 32 bits."""
    return is_within("elements", op.x.shape[-1], most=LONGEST_SOFTMAX)


LOADS: dict[str, Any] = {"overread_bytes": OVERREAD_BYTES}

KERNELS: tuple[Kernel, ...] = (
    *(PORTABLE.kernel(op, pool_routine, requires=(INT8_XY,)) for op in (*AVERAGES, MaxPool2d)),
    *(
        DSP.kernel(op, pool_routine, requires=requires, also=("clamp",))
        for op, requires in (*((op, (INT8_XY, narrow_window)) for op in AVERAGES), (MaxPool2d, (INT8_XY,)))
    ),
    *(MVE.kernel(op, f"{op.kind}_s16", requires=(INT16_XY,), **LOADS) for op in (AvgPool2d, MaxPool2d)),
    *(MVE.kernel(op, pool_routine, requires=(INT8_XY, small_window), **LOADS) for op in AVERAGES),
    MVE.kernel(MaxPool2d, pool_routine, requires=(INT8_XY,), call_cost=CallCost(60.0), **LOADS),
    PORTABLE.kernel(
        Softmax,
        "softmax_few_s8",
        softmax_few_params,
        requires=(INT8_XY, row_sum_fits, few_elements),
        scratch_bytes=lambda op: 4 * op.x.shape[-1],
        in_place="x",
    ),
    PORTABLE.kernel(
        Softmax,
        "softmax_s8",
        lambda op: {**row_sizes(op), **softmax_exponentials(op)},
        requires=(INT8_XY, row_sum_fits),
        in_place="x",
    ),
    PORTABLE.kernel(
        Softmax,
        "softmax_s8_s16",
        lambda op: {**row_sizes(op), **softmax_exponentials(op)},
        requires=(has_dtypes("x", DType.INT8), has_dtypes("y", DType.INT16), row_sum_fits),
    ),
    MVE.kernel(
        Softmax,
        "softmax_s8",
        row_sizes,
        requires=(INT8_XY, row_sum_fits),
        scratch_bytes=lambda op: (
            16 * -(-op.x.shape[-1] // 4)
        ),  # the exponentials of a row, in complete vectors
        in_place="x",
        **LOADS,
    ),
    PORTABLE.kernel(LogSoftmax, "log_softmax_s8", log_softmax_params, requires=(INT8_XY,)),
    PORTABLE.kernel(L2Normalize, "l2_normalize_s8", row_sizes, requires=(INT8_XY,), in_place="x"),
)
