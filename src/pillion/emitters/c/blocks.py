# SPDX-License-Identifier: Apache-2.0
"""Means and sums over neighbouring axes: to a kernel a tensor is a block with one axis before, along and behind what goes."""

from __future__ import annotations

import math
from itertools import groupby

from pillion.emitters.c.conditions import int8
from pillion.emitters.c.kernel import Params, scaling
from pillion.ir.numerics import Arithmetic, Multiplier
from pillion.ir.types import Shape
from pillion.ir.verdict import Verdict
from pillion.ops.pool import SUM_BYTES, Mean
from pillion.ops.reduce import ReduceSum

Summed = Mean | ReduceSum
Block = tuple[int, int, int]
"""Sizes before, along and behind the axes that go."""


def block_of(shape: Shape, axes: tuple[int, ...]) -> Block | None:
    """Gives the sizes before, along and behind neighbouring axes; None where an axis that stays lies between two that go."""
    sizes = [(axis in axes, size) for axis, size in enumerate(shape) if size != 1]
    runs = [(gone, math.prod(size for _, size in run)) for gone, run in groupby(sizes, lambda pair: pair[0])]
    gone = [i for i, (is_gone, _) in enumerate(runs) if is_gone]
    if len(gone) > 1:
        return None
    if not gone:
        return 1, 1, math.prod(shape)
    place = gone[0]
    before, along, behind = runs[:place], runs[place], runs[place + 1 :]
    return math.prod(n for _, n in before), along[1], math.prod(n for _, n in behind)


def multiplier(op: Summed, arithmetic: Arithmetic) -> Multiplier:
    """Gives the multiplier of a mean or a sum."""
    return op.multiplier(arithmetic) if isinstance(op, Mean) else op.multiplier


def judge(op: Summed, arithmetic: Arithmetic, limit: int) -> tuple[Verdict, ...]:
    """Judges whether a mean or sum goes over neighbouring axes, and whether its sums stay below a limit."""
    is_block = block_of(op.x.shape, op.axes) is not None
    largest = 255 * op.count
    verdicts = (
        *int8(x=op.x, y=op.y),
        Verdict("axes", is_block, "neighbours", f"{op.axes} of {list(op.x.shape)}"),
        Verdict("sum", largest < limit, f"below {limit}", f"up to {largest}"),
    )
    return (*judge_rounding(op, arithmetic), *verdicts)


def judge_rounding(op: Summed, arithmetic: Arithmetic) -> tuple[Verdict, ...]:
    """Judges whether a sum is scaled as means are."""
    wanted = Arithmetic.CMSIS_NN
    is_sum = isinstance(op, ReduceSum)
    return (Verdict("arithmetic", arithmetic is wanted, wanted.value, arithmetic.value),) if is_sum else ()


def judge_part(op: Summed) -> Verdict:
    """Judges whether a mean or sum takes some of its rows only."""
    return Verdict("rows", op.is_part, f"some of a {op.kind}'s", "all")


def rows_added(op: Summed) -> Params:
    """Gives the parameters by which some rows of a mean or sum are added to what those before came to."""
    assert op.part is not None
    inner = op.folded_bytes // SUM_BYTES
    return {
        **{"reduced": op.x.type.elements // inner, "inner": inner},
        **{"is_first": int(op.part.is_first), "is_last": int(op.part.is_last)},
        **{"offset": op.count * op.x.zero_point, "out_zp": op.y.zero_point},
    }


def rows_taken(op: Summed, arithmetic: Arithmetic) -> Params:
    """Gives the parameters of a part of a mean or sum: what its rows add to the sums, and what these become behind the last ones."""
    return {**rows_added(op), **scaling(multiplier(op, arithmetic))}


def judge_right(right: int, least: int, most: int) -> Verdict:
    """Judges whether a right shift is one that a kernel has."""
    return Verdict("right_shift", least <= right <= most, f"{least} to {most}", str(right))


def sizes(op: Summed) -> dict[str, int]:
    """Gives the three axes to which a tensor comes down, and its zero point, as parameters."""
    block = block_of(op.x.shape, op.axes)
    assert block is not None, "asked only of what the kernels take"
    outer, reduced, inner = block
    return {"outer": outer, "reduced": reduced, "inner": inner, "in_zp": op.x.zero_point}
