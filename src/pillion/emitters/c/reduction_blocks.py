# SPDX-License-Identifier: Apache-2.0
"""Means and sums over adjacent axes, which kernels see as blocks: one axis before, one reduced, one behind."""

from __future__ import annotations

import math
from itertools import groupby

from pillion.emitters.c.kernel import Params
from pillion.emitters.c.kernel_conditions import INT8_XY, Check, in_arithmetic, within
from pillion.ir.numerics import Arithmetic, Multiplier
from pillion.ir.types import Shape
from pillion.ir.verdict import Verdict
from pillion.ops.reduce import SUM_BYTES, Mean, ReduceSum, Reduction

MeanOrSum = Mean | ReduceSum
MEANS: tuple[type[MeanOrSum], ...] = (Mean, ReduceSum)
Block = tuple[int, int, int]
"""Elements before, along and behind the reduced axes."""


def reduced_block(shape: Shape, axes: tuple[int, ...]) -> Block | None:
    """Returns the elements before, along and behind the reduced axes; None if these are not adjacent."""
    sizes = [(axis in axes, size) for axis, size in enumerate(shape) if size != 1]
    runs = [(gone, math.prod(size for _, size in run)) for gone, run in groupby(sizes, lambda pair: pair[0])]
    gone = [i for i, (is_gone, _) in enumerate(runs) if is_gone]
    if len(gone) > 1:
        return None
    if not gone:
        return 1, 1, math.prod(shape)
    index = gone[0]
    before, along, behind = runs[:index], runs[index], runs[index + 1 :]
    return math.prod(n for _, n in before), along[1], math.prod(n for _, n in behind)


def multiplier(op: MeanOrSum, arithmetic: Arithmetic) -> Multiplier:
    """Returns the multiplier of a mean or a sum."""
    return op.multiplier(arithmetic) if isinstance(op, Mean) else op.multiplier


def adjacent(op: Reduction) -> Verdict:
    """Checks whether a reduction is over adjacent axes."""
    is_block = reduced_block(op.x.shape, op.axes) is not None
    return Verdict("axes", is_block, "neighbours", f"{op.axes} of {list(op.x.shape)}")


def sums_below(limit: int) -> Check[MeanOrSum]:
    """Returns the condition that a mean or sum reduces adjacent axes of int8, and that its sums are below a limit."""

    def check(op: MeanOrSum, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
        largest = 255 * op.count
        fits = Verdict("sum", largest < limit, f"below {limit}", f"up to {largest}")
        return (*as_means(op, arithmetic), *INT8_XY(op, arithmetic), adjacent(op), fits)

    return check


def as_means(op: MeanOrSum, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Checks whether a sum is rescaled as means are."""
    return in_arithmetic(Arithmetic.CMSIS_NN)(op, arithmetic) if isinstance(op, ReduceSum) else ()


def is_tile(op: MeanOrSum) -> Verdict:
    """Checks whether a mean or sum reduces one tile of rows."""
    return Verdict("rows", op.is_part, f"some of a {op.kind}'s", "all")


def shifted_right(least: int, most: int) -> Check[MeanOrSum]:
    """Returns the condition that a mean or sum is rescaled by a right shift within limits."""
    return lambda op, arithmetic: (within("right_shift", -multiplier(op, arithmetic).shift, least, most),)


def partial_sum_params(op: MeanOrSum) -> Params:
    """Returns the parameters with which a tile's rows are added to the partial sums."""
    assert op.part is not None
    inner = op.folded_bytes // SUM_BYTES
    return {
        **{"reduced": op.x.type.elements // inner, "inner": inner},
        **{"is_first": int(op.part.is_first), "is_last": int(op.part.is_last)},
        "offset": op.count * op.x.zero_point,
    }


def block_sizes(op: Reduction) -> dict[str, int]:
    """Returns the three sizes of the block as parameters."""
    block = reduced_block(op.x.shape, op.axes)
    assert block is not None, "asked only of what the kernels take"
    outer, reduced, inner = block
    return {"outer": outer, "reduced": reduced, "inner": inner}
