# SPDX-License-Identifier: Apache-2.0
"""The portable kernels of pooling, means, softmax and L2 normalization."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from pillion.emitters.c.kernel import Kernel, Params
from pillion.emitters.c.kernel_conditions import INT8_XY, within
from pillion.emitters.c.kernel_library import PORTABLE
from pillion.emitters.c.reduction_blocks import is_tile, partial_sum_params
from pillion.emitters.c.strides import as_int32_array, contiguous_steps
from pillion.emitters.c.walk import WalkRows, rows_of
from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic
from pillion.ir.verdict import Verdict
from pillion.ops.l2_normalize import L2Normalize
from pillion.ops.log_softmax import LogSoftmax
from pillion.ops.pool import AvgPool2d, AvgPool2dUp, MaxPool2d, Pool
from pillion.ops.reduce import Mean
from pillion.ops.softmax import Softmax, exp_of_negative

LONGEST_SOFTMAX = 8191
"""The longest row whose exponentials, at most 2^19 each in Q12, sum to less than 2^32."""
ENTRIES = 256
"""The number of differences between two int8 values that a table covers."""


def pool_routine(op: Pool, arithmetic: Arithmetic) -> str:
    """Returns the routine of a pool: rounding half up exists in LiteRT's arithmetic only."""
    is_up = arithmetic.is_tflite or not isinstance(op, AvgPool2dUp)
    return f"{op.kind if is_up else AvgPool2d.kind}_s8"


# --- mean -------------------------------------------------------------------------------------------------------------


def mean_walks(op: Mean) -> tuple[WalkRows, WalkRows]:
    """Returns the walks over the kept axes and over the reduced ones. If the last axis is kept, it is the inner
    loop of the kept ones."""
    steps = contiguous_steps(op.x.shape)
    sides = ([a for a in range(op.x.type.rank) if (a in op.axes) == gone] for gone in (False, True))
    remaining, gone = (
        rows_of(tuple(op.x.shape[a] for a in axes), [tuple(steps[a] for a in axes)]) for axes in sides
    )
    if remaining.step != (1,):
        remaining = WalkRows(
            1, (1,), (*remaining.extent, remaining.count), ((*remaining.row_step[0], *remaining.step),)
        )
    return remaining, gone


def mean_params(op: Mean) -> Params:
    """Returns the parameters of a mean over any axes."""
    remaining, gone = mean_walks(op)
    return {
        **{**remaining.params, **remaining.axes, "row_step": as_int32_array(remaining.row_step[0])},
        **{"steps": gone.count, "step": gone.step[0], "reduced": gone.rows, "reduced_axes": len(gone.extent)},
        **{"reduced_extent": as_int32_array(gone.extent), "reduced_step": as_int32_array(gone.row_step[0])},
        "offset": op.count * op.x.zero_point,
    }


def mean_is_exact(op: Mean) -> Iterator[Verdict]:
    """Checks the range of the sums of a mean and the number of its axes."""
    largest = 255 * op.count
    requirement = "between 1 and 2^31 - 1 at most"
    yield Verdict("sums", 0 < largest <= numerics.INT32_MAX, requirement, f"up to {largest}")
    for walk in mean_walks(op):
        yield from walk.few_axes


# --- softmax ----------------------------------------------------------------------------------------------------------


def exponentials(op: Softmax | LogSoftmax) -> Params:
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
        **{**row_sizes(op), **exponentials(op)},
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


def short_rows(op: Softmax) -> Verdict:
    """Checks whether the sum of a row fits 32 bits."""
    return within("elements", op.x.shape[-1], most=LONGEST_SOFTMAX)


KERNELS: tuple[Kernel, ...] = (
    *(PORTABLE.kernel(op, pool_routine, requires=(INT8_XY,)) for op in (AvgPool2d, AvgPool2dUp, MaxPool2d)),
    PORTABLE.kernel(
        Mean,
        "mean_rows_s8",
        partial_sum_params,
        requires=(is_tile, INT8_XY, mean_is_exact),
        name="mean_rows",
        scratch_bytes=lambda op: op.folded_bytes,
        is_tiled=True,
    ),
    PORTABLE.kernel(Mean, "mean_s8", mean_params, requires=(INT8_XY, mean_is_exact)),
    PORTABLE.kernel(
        Softmax,
        "softmax_few_s8",
        softmax_few_params,
        requires=(INT8_XY, short_rows, few_elements),
        name="softmax_few",
        scratch_bytes=lambda op: 4 * op.x.shape[-1],
        in_place="x",
    ),
    PORTABLE.kernel(
        Softmax,
        "softmax_s8",
        lambda op: {**row_sizes(op), **exponentials(op)},
        requires=(INT8_XY, short_rows),
        in_place="x",
    ),
    PORTABLE.kernel(LogSoftmax, "log_softmax_s8", log_softmax_params, requires=(INT8_XY,)),
    PORTABLE.kernel(L2Normalize, "l2_normalize_s8", row_sizes, requires=(INT8_XY,), in_place="x"),
)
