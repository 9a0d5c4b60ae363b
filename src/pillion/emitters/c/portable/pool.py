# SPDX-License-Identifier: Apache-2.0
"""The portable kernels of pooling, means, softmax and lengths."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from pillion.emitters.c.axes import contiguous_steps, numbers
from pillion.emitters.c.blocks import judge_part, rows_taken
from pillion.emitters.c.conditions import int8, overwritable
from pillion.emitters.c.kernel import Call, Kernel, Params, scaling
from pillion.emitters.c.library import PORTABLE
from pillion.emitters.c.portable.walk import Rows, rows_of
from pillion.ir import numerics
from pillion.ir.numerics import Arithmetic
from pillion.ir.types import Value
from pillion.ir.verdict import Verdict
from pillion.ops.l2_normalize import L2Normalize
from pillion.ops.log_softmax import LogSoftmax
from pillion.ops.pool import AvgPool2d, AvgPool2dUp, MaxPool2d, Mean
from pillion.ops.softmax import Softmax, exp_of_negative

LONGEST_SOFTMAX = 8191
"""Elements whose exponentials, 2^19 each in Q12, sum up to less than 2^32."""
ENTRIES = 256
"""Differences of two int8 values."""


def pool(op: MaxPool2d | AvgPool2d | AvgPool2dUp, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of a max pool or an average pool."""
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
    return (Call(PORTABLE.routine(f"{kind_of_mean(op, arithmetic)}_s8"), params, (op.x,), op.y),)


def kind_of_mean(op: MaxPool2d | AvgPool2d | AvgPool2dUp, arithmetic: Arithmetic) -> str:
    """Gives the kind of pool that an op is in an arithmetic: only LiteRT's has means that are rounded up."""
    return op.kind if arithmetic.is_tflite or not isinstance(op, AvgPool2dUp) else AvgPool2d.kind


def judge_pool(
    op: MaxPool2d | AvgPool2d | AvgPool2dUp | Softmax, arithmetic: Arithmetic
) -> tuple[Verdict, ...]:
    """Judges whether a pool goes from int8 to int8."""
    return int8(x=op.x, y=op.y)


# --- mean -------------------------------------------------------------------------------------------------------------


def kept_and_reduced(op: Mean) -> tuple[Rows, Rows]:
    """Gives the axes that stay, with the last one along the rows if neighbours have means of their own, and the axes that go."""
    steps = contiguous_steps(op.x.shape)
    sides = ([a for a in range(op.x.type.rank) if (a in op.axes) == gone] for gone in (False, True))
    kept, gone = (
        rows_of(tuple(op.x.shape[a] for a in axes), [tuple(steps[a] for a in axes)]) for axes in sides
    )
    if kept.step != (1,):
        kept = Rows(1, (1,), (*kept.extent, kept.count), ((*kept.row_step[0], *kept.step),))
    return kept, gone


