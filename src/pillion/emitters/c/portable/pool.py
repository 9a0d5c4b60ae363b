# SPDX-License-Identifier: Apache-2.0
"""The portable kernels of pooling, means, softmax and L2 normalization."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pillion.emitters.c.kernel import Call, Kernel, Params, scaling
from pillion.emitters.c.kernel_conditions import int8, same_shape
from pillion.emitters.c.kernel_library import PORTABLE
from pillion.emitters.c.portable.walk import WalkRows, rows_of
from pillion.emitters.c.reduction_blocks import check_is_tile, tile_params
from pillion.emitters.c.strides import contiguous_steps, numbers
from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import Value
from pillion.ir.verdict import Verdict
from pillion.ops.l2_normalize import L2Normalize
from pillion.ops.log_softmax import LogSoftmax
from pillion.ops.pool import AvgPool2d, AvgPool2dUp, MaxPool2d
from pillion.ops.reduce import Mean
from pillion.ops.softmax import Softmax, exp_of_negative

LONGEST_SOFTMAX = 8191
"""The longest row whose exponentials, at most 2^19 each in Q12, sum to less than 2^32."""
ENTRIES = 256
"""The number of differences between two int8 values that a table covers."""


def calls_pool(op: MaxPool2d | AvgPool2d | AvgPool2dUp, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of a max pool or an average pool."""
    batch, in_h, in_w, channels = op.x.shape
    _, out_h, out_w, _ = op.y.shape
    params: Params = {
        **{"batch": batch, "in_h": in_h, "in_w": in_w, "out_h": out_h, "out_w": out_w, "channels": channels},
        **{
            "kernel_h": op.kernel[0],
            "kernel_w": op.kernel[1],
            "stride_h": op.stride[0],
            "stride_w": op.stride[1],
        },
        **{"pad_top": op.padding[0], "pad_left": op.padding[1], "low": op.low, "high": op.high},
    }
    return (Call(PORTABLE.routine(f"{pool_kind(op, arithmetic)}_s8"), params, (op.x,), op.y),)


def pool_kind(op: MaxPool2d | AvgPool2d | AvgPool2dUp, arithmetic: Arithmetic) -> str:
    """Returns the kernel's name of a pool: rounding half up exists in LiteRT's arithmetic only."""
    return op.kind if arithmetic.is_tflite or not isinstance(op, AvgPool2dUp) else AvgPool2d.kind


def check_pool(
    op: MaxPool2d | AvgPool2d | AvgPool2dUp | Softmax, arithmetic: Arithmetic
) -> tuple[Verdict, ...]:
    """Checks whether a pool maps int8 to int8."""
    return int8(x=op.x, y=op.y)


# --- mean -------------------------------------------------------------------------------------------------------------


def mean_walks(op: Mean) -> tuple[WalkRows, WalkRows]:
    """Returns the walks over the kept axes and over the reduced ones. If the last axis is kept, it is the inner
    loop of the kept ones."""
    steps = contiguous_steps(op.x.shape)
    sides = ([a for a in range(op.x.type.rank) if (a in op.axes) == gone] for gone in (False, True))
    kept, gone = (
        rows_of(tuple(op.x.shape[a] for a in axes), [tuple(steps[a] for a in axes)]) for axes in sides
    )
    if kept.step != (1,):
        kept = WalkRows(1, (1,), (*kept.extent, kept.count), ((*kept.row_step[0], *kept.step),))
    return kept, gone