def mean(op: Mean, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of a mean over any axes."""
    kept, gone = kept_and_reduced(op)
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


def part_of_mean(op: Mean, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call that adds some rows to the sums, and makes means of them behind the last ones."""
    return (Call(PORTABLE.routine("mean_rows_s8"), rows_taken(op, arithmetic), (op.x,), op.y),)


def judge_part_of_mean(op: Mean, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether a mean takes some rows only, and what is asked of all means."""
    return (judge_part(op), *judge_mean(op, arithmetic))


def judge_mean(op: Mean, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges the element types of a mean, the reach of its sums and the number of its axes."""
    largest = 255 * op.count
    fits = Verdict(
        "sums", 0 < largest <= numerics.INT32_MAX, "between 1 and 2^31 - 1 at most", f"up to {largest}"
    )
    kept, gone = kept_and_reduced(op)
    return (*int8(x=op.x, y=op.y), fits, *kept.few_axes, *gone.few_axes)


# --- softmax ----------------------------------------------------------------------------------------------------------


def exponentials(op: Softmax | LogSoftmax) -> NDArray[np.int32]:
    """Gives exp of 0, -1, -2, … steps of the input, as far as they count."""
    differences = -np.arange(min(ENTRIES, 1 - op.smallest_difference))
    m = op.multiplier
    return exp_of_negative(numerics.multiply_high(differences << m.shift, m.mantissa)).astype(np.int32)


def softmax_rows(op: Softmax | LogSoftmax | L2Normalize) -> Params:
    """Gives the number of rows and their length as parameters."""
    return {"rows": math.prod(op.x.shape[:-1]), "count": op.x.shape[-1]}


def softmax(op: Softmax, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of a softmax that reads its exponentials from a table."""
    table = exponentials(op)
    params: Params = {
        **{**softmax_rows(op), "places": op.places, "factor": op.factor},
        **{"exponentials_count": len(table), "exponentials": table},
    }
    return (Call(PORTABLE.routine("softmax_s8"), params, (op.x,), op.y),)


def log_softmax(op: LogSoftmax, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of the logarithm of a softmax."""
    table = exponentials(op)
    params: Params = {
        **softmax_rows(op),
        **scaling(op.multiplier),
        **{"back_multiplier": op.back.mantissa, "back_shift": op.back.shift},
        "farthest": max(op.smallest_difference, -ENTRIES),
        **{"exponentials_count": len(table), "exponentials": table},
    }
    return (Call(PORTABLE.routine("log_softmax_s8"), params, (op.x,), op.y),)


def judge_log_softmax(op: LogSoftmax, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges the element types of the logarithm of a softmax."""
    return int8(x=op.x, y=op.y)


def l2_normalize(op: L2Normalize, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call that divides rows by their lengths."""
    params: Params = {**softmax_rows(op), "in_zp": op.x.zero_point, "headroom": op.headroom}
    return (Call(PORTABLE.routine("l2_normalize_s8"), params, (op.x,), op.y),)


def judge_l2_normalize(op: L2Normalize, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges the element types of rows that are divided by their lengths."""
    return int8(x=op.x, y=op.y)


def softmax_of_few(op: Softmax, arithmetic: Arithmetic) -> tuple[Call, ...]:
    """Gives the call of a softmax that computes its exponentials, for tensors that are shorter than the table."""
    params: Params = {
        **{**softmax_rows(op), "places": op.places, "factor": op.factor},
        **{**scaling(op.multiplier), "farthest": min(255, -op.smallest_difference)},
    }
    return (Call(PORTABLE.routine("softmax_few_s8"), params, (op.x,), op.y),)


def judge_softmax_of_few(op: Softmax, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether a softmax has fewer elements than a table of exponentials."""
    count = op.x.type.elements
    few = Verdict(
        "elements", count < ENTRIES, f"fewer than the {ENTRIES} exponentials of a table", str(count)
    )
    return (*judge_softmax(op, arithmetic), few)


def judge_softmax(op: Softmax, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges the element types of a softmax, and whether its sums fit."""
    count = op.x.shape[-1]
    return (
        *int8(x=op.x, y=op.y),
        Verdict("elements", count <= LONGEST_SOFTMAX, f"at most {LONGEST_SOFTMAX}", str(count)),
    )


def softmax_in_place(op: Softmax | L2Normalize) -> tuple[Value, ...]:
    """Gives the operand, whose memory the result may take over."""
    return overwritable(op, op.x)


KERNELS: tuple[Kernel, ...] = (
    PORTABLE.row(AvgPool2d, pool, judge_pool),
    PORTABLE.row(AvgPool2dUp, pool, judge_pool),
    PORTABLE.row(MaxPool2d, pool, judge_pool),
    PORTABLE.row(
        Mean,
        part_of_mean,
        judge_part_of_mean,
        name="mean_rows",
        scratch_bytes=lambda op: op.folded_bytes,
        is_for_parts=True,
    ),
    PORTABLE.row(Mean, mean, judge_mean),
    PORTABLE.row(
        Softmax,
        softmax_of_few,
        judge_softmax_of_few,
        name="softmax_few",
        scratch_bytes=lambda op: 4 * op.x.shape[-1],
        in_place=softmax_in_place,
    ),
    PORTABLE.row(Softmax, softmax, judge_softmax, in_place=softmax_in_place),
    PORTABLE.row(LogSoftmax, log_softmax, judge_log_softmax),
    PORTABLE.row(L2Normalize, l2_normalize, judge_l2_normalize, in_place=softmax_in_place),
)