def calls_mean(op: Mean, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of a mean over any axes."""
    kept, gone = mean_walks(op)
    m = op.multiplier(arithmetic)
    params: Params = {
        **kept.params,
        **kept.axes,
        "row_step": numbers(kept.row_step[0]),
        **{"steps": gone.count, "step": gone.step[0], "reduced": gone.rows, "reduced_axes": len(gone.extent)},
        "reduced_extent": numbers(gone.extent),
        "reduced_step": numbers(gone.row_step[0]),
        **{
            "offset": op.count * op.x.zero_point,
            "multiplier": m.mantissa,
            "shift": m.shift,
            "out_zp": op.y.zero_point,
        },
    }
    return (Call(PORTABLE.routine("mean_s8"), params, (op.x,), op.y),)


def calls_mean_tile(op: Mean, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call that adds a tile to the partial sums, and rescales them after the last one."""
    return (Call(PORTABLE.routine("mean_rows_s8"), tile_params(op, arithmetic), (op.x,), op.y),)


def check_mean_tile(op: Mean, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether a mean reduces one tile, and the conditions of any mean."""
    return (check_is_tile(op), *check_mean(op, arithmetic))


def check_mean(op: Mean, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks the element types of a mean, the range of its sums and the number of its axes."""
    largest = 255 * op.count
    fits = Verdict(
        "sums", 0 < largest <= numerics.INT32_MAX, "between 1 and 2^31 - 1 at most", f"up to {largest}"
    )
    kept, gone = mean_walks(op)
    return (*int8(x=op.x, y=op.y), fits, *kept.few_axes, *gone.few_axes)


# --- softmax ----------------------------------------------------------------------------------------------------------


def exponentials(op: Softmax | LogSoftmax) -> NDArray[np.int32]:
    """Returns exp of 0, -1, -2, … steps of the input, down to the smallest difference that counts."""
    differences = -np.arange(min(ENTRIES, 1 - op.smallest_difference))
    m = op.multiplier
    return exp_of_negative(numerics.multiply_high(differences << m.shift, m.mantissa)).astype(np.int32)


def row_sizes(op: Softmax | LogSoftmax | L2Normalize) -> Params:
    """Returns the number of rows and their length as parameters."""
    return {"rows": math.prod(op.x.shape[:-1]), "count": op.x.shape[-1]}


def calls_softmax(op: Softmax, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of a softmax with a table of exponentials."""
    table = exponentials(op)
    params: Params = {
        **{**row_sizes(op), "places": op.places, "factor": op.factor},
        **{"exponentials_count": len(table), "exponentials": table},
    }
    return (Call(PORTABLE.routine("softmax_s8"), params, (op.x,), op.y),)


def calls_log_softmax(op: LogSoftmax, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of a log-softmax."""
    table = exponentials(op)
    params: Params = {
        **row_sizes(op),
        **scaling(op.multiplier),
        **{"back_multiplier": op.back.mantissa, "back_shift": op.back.shift},
        "farthest": max(op.smallest_difference, -ENTRIES),
        **{"exponentials_count": len(table), "exponentials": table},
    }
    return (Call(PORTABLE.routine("log_softmax_s8"), params, (op.x,), op.y),)


def check_log_softmax(op: LogSoftmax, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether a log-softmax maps int8 to int8."""
    return int8(x=op.x, y=op.y)


def calls_l2_normalize(op: L2Normalize, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call that divides rows by their L2 norms."""
    params: Params = {**row_sizes(op), "in_zp": op.x.zero_point, "headroom": op.headroom}
    return (Call(PORTABLE.routine("l2_normalize_s8"), params, (op.x,), op.y),)


def check_l2_normalize(op: L2Normalize, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether an L2 normalization maps int8 to int8."""
    return int8(x=op.x, y=op.y)


def calls_softmax_few(op: Softmax, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Returns the call of a softmax that computes its exponentials, for tensors shorter than the table."""
    params: Params = {
        **{**row_sizes(op), "places": op.places, "factor": op.factor},
        **{**scaling(op.multiplier), "farthest": min(255, -op.smallest_difference)},
    }
    return (Call(PORTABLE.routine("softmax_few_s8"), params, (op.x,), op.y),)


def check_softmax_few(op: Softmax, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether a softmax has fewer elements than the table of exponentials."""
    count = op.x.type.elements
    few = Verdict(
        "elements", count < ENTRIES, f"fewer than the {ENTRIES} exponentials of a table", str(count)
    )
    return (*check_softmax(op, arithmetic), few)


def check_softmax(op: Softmax, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks the element types of a softmax, and whether the sum of a row fits 32 bits."""
    count = op.x.shape[-1]
    return (
        *int8(x=op.x, y=op.y),
        Verdict("elements", count <= LONGEST_SOFTMAX, f"at most {LONGEST_SOFTMAX}", str(count)),
    )


def in_place_softmax(op: Softmax | L2Normalize) -> tuple[Value, ...]:
    """Returns the operand, whose memory the result may overwrite."""
    return same_shape(op, op.x)


KERNELS: tuple[Kernel, ...] = (
    PORTABLE.kernel(AvgPool2d, calls_pool, check_pool),
    PORTABLE.kernel(AvgPool2dUp, calls_pool, check_pool),
    PORTABLE.kernel(MaxPool2d, calls_pool, check_pool),
    PORTABLE.kernel(
        Mean,
        calls_mean_tile,
        check_mean_tile,
        name="mean_rows",
        scratch_bytes=lambda op: op.folded_bytes,
        is_tiled=True,
    ),
    PORTABLE.kernel(Mean, calls_mean, check_mean),
    PORTABLE.kernel(
        Softmax,
        calls_softmax_few,
        check_softmax_few,
        name="softmax_few",
        scratch_bytes=lambda op: 4 * op.x.shape[-1],
        in_place=in_place_softmax,
    ),
    PORTABLE.kernel(Softmax, calls_softmax, check_softmax, in_place=in_place_softmax),
    PORTABLE.kernel(LogSoftmax, calls_log_softmax, check_log_softmax),
    PORTABLE.kernel(L2Normalize, calls_l2_normalize, check_l2_normalize, in_place=in_place_softmax),
)
